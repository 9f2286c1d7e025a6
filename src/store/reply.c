#include "store/reply.h"

#include "api/admit.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/batch.h"
#include "store/host.h"
#include "store/state.h"
#include "store/version.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Answers, from the request that asks for them to the turn that gives them. */

struct reply *reply_new(struct store *store, api_done_fn *done, void *user)
{
    struct reply *reply = MEM_NEW(struct reply);

    (void)store;
    reply->done = done;
    reply->user = user;
    return reply;
}

static void replies_push(struct replies *replies, struct reply *reply)
{
    if (replies->last)
        replies->last->next = reply;
    else
        replies->first = reply;
    replies->last = reply;
}

/* Of its request nothing is needed any more but where a failure, a warning or a list points there:
 * thousands may wait for the disk at once, each with the trees that it was made from. */
static void let_go(struct reply *reply)
{
    const struct api_result *result = &reply->result;

    if (!result->code && !result->warnings.len && !result->items && !result->continue_token.len)
        arena_done(&reply->arena);
}

void reply_queue(struct store *store, struct reply *reply)
{
    let_go(reply);
    replies_push(&store->ready, reply);
    store_wake(store);
}

void reply_settle(struct store *store, struct reply *reply)
{
    if (!reply->staged) {
        reply_queue(store, reply);
        return;
    }
    let_go(reply);
    replies_push(&batch_open(store)->replies, reply);
    store_wake(store);
}

void reply_object(struct reply *reply, const struct object *object)
{
    const struct object *before = reply->kept;

    reply->kept = reply->result.object = object_ref(object);
    object_unref(before);
}

void reply_object_as(struct reply *reply,
                     const struct shelf *shelf,
                     const struct object *object,
                     const struct kind *kind)
{
    const struct object *converted = convert_object(shelf, object, kind);

    reply_object(reply, converted);
    object_unref(converted);
}

void reply_free(struct reply *reply)
{
    object_unref(reply->kept);
    arena_done(&reply->arena);
    mem_free(reply);
}

static int code_of(int http_status, const char *reason)
{
    switch (http_status) {
    case 400: return -EINVAL;
    case 403: return -EPERM;
    case 404: return -ENOENT;
    case 405: return -EOPNOTSUPP;
    case 409: return strcmp(reason, "AlreadyExists") == 0 ? -EEXIST : -EAGAIN;
    case 410: return -ESTALE;
    case 413: return -E2BIG;
    case 415: return -EOPNOTSUPP;
    case 422: return -EINVAL;
    case 429: return -EBUSY;
    case 503: return -EROFS;
    default: return -EIO;
    }
}

int reply_fail(struct reply *reply, int http_status, const char *reason, const char *fmt, ...)
{
    int code = code_of(http_status, reason);
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(reply->err.text, sizeof(reply->err.text), fmt, args);
    va_end(args);
    reply->err.code = code;
    reply->err.http_status = http_status;
    reply->result.code = code;
    reply->result.err = &reply->err;
    reply->result.reason = str_from(reason);
    reply->result.object = NULL;
    return code;
}

int reply_fail_whole(struct reply *reply, int http_status, const char *reason, struct str message)
{
    size_t most = sizeof(reply->err.text) - 1; /* printf would go on to the end */

    reply->result.message = message;
    message.len = message.len < most ? message.len : most;
    return reply_fail(reply, http_status, reason, STR_FMT, STR_ARG(message));
}

int reply_misfit(struct reply *reply,
                 const struct kind *kind,
                 const char *prefix,
                 const struct admit *admit)
{
    return reply_fail_whole(
        reply, 400, "BadRequest",
        str_printf(&reply->arena,
                   "%s in version \"%s\" cannot be handled as a %s: %s" STR_FMT ": " STR_FMT,
                   kind->name, kind->version, kind->name, prefix,
                   STR_ARG(admit->causes.items[0].field), STR_ARG(admit->causes.items[0].message)));
}

int reply_invalid(struct reply *reply,
                  const struct kind *kind,
                  struct str name,
                  const struct admit *admit)
{
    _cleanup_(buf_done) struct buf text = {0};
    bool many = admit->causes.count > 1;

    buf_addf(&text, "%s \"" STR_FMT "\" is invalid: %s", kind->name, STR_ARG(name),
             many ? "[" : "");
    for (size_t i = 0; i < admit->causes.count; i++)
        buf_addf(&text, "%s" STR_FMT ": " STR_FMT, i ? ", " : "",
                 STR_ARG(admit->causes.items[i].field), STR_ARG(admit->causes.items[i].message));
    if (many)
        buf_addc(&text, ']');
    reply->result.causes = admit->causes.items;
    reply->result.cause_count = admit->causes.count;
    return reply_fail_whole(reply, 422, "Invalid", str_dup(&reply->arena, buf_str(&text)));
}

/* One cause, and what the request is besides it is fine. */
static int fail_for(struct reply *reply, const char *field, const char *reason, struct str words)
{
    struct api_cause *cause = ARENA_NEW(&reply->arena, struct api_cause);

    *cause =
        (struct api_cause){.field = str_from(field), .reason = str_from(reason), .message = words};
    reply->result.causes = cause;
    reply->result.cause_count = 1;
    return reply_fail_whole(reply, 422, "Invalid",
                            str_printf(&reply->arena, "%s: " STR_FMT, field, STR_ARG(words)));
}

int reply_missing(struct reply *reply, const char *field, const char *why)
{
    return fail_for(reply, field, "FieldValueRequired",
                    str_printf(&reply->arena, "Required value: %s", why));
}

int reply_wrong(struct reply *reply, const char *field, const char *why)
{
    return fail_for(reply, field, "FieldValueInvalid",
                    str_printf(&reply->arena, "Invalid value: %s", why));
}

int reply_patch(struct reply *reply)
{
    struct str words = reply->result.message.len
                           ? reply->result.message
                           : str_dup(&reply->arena, str_from(reply->err.text));

    return fail_for(reply, "patch", "FieldValueInvalid", words);
}

struct str kind_resource(struct arena *arena, const struct kind *kind)
{
    return kind->group[0] ? str_printf(arena, "%s.%s", kind->plural, kind->group)
                          : str_from(kind->plural);
}

int reply_not_found(struct reply *reply, const struct kind *kind, struct str name)
{
    struct str resource = kind_resource(&reply->arena, kind);

    return reply_fail(reply, 404, "NotFound", STR_FMT " \"" STR_FMT "\" not found",
                      STR_ARG(resource), STR_ARG(name));
}
