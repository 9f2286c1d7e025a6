#include "replay/policy.h"

#include "base/count.h"
#include "base/str.h"
#include "sched/sched.h"

#include <stddef.h>
#include <stdint.h>

/* Least left of everything, each as a share of what the node has in all. */
static double best_fit(const struct sched_candidate *candidate)
{
    double left = 0;

    if (candidate->cpu_milli > 0)
        left += (double)candidate->idle_cpu_milli / (double)candidate->cpu_milli;
    if (candidate->gpu_milli > 0)
        left += (double)candidate->idle_gpu_milli / (double)candidate->gpu_milli;
    return -left;
}

/* The same pod draws the same nodes every time. */
static double at_random(const struct sched_candidate *candidate)
{
    uint64_t drawn = str_hash(candidate->node, str_hash(candidate->pod, 1));

    return (double)(drawn >> 11);
}

const struct replay_policy replay_policies[] = {
    {.name = "muster",
     .about = "our own: fragmentation-aware placement, expected completion with ageing, room kept "
              "for gangs that have waited",
     .strategy = SCHED_FRAGMENTATION,
     .order = LINE_EXPECTED},
    {.name = "kai",
     .about = "the core deciding as KAI Scheduler does: bin-packing, oldest first, small jobs "
              "overtake",
     .strategy = SCHED_BINPACK,
     .mimic = true},
    {.name = "fifo",
     .about = "one line for everybody, and nobody overtakes",
     .strategy = SCHED_BINPACK,
     .one_queue = true,
     .strict = true},
    {.name = "fgd",
     .about = "fragmentation gradient descent (USENIX ATC 2023), which knows the workload",
     .strategy = SCHED_FGD,
     .taught = true},
    {.name = "best-fit",
     .about = "the node with least left",
     .strategy = SCHED_SCORED,
     .score = best_fit},
    {.name = "random", .about = "any node", .strategy = SCHED_SCORED, .score = at_random},
    {.name = "las",
     .about = "least attained service: the queue that has had fewest GPU hours goes first",
     .strategy = SCHED_BINPACK,
     .order = LINE_ATTAINED,
     .one_queue = true},
};
const size_t replay_policy_count = COUNT_OF(replay_policies);

const struct replay_policy *replay_policy_named(struct str name)
{
    for (size_t i = 0; i < replay_policy_count; i++)
        if (str_is(name, replay_policies[i].name))
            return &replay_policies[i];
    return NULL;
}
