#include "plugin/past.h"

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
#include "tool/term.h"

#include <string.h>

bool past_add(struct buf *out, const struct json *job, bool deleted)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *status = json_get(job, "status");
    struct str phase = json_str(json_get(status, "phase"));
    struct json *labels = job_labels(&arena, json_at(job, "metadata.labels"));

    if (!job_is_over(phase) && !deleted)
        return false;
    struct json *line = json_make(
        &arena,
        "{uid: $, namespace: $, name: $, queue: $, phase: $, exitCode: $, gpus: $, start: $, end: "
        "$, "
        "runSeconds: $}",
        json_str_at(job, "metadata.uid"), json_str_at(job, "metadata.namespace"),
        json_str_at(job, "metadata.name"), job_queue(job),
        job_is_over(phase) ? phase : STR("Cancelled"), json_i64_or(json_get(status, "exitCode"), 0),
        json_i64_or(json_get(status, "numGPUs"), 0), json_str(json_get(status, "startTime")),
        json_str(json_get(status, "completionTime")),
        json_i64_or(json_get(status, "runSeconds"), 0));
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

struct past_lines VEC_FIELDS(struct json *);

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
    static const char *const headers[] = {"JOB",     "QUEUE", "GPUS",  "PHASE", "EXIT",
                                          "STARTED", "RAN",   "GPU-H", NULL};
    struct past_lines lines = past_choose(arena, text, options);
    struct table table;

    table_init(&table, arena, headers);
    table.wraps_at = options->wraps_at;
    for (size_t i = 0; i < lines.count; i++)
        past_row(&table, lines.items[i]);
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
