#ifndef CTASKHOOKS_H
#define CTASKHOOKS_H

#include <stdint.h>

// Takes the place of Dispatch in a program of Swift 6.2, whose executors cannot be replaced otherwise: `now` gets
// each job that any thread may run, `later` each that is to run at a time of `clock`, or up to a tolerance later
// (negative: none was given).
typedef void (*cth_now)(void *job);
typedef void (*cth_later)(
    void *job, int64_t seconds, int64_t nanoseconds, int64_t tolerance_seconds, int64_t tolerance_nanoseconds,
    int clock);

// For `later`: the time is one from now.
enum { CTH_FROM_NOW = -1 };
// Swift's names of its clocks (`swift_clock_id`).
enum { CTH_CONTINUOUS = 1, CTH_SUSPENDING = 2 };

void cth_install(cth_now now, cth_later later);

#endif
