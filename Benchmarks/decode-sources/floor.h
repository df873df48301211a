// The C side of the decode benchmark: what the decoder is measured against and with.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { floor_rr_max = 9 };

struct floor_measurement {
    uint16_t bpm;
    uint16_t energy;
    uint16_t rr[floor_rr_max];
    uint8_t rr_count;
    uint8_t contact;
    uint8_t has_energy;
    uint8_t anomalies;
};

// The least that a decoder of 0x2A37 can do in C with the same checks. Returns 0 for a fault.
int floor_decode(const uint8_t *frame, size_t count, struct floor_measurement *out);

// Does nothing; the compiler cannot know that, so the value has to be computed.
void black_hole(uint64_t value);

// How often malloc, calloc, realloc, posix_memalign or aligned_alloc were called in this process.
uint64_t allocations_so_far(void);

// CPU time of this thread in nanoseconds: what other processes take is not counted.
uint64_t thread_cpu_nanoseconds(void);
