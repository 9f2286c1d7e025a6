#include "plugin/spent.h"

#include "api/account.h"
#include "api/account_run.h"
#include "api/kind.h"
#include "api/selector.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "plugin/job.h"
#include "tool/term.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

bool spent_add_node(struct spent *spent, struct str node)
{
    for (size_t i = 0; i < spent->node_count; i++)
        if (str_eq(spent->nodes[i], node))
            return false;
    if (!node.len || spent->node_count == SPENT_NODES_MAX)
        return false;
    spent->nodes[spent->node_count++] = node;
    return true;
}

/* ---- lines ---- */

void spent_write(struct buf *out, const struct spent *spent)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *line = json_make(&arena,
                                  "{uid: $, kind: $, namespace: $, name: $, queue: $, user: $, "
                                  "nodes: [], account: $}",
                                  spent->uid, spent->kind, spent->ns, spent->name, spent->queue,
                                  spent->user, account_json(&arena, &spent->account));
    struct json *labels = job_labels(&arena, spent->labels);

    if (labels)
        (void)json_set(line, STR("labels"), labels);
    for (size_t i = 0; i < spent->node_count; i++)
        (void)json_push(json_get(line, "nodes"), json_new_str(&arena, spent->nodes[i]));
    if (spent->observed)
        json_add_bool(&arena, line, "observed", true);
    if (spent->why[0])
        json_add_str(&arena, line, "unobserved", str_from(spent->why));
    if (!spent->account.end_ms)
        (void)json_set(line, STR("run"), account_run_json(&arena, &spent->run));
    json_write(out, line);
    buf_addc(out, '\n');
}

bool spent_read(struct arena *arena, struct str line, struct spent *ret)
{
    struct json *json = NULL;

    if (json_parse(arena, line, &json, NULL) < 0)
        return false;
    *ret = (struct spent){.uid = json_str(json_get(json, "uid")),
                          .kind = json_str(json_get(json, "kind")),
                          .ns = json_str(json_get(json, "namespace")),
                          .name = json_str(json_get(json, "name")),
                          .queue = json_str(json_get(json, "queue")),
                          .user = json_str(json_get(json, "user")),
                          .labels = json_get(json, "labels")};
    JSON_FOREACH(json_get(json, "nodes"), node)
        (void)spent_add_node(ret, json_str(node));
    account_run_read(json_get(json, "run"), &ret->run);
    ret->observed = json_bool_or(json_get(json, "observed"), false);
    (void)snprintf(ret->why, sizeof(ret->why), STR_FMT,
                   STR_ARG(json_str(json_get(json, "unobserved"))));
    return ret->uid.len && ret->name.len && account_read(json_get(json, "account"), &ret->account);
}

struct last_line {
    struct str uid;
    struct str line;
};

struct last_lines VEC_FIELDS(struct last_line *);

/* Of each job the last line, in the order in which these were written. */
static struct last_lines lines_last(struct arena *arena, struct str text)
{
    struct last_lines lines = {0};
    struct map last = {0};
    struct str line;

    while (str_cut(&text, '\n', &line)) {
        struct json *json = NULL;

        if (json_parse(arena, line, &json, NULL) < 0)
            continue;
        struct last_line *item = ARENA_NEW(arena, struct last_line);
        *item = (struct last_line){.uid = json_str(json_get(json, "uid")), .line = line};
        if (!item->uid.len)
            continue;
        (void)map_remove(&last, item->uid);
        (void)map_set(&last, item->uid, item);
    }
    MAP_FOREACH(&last, entry)
        VEC_PUSH(arena, &lines, entry->value);
    map_done(&last);
    return lines;
}

struct str spent_trim(struct arena *arena, struct str text)
{
    _cleanup_(buf_done) struct buf kept = {0};
    struct last_lines lines = lines_last(arena, text);
    size_t first = lines.count;
    size_t bytes = 0;

    while (first && bytes + lines.items[first - 1]->line.len < SPENT_BYTES_MAX / 2)
        bytes += lines.items[--first]->line.len + 1;
    for (size_t i = first; i < lines.count; i++) {
        buf_add(&kept, lines.items[i]->line);
        buf_addc(&kept, '\n');
    }
    return str_dup(arena, buf_str(&kept));
}

/* ---- the report ---- */

struct row {
    struct str key;
    struct str ns;    /* of a queue that has one, and of a job */
    struct str queue; /* of a job, as the next */
    struct str user;
    size_t jobs;
    size_t unobserved; /* of these */
    struct account_sums sums;
};

struct report {
    struct arena *arena;
    struct map rows;
    struct row all;
    struct json *unobserved; /* [{job, why}] */
};

static void sums_add(struct account_sums *to, const struct account_sums *from)
{
    for (size_t i = 0; i < ACCOUNT_STATES; i++) {
        to->wall_ms[i] += from->wall_ms[i];
        to->gpu_ms[i] += from->gpu_ms[i];
    }
    to->held_ms += from->held_ms;
}

/* `ns`: of the same name there is one in each. */
static struct row *report_row(struct report *report, struct str ns, struct str key)
{
    struct str both = str_printf(report->arena, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(key));
    struct row *row = map_get(&report->rows, both);

    if (!row) {
        row = ARENA_NEW(report->arena, struct row);
        row->key = str_dup(report->arena, key);
        row->ns = str_dup(report->arena, ns);
        (void)map_set(&report->rows, both, row);
    }
    return row;
}

/* Without GPUs waiting is no node's; what a job held is divided evenly among its nodes, and the
 * rest of the division is the last one's, so that nothing is lost. */
static void report_nodes(struct report *report, const struct spent *spent, struct account_sums sums)
{
    struct account_sums none = {0};
    int64_t count = (int64_t)spent->node_count;

    none.wall_ms[ACCOUNT_QUEUED] = sums.wall_ms[ACCOUNT_QUEUED];
    none.gpu_ms[ACCOUNT_QUEUED] = sums.gpu_ms[ACCOUNT_QUEUED];
    none.wall_ms[ACCOUNT_IDLE] = sums.wall_ms[ACCOUNT_IDLE];
    none.gpu_ms[ACCOUNT_IDLE] = sums.gpu_ms[ACCOUNT_IDLE];
    if (!count)
        none = sums;
    struct row *row = report_row(report, STR_NONE, STR("(none)"));
    row->jobs++;
    row->unobserved += spent->why[0] != '\0';
    sums_add(&row->sums, &none);
    for (int64_t i = 0; i < count; i++) {
        struct account_sums part = {0};

        for (size_t j = 0; j < ACCOUNT_STATES; j++) {
            int64_t wall = sums.wall_ms[j] - none.wall_ms[j];
            int64_t gpu = sums.gpu_ms[j] - none.gpu_ms[j];

            part.wall_ms[j] = i + 1 < count ? wall / count : wall - wall / count * (count - 1);
            part.gpu_ms[j] = i + 1 < count ? gpu / count : gpu - gpu / count * (count - 1);
        }
        part.held_ms = i + 1 < count ? sums.held_ms / count
                                     : sums.held_ms - sums.held_ms / count * (count - 1);
        row = report_row(report, STR_NONE, spent->nodes[i]);
        row->jobs++;
        row->unobserved += spent->why[0] != '\0';
        sums_add(&row->sums, &part);
    }
}

static struct str spent_job(struct arena *arena, const struct spent *spent)
{
    return str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(spent->ns), STR_ARG(spent->name));
}

struct str spent_queue_ns(const struct spent *spent)
{
    return str_is(spent->kind, spent_kind(0)->name) ? spent->ns : STR_NONE;
}

static struct row *report_row_of(struct report *report, const struct spent *spent, enum spent_by by)
{
    struct arena *arena = report->arena;

    if (by == SPENT_BY_QUEUE)
        return report_row(report, spent_queue_ns(spent), spent->queue);
    if (by == SPENT_BY_USER)
        return report_row(report, STR_NONE, spent->user);
    struct row *row = report_row(report, spent->ns, spent_job(arena, spent));
    row->queue = str_dup(arena, spent->queue);
    row->user = str_dup(arena, spent->user);
    return row;
}

static void report_job(struct report *report,
                       const struct spent *spent,
                       const struct spent_options *options)
{
    struct account_sums sums = {0};

    if (options->selector && !selector_matches_json(options->selector, spent->labels))
        return;
    account_add(&spent->account, options->from_ms, options->until_ms, &sums);
    if (!account_total(sums.wall_ms))
        return;
    report->all.jobs++;
    sums_add(&report->all.sums, &sums);
    if (spent->why[0]) {
        report->all.unobserved++;
        (void)json_push(report->unobserved,
                        json_make(report->arena, "{job: $, observed: $, why: $}",
                                  spent_job(report->arena, spent), spent->observed,
                                  str_dup(report->arena, str_from(spent->why))));
    }
    if (options->by == SPENT_BY_NODE) {
        report_nodes(report, spent, sums);
        return;
    }
    struct row *row = report_row_of(report, spent, options->by);
    row->jobs++;
    row->unobserved += spent->why[0] != '\0';
    sums_add(&row->sums, &sums);
}

static struct str tenths(struct arena *arena, int64_t number)
{
    if (number < 0)
        return STR("-");
    return str_printf(arena, "%lld.%lld", (long long)(number / 10), (long long)(number % 10));
}

static void table_row(struct table *table, const struct row *row, enum spent_by by)
{
    struct arena *arena = table->arena;

    table_add(table, row->key);
    if (by == SPENT_BY_QUEUE)
        table_add(table, row->ns.len ? row->ns : STR("-"));
    table_add(table, str_printf(arena, "%zu", row->jobs));
    table_add(table, tenths(arena, row->sums.held_ms / 360000));
    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        table_add(table, tenths(arena, row->sums.gpu_ms[i] / 360000));
    table_add(table, tenths(arena, account_ettr(&row->sums)));
}

static const char *const by_words[] = {"queue", "user", "node", "job"};

/* Of these hangs, checkpoints and repeated steps are not known: what their row says of training is more
 * than it was. */
static void report_notes(struct buf *out, const struct report *report)
{
    size_t count = 0;

    JSON_FOREACH(report->unobserved, note) {
        if (count++ == SPENT_NOTES_MAX) {
            buf_addf(out, "and %zu more were not observed; -o json names them\n",
                     report->all.unobserved - SPENT_NOTES_MAX);
            return;
        }
        buf_addf(out,
                 "%s" STR_FMT " is %s observed, so its time is training unless it waits: " STR_FMT
                 "\n",
                 count == 1 ? "\n" : "", STR_ARG(json_str(json_get(note, "job"))),
                 json_bool_or(json_get(note, "observed"), false) ? "only in part" : "not",
                 STR_ARG(json_str(json_get(note, "why"))));
    }
}

static void report_table(struct buf *out,
                         const struct report *report,
                         const struct spent_options *options)
{
    static const char *const headers[][13] = {
#define STATE_HEADERS                                                                           \
    "JOBS", "GPU-H", "QUEUED", "STARTING", "TRAINING", "SAVING", "HUNG", "RECOMPUTING", "IDLE", \
        "ETTR%", NULL
        {"QUEUE", "NAMESPACE", STATE_HEADERS},
        {"USER", STATE_HEADERS},
        {"NODE", STATE_HEADERS},
        {"JOB", STATE_HEADERS},
#undef STATE_HEADERS
    };
    struct table table;

    table_init(&table, report->arena, headers[options->by]);
    table.wraps_at = options->wraps_at;
    MAP_FOREACH(&report->rows, entry)
        table_row(&table, entry->value, options->by);
    table_row(&table, &report->all, options->by);
    table_write(out, &table, true);
    report_notes(out, report);
}

/* Names of Kubernetes have no commas and quotes, but a job may name any text as its queue: RFC 4180. */
static void csv_add(struct buf *out, struct str field)
{
    bool plain = true;

    for (size_t i = 0; i < field.len; i++)
        plain = plain && field.p[i] != ',' && field.p[i] != '"' && field.p[i] != '\n' &&
                field.p[i] != '\r';
    if (plain) {
        buf_add(out, field);
        return;
    }
    buf_addc(out, '"');
    for (size_t i = 0; i < field.len; i++) {
        if (field.p[i] == '"')
            buf_addc(out, '"');
        buf_addc(out, field.p[i]);
    }
    buf_addc(out, '"');
}

static void csv_row(struct buf *out, const struct row *row, enum spent_by by)
{
    int64_t ettr = account_ettr(&row->sums);

    csv_add(out, row->key);
    buf_addf(out, ",%zu", row->jobs);
    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        buf_addf(out, ",%lld.%03lld", (long long)(row->sums.gpu_ms[i] / 1000),
                 (long long)(row->sums.gpu_ms[i] % 1000));
    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        buf_addf(out, ",%lld.%03lld", (long long)(row->sums.wall_ms[i] / 1000),
                 (long long)(row->sums.wall_ms[i] % 1000));
    if (ettr >= 0)
        buf_addf(out, ",%lld.%03lld,%zu", (long long)(ettr / 1000), (long long)(ettr % 1000),
                 row->unobserved);
    else
        buf_addf(out, ",,%zu", row->unobserved);
    buf_addf(out, ",%lld.%03lld", (long long)(row->sums.held_ms / 1000),
             (long long)(row->sums.held_ms % 1000));
    struct str further[] = {row->ns, row->queue, row->user};
    size_t count = by == SPENT_BY_JOB ? 3 : by == SPENT_BY_QUEUE ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        buf_addc(out, ',');
        csv_add(out, further[i]);
    }
    buf_addc(out, '\n');
}

static void report_csv(struct buf *out, const struct report *report, enum spent_by by)
{
    buf_addf(out, "%s,jobs", by_words[by]);
    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        buf_addf(out, ",%s_gpu_seconds", account_words[i]);
    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        buf_addf(out, ",%s_seconds", account_words[i]);
    buf_addf(out, ",ettr,unobserved_jobs,held_gpu_seconds%s\n",
             by == SPENT_BY_JOB     ? ",namespace,queue,user"
             : by == SPENT_BY_QUEUE ? ",namespace"
                                    : "");
    MAP_FOREACH(&report->rows, entry)
        csv_row(out, entry->value, by);
}

static struct json *row_json(struct arena *arena, const struct row *row, enum spent_by by)
{
    struct json *out = json_new_object(arena);
    int64_t ettr = account_ettr(&row->sums);

    if (row->key.len)
        json_add_str(arena, out, by_words[by], row->key);
    if (row->ns.len)
        json_add_str(arena, out, "namespace", row->ns);
    if (row->key.len && by == SPENT_BY_JOB) {
        json_add_str(arena, out, "queue", row->queue);
        json_add_str(arena, out, "user", row->user);
    }
    json_add_i64(arena, out, "jobs", (int64_t)row->jobs);
    json_add_i64(arena, out, "unobservedJobs", (int64_t)row->unobserved);
    json_add_i64(arena, out, "heldGpuMilliseconds", row->sums.held_ms);
    struct json *gpu = json_add_object(arena, out, "gpuMilliseconds");
    struct json *wall = json_add_object(arena, out, "milliseconds");
    for (size_t i = 0; i < ACCOUNT_STATES; i++) {
        json_add_i64(arena, gpu, account_words[i], row->sums.gpu_ms[i]);
        json_add_i64(arena, wall, account_words[i], row->sums.wall_ms[i]);
    }
    if (ettr >= 0)
        (void)json_set(
            out, STR("ettr"),
            json_new_number(arena, str_printf(arena, "%lld.%03lld", (long long)(ettr / 1000),
                                              (long long)(ettr % 1000))));
    return out;
}

static void report_tree(struct buf *out,
                        const struct report *report,
                        const struct spent_options *options)
{
    struct arena *arena = report->arena;
    struct json *root =
        json_make(arena, "{from: $, to: $, by: $, rows: []}", time_text(arena, options->from_ms),
                  time_text(arena, options->until_ms), by_words[options->by]);

    MAP_FOREACH(&report->rows, entry)
        (void)json_push(json_get(root, "rows"), row_json(arena, entry->value, options->by));
    (void)json_set(root, STR("all"), row_json(arena, &report->all, options->by));
    (void)json_set(root, STR("unobserved"), report->unobserved);
    if (options->form == SPENT_YAML) {
        yaml_write(out, root);
        return;
    }
    json_write_pretty(out, root);
    buf_addc(out, '\n');
}

size_t spent_report(struct buf *out,
                    struct arena *arena,
                    struct str text,
                    const struct spent_options *options)
{
    struct report report = {.arena = arena, .unobserved = json_new_array(arena)};
    struct last_lines lines = lines_last(arena, text);

    for (size_t i = 0; i < lines.count; i++) {
        struct spent spent;

        if (spent_read(arena, lines.items[i]->line, &spent))
            report_job(&report, &spent, options);
    }
    size_t count = report.rows.count;
    if (options->form == SPENT_TABLE) {
        report.all.key = STR("(all)");
        report_table(out, &report, options);
    } else if (options->form == SPENT_CSV) {
        report_csv(out, &report, options->by);
    } else {
        report_tree(out, &report, options);
    }
    map_done(&report.rows);
    return count;
}

struct str spent_words(struct arena *arena, const struct spent *spent, int64_t now_ms)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct account_sums sums = {0};

    account_add(&spent->account, 0, now_ms, &sums);
    for (size_t i = 0; i < ACCOUNT_STATES; i++)
        if (sums.wall_ms[i] >= 1000)
            buf_addf(&text, "%s%s " STR_FMT, text.len ? ", " : "", account_words[i],
                     STR_ARG(time_age(arena, sums.wall_ms[i])));
    if (text.len)
        buf_addf(&text, ": ETTR " STR_FMT " %%", STR_ARG(tenths(arena, account_ettr(&sums))));
    return str_dup(arena, buf_str(&text));
}
