#include "sched/tasks.h"

#include "base/arena.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/claim.h"
#include "sched/group.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int by_pod_order(const void *a, const void *b)
{
    return pod_order(*(struct pod *const *)a, *(struct pod *const *)b);
}

/* Leaves of the group by set_order(), in the arena. */
static uint32_t *leaves_in_order(struct sched *sched, const struct group *group, size_t *ret_count)
{
    uint32_t *leaves = ARENA_ARRAY(sched->arena, uint32_t, group->set_count + 1);
    size_t count = 0;

    for (uint32_t i = 1; i < group->set_count; i++) {
        if (!group->sets[i].leaf)
            continue;
        size_t at = count++;
        while (at && set_order(group, i, leaves[at - 1]) < 0) {
            leaves[at] = leaves[at - 1];
            at--;
        }
        leaves[at] = i;
    }
    *ret_count = count;
    return leaves;
}

static bool is_waiting(const struct pod *pod, bool search)
{
    return pod->ours &&
           (pod->status == ST_PENDING || (search && pod->victim && pod->status == ST_RELEASING));
}

/* How tasks are looked for. */
struct looking {
    bool search;    /* those that the search under way evicted, too */
    bool any_order; /* how many and how much is all that is asked */
};

static void leaf_tasks(struct sched *sched,
                       const struct group *group,
                       uint32_t leaf,
                       int64_t most,
                       struct looking looking,
                       struct pod_vec *ret)
{
    struct pod_vec waiting = {0};

    for (size_t i = 0; i < group->pods.count; i++)
        if (group->pods.items[i]->set == leaf && is_waiting(group->pods.items[i], looking.search))
            VEC_PUSH(sched->arena, &waiting, group->pods.items[i]);
    bool all = (int64_t)waiting.count <= most;
    if (waiting.count > 1 && !(all && looking.any_order))
        qsort(waiting.items, waiting.count, sizeof(*waiting.items), by_pod_order);
    for (size_t i = 0; i < waiting.count && (int64_t)i < most; i++)
        VEC_PUSH(sched->arena, ret, waiting.items[i]);
}

static void tasks_of(struct sched *sched,
                     const struct group *group,
                     struct looking looking,
                     struct pod_vec *ret)
{
    size_t count = 0;
    const uint32_t *leaves = leaves_in_order(sched, group, &count);
    bool lacks = false;

    ret->count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct set *set = &group->sets[leaves[i]];
        int64_t missing = set->min - set_active(set);

        if (missing <= 0 || !set_required(group, leaves[i]))
            continue;
        lacks = true;
        leaf_tasks(sched, group, leaves[i], missing, looking, ret);
    }
    for (size_t i = 0; !lacks && !ret->count && i < count; i++)
        leaf_tasks(sched, group, leaves[i], 1, looking, ret);
}

void group_tasks(struct sched *sched, const struct group *group, bool search, struct pod_vec *ret)
{
    tasks_of(sched, group, (struct looking){.search = search}, ret);
}

void group_tasks_unordered(struct sched *sched, const struct group *group, struct pod_vec *ret)
{
    tasks_of(sched, group, (struct looking){.any_order = true}, ret);
}

int64_t task_need(const struct sched *sched, const struct pod_vec *tasks, size_t index, size_t want)
{
    const struct pod *pod = tasks->items[index];
    size_t own = pod->shape->want_count;

    if (want < own)
        return pod->wants[want].amount;
    for (size_t i = 0; i < index && !QUIRK(sched, CLAIM_PER_POD); i++)
        for (size_t c = 0; c < tasks->items[i]->claim_count; c++)
            if (tasks->items[i]->claims[c] == pod->claims[want - own])
                return 0;
    return claim_need(sched, pod, want - own);
}

void tasks_request(const struct sched *sched,
                   const struct pod_vec *tasks,
                   int64_t ret[static SCHED_RESOURCES])
{
    memset(ret, 0, SCHED_RESOURCES * sizeof(*ret));
    for (size_t i = 0; i < tasks->count; i++) {
        const struct pod *pod = tasks->items[i];

        for (int r = 0; r < SCHED_RESOURCES; r++)
            ret[r] += pod->ask[r];
        for (size_t c = 0; c < pod->claim_count; c++)
            if (pod->claims[c]->gpu)
                ret[SCHED_GPU] += (task_need(sched, tasks, i, pod->shape->want_count + c) -
                                   claim_ask(sched, pod, c)) *
                                  GPU_MILLI;
    }
}
