#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>
#include <uv.h>

struct api;
struct arena;
struct err;
struct json;
struct kind;
struct kube;
struct option;

/* look: what the commands that only look at the cluster share: one connection, lists read to the
 * end as if calls were synchronous. */
struct look {
    struct arena *arena;
    uv_loop_t loop;
    struct kube *kube;
    struct api *api;
};

struct look_values {
    const char *kubeconfig;
    const char *context;
};

/* The options that go with struct look_values, at its start. */
#define LOOK_OPTIONS                                                              \
    {"kubeconfig",    0,                                                          \
     OPTION_STR,      offsetof(struct look_values, kubeconfig),                   \
     .value = "FILE", .help = "kubeconfig of the cluster (default: as kubectl)"}, \
    {                                                                             \
        "context", 0, OPTION_STR, offsetof(struct look_values, context),          \
            .value = "NAME", .help = "context in it (default: the current one)"   \
    }

struct look_list VEC_FIELDS(const struct json *);

int look_open(struct look *look,
              struct arena *arena,
              const struct look_values *values,
              struct err *err);
void look_close(struct look *look);
/* All objects of a kind as trees, in the order the server tells them; `ns` empty: everywhere. */
int look_all(struct look *look,
             const struct kind *kind,
             struct str ns,
             struct look_list *ret,
             struct err *err);
/* -ENOENT without words when there is none. */
int look_one(struct look *look,
             const struct kind *kind,
             struct str ns,
             struct str name,
             const struct json **ret,
             struct err *err);
