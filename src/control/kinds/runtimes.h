#pragma once

#include <stddef.h>

/* runtimes: the ClusterTrainingRuntimes of deploy/runtimes, built into the program as compact JSON
 * by tools/embed_crds.c. */
struct runtime_builtin {
    const char *name;
    const char *text;
    size_t text_len;
};

extern const struct runtime_builtin runtime_builtins[];
extern const size_t runtime_builtin_count;
