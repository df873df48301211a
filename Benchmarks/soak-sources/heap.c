// Writes how much of the allocator's heap is in use, and how much it keeps free, for Benchmarks/soak:
// LD_PRELOAD=libheap.so HEAP=FILE program. One line each minute of the program's own time: KiB in use, KiB free.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *write_each_minute(void *path) {
    for (;;) {
        struct timespec minute = {.tv_sec = 60};
        nanosleep(&minute, NULL);
        struct mallinfo2 heap = mallinfo2();
        FILE *file = fopen(path, "w");
        if (file == NULL) continue;
        fprintf(file, "%zu,%zu\n", (heap.uordblks + heap.hblkhd) / 1024, heap.fordblks / 1024);
        fclose(file);
    }
    return NULL;
}

__attribute__((constructor)) static void start(void) {
    char *path = getenv("HEAP");
    pthread_t thread;
    if (path != NULL) pthread_create(&thread, NULL, write_each_minute, path);
}
