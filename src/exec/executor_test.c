#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/owner.h"
#include "exec/executor.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void on_done(void *user, const struct executor_result *result)
{
    *(int *)user = result->code;
}

static struct json *config_map(struct arena *arena, const char *name)
{
    struct json *body = json_new_object(arena);
    struct json *meta = json_add_object(arena, body, "metadata");

    json_add_c(arena, meta, "name", name);
    json_add_c(arena, meta, "namespace", "default");
    return body;
}

/* A later action is sent when the objects it was decided on may be gone from the cache. */
TEST(executor_needs_what_bodies_point_to_no_longer_than_its_own_call)
{
    struct harness h;
    struct arena arena = {0};
    struct actions actions = {.arena = &arena};
    struct execution *execution = NULL;
    char cached[] = "default pvc-1234";
    int code = 1;

    harness_open(&h, NULL);
    action_create(&actions, &kind_configmap, config_map(&arena, "first"));
    EXPECT(harness_create(&h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"c\"}}") == 0);
    struct json *patch = json_new_object(&arena);
    json_add_str(&arena, json_add_object(&arena, patch, "data"), "volume",
                 (struct str){cached + 8, 8});
    action_patch(&actions, h.object, patch);
    struct json *last = config_map(&arena, "last");
    json_set(json_get(last, "metadata"), STR("namespace"),
             json_new_str(&arena, (struct str){cached, 7}));
    action_create(&actions, &kind_configmap, last);
    EXPECT(executor_run(&(struct executor_call){.api = h.api, .done = on_done, .user = &code},
                        &actions, &execution, NULL) == 0);
    EXPECT(execution != NULL);
    memset(cached, 'x', sizeof(cached));
    harness_settle(&h);
    EXPECT(code == 0);
    EXPECT(harness_get(&h, &kind_configmap, "default", "c") == 0);
    EXPECT(strcmp(harness_text(&h, "data.volume"), "pvc-1234") == 0);
    EXPECT(harness_get(&h, &kind_configmap, "default", "last") == 0);
    harness_close(&h);
    arena_done(&arena);
}

struct ended {
    int code;
    bool lost;
    char words[240];
};

static void on_ended(void *user, const struct executor_result *result)
{
    struct ended *ended = user;

    *ended = (struct ended){.code = result->code, .lost = result->lost};
    if (result->lost)
        (void)snprintf(ended->words, sizeof(ended->words), "%s", result->lost->text);
}

/* What is said by the way, on an object that is gone for instance, keeps nobody from his work. */
TEST(executor_goes_on_where_an_action_fails_that_may_get_lost)
{
    for (int lossy = 0; lossy < 2; lossy++) {
        struct harness h;
        struct arena arena = {0};
        struct actions actions = {.arena = &arena};
        struct execution *execution = NULL;
        struct ended ended = {.code = 1};

        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_configmap, "default",
                              "{\"metadata\":{\"name\":\"gone\"}}") == 0);
        struct json *patch = json_new_object(&arena);
        json_add_c(&arena, json_add_object(&arena, patch, "data"), "word", "x");
        action_delete(&actions, h.object);
        action_patch(&actions, h.object, patch);
        actions.list.items[1].lossy = lossy;
        action_create(&actions, &kind_configmap, config_map(&arena, "last"));
        EXPECT(executor_run(&(struct executor_call){.api = h.api, .done = on_ended, .user = &ended},
                            &actions, &execution, NULL) == 0);
        harness_settle(&h);
        EXPECT((ended.code == 0) == lossy);
        EXPECT(ended.lost == lossy && (!lossy || strstr(ended.words, "gone")));
        EXPECT((harness_get(&h, &kind_configmap, "default", "last") == 0) == lossy);
        harness_close(&h);
        arena_done(&arena);
    }
}

static int draw_same(struct buf *out, size_t count, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < count; i++)
        buf_add(out, STR("a5"));
    return 0;
}

/* Nobody has the value before the API has; one that is there already stays as it is. */
TEST(executor_draws_the_value_of_a_secret_once)
{
    static const struct {
        executor_draw_fn *draw;
        const char *name;
    } cases[] = {{draw_same, "one"}, {NULL, "one"}, {NULL, "two"}, {NULL, "three"}};
    char texts[4][128];
    struct harness h;

    harness_open(&h, NULL);
    for (size_t i = 0; i < 4; i++) {
        struct arena arena = {0};
        struct actions actions = {.arena = &arena};
        struct execution *execution = NULL;
        int code = 1;

        action_create_secret(&actions, config_map(&arena, cases[i].name), STR("secret"));
        EXPECT(executor_run(
                   &(struct executor_call){
                       .api = h.api, .draw = cases[i].draw, .done = on_done, .user = &code},
                   &actions, &execution, NULL) == 0);
        harness_settle(&h);
        EXPECT(code == 0 && harness_get(&h, &kind_secret, "default", cases[i].name) == 0);
        (void)snprintf(texts[i], sizeof(texts[i]), "%s", harness_text(&h, "data.secret"));
        arena_done(&arena);
    }
    EXPECT(strlen(texts[0]) == 88 && strncmp(texts[0], "YTVhNWE1", 8) == 0); /* a5a5a5 */
    EXPECT(strcmp(texts[0], texts[1]) == 0);
    EXPECT(strlen(texts[2]) == 88 && strcmp(texts[2], texts[3]) != 0);
    harness_close(&h);
}

static void on_refused(void *user, const struct executor_result *result)
{
    struct ended *ended = user;

    *ended = (struct ended){.code = result->code};
    (void)snprintf(ended->words, sizeof(ended->words), STR_FMT, STR_ARG(result->refused));
}

/* An event says what was done: not before it is, and not of what was refused. */
TEST(events_tell_of_what_was_done_and_refusals_have_their_words)
{
    static const struct {
        const char *why;
        const char *name;
        const char *told; /* events that there are then */
        const char *words;
    } rows[] = {
        {"it is made", "new", "wrong,made", ""},
        {"it is refused", "Not A Name", "wrong", "Invalid value: \"Not A Name\""},
        {"it was made before", "there", "wrong,made", ""},
        {"somebody else has the name", "theirs", "wrong",
         "already exists and belongs to somebody else; delete it, or rename one of them"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        struct arena arena = {0};
        struct actions actions = {.arena = &arena};
        struct execution *execution = NULL;
        struct ended ended = {.code = 1};
        struct cache *cache = cache_new(1);

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_configmap, "default",
                              "{\"metadata\":{\"name\":\"there\"}}") == 0);
        EXPECT(harness_create(&h, &kind_configmap, "default",
                              "{\"metadata\":{\"name\":\"theirs\"}}") == 0);
        cache_put(cache, h.object);
        EXPECT(harness_create(&h, &kind_configmap, "default",
                              "{\"metadata\":{\"name\":\"owner\"}}") == 0);
        struct json *body = config_map(&arena, rows[i].name);
        owner_set(&arena, json_get(body, "metadata"), h.object);
        action_create(&actions, &kind_configmap, body);
        action_event(&actions, h.object, "Made", STR("made"));
        action_warn(&actions, h.object, "Wrong", STR("wrong"));
        EXPECT(executor_run(&(struct executor_call){.api = h.api,
                                                    .cache = cache,
                                                    .component = "test",
                                                    .done = on_refused,
                                                    .user = &ended},
                            &actions, &execution, NULL) == 0);
        harness_settle(&h);
        EXPECT((ended.code == 0) == (rows[i].words[0] == '\0'));
        EXPECT(strstr(ended.words, rows[i].words));
        EXPECT(harness_list(&h, &kind_event, "default") == 0);
        EXPECT(h.item_count == (strstr(rows[i].told, "made") ? 2 : 1));
        cache_free(cache);
        harness_close(&h);
        arena_done(&arena);
    }
}
