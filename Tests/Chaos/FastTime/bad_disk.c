// A disk that fails: LD_PRELOAD=libFastTime.so BAD_DISK=FILE program.
//
// While FILE is there, its letters say what fails for files of a store: r reads, w writes and s syncs, with EIO; f writes,
// for want of room.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fails(int file, char how) {
    const char *path = getenv("BAD_DISK");
    if (!path) return 0;
    int script = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (script < 0) return 0;
    char letters[8] = {0};
    syscall(SYS_read, script, letters, sizeof letters - 1);
    syscall(SYS_close, script);
    if (!strchr(letters, how)) return 0;
    char link[32], name[512] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return readlink(link, name, sizeof name - 1) > 0 && strstr(name, "queue.sqlite");
}

static int refuses(int file, char how, int code) {
    if (!fails(file, how)) return 0;
    errno = code;
    return 1;
}

ssize_t read(int file, void *bytes, size_t count) {
    return refuses(file, 'r', EIO) ? -1 : syscall(SYS_read, file, bytes, count);
}

ssize_t pread(int file, void *bytes, size_t count, off_t at) {
    return refuses(file, 'r', EIO) ? -1 : syscall(SYS_pread64, file, bytes, count, at);
}

ssize_t pread64(int file, void *bytes, size_t count, off_t at) __attribute__((alias("pread")));

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
    if (refuses(file, 'w', EIO) || refuses(file, 'f', ENOSPC)) return -1;
    return syscall(SYS_pwrite64, file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off_t at) __attribute__((alias("pwrite")));

int fsync(int file) { return refuses(file, 's', EIO) ? -1 : (int)syscall(SYS_fsync, file); }

int fdatasync(int file) { return refuses(file, 's', EIO) ? -1 : (int)syscall(SYS_fdatasync, file); }
