#include "sim/link.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "sim/link_internal.h"
#include "sim/version.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A parcel is one call from its start to its answer; a told is one event of one watch.
 *
 * Invariant: the store is settled whenever link_step() returns, so no call of ours is under way
 * below; whatever exists lies in `parcels` or in a watch's `queue`. */

#define TEXT_BYTES   400
#define HEAL_OF_1000 50
#define NO_ROOM      "the disk is full; the store is read-only, but for deletes"

enum parcel_state {
    PARCEL_OUT,     /* on its way to the store */
    PARCEL_UNDOING, /* a gang that could not be bound: its bound members are deleted */
    PARCEL_HOME,    /* the answer is on its way back */
};

struct parcel {
    struct link *link;
    enum parcel_state state;
    struct arena arena;
    api_done_fn *done; /* NULL: its client is dead */
    void *user;
    int64_t sent_ms;
    int64_t due_ms; /* it does not arrive before this */
    bool is_bind;
    struct api_request request;
    struct api_binding *bindings;
    size_t binding_count;
    size_t bound; /* members that are bound, one by one */
    /* The answer. */
    struct api_result result;
    struct err err;
    bool came;
    bool held; /* link_hold() */
};

/* The numbers are drawn whether or not it is left out, so that what comes later stays the same. */
static bool link_fails(struct link *link, enum link_fault fault, uint32_t of_1000)
{
    return of_1000 && rng_below(&link->luck, 1000) < of_1000 &&
           link->options.happens(link->options.user, fault);
}

void link_trace(const struct link *link, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    link->options.trace(link->options.user, text);
}

void link_tell(const struct link *link, const char *fmt, ...)
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

static int64_t link_now(const struct link *link)
{
    return link->options.now(link->options.user);
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

static bool is_write(const struct parcel *parcel)
{
    return parcel->is_bind || (parcel->request.verb != API_GET && parcel->request.verb != API_LIST);
}

/* A write that only who leads may send. */
static bool is_led(const struct parcel *parcel)
{
    return is_write(parcel) && (parcel->is_bind || (parcel->request.kind != &kind_lease &&
                                                    parcel->request.kind != &kind_event));
}

/* ---- calls ---- */

static struct parcel *parcel_new(struct link *link, api_done_fn *done, void *user)
{
    struct parcel *parcel = MEM_NEW(struct parcel);

    parcel->link = link;
    parcel->done = done;
    parcel->user = user;
    parcel->sent_ms = link_now(link);
    if (link->faults.slow && rng_below(&link->luck, 1000) < link->faults.slow)
        parcel->due_ms =
            parcel->sent_ms + (int64_t)rng_below(&link->luck, (uint64_t)link->options.slow_ms);
    VEC_PUSH(NULL, &link->parcels, parcel);
    return parcel;
}

static void link_call(struct api *api,
                      const struct api_request *request,
                      api_done_fn *done,
                      void *user)
{
    struct link *link = (struct link *)api;
    struct parcel *parcel = parcel_new(link, done, user);
    struct arena *arena = &parcel->arena;

    parcel->request = *request;
    parcel->request.ns = str_dup(arena, request->ns);
    parcel->request.name = str_dup(arena, request->name);
    parcel->request.subresource = str_dup(arena, request->subresource);
    parcel->request.body = link->options.older ? version_write(arena, request->kind, request->body)
                                               : str_dup(arena, request->body);
    parcel->request.label_selector = str_dup(arena, request->label_selector);
    parcel->request.field_selector = str_dup(arena, request->field_selector);
    parcel->request.continue_token = str_dup(arena, request->continue_token);
    parcel->request.field_manager = str_dup(arena, request->field_manager);
    parcel->request.uid = str_dup(arena, request->uid);
    parcel->held = link->holding && is_led(parcel);
}

static void link_bind(struct api *api,
                      const struct api_binding *bindings,
                      size_t count,
                      api_done_fn *done,
                      void *user)
{
    struct link *link = (struct link *)api;
    struct parcel *parcel = parcel_new(link, done, user);
    struct arena *arena = &parcel->arena;

    parcel->is_bind = true;
    parcel->held = link->holding;
    parcel->bindings = ARENA_ARRAY(arena, struct api_binding, count);
    parcel->binding_count = count;
    for (size_t i = 0; i < count; i++)
        parcel->bindings[i] = (struct api_binding){
            .ns = str_dup(arena, bindings[i].ns),
            .pod = str_dup(arena, bindings[i].pod),
            .uid = str_dup(arena, bindings[i].uid),
            .node = str_dup(arena, bindings[i].node),
            .annotations = link->options.older ? version_notes(arena, bindings[i].annotations)
                                               : str_dup(arena, bindings[i].annotations),
        };
}

static const struct api_ops ops = {.call = link_call,
                                   .bind = link_bind,
                                   .watch = link_watch_start,
                                   .watch_stop = link_watch_stop};

static void parcel_fail(struct parcel *parcel, int code, int http_status, const char *text)
{
    parcel->result = (struct api_result){.code = code, .err = &parcel->err};
    (void)err_set(&parcel->err, code, "%s", text);
    parcel->err.http_status = http_status;
    parcel->came = true;
}

/* The object as the client knows it, with a reference. */
static struct object *parcel_sees(const struct parcel *parcel, const struct object *object)
{
    return parcel->link->options.older ? version_see(object) : object_ref(object);
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
    if (result->object) {
        struct object *seen = parcel_sees(parcel, result->object);

        arena_defer(arena, object_release, seen);
        parcel->result.object = seen;
    }
    if (result->item_count) {
        const struct object **items = ARENA_ARRAY(arena, const struct object *, result->item_count);

        for (size_t i = 0; i < result->item_count; i++) {
            struct object *seen = parcel_sees(parcel, result->items[i]);

            arena_defer(arena, object_release, seen);
            items[i] = seen;
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
        link_trace(parcel->link, "answer to %s " STR_FMT, verb_word(parcel),
                   STR_ARG(parcel_name(parcel)));
    else
        link_trace(parcel->link, "answer to %s " STR_FMT ": %s", verb_word(parcel),
                   STR_ARG(parcel_name(parcel)), parcel->err.text);
    parcel->done(parcel->user, &parcel->result);
    parcel_free(parcel);
}

/* True: the client died at this write. */
static bool is_crash(struct parcel *parcel, enum link_crash when)
{
    struct link *link = parcel->link;

    if (link->crash_when != when || link->writes != link->crash_at)
        return false;
    link->crash_when = LINK_CRASH_NEVER;
    link_trace(link, "crash at write %llu, %s", (unsigned long long)link->writes,
               when == LINK_CRASH_BEFORE ? "before it happens" : "after it happened");
    parcel->state = PARCEL_HOME; /* what is left of it does not arrive */
    link->options.crash(link->options.user);
    return true;
}

/* Renewals of a lease come and go with time: they have no number. */
static bool is_counted(const struct parcel *parcel)
{
    return is_write(parcel) && (parcel->is_bind || parcel->request.kind != &kind_lease);
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

    link_trace(link, "undo bind of " STR_FMT, STR_ARG(binding->pod));
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
            link_tell(link, "%s binds pod " STR_FMT " to " STR_FMT "%s", link->options.name,
                      STR_ARG(parcel->bindings[i].pod), STR_ARG(parcel->bindings[i].node),
                      i + 1 < end ? ", in one write with the next." : ".");
    } else if (str_is(request->subresource, "eviction")) {
        link_tell(link, "%s evicts pod " STR_FMT ".", link->options.name, STR_ARG(request->name));
    } else if (request->verb == API_CREATE && request->kind != &kind_event &&
               !request->subresource.len) {
        struct str name = parcel->result.object ? parcel->result.object->name : request->name;

        link_tell(link, "%s makes %s " STR_FMT ".", link->options.name, request->kind->name,
                  STR_ARG(name));
    } else if (request->verb == API_DELETE) {
        link_tell(link, "%s deletes %s " STR_FMT ".", link->options.name, request->kind->name,
                  STR_ARG(request->name));
    }
}

static void tell_fault(const struct parcel *parcel, const char *what)
{
    link_tell(parcel->link, "%s: its %s of %s " STR_FMT " %s.", parcel->link->options.name,
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
    if (is_counted(parcel)) {
        link->writes++;
        if (is_crash(parcel, LINK_CRASH_BEFORE))
            return;
    }
    bool begun = parcel->is_bind && parcel->bound;
    link_trace(link, "%s %s " STR_FMT "%s" STR_FMT, verb_word(parcel),
               parcel->is_bind ? "gang of" : parcel->request.kind->plural,
               STR_ARG(parcel_name(parcel)), parcel->request.subresource.len ? "/" : "",
               STR_ARG(parcel->request.subresource));
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
    if (is_counted(parcel) && is_crash(parcel, LINK_CRASH_AFTER))
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

static void parcel_drop(struct link *link, size_t index)
{
    struct parcel *parcel = link->parcels.items[index];

    parcel_take(link, index);
    parcel_free(parcel);
}

/* A request of a client that is dead. Of a gang some more members may be on their way, too: they were
 * sent side by side. */
static void carry_late(struct link *link, size_t index)
{
    struct parcel *parcel = link->parcels.items[index];

    if (link_now(link) > parcel->sent_ms + link->options.slow_ms || finds_no_room(parcel)) {
        parcel_drop(link, index);
        return;
    }
    link_trace(link, "late: %s %s " STR_FMT "%s" STR_FMT, verb_word(parcel),
               parcel->is_bind ? "gang of" : parcel->request.kind->plural,
               STR_ARG(parcel_name(parcel)), parcel->request.subresource.len ? "/" : "",
               STR_ARG(parcel->request.subresource));
    if (parcel->request.kind != &kind_lease)
        tell_fault(parcel, "arrives late");
    bool over = true;
    if (parcel->is_bind && !link->options.whole_gangs)
        over = bind_one(parcel) || parcel->result.code || rng_below(&link->luck, 3) == 0;
    else
        send_whole(parcel);
    tell_write(parcel);
    if (over)
        parcel_drop(link, index);
}

static void parcel_move(struct link *link, size_t index)
{
    struct parcel *parcel = link->parcels.items[index];

    if (!parcel->done) {
        carry_late(link, index);
        return;
    }
    if (parcel->state != PARCEL_HOME) {
        carry_out(link, parcel);
        return;
    }
    parcel_take(link, index);
    parcel_answer(parcel);
}

static bool may_move(const struct link *link, const struct parcel *parcel)
{
    return link->way != LINK_CLOSED && !parcel->held && link_now(link) >= parcel->due_ms &&
           (parcel->state == PARCEL_OUT || link->way == LINK_OPEN);
}

/* The nth thing that may move now; false when there are fewer. */
static bool move_nth(struct link *link, size_t nth, size_t *ret_count, bool count_only)
{
    bool passed = false;
    size_t at = 0;

    for (size_t i = 0; i < link->parcels.count; i++) {
        bool home = link->parcels.items[i]->state == PARCEL_HOME;

        if ((!home && passed && link->options.ordered) || !may_move(link, link->parcels.items[i]))
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

        if (watch->head == watch->queue.count || link->way != LINK_OPEN)
            continue;
        if (!count_only && at == nth) {
            link_watch_tell(watch);
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
            link_watch_heal(link->watches.items[i]);
    if (breaks)
        link_watch_break(link->watches.items[rng_below(&link->luck, link->watches.count)]);
}

bool link_step(struct link *link)
{
    size_t count = 0;

    link_watches_sweep(link);
    if (link->way == LINK_OPEN)
        break_and_heal(link);
    (void)move_nth(link, 0, &count, true);
    for (size_t i = 0; !count && link->way == LINK_OPEN && i < link->watches.count; i++)
        if (link->watches.items[i]->broken) {
            link_watch_heal(link->watches.items[i]);
            return true;
        }
    if (!count)
        return false;
    (void)move_nth(link, rng_below(link->options.rng, count), &count, false);
    return true;
}

/* Its client is answered once more, with a failure. */
static void parcel_fail_dead(struct parcel *parcel)
{
    if (!parcel->done)
        return;
    parcel_fail(parcel, -ECANCELED, 0, "the client is gone");
    parcel->done(parcel->user, &parcel->result);
    parcel->done = NULL;
}

void link_cut(struct link *link)
{
    /* What is answered may ask for more: that is dropped too. */
    while (link->parcels.count) {
        struct parcel *parcel = link->parcels.items[link->parcels.count - 1];

        link->parcels.count--;
        parcel_fail_dead(parcel);
        parcel_free(parcel);
    }
    link_watches_sweep(link);
    link->options.settle(link->options.user);
}

void link_abandon(struct link *link)
{
    size_t sent = link->parcels.count, at = 0;

    for (size_t i = 0; at < link->parcels.count; i++) {
        struct parcel *parcel = link->parcels.items[at];
        bool arrives = i < sent && parcel->state == PARCEL_OUT && is_write(parcel) &&
                       !parcel->held && rng_below(&link->luck, 2) == 0;

        parcel_fail_dead(parcel);
        if (arrives)
            at++;
        else
            parcel_drop(link, at);
    }
    link_watches_sweep(link);
    link->options.settle(link->options.user);
}

/* The client hears that nobody answered; what it sent may arrive all the same. */
static void parcel_break(struct parcel *parcel)
{
    struct link *link = parcel->link;

    if (parcel->state == PARCEL_OUT) {
        struct parcel *answer = parcel_new(link, parcel->done, parcel->user);

        answer->request.verb = parcel->request.verb;
        answer->request.kind = parcel->request.kind;
        answer->state = PARCEL_HOME;
        answer->due_ms = 0;
        parcel_fail(answer, -ECONNRESET, 0, "who leads is not clear");
        parcel->done = NULL;
        if (rng_below(&link->luck, 2) == 0)
            parcel->sent_ms = INT64_MIN / 2; /* it is dropped where it would arrive */
    } else {
        parcel_fail(parcel, -ECONNRESET, 0, "who leads is not clear");
    }
}

void link_hold(struct link *link, bool held)
{
    size_t count = link->parcels.count;

    link->holding = held;
    for (size_t i = 0; i < count; i++) {
        struct parcel *parcel = link->parcels.items[i];

        if (!parcel->done || !is_led(parcel))
            continue;
        if (parcel->is_bind) /* it is asked for until its answer comes */
            parcel->held = held && parcel->state != PARCEL_HOME;
        else if (held && !parcel->held)
            parcel_break(parcel);
        else
            parcel->held = false;
        parcel->sent_ms = held ? parcel->sent_ms : link_now(link);
    }
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

void link_set_way(struct link *link, enum link_way way)
{
    link->way = way;
}

bool link_is_writing(const struct link *link)
{
    for (size_t i = 0; i < link->parcels.count; i++) {
        const struct parcel *parcel = link->parcels.items[i];

        if (parcel->done && is_led(parcel))
            return true;
    }
    return false;
}

int64_t link_due(const struct link *link)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; link->way != LINK_CLOSED && i < link->parcels.count; i++)
        if (link->parcels.items[i]->due_ms > link_now(link) &&
            link->parcels.items[i]->due_ms < next)
            next = link->parcels.items[i]->due_ms;
    return next;
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
