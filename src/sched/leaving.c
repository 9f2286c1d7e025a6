#include "sched/leaving.h"

#include "base/vec.h"
#include "sched/journal.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/sched.h"
#include "sched/state.h"

#include <stddef.h>
#include <stdint.h>

void leaving_note(struct sched *sched, struct pod *pod, int64_t deleted_ms)
{
    /* The devices of a claim have payers of their own among the pods that end. */
    pod->deleted_ms = pod->claim_count ? 0 : deleted_ms;
    if (pod->deleted_ms && pod->status == ST_RELEASING && !pod->leaving) {
        pod->leaving = true;
        VEC_PUSH(NULL, &sched->leaving, pod);
    }
}

void leaving_forget(struct sched *sched, struct pod *pod)
{
    for (size_t i = 0; pod->leaving && i < sched->leaving.count; i++)
        if (sched->leaving.items[i] == pod) {
            VEC_REMOVE_SWAP(&sched->leaving, i);
            pod->leaving = false;
        }
}

static int64_t stuck_at(const struct pod *pod)
{
    int64_t after_ms = pod->node->pool->policy.stuck_after_ms;

    return pod->deleted_ms + (after_ms > 0 ? after_ms : LEAVING_STUCK_MS);
}

void leaving_judge(struct sched *sched)
{
    size_t kept = 0;

    for (size_t i = 0; i < sched->leaving.count; i++) {
        struct pod *pod = sched->leaving.items[i];

        pod->leaving = pod->status == ST_RELEASING && pod->deleted_ms && pod->node &&
                       pod->node->pool && stuck_at(pod) > sched->now_ms;
        if (pod->leaving) {
            sched_wake(sched, stuck_at(pod));
            sched->leaving.items[kept++] = pod;
        } else if (pod->status == ST_RELEASING && pod->deleted_ms && pod->node && pod->node->pool) {
            pod_set(sched, pod, ST_STUCK, pod->node, pod_shares(pod), pod->share_count);
        }
    }
    sched->leaving.count = kept;
}
