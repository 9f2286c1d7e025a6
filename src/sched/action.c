#include "sched/action.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/keep.h"
#include "sched/lost.h"
#include "sched/order.h"
#include "sched/pending.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/quota.h"
#include "sched/reclaim.h"
#include "sched/resource.h"
#include "sched/runtime.h"
#include "sched/sched.h"
#include "sched/search.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The actions that evict: consolidation, reclaim, preemption, and gangs that fell apart. */

static bool common_victim(const struct search *search, const struct group *victim)
{
    return victim != search->group && victim->preemptible && !victim->queue->broken &&
           victim->queue->pool == search->group->queue->pool &&
           !group_resuming(search->sched, victim);
}

/* ---- whom ---- */
static bool has_surplus(const struct group *group)
{
    return !group->whole && group_elastic_left(group) > 0;
}

static bool loses_nothing(const struct search *search, const struct group *victim)
{
    return (victim->semi ||
            runtime_protects(search->sched, victim, search->group, search->action)) &&
           !has_surplus(victim);
}

/* Enough is free in sum; moving things can only help then. */
static bool enough_in_sum(const struct group *group, const int64_t *request)
{
    const struct pool *pool = group->queue->pool;

    return pool->room[RES_GPU] * GPU_MILLI + pool->parts >= request[SCHED_GPU] &&
           pool->room[RES_MEMORY] >= request[SCHED_MEMORY];
}

/* ---- reclaim ---- */
/* Its queue's quota speaks for it; see reclaim_spares(). */
static bool spared(const struct search *search, const struct group *victim)
{
    double unit[SCHED_RESOURCES] = {0};

    if (!search->reclaim.unset || group_policy(search->group)->without_proportion)
        return false;
    for (size_t i = 0; i < victim->pods.count; i++)
        for (int r = 0; r < SCHED_RESOURCES; r++)
            unit[r] += queue_units(r, victim->pods.items[i]->charge[r]);
    return reclaim_spares(&search->reclaim, (int)victim->queue->index, unit);
}

static bool reclaim_victim(const struct search *search, const struct group *victim)
{
    return common_victim(search, victim) && victim->queue != search->group->queue &&
           victim != search->sched->stays && !loses_nothing(search, victim) &&
           !spared(search, victim);
}

static struct reclaim_queue reclaim_queue_of(const struct queue *queue)
{
    struct reclaim_queue to = {.parent = queue->parent ? (int)queue->parent->index : -1};

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        to.quota[r] = queue->spec.quota[r].quota;
        to.unset[r] = queue->spec.unset[r];
        to.limit[r] = queue->spec.quota[r].limit;
        to.fair[r] = queue->fair[r];
        to.allocated[r] = queue_units(r, queue->allocated[r]);
        to.fixed[r] = queue_units(r, queue->fixed[r]);
    }
    return to;
}

/* Whether the group's queue stays within its fair share, without looking at any other queue. */
static bool within_fair_share(const struct group *group, const int64_t *request)
{
    const struct queue *own = group->queue;
    double amounts[SCHED_RESOURCES];
    bool within = true;
    bool unset = false;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        amounts[r] = queue_units(r, request[r]);
        within = within && queue_units(r, own->allocated[r] + request[r]) <= own->fair[r];
        unset = unset || own->spec.unset[r];
    }
    if (within || !unset)
        return within;
    struct reclaim_queue queue = reclaim_queue_of(own);
    return reclaim_within_share(&queue, amounts);
}

/* Whether any queue has something that may be taken. If not, and there is not enough free in sum,
 * no victims can help: those that are lost must not be, and there is no room to move all. */
static bool anything_to_take(const struct group *group, const int64_t *request)
{
    double amounts[SCHED_RESOURCES];

    for (int r = 0; r < SCHED_RESOURCES; r++)
        amounts[r] = queue_units(r, request[r]);
    for (const struct queue *own = group->queue; own; own = own->parent) {
        struct reclaim_queue to = reclaim_queue_of(own);
        size_t count = own->parent ? own->parent->children.count : own->pool->tops.count;
        struct queue *const *siblings =
            own->parent ? own->parent->children.items : own->pool->tops.items;

        for (size_t i = 0; i < count; i++) {
            if (siblings[i] == own)
                continue;
            struct reclaim_queue from = reclaim_queue_of(siblings[i]);
            if (reclaim_keeps_fair_share(&from, from.allocated, NULL) ||
                reclaim_guarantees_quota(&to, amounts, &from, from.allocated, NULL))
                return true;
        }
    }
    return false;
}

static void reclaim_queues(struct sched *sched, struct reclaim *reclaim)
{
    reclaim->queue_count = sched->queues.count;
    reclaim->queues = ARENA_ARRAY(sched->arena, struct reclaim_queue, sched->queues.count + 1);
    for (size_t i = 0; i < sched->queues.count; i++) {
        reclaim->queues[i] = reclaim_queue_of(sched->queues.items[i]);
        for (int r = 0; r < SCHED_RESOURCES; r++)
            reclaim->unset = reclaim->unset || reclaim->queues[i].unset[r];
    }
}

static bool reclaim_for(struct sched *sched, struct group *group)
{
    struct search search = {
        .sched = sched, .group = group, .action = SCHED_ACTION_RECLAIM, .may_lose = reclaim_victim};
    const struct sched_policy *policy = group_policy(group);
    int64_t request[SCHED_RESOURCES];

    group_tasks(sched, group, true, &search.tasks);
    tasks_request(sched, &search.tasks, request);
    if (!search.tasks.count)
        return false;
    if (!policy->without_proportion &&
        (!within_fair_share(group, request) || !reclaim_lasts(sched, group, request) ||
         (!enough_in_sum(group, request) && !anything_to_take(group, request))))
        return false;
    reclaim_queues(sched, &search.reclaim);
    search.reclaim.saturation = policy->saturation < 1 ? 1 : policy->saturation;
    search.reclaim.queue = (int)group->queue->index;
    search.reclaim.preemptible = !group_fixed(group);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        search.reclaim.request[r] = queue_units(r, request[r]);
    if (!policy->without_proportion && !reclaim_may_start(&search.reclaim))
        return false;
    return search_run(&search);
}

static int by_group(const void *a, const void *b)
{
    const struct pod *l = *(struct pod *const *)a;
    const struct pod *r = *(struct pod *const *)b;

    return l->group != r->group ? str_cmp(l->group->key, r->group->key) : pod_order(l, r);
}

/* Whether all who had to go for the two in this cycle can stay. */
static bool victims_stay(struct sched *sched, const struct group *one, const struct group *other)
{
    struct pod_vec gone = {0};

    for (size_t i = 0; i < sched->touched.count; i++) {
        struct pod *pod = sched->touched.items[i].pod;

        if (pod->status == ST_RELEASING && pod->evicted_for &&
            (pod->evicted_for == one || pod->evicted_for == other))
            VEC_PUSH(sched->arena, &gone, pod);
    }
    if (gone.count > 1)
        qsort(gone.items, gone.count, sizeof(*gone.items), by_group);
    for (size_t from = 0, to = 0; from < gone.count; from = to) {
        struct pod_vec pods = {.items = &gone.items[from]};
        bool stay = false;

        for (; to < gone.count && gone.items[to]->group == gone.items[from]->group; to++)
            gone.items[to]->victim = true;
        pods.count = to - from;
        stay = pods_stay(sched, gone.items[from]->group, &pods);
        for (size_t i = from; i < to; i++)
            gone.items[i]->victim = false;
        if (!stay)
            return false;
    }
    return true;
}

/* Who had to go in this cycle, and comes before the group in its queue. */
static struct group *first_gone(const struct sched *sched,
                                const struct group *group,
                                struct group **ret_by)
{
    for (size_t i = 0; i < sched->touched.count; i++) {
        const struct pod *pod = sched->touched.items[i].pod;

        *ret_by = pod->evicted_for;
        if (pod->group && pod->group->queue == group->queue && pod->status == ST_RELEASING &&
            pod->action == SCHED_ACTION_RECLAIM && pod->evicted_for && pod->evicted_for != group &&
            pod->group->priority > group->priority)
            return pod->group;
    }
    return NULL;
}

/* The group was promised room in a queue that had to give some in this cycle: who had to go is before
 * it in line, and would come back in its place. So that one stays, and whom it had to go for looks
 * once more, for others; or it had to go for nothing, where that one has lost its room to the group. */
static void first_in_line(struct sched *sched, struct group *group)
{
    struct group *by = NULL;
    struct group *first = NULL;

    if (group->queue->lost_in != sched->cycle || QUIRK(sched, NO_RESERVATION))
        return;
    first = first_gone(sched, group, &by);
    if (!first)
        return;
    struct mark mark = journal_mark(sched);
    bool robbed = by->robbed_in == sched->cycle && !by->count[ST_PIPELINED];
    promise_undone(sched, by);
    promise_undone(sched, group);
    sched->stays = first;
    bool good = victims_stay(sched, by, group) && (reclaim_for(sched, by) || robbed);
    sched->stays = NULL;
    if (!good) {
        journal_rollback(sched, mark);
        by->reserved = by->count[ST_PIPELINED] > 0;
        group->reserved = group->count[ST_PIPELINED] > 0;
    }
    journal_commit(sched);
}

/* ---- preempt ---- */
static bool preempt_victim(const struct search *search, const struct group *victim)
{
    return common_victim(search, victim) && victim->queue == search->group->queue &&
           victim->priority < search->group->priority && !loses_nothing(search, victim);
}

static bool has_lower(const struct group *group)
{
    for (size_t i = 0; i < group->queue->priorities.count; i++)
        if (group->queue->priorities.items[i].priority < group->priority)
            return true;
    return false;
}

static bool preempt_for(struct sched *sched, struct group *group)
{
    struct search search = {
        .sched = sched, .group = group, .action = SCHED_ACTION_PREEMPT, .may_lose = preempt_victim};
    int64_t request[SCHED_RESOURCES];

    if (!has_lower(group))
        return false;
    group_tasks(sched, group, true, &search.tasks);
    /* What a queue lends must not be worth an eviction, on whichever device it ends. */
    if (group->queue->spec.lends)
        tasks_request(sched, &search.tasks, request);
    else
        tasks_least(sched, &search.tasks, request);
    if (!search.tasks.count || (group_fixed(group) && !queue_guarantees(group, request)))
        return false;
    return search_run(&search);
}

/* ---- consolidation ---- */
/* Whether it was to start in this cycle, in room that it had been promised: moved again and again it
 * never would, nor would whoever it is moved for. */
static bool comes_for_room(const struct sched *sched, const struct group *group)
{
    return group->resumed_in / 2 == sched->cycle && !QUIRK(sched, NO_RESERVATION);
}

static bool consolidate_victim(const struct search *search, const struct group *victim)
{
    return common_victim(search, victim) && !victim->semi && !victim->stand_ins &&
           !comes_for_room(search->sched, victim) &&
           !(!QUIRK(search->sched, CONSOLIDATE_MIN_RUNTIME) &&
             runtime_protects(search->sched, victim, search->group, search->action));
}

static bool consolidate_for(struct sched *sched, struct group *group)
{
    struct search search = {.sched = sched,
                            .group = group,
                            .action = SCHED_ACTION_CONSOLIDATE,
                            .may_lose = consolidate_victim};
    const struct sched_policy *policy = group_policy(group);
    int64_t request[SCHED_RESOURCES];

    /* Nobody is moved, and loses its work, so that another one goes on a little earlier. */
    if (group_suspended(sched, group))
        return false;
    if (!policy->consolidate_max || policy->gpu_strategy == SCHED_SPREAD ||
        policy->cpu_strategy == SCHED_SPREAD)
        return false;
    group_tasks(sched, group, true, &search.tasks);
    tasks_request(sched, &search.tasks, request);
    if (!search.tasks.count || group_fixed(group) || !enough_in_sum(group, request))
        return false;
    return search_run(&search);
}

/* ---- turns ---- */
/* The queue's turns in this cycle. A round goes on from the cycle before if that left some out. */
static struct queue_turns *turns_now(const struct sched *sched,
                                     enum sched_action action,
                                     struct queue *queue)
{
    struct queue_turns *turns = &queue->turns[GROUP_SEARCH(action)];

    if (turns->cycle == sched->cycle)
        return turns;
    turns->goes_on = turns->left_out && turns->cycle + 1 == sched->cycle;
    turns->news = turns->goes_on && (turns->news || sched->news);
    turns->since = turns->goes_on ? turns->since : sched->cycle;
    turns->cycle = sched->cycle;
    turns->vain = 0;
    turns->left_out = false;
    return turns;
}

static bool has_turn(const struct sched *sched, enum sched_action action, const struct group *group)
{
    struct queue_turns *turns = turns_now(sched, action, group->queue);

    if (QUIRK(sched, EVERY_SEARCH) || turns->vain < ACTION_VAIN_HEAD)
        return true;
    if (turns->goes_on && group->searched[GROUP_SEARCH(action)] >= turns->since)
        return false;
    turns->left_out = turns->left_out || turns->vain >= ACTION_VAIN_MAX;
    return turns->vain < ACTION_VAIN_MAX;
}

/* Those that were left out have their turn soon, even if nothing happens; and so has everybody again
 * if something did while the round went on. */
static void turns_end(struct sched *sched, enum sched_action action)
{
    for (size_t q = 0; q < sched->queues.count; q++) {
        const struct queue_turns *turns = &sched->queues.items[q]->turns[GROUP_SEARCH(action)];

        if (turns->cycle == sched->cycle && (turns->left_out || turns->news))
            sched_wake(sched, sched->now_ms + ACTION_TURN_MS);
    }
}

/* ---- whether anybody is worth a look ---- */
/* No tasks of the group ask for less than that. False: not known. */
static bool least_asked(const struct group *group, int64_t ret[static SCHED_RESOURCES])
{
    for (int r = 0; r < SCHED_RESOURCES; r++)
        ret[r] = group->pods.count ? INT64_MAX : 0;
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (pod->claim_count)
            return false;
        for (int r = 0; r < SCHED_RESOURCES; r++)
            ret[r] = i64_min(ret[r], pod->ask[r]);
    }
    return true;
}

/* Those of one queue that ask for the same are asked about one after the other, and nothing changes
 * in between. */
struct taking {
    const struct queue *queue;
    int64_t least[SCHED_RESOURCES];
    bool anything;
};

static bool queue_could_take(const struct group *group, const int64_t *least, struct taking *last)
{
    if (last->queue != group->queue || memcmp(last->least, least, sizeof(last->least)) != 0) {
        last->queue = group->queue;
        memcpy(last->least, least, sizeof(last->least));
        last->anything = anything_to_take(group, least);
    }
    return last->anything;
}

/* Each of these is false only where the attempt would turn back at its first question. What is asked
 * there holds all the more for more pods, so the smallest one will do. */
static bool consolidate_could(const struct group *group, struct taking *last)
{
    int64_t least[SCHED_RESOURCES];

    (void)last;
    return !least_asked(group, least) || enough_in_sum(group, least);
}

/* What goes along with what the queue names is due to a gang, and to none of its pods alone. */
static bool names_not_all(const struct queue *queue)
{
    bool unset = false;

    for (int r = 0; r < SCHED_RESOURCES; r++)
        unset = unset || queue->spec.unset[r];
    return unset;
}

static bool reclaim_could(const struct group *group, struct taking *last)
{
    int64_t least[SCHED_RESOURCES];

    return group_policy(group)->without_proportion || names_not_all(group->queue) ||
           !least_asked(group, least) ||
           (within_fair_share(group, least) &&
            (enough_in_sum(group, least) || queue_could_take(group, least, last)));
}

static bool preempt_could(const struct group *group, struct taking *last)
{
    (void)last;
    return has_lower(group);
}

/* Who waits is put in order only where it can make a difference: nobody's turn matters while all
 * would turn back at once. */
static bool all_turn_back(struct sched *sched,
                          enum sched_action action,
                          bool (*could)(const struct group *, struct taking *))
{
    struct taking last = {0};
    uint64_t tried = 0;

    if (sched->config.plain || sched->keeps.count)
        return false;
    for (size_t q = 0; q < sched->queues.count; q++) {
        const struct queue *queue = sched->queues.items[q];

        if (!queue_runs(queue, action))
            continue;
        if (queue->pending.count && queue->pool->policy.depth[action])
            return false;
        for (size_t i = 0; i < queue->pending.count; i++) {
            struct group *group = queue->pending.items[i];
            int64_t until_ms = 0;

            if (!group->count[ST_PENDING] || group_rests(sched, group) ||
                !group_eligible(sched, group))
                continue;
            until_ms = group_delayed_until(sched, group);
            if (until_ms)
                sched_wake(sched, until_ms);
            else if (could(group, &last))
                return false;
            tried += !until_ms;
        }
    }
    sched->tally[action].tried += tried;
    return true;
}

/* ---- the loop ---- */
static void each_pending(struct sched *sched,
                         enum sched_action action,
                         bool (*could)(const struct group *, struct taking *),
                         bool (*attempt)(struct sched *, struct group *))
{
    struct order order;
    struct group *group = NULL;

    if (all_turn_back(sched, action, could))
        return;
    pending_order(sched, action, &order);
    sched->round = order.id;
    while ((group = order_pop(&order))) {
        int64_t until_ms = group_delayed_until(sched, group);

        if (until_ms) {
            sched_wake(sched, until_ms);
            continue;
        }
        if (!has_turn(sched, action, group))
            continue;
        uint64_t searches = sched->searches;
        uint64_t steps = sched->steps;
        keep_lift(sched, group);
        sched->tally[action].tried++;
        if (attempt(sched, group)) {
            sched->tally[action].placed++;
            journal_commit(sched);
            group->keep = NULL;
            if (action == SCHED_ACTION_RECLAIM)
                first_in_line(sched, group);
            sched->round = ++sched->order_id; /* others have other room now */
        } else if (sched->searches != searches) {
            group->queue->turns[GROUP_SEARCH(action)].vain +=
                1 + (uint32_t)((sched->steps - steps) / ACTION_VAIN_STEPS);
            group->searched[GROUP_SEARCH(action)] = sched->cycle;
        }
        keep_restore(sched);
    }
    sched->round = 0;
    turns_end(sched, action);
}

void action_consolidate(struct sched *sched)
{
    each_pending(sched, SCHED_ACTION_CONSOLIDATE, consolidate_could, consolidate_for);
}

void action_reclaim(struct sched *sched)
{
    each_pending(sched, SCHED_ACTION_RECLAIM, reclaim_could, reclaim_for);
}

void action_preempt(struct sched *sched)
{
    each_pending(sched, SCHED_ACTION_PREEMPT, preempt_could, preempt_for);
}

/* ---- gangs below their minimum ---- */
/* What is left of a suspended gang that lost pods, if nobody makes new ones: it could never go on. */
static bool stands_apart(const struct sched *sched, const struct group *group)
{
    if (!group_suspended(sched, group) || group_ready(group) || group->count[ST_SUCCEEDED])
        return false;
    for (size_t i = 0; i < group->pods.count; i++)
        if (group->pods.items[i]->home && group->pods.items[i]->status == ST_GATED)
            return false; /* held by hand: nobody asks for it yet */
    return true;
}

/* Whether it is being suspended: some of its pods have given up their devices, others still do. Each
 * of these will have, or is deleted: it could not. */
static bool gives_up_devices(const struct sched *sched, const struct group *group)
{
    if (!group_suspended(sched, group))
        return false;
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];
        bool sent_away = pod->evicting && pod->action == SCHED_ACTION_STALE;

        if (pod->status == ST_RELEASING && !pod->deleted_ms && !sent_away)
            return true;
    }
    return false;
}

static bool fell_apart(const struct sched *sched, const struct group *group)
{
    int64_t used = group->count[ST_RELEASING] + group->count[ST_STUCK];

    if (gives_up_devices(sched, group))
        return false;
    for (int s = 0; s < ST_COUNT; s++)
        used += ST_IN(s, ST_ACTIVE) ? group->count[s] : 0;
    return (used > 0 && !group->count[ST_SUCCEEDED] && !group_whole(group)) ||
           stands_apart(sched, group);
}

static void group_send_away(struct sched *sched, const struct group *group)
{
    sched->tally[SCHED_ACTION_STALE].tried++;
    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];

        if (pod->home && pod->status == ST_PENDING && !pod->evicting) {
            pod->evicted_for = NULL;
            pod->action = SCHED_ACTION_STALE;
            VEC_PUSH(NULL, &sched->given_up, pod);
        }
        if (pod->set == SET_NONE || !ST_IN(pod->status, ST_ACTIVE))
            continue;
        pod->action = SCHED_ACTION_STALE;
        pod->evicted_for = NULL;
        pod_send_away(sched, pod);
    }
    journal_commit(sched);
}

static int by_key(const void *a, const void *b)
{
    return str_cmp((*(struct group *const *)a)->key, (*(struct group *const *)b)->key);
}

static void stale_group(struct sched *sched, struct group *group)
{
    int64_t grace =
        group->has_stale_grace ? group->stale_grace_ms : group_policy(group)->stale_grace_ms;

    if (!fell_apart(sched, group))
        return;
    if (!group->stale_since_ms) {
        group->stale_since_ms = sched->now_ms;
        VEC_PUSH(NULL, &sched->notes, (struct stale_note){.group = group, .stale = true});
    }
    if (!group->in_stale) {
        group->in_stale = true;
        VEC_PUSH(NULL, &sched->stale, group);
    }
    if (grace < 0)
        return;
    if (sched->now_ms < group->stale_since_ms + grace) {
        sched_wake(sched, group->stale_since_ms + grace);
        return;
    }
    if (group_rests(sched, group))
        return;
    group_send_away(sched, group);
}

/* ---- gangs that ran for as long as they may ---- */
/* Whether pods of it run since before this cycle: its start is written down when that ends. */
static bool group_runs(const struct sched *sched, const struct group *group)
{
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (ST_IN(pod->status, ST_ALLOCATED) &&
            !(pod->status == ST_BINDING && pod->placed_in == sched->cycle))
            return true;
    }
    return false;
}

static void limit_group(struct sched *sched, struct group *group)
{
    if (!group->last_start_ms || group->in_active == LIST_NONE || group->over_ms ||
        !group_runs(sched, group))
        return;
    if (!group_timed_out(sched, group)) {
        sched_wake(sched, group->last_start_ms + group->max_run_ms);
        return;
    }
    if (group_rests(sched, group))
        return;
    if (!group->requeue) {
        group->over_ms = sched->now_ms;
        VEC_PUSH(NULL, &sched->notes, (struct stale_note){.group = group, .over = true});
    }
    group_send_away(sched, group);
}

static void limits_enforced(struct sched *sched)
{
    struct group_vec all = {0};

    for (size_t i = 0; i < sched->limited.count; i++)
        if (sched->limited.items[i]->queue && sched->limited.items[i]->max_run_ms > 0)
            VEC_PUSH(sched->arena, &all, sched->limited.items[i]);
    if (all.count > 1)
        qsort(all.items, all.count, sizeof(*all.items), by_key);
    for (size_t i = 0; i < all.count; i++)
        limit_group(sched, all.items[i]);
}

/* Groups that were stale and are not any more have left the frail ones: say so. */
static void stale_recovered(struct sched *sched)
{
    for (size_t i = sched->stale.count; i-- > 0;) {
        struct group *group = sched->stale.items[i];

        if (fell_apart(sched, group))
            continue;
        VEC_PUSH(NULL, &sched->notes, (struct stale_note){.group = group});
        group->stale_since_ms = 0;
        group->in_stale = false;
        VEC_REMOVE_SWAP(&sched->stale, i);
    }
}

void action_stale(struct sched *sched)
{
    limits_enforced(sched);
    stale_recovered(sched);

    struct group_vec all = {0};

    for (size_t q = 0; q < sched->queues.count; q++) {
        const struct queue *queue = sched->queues.items[q];
        for (size_t i = 0; queue_runs(queue, SCHED_ACTION_STALE) && i < queue->frail.count; i++)
            VEC_PUSH(sched->arena, &all, queue->frail.items[i]);
    }
    for (size_t i = 0; i < sched->homed.count; i++) {
        struct group *group = sched->homed.items[i]->group;

        if (group && group->queue && queue_runs(group->queue, SCHED_ACTION_STALE) &&
            stands_apart(sched, group))
            VEC_PUSH(sched->arena, &all, group);
    }
    if (all.count > 1) /* the lists they come from are in no order */
        qsort(all.items, all.count, sizeof(*all.items), by_key);
    for (size_t i = 0; i < all.count; i++)
        if (!i || all.items[i] != all.items[i - 1])
            stale_group(sched, all.items[i]);
}
