#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "workspace/ignore.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* rules: what of a folder is not sent, and by which rule.
 *
 * .gitignore and .torchrunignore of each folder; those of the folders above as well, up to the top
 * of the git repository that it lies in, and its .git/info/exclude. Then our own, whatever the
 * files say: `.git`, the data folder of a muster, copies that were cut (RULES_CUT_NAME), and the
 * places that the caller hides. An environment of Python is left out unless it is asked for: by a
 * line such as "!.venv/" in .torchrunignore, or because the command names it. */
#define RULES_CUT_NAME ".muster-pull-" /* of a file that is being copied home, with a number */

/* A place on this machine that is never sent, by its identity: a path may lead there in many ways. */
struct rules_hidden {
    const char *name; /* the last part of its path */
    const char *what; /* for people: "Muster's data folder" */
    dev_t device;
    ino_t inode;
};

struct rules_left {
    struct str path;
    struct str file; /* of the rule: ".gitignore"; "" for our own */
    struct str rule; /* its line, or what the thing is */
    bool folder;
};

struct rules_options {
    bool repository; /* what stands in the folders above counts */
    const struct rules_hidden *hidden;
    size_t hidden_count;
    const char *command;                                     /* that will run there; may be NULL */
    void (*left)(void *user, const struct rules_left *left); /* may be NULL */
    void (*note)(void *user, const char *text);              /* may be NULL */
    void *user;
};

struct rules {
    struct rules_options options;
    struct arena arena;
    struct ignore ignore;
    char above[WS_PATH_MAX + 2]; /* the folder in its repository: "sub/dir/", or "" */
    size_t above_len;
};

/* For the folder `root`. */
void rules_open(struct rules *rules, const char *root, const struct rules_options *options);
void rules_done(struct rules *rules);
/* The ignore files of a folder of it that has been opened, `path` is "" for the root. Rules of the
 * last one go with rules_cut(), which gets what rules_count() was before. */
void rules_read(struct rules *rules, int folder_fd, struct str path);
size_t rules_count(const struct rules *rules);
void rules_cut(struct rules *rules, size_t count);
/* What a rule is asked about. A link that leads out of the folder is only some bytes, and what it
 * leads to is not sent: people write `data` into .gitignore and expect to find it all the same, so
 * git's rules do not count for it. */
enum rules_thing {
    RULES_FILE,
    RULES_FOLDER,
    RULES_LINK_OUT
};
/* Is parent/name, which is `path`, left out? It is told to options.left, then. */
bool rules_leave_out(struct rules *rules, int parent, struct str path, enum rules_thing thing);
