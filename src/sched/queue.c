#include "sched/queue.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/sched.h"
#include "sched/share.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static bool unlimited(double value)
{
    return value < 0;
}

/* ---- totals and fair shares ---- */
static void pool_totals(struct sched *sched, struct pool *pool)
{
    int64_t gpu_memory = 0;

    for (int r = 0; r < SCHED_RESOURCES; r++)
        pool->total[r] = 0;
    for (size_t i = 0; i < pool->nodes.count; i++) {
        const struct node *node = pool->nodes.items[i];

        if (!node->schedulable)
            continue;
        pool->total[SCHED_CPU] += node->total[RES_CPU];
        pool->total[SCHED_MEMORY] += node->total[RES_MEMORY];
        if (!pool->policy.restrict_nodes || node->spec.gpu_worker)
            pool->total[SCHED_GPU] += node->total[RES_GPU] * GPU_MILLI;
        if (node->total[RES_GPU] && node->spec.gpu_memory_mib > 0 &&
            (!gpu_memory || node->gpu_memory < gpu_memory))
            gpu_memory = node->gpu_memory;
        for (size_t m = 0; m < node->spec.amount_count; m++)
            pool->total[SCHED_GPU] += shape_mig_slices(node->spec.amounts[m].name) *
                                      node->spec.amounts[m].amount * GPU_MILLI;
        /* Pods of other schedulers: what they hold is not ours to share. */
        for (size_t p = 0; sched->config.scheduler_name.len && p < node->pods.count; p++) {
            const struct pod *pod = node->pods.items[p];
            for (int r = 0; !pod->ours && r < SCHED_RESOURCES; r++)
                pool->total[r] -= pod->charge[r];
        }
    }
    pool->min_gpu_memory = gpu_memory ? gpu_memory : 100;
}

static void divide(struct sched *sched,
                   const struct pool *pool,
                   struct queue **queues,
                   size_t count,
                   const double total[static SCHED_RESOURCES])
{
    struct share_queue *shares = ARENA_ARRAY(sched->arena, struct share_queue, count + 1);

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        for (size_t i = 0; i < count; i++) {
            const struct queue *queue = queues[i];
            shares[i] = (struct share_queue){
                .name = queue->name,
                .created_ms = queue->spec.created_ms,
                .priority = queue->spec.priority,
                .quota = queue->spec.quota[r].quota,
                .limit = queue->spec.quota[r].limit,
                .weight = queue->spec.quota[r].weight,
                .asked = queue_units(r, queue->allocated[r] + queue->asked[r]),
                .usage = queue->has_usage ? queue->usage[r] : queue->spec.usage[r]};
        }
        (void)share_divide(shares, count, total[r], pool->policy.k_value);
        for (size_t i = 0; i < count; i++)
            queues[i]->fair[r] = shares[i].fair;
    }
    for (size_t i = 0; i < count; i++)
        if (queues[i]->children.count)
            divide(sched, pool, queues[i]->children.items, queues[i]->children.count,
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

void queues_shared(struct sched *sched)
{
    for (size_t i = 0; i < sched->pools.count; i++) {
        struct pool *pool = sched->pools.items[i];
        double total[SCHED_RESOURCES];

        int64_t memory = pool->min_gpu_memory;

        if (sched->totals_dirty || sched->config.scheduler_name.len)
            pool_totals(sched, pool);
        if (pool->min_gpu_memory != memory)
            ask_again(sched, pool);
        for (int r = 0; r < SCHED_RESOURCES; r++)
            total[r] = queue_units(r, pool->total[r]);
        divide(sched, pool, pool->tops.items, pool->tops.count, total);
    }
    sched->totals_dirty = false;
}

/* ---- limits ---- */
bool group_fixed(const struct group *group)
{
    return group->semi ? !group_satisfied(group) : !group->preemptible;
}

enum queue_verdict queue_check(const struct group *group,
                               const int64_t request[static SCHED_RESOURCES],
                               const struct queue **ret_queue,
                               enum sched_resource *ret_resource)
{
    bool fixed = group_fixed(group);

    if (group_policy(group)->without_proportion)
        return QUEUE_OK;
    for (const struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            const struct sched_quota *quota = &queue->spec.quota[r];

            if (request[r] <= 0)
                continue;
            *ret_queue = queue;
            *ret_resource = (enum sched_resource)r;
            if (!unlimited(quota->limit) &&
                queue_units(r, queue->allocated[r] + queue->kept[r] + request[r]) > quota->limit)
                return QUEUE_OVER_LIMIT;
            if (fixed && !unlimited(quota->quota) &&
                queue_units(r, queue->fixed[r] + queue->kept_fixed[r] + request[r]) > quota->quota)
                return QUEUE_OVER_QUOTA;
        }
    return QUEUE_OK;
}

void queue_note(const struct group *group, struct queue_sums ret[static QUEUE_SUMS])
{
    size_t i = 0;

    for (const struct queue *queue = group->queue; queue; queue = queue->parent, i++) {
        memcpy(ret[i].allocated, queue->allocated, sizeof(ret[i].allocated));
        memcpy(ret[i].fixed, queue->fixed, sizeof(ret[i].fixed));
    }
}

static bool grew_over(int r, int64_t before, int64_t after, int64_t kept, double bound)
{
    return after > before && !unlimited(bound) && queue_units(r, after + kept) > bound;
}

enum queue_verdict queue_grew(const struct group *group,
                              const struct queue_sums before[static QUEUE_SUMS],
                              const struct queue **ret_queue,
                              enum sched_resource *ret_resource)
{
    size_t i = 0;

    if (group_policy(group)->without_proportion)
        return QUEUE_OK;
    for (const struct queue *queue = group->queue; queue; queue = queue->parent, i++)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            const struct sched_quota *quota = &queue->spec.quota[r];

            *ret_queue = queue;
            *ret_resource = (enum sched_resource)r;
            if (grew_over(r, before[i].allocated[r], queue->allocated[r], queue->kept[r],
                          quota->limit))
                return QUEUE_OVER_LIMIT;
            if (grew_over(r, before[i].fixed[r], queue->fixed[r], queue->kept_fixed[r],
                          quota->quota))
                return QUEUE_OVER_QUOTA;
        }
    return QUEUE_OK;
}

bool queue_could_hold(const struct group *group, const int64_t request[static SCHED_RESOURCES])
{
    for (const struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            const struct sched_quota *quota = &queue->spec.quota[r];
            double amount = queue_units(r, request[r]);

            if (request[r] <= 0)
                continue;
            if ((queue == group->queue && amount > queue->fair[r]) ||
                (!unlimited(quota->limit) && amount > quota->limit) ||
                (group_fixed(group) && !unlimited(quota->quota) && amount > quota->quota))
                return false;
        }
    return true;
}

bool queue_allows_pod(const struct sched *sched, const struct pod *pod, const struct node *node)
{
    const struct queue *queue = NULL;
    enum sched_resource resource = SCHED_CPU;
    int64_t charge[SCHED_RESOURCES];

    pod_charge(sched, pod, node, charge);
    return queue_check(pod->group, charge, &queue, &resource) == QUEUE_OK;
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

static bool within_quota(struct queue_side side)
{
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double quota = side.queue->spec.quota[r].quota;

        if (!unlimited(quota) && queue_units(r, amount_of(side, r, true, false)) > quota)
            return false;
    }
    return true;
}

static bool uses_what_it_has_no_share_of(struct queue_side side)
{
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double allocatable = queue_allocatable(side.queue, r);

        if (!unlimited(allocatable) && !(allocatable > 0) && amount_of(side, r, true, true) > 0)
            return true;
    }
    return false;
}

static double dominant_share(struct queue_side side, bool with)
{
    double dominant = 0;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double allocatable = queue_allocatable(side.queue, r);
        double used = queue_units(r, amount_of(side, r, with, with));

        if (unlimited(allocatable))
            allocatable = queue_units(r, side.queue->pool->total[r]);
        double share = allocatable > 0 ? used / allocatable : used * 1000;
        dominant = share > dominant ? share : dominant;
    }
    return dominant;
}

/* a's allocatable share is at most b's everywhere, and less somewhere. */
static bool smaller_share(const struct queue *a, const struct queue *b)
{
    bool less = false;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double l = queue_allocatable(a, r);
        double m = queue_allocatable(b, r);

        if (unlimited(l) && unlimited(m))
            continue;
        if (unlimited(l) || (!unlimited(m) && l > m))
            return false;
        less = less || unlimited(m) || l < m;
    }
    return less;
}

static int by_share(struct queue_side a, struct queue_side b)
{
    bool l = uses_what_it_has_no_share_of(a);
    bool r = uses_what_it_has_no_share_of(b);

    if (l != r)
        return l ? 1 : -1;
    for (int with = 1; with >= 0; with--) {
        double share_a = dominant_share(a, with != 0);
        double share_b = dominant_share(b, with != 0);
        if (share_a < share_b || share_a > share_b)
            return share_a < share_b ? -1 : 1;
    }
    l = smaller_share(a.queue, b.queue);
    r = smaller_share(b.queue, a.queue);
    return l == r ? 0 : l ? -1 : 1;
}

static int by_rights(struct queue_side a, struct queue_side b)
{
    bool l = over_fair_share(a.queue);
    bool r = over_fair_share(b.queue);

    if (l != r)
        return l ? 1 : -1;
    l = within_quota(a);
    r = within_quota(b);
    if (l != r)
        return l ? -1 : 1;
    if (a.queue->spec.priority != b.queue->spec.priority)
        return a.queue->spec.priority > b.queue->spec.priority ? -1 : 1;
    return by_share(a, b);
}

int queue_order(struct queue_side a, struct queue_side b)
{
    int order = a.queue->pool->policy.without_proportion ? 0 : by_rights(a, b);

    if (order)
        return order;
    if (a.queue->spec.created_ms != b.queue->spec.created_ms)
        return a.queue->spec.created_ms < b.queue->spec.created_ms ? -1 : 1;
    return str_cmp(a.queue->name, b.queue->name);
}
