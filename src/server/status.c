#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MESSAGE_BYTES_MAX 1024

static const struct {
    int code;
    const char *reason;
} reasons[] = {
    {400, "BadRequest"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "NotFound"},
    {405, "MethodNotAllowed"},
    {406, "NotAcceptable"},
    {409, "Conflict"},
    {410, "Expired"},
    {413, "RequestEntityTooLarge"},
    {415, "UnsupportedMediaType"},
    {422, "Invalid"},
    {429, "TooManyRequests"},
    {500, "InternalError"},
    {503, "ServiceUnavailable"},
    {504, "Timeout"},
};

const char *status_reason(int code)
{
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        if (reasons[i].code == code)
            return reasons[i].reason;
    return "";
}

static void member(struct buf *buf, const char *separator, const char *key, struct str value)
{
    buf_addf(buf, "%s\"%s\":", separator, key);
    json_write_string(buf, value);
}

static void write_details(struct buf *buf, const struct status *status)
{
    const char *separator = "";

    if (!status->kind && !status->name.len && !status->cause_count && !status->retry_after_s)
        return;
    buf_add(buf, STR(",\"details\":{"));
    if (status->name.len) {
        member(buf, separator, "name", status->name);
        separator = ",";
    }
    if (status->kind) {
        if (status->kind->group[0]) {
            member(buf, separator, "group", str_from(status->kind->group));
            separator = ",";
        }
        /* kubectl prints `The Pod "x" is invalid` but `pods "x" not found`. */
        member(buf, separator, "kind",
               str_from(status->code == 422 ? status->kind->name : status->kind->plural));
        separator = ",";
    }
    if (status->uid.len) {
        member(buf, separator, "uid", status->uid);
        separator = ",";
    }
    if (status->cause_count) {
        buf_addf(buf, "%s\"causes\":[", separator);
        for (size_t i = 0; i < status->cause_count; i++) {
            member(buf, i ? ",{" : "{", "reason", status->causes[i].reason);
            member(buf, ",", "message", status->causes[i].message);
            member(buf, ",", "field", status->causes[i].field);
            buf_addc(buf, '}');
        }
        buf_addc(buf, ']');
        separator = ",";
    }
    if (status->retry_after_s)
        buf_addf(buf, "%s\"retryAfterSeconds\":%lld", separator, (long long)status->retry_after_s);
    buf_addc(buf, '}');
}

void status_write(struct buf *buf, const struct status *status)
{
    bool success = status->code < 400;

    buf_addf(buf, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"%s\"",
             success ? "Success" : "Failure");
    if (status->message.len)
        member(buf, ",", "message", status->message);
    if (status->reason && status->reason[0])
        member(buf, ",", "reason", str_from(status->reason));
    write_details(buf, status);
    if (!success || status->code == 201)
        buf_addf(buf, ",\"code\":%d", status->code);
    buf_addc(buf, '}');
}

void status_reply(struct request *request, const struct status *status)
{
    _cleanup_(buf_done) struct buf buf = {0};

    status_write(&buf, status);
    if (status->code == 401)
        http_header(request->x, "WWW-Authenticate", STR("Bearer realm=\"muster\""));
    if (status->retry_after_s)
        http_header(request->x, "Retry-After",
                    str_printf(request_arena(request), "%lld", (long long)status->retry_after_s));
    answer_reply(request, status->code, buf_str(&buf));
}

void request_fail(struct request *request, int code, const char *reason, const char *fmt, ...)
{
    char text[MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    status_reply(request,
                 &(struct status){.code = code, .reason = reason, .message = str_from(text)});
}

bool request_number(struct request *request, const char *name, int64_t *ret)
{
    struct str text = STR("");

    if (!http_query_all(request_arena(request), request->x->head.query, name, &text, 1) ||
        str_to_i64(text, ret))
        return true;
    request_fail(request, 400, "BadRequest", "%s: \"" STR_FMT "\" is not a number", name,
                 STR_ARG(str_sub(text, 0, 64)));
    return false;
}

/* How a message begins says what is wrong. */
static const struct {
    const char *text;
    const char *reason;
} beginnings[] = {
    {"Unsupported value", "FieldValueNotSupported"},
    {"Forbidden: ", "FieldValueForbidden"},
    {"Required value", "FieldValueRequired"},
    {"Too long: ", "FieldValueTooLong"},
};

void request_invalid(struct request *request, const char *field, const char *fmt, ...)
{
    char text[MESSAGE_BYTES_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct api_cause cause = {
        .field = str_from(field), .reason = STR("FieldValueInvalid"), .message = str_from(text)};
    for (size_t i = 0; i < COUNT_OF(beginnings); i++)
        if (str_starts(cause.message, str_from(beginnings[i].text)))
            cause.reason = str_from(beginnings[i].reason);
    status_reply(request, &(struct status){
                              .code = 422,
                              .reason = "Invalid",
                              .message = str_printf(request_arena(request), "%s: %s", field, text),
                              .causes = &cause,
                              .cause_count = 1});
}

void request_not_found(struct request *request)
{
    status_reply(request, &(struct status){.code = 404,
                                           .reason = "NotFound",
                                           .message = STR("the server could not find the requested "
                                                          "resource")});
}

static int code_of(const struct api_result *result)
{
    if (result->err && result->err->http_status)
        return result->err->http_status;
    switch (result->code) {
    case -ENOENT: return 404;
    case -EEXIST:
    case -ESTALE: return 409;
    case -EINVAL: return 400;
    case -EROFS:
    case -ENOSPC: return 503;
    default: return 500;
    }
}

/* A create has its name in the body only. */
static struct str name_of(struct request *request)
{
    struct json *root = NULL;

    if (request->route.name.len || !request->call.body.len)
        return request->route.name;
    if (json_parse(request_arena(request), request->call.body, &root, NULL) < 0)
        return STR("");
    return json_str(json_at(root, "metadata.name"));
}

void request_fail_result(struct request *request, const struct api_result *result)
{
    int code = code_of(result);
    struct arena *arena = request_arena(request);
    const char *reason = result->reason.len ? str_c(arena, result->reason) : status_reason(code);
    /* kubectl shows the message of an invalid object only when no object is named. */
    bool of_object = code != 422 || result->cause_count;

    status_reply(request, &(struct status){
                              .code = code,
                              .reason = reason,
                              .message = result->message.len ? result->message
                                         : result->err       ? str_from(result->err->text)
                                                             : STR(""),
                              .kind = of_object ? request->kind : NULL,
                              .name = of_object ? name_of(request) : STR(""),
                              .causes = result->causes,
                              .cause_count = result->cause_count,
                              .retry_after_s = code == 429 ? 1 : 0,
                          });
}
