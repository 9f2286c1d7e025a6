#include "exec/executor.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "exec/event.h"
#include "http/tls.h"
#include "keys/ssh_keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct execution {
    struct executor_call call;
    const struct actions *actions; /* NULL once forgotten */
    struct api_request *requests;  /* of each action, in the actions' arena */
    size_t next;                   /* index of the first action not sent */
    size_t under_way;
    bool sent; /* something was: events say what came of it */
    int code;
    bool stale;
    struct err err;
    struct str refused; /* see executor_result; of the actions' arena */
    struct err lost;    /* empty: nothing was */
    VEC(struct executor_write) writes;
};

/* One call under way, so that its answer knows what was asked. */
struct step {
    struct execution *execution;
    size_t index; /* of the action */
    enum action_type type;
    bool lossy;
};

static void advance(struct execution *execution);
static void tell(const struct execution *execution, const struct action *action);

static void execution_free(struct execution *execution)
{
    VEC_DONE(&execution->writes);
    mem_free(execution);
}

static void remember_write(struct execution *execution, const struct object *object)
{
    for (size_t i = 0; i < execution->writes.count; i++) {
        struct executor_write *write = &execution->writes.items[i];

        if (write->kind != object->kind)
            continue;
        if (write->revision < object->revision)
            write->revision = object->revision;
        return;
    }
    VEC_PUSH(NULL, &execution->writes, (struct executor_write){object->kind, object->revision});
}

/* What a failed call means: nothing (the wish is fulfilled already), that our view is old, or a
 * failure. */
static bool is_done_anyway(enum action_type type, const struct api_result *result)
{
    int status = result->err ? result->err->http_status : 0;

    if (type == ACTION_CREATE)
        return str_is(result->reason, "AlreadyExists");
    if (type == ACTION_DELETE)
        /* A conflict is a uid that no longer matches: the one that was meant is gone. */
        return status == 404 || status == 409 || result->code == -ENOENT;
    return false;
}

static bool is_stale(enum action_type type, const struct api_result *result)
{
    int status = result->err ? result->err->http_status : 0;

    return type != ACTION_CREATE && (status == 404 || status == 409);
}

/* Not for a moment: the server is busy, or on its way. */
static bool is_refusal(const struct api_result *result)
{
    int status = result->err ? result->err->http_status : 0;

    return result->err &&
           (status ? status >= 400 && status != 429 && status < 503 : result->code == -EINVAL);
}

/* Somebody else's object has the name, and stays: not one that is going, nor one of an owner of our
 * owner's name, which goes as well. Of what is not in the cache nobody knows. */
static bool is_taken(const struct execution *execution, size_t index)
{
    const struct api_request *request = &execution->requests[index];
    struct json *body = NULL;

    if (request->verb != API_CREATE || !execution->call.cache ||
        json_parse(execution->actions->arena, request->body, &body, NULL) < 0)
        return false;
    const struct object *there = cache_get(execution->call.cache, request->kind, request->ns,
                                           json_str_at(body, "metadata.name"));
    const struct json *owner = json_at(body, "metadata.ownerReferences.0");
    if (!there || there->deleted_ms || !owner)
        return false;
    for (size_t i = 0; i < there->owner_count; i++)
        if (str_eq(there->owners[i].kind, json_str(json_get(owner, "kind"))) &&
            str_eq(there->owners[i].name, json_str(json_get(owner, "name"))))
            return false;
    return true;
}

static void keep_failure(struct execution *execution,
                         const struct step *step,
                         const struct api_result *result,
                         bool taken)
{
    struct arena *arena = execution->actions->arena;

    execution->code = result->code;
    execution->stale = is_stale(step->type, result);
    if (result->err)
        execution->err = *result->err;
    if (step->type != ACTION_CREATE || !is_refusal(result))
        return;
    struct str words = result->message.len ? result->message : str_from(execution->err.text);
    execution->refused =
        taken
            ? str_printf(arena,
                         STR_FMT " and belongs to somebody else; delete it, or rename one of them",
                         STR_ARG(words))
            : str_dup(arena, words);
}

/* What is to be told of an action that was done. */
static void tell_done(const struct execution *execution, size_t index)
{
    const struct actions *actions = execution->actions;

    while (++index < actions->list.count && actions->list.items[index].type >= ACTION_EVENT)
        if (actions->list.items[index].type == ACTION_EVENT && !actions->list.items[index].warning)
            tell(execution, &actions->list.items[index]);
}

static void on_answer(void *user, const struct api_result *result)
{
    struct step *step = user;
    struct execution *execution = step->execution;
    bool done = false;
    bool taken = false;

    execution->under_way--;
    if (!result->code) {
        if (result->object && step->type != ACTION_DELETE)
            remember_write(execution, result->object);
    } else if (step->lossy) {
        if (result->err && !execution->lost.text[0])
            execution->lost = *result->err;
    } else {
        done = is_done_anyway(step->type, result);
        taken = done && execution->actions && is_taken(execution, step->index);
        if ((!done || taken) && !execution->code && execution->actions)
            keep_failure(execution, step, result, taken);
    }
    if ((!result->code || (done && !taken)) && execution->actions)
        tell_done(execution, step->index);
    mem_free(step);
    if (!execution->under_way)
        advance(execution);
}

static struct api_request request_for(struct arena *arena, const struct action *action)
{
    struct api_request request = {.kind = action->kind,
                                  .ns = str_dup(arena, action->ns),
                                  .name = action->name,
                                  .uid = action->uid};

    switch (action->type) {
    case ACTION_CREATE:
        request.verb = API_CREATE;
        request.name = STR_NONE;
        request.uid = STR_NONE;
        request.body = json_text(arena, action->body);
        break;
    case ACTION_PATCH_STATUS: request.subresource = STR("status"); __attribute__((fallthrough));
    case ACTION_PATCH:
        request.verb = API_PATCH;
        request.patch = API_PATCH_MERGE;
        if (action->revision)
            json_add_str(arena, json_make_path(arena, action->body, "metadata"), "resourceVersion",
                         str_printf(arena, "%llu", (unsigned long long)action->revision));
        request.body = json_text(arena, action->body);
        break;
    case ACTION_DELETE:
        request.verb = API_DELETE;
        if (action->grace_seconds >= 0)
            request.body = str_printf(arena,
                                      "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\","
                                      "\"gracePeriodSeconds\":%lld}",
                                      (long long)action->grace_seconds);
        else if (action->foreground)
            request.body = STR("{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\","
                               "\"propagationPolicy\":\"Foreground\"}");
        break;
    case ACTION_POST: request.body = json_text(arena, action->body); break; /* no request, yet */
    case ACTION_EVENT:
    case ACTION_WATCH:
    case ACTION_LEARN:
    case ACTION_LOOK_AGAIN: break; /* no request */
    }
    return request;
}

/* The value of a Secret that is to be drawn: controllers are pure and cannot. */
static int draw(const struct execution *execution, const struct action *action, struct err *err)
{
    _cleanup_(buf_done) struct buf hex = {0};
    struct arena *arena = execution->actions->arena;
    executor_draw_fn *fn = execution->call.draw ? execution->call.draw : tls_random_hex;
    int r = fn(&hex, LAUNCH_SECRET_BYTES, err);

    if (r == 0)
        json_set(json_make_path(arena, action->body, "data"), action->draw,
                 json_new_str(arena, base64_encode(arena, buf_str(&hex))));
    return r;
}

/* Everything is written down before the first action is sent: bodies may point into objects of the
 * cache, which are gone once an earlier action of the list has changed them. */
static int write_down(struct execution *execution, struct err *err)
{
    const struct actions *actions = execution->actions;

    execution->requests = ARENA_ARRAY(actions->arena, struct api_request, actions->list.count);
    for (size_t i = 0; i < actions->list.count; i++) {
        const struct action *action = &actions->list.items[i];
        int r = action->ssh_keys ? ssh_keys_fill(actions->arena, action->body, err) : 0;

        if (r == 0 && action->draw.len)
            r = draw(execution, action, err);
        if (r < 0)
            return r;
        execution->requests[i] = request_for(actions->arena, action);
    }
    return 0;
}

static void on_posted(void *user, int code, const struct err *err)
{
    struct execution *execution = user;

    execution->under_way--;
    if (code && !execution->code) {
        execution->code = code;
        if (err)
            execution->err = *err;
    }
    if (!execution->under_way)
        advance(execution);
}

/* What cannot be sent is a failure of the list. */
static void post(struct execution *execution, size_t index)
{
    const struct executor_post *post = execution->call.post;
    const struct api_request *request = &execution->requests[index];

    if (!post)
        return;
    int r = post->send(post->user, request->ns, request->name, request->body, on_posted, execution);
    if (r == 0)
        execution->under_way++;
    else
        execution->code = err_set(&execution->err, r, "too many are told at the moment");
}

static void send_action(struct execution *execution, size_t index)
{
    const struct action *action = &execution->actions->list.items[index];
    struct step *step = MEM_NEW(struct step);

    *step = (struct step){execution, index, action->type, action->lossy};
    execution->under_way++;
    execution->sent = true;
    api_call(execution->call.api, &execution->requests[index], on_answer, step);
}

static void tell(const struct execution *execution, const struct action *action)
{
    event_send(execution->call.api, &(struct event){.kind = action->kind,
                                                    .ns = action->ns,
                                                    .name = action->name,
                                                    .uid = action->uid,
                                                    .reason = action->reason,
                                                    .message = action->message,
                                                    .warning = action->warning,
                                                    .component = execution->call.component,
                                                    .now_ms = execution->call.now_ms});
}

/* Send the next wave: one action, a run of creates or of deletes, and what may go beside them. */
static void send_wave(struct execution *execution)
{
    const struct actions *actions = execution->actions;
    enum action_type type = ACTION_LOOK_AGAIN;

    for (; execution->next < actions->list.count; execution->next++) {
        const struct action *action = &actions->list.items[execution->next];

        if (action->type == ACTION_LOOK_AGAIN || action->type == ACTION_WATCH ||
            action->type == ACTION_LEARN)
            continue;
        if (action->type == ACTION_EVENT) {
            if (action->warning || !execution->sent)
                tell(execution, action);
            continue;
        }
        bool alike = action->type == type && (type == ACTION_CREATE || type == ACTION_DELETE);
        bool together = alike || action->beside;
        if (execution->under_way && (!together || execution->under_way >= EXECUTOR_WAVE_MAX))
            return;
        type = action->type;
        if (type == ACTION_POST)
            post(execution, execution->next);
        else
            send_action(execution, execution->next);
        if (execution->code)
            return;
    }
}

static void advance(struct execution *execution)
{
    if (execution->actions && !execution->code)
        send_wave(execution);
    if (execution->under_way)
        return;
    if (execution->actions)
        execution->call.done(execution->call.user,
                             &(struct executor_result){
                                 .code = execution->code,
                                 .err = execution->code ? &execution->err : NULL,
                                 .stale = execution->stale,
                                 .refused = execution->refused,
                                 .lost = execution->lost.text[0] ? &execution->lost : NULL,
                                 .writes = execution->writes.items,
                                 .write_count = execution->writes.count,
                             });
    execution_free(execution);
}

int executor_run(const struct executor_call *call,
                 const struct actions *actions,
                 struct execution **ret,
                 struct err *err)
{
    struct execution *execution = MEM_NEW(struct execution);

    execution->call = *call;
    execution->actions = actions;
    int r = write_down(execution, err);
    if (r == 0)
        send_wave(execution);
    if (r == 0 && !execution->under_way && execution->code) {
        r = execution->code;
        if (err)
            *err = execution->err;
    }
    *ret = execution->under_way ? execution : NULL;
    if (!execution->under_way)
        execution_free(execution);
    return r;
}

void execution_forget(struct execution *execution)
{
    if (execution)
        execution->actions = NULL;
}
