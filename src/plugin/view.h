#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct json;
struct object;

/* view: the tables that `list`, `status` and `top` print, from objects and
 * `now_ms`. No I/O: what is printed can be tested. */
struct view_objects {
    const struct object **items;
    size_t count;
};

struct view_jobs_options {
    bool wide;
    bool with_namespace;        /* NAME is NAMESPACE/NAME */
    struct view_objects groups; /* pod groups, also of others; for when jobs start (wide) */
    unsigned wraps_at;          /* of struct term, here and below: tables fit */
    int64_t now_ms;
};

void view_jobs(struct buf *out,
               struct arena *arena,
               struct view_objects jobs,
               const struct view_jobs_options *options);
/* What a job is said to be in, on the page too: one that waits is Queued, also before anybody has
 * looked at it (""). */
struct str view_phase(struct str phase);
/* "Name:        value"; nothing for an empty value. */
void view_line(struct buf *out, const char *name, struct str value);
/* When a job that waits will start, in words; empty: nobody knows, or it does not wait. */
struct str view_starts(struct arena *arena,
                       const struct object *job,
                       struct view_objects groups,
                       int64_t now_ms);
/* Nothing, not even the headers, when there is no pod. */
void view_pods(struct buf *out, struct arena *arena, struct view_objects pods, unsigned wraps_at);
/* What a pod is doing, or why it does not, in one line. */
struct str view_pod_words(struct arena *arena, const struct json *pod);

struct view_top {
    struct view_objects nodes;
    struct view_objects pods;
    struct view_objects jobs;
    struct view_objects groups; /* of everybody, where pods are one's own alone */
    bool own;                   /* that is so */
    unsigned wraps_at;
    int64_t now_ms;
};

void view_top(struct buf *out, struct arena *arena, const struct view_top *view);
