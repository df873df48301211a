import CCurl

/// The body of a request that is given once: libcurl cannot send it again by itself, as it does when a connection that
/// it kept turns out dead.
///
/// libcurl asks for a piece when the one before is with the kernel. Of a request that must not be sent too late the last
/// byte is a piece of its own, and is given only if it is still time: without it the request is cut short, and no server
/// acts on it.
final class CurlOutflow {
    private let body: UnsafeRawBufferPointer
    private let isInTime: (@Sendable () -> Bool)?
    private var given = 0
    /// Whether the last piece was kept back.
    private(set) var isTooLate = false
    /// Whether the server may have some of the body.
    var hasBegun: Bool { given > 0 }

    /// - Parameter body: stays where it is while the request runs.
    init(_ body: UnsafeRawBufferPointer, isInTime: (@Sendable () -> Bool)?) {
        self.body = body
        self.isInTime = isInTime
    }

    /// Writes the next piece into `place`.
    ///
    /// - Returns: its length, 0 at the end; nil if the request is to be broken off.
    func give(_ place: UnsafeMutableRawBufferPointer) -> Int? {
        let rest = body.count - given
        // It knows the length and asks for no more, unless it has begun anew: a kept connection was dead.
        if rest == 0, hasBegun, isInTime == nil { return nil }
        let count = min(place.count, isInTime != nil && rest > 1 ? rest - 1 : rest)
        if rest == 1, isInTime?() == false {
            isTooLate = true
            return nil
        }
        place.copyMemory(from: UnsafeRawBufferPointer(rebasing: body[given..<given + count]))
        given += count
        return count
    }
}

func giveBody(
    place: UnsafeMutablePointer<CChar>?, size: Int, count: Int, context: UnsafeMutableRawPointer?
) -> Int {
    guard let context else { return Int(CURL_READFUNC_ABORT) }
    let outflow = Unmanaged<CurlOutflow>.fromOpaque(context).takeUnretainedValue()
    let buffer = UnsafeMutableRawBufferPointer(start: place, count: size * count)
    return outflow.give(buffer) ?? Int(CURL_READFUNC_ABORT)
}
