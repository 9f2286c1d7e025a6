#include "store/watch.h"

#include "api/api.h"
#include "api/field.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/fill.h"
#include "store/history.h"
#include "store/host.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/version.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A watch is a place in the log. What it has not been told yet costs nothing but the log itself,
 * which is bounded: a watch from before what the log remembers ends with 410. */

/* After this many changes of other objects a watch that wants bookmarks gets one. */
#define BOOKMARK_EVERY 500

struct api_watch {
    struct api_watch *next;
    struct store *store;
    struct shelf *shelf;     /* NULL: the kind is gone */
    const struct kind *kind; /* the version asked for */
    struct arena arena;      /* of the selectors; without any it has no memory */
    struct str ns;           /* heap */
    struct selector labels;
    struct selector fields;
    api_watch_fn *fn;
    void *user;
    uint64_t seen; /* told up to here */
    uint64_t bookmarked;
    VEC(const struct object *) initial; /* still to be told as ADDED */
    size_t initial_at;
    int refused;  /* HTTP status to close with at once; 0: fine */
    bool syncing; /* SYNCED is due behind `initial` */
    bool bookmarks;
    bool stopped;
    bool closed;
};

static bool watch_matches(const struct api_watch *watch, const struct object *object)
{
    return (!watch->ns.len || str_eq(watch->ns, object->ns)) &&
           selector_matches(&watch->labels, object->labels, object->label_count) &&
           selector_matches_fields(&watch->fields, object);
}

static void close_watch(struct api_watch *watch, int http_status, const char *text)
{
    struct err err = {.code = http_status == 410 ? -ESTALE : -EINVAL, .http_status = http_status};

    (void)err_set(&err, err.code, "%s", text);
    err.http_status = http_status;
    watch->closed = true;
    watch->fn(
        watch->user,
        &(struct api_change){.event = API_CLOSED, .revision = watch->store->revision, .err = &err});
}

static void free_watch(struct api_watch *watch)
{
    for (size_t i = watch->initial_at; i < watch->initial.count; i++)
        object_unref(watch->initial.items[i]);
    VEC_DONE(&watch->initial);
    arena_done(&watch->arena);
    mem_free((void *)(uintptr_t)watch->ns.p);
    mem_free(watch);
}

/* In the version that was asked for. */
static void watch_call(struct api_watch *watch, const struct api_change *change)
{
    struct api_change converted = *change;
    const struct kind *kind = watch->shelf->webhook ? change->object->kind : watch->kind;
    const struct kind_crd *crd = kind->custom ? kinds_crd(watch->store->api.kinds, kind) : NULL;
    const struct object *filled = fill_defaults(crd, change->object);

    converted.object = convert_object(watch->shelf, filled, watch->kind);
    if (change->previous)
        converted.previous = convert_object(watch->shelf, change->previous, watch->kind);
    watch->fn(watch->user, &converted);
    object_unref(filled);
    object_unref(converted.object);
    object_unref(converted.previous);
}

static void tell_initial(struct api_watch *watch)
{
    while (watch->initial_at < watch->initial.count && !watch->stopped) {
        const struct object *object = watch->initial.items[watch->initial_at++];

        watch_call(watch, &(struct api_change){
                              .event = API_ADDED, .object = object, .revision = object->revision});
        object_unref(object);
    }
    if (watch->stopped)
        return;
    VEC_DONE(&watch->initial);
    watch->initial_at = 0;
    if (!watch->syncing)
        return;
    watch->syncing = false;
    watch->fn(watch->user, &(struct api_change){.event = API_SYNCED, .revision = watch->seen});
}

/* What an object was when it was last seen, at the moment in which it was seen no more. */
static struct object *last_seen(const struct object *previous, uint64_t revision)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = object_json(previous, &arena);
    struct object *object = NULL;

    json_add_str(&arena, json_get(root, "metadata"), "resourceVersion",
                 str_printf(&arena, "%llu", (unsigned long long)revision));
    (void)object_new(previous->kind, json_text(&arena, root), &object, NULL);
    return object;
}

static void tell_item(struct api_watch *watch, const struct history_item *item)
{
    if (item->shelf != watch->shelf) /* most changes are of other kinds */
        return;
    struct api_change change = {.event = item->event,
                                .object = item->object,
                                .previous = item->previous,
                                .revision = item->revision};
    bool now = item->event != API_DELETED && watch_matches(watch, item->object);
    bool before =
        item->event != API_ADDED &&
        (item->previous ? watch_matches(watch, item->previous)
                        : item->event == API_MODIFIED || watch_matches(watch, item->object));

    if (!now && !before)
        return;
    struct object *last = NULL;
    if (item->event == API_MODIFIED && now != before)
        change.event = now ? API_ADDED : API_DELETED;
    if (item->event == API_MODIFIED && !now && item->previous)
        last = last_seen(item->previous, item->revision);
    if (last)
        change.object = last;
    watch->bookmarked = item->revision;
    watch_call(watch, &change);
    object_unref(last);
}

static void watch_tell(struct api_watch *watch)
{
    struct store *store = watch->store;

    if (watch->refused) {
        close_watch(
            watch, watch->refused,
            watch->refused == 410
                ? "too old resource version: it is not of this store, or the kind was deleted"
                : "cannot watch: unknown kind or malformed selector");
        return;
    }
    tell_initial(watch);
    if (watch->seen < store->history.compacted && !watch->stopped) {
        close_watch(watch, 410,
                    "too old resource version: the changes since then are no longer known");
        return;
    }
    size_t at = history_after(&store->history, watch->seen);
    for (; at < store->history.count && !watch->stopped; at++) {
        const struct history_item *item = history_at(&store->history, at);

        watch->seen = item->revision;
        tell_item(watch, item);
    }
    if (watch->stopped || !watch->bookmarks || watch->seen < watch->bookmarked + BOOKMARK_EVERY)
        return;
    watch->bookmarked = watch->seen;
    watch->fn(watch->user, &(struct api_change){.event = API_BOOKMARK, .revision = watch->seen});
}

void watches_tell(struct store *store)
{
    store->watches_due = false;
    for (struct api_watch *watch = store->watches; watch; watch = watch->next)
        if (!watch->stopped && !watch->closed)
            watch_tell(watch);
    for (struct api_watch **link = &store->watches; *link;) {
        struct api_watch *watch = *link;

        if (!watch->stopped) {
            link = &watch->next;
            continue;
        }
        *link = watch->next;
        free_watch(watch);
    }
}

static void take_initial(struct api_watch *watch)
{
    const struct shelf *shelf = watch->shelf;
    size_t at = watch->ns.len ? shelf_lower(shelf, watch->ns, STR("")) : 0;

    for (; at < shelf->entries.count; at++) {
        const struct entry *entry = shelf->entries.items[at];

        if (watch->ns.len && !str_eq(entry->ns, watch->ns))
            break;
        if (entry->committed && watch_matches(watch, entry->committed))
            VEC_PUSH(NULL, &watch->initial, object_ref(entry->committed));
    }
    watch->syncing = true;
}

static struct str heap_copy(struct str s)
{
    char *copy = s.len ? mem_alloc(s.len) : NULL;

    if (s.len)
        memcpy(copy, s.p, s.len);
    return (struct str){copy, s.len};
}

/* The texts of a request live only until the watch is made. A selector that cannot be parsed selects
 * nothing; callers with texts from outside check them first. Most watches have none, and there are
 * many of them: a block of an arena for each is 64 KiB of the heap. */
static bool watch_select(struct api_watch *watch, const struct api_watch_request *request)
{
    struct arena *arena = &watch->arena;

    if (request->label_selector.len &&
        selector_parse_labels(arena, str_dup(arena, request->label_selector), &watch->labels,
                              NULL) < 0)
        return false;
    return !request->field_selector.len ||
           field_selector_parse(arena, request->kind,
                                kinds_crd(watch->store->api.kinds, request->kind),
                                str_dup(arena, request->field_selector), &watch->fields, NULL) >= 0;
}

struct api_watch *store_watch(struct api *api,
                              const struct api_watch_request *request,
                              api_watch_fn *fn,
                              void *user)
{
    struct store *store = (struct store *)api;
    struct api_watch *watch = MEM_NEW(struct api_watch);
    struct api_watch **link = &store->watches;

    watch->store = store;
    watch->kind = request->kind;
    watch->shelf = shelf_of(store, request->kind);
    watch->fn = fn;
    watch->user = user;
    watch->ns = heap_copy(request->ns);
    watch->bookmarks = request->bookmarks;
    watch->seen = request->from_revision ? request->from_revision : store->revision;
    watch->bookmarked = watch->seen;
    if (!watch_select(watch, request))
        watch->shelf = NULL;
    if (!watch->shelf)
        watch->refused = 400;
    if (!request->from_revision && watch->shelf)
        take_initial(watch);
    /* From a future that another store had: the client must start over. */
    if (watch->seen > store->revision)
        watch->refused = 410;
    while (*link)
        link = &(*link)->next;
    *link = watch;
    store->watches_due = true;
    store_wake(store);
    return watch;
}

void store_watch_stop(struct api *api, struct api_watch *watch)
{
    struct store *store = (struct store *)api;

    watch->stopped = true;
    store->watches_due = true;
    store_wake(store);
}

void watches_refuse(struct store *store, const struct shelf *shelf)
{
    for (struct api_watch *watch = store->watches; watch; watch = watch->next)
        if (watch->shelf == shelf)
            watch->refused = 410;
}

void watches_free(struct store *store)
{
    while (store->watches) {
        struct api_watch *watch = store->watches;

        store->watches = watch->next;
        free_watch(watch);
    }
}
