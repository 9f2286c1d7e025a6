#include "replay/trace.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define COLUMNS_MAX     64
#define NODE_CPU_MILLI  12000 /* for each GPU of a node that was only counted */
#define NODE_MEMORY_MIB 49152

enum field {
    FIELD_TEXT,
    FIELD_COUNT,  /* a whole number */
    FIELD_MOMENT, /* seconds, or a date and a time */
};

struct column {
    const char *names[4];
    enum field field;
    size_t offset;
};

static const struct column job_columns[] = {
    {{"name"}, FIELD_TEXT, offsetof(struct trace_job, name)},
    {{"queue", "cluster", "vc"}, FIELD_TEXT, offsetof(struct trace_job, queue)},
    {{"models", "gpu_spec"}, FIELD_TEXT, offsetof(struct trace_job, models)},
    {{"submit", "timestamp", "creation_time"}, FIELD_MOMENT, offsetof(struct trace_job, submit_ms)},
    {{"run", "duration"}, FIELD_MOMENT, offsetof(struct trace_job, run_ms)},
    {{"gpus", "num_gpu", "num_gpus"}, FIELD_COUNT, offsetof(struct trace_job, gpus)},
    {{"gpu_milli"}, FIELD_COUNT, offsetof(struct trace_job, gpu_milli)},
    {{"cpu_milli"}, FIELD_COUNT, offsetof(struct trace_job, cpu_milli)},
    {{"memory_mib"}, FIELD_COUNT, offsetof(struct trace_job, memory_mib)},
    {{0}, FIELD_TEXT, 0},
};

static const struct column node_columns[] = {
    {{"name", "sn"}, FIELD_TEXT, offsetof(struct trace_node, name)},
    {{"model"}, FIELD_TEXT, offsetof(struct trace_node, model)},
    {{"cpu_milli"}, FIELD_COUNT, offsetof(struct trace_node, cpu_milli)},
    {{"memory_mib"}, FIELD_COUNT, offsetof(struct trace_node, memory_mib)},
    {{"gpu", "gpus"}, FIELD_COUNT, offsetof(struct trace_node, gpus)},
    {{0}, FIELD_TEXT, 0},
};

/* A file as it is read, line by line. */
struct csv {
    struct arena *arena;
    const char *path;
    struct str rest;
    int64_t line;
    const struct column *columns[COLUMNS_MAX]; /* NULL: passed over */
    size_t count;
    struct err *err;
};

static const struct column *column_named(const struct column *columns, struct str name)
{
    for (; columns->names[0]; columns++)
        for (size_t i = 0; i < 4 && columns->names[i]; i++)
            if (str_is(name, columns->names[i]))
                return columns;
    return NULL;
}

static bool next_line(struct csv *csv, struct str *ret)
{
    while (csv->rest.len && str_cut(&csv->rest, '\n', ret)) {
        csv->line++;
        if (ret->len && ret->p[ret->len - 1] == '\r')
            ret->len--;
        if (ret->len)
            return true;
    }
    return false;
}

static int csv_open(struct csv *csv, const struct column *known, const char *needs)
{
    struct str line = STR_NONE;
    struct str name = STR_NONE;
    bool found = false;

    if (!next_line(csv, &line))
        return err_set(csv->err, -EINVAL, "%s: is empty", csv->path);
    while (line.len && str_cut(&line, ',', &name)) {
        if (csv->count == COLUMNS_MAX)
            return err_set(csv->err, -EINVAL, "%s: has more than %d columns", csv->path,
                           COLUMNS_MAX);
        csv->columns[csv->count] = column_named(known, str_trim(name));
        const struct column *column = csv->columns[csv->count++];
        for (size_t i = 0; column && i < 4 && column->names[i]; i++)
            found = found || str_is(str_from(needs), column->names[i]);
    }
    if (!found)
        return err_set(csv->err, -EINVAL,
                       "%s: the first line names no column \"%s\"; see docs/replay.md", csv->path,
                       needs);
    return 0;
}

/* Digits, and at most three behind a point, as thousandths. */
static bool to_milli(struct str text, int64_t *ret)
{
    size_t point = str_find(text, '.');
    struct str behind = str_sub(text, point + 1, 3);
    int64_t whole = 0;
    int64_t part = 0;

    if (!str_to_i64(str_sub(text, 0, point), &whole) || whole < 0 || whole > INT64_MAX / 2000 ||
        (behind.len && (!str_to_i64(behind, &part) || part < 0)))
        return false;
    for (size_t i = behind.len; i < 3; i++)
        part *= 10;
    *ret = whole * 1000 + part;
    return true;
}

static bool to_moment(struct arena *arena, struct str text, int64_t *ret)
{
    if (to_milli(text, ret))
        return true;
    if (text.len < 19 || text.p[10] != ' ')
        return false;
    return time_parse(str_printf(arena, STR_FMT "T" STR_FMT "Z", 10, text.p,
                                 STR_ARG(str_sub(text, 11, text.len))),
                      ret);
}

static int read_value(struct csv *csv, const struct column *column, struct str text, char *row)
{
    char *at = row + column->offset;
    bool good = true;

    if (column->field == FIELD_TEXT)
        *(struct str *)(void *)at = text;
    else if (column->field == FIELD_MOMENT)
        good = !text.len || to_moment(csv->arena, text, (int64_t *)(void *)at);
    else if (text.len)
        good = str_to_i64(text, (int64_t *)(void *)at) && *(int64_t *)(void *)at >= 0;
    if (!good)
        return err_set(csv->err, -EINVAL, "%s: line %lld: %s: \"" STR_FMT "\" is not %s", csv->path,
                       (long long)csv->line, column->names[0], STR_ARG(text),
                       column->field == FIELD_MOMENT ? "a number of seconds or a time"
                                                     : "a whole number from 0 on");
    return 0;
}

/* 1: a row was read, 0: there are no more. */
static int read_row(struct csv *csv, char *row)
{
    struct str line = STR_NONE;
    struct str text = STR_NONE;

    if (!next_line(csv, &line))
        return 0;
    for (size_t i = 0; i < csv->count && line.p && str_cut(&line, ',', &text); i++) {
        int r = csv->columns[i] ? read_value(csv, csv->columns[i], str_trim(text), row) : 0;
        if (r < 0)
            return r;
    }
    return 1;
}

static int by_submit(const void *a, const void *b)
{
    const struct trace_job *l = a;
    const struct trace_job *r = b;

    if (l->submit_ms != r->submit_ms)
        return l->submit_ms < r->submit_ms ? -1 : 1;
    return l->name.p < r->name.p ? -1 : l->name.p > r->name.p;
}

static int job_check(const struct csv *csv, const struct trace_job *job)
{
    if (job->gpu_milli > 1000 || (job->gpus > 1 && job->gpu_milli < 1000))
        return err_set(csv->err, -EINVAL,
                       "%s: line %lld: gpu_milli: a share is below 1000 and of one GPU", csv->path,
                       (long long)csv->line);
    return 0;
}

int trace_parse(struct arena *arena,
                const char *path,
                struct str text,
                struct trace *ret,
                struct err *err)
{
    struct csv csv = {.arena = arena, .path = path, .rest = text, .err = err};
    struct trace trace = {0};
    int r = csv_open(&csv, job_columns, "gpus");

    if (r < 0)
        return r;
    for (size_t i = 0; i < csv.count; i++)
        trace.ends = trace.ends || (csv.columns[i] &&
                                    csv.columns[i]->offset == offsetof(struct trace_job, run_ms));
    for (;;) {
        struct trace_job job = {.gpu_milli = 1000};

        r = read_row(&csv, (char *)&job);
        if (r <= 0)
            break;
        if (!job.gpus || !job.gpu_milli)
            job.gpus = job.gpu_milli = 0;
        if (!job.name.len)
            job.name = str_printf(arena, "job-%lld", (long long)(csv.line - 1));
        if ((r = job_check(&csv, &job)) < 0)
            break;
        if (trace.jobs.count == TRACE_JOBS_MAX) {
            r = err_set(err, -EFBIG, "%s: has more than %d jobs", path, TRACE_JOBS_MAX);
            break;
        }
        VEC_PUSH(arena, &trace.jobs, job);
    }
    if (r < 0)
        return r;
    if (!trace.jobs.count)
        return err_set(err, -EINVAL, "%s: has no jobs", path);
    if (trace.ends)
        qsort(trace.jobs.items, trace.jobs.count, sizeof(*trace.jobs.items), by_submit);
    *ret = trace;
    return 0;
}

int trace_parse_nodes(struct arena *arena,
                      const char *path,
                      struct str text,
                      struct trace_nodes *ret,
                      struct err *err)
{
    struct csv csv = {.arena = arena, .path = path, .rest = text, .err = err};
    int r = csv_open(&csv, node_columns, "gpus");

    while (r >= 0) {
        struct trace_node node = {0};

        r = read_row(&csv, (char *)&node);
        if (r <= 0)
            break;
        if (node.gpus > TRACE_GPUS_MAX)
            return err_set(err, -EINVAL, "%s: line %lld: a node has at most %d GPUs", path,
                           (long long)csv.line, TRACE_GPUS_MAX);
        if (ret->count == TRACE_NODES_MAX)
            return err_set(err, -EFBIG, "%s: has more than %d nodes", path, TRACE_NODES_MAX);
        if (!node.name.len)
            node.name = str_printf(arena, "node-%06zu", ret->count);
        if (!node.cpu_milli)
            node.cpu_milli = NODE_CPU_MILLI * (node.gpus ? node.gpus : 1);
        if (!node.memory_mib)
            node.memory_mib = NODE_MEMORY_MIB * (node.gpus ? node.gpus : 1);
        VEC_PUSH(arena, ret, node);
    }
    if (r >= 0 && !ret->count)
        return err_set(err, -EINVAL, "%s: has no nodes", path);
    return r < 0 ? r : 0;
}

void trace_make_nodes(struct arena *arena, int64_t count, int64_t gpus, struct trace_nodes *ret)
{
    for (int64_t i = 0; i < count; i++)
        VEC_PUSH(arena, ret,
                 (struct trace_node){
                     .name = str_printf(arena, "node-%06lld", (long long)i),
                     .cpu_milli = NODE_CPU_MILLI * (gpus ? gpus : 1),
                     .memory_mib = NODE_MEMORY_MIB * (gpus ? gpus : 1),
                     .gpus = gpus,
                 });
}
