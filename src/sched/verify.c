#include "sched/verify.h"

#include "base/count.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/claim.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sums {
    int64_t idle[RES_MAX];
    int64_t releasing[RES_MAX];
};

static void add_pod(struct sums *sums, const struct pod *pod, enum status status)
{
    bool idle = status != ST_PIPELINED;
    int64_t releasing = status == ST_RELEASING ? 1 : idle ? 0 : -1;

    for (size_t i = 0; i < pod->want_count; i++) {
        sums->idle[pod->wants[i].res] -= idle ? pod->wants[i].amount : 0;
        sums->releasing[pod->wants[i].res] += releasing * pod->wants[i].amount;
    }
    sums->idle[RES_PODS] -= idle;
    sums->releasing[RES_PODS] += releasing;
}

static void add_shares(struct sums *sums, const struct node *node)
{
    for (uint32_t i = 0; i < node->share_count; i++) {
        const struct share *share = &node->shares[i];

        if (share->allocated + share->releasing > 0 || share->kept) {
            sums->idle[RES_GPU]--;
            sums->releasing[RES_GPU] += !share->allocated && !share->pipelined && !share->kept;
        } else if (share->pipelined > 0) {
            sums->releasing[RES_GPU]--;
        }
    }
}

static bool shares_name(const struct node *node, uint32_t slot)
{
    for (uint32_t i = 0; i < slot; i++)
        if (node->shares[i].live && node->shares[slot].live && node->shares[i].name &&
            node->shares[i].name == node->shares[slot].name)
            return true;
    return false;
}

static int verify_shares(const struct node *node, struct err *err)
{
    for (uint32_t s = 0; s < node->share_count; s++) {
        const struct share *share = &node->shares[s];
        int64_t held = 0;
        uint32_t pods = 0;
        uint32_t kept = 0;

        for (size_t i = 0; i < node->pods.count; i++) {
            const struct pod *pod = node->pods.items[i];
            for (uint8_t d = 0; d < pod->share_count; d++)
                if (pod->sharing->shares[d] == s) {
                    held += share_memory(pod, node);
                    pods++;
                    kept += pod->shape->spec.keeps_shares;
                }
        }
        if (shares_name(node, s))
            return err_set(err, -EINVAL, "node " STR_FMT " has two shared devices " STR_FMT,
                           STR_ARG(node->name), STR_ARG(share->name->text));
        if (share->live != (pods > 0) || share->pod_count != pods || share->kept != kept ||
            share->allocated + share->releasing + share->pipelined != held)
            return err_set(err, -EINVAL, "node " STR_FMT " share %u: %u pods hold %lld MiB",
                           STR_ARG(node->name), s, pods, (long long)held);
    }
    return 0;
}

/* The numbers in use are those of the pods that hold room here, one user each. */
static int verify_devices(const struct node *node, struct err *err)
{
    uint64_t used[DEVICES_MAX / 64] = {0};

    for (size_t i = 0; i < node->pods.count; i++) {
        const struct pod *pod = node->pods.items[i];

        for (uint32_t d = 0; pod->status != ST_PIPELINED && d < pod->device_count; d++)
            if (pod->devices[d] < DEVICES_MAX)
                used[pod->devices[d] / 64] |= UINT64_C(1) << (pod->devices[d] % 64);
    }
    for (size_t i = 0; i < COUNT_OF(used); i++)
        if (used[i] != node->devices_used[i])
            return err_set(err, -EINVAL,
                           "node " STR_FMT ": devices %llx are in use, should be %llx",
                           STR_ARG(node->name), (unsigned long long)node->devices_used[i],
                           (unsigned long long)used[i]);
    return 0;
}

static int verify_node(const struct sched *sched, const struct node *node, struct err *err)
{
    struct sums sums = {0};

    for (size_t r = 0; r < sched->resources.count; r++)
        sums.idle[r] = node->total[r];
    for (size_t i = 0; i < node->pods.count; i++) {
        const struct pod *pod = node->pods.items[i];
        if (pod->node != node || pod->node_index != i)
            return err_set(err, -EINVAL, "node " STR_FMT ": pod " STR_FMT " is not where it says",
                           STR_ARG(node->name), STR_ARG(pod_key(pod)));
        add_pod(&sums, pod, pod->status);
    }
    add_shares(&sums, node);
    for (size_t r = 0; r < sched->resources.count; r++)
        if (sums.idle[r] != node->idle[r] || sums.releasing[r] != node->releasing[r])
            return err_set(err, -EINVAL,
                           "node " STR_FMT ": " STR_FMT " idle %lld releasing %lld, should be %lld "
                           "and %lld",
                           STR_ARG(node->name), STR_ARG(sched->resources.items[r]),
                           (long long)node->idle[r], (long long)node->releasing[r],
                           (long long)sums.idle[r], (long long)sums.releasing[r]);
    int r = verify_devices(node, err);
    return r ? r : verify_shares(node, err);
}

/* ---- queues and groups ---- */
static int verify_group(const struct group *group, struct err *err)
{
    int32_t count[ST_COUNT] = {0};
    int32_t in_sets[ST_COUNT] = {0};
    int64_t core[SCHED_RESOURCES];

    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (pod->group != group || pod->group_index != i || pod->taken || pod->recorded ||
            pod->victim || pod->logged || pod->left)
            return err_set(err, -EINVAL, "group " STR_FMT ": pod " STR_FMT " left in a search",
                           STR_ARG(group->key), STR_ARG(pod_key(pod)));
        count[pod->status] += pod->set != SET_NONE;
    }
    for (uint32_t i = 0; i < group->set_count; i++)
        for (int s = 0; s < ST_COUNT; s++)
            in_sets[s] += group->sets[i].count[s];
    if (memcmp(count, group->count, sizeof(count)) != 0 ||
        memcmp(count, in_sets, sizeof(count)) != 0)
        return err_set(err, -EINVAL, "group " STR_FMT ": counts are off", STR_ARG(group->key));
    group_core(group, core);
    if (memcmp(core, group->core, sizeof(core)) != 0)
        return err_set(err, -EINVAL, "group " STR_FMT ": what its minimum is charged is off",
                       STR_ARG(group->key));
    bool active = count[ST_PIPELINED] + count[ST_BINDING] + count[ST_BOUND] + count[ST_RUNNING] > 0;
    if (group->queue &&
        ((group->in_pending != LIST_NONE) != (count[ST_PENDING] + count[ST_GATED] > 0) ||
         (group->in_active != LIST_NONE) != active))
        return err_set(err, -EINVAL, "group " STR_FMT ": in the wrong lists", STR_ARG(group->key));
    return 0;
}

static int verify_queue(const struct queue *queue, struct err *err)
{
    int64_t allocated[SCHED_RESOURCES] = {0};
    int64_t asked[SCHED_RESOURCES] = {0};
    int64_t fixed[SCHED_RESOURCES] = {0};

    for (size_t g = 0; g < queue->groups.count; g++) {
        for (int r = 0; r < SCHED_RESOURCES; r++)
            fixed[r] += queue->groups.items[g]->core[r];
        for (size_t i = 0; i < queue->groups.items[g]->pods.count; i++) {
            const struct pod *pod = queue->groups.items[g]->pods.items[i];
            for (int r = 0; pod->ours && pod->set != SET_NONE && r < SCHED_RESOURCES; r++) {
                int64_t kept = pod->home ? pod_rare(pod)->kept[r] : 0;

                allocated[r] += (pod_is_charged(pod) ? pod->charge[r] : 0) + kept;
                fixed[r] += queue->groups.items[g]->preemptible ? 0 : kept;
                asked[r] += pod->status == ST_PENDING ? pod->ask[r] : 0;
                if (pod_is_charged(pod) && !queue->groups.items[g]->preemptible)
                    fixed[r] += pod->charge[r] +
                                (r == SCHED_GPU ? pod->claims_fixed - pod->claims_paid : 0) *
                                    (int64_t)GPU_MILLI;
            }
        }
    }
    for (size_t c = 0; c < queue->children.count; c++)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            allocated[r] += queue->children.items[c]->allocated[r];
            asked[r] += queue->children.items[c]->asked[r];
            fixed[r] += queue->children.items[c]->fixed[r];
        }
    if (memcmp(allocated, queue->allocated, sizeof(allocated)) != 0 ||
        memcmp(fixed, queue->fixed, sizeof(fixed)) != 0 ||
        memcmp(asked, queue->asked, sizeof(asked)) != 0)
        return err_set(err, -EINVAL, "queue " STR_FMT ": sums are off", STR_ARG(queue->name));
    return 0;
}

/* The devices of a claim that pods share are paid for once, and guarded once. */
static int verify_claim(const struct sched *sched, const struct claim *claim, struct err *err)
{
    int64_t paid = 0;
    int64_t guards = 0;
    bool used = false;
    bool fixed = false;

    if (QUIRK(sched, CLAIM_PER_POD) || !claim->known || !claim->gpu || claim->from_template)
        return 0;
    for (size_t u = 0; u < claim->users.count; u++) {
        const struct pod *pod = claim->users.items[u];

        if (!ST_IN(pod->status, ST_ACTIVE) || !pod->node)
            continue;
        used = true;
        fixed = fixed || (pod->group && pod->ours && pod->set != SET_NONE &&
                          (pod->group->semi || !pod->group->preemptible));
        for (size_t i = 0; i < pod->claim_count; i++)
            if (pod->claims[i] == claim)
                paid += pod->wants[pod->shape->want_count + i].amount;
        guards += claim->guard == pod && pod->claims_fixed > 0;
    }
    if (paid != (used ? claim->spec.device_count : 0) || guards != fixed)
        return err_set(err, -EINVAL, "claim " STR_FMT ": %lld devices paid for, %lld guards",
                       STR_ARG(claim->key), (long long)paid, (long long)guards);
    return 0;
}

int sched_verify(const struct sched *sched, struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < sched->nodes.count && !r; i++)
        r = sched->nodes.items[i] ? verify_node(sched, sched->nodes.items[i], err) : 0;
    MAP_FOREACH(&sched->groups_by_key, entry)
        r = r ? r : verify_group(entry->value, err);
    MAP_FOREACH(&sched->claims, entry)
        r = r ? r : verify_claim(sched, entry->value, err);
    for (size_t i = 0; i < sched->queues.count && !r && !sched->queues_dirty; i++)
        r = verify_queue(sched->queues.items[i], err);
    return r ? r : verify_structures(sched, err);
}
