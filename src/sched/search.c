#include "sched/search.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/order.h"
#include "sched/queue.h"
#include "sched/reclaim.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- proposing victims ---- */
struct unit {
    struct group *group;
    struct pod_vec pods;
};

struct proposals {
    struct search *search;
    struct order order;
    VEC(struct unit) units; /* so far */
    struct pod_vec taken;
};

static void proposals_open(struct proposals *proposals, struct search *search)
{
    struct sched *sched = search->sched;

    *proposals = (struct proposals){.search = search};
    order_init(&proposals->order, sched, true, false);
    for (size_t q = 0; q < sched->queues.count; q++) {
        struct queue *queue = sched->queues.items[q];
        for (size_t i = 0; i < queue->active.count; i++)
            if (search->may_lose(search, queue->active.items[i]))
                order_push(&proposals->order, queue->active.items[i]);
    }
}

static void proposals_close(struct proposals *proposals)
{
    for (size_t i = 0; i < proposals->taken.count; i++) {
        struct pod *pod = proposals->taken.items[i];
        pod->taken = false;
        pod->group->sets[pod->set].taken--;
    }
}

static void take(struct proposals *proposals, struct pod *pod)
{
    pod->taken = true;
    pod->group->sets[pod->set].taken++;
    VEC_PUSH(proposals->search->sched->arena, &proposals->taken, pod);
}

static bool is_active(const struct pod *pod)
{
    return pod->set != SET_NONE && ST_IN(pod->status, ST_ACTIVE) && !pod->taken;
}

/* The leaf that gives a pod first: the last in order of those above their minimum. */
static uint32_t surplus_leaf(const struct group *group)
{
    uint32_t best = SET_NONE;

    for (uint32_t i = 1; i < group->set_count; i++) {
        const struct set *set = &group->sets[i];
        if (set->leaf && set_active(set) - set->taken > set->min &&
            (best == SET_NONE || set_order(group, i, best) > 0))
            best = i;
    }
    return best;
}

/* The next victim unit of a group: one pod above the minimum, else all that is left. */
static void next_unit(struct proposals *proposals, struct group *group, struct unit *unit)
{
    const struct search *search = proposals->search;
    struct arena *arena = search->sched->arena;
    uint32_t leaf = surplus_leaf(group);
    struct pod *last = NULL;

    *unit = (struct unit){.group = group};
    for (size_t i = 0; leaf != SET_NONE && i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];
        if (pod->set == leaf && is_active(pod) && (!last || pod_order(pod, last) > 0))
            last = pod;
    }
    if (last) {
        VEC_PUSH(arena, &unit->pods, last);
        return;
    }
    if (group->semi || runtime_protects(search->sched, group, search->group, search->action))
        return;
    for (size_t i = 0; i < group->pods.count; i++)
        if (is_active(group->pods.items[i]))
            VEC_PUSH(arena, &unit->pods, group->pods.items[i]);
}

/* Pods that earlier steps recorded are evicted anyway: they make no new unit. */
static bool take_recorded(struct proposals *proposals, const struct group *group)
{
    bool any = false;

    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];
        if (pod->recorded && is_active(pod)) {
            take(proposals, pod);
            any = true;
        }
    }
    return any;
}

static bool has_active(const struct group *group)
{
    for (size_t i = 0; i < group->pods.count; i++)
        if (is_active(group->pods.items[i]))
            return true;
    return false;
}

/* Adds the next unit. False: there are no more. */
static bool propose(struct proposals *proposals)
{
    struct group *group = NULL;

    while ((group = order_pop(&proposals->order))) {
        struct unit unit;

        if (take_recorded(proposals, group)) {
            if (has_active(group))
                order_push(&proposals->order, group);
            continue;
        }
        next_unit(proposals, group, &unit);
        if (!unit.pods.count)
            continue;
        for (size_t i = 0; i < unit.pods.count; i++)
            take(proposals, unit.pods.items[i]);
        if (has_active(group))
            order_push(&proposals->order, group);
        VEC_PUSH(proposals->search->sched->arena, &proposals->units, unit);
        return true;
    }
    return false;
}

/* ---- trying ---- */
/* Evicts a pod in the journal. One that was only promised room simply waits again. */
static void evict(struct search *search, struct pod *pod, struct pod_vec *evicted)
{
    pod->victim = true;
    pod->was = pod->status;
    VEC_PUSH(search->sched->arena, evicted, pod);
    if (pod->status == ST_PIPELINED)
        pod_set(search->sched, pod, ST_PENDING, NULL, NULL, 0);
    else
        pod_set(search->sched, pod, ST_RELEASING, pod->node, pod->shares, pod->share_count);
}

static void spare(struct pod_vec *evicted)
{
    for (size_t i = 0; i < evicted->count; i++)
        evicted->items[i]->victim = false;
}

/* Places the group's first pods, and whoever was evicted for them, in fair order. */
static bool place_everybody(struct search *search,
                            const struct pod_vec *tasks,
                            const struct pod_vec *evicted)
{
    struct sched *sched = search->sched;
    struct order order;
    struct group *group = NULL;
    struct failure failure;

    order_init(&order, sched, false, true);
    sched->mark_now++;
    search->group->mark = sched->mark_now;
    order_push_tasks(&order, search->group, tasks);
    for (size_t i = 0; i < evicted->count; i++) {
        struct group *victim = evicted->items[i]->group;
        if (victim->mark == sched->mark_now)
            continue;
        victim->mark = sched->mark_now;
        if (search->action != SCHED_ACTION_RECLAIM || sched->config.consolidating_reclaim)
            order_push(&order, victim);
    }
    while ((group = order_pop(&order))) {
        struct pod_vec own = {0};

        if (group == search->group) {
            if (!allocate_tasks(sched, group, tasks, true, &failure))
                return false;
            continue;
        }
        group_tasks(sched, group, true, &own);
        if (!own.count || !allocate_tasks(sched, group, &own, true, &failure))
            continue;
        group_tasks(sched, group, true, &own);
        if (own.count)
            order_push(&order, group);
    }
    return true;
}

static void unit_add(const struct pod *pod, struct reclaim_unit *unit)
{
    unit->queue = (int)pod->group->queue->index;
    for (int r = 0; r < SCHED_RESOURCES; r++)
        unit->amount[r] += queue_units(r, pod->charge[r]);
}

static int by_group_and_order(const void *a, const void *b)
{
    const struct pod *l = *(struct pod *const *)a;
    const struct pod *r = *(struct pod *const *)b;

    if (l->group != r->group)
        return str_cmp(l->group->key, r->group->key);
    if (l->set != r->set)
        return l->set < r->set ? -1 : 1;
    return pod_order(l, r);
}

/* The pods that are really lost, as units: of every leaf the pods above its minimum one by one, and
 * the rest of the group in one piece. */
static bool reclaim_allowed(struct search *search, const struct pod_vec *evicted)
{
    struct arena *arena = search->sched->arena;
    struct reclaim_unit *units = ARENA_ARRAY(arena, struct reclaim_unit, evicted->count * 2 + 1);
    struct pod_vec lost = {0};
    size_t count = 0;
    int64_t in_leaf = 0;

    for (size_t i = 0; i < evicted->count; i++)
        if (evicted->items[i]->status == ST_RELEASING)
            VEC_PUSH(arena, &lost, evicted->items[i]);
    if (lost.count > 1)
        qsort(lost.items, lost.count, sizeof(*lost.items), by_group_and_order);
    for (size_t i = 0; i < lost.count;) {
        const struct group *group = lost.items[i]->group;
        struct reclaim_unit core = {.queue = -1};

        for (; i < lost.count && lost.items[i]->group == group; i++) {
            const struct pod *pod = lost.items[i];

            in_leaf = i && lost.items[i - 1]->group == group && lost.items[i - 1]->set == pod->set
                          ? in_leaf + 1
                          : 1;
            if (in_leaf > group->sets[pod->set].min)
                unit_add(pod, &units[count++]);
            else
                unit_add(pod, &core);
        }
        if (core.queue >= 0)
            units[count++] = core;
    }
    return reclaim_valid(&search->reclaim, units, count);
}

static bool acceptable(struct search *search, const struct pod_vec *evicted)
{
    if (search->action == SCHED_ACTION_RECLAIM)
        return search->sched->config.without_proportion || reclaim_allowed(search, evicted);
    if (search->action == SCHED_ACTION_CONSOLIDATE)
        for (size_t i = 0; i < evicted->count; i++)
            if (!ST_IN(evicted->items[i]->status, ST_ACTIVE))
                return false;
    return true;
}

/* Evicts what was recorded and `more`, and sees whether the tasks fit. On success the journal keeps
 * it and `ret` is everybody evicted. */
static bool attempt(struct search *search,
                    const struct pod_vec *tasks,
                    const struct pod_vec *more,
                    struct pod_vec *ret)
{
    struct mark mark = journal_mark(search->sched);

    ret->count = 0;
    for (size_t i = 0; i < search->recorded.count; i++)
        evict(search, search->recorded.items[i], ret);
    for (size_t i = 0; more && i < more->count; i++)
        evict(search, more->items[i], ret);
    if (place_everybody(search, tasks, ret) && acceptable(search, ret))
        return true;
    journal_rollback(search->sched, mark);
    spare(ret);
    return false;
}

static int by_name(const void *a, const void *b)
{
    return str_cmp((*(struct node *const *)a)->name, (*(struct node *const *)b)->name);
}

/* The nodes of the newest unit, each once, by name. */
static size_t unit_nodes(struct search *search, const struct unit *unit, struct node **ret)
{
    size_t count = 0;

    search->sched->mark_now++;
    for (size_t i = 0; i < unit->pods.count; i++) {
        struct node *node = unit->pods.items[i]->node;
        if (!node || node->mark == search->sched->mark_now)
            continue;
        node->mark = search->sched->mark_now;
        ret[count++] = node;
    }
    if (count > 1)
        qsort(ret, count, sizeof(*ret), by_name);
    return count;
}

/* All proposed pods of the groups that have a proposed pod on the node. */
static struct pod_vec victims_on(const struct proposals *proposals, const struct node *node)
{
    struct sched *sched = proposals->search->sched;
    struct pod_vec victims = {0};

    sched->mark_now++;
    for (size_t i = 0; i < node->pods.count; i++)
        if (node->pods.items[i]->taken && !node->pods.items[i]->recorded)
            node->pods.items[i]->group->mark = sched->mark_now;
    for (size_t i = 0; i < proposals->units.count; i++) {
        const struct unit *unit = &proposals->units.items[i];
        if (unit->group->mark != sched->mark_now)
            continue;
        for (size_t j = 0; j < unit->pods.count; j++)
            VEC_PUSH(sched->arena, &victims, unit->pods.items[j]);
    }
    return victims;
}

/* The first `count` pods. On success search->recorded is who had to go, evicted in the journal. */
static bool solve(struct search *search, const struct pod_vec *tasks)
{
    struct proposals proposals;
    struct pod_vec evicted = {0};
    bool solved = attempt(search, tasks, NULL, &evicted);

    if (!solved) {
        proposals_open(&proposals, search);
        while (!solved && propose(&proposals)) {
            const struct unit *unit = &proposals.units.items[proposals.units.count - 1];
            struct node **nodes =
                ARENA_ARRAY(search->sched->arena, struct node *, unit->pods.count + 1);
            size_t count = unit_nodes(search, unit, nodes);

            for (size_t i = 0; i < count && !solved; i++) {
                struct pod_vec more = victims_on(&proposals, nodes[i]);
                solved = attempt(search, tasks, &more, &evicted);
            }
        }
        proposals_close(&proposals);
    }
    if (!solved)
        return false;
    for (size_t i = 0; i < search->recorded.count; i++)
        search->recorded.items[i]->recorded = false;
    search->recorded.count = 0;
    for (size_t i = 0; i < evicted.count; i++) {
        struct pod *pod = evicted.items[i];
        if (pod->status == pod->was && !pod->left)
            continue; /* back in its place */
        VEC_PUSH(search->sched->arena, &search->recorded, pod);
    }
    return true;
}

static void finish(struct search *search)
{
    for (size_t i = 0; i < search->recorded.count; i++) {
        struct pod *pod = search->recorded.items[i];
        pod->recorded = false;
        pod->victim = false;
        pod->action = search->action;
        pod->evicted_for = search->group;
    }
}

bool search_run(struct search *search)
{
    struct mark mark = journal_mark(search->sched);
    struct pod_vec tasks = {0};
    bool solved = false;

    for (size_t i = 0; i < search->tasks.count; i++) {
        journal_rollback(search->sched, mark);
        for (size_t j = 0; j < search->recorded.count; j++) {
            search->recorded.items[j]->victim = false;
            search->recorded.items[j]->recorded = true;
        }
        VEC_PUSH(search->sched->arena, &tasks, search->tasks.items[i]);
        solved = solve(search, &tasks);
        if (!solved)
            break;
    }
    if (!solved)
        journal_rollback(search->sched, mark);
    finish(search);
    return solved;
}
