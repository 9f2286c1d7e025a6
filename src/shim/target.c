#include "shim/openin.h"
#include "shim/parts.h"
#include "shim/root.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

/* shim_target: mount points. In the container's own file system the shim makes them. What lies in a volume of a person
 * may be anybody's on the machine, and what is made there stays: so it is made with her rights. */

int rights_of_user(const struct root *root)
{
    if (setgroups(root->group_count, root->groups) < 0)
        return -errno;
    (void)setfsgid(root->gid);
    (void)setfsuid(root->uid);
    return setfsuid((uid_t)-1) == (int)root->uid ? 0 : -EPERM;
}

void rights_of_shim(void)
{
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
}

/* Where an open file is, as the kernel names it. */
static bool name_of(int fd, char out[static PATH_BYTES])
{
    char link[32];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

int target_note(struct root *root, const char *path)
{
    char name[PATH_BYTES];
    int fd = open_in(root->fd, path, O_PATH, 0);
    bool named = fd >= 0 && name_of(fd, name);
    char **volumes = realloc(root->volumes, (root->volume_count + 1) * sizeof(*volumes));
    if (fd >= 0)
        close(fd);
    if (volumes)
        root->volumes = volumes;
    if (!named || !volumes || !(volumes[root->volume_count] = strdup(name)))
        return shim_fail(root->words, "open", path);
    root->volume_count++;
    return 0;
}

/* Is what is missing of the path to be made in a person's volume? What is nearest above it says so. */
static bool is_in_volume(const struct root *root, const char *path)
{
    char part[PATH_BYTES], name[PATH_BYTES];
    int fd = -1;
    if (!root->volume_count || strlen(path) >= sizeof(part))
        return false;
    memcpy(part, path, strlen(path) + 1);
    for (char *slash; fd < 0 && (slash = strrchr(part, '/'));) {
        *slash = '\0';
        fd = open_in(root->fd, *part ? part : "/", O_PATH | O_DIRECTORY, 0);
    }
    bool known = fd >= 0 && name_of(fd, name);
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; known && i < root->volume_count; i++) {
        size_t len = strlen(root->volumes[i]);
        if (strncmp(name, root->volumes[i], len) == 0 && (name[len] == '/' || name[len] == '\0'))
            return true;
    }
    return !known;
}

/* A file to bind another one over, its folder made where missing. */
static int make_file(int root_fd, const char *path)
{
    char folder[PATH_BYTES];
    if (strlen(path) >= sizeof(folder))
        return -ENAMETOOLONG;
    memcpy(folder, path, strlen(path) + 1);
    char *slash = strrchr(folder, '/');
    int fd = -1;
    if (slash) {
        *slash = '\0';
        fd = folder_make_in(root_fd, slash == folder ? "/" : folder);
        if (fd < 0)
            return fd;
        close(fd);
    }
    fd = open_in(root_fd, path, O_CREAT | O_WRONLY, 0644);
    if (fd < 0)
        return fd;
    close(fd);
    return open_in(root_fd, path, O_PATH, 0644);
}

int target_open(const struct root *root, const char *path, bool is_folder)
{
    int fd = open_in(root->fd, path, O_PATH | (is_folder ? O_DIRECTORY : 0), 0);
    if (fd >= 0)
        return fd;
    bool hers = is_in_volume(root, path);
    int r = hers ? rights_of_user(root) : 0;
    fd = r ? r : is_folder ? folder_make_in(root->fd, path) : make_file(root->fd, path);
    if (hers)
        rights_of_shim();
    return fd;
}
