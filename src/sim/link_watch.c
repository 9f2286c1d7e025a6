#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sim/link_internal.h"
#include "sim/version.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MAP_SEED   7
#define EVENTS_MAX 100000 /* of one watch, not told yet; a simulation that gets there is broken */

static struct seen *seen_of(struct api_watch *watch, const struct object *object)
{
    char key[1024];
    int len =
        snprintf(key, sizeof(key), STR_FMT "/" STR_FMT, STR_ARG(object->ns), STR_ARG(object->name));

    assert(len > 0 && (size_t)len < sizeof(key));
    struct seen *seen = map_get(&watch->seen, (struct str){key, (size_t)len});
    if (seen)
        return seen;
    seen = mem_alloc(sizeof(*seen) + (size_t)len);
    seen->len = (size_t)len;
    memcpy(seen->text, key, (size_t)len);
    map_set(&watch->seen, (struct str){seen->text, seen->len}, seen);
    return seen;
}

static void seen_drop(struct api_watch *watch, struct seen *seen)
{
    map_remove(&watch->seen, (struct str){seen->text, seen->len});
    object_unref(seen->object);
    mem_free(seen);
}

static void watch_push(struct api_watch *watch, const struct api_change *change)
{
    assert(watch->queue.count < EVENTS_MAX);
    VEC_PUSH(NULL, &watch->queue,
             (struct told){.event = change->event,
                           .object = change->object ? object_ref(change->object) : NULL,
                           .previous = change->previous ? object_ref(change->previous) : NULL,
                           .revision = change->revision,
                           .unordered = watch->healing && watch->synced});
}

/* What was there when the watch broke and is not any more. */
static void heal_end(struct api_watch *watch, uint64_t revision)
{
    MAP_FOREACH(&watch->seen, entry) {
        struct seen *seen = entry->value;

        if (seen->listed)
            continue;
        watch_push(watch, &(struct api_change){
                              .event = API_DELETED, .object = seen->object, .revision = revision});
        seen_drop(watch, seen);
    }
    watch->healing = false;
}

static void on_seen(struct api_watch *watch, const struct api_change *change)
{
    struct api_change told = *change;

    if (change->event == API_SYNCED && watch->healing) {
        heal_end(watch, change->revision);
        if (watch->synced)
            return;
    }
    watch->synced = watch->synced || change->event == API_SYNCED;
    if (change->object) {
        struct seen *seen = seen_of(watch, change->object);
        bool same = watch->healing && seen->object && seen->object->revision == change->revision &&
                    change->event == API_ADDED;

        told.previous = seen->object;
        seen->listed = true;
        if (seen->object && change->event == API_ADDED)
            told.event = API_MODIFIED;
        if (!same)
            watch_push(watch, &told);
        if (change->event == API_DELETED) {
            seen_drop(watch, seen);
            return;
        }
        const struct object *before = seen->object;
        seen->object = object_ref(change->object);
        object_unref(before);
        return;
    }
    watch_push(watch, &told);
}

static void on_event(void *user, const struct api_change *change)
{
    struct api_watch *watch = user;
    struct api_change told = *change;

    if (watch->stopped)
        return;
    if (watch->link->options.older && change->object)
        told.object = version_see(change->object);
    on_seen(watch, &told);
    if (told.object != change->object)
        object_unref(told.object);
}

struct api_watch *link_watch_start(struct api *api,
                                   const struct api_watch_request *request,
                                   api_watch_fn *fn,
                                   void *user)
{
    struct link *link = (struct link *)api;
    struct api_watch *watch = MEM_NEW(struct api_watch);

    watch->link = link;
    watch->request = *request;
    watch->request.ns = str_dup(&watch->arena, request->ns);
    watch->request.label_selector = str_dup(&watch->arena, request->label_selector);
    watch->request.field_selector = str_dup(&watch->arena, request->field_selector);
    watch->fn = fn;
    watch->user = user;
    watch->seen.seed = MAP_SEED;
    watch->below = api_watch(link->options.below, &watch->request, on_event, watch);
    VEC_PUSH(NULL, &link->watches, watch);
    return watch;
}

static void watch_empty(struct api_watch *watch)
{
    for (size_t i = watch->head; i < watch->queue.count; i++) {
        object_unref(watch->queue.items[i].object);
        object_unref(watch->queue.items[i].previous);
    }
    watch->queue.count = watch->head = 0;
}

void link_watch_stop(struct api *api, struct api_watch *watch)
{
    struct link *link = (struct link *)api;

    watch->stopped = true;
    api_watch_stop(link->options.below, watch->below);
    watch->below = NULL;
    watch_empty(watch);
}

static void watch_free(struct api_watch *watch)
{
    watch_empty(watch);
    VEC_DONE(&watch->queue);
    MAP_FOREACH(&watch->seen, entry)
        seen_drop(watch, entry->value);
    map_done(&watch->seen);
    arena_done(&watch->arena);
    mem_free(watch);
}

void link_watches_sweep(struct link *link)
{
    size_t kept = 0;

    for (size_t i = 0; i < link->watches.count; i++) {
        if (link->watches.items[i]->stopped)
            watch_free(link->watches.items[i]);
        else
            link->watches.items[kept++] = link->watches.items[i];
    }
    link->watches.count = kept;
}

void link_watch_break(struct api_watch *watch)
{
    struct link *link = watch->link;

    if (watch->broken)
        return;
    link_trace(link, "watch of %s breaks", watch->request.kind->plural);
    link_tell(link, "%s hears nothing more of %s: the watch breaks.", link->options.name,
              watch->request.kind->plural);
    api_watch_stop(link->options.below, watch->below);
    watch->below = NULL;
    watch->broken = true;
}

/* What has changed meanwhile is found by comparing with the state. What arrived before the break is
 * still told: the queue stays. */
void link_watch_heal(struct api_watch *watch)
{
    struct link *link = watch->link;

    link_trace(link, "watch of %s heals", watch->request.kind->plural);
    link_tell(link, "%s hears of %s again, from the state as it is now.", link->options.name,
              watch->request.kind->plural);
    MAP_FOREACH(&watch->seen, entry)
        ((struct seen *)entry->value)->listed = false;
    watch->broken = false;
    watch->healing = true;
    watch->below = api_watch(link->options.below, &watch->request, on_event, watch);
    link->options.settle(link->options.user);
}

void link_watch_tell(struct api_watch *watch)
{
    struct told told = watch->queue.items[watch->head++];

    if (watch->head == watch->queue.count)
        watch->queue.count = watch->head = 0;
    if (told.object)
        link_trace(watch->link, "event %s " STR_FMT "/" STR_FMT " @%llu",
                   watch->request.kind->plural, STR_ARG(told.object->ns),
                   STR_ARG(told.object->name), (unsigned long long)told.revision);
    watch->fn(watch->user, &(struct api_change){.event = told.event,
                                                .object = told.object,
                                                .previous = told.previous,
                                                .revision = told.revision,
                                                .unordered = told.unordered});
    object_unref(told.object);
    object_unref(told.previous);
}
