#include "kube/feed.h"

#include "api/kept.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/protobuf.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "kube/kube_internal.h"

#include <errno.h>

const char *feed_accept(const struct kind *kind, bool whole)
{
    return kept_is(kind) && !whole ? FEED_PROTOBUF_ACCEPT : NULL;
}

/* ---- a page of a list ---- */

static int read_page_json(const struct kind *kind,
                          struct str body,
                          struct feed_page *ret,
                          bool (*give)(void *user, const struct object *object),
                          void *user,
                          struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    int r = json_parse(&arena, body, &root, err);

    if (r < 0)
        return err_wrap(err, r, "list of %s", kind->plural);
    const struct json *meta = json_get(root, "metadata");
    (void)str_to_u64(json_str(json_get(meta, "resourceVersion")), &ret->revision);
    buf_clear(&ret->continue_token);
    buf_add(&ret->continue_token, json_str(json_get(meta, "continue")));
    for (struct json *item = json_first(json_get(root, "items")), *next; item; item = next) {
        _cleanup_(object_unrefp) struct object *object = NULL;

        next = json_next(item);
        if (!ret->whole)
            kept_trim(kind, item);
        r = kube_object(&arena, kind, item, &object, err);
        if (r < 0 || !give(user, object))
            return r;
    }
    return 0;
}

static int read_page_protobuf(const struct kind *kind,
                              struct str body,
                              struct feed_page *ret,
                              bool (*give)(void *user, const struct object *object),
                              void *user,
                              struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct protobuf_list list;
    struct str item;
    int r = protobuf_list_open(body, &list, err);

    if (r < 0)
        return err_wrap(err, r, "list of %s", kind->plural);
    ret->revision = list.revision;
    buf_clear(&ret->continue_token);
    buf_add(&ret->continue_token, list.continue_token);
    while (protobuf_list_next(&list, &item)) {
        _cleanup_(object_unrefp) struct object *object = NULL;
        struct json *tree = NULL;

        arena_reset(&arena);
        r = kept_decode(&arena, kind, item, &tree, err);
        if (r == 0)
            r = kube_object(&arena, kind, tree, &object, err);
        if (r < 0 || !give(user, object))
            return r;
    }
    return 0;
}

int feed_page_read(const struct kind *kind,
                   struct str body,
                   struct feed_page *ret,
                   bool (*give)(void *user, const struct object *object),
                   void *user,
                   struct err *err)
{
    if (kept_is(kind) && !ret->whole && protobuf_is(body))
        return read_page_protobuf(kind, body, ret, give, user, err);
    return read_page_json(kind, body, ret, give, user, err);
}

/* ---- the events of a watch ---- */

static int too_long(struct err *err)
{
    return err_set(err, -EMSGSIZE, "one event of the watch has more than %zu bytes",
                   FEED_EVENT_BYTES_MAX);
}

/* Lines. The bytes of a line that came in one piece are used where they are. */
static int next_line(struct feed_stream *stream,
                     struct str *bytes,
                     struct str *ret_message,
                     struct err *err)
{
    while (bytes->len > 0) {
        size_t end = str_find(*bytes, '\n');
        struct str line = str_sub(*bytes, 0, end);
        bool whole = end < bytes->len;

        *bytes = str_sub(*bytes, end + 1, bytes->len);
        if (!whole || stream->part.len > 0) {
            if (stream->part.len + line.len > FEED_EVENT_BYTES_MAX)
                return too_long(err);
            buf_add(&stream->part, line);
            line = buf_str(&stream->part);
        }
        if (whole && line.len > 0) {
            *ret_message = line;
            stream->given = true;
            return 1;
        }
    }
    return 0;
}

static int next_frame(struct feed_stream *stream,
                      struct str *bytes,
                      struct str *ret_message,
                      struct err *err)
{
    while (bytes->len > 0) {
        bool sized = stream->part.len >= PROTOBUF_FRAME_HEAD;
        size_t want =
            PROTOBUF_FRAME_HEAD + (sized ? protobuf_frame_size(stream->part.p) : (size_t)0);
        struct str more = str_sub(*bytes, 0, want - stream->part.len);

        if (want > FEED_EVENT_BYTES_MAX)
            return too_long(err);
        buf_add(&stream->part, more);
        *bytes = str_sub(*bytes, more.len, bytes->len);
        if (!sized || stream->part.len < want)
            continue;
        *ret_message = str_sub(buf_str(&stream->part), PROTOBUF_FRAME_HEAD, want);
        stream->given = true;
        return 1;
    }
    return 0;
}

int feed_stream_next(struct feed_stream *stream,
                     struct str *bytes,
                     struct str *ret_message,
                     struct err *err)
{
    if (stream->given)
        buf_clear(&stream->part);
    stream->given = false;
    if (bytes->len == 0)
        return 0;
    if (!stream->begun) {
        stream->begun = true;
        /* A frame of less than 16 MiB begins with a zero byte. */
        stream->framed = bytes->p[0] == '\0';
    }
    return stream->framed ? next_frame(stream, bytes, ret_message, err)
                          : next_line(stream, bytes, ret_message, err);
}

void feed_stream_reset(struct feed_stream *stream)
{
    buf_clear(&stream->part);
    stream->begun = stream->given = false;
}

void feed_stream_done(struct feed_stream *stream)
{
    buf_done(&stream->part);
}

static bool read_type(struct str word, enum feed_type *ret)
{
    static const char *const words[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(word, words[i])) {
            *ret = (enum feed_type)i;
            return true;
        }
    return false;
}

/* `tree` is the object of an event, in whatever form it came. */
static int take_tree(const struct kind *kind,
                     struct arena *arena,
                     struct json *tree,
                     struct feed_event *ret,
                     struct err *err)
{
    const struct json *meta = json_get(tree, "metadata");

    switch (ret->type) {
    case FEED_ADDED:
    case FEED_MODIFIED:
    case FEED_DELETED: return kube_object(arena, kind, tree, &ret->object, err);
    case FEED_BOOKMARK:
        if (!str_to_u64(json_str(json_get(meta, "resourceVersion")), &ret->revision))
            return err_set(err, -EINVAL, "a bookmark of the watch has no resourceVersion");
        ret->initial_end = str_is(
            json_str(json_get(json_get(meta, "annotations"), FEED_INITIAL_ANNOTATION)), "true");
        return 0;
    case FEED_ERROR: break;
    }
    struct str message = json_str(json_get(tree, "message"));
    int64_t code = json_i64_or(json_get(tree, "code"), 500);

    ret->status = code >= 100 && code < 600 ? (int)code : 500;
    (void)err_set(err, -EIO, STR_FMT, STR_ARG(message.len ? message : STR("the watch failed")));
    return 0;
}

static int read_event_protobuf(const struct kind *kind,
                               struct str message,
                               struct feed_event *ret,
                               struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct protobuf_event event;
    struct json *tree = NULL;
    int r = protobuf_event_read(message, &event, err);

    if (r < 0)
        return r;
    if (!read_type(event.type, &ret->type))
        return err_set(err, -EINVAL, "event of the watch: unknown type");
    if (ret->type == FEED_ERROR) {
        const struct protobuf_envelope *status = &event.object;

        if (!str_is(status->kind, "Status"))
            return err_set(err, -EINVAL, "event of the watch: an error without a Status");
        r = protobuf_decode(&arena, type_of_kind(STR("v1"), STR("Status")), false, status->raw,
                            &tree, err);
    } else {
        r = kept_decode(&arena, kind, event.object.raw, &tree, err);
    }
    return r < 0 ? r : take_tree(kind, &arena, tree, ret, err);
}

static int read_event_json(const struct kind *kind,
                           bool whole,
                           struct str message,
                           struct feed_event *ret,
                           struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    int r = json_parse(&arena, message, &root, err);

    if (r < 0)
        return err_wrap(err, r, "event of the watch");
    struct json *tree = json_get(root, "object");
    if (!read_type(json_str(json_get(root, "type")), &ret->type))
        return err_set(err, -EINVAL, "event of the watch: unknown type");
    if (ret->type != FEED_ERROR && !whole)
        kept_trim(kind, tree);
    return take_tree(kind, &arena, tree, ret, err);
}

int feed_event_read(const struct kind *kind,
                    bool whole,
                    struct str message,
                    struct feed_event *ret,
                    struct err *err)
{
    *ret = (struct feed_event){0};
    /* A message of protobuf begins with the key of its field 1. */
    if (kept_is(kind) && !whole && message.len > 0 && message.p[0] != '{')
        return read_event_protobuf(kind, message, ret, err);
    return read_event_json(kind, whole, message, ret, err);
}
