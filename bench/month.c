/* bench-month [MONTHS [SEED]]: what failures cost in a month of 9,600 GPUs, as ETTR: the time whose
 * steps count, of all the time that a job has its GPUs. Jobs of five sizes fill 1,200 nodes of 8 GPUs;
 * nodes fail at a published rate, and what happens then takes the times of this table. A failure takes
 * back the work since the last checkpoint; one while a job starts begins the start anew.
 *
 * It says what defaults are worth where all else is equal: nobody waits in a queue, and a failed node
 * is replaced at once. At the end it compares itself with the formula for the expected value. */
#include "base/count.h"
#include "base/rng.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DAY_S         86400.0
#define MONTH_S       (30 * DAY_S)
#define GPUS_PER_NODE 8
#define MONTHS        200
#define CHECKPOINT_S  1800.0 /* of work between two */
#define WRITE_S       10.0   /* in which nothing else is done */
#define START_S       240.0  /* import, communicators of thousands of ranks, the checkpoint */
#define PODS_S        30.0   /* the old ones end, new ones are made, placed and started */
#define HANGS         0.10   /* of all failures: peers wait, and nobody ends */
#define CRASH_S       4.0    /* until an end is noticed: the slowest of docs/resilience.md */
#define NCCL_S        615.0  /* NCCL's limit for a collective, and its dump */
#define PROOF_S       34.0   /* until a hang is proven: the slowest of docs/resilience.md */

/* Failures of 1,000 nodes a day: Kokolis et al., two clusters of 24,000 A100 in all; Llama 3, 419
 * unexpected ones in 54 days on 16,384 H100. */
static const struct {
    const char *name;
    double rate;
} rates[] = {{"RSC-1", 6.5}, {"RSC-2", 2.3}, {"Llama 3", 419 * 1000.0 / 54 / 2048}};

static const struct {
    int jobs, nodes;
} sizes[] = {{1, 512}, {2, 128}, {8, 32}, {22, 4}, {44, 2}};

struct policy {
    const char *name;
    double hang_s;
    double pods_s;
};
static const struct policy policies[] = {
    {"NCCL's limit, new pods: PyTorch's defaults", NCCL_S, PODS_S},
    {"NCCL's limit, in place", NCCL_S, 0},
    {"a hang is proven, new pods: our defaults", PROOF_S, PODS_S},
    {"a hang is proven, in place", PROOF_S, 0},
};

static double fraction(struct rng *rng)
{
    return ((double)(rng_next(rng) >> 11) + 0.5) / 9007199254740992.0;
}

/* Seconds of a month whose steps count. */
static double month_of(struct rng *rng, double failures_s, const struct policy *policy)
{
    double now = START_S + PODS_S;
    double good = 0;
    double next = -log(fraction(rng)) / failures_s;

    for (;;) {
        double until = next < MONTH_S ? next : MONTH_S;

        if (until > now) {
            double whole = floor((until - now) / (CHECKPOINT_S + WRITE_S));
            double rest = until - now - whole * (CHECKPOINT_S + WRITE_S);

            good += whole * CHECKPOINT_S;
            if (next >= MONTH_S)
                good += rest < CHECKPOINT_S ? rest : CHECKPOINT_S;
        }
        if (next >= MONTH_S)
            return good;
        now = next + (fraction(rng) < HANGS ? policy->hang_s : CRASH_S) + policy->pods_s + START_S;
        next += -log(fraction(rng)) / failures_s;
    }
}

/* E[ETTR] = (1 - F (u + c/2)) of the time between failures, and less for writing. */
static double expected(double failures_s, const struct policy *policy)
{
    double u = HANGS * policy->hang_s + (1 - HANGS) * CRASH_S + policy->pods_s + START_S;

    return (1 - failures_s * (u + CHECKPOINT_S / 2)) * CHECKPOINT_S / (CHECKPOINT_S + WRITE_S);
}

static void policy_print(const struct policy *policy, double rate, int months, uint64_t seed)
{
    struct rng rng = {seed};
    double all = 0, gpus = 0;
    double largest = 0;

    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        double failures_s = sizes[s].nodes * rate / 1000 / DAY_S;
        double good = 0;

        for (int i = 0; i < sizes[s].jobs * months; i++)
            good += month_of(&rng, failures_s, policy) / MONTH_S;
        good /= sizes[s].jobs * months;
        if (s == 0)
            largest = good;
        all += good * sizes[s].jobs * sizes[s].nodes;
        gpus += sizes[s].jobs * sizes[s].nodes;
    }
    double failures_s = sizes[0].nodes * rate / 1000 / DAY_S;
    printf("  %-48s %6.2f %%   %6.2f %% (formula %6.2f %%)   %7.0f\n", policy->name,
           100 * all / gpus, 100 * largest, 100 * expected(failures_s, policy),
           (1 - all / gpus) * gpus * GPUS_PER_NODE * MONTH_S / 3600);
}

int main(int argc, char **argv)
{
    int months = argc > 1 ? (int)strtol(argv[1], NULL, 10) : MONTHS;
    uint64_t seed = argc > 2 ? (uint64_t)strtoull(argv[2], NULL, 10) : 26;

    if (months < 1 || months > 100000)
        return fprintf(stderr, "bench-month [MONTHS [SEED]]: 1 to 100000 months\n"), 2;
    printf(
        "A month of 9,600 GPUs, %d times; a checkpoint every %.0f min, a start of %.0f s, %.0f %% "
        "of failures are hangs\n",
        months, CHECKPOINT_S / 60, START_S, 100 * HANGS);
    for (size_t r = 0; r < COUNT_OF(rates); r++) {
        printf("%s: %.1f failures of 1,000 nodes a day\n", rates[r].name, rates[r].rate);
        printf("  %-48s %8s   %-30s %s\n", "", "ETTR", "of the job of 4,096 GPUs",
               "GPU hours lost");
        for (size_t p = 0; p < COUNT_OF(policies); p++)
            policy_print(&policies[p], rates[r].rate, months, seed);
    }
    return 0;
}
