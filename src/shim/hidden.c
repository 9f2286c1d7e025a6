#include "shim/hidden.h"

#include "shim/openin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOUNTINFO_BYTES 16384 /* to begin with: read at one go on most machines */

/* ---- mounts ---- */

/* "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw", cut into its words. */
struct mount {
    int id;
    const char *fs;
    const char *root;  /* of the file system, what is seen */
    const char *point; /* where */
    const char *type;
};

struct mounts {
    char *text; /* what the words are in */
    struct mount *items;
    size_t count;
};

void mountinfo_unescape(char *text)
{
    char *out = text;
    for (char *in = text; *in; in++) {
        if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] && in[3]) {
            *out++ = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
            in += 3;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
}

/* Cuts the line. */
static bool parse(char *line, struct mount *ret)
{
    char *words[5] = {0}, *rest = line;
    char *dash = strstr(line, " - ");
    if (!dash)
        return false;
    char *type = dash + 3;
    type[strcspn(type, " ")] = '\0';
    for (size_t i = 0; i < 5; i++) {
        words[i] = rest;
        rest = strchr(rest, ' ');
        if (!rest)
            return false;
        *rest++ = '\0';
    }
    mountinfo_unescape(words[3]);
    mountinfo_unescape(words[4]);
    *ret = (struct mount){.fs = words[2], .root = words[3], .point = words[4], .type = type};
    return sscanf(words[0], "%d", &ret->id) == 1;
}

static void mounts_free(struct mounts *mounts)
{
    free(mounts->text);
    free(mounts->items);
}

/* All of the file, and a NUL. NULL with errno where that cannot be. */
static char *read_whole(int fd)
{
    size_t len = 0, room = MOUNTINFO_BYTES;
    char *text = malloc(room);
    for (ssize_t n; text; len += (size_t)n) {
        char *more = len + 1 < room ? text : realloc(text, 2 * room);
        if (!more)
            break;
        room = len + 1 < room ? room : 2 * room;
        text = more;
        n = read(fd, text + len, room - len - 1);
        if (n < 0)
            break;
        if (n == 0) {
            text[len] = '\0';
            return text;
        }
    }
    free(text);
    return NULL;
}

static int mounts_read(struct mounts *ret)
{
    struct mounts mounts = {0};
    size_t lines = 0;
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    mounts.text = read_whole(fd);
    int error = errno;
    close(fd);
    if (!mounts.text)
        return error ? -error : -EIO;
    for (const char *p = mounts.text; *p; p++)
        lines += *p == '\n';
    mounts.items = calloc(lines + 1, sizeof(*mounts.items));
    if (!mounts.items) {
        free(mounts.text);
        return -ENOMEM;
    }
    for (char *line = mounts.text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (parse(line, &mounts.items[mounts.count]))
            mounts.count++;
    }
    *ret = mounts;
    return 0;
}

/* Kernels before 5.8 say it in a file alone. */
static int mount_id_of_old(int fd)
{
    char path[48], line[128];
    int id = -ENOENT;
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    while (id < 0 && fgets(line, sizeof(line), file))
        (void)sscanf(line, "mnt_id: %d", &id);
    (void)fclose(file);
    return id;
}

static int mount_id(int fd)
{
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 && st.stx_mask & STATX_MNT_ID)
        return (int)st.stx_mnt_id;
    return mount_id_of_old(fd);
}

static const struct mount *mount_of(const struct mounts *mounts, int fd)
{
    int id = mount_id(fd);
    for (size_t i = 0; id >= 0 && i < mounts->count; i++)
        if (mounts->items[i].id == id)
            return &mounts->items[i];
    return NULL;
}

/* ---- places ---- */

/* What of `path` lies below `folder`: "" for itself, "/x"; NULL: it does not. */
static const char *below(const char *path, const char *folder)
{
    size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    if (strncmp(path, folder, len) != 0 || (path[len] != '/' && path[len] != '\0'))
        return NULL;
    return strcmp(path + len, "/") == 0 ? "" : path + len;
}

static bool join(char out[static PATH_MAX], const char *folder, const char *rest)
{
    int n = snprintf(out, PATH_MAX, "%s%s", strcmp(folder, "/") == 0 && *rest ? "" : folder, rest);
    return n >= 0 && n < PATH_MAX;
}

/* Where in its file system an open file is. */
static int place_of(const struct mounts *mounts,
                    int fd,
                    const struct mount **ret_mount,
                    char place[static PATH_MAX])
{
    char link[48], path[PATH_MAX];
    const struct mount *mount = mount_of(mounts, fd);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0 || !mount)
        return n < 0 ? -errno : -ESTALE;
    path[n] = '\0';
    const char *rest = below(path, mount->point);
    if (!rest || !join(place, mount->root, rest))
        return -ESTALE;
    *ret_mount = mount;
    return 0;
}

static struct hidden_thing *hidden_new(struct hidden *hidden)
{
    size_t count = hidden->count + 1;
    struct hidden_thing *things = realloc(hidden->things, count * sizeof(*things));
    if (!things)
        return NULL;
    hidden->things = things;
    hidden->count = count;
    return &things[count - 1];
}

static void mounts_forget(struct hidden *hidden)
{
    if (hidden->mounts)
        mounts_free(hidden->mounts);
    free(hidden->mounts);
    hidden->mounts = NULL;
}

static int mounts_know(struct hidden *hidden)
{
    if (hidden->mounts)
        return 0;
    hidden->mounts = calloc(1, sizeof(*hidden->mounts));
    int r = hidden->mounts ? mounts_read(hidden->mounts) : -ENOMEM;
    if (r)
        mounts_forget(hidden);
    return r;
}

/* Things are added one after the other: their mounts are read once, and again where one is newer. */
static int place_known(struct hidden *hidden,
                       int fd,
                       const struct mount **ret_mount,
                       char place[static PATH_MAX])
{
    bool known = hidden->mounts != NULL;
    int r = mounts_know(hidden);
    if (r == 0)
        r = place_of(hidden->mounts, fd, ret_mount, place);
    if (r != -ESTALE || !known)
        return r;
    mounts_forget(hidden);
    r = mounts_know(hidden);
    return r ? r : place_of(hidden->mounts, fd, ret_mount, place);
}

/* Takes over the descriptor. */
static int hidden_add_open(struct hidden *hidden, const char *path, int fd)
{
    const struct mount *mount = NULL;
    struct hidden_thing *thing;
    struct stat st;
    char place[PATH_MAX];
    int r = fstat(fd, &st) < 0 ? -errno : 0;
    if (r == 0 && hidden->count == HIDDEN_MAX)
        r = -E2BIG;
    if (r == 0)
        r = place_known(hidden, fd, &mount, place);
    if (r == 0) {
        thing = hidden_new(hidden);
        if (thing)
            *thing = (struct hidden_thing){strdup(path), strdup(mount->fs), strdup(place),
                                           st.st_dev, st.st_ino};
        if (!thing || !thing->path || !thing->fs || !thing->place)
            r = -ENOMEM;
    }
    close(fd);
    return r;
}

/* Without root: what we may not reach, pods may not either. */
static bool hidden_is_out_of_reach(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP;
}

int hidden_add(struct hidden *hidden, const char *path)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return hidden_is_out_of_reach(errno) ? 0 : -errno;
    return hidden_add_open(hidden, path, fd);
}

int hidden_add_exact(struct hidden *hidden, const char *path)
{
    int fd = open_exact(path, O_PATH);
    if (fd < 0)
        return hidden_is_out_of_reach(-fd) ? 0 : fd;
    return hidden_add_open(hidden, path, fd);
}

void hidden_done(struct hidden *hidden)
{
    for (size_t i = 0; i < hidden->count; i++) {
        free(hidden->things[i].path);
        free(hidden->things[i].fs);
        free(hidden->things[i].place);
    }
    free(hidden->things);
    hidden->things = NULL;
    hidden->count = 0;
    mounts_forget(hidden);
}

int hidden_find(const struct hidden *hidden, int fd, const struct hidden_thing **ret)
{
    struct mounts mounts = {0};
    const struct mount *mount = NULL;
    struct stat st;
    char place[PATH_MAX];
    *ret = NULL;
    int r = fstat(fd, &st) < 0 ? -errno : mounts_read(&mounts);
    if (r == 0)
        r = place_of(&mounts, fd, &mount, place);
    for (size_t i = 0; r == 0 && !*ret && i < hidden->count; i++) {
        const struct hidden_thing *thing = &hidden->things[i];
        bool same = st.st_dev == thing->dev && st.st_ino == thing->ino;
        if (same || (strcmp(mount->fs, thing->fs) == 0 && below(place, thing->place)))
            *ret = thing;
    }
    mounts_free(&mounts);
    return r;
}

void hidden_type(int fd, char out[static 32])
{
    struct mounts mounts = {0};
    const struct mount *mount = mounts_read(&mounts) == 0 ? mount_of(&mounts, fd) : NULL;
    (void)snprintf(out, 32, "%s", mount ? mount->type : "");
    mounts_free(&mounts);
}

int hidden_mounts(struct hidden *hidden, hidden_mount_fn *each, void *user)
{
    int r = mounts_know(hidden);
    for (size_t i = 0; r == 0 && i < hidden->mounts->count; i++)
        r = each(user, hidden->mounts->items[i].point, hidden->mounts->items[i].type);
    return r;
}

/* Is the mount what is seen at its point, or is another one over it? */
static bool is_seen(const struct mount *mount)
{
    int fd = open_exact(mount->point, O_PATH);
    bool seen = fd >= 0 && mount_id(fd) == mount->id;
    if (fd >= 0)
        close(fd);
    return seen;
}

static bool is_thing(const char *path, const struct hidden_thing *thing)
{
    struct stat st;
    int fd = open_exact(path, O_PATH);
    bool same =
        fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == thing->dev && st.st_ino == thing->ino;
    if (fd >= 0)
        close(fd);
    return same;
}

static int places_of(const struct hidden_thing *thing,
                     const struct mount *mount,
                     hidden_place_fn *place,
                     void *user)
{
    char path[PATH_MAX];
    if (strcmp(mount->fs, thing->fs) != 0)
        return 0;
    /* The mount shows the thing, or a part of it. */
    if (below(mount->root, thing->place))
        return is_seen(mount) ? place(user, mount->point) : 0;
    const char *rest = below(thing->place, mount->root);
    if (!rest || !join(path, mount->point, rest) || !is_thing(path, thing))
        return 0;
    return place(user, path);
}

static int places_in(const struct mounts *mounts,
                     const struct hidden *hidden,
                     const char *top,
                     hidden_place_fn *place,
                     void *user)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < mounts->count; i++) {
        const struct mount *mount = &mounts->items[i];
        if (!below(mount->point, top))
            continue;
        if (hidden->with_proc && strcmp(mount->type, "proc") == 0 && is_seen(mount))
            r = place(user, mount->point);
        for (size_t k = 0; r == 0 && k < hidden->count; k++)
            r = places_of(&hidden->things[k], mount, place, user);
    }
    return r;
}

int hidden_places(const struct hidden *hidden, const char *top, hidden_place_fn *place, void *user)
{
    struct mounts mounts = {0};
    int r = mounts_read(&mounts);
    if (r == 0)
        r = places_in(&mounts, hidden, top, place, user);
    mounts_free(&mounts);
    return r;
}

int hidden_places_known(const struct hidden *hidden, hidden_place_fn *place, void *user)
{
    return hidden->mounts ? places_in(hidden->mounts, hidden, "/", place, user) : 0;
}
