#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "sched/explain.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/queue.h"
#include "sched/quota.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What whoever asks is told beyond the record: the smallest change, the queue's numbers, the place
 * in line. Worked out when asked. */

static const char *const names[SCHED_RESOURCES] = {"cpu", "memory", "gpu"};

/* The filter that turned most nodes away, of those that are ready; with none of these, UNREADY. */
static enum sched_filter most_common(const struct sched_why *why)
{
    unsigned most = SCHED_FILTER_UNREADY;

    for (unsigned f = 0; f < SCHED_FILTER_COUNT; f++)
        if (f != SCHED_FILTER_UNREADY && why->nodes[f] &&
            (most == SCHED_FILTER_UNREADY || why->nodes[f] > why->nodes[most]))
            most = f;
    return (enum sched_filter)most;
}

/* A resource besides CPU, memory and GPUs. */
static struct str other_change(struct arena *arena, const struct sched_why *why)
{
    return str_printf(arena,
                      why->reason == SCHED_REASON_TOO_BIG ? "add a node with %lld of " STR_FMT
                                                            ", or ask for less in each pod"
                                                          : "%lld of " STR_FMT " free on one node",
                      (long long)why->other_asked, STR_ARG(why->other));
}

static struct str node_change(struct arena *arena, const struct sched_why *why)
{
    struct str amount = explain_amount(arena, (int)why->resource, why->missing);

    if (why->reason == SCHED_REASON_NO_NODE) {
        enum sched_filter most = most_common(why);

        if (why->nodes[SCHED_FILTER_SHUT])
            return STR(
                "check why reservation pods fail on that node; it is tried again in minutes");
        return most == SCHED_FILTER_TAINT ? STR("tolerate the taint, or add a node without it")
               : most == SCHED_FILTER_UNREADY
                   ? STR("bring a node back: none is ready and uncordoned")
               : most == SCHED_FILTER_GPU_TYPE
                   ? STR("add a node with that kind of GPU")
                   : STR("label a node as its selector asks, or change the selector");
    }
    if (why->other.len)
        return other_change(arena, why);
    if (why->reason == SCHED_REASON_TOO_BIG)
        return str_printf(arena,
                          "add a node with " STR_FMT " more than the largest there is, or ask for "
                          "less in each pod",
                          STR_ARG(amount));
    if (why->reason == SCHED_REASON_TOO_LARGE)
        return str_printf(arena, "add nodes with " STR_FMT " more, or ask for fewer pods",
                          STR_ARG(amount));
    if (why->reason == SCHED_REASON_FRAGMENTED && why->missing)
        return str_printf(arena, STR_FMT " more free on one node", STR_ARG(amount));
    if (why->reason == SCHED_REASON_FRAGMENTED)
        return STR("the free room, but in one place");
    return why->missing ? str_printf(arena, STR_FMT " more free", STR_ARG(amount))
                        : STR("another node, or the end of work on these nodes");
}

static struct str change_of(struct arena *arena, const struct sched_explanation *from)
{
    const struct sched_why *why = &from->why;
    struct str amount = explain_amount(arena, (int)why->resource, why->missing);
    struct str queue = from->numbers.name;

    switch (why->reason) {
    case SCHED_REASON_NOT_READY:
        return str_printf(arena, "%lld more pod%s", (long long)why->missing,
                          why->missing == 1 ? "" : "s");
    case SCHED_REASON_NO_GROUP:
        return why->elsewhere ? STR("run the scheduler that its pods name, or let them name none")
                              : STR("create the pod group");
    case SCHED_REASON_NO_QUEUE:
        return str_printf(arena, "create queue " STR_FMT ", or name one that exists",
                          STR_ARG(from->queue));
    case SCHED_REASON_QUEUE_BROKEN:
        return STR("name a queue that has no child queues and whose parents exist");
    case SCHED_REASON_NAMESPACE:
        return STR("name a queue that takes work of its namespace, or add it to the queue's");
    case SCHED_REASON_OVER_LIMIT:
        return str_printf(arena,
                          "raise the limit of queue " STR_FMT " by " STR_FMT
                          ", or let as much of its work end",
                          STR_ARG(queue), STR_ARG(amount));
    case SCHED_REASON_OVER_QUOTA:
        return str_printf(arena,
                          "raise the quota of queue " STR_FMT " by " STR_FMT
                          ", or make the group preemptible",
                          STR_ARG(queue), STR_ARG(amount));
    case SCHED_REASON_NO_NODE:
    case SCHED_REASON_TOO_BIG:
    case SCHED_REASON_TOO_LARGE:
    case SCHED_REASON_NO_ROOM:
    case SCHED_REASON_FRAGMENTED: return node_change(arena, why);
    case SCHED_REASON_TOPOLOGY:
        return str_contains(from->message, STR("room for"))
                   ? STR("room for all of its pods in one domain of that level")
                   : STR("create the Topology with that level, or name one that exists");
    case SCHED_REASON_AFFINITY:
        return STR("loosen its pod affinity, spread or host ports, or add a domain");
    case SCHED_REASON_TERMINATING:
        return STR("nothing: it starts when the pods that use its room have ended");
    case SCHED_REASON_RESERVED:
        return STR("nothing: it comes after the gang for which the room is reserved");
    case SCHED_REASON_INVALID: return STR("correct the pod");
    case SCHED_REASON_VOLUME:
        return STR("create the PersistentVolumeClaim, or see to it that it is bound");
    case SCHED_REASON_NO_CLAIM: return STR("create the ResourceClaim, or name one that exists");
    case SCHED_REASON_HELD:
        if (str_contains(from->message, STR("maxRunTime")))
            return STR("delete its job, or give it a longer maxRunTime");
        return str_contains(from->message, STR("schedulingBackoff"))
                   ? STR("move the group to another node pool")
                   : STR("nothing: it is tried again in a moment");
    case SCHED_REASON_GATED:
        return str_printf(arena, "remove the scheduling gates of %lld pod%s",
                          (long long)why->missing, why->missing == 1 ? "" : "s");
    case SCHED_REASON_IN_LINE: return STR("nothing: the next cycle examines it");
    case SCHED_REASON_NONE:
    case SCHED_REASON_COUNT: break;
    }
    return STR_NONE;
}

static void place_in_line(const struct group *group, struct sched_explanation *ret)
{
    const struct queue *queue = group->queue;
    int elastic = group_elastic(group);

    ret->place = 1;
    for (size_t i = 0; queue && i < queue->pending.count; i++) {
        const struct group *other = queue->pending.items[i];

        ret->line++;
        ret->place += other != group && group_line(other, group_elastic(other), group, elastic) < 0;
    }
    if (group->in_pending == LIST_NONE)
        ret->line++; /* promised room already: it stands before the line */
}

bool sched_explain(const struct sched *sched,
                   struct str ns,
                   struct str name,
                   struct arena *arena,
                   struct sched_explanation *ret)
{
    char text[KEY_BYTES];
    const struct group *group =
        ns.len + name.len + 2 < sizeof(text)
            ? map_get(
                  &sched->groups_by_key,
                  sched_key(text, sizeof(text), QUIRK(sched, GROUP_BY_NAME) ? STR_NONE : ns, name))
            : NULL;

    if (!group || !group->told || group->told_in != sched->cycle)
        return false;
    *ret = (struct sched_explanation){.ns = str_dup(arena, group->ns),
                                      .group = str_dup(arena, group->name),
                                      .queue = str_dup(arena, name_text(group->queue_name)),
                                      .message = str_dup(arena, group->told->message),
                                      .why = group->told->why,
                                      .preemptible = !group_fixed(group),
                                      .since_ms = group_waits_since(group)};
    (void)sched_queue_view(
        sched, group->told->queue.len ? group->told->queue : name_text(group->queue_name),
        &ret->numbers);
    if (group_kept(sched, group)) {
        ret->kept_since_ms = group->kept_since_ms;
        ret->kept_start_ms = group->kept_start_ms;
    }
    place_in_line(group, ret);
    ret->change = change_of(arena, ret);
    return true;
}

/* ---- JSON ---- */
/* Whole numbers where they are: thousandths of GPUs are too fine for a number people compare. */
static void add_number(struct arena *arena, struct json *to, const char *key, int64_t milli)
{
    if (milli % 1000 == 0)
        json_add_i64(arena, to, key, milli / 1000);
    else
        json_set(to, str_from(key),
                 json_new_number(arena, str_printf(arena, "%lld.%03lld", (long long)(milli / 1000),
                                                   (long long)(milli % 1000))));
}

static void add_amounts(struct arena *arena,
                        struct json *to,
                        const char *key,
                        const int64_t amounts[static SCHED_RESOURCES])
{
    struct json *object = json_add_object(arena, to, key);

    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (r == SCHED_MEMORY)
            json_add_i64(arena, object, names[r], amounts[r]);
        else
            add_number(arena, object, names[r], amounts[r]);
}

static struct json *sched_why_json(struct arena *arena, const struct sched_why *why)
{
    struct json *json =
        json_make(arena, "{reason: $, pods: $}", sched_reason_word(why->reason), why->pods);

    add_amounts(arena, json, "request", why->request);
    add_amounts(arena, json, "free", why->free);
    add_amounts(arena, json, "total", why->total);
    if (why->missing && why->reason != SCHED_REASON_NOT_READY &&
        why->reason != SCHED_REASON_GATED) {
        int64_t missing[SCHED_RESOURCES] = {0};
        missing[why->resource] = why->missing;
        add_amounts(arena, json, "missing", missing);
    } else if (why->missing) {
        json_add_i64(arena, json, "missingPods", why->missing);
    }
    if (why->other.len) {
        json_fill(arena, json, "{other: {name: $, asked: $, most: $}}", why->other,
                  why->other_asked, why->other_most);
    }
    struct json *nodes = json_add_object(arena, json, "nodes");
    for (unsigned f = 0; f < SCHED_FILTER_COUNT; f++)
        if (why->nodes[f])
            json_add_i64(arena, nodes, sched_filter_word((enum sched_filter)f), why->nodes[f]);
    if (why->nodes[SCHED_FILTER_COUNT])
        json_add_i64(arena, nodes, "possible", why->nodes[SCHED_FILTER_COUNT]);
    return json;
}

static void add_doubles(struct arena *arena,
                        struct json *to,
                        const char *key,
                        const double amounts[static SCHED_RESOURCES])
{
    struct json *object = json_add_object(arena, to, key);

    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (amounts[r] < 0)
            json_add_i64(arena, object, names[r], -1);
        else if (r == SCHED_GPU)
            add_number(arena, object, names[r], (int64_t)(amounts[r] * 1000 + 0.5));
        else
            json_add_i64(arena, object, names[r], (int64_t)amounts[r]);
}

struct json *sched_explanation_json(struct arena *arena, const struct sched_explanation *from)
{
    struct json *json = sched_why_json(arena, &from->why);
    struct json *queue = NULL;

    json_fill(arena, json,
              "{namespace: $, group: $, message: $, change: $, since: $, place: $, "
              "line: $}",
              from->ns, from->group, from->message, from->change, time_text(arena, from->since_ms),
              from->place, from->line);
    if (from->kept_since_ms)
        json_add_str(arena, json, "roomKeptSince", time_text(arena, from->kept_since_ms));
    if (from->kept_since_ms && from->kept_start_ms)
        json_add_str(arena, json, "startsBy", time_text(arena, from->kept_start_ms));
    queue = json_add_object(arena, json, "queue");
    json_add_str(arena, queue, "name", from->numbers.name.len ? from->numbers.name : from->queue);
    if (!from->numbers.name.len)
        return json;
    add_doubles(arena, queue, "quota", from->numbers.quota);
    add_doubles(arena, queue, "limit", from->numbers.limit);
    add_doubles(arena, queue, "fairShare", from->numbers.fair_share);
    add_doubles(arena, queue, "allocated", from->numbers.allocated);
    add_doubles(arena, queue, "allocatedNonPreemptible", from->numbers.allocated_non_preemptible);
    add_doubles(arena, queue, "requested", from->numbers.requested);
    return json;
}
