#include "api/kind.h"
#include "api/protobuf.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects made from the types themselves: every field set, or every field that may be zero. */

struct above {
    const struct above *up;
    const struct type *type;
};

struct maker {
    struct arena *arena;
    bool zero;
    size_t fields;
};

static void make_message(struct maker *maker,
                         const struct type *type,
                         const struct above *up,
                         struct json *object);

/* Schemas hold schemas: one within another is enough. */
static bool is_too_deep(const struct type *type, const struct above *above)
{
    int count = 0;

    for (; above; above = above->up)
        count += above->type == type;
    return count > 1;
}

static struct json *make_scalar(struct maker *maker, const struct type_field *field)
{
    struct arena *arena = maker->arena;
    struct json *json = NULL;
    bool zero = maker->zero;

    switch ((enum type_form)field->form) {
    case TYPE_STRING: return json_new_str(arena, zero ? STR("") : str_from(field->name));
    case TYPE_BYTES: return json_new_str(arena, zero ? STR("") : STR("AP8="));
    case TYPE_INT32: return json_new_i64(arena, zero ? 0 : -7);
    case TYPE_INT64: return json_new_i64(arena, zero ? 0 : (int64_t)1 << 40);
    case TYPE_BOOL: return json_new_bool(arena, !zero);
    case TYPE_DOUBLE: return json_new_number(arena, zero ? STR("0") : STR("-0.1"));
    case TYPE_TIME: return json_new_str(arena, STR("2026-01-02T03:04:05Z"));
    case TYPE_MICROTIME: return json_new_str(arena, STR("2026-01-02T03:04:05.006007Z"));
    case TYPE_QUANTITY: return json_new_str(arena, zero ? STR("0") : STR("1500m"));
    case TYPE_INT_OR_STRING: return zero ? json_new_i64(arena, 0) : json_new_str(arena, STR("25%"));
    case TYPE_JSON:
        EXPECT(json_parse(arena, STR("{\"a\":[1,null,\"x\"]}"), &json, NULL) == 0);
        return json;
    case TYPE_MESSAGE: break;
    }
    return NULL;
}

/* NULL: it would not end. */
static struct json *make_value(struct maker *maker,
                               const struct type_field *field,
                               const struct above *above)
{
    struct json *value = NULL;

    if (field->form != TYPE_MESSAGE)
        return make_scalar(maker, field);
    if (is_too_deep(field->type, above))
        return NULL;
    struct json *object = json_new_object(maker->arena);
    make_message(maker, field->type, above, object);
    if (!field->type->bare)
        return object;
    JSON_FOREACH(object, member)
        value = member; /* the last one, as a reader sees it */
    return value;
}

static void make_field(struct maker *maker,
                       const struct type_field *field,
                       const struct above *above,
                       struct json *object)
{
    bool many = field->flags & (TYPE_LIST | TYPE_MAP);
    struct json *value = NULL;

    if (maker->zero && !many && field->form != TYPE_MESSAGE && !(field->flags & TYPE_KEEP))
        return;
    value = make_value(maker, field, above);
    if (!value)
        return;
    maker->fields++;
    if (field->flags & TYPE_LIST) {
        struct json *list = json_add_array(maker->arena, object, field->name);

        json_push(list, value);
        value = make_value(maker, field, above);
        json_push(list, value);
    } else if (field->flags & TYPE_MAP) {
        json_set(json_add_object(maker->arena, object, field->name), STR("a.b/c"), value);
    } else {
        json_set(object, str_from(field->name), value);
    }
}

static void make_message(struct maker *maker,
                         const struct type *type,
                         const struct above *up,
                         struct json *object)
{
    struct above above = {up, type};

    for (size_t i = 0; i < type->field_count; i++)
        if (type->fields[i].flags & TYPE_INLINE)
            make_message(maker, type->fields[i].type, &above, object);
        else
            make_field(maker, &type->fields[i], &above, object);
}

static struct json *make_object(struct maker *maker, const struct type *type)
{
    struct json *object = json_new_object(maker->arena);

    json_add_c(maker->arena, object, "apiVersion", type->version);
    json_add_c(maker->arena, object, "kind", type->name);
    make_message(maker, type, NULL, object);
    return object;
}

static size_t round_trips(bool zero)
{
    size_t fields = 0;

    for (size_t i = 0; i < type_count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf bytes = {0};
        struct maker maker = {.arena = &arena, .zero = zero};
        struct protobuf_unknown unknown = {0};
        struct json *again = NULL;
        struct err err = {0};

        if (!types[i].kind)
            continue;
        struct json *object = make_object(&maker, &types[i]);
        test_case(types[i].name);
        EXPECT(protobuf_from_json(object, false, &bytes, &err) == 0);
        EXPECT(protobuf_to_json(&arena, buf_str(&bytes), &unknown, &again, &err) == 0);
        EXPECT(json_equal(object, again) && unknown.count == 0);
        fields += maker.fields;
    }
    return fields;
}

TEST(protobuf_every_field_of_every_kind_comes_back)
{
    EXPECT(round_trips(false) > 5000);
}

TEST(protobuf_zero_comes_back_where_it_says_something)
{
    EXPECT(round_trips(true) > 1000);
}

TEST(protobuf_every_kind_that_is_built_in_has_a_type_and_so_has_its_list)
{
    struct kinds *kinds = kinds_new();

    for (size_t i = 0; i < kinds_count(kinds); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct kind *kind = kinds_at(kinds, i);
        char version[KIND_API_VERSION_BYTES];

        if (kind->custom)
            continue;
        test_case(kind->name);
        struct str api_version = kind_api_version(kind, version);
        EXPECT(type_of_kind(api_version, str_from(kind->name)) != NULL);
        EXPECT(type_of_kind(api_version, str_printf(&arena, "%sList", kind->name)) != NULL);
    }
    kinds_free(kinds);
    EXPECT(type_of_kind(STR("apps/v1"), STR("DeleteOptions")) != NULL);
    EXPECT(type_of_kind(STR("policy/v1"), STR("Eviction")) != NULL);
    EXPECT(type_of_kind(STR("v1"), STR("Binding")) != NULL);
    EXPECT(type_of_kind(STR("autoscaling/v1"), STR("Scale")) != NULL);
    EXPECT(type_of_kind(STR("authorization.k8s.io/v1"), STR("LocalSubjectAccessReview")) != NULL);
    EXPECT(type_of_kind(STR("v1"), STR("ObjectMeta")) == NULL);
}

TEST(protobuf_whole_pod_cut_anywhere_is_refused_not_read_beyond)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf bytes = {0};
    struct maker maker = {.arena = &arena};
    struct json *pod = make_object(&maker, type_of_kind(STR("v1"), STR("Pod")));

    EXPECT(protobuf_from_json(pod, false, &bytes, NULL) == 0);
    for (size_t len = 0; len < bytes.len; len += 7) {
        _cleanup_(arena_done) struct arena work = {0};
        struct json *root = NULL;
        struct err err = {0};
        struct str part = str_dup(&work, str_sub(buf_str(&bytes), 0, len));

        EXPECT(protobuf_to_json(&work, part, NULL, &root, &err) == -EINVAL && err.text[0]);
    }
}

TEST(protobuf_that_is_flipped_anywhere_is_read_or_refused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf bytes = {0};
    struct maker maker = {.arena = &arena};
    struct json *job = make_object(&maker, type_of_kind(STR("policy/v1"), STR("Eviction")));

    EXPECT(protobuf_from_json(job, false, &bytes, NULL) == 0);
    for (size_t i = 0; i < bytes.len * 8; i++) {
        _cleanup_(arena_done) struct arena work = {0};
        struct json *root = NULL;
        struct err err = {0};

        bytes.p[i / 8] = (char)(bytes.p[i / 8] ^ 1 << i % 8);
        int r = protobuf_to_json(&work, buf_str(&bytes), NULL, &root, &err);
        EXPECT(r == 0 ? json_is(root, JSON_OBJECT) : err.text[0] != '\0');
        bytes.p[i / 8] = (char)(bytes.p[i / 8] ^ 1 << i % 8);
    }
}
