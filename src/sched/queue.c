#include "sched/queue.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/pool.h"
#include "sched/shape.h"
#include "sched/share.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue *queue_get(struct sched *sched, struct str name, bool make)
{
    struct queue *queue = map_get(&sched->queues_by_name, name);

    if (queue || !make)
        return queue;
    queue = MEM_NEW(struct queue);
    queue->name = heap_str(name);
    map_set(&sched->queues_by_name, queue->name, queue);
    return queue;
}

bool queue_has_models(const struct queue *queue)
{
    for (; queue; queue = queue->parent)
        if (queue->spec.model_count)
            return true;
    return false;
}

struct payer *queue_payer(struct queue *queue, struct str user)
{
    for (size_t i = 0; i < queue->payers.count; i++)
        if (str_eq(queue->payers.items[i]->user, user))
            return queue->payers.items[i];
    struct payer *payer = MEM_NEW(struct payer);
    payer->user = heap_str(user);
    VEC_PUSH(NULL, &queue->payers, payer);
    return payer;
}

void queue_free(struct queue *queue)
{
    for (size_t i = 0; i < queue->payers.count; i++) {
        heap_str_free(queue->payers.items[i]->user);
        mem_free(queue->payers.items[i]);
    }
    VEC_DONE(&queue->payers);
    VEC_DONE(&queue->children);
    VEC_DONE(&queue->groups);
    VEC_DONE(&queue->pending);
    VEC_DONE(&queue->active);
    VEC_DONE(&queue->frail);
    VEC_DONE(&queue->sorted);
    VEC_DONE(&queue->unsorted);
    VEC_DONE(&queue->closing);
    VEC_DONE(&queue->priorities);
    mem_free(queue->block);
    heap_str_free(queue->name);
    mem_free(queue);
}

/* ---- totals and fair shares ---- */
static void queues_divide(struct sched *sched,
                          const struct pool *pool,
                          struct queue **queues,
                          size_t count,
                          const double total[static SCHED_RESOURCES])
{
    struct share_queue *shares = ARENA_ARRAY(sched->arena, struct share_queue, count + 1);

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        for (size_t i = 0; i < count; i++) {
            const struct queue *queue = queues[i];
            shares[i] = (struct share_queue){.name = queue->name,
                                             .created_ms = queue->spec.created_ms,
                                             .priority = queue->spec.priority,
                                             .quota = queue->spec.quota[r].quota,
                                             .limit = queue->spec.quota[r].limit,
                                             .weight = queue->spec.quota[r].weight,
                                             .asked = queue_units(r, queue->demand[r]),
                                             .usage = queue->has_usage ? queue->usage[r]
                                                                       : queue->spec.usage[r]};
        }
        (void)share_divide(shares, count, total[r], pool->policy.k_value);
        for (size_t i = 0; i < count; i++)
            queues[i]->fair[r] = shares[i].fair;
    }
    for (size_t i = 0; i < count; i++)
        if (queues[i]->children.count)
            queues_divide(sched, pool, queues[i]->children.items, queues[i]->children.count,
                          queues[i]->fair);
}

/* Waiting memory requests are charged by the smallest GPU: when that changes, so do they. */
static void ask_again(struct sched *sched, const struct pool *pool)
{
    for (size_t q = 0; q < sched->queues.count; q++) {
        const struct queue *queue = sched->queues.items[q];

        for (size_t g = 0; queue->pool == pool && g < queue->groups.count; g++) {
            struct group *group = queue->groups.items[g];
            bool any = false;

            for (size_t i = 0; i < group->pods.count; i++)
                any = any || group->pods.items[i]->shape->spec.gpu_memory_mib > 0;
            if (!any)
                continue;
            group_weigh(group, -1);
            for (size_t i = 0; i < group->pods.count; i++)
                pod_ask(sched, group->pods.items[i]);
            group_weigh(group, 1);
        }
    }
}

void pools_counted(struct sched *sched)
{
    for (size_t i = 0; i < sched->pools.count; i++) {
        struct pool *pool = sched->pools.items[i];
        int64_t memory = pool->min_gpu_memory;

        if (sched->totals_dirty || sched->config.scheduler_name.len)
            pool_totals(sched, pool);
        if (pool->min_gpu_memory != memory)
            ask_again(sched, pool);
    }
    sched->totals_dirty = false;
}

void queues_shared(struct sched *sched)
{
    for (size_t i = 0; i < sched->pools.count; i++) {
        struct pool *pool = sched->pools.items[i];
        double total[SCHED_RESOURCES];

        for (int r = 0; r < SCHED_RESOURCES; r++)
            total[r] = queue_units(r, pool->total[r]);
        queues_divide(sched, pool, pool->tops.items, pool->tops.count, total);
    }
}

/* ---- order ---- */
/* What the queue may grow to: SCHED_UNLIMITED, or a number. */
static double queue_allocatable(const struct queue *queue, int r)
{
    const struct sched_quota *quota = &queue->spec.quota[r];

    if (unlimited(quota->quota))
        return quota->limit;
    double most = quota->quota > queue->fair[r] ? quota->quota : queue->fair[r];
    return !unlimited(quota->limit) && quota->limit < most ? quota->limit : most;
}

static bool over_fair_share(const struct queue *queue)
{
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (queue->fair[r] >= queue_units(r, queue->allocated[r]))
            return false;
    return true;
}

static int64_t amount_of(struct queue_side side, int r, bool request, bool popped)
{
    int64_t amount = side.queue->allocated[r];

    if (request && side.request)
        amount += side.request[r];
    return popped && side.popped ? amount - side.popped[r] : amount;
}

bool queue_covers(const struct queue *queue,
                  const int64_t held[static SCHED_RESOURCES],
                  const int64_t request[static SCHED_RESOURCES])
{
    bool some = false;   /* of what it names is asked for */
    bool others = false; /* of what it does not name */

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double quota = queue->spec.quota[r].quota;

        some = some || (request[r] > 0 && !queue->spec.unset[r]);
        others = others || (request[r] > 0 && queue->spec.unset[r]);
        if (!queue->spec.unset[r] && !unlimited(quota) &&
            queue_units(r, held[r] + request[r]) > quota)
            return false;
    }
    return some || !others;
}

static bool within_quota(struct queue_side side)
{
    static const int64_t nothing[SCHED_RESOURCES];

    return queue_covers(side.queue, side.queue->allocated, side.request ? side.request : nothing);
}

static bool uses_what_it_has_no_share_of(struct queue_side side, const double *allocatable)
{
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (!unlimited(allocatable[r]) && !(allocatable[r] > 0) &&
            amount_of(side, r, true, true) > 0)
            return true;
    return false;
}

static double dominant_share(struct queue_side side, const double *allocatable, bool with)
{
    double dominant = 0;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double used = queue_units(r, amount_of(side, r, with, with));
        double of =
            unlimited(allocatable[r]) ? queue_units(r, side.queue->pool->total[r]) : allocatable[r];
        double share = of > 0 ? used / of : used * 1000;

        dominant = share > dominant ? share : dominant;
    }
    return dominant;
}

struct queue_rank queue_rank(struct queue_side side)
{
    struct queue_rank rank = {.over_fair = over_fair_share(side.queue),
                              .within_quota = within_quota(side)};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        rank.allocatable[r] = queue_allocatable(side.queue, r);
    rank.no_share = uses_what_it_has_no_share_of(side, rank.allocatable);
    rank.dominant_with = dominant_share(side, rank.allocatable, true);
    rank.dominant_without = dominant_share(side, rank.allocatable, false);
    return rank;
}

/* a's allocatable share is at most b's everywhere, and less somewhere. */
static bool smaller_share(const struct queue_rank *a, const struct queue_rank *b)
{
    bool less = false;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double l = a->allocatable[r];
        double m = b->allocatable[r];

        if (unlimited(l) && unlimited(m))
            continue;
        if (unlimited(l) || (!unlimited(m) && l > m))
            return false;
        less = less || unlimited(m) || l < m;
    }
    return less;
}

static int by_share(const struct queue_rank *a, const struct queue_rank *b)
{
    if (a->no_share != b->no_share)
        return a->no_share ? 1 : -1;
    if (a->dominant_with < b->dominant_with || a->dominant_with > b->dominant_with)
        return a->dominant_with < b->dominant_with ? -1 : 1;
    if (a->dominant_without < b->dominant_without || a->dominant_without > b->dominant_without)
        return a->dominant_without < b->dominant_without ? -1 : 1;
    bool l = smaller_share(a, b);
    bool r = smaller_share(b, a);
    return l == r ? 0 : l ? -1 : 1;
}

static int by_rights(const struct queue *a,
                     const struct queue_rank *rank_a,
                     const struct queue *b,
                     const struct queue_rank *rank_b)
{
    if (rank_a->over_fair != rank_b->over_fair)
        return rank_a->over_fair ? 1 : -1;
    if (rank_a->within_quota != rank_b->within_quota)
        return rank_a->within_quota ? -1 : 1;
    if (a->spec.priority != b->spec.priority)
        return a->spec.priority > b->spec.priority ? -1 : 1;
    return by_share(rank_a, rank_b);
}

int queue_order(const struct queue *a,
                const struct queue_rank *rank_a,
                const struct queue *b,
                const struct queue_rank *rank_b)
{
    int order = a->pool->policy.without_proportion ? 0 : by_rights(a, rank_a, b, rank_b);

    if (order)
        return order;
    if (a->spec.created_ms != b->spec.created_ms)
        return a->spec.created_ms < b->spec.created_ms ? -1 : 1;
    return str_cmp(a->name, b->name);
}
