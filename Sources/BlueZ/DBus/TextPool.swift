#if canImport(Glibc)
    import Glibc
#endif

/// Texts that come again and again — paths, interfaces, members, property names — kept as one
/// `String` each, so that a notification allocates none of them anew.
///
/// A direct-mapped table: a text that meets another in its slot replaces it. So it is bounded, never
/// needs clearing, and a stranger's adverts can cost time but not memory.
struct TextPool {
    /// Slots, a power of two: some ten texts a strap, for the two dozen straps a radio can carry.
    static let slotCount = 512
    /// Longer texts are not pooled: paths of characteristics have about 60 bytes.
    static let lengthMax = 128

    private var slots = [String](repeating: "", count: slotCount)

    /// The text at `pointer`.
    mutating func text(_ pointer: UnsafePointer<CChar>) -> String {
        let length = strlen(pointer)
        // Up to 15 bytes lie inside the String itself: nothing to save.
        guard length > 15, length <= Self.lengthMax else { return String(cString: pointer) }
        let bytes = UnsafeRawBufferPointer(start: pointer, count: length)
        let slot = Self.slot(of: bytes)
        if Self.isEqual(slots[slot], bytes) { return slots[slot] }
        let text = String(cString: pointer)
        slots[slot] = text
        return text
    }

    private static func slot(of bytes: UnsafeRawBufferPointer) -> Int {
        // FNV-1a, 32 bit.
        var hash: UInt32 = 2_166_136_261
        for byte in bytes { hash = (hash ^ UInt32(byte)) &* 16_777_619 }
        return Int((hash ^ (hash >> 16)) & UInt32(slotCount - 1))
    }

    private static func isEqual(_ text: String, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard text.utf8.count == bytes.count else { return false }
        let same = text.utf8.withContiguousStorageIfAvailable { stored in
            guard let left = stored.baseAddress, let right = bytes.baseAddress else { return false }
            return memcmp(left, right, bytes.count) == 0
        }
        return same ?? false
    }
}
