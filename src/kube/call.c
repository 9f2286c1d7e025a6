#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/protobuf.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/kube_internal.h"
#include "system/process.h"
#include "tool/clock.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdlib.h>

/* One request of struct api: its address and body, and what the answer means. What bind.c, feed.c
 * and source.c need of that for their own requests is exported. */

#define TRIM_MS       1000  /* after a burst */
#define TRIM_PAUSE_MS 10000 /* between two times, whatever happens */

struct kube_call {
    struct kube_call *next;
    struct kube_call *prev;
    struct kube *kube;
    struct client_call *request;
    const struct kind *kind;
    enum api_verb verb;
    bool subresource;
    bool led; /* only a leader may send it */
    api_done_fn *done;
    void *user;
};

/* ---- addresses ---- */

void kube_escape(struct buf *buf, struct str text)
{
    static const char safe[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:";

    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] && strchr(safe, text.p[i]))
            buf_addc(buf, text.p[i]);
        else
            buf_addf(buf, "%%%02X", (unsigned int)(unsigned char)text.p[i]);
    }
}

void kube_path(struct buf *buf,
               const struct kind *kind,
               struct str ns,
               struct str name,
               struct str subresource)
{
    if (*kind->group)
        buf_addf(buf, "/apis/%s/%s", kind->group, kind->version);
    else
        buf_addf(buf, "/api/%s", kind->version);
    if (kind->namespaced && ns.len > 0) {
        buf_addf(buf, "/namespaces/");
        kube_escape(buf, ns);
    }
    buf_addf(buf, "/%s", kind->plural);
    if (name.len > 0) {
        buf_addc(buf, '/');
        kube_escape(buf, name);
    }
    if (subresource.len > 0) {
        buf_addc(buf, '/');
        kube_escape(buf, subresource);
    }
}

void kube_query(struct buf *buf, bool *first, const char *key, struct str value)
{
    if (value.len == 0)
        return;
    buf_addc(buf, *first ? '?' : '&');
    *first = false;
    buf_addf(buf, "%s=", key);
    kube_escape(buf, value);
}

static void call_path(struct buf *buf, const struct api_request *request)
{
    bool first = true;
    char number[24];

    /* Who connects to a pod was asked about by the API server, before it came to the node. */
    kube_path(buf, request->kind, request->ns, request->name,
              request->connect ? STR_NONE : request->subresource);
    kube_query(buf, &first, "labelSelector", request->label_selector);
    kube_query(buf, &first, "fieldSelector", request->field_selector);
    if (request->limit > 0) {
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)request->limit);
        kube_query(buf, &first, "limit", str_from(number));
    }
    kube_query(buf, &first, "continue", request->continue_token);
    if (request->verb == API_CREATE || request->verb == API_UPDATE || request->verb == API_PATCH) {
        /* Server-side apply wants an owner in any case. */
        struct str manager = request->field_manager.len ? request->field_manager : STR("muster");

        kube_query(buf, &first, "fieldManager", manager);
        if (request->force)
            kube_query(buf, &first, "force", STR("true"));
        if (request->strict_fields)
            kube_query(buf, &first, "fieldValidation", STR("Strict"));
    }
    if (request->dry_run)
        kube_query(buf, &first, "dryRun", STR("All"));
}

/* ---- bodies ---- */

static const char *method_of(enum api_verb verb)
{
    switch (verb) {
    case API_CREATE: return "POST";
    case API_UPDATE: return "PUT";
    case API_PATCH: return "PATCH";
    case API_DELETE:
    case API_DELETE_COLLECTION: return "DELETE";
    case API_GET:
    case API_LIST: break;
    }
    return "GET";
}

static const char *content_of(const struct api_request *request)
{
    if (request->verb == API_GET || request->verb == API_LIST)
        return NULL;
    if (request->verb != API_PATCH)
        return "application/json";
    switch (request->patch) {
    case API_PATCH_JSON: return "application/json-patch+json";
    case API_PATCH_STRATEGIC: return "application/strategic-merge-patch+json";
    case API_PATCH_APPLY: return "application/apply-patch+yaml";
    case API_PATCH_MERGE: break;
    }
    return "application/merge-patch+json";
}

/* The body with the uid it must meet put into it: a precondition of a delete or an eviction, a test
 * of a JSON patch, metadata.uid of the other patches (a uid cannot change, so the server refuses
 * another one: see is_another()). */
static int guard(struct arena *arena,
                 const struct api_request *request,
                 struct str *ret,
                 struct err *err)
{
    struct json *body = NULL;
    int r;

    if (request->body.len > 0) {
        r = json_parse(arena, request->body, &body, err);
        if (r < 0)
            return err_wrap(err, r, "request body");
    }
    if (request->verb == API_DELETE) {
        if (!body)
            body = json_new_object(arena);
        json_add_str(arena, json_make_path(arena, body, "preconditions"), "uid", request->uid);
    } else if (str_is(request->subresource, "eviction")) {
        json_add_str(arena, json_make_path(arena, body, "deleteOptions.preconditions"), "uid",
                     request->uid);
    } else if (json_is(body, JSON_ARRAY)) {
        struct json *test = json_new_object(arena);

        json_fill(arena, test, "{op: 'test', path: '/metadata/uid', value: $}", request->uid);
        json_insert(body, 0, test);
    } else if (json_is(body, JSON_OBJECT)) {
        json_add_str(arena, json_make_path(arena, body, "metadata"), "uid", request->uid);
    }
    *ret = json_text(arena, body);
    return 0;
}

/* Whether the write may meet an object other than the one it was decided for. A create meets none,
 * and deletes of collections are not made by anything that decides. */
static bool is_unguarded(const struct api_request *request)
{
    bool changes = request->verb == API_UPDATE || request->verb == API_PATCH ||
                   request->verb == API_DELETE || str_is(request->subresource, "eviction");

    return changes && request->uid.len == 0 &&
           !str_contains(request->body, STR("\"resourceVersion\":\""));
}

static enum limiter_class class_of(const struct api_request *request)
{
    if (request->kind == &kind_lease)
        return LIMITER_URGENT;
    if (request->kind == &kind_event)
        return LIMITER_EVENT;
    if (str_is(request->subresource, "binding") || str_is(request->subresource, "eviction"))
        return LIMITER_BIND;
    return request->verb == API_LIST ? LIMITER_READ : LIMITER_NORMAL;
}

/* ---- answers ---- */

static int code_of(int status, struct str reason)
{
    switch (status) {
    case 401:
    case 403: return -EACCES;
    case 404: return -ENOENT;
    case 409: return str_is(reason, "AlreadyExists") ? -EEXIST : -EBUSY;
    case 410: return -ESTALE;
    case 429:
    case 503:
    case 504: return -EAGAIN;
    default: return status >= 500 ? -EIO : -EINVAL;
    }
}

static void take_causes(struct arena *arena, const struct json *details, struct api_result *ret)
{
    struct json *causes = json_get(details, "causes");
    struct api_cause *list = ARENA_ARRAY(arena, struct api_cause, json_count(causes) + 1);

    JSON_FOREACH(causes, cause)
        list[ret->cause_count++] = (struct api_cause){
            .field = json_str(json_get(cause, "field")),
            .reason = json_str(json_get(cause, "reason")),
            .message = json_str(json_get(cause, "message")),
        };
    ret->causes = list;
}

/* A patch that named a uid met another object of the name: the server calls it invalid, because a
 * uid cannot change; what it means is a conflict. */
static bool is_another(const struct api_result *result)
{
    for (size_t i = 0; i < result->cause_count; i++)
        if (str_is(result->causes[i].field, "metadata.uid"))
            return true;
    return false;
}

void kube_failure(struct arena *arena,
                  const struct transport_reply *reply,
                  struct api_result *ret,
                  struct err *err)
{
    struct json *status = NULL;
    struct str message;

    ret->err = err;
    if (reply->code) {
        *err = *reply->err;
        ret->code = reply->code;
        return;
    }
    if (protobuf_is(reply->body))
        (void)protobuf_to_json(arena, reply->body, NULL, &status, NULL);
    else
        (void)json_parse(arena, reply->body, &status, NULL);
    message = json_str(json_get(status, "message"));
    ret->reason = json_str(json_get(status, "reason"));
    take_causes(arena, json_get(status, "details"), ret);
    if (message.len == 0)
        message = str_trim(str_sub(reply->body, 0, sizeof(err->text)));
    if (message.len == 0)
        message = STR("the API server gave no reason");
    bool another = reply->status == 422 && is_another(ret);
    int status_code = another ? 409 : reply->status;
    if (another)
        ret->reason = STR("Conflict");
    ret->code = err_set(err, code_of(status_code, ret->reason), STR_FMT, STR_ARG(message));
    err->http_status = status_code;
}

int kube_object(struct arena *arena,
                const struct kind *kind,
                struct json *item,
                struct object **ret,
                struct err *err)
{
    struct json *whole = item;
    char version[KIND_API_VERSION_BYTES];

    (void)json_remove(json_get(item, "metadata"), STR("managedFields"));
    if (!json_get(item, "kind") && json_is(item, JSON_OBJECT)) {
        whole = json_new_object(arena);
        json_add_str(arena, whole, "apiVersion", str_dup(arena, kind_api_version(kind, version)));
        json_add_c(arena, whole, "kind", kind->name);
        for (struct json *member = json_first(item), *next; member; member = next) {
            next = json_next(member);
            json_set(whole, json_key(member), member);
        }
    }
    return object_new(kind, json_text(arena, whole), ret, err);
}

struct answer {
    struct arena arena;
    struct api_result result;
    struct err err;
};

static void release_items(struct answer *answer)
{
    for (size_t i = 0; i < answer->result.item_count; i++)
        object_unref(answer->result.items[i]);
}

static int take_list(struct answer *answer, const struct kind *kind, struct json *root)
{
    struct json *items = json_get(root, "items");
    struct json *meta = json_get(root, "metadata");
    struct object **list = ARENA_ARRAY(&answer->arena, struct object *, json_count(items) + 1);
    struct api_result *result = &answer->result;

    result->items = (const struct object *const *)list;
    for (struct json *item = json_first(items), *next; item; item = next) {
        int r;

        next = json_next(item);
        r = kube_object(&answer->arena, kind, item, &list[result->item_count], &answer->err);
        if (r < 0)
            return r;
        result->item_count++;
    }
    (void)str_to_u64(json_str(json_get(meta, "resourceVersion")), &result->revision);
    result->continue_token = json_str(json_get(meta, "continue"));
    result->remaining_count = (uint64_t)json_i64_or(json_get(meta, "remainingItemCount"), 0);
    return 0;
}

static int take_answer(struct answer *answer,
                       const struct kube_call *call,
                       const struct transport_reply *reply)
{
    struct json *root = NULL;
    struct object *object = NULL;
    int r = json_parse(&answer->arena, reply->body, &root, &answer->err);

    if (r < 0)
        return err_wrap(&answer->err, r, "answer of the API server");
    answer->result.created = reply->status == 201;
    answer->result.warnings = reply->warnings;
    if (call->verb == API_LIST || call->verb == API_DELETE_COLLECTION)
        return take_list(answer, call->kind, root);
    /* A delete that took effect at once, a binding and an eviction answer with a Status. */
    if (!str_is(json_str(json_get(root, "kind")), call->kind->name))
        return 0;
    r = kube_object(&answer->arena, call->kind, root, &object, &answer->err);
    answer->result.object = object;
    return r;
}

static void call_free(struct kube_call *call)
{
    *(call->prev ? &call->prev->next : &call->kube->calls) = call->next;
    if (call->next)
        call->next->prev = call->prev;
    client_cancel(call->request);
    mem_free(call);
}

static void on_reply(void *user, const struct transport_reply *reply)
{
    struct kube_call *call = user;
    struct kube *kube = call->kube;
    struct answer answer = {0};
    api_done_fn *done = call->done;
    void *done_user = call->user;

    if (!reply->code && reply->status >= 200 && reply->status < 300) {
        int r = take_answer(&answer, call, reply);

        answer.result.code = r;
        answer.result.err = r < 0 ? &answer.err : NULL;
    } else {
        kube_failure(&answer.arena, reply, &answer.result, &answer.err);
    }
    refusals_note(&kube->refusals, (int)call->verb, call->kind, call->subresource,
                  answer.result.err);
    call->request = NULL;
    call_free(call);
    if (!kube->calls)
        kube_settles(kube);
    done(done_user, &answer.result);
    object_unref(answer.result.object);
    release_items(&answer);
    arena_done(&answer.arena);
}

/* What changes objects, leases and events aside: the first decide who leads, the others nothing. */
static bool is_led(const struct api_request *request)
{
    return request->verb != API_GET && request->verb != API_LIST && !request->of_any_replica &&
           request->kind != &kind_lease && request->kind != &kind_event;
}

void kube_call(struct api *api, const struct api_request *request, api_done_fn *done, void *user)
{
    struct kube *kube = (struct kube *)api;
    struct kube_call *call = MEM_NEW(struct kube_call);
    struct arena arena = {0};
    _cleanup_(buf_done) struct buf path = {0};
    struct str body = request->body;
    struct err err = {0};

    call->kube = kube;
    call->kind = request->kind;
    call->verb = request->verb;
    call->led = is_led(request);
    call->subresource = request->subresource.len > 0 && !request->connect;
    call->done = done;
    call->user = user;
    call->next = kube->calls;
    if (kube->calls)
        kube->calls->prev = call;
    kube->calls = call;
    call_path(&path, request);
    if (is_unguarded(request))
        kube->stats.unguarded++;
    /* A body of ours that is no JSON is for the server to refuse, in its words. */
    if (request->uid.len > 0 && guard(&arena, request, &body, &err) < 0)
        body = request->body;
    if (kube->closing) { /* told by kube_calls_close(), with the rest */
        arena_done(&arena);
        return;
    }
    call->request = client_send(kube->client, &(struct client_request){
                                                  .class = class_of(request),
                                                  .method = method_of(request->verb),
                                                  .path = buf_str(&path),
                                                  .content_type = content_of(request),
                                                  .body = body,
                                                  .timeout_ms = request->timeout_ms,
                                                  .led = call->led,
                                                  .done = on_reply,
                                                  .user = call,
                                              });
    arena_done(&arena);
}

static struct kube_call *first_call(const struct kube *kube, bool led_only)
{
    struct kube_call *call = kube->calls;

    while (call && led_only && !call->led)
        call = call->next;
    return call;
}

void kube_calls_close(struct kube *kube, bool led_only, const struct err *err)
{
    struct kube_call *call;

    while ((call = first_call(kube, led_only))) {
        api_done_fn *done = call->done;
        void *user = call->user;

        call_free(call);
        done(user, &(struct api_result){.code = err->code, .err = err});
    }
}

/* ---- for all files that send ---- */

int64_t kube_jitter(struct kube *kube, int64_t ms)
{
    /* xorshift: jitter needs no quality, only that two replicas differ. */
    kube->random ^= kube->random << 13;
    kube->random ^= kube->random >> 7;
    kube->random ^= kube->random << 17;
    return ms / 2 + (int64_t)(kube->random % (uint64_t)(ms + 1));
}

int64_t kube_back_off(int64_t *backoff_ms, int status)
{
    int64_t max_ms = status == 429 || status == 410 ? KUBE_BUSY_MAX_MS : KUBE_BACKOFF_MAX_MS;
    int64_t wait_ms = *backoff_ms < max_ms ? *backoff_ms : max_ms;

    *backoff_ms = wait_ms * 2 < max_ms ? wait_ms * 2 : max_ms;
    return wait_ms;
}

static void on_trim(void *user)
{
    struct kube *kube = user;

    kube->trimmed_ms = clock_monotonic_ms();
    process_trim_memory();
}

void kube_settles(struct kube *kube)
{
    int64_t wait_ms = kube->trimmed_ms + TRIM_PAUSE_MS - clock_monotonic_ms();

    if (kube->trimmed_ms == 0 || wait_ms < TRIM_MS)
        wait_ms = TRIM_MS;
    timer_in(kube->trim, wait_ms, on_trim);
}
