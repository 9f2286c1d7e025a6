#include "api/apply.h"
#include "api/kind.h"
#include "api/large_test.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct step {
    const char *manager; /* NULL: ends */
    const char *config;
    bool force;
    bool update;          /* not an apply: the object becomes this */
    const char *conflict; /* NULL: none */
    const char *result;   /* without managedFields */
};

static void play_as(const struct kind *kind,
                    const struct schema *schema,
                    const char *live,
                    const struct step *steps)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *object = test_json(&arena, live);

    for (size_t i = 0; steps[i].manager; i++) {
        struct apply apply = {.arena = &arena,
                              .kind = kind,
                              .schema = schema,
                              .manager = str_from(steps[i].manager),
                              .force = steps[i].force};
        struct json *config = test_json(&arena, steps[i].config);

        test_case(steps[i].config);
        if (steps[i].update) {
            struct json *managed = apply_track(&apply, object, config);

            if (managed)
                json_set(json_make_path(&arena, config, "metadata"), STR("managedFields"), managed);
            object = config;
        } else {
            struct json *merged = apply_merge(&apply, json_clone(&arena, object), config);

            EXPECT((merged == NULL) == (steps[i].conflict != NULL));
            EXPECT((apply.conflicts.count > 0) == (steps[i].conflict != NULL));
            if (apply.conflicts.count && steps[i].conflict)
                EXPECT(str_is(apply.conflicts.items[0].field, steps[i].conflict));
            if (merged)
                object = merged;
        }
        struct json *shown = json_clone(&arena, object);
        json_remove(json_get(shown, "metadata"), STR("managedFields"));
        if (!json_count(json_get(shown, "metadata")))
            json_remove(shown, STR("metadata"));
        if (!steps[i].result || json_equal(shown, test_json(&arena, steps[i].result)))
            continue;
        EXPECT(!"it is another object");
        (void)fprintf(stderr, STR_FMT "\n", STR_ARG(json_text(&arena, shown)));
    }
}

static void play(const struct kind *kind, const char *live, const struct step *steps)
{
    play_as(kind, NULL, live, steps);
}

TEST(applies_of_two_managers_share_and_conflict)
{
    play(&kind_configmap, "{\"metadata\":{\"name\":\"a\"}}",
         (const struct step[]){
             {.manager = "one",
              .config = "{\"data\":{\"x\":\"1\",\"y\":\"1\"}}",
              .result = "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"1\",\"y\":\"1\"}}"},
             {.manager = "two",
              .config = "{\"data\":{\"x\":\"2\"}}",
              .conflict = ".data.x",
              .result = "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"1\",\"y\":\"1\"}}"},
             {.manager = "two",
              .config = "{\"data\":{\"x\":\"1\",\"z\":\"3\"}}",
              .result =
                  "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"1\",\"y\":\"1\",\"z\":\"3\"}}"},
             /* y was only one's; x is two's as well. */
             {.manager = "one",
              .config = "{\"data\":{}}",
              .result = "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"1\",\"z\":\"3\"}}"},
             {.manager = "one",
              .config = "{\"data\":{\"x\":\"9\"}}",
              .force = true,
              .result = "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"9\",\"z\":\"3\"}}"},
             {.manager = "two",
              .config = "{\"data\":{\"x\":\"2\",\"z\":\"3\"}}",
              .conflict = ".data.x",
              .result = "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"9\",\"z\":\"3\"}}"},
             {0}});
}

TEST(an_update_takes_fields_over_and_what_was_there_before_is_owned)
{
    play(&kind_configmap, "{\"metadata\":{\"name\":\"a\"},\"data\":{\"old\":\"1\"}}",
         (const struct step[]){
             {.manager = "one", .config = "{\"data\":{\"old\":\"2\"}}", .conflict = ".data.old"},
             {.manager = "one", .config = "{\"data\":{\"x\":\"1\"}}"},
             {.manager = "edit",
              .config = "{\"metadata\":{\"name\":\"a\"},\"data\":{\"old\":\"1\",\"x\":\"7\"}}",
              .update = true},
             {.manager = "one", .config = "{\"data\":{\"x\":\"1\"}}", .conflict = ".data.x"},
             {0}});
}

TEST(client_side_applied_fields_may_be_taken_by_a_first_server_side_apply)
{
    play(&kind_configmap,
         "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"kubectl.kubernetes.io/"
         "last-applied-configuration\":\"{\\\"data\\\":{\\\"x\\\":\\\"1\\\"}}\"}},\"data\":{"
         "\"x\":\"1\",\"y\":\"1\"}}",
         (const struct step[]){
             {.manager = "kubectl", .config = "{\"data\":{\"x\":\"2\"}}"},
             {.manager = "kubectl", .config = "{\"data\":{\"y\":\"2\"}}", .conflict = ".data.y"},
             {0}});
}

TEST(list_items_are_owned_by_their_keys)
{
    play(&kind_pod,
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"1\"}"
         "]}}",
         (const struct step[]){
             {.manager = "one",
              .config = "{\"spec\":{\"containers\":[{\"name\":\"d\",\"image\":\"2\"}]}}",
              .result = "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                        "\"image\":\"1\"},{\"name\":\"d\",\"image\":\"2\"}]}}"},
             {.manager = "one",
              .config = "{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"2\"}]}}",
              .conflict = ".spec.containers[name=\"c\"].image"},
             {.manager = "one",
              .config = "{\"spec\":{\"containers\":[{\"name\":\"c\",\"tty\":true}]}}",
              .result = "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                        "\"image\":\"1\",\"tty\":true}]}}"},
             {0}});
}

#define FAR_ABOVE_LINEAR ((size_t)32 << 20)

/* A path for every member below a long name would be the name as many times; so would the fields
 * that are told in conflicts. */
TEST(apply_does_not_copy_the_path_for_every_member)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str name = large_word(&arena, 100000);
    struct str members = large_list(&arena, 2000, "\"", "\":\"1\"");
    struct str text =
        str_printf(&arena, "{\"" STR_FMT "\":{" STR_FMT "}}", STR_ARG(name), STR_ARG(members));
    struct apply apply = {.arena = &arena, .kind = &kind_configmap, .manager = STR("one")};
    struct json *live = test_json(&arena, text.p);
    struct json *config = test_json(&arena, text.p);
    size_t before = arena.bytes_used;

    live = apply_merge(&apply, live, config);
    EXPECT(live && !apply.too_large);
    EXPECT(arena.bytes_used - before < FAR_ABOVE_LINEAR);

    JSON_FOREACH(json_first(config), member)
        member->text = "2";
    apply.manager = STR("two");
    before = arena.bytes_used;
    EXPECT(!apply_merge(&apply, live, config));
    EXPECT(apply.conflicts.count == APPLY_CONFLICTS_MAX);
    EXPECT(apply.conflicts.items[0].field.len < 2000);
    EXPECT(arena.bytes_used - before < FAR_ABOVE_LINEAR);
}

TEST(apply_does_not_write_the_keys_of_every_pair_of_items)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str items = large_list(&arena, 1500, "{\"name\":\"c", "\",\"image\":\"i\"}");
    struct str text =
        str_printf(&arena, "{\"spec\":{\"containers\":[" STR_FMT "]}}", STR_ARG(items));
    struct apply apply = {.arena = &arena, .kind = &kind_pod, .manager = STR("one")};
    struct json *config = test_json(&arena, text.p);
    struct json *live = test_json(&arena, text.p);
    size_t before = arena.bytes_used;

    live = apply_merge(&apply, live, config);
    EXPECT(live && json_count(json_at(live, "spec.containers")) == 1500);
    EXPECT(arena.bytes_used - before < FAR_ABOVE_LINEAR);
}

/* What one manager gave up is compared with what each of the others owns. */
TEST(apply_that_needs_more_memory_than_it_may_have_is_refused)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str name = str_printf(&arena, "\"f:" STR_FMT, STR_ARG(large_word(&arena, 20000)));
    struct str members = large_list(&arena, 200, name.p, "\":{}");
    struct json *live = test_json(&arena, "{\"metadata\":{\"name\":\"a\"},\"data\":{\"x\":\"1\"}}");
    struct json *entries = json_add_array(&arena, json_get(live, "metadata"), "managedFields");
    struct apply apply = {.arena = &arena, .kind = &kind_configmap, .manager = STR("mine")};

    for (size_t i = 0; i < 100; i++) {
        struct str set = i ? STR("\"f:other\":{}") : members;
        struct str text = str_printf(
            &arena,
            "{\"manager\":\"%s%zu\",\"operation\":\"Apply\",\"fieldsV1\":{\"f:data\":{" STR_FMT
            "}}}",
            i ? "m" : "mine", i, STR_ARG(set));

        json_push(entries, test_json(&arena, text.p));
    }
    apply.manager = STR("mine0");
    size_t before = arena.bytes_used;
    EXPECT(!apply_merge(&apply, live, test_json(&arena, "{\"data\":{}}")));
    EXPECT(apply.too_large && !apply.conflicts.count);
    EXPECT(arena.bytes_used - before < APPLY_BYTES_MAX + FAR_ABOVE_LINEAR);
}

/* FieldsV1 would have more members than can be read again. */
TEST(apply_refuses_a_list_with_more_items_than_can_be_owned)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str items = large_list(&arena, JSON_MEMBERS_MAX + 1, "\"", "\"");
    struct str text =
        str_printf(&arena, "{\"metadata\":{\"finalizers\":[" STR_FMT "]}}", STR_ARG(items));
    struct apply apply = {.arena = &arena, .kind = &kind_configmap, .manager = STR("one")};

    (void)apply_first(&apply, test_json(&arena, text.p));
    EXPECT(apply.too_large);
}

TEST(owners_of_a_new_object_follow_from_its_types)
{
    static const struct {
        const struct kind *kind;
        const char *object;
        const char *fields;
        const char *why;
    } rows[] = {
        {&kind_deployment, "{\"spec\":{\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}}}}}",
         "{\"f:spec\":{\"f:template\":{\"f:metadata\":{\"f:labels\":{\".\":{},\"f:a\":{}}}}}}",
         "a template has metadata, whatever is said"},
        {&kind_controllerrevision, "{\"data\":{\"a\":\"b\"}}", "{\"f:data\":{}}",
         "what is in it is nobody's business"},
        {&kind_ipaddress, "{\"spec\":{\"parentRef\":{\"name\":\"s\"}}}",
         "{\"f:spec\":{\"f:parentRef\":{\".\":{},\"f:name\":{}}}}",
         "a message that must be there and is not, before"},
        {&kind_pv, "{\"spec\":{\"claimRef\":{\"name\":\"c\"}}}",
         "{\"f:spec\":{\"f:claimRef\":{\".\":{},\"f:name\":{}}}}", "a reference with owners"},
        {&kind_endpoints, "{\"subsets\":[{\"addresses\":[{\"ip\":\"10.0.0.1\"}]}]}",
         "{\"f:subsets\":{}}", "a list as a whole"},
        {&kind_admissionpolicy,
         "{\"spec\":{\"variables\":[{\"name\":\"v\",\"expression\":\"1\"}]}}",
         "{\"f:spec\":{\"f:variables\":{\".\":{},\"k:{\\\"name\\\":\\\"v\\\"}\":{}}}}",
         "items as a whole in a list by keys"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct apply apply = {.arena = &arena, .kind = rows[i].kind, .manager = STR("me")};
        struct json *managed = apply_created(&apply, test_json(&arena, rows[i].object));

        test_case(rows[i].why);
        EXPECT(json_equal(json_get(json_index(managed, 0), "fieldsV1"),
                          test_json(&arena, rows[i].fields)));
    }
}

/* As many members as an object may have, all changed and all taken away again: the work grows with
 * their number only. */
TEST(applies_of_very_many_fields_are_worked_out_in_no_time)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str data = large_list(&arena, JSON_MEMBERS_MAX, "\"k", "\":\"v\"");
    struct str changed = large_list(&arena, JSON_MEMBERS_MAX, "\"k", "\":\"w\"");
    struct str live =
        str_printf(&arena, "{\"metadata\":{\"name\":\"a\"},\"data\":{" STR_FMT "}}", STR_ARG(data));
    struct str config = str_printf(&arena, "{\"metadata\":{\"name\":\"a\"},\"data\":{" STR_FMT "}}",
                                   STR_ARG(changed));
    struct step steps[] = {
        {"first", config.p, true, false, NULL, config.p},
        {"second", live.p, true, false, NULL, live.p},
        {"third", config.p, false, false, ".data.k0", live.p},
        {"second", "{\"metadata\":{\"name\":\"a\"}}", false, false, NULL,
         "{\"metadata\":{\"name\":\"a\"}}"},
        {0},
    };

    play(&kind_configmap, live.p, steps);
}

#define OF_STRINGS "{'type':'array','items':{'type':'string'}"
#define A_PORT                                                                              \
    "{'type':'object','properties':{'port':{'type':'integer'},'protocol':{'type':'string'," \
    "'default':'TCP'},'note':{'type':'string'}}}"
#define CUSTOM                                                                                   \
    "{'type':'object','properties':{'spec':{'type':'object','properties':{'words':" OF_STRINGS   \
    ",'x-kubernetes-list-type':'set'},'lines':" OF_STRINGS                                       \
    "},'ports':{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':["    \
    "'port','protocol'],'items':" A_PORT                                                         \
    "},'whole':{'type':'object','x-kubernetes-map-type':'atomic','additionalProperties':{'type'" \
    ":'string'}},'open':{'type':'object','additionalProperties':{'type':'string'}}}}}}"
#define SPEC(more) "{'spec':{" more "}}"

TEST(the_schema_of_a_custom_kind_says_what_managers_share)
{
    static const struct {
        const char *why;
        struct step steps[4];
    } rows[] = {
        {"words of a set are everybody's own",
         {{.manager = "one", .config = SPEC("'words':['a','b']")},
          {.manager = "two",
           .config = SPEC("'words':['b','c']"),
           .result = SPEC("'words':['a','b','c']")},
          {.manager = "one", .config = SPEC(""), .result = SPEC("'words':['b','c']")}}},
        {"a list of which nothing is said is one thing",
         {{.manager = "one", .config = SPEC("'lines':['a']")},
          {.manager = "two", .config = SPEC("'lines':['b']"), .conflict = ".spec.lines"},
          {.manager = "two",
           .config = SPEC("'lines':['b']"),
           .force = true,
           .result = SPEC("'lines':['b']")}}},
        {"what is left out of a key is its default",
         {{.manager = "one", .config = SPEC("'ports':[{'port':1,'note':'x'}]")},
          {.manager = "two",
           .config = SPEC("'ports':[{'port':1,'protocol':'TCP','note':'y'}]"),
           .conflict = ".spec.ports[port=1,protocol=\"TCP\"].note"},
          {.manager = "two",
           .config = SPEC("'ports':[{'port':1,'protocol':'UDP','note':'y'}]"),
           .result =
               SPEC("'ports':[{'port':1,'note':'x'},{'port':1,'protocol':'UDP','note':'y'}]")}}},
        {"an item goes with its last owner, and what one has of it alone",
         {{.manager = "one", .config = SPEC("'ports':[{'port':1,'note':'x'},{'port':2}]")},
          {.manager = "two", .config = SPEC("'ports':[{'port':1}]")},
          {.manager = "one",
           .config = SPEC("'ports':[]"),
           .result = SPEC("'ports':[{'port':1}]")}}},
        {"a map as a whole",
         {{.manager = "one", .config = SPEC("'whole':{'a':'1'}")},
          {.manager = "two", .config = SPEC("'whole':{'b':'2'}"), .conflict = ".spec.whole"},
          {.manager = "one",
           .config = SPEC("'whole':{'b':'2'}"),
           .result = SPEC("'whole':{'b':'2'}")}}},
        {"a map by its members",
         {{.manager = "one", .config = SPEC("'open':{'a':'1'}")},
          {.manager = "two",
           .config = SPEC("'open':{'b':'2'}"),
           .result = SPEC("'open':{'a':'1','b':'2'}")},
          {.manager = "one", .config = "{}", .result = SPEC("'open':{'b':'2'}")}}},
        {"an update owns the words that it brings",
         {{.manager = "one", .config = SPEC("'words':['a'],'open':{}")},
          {.manager = "edit", .config = SPEC("'words':['a','b'],'open':{}"), .update = true},
          {.manager = "one", .config = SPEC(""), .result = SPEC("'words':['b']")}}},
        {"a list where there was something else",
         {{.manager = "one", .config = SPEC("'words':'a'"), .update = true},
          {.manager = "two",
           .config = SPEC("'words':['b']"),
           .force = true,
           .result = SPEC("'words':['b']")}}},
    };
    static const struct kind custom = {
        .group = "x.org", .version = "v1", .name = "Thing", .plural = "things", .custom = true};
    _cleanup_(arena_done) struct arena arena = {0};
    const struct schema *schema = NULL;

    EXPECT(schema_compile(&arena, test_json(&arena, CUSTOM), &schema, NULL) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        play_as(&custom, schema, "{}", rows[i].steps);
}

#define PORTS(list) "{'spec':{'containers':[{'name':'c','ports':[" list "]}]}}"

TEST(ports_without_a_protocol_are_those_of_tcp)
{
    play(&kind_pod, "{}",
         (const struct step[]){
             {.manager = "one", .config = PORTS("{'containerPort':1,'name':'a'}")},
             {.manager = "two",
              .config = PORTS("{'containerPort':1,'protocol':'TCP','name':'b'}"),
              .conflict = ".spec.containers[name=\"c\"].ports[containerPort=1,protocol=\"TCP\"]"
                          ".name"},
             {.manager = "two",
              .config = PORTS("{'containerPort':1,'protocol':'UDP'}"),
              .result =
                  PORTS("{'containerPort':1,'name':'a'},{'containerPort':1,'protocol':'UDP'}")},
             {0}});
}

TEST(null_takes_nothing_away_that_others_said)
{
    play(&kind_configmap, "{'metadata':{'name':'a'}}",
         (const struct step[]){
             {.manager = "one", .config = "{'data':{'x':'1'},'metadata':{'finalizers':['a/a']}}"},
             {.manager = "two",
              .config = "{'data':null,'metadata':{'finalizers':null}}",
              .result = "{'metadata':{'name':'a','finalizers':['a/a']},'data':{'x':'1'}}"},
             {.manager = "two",
              .config = "{'metadata':{}}",
              .result = "{'metadata':{'name':'a','finalizers':['a/a']},'data':{'x':'1'}}"},
             {0}});
}

TEST(finalizers_are_a_set)
{
    play(&kind_configmap, "{'metadata':{}}",
         (const struct step[]){
             {.manager = "one", .config = "{'metadata':{'finalizers':['a/a','b/b']}}"},
             {.manager = "two",
              .config = "{'metadata':{'finalizers':['b/b','c/c']}}",
              .result = "{'metadata':{'finalizers':['a/a','b/b','c/c']}}"},
             {.manager = "one",
              .config = "{'metadata':{}}",
              .result = "{'metadata':{'finalizers':['b/b','c/c']}}"},
             {0}});
}
