#include "hook/hook.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/policy.h"
#include "hook/carry.h"
#include "hook/client.h"
#include "hook/convert.h"
#include "hook/review.h"
#include "hook/sweep.h"
#include "hook/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

/* ---- which webhooks there are ---- */

struct hooks {
    struct api api; /* first */
    struct api *below;
    struct converter *converter; /* is below */
    struct hook_client *client;  /* NULL: somebody else asks */
    struct hook_client
        *conversions; /* of its own: who waits to write does not keep readers waiting */
    struct hook_asker asker;
    struct api_watch *watches[2];
    VEC(struct object *) configurations;
    struct hook_table *table;
    struct call *calls; /* that wait for somebody */
    uint64_t next_uid;
    bool closing;
};

static void on_change(void *user, const struct api_change *change)
{
    struct hooks *hooks = user;

    if (!change->object)
        return;
    for (size_t i = 0; i < hooks->configurations.count; i++)
        if (hooks->configurations.items[i]->kind == change->object->kind &&
            str_eq(hooks->configurations.items[i]->name, change->object->name)) {
            object_unref(hooks->configurations.items[i]);
            VEC_REMOVE_SWAP(&hooks->configurations, i);
            break;
        }
    if (change->event != API_DELETED)
        VEC_PUSH(NULL, &hooks->configurations, object_ref(change->object));
    hook_table_unref(hooks->table);
    hooks->table = hook_table_make(hooks->configurations.items, hooks->configurations.count);
}

/* ---- a write that is asked about ---- */

enum pass {
    PASS_CHANGE, /* until `change` */
    PASS_LOOK,   /* until `look` */
    PASS_WRITE,
};

struct call {
    struct hooks *hooks;
    struct call *next;
    struct call **link;
    struct arena arena;
    struct hook_table *table;
    struct api_request request; /* copied */
    struct api_user user;
    struct api_review review;
    const char *operation;
    enum pass pass;
    unsigned tries;
    bool stopped; /* this pass has come to where it stops */
    bool known;   /* which object it changes, by old_version */
    bool moved;   /* the object that it changes is not the one it was */
    bool named;   /* its writer said the name */
    bool mutated; /* the mutating webhooks have been asked */
    struct json *old;
    struct json *object; /* as webhooks see it */
    struct json *made;   /* what they made of it; NULL: nothing */
    struct json *ns_object;
    struct str old_version;
    size_t at;            /* the mutating webhook that is asked */
    unsigned changes;     /* how many answers changed it */
    unsigned *changes_at; /* that many, when each webhook was last asked; +1 */
    bool second;          /* round: those that want to see it again */
    unsigned asking;      /* questions that are under way */
    size_t waiting;       /* for validating webhooks */
    struct str warnings;
    struct err refusal;
    struct str refusal_message;
    struct str refusal_reason;
    api_done_fn *done;
    void *done_user;
};

/* One question of it; a validating one waits beside others. */
struct asked {
    struct call *call;
    const struct hook *hook;
    struct str uid;
};

static void call_pass(struct call *call, enum pass pass);
static void call_mutate(struct call *call);
static void call_validate(struct call *call);

static void call_free(struct call *call)
{
    *call->link = call->next;
    if (call->next)
        call->next->link = call->link;
    hook_table_unref(call->table);
    arena_done(&call->arena);
    mem_free(call);
}

static void call_add_warnings(struct call *call, struct str text)
{
    if (text.len)
        call->warnings = str_printf(&call->arena, STR_FMT "%s" STR_FMT, STR_ARG(call->warnings),
                                    call->warnings.len ? "\n" : "", STR_ARG(text));
}

/* The answer to whoever wrote. */
static void call_answer(struct call *call, const struct api_result *result)
{
    struct api_result own = *result;

    call_add_warnings(call, result->warnings);
    own.warnings = call->warnings;
    call->done(call->done_user, &own);
    call_free(call);
}

static void call_refuse(struct call *call)
{
    call_answer(call, &(struct api_result){.code = call->refusal.code,
                                           .err = &call->refusal,
                                           .message = call->refusal_message,
                                           .reason = call->refusal_reason});
}

static void call_set_refusal(struct call *call, int status, const char *reason, struct str message)
{
    if (call->refusal.code)
        return; /* the first one is told */
    (void)err_set(&call->refusal, status == 409 ? -EEXIST : -EPERM, STR_FMT, STR_ARG(message));
    call->refusal.http_status = status;
    call->refusal_message = message;
    call->refusal_reason = str_from(reason);
}

/* ---- what it is about ---- */

static struct policy_request call_request(struct call *call)
{
    return (struct policy_request){
        .arena = &call->arena,
        .kind = call->request.kind,
        .ns = call->request.kind->namespaced ? call->request.ns : STR(""),
        .name = call->request.name,
        .subresource = call->request.subresource,
        .operation = call->operation,
        .dry_run = call->request.dry_run,
        .field_manager = call->request.field_manager,
        .options = call->request.verb == API_DELETE || call->request.verb == API_DELETE_COLLECTION
                       ? call->request.body
                       : STR(""),
        .user = call->request.user,
        .object = call->object,
        .old = call->old,
        .ns_object = call->ns_object};
}

/* Whether it is asked. A condition that cannot be evaluated is a failure of the webhook. */
static bool hook_is_due(struct call *call, const struct hook *hook)
{
    struct policy_request request = call_request(call);
    struct str words = STR("");

    if (!policy_matches(&request, hook->match))
        return false;
    int hold = policy_conditions(&request, json_get(hook->spec, "matchConditions"), &words);
    if (hold < 0 && !hook->ignore)
        call_set_refusal(call, 403, "Forbidden",
                         str_printf(&call->arena,
                                    "admission webhook \"" STR_FMT "\": matchConditions: " STR_FMT,
                                    STR_ARG(hook->name), STR_ARG(words)));
    return hold > 0;
}

/* ---- asking ---- */

static void ask(struct call *call, const struct hook *hook, hook_answer_fn *answer)
{
    struct asked *asked = ARENA_NEW(&call->arena, struct asked);
    struct policy_request request = call_request(call);
    uint64_t number = ++call->hooks->next_uid;

    *asked = (struct asked){
        .call = call,
        .hook = hook,
        .uid = str_printf(&call->arena, "%08" PRIx64 "-0000-4000-8000-%012" PRIx64,
                          (uint64_t)uv_hrtime() & 0xffffffff, number & 0xffffffffffff)};
    call->asking++;
    const struct hook_asker *asker = &call->hooks->asker;
    asker->ask(asker->asker, hook, review_write(&request, asked->uid), answer, asked);
}

/* True: `ret` is what it says. False: it could not be had, and a refusal is set where that counts.
 */
static bool take_answer(const struct asked *asked,
                        struct str body,
                        const struct err *failed,
                        struct review_answer *ret)
{
    struct call *call = asked->call;
    struct err err = {0};

    call->asking--;
    if (!failed && review_read(&call->arena, asked->hook, asked->uid, body, ret, &err) == 0) {
        call_add_warnings(call, ret->warnings);
        if (!ret->allowed)
            call_set_refusal(call, ret->code, str_c(&call->arena, ret->reason), ret->message);
        return true;
    }
    if (!asked->hook->ignore)
        call_set_refusal(call, 500, "InternalError",
                         str_printf(&call->arena,
                                    "Internal error occurred: failed calling webhook \"" STR_FMT
                                    "\" of configuration " STR_FMT ": %s",
                                    STR_ARG(asked->hook->name), STR_ARG(asked->hook->configuration),
                                    failed ? failed->text : err.text));
    return false;
}

/* What an answer makes of the object. */
static void call_patch(struct call *call, const struct asked *asked, const struct json *patch)
{
    struct json *made = NULL;
    struct err err = {0};
    int r =
        !call->object || call->request.connect
            ? err_set(&err, -EINVAL,
                      "it attempted to modify the object, which is not supported for "
                      "this operation")
            : patch_json(&call->arena, json_clone(&call->arena, call->object), patch, &made, &err);

    if (r == 0 &&
        (!json_is(made, JSON_OBJECT) || !json_is(json_get(made, "metadata"), JSON_OBJECT)))
        r = err_set(&err, -EINVAL, "it takes the object's metadata away");
    if (r < 0) {
        if (!asked->hook->ignore)
            call_set_refusal(call, 500, "InternalError",
                             str_printf(&call->arena,
                                        "Internal error occurred: the patch of admission webhook "
                                        "\"" STR_FMT "\" cannot be applied: %s",
                                        STR_ARG(asked->hook->name), err.text));
        return;
    }
    if (json_equal(made, call->object))
        return;
    call->object = call->made = made;
    call->changes++;
}

static void on_mutating(void *user, struct str body, const struct err *err)
{
    struct asked *asked = user;
    struct call *call = asked->call;
    struct review_answer answer = {0};

    if (take_answer(asked, body, err, &answer) && answer.allowed && answer.patch)
        call_patch(call, asked, answer.patch);
    if (call->refusal.code) {
        call_refuse(call);
        return;
    }
    call->changes_at[call->at++] = call->changes + 1;
    call_mutate(call);
}

/* In the first round all, in the second those whose object was changed behind their back. */
static bool mutating_is_due(struct call *call, const struct hook *hook)
{
    if (!hook->mutating)
        return false;
    if (call->second && (!hook->again || !call->changes_at[call->at] ||
                         call->changes_at[call->at] == call->changes + 1))
        return false;
    return hook_is_due(call, hook);
}

static bool has_validating(struct call *call)
{
    struct policy_request request = call_request(call);

    for (size_t i = 0; i < call->table->count; i++)
        if (!call->table->hooks[i].mutating &&
            policy_matches(&request, call->table->hooks[i].rules))
            return true;
    return false;
}

static void call_mutate(struct call *call)
{
    for (; call->at < call->table->count; call->at++) {
        const struct hook *hook = &call->table->hooks[call->at];

        if (mutating_is_due(call, hook)) {
            ask(call, hook, on_mutating);
            return;
        }
        if (call->refusal.code) {
            call_refuse(call);
            return;
        }
    }
    if (!call->second && call->changes > 0) {
        call->second = true;
        call->at = 0;
        call_mutate(call);
        return;
    }
    call->mutated = true;
    if (!has_validating(call))
        call_pass(call, PASS_WRITE);
    else if (call->request.verb == API_DELETE || call->request.connect) /* seen to its end */
        call_validate(call);
    else
        call_pass(call, PASS_LOOK);
}

static void call_validated(struct call *call)
{
    if (call->waiting)
        return;
    if (call->refusal.code)
        call_refuse(call);
    else
        call_pass(call, PASS_WRITE);
}

static void on_validating(void *user, struct str body, const struct err *err)
{
    struct asked *asked = user;
    struct review_answer answer = {0};

    (void)take_answer(asked, body, err, &answer);
    asked->call->waiting--;
    call_validated(asked->call);
}

static void call_validate(struct call *call)
{
    call->waiting = 1; /* answers come later, but all are asked first */
    for (size_t i = 0; i < call->table->count; i++) {
        const struct hook *hook = &call->table->hooks[i];

        if (hook->mutating || !hook_is_due(call, hook))
            continue;
        call->waiting++;
        ask(call, hook, on_validating);
    }
    call->waiting--;
    call_validated(call);
}

/* ---- passes ---- */

static bool is_same_old(const struct call *call, const struct json *old)
{
    return str_eq(call->old_version, json_str_at(old, "metadata.resourceVersion"));
}

static int stop_here(struct err *err)
{
    return err_set(err, -ECANCELED, "webhooks are asked first");
}

static void call_take(struct call *call, const struct json *old, const struct json *object)
{
    call->stopped = call->known = true;
    call->old = old ? json_clone(&call->arena, old) : NULL;
    call->object = object ? json_clone(&call->arena, object) : NULL;
    call->old_version = str_dup(&call->arena, json_str_at(old, "metadata.resourceVersion"));
    if (old)
        return;
    call->operation = "CREATE"; /* also when a patch makes it */
    struct json *meta = json_get(call->object, "metadata");
    json_remove(meta, STR("uid"));
    if (!call->named)
        json_remove(meta, STR("name")); /* the next pass makes another one */
}

static int on_object(void *user,
                     struct arena *arena,
                     const struct json *old,
                     struct json *object,
                     struct err *err)
{
    struct call *call = user;

    if (call->pass == PASS_CHANGE) {
        call_take(call, old, object);
        return stop_here(err);
    }
    call->moved = call->known && !is_same_old(call, old);
    if (call->moved)
        return stop_here(err);
    if (!call->made)
        return 0;
    carry_object(arena, object, call->made);
    return 1;
}

static int on_final(void *user, const struct json *old, const struct json *object, struct err *err)
{
    struct call *call = user;

    call->moved = call->known && !is_same_old(call, old);
    if (call->pass == PASS_WRITE && !call->moved)
        return 0;
    if (!call->moved)
        call_take(call, old, object);
    return stop_here(err);
}

/* Somebody else wrote the object in between. */
static void call_again(struct call *call)
{
    if (++call->tries >= HOOK_TRIES_MAX) {
        call_set_refusal(call, 409, "Conflict",
                         str_printf(&call->arena,
                                    "Operation cannot be fulfilled on %s \"" STR_FMT
                                    "\": the object has been modified while webhooks were asked; "
                                    "please apply your changes to the latest version and try again",
                                    call->request.kind->plural, STR_ARG(call->request.name)));
        call_refuse(call);
        return;
    }
    call->known = call->mutated = call->second = false;
    call->made = NULL;
    call->at = 0;
    call->changes = 0;
    memset(call->changes_at, 0, call->table->count * sizeof(call->changes_at[0]));
    call_pass(call, call->request.verb == API_DELETE ? PASS_LOOK : PASS_CHANGE);
}

static void call_close(struct call *call)
{
    call_set_refusal(call, 503, "ServiceUnavailable", STR("the server is being stopped"));
    call_refuse(call);
}

static void on_pass(void *user, const struct api_result *result)
{
    struct call *call = user;

    if (call->hooks->closing && call->pass != PASS_WRITE)
        call_close(call);
    else if (call->moved)
        call_again(call);
    else if (call->pass == PASS_WRITE || (!call->stopped && result->code < 0))
        call_answer(call, result);
    else if (!call->stopped) /* nobody could be asked about it */
        call_pass(call, PASS_WRITE);
    else if (!call->mutated)
        call_mutate(call);
    else
        call_validate(call);
}

static void call_pass(struct call *call, enum pass pass)
{
    struct api_request request = call->request;

    call->pass = pass;
    call->stopped = call->moved = false;
    request.dry_run = request.dry_run || pass != PASS_WRITE;
    request.review = &call->review;
    api_call(call->hooks->below, &request, on_pass, call);
}

/* ---- begin ---- */

static void call_start(struct call *call)
{
    if (!call->request.connect)
        call_pass(call, call->request.verb == API_DELETE ? PASS_LOOK : PASS_CHANGE);
    else if (json_parse(&call->arena, call->request.body, &call->object, NULL) == 0)
        call_mutate(call);
    else
        call_pass(call, PASS_WRITE); /* ours to write, so it is never so */
}

static void on_namespace(void *user, const struct api_result *result)
{
    struct call *call = user;

    if (result->object)
        call->ns_object = json_clone(&call->arena, object_json(result->object, &call->arena));
    call_start(call);
}

static bool body_has_name(struct call *call)
{
    struct json *root = NULL;

    return call->request.name.len ||
           (json_parse(&call->arena, call->request.body, &root, NULL) == 0 &&
            json_str_at(root, "metadata.name").len > 0);
}

static void call_begin(struct hooks *hooks,
                       const struct api_request *request,
                       const char *operation,
                       api_done_fn *done,
                       void *user)
{
    struct call *call = MEM_NEW(struct call);

    call->hooks = hooks;
    call->next = hooks->calls;
    call->link = &hooks->calls;
    if (call->next)
        call->next->link = &call->next;
    hooks->calls = call;
    call->table = hook_table_ref(hooks->table);
    call->changes_at = ARENA_ARRAY(&call->arena, unsigned, call->table->count + 1);
    call->operation = operation;
    call->review = (struct api_review){.change = on_object, .look = on_final, .user = call};
    call->done = done;
    call->done_user = user;
    carry_request(&call->arena, request, &call->request, &call->user);
    call->named = body_has_name(call);
    if (!request->kind->namespaced) {
        call_start(call);
        return;
    }
    api_call(
        hooks->below,
        &(struct api_request){.verb = API_GET, .kind = &kind_namespace, .name = call->request.ns},
        on_namespace, call);
}

/* Those that decide about webhooks and policies: one that refused its own repair would stay. */
static bool is_exempt(const struct api_request *request)
{
    static const struct kind *const kinds[] = {&kind_mutatingwebhooks, &kind_validatingwebhooks,
                                               &kind_admissionpolicy, &kind_admissionbinding};

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (request->kind == kinds[i])
            return true;
    return request->subresource.len && !request->connect &&
           !kind_has_part(request->kind, request->subresource);
}

/* NULL: no webhook is about it. */
static const char *asked_about(const struct hooks *hooks, const struct api_request *request)
{
    const char *operations[] = {
        request->connect                                                        ? "CONNECT"
        : request->verb == API_CREATE                                           ? "CREATE"
        : request->verb == API_DELETE || request->verb == API_DELETE_COLLECTION ? "DELETE"
                                                                                : "UPDATE",
        request->patch == API_PATCH_APPLY ? "CREATE" : NULL};

    if ((request->verb == API_GET && !request->connect) || request->verb == API_LIST ||
        is_exempt(request))
        return NULL;
    for (size_t o = 0; o < COUNT_OF(operations) && operations[o]; o++) {
        struct policy_request asked = {.kind = request->kind,
                                       .name = request->name,
                                       .subresource = request->subresource,
                                       .operation = operations[o]};

        for (size_t i = 0; i < hooks->table->count; i++)
            if (policy_matches(&asked, hooks->table->hooks[i].rules))
                return operations[0];
    }
    return NULL;
}

/* ---- a collection that is deleted: each of it is asked about ---- */

static void delete_one(void *deleter,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct hooks *hooks = deleter;

    if (hooks->closing)
        api_call(hooks->below, request, done, user);
    else
        call_begin(hooks, request, "DELETE", done, user);
}

/* ---- struct api ---- */

static void hooks_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct hooks *hooks = (struct hooks *)api;
    const char *operation =
        hooks->table->count && !hooks->closing ? asked_about(hooks, request) : NULL;

    if (!operation)
        api_call(hooks->below, request, done, user);
    else if (request->verb == API_DELETE_COLLECTION)
        sweep(&(struct sweep){.list = hooks->below, .delete = delete_one, .deleter = hooks},
              request, done, user);
    else
        call_begin(hooks, request, operation, done ? done : api_ignore, user);
}

static void hooks_bind(struct api *api,
                       const struct api_binding *bindings,
                       size_t count,
                       api_done_fn *done,
                       void *user)
{
    api_bind(((struct hooks *)api)->below, bindings, count, done, user);
}

static struct api_watch *hooks_watch(struct api *api,
                                     const struct api_watch_request *request,
                                     api_watch_fn *fn,
                                     void *user)
{
    return api_watch(((struct hooks *)api)->below, request, fn, user);
}

static void hooks_watch_stop(struct api *api, struct api_watch *watch)
{
    api_watch_stop(((struct hooks *)api)->below, watch);
}

static const struct api_ops ops = {
    .call = hooks_call,
    .bind = hooks_bind,
    .watch = hooks_watch,
    .watch_stop = hooks_watch_stop,
};

static void ask_client(void *asker,
                       const struct hook *hook,
                       struct str body,
                       hook_answer_fn *answer,
                       void *user)
{
    hook_client_ask(asker, hook, body, answer, user);
}

struct hooks *hooks_new(struct uv_loop_s *loop, struct api *below, const struct hook_asker *asker)
{
    static const struct kind *const kinds[] = {&kind_mutatingwebhooks, &kind_validatingwebhooks};
    struct hooks *hooks = MEM_NEW(struct hooks);

    hooks->api = (struct api){.ops = &ops, .kinds = below->kinds};
    hooks->conversions = asker ? NULL : hook_client_new(loop, below);
    hooks->converter = converter_new(
        loop, below, asker ? asker : &(struct hook_asker){ask_client, hooks->conversions});
    below = converter_api(hooks->converter);
    hooks->below = below;
    hooks->client = asker ? NULL : hook_client_new(loop, below);
    hooks->asker = asker ? *asker : (struct hook_asker){ask_client, hooks->client};
    hooks->table = hook_table_make(NULL, 0);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        hooks->watches[i] =
            api_watch(below, &(struct api_watch_request){.kind = kinds[i]}, on_change, hooks);
    return hooks;
}

struct api *hooks_api(struct hooks *hooks)
{
    return &hooks->api;
}

void hooks_stop(struct hooks *hooks)
{
    if (!hooks)
        return;
    hooks->closing = true;
    for (size_t i = 0; i < COUNT_OF(hooks->watches); i++)
        api_watch_stop(hooks->below, hooks->watches[i]);
    hook_client_free(hooks->client);
    hook_client_free(hooks->conversions);
    hooks->client = hooks->conversions = NULL;
    converter_stop(hooks->converter);
    for (struct call *call = hooks->calls, *next; call; call = next) {
        next = call->next;
        if (call->asking)
            call_close(call);
    }
}

void hooks_free(struct hooks *hooks)
{
    if (!hooks)
        return;
    while (hooks->calls)
        call_free(hooks->calls);
    for (size_t i = 0; i < hooks->configurations.count; i++)
        object_unref(hooks->configurations.items[i]);
    VEC_DONE(&hooks->configurations);
    hook_table_unref(hooks->table);
    converter_free(hooks->converter);
    mem_free(hooks);
}
