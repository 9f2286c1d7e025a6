#pragma once

#include <stdbool.h>
#include <stddef.h>
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

/* table_fields.c: of kinds whose columns show what stands in their fields. False: behind the last
 * one, or another kind. The cells have a comma before each. */
struct table_column {
    const char *name;
    const char *type;
    int priority; /* 1: with -o wide */
};

bool table_field_column(const struct kind *kind, size_t index, struct table_column *ret);
bool table_field_cells(struct arena *arena,
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
