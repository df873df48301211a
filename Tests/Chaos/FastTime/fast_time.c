// A faster clock for one program: LD_PRELOAD=libFastTime.so FAST_TIME=FILE program.
//
// Uptime is what another program says in FILE: it moves it on in steps, at most `speed` times as fast as
// the host's. The wall clock is a distance away from it that may change at any moment without the uptime
// knowing, and every way to wait that the gateway, Dispatch, NIO, libdbus, libcurl and SQLite use lasts until
// that time has passed. A timer (timerfd) may go off too early: its owners look at the clock and set it again.
// The kernel's word on whether the clock is synchronised, and the name of the boot, are scripted too.
#define _GNU_SOURCE
#include "FastTime.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static const int64_t second = 1000000000;
static volatile struct fast_time *fast;

__attribute__((constructor(101))) static void begin(void) {
    const char *path = getenv("FAST_TIME");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof *fast, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (map == MAP_FAILED) return;
    fast = map;
    // Not one that the gateway starts.
    if (getppid() != fast->process) fast->process = getpid();
}

static int64_t host(clockid_t clock) {
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return time.tv_sec * second + time.tv_nsec;
}
static int64_t ns(const struct timespec *time) {
    return time->tv_sec < INT64_MAX / second ? time->tv_sec * second + time->tv_nsec : INT64_MAX;
}
static struct timespec spec(int64_t ns) {
    return (struct timespec){.tv_sec = ns / second, .tv_nsec = ns % second};
}
static int64_t uptime(void) {
    return __atomic_load_n(&fast->world_ns, __ATOMIC_ACQUIRE) - fast->began_ns;
}
static int64_t now(clockid_t clock) {
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: return uptime() + fast->wall_ns;
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_RAW: case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME: return uptime();
    default: return host(clock);
    }
}
// A wait of the program, in the host's time, which is over no later than one step of the world after it: never
// none if there was some. It may be over too early, where the host is busy.
static const int64_t step_ns = 2000000;
static int64_t pause_of(int64_t ns) { return ns > 0 ? ns / fast->speed + step_ns : 0; }
static int64_t later(int64_t ns) { return ns < INT64_MAX / 2 ? uptime() + ns : INT64_MAX; }

// MARK: What time it is

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!fast) return (int)syscall(SYS_clock_gettime, clock, time);
    *time = spec(now(clock));
    return 0;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    if (!fast) return (int)syscall(SYS_gettimeofday, time, zone);
    int64_t wall = now(CLOCK_REALTIME);
    *time = (struct timeval){.tv_sec = wall / second, .tv_usec = wall % second / 1000};
    return 0;
}
time_t time(time_t *out) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    if (out) *out = wall.tv_sec;
    return wall.tv_sec;
}
int adjtimex(struct timex *state) {
    if (!fast) return (int)syscall(SYS_adjtimex, state);
    state->status = fast->synchronised ? 0 : STA_UNSYNC;
    // What the kernel says of a clock that was just corrected, and of one that was set by hand.
    state->maxerror = fast->synchronised ? 10000 : 16000000;
    return fast->synchronised ? TIME_OK : TIME_ERROR;
}

// MARK: Waiting

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    if (!fast) {
        return syscall(SYS_clock_nanosleep, clock, flags, time, left) == 0 ? 0 : errno;
    }
    int64_t until = later(flags & TIMER_ABSTIME ? ns(time) - now(clock) : ns(time));
    if (left) *left = (struct timespec){0};
    for (int64_t length; (length = until - uptime()) > 0;) {
        struct timespec pause = spec(pause_of(length));
        if (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL) != 0) return errno;
    }
    return 0;
}
int nanosleep(const struct timespec *time, struct timespec *left) {
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    if (error) errno = error;
    return error ? -1 : 0;
}
int usleep(useconds_t microseconds) {
    struct timespec time = spec(microseconds * (int64_t)1000);
    return nanosleep(&time, NULL);
}
// Of each timer, whether it goes by the wall clock; there are a handful, with small numbers.
static volatile char by_wall[1024];
int timerfd_create(clockid_t clock, int flags) {
    int file = (int)syscall(SYS_timerfd_create, fast ? CLOCK_BOOTTIME : clock, flags);
    if (file >= 0 && file < (int)sizeof by_wall) by_wall[file] = clock == CLOCK_REALTIME;
    return file;
}
int timerfd_settime(int file, int flags, const struct itimerspec *new, struct itimerspec *old) {
    if (!fast) return (int)syscall(SYS_timerfd_settime, file, flags, new, old);
    int64_t value = ns(&new->it_value);
    if (value > 0 && flags & TFD_TIMER_ABSTIME) {
        int is_wall = file < (int)sizeof by_wall && by_wall[file];
        value -= now(is_wall ? CLOCK_REALTIME : CLOCK_BOOTTIME);
        if (value < 1) value = 1;
    }
    struct itimerspec pause = {
        .it_interval = spec(pause_of(ns(&new->it_interval))), .it_value = spec(pause_of(value))};
    return (int)syscall(SYS_timerfd_settime, file, 0, &pause, old);
}
int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *limit, const sigset_t *mask) {
    if (!fast || !limit) {
        // The kernel writes into it.
        struct timespec pause = limit ? *limit : (struct timespec){0};
        return (int)syscall(SYS_ppoll, polled, count, limit ? &pause : NULL, mask, sizeof(long));
    }
    int64_t until = later(ns(limit));
    for (;;) {
        struct timespec pause = spec(pause_of(until - uptime()));
        int ready = (int)syscall(SYS_ppoll, polled, count, &pause, mask, sizeof(long));
        if (ready != 0 || uptime() >= until) return ready;
    }
}
int poll(struct pollfd *polled, nfds_t count, int milliseconds) {
    struct timespec limit = spec(milliseconds * (int64_t)1000000);
    return ppoll(polled, count, milliseconds < 0 ? NULL : &limit, NULL);
}
int epoll_wait(int file, struct epoll_event *events, int count, int milliseconds) {
    int64_t until = fast && milliseconds > 0 ? later(milliseconds * (int64_t)1000000) : 0;
    for (;;) {
        int wait = until ? (int)(pause_of(until - uptime()) / 1000000) + 1 : milliseconds;
        int ready = (int)syscall(SYS_epoll_pwait, file, events, count, wait, NULL, 0);
        if (ready != 0 || !until || uptime() >= until) return ready;
    }
}
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "sem_timedwait");
    if (!fast) return real(semaphore, until);
    for (;;) {
        int64_t length = ns(until) - now(CLOCK_REALTIME);
        struct timespec limit = spec(host(CLOCK_REALTIME) + pause_of(length));
        int status = real(semaphore, &limit);
        if (status == 0 || errno != ETIMEDOUT || now(CLOCK_REALTIME) >= ns(until)) return status;
    }
}
// What waits until a time that small goes by CLOCK_MONOTONIC.
static const int64_t uptime_max = 1000000000LL * 1000000000;
int pthread_cond_timedwait(
    pthread_cond_t *restrict bell, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    if (!fast || ns(until) >= uptime_max) return real(bell, mutex, until);
    for (;;) {
        struct timespec limit = spec(host(CLOCK_MONOTONIC) + pause_of(ns(until) - uptime()));
        int status = real(bell, mutex, &limit);
        if (status != ETIMEDOUT || uptime() >= ns(until)) return status;
    }
}

// MARK: The name of the boot, and the way to the exchange

static int open_as(const char *path, int flags, mode_t mode) {
    if (fast && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) {
        int file = memfd_create("boot_id", MFD_CLOEXEC);
        char id[sizeof fast->boot_id + 1] = {0};
        memcpy(id, (const void *)fast->boot_id, sizeof fast->boot_id);
        if (write(file, id, strlen(id)) < 0) return -1;
        lseek(file, 0, SEEK_SET);
        return file;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_as(path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int connect(int file, const struct sockaddr *address, socklen_t length) {
    struct sockaddr_in other;
    if (fast && fast->port_to && address->sa_family == AF_INET) {
        memcpy(&other, address, sizeof other);
        if (other.sin_port == htons(fast->port_from)) {
            other.sin_port = htons(fast->port_to);
            address = (const struct sockaddr *)&other;
        }
    }
    return (int)syscall(SYS_connect, file, address, length);
}
