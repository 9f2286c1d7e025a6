#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "plugin/top_view.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static const struct object *made(const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    return object;
}

struct scene {
    struct arena arena;
    const struct object *items[6];
    struct top_objects objects;
};

static void scene_make(struct scene *s)
{
    *s = (struct scene){0};
    s->items[0] = made(
        &kind_node,
        "{\"metadata\":{\"name\":\"n0\",\"annotations\":{\"muster.dev/gpu-use\":\"87/40960,0/0\"}},"
        "\"status\":{\"capacity\":{\"nvidia.com/gpu\":\"3\"},\"allocatable\":{\"nvidia.com/"
        "gpu\":\"2\"}}}");
    s->items[1] = made(&kind_pod, "{\"metadata\":{\"name\":\"a-0\",\"namespace\":\"t\","
                                  "\"annotations\":{\"torchrun.ai/gpu-devices\":\"0\","
                                  "\"pod-group-name\":\"pg\"}},\"spec\":{\"nodeName\":\"n0\"},"
                                  "\"status\":{\"phase\":\"Running\"}}");
    s->items[2] =
        made(&kind_torchrunjob,
             "{\"metadata\":{\"name\":\"own\",\"namespace\":\"t\",\"uid\":\"u1\"},"
             "\"status\":{\"phase\":\"Pending\",\"message\":\"waits for 2 GPUs\\u001b[2J\"}}");
    s->items[3] = made(
        &kind_podgroup,
        "{\"metadata\":{\"name\":\"pg\",\"namespace\":\"t\",\"ownerReferences\":[{\"kind\":"
        "\"PyTorchJob\","
        "\"name\":\"theirs\",\"uid\":\"u2\",\"controller\":true}]},\"spec\":{\"queue\":\"vision\"},"
        "\"status\":{\"running\":1}}");
    s->items[4] = made(&kind_podgroup, "{\"metadata\":{\"name\":\"pg-own\",\"namespace\":\"t\","
                                       "\"ownerReferences\":[{\"kind\":\"TorchrunJob\","
                                       "\"name\":\"own\",\"uid\":\"u1\",\"controller\":true}]}}");
    s->items[5] =
        made(&kind_queue, "{\"metadata\":{\"name\":\"vision\"},\"status\":{\"pendingGroups\":4}}");
    s->objects = (struct top_objects){
        .nodes = {&s->items[0], 1},
        .pods = {&s->items[1], 1},
        .jobs = {&s->items[2], 1},
        .groups = {&s->items[3], 2},
        .queues = {&s->items[5], 1},
    };
}

static void scene_done(struct scene *s)
{
    for (size_t i = 0; i < COUNT_OF(s->items); i++)
        object_unref(s->items[i]);
    arena_done(&s->arena);
}

TEST(top_shows_jobs_of_every_kind_once)
{
    struct scene s;
    struct top_rows rows;
    struct top_state state = {.pane = TOP_JOBS};

    scene_make(&s);
    top_rows(&s.arena, &s.objects, &state, &rows);
    EXPECT(rows.count == 2);
    EXPECT(rows.count == 2 && str_contains(rows.items[0].line, STR("t/own")) &&
           str_contains(rows.items[1].line, STR("PyTorchJob")));
    EXPECT(rows.count == 2 && top_pods(&s.arena, &s.objects, &rows.items[1]).count == 1);
    scene_done(&s);
}

TEST(top_has_a_line_for_each_job_whatever_their_messages_are)
{
    struct scene s;
    struct top_rows rows;
    struct top_state state = {.pane = TOP_JOBS};

    scene_make(&s);
    object_unref(s.items[2]);
    s.items[2] = made(&kind_torchrunjob,
                      "{\"metadata\":{\"name\":\"own\",\"namespace\":\"t\",\"uid\":\"u1\"},"
                      "\"status\":{\"phase\":\"Failed\",\"message\":\"one\\ntwo\\nthree\"}}");
    top_rows(&s.arena, &s.objects, &state, &rows);
    EXPECT(rows.count == 2 && str_contains(rows.items[0].line, STR("one two three")) &&
           str_contains(rows.items[1].line, STR("PyTorchJob")));
    scene_done(&s);
}

TEST(top_shows_gpus_with_their_measured_use_and_who_holds_them)
{
    struct scene s;
    struct top_rows rows;
    struct top_state state = {.pane = TOP_GPUS};

    scene_make(&s);
    top_rows(&s.arena, &s.objects, &state, &rows);
    EXPECT(rows.count == 3);
    EXPECT(rows.count == 3 && str_contains(rows.items[0].line, STR("87 %")) &&
           str_contains(rows.items[0].line, STR("40.0 GiB")) &&
           str_contains(rows.items[0].line, STR("t/a-0")));
    EXPECT(rows.count == 3 && str_contains(rows.items[1].line, STR("0 %")));
    EXPECT(rows.count == 3 && str_contains(rows.items[2].line, STR("cannot be used")));
    scene_done(&s);
}

TEST(top_filters_opens_and_leaves_by_keys)
{
    struct scene s;
    struct top_rows rows;
    struct top_state state = {0};

    scene_make(&s);
    for (const char *key = "/THEIRS\r"; *key; key++)
        EXPECT(top_key(&state, *key, 2));
    top_rows(&s.arena, &s.objects, &state, &rows);
    EXPECT(rows.count == 1 && str_is(rows.items[0].name, "theirs"));
    EXPECT(top_key(&state, '\r', rows.count) && state.open && !state.log);
    EXPECT(top_key(&state, 'l', rows.count) && state.open && state.log);
    EXPECT(top_key(&state, 27, rows.count) && !state.open && state.filter_len);
    EXPECT(top_key(&state, 27, rows.count) && !state.filter_len);
    EXPECT(top_key(&state, '\t', rows.count) && state.pane == TOP_QUEUES);
    EXPECT(top_key(&state, 'j', 1) && state.chosen == 0); /* there is no second row */
    EXPECT(top_key(&state, 'l', 1) && !state.open);       /* a queue has no log */
    EXPECT(!top_key(&state, 'q', 1));
    scene_done(&s);
}

TEST(top_lets_no_text_of_the_cluster_command_the_terminal)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct scene s;
    struct top_rows rows;
    struct top_state state = {0};

    scene_make(&s);
    top_rows(&s.arena, &s.objects, &state, &rows);
    top_screen(&out, &state, &rows, STR(""), 24, 200);
    EXPECT(str_contains(buf_str(&out), STR("waits for 2 GPUs?[2J")));
    EXPECT(!str_contains(buf_str(&out), STR("\033[2J")));
    buf_clear(&out);
    state.open = state.log = true;
    top_screen(&out, &state, &rows,
               STR("step 1\033]0;title\007\nstep 2\n\xc2\x9b"
                   "2J\xc2\xb5s\n"),
               24, 10);
    EXPECT(str_contains(buf_str(&out), STR("?2J\xc2\xb5s")));
    EXPECT(str_contains(buf_str(&out), STR("step 1?]0;")) &&
           str_contains(buf_str(&out), STR("step 2")));
    scene_done(&s);
}

TEST(top_arrows_choose_a_row_and_are_no_letters_of_the_filter)
{
    static const struct {
        const char *sent;
        const char *filter;
        size_t chosen;
        const char *why;
    } rows[] = {
        {"/ab\033[B", "ab", 1, "an arrow"},
        {"/ab\033OB\033OB", "ab", 2, "as terminals in application mode send them"},
        {"/ab\033[B\033[A", "ab", 0, "and back"},
        {"/ab\033[Bc", "abc", 0, "another filter begins with its first row"},
        {"/ab\033[3~", "ab", 0, "Delete, which is more than three bytes"},
        {"/ab\033[1;5C", "ab", 0, "an arrow with Ctrl"},
        {"/ab\033[B\r", "ab", 1, "Enter keeps the row"},
        {"\033[B\033[B\033[B\033[B\033[B", "", 4, "not beyond the last"},
        {"/ab\033", "", 0, "Esc alone leaves the filter"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct top_state state = {.pane = TOP_JOBS};
        struct str sent = str_from(rows[i].sent);

        test_case(rows[i].why);
        while (sent.len)
            EXPECT(top_key(&state, top_key_cut(&sent), 5));
        EXPECT(str_is((struct str){state.filter, state.filter_len}, rows[i].filter));
        EXPECT(state.chosen == rows[i].chosen);
    }
}
