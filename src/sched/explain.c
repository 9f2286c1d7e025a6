#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/cycle.h"
#include "sched/place.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Why a group waits, in one sentence that says what it needs and what there is. */

#define X_WORD(name, word) [SCHED_REASON_##name] = word,
const char *sched_reason_word(enum sched_reason reason)
{
    static const char *const words[SCHED_REASON_COUNT] = {SCHED_REASONS(X_WORD)};
    return words[reason];
}
#undef X_WORD

const char *sched_action_word(enum sched_action action)
{
#define X_WORD(name, word) [SCHED_ACTION_##name] = word,
    static const char *const words[SCHED_ACTION_COUNT] = {SCHED_ACTIONS(X_WORD)};
#undef X_WORD
    return words[action];
}

const struct sched_quirk_text sched_quirk_texts[SCHED_QUIRK_COUNT] = {
#define X_TEXT(name, word, theirs, ours) {word, theirs, ours},
    SCHED_QUIRKS(X_TEXT)
#undef X_TEXT
};

void explain_failure(struct sched *sched, struct group *group, const struct failure *failure)
{
    if (!group->failure)
        group->failure = MEM_NEW(struct failure);
    *group->failure = *failure;
    group->failure->cycle = sched->cycle;
    group->failure->text = STR_NONE;
    if (failure->text.len) {
        size_t len = failure->text.len < sizeof(group->failure->words)
                         ? failure->text.len
                         : sizeof(group->failure->words);
        memcpy(group->failure->words, failure->text.p, len);
        group->failure->text = (struct str){group->failure->words, len};
    }
}

/* "8 GPUs", "1 GPU", "2.5 GPUs", "4 CPUs", "16 GiB of memory" */
static struct str amount_text(struct arena *arena, int r, int64_t amount)
{
    if (r == SCHED_GPU) {
        if (amount % GPU_MILLI == 0)
            return str_printf(arena, "%lld GPU%s", (long long)(amount / GPU_MILLI),
                              amount == GPU_MILLI ? "" : "s");
        return str_printf(arena, "%lld.%02lld GPUs", (long long)(amount / GPU_MILLI),
                          (long long)(amount % GPU_MILLI / 10));
    }
    if (r == SCHED_CPU) {
        if (amount % 1000 == 0)
            return str_printf(arena, "%lld CPU%s", (long long)(amount / 1000),
                              amount == 1000 ? "" : "s");
        return str_printf(arena, "%lldm CPU", (long long)amount);
    }
    if (amount >= 1 << 30)
        return str_printf(arena, "%lld GiB of memory", (long long)(amount >> 30));
    return str_printf(arena, "%lld MiB of memory", (long long)(amount >> 20));
}

static struct str needs_text(struct sched *sched, struct group *group)
{
    struct pod_vec tasks = {0};
    int64_t request[SCHED_RESOURCES];
    int main = SCHED_GPU;

    group_tasks(sched, group, false, &tasks);
    tasks_request(&tasks, request);
    if (!request[SCHED_GPU])
        main = request[SCHED_CPU] ? SCHED_CPU : SCHED_MEMORY;
    struct str amount = amount_text(sched->arena, main, request[main]);
    if (tasks.count <= 1)
        return str_printf(sched->arena, "needs " STR_FMT, STR_ARG(amount));
    return str_printf(sched->arena, "needs " STR_FMT " in a gang of %zu pods", STR_ARG(amount),
                      tasks.count);
}

static struct str free_text(struct sched *sched, const struct group *group, int r)
{
    static const uint32_t ids[SCHED_RESOURCES] = {RES_CPU, RES_MEMORY, RES_GPU};
    const struct pool *pool = group->queue->pool;
    int64_t unused = 0;
    int64_t total = 0;
    int64_t unit = r == SCHED_GPU ? GPU_MILLI : 1;

    for (size_t i = 0; i < pool->nodes.count; i++) {
        const struct node *node = pool->nodes.items[i];
        if (!node->schedulable)
            continue;
        unused += i64_max(0, node->idle[ids[r]]);
        total += node->total[ids[r]];
    }
    struct str all = amount_text(sched->arena, r, total * unit);
    if (r == SCHED_GPU)
        return str_printf(sched->arena, "%lld of " STR_FMT " %s free", (long long)unused,
                          STR_ARG(all), total == 1 ? "is" : "are");
    struct str some = amount_text(sched->arena, r, unused * unit);
    return str_printf(sched->arena, STR_FMT " of " STR_FMT " are free", STR_ARG(some),
                      STR_ARG(all));
}

/* "3 nodes short of GPUs, 1 node with a taint the pod does not tolerate" */
static struct str nodes_text(struct sched *sched, struct group *group, struct pod *pod)
{
    const struct pool *pool = group->queue->pool;
    size_t counts[PLACE_FILTER_COUNT + 1] = {0};
    struct str text = STR_NONE;

    for (size_t i = 0; i < pool->nodes.count; i++)
        counts[place_verdict(sched, pod, pool->nodes.items[i])]++;
    for (unsigned f = 0; f < PLACE_FILTER_COUNT; f++)
        if (counts[f])
            text = str_printf(sched->arena, STR_FMT "%s%zu node%s %s", STR_ARG(text),
                              text.len ? ", " : "", counts[f], counts[f] == 1 ? "" : "s",
                              place_filter_text((enum place_filter)f));
    return text.len ? text : str_printf(sched->arena, "there are no nodes");
}

static struct str failure_text(struct sched *sched, struct group *group, enum sched_reason *ret)
{
    static const char *const names[SCHED_RESOURCES] = {"CPU", "memory", "GPU"};
    const struct failure *failure = group->failure;
    struct str needs = needs_text(sched, group);
    const struct queue *queue = failure->queue;
    int r = (int)failure->resource;

    *ret = failure->reason;
    if (failure->reason == SCHED_REASON_OVER_LIMIT)
        return str_printf(sched->arena,
                          STR_FMT "; queue " STR_FMT " uses " STR_FMT
                                  " and its %s limit is " STR_FMT,
                          STR_ARG(needs), STR_ARG(queue->name),
                          STR_ARG(amount_text(sched->arena, r, queue->allocated[r])), names[r],
                          STR_ARG(amount_text(sched->arena, r,
                                              (int64_t)(queue->spec.quota[r].limit *
                                                        (r == SCHED_GPU ? GPU_MILLI : 1)))));
    if (failure->reason == SCHED_REASON_OVER_QUOTA)
        return str_printf(sched->arena,
                          STR_FMT " and is not preemptible; queue " STR_FMT " uses " STR_FMT
                                  " of its %s quota of " STR_FMT " for such work",
                          STR_ARG(needs), STR_ARG(queue->name),
                          STR_ARG(amount_text(sched->arena, r, queue->fixed[r])), names[r],
                          STR_ARG(amount_text(sched->arena, r,
                                              (int64_t)(queue->spec.quota[r].quota *
                                                        (r == SCHED_GPU ? GPU_MILLI : 1)))));
    if (failure->reason == SCHED_REASON_TOPOLOGY)
        return str_printf(sched->arena, STR_FMT "; " STR_FMT, STR_ARG(needs),
                          STR_ARG(failure->text));
    int64_t gpu = failure->pod ? failure->pod->ask[SCHED_GPU] : 0;
    struct str free = free_text(sched, group, gpu ? SCHED_GPU : SCHED_CPU);
    if (!failure->pod)
        return str_printf(sched->arena, STR_FMT "; " STR_FMT, STR_ARG(needs), STR_ARG(free));
    return str_printf(sched->arena, STR_FMT "; " STR_FMT " (" STR_FMT ")", STR_ARG(needs),
                      STR_ARG(free), STR_ARG(nodes_text(sched, group, failure->pod)));
}

struct str explain_group(struct sched *sched, struct group *group, enum sched_reason *ret)
{
    const struct queue *queue = group->queue;

    if (!group->known) {
        *ret = SCHED_REASON_NO_GROUP;
        return str_printf(sched->arena, "pod group " STR_FMT " does not exist yet",
                          STR_ARG(group->name));
    }
    if (!queue) {
        *ret = SCHED_REASON_NO_QUEUE;
        return str_printf(sched->arena, "queue \"" STR_FMT "\" does not exist",
                          STR_ARG(group->spec.queue));
    }
    *ret = SCHED_REASON_QUEUE_BROKEN;
    if (queue->broken)
        return str_printf(sched->arena,
                          "queue " STR_FMT ": its parent \"" STR_FMT
                          "\" does not exist or leads in a circle",
                          STR_ARG(queue->name), STR_ARG(queue->spec.parent));
    if (queue->children.count)
        return str_printf(sched->arena,
                          "queue " STR_FMT " has queues below it; submit to one of them",
                          STR_ARG(queue->name));
    if (!str_eq(group->spec.pool, queue->spec.pool))
        return str_printf(sched->arena,
                          "queue " STR_FMT " belongs to node pool \"" STR_FMT
                          "\", the pod group to \"" STR_FMT "\"",
                          STR_ARG(queue->name), STR_ARG(queue->spec.pool),
                          STR_ARG(group->spec.pool));
    if (group->spec.held) {
        *ret = SCHED_REASON_HELD;
        return STR("held back by schedulingBackoff until its node pool changes");
    }
    if (!group_ready(group)) {
        *ret = SCHED_REASON_NOT_READY;
        for (uint32_t i = 1; i < group->set_count; i++) {
            const struct set *set = &group->sets[i];
            int64_t have = set_active(set) + set->count[ST_PENDING];

            if (set->leaf && have < set->min)
                return str_printf(sched->arena,
                                  "%lld pods found while %lld required for gang " STR_FMT,
                                  (long long)have, (long long)set->min,
                                  STR_ARG(group->set_count > 2 ? set->name : group->name));
        }
    }
    if (group->count[ST_PIPELINED]) {
        *ret = SCHED_REASON_TERMINATING;
        return str_printf(sched->arena, "room is set aside; waiting for %s to end",
                          "the pods in it");
    }
    if (group->failure && group->failure->cycle == sched->cycle)
        return failure_text(sched, group, ret);
    *ret = SCHED_REASON_IN_LINE;
    return str_printf(sched->arena, STR_FMT "; in line", STR_ARG(needs_text(sched, group)));
}
