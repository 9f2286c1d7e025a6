#pragma once

#include "base/str.h"
#include "plugin/view.h"

#include <stdint.h>

struct arena;
struct buf;
struct json;

/* queues_view: the queues of a namespace, which jobs name, and the tree of the scheduler's queues:
 * what each may have, is entitled to, holds and asks for, and who waits in it. No I/O. */
struct queues_view {
    struct view_objects own;    /* TorchrunQueues */
    struct view_objects jobs;   /* TorchrunJobs */
    struct view_objects queues; /* of the scheduler; none: nobody may see them */
    struct view_objects groups; /* pod groups */
    unsigned wraps_at;          /* of struct term */
    int64_t now_ms;
};

void queues_write(struct buf *out, struct arena *arena, const struct queues_view *view);
/* The same for programs: a row a queue of the scheduler, with the TorchrunQueues that use it. */
struct json *queues_record(struct arena *arena, const struct queues_view *view);

/* GPUs of a queue's status in `field` (allocated, requested, fairShare): "2", "0.50", "unlimited". */
struct str queue_amount(struct arena *arena, const struct json *queue, const char *field);
/* What a queue's spec says of its GPUs in `field` (quota, limit): "-" when nothing, "unlimited"
 * for -1. */
struct str queue_share(struct arena *arena, const struct json *queue, const char *field);
