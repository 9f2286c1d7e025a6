#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/protobuf.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/accept.h"
#include "server/request.h"
#include "server/table.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The same objects in three views, as they are, as a Table, as metadata only, and in three forms:
 * JSON, YAML, protobuf. Lists of whole objects in JSON are sent from the objects themselves:
 * nothing is copied, however long the list. */

/* Custom resources have no numbers for their fields; a Scale of theirs does. */
static bool view_has_protobuf(const struct request *request)
{
    return !request->kind->custom || str_is(request->route.subresource, "scale");
}

bool view_accept(struct request *request)
{
    struct str query = request->x->head.query;
    struct str include = http_query(request_arena(request), query, "includeObject");
    struct accept_offer offer = {.protobuf = view_has_protobuf(request),
                                 .views = !str_is(request->route.subresource, "scale"),
                                 .stream = http_query_bool(query, "watch"),
                                 .list = !request->route.name.len &&
                                         !str_is(request->x->head.method, "POST")};

    if (!accept_choose(http_head_get(&request->x->head, "Accept"), offer, &request->accept)) {
        request_fail(request, 406, "NotAcceptable",
                     "only the following media types are accepted: application/json%s%s",
                     offer.stream ? "" : ", application/yaml",
                     offer.protobuf ? ", application/vnd.kubernetes.protobuf" : "");
        return false;
    }
    if (str_is(include, "Object"))
        request->include = INCLUDE_OBJECT;
    else if (str_is(include, "None"))
        request->include = INCLUDE_NONE;
    if (request->accept.view != VIEW_TABLE || !include.len || str_is(include, "Metadata") ||
        request->include != INCLUDE_METADATA)
        return true;
    request_fail(request, 400, "BadRequest",
                 "includeObject: Invalid value: \"" STR_FMT
                 "\": must be 'Metadata', 'Object', 'None', or empty",
                 STR_ARG(str_sub(include, 0, 64)));
    return false;
}

/* ---- views ---- */

static void write_metadata(struct buf *buf, const struct json *root)
{
    buf_add(buf, STR("{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\","
                     "\"metadata\":"));
    json_write(buf, json_get(root, "metadata"));
    buf_addc(buf, '}');
}

static void write_row(struct request *request,
                      struct buf *buf,
                      const struct object *object,
                      int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(object, &arena);

    buf_add(buf, STR("{\"cells\":["));
    table_cells(&arena, buf, object, root, now_ms);
    buf_addc(buf, ']');
    if (request->include == INCLUDE_OBJECT) {
        buf_add(buf, STR(",\"object\":"));
        buf_add(buf, object->raw);
    } else if (request->include == INCLUDE_METADATA) {
        buf_add(buf, STR(",\"object\":"));
        write_metadata(buf, root);
    }
    buf_addc(buf, '}');
}

static void begin_table(struct buf *buf, const struct kind *kind, uint64_t revision, bool columns)
{
    buf_addf(buf,
             "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{"
             "\"resourceVersion\":\"%llu\"},\"columnDefinitions\":",
             (unsigned long long)revision);
    if (columns)
        table_columns(buf, kind);
    else
        buf_add(buf, STR("null"));
    buf_add(buf, STR(",\"rows\":["));
}

void view_write(struct request *request, struct buf *buf, const struct object *object, bool first)
{
    if (request->accept.view == VIEW_TABLE) {
        begin_table(buf, request->kind, object->revision, first);
        write_row(request, buf, object, clock_now_ms());
        buf_add(buf, STR("]}"));
    } else if (request->accept.view == VIEW_METADATA) {
        _cleanup_(arena_done) struct arena arena = {0};
        write_metadata(buf, object_json(object, &arena));
    } else {
        buf_add(buf, object->raw);
    }
}

void view_object(struct request *request, int code, const struct object *object)
{
    _cleanup_(buf_done) struct buf buf = {0};

    view_write(request, &buf, object, true);
    answer_send(request, code, buf_str(&buf));
}

/* ---- lists ---- */
struct list_name {
    struct str api_version;
    struct str kind;
};

/* What a list of the view is called. */
static struct list_name list_name(struct request *request)
{
    struct arena *arena = request_arena(request);
    char version[KIND_API_VERSION_BYTES];

    switch (request->accept.view) {
    case VIEW_TABLE: return (struct list_name){STR("meta.k8s.io/v1"), STR("Table")};
    case VIEW_METADATA:
        return (struct list_name){STR("meta.k8s.io/v1"), STR("PartialObjectMetadataList")};
    case VIEW_OBJECT: break;
    }
    return (struct list_name){str_dup(arena, kind_api_version(request->kind, version)),
                              str_printf(arena, "%sList", request->kind->name)};
}

struct list_parts {
    const struct object **objects;
    size_t count;
};

static void release_parts(void *user)
{
    struct list_parts *list = user;

    for (size_t i = 0; i < list->count; i++)
        object_unref(list->objects[i]);
}

static struct json *list_meta(struct arena *arena, const struct api_result *result)
{
    struct json *meta = json_new_object(arena);

    json_add_str(arena, meta, "resourceVersion",
                 str_printf(arena, "%llu", (unsigned long long)result->revision));
    if (result->continue_token.len)
        json_add_str(arena, meta, "continue", result->continue_token);
    if (result->remaining_count)
        json_set(meta, STR("remainingItemCount"),
                 json_new_i64(arena, (int64_t)result->remaining_count));
    return meta;
}

/* {"kind":"PodList","apiVersion":"v1","metadata":{}, and the caller goes on. */
static void begin_list(struct request *request, struct buf *buf, const struct api_result *result)
{
    struct list_name name = list_name(request);

    buf_addf(buf, "{\"kind\":\"" STR_FMT "\",\"apiVersion\":\"" STR_FMT "\",\"metadata\":",
             STR_ARG(name.kind), STR_ARG(name.api_version));
    json_write(buf, list_meta(request_arena(request), result));
    buf_addc(buf, ',');
}

static void list_objects(struct request *request, const struct api_result *result)
{
    struct arena *arena = request_arena(request);
    _cleanup_(buf_done) struct buf head = {0};
    size_t count = result->item_count;
    struct list_parts *list = ARENA_NEW(arena, struct list_parts);
    struct str *parts = ARENA_ARRAY(arena, struct str, 2 * count + 2);
    size_t at = 0;

    list->objects = ARENA_ARRAY(arena, const struct object *, count + 1);
    list->count = count;
    begin_list(request, &head, result);
    buf_add(&head, STR("\"items\":["));
    parts[at++] = str_dup(arena, buf_str(&head));
    for (size_t i = 0; i < count; i++) {
        list->objects[i] = object_ref(result->items[i]);
        if (i)
            parts[at++] = STR(",");
        parts[at++] = result->items[i]->raw;
    }
    parts[at++] = STR("]}\n");
    http_reply_parts(request->x, 200, "application/json", parts, at, release_parts, list);
}

/* An item of a list in protobuf, as the view shows it. */
static int list_add(struct request *request,
                    struct protobuf_list_writer *list,
                    const struct object *object,
                    bool *warned,
                    struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct json *root = NULL;

    view_write(request, &text, object, false);
    int r = json_parse(&arena, buf_str(&text), &root, err);
    if (r == 0)
        r = protobuf_list_add(list, root, *warned, err);
    if (r == -EPROTONOSUPPORT && !*warned) {
        request_warn(request, str_printf(request_arena(request), "%s \"" STR_FMT "\": %s",
                                         request->kind->plural, STR_ARG(object->name), err->text));
        *warned = true;
        r = protobuf_list_add(list, root, true, err);
    }
    return r < 0 ? err_wrap(err, r, "%s \"" STR_FMT "\"", request->kind->plural,
                            STR_ARG(object->name))
                 : 0;
}

static void list_protobuf(struct request *request, const struct api_result *result)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct list_name name = list_name(request);
    struct protobuf_list_writer list = protobuf_list_begin(
        &out, name.api_version, name.kind, list_meta(request_arena(request), result));
    struct err err = {0};
    bool warned = false;

    for (size_t i = 0; i < result->item_count; i++)
        if (list_add(request, &list, result->items[i], &warned, &err) < 0) {
            request_fail(request, 500, "InternalError",
                         "%s: it has no protobuf form; ask for application/json", err.text);
            return;
        }
    protobuf_list_end(&list);
    http_reply(request->x, 200, accept_media_type(MEDIA_PROTOBUF), buf_str(&out));
}

void view_list(struct request *request, const struct api_result *result)
{
    _cleanup_(buf_done) struct buf buf = {0};
    bool table = request->accept.view == VIEW_TABLE;
    int64_t now_ms = clock_now_ms();

    if (request->accept.media == MEDIA_PROTOBUF) {
        list_protobuf(request, result);
        return;
    }
    if (request->accept.view == VIEW_OBJECT && request->accept.media == MEDIA_JSON) {
        list_objects(request, result);
        return;
    }
    begin_list(request, &buf, result);
    if (table) {
        buf_add(&buf, STR("\"columnDefinitions\":"));
        table_columns(&buf, request->kind);
    }
    buf_add(&buf, table ? STR(",\"rows\":[") : STR("\"items\":["));
    for (size_t i = 0; i < result->item_count; i++) {
        if (i)
            buf_addc(&buf, ',');
        if (table)
            write_row(request, &buf, result->items[i], now_ms);
        else
            view_write(request, &buf, result->items[i], false);
    }
    buf_add(&buf, STR("]}"));
    answer_send(request, 200, buf_str(&buf));
}
