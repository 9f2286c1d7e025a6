#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct object;

/* queue_writer: patches of the status of queues, one at a time for each queue: of two under way at
 * once the older may arrive last, and stay. */
struct queue_writer;

struct queue_writer_options {
    struct api *api;
    /* A patch failed, or one was left out while another was under way: look at the queues again. */
    void (*again)(void *user, bool failed);
    void *user;
    uint64_t seed; /* of hash tables */
};

struct queue_writer *queue_writer_new(const struct queue_writer_options *options);
/* Calls under way are not waited for. NULL is fine. */
void queue_writer_free(struct queue_writer *writer);

/* Merges `body` into the queue by its status subresource; nothing while an earlier patch of the
 * queue is under way. */
void queue_writer_patch(struct queue_writer *writer, const struct object *queue, struct str body);
