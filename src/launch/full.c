#include "launch/full.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FULL_BYTES      ((uint64_t)1 << 20) /* as good as nothing, for a checkpoint */
#define FULL_PART       100                 /* and no more than this part of the whole */
#define FULL_NAMES_MAX  3
#define FULL_MOUNTS_MAX ((size_t)64 << 10)

static bool is_full(const struct statvfs *disk)
{
    uint64_t left = (uint64_t)disk->f_bavail * disk->f_frsize;
    uint64_t whole = (uint64_t)disk->f_blocks * disk->f_frsize;

    return !(disk->f_flag & ST_RDONLY) && whole >= FULL_BYTES &&
           ((left < FULL_BYTES && left < whole / FULL_PART) || (disk->f_files && !disk->f_favail));
}

/* Mounts that are no place for files: of these some say that they have no room. */
static bool is_disk(struct str type)
{
    static const char *const others[] = {"proc",     "sysfs",   "cgroup",  "cgroup2",    "devpts",
                                         "mqueue",   "bpf",     "tracefs", "debugfs",    "devtmpfs",
                                         "squashfs", "iso9660", "nsfs",    "binfmt_misc"};

    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (str_is(type, others[i]))
            return false;
    return true;
}

struct str full_names(struct arena *arena,
                      struct str mounts,
                      int (*look)(const char *path, struct statvfs *ret))
{
    struct str names = STR_NONE;
    struct str last = STR_NONE;
    struct str line;
    size_t count = 0;

    while (count < FULL_NAMES_MAX && str_cut(&mounts, '\n', &line)) {
        struct str device;
        struct str path;
        struct str type;
        struct statvfs disk;

        /* Of mounts on top of each other the last is what is seen, and each says what that one has. */
        if (!str_cut(&line, ' ', &device) || !str_cut(&line, ' ', &path) ||
            !str_cut(&line, ' ', &type) || !is_disk(type) || look(str_c(arena, path), &disk) < 0 ||
            !is_full(&disk))
            continue;
        if (str_eq(path, last))
            continue;
        last = path;
        names = count++ ? str_printf(arena, STR_FMT " and " STR_FMT, STR_ARG(names), STR_ARG(path))
                        : path;
    }
    return names;
}

struct str full_here(struct arena *arena)
{
    char *text = arena_raw(arena, FULL_MOUNTS_MAX, 1);
    int fd = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got = 0;

    while (fd >= 0 && len < FULL_MOUNTS_MAX &&
           (got = read(fd, text + len, FULL_MOUNTS_MAX - len)) > 0)
        len += (size_t)got;
    if (fd >= 0)
        close(fd);
    return full_names(arena, (struct str){text, len}, statvfs);
}
