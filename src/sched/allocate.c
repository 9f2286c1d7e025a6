#include "sched/allocate.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/place.h"
#include "sched/queue.h"
#include "sched/reserve.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a group lacks ---- */
int64_t set_active(const struct set *set)
{
    return set->count[ST_PIPELINED] + set->count[ST_BINDING] + set->count[ST_BOUND] +
           set->count[ST_RUNNING];
}

/* Pods below a set that hold room, for choosing among children of an inner set. */
static int64_t set_active_below(const struct group *group, uint32_t set)
{
    int64_t active = 0;

    if (group->sets[set].leaf)
        return set_active(&group->sets[set]);
    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next)
        active += set_active_below(group, child);
    return active;
}

/* Of an inner set with minSubGroup, only that many children have to start: those that have pods
 * already, then the first ones. */
static bool child_required(const struct group *group, uint32_t parent, uint32_t set)
{
    int64_t own = set_active_below(group, set);
    int64_t before = 0;
    bool seen = false;

    if (group->sets[parent].min <= 0)
        return true;
    for (uint32_t child = group->sets[parent].first_child; child; child = group->sets[child].next) {
        int64_t active = set_active_below(group, child);

        seen = seen || child == set;
        before += child != set && (active > own || (active == own && !seen));
    }
    return before < group->sets[parent].min;
}

bool set_required(const struct group *group, uint32_t set)
{
    while (set) {
        uint32_t parent = group->sets[set].parent;
        if (!child_required(group, parent, set))
            return false;
        set = parent;
    }
    return true;
}

bool group_ready(const struct group *group)
{
    for (uint32_t i = 1; i < group->set_count; i++) {
        const struct set *set = &group->sets[i];
        if (set->leaf && set_active(set) + set->count[ST_PENDING] < set->min &&
            set_required(group, i))
            return false;
    }
    return group->set_count > 0;
}

bool group_satisfied(const struct group *group)
{
    for (uint32_t i = 1; i < group->set_count; i++)
        if (group->sets[i].leaf && set_active(&group->sets[i]) < group->sets[i].min &&
            set_required(group, i))
            return false;
    return true;
}

static int elastic(const struct group *group, bool proposed)
{
    bool above = false;

    for (uint32_t i = 1; i < group->set_count; i++) {
        const struct set *set = &group->sets[i];
        int64_t active = set_active(set) - (proposed ? set->taken : 0);

        if (!set->leaf)
            continue;
        if (active < set->min && set_required(group, i))
            return -1;
        above = above || active > set->min;
    }
    return above ? 1 : 0;
}

int group_elastic(const struct group *group)
{
    return elastic(group, false);
}

int group_elastic_left(const struct group *group)
{
    return elastic(group, true);
}

/* ---- orders ---- */
int pod_order(const struct pod *a, const struct pod *b)
{
    const struct sched_pod *l = &a->shape->spec;
    const struct sched_pod *r = &b->shape->spec;

    if (l->role_rank != r->role_rank)
        return l->role_rank < r->role_rank ? -1 : 1;
    if (l->has_task_priority != r->has_task_priority)
        return l->has_task_priority ? -1 : 1;
    if (l->task_priority != r->task_priority)
        return l->task_priority > r->task_priority ? -1 : 1;
    if (a->created_ms != b->created_ms)
        return a->created_ms < b->created_ms ? -1 : 1;
    int order = str_cmp(pod_uid(a), pod_uid(b));
    return order ? order : str_cmp(pod_name(a), pod_name(b));
}

static int by_pod_order(const void *a, const void *b)
{
    return pod_order(*(struct pod *const *)a, *(struct pod *const *)b);
}

int set_order(const struct group *group, uint32_t a, uint32_t b)
{
    const struct set *l = &group->sets[a];
    const struct set *r = &group->sets[b];
    int64_t active_l = set_active(l) - l->taken;
    int64_t active_r = set_active(r) - r->taken;
    bool lacks_l = active_l < l->min;
    bool lacks_r = active_r < r->min;

    if (lacks_l != lacks_r)
        return lacks_l ? -1 : 1;
    if (!lacks_l) {
        __int128 ratio_l = (__int128)active_l * i64_max(1, r->min);
        __int128 ratio_r = (__int128)active_r * i64_max(1, l->min);
        if (ratio_l != ratio_r)
            return ratio_l < ratio_r ? -1 : 1;
    }
    return str_cmp(l->name, r->name);
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

/* ---- placing ---- */
struct attempt {
    struct sched *sched;
    struct group *group;
    bool later;
    struct failure *failure;
};

/* The placement is its old room: the same shared devices, or any whole one where its own is still
 * free for it. */
static bool can_stay(const struct pod *pod, const struct placement *placement)
{
    const struct node *node = placement->node;
    const uint8_t *slots = pod_shares(pod);
    int64_t memory = share_memory(pod, node);

    for (uint8_t i = 0; i < pod->share_count; i++) {
        const struct share *share = &node->shares[slots[i]];
        if (placement->shares[i] == slots[i])
            continue;
        if (placement->shares[i] != SHARES_MAX)
            return false;
        if (node->gpu_memory - share->allocated - share->pipelined < memory)
            return false;
    }
    return true;
}

static void put(struct attempt *attempt, struct pod *pod, struct placement *placement)
{
    struct sched *sched = attempt->sched;
    struct node *node = placement->node;

    if (pod->victim && pod->status == ST_RELEASING && pod->node == node &&
        can_stay(pod, placement)) {
        enum status was = pod->was != ST_PIPELINED             ? pod->was
                          : ST_IN(pod->observed, ST_ALLOCATED) ? pod->observed
                                                               : ST_BINDING;
        pod_set(sched, pod, was, node, pod_shares(pod), pod->share_count);
        return;
    }
    for (uint8_t i = 0; i < placement->share_count; i++)
        if (placement->shares[i] == SHARES_MAX)
            placement->shares[i] = share_open(node, NULL);
    pod_set(sched, pod, placement->fit == FIT_IDLE && !attempt->later ? ST_BINDING : ST_PIPELINED,
            node, placement->shares, placement->share_count);
    pod->placed_in = sched->cycle;
    pod->lent_for = placement->lent_for;
}

static bool place_leaf(struct attempt *attempt,
                       const struct pod_vec *tasks,
                       const struct node_set *nodes)
{
    for (size_t i = 0; i < tasks->count; i++) {
        struct placement placement;

        if (!place_find(attempt->sched, tasks->items[i], nodes, &placement) &&
            (attempt->later || (nodes && nodes->nodes) ||
             !keep_lend(attempt->sched, tasks->items[i], &placement))) {
            attempt->failure->reason = SCHED_REASON_NO_ROOM;
            attempt->failure->pod = tasks->items[i];
            attempt->failure->placed = i;
            return false;
        }
        put(attempt, tasks->items[i], &placement);
    }
    return true;
}

static bool below(const struct group *group, uint32_t set, uint32_t ancestor)
{
    while (set && set != ancestor)
        set = group->sets[set].parent;
    return set == ancestor;
}

static struct pod_vec tasks_below(struct attempt *attempt,
                                  const struct pod_vec *tasks,
                                  uint32_t set)
{
    struct pod_vec some = {0};

    for (size_t i = 0; i < tasks->count; i++)
        if (below(attempt->group, tasks->items[i]->set, set))
            VEC_PUSH(attempt->sched->arena, &some, tasks->items[i]);
    return some;
}

static bool place_set_tree(struct attempt *attempt,
                           uint32_t set,
                           const struct pod_vec *tasks,
                           const struct node_set *nodes);

/* Children one after the other: inner ones first, then leaves, each kind in its order. */
static bool place_children(struct attempt *attempt,
                           uint32_t set,
                           const struct pod_vec *tasks,
                           const struct node_set *nodes)
{
    const struct group *group = attempt->group;
    uint32_t *children = ARENA_ARRAY(attempt->sched->arena, uint32_t, group->set_count + 1);
    size_t count = 0;

    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next) {
        size_t at = count++;
        bool leaf = group->sets[child].leaf;

        while (at && (group->sets[children[at - 1]].leaf != leaf
                          ? !leaf
                          : set_order(group, child, children[at - 1]) < 0)) {
            children[at] = children[at - 1];
            at--;
        }
        children[at] = child;
    }
    for (size_t i = 0; i < count; i++) {
        struct pod_vec some = tasks_below(attempt, tasks, children[i]);

        if (some.count && !place_set_tree(attempt, children[i], &some, nodes))
            return false;
    }
    return true;
}

static bool place_set_tree(struct attempt *attempt,
                           uint32_t set,
                           const struct pod_vec *tasks,
                           const struct node_set *nodes)
{
    struct sched *sched = attempt->sched;
    struct node_sets choices = {0};

    if (!topology_subsets(sched, attempt->group, set, tasks, nodes, &choices, attempt->failure))
        return false;
    for (size_t i = 0; i < choices.count; i++) {
        struct mark mark = journal_mark(sched);
        bool placed = attempt->group->sets[set].leaf
                          ? place_leaf(attempt, tasks, &choices.items[i])
                          : place_children(attempt, set, tasks, &choices.items[i]);

        if (placed)
            return true;
        journal_rollback(sched, mark);
    }
    if (!choices.count && attempt->failure->reason == SCHED_REASON_NONE)
        attempt->failure->reason = SCHED_REASON_TOPOLOGY;
    return false;
}

/* ---- all or nothing ---- */
static bool allowed(struct failure *failure, enum queue_verdict verdict)
{
    if (verdict != QUEUE_OK)
        failure->reason =
            verdict == QUEUE_OVER_LIMIT ? SCHED_REASON_OVER_LIMIT : SCHED_REASON_OVER_QUOTA;
    return verdict == QUEUE_OK;
}

static bool place_at(struct attempt *attempt, const struct pod_vec *tasks, struct node **nodes)
{
    for (size_t i = 0; i < tasks->count; i++) {
        struct pod_vec one = {.items = &tasks->items[i], .count = 1};

        if (!place_leaf(attempt, &one, &(struct node_set){.nodes = &nodes[i], .count = 1}))
            return false;
    }
    return true;
}

/* Anywhere, where no nodes are given. The queues are asked before, with what the tasks ask for, and
 * after, with what they were charged. */
static bool allocate(struct attempt *attempt, const struct pod_vec *tasks, struct node **nodes)
{
    struct sched *sched = attempt->sched;
    struct failure *failure = attempt->failure;
    const struct group *group = attempt->group;
    struct node_set everywhere = {0};
    struct queue_sums before[QUEUE_SUMS];
    int64_t request[SCHED_RESOURCES];
    struct mark mark = journal_mark(sched);

    *failure = (struct failure){0};
    tasks_request(sched, tasks, request);
    if (!tasks->count ||
        !allowed(failure, queue_check(group, request, &failure->queue, &failure->resource)))
        return false;
    queue_note(group, before);
    if ((nodes ? place_at(attempt, tasks, nodes)
               : place_set_tree(attempt, 0, tasks, &everywhere)) &&
        allowed(failure, queue_grew(group, before, &failure->queue, &failure->resource)))
        return true;
    journal_rollback(sched, mark);
    return false;
}

bool allocate_tasks(struct sched *sched,
                    struct group *group,
                    const struct pod_vec *tasks,
                    bool later,
                    struct failure *ret)
{
    struct attempt attempt = {.sched = sched, .group = group, .later = later, .failure = ret};

    return allocate(&attempt, tasks, NULL);
}

bool allocate_at(struct sched *sched,
                 struct group *group,
                 const struct pod_vec *tasks,
                 struct node **nodes,
                 struct failure *ret)
{
    struct attempt attempt = {.sched = sched, .group = group, .failure = ret};

    return allocate(&attempt, tasks, nodes);
}
