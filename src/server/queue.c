#include "server/queue.h"

#include "api/api.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "http/server.h"

#include <stdbool.h>
#include <stddef.h>

#define KEPT_ITEMS 64 /* of an empty queue: what a burst needed is given back */

void queue_push(struct queue *queue, struct queue_item item)
{
    (void)object_ref(item.object);
    VEC_PUSH(NULL, &queue->items, item);
}

void queue_mark_initial(struct queue *queue)
{
    queue->initial_count = queue_count(queue);
}

bool queue_is_behind(const struct queue *queue, size_t max)
{
    return queue_count(queue) > max + queue->initial_count;
}

void queue_clear(struct queue *queue)
{
    for (size_t i = queue->head; i < queue->items.count; i++)
        object_unref(queue->items.items[i].object);
    queue->head = queue->items.count = 0;
}

void queue_done(struct queue *queue)
{
    queue_clear(queue);
    VEC_DONE(&queue->items);
}

bool queue_pop(struct queue *queue, struct queue_item *ret)
{
    if (!queue_count(queue))
        return false;
    *ret = queue->items.items[queue->head++];
    if (queue_count(queue))
        return true;
    queue->head = queue->items.count = queue->initial_count = 0;
    if (queue->items.capacity > KEPT_ITEMS)
        VEC_DONE(&queue->items);
    return true;
}

bool queue_pump(struct queue *queue, struct http_exchange *x, queue_write_fn *write, void *user)
{
    _cleanup_(buf_done) struct buf buf = {0};
    struct queue_item item;

    size_t max = queue->pending_bytes_max ? queue->pending_bytes_max : QUEUE_PENDING_BYTES_MAX;

    while (http_pending(x) < max && queue_pop(queue, &item)) {
        buf_clear(&buf);
        write(user, &buf, &item);
        http_write(x, buf_str(&buf));
        object_unref(item.object);
        if (item.event == API_CLOSED)
            return true;
    }
    return false;
}
