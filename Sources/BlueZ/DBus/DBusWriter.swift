import CBlueZ

/// Turns a `DBusMessage` into libdbus's.
///
/// libdbus ends the process when it is given a value that does not fit the signature it was told, so
/// everything is checked here before libdbus sees it.
enum DBusWriter {
    /// The deepest nesting written; D-Bus itself allows 32 arrays and 32 structures.
    static let nestingMax = 16

    /// The message in libdbus's form, owned by the caller; `nil` if D-Bus does not allow it.
    static func encode(_ message: DBusMessage) -> OpaquePointer? {
        guard message.body.allSatisfy({ isWritable($0, depth: 0) }),
            let raw = makeHeader(message)
        else { return nil }
        var iter = cbz_iter()
        cbz_write_begin(raw, &iter)
        for value in message.body where !write(value, &iter) {
            cbz_message_free(raw)
            return nil
        }
        return raw
    }

    private static func makeHeader(_ message: DBusMessage) -> OpaquePointer? {
        let texts = [
            message.path, message.interface, message.member, message.destination,
            message.errorName,
        ]
        guard texts.allSatisfy({ $0.map(hasNoNUL) ?? true }) else { return nil }
        return withCString(message.path) { path in
            withCString(message.interface) { interface in
                withCString(message.member) { member in
                    withCString(message.destination) { destination in
                        withCString(message.errorName) { errorName in
                            var header = cbz_header()
                            header.kind = Int32(code(of: message.kind))
                            header.no_reply = message.isReplyUnwanted
                            header.reply_serial = message.replySerial ?? 0
                            header.path = path
                            header.interface = interface
                            header.member = member
                            header.destination = destination
                            header.error_name = errorName
                            return cbz_message_new(&header)
                        }
                    }
                }
            }
        }
    }

    private static func code(of kind: DBusMessage.Kind) -> Int {
        switch kind {
        case .call: Int(CBZ_CALL)
        case .reply: Int(CBZ_REPLY)
        case .error: Int(CBZ_ERROR)
        case .signal: Int(CBZ_SIGNAL)
        // No message of the bus: its header is refused.
        case .caughtUp: 0
        }
    }

    private static func withCString<R>(
        _ text: String?, _ body: (UnsafePointer<CChar>?) -> R
    ) -> R {
        guard let text else { return body(nil) }
        return text.withCString(body)
    }

    /// A NUL would end the text early in C: such text is refused, not cut.
    private static func hasNoNUL(_ text: String) -> Bool { !text.utf8.contains(0) }

    private static func isSignature(_ text: String, single: Bool) -> Bool {
        hasNoNUL(text) && cbz_is_signature(text, single)
    }

    private static func isWritable(_ value: DBusValue, depth: Int) -> Bool {
        guard depth < nestingMax else { return false }
        switch value {
        case .string(let text), .objectPath(let text): return hasNoNUL(text)
        case .signature(let text): return isSignature(text, single: false)
        case .array(let element, let values):
            return isSignature(element, single: true)
                && values.allSatisfy { $0.signature == element && isWritable($0, depth: depth + 1) }
        case .dictionary(let key, let value, let entries):
            return isSignature("a{" + key + value + "}", single: true)
                && isSignature(key, single: true)
                && entries.allSatisfy {
                    $0.key.signature == key && $0.value.signature == value
                        && isWritable($0.key, depth: depth + 1)
                        && isWritable($0.value, depth: depth + 1)
                }
        case .structure(let members):
            return !members.isEmpty && members.allSatisfy { isWritable($0, depth: depth + 1) }
        case .variant(let inner): return isWritable(inner, depth: depth + 1)
        case .unixFD: return false
        default: return true
        }
    }

    private static func write(_ value: DBusValue, _ iter: inout cbz_iter) -> Bool {
        switch value {
        case .byte(let bits): fixed("y", UInt64(bits), &iter)
        case .boolean(let flag): fixed("b", flag ? 1 : 0, &iter)
        case .int16(let bits): fixed("n", UInt64(UInt16(bitPattern: bits)), &iter)
        case .uint16(let bits): fixed("q", UInt64(bits), &iter)
        case .int32(let bits): fixed("i", UInt64(UInt32(bitPattern: bits)), &iter)
        case .uint32(let bits): fixed("u", UInt64(bits), &iter)
        case .int64(let bits): fixed("x", UInt64(bitPattern: bits), &iter)
        case .uint64(let bits): fixed("t", bits, &iter)
        case .double(let number): fixed("d", number.bitPattern, &iter)
        case .string(let text): cbz_write_string(&iter, type("s"), text)
        case .objectPath(let text): cbz_write_string(&iter, type("o"), text)
        case .signature(let text): cbz_write_string(&iter, type("g"), text)
        case .bytes(let bytes):
            container("a", "y", &iter) { inside in
                bytes.withUnsafeBufferPointer {
                    // libdbus wants an address even for no bytes at all.
                    $0.isEmpty || cbz_write_bytes(&inside, $0.baseAddress, $0.count)
                }
            }
        case .array(let element, let values):
            container("a", element, &iter) { inside in
                values.allSatisfy { write($0, &inside) }
            }
        case .dictionary(let key, let value, let entries):
            container("a", "{" + key + value + "}", &iter) { inside in
                entries.allSatisfy { entry in
                    container("e", nil, &inside) {
                        write(entry.key, &$0) && write(entry.value, &$0)
                    }
                }
            }
        case .structure(let members):
            container("r", nil, &iter) { inside in members.allSatisfy { write($0, &inside) } }
        case .variant(let inner):
            container("v", inner.signature, &iter) { write(inner, &$0) }
        case .unixFD: false
        }
    }

    private static func type(_ code: Unicode.Scalar) -> Int32 { Int32(code.value) }

    private static func fixed(
        _ code: Unicode.Scalar, _ bits: UInt64, _ iter: inout cbz_iter
    ) -> Bool {
        cbz_write_fixed(&iter, type(code), bits)
    }

    /// A container left open makes the whole message unusable, which is what its caller then does.
    private static func container(
        _ code: Unicode.Scalar, _ signature: String?, _ iter: inout cbz_iter,
        _ content: (inout cbz_iter) -> Bool
    ) -> Bool {
        var inside = cbz_iter()
        guard cbz_write_open(&iter, type(code), signature, &inside) else { return false }
        let isWhole = content(&inside)
        return cbz_write_close(&iter, &inside) && isWhole
    }
}
