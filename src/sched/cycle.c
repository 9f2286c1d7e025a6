#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/action.h"
#include "sched/allocate.h"
#include "sched/arrange.h"
#include "sched/closers.h"
#include "sched/demand.h"
#include "sched/event.h"
#include "sched/group.h"
#include "sched/hold.h"
#include "sched/journal.h"
#include "sched/keep.h"
#include "sched/leaving.h"
#include "sched/link.h"
#include "sched/names.h"
#include "sched/nodeindex.h"
#include "sched/order.h"
#include "sched/pending.h"
#include "sched/plan.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/reserve.h"
#include "sched/sched.h"
#include "sched/state.h"
#include "sched/tasks.h"
#include "sched/verify.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SWEEP_CYCLES 64 /* names of devices that nobody shares any more go so often */

/* Where nobody asks why, a group that sees at a glance that it lacks GPUs is not tried: every pod
 * asks for more than any node has, or all together for more than there are. */
static bool lacks_gpus(struct sched *sched, struct group *group)
{
    const struct pool *pool = group->queue->pool;
    int64_t least = INT64_MAX;
    int64_t sum = 0;

    if (!sched->config.silent || group->set_count != 2)
        return false;
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (pod->status != ST_PENDING)
            continue;
        least = i64_min(least, pod->gpus);
        sum += pod->gpus;
    }
    if (least <= index_largest(pool->index[0], INDEX_GPU) &&
        (group->sets[1].min < (int64_t)group->pods.count || sum <= pool->room[RES_GPU]))
        return false;
    if (!group->failure)
        group->failure = MEM_NEW(struct failure);
    *group->failure = (struct failure){.reason = SCHED_REASON_NO_ROOM, .cycle = sched->cycle};
    keep_wake(sched, group);
    return true;
}

/* Whether that holds for everybody who waits; then they need not even be put in order. */
static bool all_lack_gpus(struct sched *sched)
{
    bool all = sched->config.silent;

    for (size_t q = 0; all && q < sched->queues.count; q++) {
        const struct queue *queue = sched->queues.items[q];

        for (size_t i = 0; all && i < queue->pending.count; i++)
            all = !group_eligible(sched, queue->pending.items[i]) ||
                  lacks_gpus(sched, queue->pending.items[i]);
    }
    return all;
}

enum tried {
    TRIED_NOTHING, /* there was nothing to try */
    TRIED_IN_VAIN,
    TRIED_PLACED,
};

static enum tried group_try(struct sched *sched, struct group *group)
{
    struct pod_vec tasks = {0};
    struct failure failure;

    if (lacks_gpus(sched, group))
        return TRIED_NOTHING;
    group_tasks(sched, group, false, &tasks);
    if (!tasks.count || group->keep) /* tried before anybody else */
        return TRIED_NOTHING;
    sched->tally[SCHED_ACTION_ALLOCATE].tried++;
    keep_lift(sched, group);
    bool placed = allocate_tasks(sched, group, &tasks, false, &failure);
    keep_restore(sched);
    if (!placed) {
        explain_failure(sched, group, &failure);
        keep_wake(sched, group);
        return TRIED_IN_VAIN;
    }
    if (group_must_wait(group))
        group_hold_back(sched, group);
    journal_commit(sched);
    sched->tally[SCHED_ACTION_ALLOCATE].placed++;
    return TRIED_PLACED;
}

/* Where all who are left are alone and of a shape that found no room, nobody's turn matters: they
 * are told so as they lie. Who is next costs more than to see that it does not fit. */
static bool rest_in_vain(struct sched *sched, const struct order *order)
{
    struct group_vec rest = {0};

    order_rest(order, &rest);
    for (size_t i = 0; i < rest.count; i++)
        if (!allocate_in_vain(sched, rest.items[i]))
            return false;
    for (size_t i = 0; i < rest.count; i++)
        (void)group_try(sched, rest.items[i]);
    return true;
}

static void action_allocate(struct sched *sched)
{
    struct order order;
    struct group *group = NULL;
    size_t failed = 0;

    if (all_lack_gpus(sched))
        return;
    pending_order(sched, SCHED_ACTION_ALLOCATE, &order);
    sched->round = order.id;
    while ((group = order_pop(&order))) {
        enum tried tried = group_try(sched, group);

        if (tried == TRIED_PLACED && group->count[ST_PENDING])
            order_push(&order, group);
        if (tried == TRIED_PLACED && all_lack_gpus(sched))
            break;
        failed += tried == TRIED_IN_VAIN;
        /* Asked at the 1st, 2nd, 4th, 8th... failure, so that asking costs little in sum. */
        if (tried == TRIED_IN_VAIN && (failed & (failed - 1)) == 0 && rest_in_vain(sched, &order))
            break;
    }
    sched->round = 0;
}

static void step_done(const struct sched *sched, enum sched_step step)
{
    if (sched->measure)
        sched->measure(sched->measure_user, step);
}

void sched_cycle(struct sched *sched, int64_t now_ms, struct arena *arena, struct sched_plan *ret)
{
    sched->arena = arena;
    sched->now_ms = now_ms;
    sched->cycle++;
    sched->wake_ms = 0;
    sched->cut = false;
    sched->undone = false;
    sched->arrange_left = ARRANGE_CYCLE;
    sched->beside_left = ARRANGE_BESIDE;
    sched->news = sched->changed;
    devices_settled(sched);
    volumes_settled(sched);
    queues_linked(sched);
    nodes_ranked(sched);
    promises_forgotten(sched);
    holds_judge(sched);
    leaving_judge(sched);
    if (sched->cycle % SWEEP_CYCLES == 0)
        names_swept(sched);
    step_done(sched, SCHED_STEP_OPEN);
    pools_counted(sched);
    demands_counted(sched);
    queues_shared(sched);
    step_done(sched, SCHED_STEP_SHARES);
    sched->trying = true;
    static void (*const actions[SCHED_ACTION_COUNT])(struct sched *) = {
        action_allocate, action_consolidate, action_reclaim,
        action_preempt,  action_stale,       action_reserve};
    for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++) {
        unsigned action = (i + SCHED_ACTION_RESERVE) % SCHED_ACTION_COUNT;
        actions[action](sched);
        step_done(sched, (enum sched_step)(SCHED_STEP_ACTION + action));
    }
    sched->trying = false;
    plan_emit(sched, ret);
    keeps_close(sched);
    /* Evicted pods no longer count against their queues, which may let what they made room for
     * start on room that is idle: another cycle finds out. Room that was given and then promised to
     * somebody else is idle too. Those that a depth left out move up when others were placed. */
    sched->changed = ret->evict_count > 0 || sched->undone || (sched->cut && ret->bind_count);
    holds_swept(sched);
    if (sched->queues.count > 1 && !sched->config.plain) /* somebody may take from somebody */
        closers_settle(sched);
    sched->arena = NULL;
    step_done(sched, SCHED_STEP_PLAN);
    tapped(sched, &(struct sched_input){.kind = SCHED_INPUT_CYCLE, .now_ms = now_ms, .plan = ret});
    assert(!SCHED_WALK || sched_verify(sched, NULL) == 0);
}

bool sched_needs_cycle(const struct sched *sched)
{
    return sched->changed;
}

const struct sched_config *sched_config(const struct sched *sched)
{
    return &sched->config;
}
