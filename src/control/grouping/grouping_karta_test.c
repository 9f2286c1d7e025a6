#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/control.h"
#include "control/grouping/grouping.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A Flow has a head and groups of workers, each of its own size, and is described by a Karta. */
struct world {
    const struct json *kartas[2];
    size_t count;
};

static const struct json *find(void *user, const char *kind, struct str ns, struct str name)
{
    (void)user;
    (void)kind;
    (void)ns;
    (void)name;
    return NULL;
}

static const struct json *next(void *user, const char *kind, struct str ns, size_t *cursor)
{
    const struct world *world = user;

    (void)ns;
    return strcmp(kind, "Karta") == 0 && *cursor < world->count ? world->kartas[(*cursor)++] : NULL;
}

static struct json *parse(struct arena *arena, const char *text)
{
    struct json *value = NULL;

    EXPECT(json_parse(arena, str_from(text), &value, NULL) == 0);
    return value;
}

#define KARTA                                                                                    \
    "{\"metadata\":{\"name\":\"flows\"},\"spec\":{\"structureDefinition\":{\"rootComponent\":{"  \
    "\"name\":\"flow\",\"kind\":{\"group\":\"x\",\"version\":\"v1\",\"kind\":\"Flow\"}},"        \
    "\"childComponents\":[{\"name\":\"head\",\"ownerRef\":\"flow\",\"specDefinition\":{"         \
    "\"podSpecPath\":\".spec.head\"},\"scaleDefinition\":{\"replicasPath\":\"1\"},"              \
    "\"podSelector\":{\"componentTypeSelector\":{\"keyPath\":\".metadata.labels.role\","         \
    "\"value\":\"head\"}}},{\"name\":\"workers\",\"ownerRef\":\"flow\",\"specDefinition\":{"     \
    "\"podTemplateSpecPath\":\".spec.groups[].template\"},\"instanceIdPath\":"                   \
    "\".spec.groups[].name\",\"scaleDefinition\":{\"replicasPath\":\".spec.groups[].replicas\"," \
    "\"minReplicasPath\":\".spec.groups[].min\"},\"podSelector\":{\"componentTypeSelector\":{"   \
    "\"keyPath\":\".metadata.labels.group\"},\"componentInstanceSelector\":{\"idPath\":"         \
    "\".metadata.labels.group\"}}}]},\"optimizationInstructions\":{\"gangScheduling\":{%s}}}}"
#define FLOW                                                                                 \
    "{\"apiVersion\":\"x/v1\",\"kind\":\"Flow\",\"metadata\":{\"name\":\"f\",\"uid\":\"u\"," \
    "\"namespace\":\"d\"},\"spec\":{\"groups\":[{\"name\":\"a\",\"replicas\":3,\"min\":2},{" \
    "\"name\":\"b\",\"replicas\":4}]}}"
#define POD(labels) "{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\",\"labels\":{" labels "}}}"
#define HEAD        POD("\"role\":\"head\"")
#define WORKER      POD("\"group\":\"b\",\"job\":\"j\"")
#define WHOLE                                                                      \
    "\"podGroup\":{\"name\":\"all\",\"subGroups\":[{\"componentName\":\"head\"},{" \
    "\"componentName\":\"workers\",\"topology\":{\"topologyName\":\"t\","          \
    "\"requiredTopologyLevel\":\"rack\"}}]}"
#define KEYED(more) "\"podGroups\":[{\"name\":\"g\",\"members\":[" more "]}]"

TEST(pods_of_a_kind_that_a_karta_describes_are_grouped_by_it)
{
    static const struct {
        const char *why;
        const char *gang;
        const char *pod;
        const char *name; /* NULL: refused with `sub` among the words */
        int64_t min;
        const char *sub;
        size_t subs;
    } rows[] = {
        {"components are subgroups", WHOLE, HEAD, "pg-u-all", 0, "head", 2},
        {"a label that is there is enough", WHOLE, WORKER, "pg-u-all", 0, "workers", 2},
        {"a pod of neither", WHOLE, POD(""), "pg-u-all", 0, "", 2},
        {"without subgroups all start together", "\"podGroup\":{\"name\":\"all\"}", HEAD,
         "pg-u-all", 7, "", 0},
        {"by key",
         KEYED("{\"componentName\":\"flow\",\"groupByKeyPaths\":[\".metadata.labels.job\"]}"),
         WORKER, "pg-u-j", 7, "", 0},
        {"an instance alone", KEYED("{\"componentName\":\"workers\"}"), WORKER, "pg-u", 4, "", 0},
        {"a filter that it passes",
         KEYED("{\"componentName\":\"flow\",\"filters\":[\".metadata.labels.role == "
               "\\\"head\\\"\"]}"),
         HEAD, "pg-u", 7, "", 0},
        {"a filter that it does not pass",
         KEYED("{\"componentName\":\"flow\",\"filters\":[\".metadata.labels.role == "
               "\\\"head\\\"\"]}"),
         WORKER, NULL, 0, "does not match any", 0},
        {"a key that is missing",
         KEYED("{\"componentName\":\"flow\",\"groupByKeyPaths\":[\".metadata.labels.job\"]}"), HEAD,
         NULL, 0, "one value of the pod", 0},
        {"an instance that is not there", KEYED("{\"componentName\":\"workers\"}"),
         POD("\"group\":\"z\""), NULL, 0, "is of no instance", 0},
        {"nothing is told of gangs", "", HEAD, "pg-f-u", 1, "", 0},
    };
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct world world = {.count = 1};
        struct grouping_input in = {.arena = &arena,
                                    .config = &config,
                                    .pod = parse(&arena, rows[i].pod),
                                    .owners = {parse(&arena, FLOW)},
                                    .owner_count = 1,
                                    .find = find,
                                    .next = next,
                                    .user = &world};
        struct grouping group;
        struct err err = {0};

        test_case(rows[i].why);
        world.kartas[0] = parse(&arena, str_printf(&arena, KARTA, rows[i].gang).p);
        int r = grouping_decide(&in, NULL, &group, &err);
        EXPECT((r == 0) == (rows[i].name != NULL));
        if (r < 0) {
            EXPECT(str_contains(str_from(err.text), str_from(rows[i].sub)));
            continue;
        }
        EXPECT(str_is(group.name, rows[i].name));
        EXPECT(group.min_member == rows[i].min);
        EXPECT(str_eq(group.pod_sub, str_from(rows[i].sub)));
        EXPECT(group.subs.count == rows[i].subs && group.min_sub == (int64_t)rows[i].subs);
        if (rows[i].subs)
            EXPECT(group.subs.items[0].min == 1 && group.subs.items[1].min == 6 &&
                   str_is(group.subs.items[1].topology.required, "rack"));
    }
}

TEST(a_karta_that_cannot_be_used_is_told_of_and_the_common_rule_holds)
{
    static const struct {
        const char *why;
        const char *other; /* a second Karta */
        const char *words;
    } rows[] = {
        {"two of them", KARTA, "Kartas \"flows\" and \"flows\" both describe Flow"},
        {"one that makes no sense", NULL, "Karta \"flows\" is not used: spec."},
    };
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const char *first = rows[i].other ? WHOLE : "\"podGroup\":{}";
        struct world world = {.kartas = {parse(&arena, str_printf(&arena, KARTA, first).p)},
                              .count = rows[i].other ? 2 : 1};
        struct grouping_input in = {.arena = &arena,
                                    .config = &config,
                                    .pod = parse(&arena, HEAD),
                                    .owners = {parse(&arena, FLOW)},
                                    .owner_count = 1,
                                    .find = find,
                                    .next = next,
                                    .user = &world};
        struct grouping group;

        test_case(rows[i].why);
        world.kartas[1] = world.kartas[0];
        EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
        EXPECT(str_is(group.name, "pg-f-u") && group.min_member == 1);
        EXPECT(str_starts(group.warning, str_from(rows[i].words)));
    }
}
