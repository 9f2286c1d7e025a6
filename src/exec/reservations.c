#include "exec/reservations.h"

#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/cluster/reservation.h"
#include "control/cluster/sharing.h"
#include "exec/reservations_write.h"
#include "sched/decode.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "tool/log.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pods that are observed, answers and turns become events of control/cluster/reservation.h; what
 * it asks for becomes requests, and calls of the scheduler's core. Nothing is decided here. */

/* The part of a gang that only requests need. */
struct gang {
    struct gang *next;
    struct reservations *owner;
    uint64_t id;
    struct arena arena;
    struct reservations_pod *pods;
    struct reservation_member *members; /* the same, for the core */
    struct member_write **writes;       /* one a pod, NULL: none under way */
    size_t count;
    reservations_done_fn *done;
    void *user;
};

struct reservations {
    struct reservations_options options;
    struct reservation_set *set;
    struct gang *gangs;
    uint64_t gang_id; /* the last one given */
    size_t calls;     /* that will still come back */
    bool again;       /* something happened since the last turn began */
    bool stopped;
};

static int64_t now_of(const struct reservations *reservations)
{
    return reservations->options.now(reservations->options.user);
}

static void carry_out(struct reservations *reservations,
                      const struct reservation_action *action,
                      int64_t now_ms);

/* Returns when the next turn is wanted. */
static int64_t feed(struct reservations *reservations,
                    const struct reservation_event *event,
                    int64_t now_ms)
{
    struct reservation_actions actions = {0};
    int64_t next_ms;

    reservation_event(reservations->set, event, now_ms, &actions);
    next_ms = actions.next_ms;
    for (size_t i = 0; i < actions.list.count; i++)
        carry_out(reservations, &actions.list.items[i], now_ms);
    reservation_actions_done(&actions);
    return next_ms;
}

static void feed_now(struct reservations *reservations, const struct reservation_event *event)
{
    if (feed(reservations, event, now_of(reservations)) == INT64_MAX || reservations->stopped)
        return;
    reservations->again = true;
    reservations->options.again(reservations->options.user);
}

/* ---- pods ---- */

static void observe_reservation(struct reservations *reservations,
                                enum sched_change change,
                                const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *tree = object_json(pod, &arena);

    feed_now(reservations,
             &(struct reservation_event){
                 .kind = change == SCHED_DROP ? RESERVATION_GONE : RESERVATION_SEEN,
                 .node = json_str_at(tree, "spec.nodeName"),
                 .group = object_label(pod, GPU_LABEL_GROUP),
                 .pod = {pod->ns, pod->name, pod->uid},
                 .shown = {.ending = pod->deleted_ms != 0,
                           .over = pod_is_over(tree),
                           .device = object_annotation(pod, GPU_ANNOTATION_RESERVED)}});
}

static void observe_user(struct reservations *reservations,
                         enum sched_change change,
                         const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *tree = object_json(pod, &arena);
    struct reservation_event event = {
        .kind = change == SCHED_DROP ? RESERVATION_USER_GONE : RESERVATION_USER_SEEN,
        .shown = {.ending = pod->deleted_ms != 0, .over = pod_is_over(tree)},
        .member = {.pod = {pod->ns, pod->name, pod->uid},
                   .node = json_str_at(tree, "spec.nodeName")}};

    event.member.groups = sharing_groups(&arena, pod, &event.member.group_count);
    feed_now(reservations, &event);
}

bool reservations_has(const struct reservations *reservations, const struct object *pod)
{
    return sharing_is_reservation(&reservations->options.settings, pod);
}

void reservations_observe(struct reservations *reservations,
                          enum sched_change change,
                          const struct object *pod)
{
    if (reservations_has(reservations, pod))
        observe_reservation(reservations, change, pod);
    else if (sharing_has_share(pod))
        observe_user(reservations, change, pod);
}

/* ---- requests ---- */

struct call {
    struct reservations *owner;
    struct arena arena;
    enum reservation_action_kind kind;
    struct str node;
    struct str group;
};

static void unref(struct reservations *reservations)
{
    if (reservations->stopped && !reservations->calls)
        mem_free(reservations);
}

static enum reservation_event_kind answer_to_create(const struct api_result *result)
{
    int status = result->code ? result->err->http_status : 0;

    if (!result->code || status == 409) /* it is there: its change says so */
        return RESERVATION_MADE;
    return !status || status >= 500 ? RESERVATION_UNANSWERED : RESERVATION_REFUSED;
}

static void on_answer(void *user, const struct api_result *result)
{
    struct call *call = user;
    struct reservations *reservations = call->owner;
    bool failed = result->code && result->err->http_status != 404;
    struct reservation_event event = {.node = call->node, .group = call->group};

    if (call->kind == RESERVATION_CREATE) {
        event.kind = answer_to_create(result);
        event.err = event.kind == RESERVATION_MADE ? NULL : result->err;
    } else if (call->kind == RESERVATION_RELEASE) {
        event.kind = failed ? RESERVATION_KEPT : RESERVATION_RELEASED;
    } else {
        event.kind = RESERVATION_USER_KEPT;
    }
    reservations->calls--;
    if (event.err && !reservations->stopped)
        log_warn(reservations->options.log, "reservation.create", LOG_ERR(result->err));
    if (event.kind == RESERVATION_KEPT && !reservations->stopped)
        log_warn(reservations->options.log, "reservation.delete", LOG_ERR(result->err));
    /* That a user goes is seen in its changes. */
    if (!reservations->stopped && (event.kind != RESERVATION_USER_KEPT || failed))
        feed_now(reservations, &event);
    arena_done(&call->arena);
    mem_free(call);
    unref(reservations);
}

static void send(struct reservations *reservations,
                 const struct reservation_action *action,
                 const struct api_request *request)
{
    struct call *call = MEM_NEW(struct call);

    call->owner = reservations;
    call->kind = action->kind;
    call->node = str_dup(&call->arena, action->node);
    call->group = str_dup(&call->arena, action->group);
    reservations->calls++;
    api_call(reservations->options.api, request, on_answer, call);
}

static void send_create(struct reservations *reservations, const struct reservation_action *action)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *body =
        sharing_reservation(&arena, &reservations->options.settings, action->node, action->group);

    send(reservations, action,
         &(struct api_request){.verb = API_CREATE,
                               .kind = &kind_pod,
                               .ns = reservations->options.settings.ns,
                               .body = json_text(&arena, body)});
}

static void send_delete(struct reservations *reservations, const struct reservation_action *action)
{
    bool user = action->kind == RESERVATION_EVICT;

    if (user)
        log_warn(reservations->options.log, "reservation.lost",
                 LOG_STR("namespace", action->pod.ns), LOG_STR("pod", action->pod.name),
                 LOG_STR("group", action->group));
    else
        log_info(reservations->options.log, "reservation.release", LOG_STR("node", action->node),
                 LOG_STR("pod", action->pod.name));
    send(reservations, action,
         &(struct api_request){.verb = API_DELETE,
                               .kind = &kind_pod,
                               .ns = action->pod.ns,
                               .name = action->pod.name,
                               .uid = action->pod.uid,
                               .body = user ? STR("{}") : STR("{\"gracePeriodSeconds\":0}")});
}

/* ---- the scheduler's core ---- */

static void core_count(const struct reservations *reservations,
                       const struct reservation_action *action)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *pod =
        cache_get(reservations->options.cache, &kind_pod, action->pod.ns, action->pod.name);
    struct sched_pod spec;

    if (!pod)
        return;
    struct decode decode = {.config = sched_config(reservations->options.core),
                            .arena = &arena,
                            .object = pod,
                            .tree = object_json(pod, &arena)};
    decode_pod(&decode, &spec);
    spec.gpus = action->gpus;
    sched_put_pod(reservations->options.core, &spec);
}

static void core_count_ahead(const struct reservations *reservations,
                             const struct reservation_action *action)
{
    sched_put_pod(reservations->options.core, &(struct sched_pod){.ns = action->pod.ns,
                                                                  .name = action->pod.name,
                                                                  .phase = SCHED_BOUND,
                                                                  .node = action->node,
                                                                  .gpus = action->gpus});
}

/* ---- gangs ---- */

struct member {
    struct gang *gang;
    size_t index;
};

static struct gang **gang_find(struct reservations *reservations, uint64_t id)
{
    struct gang **at = &reservations->gangs;

    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void gang_end(struct reservations *reservations, const struct reservation_action *action)
{
    struct gang **at = gang_find(reservations, action->gang);
    struct gang *gang = *at;

    assert(gang); /* actions name gangs that are under way */
    *at = gang->next;
    gang->done(gang->user, action->err ? action->err->code : 0, action->err);
    for (size_t i = 0; i < gang->count; i++)
        member_write_forget(gang->writes[i]);
    arena_done(&gang->arena);
    mem_free(gang);
}

static void on_member(void *user, int code, const struct err *err)
{
    struct member *member = user;
    struct gang *gang = member->gang;

    gang->writes[member->index] = NULL;
    feed_now(gang->owner, &(struct reservation_event){.kind = RESERVATION_WRITTEN,
                                                      .gang = gang->id,
                                                      .index = member->index,
                                                      .err = code ? err : NULL});
}

static void write_member(struct reservations *reservations, const struct reservation_action *action)
{
    struct gang *gang = *gang_find(reservations, action->gang);
    const struct reservations_pod *pod;
    struct member *member;

    assert(gang);
    pod = &gang->pods[action->index];
    if (gang->writes[action->index]) {
        member_write_again(gang->writes[action->index]);
        return;
    }
    member = ARENA_NEW(&gang->arena, struct member);
    *member = (struct member){gang, action->index};
    gang->writes[action->index] = member_write_start(&(struct member_write_options){
        .api = reservations->options.api,
        .cache = reservations->options.cache,
        .pod = pod->pod,
        .groups = pod->groups,
        .group_count = pod->group_count,
        .portion = {.fraction_micro = pod->fraction_micro,
                    .memory_mib = pod->memory_mib,
                    .movable = pod->movable,
                    .devices = str_dup(&gang->arena, action->devices)},
        .done = on_member,
        .user = member});
}

static void pod_keep(struct arena *arena,
                     const struct reservations_pod *from,
                     struct reservations_pod *to)
{
    struct str *groups = ARENA_ARRAY(arena, struct str, from->group_count + 1);

    for (size_t i = 0; i < from->group_count; i++)
        groups[i] = str_dup(arena, from->groups[i]);
    *to = *from;
    to->pod = (struct sched_pod_ref){str_dup(arena, from->pod.ns), str_dup(arena, from->pod.name),
                                     str_dup(arena, from->pod.uid)};
    to->node = str_dup(arena, from->node);
    to->groups = groups;
}

void reservations_prepare(struct reservations *reservations,
                          const struct reservations_pod *pods,
                          size_t count,
                          reservations_done_fn *done,
                          void *user)
{
    struct gang *gang = MEM_NEW(struct gang);

    gang->owner = reservations;
    gang->id = ++reservations->gang_id;
    gang->pods = ARENA_ARRAY(&gang->arena, struct reservations_pod, count);
    gang->members = ARENA_ARRAY(&gang->arena, struct reservation_member, count);
    gang->writes = ARENA_ARRAY(&gang->arena, struct member_write *, count);
    gang->count = count;
    gang->done = done;
    gang->user = user;
    for (size_t i = 0; i < count; i++) {
        const struct reservations_pod *pod = &gang->pods[i];

        pod_keep(&gang->arena, &pods[i], &gang->pods[i]);
        gang->members[i] =
            (struct reservation_member){pod->pod, pod->node, pod->groups, pod->group_count};
    }
    gang->next = reservations->gangs;
    reservations->gangs = gang;
    feed_now(reservations, &(struct reservation_event){.kind = RESERVATION_WANTED,
                                                       .gang = gang->id,
                                                       .members = gang->members,
                                                       .member_count = count});
}

void reservations_bound(struct reservations *reservations,
                        const struct sched_pod_ref *pods,
                        size_t count,
                        int code,
                        const bool *undone)
{
    for (size_t i = 0; code && i < count; i++)
        if (!undone || !undone[i])
            feed_now(reservations, &(struct reservation_event){.kind = RESERVATION_NOT_BOUND,
                                                               .member = {.pod = pods[i]}});
}

/* ---- all of it ---- */

static void carry_out(struct reservations *reservations,
                      const struct reservation_action *action,
                      int64_t now_ms)
{
    struct sched *core = reservations->options.core;

    switch (action->kind) {
    case RESERVATION_CREATE: send_create(reservations, action); break;
    case RESERVATION_RELEASE:
    case RESERVATION_EVICT: send_delete(reservations, action); break;
    case RESERVATION_COUNT: core_count(reservations, action); break;
    case RESERVATION_COUNT_AHEAD: core_count_ahead(reservations, action); break;
    case RESERVATION_FORGET: sched_drop_pod(core, action->pod.ns, action->pod.name); break;
    case RESERVATION_OPENED:
    case RESERVATION_SHUT:
        sched_share_opened(core, action->node, action->kind == RESERVATION_SHUT, now_ms);
        break;
    case RESERVATION_WRITE: write_member(reservations, action); break;
    case RESERVATION_PREPARED: gang_end(reservations, action); break;
    }
}

int64_t reservations_turn(struct reservations *reservations, int64_t now_ms)
{
    reservations->again = false;
    int64_t next_ms =
        feed(reservations, &(struct reservation_event){.kind = RESERVATION_TURN}, now_ms);
    return reservations->again ? now_ms : next_ms;
}

struct reservations *reservations_new(const struct reservations_options *options)
{
    struct reservations *reservations = MEM_NEW(struct reservations);

    reservations->options = *options;
    reservations->set = reservation_set_new(
        &reservations->options.settings,
        options->timeout_ms ? options->timeout_ms : SHARING_TIMEOUT_MS, options->seed);
    return reservations;
}

void reservations_free(struct reservations *reservations)
{
    if (!reservations)
        return;
    reservations->stopped = true;
    (void)feed(reservations, &(struct reservation_event){.kind = RESERVATION_STOP}, 0);
    reservation_set_free(reservations->set);
    unref(reservations);
}
