#include "sched/search.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/arrange.h"
#include "sched/closers.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/hopeless.h"
#include "sched/journal.h"
#include "sched/lost.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/order.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/propose.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/runtime.h"
#include "sched/sched.h"
#include "sched/search_try.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"
#include "sched/victims.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static int by_name(const void *a, const void *b)
{
    return str_cmp((*(struct node *const *)a)->name, (*(struct node *const *)b)->name);
}

/* The nodes of the newest unit, each once, by name. */
static size_t unit_nodes(struct search *search, const struct pod_vec *pods, struct node **ret)
{
    size_t count = 0;

    search->sched->mark_now++;
    for (size_t i = 0; i < pods->count; i++) {
        struct node *node = pods->items[i]->node;
        if (!node || node->mark == search->sched->mark_now)
            continue;
        node->mark = search->sched->mark_now;
        ret[count++] = node;
    }
    if (count > 1)
        qsort(ret, count, sizeof(*ret), by_name);
    return count;
}

static int by_pod_key(const void *a, const void *b)
{
    return str_cmp(pod_key(*(struct pod *const *)a), pod_key(*(struct pod *const *)b));
}

/* A node keeps them in any order. */
static void sort_by_key(struct pod_vec *pods)
{
    if (pods->count > 1)
        qsort(pods->items, pods->count, sizeof(*pods->items), by_pod_key);
}

/* Those of the group that are proposed and not recorded. Of a large gang the proposed ones are fewer. */
static void proposed_of(const struct proposals *proposals,
                        const struct group *group,
                        struct pod_vec *ret)
{
    struct sched *sched = proposals->search->sched;
    bool large = group->pods.count > proposals->taken.count;
    size_t count = large ? proposals->taken.count : group->pods.count;
    struct pod *const *pods = large ? proposals->taken.items : group->pods.items;

    sched->steps += count;
    for (size_t i = 0; i < count; i++)
        if (pods[i]->group == group && pods[i]->taken && !pods[i]->recorded)
            VEC_PUSH(sched->arena, ret, pods[i]);
}

/* All proposed pods of the groups that have a proposed pod on the node. */
static struct pod_vec victims_on(const struct proposals *proposals, const struct node *node)
{
    struct sched *sched = proposals->search->sched;
    struct pod_vec victims = {0};

    sched->mark_now++;
    for (size_t i = 0; i < node->pods.count; i++) {
        struct pod *pod = node->pods.items[i];
        struct group *group = pod->group;

        if (!pod->taken || pod->recorded || group->mark == sched->mark_now)
            continue;
        group->mark = sched->mark_now;
        proposed_of(proposals, group, &victims);
    }
    sort_by_key(&victims);
    return victims;
}

/* ---- what cannot help need not be tried ---- */
/* What pods ask of a node if they all ask the same and only room matters; NULL otherwise. */
static const struct pod *one_for_all(const struct search *search)
{
    const struct pod *first = search->tasks.items[0];

    if (search->sched->config.plain || search->sched->anti_pods.count)
        return NULL;
    for (size_t i = 0; i < search->tasks.count; i++) {
        const struct pod *pod = search->tasks.items[i];
        if (pod->shape != first->shape || pod->claim_count || pod->shape->shared)
            return NULL;
    }
    return first->shape->local ? first : NULL;
}

static bool could_help(const struct proposals *proposals, const struct pod_vec *victims)
{
    const struct node *last = NULL;

    for (size_t i = 0; i < victims->count; i++) {
        const struct node *node = victims->items[i]->node;
        if (node && node != last && proposals_could_hold(proposals, node))
            return true;
        last = node;
    }
    return false;
}

/* Whether the newest proposal is worth a look: victims whose groups have no other pods can only
 * make room where they are. */
static bool worth_a_look(const struct proposals *proposals)
{
    const struct pod *pod = proposals->pods.items[0];

    return proposals->scattered || !pod->node || proposals_could_hold(proposals, pod->node);
}

/* Whether it is one of a gang that goes as a whole, of which others are not where they were: who is
 * moved now may be lost for the next pod, and then it would be left alone. */
static bool goes_with_others(const struct search *search,
                             const struct pod *pod,
                             const struct pod_vec *evicted)
{
    if (QUIRK(search->sched, NO_RESERVATION) || pod->group->pods.count == 1 ||
        group_elastic(pod->group) > 0)
        return false;
    for (size_t i = 0; i < evicted->count; i++)
        if (evicted->items[i]->group == pod->group &&
            !search_in_place(search->sched, evicted->items[i]))
            return true;
    return false;
}

/* On success search->recorded is who had to go, evicted in the journal. */
static void victims_record(struct search *search, const struct pod_vec *evicted)
{
    for (size_t i = 0; i < search->recorded.count; i++)
        search->recorded.items[i]->recorded = false;
    search->recorded.count = 0;
    for (size_t i = 0; i < evicted->count; i++) {
        struct pod *pod = evicted->items[i];
        if (search_in_place(search->sched, pod) && !goes_with_others(search, pod, evicted)) {
            pod->victim = false;
            continue;
        }
        VEC_PUSH(search->sched->arena, &search->recorded, pod);
    }
}

/* Whether these are hardly more than the last ones; see SEARCH_STEPS_MAX. */
static bool hardly_more(struct search *search,
                        const struct proposals *proposals,
                        const struct pod_vec *more)
{
    const struct group *group = more->items[0]->group;

    for (size_t i = 1; group && i < more->count; i++)
        group = more->items[i]->group == group ? group : NULL;
    if (group && group == search->tried && !proposals->last && !search->sched->config.plain &&
        more->count < search->tried_count + search->tried_count / 8 &&
        search->sched->steps - search->began > SEARCH_STEPS_MAX)
        return true;
    search->tried = group;
    search->tried_count = more->count;
    return false;
}

/* Where a limit, or pods that it must be apart from, are in the way, those that have to go need not be
 * on one node: all that are proposed, as long as they are few. Who could have stayed is put back. */
#define SEARCH_TOGETHER 16
static bool try_together(struct search *search,
                         const struct proposals *proposals,
                         const struct pod_vec *tasks,
                         struct pod_vec *evicted)
{
    struct pod_vec all = {0};

    if (!search->scattered || proposals->taken.count > SEARCH_TOGETHER)
        return false;
    for (size_t i = 0; i < proposals->taken.count; i++)
        if (!proposals->taken.items[i]->recorded)
            VEC_PUSH(search->sched->arena, &all, proposals->taken.items[i]);
    sort_by_key(&all);
    return all.count > proposals->pods.count && search_attempt(search, tasks, &all, evicted);
}

static bool try_newest(struct search *search,
                       const struct proposals *proposals,
                       const struct pod_vec *tasks,
                       struct pod_vec *evicted)
{
    uint64_t *filtered = &search->sched->tally[search->action].filtered;

    if (!worth_a_look(proposals)) {
        ++*filtered;
        return false;
    }
    const struct pod_vec *pods = &proposals->pods;
    struct node **nodes = ARENA_ARRAY(search->sched->arena, struct node *, pods->count + 1);
    size_t count = unit_nodes(search, pods, nodes);

    for (size_t i = 0; i < count; i++) {
        struct pod_vec more = victims_on(proposals, nodes[i]);
        if (!could_help(proposals, &more))
            ++*filtered;
        else if (!hardly_more(search, proposals, &more) &&
                 search_attempt(search, tasks, &more, evicted))
            return true;
    }
    return try_together(search, proposals, tasks, evicted);
}

/* Whether what is in the way of the tasks need not be on the node where they are to be. */
static bool is_scattered(const struct search *search, const struct pod_vec *tasks)
{
    bool scattered =
        search->reason == SCHED_REASON_OVER_LIMIT || search->reason == SCHED_REASON_OVER_QUOTA;

    for (size_t i = 0; i < tasks->count; i++)
        scattered = scattered || tasks->items[i]->shape->spec.anti_affinity_count;
    return scattered && !QUIRK(search->sched, NODE_VICTIMS);
}

static bool search_solve(struct search *search, const struct pod_vec *tasks)
{
    struct proposals proposals;
    struct pod_vec evicted = {0};
    bool solved = search_attempt(search, tasks, NULL, &evicted);

    search->tried = NULL;
    if (!solved) {
        /* Only where room was missing, and nobody came before, must new room be large enough. */
        const struct pod *task =
            search->reason == SCHED_REASON_NO_ROOM && !search->crowded ? one_for_all(search) : NULL;

        search->scattered = is_scattered(search, tasks);
        proposals_open(&proposals, search, task);
        while (!solved && propose(&proposals))
            solved = try_newest(search, &proposals, tasks, &evicted);
        proposals_close(&proposals);
    }
    if (solved)
        victims_record(search, &evicted);
    return solved;
}

/* ---- many pods that are all alike ---- */
enum quick {
    QUICK_SOLVED,
    QUICK_IMPOSSIBLE,
    QUICK_UNSURE, /* the long way has to decide */
};

/* What the node has of a resource with the recorded victims gone. */
static int64_t room_of(const struct node *node, uint32_t res)
{
    int64_t room = node->idle[res] + node->releasing[res];

    for (size_t i = 0; i < node->pods.count; i++) {
        const struct pod *pod = node->pods.items[i];
        for (size_t j = 0; pod->recorded && j < pod->want_count; j++)
            room += pod->wants[j].res == res ? pod->wants[j].amount : 0;
        room += pod->recorded && res == RES_PODS;
    }
    return room;
}

/* How many pods like `task` the node then holds. */
static int64_t slots_of(const struct sched *sched, const struct pod *task, struct node *node)
{
    int64_t slots = node->pool->policy.without_filters ? INT64_MAX : room_of(node, RES_PODS);

    if (!filter_allowed(sched, task->shape, node))
        return 0;
    for (size_t i = 0; i < task->want_count; i++)
        slots = i64_min(slots, room_of(node, task->wants[i].res) / task->wants[i].amount);
    return i64_max(0, slots);
}

/* Slots without any victim, as far as they are needed. */
static int64_t slots_now(const struct search *search, const struct pod *task)
{
    const struct pool *pool = search->group->queue->pool;
    int64_t slots = 0;

    for (size_t i = 0; i < pool->nodes.count && slots < (int64_t)search->tasks.count; i++)
        slots += i64_min(slots_of(search->sched, task, pool->nodes.items[i]),
                         (int64_t)search->tasks.count);
    return slots;
}

/* A victim that could go somewhere else, now or into what is left of the node it leaves, would
 * change what follows. */
static bool could_move(struct search *search, struct pod *victim, const struct pod *task)
{
    struct placement placement;
    int64_t slots = slots_of(search->sched, task, victim->node);
    bool fits = true;

    for (size_t i = 0; i < victim->want_count && fits; i++) {
        int64_t left = room_of(victim->node, victim->wants[i].res);

        for (size_t j = 0; j < task->want_count; j++)
            if (task->wants[j].res == victim->wants[i].res)
                left -= slots * task->wants[j].amount;
        fits = left >= victim->wants[i].amount;
    }
    return fits || place_find(search->sched, victim, NULL, &placement);
}

/* Records the victims if their going makes one more slot. More than one slot at once would leave
 * room for others in between: *unsure. */
static bool gain_slot(struct search *search,
                      const struct pod *task,
                      const struct pod_vec *more,
                      bool *unsure)
{
    int64_t gain = 0;

    for (size_t i = 0; i < more->count; i++)
        gain -= slots_of(search->sched, task, more->items[i]->node);
    for (size_t i = 0; i < more->count; i++)
        more->items[i]->recorded = true;
    for (size_t i = 0; i < more->count; i++)
        gain += slots_of(search->sched, task, more->items[i]->node);
    for (size_t i = 0; i < more->count && !*unsure; i++)
        *unsure = more->items[i]->node != more->items[0]->node ||
                  (gain > 0 && (!i || more->items[i]->shape != more->items[i - 1]->shape) &&
                   could_move(search, more->items[i], task));
    if (gain > 0)
        *unsure = *unsure || gain != (int64_t)more->count;
    else
        for (size_t i = 0; i < more->count; i++)
            more->items[i]->recorded = false;
    return gain > 0;
}

/* Takes proposals until one makes a slot. */
static enum quick next_slot(struct search *search,
                            struct proposals *proposals,
                            const struct pod *task,
                            struct pod_vec *victims)
{
    bool unsure = false;

    while (propose(proposals)) {
        const struct node *node = proposals->pods.items[0]->node;

        if (!node || proposals->pods.count > 1)
            return QUICK_UNSURE;
        if (!worth_a_look(proposals))
            continue;
        struct pod_vec more = victims_on(proposals, node);
        if (!could_help(proposals, &more))
            continue;
        for (size_t i = 0; i < more.count; i++)
            if (more.items[i]->shape->shared || more.items[i]->claim_count ||
                !more.items[i]->shape->local)
                return QUICK_UNSURE; /* what it frees, or where it could go, depends on others */
        bool gained = gain_slot(search, task, &more, &unsure);
        for (size_t i = 0; gained && i < more.count; i++)
            VEC_PUSH(search->sched->arena, victims, more.items[i]);
        if (gained || unsure)
            return unsure ? QUICK_UNSURE : QUICK_SOLVED;
    }
    return QUICK_IMPOSSIBLE;
}

/* ---- pods that take all GPUs of a node ---- */

/* The slots that there are without a victim, up to the number of tasks. False: a node has all GPUs
 * that a task asks for and lacks something else, which no closer says when it will have. */
static bool slots_whole(struct search *search, const struct pod *task, int64_t gpus, int64_t *ret)
{
    struct node *root = search->group->queue->pool->index[0];
    int64_t most = (int64_t)search->tasks.count;

    *ret = 0;
    for (struct node *node = index_from(root, INDEX_GPU, gpus); node && *ret < most;
         node = index_next(root, INDEX_GPU, node)) {
        int64_t slots = slots_of(search->sched, task, node);

        if (!slots && filter_allowed(search->sched, task->shape, node))
            return false;
        *ret += i64_min(slots, most);
    }
    return true;
}

/* Everybody who has to leave the node of a closer. QUICK_IMPOSSIBLE: somebody stays. */
static enum quick node_victims(struct search *search,
                               const struct queue *queue,
                               const struct node *node,
                               struct pod_vec *ret)
{
    for (size_t i = 0; i < node->pods.count; i++) {
        struct pod *pod = node->pods.items[i];
        const struct group *group = pod->group;

        if (!ST_IN(pod->status, ST_ACTIVE))
            continue;
        if (!group || group->queue != queue || pod->set == SET_NONE || pod->left ||
            pod->status == ST_PIPELINED || !pod_holds(pod, RES_GPU))
            return QUICK_UNSURE;
        if (!search->may_lose(search, group) || propose_spares(search, pod))
            return QUICK_IMPOSSIBLE;
        if (group->semi || runtime_protects(search->sched, group, search->group, search->action))
            return QUICK_UNSURE;
        VEC_PUSH(search->sched->arena, ret, pod);
    }
    sort_by_key(ret);
    return QUICK_SOLVED;
}

/* The next node, in the order in which victims would leave them empty. */
static enum quick next_node(struct search *search,
                            const struct queue *queue,
                            const struct pod *task,
                            size_t *end,
                            struct pod_vec *victims)
{
    while ((*end = victims_closing(queue, *end))) {
        const struct group *closer = queue->sorted.items[--*end];
        const struct node *node = closer->pods.count ? closer->pods.items[0]->node : NULL;
        struct pod_vec more = {0};
        bool unsure = false;

        if (!node || node->closer != closer) /* it was one */
            continue;
        enum quick result = node_victims(search, queue, node, &more);
        if (result == QUICK_UNSURE)
            return result;
        bool gained = result == QUICK_SOLVED && gain_slot(search, task, &more, &unsure);
        for (size_t i = 0; gained && i < more.count; i++)
            VEC_PUSH(search->sched->arena, victims, more.items[i]);
        if (gained || unsure)
            return unsure ? QUICK_UNSURE : QUICK_SOLVED;
    }
    return QUICK_UNSURE;
}

static void pods_unrecord(const struct pod_vec *pods)
{
    for (size_t i = 0; i < pods->count; i++)
        pods->items[i]->recorded = false;
}

/* As solve_alike(), where a task leaves no GPU of a node to anybody: it needs nodes whose closer
 * goes, and all proposals in between are passed by (closers.h). QUICK_UNSURE: that would not be all
 * that counts. */
static enum quick solve_whole(struct search *search, const struct pod *task, struct pod_vec *ret)
{
    const struct queue *queue = proposals_queue(search);
    int64_t gpus = pod_holds(task, RES_GPU);
    enum quick result = QUICK_SOLVED;
    int64_t slots = 0;

    if (!queue || queue->odd || !gpus || gpus < closers_most(search->sched) ||
        !slots_whole(search, task, gpus, &slots))
        return QUICK_UNSURE;
    closers_settle(search->sched);
    size_t end = queue->sorted.count;
    for (; slots < (int64_t)search->tasks.count && result == QUICK_SOLVED; slots++)
        result = next_node(search, queue, task, &end, ret);
    pods_unrecord(ret);
    return result;
}

/* The same for all others, victim by victim. */
static enum quick solve_walking(struct search *search, const struct pod *task, struct pod_vec *ret)
{
    int64_t missing = (int64_t)search->tasks.count - slots_now(search, task);
    struct proposals proposals;
    enum quick result = QUICK_SOLVED;

    proposals_open(&proposals, search, task);
    for (; missing > 0 && result == QUICK_SOLVED; missing--)
        result = next_slot(search, &proposals, task, ret);
    proposals_close(&proposals);
    pods_unrecord(ret);
    return result;
}

/* Counts instead of trying: pods that are all alike need slots, and victims make them one at a
 * time. Right as long as no victim could go elsewhere. The result is tried as a whole before it
 * counts. */
static enum quick solve_alike(struct search *search)
{
    const struct pod *task = one_for_all(search);
    struct pod_vec victims = {0};
    struct pod_vec evicted = {0};

    if (!task || search->tasks.count < 2 || !search_simple(search->group) || task->shape->scored)
        return QUICK_UNSURE;
    enum quick result = solve_whole(search, task, &victims);
    if (result != QUICK_SOLVED) {
        victims.count = 0;
        result = solve_walking(search, task, &victims);
    }
    if (result != QUICK_SOLVED)
        return result;
    search->recorded = victims;
    if (!search_attempt(search, &search->tasks, NULL, &evicted)) {
        search->recorded.count = 0;
        return QUICK_UNSURE;
    }
    victims_record(search, &evicted);
    return QUICK_SOLVED;
}

static void search_finish(struct search *search, bool solved)
{
    if (solved && search->recorded.count)
        search->group->reserved = !QUIRK(search->sched, NO_RESERVATION);
    for (size_t i = 0; i < search->recorded.count; i++) {
        struct pod *pod = search->recorded.items[i];
        pod->recorded = false;
        pod->victim = false;
        if (!solved || search_in_place(search->sched, pod))
            continue;
        if (pod->was == ST_BINDING && pod->placed_in == search->sched->cycle)
            search->sched->undone = true; /* nobody's end frees that room */
        if (pod->was == ST_PIPELINED && pod->status == ST_PENDING)
            promise_lost(search, pod->group);
        if (pod->was == ST_BINDING && pod->status == ST_PIPELINED) /* it keeps what it is given */
            pod->group->reserved = !QUIRK(search->sched, NO_RESERVATION);
        pod->action = search->action;
        pod->evicted_for = search->group;
        pod->group->queue->lost_in = search->sched->cycle;
    }
}

static bool solve_stepwise(struct search *search)
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
        solved = search_solve(search, &tasks);
        if (!solved)
            break;
    }
    if (!solved)
        journal_rollback(search->sched, mark);
    return solved;
}

/* ---- few victims, in every way ---- */
#define FEW_UNITS 12
#define FEW_NODES (2 * ARRANGE_CERTAIN)

/* What could go by itself: a unit, with those of its group that go before it. 0: too many. */
static size_t few_units(struct search *search, struct pod_vec units[static FEW_UNITS])
{
    struct proposals proposals;
    size_t count = 0;
    bool more = false;

    proposals_open(&proposals, search, NULL);
    while ((more = propose(&proposals)) && count < FEW_UNITS) {
        const struct pod_vec *pods = &proposals.pods;
        struct pod_vec *unit = &units[count++];

        *unit = (struct pod_vec){0};
        for (size_t i = count - 1; i-- > 0;)
            if (units[i].items[0]->group == pods->items[0]->group) {
                for (size_t p = 0; p < units[i].count; p++)
                    VEC_PUSH(search->sched->arena, unit, units[i].items[p]);
                break;
            }
        for (size_t i = 0; i < pods->count; i++)
            VEC_PUSH(search->sched->arena, unit, pods->items[i]);
    }
    proposals_close(&proposals);
    return more ? 0 : count;
}

/* Of a group the last unit is all of the others, too. */
static bool solve_with(struct search *search, const struct pod_vec *const *units, size_t count)
{
    struct pod_vec more = {0};
    struct pod_vec evicted = {0};

    for (size_t u = 0; u < count; u++)
        for (size_t other = u + 1; other < count; other++)
            if (units[other]->items[0]->group == units[u]->items[0]->group)
                return false;
    for (size_t u = 0; u < count; u++)
        for (size_t i = 0; i < units[u]->count; i++)
            VEC_PUSH(search->sched->arena, &more, units[u]->items[i]);
    if (!search_attempt(search, &search->tasks, &more, &evicted))
        return false;
    victims_record(search, &evicted);
    return true;
}

/* The last unit of each group. */
static bool solve_with_all(struct search *search, const struct pod_vec *units, size_t count)
{
    const struct pod_vec *last[FEW_UNITS];
    size_t groups = 0;

    for (size_t i = 0; i < count; i++) {
        size_t at = 0;

        while (at < groups && last[at]->items[0]->group != units[i].items[0]->group)
            at++;
        last[at] = &units[i];
        groups += at == groups;
    }
    return groups > 2 && solve_with(search, last, groups);
}

/* Step by step a victim that helped the first pods stays one, and whoever is proposed is tried with
 * those before it. Where that led nowhere, and there are few, each is tried alone, then any two, then
 * all, of whom those stay that can. */
static bool solve_few(struct search *search)
{
    struct pod_vec units[FEW_UNITS];

    pods_unrecord(&search->recorded);
    for (size_t i = 0; i < search->recorded.count; i++)
        search->recorded.items[i]->victim = false;
    search->recorded.count = 0;
    if (QUIRK(search->sched, NODE_VICTIMS) || search->tasks.count > FEW_UNITS ||
        search->group->queue->pool->nodes.count > FEW_NODES)
        return false;
    size_t count = few_units(search, units);
    for (size_t i = 0; i < count; i++)
        if (solve_with(search, (const struct pod_vec *[]){&units[i]}, 1))
            return true;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (solve_with(search, (const struct pod_vec *[]){&units[i], &units[j]}, 2))
                return true;
    return solve_with_all(search, units, count);
}

/* ---- many groups that are all alike ---- */
/* A pod alone, in nobody's kept room, in a queue that does not go by users. */
static struct shape *alone_alike(const struct search *search)
{
    const struct sched *sched = search->sched;
    const struct group *group = search->group;

    if (!sched->round || sched->config.plain || sched->keeps.count || group->payer ||
        group->pods.count != 1 || search->tasks.count != 1 || !search_simple(group) ||
        group->semi || group->stand_ins || !place_alike(sched, search->tasks.items[0]))
        return NULL;
    return search->tasks.items[0]->shape;
}

/* Whether all that runs in the queue is before that place in its line. */
static bool queue_runs_before(const struct sched *sched, struct queue *queue, int64_t due_ms)
{
    if (queue->newest_in != sched->round) {
        queue->newest_in = sched->round;
        queue->newest_ms = INT64_MIN;
        for (size_t i = 0; i < queue->active.count; i++)
            queue->newest_ms = i64_max(queue->newest_ms, queue->active.items[i]->due_ms);
    }
    return queue->newest_ms < due_ms;
}

/* What another one like it could not get it cannot get either, being later in line: it would only
 * find less room. Where an attempt let the other one in, at a price that was not allowed, whoever
 * comes later may take other room; unless no victim stands between the two in line. */
static bool search_in_vain(const struct search *search)
{
    const struct shape *shape = alone_alike(search);
    const struct group *group = search->group;

    return shape && shape->vain.in == search->sched->round && shape->vain.queue == group->queue &&
           shape->vain.priority == group->priority &&
           shape->vain.preemptible == group->preemptible && shape->vain.due_ms <= group->due_ms &&
           (!shape->vain.contested ||
            queue_runs_before(search->sched, group->queue, shape->vain.due_ms));
}

static void search_note_vain(const struct search *search)
{
    struct shape *shape = alone_alike(search);
    const struct group *group = search->group;

    if (!shape)
        return;
    shape->vain.in = search->sched->round;
    shape->vain.queue = group->queue;
    shape->vain.priority = group->priority;
    shape->vain.due_ms = group->due_ms;
    shape->vain.preemptible = group->preemptible;
    shape->vain.contested = search->contested;
}

static bool search_once(struct search *search)
{
    enum quick quick = solve_alike(search);
    bool solved = quick == QUICK_SOLVED ||
                  (quick == QUICK_UNSURE && (solve_stepwise(search) || solve_few(search)));

    if (solved && !QUIRK(search->sched, NO_RESERVATION))
        search_undo_moves(search);
    search_finish(search, solved);
    return solved;
}

/* Where only those are left whose eviction a budget forbids, they can be deleted, if that is allowed.
 * To move somebody is no reason. */
static bool may_force(const struct search *search)
{
    return search->spared && search->action != SCHED_ACTION_CONSOLIDATE &&
           group_policy(search->group)->delete_refused;
}

bool search_run(struct search *search)
{
    struct pod *lost = NULL;

    if (!search->tasks.count || tasks_claim_missing(&search->tasks, &lost) ||
        tasks_volume_missing(&search->tasks, &lost))
        return false; /* room is of no use to it */
    if (search_in_vain(search) || (!search->sched->config.plain &&
                                   tasks_hopeless(search->sched, search->group, &search->tasks))) {
        search->sched->tally[search->action].filtered++;
        return false;
    }
    search->sched->searches++;
    search->began = search->sched->steps;
    bool solved = search_once(search);
    if (!solved && may_force(search)) {
        search->forced = true;
        search->recorded.count = 0;
        solved = search_once(search);
    }
    if (!solved)
        search_note_vain(search);
    return solved;
}
