import CGlibc

/// The allocator of a program that runs for months in little memory.
public enum Heap {
    /// One arena instead of eight a core: several threads have a few allocations a millisecond between them, and
    /// each arena keeps what it once had at the most.
    private static let arenasMax: Int32 = 1
    /// Bytes of a block from which it gets pages of its own, which the kernel has back with it. In the heap a request
    /// would leave a hole below whatever was allocated meanwhile and stays. A fixed size also keeps glibc from
    /// raising it, up to 32 MiB, with each larger block.
    private static let ownPagesFrom: Int32 = 64 << 10
    /// Free bytes at the heap's end from which the kernel has them back: glibc's own value, which it raises
    /// together with the one above.
    private static let spareMax: Int32 = 128 << 10

    /// Call it before the first thread is made: arenas that there are stay.
    public static func keepSmall() {
        mallopt(M_ARENA_MAX, arenasMax)
        mallopt(M_MMAP_THRESHOLD, ownPagesFrom)
        mallopt(M_TRIM_THRESHOLD, spareMax)
    }

    /// Gives the kernel the free pages between blocks in use, too; it takes about 0.1 ms.
    public static func trim() { malloc_trim(0) }
}
