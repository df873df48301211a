import CCurl

/// The part of one answer that has come in so far. The C callbacks below reach it through their context.
final class CurlInflow {
    let cancelled: CurlCancellation
    let bytesMax: Int
    private(set) var body: [UInt8] = []
    /// Header fields by their names in lower case.
    private(set) var fields: [String: String] = [:]
    private(set) var overflowed = false
    /// Whether the empty line after the header fields came. libcurl takes an answer that ends before
    /// it for a whole one.
    private(set) var isHeaderComplete = false

    /// Longest header value kept, in bytes: a date or media type is far shorter.
    static let headerValueBytesMax = 256
    /// Fields with a longer name are not kept, in bytes.
    static let headerNameBytesMax = 64

    init(cancelled: CurlCancellation, bytesMax: Int) {
        self.cancelled = cancelled
        self.bytesMax = bytesMax
    }

    func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard body.count + bytes.count <= bytesMax else {
            overflowed = true
            return false
        }
        body.append(contentsOf: bytes)
        return true
    }

    func takeHeaderLine(_ bytes: UnsafeRawBufferPointer) {
        if bytes.starts(with: "HTTP/".utf8) {
            // A new status line: what came before belonged to an interim (1xx) answer.
            fields = [:]
            isHeaderComplete = false
            return
        }
        if bytes.allSatisfy({ $0 == 0x0D || $0 == 0x0A }) { isHeaderComplete = true }
        guard let colon = bytes.firstIndex(of: 0x3A), colon <= Self.headerNameBytesMax,
            fields.count < HTTPAnswer.fieldsMax
        else { return }
        let lowered = bytes[..<colon].map { 0x41...0x5A ~= $0 ? $0 | 0x20 : $0 }
        fields[String(decoding: lowered, as: UTF8.self)] = Self.trimmed(
            bytes[(colon + 1)...].prefix(Self.headerValueBytesMax))
    }

    private static func trimmed(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        let isBlank: (UInt8) -> Bool = { $0 <= 0x20 }
        let kept = bytes.drop(while: isBlank).reversed().drop(while: isBlank).reversed()
        return String(decoding: Array(kept), as: UTF8.self)
    }
}

// The callbacks are plain functions, isolated to nothing: libcurl calls them on its own thread.

func takeBody(
    bytes: UnsafeMutablePointer<CChar>?, size: Int, count: Int, context: UnsafeMutableRawPointer?
) -> Int {
    guard let context else { return 0 }
    let total = size * count
    let inflow = Unmanaged<CurlInflow>.fromOpaque(context).takeUnretainedValue()
    // A short count tells libcurl to break off.
    return inflow.take(UnsafeRawBufferPointer(start: bytes, count: total)) ? total : -1
}

func takeHeader(
    bytes: UnsafeMutablePointer<CChar>?, size: Int, count: Int, context: UnsafeMutableRawPointer?
) -> Int {
    guard let context else { return 0 }
    let total = size * count
    let inflow = Unmanaged<CurlInflow>.fromOpaque(context).takeUnretainedValue()
    inflow.takeHeaderLine(UnsafeRawBufferPointer(start: bytes, count: total))
    return total
}

func checkProgress(
    context: UnsafeMutableRawPointer?, downTotal: curl_off_t, down: curl_off_t,
    upTotal: curl_off_t, up: curl_off_t
) -> Int32 {
    guard let context else { return 1 }
    let inflow = Unmanaged<CurlInflow>.fromOpaque(context).takeUnretainedValue()
    return inflow.cancelled.isSet ? 1 : 0
}
