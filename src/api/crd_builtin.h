#pragma once

#include "base/str.h"

#include <stddef.h>

struct kind;
struct kind_column;

/* crd_builtin: the CustomResourceDefinitions of deploy/crds, built into the program as compact JSON
 * by tools/embed_crds.c. */
struct crd_builtin {
    const char *name; /* "torchrunjobs.torchrun.ai" */
    const char *text;
    size_t text_len;
};

struct crd_builtin_columns {
    const char *group;
    const char *version;
    const char *plural;
    const struct kind_column *columns;
    size_t count;
};

extern const struct crd_builtin crd_builtins[];
extern const size_t crd_builtin_count;
extern const struct crd_builtin_columns crd_builtin_column_sets[];
extern const size_t crd_builtin_column_set_count;

/* The printer columns of a kind that deploy/crds defines; NULL for others. */
const struct kind_column *crd_builtin_columns(const struct kind *kind, size_t *ret_count);
