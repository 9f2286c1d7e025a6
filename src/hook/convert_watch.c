#include "hook/convert_watch.h"

#include "api/api.h"
#include "api/field.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "hook/translate.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct event {
    struct api_change change; /* with references on its objects */
    struct err err;           /* of CLOSED */
};

struct convert_watch {
    struct convert_watch *next;
    struct convert_watch **link;
    struct convert_watches *all;
    struct api_watch *below; /* NULL: it is over */
    struct arena arena;      /* of the selector */
    const struct kind *kind;
    const struct json *webhook;
    struct selector fields;
    bool selects;
    api_watch_fn *fn;
    void *user;
    VEC(struct event) events;
    size_t at;    /* the first that has not been told */
    size_t until; /* those before it are converted, or are being */
    const struct object *objects[2 * CONVERT_WATCH_BATCH];
    size_t object_count;
    uint64_t revision; /* of the newest event */
    bool synced;
    bool busy;    /* being converted or told */
    bool stopped; /* nobody listens */
};

bool convert_selects_fields(struct arena *arena,
                            const struct kind *kind,
                            const struct kind_crd *crd,
                            struct str text,
                            struct selector *ret)
{
    if (!text.len || field_selector_parse(arena, kind, crd, str_dup(arena, text), ret, NULL) < 0)
        return false;
    for (size_t i = 0; i < ret->term_count; i++)
        if (!str_is(ret->terms[i].key, "metadata.name") &&
            !str_is(ret->terms[i].key, "metadata.namespace"))
            return true;
    return false;
}

static void drop_events(struct convert_watch *watch)
{
    for (size_t i = watch->at; i < watch->events.count; i++) {
        object_unref(watch->events.items[i].change.object);
        object_unref(watch->events.items[i].change.previous);
    }
    watch->at = watch->until = watch->events.count = 0;
}

static void watch_free(struct convert_watch *watch)
{
    *watch->link = watch->next;
    if (watch->next)
        watch->next->link = watch->link;
    api_watch_stop(watch->all->below, watch->below);
    drop_events(watch);
    VEC_DONE(&watch->events);
    arena_done(&watch->arena);
    mem_free(watch);
}

/* The last event: whatever is behind it is not told. */
static void watch_close(struct convert_watch *watch, const struct err *err)
{
    api_watch_stop(watch->all->below, watch->below);
    watch->below = NULL;
    drop_events(watch);
    watch->fn(watch->user,
              &(struct api_change){.event = API_CLOSED, .revision = watch->revision, .err = err});
}

/* ---- telling ---- */

/* An object that begins or ceases to be selected is one that comes or goes. */
static bool select_event(const struct convert_watch *watch, struct api_change *change)
{
    if (!watch->selects || !change->object)
        return true;
    bool now =
        change->event != API_DELETED && selector_matches_fields(&watch->fields, change->object);
    bool before = change->event == API_ADDED ? false
                  : change->previous ? selector_matches_fields(&watch->fields, change->previous)
                                     : change->event == API_MODIFIED ||
                                           selector_matches_fields(&watch->fields, change->object);

    if (change->event == API_MODIFIED && now != before)
        change->event = now ? API_ADDED : API_DELETED;
    return now || before;
}

static void tell(struct convert_watch *watch)
{
    while (watch->at < watch->until && !watch->stopped) {
        struct event event = watch->events.items[watch->at++];

        if (event.change.event == API_CLOSED) {
            watch_close(watch, &event.err);
            return;
        }
        if (select_event(watch, &event.change))
            watch->fn(watch->user, &event.change);
        object_unref(event.change.object);
        object_unref(event.change.previous);
    }
}

/* ---- converting ---- */

static void pump(struct convert_watch *watch);

static void on_translated(void *user, const struct err *err)
{
    struct convert_watch *watch = user;
    size_t taken = 0;

    /* Back to their places; those that could not be converted are as they were. */
    for (size_t i = watch->at; i < watch->until; i++) {
        struct api_change *change = &watch->events.items[i].change;

        if (change->object)
            change->object = watch->objects[taken++];
        if (change->previous)
            change->previous = watch->objects[taken++];
    }
    if (err && !watch->stopped)
        watch_close(watch, err);
    else
        tell(watch);
    watch->busy = false;
    if (watch->stopped)
        watch_free(watch);
    else
        pump(watch);
}

static void pump(struct convert_watch *watch)
{
    if (watch->busy || watch->at == watch->events.count)
        return;
    watch->busy = true;
    watch->object_count = 0;
    watch->events.count -= watch->at;
    memmove(watch->events.items, &watch->events.items[watch->at],
            watch->events.count * sizeof(watch->events.items[0]));
    watch->at = watch->until = 0;
    while (watch->until < watch->events.count &&
           watch->object_count + 2 <= 2 * CONVERT_WATCH_BATCH) {
        const struct api_change *change = &watch->events.items[watch->until++].change;

        if (change->object)
            watch->objects[watch->object_count++] = change->object;
        if (change->previous)
            watch->objects[watch->object_count++] = change->previous;
    }
    translate(watch->all->translator, &(struct translate){.webhook = watch->webhook,
                                                          .to = watch->kind,
                                                          .objects = watch->objects,
                                                          .count = watch->object_count,
                                                          .done = on_translated,
                                                          .user = watch});
}

static void on_change(void *user, const struct api_change *change)
{
    struct convert_watch *watch = user;
    struct event event = {.change = *change};

    event.change.object = change->object ? object_ref(change->object) : NULL;
    event.change.previous =
        change->previous && watch->selects ? object_ref(change->previous) : NULL;
    if (change->err)
        event.err = *change->err;
    event.change.err = NULL;
    watch->revision = change->revision;
    watch->synced |= change->event == API_SYNCED;
    if (watch->synced && watch->events.count - watch->at >= CONVERT_WATCH_WAITING) {
        (void)err_set(&event.err, -ESTALE,
                      "too old resource version: %s change faster than their conversion webhook "
                      "answers",
                      watch->kind->plural);
        event.err.http_status = 410;
        object_unref(event.change.object);
        object_unref(event.change.previous);
        event.change = (struct api_change){.event = API_CLOSED, .revision = change->revision};
        api_watch_stop(watch->all->below, watch->below);
        watch->below = NULL;
    }
    VEC_PUSH(NULL, &watch->events, event);
    pump(watch);
}

/* ---- */

struct api_watch *convert_watch(struct convert_watches *watches,
                                const struct kind_crd *crd,
                                const struct api_watch_request *request,
                                api_watch_fn *fn,
                                void *user)
{
    struct convert_watch *watch = MEM_NEW(struct convert_watch);
    struct api_watch_request below = *request;

    watch->all = watches;
    watch->next = watches->first;
    watch->link = &watches->first;
    if (watch->next)
        watch->next->link = &watch->next;
    watches->first = watch;
    watch->kind = request->kind;
    watch->webhook = crd->webhook;
    watch->fn = fn;
    watch->user = user;
    watch->synced = request->from_revision != 0;
    watch->selects = convert_selects_fields(&watch->arena, request->kind, crd,
                                            request->field_selector, &watch->fields);
    if (watch->selects)
        below.field_selector = STR("");
    watch->below = api_watch(watches->below, &below, on_change, watch);
    return (struct api_watch *)watch;
}

bool convert_watch_stop(struct convert_watches *watches, struct api_watch *stopped)
{
    for (struct convert_watch *watch = watches->first; watch; watch = watch->next) {
        if ((struct api_watch *)watch != stopped)
            continue;
        watch->stopped = true;
        if (!watch->busy)
            watch_free(watch);
        return true;
    }
    return false;
}

void convert_watches_free(struct convert_watches *watches)
{
    while (watches->first)
        watch_free(watches->first);
}
