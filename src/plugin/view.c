#include "plugin/view.h"

#include "api/gpu.h"
#include "api/gpus.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"
#include "estimate/band.h"
#include "plugin/job.h"
#include "tool/term.h"

#include <string.h>

#define BAR_WIDTH   24
#define COMMAND_MIN 12 /* columns; of a shorter one nobody could read a thing */
#define COMMAND_GAP 3
#define LAST_LINES  "; its last lines:"
#define AS_ABOVE    "as above"

static struct str number_or(struct arena *arena, const struct json *value, const char *otherwise)
{
    int64_t number;

    return json_i64(value, &number) ? str_printf(arena, "%lld", (long long)number)
                                    : str_from(otherwise);
}

struct str view_phase(struct str phase)
{
    return phase.len ? phase : STR("Queued");
}

static bool is_group_of(const struct object *group, const struct object *job)
{
    const struct object_owner *owner = object_controller(group);

    return job->uid.len &&
           ((owner && str_eq(owner->uid, job->uid)) || str_contains(group->name, job->uid));
}

/* A group that says nothing does not wait any more. */
static const struct json *group_estimate(const struct json *group)
{
    return json_str_at(group, "status.message").len ? json_at(group, "status.explanation.estimate")
                                                    : NULL;
}

/* What the scheduler expects of the start of a job that waits; NULL: nothing. */
static const struct json *estimate_of(struct arena *arena,
                                      const struct object *job,
                                      struct view_objects groups)
{
    for (size_t i = 0; i < groups.count; i++) {
        const struct json *found = NULL;

        if (is_group_of(groups.items[i], job))
            found = group_estimate(object_json(groups.items[i], arena));
        if (found)
            return found;
    }
    return NULL;
}

struct str view_starts(struct arena *arena,
                       const struct object *job,
                       struct view_objects groups,
                       int64_t now_ms)
{
    return band_words(arena, estimate_of(arena, job, groups), now_ms);
}

/* The columns that every table of jobs has. */
static void job_cells(struct table *table,
                      struct arena *arena,
                      const struct object *job,
                      const struct view_jobs_options *options)
{
    struct json *tree = object_json(job, arena);
    struct json *status = json_get(tree, "status");

    table_add(table, options->with_namespace ? str_printf(arena, STR_FMT "/" STR_FMT,
                                                          STR_ARG(job->ns), STR_ARG(job->name))
                                             : job->name);
    table_add(table, job_queue(tree));
    table_add(table, number_or(arena, json_get(status, "numGPUs"), "-"));
    table_add(table, number_or(arena, json_get(status, "numNodes"), "-"));
    table_add(table, view_phase(json_str_at(tree, "status.phase")));
    table_add(table, json_str(json_get(status, "workersStatus")));
    table_add(table, time_age(arena, options->now_ms - job->created_ms));
}

static void view_jobs_wide(struct buf *out,
                           struct arena *arena,
                           struct view_objects jobs,
                           const struct view_jobs_options *options)
{
    static const char *const headers[] = {"NAME",      "QUEUE",   "GPUS", "PODS",
                                          "PHASE",     "WORKERS", "AGE",  "RESTARTS",
                                          "STARTS IN", "MESSAGE", NULL};
    struct table table;

    table_init(&table, arena, headers);
    for (size_t i = 0; i < jobs.count; i++) {
        struct json *status = json_get(object_json(jobs.items[i], arena), "status");

        job_cells(&table, arena, jobs.items[i], options);
        table_add(&table, number_or(arena, json_get(status, "restarts"), "0"));
        table_add(&table, band_short(arena, estimate_of(arena, jobs.items[i], options->groups),
                                     options->now_ms));
        table_add(&table, json_str(json_get(status, "message")));
    }
    table_write(out, &table, true);
}

/* What a wide table has more of a job, as a line below it; nothing where there is nothing to say. */
static void job_more(struct buf *out,
                     struct arena *arena,
                     const struct object *job,
                     const struct view_jobs_options *options)
{
    struct json *status = json_get(object_json(job, arena), "status");
    struct str starts =
        band_short(arena, estimate_of(arena, job, options->groups), options->now_ms);
    struct str message = json_str(json_get(status, "message"));
    struct buf line = {0};
    int64_t restarts = 0;

    if (json_i64(json_get(status, "restarts"), &restarts) && restarts)
        buf_addf(&line, "%lld restart%s", (long long)restarts, restarts == 1 ? "" : "s");
    if (starts.len && !str_is(starts, "-"))
        buf_addf(&line, "%sstarts in " STR_FMT, line.len ? "; " : "", STR_ARG(starts));
    if (message.len)
        buf_addf(&line, "%s" STR_FMT, line.len ? "; " : "", STR_ARG(message));
    if (line.len)
        term_wrap(out, str_printf(arena, "    " STR_FMT "\n", STR_ARG(buf_str(&line))),
                  options->wraps_at);
    buf_done(&line);
}

static bool text_fits(struct str text, unsigned columns)
{
    struct str line;

    while (text.len && str_cut(&text, '\n', &line))
        if (line.len > columns)
            return false;
    return true;
}

/* In one line of so many columns at most. */
static struct str job_command_line(struct arena *arena, const struct object *job, size_t room)
{
    struct str command = str_trim(json_str_at(object_json(job, arena), "spec.command"));
    size_t end = str_find(command, '\n');

    if (end == command.len && end <= room)
        return command;
    return str_printf(arena, STR_FMT "..",
                      STR_ARG(str_sub(command, 0, end < room - 2 ? end : room - 2)));
}

/* With `room` columns for the commands; 0: without them. */
static void view_jobs_table(struct buf *out,
                            struct arena *arena,
                            struct view_objects jobs,
                            const struct view_jobs_options *options,
                            size_t room)
{
    static const char *const headers[] = {"NAME",    "QUEUE", "GPUS",    "PODS", "PHASE",
                                          "WORKERS", "AGE",   "COMMAND", NULL};
    static const char *const short_headers[] = {"NAME",  "QUEUE",   "GPUS", "PODS",
                                                "PHASE", "WORKERS", "AGE",  NULL};
    struct table table;

    table_init(&table, arena, room ? headers : short_headers);
    table.wraps_at = options->wraps_at;
    for (size_t i = 0; i < jobs.count; i++) {
        job_cells(&table, arena, jobs.items[i], options);
        if (room)
            table_add(&table, job_command_line(arena, jobs.items[i], room));
    }
    table_write(out, &table, true);
}

/* What the lines leave of the terminal for commands; the other columns are not cut for them. */
static size_t view_jobs_room(struct str rows, unsigned wraps_at)
{
    size_t widest = 0;
    struct str line;

    if (!wraps_at)
        return SIZE_MAX;
    while (str_cut(&rows, '\n', &line))
        widest = line.len > widest ? line.len : widest;
    return widest + COMMAND_GAP + COMMAND_MIN <= wraps_at ? wraps_at - widest - COMMAND_GAP : 0;
}

void view_jobs(struct buf *out,
               struct arena *arena,
               struct view_objects jobs,
               const struct view_jobs_options *options)
{
    _cleanup_(buf_done) struct buf rows = {0};
    struct str line;

    if (options->wide) {
        view_jobs_wide(&rows, arena, jobs, options);
        if (!options->wraps_at || text_fits(buf_str(&rows), options->wraps_at)) {
            buf_add(out, buf_str(&rows));
            return;
        }
        buf_clear(&rows);
    }
    view_jobs_table(&rows, arena, jobs, options, 0);
    size_t room = options->wide ? 0 : view_jobs_room(buf_str(&rows), options->wraps_at);
    if (room) {
        buf_clear(&rows);
        view_jobs_table(&rows, arena, jobs, options, room);
    }
    struct str text = buf_str(&rows);
    for (size_t i = 0; text.len && str_cut(&text, '\n', &line); i++) {
        buf_addf(out, STR_FMT "\n", STR_ARG(line));
        if (options->wide && i > 0 && i <= jobs.count) /* the first line has the headers */
            job_more(out, arena, jobs.items[i - 1], options);
    }
}

struct str view_pod_words(struct arena *arena, const struct json *pod)
{
    const struct json *state = json_at(pod, "status.containerStatuses.0.state");
    struct str words = json_str_at(state, "waiting.message");

    if (!words.len)
        words = json_str_at(state, "terminated.message");
    JSON_FOREACH(json_at(pod, "status.conditions"), condition) {
        if (!words.len && str_is(json_str(json_get(condition, "type")), "PodScheduled") &&
            !str_is(json_str(json_get(condition, "status")), "True"))
            words = json_str(json_get(condition, "message"));
    }
    words = str_sub(words, 0, str_find(words, '\n'));
    if (str_ends(words, STR(LAST_LINES))) /* which are not shown here */
        words.len -= strlen(LAST_LINES);
    return term_moments(arena, words);
}

void view_line(struct buf *out, const char *name, struct str value)
{
    if (value.len)
        buf_addf(out, "%-12s " STR_FMT "\n", name, STR_ARG(value));
}

/* The gang, its pods and the scheduler often say the same: once is enough. */
static bool is_said(const struct buf *out, struct str sentence)
{
    return sentence.len && str_contains(buf_str(out), sentence);
}

void view_pods(struct buf *out, struct arena *arena, struct view_objects pods, unsigned wraps_at)
{
    static const char *const headers[] = {"POD", "PHASE", "NODE", "GENERATION", "WORDS", NULL};
    struct str before = STR("");
    struct table table;

    if (pods.count == 0)
        return;
    table_init(&table, arena, headers);
    table.wraps_at = wraps_at;
    for (size_t i = 0; i < pods.count; i++) {
        const struct object *pod = pods.items[i];
        struct json *tree = object_json(pod, arena);
        struct str node = json_str_at(tree, "spec.nodeName");
        struct str words;
        bool said;

        table_add(&table, pod->name);
        table_add(&table, pod->deleted_ms ? STR("Terminating") : json_str_at(tree, "status.phase"));
        table_add(&table, node.len ? node : STR("<none>"));
        table_add(&table, object_label(pod, "torchrun.ai/generation"));
        words = view_pod_words(arena, tree);
        said = words.len && (is_said(out, words) || str_eq(words, before));
        table_add(&table, said ? STR(AS_ABOVE) : words);
        before = words;
    }
    buf_addc(out, '\n');
    table_write(out, &table, true);
}

/* ---- top ---- */

/* GPUs that pods on this node hold. */
static int64_t node_used(struct arena *arena, struct view_objects pods, struct str node)
{
    int64_t used = 0;

    for (size_t i = 0; i < pods.count; i++) {
        struct json *tree = object_json(pods.items[i], arena);
        struct str phase = json_str_at(tree, "status.phase");

        if (!str_eq(json_str_at(tree, "spec.nodeName"), node) || str_is(phase, "Succeeded") ||
            str_is(phase, "Failed"))
            continue;
        JSON_FOREACH(json_at(tree, "spec.containers"), container) {
            int64_t gpus = gpus_of(json_at(container, "resources.requests"));

            used += gpus ? gpus : gpus_of(json_at(container, "resources.limits"));
        }
    }
    return used;
}

static void bar_add(struct buf *out, int64_t used, int64_t total)
{
    int64_t filled = total > 0 ? used * BAR_WIDTH / total : 0;

    buf_addc(out, '[');
    for (int64_t i = 0; i < BAR_WIDTH; i++)
        buf_addc(out, i < filled ? '#' : '.');
    buf_addf(out, "] %lld of %lld GPUs\n", (long long)used, (long long)total);
}

/* Which node others are on is not for everybody's eyes; how full the machine is, is. */
static void all_nodes_add(struct buf *out, struct arena *arena, const struct view_top *view)
{
    struct quantity used = {0};
    int64_t total = 0;

    for (size_t i = 0; i < view->nodes.count; i++)
        total += gpus_of(json_at(object_json(view->nodes.items[i], arena), "status.allocatable"));
    for (size_t i = 0; i < view->groups.count; i++) {
        const struct json *allocated =
            json_at(object_json(view->groups.items[i], arena), "status.resourcesStatus.allocated");
        struct quantity one = {0};

        (void)quantity_parse_json(json_get(allocated, GPU_RESOURCE), &one, NULL);
        used.nano += one.nano;
    }
    buf_addf(out, "%-20s ", "all nodes");
    bar_add(out, (int64_t)((used.nano + QUANTITY_NANO - 1) / QUANTITY_NANO), total);
}

void view_top(struct buf *out, struct arena *arena, const struct view_top *view)
{
    static const char *const headers[] = {"JOB",     "QUEUE", "GPUS",      "PHASE",
                                          "WORKERS", "AGE",   "WAITS FOR", NULL};
    struct table table;
    char stamp[TIME_TEXT_BYTES];

    buf_addf(out, "muster  " STR_FMT "  %zu nodes, %zu pods, %zu jobs\n\n",
             STR_ARG(term_moment(arena, time_format(view->now_ms, stamp))), view->nodes.count,
             view->pods.count, view->jobs.count);
    if (view->own)
        all_nodes_add(out, arena, view);
    for (size_t i = 0; !view->own && i < view->nodes.count; i++) {
        const struct object *node = view->nodes.items[i];

        buf_addf(out, "%-20.*s ", (int)node->name.len, node->name.p);
        bar_add(out, node_used(arena, view->pods, node->name),
                gpus_of(json_at(object_json(node, arena), "status.allocatable")));
    }
    buf_addc(out, '\n');
    table_init(&table, arena, headers);
    table.wraps_at = view->wraps_at;
    for (size_t i = 0; i < view->jobs.count; i++) {
        const struct object *job = view->jobs.items[i];
        struct json *tree = object_json(job, arena);
        struct str phase = view_phase(json_str_at(tree, "status.phase"));
        bool runs = str_is(phase, "Running") || str_is(phase, "Succeeded");

        table_add(&table, job->name);
        table_add(&table, job_queue(tree));
        table_add(&table, number_or(arena, json_at(tree, "status.numGPUs"), "0"));
        table_add(&table, phase);
        table_add(&table, json_str_at(tree, "status.workersStatus"));
        table_add(&table, time_age(arena, view->now_ms - job->created_ms));
        table_add(&table, runs ? STR("") : json_str_at(tree, "status.message"));
    }
    table_write(out, &table, true);
}
