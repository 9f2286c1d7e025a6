#include "sched/demand.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/group.h"
#include "sched/hopeless.h"
#include "sched/names.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/quota.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/spot.h"
#include "sched/state.h"
#include "sched/tasks.h"
#include "sched/tenant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Gangs are placed on empty nodes: so many in a cycle, of so many nodes for each of their pods in sum,
 * a tenth of a second. One that found no place is not tried again for a while: what others placed may
 * have ended then. */
#define TRIALS       4
#define TRIAL_LOOKS  100000
#define TRIAL_AGE_MS 60000

/* What waits and could be used: all of it, and of that what is not preemptible. */
struct wanted {
    int64_t all[SCHED_RESOURCES];
    int64_t fixed[SCHED_RESOURCES];
};

/* It may start as far as it itself is concerned. Whoever rests for a moment still may. */
static bool may_start(const struct sched *sched, const struct group *group)
{
    const struct queue *queue = group->queue;

    return group->known && !queue->broken && !queue->children.count && !group->held &&
           !group->over_ms && !group->refusal && !tenant_refused(sched, group) &&
           str_eq(name_text(group->pool_name), queue->spec.pool) &&
           ((group->set_count == 2 && group->count[ST_PENDING] >= group->sets[1].min) ||
            group_ready(group));
}

/* Whether counting leaves it open if the gang has room on empty nodes. Whom a pod must be near may come
 * yet, and so may devices of claims. */
static bool trial_tells(const struct group *group, const struct pod_vec *tasks)
{
    const struct shape *first = tasks->items[0]->shape;
    bool tells = group->set_count > 2;

    for (size_t i = 0; i < group->pods.count; i++)
        if (ST_IN(group->pods.items[i]->status, ST_ACTIVE))
            return false;
    for (size_t i = 0; i < tasks->count; i++) {
        const struct shape *shape = tasks->items[i]->shape;

        if (shape->spec.affinity_count || tasks->items[i]->claim_count)
            return false;
        tells = tells || shape != first || shape->shared || !shape->local;
    }
    return tells &&
           (tasks->count > 1 || first->mounts || first->spec.spread_count || first->devices > 1);
}

/* A number that changes with what a trial depends on. */
static uint64_t trial_digest(const struct sched *sched, const struct pod_vec *tasks)
{
    uint64_t digest = sched->nodes_version + 1;

    for (size_t i = 0; i < tasks->count; i++)
        digest = (digest ^ tasks->items[i]->shape->id ^ (uint64_t)tasks->items[i]->set << 32) *
                 0x9e3779b97f4a7c15;
    return digest;
}

/* Whether the gang surely has no room on nodes that hold nothing that we placed. */
static bool tried_in_vain(struct sched *sched, struct group *group, const struct pod_vec *tasks)
{
    int64_t looks = (int64_t)(tasks->count * group->queue->pool->nodes.count);

    if (looks > TRIAL_LOOKS || !trial_tells(group, tasks))
        return false;
    uint64_t digest = trial_digest(sched, tasks);
    if (group->trial.digest == digest &&
        (!group->trial.in_vain || sched->now_ms < group->trial.at_ms + TRIAL_AGE_MS))
        return group->trial.in_vain;
    if (!sched->trials_left || looks > sched->trial_looks_left) {
        sched->undone = true; /* it is its turn in the next cycle */
        return false;
    }
    sched->trials_left--;
    sched->trial_looks_left -= looks;
    group->trial.digest = digest;
    group->trial.at_ms = sched->now_ms;
    group->trial.in_vain = spots_lack(sched, group, tasks);
    return group->trial.in_vain;
}

/* Whether it could start if its queues held nothing else and all nodes were empty. `bounded`: one of
 * them is limited, or what is not preemptible has to be within quotas. */
static bool could_start(struct sched *sched, struct group *group, bool bounded)
{
    struct pod_vec tasks = {.items = group->pods.items, .count = 1};
    int64_t request[SCHED_RESOURCES];

    if (group->pods.count > 1) {
        tasks = (struct pod_vec){0};
        group_tasks_unordered(sched, group, &tasks);
    }
    if (!tasks.count)
        return true; /* they are promised room, or wait for nothing */
    if (bounded) {
        tasks_least(sched, &tasks, request);
        if (!queue_bounds_allow(group, request))
            return false;
    }
    return !tasks_hopeless(sched, group, &tasks) && !tried_in_vain(sched, group, &tasks);
}

/* Takes off what cannot be used of what the group's pods ask for. */
static void group_wants(struct sched *sched,
                        struct group *group,
                        bool limited,
                        struct wanted *wanted)
{
    bool fixed = group_fixed(group);
    bool starts = may_start(sched, group) && could_start(sched, group, limited || fixed);

    if (starts && !fixed && group->pods.count == 1)
        return;
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (pod->status != ST_PENDING || pod->set == SET_NONE || !pod->ours)
            continue;
        bool used = starts && !pod_fits_nowhere(sched, group->queue->pool, pod);
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            wanted->all[r] -= used ? 0 : pod->ask[r];
            wanted->fixed[r] += used && fixed ? pod->ask[r] : 0;
        }
    }
}

/* What is wanted below a quota or a limit. */
static int64_t capped(double bound, int r, int64_t held, int64_t wanted)
{
    double left = bound - queue_units(r, held);
    int64_t most = 0;

    if (unlimited(bound) || queue_units(r, wanted) <= left)
        return wanted;
    most = (int64_t)(r == SCHED_GPU ? left * GPU_MILLI : left);
    return most > 0 ? most : 0;
}

/* At most QUEUE_DEPTH_MAX levels. limited: a queue above it is. */
static struct wanted queue_wants(struct sched *sched, struct queue *queue, bool limited)
{
    struct wanted wanted = {0};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        limited = limited || !unlimited(queue->spec.quota[r].limit);
    for (size_t i = 0; i < queue->children.count; i++) {
        struct wanted below = queue_wants(sched, queue->children.items[i], limited);

        for (int r = 0; r < SCHED_RESOURCES; r++) {
            wanted.all[r] += below.all[r];
            wanted.fixed[r] += below.fixed[r];
        }
    }
    if (!queue->children.count)
        memcpy(wanted.all, queue->asked, sizeof(wanted.all));
    for (size_t i = 0; !queue->children.count && i < queue->pending.count; i++)
        if (queue->pending.items[i]->count[ST_PENDING]) {
            group_wants(sched, queue->pending.items[i], limited, &wanted);
            if (sched->arena->blocks)
                arena_reset(sched->arena);
        }
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        const struct sched_quota *quota = &queue->spec.quota[r];
        bool binds = !queue->spec.unset[r] && !(quota->quota <= 0 && queue->spec.lends);
        int64_t fixed =
            binds ? capped(quota->quota, r, queue->fixed[r], wanted.fixed[r]) : wanted.fixed[r];

        wanted.all[r] =
            capped(quota->limit, r, queue->allocated[r], wanted.all[r] - wanted.fixed[r] + fixed);
        wanted.fixed[r] = i64_min(fixed, wanted.all[r]);
        queue->demand[r] = queue->allocated[r] + wanted.all[r];
    }
    return wanted;
}

void demands_counted(struct sched *sched)
{
    if (QUIRK(sched, ALL_DEMAND)) {
        for (size_t q = 0; q < sched->queues.count; q++) {
            struct queue *queue = sched->queues.items[q];

            for (int r = 0; r < SCHED_RESOURCES; r++)
                queue->demand[r] = queue->allocated[r] + queue->asked[r];
        }
        return;
    }
    /* What it takes to see whether a group could start is of no use afterwards, and there are many. */
    struct arena scratch = {0};
    struct arena *cycle = sched->arena;

    sched->arena = &scratch;
    sched->trials_left = TRIALS;
    sched->trial_looks_left = TRIAL_LOOKS;
    for (size_t i = 0; i < sched->pools.count; i++)
        for (size_t t = 0; t < sched->pools.items[i]->tops.count; t++)
            (void)queue_wants(sched, sched->pools.items[i]->tops.items[t], false);
    sched->arena = cycle;
    arena_done(&scratch);
}
