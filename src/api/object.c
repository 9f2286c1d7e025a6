#include "api/object.h"

#include "api/group.h"
#include "api/kind.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* An object is one heap block: the struct, its arrays, and behind them all the text. */

/* Strings of the tree point into the text that was parsed, except those with escapes, which live in
 * the parse arena; both are moved into the block behind the raw text. */
struct build {
    char *at;
    char *end;
    const char *text_old;
    const char *text_new;
    size_t text_len;
};

static struct str move(struct build *build, struct str s)
{
    if (!s.p)
        return STR_NONE;
    if (s.p >= build->text_old && s.p <= build->text_old + build->text_len)
        return (struct str){build->text_new + (s.p - build->text_old), s.len};
    assert(s.len <= (size_t)(build->end - build->at));
    memcpy(build->at, s.p, s.len);
    struct str moved = {build->at, s.len};
    build->at += s.len;
    return moved;
}

static size_t labels_fill(struct build *build, const struct json *map, struct object_label *out)
{
    size_t count = 0;

    JSON_FOREACH(map, member) {
        if (!json_is(member, JSON_STRING))
            continue;
        out[count++] = (struct object_label){.key = move(build, json_key(member)),
                                             .value = move(build, json_str(member))};
    }
    return count;
}

static size_t owners_fill(struct build *build, const struct json *list, struct object_owner *out)
{
    size_t count = 0;

    JSON_FOREACH(list, item)
        out[count++] = (struct object_owner){
            .api_version = move(build, json_str(json_get(item, "apiVersion"))),
            .kind = move(build, json_str(json_get(item, "kind"))),
            .name = move(build, json_str(json_get(item, "name"))),
            .uid = move(build, json_str(json_get(item, "uid"))),
            .controller = json_bool_or(json_get(item, "controller"), false),
        };
    return count;
}

static int64_t moment(const struct json *meta, const char *key)
{
    int64_t ms = 0;

    (void)time_parse(json_str(json_get(meta, key)), &ms);
    return ms;
}

static size_t outside(struct str s, struct str raw)
{
    return s.p >= raw.p && s.p <= raw.p + raw.len ? 0 : s.len;
}

/* Room for the strings that move() will copy: those that had escapes. */
static size_t moved_size(const struct json *meta, struct str raw)
{
    static const char *const texts[] = {"name", "namespace", "uid"};
    static const char *const maps[] = {"labels", "annotations"};
    size_t bytes = 0;

    if (!memchr(raw.p, '\\', raw.len))
        return 0;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        bytes += outside(json_str(json_get(meta, texts[i])), raw);
    for (size_t i = 0; i < COUNT_OF(maps); i++)
        JSON_FOREACH(json_get(meta, maps[i]), member)
            bytes += outside(json_key(member), raw) + outside(json_str(member), raw);
    JSON_FOREACH(json_get(meta, "ownerReferences"), owner)
        JSON_FOREACH(owner, member)
            bytes += outside(json_str(member), raw);
    return bytes;
}

static int object_make(const struct kind *kind,
                       struct str raw,
                       const struct json *root,
                       struct object **ret,
                       struct err *err)
{
    const struct json *meta = json_get(root, "metadata");
    struct str name = json_str(json_get(meta, "name"));
    if (!name.len)
        return err_set(err, -EINVAL, "%s: metadata.name is required", kind->name);

    const struct json *labels = json_get(meta, "labels");
    const struct json *annotations = json_get(meta, "annotations");
    const struct json *owners = json_get(meta, "ownerReferences");
    size_t label_bytes =
        (json_count(labels) + json_count(annotations)) * sizeof(struct object_label);
    size_t owner_bytes = json_count(owners) * sizeof(struct object_owner);
    char made[GROUP_NAME_BYTES];
    struct str group = kind == &kind_pod ? group_of_pod(root, made) : STR_NONE;
    size_t moved_bytes = moved_size(meta, raw) + outside(group, raw);
    struct object *object =
        mem_alloc(sizeof(*object) + label_bytes + owner_bytes + raw.len + 1 + moved_bytes);

    struct object_label *label_at = (struct object_label *)(void *)(object + 1);
    struct object_label *annotation_at = label_at + json_count(labels);
    struct object_owner *owner_at =
        (struct object_owner *)(void *)(annotation_at + json_count(annotations));
    char *text = (char *)(owner_at + json_count(owners));
    memcpy(text, raw.p, raw.len);
    struct build build = {.at = text + raw.len + 1,
                          .end = text + raw.len + 1 + moved_bytes,
                          .text_old = raw.p,
                          .text_new = text,
                          .text_len = raw.len};

    *object = (struct object){
        .refs = 1,
        .kind = kind,
        .ns = kind->namespaced ? move(&build, json_str(json_get(meta, "namespace"))) : STR(""),
        .name = move(&build, name),
        .uid = move(&build, json_str(json_get(meta, "uid"))),
        .group = move(&build, group),
        .generation = json_i64_or(json_get(meta, "generation"), 0),
        .created_ms = moment(meta, "creationTimestamp"),
        .deleted_ms = moment(meta, "deletionTimestamp"),
        .labels = label_at,
        .annotations = annotation_at,
        .owners = owner_at,
        .raw = {text, raw.len},
    };
    object->label_count = labels_fill(&build, labels, label_at);
    object->annotation_count = labels_fill(&build, annotations, annotation_at);
    object->owner_count = owners_fill(&build, owners, owner_at);
    (void)str_to_u64(json_str(json_get(meta, "resourceVersion")), &object->revision);
    *ret = object;
    return 0;
}

int object_new(const struct kind *kind, struct str raw, struct object **ret, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;

    int r = json_parse(&arena, raw, &root, err);
    if (r < 0)
        return err_wrap(err, r, "%s", kind->name);
    return object_make(kind, raw, root, ret, err);
}

/* Behind the string that begins at `at`; NULL: it does not end. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && (at = memchr(at, '"', (size_t)(end - at)));) {
        const char *slash = at;

        while (slash[-1] == '\\')
            slash--;
        at++;
        if ((at - slash) % 2)
            return at;
    }
    return NULL;
}

/* Behind the value that begins at `at`. */
static const char *value_end(const char *at, const char *end)
{
    size_t depth = 0;

    while (at && at < end) {
        if (*at == '"') {
            at = string_end(at, end);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (depth && (*at == '}' || *at == ']')) {
            depth--;
            at++;
        } else if (!depth && (*at == ',' || *at == '}')) {
            return at;
        } else {
            at++;
        }
        if (at && !depth && at < end && (*at == ',' || *at == '}'))
            return at;
    }
    return NULL;
}

/* The text of a member of an object in compact JSON; empty: it is not there. */
static struct str member_text(struct str raw, struct str key)
{
    const char *at = raw.p + 1;
    const char *end = raw.p + raw.len;

    while (at < end && *at == '"') {
        const char *colon = string_end(at, end);
        const char *behind = colon && colon < end ? value_end(colon + 1, end) : NULL;

        if (!behind)
            break;
        if (str_eq((struct str){at + 1, (size_t)(colon - at) - 2}, key))
            return (struct str){colon + 1, (size_t)(behind - colon) - 1};
        at = behind + 1;
    }
    return STR_NONE;
}

#define GROUP_FIELD "\"schedulingGroup\""

int object_written(const struct kind *kind, struct str raw, struct object **ret, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = json_new_object(&arena);
    struct str text = member_text(raw, STR("metadata"));
    struct json *meta = NULL;
    /* The name of its group may be in a pod's spec. */
    bool deep = kind == &kind_pod && memmem(raw.p, raw.len, GROUP_FIELD, sizeof(GROUP_FIELD) - 1);

    if (deep || !text.len || json_parse(&arena, text, &meta, NULL) < 0)
        return object_new(kind, raw, ret, err);
    json_set(root, STR("metadata"), meta);
    return object_make(kind, raw, root, ret, err);
}

struct object *object_ref(const struct object *object)
{
    /* The count is the one part of an object that changes. */
    struct object *shared = (struct object *)(uintptr_t)object;

    if (shared)
        shared->refs++;
    return shared;
}

void object_unref(const struct object *object)
{
    struct object *shared = (struct object *)(uintptr_t)object;

    if (!shared)
        return;
    assert(shared->refs > 0);
    if (--shared->refs)
        return;
    selector_kept_free(shared->selector);
    mem_free(shared);
}

void object_unrefp(struct object **object)
{
    object_unref(*object);
}

void object_release(void *object)
{
    object_unref(object);
}

struct json *object_json(const struct object *object, struct arena *arena)
{
    struct json *root = NULL;
    int r = json_parse(arena, object->raw, &root, NULL);

    /* object_new() parsed the same bytes. */
    assert(r == 0);
    (void)r;
    return root;
}

void object_trees_add(struct object_trees *trees, const struct object *object)
{
    if (!object || object->trees)
        return;
    struct object *shared = object_ref(object);
    shared->trees = trees;
    VEC_PUSH(NULL, &trees->objects, shared);
}

void object_trees_clear(struct object_trees *trees)
{
    for (size_t i = 0; i < trees->objects.count; i++) {
        struct object *shared = (struct object *)(uintptr_t)trees->objects.items[i];

        shared->trees = NULL;
        shared->tree = NULL;
        object_unref(shared);
    }
    trees->objects.count = 0;
    arena_reset(&trees->arena);
}

void object_trees_done(struct object_trees *trees)
{
    object_trees_clear(trees);
    VEC_DONE(&trees->objects);
    arena_done(&trees->arena);
}

const struct json *object_tree(const struct object *object, struct arena *arena)
{
    struct object *shared = (struct object *)(uintptr_t)object;

    if (!object->tree &&
        (!object->trees || object->trees->arena.bytes_used > OBJECT_TREES_BYTES_MAX))
        return object_json(object, arena);
    if (!object->tree)
        shared->tree = object_json(object, &object->trees->arena);
    return shared->tree;
}

static struct str find(const struct object_label *labels, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (str_is(labels[i].key, key))
            return labels[i].value;
    return STR_NONE;
}

struct str object_label(const struct object *object, const char *key)
{
    return find(object->labels, object->label_count, key);
}

struct str object_annotation(const struct object *object, const char *key)
{
    return find(object->annotations, object->annotation_count, key);
}

static bool same_labels(const struct object_label *a, const struct object_label *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!str_eq(a[i].key, b[i].key) || !str_eq(a[i].value, b[i].value))
            return false;
    return true;
}

static bool same_owners(const struct object_owner *a, const struct object_owner *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!str_eq(a[i].uid, b[i].uid) || !str_eq(a[i].name, b[i].name) ||
            a[i].controller != b[i].controller)
            return false;
    return true;
}

/* Finalizers are neither counted by generations nor decoded: their text is compared. */
static struct str finalizers_of(const struct object *object)
{
    static const char key[] = "\"finalizers\":[";
    const char *at = memmem(object->raw.p, object->raw.len, key, sizeof(key) - 1);
    const char *end = at ? memchr(at, ']', object->raw.len - (size_t)(at - object->raw.p)) : NULL;

    return end ? (struct str){at, (size_t)(end - at)} : STR_NONE;
}

bool object_same_but_status(const struct object *a, const struct object *b)
{
    return a->kind == b->kind && a->generation && a->generation == b->generation &&
           str_eq(a->uid, b->uid) && a->deleted_ms == b->deleted_ms &&
           a->label_count == b->label_count && a->annotation_count == b->annotation_count &&
           a->owner_count == b->owner_count && same_labels(a->labels, b->labels, a->label_count) &&
           same_labels(a->annotations, b->annotations, a->annotation_count) &&
           same_owners(a->owners, b->owners, a->owner_count) &&
           str_eq(finalizers_of(a), finalizers_of(b));
}

const struct object_owner *object_controller(const struct object *object)
{
    for (size_t i = 0; i < object->owner_count; i++)
        if (object->owners[i].controller)
            return &object->owners[i];
    return NULL;
}
