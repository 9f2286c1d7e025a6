#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "plugin/autopsy_view.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define FRAME(function, file, line) \
    "{\"function\":\"" function "\",\"file\":\"" file "\",\"line\":" line "}"
#define WAITS \
    "[" FRAME("all_reduce", "/lib/c10d.py", "2501") "," FRAME("train", "/app/main.py", "41") "]"
#define THREAD(state, frames) \
    "{\"tid\":7,\"state\":\"" state "\",\"syscall\":\"futex\",\"frames\":" frames "}"
#define RANK(rank, threads)             \
    "{\"pid\":4" rank ",\"rank\":" rank \
    ",\"main\":true,\"python\":\"3.11.7\",\"threads\":[" threads "]}"

static struct str text_of(struct arena *arena, const char *document, bool all)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct json *tree = NULL;

    EXPECT(json_parse(arena, str_from(document), &tree, NULL) == 0);
    autopsy_text(&out, arena, tree, all);
    return str_dup(arena, buf_str(&out));
}

static const char job[] = "{\"pods\":[{\"pod\":\"a-worker-0\",\"node\":\"n0\",\"processes\":[" RANK(
    "0",
    THREAD(
        "S",
        WAITS)) "," RANK("1",
                         THREAD(
                             "R",
                             WAITS)) "]},"
                                     "{\"pod\":\"a-worker-1\",\"node\":\"n1\",\"processes\":"
                                     "[" RANK("2", THREAD("S", WAITS)) "," RANK(
                                         "3",
                                         THREAD("S", "[" FRAME("get", "/app/data.py", "88") "]") "," THREAD(
                                             "S",
                                             "[" FRAME(
                                                 "beat",
                                                 "/app/beat.py",
                                                 "5") "]")) "," RANK("4",
                                                                     THREAD("S",
                                                                            WAITS)) "]},"
                                                                                    "{\"pod\":\"a-"
                                                                                    "worker-2\","
                                                                                    "\"node\":"
                                                                                    "\"n2\","
                                                                                    "\"error\":"
                                                                                    "\"is "
                                                                                    "Pending\"}]}";

TEST(autopsy_folds_equal_stacks_and_shows_the_odd_one_first)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = text_of(&arena, job, false);

    EXPECT(str_is(text, "rank 3: data.py:88 (get), sleeps in futex\n"
                        "  on a-worker-1 (n1), process 43, Python 3.11.7\n"
                        "    get                          /app/data.py:88\n"
                        "\n"
                        "ranks 0-2,4: c10d.py:2501 (all_reduce), sleeps in futex\n"
                        "  on a-worker-0 (n0), a-worker-1 (n1)\n"
                        "    all_reduce                   /lib/c10d.py:2501\n"
                        "    train                        /app/main.py:41\n"
                        "\n"
                        "pod a-worker-2: is Pending\n"));
    text = text_of(&arena, job, true);
    EXPECT(str_contains(text, STR("rank 3: beat.py:5 (beat)")));
}

TEST(autopsy_shows_what_is_below_the_first_line_of_python)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = text_of(
        &arena,
        "{\"pods\":[{\"pod\":\"w\",\"node\":\"n\",\"processes\":[" RANK(
            "0", "{\"tid\":7,\"state\":\"S\",\"syscall\":\"futex\",\"native\":[{\"function\":"
                 "\"pthread_cond_wait\",\"file\":\"libc.so.6\",\"at\":\"0x885d7\"},{\"at\":"
                 "\"0x7f00\"}],\"frames\":[" FRAME("get", "/app/data.py", "88") "]}") "]}]}",
        false);

    EXPECT(str_is(text, "rank 0: data.py:88 (get), sleeps in futex\n"
                        "  on w (n), process 40, Python 3.11.7\n"
                        "    pthread_cond_wait            libc.so.6+0x885d7\n"
                        "    ?                            0x7f00\n"
                        "    get                          /app/data.py:88\n"
                        "\n"));
}

TEST(autopsy_tells_a_stopped_rank_from_its_peers)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = text_of(&arena,
                              "{\"pods\":[{\"pod\":\"p\",\"node\":\"n\",\"processes\":[" RANK(
                                  "0", THREAD("S", WAITS)) "," RANK("1", THREAD("T", WAITS)) "]}]}",
                              false);

    EXPECT(str_starts(text, STR("rank 0: c10d.py:2501 (all_reduce), sleeps in futex\n")));
    EXPECT(str_contains(text, STR("rank 1: c10d.py:2501 (all_reduce), is stopped\n")));
}

TEST(autopsy_says_why_there_is_no_stack)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *tree = NULL;
    struct str text =
        text_of(&arena,
                "{\"pods\":[{\"pod\":\"p\",\"node\":\"n\",\"processes\":[{\"pid\":9,\"main\":true,"
                "\"why\":\"the stacks of Python 3.8 cannot be read\",\"threads\":[]}]}]}",
                false);

    EXPECT(str_starts(text, STR("pod p: the stacks of Python 3.8 cannot be read\n")));
    test_case("the groups of the document");
    EXPECT(json_parse(&arena, str_from(job), &tree, NULL) == 0);
    autopsy_group(&arena, tree);
    EXPECT(json_count(json_get(tree, "groups")) == 2);
    EXPECT(str_is(json_str_at(tree, "groups.0.where"), "data.py:88 (get)"));
    EXPECT(json_i64_or(json_at(tree, "groups.0.ranks.0"), -1) == 3);
    EXPECT(json_count(json_at(tree, "groups.1.ranks")) == 4);
}

#define FLIGHT(seq, op, state)                                                                 \
    "{\"version\":\"2.10\",\"groups\":[{\"group\":\"default_pg\",\"last\":[{\"seq\":1,\"op\":" \
    "\"nccl:broadcast\",\"state\":\"completed\",\"sizes\":\"[[1]]\"},{\"seq\":" seq            \
    ",\"op\":\"" op "\",\"state\":\"" state                                                    \
    "\",\"sizes\":\"[[8]]\",\"where\":\"main.py:43 (train)\"}]}]}"
#define FLOWN(rank, flight) \
    "{\"pid\":4" rank ",\"rank\":" rank ",\"main\":true,\"threads\":[],\"flight\":" flight "}"

TEST(autopsy_says_where_the_collectives_of_ranks_differ)
{
    static const struct {
        const char *why;
        const char *other; /* of rank 2; ranks 0 and 1 are in #7 all_reduce */
        const char *says;
    } rows[] = {
        {"one did not come", FLOWN("2", FLIGHT("6", "nccl:all_reduce", "completed")),
         "rank 2 did not call #7 (nccl:all_reduce), which ranks 0,1 did"},
        {"one called another", FLOWN("2", FLIGHT("7", "nccl:broadcast", "started")),
         "the ranks called different collectives as #7"},
        {"one has not begun", FLOWN("2", FLIGHT("7", "nccl:all_reduce", "scheduled")),
         "rank 2 called #7 (nccl:all_reduce) and did not start it on the GPU, ranks 0,1 did"},
        {"all are there", FLOWN("2", FLIGHT("7", "nccl:all_reduce", "started")), ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf out = {0};
        struct json *tree = NULL;
        char text[4096];

        test_case(rows[i].why);
        (void)snprintf(text, sizeof(text),
                       "{\"pods\":[{\"pod\":\"p\",\"node\":\"n\",\"processes\":[%s,%s,%s]}]}",
                       FLOWN("0", FLIGHT("7", "nccl:all_reduce", "started")),
                       FLOWN("1", FLIGHT("7", "nccl:all_reduce", "started")), rows[i].other);
        EXPECT(json_parse(&arena, str_from(text), &tree, NULL) == 0);
        autopsy_group(&arena, tree);
        EXPECT(json_count(json_get(tree, "collectives")) == 1);
        EXPECT(str_is(json_str_at(tree, "collectives.0.says"), rows[i].says));
        autopsy_text(&out, &arena, tree, false);
        EXPECT(str_contains(buf_str(&out), STR("Last collectives of group default_pg")));
        EXPECT(str_contains(buf_str(&out), STR("#7 nccl:all_reduce started [[8]], main.py:43")));
    }
}
