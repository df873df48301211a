#include "CTaskHooks.h"

// Swift's runtime has these for whoever replaces its executor; swift-nio uses them as well.
#define HOOK extern __attribute__((swiftcall)) void
HOOK (*swift_task_enqueueGlobal_hook)(void *job, void *original);
HOOK (*swift_task_enqueueGlobalWithDelay_hook)(unsigned long long delay, void *job, void *original);
HOOK (*swift_task_enqueueGlobalWithDeadline_hook)(
    long long seconds, long long nanoseconds, long long tolerance_seconds, long long tolerance_nanoseconds,
    int clock, void *job, void *original);

static cth_now run_now;
static cth_later run_later;

static __attribute__((swiftcall)) void now(void *job, void *original) {
    (void)original;
    run_now(job);
}

static __attribute__((swiftcall)) void after(unsigned long long nanoseconds, void *job, void *original) {
    (void)original;
    const long long second = 1000000000;
    run_later(job, (int64_t)(nanoseconds / second), (int64_t)(nanoseconds % second), 0, -1, CTH_FROM_NOW);
}

static __attribute__((swiftcall)) void at(
    long long seconds, long long nanoseconds, long long tolerance_seconds, long long tolerance_nanoseconds,
    int clock, void *job, void *original) {
    (void)original;
    run_later(job, seconds, nanoseconds, tolerance_seconds, tolerance_nanoseconds, clock);
}

void cth_install(cth_now now_handler, cth_later later_handler) {
    run_now = now_handler;
    run_later = later_handler;
    swift_task_enqueueGlobal_hook = now;
    swift_task_enqueueGlobalWithDelay_hook = after;
    swift_task_enqueueGlobalWithDeadline_hook = at;
}
