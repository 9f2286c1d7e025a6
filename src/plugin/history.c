#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "plugin/local.h"
#include "plugin/past.h"
#include "plugin/plugin.h"
#include "tool/file.h"

#include <stdio.h>
#include <string.h>

/* history: the file of the muster of this machine, where that is the cluster, and the ended jobs
 * that still exist. */
struct history_values {
    struct common_values common;
    bool all;
    int64_t limit;
    int output;
};

static const char *const history_outputs[] = {"table", "json", NULL};

static const struct option history_options[] = {
    COMMON_OPTIONS,
    {"all-namespaces", 'A', OPTION_BOOL, offsetof(struct history_values, all),
     .help = "jobs of every namespace", .flag_only = true},
    {"limit", 0, OPTION_I64, offsetof(struct history_values, limit), .fallback = "100", .min = 0,
     .max = 1000000, .value = "N", .help = "the newest N jobs (0: all)", .flag_only = true},
    {"output", 'o', OPTION_CHOICE, offsetof(struct history_values, output), .fallback = "table",
     .choices = history_outputs, .help = "table, or json: a line a job, of all namespaces",
     .flag_only = true},
    {0},
};

static int history_collect(struct session *session, struct buf *text, struct err *err)
{
    const char *file =
        str_printf(&session->arena, "%s/" PAST_FILE, local_folder(&session->arena)).p;
    const struct object **jobs;
    struct str kept = STR("");
    size_t count;
    bool here = session->config.source &&
                strcmp(session->config.source, local_kubeconfig(&session->arena)) == 0;

    if (here)
        (void)file_read(&session->arena, file, &kept, NULL);
    buf_add(text, kept);
    int r = session_list(session, &kind_torchrunjob, "*", NULL, &jobs, &count, err);
    if (r < 0 && err->http_status == 403) /* all namespaces are not everybody's */
        r = session_list(session, &kind_torchrunjob, session->config.ns, NULL, &jobs, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (!str_contains(kept, jobs[i]->uid)) /* it has its line */
            (void)past_add(text, object_json(jobs[i], &session->arena), false);
    return r;
}

static int history_run(struct invocation *invocation)
{
    const struct history_values *v = invocation->values;
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf table = {0};
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = history_collect(&session, &text, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    else if (v->output == 1)
        term_write(&session.out, buf_str(&text));
    else if (past_table(&table, &session.arena, buf_str(&text),
                        &(struct past_options){.ns = v->all ? NULL : session.config.ns,
                                               .limit = v->limit,
                                               .wraps_at = session.out.wraps_at}))
        term_write(&session.out, buf_str(&table));
    else
        session_say(&session, "no job has ended yet");
    session_close(&session);
    return r;
}

const struct command command_history = {
    .name = "history",
    .summary = "show jobs that have ended: when, how long, with which status, and their GPU hours",
    .about = "The muster of this machine keeps a line of every job, also of deleted ones; times "
             "are UTC. Of other "
             "clusters the ended jobs are shown that still exist.",
    .example = "muster history\nmuster history -o json",
    .options = history_options,
    .values_size = sizeof(struct history_values),
    .run = history_run,
};
