#include "base/yaml.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/yaml_scalar.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <yaml.h>

/* libyaml turns text into events; this file turns events into the tree, one node at a time by
 * recursive descent (YAML_DEPTH_MAX deep). The first problem ends everything: `failed` is its code
 * and err has its words. */
struct anchor {
    struct str name;
    const struct json
        *value; /* NULL while the node is still being read: an alias to it is a cycle */
};

struct builder {
    struct arena *arena;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one; has_event says whether it must be released */
    bool has_event;
    int failed;
    struct err *err;
    unsigned depth;
    size_t copies;
    size_t values;
    size_t values_max;
    VEC(struct anchor) anchors; /* of the current document */
    struct map anchor_index;    /* a name's last anchor: its index + 1 */
};

#define TAG_PREFIX "tag:yaml.org,2002:"

static void builder_done(struct builder *builder)
{
    if (builder->has_event)
        yaml_event_delete(&builder->event);
    yaml_parser_delete(&builder->parser);
    map_done(&builder->anchor_index);
}

static struct json *fail_at(struct builder *builder, yaml_mark_t mark, const char *problem)
{
    if (!builder->failed)
        builder->failed = err_set(builder->err, -EINVAL, "line %zu, column %zu: %s", mark.line + 1,
                                  mark.column + 1, problem);
    return NULL;
}

/* In the words of Kubernetes' own reader, which its clients look for. */
static struct json *fail_twice(struct builder *builder, yaml_mark_t mark, struct str key)
{
    if (!builder->failed)
        builder->failed =
            err_set(builder->err, -EINVAL, "line %zu: key \"" STR_FMT "\" already set in map",
                    mark.line + 1, STR_ARG(str_sub(key, 0, 80)));
    return NULL;
}

static struct json *fail(struct builder *builder, const char *problem)
{
    return fail_at(builder, builder->event.start_mark, problem);
}

/* Advance to the next event; false when the text is not YAML. */
static bool next(struct builder *builder)
{
    if (builder->failed)
        return false;
    if (builder->has_event)
        yaml_event_delete(&builder->event);
    builder->has_event = yaml_parser_parse(&builder->parser, &builder->event) == 1;
    if (builder->has_event)
        return true;

    const char *problem = builder->parser.problem ? builder->parser.problem : "not YAML";
    /* Errors of the byte reader carry an offset instead of a mark; the scanner stands close by. */
    yaml_mark_t mark = builder->parser.error == YAML_READER_ERROR ? builder->parser.mark
                                                                  : builder->parser.problem_mark;
    (void)fail_at(builder, mark, problem);
    return false;
}

static struct str event_text(const yaml_event_t *event)
{
    return (struct str){(const char *)event->data.scalar.value, event->data.scalar.length};
}

/* Remember the node of an anchor. Returns the index + 1, or 0 for a node without one. */
static size_t anchor_open(struct builder *builder, const yaml_char_t *name)
{
    if (!name)
        return 0;
    struct anchor anchor = {.name = str_dup(builder->arena, str_from((const char *)name))};
    VEC_PUSH(builder->arena, &builder->anchors, anchor);
    (void)map_set(&builder->anchor_index, anchor.name, (void *)(uintptr_t)builder->anchors.count);
    return builder->anchors.count;
}

static struct json *anchor_close(struct builder *builder, size_t anchor, struct json *value)
{
    if (anchor)
        builder->anchors.items[anchor - 1].value = value;
    return value;
}

// NOLINTNEXTLINE(misc-no-recursion)
static size_t node_count(const struct json *value)
{
    size_t count = 1;

    JSON_FOREACH(value, child)
        count += node_count(child);
    return count;
}

/* A copy of somebody else's node, as long as the budget lasts. */
static struct json *copy_node(struct builder *builder, const struct json *value)
{
    builder->copies += node_count(value);
    if (builder->copies > YAML_COPIES_MAX)
        return fail(builder, "aliases expand to too much");
    return json_clone(builder->arena, value);
}

static struct json *read_alias(struct builder *builder)
{
    struct str name = str_from((const char *)builder->event.data.alias.anchor);

    const void *found = map_get(&builder->anchor_index, name);
    size_t anchor = (uintptr_t)found;

    if (!anchor)
        return fail(builder, "an alias to an anchor that does not exist");
    const struct json *value = builder->anchors.items[anchor - 1].value;
    return value ? copy_node(builder, value)
                 : fail(builder, "an alias stands inside the node it refers to");
}

static struct json *read_tagged(struct builder *builder, struct str tag, struct str text)
{
    struct json *value = yaml_scalar(builder->arena, text);

    if (str_is(tag, TAG_PREFIX "int") || str_is(tag, TAG_PREFIX "float"))
        return json_is(value, JSON_NUMBER) ? value : fail(builder, "not a number, as its tag says");
    if (str_is(tag, TAG_PREFIX "bool"))
        return json_is(value, JSON_BOOL) ? value : fail(builder, "not a bool, as its tag says");
    if (str_is(tag, TAG_PREFIX "null"))
        return json_is(value, JSON_NULL) ? value : fail(builder, "not null, as its tag says");
    if (str_is(tag, TAG_PREFIX "binary"))
        return fail(builder, "!!binary is not supported: write the base64 text as a string");
    return json_new_str(builder->arena, str_dup(builder->arena, text));
}

static struct json *read_scalar(struct builder *builder)
{
    const yaml_event_t *event = &builder->event;
    struct str text = event_text(event);

    if (event->data.scalar.tag)
        return read_tagged(builder, str_from((const char *)event->data.scalar.tag), text);
    if (!event->data.scalar.plain_implicit)
        return json_new_str(builder->arena, str_dup(builder->arena, text));
    struct json *value = yaml_scalar(builder->arena, text);
    return value ? value
                 : fail(builder, "infinity and NaN cannot be used: JSON has no such number");
}

static struct json *read_node(struct builder *builder);

/* The name of a member is a string whatever it looks like: 8080 is "8080", yes is "true". */
static bool read_key(struct builder *builder, struct str *ret, bool *ret_merge)
{
    if (builder->event.type == YAML_ALIAS_EVENT || builder->event.type == YAML_SCALAR_EVENT) {
        *ret_merge = builder->event.type == YAML_SCALAR_EVENT &&
                     builder->event.data.scalar.plain_implicit &&
                     str_is(event_text(&builder->event), "<<");
        const struct json *key = read_node(builder);
        if (!key)
            return false;
        if (json_is(key, JSON_STRING) || json_is(key, JSON_NUMBER)) {
            *ret = json_is(key, JSON_STRING) ? json_str(key) : json_number_text(key);
            return true;
        }
        if (json_is(key, JSON_BOOL)) {
            *ret = json_bool_or(key, false) ? STR("true") : STR("false");
            return true;
        }
    }
    return fail(builder, "a member name must be text, a number or a bool") != NULL;
}

/* Members of a merge key's mapping that the object does not have itself. */
static bool merge_one(struct builder *builder, struct json_names *object, const struct json *from)
{
    if (!json_is(from, JSON_OBJECT))
        return fail(builder, "<< needs a mapping or a list of mappings") != NULL;
    JSON_FOREACH(from, member) {
        if (json_names_get(object, json_key(member)))
            continue;
        struct json *copy = copy_node(builder, member);
        if (!copy)
            return false;
        (void)json_names_put(object, str_dup(builder->arena, json_key(member)), copy);
    }
    return true;
}

static bool merge_all(struct builder *builder, struct json_names *object, const struct json *from)
{
    if (!json_is(from, JSON_ARRAY))
        return merge_one(builder, object, from);
    JSON_FOREACH(from, item)
        if (!merge_one(builder, object, item))
            return false;
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct json *read_mapping(struct builder *builder)
{
    struct json *object = json_new_object(builder->arena);
    _cleanup_(json_names_done) struct json_names names = {.object = object};
    VEC(const struct json *) merges = {0};

    while (next(builder) && builder->event.type != YAML_MAPPING_END_EVENT) {
        yaml_mark_t mark = builder->event.start_mark;
        struct str key = STR_NONE;
        bool merge = false;

        if (!read_key(builder, &key, &merge) || !next(builder))
            return NULL;
        struct json *value = read_node(builder);
        if (!value)
            return NULL;
        if (merge)
            VEC_PUSH(builder->arena, &merges, value);
        else if (json_names_get(&names, key))
            return fail_twice(builder, mark, key);
        else if (json_count(object) >= JSON_MEMBERS_MAX)
            return fail_at(builder, mark, "a mapping has too many members");
        else
            (void)json_names_put(&names, key, value);
    }
    for (size_t i = 0; i < merges.count; i++)
        if (!merge_all(builder, &names, merges.items[i]))
            return NULL;
    if (json_count(object) > JSON_MEMBERS_MAX)
        return fail(builder, "a mapping has too many members");
    return builder->failed ? NULL : object;
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct json *read_sequence(struct builder *builder)
{
    struct json *array = json_new_array(builder->arena);

    while (next(builder) && builder->event.type != YAML_SEQUENCE_END_EVENT) {
        struct json *item = read_node(builder);

        if (!item)
            return NULL;
        json_push(array, item);
    }
    return builder->failed ? NULL : array;
}

/* The node that starts at the current event; afterwards its last event is the current one. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct json *read_node(struct builder *builder)
{
    struct json *value = NULL;
    size_t anchor = 0;

    if (++builder->depth > YAML_DEPTH_MAX)
        return fail(builder, "nested too deeply");
    if (++builder->values > builder->values_max)
        return fail(builder, "too many values in one text; as JSON it may have them");
    switch ((int)builder->event.type) {
    case YAML_ALIAS_EVENT: value = read_alias(builder); break;
    case YAML_SCALAR_EVENT:
        anchor = anchor_open(builder, builder->event.data.scalar.anchor);
        value = read_scalar(builder);
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = anchor_open(builder, builder->event.data.sequence_start.anchor);
        value = read_sequence(builder);
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = anchor_open(builder, builder->event.data.mapping_start.anchor);
        value = read_mapping(builder);
        break;
    default: return fail(builder, "expected a value");
    }
    builder->depth--;
    return anchor_close(builder, anchor, value);
}

static int read_documents(struct builder *builder, struct json_vec *ret)
{
    while (next(builder) && builder->event.type != YAML_STREAM_END_EVENT) {
        if (builder->event.type != YAML_DOCUMENT_START_EVENT)
            continue; /* the start of the stream, the end of a document */
        builder->anchors.count = 0;
        map_clear(&builder->anchor_index);
        if (!next(builder))
            break;
        struct json *value = read_node(builder);
        if (!value)
            break;
        if (json_is_null(value))
            continue;
        if (ret->count >= YAML_DOCUMENTS_MAX) {
            (void)fail(builder, "too many documents in one text");
            break;
        }
        VEC_PUSH(builder->arena, ret, value);
    }
    return builder->failed;
}

static int parse(struct arena *arena,
                 struct str text,
                 size_t values_max,
                 struct json_vec *ret,
                 struct err *err)
{
    _cleanup_(builder_done) struct builder builder = {.arena = arena,
                                                      .err = err,
                                                      .values_max = values_max,
                                                      .anchor_index.seed =
                                                          (uintptr_t)text.p ^ (uintptr_t)arena};
    struct json_vec documents = {0};

    if (text.len > YAML_BYTES_MAX)
        return err_set(err, -E2BIG, "YAML of %zu bytes is over the limit of %zu", text.len,
                       YAML_BYTES_MAX);
    if (!yaml_parser_initialize(&builder.parser))
        return err_set(err, -ENOMEM, "out of memory");
    struct str trimmed = str_trim(text);
    struct json *single = NULL;
    if (trimmed.len && trimmed.p[0] == '{' &&
        json_parse(arena, str_dup(arena, text), &single, NULL) == 0) {
        VEC_PUSH(arena, &documents, single);
    } else {
        yaml_parser_set_input_string(&builder.parser, (const yaml_char_t *)(text.p ? text.p : ""),
                                     text.len);
        yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
        int r = read_documents(&builder, &documents);
        if (r < 0)
            return r;
    }
    *ret = documents;
    return 0;
}

int yaml_parse_all(struct arena *arena, struct str text, struct json_vec *ret, struct err *err)
{
    return parse(arena, text, SIZE_MAX, ret, err);
}

int yaml_parse(struct arena *arena, struct str text, struct json **ret, struct err *err)
{
    struct json_vec documents = {0};
    int r = parse(arena, text, YAML_VALUES_MAX, &documents, err);

    if (r < 0)
        return r;
    if (documents.count > 1)
        return err_set(err, -EINVAL, "%zu documents where one is expected", documents.count);
    *ret = documents.count ? documents.items[0] : json_new_null(arena);
    return 0;
}
