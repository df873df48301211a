#include "faulty_disk.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

enum { DISKS_MAX = 64, PATH_BYTES_MAX = 512 };

typedef struct {
    int is_used;
    char directory[PATH_BYTES_MAX];
    uint64_t random;
    int faults;
    int per_thousand;
    int refuses_opening;
    // Changes that succeed before every later one fails; negative: not counted.
    int64_t changes_left;
    int64_t failures;
} Disk;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Disk disks[DISKS_MAX];
static sqlite3_vfs *below;
static sqlite3_vfs vfs;

typedef enum { READ, WRITE, OTHER_CHANGE } Operation;
// Nothing, or the fault that is to happen.
enum { NONE = 0 };

static uint64_t next_random(Disk *disk) {  // SplitMix64
    uint64_t z = disk->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int fault_of(int handle, Operation operation) {
    int fault = NONE;
    pthread_mutex_lock(&lock);
    Disk *disk = &disks[handle];
    if (disk->is_used) {
        if ((disk->faults & FAULTY_DISK_READ_ONLY) && operation != READ) {
            fault = FAULTY_DISK_READ_ONLY;
        } else if (disk->changes_left >= 0) {
            if (operation != READ && disk->changes_left-- == 0) {
                fault = operation == WRITE ? disk->faults : FAULTY_DISK_IO;
                disk->changes_left = 0;
            }
        } else if ((int)(next_random(disk) % 1000) < disk->per_thousand) {
            int possible = disk->faults & (FAULTY_DISK_FULL | FAULTY_DISK_IO);
            if (operation != WRITE) possible &= ~FAULTY_DISK_FULL;
            if (possible == (FAULTY_DISK_FULL | FAULTY_DISK_IO))
                possible = next_random(disk) & 1 ? FAULTY_DISK_FULL : FAULTY_DISK_IO;
            fault = possible;
        }
        if (fault != NONE) disk->failures += 1;
    }
    pthread_mutex_unlock(&lock);
    return fault;
}

static int disk_of(const char *path) {
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; path && i < DISKS_MAX; i++)
        if (disks[i].is_used && !strncmp(path, disks[i].directory, strlen(disks[i].directory)))
            found = i;
    pthread_mutex_unlock(&lock);
    return found;
}

// A file of ours, followed in memory by the file of the VFS below.
typedef struct {
    sqlite3_file base;
    int handle;
} File;

static sqlite3_file *real(sqlite3_file *file) { return (sqlite3_file *)((File *)file + 1); }
static int handle(sqlite3_file *file) { return ((File *)file)->handle; }

static int file_close(sqlite3_file *f) { return real(f)->pMethods->xClose(real(f)); }
static int file_read(sqlite3_file *f, void *to, int count, sqlite3_int64 at) {
    if (fault_of(handle(f), READ)) return SQLITE_IOERR_READ;
    return real(f)->pMethods->xRead(real(f), to, count, at);
}
static int file_write(sqlite3_file *f, const void *from, int count, sqlite3_int64 at) {
    switch (fault_of(handle(f), WRITE)) {
        case NONE: return real(f)->pMethods->xWrite(real(f), from, count, at);
        case FAULTY_DISK_FULL: return SQLITE_FULL;
        case FAULTY_DISK_READ_ONLY: return SQLITE_READONLY;
        default:
            real(f)->pMethods->xWrite(real(f), from, count / 2, at);
            return SQLITE_IOERR_WRITE;
    }
}
static int file_truncate(sqlite3_file *f, sqlite3_int64 size) {
    if (fault_of(handle(f), OTHER_CHANGE)) return SQLITE_IOERR_TRUNCATE;
    return real(f)->pMethods->xTruncate(real(f), size);
}
static int file_sync(sqlite3_file *f, int flags) {
    if (fault_of(handle(f), OTHER_CHANGE)) return SQLITE_IOERR_FSYNC;
    return real(f)->pMethods->xSync(real(f), flags);
}
static int file_size(sqlite3_file *f, sqlite3_int64 *size) {
    return real(f)->pMethods->xFileSize(real(f), size);
}
static int file_lock(sqlite3_file *f, int kind) { return real(f)->pMethods->xLock(real(f), kind); }
static int file_unlock(sqlite3_file *f, int kind) {
    return real(f)->pMethods->xUnlock(real(f), kind);
}
static int file_check_lock(sqlite3_file *f, int *is_locked) {
    return real(f)->pMethods->xCheckReservedLock(real(f), is_locked);
}
static int file_control(sqlite3_file *f, int operation, void *argument) {
    return real(f)->pMethods->xFileControl(real(f), operation, argument);
}
static int file_sector(sqlite3_file *f) { return real(f)->pMethods->xSectorSize(real(f)); }
static int file_traits(sqlite3_file *f) {
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}
static int file_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **at) {
    return real(f)->pMethods->xShmMap(real(f), page, size, extend, at);
}
static int file_shm_lock(sqlite3_file *f, int offset, int count, int flags) {
    return real(f)->pMethods->xShmLock(real(f), offset, count, flags);
}
static void file_shm_barrier(sqlite3_file *f) { real(f)->pMethods->xShmBarrier(real(f)); }
static int file_shm_unmap(sqlite3_file *f, int is_delete) {
    return real(f)->pMethods->xShmUnmap(real(f), is_delete);
}

// Version 2: without memory mapping, so that no access passes by.
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
};

static int vfs_open(
    sqlite3_vfs *self, const char *path, sqlite3_file *file, int flags, int *flags_out) {
    (void)self;
    file->pMethods = NULL;
    int disk = disk_of(path);
    if (disk < 0) return below->xOpen(below, path, file, flags, flags_out);
    const char *end = strrchr(path, '.');
    if (flags & SQLITE_OPEN_MAIN_DB && disks[disk].refuses_opening && end && strcmp(end, ".new"))
        return SQLITE_IOERR;
    ((File *)file)->handle = disk;
    int result = below->xOpen(below, path, real(file), flags, flags_out);
    if (real(file)->pMethods) file->pMethods = &methods;
    return result;
}

static int vfs_delete(sqlite3_vfs *self, const char *path, int sync_directory) {
    (void)self;
    int disk = disk_of(path);
    if (disk >= 0 && fault_of(disk, OTHER_CHANGE)) return SQLITE_IOERR_DELETE;
    return below->xDelete(below, path, sync_directory);
}

int faulty_disk_register(void) {
    if (below) return SQLITE_OK;
    below = sqlite3_vfs_find(NULL);
    if (!below) return SQLITE_ERROR;
    vfs = *below;
    vfs.zName = "faulty-disk";
    vfs.szOsFile = below->szOsFile + (int)sizeof(File);
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    return sqlite3_vfs_register(&vfs, 1);
}

int faulty_disk_arm(const char *directory, uint64_t seed) {
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < DISKS_MAX && found < 0; i++) {
        if (disks[i].is_used || strlen(directory) >= PATH_BYTES_MAX) continue;
        disks[i] = (Disk){.is_used = 1, .random = seed, .changes_left = -1};
        strcpy(disks[i].directory, directory);
        found = i;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void faulty_disk_set(int handle, int faults, int per_thousand) {
    pthread_mutex_lock(&lock);
    disks[handle].faults = faults;
    disks[handle].per_thousand = per_thousand;
    disks[handle].changes_left = -1;
    pthread_mutex_unlock(&lock);
}

void faulty_disk_fail_after(int handle, int fault, int64_t changes) {
    pthread_mutex_lock(&lock);
    disks[handle].faults = fault;
    disks[handle].changes_left = changes;
    pthread_mutex_unlock(&lock);
}

void faulty_disk_refuse_opening(int handle, int is_refused) {
    pthread_mutex_lock(&lock);
    disks[handle].refuses_opening = is_refused;
    pthread_mutex_unlock(&lock);
}

int64_t faulty_disk_failures(int handle) {
    pthread_mutex_lock(&lock);
    int64_t failures = disks[handle].failures;
    pthread_mutex_unlock(&lock);
    return failures;
}

void faulty_disk_disarm(int handle) {
    pthread_mutex_lock(&lock);
    disks[handle].is_used = 0;
    pthread_mutex_unlock(&lock);
}
