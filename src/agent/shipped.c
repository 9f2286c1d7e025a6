#include "agent/shipped.h"

#include "agent/core.h"
#include "agent/pod.h"
#include "agent/results_kept.h"
#include "agent/trash.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "tool/files.h"
#include "workspace/disk.h"
#include "workspace/manifest.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX     64     /* two descriptors each */
#define PUT_BACKS_MAX 100000 /* a sync pod writes a file between two of them */
#define BLOCK         65536  /* that is compared at a time */
#define OPEN_FILE     (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define NAME          "file"
#define MANIFEST      WS_PRIVATE_DIR "/manifest"

/* ---- in the worker thread: nothing but the file system ---- */

struct sharing {
    int room;
    const struct trash *trash;
    size_t shared;
};

static bool bytes_are_same(int a, int b, uint64_t size)
{
    char one[BLOCK], other[BLOCK];
    uint64_t at = 0;

    while (at < size) {
        ssize_t got = pread(a, one, BLOCK, (off_t)at);

        if (got <= 0 || pread(b, other, (size_t)got, (off_t)at) != got ||
            memcmp(one, other, (size_t)got) != 0)
            return false;
        at += (uint64_t)got;
    }
    return true;
}

static bool is_one(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool may_be_same(const struct stat *mine, const struct stat *other)
{
    return S_ISREG(mine->st_mode) && S_ISREG(other->st_mode) && mine->st_dev == other->st_dev &&
           mine->st_nlink == 1 && mine->st_size > 0 && mine->st_size == other->st_size &&
           mine->st_mode == other->st_mode && mine->st_uid == other->st_uid &&
           mine->st_gid == other->st_gid && mine->st_ino != other->st_ino;
}

static bool room_has(const struct sharing *sharing, const struct stat *wanted)
{
    struct stat st;

    return fstatat(sharing->room, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_one(&st, wanted);
}

static bool swap(const struct sharing *sharing, int folder, const char *name)
{
    return renameat2(sharing->room, NAME, folder, name, RENAME_EXCHANGE) == 0;
}

/* What came out of the folder is newer than ours: it goes in again, and what a sync pod has put there meanwhile comes
 * out, which is newer still. Until what comes out is what was put in last, which is kept open: the number of a file
 * that is gone may be that of a new one. */
static void put_back(const struct sharing *sharing,
                     int folder,
                     const char *name,
                     const struct stat *other)
{
    _cleanup_(disk_closep) int held = -1;
    struct stat put = *other;

    for (size_t i = 0; i < PUT_BACKS_MAX; i++) {
        int newer = openat(sharing->room, NAME, O_PATH | O_NOFOLLOW | O_CLOEXEC);

        /* Where swapping fails it was deleted from the folder since. */
        if (newer < 0 || !swap(sharing, folder, name) || room_has(sharing, &put) ||
            fstat(newer, &put) < 0) {
            disk_closep(&newer);
            return;
        }
        disk_closep(&held);
        held = newer;
    }
}

/* The other's file in place of ours, unless ours is another one by now. */
static bool take_name(const struct sharing *sharing,
                      int folder,
                      const char *name,
                      const struct stat *mine,
                      const struct stat *other)
{
    if (!swap(sharing, folder, name))
        return false;
    if (room_has(sharing, mine))
        return true;
    put_back(sharing, folder, name, other);
    return false;
}

static void share_file(struct sharing *sharing, int folder, int other_folder, const char *name)
{
    struct stat mine, other;
    char path[64];

    if (fstatat(folder, name, &mine, AT_SYMLINK_NOFOLLOW) < 0 ||
        fstatat(other_folder, name, &other, AT_SYMLINK_NOFOLLOW) < 0 || !may_be_same(&mine, &other))
        return;
    _cleanup_(disk_closep) int a = openat(folder, name, OPEN_FILE);
    _cleanup_(disk_closep) int b = openat(other_folder, name, OPEN_FILE);
    if (a < 0 || b < 0 || fstat(a, &mine) < 0 || fstat(b, &other) < 0 ||
        !may_be_same(&mine, &other) || !bytes_are_same(a, b, (uint64_t)mine.st_size))
        return;
    /* By its descriptor: no other file, whatever has its name now. */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", b);
    (void)unlinkat(sharing->room, NAME, 0);
    if (linkat(AT_FDCWD, path, sharing->room, NAME, AT_SYMLINK_FOLLOW) < 0)
        return;
    sharing->shared += take_name(sharing, folder, name, &mine, &other);
    (void)unlinkat(sharing->room, NAME, 0);
}

/* Takes both descriptors. */
static void share_folder(struct sharing *sharing, int fd, int other_fd, int depth)
{
    _cleanup_(disk_closep) int other = other_fd;
    DIR *folder = fd < 0 || other < 0 ? NULL : fdopendir(fd);

    if (!folder && fd >= 0)
        close(fd);
    for (struct dirent *e;
         folder && !atomic_load(&sharing->trash->stop) && (e = readdir(folder));) {
        static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            (depth == 0 && strcmp(e->d_name, WS_PRIVATE_DIR) == 0) ||
            fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISREG(st.st_mode))
            share_file(sharing, dirfd(folder), other, e->d_name);
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            share_folder(sharing, openat(dirfd(folder), e->d_name, flags),
                         openat(other, e->d_name, flags), depth + 1);
    }
    if (folder)
        closedir(folder);
}

static void share_two(struct sharing *sharing, const char *folder, const char *other)
{
    static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

    share_folder(sharing, open(folder, flags), open(other, flags), 0);
}

static int by_namespace_and_moment(const void *a, const void *b)
{
    const struct shipped_original *x = a, *y = b;
    size_t len = x->namespace_len > y->namespace_len ? x->namespace_len : y->namespace_len;
    int order = strncmp(strrchr(x->folder, '/'), strrchr(y->folder, '/'), len + 1);

    return order != 0 ? order : (x->changed_ms > y->changed_ms) - (x->changed_ms < y->changed_ms);
}

static bool is_of_one_namespace(const struct shipped_original *a, const struct shipped_original *b)
{
    return a->namespace_len == b->namespace_len &&
           strncmp(strrchr(a->folder, '/'), strrchr(b->folder, '/'), a->namespace_len + 1) == 0;
}

size_t shipped_share(struct shipped_original *originals,
                     size_t count,
                     int64_t since_ms,
                     const char *room,
                     const struct trash *trash)
{
    struct sharing sharing = {.trash = trash};

    if (count < 2 || files_make_folder(room, 0700, NULL) < 0)
        return 0;
    qsort(originals, count, sizeof(originals[0]), by_namespace_and_moment);
    sharing.room = open(room, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    (void)unlinkat(sharing.room, NAME, 0); /* of one that was killed */
    for (size_t i = 0; sharing.room >= 0 && i < count; i++)
        for (size_t k = 1; originals[i].changed_ms > since_ms && k <= SHIPPED_OTHERS && k <= i &&
                           is_of_one_namespace(&originals[i - k], &originals[i]);
             k++)
            share_two(&sharing, originals[i].folder, originals[i - k].folder);
    disk_closep(&sharing.room);
    return sharing.shared;
}

/* ---- in the loop ---- */

struct look {
    struct agent_work work; /* first */
    VEC(struct shipped_original) originals;
    int64_t since_ms; /* what is older was looked at before */
    int64_t until_ms;
    char room[SHIPPED_PATH];
};

/* Those that have a revision, and are at rest. */
static void look_run(struct agent_work *work)
{
    struct look *look = (struct look *)work;
    size_t count = 0;

    for (size_t i = 0; i < look->originals.count; i++) {
        struct shipped_original *original = &look->originals.items[i];
        char path[SHIPPED_PATH + sizeof("/" MANIFEST)];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/" MANIFEST, original->folder);
        if (stat(path, &st) < 0)
            continue;
        original->changed_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
        if (original->changed_ms <= look->until_ms)
            look->originals.items[count++] = *original;
    }
    (void)shipped_share(look->originals.items, count, look->since_ms, look->room, work->trash);
}

static void look_done(struct agent_work *work)
{
    struct look *look = (struct look *)work;

    work->agent->shipped_looking = false;
    work->agent->shipped_ms = look->until_ms;
    VEC_DONE(&look->originals);
}

void shipped_look(struct agent *agent)
{
    if (agent->shipped_looking)
        return;
    struct look *look = MEM_NEW(struct look);
    look->since_ms = agent->shipped_ms;
    look->until_ms = agent_now_ms() - SHIPPED_QUIET_MS;
    (void)snprintf(look->room, sizeof(look->room), "%s/" SHIPPED_FOLDER, agent->options.data_dir);
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        struct results_burial burial;

        if (pod->stage != POD_RUNNING || !results_burial_prepare(pod, &burial) || !burial.claim)
            continue;
        struct shipped_original original = {.namespace_len = pod->ns.len + 1};
        (void)snprintf(original.folder, sizeof(original.folder), "%s", burial.from);
        VEC_PUSH(NULL, &look->originals, original);
    }
    look->work.run = look_run;
    look->work.done = look_done;
    if (look->originals.count <
        2) { /* what changed meanwhile is looked at when there is another one */
        VEC_DONE(&look->originals);
        mem_free(look);
        return;
    }
    agent->shipped_looking = true;
    agent_work(agent, &look->work);
}
