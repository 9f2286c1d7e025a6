#include "plugin/explain_view.h"

#include "api/group.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "estimate/band.h"
#include "plugin/job.h"
#include "plugin/queues_view.h"
#include "plugin/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define EVENTS_SHOWN 10

static void explain_line(struct buf *out, const char *label, struct str text)
{
    if (text.len)
        buf_addf(out, "%-12s " STR_FMT "\n", label, STR_ARG(text));
}

/* The job, its gang, its pods and the scheduler often say the same: once is enough. */
static void explain_new(struct buf *out, const char *label, struct str text)
{
    if (text.len && !str_contains(buf_str(out), text))
        explain_line(out, label, text);
}

static const struct json *explain_what(const struct explain_view *view)
{
    return view->job ? view->job : view->pod ? view->pod : view->group;
}

static void explain_queue(struct buf *out, struct arena *arena, const struct explain_view *view)
{
    struct str name = json_str_at(view->group, "spec.queue");
    const struct json *queue = view->queue;

    if (!name.len) /* another scheduler's group */
        return;
    if (!queue)
        explain_line(out, "Queue",
                     view->queue_hidden
                         ? name
                         : str_printf(arena, STR_FMT " does not exist; see: %s queues",
                                      STR_ARG(name), view->program));
    else
        explain_line(out, "Queue",
                     str_printf(arena,
                                STR_FMT ", in GPUs: holds " STR_FMT ", asks for " STR_FMT
                                        ", fair share " STR_FMT ", quota " STR_FMT
                                        ", limit " STR_FMT,
                                STR_ARG(name), STR_ARG(queue_amount(arena, queue, "allocated")),
                                STR_ARG(queue_amount(arena, queue, "requested")),
                                STR_ARG(queue_amount(arena, queue, "fairShare")),
                                STR_ARG(queue_share(arena, queue, "quota")),
                                STR_ARG(queue_share(arena, queue, "limit"))));
}

static void explain_place(struct buf *out,
                          struct arena *arena,
                          const struct explain_view *view,
                          const struct json *record)
{
    long long waiting = json_i64_or(json_at(view->queue, "status.pendingGroups"), 0);
    long long line = json_i64_or(json_get(record, "line"), 0);
    struct str place = json_number_text(json_get(record, "place"));

    /* It waits, so one waits at least: the queue's status is older than the record. */
    if (!waiting)
        waiting = line;
    /* The record is written when its words change, not whenever somebody joins the line. */
    if (json_get(record, "place") && line == waiting)
        explain_line(
            out, "In line",
            str_printf(arena, STR_FMT " of %lld that wait in its queue", STR_ARG(place), waiting));
    else if (json_get(record, "place") && waiting)
        explain_line(out, "In line",
                     str_printf(arena,
                                "was number " STR_FMT " when this was written; %lld wait in its "
                                "queue now",
                                STR_ARG(place), waiting));
}

/* What the scheduler recorded beside its sentence: how nodes turn the pods away, what would help,
 * and its place in line. */
static void explain_scheduler(struct buf *out,
                              struct arena *arena,
                              const struct explain_view *view,
                              const struct json *record)
{
    struct str nodes = STR_NONE;

    JSON_FOREACH(json_get(record, "nodes"), member)
        nodes = str_printf(arena, STR_FMT "%s" STR_FMT " " STR_FMT, STR_ARG(nodes),
                           nodes.len ? ", " : "", STR_ARG(json_number_text(member)),
                           STR_ARG(json_key(member)));
    explain_line(out, "Nodes", nodes);
    explain_line(out, "Would help", json_str(json_get(record, "change")));
    explain_place(out, arena, view, record);
    if (json_get(record, "roomKeptSince"))
        explain_line(out, "Room",
                     str_printf(arena, "has been kept for it since " STR_FMT,
                                STR_ARG(json_str(json_get(record, "roomKeptSince")))));
    explain_line(out, "Estimate", band_words(arena, json_get(record, "estimate"), view->now_ms));
    explain_line(out, "Starts by", json_str(json_get(record, "startsBy")));
}

/* What a pod that has a node still waits for there: an image, a volume. */
static struct str pod_held_up(struct arena *arena, const struct json *pod)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};

    if (!json_str_at(pod, "spec.nodeName").len ||
        !str_is(json_str_at(pod, "status.phase"), "Pending"))
        return STR_NONE;
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_at(pod, lists[i]), container) {
            struct str reason = json_str_at(container, "state.waiting.reason");
            struct str message = json_str_at(container, "state.waiting.message");

            if (reason.len)
                return str_printf(arena, STR_FMT " on node " STR_FMT ": " STR_FMT "%s" STR_FMT,
                                  STR_ARG(json_str_at(pod, "metadata.name")),
                                  STR_ARG(json_str_at(pod, "spec.nodeName")), STR_ARG(reason),
                                  message.len ? ": " : "", STR_ARG(message));
        }
    return STR_NONE;
}

/* Those of what is asked about, of all that there are. */
static struct view_objects explain_pods(struct arena *arena, const struct explain_view *view)
{
    struct view_objects own = {.items =
                                   ARENA_ARRAY(arena, const struct object *, view->pods.count + 1)};
    struct str group = json_str_at(view->group, "metadata.name");

    for (size_t i = 0; i < view->pods.count; i++) {
        const struct object *pod = view->pods.items[i];

        if ((group.len && str_eq(pod->group, group)) ||
            (view->job && job_owns(str_c(arena, view->name), pod)))
            own.items[own.count++] = pod;
    }
    return own;
}

/* The first pod that has a node and does not run there. */
static void explain_start(struct buf *out,
                          struct arena *arena,
                          const struct explain_view *view,
                          struct view_objects pods)
{
    struct str text = pod_held_up(arena, view->pod);

    for (size_t i = 0; !view->pod && !text.len && i < pods.count; i++)
        text = pod_held_up(arena, object_json(pods.items[i], arena));
    explain_line(out, "Starting", text);
}

static void explain_group(struct buf *out, struct arena *arena, const struct json *group)
{
    long long least = (long long)group_minimum(json_get(group, "spec"));
    struct str start = least == 1 ? STR("one pod is enough to start")
                                  : str_printf(arena, "starts with %lld pods or not at all", least);

    explain_line(out, "Group",
                 str_printf(arena, STR_FMT "; %lld run, %lld wait", STR_ARG(start),
                            (long long)json_i64_or(json_at(group, "status.running"), 0),
                            (long long)json_i64_or(json_at(group, "status.pending"), 0)));
    JSON_FOREACH(json_at(group, "status.conditions"), condition)
        if (str_is(json_str(json_get(condition, "status")), "True"))
            explain_new(out, "Warning", json_str(json_get(condition, "message")));
}

/* Later changes have larger numbers; names and times say less. */
static int event_compare(const void *a, const void *b)
{
    const struct object *const *x = a;
    const struct object *const *y = b;

    return ((*x)->revision > (*y)->revision) - ((*x)->revision < (*y)->revision);
}

static void explain_events(struct buf *out, struct arena *arena, const struct explain_view *view)
{
    size_t shown = 0;

    if (view->events.count)
        qsort(view->events.items, view->events.count, sizeof(*view->events.items), event_compare);
    for (size_t i = view->events.count; i-- > 0 && shown < EVENTS_SHOWN;) {
        struct json *tree = object_json(view->events.items[i], arena);
        struct str about = json_str_at(tree, "involvedObject.name");
        struct str message = json_str(json_get(tree, "message"));

        if (!str_starts(about, view->name) || str_contains(buf_str(out), message))
            continue;
        if (shown++ == 0)
            buf_add(out, STR("\nEvents, newest first:\n"));
        buf_addf(out, "  " STR_FMT "  " STR_FMT ": " STR_FMT "\n", STR_ARG(about),
                 STR_ARG(json_str(json_get(tree, "reason"))), STR_ARG(message));
    }
}

static struct str explain_kind(const struct explain_view *view)
{
    return json_str(json_get(view->owner ? view->owner : explain_what(view), "kind"));
}

static void explain_gang(struct buf *out,
                         struct arena *arena,
                         const struct explain_view *view,
                         struct view_objects pods)
{
    explain_group(out, arena, view->group);
    explain_start(out, arena, view, pods);
    struct str why = json_str_at(view->group, "status.message");
    explain_new(out, "Waits", why);
    JSON_FOREACH(json_at(view->group, "status.schedulingConditions"), condition)
        explain_new(out, "Scheduler", json_str(json_get(condition, "message")));
    JSON_FOREACH(json_at(view->group, "status.schedulingConditions.0.reasons"), reason)
        explain_line(out, "Reason", json_str(json_get(reason, "reason")));
    explain_queue(out, arena, view);
    if (why.len)
        explain_scheduler(out, arena, view, json_at(view->group, "status.explanation"));
}

void explain_write(struct buf *out, struct arena *arena, const struct explain_view *view)
{
    const struct json *what = explain_what(view);
    struct str phase = json_str_at(what, "status.phase");
    struct str kind = explain_kind(view);
    struct view_objects pods = explain_pods(arena, view);

    explain_line(out, kind.len ? str_c(arena, kind) : "",
                 str_printf(arena, STR_FMT "/" STR_FMT ": " STR_FMT, STR_ARG(view->ns),
                            STR_ARG(view->name), STR_ARG(view_phase(phase))));
    explain_line(out, "Says", json_str_at(what, "status.message"));
    if (view->job && json_at(what, "status.numGPUs"))
        explain_line(out, "Size",
                     str_printf(arena, STR_FMT " GPUs in pods of " STR_FMT,
                                STR_ARG(json_number_text(json_at(what, "status.numGPUs"))),
                                STR_ARG(json_str_at(what, "status.distribution"))));
    if (view->group)
        explain_gang(out, arena, view, pods);
    else
        explain_line(out, "Group", STR("none yet"));
    if (view->job)
        view_pods(out, arena, pods, view->wraps_at);
    explain_events(out, arena, view);
}

struct json *explain_record(struct arena *arena, const struct explain_view *view)
{
    struct json *out = json_new_object(arena);
    const struct json *what = explain_what(view);
    const struct json *record = json_at(view->group, "status.explanation");

    json_fill(arena, out,
              "{kind: $, namespace: $, name: $, phase: $, message: $, group: $, "
              "queue: $}",
              explain_kind(view), view->ns, view->name, json_str_at(what, "status.phase"),
              json_str_at(what, "status.message"), json_str_at(view->group, "metadata.name"),
              json_str_at(view->group, "spec.queue"));
    if (record)
        json_set(out, STR("explanation"), json_clone(arena, record));
    return out;
}
