#include "store/expire.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "store/batch.h"
#include "store/edit.h"
#include "store/host.h"
#include "store/shelf.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A kube-apiserver gives events to etcd with a lease of an hour, and each write renews it. Here nobody writes
 * down when an object was written last: one that was made lately is not looked into, and of an older
 * one its own fields say when it was seen again. Driven by turns of the store: where nothing happens,
 * nothing is added either. */

#define LOOKS_MAX       60000 /* the longest between two looks */
#define LOOKS_OF_TTL    20
#define LOOK_PER_TURN   4096
#define DELETE_PER_TURN 256

/* When it was last told of. */
static int64_t told_ms(const struct object *event)
{
    static const char *const fields[] = {"lastTimestamp", "eventTime", "series.lastObservedTime"};
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(event, &arena);
    int64_t last_ms = event->created_ms;

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        int64_t at_ms = 0;

        if (time_parse(json_str_at(root, fields[i]), &at_ms) && at_ms > last_ms)
            last_ms = at_ms;
    }
    return last_ms;
}

static bool is_over(const struct entry *entry, int64_t before_ms)
{
    const struct object *event = entry_latest(entry);

    return event && event == entry->committed && !event->deleted_ms &&
           event->created_ms < before_ms && told_ms(event) < before_ms;
}

static bool is_due(struct store *store, int64_t now_ms)
{
    int64_t pause_ms = store->event_ttl_ms / LOOKS_OF_TTL;

    if (pause_ms > LOOKS_MAX)
        pause_ms = LOOKS_MAX;
    if (store->expiring)
        return true;
    /* A calendar that was set back does not put it off. */
    if (now_ms < store->expire_ms && store->expire_ms - now_ms <= pause_ms)
        return false;
    store->expire_ms = now_ms + pause_ms;
    return true;
}

bool expire_run(struct store *store)
{
    const struct shelf *shelf = shelf_of(store, &kind_event);
    int64_t now_ms = store_now(store);
    size_t deleted = 0;

    if (!shelf || !store->event_ttl_ms || !is_due(store, now_ms))
        return false;
    size_t at = store->expire_next;
    for (size_t i = 0; i < LOOK_PER_TURN && at < shelf->entries.count; i++, at++) {
        if (deleted == DELETE_PER_TURN)
            break;
        if (!is_over(shelf->entries.items[at], now_ms - store->event_ttl_ms))
            continue;
        collect_delete(store, shelf->entries.items[at], STR("Background"));
        deleted++;
    }
    store->expiring = at < shelf->entries.count;
    /* When these are gone, the next one is in their place. What others add or delete meanwhile moves it,
     * too: an event that is passed over is seen the next time. */
    store->expire_next = store->expiring ? at - deleted : 0;
    return store->expiring;
}
