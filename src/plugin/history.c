#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "plugin/past.h"
#include "plugin/plugin.h"
#include "plugin/report.h"
#include "plugin/watch.h"
#include "tool/clock.h"

#include <stdio.h>
#include <string.h>

/* history: what `muster up` keeps of jobs that have ended (GET /history), and the ended jobs that still exist. */
struct history_values {
    struct common_values common;
    bool all;
    int64_t limit;
    int output;
    const char *selector;
    bool watch;
};

enum {
    HISTORY_TABLE,
    HISTORY_JSON,
    HISTORY_YAML,
};
static const char *const history_outputs[] = {"table", "json", "yaml", NULL};

static const struct option history_options[] = {
    COMMON_OPTIONS,
    {"all-namespaces", 'A', OPTION_BOOL, offsetof(struct history_values, all),
     .help = "jobs of every namespace", .flag_only = true},
    {"limit", 0, OPTION_I64, offsetof(struct history_values, limit), .fallback = "100", .min = 0,
     .max = 1000000, .value = "N", .help = "the newest N jobs (0: all)", .flag_only = true},
    {"output", 'o', OPTION_CHOICE, offsetof(struct history_values, output), .fallback = "table",
     .choices = history_outputs, .help = "table, json (a line a job) or yaml", .flag_only = true},
    {"selector", 'l', OPTION_STR, offsetof(struct history_values, selector), .value = "LABELS",
     .help = "jobs with these labels, such as team=vision", .flag_only = true},
    {"watch", 'w', OPTION_BOOL, offsetof(struct history_values, watch),
     .help = "go on, and print the table again when it changes", .flag_only = true},
    {0},
};

static int history_collect(struct session *session, struct buf *text, struct err *err)
{
    const struct object **jobs;
    struct str kept = report_ask(session, "/history", "");
    size_t count;

    buf_add(text, kept);
    int r = session_list(session, &kind_torchrunjob, "*", NULL, &jobs, &count, err);
    if (r < 0 && err->http_status == 403) /* all namespaces are not everybody's */
        r = session_list(session, &kind_torchrunjob, session->config.ns, NULL, &jobs, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (!str_contains(kept, jobs[i]->uid)) /* it has its line */
            (void)past_add(text, object_json(jobs[i], &session->arena), false, clock_now_ms());
    return r;
}

static int history_draw(struct session *session,
                        void *user,
                        struct buf *out,
                        uint64_t *ret_seen,
                        struct err *err)
{
    const struct history_values *v = user;
    struct arena *arena = &session->arena;
    _cleanup_(buf_done) struct buf text = {0};
    struct selector selector = {0};
    struct past_options options = {.ns = v->all ? NULL : session->config.ns,
                                   .selector = &selector,
                                   .limit = v->limit,
                                   .wraps_at = session->out.wraps_at};
    int r = selector_parse_labels(arena, str_from(v->selector ? v->selector : ""), &selector, err);

    if (r == 0)
        r = history_collect(session, &text, err);
    if (r < 0)
        return r;
    options.accounts = report_kept(session, STR(""));
    if (v->output == HISTORY_TABLE) {
        (void)past_table(out, arena, buf_str(&text), &options);
    } else {
        struct json *list = past_list(arena, buf_str(&text), &options);

        if (v->output == HISTORY_YAML)
            yaml_write(out, list);
        else
            JSON_FOREACH(list, line) {
                json_write(out, line);
                buf_addc(out, '\n');
            }
    }
    *ret_seen = str_hash(buf_str(out), 0);
    return 0;
}

static int history_run(struct invocation *invocation)
{
    struct history_values *v = invocation->values;
    bool table = v->output == HISTORY_TABLE;
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = watch_or_once(&session,
                          &(struct watch_options){.watch = v->watch,
                                                  .table = table,
                                                  .nothing = table ? "no job has ended yet" : NULL},
                          history_draw, v, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_history = {
    .name = "history",
    .summary = "show jobs that have ended: when, how long, with which status, and their GPU hours",
    .about = "muster up keeps a line of every job, also of deleted ones, for whoever may list the "
             "jobs of the namespace. Of other clusters the ended jobs are shown that "
             "still exist.",
    .example = "muster history\nmuster history -l team=vision --watch",
    .options = history_options,
    .values_size = sizeof(struct history_values),
    .run = history_run,
};
