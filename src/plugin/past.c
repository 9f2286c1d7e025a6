#include "plugin/past.h"

#include "api/account.h"
#include "api/kind.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/time.h"
#include "base/vec.h"
#include "plugin/job.h"
#include "plugin/spent.h"
#include "tool/term.h"

#include <string.h>

/* How long it waited and ran: the same sums that `status` and `report` show. */
static void past_set_times(struct arena *arena, struct json *line, const struct account *account)
{
    struct account_sums sums = {0};

    account_add(account, 0, account->end_ms, &sums);
    json_add_i64(arena, line, "queuedSeconds", account_waited(sums.wall_ms) / 1000);
    json_add_i64(arena, line, "runSeconds", account_ran(sums.wall_ms) / 1000);
    json_add_i64(arena, line, "gpuSeconds", sums.held_ms / 1000);
}

bool past_add(struct buf *out, const struct json *job, bool deleted, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *status = json_get(job, "status");
    struct str phase = json_str(json_get(status, "phase"));
    struct json *labels = job_labels(&arena, json_at(job, "metadata.labels"));
    bool over = job_is_over(phase);
    struct str end = json_str(json_get(status, "completionTime"));
    struct spent_state state;
    struct spent spent = {0};
    int64_t exit_code = 0;

    if ((!over && !deleted) || !spent_is_counted(&kind_torchrunjob, job))
        return false;
    spent_describe(&spent, &kind_torchrunjob, job);
    spent_state_read(&kind_torchrunjob, job, &state);
    if (!over) {
        state.phase = STR("Failed"); /* it is over */
        state.end_ms = now_ms;
    }
    spent_from_status(&spent, job, &state, now_ms);
    struct json *line = json_make(
        &arena,
        "{uid: $, namespace: $, name: $, user: $, queue: $, phase: $, gpus: $, start: $, end: $}",
        spent.uid, spent.ns, spent.name, spent.user, job_queue(job),
        over ? phase : STR("Cancelled"), json_i64_or(json_get(status, "numGPUs"), 0),
        json_str(json_get(status, "startTime")), over ? end : time_text(&arena, now_ms));
    /* One that was stopped has none. */
    if (json_i64(json_get(status, "exitCode"), &exit_code) || str_is(phase, "Succeeded"))
        json_add_i64(&arena, line, "exitCode", exit_code);
    past_set_times(&arena, line, &spent.account);
    if (labels)
        (void)json_set(line, STR("labels"), labels);
    json_write(out, line);
    buf_addc(out, '\n');
    return true;
}

struct str past_trim(struct str text)
{
    if (text.len <= PAST_BYTES_MAX)
        return text;
    text = str_sub(text, text.len - PAST_BYTES_MAX / 2, text.len);
    return str_sub(text, str_find(text, '\n') + 1, text.len);
}

static void past_row(struct table *table, const struct json *line, bool all)
{
    struct arena *arena = table->arena;
    int64_t seconds = json_i64_or(json_get(line, "runSeconds"), 0);
    int64_t gpu_seconds =
        json_i64_or(json_get(line, "gpuSeconds"), seconds * json_i64_or(json_get(line, "gpus"), 0));
    struct str start = json_str(json_get(line, "start"));

    if (all) {
        struct str user = json_str(json_get(line, "user"));

        table_add(table, json_str(json_get(line, "namespace")));
        table_add(table, user.len ? user : STR("-"));
    }
    table_add(table, json_str(json_get(line, "name")));
    table_add(table, json_str(json_get(line, "queue")));
    table_add(table, json_number_text(json_get(line, "gpus")));
    table_add(table, json_str(json_get(line, "phase")));
    table_add(table,
              json_get(line, "exitCode") ? json_number_text(json_get(line, "exitCode")) : STR("-"));
    /* 2026-11-15T02:03:04Z: the day and the minute, of the person's clock. */
    start = term_moment(arena, start);
    table_add(table, start.len >= 16 ? str_printf(arena, "%.5s %.5s", start.p + 5, start.p + 11)
                                     : STR("-"));
    table_add(table, time_age(arena, seconds * 1000));
    table_add(table, str_printf(arena, "%lld.%02lld", (long long)(gpu_seconds / 3600),
                                (long long)(gpu_seconds % 3600 / 36)));
}

struct past_lines VEC_FIELDS(struct json *);

/* Where the account of a job is known, it says how long. The last line of a job counts. */
static void past_learn(struct arena *arena, const struct map *jobs, struct str accounts)
{
    struct str line;

    while (str_cut(&accounts, '\n', &line)) {
        struct spent spent;
        struct json *job = spent_read(arena, line, &spent) ? map_get(jobs, spent.uid) : NULL;

        if (job && spent.account.end_ms)
            past_set_times(arena, job, &spent.account);
    }
}

/* The newest that are asked for, each once, in their order. */
static struct past_lines past_choose(struct arena *arena,
                                     struct str text,
                                     const struct past_options *options)
{
    struct past_lines lines = {0};
    struct map seen = {0};
    struct str line;

    while (str_cut(&text, '\n', &line)) {
        struct json *parsed = NULL;

        if (json_parse(arena, line, &parsed, NULL) < 0 || !json_is(parsed, JSON_OBJECT) ||
            (options->ns && !str_is(json_str(json_get(parsed, "namespace")), options->ns)) ||
            (options->selector &&
             !selector_matches_json(options->selector, json_get(parsed, "labels"))))
            continue;
        struct str uid = json_str(json_get(parsed, "uid"));
        if (!uid.len || map_get(&seen, uid))
            continue;
        (void)map_set(&seen, uid, parsed);
        VEC_PUSH(arena, &lines, parsed);
    }
    past_learn(arena, &seen, options->accounts);
    map_done(&seen);
    if (options->limit > 0 && lines.count > (size_t)options->limit) {
        lines.items += lines.count - (size_t)options->limit;
        lines.count = (size_t)options->limit;
    }
    return lines;
}

size_t past_table(struct buf *out,
                  struct arena *arena,
                  struct str text,
                  const struct past_options *options)
{
    static const char *const headers[] = {"NAMESPACE", "USER",    "JOB", "QUEUE", "GPUS", "PHASE",
                                          "EXIT",      "STARTED", "RAN", "GPU-H", NULL};
    bool all = !options->ns;
    struct past_lines lines = past_choose(arena, text, options);
    struct table table;

    table_init(&table, arena, all ? headers : headers + 2);
    table.wraps_at = options->wraps_at;
    for (size_t i = 0; i < lines.count; i++)
        past_row(&table, lines.items[i], all);
    if (lines.count)
        table_write(out, &table, true);
    return lines.count;
}

struct json *past_list(struct arena *arena, struct str text, const struct past_options *options)
{
    struct past_lines lines = past_choose(arena, text, options);
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < lines.count; i++)
        json_push(list, lines.items[i]);
    return list;
}
