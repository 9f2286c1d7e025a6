#include "exec/job_counts.h"

#include "api/object.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/core/status.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* JOB_COUNTS(X): X(MEMBER, word of the metric, condition that makes it; NULL: none) */
#define JOB_COUNTS(X)                        \
    X(CREATED, "created", NULL)              \
    X(DELETED, "deleted", NULL)              \
    X(SUCCESSFUL, "successful", "Succeeded") \
    X(FAILED, "failed", "Failed")            \
    X(RESTARTED, "restarted", "Restarting")

enum count {
#define COUNT_ENUM(name, word, condition) COUNT_##name,
    JOB_COUNTS(COUNT_ENUM)
#undef COUNT_ENUM
    COUNTS,
};

static const struct {
    const char *word;
    const char *condition;
} metrics[] = {
#define COUNT_ROW(name, text, type) {text, type},
    JOB_COUNTS(COUNT_ROW)
#undef COUNT_ROW
};

struct row {
    uint64_t numbers[COUNTS];
    const char *framework;
    struct str ns; /* in text */
    size_t text_len;
    char text[]; /* "framework namespace" */
};

void job_counts_done(struct job_counts *counts)
{
    MAP_FOREACH(&counts->rows, entry)
        mem_free(entry->value);
    map_done(&counts->rows);
}

static struct row *row_of(struct job_counts *counts, const char *framework, struct str ns)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str key = str_printf(&arena, "%s " STR_FMT, framework, STR_ARG(ns));
    struct row *row = map_get(&counts->rows, key);

    if (row || counts->rows.count >= JOB_COUNTS_MAX)
        return row;
    row = mem_alloc(sizeof(*row) + key.len);
    memcpy(row->text, key.p, key.len);
    row->text_len = key.len;
    row->framework = framework;
    row->ns = (struct str){row->text + (key.len - ns.len), ns.len};
    map_set(&counts->rows, (struct str){row->text, row->text_len}, row);
    return row;
}

static void see_status(struct row *row, const struct object *before, const struct object *now)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *old = before ? json_get(object_json(before, &arena), "status") : NULL;
    const struct json *new = json_get(object_json(now, &arena), "status");

    for (size_t i = 0; i < COUNTS; i++)
        if (metrics[i].condition && condition_is_true(new, metrics[i].condition) &&
            !condition_is_true(old, metrics[i].condition))
            row->numbers[i]++;
}

void job_counts_see(struct job_counts *counts,
                    const struct object *before,
                    const struct object *now)
{
    const struct object *object = now ? now : before;

    if (!object)
        return;
    const struct training_kind *training = training_of(object->kind);
    struct row *row = training ? row_of(counts, training->framework, object->ns) : NULL;
    if (!row)
        return;
    row->numbers[COUNT_CREATED] += !before;
    row->numbers[COUNT_DELETED] += !now;
    if (now)
        see_status(row, before, now);
}

void job_counts_write(const struct job_counts *counts, struct buf *buf)
{
    for (size_t i = 0; i < COUNTS; i++) {
        const char *word = metrics[i].word;

        buf_addf(buf,
                 "# HELP training_operator_jobs_%s_total Training jobs of kubeflow.org: %s\n"
                 "# TYPE training_operator_jobs_%s_total counter\n",
                 word, word, word);
        MAP_FOREACH(&counts->rows, entry) {
            const struct row *row = entry->value;

            buf_addf(buf,
                     "training_operator_jobs_%s_total{job_namespace=\"" STR_FMT
                     "\",framework=\"%s\"} %" PRIu64 "\n",
                     word, STR_ARG(row->ns), row->framework, row->numbers[i]);
        }
    }
}
