#include "sched/spot.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/vec.h"
#include "sched/affinity.h"
#include "sched/allocate.h"
#include "sched/arrange.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/keep.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SPOTS_STAY \
    256 /* pods of a gang that have places of their own among the nodes kept for it */

/* A node that pods of the group could be on, and what is in their way there. */
struct spot {
    struct node *node;
    uint32_t endless; /* pods that may run for ever */
    bool blocked;     /* by these or others */
    bool sticky;      /* kept for this group before */
    bool fresh;       /* among those without an end are some that began since */
    int64_t ends_ms;  /* when the last of them has ended; INT64_MAX: not known */
    int64_t idle;     /* GPUs, or CPUs of a group without, that nobody else gets meanwhile */
};

struct choice {
    struct spot *spots;
    size_t count, all;   /* the best of them, and how many there are */
    int64_t *most;       /* by resource: what one of the pods asks for at most */
    struct node **nodes; /* by task: where the trial put it */
    bool unbounded;      /* its queues are not asked */
    bool cut;            /* a trial that failed did not try every way */
};

static const uint32_t resources[SCHED_RESOURCES] = {RES_CPU, RES_MEMORY, RES_GPU};

/* By when it is expected to have ended; INT64_MAX: nobody says, or it does not count. */
static int64_t pod_expected_ms(const struct sched *sched, const struct pod *pod)
{
    int64_t run_ms = pod_run_ms(pod);
    int64_t started_ms = pod->started_ms ? pod->started_ms : pod->group->last_start_ms;

    if (!run_ms)
        return INT64_MAX;
    if (!started_ms)
        started_ms = sched->now_ms;
    return started_ms + run_ms > sched->now_ms ? started_ms + run_ms
                                               : 2 * sched->now_ms - started_ms;
}

static int64_t pod_ends_ms(const struct sched *sched, const struct pod *pod)
{
    if (!pod->deadline_ms)
        return pod_expected_ms(sched, pod);
    return pod->started_ms ? pod->started_ms + pod->deadline_ms
                           : sched->now_ms + pod->deadline_ms + START_SLACK_MS;
}

static int64_t held_of(const struct pod *pod, uint32_t res)
{
    int64_t held = res == RES_GPU ? pod->share_count : 0;

    for (size_t i = 0; i < pod->want_count; i++)
        held += pod->wants[i].res == res ? pod->wants[i].amount : 0;
    return held;
}

/* What the group's pods find there when those that were lent its room have gone. */
static int64_t idle_for(const struct group *group, const struct node *node, uint32_t res)
{
    int64_t idle = node->idle[res];

    for (size_t i = 0; i < node->pods.count; i++)
        if (node->pods.items[i]->lent_for == group->id)
            idle += held_of(node->pods.items[i], res);
    return idle;
}

/* How many of the group's pods the node would hold if it were empty, as far as they are needed. */
static int64_t spot_holds(const struct sched *sched,
                          const struct choice *choice,
                          const struct node *node,
                          int64_t needed)
{
    for (size_t r = 0; r < sched->resources.count; r++)
        if (choice->most[r] > 0)
            needed = i64_min(needed, node->total[r] / choice->most[r]);
    return i64_max(1, needed);
}

static int64_t began_ms(const struct pod *pod)
{
    return pod->started_ms || !pod->group ? pod->started_ms : pod->group->last_start_ms;
}

/* In the way is who holds something of which there is not enough for all that the node could hold. */
static void weigh_spot(const struct sched *sched,
                       const struct group *group,
                       const struct choice *choice,
                       int64_t needed,
                       struct spot *spot)
{
    const struct node *node = spot->node;
    int64_t holds = spot_holds(sched, choice, node, needed);
    bool lacks[RES_MAX];

    spot->sticky = node->kept_for == group->id;
    spot->ends_ms = sched->now_ms;
    spot->idle = node->idle[choice->most[RES_GPU] ? RES_GPU : RES_CPU];
    for (uint32_t r = 0; r < sched->resources.count; r++)
        lacks[r] = choice->most[r] &&
                   idle_for(group, node, r) < i64_min(node->total[r], holds * choice->most[r]);
    for (size_t i = 0; i < node->pods.count; i++) {
        const struct pod *pod = node->pods.items[i];
        bool in_the_way = false;

        for (uint32_t r = 0; r < sched->resources.count; r++)
            in_the_way = in_the_way || (lacks[r] && held_of(pod, r));
        if (!in_the_way || !ST_IN(pod->status, ST_ACTIVE) || pod->lent_for == group->id)
            continue;
        int64_t ends_ms = pod_ends_ms(sched, pod);
        spot->blocked = true;
        spot->endless += ends_ms == INT64_MAX;
        spot->fresh = spot->fresh || (ends_ms == INT64_MAX && began_ms(pod) > group->kept_since_ms);
        spot->ends_ms = i64_max(spot->ends_ms, ends_ms);
    }
}

/* Nodes where nothing may run for ever, then those that were kept before: nothing new went there
 * meanwhile, and what is in the way on others may have begun since. Then where least may run for ever.
 * Between those where everything ends, a node that was kept before comes before any that is still in
 * use: what was promised by when only gets earlier. Where nobody knows when, the one where least lies
 * idle meanwhile. */
static int by_worth(const void *a, const void *b)
{
    const struct spot *l = a;
    const struct spot *r = b;

    if (!l->endless != !r->endless)
        return l->endless ? 1 : -1;
    if (l->endless && l->sticky != r->sticky)
        return l->sticky ? -1 : 1;
    if (l->endless != r->endless)
        return l->endless < r->endless ? -1 : 1;
    if (l->blocked != r->blocked)
        return l->blocked ? 1 : -1;
    if (l->sticky != r->sticky)
        return l->sticky ? -1 : 1;
    if (l->ends_ms != r->ends_ms)
        return l->ends_ms < r->ends_ms ? -1 : 1;
    if (l->endless && l->idle != r->idle)
        return l->idle < r->idle ? -1 : 1;
    return l->node->rank < r->node->rank ? -1 : l->node->rank > r->node->rank;
}

static bool may_hold_any(const struct sched *sched,
                         const struct pod_vec *tasks,
                         const struct node *node)
{
    for (size_t i = 0; i < tasks->count; i++)
        if ((!i || tasks->items[i]->shape != tasks->items[i - 1]->shape) &&
            filter_allowed(sched, tasks->items[i]->shape, node))
            return true;
    return false;
}

/* Nodes that could hold pods of the group, those where least is in the way first. */
static void find_spots(struct sched *sched,
                       const struct group *group,
                       const struct pod_vec *tasks,
                       struct choice *choice)
{
    const struct pool *pool = group->queue->pool;

    choice->spots = ARENA_ARRAY(sched->arena, struct spot, pool->nodes.count + 1);
    choice->most = ARENA_ARRAY(sched->arena, int64_t, sched->resources.count);
    for (size_t i = 0; i < tasks->count; i++)
        for (size_t w = 0; w < tasks->items[i]->want_count; w++) {
            const struct want *want = &tasks->items[i]->wants[w];
            choice->most[want->res] = i64_max(choice->most[want->res], want->amount);
        }
    for (size_t i = 0; i < pool->nodes.count; i++) {
        struct node *node = pool->nodes.items[i];
        struct spot *spot = &choice->spots[choice->count];

        if (!node->schedulable || node->keep || !may_hold_any(sched, tasks, node))
            continue;
        *spot = (struct spot){.node = node};
        weigh_spot(sched, group, choice, (int64_t)tasks->count, spot);
        choice->count++;
    }
    choice->all = choice->count;
    if (choice->count > 1)
        qsort(choice->spots, choice->count, sizeof(*choice->spots), by_worth);
}

static int by_rank(const void *a, const void *b)
{
    const struct node *l = *(struct node *const *)a;
    const struct node *r = *(struct node *const *)b;

    return l->rank < r->rank ? -1 : l->rank > r->rank;
}

/* Whether a task has to be near the pod. */
static bool is_company(const struct sched *sched,
                       const struct pod_vec *tasks,
                       const struct pod *pod)
{
    for (size_t i = 0; i < tasks->count; i++) {
        const struct sched_pod *spec = &tasks->items[i]->shape->spec;
        size_t meant = 0;

        while (meant < spec->affinity_count &&
               affinity_term_means(sched, &spec->affinity[meant], pod_ns(tasks->items[i]), pod))
            meant++;
        if (meant && meant == spec->affinity_count)
            return true;
    }
    return false;
}

/* All that we placed on the first nodes; alone: but for those whom a task has to be near. What others
 * placed, which may be daemons, is not among it: nobody can count on its end. */
static struct pod_vec spots_pods(struct sched *sched,
                                 const struct group *group,
                                 const struct pod_vec *tasks,
                                 const struct choice *choice,
                                 size_t count,
                                 bool alone)
{
    struct pod_vec pods = {0};

    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < choice->spots[n].node->pods.count; i++) {
            struct pod *pod = choice->spots[n].node->pods.items[i];

            if (pod->ours && pod->group && pod->group != group && ST_IN(pod->status, ST_ACTIVE) &&
                !(alone && is_company(sched, tasks, pod)))
                VEC_PUSH(sched->arena, &pods, pod);
        }
    return pods;
}

/* Whether the gang fits with these pods gone: on those nodes, or each pod where it was to be in the
 * last cycle. */
static bool spots_without(struct sched *sched,
                          struct group *group,
                          const struct pod_vec *tasks,
                          struct choice *choice,
                          const struct node_set *set,
                          const struct pod_vec *gone)
{
    struct mark mark = journal_mark(sched);
    struct failure failure;

    for (size_t i = 0; i < gone->count; i++) {
        gone->items[i]->victim = true; /* nobody is near it any more */
        pod_send_away(sched, gone->items[i]);
    }
    bool placed = set->nodes
                      ? allocate_within(sched, group, tasks, set, choice->unbounded, &failure)
                      : allocate_at(sched, group, tasks, group->kept_at, &failure);
    choice->cut = choice->cut || (!placed && failure.cut);
    for (size_t i = 0; placed && i < tasks->count; i++)
        choice->nodes[i] = tasks->items[i]->node;
    journal_rollback(sched, mark);
    for (size_t i = 0; i < gone->count; i++)
        gone->items[i]->victim = false;
    return placed;
}

/* Whether the gang fits the first nodes with all that we placed there gone, or all but those whom it
 * has to be near. again: each pod where it was to be in the last cycle. */
static bool spots_try(struct sched *sched,
                      struct group *group,
                      const struct pod_vec *tasks,
                      struct choice *choice,
                      size_t count,
                      bool again)
{
    struct node_set set = {.nodes = again ? NULL : ARENA_ARRAY(sched->arena, struct node *, count),
                           .count = count};
    struct pod_vec gone = spots_pods(sched, group, tasks, choice, count, false);

    for (size_t n = 0; !again && n < count; n++)
        set.nodes[n] = choice->spots[n].node;
    if (!again && count > 1)
        qsort(set.nodes, count, sizeof(*set.nodes), by_rank);
    if (spots_without(sched, group, tasks, choice, &set, &gone))
        return true;
    size_t all = gone.count;
    gone = spots_pods(sched, group, tasks, choice, count, true);
    return gone.count < all && spots_without(sched, group, tasks, choice, &set, &gone);
}

/* So many nodes, at least, are needed for what all pods ask for in sum. */
static size_t spots_needed(const struct sched *sched,
                           const struct pod_vec *tasks,
                           const struct choice *choice)
{
    size_t needed = 1;

    for (uint32_t r = 0; r < RES_PODS; r++) {
        int64_t left = 0;
        size_t at = 0;

        for (size_t i = 0; i < tasks->count; i++)
            for (size_t w = 0; w < tasks->items[i]->want_count; w++)
                if (tasks->items[i]->wants[w].res == r)
                    left += task_need(sched, tasks, i, w);
        for (; at < choice->count && left > 0; at++)
            left -= choice->spots[at].node->total[r];
        needed = at > needed ? at : needed;
    }
    return needed;
}

/* The fewest of the best nodes that hold the gang: twice as many until they do, then half way back.
 * False: not even all of them would. */
static bool spots_halve(struct sched *sched,
                        struct group *group,
                        const struct pod_vec *tasks,
                        struct choice *choice)
{
    size_t lacks = spots_needed(sched, tasks, choice) - 1;
    size_t count = lacks + 1;

    choice->nodes = ARENA_ARRAY(sched->arena, struct node *, tasks->count);
    if (count > choice->count)
        return false;
    while (!spots_try(sched, group, tasks, choice, count, false)) {
        if (count == choice->count)
            return false;
        lacks = count;
        count = count * 2 < choice->count ? count * 2 : choice->count;
    }
    while (count - lacks > 1) {
        size_t middle = lacks + (count - lacks) / 2;

        if (spots_try(sched, group, tasks, choice, middle, false))
            count = middle;
        else
            lacks = middle;
    }
    choice->count = count;
    return true;
}

static bool is_among(const struct node *node, struct node *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

/* What each task has to find, with every claim they share found once. Claims change hands, so this
 * is a copy. */
static const struct want *task_wants(struct sched *sched, const struct pod_vec *tasks, size_t index)
{
    const struct pod *pod = tasks->items[index];

    if (!pod->claim_count)
        return pod->wants;
    struct want *own = ARENA_ARRAY(sched->arena, struct want, pod->want_count);
    for (size_t w = 0; w < pod->want_count; w++)
        own[w] = (struct want){pod->wants[w].res, task_need(sched, tasks, index, w)};
    return own;
}

static int by_node(const void *a, const void *b)
{
    const struct keep_slot *l = a;
    const struct keep_slot *r = b;

    if (l->node != r->node)
        return l->node->rank < r->node->rank ? -1 : 1;
    return pod_order(l->pod, r->pod);
}

static struct keep_slot *slots_make(struct sched *sched,
                                    const struct pod_vec *tasks,
                                    const struct choice *choice)
{
    struct keep_slot *slots = ARENA_ARRAY(sched->arena, struct keep_slot, tasks->count);

    for (size_t i = 0; i < tasks->count; i++)
        slots[i] = (struct keep_slot){
            .node = choice->nodes[i], .pod = tasks->items[i], .wants = task_wants(sched, tasks, i)};
    if (tasks->count > 1)
        qsort(slots, tasks->count, sizeof(*slots), by_node);
    return slots;
}

/* What others hold of the slots of one node; false: nothing. */
static bool node_blocked(const struct group *group,
                         const struct keep_slot *slots,
                         size_t count,
                         int64_t blocked[static SCHED_RESOURCES])
{
    bool any = false;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        int64_t kept = -idle_for(group, slots->node, resources[r]);

        for (size_t i = 0; i < count; i++) {
            const struct pod *pod = slots[i].pod;

            for (size_t w = 0; w < pod->want_count; w++)
                kept += slots[i].wants[w].res == resources[r] ? slots[i].wants[w].amount : 0;
            kept += r == SCHED_GPU && pod->shape->shared ? pod->shape->devices : 0;
        }
        blocked[r] += i64_max(0, kept);
        any = any || kept > 0;
    }
    return any;
}

/* How much others still hold of what is kept, and by when they have ended. Where it is nothing,
 * somebody is in the way for another reason, and nobody knows. */
static void choice_weigh(const struct sched *sched,
                         const struct group *group,
                         const struct choice *choice,
                         size_t count,
                         struct spot_choice *ret)
{
    const struct keep_slot *slots = ret->slots;

    ret->ends_ms = INT64_MIN;
    ret->in_use = 0;
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && slots[to].node == slots[from].node)
            to++;
        if (!node_blocked(group, &slots[from], to - from, ret->blocked))
            continue;
        ret->in_use++;
        for (size_t i = 0; i < choice->count; i++)
            if (choice->spots[i].node == slots[from].node) {
                ret->ends_ms = i64_max(ret->ends_ms, choice->spots[i].ends_ms);
                ret->fresh = ret->fresh || choice->spots[i].fresh;
            }
    }
    if (ret->ends_ms == INT64_MIN)
        ret->ends_ms = INT64_MAX;
    else if (ret->ends_ms < sched->now_ms)
        ret->ends_ms = sched->now_ms;
}

/* The nodes that were the tasks' own in the last cycle; false: one of them is none for it any more. */
static bool spots_kept(struct sched *sched,
                       const struct group *group,
                       const struct choice *choice,
                       size_t count,
                       struct choice *ret)
{
    size_t found = 0;

    if (count > SPOTS_STAY || group->kept_count != count || group->kept_in + 1 != sched->cycle)
        return false;
    *ret = (struct choice){.spots = ARENA_ARRAY(sched->arena, struct spot, count),
                           .most = choice->most,
                           .nodes = ARENA_ARRAY(sched->arena, struct node *, count),
                           .unbounded = choice->unbounded};
    for (size_t n = 0; n < choice->all; n++) {
        size_t before = found;

        for (size_t i = 0; i < count; i++)
            found += group->kept_at[i] == choice->spots[n].node;
        if (found > before)
            ret->spots[ret->count++] = choice->spots[n];
    }
    return found == count;
}

/* Each pod stays on the node that was its own in the last cycle: what lies beside it there counted on
 * that. On other nodes than the best it does as long as no more is in the way there, and no longer; and
 * where those who are in the way on the best came after it, who may stay for as long as they like. */
static void spots_stay(struct sched *sched,
                       struct group *group,
                       const struct pod_vec *tasks,
                       struct choice *choice,
                       struct spot_choice *ret)
{
    size_t count = tasks->count;
    struct node **nodes = choice->nodes;
    struct choice kept;

    if (spots_kept(sched, group, choice, count, &kept) &&
        spots_try(sched, group, tasks, &kept, kept.count, true)) {
        struct spot_choice old = {.slots = slots_make(sched, tasks, &kept)};
        bool same = true;

        for (size_t i = 0; i < count; i++)
            same = same && is_among(group->kept_at[i], nodes, count) &&
                   is_among(nodes[i], group->kept_at, count);
        choice_weigh(sched, group, &kept, count, &old);
        if (same || ret->fresh || (old.in_use <= ret->in_use && old.ends_ms <= ret->ends_ms)) {
            *ret = old;
            nodes = kept.nodes;
        }
    }
    mem_free(group->kept_at);
    group->kept_at = mem_alloc(count * sizeof(struct node *));
    memcpy(group->kept_at, nodes, count * sizeof(struct node *));
    group->kept_count = count;
}

bool spots_exist(struct sched *sched, struct group *group, const struct pod_vec *tasks)
{
    struct choice choice = {.unbounded = true};

    for (size_t i = 0; i < sched->keeps.count; i++)
        keep_apply(sched, sched->keeps.items[i], false);
    find_spots(sched, group, tasks, &choice);
    bool exist = spots_halve(sched, group, tasks, &choice);
    keep_restore(sched);
    return exist;
}

bool spots_lack(struct sched *sched, struct group *group, const struct pod_vec *tasks)
{
    struct choice choice = {.unbounded = true};
    int64_t left = sched->arrange_left;

    sched->arrange_left = ARRANGE_LOOKS;
    sched->trying = true;
    find_spots(sched, group, tasks, &choice);
    bool lack = !spots_halve(sched, group, tasks, &choice) && !choice.cut;
    sched->trying = false;
    sched->arrange_left = left;
    return lack;
}

bool spots_choose(struct sched *sched,
                  struct group *group,
                  const struct pod_vec *tasks,
                  struct spot_choice *ret)
{
    struct choice choice = {0};

    find_spots(sched, group, tasks, &choice);
    if (!spots_halve(sched, group, tasks, &choice))
        return false;
    ret->slots = slots_make(sched, tasks, &choice);
    choice_weigh(sched, group, &choice, tasks->count, ret);
    spots_stay(sched, group, tasks, &choice, ret);
    return true;
}
