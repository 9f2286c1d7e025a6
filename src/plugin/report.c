#include "plugin/report.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/spent.h"
#include "plugin/view.h"
#include "plugin/watch.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define DAY_MS 86400000LL
#define ASK_MS 30000
/* Of the pods of every batch Job, by whoever made it. */
#define BATCH_LABEL "batch.kubernetes.io/job-name"
/* Of the pods that the job engine makes. */
#define ROLE_LABEL "torchrun.ai/role"

struct report_values {
    struct common_values common;
    const char *since;
    const char *until;
    int by;
    int output;
    const char *selector;
    bool watch;
};

static const char *const report_bys[] = {"queue", "user", "node", "job", NULL};
static const char *const report_outputs[] = {"table", "csv", "json", "yaml", NULL};

static const struct option report_options[] = {
    COMMON_OPTIONS,
    {"since", 0, OPTION_STR, offsetof(struct report_values, since), .fallback = "7d",
     .value = "TIME",
     .help = "how far back: 12h, 7d, or from when: 2026-11-01; 0: all that is kept",
     .flag_only = true},
    {"until", 0, OPTION_STR, offsetof(struct report_values, until), .value = "TIME",
     .help = "up to when: 2026-12-01 (not in it), or how long ago: 1d; now when left out",
     .flag_only = true},
    {"by", 0, OPTION_CHOICE, offsetof(struct report_values, by), .fallback = "queue",
     .choices = report_bys, .help = "a row for each queue, user, node or job", .flag_only = true},
    {"output", 'o', OPTION_CHOICE, offsetof(struct report_values, output), .fallback = "table",
     .choices = report_outputs, .value = "FORMAT",
     .help = "table (GPU hours), csv (seconds), json or yaml (milliseconds)", .flag_only = true},
    {"selector", 'l', OPTION_STR, offsetof(struct report_values, selector), .value = "LABELS",
     .help = "jobs with these labels, such as team=vision", .flag_only = true},
    {"watch", 'w', OPTION_BOOL, offsetof(struct report_values, watch),
     .help = "go on, and print the table again when it changes", .flag_only = true},
    {0},
};

struct str report_ask(struct session *session, const char *path, const char *query)
{
    struct arena *arena = &session->arena;
    const char *ns = session->config.ns;
    struct str paths[] = {
        str_printf(arena, "%s%s%s", path, query[0] ? "?" : "", query),
        str_printf(arena, "%s?namespace=%s%s%s", path, ns, query[0] ? "&" : "", query)};
    int status = 403;

    for (size_t i = 0; i < COUNT_OF(paths) && status == 403; i++) {
        struct str kept = STR("");

        status = session_http(
            session,
            &(struct session_request){.method = "GET", .path = paths[i], .timeout_ms = ASK_MS},
            &kept, NULL);
        if (status == 200 && str_starts(kept, STR("{\"uid\"")))
            return kept;
    }
    return STR("");
}

struct str report_kept(struct session *session, struct str uid)
{
    return report_ask(session, "/accounts",
                      uid.len ? str_printf(&session->arena, "uid=" STR_FMT, STR_ARG(uid)).p : "");
}

static void spent_of(struct session *session, const struct object *job, struct spent *ret)
{
    struct json *tree = object_json(job, &session->arena);
    struct spent_state state;

    *ret = (struct spent){0};
    spent_describe(ret, job->kind, tree);
    ret->user = ret->ns; /* no server of ours vouches for the annotation */
    spent_state_read(job->kind, tree, &state);
    spent_from_status(ret, tree, &state, clock_now_ms());
}

bool report_of_job(struct session *session, const struct object *job, struct spent *ret)
{
    struct str rest = report_kept(session, job->uid);
    struct str line;
    bool found = false;

    while (str_cut(&rest, '\n', &line))
        if (line.len)
            found = spent_read(&session->arena, line, ret) || found;
    if (!found)
        spent_of(session, job, ret);
    return ret->account.count > 0;
}

/* A kind that this cluster does not have, has no jobs. */
static int list_kind(struct session *session,
                     const struct kind *kind,
                     const char *selector,
                     struct view_objects *ret,
                     struct err *err)
{
    int r = session_list(session, kind, "*", selector, &ret->items, &ret->count, err);

    if (r < 0 && err->http_status == 403) /* all namespaces are not everybody's */
        r = session_list(session, kind, session->config.ns, selector, &ret->items, &ret->count,
                         err);
    if (r < 0 && (err->http_status == 404 || err->http_status == 403) && kind != spent_kind(0)) {
        ret->count = 0;
        return 0;
    }
    return r;
}

/* Those that have no line. `pods` say whether their ranks are observed. */
static int collect_kind(struct session *session,
                        const struct kind *kind,
                        struct str kept,
                        struct view_objects pods,
                        struct buf *text,
                        struct err *err)
{
    struct view_objects jobs = {0};
    int r = list_kind(session, kind, NULL, &jobs, err);

    for (size_t i = 0; r == 0 && i < jobs.count; i++) {
        struct spent spent;

        if (str_contains(kept, jobs.items[i]->uid) ||
            !spent_is_counted(kind, object_json(jobs.items[i], &session->arena)))
            continue;
        spent_of(session, jobs.items[i], &spent);
        for (size_t j = 0; j < pods.count; j++) {
            const struct object_owner *owner = object_controller(pods.items[j]);

            if (owner && str_eq(owner->uid, jobs.items[i]->uid))
                (void)spent_hear(&spent, pods.items[j]);
        }
        spent_write(text, &spent);
    }
    return r;
}

/* ---- jobs that say less than their pods ---- */

/* What the parts of a job say of it. */
struct told {
    int64_t start_ms; /* of the first pod; 0: none has */
    int64_t gpus;     /* 0: nobody says */
};

static struct told *told_of(struct session *session, struct map *all, struct str uid)
{
    struct told *told = map_get(all, uid);

    if (!told) {
        told = ARENA_NEW(&session->arena, struct told);
        (void)map_set(all, uid, told);
    }
    return told;
}

static void told_add(struct told *told, int64_t start_ms, int64_t gpus)
{
    if (start_ms && (!told->start_ms || start_ms < told->start_ms))
        told->start_ms = start_ms;
    if (gpus)
        told->gpus = gpus;
}

static int collect_pods(struct session *session, struct map *told, struct err *err)
{
    struct view_objects pods = {0};
    int r = list_kind(session, &kind_pod, BATCH_LABEL, &pods, err);

    for (size_t i = 0; r == 0 && i < pods.count; i++) {
        const struct object_owner *owner = object_controller(pods.items[i]);
        int64_t start_ms = 0;

        if (owner &&
            time_parse(json_str_at(object_json(pods.items[i], &session->arena), "status.startTime"),
                       &start_ms))
            told_add(told_of(session, told, owner->uid), start_ms, 0);
    }
    return r;
}

/* The parts of others say it to these, and have no line. */
static void collect_by_pods(struct session *session,
                            const struct object *job,
                            struct map *all,
                            struct buf *text)
{
    struct json *tree = object_json(job, &session->arena);
    const struct object_owner *owner = object_controller(job);
    const struct told *told = told_of(session, all, job->uid);
    struct spent spent = {0};
    struct spent_state state;

    spent_state_read(job->kind, tree, &state);
    /* A Job begins when its controller looks at it. That is all there is when its pods are gone. */
    if (told->start_ms || !job_is_over(state.phase))
        state.start_ms = told->start_ms;
    if (told->gpus)
        state.gpus = told->gpus;
    if (owner && spent_kind_of(owner->api_version, owner->kind)) {
        told_add(told_of(session, all, owner->uid), state.start_ms,
                 job->kind == &kind_jobset ? state.gpus : 0);
        return;
    }
    if (!spent_is_counted(job->kind, tree))
        return;
    if (!state.phase.len)
        state.phase = STR("Running");
    spent_describe(&spent, job->kind, tree);
    spent_from_status(&spent, tree, &state, clock_now_ms());
    spent_write(text, &spent);
}

/* Where nobody keeps accounts, or not for us. From the parts up. */
static int collect_all_by_pods(struct session *session, struct buf *text, struct err *err)
{
    static const struct kind *const kinds[] = {&kind_job, &kind_jobset, &kind_trainjob};
    struct map told = {0};
    int r = collect_pods(session, &told, err);

    for (size_t i = 0; r == 0 && i < COUNT_OF(kinds); i++) {
        struct view_objects jobs = {0};

        r = list_kind(session, kinds[i], NULL, &jobs, err);
        for (size_t j = 0; r == 0 && j < jobs.count; j++)
            collect_by_pods(session, jobs.items[j], &told, text);
    }
    map_done(&told);
    return r;
}

/* The midnight, or the moment, at which a day of the person's clock begins: 2026-11-01, or a time of
 * RFC 3339. */
static bool parse_moment(struct str word, int64_t *ret_ms)
{
    struct tm day = {.tm_isdst = -1};
    char text[16];
    const char *end;

    if (time_parse(word, ret_ms))
        return true;
    if (word.len != 10)
        return false;
    (void)snprintf(text, sizeof(text), STR_FMT, STR_ARG(word));
    end = strptime(text, "%Y-%m-%d", &day);
    if (!end || *end)
        return false;
    *ret_ms = (int64_t)mktime(&day) * 1000;
    return true;
}

/* "7d" or a duration of Go, so long ago; or a moment. */
static int parse_time(const char *flag,
                      const char *text,
                      int64_t now_ms,
                      int64_t *ret_ms,
                      struct err *err)
{
    struct str word = str_from(text);
    int64_t days = 0;
    int64_t ms = 0;

    if (parse_moment(word, ret_ms))
        return 0;
    if (str_ends(word, STR("d")) && str_to_i64(str_sub(word, 0, word.len - 1), &days) && days > 0 &&
        days < 100000)
        ms = days * DAY_MS;
    else if (!time_parse_duration(word, &ms) || ms <= 0)
        return err_set(err, -EINVAL,
                       "%s %s: write how long ago as 90m, 12h or 7d, or a day as 2026-11-01", flag,
                       text);
    *ret_ms = now_ms > ms ? now_ms - ms : 0;
    return 0;
}

static int parse_window(const struct report_values *v,
                        struct spent_options *options,
                        struct err *err)
{
    int64_t now_ms = clock_now_ms();
    int r = 0;

    options->until_ms = now_ms;
    if (!str_is(str_from(v->since), "0"))
        r = parse_time("--since", v->since, now_ms, &options->from_ms, err);
    if (r == 0 && v->until)
        r = parse_time("--until", v->until, now_ms, &options->until_ms, err);
    if (r == 0 && options->until_ms > now_ms)
        options->until_ms = now_ms; /* what is to come is not spent yet */
    if (r == 0 && options->until_ms <= options->from_ms)
        r = err_set(err, -EINVAL,
                    "--until: must be after --since, and what --since says in the past");
    return r;
}

static int report_draw(struct session *session,
                       void *user,
                       struct buf *out,
                       uint64_t *ret_seen,
                       struct err *err)
{
    const struct report_values *v = user;
    _cleanup_(buf_done) struct buf text = {0};
    struct selector selector = {0};
    struct spent_options options = {.by = (enum spent_by)v->by,
                                    .form = (enum spent_form)v->output,
                                    .selector = &selector,
                                    .wraps_at = session->out.wraps_at};
    int r = parse_window(v, &options, err);

    if (r == 0)
        r = selector_parse_labels(&session->arena, str_from(v->selector ? v->selector : ""),
                                  &selector, err);
    if (r < 0)
        return r;
    struct view_objects pods = {0};
    struct str kept = report_kept(session, STR(""));
    buf_add(&text, kept);
    if (!kept.len)
        r = list_kind(session, &kind_pod, ROLE_LABEL, &pods, err);
    for (size_t i = 0; r == 0 && spent_kind(i); i++)
        if (!spent_is_by_pods(spent_kind(i)))
            r = collect_kind(session, spent_kind(i), kept, pods, &text, err);
    if (r == 0 && !kept.len)
        r = collect_all_by_pods(session, &text, err);
    if (r == 0 && !spent_report(out, &session->arena, buf_str(&text), &options) &&
        options.form == SPENT_TABLE)
        buf_clear(out);
    *ret_seen = str_hash(buf_str(out), 0);
    return r;
}

static int report_run(struct invocation *invocation)
{
    struct report_values *v = invocation->values;
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = watch_or_once(&session,
                          &(struct watch_options){.watch = v->watch,
                                                  .table = v->output == SPENT_TABLE,
                                                  .nothing = "no job in that time"},
                          report_draw, v, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_report = {
    .name = "report",
    .summary = "show what the GPU time of jobs was spent on, and how much of it trained",
    .about = "Every second of a job is queued, starting, training, saving, hung, recomputing or "
             "idle; the rows add up to all of it. ETTR is training divided by all time since the "
             "submission, waiting included. muster up keeps the account of every job, also of "
             "deleted ones; of other clusters the status of the jobs that exist is used, which "
             "knows when it first ran and how long all of its runs took.",
    .example = "muster report --since 24h\nmuster report --by user --since 2026-11-01 --until "
               "2026-12-01 -o csv",
    .options = report_options,
    .values_size = sizeof(struct report_values),
    .run = report_run,
};
