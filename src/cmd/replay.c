#include "replay/replay.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/muster.h"
#include "cmd/replay_recording.h"
#include "control/kinds/torchrun.h"
#include "replay/policy.h"
#include "replay/queues.h"
#include "replay/result.h"
#include "replay/trace.h"
#include "tool/file.h"
#include "tool/option.h"
#include "tool/term.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* muster replay TRACE: what schedulers make of a trace; see replay/replay.h and docs/replay.md. */
struct replay_values {
    struct option_list policies;
    const char *cluster;
    const char *queues;
    int64_t nodes;
    int64_t gpus_per_node;
    int64_t seeds;
    int64_t window;
    int64_t reserve_after_ms;
    int64_t estimates;
    bool lend_expected;
    bool preemptible;
    int output;
    const char *page;
};

static const char *const outputs[] = {"table", "json", "csv", NULL};

static const struct option replay_options[] = {
    {"policy", 'p', OPTION_LIST, offsetof(struct replay_values, policies), .value = "NAME",
     .help = "muster, kai, fifo, fgd, best-fit, random, las, or several with commas (default "
             "muster,kai,fifo)"},
    {"cluster", 'c', OPTION_STR, offsetof(struct replay_values, cluster), .value = "FILE",
     .help = "a CSV file of nodes: name,cpu_milli,memory_mib,gpus,model"},
    {"nodes", 'n', OPTION_I64, offsetof(struct replay_values, nodes), .fallback = "100", .min = 1,
     .max = TRACE_NODES_MAX, .value = "N", .help = "without a file: so many nodes"},
    {"gpus-per-node", 'g', OPTION_I64, offsetof(struct replay_values, gpus_per_node),
     .fallback = "8", .min = 1, .max = TRACE_GPUS_MAX, .value = "N",
     .help = "and so many GPUs on each"},
    {"queues", 'q', OPTION_STR, offsetof(struct replay_values, queues), .value = "FILE",
     .help = "manifests of queues with quotas, limits and weights, as kubectl get queues -o yaml "
             "prints them"},
    {"seeds", 's', OPTION_I64, offsetof(struct replay_values, seeds), .fallback = "1", .min = 1,
     .max = 1000, .value = "N", .help = "orders in which jobs that never end are drawn"},
    {"window", 'w', OPTION_I64, offsetof(struct replay_values, window), .fallback = "32", .min = 1,
     .max = 100000, .value = "N", .help = "waiting jobs of each queue that are looked at"},
    {"reserve-after", 0, OPTION_DURATION, offsetof(struct replay_values, reserve_after_ms),
     .fallback = "1000h", .min = 0, .max = INT64_MAX, .value = "TIME",
     .help = "muster: when room is kept for a gang that waits"},
    {"lend-expected", 0, OPTION_BOOL, offsetof(struct replay_values, lend_expected),
     .help = "muster: lend that room to jobs that are expected to end in time"},
    {"preemptible", 0, OPTION_BOOL, offsetof(struct replay_values, preemptible),
     .help = "jobs may be evicted for queues below their fair share, and start again"},
    {"estimates", 0, OPTION_I64, offsetof(struct replay_values, estimates), .fallback = "0",
     .min = 0, .max = TRACE_JOBS_MAX, .value = "N",
     .help = "ask about N jobs, evenly chosen, when they will start, and say how often it was so"},
    {"output", 'o', OPTION_CHOICE, offsetof(struct replay_values, output), .fallback = "table",
     .choices = outputs, .value = "FORMAT", .help = "table, json or csv"},
    {"page", 0, OPTION_STR, offsetof(struct replay_values, page), .value = "FILE",
     .help = "write a page with curves there too"},
    {0},
};

static volatile sig_atomic_t stopped;

static void on_stop(int signal)
{
    (void)signal;
    stopped = 1;
}

#define PROGRESS_BAR   "=============================="
#define PROGRESS_WIDTH ((int)sizeof(PROGRESS_BAR) - 1)

struct progress_line {
    const char *policy;
    bool shown;
};

static void on_progress(void *user, double share)
{
    struct progress_line *line = user;

    if (!line->shown)
        return;
    int done = (int)(share * PROGRESS_WIDTH);

    (void)fprintf(stderr, "\r%-10s [%.*s%*s] %3.0f %%", line->policy, done, PROGRESS_BAR,
                  PROGRESS_WIDTH - done, "", 100 * share);
    (void)fflush(stderr);
}

struct policies VEC_FIELDS(const struct replay_policy *);

static int add_policies(struct arena *arena,
                        struct str names,
                        struct policies *ret,
                        struct err *err)
{
    struct str name = STR_NONE;

    while (names.len && str_cut(&names, ',', &name)) {
        const struct replay_policy *policy = replay_policy_named(name);

        if (!policy)
            return err_set(err, -EINVAL,
                           "--policy: \"" STR_FMT "\" is none of muster, kai, fifo, fgd, best-fit, "
                           "random and las",
                           STR_ARG(name));
        VEC_PUSH(arena, ret, policy);
    }
    return 0;
}

struct job {
    struct trace trace;
    struct trace_nodes nodes;
    struct replay_queues queues;
    struct policies policies;
    struct replay_results results;
};

static int load(struct invocation *invocation, struct job *job, struct err *err)
{
    const struct replay_values *values = invocation->values;
    struct arena *arena = invocation->arena;
    struct str text = STR_NONE;
    int r = 0;

    for (size_t i = 0; i < values->policies.count && r == 0; i++)
        r = add_policies(arena, str_from(values->policies.items[i]), &job->policies, err);
    if (!values->policies.count)
        r = add_policies(arena, STR("muster,kai,fifo"), &job->policies, err);
    if (r == 0)
        r = file_read(arena, invocation->args[0], &text, err);
    if (r == 0)
        r = trace_parse(arena, invocation->args[0], text, &job->trace, err);
    if (r == 0 && values->estimates && !job->trace.ends)
        r = err_set(err, -EINVAL, "--estimates: %s has no column for run times, so no job waits",
                    invocation->args[0]);
    if (r == 0 && values->queues)
        r = file_read(arena, values->queues, &text, err);
    if (r == 0 && values->queues)
        r = replay_queues_parse(arena, values->queues, text, torchrun_queue_manifest, &job->queues,
                                err);
    if (r < 0)
        return r;
    if (!values->cluster) {
        trace_make_nodes(arena, values->nodes, values->gpus_per_node, &job->nodes);
        return 0;
    }
    r = file_read(arena, values->cluster, &text, err);
    return r < 0 ? r : trace_parse_nodes(arena, values->cluster, text, &job->nodes, err);
}

static void run_all(struct invocation *invocation, struct job *job)
{
    const struct replay_values *values = invocation->values;
    struct progress_line line = {.shown = isatty(STDERR_FILENO) != 0};

    for (size_t p = 0; p < job->policies.count; p++)
        for (int64_t seed = 1; seed <= (job->trace.ends ? 1 : values->seeds) && !stopped; seed++) {
            struct replay_options options = {.world = {.policy = job->policies.items[p],
                                                       .trace = &job->trace,
                                                       .nodes = &job->nodes,
                                                       .queues = job->queues.items,
                                                       .queue_count = job->queues.count,
                                                       .preemptible = values->preemptible,
                                                       .reserve_after_ms = values->reserve_after_ms,
                                                       .lend_expected = values->lend_expected},
                                             .seed = (uint64_t)seed,
                                             .window = (size_t)values->window,
                                             .estimates = (size_t)values->estimates,
                                             .stop = &stopped,
                                             .progress = on_progress,
                                             .user = &line};
            struct replay_result result;

            line.policy = options.world.policy->name;
            if (job->trace.ends)
                replay_time(invocation->arena, &options, &result);
            else
                replay_fill(invocation->arena, &options, &result);
            VEC_PUSH(invocation->arena, &job->results, result);
        }
    if (line.shown)
        (void)fprintf(stderr, "\r%*s\r", PROGRESS_WIDTH + 20, "");
}

static int write_all(struct invocation *invocation, const struct job *job, struct err *err)
{
    const struct replay_values *values = invocation->values;
    _cleanup_(buf_done) struct buf out = {0};
    _cleanup_(buf_done) struct buf page = {0};
    struct replay_report report = {.arena = invocation->arena,
                                   .trace = &job->trace,
                                   .trace_name = invocation->args[0],
                                   .node_count = job->nodes.count,
                                   .results = &job->results};

    for (size_t i = 0; i < job->nodes.count; i++)
        report.gpus += job->nodes.items[i].gpus;
    if (values->output == 0)
        report_table(&out, &report);
    else if (values->output == 1)
        report_json(&out, &report);
    else
        report_csv(&out, &report);
    (void)fwrite(out.p, 1, out.len, stdout);
    if (!values->page)
        return 0;
    report_page(&page, &report);
    return file_replace(values->page, buf_str(&page), 0644, err);
}

static int recording_run(struct invocation *invocation)
{
    const struct replay_values *values = invocation->values;
    struct policies policies = {0};
    struct err err = {0};
    int r = 0;

    for (size_t i = 0; i < values->policies.count && r == 0; i++)
        r = add_policies(invocation->arena, str_from(values->policies.items[i]), &policies, &err);
    if (values->queues)
        r = err_set(&err, -EINVAL, "--queues: a recording has its own queues");
    if (r == 0 && policies.count > 1)
        r = err_set(&err, -EINVAL, "--policy: a recording is compared with one policy at a time");
    if (r == 0)
        r = replay_recording(invocation->args[0], policies.count ? policies.items[0] : NULL, &err);
    if (r < 0)
        (void)fprintf(stderr, "muster replay: %s\n", err.text);
    return r < 0 ? 1 : 0;
}

static int replay_run(struct invocation *invocation)
{
    struct job job = {0};
    struct err err = {0};
    int r = 0;

    if (replay_is_recording(invocation->args[0]))
        return recording_run(invocation);
    r = load(invocation, &job, &err);
    if (r == 0) {
        (void)signal(SIGINT, on_stop);
        run_all(invocation, &job);
        r = write_all(invocation, &job, &err);
    }
    if (r < 0)
        (void)fprintf(stderr, "muster replay: %s\n", err.text);
    return r < 0 ? 1 : 0;
}

const struct command command_replay = {
    .name = "replay",
    .summary = "compare schedulers on a trace of jobs",
    .usage = "TRACE|RECORDING",
    .about =
        "Plays a trace of jobs, a CSV file, through the scheduler's own core on virtual time, once "
        "for each policy, and reports how long jobs waited and how well the GPUs were used. Jobs "
        "with run times come and go; jobs without are placed one by one until they ask for 130 % "
        "of the GPUs. Nothing is contacted. Ctrl-C reports what is known by then. A recording of "
        "muster up --record FOLDER is repeated, decision by decision, and must come to the same; "
        "with --policy it says what another policy would have decided.",
    .example = "muster replay examples/replay/small.csv --nodes 8\n"
               "muster replay jobs.csv --cluster nodes.csv --policy muster,kai --page replay.html\n"
               "muster replay jobs.csv --queues queues.yaml --preemptible\n"
               "muster replay recordings/2026-11-16T10:00:00Z-001.recording --policy kai",
    .options = replay_options,
    .values_size = sizeof(struct replay_values),
    .args_min = 1,
    .args_max = 1,
    .run = replay_run,
};
