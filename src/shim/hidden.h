#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* hidden: files and folders that no pod may see, however they are called.
 *
 * A name proves nothing: a folder can be mounted a second time, be reached through links, or lie
 * below what is shown. So a thing is known by its file system and its place in it, as
 * /proc/self/mountinfo has them, and by its inode: whatever leads to the same place of the same
 * file system is the same thing. Libc only: the agent refuses with it, early and with a reason;
 * muster-shim decides with it on the very descriptors that it mounts. */
/* The data folder, the kubeconfigs ever written, and what is private in some hundred homes. */
#define HIDDEN_MAX 4096

struct hidden_thing {
    char *path;  /* as it was given */
    char *fs;    /* "8:1", of mountinfo */
    char *place; /* in that file system */
    dev_t dev;
    ino_t ino;
};

struct mounts;

struct hidden {
    struct mounts *mounts; /* of this process, when the first thing was added */
    size_t count;
    bool with_proc; /* hidden_places() tells of mounted /proc too: there are other roots in it */
    struct hidden_thing *things;
};

/* What is not there, or out of reach, needs no hiding. 0 or -errno. */
int hidden_add(struct hidden *hidden, const char *path);
/* The same for a name that others can change: a link in it is not followed, and nothing is hidden. */
int hidden_add_exact(struct hidden *hidden, const char *path);
void hidden_done(struct hidden *hidden);

/* The thing that the open file is, or lies in; NULL: none. What cannot be found out is an error. */
int hidden_find(const struct hidden *hidden, int fd, const struct hidden_thing **ret);

/* The type of file system an open file is on, "ext4", or "". */
void hidden_type(int fd, char out[static 32]);

/* Every place at or below `top` where a thing, or a mounted part of one, is seen by this process.
 * Stops at the first error of `place`, which may mount there. */
typedef int hidden_place_fn(void *user, const char *path);
int hidden_places(const struct hidden *hidden, const char *top, hidden_place_fn *place, void *user);

/* The same for everything below /, by the mounts there were when the first thing was added: for who is alone in
 * its mount namespace since, and asks for none of the mounts that it made itself. */
int hidden_places_known(const struct hidden *hidden, hidden_place_fn *place, void *user);

/* Every mount of this process, as of when the first thing was added, or of now where none was. Stops at the
 * first error of `each`. */
typedef int hidden_mount_fn(void *user, const char *point, const char *type);
int hidden_mounts(struct hidden *hidden, hidden_mount_fn *each, void *user);

/* A path of /proc/self/mountinfo has \040 and the like for blanks: undo in place. */
void mountinfo_unescape(char *text);
