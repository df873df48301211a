import CGlibc

/// The allocator of a program that runs for months in little memory.
public enum Heap {
    /// One arena instead of up to eight for each core: the threads seldom allocate at the same moment, and what is
    /// free in one arena serves no other.
    private static let arenasMax: Int32 = 1
    /// Blocks of this many bytes or more get pages of their own, which go back to the kernel when the block is freed.
    /// In the heap a freed batch leaves a hole below whatever was allocated after it. Once it is set, glibc no longer
    /// raises it, up to 32 MiB, with each larger block that is freed.
    private static let ownPagesFrom: Int32 = 64 << 10
    /// The end of the heap goes back to the kernel when more bytes than this are free there. It is glibc's initial
    /// value, which glibc would raise together with the one above.
    private static let spareMax: Int32 = 128 << 10

    /// Call it before the first thread is made: arenas that exist already stay.
    public static func keepSmall() {
        mallopt(M_ARENA_MAX, arenasMax)
        mallopt(M_MMAP_THRESHOLD, ownPagesFrom)
        mallopt(M_TRIM_THRESHOLD, spareMax)
    }

    /// Returns free pages between blocks in use to the kernel as well; it takes about 0.1 ms.
    public static func trim() { malloc_trim(0) }
}
