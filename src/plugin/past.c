#include "plugin/past.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/time.h"
#include "base/vec.h"
#include "plugin/job.h"
#include "tool/term.h"

#include <string.h>

bool past_add(struct buf *out, const struct json *job, bool deleted)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *status = json_get(job, "status");
    struct str phase = json_str(json_get(status, "phase"));

    if (!job_is_over(phase) && !deleted)
        return false;
    json_write(
        out, json_make(&arena,
                       "{uid: $, namespace: $, name: $, queue: $, phase: $, exitCode: $, gpus: $, "
                       "start: $, end: $, runSeconds: $}",
                       json_str_at(job, "metadata.uid"), json_str_at(job, "metadata.namespace"),
                       json_str_at(job, "metadata.name"), job_queue(job),
                       job_is_over(phase) ? phase : STR("Cancelled"),
                       json_i64_or(json_get(status, "exitCode"), 0),
                       json_i64_or(json_get(status, "numGPUs"), 0),
                       json_str(json_get(status, "startTime")),
                       json_str(json_get(status, "completionTime")),
                       json_i64_or(json_get(status, "runSeconds"), 0)));
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

static void past_row(struct table *table, const struct json *line)
{
    struct arena *arena = table->arena;
    int64_t seconds = json_i64_or(json_get(line, "runSeconds"), 0);
    int64_t hundredths = seconds * json_i64_or(json_get(line, "gpus"), 0) / 36;
    struct str start = json_str(json_get(line, "start"));

    table_add(table, json_str(json_get(line, "name")));
    table_add(table, json_str(json_get(line, "queue")));
    table_add(table, json_number_text(json_get(line, "gpus")));
    table_add(table, json_str(json_get(line, "phase")));
    table_add(table, json_number_text(json_get(line, "exitCode")));
    /* 2026-11-15T02:03:04Z: the day and the minute. */
    table_add(table, start.len >= 16 ? str_printf(arena, "%.5s %.5s", start.p + 5, start.p + 11)
                                     : STR("-"));
    table_add(table, time_age(arena, seconds * 1000));
    table_add(table, str_printf(arena, "%lld.%02lld", (long long)(hundredths / 100),
                                (long long)(hundredths % 100)));
}

size_t past_table(struct buf *out,
                  struct arena *arena,
                  struct str text,
                  const struct past_options *options)
{
    static const char *const headers[] = {"JOB",     "QUEUE", "GPUS",  "PHASE", "EXIT",
                                          "STARTED", "RAN",   "GPU-H", NULL};
    struct map seen = {0};
    VEC(const struct json *) lines = {0};
    struct table table;
    struct str line;

    while (str_cut(&text, '\n', &line)) {
        struct json *parsed = NULL;

        if (json_parse(arena, line, &parsed, NULL) < 0 || !json_is(parsed, JSON_OBJECT) ||
            (options->ns && !str_is(json_str(json_get(parsed, "namespace")), options->ns)))
            continue;
        struct str uid = json_str(json_get(parsed, "uid"));
        if (!uid.len || map_get(&seen, uid))
            continue;
        (void)map_set(&seen, uid, parsed);
        VEC_PUSH(arena, &lines, parsed);
    }
    map_done(&seen);
    size_t first = options->limit > 0 && lines.count > (size_t)options->limit
                       ? lines.count - (size_t)options->limit
                       : 0;
    table_init(&table, arena, headers);
    table.wraps_at = options->wraps_at;
    for (size_t i = first; i < lines.count; i++)
        past_row(&table, lines.items[i]);
    if (lines.count > first)
        table_write(out, &table, true);
    return lines.count - first;
}
