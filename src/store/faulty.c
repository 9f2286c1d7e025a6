#include "store/faulty.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The state is global because SQLite's VFS list is. */
static atomic_int mode_now;
static atomic_uint failed;
static atomic_uint writes;
static atomic_uint syncs;

struct file {
    sqlite3_file base;
    /* The file of the VFS below is in the bytes behind. */
};

static sqlite3_vfs *below;

static sqlite3_file *real(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)((struct file *)(void *)file + 1);
}

static bool fails(enum faulty_mode mode)
{
    if (atomic_load(&mode_now) != (int)mode)
        return false;
    atomic_fetch_add(&failed, 1);
    return true;
}

static int file_close(sqlite3_file *file)
{
    return real(file)->pMethods->xClose(real(file));
}

static int file_read(sqlite3_file *file, void *out, int bytes, sqlite3_int64 at)
{
    if (fails(FAULTY_READ))
        return SQLITE_IOERR_READ;
    return real(file)->pMethods->xRead(real(file), out, bytes, at);
}

static int file_write(sqlite3_file *file, const void *from, int bytes, sqlite3_int64 at)
{
    atomic_fetch_add(&writes, 1);
    if (fails(FAULTY_FULL))
        return SQLITE_FULL;
    if (fails(FAULTY_QUOTA))
        return SQLITE_IOERR_WRITE;
    return real(file)->pMethods->xWrite(real(file), from, bytes, at);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return real(file)->pMethods->xTruncate(real(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    atomic_fetch_add(&syncs, 1);
    if (fails(FAULTY_SYNC))
        return SQLITE_IOERR_FSYNC;
    return real(file)->pMethods->xSync(real(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real(file)->pMethods->xFileSize(real(file), size);
}

static int file_lock(sqlite3_file *file, int kind)
{
    return real(file)->pMethods->xLock(real(file), kind);
}

static int file_unlock(sqlite3_file *file, int kind)
{
    return real(file)->pMethods->xUnlock(real(file), kind);
}

static int file_reserved(sqlite3_file *file, int *out)
{
    return real(file)->pMethods->xCheckReservedLock(real(file), out);
}

static int file_control(sqlite3_file *file, int op, void *argument)
{
    if (op == SQLITE_FCNTL_LAST_ERRNO && atomic_load(&mode_now) == FAULTY_QUOTA) {
        *(int *)argument = EDQUOT;
        return SQLITE_OK;
    }
    return real(file)->pMethods->xFileControl(real(file), op, argument);
}

static int file_sector(sqlite3_file *file)
{
    return real(file)->pMethods->xSectorSize(real(file));
}

static int file_traits(sqlite3_file *file)
{
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static int shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **out)
{
    return real(file)->pMethods->xShmMap(real(file), page, size, extend, out);
}

static int shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
}

static void shm_barrier(sqlite3_file *file)
{
    real(file)->pMethods->xShmBarrier(real(file));
}

static int shm_unmap(sqlite3_file *file, int remove)
{
    return real(file)->pMethods->xShmUnmap(real(file), remove);
}

/* Version 2: shared memory for WAL, no memory mapping. */
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
    .xCheckReservedLock = file_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector,
    .xDeviceCharacteristics = file_traits,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static int faulty_open(sqlite3_vfs *vfs,
                       const char *name,
                       sqlite3_file *file,
                       int flags,
                       int *out_flags)
{
    (void)vfs;
    int r = below->xOpen(below, name, real(file), flags, out_flags);
    file->pMethods = r == SQLITE_OK ? &methods : NULL;
    return r;
}

void faulty_install(void)
{
    static sqlite3_vfs vfs;

    if (below)
        return;
    below = sqlite3_vfs_find(NULL);
    vfs = *below;
    vfs.zName = "faulty";
    vfs.szOsFile = below->szOsFile + (int)sizeof(struct file);
    vfs.xOpen = faulty_open;
    (void)sqlite3_vfs_register(&vfs, 1);
}

void faulty_set(enum faulty_mode mode)
{
    atomic_store(&failed, 0);
    atomic_store(&mode_now, (int)mode);
}

unsigned faulty_count(void)
{
    return atomic_load(&failed);
}

unsigned faulty_writes(void)
{
    return atomic_load(&writes);
}

unsigned faulty_syncs(void)
{
    return atomic_load(&syncs);
}
