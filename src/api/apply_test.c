#include "api/apply.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static struct json *tree(struct arena *arena, const char *text)
{
    struct json *value = NULL;

    EXPECT(json_parse(arena, str_from(text), &value, NULL) == 0);
    return value;
}

struct step {
    const char *manager; /* NULL: ends */
    const char *config;
    bool force;
    bool update;          /* not an apply: the object becomes this */
    const char *conflict; /* NULL: none */
    const char *result;   /* without managedFields */
};

static void play(const struct kind *kind, const char *live, const struct step *steps)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *object = tree(&arena, live);

    for (size_t i = 0; steps[i].manager; i++) {
        struct apply apply = {.arena = &arena,
                              .kind = kind,
                              .manager = str_from(steps[i].manager),
                              .force = steps[i].force};
        struct json *config = tree(&arena, steps[i].config);

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
        if (steps[i].result)
            EXPECT(json_equal(shown, tree(&arena, steps[i].result)));
    }
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
