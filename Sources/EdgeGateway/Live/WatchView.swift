import Foundation

/// The output of `watch`: a value that takes reports and gives lines.
struct WatchView {
    /// Rates that the sparkline of a strap remembers: at one a second, half a minute.
    static let ratesMax = 30
    private static let bars: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
    /// Rates that fill a sparkline from bottom to top at least: a resting heart's small changes shall
    /// not look like a mountain range.
    private static let spanMin = 20

    private var rates: [Int64: [Int?]] = [:]
    private var ages: [Int64: Double] = [:]

    /// Takes the newest report; rates are remembered when a new frame has come.
    mutating func take(_ report: LiveReport) {
        for strap in report.straps {
            let before = ages[strap.sensor]
            ages[strap.sensor] = strap.secondsSinceFrame
            if let age = strap.secondsSinceFrame, let before, age >= before, strap.bpm != nil {
                continue
            }
            rates[strap.sensor, default: []].append(strap.bpm)
            let extra = (rates[strap.sensor]?.count ?? 0) - Self.ratesMax
            if extra > 0 { rates[strap.sensor]?.removeFirst(extra) }
        }
    }

    /// Two lines a strap, 80 columns at most.
    func lines(_ report: LiveReport, _ next: NextStep? = nil) -> [String] {
        guard !report.straps.isEmpty || next != nil else { return ["no strap is paired"] }
        return (next.map { ["> \($0.message)", "    next: \($0.advice)"] } ?? [])
            + report.straps.flatMap { strap in
                [Self.headline(strap), "  " + sparkline(of: strap.sensor)].map {
                    String($0.prefix(80))
                }
            }
    }

    static func headline(_ strap: LiveStrap) -> String {
        let rate = strap.bpm.map { "\($0) bpm" } ?? "– bpm"
        var words = [
            String(Printable.line(strap.name).prefix(20))
                .padding(toLength: 20, withPad: " ", startingAt: 0),
            rate.padding(toLength: 8, withPad: " ", startingAt: 0),
        ]
        if strap.bpm == nil {
            words.append(
                strap.secondsSinceFrame.map { "silent for " + Terminal.age($0) } ?? "no frame yet")
        }
        if strap.contact == false { words.append("NO CONTACT") }
        if let intervals = strap.rrMs, !intervals.isEmpty {
            words.append("RR " + intervals.suffix(3).map(String.init).joined(separator: " "))
        }
        if let percent = strap.batteryPercent { words.append("bat \(percent) %") }
        if let rssi = strap.rssi { words.append("\(rssi) dBm") }
        words.append(
            strap.link == "streaming"
                ? "up " + Terminal.age(strap.linkSeconds ?? 0) : strap.link ?? "absent")
        return words.joined(separator: " ")
    }

    /// A bar a frame, lowest to highest rate; a blank where there was none.
    func sparkline(of sensor: Int64) -> String {
        let rates = rates[sensor] ?? []
        let known = rates.compactMap(\.self)
        guard let low = known.min(), let high = known.max() else { return "" }
        let span = max(high - low, Self.spanMin)
        return String(
            rates.map { rate in
                rate.map { Self.bars[($0 - low) * (Self.bars.count - 1) / span] } ?? " "
            })
    }
}
