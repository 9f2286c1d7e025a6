#include "api/selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/past.h"
#include "test.h"

#define NOW 1794974400000LL /* 2026-11-18T04:00:00Z */

static bool add(struct buf *out, const char *text, bool deleted)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *job = NULL;

    EXPECT(json_parse(&arena, str_from(text), &job, NULL) == 0);
    return past_add(out, job, deleted, NOW);
}

#define JOB(uid, ns, name, phase)                                                                  \
    "{\"metadata\":{\"uid\":\"" uid "\",\"namespace\":\"" ns "\",\"name\":\"" name                 \
    "\",\"creationTimestamp\":\"2026-11-15T02:00:00Z\"},\"spec\":{\"jobQueue\":\"q\"},\"status\":" \
    "{\"phase\":\"" phase "\",\"numGPUs\":4,\"runSeconds\":5400,\"exitCode\":3,"                   \
    "\"startTime\":\"2026-11-15T02:03:04Z\",\"completionTime\":\"2026-11-15T03:33:04Z\"}}"

TEST(a_job_that_ended_is_one_line_with_its_gpu_hours)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf table = {0};

    EXPECT(!add(&text, JOB("0", "default", "runs", "Running"), false));
    EXPECT(text.len == 0);
    EXPECT(add(&text, JOB("0", "gone", "runs", "Running"), true));
    EXPECT(str_contains(buf_str(&text), STR("\"phase\":\"Cancelled\"")));
    EXPECT(add(&text, JOB("1", "default", "first", "Failed"), false));
    EXPECT(add(&text, JOB("1", "default", "first", "Failed"), false));
    EXPECT(add(&text, JOB("2", "other", "second", "Succeeded"), false));
    buf_add(&text, STR("{\"cut"));
    EXPECT(past_table(&table, &arena, buf_str(&text), &(struct past_options){.ns = "default"}) ==
           1);
    EXPECT(str_eq(buf_str(&table),
                  STR("JOB     QUEUE   GPUS   PHASE    EXIT   STARTED       RAN   GPU-H\n"
                      "first   q       4      Failed   3      11-15 02:03   90m   6.00\n")));
    EXPECT(past_table(&table, &arena, buf_str(&text), &(struct past_options){0}) == 3);
    EXPECT(past_table(&table, &arena, buf_str(&text), &(struct past_options){.limit = 1}) == 1);
    EXPECT(str_contains(buf_str(&table), STR("\nNAMESPACE   USER    JOB      QUEUE ")) &&
           str_contains(buf_str(&table), STR("\nother       other   second   q ")));
}

TEST(a_job_that_was_deleted_while_it_ran_has_run_until_then)
{
    static const char job[] =
        "{\"metadata\":{\"uid\":\"1\",\"namespace\":\"n\",\"name\":\"a\","
        "\"creationTimestamp\":\"2026-11-18T02:00:00Z\"},"
        "\"status\":{\"phase\":\"Running\",\"numGPUs\":2,\"runSeconds\":1800,"
        "\"startTime\":\"2026-11-18T02:10:00Z\",\"runStartTime\":\"2026-11-18T03:30:00Z\"}}";
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf table = {0};

    EXPECT(add(&text, job, true)); /* at 04:00 */
    EXPECT(past_table(&table, &arena, buf_str(&text), &(struct past_options){.ns = "n"}) == 1);
    EXPECT(str_eq(buf_str(&table),
                  STR("JOB   QUEUE   GPUS   PHASE       EXIT   STARTED       RAN   GPU-H\n"
                      "a             2      Cancelled   -      11-18 02:10   60m   2.00\n")));
}

TEST(history_says_what_the_account_says)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct past_options options = {
        .accounts =
            STR("{\"uid\":\"1\",\"name\":\"first\",\"account\":{\"events\":[[0,\"queued\",4],"
                "[60000,\"starting\",4],[90000,\"training\",4],[120000,\"queued\",4]],"
                "\"end\":180000}}\n")};

    EXPECT(add(&text, JOB("1", "default", "first", "Failed"), false));
    struct json *list = past_list(&arena, buf_str(&text), &options);
    EXPECT(json_i64_or(json_at(list, "0.queuedSeconds"), 0) == 120);
    EXPECT(json_i64_or(json_at(list, "0.runSeconds"), 0) == 60);
    EXPECT(json_i64_or(json_at(list, "0.gpuSeconds"), 0) == 240);
}

TEST(history_chooses_jobs_by_labels_and_tells_programs_the_same)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf table = {0};
    struct selector selector = {0};
    struct past_options options = {.selector = &selector};

    EXPECT(add(&text,
               "{\"metadata\":{\"uid\":\"1\",\"name\":\"a\",\"labels\":{\"team\":\"vision\"}},"
               "\"status\":{\"phase\":\"Failed\"}}",
               false));
    EXPECT(add(&text, JOB("2", "default", "b", "Failed"), false));
    EXPECT(selector_parse_labels(&arena, STR("team=vision"), &selector, NULL) == 0);
    EXPECT(past_table(&table, &arena, buf_str(&text), &options) == 1);
    EXPECT(str_contains(buf_str(&table), STR(" a ")));
    struct json *list = past_list(&arena, buf_str(&text), &options);
    EXPECT(json_count(list) == 1);
    EXPECT(str_is(json_str_at(list, "0.labels.team"), "vision"));
}

TEST(a_history_that_is_too_long_loses_its_older_half_at_a_line)
{
    _cleanup_(buf_done) struct buf text = {0};

    buf_add(&text, STR("short\n"));
    EXPECT(str_is(past_trim(buf_str(&text)), "short\n"));
    while (text.len <= PAST_BYTES_MAX)
        buf_addf(&text, "line %zu\n", text.len);
    struct str kept = past_trim(buf_str(&text));
    EXPECT(kept.len <= PAST_BYTES_MAX / 2);
    EXPECT(str_starts(kept, STR("line ")));
}
