import Basics
import CBlueZ

/// Turns libdbus's messages into `DBusMessage`.
///
/// libdbus has checked that a message is well formed; its size is the sender's choice, so depth and
/// number of values are bounded here. Lives on the bus thread.
struct DBusReader {
    /// The deepest nesting read. BlueZ uses four (`a{oa{sa{sv}}}`).
    static let nestingMax = 16
    /// The most values in one message. In the answer to `GetManagedObjects` a remembered strap has 64, and about 470
    /// more if it was connected since bluetoothd began, for its services: 2,000 straps have 1,070,000 at most. With them
    /// the message comes near to its own bound of 16 MiB, and takes 60 MB of memory while it is read.
    static let valuesMax = 1_200_000
    /// The most bytes of one `ay`. An ATT value has at most 512.
    static let bytesMax = 1 << 20

    private var texts = TextPool()
    private var valuesLeft = 0
    private var isOverBound = false

    /// The outcome of a message.
    enum Outcome {
        case message(DBusMessage)
        /// It is over a bound; its header is kept, so that a caller can be told.
        case tooLarge(DBusMessage)
        /// A kind that this library does not know, which the specification says to ignore.
        case ignored
    }

    /// Reads a message; `raw` stays the caller's.
    mutating func read(_ raw: OpaquePointer, at now: Uptime) -> Outcome {
        let header = cbz_message_header(raw)
        guard let kind = Self.kind(of: header.kind) else { return .ignored }
        var message = DBusMessage(
            kind: kind, path: text(header.path), interface: text(header.interface),
            member: text(header.member), destination: text(header.destination),
            replySerial: header.reply_serial == 0 ? nil : header.reply_serial,
            errorName: text(header.error_name))
        message.sender = text(header.sender)
        message.serial = header.serial
        message.isReplyUnwanted = header.no_reply
        message.arrivedAt = now

        valuesLeft = Self.valuesMax
        isOverBound = false
        // Only the answer to a call of ours: a stranger's messages could wait with as many as there are.
        var iter = cbz_iter()
        if cbz_read_begin(raw, &iter) {
            message.body = readAll(&iter, depth: 0)
        }
        guard isOverBound else { return .message(message) }
        message.body = []
        return .tooLarge(message)
    }

    private static func kind(of code: Int32) -> DBusMessage.Kind? {
        switch Int(code) {
        case Int(CBZ_CALL): .call
        case Int(CBZ_REPLY): .reply
        case Int(CBZ_ERROR): .error
        case Int(CBZ_SIGNAL): .signal
        default: nil
        }
    }

    private mutating func text(_ pointer: UnsafePointer<CChar>?) -> String? {
        guard let pointer else { return nil }
        return texts.text(pointer)
    }

    private mutating func readAll(_ iter: inout cbz_iter, depth: Int) -> [DBusValue] {
        var values: [DBusValue] = []
        while cbz_read_type(&iter) != 0, !isOverBound {
            values.append(readValue(&iter, depth: depth))
            _ = cbz_read_next(&iter)
        }
        return values
    }

    private mutating func readValue(_ iter: inout cbz_iter, depth: Int) -> DBusValue {
        valuesLeft -= 1
        guard valuesLeft > 0, depth < Self.nestingMax else {
            isOverBound = true
            return .byte(0)
        }
        let bits = cbz_read_fixed(&iter)
        switch scalar(cbz_read_type(&iter)) {
        case "y": return .byte(UInt8(truncatingIfNeeded: bits))
        case "b": return .boolean(bits != 0)
        case "n": return .int16(Int16(truncatingIfNeeded: bits))
        case "q": return .uint16(UInt16(truncatingIfNeeded: bits))
        case "i": return .int32(Int32(truncatingIfNeeded: bits))
        case "u": return .uint32(UInt32(truncatingIfNeeded: bits))
        case "x": return .int64(Int64(truncatingIfNeeded: bits))
        case "t": return .uint64(bits)
        case "d": return .double(Double(bitPattern: bits))
        case "s": return .string(readText(&iter))
        case "o": return .objectPath(readText(&iter))
        case "g": return .signature(readText(&iter))
        case "h": return .unixFD
        case "a": return readArray(&iter, depth: depth)
        case "v":
            var inside = cbz_iter()
            cbz_read_enter(&iter, &inside)
            return .variant(readValue(&inside, depth: depth + 1))
        default:
            var inside = cbz_iter()
            cbz_read_enter(&iter, &inside)
            return .structure(readAll(&inside, depth: depth + 1))
        }
    }

    private mutating func readText(_ iter: inout cbz_iter) -> String {
        guard let pointer = cbz_read_string(&iter) else { return "" }
        return texts.text(pointer)
    }

    private mutating func readArray(_ iter: inout cbz_iter, depth: Int) -> DBusValue {
        let element = scalar(cbz_read_element_type(&iter))
        var inside = cbz_iter()
        cbz_read_enter(&iter, &inside)
        switch element {
        case "y":
            var pointer: UnsafePointer<UInt8>?
            let count = cbz_read_bytes(&inside, &pointer)
            guard count <= Self.bytesMax else {
                isOverBound = true
                return .bytes([])
            }
            return .bytes(Array(UnsafeBufferPointer(start: pointer, count: count)))
        case "e":
            return readDictionary(&iter, &inside, depth: depth)
        case "a", "r":
            let signature = readSignature(&iter)
            return .array(
                element: String(signature.dropFirst()), readAll(&inside, depth: depth + 1))
        default:
            return .array(element: String(element), readAll(&inside, depth: depth + 1))
        }
    }

    private mutating func readDictionary(
        _ iter: inout cbz_iter, _ inside: inout cbz_iter, depth: Int
    ) -> DBusValue {
        var entries: [DBusValue.DictEntry] = []
        while cbz_read_type(&inside) != 0, !isOverBound {
            var entry = cbz_iter()
            cbz_read_enter(&inside, &entry)
            let key = readValue(&entry, depth: depth + 1)
            _ = cbz_read_next(&entry)
            entries.append(.init(key: key, value: readValue(&entry, depth: depth + 1)))
            _ = cbz_read_next(&inside)
        }
        // Almost every dictionary of D-Bus is a{sv}: no need to ask libdbus for its signature.
        if let first = entries.first, case .string = first.key, case .variant = first.value {
            return .dictionary(key: "s", value: "v", entries)
        }
        let signature = readSignature(&iter)
        return .dictionary(
            key: String(signature.dropFirst(2).prefix(1)),
            value: String(signature.dropFirst(3).dropLast()), entries)
    }

    private func readSignature(_ iter: inout cbz_iter) -> String {
        // 255 is the longest signature that D-Bus allows.
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let start = buffer.baseAddress else { return "" }
            _ = cbz_read_signature(&iter, start, buffer.count)
            return String(cString: start)
        }
    }

    private func scalar(_ code: Int32) -> Unicode.Scalar {
        Unicode.Scalar(UInt8(truncatingIfNeeded: code))
    }
}
