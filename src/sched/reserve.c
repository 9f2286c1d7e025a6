#include "sched/reserve.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/group.h"
#include "sched/hold.h"
#include "sched/journal.h"
#include "sched/keep.h"
#include "sched/node.h"
#include "sched/pending.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/quota.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/spot.h"
#include "sched/state.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KEEPS_MAX 4 /* groups of a pool for which room is kept at the same time */

/* ---- what eviction freed ---- */
static bool keeps_promises(const struct sched *sched, const struct group *group)
{
    return !QUIRK(sched, NO_RESERVATION) &&
           (!group->queue || queue_runs(group->queue, SCHED_ACTION_RESERVE));
}

void promises_forgotten(struct sched *sched)
{
    size_t kept = 0;

    for (size_t i = 0; i < sched->promised.count; i++) {
        struct pod *pod = sched->promised.items[i];

        if (pod->status == ST_PIPELINED && pod->group && pod->group->reserved &&
            keeps_promises(sched, pod->group)) {
            sched->promised.items[kept++] = pod;
            continue;
        }
        pod->promised = false;
        if (pod->status == ST_PIPELINED)
            pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
    }
    sched->promised.count = kept;
}

static void promised_pods(struct sched *sched, const struct group *group, struct pod_vec *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < group->pods.count; i++)
        if (group->pods.items[i]->status == ST_PIPELINED)
            VEC_PUSH(sched->arena, ret, group->pods.items[i]);
    if (ret->count > 1)
        qsort(ret->items, ret->count, sizeof(*ret->items), pod_order_qsort);
}

/* Places the promised pods again: in the rooms they were promised, or anywhere. Elsewhere only
 * counts if the group can start there now. */
static bool place_again(struct sched *sched,
                        struct group *group,
                        const struct pod_vec *tasks,
                        bool anywhere)
{
    struct node **nodes = ARENA_ARRAY(sched->arena, struct node *, tasks->count + 1);
    struct mark mark = journal_mark(sched);
    struct failure failure;
    bool placed = false;

    for (size_t i = 0; i < tasks->count; i++) {
        nodes[i] = tasks->items[i]->node;
        pod_set(sched, tasks->items[i], ST_PENDING, NULL, NULL, 0);
    }
    placed = anywhere ? allocate_tasks(sched, group, tasks, false, &failure)
                      : allocate_at(sched, group, tasks, nodes, &failure);
    if (!placed || (anywhere && group_must_wait(group))) {
        journal_rollback(sched, mark);
        return false;
    }
    if (group_must_wait(group))
        group_hold_back(sched, group);
    return true;
}

/* Pods of the group were replaced: those that are there now get the room, before anybody else. */
static bool place_new(struct sched *sched, struct group *group, const struct pod_vec *promised)
{
    struct mark mark = journal_mark(sched);
    struct pod_vec tasks = {0};
    struct failure failure;

    for (size_t i = 0; i < promised->count; i++)
        pod_set(sched, promised->items[i], ST_PENDING, NULL, NULL, 0);
    group_tasks(sched, group, false, &tasks);
    if (!allocate_tasks(sched, group, &tasks, false, &failure)) {
        journal_rollback(sched, mark);
        return false;
    }
    if (group_must_wait(group))
        group_hold_back(sched, group);
    return true;
}

static void give_up(struct sched *sched, struct group *group, const struct pod_vec *tasks)
{
    group->reserved = false;
    for (size_t i = 0; i < tasks->count; i++)
        pod_set(sched, tasks->items[i], ST_PENDING, NULL, NULL, 0);
}

/* The groups with reservations, each once, in the order in which they were promised their room. */
static void resume_reserved(struct sched *sched, bool anywhere)
{
    size_t count = sched->promised.count;

    for (size_t i = 0; i < count; i++) {
        struct group *group = sched->promised.items[i]->group;
        struct pod_vec tasks = {0};

        if (!group || !group->reserved || sched->promised.items[i]->status != ST_PIPELINED ||
            group->resumed_in == sched->cycle * 2 + anywhere)
            continue;
        group->resumed_in = sched->cycle * 2 + anywhere;
        promised_pods(sched, group, &tasks);
        bool placed = group_eligible(sched, group) &&
                      (group_satisfied(group) ? place_again(sched, group, &tasks, anywhere)
                                              : place_new(sched, group, &tasks));
        sched->tally[SCHED_ACTION_RESERVE].tried++;
        sched->tally[SCHED_ACTION_RESERVE].placed += placed;
        if (!placed && !anywhere)
            give_up(sched, group, &tasks);
        group->reserved = group->count[ST_PIPELINED] > 0;
        journal_commit(sched);
    }
}

/* ---- who has waited long enough ---- */
static bool over_queue(const struct group *group)
{
    return group->failure && (group->failure->reason == SCHED_REASON_OVER_LIMIT ||
                              group->failure->reason == SCHED_REASON_OVER_QUOTA);
}

static bool lacks_room(const struct group *group)
{
    if (!group->failure)
        return false;
    enum sched_reason reason = group->failure->reason;
    return reason == SCHED_REASON_NO_ROOM || reason == SCHED_REASON_TOPOLOGY;
}

/* The group of a queue that is next and lacks only what others hold. */
static struct group *head_of(struct sched *sched, const struct queue *queue)
{
    struct group *head = NULL;
    int head_elastic = 0;

    for (size_t i = 0; i < queue->pending.count; i++) {
        struct group *group = queue->pending.items[i];

        if ((!lacks_room(group) && !over_queue(group)) || !group_eligible(sched, group))
            continue;
        int elastic = group_elastic(group);
        if (elastic < 0 && (!head || group_line(group, elastic, head, head_elastic) < 0)) {
            head = group;
            head_elastic = elastic;
        }
    }
    return head;
}

struct candidate {
    struct group *group;
    bool kept;
    int64_t since_ms;
};
struct candidates VEC_FIELDS(struct candidate);

static bool group_ages(const struct sched *sched, const struct group *group)
{
    return !QUIRK(sched, NO_AGEING) && group_policy(group)->reserve_after_ms >= 0 &&
           queue_runs(group->queue, SCHED_ACTION_RESERVE);
}

void keep_wake(struct sched *sched, const struct group *group)
{
    int64_t at_ms = 0;

    if (!group_ages(sched, group))
        return;
    at_ms = group_waits_since(group) + group_policy(group)->reserve_after_ms;
    if (at_ms > sched->now_ms)
        sched_wake(sched, at_ms);
}

static int by_age(const void *a, const void *b)
{
    const struct candidate *l = a;
    const struct candidate *r = b;

    if (l->kept != r->kept)
        return l->kept ? -1 : 1;
    if (l->since_ms != r->since_ms)
        return l->since_ms < r->since_ms ? -1 : 1;
    return str_cmp(l->group->key, r->group->key);
}

static void find_candidates(struct sched *sched, struct candidates *ret)
{
    for (size_t q = 0; q < sched->queues.count; q++) {
        struct group *group = head_of(sched, sched->queues.items[q]);
        int64_t since = group ? group_waits_since(group) : 0;

        if (!group || !group_ages(sched, group))
            continue;
        if (sched->now_ms < since + group_policy(group)->reserve_after_ms)
            continue; /* keep_wake() saw to it that it is looked at then */
        bool kept = group->kept_in && group->kept_in + 1 == sched->cycle;
        VEC_PUSH(sched->arena, ret,
                 (struct candidate){group, kept, kept ? group->kept_since_ms : since});
    }
    if (ret->count > 1)
        qsort(ret->items, ret->count, sizeof(*ret->items), by_age);
}

/* ---- keeping ---- */
/* Only what is kept now is what was kept before. */
static void nodes_kept(const struct keep *keep)
{
    const struct pool *pool = keep->group->queue->pool;

    for (size_t i = 0; i < pool->nodes.count; i++)
        if (pool->nodes.items[i]->kept_for == keep->group->id)
            pool->nodes.items[i]->kept_for = 0;
    for (size_t i = 0; i < keep->count; i++)
        keep->slots[i].node->kept_for = keep->group->id;
}

static void keep_open(struct sched *sched,
                      struct group *group,
                      const struct pod_vec *tasks,
                      int64_t since_ms)
{
    struct spot_choice choice = {0};
    bool nodes = !over_queue(group);

    if (nodes ? !spots_choose(sched, group, tasks, &choice) : !spots_exist(sched, group, tasks))
        return; /* it could never use what were kept */
    struct keep *keep = ARENA_NEW(sched->arena, struct keep);
    *keep = (struct keep){.group = group,
                          .slots = choice.slots,
                          .count = nodes ? tasks->count : 0,
                          .starts_ms = choice.ends_ms == INT64_MAX ? 0 : choice.ends_ms};
    tasks_request(sched, tasks, keep->request);
    keep->fixed = group_fixed(group);
    nodes_kept(keep);
    group->kept_in = sched->cycle;
    group->kept_since_ms = since_ms;
    group->kept_start_ms = keep->starts_ms;
    group->kept_resource = choice.blocked[SCHED_GPU]      ? SCHED_GPU
                           : choice.blocked[SCHED_CPU]    ? SCHED_CPU
                           : choice.blocked[SCHED_MEMORY] ? SCHED_MEMORY
                                                          : SCHED_GPU;
    group->kept_blocked = choice.blocked[group->kept_resource];
    group->keep = keep;
    VEC_PUSH(NULL, &sched->keeps, keep);
    keep_apply(sched, keep, true);
}

/* ---- lending and calling back ---- */
struct recall {
    struct sched *sched;
    const struct group *group;
    struct pod_vec gone;
};

static void send_away(struct recall *recall, struct pod *pod)
{
    pod->victim = true;
    pod->was = pod->status;
    VEC_PUSH(recall->sched->arena, &recall->gone, pod);
    pod_send_away(recall->sched, pod);
}

/* A pod above its group's minimum goes alone, otherwise the whole group goes; unless the group says
 * how it is stopped. */
static void call_back(struct recall *recall, struct pod *pod)
{
    struct group *group = pod->group;
    const struct set *set = &group->sets[pod->set];

    if (!ST_IN(pod->status, ST_ALLOCATED))
        return; /* with its group already */
    if (group->single || (!group->whole && set_active(set) > set->min)) {
        send_away(recall, pod);
        return;
    }
    for (size_t i = 0; i < group->pods.count; i++)
        if (group->pods.items[i]->set != SET_NONE && ST_IN(group->pods.items[i]->status, ST_ACTIVE))
            send_away(recall, group->pods.items[i]);
}

static void call_back_lent(struct recall *recall)
{
    const struct pool *pool = recall->group->queue->pool;

    for (size_t n = 0; n < pool->nodes.count; n++) {
        const struct node *node = pool->nodes.items[n];
        struct pod_vec lent = {0};

        if (node->kept_for != recall->group->id)
            continue;
        for (size_t i = 0; i < node->pods.count; i++)
            if (node->pods.items[i]->lent_for == recall->group->id &&
                node->pods.items[i]->set != SET_NONE && group_evictable(node->pods.items[i]->group))
                VEC_PUSH(recall->sched->arena, &lent, node->pods.items[i]);
        if (lent.count > 1)
            qsort(lent.items, lent.count, sizeof(*lent.items), pod_order_qsort);
        for (size_t i = 0; i < lent.count; i++)
            call_back(recall, lent.items[i]);
    }
}

/* Groups whose room was not needed in the end stay. */
static void spare_unneeded(struct recall *recall)
{
    for (size_t from = 0, to = 0; from < recall->gone.count; from = to) {
        struct group *group = recall->gone.items[from]->group;

        while (to < recall->gone.count && recall->gone.items[to]->group == group)
            to++;
        struct pod_vec pods = {.items = &recall->gone.items[from], .count = to - from};
        (void)pods_stay(recall->sched, group, &pods);
    }
}

/* Whether the group can start in what was lent out, once that is given back. */
static bool call_back_for(struct sched *sched, struct group *group, const struct pod_vec *tasks)
{
    struct recall recall = {.sched = sched, .group = group};
    struct mark mark = journal_mark(sched);
    struct failure failure;

    call_back_lent(&recall);
    bool placed = recall.gone.count && allocate_tasks(sched, group, tasks, true, &failure);
    if (placed)
        spare_unneeded(&recall);
    for (size_t i = 0; i < recall.gone.count; i++) {
        struct pod *pod = recall.gone.items[i];

        pod->victim = false;
        pod->action = placed ? SCHED_ACTION_RESERVE : pod->action;
        pod->evicted_for = placed ? group : pod->evicted_for;
    }
    if (!placed)
        journal_rollback(sched, mark);
    group->reserved = group->reserved || placed;
    return placed;
}

/* ---- the action ---- */
static bool start_aged(struct sched *sched, struct group *group, const struct pod_vec *tasks)
{
    struct failure failure;

    keep_lift(sched, group);
    bool placed = allocate_tasks(sched, group, tasks, false, &failure);
    keep_restore(sched);
    if (placed) {
        group->resumed_in = sched->cycle * 2; /* it comes for room that was its own */
        if (group_must_wait(group)) {
            group_hold_back(sched, group);
            group->reserved = !QUIRK(sched, NO_RESERVATION);
        }
        return true;
    }
    explain_failure(sched, group, &failure);
    return call_back_for(sched, group, tasks);
}

static bool has_right(const struct sched *sched,
                      const struct group *group,
                      const struct pod_vec *tasks)
{
    int64_t request[SCHED_RESOURCES];

    tasks_request(sched, tasks, request);
    return group_policy(group)->without_proportion || queue_could_hold(group, request);
}

static void keep_for_aged(struct sched *sched)
{
    struct candidates candidates = {0};

    find_candidates(sched, &candidates);
    for (size_t i = 0; i < candidates.count; i++) {
        const struct candidate *candidate = &candidates.items[i];
        struct group *group = candidate->group;
        struct pod_vec tasks = {0};
        struct pod *lost = NULL;
        size_t open = 0;

        for (size_t k = 0; k < sched->keeps.count; k++)
            open += sched->keeps.items[k]->group->queue->pool == group->queue->pool;
        group_tasks(sched, group, false, &tasks);
        if (open >= KEEPS_MAX || !tasks.count || !has_right(sched, group, &tasks) ||
            tasks_claim_missing(&tasks, &lost))
            continue;
        bool starts = start_aged(sched, group, &tasks);
        sched->tally[SCHED_ACTION_RESERVE].tried++;
        sched->tally[SCHED_ACTION_RESERVE].placed += starts;
        if (starts)
            journal_commit(sched);
        else
            keep_open(sched, group, &tasks, candidate->kept ? candidate->since_ms : sched->now_ms);
    }
}

void action_reserve(struct sched *sched)
{
    holds_resume(sched);
    if (!QUIRK(sched, NO_RESERVATION))
        resume_reserved(sched, false);
    keep_for_aged(sched);
    if (!QUIRK(sched, NO_RESERVATION))
        resume_reserved(sched, true);
}
