#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/request.h"
#include "server/table.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The same objects in three forms: as they are, as a Table, as metadata only. Lists of whole
 * objects are sent from the objects themselves: nothing is copied, however long the list. */

void view_accept(struct request *request)
{
    struct str accept = http_head_get(&request->x->head, "Accept");
    struct str include =
        http_query(request_arena(request), request->x->head.query, "includeObject");
    struct str part;

    while (str_cut(&accept, ',', &part)) {
        if (str_contains(part, STR("as=Table")) && str_contains(part, STR("json"))) {
            request->view = VIEW_TABLE;
            break;
        }
        if (str_contains(part, STR("as=PartialObjectMetadata"))) {
            request->view = VIEW_METADATA;
            break;
        }
        if (str_starts(str_trim(part), STR("application/json")))
            break;
    }
    if (str_is(include, "Object"))
        request->include = INCLUDE_OBJECT;
    else if (str_is(include, "None"))
        request->include = INCLUDE_NONE;
}

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
    if (request->view == VIEW_TABLE) {
        begin_table(buf, request->kind, object->revision, first);
        write_row(request, buf, object, clock_now_ms());
        buf_add(buf, STR("]}"));
    } else if (request->view == VIEW_METADATA) {
        _cleanup_(arena_done) struct arena arena = {0};
        write_metadata(buf, object_json(object, &arena));
    } else {
        buf_add(buf, object->raw);
    }
}

void view_object(struct request *request, int code, const struct object *object)
{
    _cleanup_(buf_done) struct buf buf = {0};

    if (str_is(request->route.subresource, "scale"))
        request->view = VIEW_OBJECT;
    view_write(request, &buf, object, true);
    buf_addc(&buf, '\n');
    http_reply(request->x, code, "application/json", buf_str(&buf));
}

/* ---- lists ---- */
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

static void write_list_meta(struct buf *buf, const struct api_result *result)
{
    buf_addf(buf, "\"metadata\":{\"resourceVersion\":\"%llu\"",
             (unsigned long long)result->revision);
    if (result->continue_token.len) {
        buf_add(buf, STR(",\"continue\":"));
        json_write_string(buf, result->continue_token);
    }
    if (result->remaining_count)
        buf_addf(buf, ",\"remainingItemCount\":%llu", (unsigned long long)result->remaining_count);
    buf_addc(buf, '}');
}

static void list_objects(struct request *request, const struct api_result *result)
{
    struct arena *arena = request_arena(request);
    _cleanup_(buf_done) struct buf head = {0};
    char version[KIND_API_VERSION_BYTES];
    size_t count = result->item_count;
    struct list_parts *list = ARENA_NEW(arena, struct list_parts);
    struct str *parts = ARENA_ARRAY(arena, struct str, 2 * count + 2);
    size_t at = 0;

    list->objects = ARENA_ARRAY(arena, const struct object *, count + 1);
    list->count = count;
    buf_addf(&head, "{\"kind\":\"%sList\",\"apiVersion\":\"" STR_FMT "\",", request->kind->name,
             STR_ARG(kind_api_version(request->kind, version)));
    write_list_meta(&head, result);
    buf_add(&head, STR(",\"items\":["));
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

void view_list(struct request *request, const struct api_result *result)
{
    _cleanup_(buf_done) struct buf buf = {0};
    int64_t now_ms = clock_now_ms();

    if (request->view == VIEW_OBJECT) {
        list_objects(request, result);
        return;
    }
    if (request->view == VIEW_TABLE) {
        buf_add(&buf, STR("{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\","));
        write_list_meta(&buf, result);
        buf_add(&buf, STR(",\"columnDefinitions\":"));
        table_columns(&buf, request->kind);
        buf_add(&buf, STR(",\"rows\":["));
    } else {
        buf_add(&buf, STR("{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":"
                          "\"meta.k8s.io/v1\","));
        write_list_meta(&buf, result);
        buf_add(&buf, STR(",\"items\":["));
    }
    for (size_t i = 0; i < result->item_count; i++) {
        if (i)
            buf_addc(&buf, ',');
        if (request->view == VIEW_TABLE)
            write_row(request, &buf, result->items[i], now_ms);
        else
            view_write(request, &buf, result->items[i], false);
    }
    buf_add(&buf, STR("]}\n"));
    http_reply(request->x, 200, "application/json", buf_str(&buf));
}
