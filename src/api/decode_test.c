#include "api/decode.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum clean {
    CLEAN_NONE,
    CLEAN_RUNNING,
    CLEAN_ALL,
};

struct role {
    struct str name;
    int64_t replicas;
};

struct shape {
    int64_t cpu_milli;
    int64_t memory_bytes;
    struct quantity disk;
};

struct thing {
    struct str queue;
    bool suspend;
    int64_t restarts;
    double weight;
    int64_t grace_ms;
    int64_t started_ms;
    enum clean clean;
    const struct json *template;
    struct shape shape;
    const struct str *args;
    size_t arg_count;
    const struct object_label *labels;
    size_t label_count;
    const struct role *roles;
    size_t role_count;
    int64_t unnamed;
};

static const char *const clean_words[] = {"None", "Running", "All", NULL};

static const struct decode_field role_fields[] = {
    DECODE_FIELD(struct role, name, "name", STR, .required = true),
    DECODE_FIELD(struct role, replicas, "replicas", I64, .min = 1, .max = 100, .absent = "1"),
};
static const struct decode_table role_table = DECODE_TABLE(struct role, NULL, role_fields);

static const struct decode_field shape_fields[] = {
    DECODE_FIELD(struct shape, cpu_milli, "cpus", MILLI, .absent = "1"),
    DECODE_FIELD(struct shape, memory_bytes, "memory", WHOLE, .min = 1, .max = INT64_MAX),
    DECODE_FIELD(struct shape, disk, "disk", QUANTITY),
};
static const struct decode_table shape_table = DECODE_TABLE(struct shape, NULL, shape_fields);

static const struct decode_field thing_fields[] = {
    DECODE_FIELD(struct thing, queue, "jobQueue", STR, .alias = "queue.name", .absent = "default"),
    DECODE_FIELD(struct thing, suspend, "suspend", BOOL, .absent = "true"),
    DECODE_FIELD(struct thing, restarts, "limits.restarts", I64, .max = 100, .absent = "-1"),
    DECODE_FIELD(struct thing, weight, "weight", NUMBER),
    DECODE_FIELD(struct thing, grace_ms, "grace", DURATION, .absent = "10m"),
    DECODE_FIELD(struct thing, started_ms, "started", TIME),
    DECODE_FIELD(struct thing,
                 clean,
                 "cleanPodPolicy",
                 ENUM,
                 .words = clean_words,
                 .absent = "Running"),
    DECODE_FIELD(struct thing, template, "template", JSON),
    DECODE_FIELD(struct thing, shape, "resources", OBJECT, .table = &shape_table),
    DECODE_ITEMS(struct thing, args, arg_count, "args", STRS, .max = 3),
    DECODE_ITEMS(struct thing, labels, label_count, "labels", MAP),
    DECODE_ITEMS(struct thing, roles, role_count, "roles", LIST, .table = &role_table),
};
static const struct decode_table thing_table = DECODE_TABLE(struct thing, "spec", thing_fields);

static int read_thing(struct arena *arena, const char *text, struct thing *ret, struct err *err)
{
    struct json *tree = NULL;

    EXPECT(json_parse(arena, str_from(text), &tree, NULL) == 0);
    return decode_object(&thing_table, arena, tree, ret, err);
}

TEST(a_table_fills_every_type_of_field)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct thing thing = {.unnamed = 7};
    struct err err = {0};

    EXPECT(
        read_thing(&arena,
                   "{\"spec\":{\"jobQueue\":\"a\",\"suspend\":false,\"limits\":{\"restarts\":0},"
                   "\"weight\":\"500m\",\"grace\":\"1m30s\",\"started\":\"1970-01-01T00:00:01Z\","
                   "\"cleanPodPolicy\":\"All\",\"template\":{\"x\":[1]},"
                   "\"resources\":{\"cpus\":\"1500m\",\"memory\":\"2Ki\",\"disk\":\"1G\"},"
                   "\"args\":[\"x\",\"\"],\"labels\":{\"k\":\"v\",\"e\":\"\"},"
                   "\"roles\":[{\"name\":\"m\"},{\"name\":\"w\",\"replicas\":1e1}]}}",
                   &thing, &err) == 0);
    EXPECT(err.code == 0);
    EXPECT(str_is(thing.queue, "a") && !thing.suspend && thing.restarts == 0);
    EXPECT(thing.weight > 0.49 && thing.weight < 0.51);
    EXPECT(thing.grace_ms == 90000 && thing.started_ms == 1000 && thing.clean == CLEAN_ALL);
    EXPECT(json_i64_or(json_at(thing.template, "x.0"), 0) == 1);
    EXPECT(thing.shape.cpu_milli == 1500 && thing.shape.memory_bytes == 2048);
    EXPECT(thing.shape.disk.nano == (__int128)1000000000 * 1000000000);
    EXPECT(thing.arg_count == 2 && str_is(thing.args[0], "x") && thing.args[1].len == 0);
    EXPECT(thing.label_count == 2 && str_is(thing.labels[0].key, "k") &&
           str_is(thing.labels[0].value, "v"));
    EXPECT(thing.role_count == 2 && str_is(thing.roles[0].name, "m") &&
           thing.roles[0].replicas == 1 && thing.roles[1].replicas == 10);
    EXPECT(thing.unnamed == 0);
}

TEST(what_is_absent_null_or_empty_gets_the_alias_and_then_the_default)
{
    static const struct {
        const char *why;
        const char *text;
        const char *queue;
    } rows[] = {
        {"nothing at all", "{}", "default"},
        {"no spec", "{\"spec\":null}", "default"},
        {"null", "{\"spec\":{\"jobQueue\":null}}", "default"},
        {"empty", "{\"spec\":{\"jobQueue\":\"\"}}", "default"},
        {"the other spelling", "{\"spec\":{\"queue\":{\"name\":\"b\"}}}", "b"},
        {"empty gives way", "{\"spec\":{\"jobQueue\":\"\",\"queue\":{\"name\":\"b\"}}}", "b"},
        {"the first wins", "{\"spec\":{\"queue\":{\"name\":\"b\"},\"jobQueue\":\"a\"}}", "a"},
    };
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct thing thing = {0};

        test_case(rows[i].why);
        EXPECT(read_thing(&arena, rows[i].text, &thing, NULL) == 0);
        EXPECT(str_is(thing.queue, rows[i].queue));
        EXPECT(thing.suspend && thing.restarts == -1 && thing.grace_ms == 600000);
        EXPECT(thing.clean == CLEAN_RUNNING && thing.shape.cpu_milli == 1000);
        EXPECT(!thing.template && !thing.arg_count && !thing.role_count && !thing.started_ms);
    }
}

TEST(an_error_names_the_field_and_what_is_expected)
{
    static const struct {
        const char *why;
        const char *text;
        const char *error;
    } rows[] = {
        {"string", "{\"spec\":{\"jobQueue\":3}}", "spec.jobQueue: 3 is not a string"},
        {"the alias is named", "{\"spec\":{\"queue\":{\"name\":[]}}}",
         "spec.queue.name: a list is not a string"},
        {"bool", "{\"spec\":{\"suspend\":\"yes\"}}", "spec.suspend: \"yes\" is not true or false"},
        {"fraction", "{\"spec\":{\"limits\":{\"restarts\":1.5}}}",
         "spec.limits.restarts: 1.5 is not a whole number"},
        {"huge", "{\"spec\":{\"limits\":{\"restarts\":1e400}}}",
         "spec.limits.restarts: 1e400 is not a whole number"},
        {"above", "{\"spec\":{\"limits\":{\"restarts\":101}}}",
         "spec.limits.restarts: 101 is not within 0..100"},
        {"the default's value is out of range when given",
         "{\"spec\":{\"limits\":{\"restarts\":-1}}}",
         "spec.limits.restarts: -1 is not within 0..100"},
        {"below", "{\"spec\":{\"resources\":{\"memory\":0}}}",
         "spec.resources.memory: 0 is not at least 1"},
        {"quantity", "{\"spec\":{\"resources\":{\"memory\":\"2GB\"}}}",
         "spec.resources.memory: \"2GB\" is not a quantity such as 2 or 16Gi"},
        {"duration", "{\"spec\":{\"grace\":\"90\"}}",
         "spec.grace: \"90\" is not a duration such as 1h30m"},
        {"time", "{\"spec\":{\"started\":\"today\"}}",
         "spec.started: \"today\" is not a time such as 2026-01-31T12:00:00Z"},
        {"word", "{\"spec\":{\"cleanPodPolicy\":\"none\"}}",
         "spec.cleanPodPolicy: \"none\" is not one of None, Running, All"},
        {"object", "{\"spec\":{\"resources\":7}}", "spec.resources: 7 is not an object"},
        {"spec", "{\"spec\":[]}", "spec: a list is not an object"},
        {"list", "{\"spec\":{\"roles\":{}}}", "spec.roles: an object is not a list"},
        {"item", "{\"spec\":{\"args\":[\"a\",{}]}}", "spec.args[1]: an object is not a string"},
        {"too many", "{\"spec\":{\"args\":[\"\",\"\",\"\",\"\"]}}",
         "spec.args: has 4 items, more than 3"},
        {"value", "{\"spec\":{\"labels\":{\"a\":\"\",\"b\":1}}}",
         "spec.labels.b: 1 is not a string"},
        {"in a list", "{\"spec\":{\"roles\":[{\"name\":\"a\"},{\"name\":\"b\",\"replicas\":0}]}}",
         "spec.roles[1].replicas: 0 is not within 1..100"},
        {"required", "{\"spec\":{\"roles\":[{}]}}", "spec.roles[0].name: is required"},
        {"long values are cut",
         "{\"spec\":{\"suspend\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaa\"}}",
         "spec.suspend: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa... is not "
         "true or false"},
    };
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct thing thing = {.unnamed = 7};
        struct err err = {0};

        test_case(rows[i].why);
        EXPECT(read_thing(&arena, rows[i].text, &thing, &err) == -EINVAL);
        if (strcmp(err.text, rows[i].error) != 0)
            (void)fprintf(stderr, "got: %s\n", err.text);
        EXPECT(strcmp(err.text, rows[i].error) == 0);
        EXPECT(thing.unnamed == 7 && !thing.suspend);
    }
}

TEST(decoding_over_changes_only_what_is_said)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct thing thing = {.queue = STR("q"), .restarts = 5, .unnamed = 7};
    struct json *tree = NULL;

    thing.shape = (struct shape){.cpu_milli = 250, .memory_bytes = 1};
    EXPECT(json_parse(&arena, STR("{\"spec\":{\"resources\":{\"memory\":9},\"args\":[\"x\"]}}"),
                      &tree, NULL) == 0);
    EXPECT(decode_over(&thing_table, &arena, tree, &thing, NULL) == 0);
    EXPECT(str_is(thing.queue, "q") && thing.restarts == 5 && thing.unnamed == 7);
    EXPECT(thing.shape.cpu_milli == 250 && thing.shape.memory_bytes == 9 && thing.arg_count == 1);
    EXPECT(decode_over(&thing_table, &arena, NULL, &thing, NULL) == 0);
    EXPECT(thing.shape.memory_bytes == 9 && !thing.suspend);
}

TEST(decoding_over_uses_what_is_right_and_tells_the_first_error)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct thing thing = {.restarts = 5};
    struct json *tree = NULL;
    struct err err = {0};

    EXPECT(json_parse(&arena,
                      STR("{\"spec\":{\"jobQueue\":1,\"suspend\":true,\"limits\":{\"restarts\":-3},"
                          "\"roles\":[{\"name\":\"a\"}]}}"),
                      &tree, NULL) == 0);
    EXPECT(decode_over(&thing_table, &arena, tree, &thing, &err) == -EINVAL);
    EXPECT(strcmp(err.text, "spec.jobQueue: 1 is not a string") == 0);
    EXPECT(!thing.queue.len && thing.suspend && thing.restarts == 5 && thing.role_count == 1);
}
