#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/str.h"
#include "server/queue.h"
#include "test.h"

#include <stddef.h>

#define MAX 100

static struct object *object_of(const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(&kind_configmap, str_from(text), &object, NULL) == 0);
    return object;
}

TEST(queue_of_events_counts_what_came_after_the_state_at_the_start)
{
    struct object *object = object_of("{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}}");
    struct queue queue = {0};
    struct queue_item item = {API_ADDED, 7, object};

    for (int i = 0; i < 5 * MAX; i++) /* a large state is no reason to list again */
        queue_push(&queue, item);
    queue_mark_initial(&queue);
    EXPECT(!queue_is_behind(&queue, MAX));
    for (int i = 0; i < MAX; i++)
        queue_push(&queue, item);
    EXPECT(!queue_is_behind(&queue, MAX));
    queue_push(&queue, item);
    EXPECT(queue_is_behind(&queue, MAX));
    EXPECT(queue_pop(&queue, &item) && item.number == 7 && item.object == object);
    object_unref(item.object);
    queue_clear(&queue);
    EXPECT(!queue_pop(&queue, &item));
    queue_done(&queue);
    object_unref(object);
}

TEST(queue_of_events_gives_back_what_a_burst_needed)
{
    struct queue queue = {0};
    struct queue_item item = {.event = API_BOOKMARK};

    for (int i = 0; i < 5 * MAX; i++)
        queue_push(&queue, item);
    queue_mark_initial(&queue);
    while (queue_pop(&queue, &item))
        ;
    EXPECT(queue.items.capacity == 0);
    /* What was told is told: from here on everything counts. */
    for (int i = 0; i <= MAX; i++)
        queue_push(&queue, item);
    EXPECT(queue_is_behind(&queue, MAX));
    queue_done(&queue);
}
