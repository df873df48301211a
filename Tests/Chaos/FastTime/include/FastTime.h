#ifndef FAST_TIME_H
#define FAST_TIME_H

#include <stdint.h>

// The time that a preloaded program lives in; a file that begins with these bytes, which another program
// changes while it runs. FAST_TIME names the file; without it nothing is changed.
struct fast_time {
    int64_t began_ns;      // the world's time when this machine's uptime was 0
    int64_t speed;         // seconds of its own for each second of an idle host, at most
    int64_t wall_ns;       // its wall clock less its uptime
    int32_t synchronised;  // what adjtimex(2) says of the wall clock
    uint16_t port_from;    // connections to this port of 127.0.0.1 …
    uint16_t port_to;      // … go to that one
    char boot_id[40];      // what /proc/sys/kernel/random/boot_id holds
    int64_t world_ns;      // the world's time, which that program moves on in small steps
    int32_t process;       // the preloaded program, which says so itself
};

#endif
