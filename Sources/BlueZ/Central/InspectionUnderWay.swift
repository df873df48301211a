/// An inspection under way. Confined to its `Central`.
struct InspectionUnderWay {
    /// The time that it has.
    var time: InspectionTime
    /// The link of its sensor. The link's address changes where a bond reveals another one, and another link may take its
    /// place.
    var link: WatchedLink
}

extension Central {
    /// The link of an inspection; nil if it was given up meanwhile.
    func link(of inspection: Int) -> WatchedLink? {
        guard let link = underWay[inspection]?.link, links[link.address] === link else {
            return nil
        }
        return link
    }

    /// The inspections of a link go on with the one that takes its place.
    func handInspections(of old: WatchedLink, to new: WatchedLink) {
        new.inspection = max(new.inspection, old.inspection)
        for number in underWay.keys where underWay[number]?.link === old {
            underWay[number]?.link = new
        }
    }
}
