// A SQLite VFS over the default one that fails on purpose: for tests.
//
// It is the default VFS of the process once registered, and passes everything through but the files
// below a directory that was armed.
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

#include <stdint.h>

// What may happen to an operation on an armed file; combined by or.
enum {
    // A write finds no room: SQLITE_FULL, nothing written.
    FAULTY_DISK_FULL = 1,
    // A read, write, truncate or sync fails: SQLITE_IOERR_…; half of what was to be written is.
    FAULTY_DISK_IO = 2,
    // Every write, truncate, create and delete fails: SQLITE_READONLY or SQLITE_IOERR_….
    FAULTY_DISK_READ_ONLY = 4,
};

// Makes it the default VFS; once a process. 0, or a SQLite result.
int faulty_disk_register(void);

// Arms the files below `directory`; `per_thousand` of their operations fail in one of the ways of
// `faults`, as `seed` wills it. READ_ONLY is not left to chance. Returns a handle, or -1.
int faulty_disk_arm(const char *directory, uint64_t seed);
void faulty_disk_set(int handle, int faults, int per_thousand);
// So many changes succeed, then every one fails with `fault` (FULL or IO), until `faulty_disk_set`.
void faulty_disk_fail_after(int handle, int fault, int64_t changes);
// Whether SQLite may open none of the databases below the directory but new ones (`.new`).
void faulty_disk_refuse_opening(int handle, int is_refused);
// Operations that failed so far.
int64_t faulty_disk_failures(int handle);
void faulty_disk_disarm(int handle);

#endif
