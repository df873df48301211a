/// A date of the proleptic Gregorian calendar.
///
/// Howard Hinnant's `days_from_civil` and `civil_from_days`: years that begin in March, so that the leap day
/// comes last, in eras of 400 years.
public struct CivilDate: Sendable, Hashable {
    /// The year, its month (1…12) and its day (1…31).
    public let year, month, day: Int64

    /// Days from 0000-03-01 to 1970-01-01, and of an era.
    private static let daysToEpoch: Int64 = 719_468
    private static let daysOfEra: Int64 = 146_097

    /// A date as it is written; it need not exist.
    public init(year: Int64, month: Int64, day: Int64) {
        self.year = year
        self.month = month
        self.day = day
    }

    /// The date so many days after 1970-01-01; `days` is not negative.
    public init(daysSince1970 days: Int64) {
        let shifted = days + Self.daysToEpoch
        let ofEra = shifted % Self.daysOfEra
        let yearOfEra = (ofEra - ofEra / 1_460 + ofEra / 36_524 - ofEra / 146_096) / 365
        let ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let fromMarch = (5 * ofYear + 2) / 153
        day = ofYear - (153 * fromMarch + 2) / 5 + 1
        month = fromMarch < 10 ? fromMarch + 3 : fromMarch - 9
        year = yearOfEra + shifted / Self.daysOfEra * 400 + (month <= 2 ? 1 : 0)
    }

    /// Days since 1970-01-01. A date that does not exist is that many days after the first of its month:
    /// 31 February is 3 March, or 2 March in a leap year.
    public var daysSince1970: Int64 {
        let marchYear = month <= 2 ? year - 1 : year
        let era = (marchYear >= 0 ? marchYear : marchYear - 399) / 400
        let ofEra = marchYear - era * 400
        let ofYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * Self.daysOfEra + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear
            - Self.daysToEpoch
    }
}
