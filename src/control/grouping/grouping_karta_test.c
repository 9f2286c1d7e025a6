#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/control.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_case_test.h"
#include "test.h"

#include <stdbool.h>
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

/* ---- in words ---- */

#define OWNER(spec)                                                                         \
    "{'apiVersion':'x/v1','kind':'Flow','metadata':{'name':'o','uid':'u','namespace':'d'}," \
    "'spec':{" spec "}}"
#define OF_KIND(meta, kind, root, children, gang)                                            \
    "{'kind':'Karta','metadata':{'name':'k'" meta "},'spec':{'structureDefinition':{"        \
    "'rootComponent':{'name':'flow','kind':{" kind "}" root "},'childComponents':[" children \
    "]},'optimizationInstructions':{'gangScheduling':{" gang "}}}}"
#define IS_FLOW                 "'group':'x','version':'v1','kind':'Flow'"
#define ROOT(root, gang)        OF_KIND("", IS_FLOW, "," root, "", gang)
#define PARTS(children, gang)   OF_KIND("", IS_FLOW, "", children, gang)
#define PART(name, above, more) "{'name':'" name "','ownerRef':'" above "'" more "}"
#define HOLDS                   ",'specDefinition':{'podSpecPath':'.spec'}"
#define SCALE(path)             ",'scaleDefinition':{'replicasPath':'" path "'}"
#define KNOWN(path, more)       ",'podSelector':{'componentTypeSelector':{'keyPath':'" path "'" more "}}"
#define EACH(ids, id)                                                                             \
    ",'instanceIdPath':'" ids "','podSelector':{'componentInstanceSelector':{'idPath':'" id "'}," \
    "'componentTypeSelector':{'keyPath':'" id "'}}"
#define ALL          "'podGroup':{'name':'all'}"
#define SUBS         "'podGroup':{'name':'all','subGroups':[{'componentName':'a'},{'componentName':'b'}]}"
#define BY(member)   "'podGroups':[{'name':'g','members':[" member "]}]"
#define LABELS(list) "'labels':{" list "}"
#define SPEC(path) \
    "'specDefinition':{'podSpecPath':'.spec'},'scaleDefinition':{'replicasPath':'" path "'}"

TEST(a_karta_is_for_one_version_of_one_kind_while_it_is_there)
{
    static const struct grouping_case rows[] = {
        {"this one", {OWNER("'n':3")}, .around = ROOT(SPEC(".spec.n"), ALL), .want = "pg-u-all 3"},
        {"another kind",
         {OWNER("'n':3")},
         .around =
             OF_KIND("", "'group':'x','version':'v1','kind':'Other'", "," SPEC(".spec.n"), "", ALL),
         .want = "pg-o-u 1"},
        {"another version",
         {OWNER("'n':3")},
         .around =
             OF_KIND("", "'group':'x','version':'v2','kind':'Flow'", "," SPEC(".spec.n"), "", ALL),
         .want = "pg-o-u 1"},
        {"another group",
         {OWNER("'n':3")},
         .around =
             OF_KIND("", "'group':'y','version':'v1','kind':'Flow'", "," SPEC(".spec.n"), "", ALL),
         .want = "pg-o-u 1"},
        {"one that is going",
         {OWNER("'n':3")},
         .around = OF_KIND(",'deletionTimestamp':'2026-01-01T00:00:00Z'", IS_FLOW,
                           "," SPEC(".spec.n"), "", ALL),
         .want = "pg-o-u 1"},
        {"kinds of the core group have none",
         {"{'apiVersion':'v1','kind':'Flow','metadata':{'name':'o','uid':'u'}}"},
         .around = ROOT(SPEC(".spec.n"), ALL),
         .want = "pg-o-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_karta_says_how_many_pods_there_are)
{
    static const struct grouping_case rows[] = {
        {"each of its own times those below",
         {OWNER("'n':3")},
         .around = PARTS(PART("a", "flow", SCALE(".spec.n")) "," PART(
                             "b", "a", HOLDS SCALE("2")) "," PART("c", "a", HOLDS SCALE("4")),
                         ALL),
         .want = "pg-u-all 18"},
        {"where nothing is said of numbers, one of each that has pods",
         {OWNER("")},
         .around = PARTS(
             PART("a", "flow", HOLDS) "," PART("b", "flow", "") "," PART("c", "b", HOLDS), ALL),
         .want = "pg-u-all 2"},
        {"or one of each instance",
         {OWNER("'ids':['i','j']")},
         .around = PARTS(PART("a", "flow", HOLDS) "," PART(
                             "b", "flow", HOLDS EACH(".spec.ids[]", ".metadata.labels.id")),
                         ALL),
         .want = "pg-u-all 3"},
        {"of which a pod may be alone",
         {OWNER("'ids':['i','j']")},
         LABELS("'id':'j'"),
         .around = PARTS(PART("b", "flow", HOLDS EACH(".spec.ids[]", ".metadata.labels.id")),
                         BY("{'componentName':'b'}")),
         .want = "pg-u 1"},
        {"no instances yet",
         {OWNER("'ids':[]")},
         LABELS("'id':'j'"),
         .around = PARTS(PART("b", "flow", HOLDS EACH(".spec.ids[]", ".metadata.labels.id")),
                         BY("{'componentName':'b'}")),
         .want = "pg-u 0"},
        {"in some place near each other",
         {OWNER("'n':2")},
         .around = ROOT(SPEC(".spec.n"), "'podGroup':{'name':'all','topology':{'topologyName':'t',"
                                         "'preferredTopologyLevel':'rack'}}"),
         .want = "pg-u-all 2@t::rack"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_pod_is_in_the_first_subgroup_of_a_karta_that_knows_it)
{
    static const struct grouping_case rows[] = {
        {"both do",
         {OWNER("")},
         LABELS("'x':'1'"),
         .around =
             PARTS(PART("a", "flow", HOLDS SCALE("1") KNOWN(".metadata.labels.x", "")) "," PART(
                       "b", "flow", HOLDS SCALE("2") KNOWN(".metadata.labels.x", "")),
                   SUBS),
         .want = "pg-u-all *2 a=1 b=2 -> a"},
        {"by what is below it",
         {OWNER("")},
         LABELS("'x':'1'"),
         .around =
             PARTS(PART("a", "flow", HOLDS SCALE("1") KNOWN(".metadata.labels.y", "")) "," PART(
                       "b", "flow", "") "," PART("c", "b",
                                                 HOLDS SCALE("2")
                                                     KNOWN(".metadata.labels[]", ",'value':'1'")),
                   SUBS),
         .want = "pg-u-all *2 a=1 b=2 -> b"},
        {"a value that is another",
         {OWNER("")},
         LABELS("'x':'1','z':'2'"),
         .around = PARTS(PART("a", "flow",
                              HOLDS SCALE("1")
                                  KNOWN(".metadata.labels[]",
                                        ",'value':'3'")) "," PART("b", "flow", HOLDS SCALE("2")),
                         SUBS),
         .want = "pg-u-all *2 a=1 b=2"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(pods_with_the_same_keys_are_a_group_of_a_karta)
{
#define TWO                                                                            \
    PART("a", "flow", HOLDS SCALE("2") KNOWN(".metadata.labels.role", ",'value':'a'")) \
    "," PART("b", "flow", HOLDS SCALE("3") KNOWN(".metadata.labels.role", ",'value':'b'"))
    static const struct grouping_case rows[] = {
        {"of the component that it fits",
         {OWNER("")},
         LABELS("'role':'b'"),
         .around = PARTS(TWO, BY("{'componentName':'a'},{'componentName':'b'}")),
         .want = "pg-u 3"},
        {"of the one above, which has all of them",
         {OWNER("")},
         LABELS("'role':'b'"),
         .around = PARTS(TWO, BY("{'componentName':'a'},{'componentName':'flow'}")),
         .want = "pg-u 5"},
        {"it fits none",
         {OWNER("")},
         LABELS("'role':'c'"),
         .around = PARTS(TWO, BY("{'componentName':'flow'}")),
         .want = "refused: pod p fits the podSelector of no component of Karta \"k\""},
        {"there is none that has pods",
         {OWNER("")},
         .around = PARTS(PART("a", "flow", ""), BY("{'componentName':'flow'}")),
         .want = "refused: pod p fits the podSelector of no component of Karta \"k\""},
        {"keys are words and numbers",
         {OWNER("'n':2")},
         LABELS("'x':'y','z':7"),
         .around = ROOT(SPEC(".spec.n"),
                        BY("{'componentName':'flow','groupByKeyPaths':['.metadata.labels.x',"
                           "'.metadata.labels.z']}")),
         .want = "pg-u-y-7 2"},
        {"that can be in a name",
         {OWNER("'n':2")},
         LABELS("'x':'a_b'"),
         .around = ROOT(SPEC(".spec.n"),
                        BY("{'componentName':'flow','groupByKeyPaths':['.metadata.labels.x']}")),
         .want =
             "refused: groupByKeyPaths of Karta \"k\" name the group \"pg-u-a_b\", which is not "
             "a lowercase RFC 1123 subdomain"},
        {"one value each",
         {OWNER("'n':2")},
         LABELS("'x':'a','z':'b'"),
         .around = ROOT(SPEC(".spec.n"),
                        BY("{'componentName':'flow','groupByKeyPaths':['.metadata.labels[]']}")),
         .want = "refused: Karta \"k\": .metadata.labels[] has to be one value of the pod"},
        {"the first whose filters it passes",
         {OWNER("'n':2")},
         LABELS("'x':'a'"),
         .around =
             ROOT(SPEC(".spec.n"),
                  BY("{'componentName':'flow','filters':['true','.metadata.labels.x'],"
                     "'groupByKeyPaths':['.metadata.name']},{'componentName':'flow','filters':"
                     "['.metadata.labels[] == .metadata.labels.x']}")),
         .want = "pg-u 2"},
        {"a filter that says two things says no",
         {OWNER("'n':2")},
         LABELS("'x':'a','z':'a'"),
         .around = ROOT(SPEC(".spec.n"), BY("{'componentName':'flow','filters':["
                                            "'.metadata.labels[] == .metadata.labels.x']}")),
         .want = "refused: pod p does not match any Karta pod group member definition"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

#define BAD ".metadata.name[]" /* there is no list */

TEST(what_a_karta_says_that_makes_no_sense_of_a_workload_is_refused_with_words)
{
#define MEMBER     "{'componentName':'flow'}"
#define NO_MEMBERS "refused: Karta \"k\": a value of type string has no members"
    static const struct grouping_case rows[] = {
        {"words",
         {OWNER("'n':'many'")},
         .around = ROOT(SPEC(".spec.n"), ALL),
         .want = "refused: Karta \"k\": its replicas have to be numbers, and one is \"many\""},
        {"less than none",
         {OWNER("'n':-1")},
         .around = ROOT(SPEC(".spec.n"), ALL),
         .want = "refused: Karta \"k\": its replicas have to be numbers, and one is -1"},
        {"more than there can be",
         {OWNER("'n':2147483648")},
         .around = ROOT(SPEC(".spec.n"), ALL),
         .want = "refused: Karta \"k\": its replicas have to be numbers, and one is 2147483648"},
        {"more than there can be together",
         {OWNER("'n':2147483647")},
         .around = PARTS(PART("a", "flow", HOLDS SCALE(".spec.n")) "," PART("b", "flow",
                                                                            HOLDS SCALE(".spec.n")),
                         ALL),
         .want = "refused: Karta \"k\": 4294967294 pods are too many"},
        {"so many that they cannot be counted",
         {OWNER("'ids':['i','j','k'],'n':[2147483647,2147483647,2147483647],'m':2147483647")},
         .around =
             PARTS(PART("a", "flow",
                        SCALE(".spec.n[]")
                            EACH(".spec.ids[]",
                                 ".metadata.labels.id")) "," PART("b", "a", HOLDS SCALE(".spec.m")),
                   ALL),
         .want = "refused: Karta \"k\": 6442450941 pods are too many"},
        {"two numbers for one",
         {OWNER("'n':[1,2]")},
         .around = ROOT(SPEC(".spec.n[]"), ALL),
         .want = "refused: Karta \"k\": component \"flow\" has 2 numbers of replicas for 1 "
                 "instances"},
        {"one number for two",
         {OWNER("'ids':['i','j'],'n':1")},
         .around = PARTS(
             PART("a", "flow", HOLDS SCALE(".spec.n") EACH(".spec.ids[]", ".metadata.labels.id")),
             ALL),
         .want = "refused: Karta \"k\": component \"a\" has 1 numbers of replicas for 2 instances"},
        {"an instance without a name",
         {OWNER("'ids':['i','']")},
         .around = PARTS(
             PART("a", "flow", HOLDS SCALE("1") EACH(".spec.ids[]", ".metadata.labels.id")), ALL),
         .want = "refused: Karta \"k\": instanceIdPath of component \"a\" gives an empty name"},
        {"nobody to wait for",
         {OWNER("'n':0")},
         .around = PARTS(
             PART("a", "flow", HOLDS SCALE(".spec.n")) "," PART("b", "flow", HOLDS SCALE("1")),
             SUBS),
         .want = "refused: Karta \"k\": component \"a\" must expose a replica scale definition"},
        {"replicas nowhere", {OWNER("")}, .around = ROOT(SPEC(BAD), ALL), .want = NO_MEMBERS},
        {"a least nowhere",
         {OWNER("")},
         .around = ROOT("'specDefinition':{'podSpecPath':'.spec'},'scaleDefinition':{"
                        "'minReplicasPath':'" BAD "'}",
                        ALL),
         .want = NO_MEMBERS},
        {"instances nowhere",
         {OWNER("")},
         .around = PARTS(PART("a", "flow", HOLDS SCALE("1") EACH(BAD, ".metadata.labels.id")), ALL),
         .want = NO_MEMBERS},
        {"a component by nothing",
         {OWNER("")},
         .around = PARTS(
             PART("a", "flow", HOLDS SCALE("1") KNOWN(BAD, "")) "," PART("b", "flow", HOLDS), SUBS),
         .want = NO_MEMBERS},
        {"the same of one of two",
         {OWNER("")},
         .around =
             PARTS(PART("a", "flow", HOLDS SCALE("1") KNOWN(BAD, "")) "," PART("b", "flow", HOLDS),
                   BY(MEMBER)),
         .want = NO_MEMBERS},
        {"an instance by nothing",
         {OWNER("'ids':['i']")},
         .around = PARTS(PART("a", "flow", HOLDS SCALE("1") EACH(".spec.ids[]", BAD)),
                         BY("{'componentName':'a'}")),
         .want = NO_MEMBERS},
        {"a key nowhere",
         {OWNER("'n':1")},
         .around =
             ROOT(SPEC(".spec.n"), BY("{'componentName':'flow','groupByKeyPaths':['" BAD "']}")),
         .want = NO_MEMBERS},
        {"a filter of nothing",
         {OWNER("'n':1")},
         .around = ROOT(SPEC(".spec.n"), BY("{'componentName':'flow','filters':['" BAD "']}")),
         .want = NO_MEMBERS},
        {"leaves that are nowhere",
         {OWNER("")},
         .around = PARTS(
             PART("a", "flow", HOLDS EACH(BAD, ".metadata.labels.id")) "," PART("b", "flow", HOLDS),
             ALL),
         .want = NO_MEMBERS},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_karta_names_the_kinds_of_its_components)
{
    static const struct {
        const char *version;
        const char *kind;
        bool named;
    } rows[] = {
        {"x/v1", "Flow", true},  {"x/v1", "Step", true},   {"x/v2", "Step", false},
        {"y/v1", "Step", false}, {"x/v1", "Other", false}, {"v1", "Service", true},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *karta = parse(
        &arena, "{\"spec\":{\"structureDefinition\":{\"rootComponent\":{\"kind\":{\"group\":\"x\","
                "\"version\":\"v1\",\"kind\":\"Flow\"}},\"childComponents\":[{\"name\":\"a\"},{"
                "\"kind\":{\"group\":\"x\",\"version\":\"v1\",\"kind\":\"Step\"}},{\"kind\":{"
                "\"version\":\"v1\",\"kind\":\"Service\"}}]}}}");

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].kind);
        EXPECT(grouping_karta_names(karta, str_from(rows[i].version), str_from(rows[i].kind)) ==
               rows[i].named);
    }
}
