#pragma once

#include <stdint.h>

struct arena;
struct buf;
struct json;
struct kind;
struct object;

/* table: the columns of `kubectl get`, as the real API server prints them. Pure.
 *
 * Custom kinds say their columns in the CRD; built-in ones have a function here that fills the
 * cells. The client prints cells as they are, so ages and words are made here. */

/* The JSON array of column definitions. */
void table_columns(struct buf *buf, const struct kind *kind);
/* The cells of one row without the brackets; `root` is the object's tree. */
void table_cells(struct arena *arena,
                 struct buf *buf,
                 const struct object *object,
                 const struct json *root,
                 int64_t now_ms);

/* table_pod.c: what kubectl shows under READY, STATUS and RESTARTS. */
struct pod_summary {
    const char *status; /* or text in the arena */
    int64_t ready;
    int64_t total;
    int64_t restarts;
    int64_t restarted_ms; /* 0: never */
};

void pod_summarize(struct arena *arena, const struct json *root, struct pod_summary *ret);
