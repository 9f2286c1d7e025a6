#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/kube_internal.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <errno.h>

/* The binds of one gang. Each pod goes
 *
 *     BIND -> BOUND                     2xx
 *          -> CHECK -> BOUND            409, and the pod is on our node: an earlier try took effect
 *                   -> REFUSED          409, and it is not
 *          -> REFUSED                   404, 403, 422: this pod will never be there
 *          -> BIND again, later         no answer, 429, 5xx
 *     and, once any is REFUSED:  BOUND -> UNDO -> UNDONE   the pod is deleted, by its uid
 *
 * An answer that does not come is asked for until it does: while the server cannot be reached the
 * gang can be neither completed nor undone. Answers that keep saying "not now" count against
 * KUBE_BIND_MS, from the first of them behind such a time: a server that has just started says so. */

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 1000

enum step {
    STEP_BIND,
    STEP_CHECK,
    STEP_BOUND,
    STEP_REFUSED,
    STEP_UNDO,
    STEP_UNDONE,
};

struct member {
    struct kube_gang *gang;
    struct api_binding binding; /* in the gang's arena */
    struct client_call *call;
    enum step step;
};

struct kube_gang {
    struct kube_gang *next;
    struct kube_gang *prev;
    struct kube *kube;
    struct arena arena;
    api_done_fn *done;
    void *user;
    struct timer *timer;
    int64_t not_now_ms; /* since when answers say so; 0: they do not */
    int64_t retry_ms;
    bool refused;
    struct err err; /* of the first refusal */
    struct api_result result;
    size_t count;
    struct member members[];
};

static bool settled(const struct member *member)
{
    return member->step == STEP_REFUSED || member->step == STEP_UNDONE ||
           (member->step == STEP_BOUND && !member->gang->refused);
}

static void gang_free(struct kube_gang *gang);

static void advance(struct kube_gang *gang);

static void on_timer(void *user)
{
    advance(user);
}

static void try_again(struct kube_gang *gang)
{
    timer_in(gang->timer, kube_jitter(gang->kube, gang->retry_ms), on_timer);
    gang->retry_ms = gang->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : gang->retry_ms * 2;
}

static void refuse(struct member *member, const struct api_result *result)
{
    struct kube_gang *gang = member->gang;

    member->step = STEP_REFUSED;
    if (gang->refused)
        return;
    gang->refused = true;
    gang->err = *result->err;
    gang->result.code = err_wrap(&gang->err, result->code, "bind pod " STR_FMT "/" STR_FMT,
                                 STR_ARG(member->binding.ns), STR_ARG(member->binding.pod));
    gang->err.http_status = result->err->http_status;
    gang->result.err = &gang->err;
    gang->result.reason = str_dup(&gang->arena, result->reason);
}

static bool will_pass(const struct transport_reply *reply)
{
    return reply->code || reply->status == 429 || reply->status >= 500 || reply->status == 401;
}

bool kube_bind_is_late(int64_t *not_now_ms, bool answered, int64_t now_ms)
{
    if (!answered)
        *not_now_ms = 0;
    else if (!*not_now_ms)
        *not_now_ms = now_ms;
    return *not_now_ms && now_ms - *not_now_ms >= KUBE_BIND_MS;
}

static void after_bind(struct member *member, const struct transport_reply *reply)
{
    struct kube_gang *gang = member->gang;
    struct arena arena = {0};
    struct api_result result = {0};
    struct err err = {0};

    if (!reply->code && reply->status >= 200 && reply->status < 300) {
        member->step = STEP_BOUND;
        gang->kube->stats.binds++;
        return;
    }
    if (!reply->code && reply->status == 409) {
        member->step = STEP_CHECK;
        return;
    }
    if (will_pass(reply) &&
        !kube_bind_is_late(&gang->not_now_ms, !reply->code, clock_monotonic_ms()))
        return;
    kube_failure(&arena, reply, &result, &err);
    refuse(member, &result);
    arena_done(&arena);
}

/* The pod as it is: bound by an earlier try of ours, or not ours to bind. */
static void after_check(struct member *member, const struct transport_reply *reply)
{
    struct arena arena = {0};
    struct json *pod = NULL;
    struct api_result result = {0};
    struct err err = {0};

    if (will_pass(reply))
        return;
    if (reply->status != 200) {
        kube_failure(&arena, reply, &result, &err);
        refuse(member, &result);
        arena_done(&arena);
        return;
    }
    (void)json_parse(&arena, reply->body, &pod, NULL);
    if (str_eq(json_str_at(pod, "metadata.uid"), member->binding.uid) &&
        str_eq(json_str_at(pod, "spec.nodeName"), member->binding.node) &&
        json_is_null(json_at(pod, "metadata.deletionTimestamp"))) {
        member->step = STEP_BOUND;
        member->gang->kube->stats.binds++;
    } else {
        result.code = err_set(&err, -EBUSY,
                              "the pod has changed: it is another one, being deleted, "
                              "or on another node");
        result.err = &err;
        err.http_status = 409;
        result.reason = STR("Conflict");
        refuse(member, &result);
    }
    arena_done(&arena);
}

static void on_reply(void *user, const struct transport_reply *reply)
{
    struct member *member = user;
    struct kube_gang *gang = member->gang;
    enum step before = member->step;

    member->call = NULL;
    switch (before) {
    case STEP_BIND: after_bind(member, reply); break;
    case STEP_CHECK: after_check(member, reply); break;
    case STEP_UNDO:
        /* 404, 409: gone, or another pod of that name by now. */
        if (!will_pass(reply))
            member->step = STEP_UNDONE;
        break;
    case STEP_BOUND:
    case STEP_REFUSED:
    case STEP_UNDONE: break;
    }
    if (member->step == before)
        try_again(gang);
    else
        advance(gang);
}

static struct str binding_body(struct arena *arena, const struct api_binding *binding)
{
    struct json *root = json_new_object(arena);
    struct json *meta;
    struct json *annotations = NULL;

    json_add_c(arena, root, "apiVersion", "v1");
    json_add_c(arena, root, "kind", "Binding");
    meta = json_add_object(arena, root, "metadata");
    json_add_str(arena, meta, "name", binding->pod);
    json_add_str(arena, meta, "namespace", binding->ns);
    if (binding->uid.len > 0)
        json_add_str(arena, meta, "uid", binding->uid);
    if (binding->annotations.len > 0 &&
        json_parse(arena, binding->annotations, &annotations, NULL) == 0)
        json_set(meta, STR("annotations"), annotations);
    json_fill(arena, root, "{target: {apiVersion: 'v1', kind: 'Node', name: $}}", binding->node);
    return json_text(arena, root);
}

static struct str undo_body(struct arena *arena, const struct api_binding *binding)
{
    struct json *root = json_make(
        arena, "{apiVersion: 'v1', kind: 'DeleteOptions', preconditions: {uid: $}}", binding->uid);
    return json_text(arena, root);
}

static void send_step(struct member *member)
{
    const struct api_binding *binding = &member->binding;
    struct kube *kube = member->gang->kube;
    struct arena arena = {0};
    _cleanup_(buf_done) struct buf path = {0};
    struct client_request request = {.class = LIMITER_BIND,
                                     .method = "GET",
                                     .led = member->step != STEP_CHECK,
                                     .done = on_reply,
                                     .user = member};

    kube_path(&path, &kind_pod, binding->ns, binding->pod,
              member->step == STEP_BIND ? STR("binding") : STR_NONE);
    request.path = buf_str(&path);
    if (member->step == STEP_BIND) {
        request.method = "POST";
        request.content_type = "application/json";
        request.body = binding_body(&arena, binding);
    } else if (member->step == STEP_UNDO) {
        request.method = "DELETE";
        request.content_type = "application/json";
        request.body = undo_body(&arena, binding);
    }
    member->call = client_send(kube->client, &request);
    arena_done(&arena);
}

static const bool *undone_members(struct kube_gang *gang)
{
    bool *undone = ARENA_ARRAY(&gang->arena, bool, gang->count);

    for (size_t i = 0; i < gang->count; i++)
        undone[i] = gang->members[i].step == STEP_UNDONE;
    return undone;
}

static void gang_done(struct kube_gang *gang)
{
    if (gang->refused && gang->count > 1) {
        gang->kube->stats.binds_undone++;
        log_warn(gang->kube->log, "gang.undone", LOG_I64("pods", (int64_t)gang->count),
                 LOG_ERR(&gang->err));
        gang->result.undone = undone_members(gang);
    }
    gang->done(gang->user, &gang->result);
    gang_free(gang);
}

/* Send what is due; end when every pod is where it should be. */
static void advance(struct kube_gang *gang)
{
    bool all = true;

    for (size_t i = 0; i < gang->count; i++) {
        struct member *member = &gang->members[i];

        /* A bind not sent yet is not sent any more once the gang is lost. */
        if (gang->refused && !member->call && member->step == STEP_BIND)
            member->step = STEP_CHECK;
        if (gang->refused && !member->call && member->step == STEP_BOUND)
            member->step = STEP_UNDO;
        if (settled(member))
            continue;
        all = false;
        if (!member->call && member->step != STEP_BOUND)
            send_step(member);
    }
    if (all)
        gang_done(gang);
}

void kube_bind(struct api *api,
               const struct api_binding *bindings,
               size_t count,
               api_done_fn *done,
               void *user)
{
    struct kube *kube = (struct kube *)api;
    struct kube_gang *gang = mem_alloc(sizeof(*gang) + count * sizeof(gang->members[0]));

    gang->kube = kube;
    gang->done = done;
    gang->user = user;
    gang->count = count;
    gang->retry_ms = RETRY_MIN_MS;
    for (size_t i = 0; i < count; i++)
        gang->members[i] = (struct member){
            .gang = gang,
            .binding = {.ns = str_dup(&gang->arena, bindings[i].ns),
                        .pod = str_dup(&gang->arena, bindings[i].pod),
                        .uid = str_dup(&gang->arena, bindings[i].uid),
                        .node = str_dup(&gang->arena, bindings[i].node),
                        .annotations = str_dup(&gang->arena, bindings[i].annotations)},
        };
    gang->timer = timer_new(kube->loop, gang);
    gang->next = kube->gangs;
    if (kube->gangs)
        kube->gangs->prev = gang;
    kube->gangs = gang;
    if (kube->closing)
        return;     /* told by kube_close() */
    if (count == 0) /* done must not be called from here */
        timer_in(gang->timer, 0, on_timer);
    else
        advance(gang);
}

static void gang_free(struct kube_gang *gang)
{
    *(gang->prev ? &gang->prev->next : &gang->kube->gangs) = gang->next;
    if (gang->next)
        gang->next->prev = gang->prev;
    for (size_t i = 0; i < gang->count; i++)
        client_cancel(gang->members[i].call);
    timer_free(gang->timer);
    arena_done(&gang->arena);
    mem_free(gang);
}

void kube_gangs_close(struct kube *kube, const struct err *err)
{
    while (kube->gangs) {
        struct kube_gang *gang = kube->gangs;
        api_done_fn *done = gang->done;
        void *user = gang->user;

        gang_free(gang);
        done(user, &(struct api_result){.code = err->code, .err = err});
    }
}
