#include "shim/openin.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOMEBODY 70002

struct place {
    char top[32];
    int fd;
};

static const char *path_in(const struct place *place, const char *name)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", place->top, name);
    return path;
}

static void folder_make(const struct place *place, const char *name)
{
    EXPECT(mkdir(path_in(place, name), 0755) == 0);
}

static void link_make(const struct place *place, const char *name, const char *to, uid_t uid)
{
    EXPECT(symlink(to, path_in(place, name)) == 0);
    EXPECT(lchown(path_in(place, name), uid, (gid_t)-1) == 0);
}

/* The inode that `path` leads to, or -errno. */
static long led_to(const struct place *place, const char *path)
{
    struct stat st;
    int fd = open_trusted(place->fd, path, O_PATH | O_DIRECTORY);
    if (fd < 0)
        return fd;
    EXPECT(fstat(fd, &st) == 0);
    close(fd);
    return (long)st.st_ino;
}

static long inode(const struct place *place, const char *name)
{
    struct stat st;
    EXPECT(stat(path_in(place, name), &st) == 0);
    return (long)st.st_ino;
}

TEST(links_of_others_are_no_way_to_a_folder_that_is_trusted)
{
    struct place place = {.top = "/tmp/muster-openin-XXXXXX"};

    if (geteuid() != 0)
        return; /* nobody else can make links of others */
    EXPECT(mkdtemp(place.top) != NULL);
    place.fd = open(place.top, O_PATH | O_DIRECTORY | O_CLOEXEC);
    EXPECT(place.fd >= 0);
    folder_make(&place, "data");
    folder_make(&place, "data/bob");
    folder_make(&place, "alice");
    link_make(&place, "mine", "data", 0);
    link_make(&place, "whole", "/data/bob", 0);
    link_make(&place, "theirs", "alice", SOMEBODY);
    link_make(&place, "data/theirs", "/alice", SOMEBODY);
    link_make(&place, "two", "data/theirs", 0);
    link_make(&place, "round", "round", 0);
    EXPECT(led_to(&place, "/data/bob") == inode(&place, "data/bob"));
    EXPECT(led_to(&place, "//data/./bob/") == inode(&place, "data/bob"));
    EXPECT(led_to(&place, "/") == inode(&place, "."));
    /* Those of root are as good as folders; an absolute one begins at the top. */
    EXPECT(led_to(&place, "/mine/bob") == inode(&place, "data/bob"));
    EXPECT(led_to(&place, "/whole") == inode(&place, "data/bob"));
    EXPECT(led_to(&place, "/theirs") == -ELOOP);
    EXPECT(led_to(&place, "/data/theirs") == -ELOOP);
    EXPECT(led_to(&place, "/two") == -ELOOP);
    EXPECT(led_to(&place, "/round") == -ELOOP);
    EXPECT(led_to(&place, "/data/../alice") == -ELOOP);
    EXPECT(led_to(&place, "/nothing") == -ENOENT);
    close(place.fd);
    static const char *const all[] = {"round", "two",   "data/theirs", "theirs", "whole",
                                      "mine",  "alice", "data/bob",    "data"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        (void)remove(path_in(&place, all[i]));
    (void)rmdir(place.top);
}

TEST(mounts_are_told_from_folders)
{
    EXPECT(is_mount_point("/proc"));
    EXPECT(!is_mount_point("/proc/self"));
    EXPECT(!is_mount_point("/proc/sys/kernel"));
    EXPECT(!is_mount_point("/proc/nothing"));
}
