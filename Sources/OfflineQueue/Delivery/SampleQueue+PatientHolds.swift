/// Holds of single patients in a delivery that serves many.
extension SampleQueue {
    /// Says which patients' samples a delivery keeps back, and why; the others' go on. Nil stands for
    /// samples that name no patient. In place of what was said before.
    ///
    /// It is the books' word for these samples, as ``setHold(enrollment:reason:)`` is for a whole delivery,
    /// which goes before it. It is kept in memory only: after a start the first refusal says it
    /// again.
    public func setHolds(enrollment id: Int64, patients: [String?: String]) {
        deliveries.hold(patients, of: id)
    }
}
