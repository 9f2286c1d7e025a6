#include "hook/convert.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "hook/carry.h"
#include "hook/convert_watch.h"
#include "hook/sweep.h"
#include "hook/translate.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct converter {
    struct api api; /* first */
    struct uv_loop_s *loop;
    struct api *below;
    struct call *waiting; /* to try again */
    bool closing;
    struct translator *translator;
    struct convert_watches watches;
};

/* One request. */
struct call {
    struct converter *converter;
    struct arena arena;
    struct api_request request; /* copied */
    struct api_user user;
    const struct kind *storage;
    const struct json *webhook;
    struct api_conversion conversion;
    unsigned tries;
    struct timer *later;
    struct call *next;        /* of those that wait to try again */
    struct json *captured;    /* what would be stored, in the version of the request */
    struct json *stored;      /* the same in the version that is stored */
    const struct object *one; /* that is being converted */
    struct selector fields;
    bool selects;
    struct api_result result; /* copied, until its objects are converted */
    const struct object **items;
    api_done_fn *done;
    void *done_user;
};

static void write_begin(struct call *call);
static void write_pass(struct call *call);

static void call_end(struct call *call, const struct api_result *result)
{
    call->done(call->done_user, result);
    timer_free(call->later);
    object_unref(call->one);
    for (size_t i = 0; i < call->result.item_count; i++)
        object_unref(call->items[i]);
    arena_done(&call->arena);
    mem_free(call);
}

static void call_fail(struct call *call, int status, const char *reason, const char *words)
{
    struct err err = {0};

    (void)err_set(&err, status == 409 ? -EAGAIN : -EIO, "%s", words);
    err.http_status = status;
    call_end(call, &(struct api_result){.code = err.code, .err = &err, .reason = str_from(reason)});
}

static void call_fail_as(struct call *call, const struct err *err)
{
    char words[sizeof(err->text)];

    (void)memcpy(words, err->text, sizeof(words));
    call_fail(call, err->http_status ? err->http_status : 500,
              err->http_status == 503 ? "ServiceUnavailable" : "InternalError", words);
}

/* ---- answers ---- */

static void on_items(void *user, const struct err *err)
{
    struct call *call = user;
    size_t kept = 0;

    if (err) {
        call_fail_as(call, err);
        return;
    }
    struct api_result result = call->result;
    const struct object **items =
        ARENA_ARRAY(&call->arena, const struct object *, result.item_count + 1);
    for (size_t i = 0; i < result.item_count; i++)
        if (!call->selects || selector_matches_fields(&call->fields, call->items[i]))
            items[kept++] = call->items[i];
    result.items = items;
    result.item_count = kept;
    if (call->selects)
        result.remaining_count = 0; /* how many of those match is not known */
    call_end(call, &result);
}

static void on_object(void *user, const struct err *err)
{
    struct call *call = user;

    /* What was deleted is gone, whether it can be shown or not. */
    if (err && call->request.verb != API_DELETE) {
        call_fail_as(call, err);
        return;
    }
    struct api_result result = call->result;
    result.object = call->one;
    call_end(call, &result);
}

/* Texts of a result live until `done` returns. */
static void keep_result(struct call *call, const struct api_result *result)
{
    call->result = *result;
    call->result.item_count = 0;
    call->result.continue_token = str_dup(&call->arena, result->continue_token);
    call->result.warnings = str_dup(&call->arena, result->warnings);
    call->result.message = call->result.reason = STR("");
}

static void on_result(void *user, const struct api_result *result)
{
    struct call *call = user;
    struct converter *converter = call->converter;
    const struct kind *kind = call->request.kind;

    if (result->code < 0 || str_is(call->request.subresource, "scale") ||
        (!result->object && !result->item_count)) {
        call_end(call, result);
        return;
    }
    keep_result(call, result);
    if (result->object) {
        object_unref(call->one);
        call->one = object_ref(result->object);
        translate(converter->translator, &(struct translate){.webhook = call->webhook,
                                                             .to = kind,
                                                             .objects = &call->one,
                                                             .count = 1,
                                                             .done = on_object,
                                                             .user = call});
        return;
    }
    call->items = ARENA_ARRAY(&call->arena, const struct object *, result->item_count);
    for (size_t i = 0; i < result->item_count; i++)
        call->items[i] = object_ref(result->items[i]);
    call->result.item_count = result->item_count;
    translate(converter->translator, &(struct translate){.webhook = call->webhook,
                                                         .to = kind,
                                                         .objects = call->items,
                                                         .count = result->item_count,
                                                         .done = on_items,
                                                         .user = call});
}

/* ---- writes ---- */

/* All but what the server gives an object, which is other when it is written once more. */
static bool same_object(const struct json *a, const struct json *b)
{
    static const char *const parts[] = {"metadata.labels", "metadata.annotations"};

    JSON_FOREACH(a, member)
        if (!str_is(json_key(member), "metadata") &&
            !json_equal(member, json_get_str(b, json_key(member))))
            return false;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (!json_equal(json_at(a, parts[i]), json_at(b, parts[i])))
            return false;
    return json_count(a) == json_count(b);
}

/* The store asks what is stored. The first time that is not known yet. */
static int on_store(void *user, struct arena *arena, struct json *root, struct err *err)
{
    struct call *call = user;

    if (!call->stored) {
        call->captured = json_clone(&call->arena, root);
        return err_set(err, -ECANCELED, "its conversion webhook is asked first");
    }
    if (!same_object(root, call->captured)) {
        call->conversion.moved = true;
        return err_set(err, -ECANCELED, "it is another object than the one that was converted");
    }
    carry_object(arena, root, call->stored);
    return 0;
}

static void on_stored(void *user, const struct err *err)
{
    struct call *call = user;

    if (err) {
        call_fail_as(call, err);
        return;
    }
    call->stored = json_clone(&call->arena, object_json(call->one, &call->arena));
    arena_defer(&call->arena, object_release, object_ref(call->one));
    write_pass(call);
}

/* Until it would be stored all is well: what it is in that version? */
static void convert_captured(struct call *call)
{
    struct object *object = NULL;
    struct err err = {0};

    if (object_new(call->request.kind, json_text(&call->arena, call->captured), &object, &err) <
        0) {
        call_fail(call, 400, "BadRequest", err.text);
        return;
    }
    object_unref(call->one);
    call->one = object;
    translate(call->converter->translator, &(struct translate){.webhook = call->webhook,
                                                               .to = call->storage,
                                                               .objects = &call->one,
                                                               .count = 1,
                                                               .done = on_stored,
                                                               .user = call});
}

static void on_later(void *user)
{
    struct call *call = user;
    struct call **link = &call->converter->waiting;

    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    write_begin(call);
}

static void write_again(struct call *call)
{
    struct converter *converter = call->converter;

    if (++call->tries < CONVERT_TRIES_MAX && !converter->closing) {
        if (!call->later)
            call->later = timer_new(converter->loop, call);
        call->next = converter->waiting;
        converter->waiting = call;
        timer_in(call->later, 5 << call->tries, on_later);
        return;
    }
    struct str words = str_printf(&call->arena,
                                  "Operation cannot be fulfilled on %s \"" STR_FMT
                                  "\": the object has been modified while it was converted; please "
                                  "apply your changes to the latest version and try again",
                                  call->request.kind->plural, STR_ARG(call->request.name));
    call_fail(call, 409, "Conflict", str_c(&call->arena, words));
}

static void on_written(void *user, const struct api_result *result)
{
    struct call *call = user;

    if (result->code < 0 && call->conversion.moved)
        write_again(call);
    else if (result->code < 0 && call->captured && !call->stored)
        convert_captured(call);
    else
        on_result(call, result);
}

static void write_pass(struct call *call)
{
    struct api_request request = call->request;

    call->conversion.moved = false;
    request.conversion = &call->conversion;
    api_call(call->converter->below, &request, on_written, call);
}

static void on_old(void *user, const struct err *err)
{
    struct call *call = user;

    if (err) {
        call_fail_as(call, err);
        return;
    }
    call->conversion.old = json_clone(&call->arena, object_json(call->one, &call->arena));
    call->conversion.revision = call->one->revision;
    arena_defer(&call->arena, object_release, object_ref(call->one));
    write_pass(call);
}

static void on_current(void *user, const struct api_result *result)
{
    struct call *call = user;

    if (result->code < 0 ||
        !result->object) { /* nothing is there; the store says what that means */
        write_pass(call);
        return;
    }
    if (str_is(call->request.subresource, "scale") &&
        (result->object->kind != call->storage || call->request.kind != call->storage)) {
        struct str words = str_printf(
            &call->arena,
            "%s \"" STR_FMT "\" is converted by a webhook: scale is served in the version "
            "that is stored, %s, of objects that were written in it; change spec instead",
            call->request.kind->plural, STR_ARG(call->request.name), call->storage->version);

        call_fail(call, 400, "BadRequest", str_c(&call->arena, words));
        return;
    }
    object_unref(call->one);
    call->one = object_ref(result->object);
    translate(call->converter->translator, &(struct translate){.webhook = call->webhook,
                                                               .to = call->request.kind,
                                                               .objects = &call->one,
                                                               .count = 1,
                                                               .done = on_old,
                                                               .user = call});
}

static void write_begin(struct call *call)
{
    call->conversion = (struct api_conversion){.convert = on_store, .user = call};
    call->captured = call->stored = NULL;
    if (!call->request.name.len) {
        write_pass(call);
        return;
    }
    api_call(call->converter->below,
             &(struct api_request){.verb = API_GET,
                                   .kind = call->request.kind,
                                   .ns = call->request.ns,
                                   .name = call->request.name},
             on_current, call);
}

/* ---- struct api ---- */

/* What a CRD says that has a webhook convert; NULL for all others. */
static const struct kind_crd *hooked(const struct api *api, const struct kind *kind)
{
    const struct kind_crd *crd = kind->custom ? kinds_crd(api->kinds, kind) : NULL;

    return crd && crd->webhook && crd->storage ? crd : NULL;
}

/* Which objects are meant is known once they are converted. To be deleted they need not be. */
static void delete_one(void *deleter,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    api_call(((struct converter *)deleter)->below, request, done, user);
}

static bool deletes_by_fields(const struct api_request *request, const struct kind_crd *crd)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct selector fields;

    return request->verb == API_DELETE_COLLECTION &&
           convert_selects_fields(&arena, request->kind, crd, request->field_selector, &fields);
}

static void read_begin(struct call *call, const struct kind_crd *crd, struct api_request request)
{
    call->selects = convert_selects_fields(&call->arena, request.kind, crd, request.field_selector,
                                           &call->fields);
    if (call->selects && request.verb == API_LIST)
        request.field_selector = STR("");
    api_call(call->converter->below, &request, on_result, call);
}

static void converter_call(struct api *api,
                           const struct api_request *request,
                           api_done_fn *done,
                           void *user)
{
    struct converter *converter = (struct converter *)api;
    const struct kind_crd *crd = hooked(api, request->kind);

    if (!crd) {
        api_call(converter->below, request, done, user);
        return;
    }
    if (deletes_by_fields(request, crd)) {
        sweep(&(struct sweep){.list = api, .delete = delete_one, .deleter = converter}, request,
              done, user);
        return;
    }
    struct call *call = MEM_NEW(struct call);
    call->converter = converter;
    call->storage = crd->storage;
    call->webhook = crd->webhook;
    call->done = done ? done : api_ignore;
    call->done_user = user;
    carry_request(&call->arena, request, &call->request, &call->user);
    if (request->verb == API_CREATE || request->verb == API_UPDATE || request->verb == API_PATCH ||
        str_is(request->subresource, "scale"))
        write_begin(call);
    else
        read_begin(call, crd, *request);
}

static void converter_bind(struct api *api,
                           const struct api_binding *bindings,
                           size_t count,
                           api_done_fn *done,
                           void *user)
{
    api_bind(((struct converter *)api)->below, bindings, count, done, user);
}

static struct api_watch *converter_watch(struct api *api,
                                         const struct api_watch_request *request,
                                         api_watch_fn *fn,
                                         void *user)
{
    struct converter *converter = (struct converter *)api;
    const struct kind_crd *crd = hooked(api, request->kind);

    return crd ? convert_watch(&converter->watches, crd, request, fn, user)
               : api_watch(converter->below, request, fn, user);
}

static void converter_watch_stop(struct api *api, struct api_watch *watch)
{
    struct converter *converter = (struct converter *)api;

    if (!convert_watch_stop(&converter->watches, watch))
        api_watch_stop(converter->below, watch);
}

static const struct api_ops ops = {
    .call = converter_call,
    .bind = converter_bind,
    .watch = converter_watch,
    .watch_stop = converter_watch_stop,
};

struct converter *converter_new(struct uv_loop_s *loop,
                                struct api *below,
                                const struct hook_asker *asker)
{
    struct converter *converter = MEM_NEW(struct converter);

    converter->api = (struct api){.ops = &ops, .kinds = below->kinds};
    converter->loop = loop;
    converter->below = below;
    converter->translator = translator_new(below->kinds, asker);
    converter->watches =
        (struct convert_watches){.below = below, .translator = converter->translator};
    return converter;
}

struct api *converter_api(struct converter *converter)
{
    return &converter->api;
}

void converter_stop(struct converter *converter)
{
    if (!converter)
        return;
    converter->closing = true;
    translator_stop(converter->translator);
    while (converter->waiting) {
        struct call *call = converter->waiting;

        converter->waiting = call->next;
        call_fail(call, 503, "ServiceUnavailable", "the server is being stopped");
    }
    convert_watches_free(&converter->watches);
}

void converter_free(struct converter *converter)
{
    if (!converter)
        return;
    convert_watches_free(&converter->watches);
    translator_free(converter->translator);
    mem_free(converter);
}
