#include "sched/quota.h"

#include "base/map.h"
#include "base/str.h"
#include "sched/charge.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

bool group_fixed(const struct group *group)
{
    return group->semi ? !group_satisfied(group) : !group->preemptible;
}

/* Whether work of the group that is not preemptible may hold no more than the quota. A queue that
 * lends does so to its own work only: the quotas of those beside it are worth what they were. */
static bool quota_binds(const struct group *group, const struct queue *queue, int r)
{
    double quota = queue->spec.quota[r].quota;

    return !unlimited(quota) && !queue->spec.unset[r] &&
           !(quota <= 0 && queue->spec.lends && group->queue->spec.lends);
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
            if (fixed && quota_binds(group, queue, r) &&
                queue_units(r, queue->fixed[r] + queue->kept_fixed[r] + request[r]) > quota->quota)
                return QUEUE_OVER_QUOTA;
        }
    return QUEUE_OK;
}

bool queue_guarantees(const struct group *group, const int64_t request[static SCHED_RESOURCES])
{
    if (group_policy(group)->without_proportion)
        return true;
    for (const struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            double quota = queue->spec.quota[r].quota;

            /* What is lent is lent, whether a queue that lends says so of CPUs or not. */
            if (queue->spec.unset[r] && !group->queue->spec.lends)
                continue;
            if (request[r] > 0 && !unlimited(quota) &&
                queue_units(r, queue->fixed[r] + queue->kept_fixed[r] + request[r]) > quota)
                return false;
        }
    return true;
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
            if (quota_binds(group, queue, r) && grew_over(r, before[i].fixed[r], queue->fixed[r],
                                                          queue->kept_fixed[r], quota->quota))
                return QUEUE_OVER_QUOTA;
        }
    return QUEUE_OK;
}

bool queue_bounds_allow(const struct group *group, const int64_t request[static SCHED_RESOURCES])
{
    bool fixed = group_fixed(group);

    if (group_policy(group)->without_proportion)
        return true;
    for (const struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            const struct sched_quota *quota = &queue->spec.quota[r];
            double amount = queue_units(r, request[r]);

            if (request[r] > 0 &&
                ((!unlimited(quota->limit) && amount > quota->limit) ||
                 (fixed && quota_binds(group, queue, r) && amount > quota->quota)))
                return false;
        }
    return true;
}

bool queue_could_hold(const struct group *group, const int64_t request[static SCHED_RESOURCES])
{
    static const int64_t nothing[SCHED_RESOURCES];
    const struct queue *queue = group->queue;
    bool along = queue_covers(queue, nothing, request);

    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (request[r] > 0 && queue_units(r, request[r]) > queue->fair[r] &&
            !(along && queue->spec.unset[r]))
            return false;
    return queue_bounds_allow(group, request);
}

bool queue_allows_model(const struct sched *sched, const struct pod *pod, const struct node *node)
{
    int64_t charge[SCHED_RESOURCES];

    if (!queue_has_models(pod->group->queue))
        return true;
    pod_charge(sched, pod, node, charge);
    for (const struct queue *queue = pod->group->queue; queue && charge[SCHED_GPU];
         queue = queue->parent)
        for (size_t i = 0; i < queue->spec.model_count; i++)
            if (str_eq(queue->spec.models[i].model, node->model) &&
                queue_units(SCHED_GPU, queue->models[i] + charge[SCHED_GPU]) >
                    queue->spec.models[i].limit)
                return false;
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

#define LIMIT_TOLERANCE 1e-6 /* shares of devices are sums of decimals */

static bool queue_beyond_limit(const struct queue *queue)
{
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double limit = queue->spec.quota[r].limit;

        if (!unlimited(limit) && queue_units(r, queue->allocated[r]) > limit + LIMIT_TOLERANCE)
            return true;
    }
    return false;
}

bool sched_may_bind(const struct sched *sched, struct str ns, struct str name)
{
    char text[KEY_BYTES];
    struct str key_ns = QUIRK(sched, GROUP_BY_NAME) ? STR_NONE : ns;
    const struct group *group =
        ns.len + name.len + 2 < sizeof(text)
            ? map_get(&sched->groups_by_key, sched_key(text, sizeof(text), key_ns, name))
            : NULL;
    struct str at = group ? name_text(group->queue_name) : STR_NONE;

    /* By name: a queue that just changed is linked to its parent only by the next cycle. */
    for (size_t depth = 0; at.len && depth < QUEUE_DEPTH_MAX; depth++) {
        const struct queue *queue = map_get(&sched->queues_by_name, at);

        if (!queue || !queue->known)
            return true;
        if (queue_beyond_limit(queue))
            return false;
        at = queue->spec.parent;
    }
    return true;
}
