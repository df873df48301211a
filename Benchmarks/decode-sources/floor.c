#include "floor.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static uint16_t little_endian16(const uint8_t *octets) {
    return (uint16_t)(octets[0] | octets[1] << 8);
}

int floor_decode(const uint8_t *frame, size_t count, struct floor_measurement *out) {
    memset(out, 0, sizeof *out);
    if (count < 2) return 0;
    uint8_t flags = frame[0];
    size_t next = 1;
    if (flags & 1) {
        if (count < 3) return 0;
        out->bpm = little_endian16(frame + next);
        next += 2;
    } else {
        out->bpm = frame[next++];
    }
    out->contact = flags & 4 ? (flags & 2 ? 2 : 1) : 0;
    if (flags & 8) {
        if (count - next < 2) return 0;
        out->energy = little_endian16(frame + next);
        out->has_energy = 1;
        next += 2;
    }
    size_t left = count - next;
    if (flags & 0xe0) out->anomalies |= 4;
    if (flags & 16) {
        if (left == 0) out->anomalies |= 2;
        if (left & 1) out->anomalies |= 1;
        for (; next + 1 < count && out->rr_count < floor_rr_max; next += 2)
            out->rr[out->rr_count++] = little_endian16(frame + next);
    } else if (left > 0) {
        out->anomalies |= 8;
    }
    return 1;
}

void black_hole(uint64_t value) { __asm__ volatile("" : : "r"(value) : "memory"); }

uint64_t thread_cpu_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Every way to the heap is counted on its way to glibc. The loops measured run on one thread, so a
// plain counter is exact there; what other threads add could only make the check stricter.
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static uint64_t allocations;

uint64_t allocations_so_far(void) { return allocations; }

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    allocations++;
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    allocations++;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    allocations++;
    *result = __libc_memalign(alignment, size);
    return *result ? 0 : ENOMEM;
}
