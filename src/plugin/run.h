#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;

/* What stands behind the flags of `run`. */
struct run_words {
    const char *const *args;
    size_t count;
    bool dashed; /* behind "--" */
    bool module; /* -m */
};

/* The command that the ranks run: "python train.py --lr 0.1". -EINVAL in words. */
int run_command_text(struct arena *arena,
                     const struct run_words *words,
                     struct str *ret,
                     struct err *err);
/* The part of an absolute path that lies below `folder`, also absolute; NULL: it does not. */
const char *run_inside(const char *folder, const char *script);
/* What the job calls a script of this machine: by its place in the folder that is sent, or by its whole path. */
const char *run_script(struct arena *arena, const char *folder, const char *script);
