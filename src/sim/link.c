#include "sim/link.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A parcel is one call from its start to its answer; a told is one event of one watch.
 *
 * Invariant: the store is settled whenever link_step() returns, so no call of ours is under way
 * below; whatever exists lies in `parcels` or in a watch's `queue`. */

#define MAP_SEED     7
#define TEXT_BYTES   400
#define HEAL_OF_1000 50
#define NO_ROOM      "the disk is full; the store is read-only, but for deletes"
#define EVENTS_MAX   100000 /* of one watch, not told yet; a simulation that gets there is broken */

enum parcel_state {
    PARCEL_OUT,     /* on its way to the store */
    PARCEL_UNDOING, /* a gang that could not be bound: its bound members are deleted */
    PARCEL_HOME,    /* the answer is on its way back */
};

struct parcel {
    struct link *link;
    enum parcel_state state;
    struct arena arena;
    api_done_fn *done;
    void *user;
    bool is_bind;
    struct api_request request;
    struct api_binding *bindings;
    size_t binding_count;
    size_t bound; /* members that are bound, one by one */
    /* The answer. */
    struct api_result result;
    struct err err;
    bool came;
};

struct told {
    enum api_event event;
    const struct object *object;
    const struct object *previous;
    uint64_t revision;
    bool unordered;
};

/* What a watch has told its client of one object. */
struct seen {
    const struct object *object;
    bool listed; /* while healing: still there */
    size_t len;
    char text[];
};

struct api_watch {
    struct link *link;
    struct api_watch *below;
    struct api_watch_request request;
    struct arena arena;
    api_watch_fn *fn;
    void *user;
    VEC(struct told) queue;
    size_t head;
    struct map seen; /* "ns/name" -> struct seen: as queued, not as told */
    bool broken;     /* nothing arrives until it heals */
    bool healing;
    bool synced; /* has queued SYNCED once */
    bool stopped;
};

struct link {
    struct api api;
    struct link_options options;
    struct link_faults faults;
    struct rng luck;
    VEC(struct parcel *) parcels;
    VEC(struct api_watch *) watches;
    uint64_t writes;
    uint64_t crash_at;
    enum link_crash crash_when;
    bool full;
    bool cutting;
};

/* The numbers are drawn whether or not it is left out, so that what comes later stays the same. */
static bool link_fails(struct link *link, enum link_fault fault, uint32_t of_1000)
{
    return of_1000 && rng_below(&link->luck, 1000) < of_1000 &&
           link->options.happens(link->options.user, fault);
}

__attribute__((format(printf, 2, 3))) static void trace(const struct link *link,
                                                        const char *fmt,
                                                        ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    link->options.trace(link->options.user, text);
}

__attribute__((format(printf, 2, 3))) static void tell(const struct link *link,
                                                       const char *fmt,
                                                       ...)
{
    char text[TEXT_BYTES];
    va_list args;

    if (!link->options.tell)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    link->options.tell(link->options.user, text);
}

static const char *verb_word(const struct parcel *parcel)
{
    static const char *const words[] = {"get",   "list",   "create",           "update",
                                        "patch", "delete", "delete-collection"};

    return parcel->is_bind ? "bind" : words[parcel->request.verb];
}

static struct str parcel_name(const struct parcel *parcel)
{
    return parcel->is_bind ? parcel->bindings[0].pod : parcel->request.name;
}

/* ---- watches ---- */

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

static void on_event(void *user, const struct api_change *change)
{
    struct api_watch *watch = user;
    struct api_change told = *change;

    if (watch->stopped)
        return;
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

static struct api_watch *watch_start(struct api *api,
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

static void watch_stop(struct api *api, struct api_watch *watch)
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

static void sweep_watches(struct link *link)
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

static void watch_break(struct api_watch *watch)
{
    struct link *link = watch->link;

    if (watch->broken)
        return;
    trace(link, "watch of %s breaks", watch->request.kind->plural);
    tell(link, "%s hears nothing more of %s: the watch breaks.", link->options.name,
         watch->request.kind->plural);
    api_watch_stop(link->options.below, watch->below);
    watch->below = NULL;
    watch->broken = true;
}

/* What has changed meanwhile is found by comparing with the state. What arrived before the break is
 * still told: the queue stays. */
static void watch_heal(struct api_watch *watch)
{
    struct link *link = watch->link;

    trace(link, "watch of %s heals", watch->request.kind->plural);
    tell(link, "%s hears of %s again, from the state as it is now.", link->options.name,
         watch->request.kind->plural);
    MAP_FOREACH(&watch->seen, entry)
        ((struct seen *)entry->value)->listed = false;
    watch->broken = false;
    watch->healing = true;
    watch->below = api_watch(link->options.below, &watch->request, on_event, watch);
    link->options.settle(link->options.user);
}

static void watch_tell(struct api_watch *watch)
{
    struct told told = watch->queue.items[watch->head++];

    if (watch->head == watch->queue.count)
        watch->queue.count = watch->head = 0;
    if (told.object)
        trace(watch->link, "event %s " STR_FMT "/" STR_FMT " @%llu", watch->request.kind->plural,
              STR_ARG(told.object->ns), STR_ARG(told.object->name),
              (unsigned long long)told.revision);
    watch->fn(watch->user, &(struct api_change){.event = told.event,
                                                .object = told.object,
                                                .previous = told.previous,
                                                .revision = told.revision,
                                                .unordered = told.unordered});
    object_unref(told.object);
    object_unref(told.previous);
}

/* ---- calls ---- */

static void link_call(struct api *api,
                      const struct api_request *request,
                      api_done_fn *done,
                      void *user)
{
    struct link *link = (struct link *)api;
    struct parcel *parcel = MEM_NEW(struct parcel);
    struct arena *arena = &parcel->arena;

    parcel->link = link;
    parcel->done = done;
    parcel->user = user;
    parcel->request = *request;
    parcel->request.ns = str_dup(arena, request->ns);
    parcel->request.name = str_dup(arena, request->name);
    parcel->request.subresource = str_dup(arena, request->subresource);
    parcel->request.body = str_dup(arena, request->body);
    parcel->request.label_selector = str_dup(arena, request->label_selector);
    parcel->request.field_selector = str_dup(arena, request->field_selector);
    parcel->request.continue_token = str_dup(arena, request->continue_token);
    parcel->request.field_manager = str_dup(arena, request->field_manager);
    parcel->request.uid = str_dup(arena, request->uid);
    VEC_PUSH(NULL, &link->parcels, parcel);
}

static void link_bind(struct api *api,
                      const struct api_binding *bindings,
                      size_t count,
                      api_done_fn *done,
                      void *user)
{
    struct link *link = (struct link *)api;
    struct parcel *parcel = MEM_NEW(struct parcel);
    struct arena *arena = &parcel->arena;

    parcel->link = link;
    parcel->done = done;
    parcel->user = user;
    parcel->is_bind = true;
    parcel->bindings = ARENA_ARRAY(arena, struct api_binding, count);
    parcel->binding_count = count;
    for (size_t i = 0; i < count; i++)
        parcel->bindings[i] = (struct api_binding){
            .ns = str_dup(arena, bindings[i].ns),
            .pod = str_dup(arena, bindings[i].pod),
            .uid = str_dup(arena, bindings[i].uid),
            .node = str_dup(arena, bindings[i].node),
            .annotations = str_dup(arena, bindings[i].annotations),
        };
    VEC_PUSH(NULL, &link->parcels, parcel);
}

static const struct api_ops ops = {.call = link_call,
                                   .bind = link_bind,
                                   .watch = watch_start,
                                   .watch_stop = watch_stop};

static void parcel_fail(struct parcel *parcel, int code, int http_status, const char *text)
{
    parcel->result = (struct api_result){.code = code, .err = &parcel->err};
    (void)err_set(&parcel->err, code, "%s", text);
    parcel->err.http_status = http_status;
    parcel->came = true;
}

/* The store's answer; what it points to lives only until this returns. */
static void on_done(void *user, const struct api_result *result)
{
    struct parcel *parcel = user;
    struct arena *arena = &parcel->arena;

    parcel->came = true;
    parcel->result = *result;
    if (result->err) {
        parcel->err = *result->err;
        parcel->result.err = &parcel->err;
    }
    parcel->result.reason = str_dup(arena, result->reason);
    parcel->result.warnings = str_dup(arena, result->warnings);
    parcel->result.continue_token = str_dup(arena, result->continue_token);
    parcel->result.causes = NULL;
    parcel->result.cause_count = 0;
    if (result->object)
        arena_defer(arena, object_release, object_ref(result->object));
    if (result->item_count) {
        const struct object **items = ARENA_ARRAY(arena, const struct object *, result->item_count);

        for (size_t i = 0; i < result->item_count; i++) {
            items[i] = result->items[i];
            arena_defer(arena, object_release, object_ref(items[i]));
        }
        parcel->result.items = items;
    }
}

static void parcel_free(struct parcel *parcel)
{
    arena_done(&parcel->arena);
    mem_free(parcel);
}

static void parcel_answer(struct parcel *parcel)
{
    if (!parcel->result.code)
        trace(parcel->link, "answer to %s " STR_FMT, verb_word(parcel),
              STR_ARG(parcel_name(parcel)));
    else
        trace(parcel->link, "answer to %s " STR_FMT ": %s", verb_word(parcel),
              STR_ARG(parcel_name(parcel)), parcel->err.text);
    parcel->done(parcel->user, &parcel->result);
    parcel_free(parcel);
}

/* True: the client died at this write. */
static bool is_crash(struct link *link, enum link_crash when)
{
    if (link->crash_when != when || link->writes != link->crash_at)
        return false;
    link->crash_when = LINK_CRASH_NEVER;
    trace(link, "crash at write %llu, %s", (unsigned long long)link->writes,
          when == LINK_CRASH_BEFORE ? "before it happens" : "after it happened");
    link->options.crash(link->options.user);
    return true;
}

static bool is_write(const struct parcel *parcel)
{
    return parcel->is_bind || (parcel->request.verb != API_GET && parcel->request.verb != API_LIST);
}

/* Deletes make room, and how a pod does cannot be told again later: the store keeps some room for them. */
static bool finds_no_room(const struct parcel *parcel)
{
    const struct api_request *request = &parcel->request;

    if (!parcel->link->full || !is_write(parcel))
        return false;
    return parcel->is_bind ||
           (request->verb != API_DELETE && request->verb != API_DELETE_COLLECTION &&
            !(request->kind == &kind_pod && str_is(request->subresource, "status")));
}

/* One member of a gang that could not be bound goes again. */
static bool undo_one(struct parcel *parcel)
{
    struct link *link = parcel->link;
    const struct api_binding *binding = &parcel->bindings[--parcel->bound];
    struct parcel probe = {.link = link};

    trace(link, "undo bind of " STR_FMT, STR_ARG(binding->pod));
    api_call(link->options.below,
             &(struct api_request){.verb = API_DELETE,
                                   .kind = &kind_pod,
                                   .ns = binding->ns,
                                   .name = binding->pod,
                                   .uid = binding->uid},
             on_done, &probe);
    link->options.settle(link->options.user);
    arena_done(&probe.arena);
    return parcel->bound == 0;
}

/* One bind of a gang. True when nothing more is to be done. */
static bool bind_one(struct parcel *parcel)
{
    struct link *link = parcel->link;

    parcel->came = false;
    if (finds_no_room(parcel)) {
        parcel_fail(parcel, -ENOSPC, 503, NO_ROOM);
    } else {
        if (link->options.binding)
            link->options.binding(link->options.user, &parcel->bindings[parcel->bound]);
        api_bind(link->options.below, &parcel->bindings[parcel->bound], 1, on_done, parcel);
        link->options.settle(link->options.user);
    }
    assert(parcel->came);
    if (!parcel->result.code)
        return ++parcel->bound == parcel->binding_count;
    if (!parcel->bound)
        return true;
    bool *undone = ARENA_ARRAY(&parcel->arena, bool, parcel->binding_count);
    for (size_t i = 0; i < parcel->bound; i++)
        undone[i] = true;
    parcel->result.undone = undone;
    parcel->state = PARCEL_UNDOING;
    return false;
}

static void send_whole(struct parcel *parcel)
{
    struct link *link = parcel->link;

    for (size_t i = 0; parcel->is_bind && link->options.binding && i < parcel->binding_count; i++)
        link->options.binding(link->options.user, &parcel->bindings[i]);
    if (parcel->is_bind)
        api_bind(link->options.below, parcel->bindings, parcel->binding_count, on_done, parcel);
    else
        api_call(link->options.below, &parcel->request, on_done, parcel);
    link->options.settle(link->options.user);
    assert(parcel->came);
}

/* What people call a thing that happened: who is bound where, what is made, what goes. */
static void tell_write(const struct parcel *parcel)
{
    const struct link *link = parcel->link;
    const struct api_request *request = &parcel->request;

    if (!link->options.tell || parcel->result.code)
        return;
    if (parcel->is_bind) {
        size_t first = link->options.whole_gangs ? 0 : parcel->bound - 1;
        size_t end = link->options.whole_gangs ? parcel->binding_count : parcel->bound;

        for (size_t i = first; i < end; i++)
            tell(link, "%s binds pod " STR_FMT " to " STR_FMT "%s", link->options.name,
                 STR_ARG(parcel->bindings[i].pod), STR_ARG(parcel->bindings[i].node),
                 i + 1 < end ? ", in one write with the next." : ".");
    } else if (str_is(request->subresource, "eviction")) {
        tell(link, "%s evicts pod " STR_FMT ".", link->options.name, STR_ARG(request->name));
    } else if (request->verb == API_CREATE && request->kind != &kind_event &&
               !request->subresource.len) {
        struct str name = parcel->result.object ? parcel->result.object->name : request->name;

        tell(link, "%s makes %s " STR_FMT ".", link->options.name, request->kind->name,
             STR_ARG(name));
    } else if (request->verb == API_DELETE) {
        tell(link, "%s deletes %s " STR_FMT ".", link->options.name, request->kind->name,
             STR_ARG(request->name));
    }
}

static void tell_fault(const struct parcel *parcel, const char *what)
{
    tell(parcel->link, "%s: its %s of %s " STR_FMT " %s.", parcel->link->options.name,
         verb_word(parcel), parcel->is_bind ? "pod" : parcel->request.kind->name,
         STR_ARG(parcel_name(parcel)), what);
}

static void carry_out(struct link *link, struct parcel *parcel)
{
    if (parcel->state == PARCEL_UNDOING) {
        if (undo_one(parcel))
            parcel->state = PARCEL_HOME;
        return;
    }
    if (is_write(parcel)) {
        link->writes++;
        if (is_crash(link, LINK_CRASH_BEFORE))
            return;
    }
    bool begun = parcel->is_bind && parcel->bound;
    trace(link, "%s %s " STR_FMT "%s" STR_FMT, verb_word(parcel),
          parcel->is_bind ? "gang of" : parcel->request.kind->plural, STR_ARG(parcel_name(parcel)),
          parcel->request.subresource.len ? "/" : "", STR_ARG(parcel->request.subresource));
    if (!begun && link_fails(link, LINK_REFUSE, link->faults.refuse)) {
        tell_fault(parcel, "is refused on the way");
        parcel_fail(parcel, -EIO, 503, "the link refused it");
        parcel->state = PARCEL_HOME;
        return;
    }
    if (!begun && finds_no_room(parcel)) {
        tell_fault(parcel, "is refused, since the disk is full");
        parcel_fail(parcel, -ENOSPC, 503, NO_ROOM);
        parcel->state = PARCEL_HOME;
        return;
    }
    bool over = true;
    if (parcel->is_bind && !link->options.whole_gangs)
        over = bind_one(parcel);
    else
        send_whole(parcel);
    tell_write(parcel);
    if (link->options.evicted && !parcel->result.code &&
        str_is(parcel->request.subresource, "eviction"))
        link->options.evicted(link->options.user, parcel->request.ns, parcel->request.name);
    if (is_write(parcel) && is_crash(link, LINK_CRASH_AFTER))
        return;
    if (!over)
        return;
    parcel->state = PARCEL_HOME;
    if (!parcel->is_bind && link_fails(link, LINK_LOSE, link->faults.lose_answer)) {
        tell_fault(parcel, "happens, but the answer is lost");
        parcel_fail(parcel, -ETIMEDOUT, 0, "nobody answered");
    }
}

/* ---- what comes next ---- */

static void parcel_take(struct link *link, size_t index)
{
    for (size_t i = index; i + 1 < link->parcels.count; i++)
        link->parcels.items[i] = link->parcels.items[i + 1];
    link->parcels.count--;
}

static void parcel_move(struct link *link, size_t index)
{
    struct parcel *parcel = link->parcels.items[index];

    if (parcel->state != PARCEL_HOME) {
        carry_out(link, parcel);
        return;
    }
    parcel_take(link, index);
    parcel_answer(parcel);
}

/* The nth thing that may move now; false when there are fewer. */
static bool move_nth(struct link *link, size_t nth, size_t *ret_count, bool count_only)
{
    bool passed = false;
    size_t at = 0;

    for (size_t i = 0; i < link->parcels.count; i++) {
        bool home = link->parcels.items[i]->state == PARCEL_HOME;

        if (!home && passed && link->options.ordered)
            continue;
        passed = passed || !home;
        if (!count_only && at == nth) {
            parcel_move(link, i);
            return true;
        }
        at++;
    }
    for (size_t i = 0; i < link->watches.count; i++) {
        struct api_watch *watch = link->watches.items[i];

        if (watch->head == watch->queue.count)
            continue;
        if (!count_only && at == nth) {
            watch_tell(watch);
            return true;
        }
        at++;
    }
    *ret_count = at;
    return false;
}

static void break_and_heal(struct link *link)
{
    bool breaks = link->watches.count && link_fails(link, LINK_BREAK, link->faults.break_watch);

    for (size_t i = 0; i < link->watches.count; i++)
        if (link->watches.items[i]->broken && rng_below(link->options.rng, 1000) < HEAL_OF_1000)
            watch_heal(link->watches.items[i]);
    if (breaks)
        watch_break(link->watches.items[rng_below(&link->luck, link->watches.count)]);
}

bool link_step(struct link *link)
{
    size_t count = 0;

    sweep_watches(link);
    break_and_heal(link);
    (void)move_nth(link, 0, &count, true);
    for (size_t i = 0; !count && i < link->watches.count; i++)
        if (link->watches.items[i]->broken) {
            watch_heal(link->watches.items[i]);
            return true;
        }
    if (!count)
        return false;
    (void)move_nth(link, rng_below(link->options.rng, count), &count, false);
    return true;
}

void link_cut(struct link *link)
{
    /* What is answered may ask for more: that is dropped too. */
    while (link->parcels.count) {
        struct parcel *parcel = link->parcels.items[link->parcels.count - 1];

        link->parcels.count--;
        parcel_fail(parcel, -ECANCELED, 0, "the client is gone");
        parcel->done(parcel->user, &parcel->result);
        parcel_free(parcel);
    }
    sweep_watches(link);
    link->options.settle(link->options.user);
}

struct link *link_new(const struct link_options *options)
{
    struct link *link = MEM_NEW(struct link);

    link->options = *options;
    link->luck = (struct rng){options->seed};
    link->api = (struct api){.ops = &ops, .kinds = options->below->kinds};
    return link;
}

void link_free(struct link *link)
{
    if (!link)
        return;
    link_cut(link);
    assert(!link->watches.count);
    VEC_DONE(&link->parcels);
    VEC_DONE(&link->watches);
    mem_free(link);
}

struct api *link_api(struct link *link)
{
    return &link->api;
}

void link_set_faults(struct link *link, const struct link_faults *faults)
{
    link->faults = *faults;
}

void link_set_full(struct link *link, bool full)
{
    link->full = full;
}

void link_crash_at(struct link *link, uint64_t write, enum link_crash when)
{
    link->crash_at = write;
    link->crash_when = when;
}

uint64_t link_writes(const struct link *link)
{
    return link->writes;
}
