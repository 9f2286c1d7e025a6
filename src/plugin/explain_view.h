#pragma once

#include "base/str.h"
#include "plugin/view.h"

#include <stdint.h>

struct arena;
struct buf;
struct json;

/* explain_view: why a job, pod or pod group waits, from everything that says something about it:
 * what it asks for, what stands in its way, how its queue is, who is before it, what its pods and
 * events say. Each sentence once. No I/O. */
struct explain_view {
    const char *program; /* as it is called, for what to type next */
    struct str ns;
    struct str name;
    const struct json *job; /* one of these three, the others NULL */
    const struct json *pod;
    const struct json *group;   /* of the job or the pod too, if it has one */
    const struct json *owner;   /* what the group was made for, of any other kind */
    const struct json *queue;   /* NULL: it does not exist, or nobody may see it */
    bool queue_hidden;          /* nobody may see it */
    struct view_objects pods;   /* also of others */
    struct view_objects events; /* also of others; they are sorted */
    unsigned wraps_at;          /* of struct term */
    int64_t now_ms;
};

void explain_write(struct buf *out, struct arena *arena, const struct explain_view *view);
/* The same for programs. */
struct json *explain_record(struct arena *arena, const struct explain_view *view);
