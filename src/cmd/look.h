#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct api_request;
struct arena;
struct err;
struct json;
struct kind;
struct kube;
struct option;
struct table;

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
    int output; /* enum look_output, for commands with LOOK_OUTPUT */
};

enum look_output {
    LOOK_TEXT,
    LOOK_JSON,
};
extern const char *const look_tables[]; /* LOOK_OUTPUT of a command that prints a table */

/* The options that go with struct look_values, at its start. */
#define LOOK_OPTIONS                                                                             \
    {"kubeconfig",    0,                                                                         \
     OPTION_STR,      offsetof(struct look_values, kubeconfig),                                  \
     .value = "FILE", .help = "kubeconfig of the cluster (default: the one that kubectl uses)"}, \
    {                                                                                            \
        "context", 0, OPTION_STR, offsetof(struct look_values, context),                         \
            .value = "NAME", .help = "context in it (default: the current one)"                  \
    }

#define LOOK_OUTPUT(forms, first, text)                                          \
    {                                                                            \
        "output", 'o', OPTION_CHOICE, offsetof(struct look_values, output),      \
            .fallback = first, .choices = forms, .value = "FORMAT", .help = text \
    }

struct look_list VEC_FIELDS(const struct json *);

int look_open(struct look *look,
              struct arena *arena,
              const struct look_values *values,
              struct err *err);
void look_close(struct look *look);
/* What was found, to standard output: with -o json `json`, else `table`, which may be NULL. */
void look_print(const struct look_values *values,
                const struct table *table,
                const struct json *json);
/* All objects of a kind as trees, in the order the server tells them; `ns` empty: everywhere. */
int look_all(struct look *look,
             const struct kind *kind,
             struct str ns,
             struct look_list *ret,
             struct err *err);
/* One request of any kind; *ret is the object of the answer, unless NULL. */
int look_call(struct look *look,
              const struct api_request *request,
              const struct json **ret,
              struct err *err);
