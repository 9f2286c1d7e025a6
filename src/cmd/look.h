#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "tool/term.h"

#include <stdbool.h>
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
    const char *selector;
    bool watch;
};

enum look_output {
    LOOK_TEXT,
    LOOK_JSON,
    LOOK_YAML,
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

/* Of a command that prints a table of `what`. */
#define LOOK_TABLE(what)                                                                  \
    LOOK_OUTPUT(look_tables, "table", "a table for people, json or yaml"),                \
        {"selector",        'l',                                                          \
         OPTION_STR,        offsetof(struct look_values, selector),                       \
         .value = "LABELS", .help = what " with these labels, such as team=vision",       \
         .flag_only = true},                                                              \
    {                                                                                     \
        "watch", 'w', OPTION_BOOL, offsetof(struct look_values, watch),                   \
            .help = "go on, and print the table again when it changes", .flag_only = true \
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
/* What a command found: the same as rows and as trees. */
struct look_found {
    struct table table;
    struct json *list;
    const char *nothing; /* said in place of a table without rows; NULL: its headers alone */
};
/* Collects it, with look->arena, which lasts until it is printed. */
typedef int look_collect(struct look *look, void *user, struct look_found *found, struct err *err);
/* Prints what was found as `values` have it; with --watch again whenever it has changed, until it is
 * interrupted or the server is gone. */
int look_show(struct look *look,
              const struct look_values *values,
              look_collect *collect,
              void *user,
              struct err *err);
/* All objects of a kind as trees, in the order the server tells them; `ns` empty: everywhere. */
int look_all(struct look *look,
             const struct kind *kind,
             struct str ns,
             struct look_list *ret,
             struct err *err);
/* The same of those with labels; `selector` NULL: of all. */
int look_selected(struct look *look,
                  const struct kind *kind,
                  const char *selector,
                  struct look_list *ret,
                  struct err *err);
/* One request of any kind; *ret is the object of the answer, unless NULL. */
int look_call(struct look *look,
              const struct api_request *request,
              const struct json **ret,
              struct err *err);
