#include "api/hold.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/hold.h"
#include "control/core/memory.h"
#include "control/core/status.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What controllers share: how long room is held, what is kept in an annotation, what a patch says. */

static struct object *job_of(struct arena *arena, const char *key, struct str value)
{
    struct object *job = NULL;
    struct str text =
        json_text(arena, json_new_str(arena, value)); /* a value may have quotes of its own */

    EXPECT(object_new(&kind_torchrunjob,
                      str_printf(arena,
                                 "{\"metadata\":{\"name\":\"j\",\"namespace\":\"n\",\"uid\":\"u\","
                                 "\"annotations\":{\"%s\":" STR_FMT "}}}",
                                 key, STR_ARG(text)),
                      &job, NULL) == 0);
    return job;
}

TEST(room_is_held_for_as_long_as_a_job_says_within_reason)
{
    static const struct {
        const char *text;
        int64_t ms;
        const char *note; /* what is said of it; "": nothing */
    } rows[] = {
        {"", HOLD_DEFAULT_MS, ""},
        {"90s", 90000, ""},
        {"0s", 0, ""},
        {"1h", HOLD_MAX_MS, ""},
        {"2h", HOLD_MAX_MS, "is \"2h\"; room is held for 60m at most"},
        {"-1s", HOLD_DEFAULT_MS, "is \"-1s\", which is no duration, as in 90s; 60s are used"},
        {"long", HOLD_DEFAULT_MS, "is \"long\", which is no duration, as in 90s; 60s are used"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(object_unrefp) struct object *job =
            job_of(&arena, HOLD_ANNOTATION, str_from(rows[i].text));
        struct str note = STR("");

        test_case(rows[i].text);
        EXPECT(hold_ms(job, &arena, &note) == rows[i].ms);
        EXPECT(hold_ms(job, &arena, NULL) == rows[i].ms);
        EXPECT(note.len ? str_contains(note, str_from(rows[i].note)) : !rows[i].note[0]);
    }
}

TEST(what_is_remembered_in_an_annotation_is_an_object_of_some_size)
{
    static const struct {
        const char *text;
        bool read;
    } rows[] = {{"", false}, {"{\"a\":1}", true}, {"[1]", false}, {"{\"a\":", false}};
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(object_unrefp) struct object *job =
            job_of(&arena, MEMORY_ANNOTATION, str_from(rows[i].text));

        test_case(rows[i].text);
        EXPECT((memory_read(job, &arena) != NULL) == rows[i].read);
    }
    char *much = ARENA_ARRAY(&arena, char, MEMORY_BYTES_MAX);
    for (size_t i = 0; i < MEMORY_BYTES_MAX; i++)
        much[i] = 'x';
    struct json *memory = json_new_object(&arena);
    json_add_str(&arena, memory, "much", (struct str){much, MEMORY_BYTES_MAX});
    _cleanup_(object_unrefp) struct object *job =
        job_of(&arena, MEMORY_ANNOTATION, json_text(&arena, memory));
    struct actions actions = {.arena = &arena};
    EXPECT(!memory_read(job, &arena));
    EXPECT(!memory_write(&actions, job, NULL, memory) && !actions.list.count);
}

TEST(what_a_definition_of_others_drops_is_told_behind_what_else_is_said)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(object_unrefp) struct object *job = job_of(&arena, "a", STR("b"));

    EXPECT(str_starts(memory_note(&arena, job, STR_NONE),
                      STR("the CustomResourceDefinition torchrunjobs.torchrun.ai is not")));
    EXPECT(str_starts(memory_note(&arena, job, STR("it waits")),
                      STR("it waits; the CustomResourceDefinition torchrunjobs.")));
}

TEST(a_patch_says_what_has_changed_and_nothing_else)
{
    static const struct {
        const char *why;
        const char *before;
        const char *after;
        const char *patch; /* "": none */
    } rows[] = {
        {"nothing", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}", ""},
        {"more and less", "{\"a\":1,\"b\":2}", "{\"b\":3,\"c\":4}", "{\"a\":null,\"b\":3,\"c\":4}"},
        {"what was null is not there", "{\"a\":null}", "{}", ""},
        {"within", "{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1,\"c\":3}}", "{\"a\":{\"c\":3}}"},
        {"a null within", "{\"a\":{\"b\":null}}", "{\"a\":{}}", ""},
        {"an object in place of a word", "{\"a\":\"x\"}", "{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1}}"},
        {"a word in place of an object", "{\"a\":{\"b\":1}}", "{\"a\":\"x\"}", "{\"a\":\"x\"}"},
        {"lists are whole", "{\"a\":[1,2]}", "{\"a\":[1,3]}", "{\"a\":[1,3]}"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *before = NULL, *after = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].before), &before, NULL) == 0);
        EXPECT(json_parse(&arena, str_from(rows[i].after), &after, NULL) == 0);
        const struct json *patch = merge_diff(&arena, before, after);
        EXPECT(str_is(patch ? json_text(&arena, patch) : STR(""), rows[i].patch));
    }
}
