#pragma once

#include "api/api.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct http_exchange;
struct object;

/* queue: events on their way to one client. They wait as references and become text only when the
 * socket takes them, so that a slow reader costs a pointer an event; one that falls too far behind
 * has to list again. The state at the start does not count: it may be large. */
#define QUEUE_PENDING_BYTES_MAX ((size_t)256 << 10) /* text waiting in one connection */

struct queue_item {
    enum api_event event; /* CLOSED: the last one */
    uint64_t number;      /* whatever its stream needs beside */
    const struct object *object;
};

struct queue {
    VEC(struct queue_item) items;
    size_t head;
    size_t initial_count;
    size_t pending_bytes_max; /* 0: QUEUE_PENDING_BYTES_MAX */
};

static inline size_t queue_count(const struct queue *queue)
{
    return queue->items.count - queue->head;
}

/* Takes a reference of its own. */
void queue_push(struct queue *queue, struct queue_item item);
/* All that waits is the state at the start. */
void queue_mark_initial(struct queue *queue);
/* More than `max` wait beside the state at the start. */
bool queue_is_behind(const struct queue *queue, size_t max);
/* Drops all that waits. */
void queue_clear(struct queue *queue);
void queue_done(struct queue *queue);
/* The next one, whose reference is the caller's now; false: nothing waits. */
bool queue_pop(struct queue *queue, struct queue_item *ret);

typedef void queue_write_fn(void *user, struct buf *buf, struct queue_item *item);
/* Writes what waits as far as the connection takes it. True: CLOSED was written, and was the last. */
bool queue_pump(struct queue *queue, struct http_exchange *x, queue_write_fn *write, void *user);
