#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "plugin/autopsy_view.h"
#include "test.h"

#include <stdbool.h>

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
