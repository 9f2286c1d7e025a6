#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/verify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* property [SEED [CLUSTERS [EVENTS [HASH]]]]: random clusters, random events, and what must always
 * hold.
 *
 * Each cluster lives twice: once as it runs, once with plain scans and another hash seed. Both get
 * the same events and must give the same plans, byte for byte. After every cycle the derived state
 * is worked out again from scratch, and the plan is held against the rules: nothing over-committed,
 * no gang bound below its minimum, no queue over its limit, nobody evicted who may not be. The last
 * line has a hash of all plans: the same on every machine, whatever the compiler. With HASH it must
 * be that one. */

#define PODS_MAX   96
#define GROUPS_MAX 40
#define NODES_MAX  12
#define QUEUES_MAX 8
#define CLAIMS_MAX 4 /* shared ones: claim c belongs to queue c + 2 and has c % 2 + 1 devices */

static uint64_t rng_state;
static uint64_t plans_hash = UINT64_C(0xcbf29ce484222325);

static uint64_t rng(void)
{
    rng_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = rng_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int64_t below(int64_t n)
{
    return (int64_t)(rng() % (uint64_t)n);
}

static double amount(int64_t n)
{
    int64_t whole = below(n);

    return (double)whole;
}

enum life {
    GONE,
    WAITING,
    RUNS,
    ENDING,
    FAILED,
};

struct pod {
    enum life life;
    int group;
    int set;
    int node;
    int64_t generation;
    int64_t gpus, fraction, memory, cpu;
    int64_t deadline, started;
    int claim; /* 0: none */
    bool apart, together, spread, picky, wants_port;
    char share[8];
    uint32_t devices[16];
    size_t device_count;
};

struct group {
    bool there;
    int queue;
    int64_t min, min2;
    int64_t priority;
    bool fixed, semi, two_sets;
    int level;     /* 0 none, 1 required rack, 2 preferred rack */
    int set_level; /* the same for its first part alone */
    int64_t created;
    int64_t hold_until; /* its pods restart; 0: nobody says so */
};

struct world {
    struct sched *sched[2];
    struct pod pods[PODS_MAX];
    struct group groups[GROUPS_MAX];
    bool nodes[NODES_MAX];
    int64_t node_gpus[NODES_MAX], node_cpu[NODES_MAX];
    bool queues[QUEUES_MAX];
    double limit[QUEUES_MAX], quota[QUEUES_MAX];
    int64_t now;
    uint64_t quirks;
    struct arena arena;
};

static struct str name_of(struct world *world, const char *prefix, int64_t n)
{
    return str_printf(&world->arena, "%s%lld", prefix, (long long)n);
}

/* ---- events, to both ---- */
static void put_node(struct world *world, int n)
{
    struct sched_label labels[2] = {{STR("rack"), name_of(world, "r", n / 3)},
                                    {STR("disk"), n % 2 ? STR("ssd") : STR("hdd")}};
    struct sched_taint taint = {STR("dedicated"), STR("yes"), SCHED_NO_SCHEDULE};

    for (int i = 0; i < 2; i++)
        sched_put_node(world->sched[i], &(struct sched_node){.name = name_of(world, "node", n),
                                                             .labels = labels,
                                                             .label_count = 2,
                                                             .taints = &taint,
                                                             .taint_count = n == 7 ? 1 : 0,
                                                             .cpu_milli = world->node_cpu[n],
                                                             .memory_bytes = INT64_C(64) << 30,
                                                             .gpus = world->node_gpus[n],
                                                             .pods = 20,
                                                             .gpu_memory_mib = 1000});
}

static void put_queue(struct world *world, int q)
{
    struct sched_queue queue = {.name = name_of(world, "queue", q),
                                .parent = q >= 2 ? name_of(world, "queue", q % 2) : STR_NONE,
                                .created_ms = 1000 + q,
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    queue.quota[SCHED_GPU] =
        (struct sched_quota){world->quota[q], world->limit[q], (double)(q % 3)};
    for (int i = 0; i < 2; i++)
        sched_put_queue(world->sched[i], &queue);
}

static struct sched_topology_want level_of(int level)
{
    return (struct sched_topology_want){.topology = level ? STR("t") : STR_NONE,
                                        .required = level == 1 ? STR("rack") : STR_NONE,
                                        .preferred = level == 2 ? STR("rack") : STR_NONE};
}

static void put_group(struct world *world, int g)
{
    const struct group *group = &world->groups[g];
    struct sched_subgroup sets[2] = {{.name = STR("a"), .min_member = group->min},
                                     {.name = STR("b"), .min_member = group->min2}};
    struct sched_group spec = {.ns = STR("ns"),
                               .name = name_of(world, "group", g),
                               .queue = name_of(world, "queue", group->queue),
                               .created_ms = group->created,
                               .min_member = group->min,
                               .has_priority = true,
                               .priority = group->priority,
                               .preemptibility = group->fixed  ? SCHED_NON_PREEMPTIBLE
                                                 : group->semi ? SCHED_SEMI_PREEMPTIBLE
                                                               : SCHED_PREEMPTIBLE,
                               .subgroups = sets,
                               .subgroup_count = group->two_sets ? 2 : 0,
                               .hold_until_ms = group->hold_until};

    spec.topology = level_of(group->level);
    sets[0].topology = level_of(group->set_level);
    for (int i = 0; i < 2; i++)
        sched_put_group(world->sched[i], &spec);
}

static void put_pod(struct world *world, int p)
{
    struct pod *pod = &world->pods[p];
    struct str group = name_of(world, "group", pod->group);
    struct str share = str_from(pod->share);
    struct sched_label label = {STR("group"), group};
    struct sched_expression same = {
        .key = STR("group"), .op = SCHED_IN, .values = &group, .value_count = 1};
    struct sched_pod_term apart = {
        .selector = {.expressions = &same, .expression_count = 1, .set = true},
        .topology_key = STR("rack")};
    struct sched_spread spread = {
        .selector = apart.selector, .topology_key = STR("rack"), .max_skew = 1, .required = true};
    struct sched_label ssd = {STR("disk"), STR("ssd")};
    struct sched_port port = {.port = 8080, .protocol = STR("TCP")};
    bool held = pod->life == RUNS || pod->life == ENDING;
    struct sched_claim_use claim = {.name = name_of(world, "claim", pod->claim - 1)};
    struct sched_pod spec = {
        .ns = STR("ns"),
        .name = name_of(world, "pod", p),
        .uid = str_printf(&world->arena, "uid%d-%lld", p, (long long)pod->generation),
        .group = group,
        .subgroup =
            world->groups[pod->group].two_sets ? (pod->set ? STR("b") : STR("a")) : STR_NONE,
        .created_ms = world->groups[pod->group].created,
        .phase = pod->life == RUNS     ? SCHED_RUNNING
                 : pod->life == ENDING ? SCHED_RELEASING
                 : pod->life == FAILED ? SCHED_FAILED
                                       : SCHED_PENDING,
        .node = held ? name_of(world, "node", pod->node) : STR_NONE,
        .labels = &label,
        .label_count = 1,
        .cpu_milli = pod->cpu,
        .memory_bytes = INT64_C(1) << 30,
        .gpus = pod->gpus,
        .gpu_fraction_micro = pod->fraction,
        .gpu_memory_mib = pod->memory,
        .gpu_groups = &share,
        .gpu_group_count = held && share.len ? 1 : 0,
        .devices = pod->devices,
        .device_count = held ? pod->device_count : 0,
        .anti_affinity = &apart,
        .anti_affinity_count = pod->apart,
        .affinity = &apart,
        .affinity_count = pod->together,
        .spreads = &spread,
        .spread_count = pod->spread,
        .node_selector = &ssd,
        .node_selector_count = pod->picky,
        .ports = &port,
        .port_count = pod->wants_port,
        .role_rank = 2,
        .claims = &claim,
        .claim_count = pod->claim > 0,
        .deadline_ms = pod->deadline,
        .hold_ms = pod->group % 3 ? 0 : 1000 * (1 + pod->group % 7),
        .started_ms = held ? pod->started : 0,
    };

    for (int i = 0; i < 2; i++)
        sched_put_pod(world->sched[i], &spec);
}

static void drop_pod(struct world *world, int p)
{
    world->pods[p].life = GONE;
    for (int i = 0; i < 2; i++)
        sched_drop_pod(world->sched[i], STR("ns"), name_of(world, "pod", p));
}

static void new_group(struct world *world, int g)
{
    struct group *group = &world->groups[g];
    int64_t pods = 1 + below(5);
    struct pod like = {.cpu = 500 + 500 * below(4)};
    int64_t kind = below(10);

    *group = (struct group){.there = true,
                            .queue = 2 + (int)below(QUEUES_MAX - 2),
                            .min = 1 + below(pods),
                            .min2 = 1,
                            .priority = 50 + 25 * below(4),
                            .fixed = below(5) == 0,
                            .semi = below(5) == 0,
                            .two_sets = below(6) == 0,
                            .level = below(4) == 0 ? 1 + (int)below(2) : 0,
                            .set_level = below(6) == 0 ? 1 + (int)below(2) : 0,
                            .created = world->now};
    like.gpus = kind < 5 ? 1 + below(4) : 0;
    like.fraction = kind == 5 ? 100000 * (1 + below(9)) : 0;
    like.memory = kind == 6 ? 100 + 100 * below(8) : 0;
    like.claim = kind == 7 ? 1 + (int)below(CLAIMS_MAX) : 0;
    if (like.claim)
        group->queue = 1 + like.claim;
    like.apart = below(12) == 0;
    like.together = !like.apart && below(12) == 0;
    like.spread = below(12) == 0;
    like.picky = below(8) == 0;
    like.wants_port = below(16) == 0;
    like.deadline = below(3) == 0 ? 10000 + 1000 * below(60) : 0;
    put_group(world, g);
    for (int p = 0; p < PODS_MAX && pods > 0; p++) {
        struct pod *pod = &world->pods[p];
        int64_t generation = pod->generation + 1;

        if (pod->life != GONE)
            continue;
        *pod = like;
        pod->generation = generation;
        pod->life = WAITING;
        pod->group = g;
        pod->set = pods == 1 ? 1 : 0;
        put_pod(world, p);
        pods--;
    }
}

static void drop_group(struct world *world, int g)
{
    world->groups[g].there = false;
    for (int p = 0; p < PODS_MAX; p++)
        if (world->pods[p].life != GONE && world->pods[p].group == g)
            drop_pod(world, p);
    for (int i = 0; i < 2; i++)
        sched_drop_group(world->sched[i], STR("ns"), name_of(world, "group", g));
}

/* A pod of these groups ends for good, or its gang starts again. */
static void decide_on(struct world *world, int p)
{
    int g = world->pods[p].group;

    if (g % 2)
        return;
    world->groups[g].hold_until = p % 3 ? world->now + 8000 : world->now;
    put_group(world, g);
}

static void random_event(struct world *world)
{
    int p = (int)below(PODS_MAX);
    int g = (int)below(GROUPS_MAX);
    int n = (int)below(NODES_MAX);
    int q = (int)below(QUEUES_MAX);
    struct pod *pod = &world->pods[p];

    switch (below(12)) {
    case 0:
        if (below(20) == 0 && world->nodes[n]) {
            world->nodes[n] = false;
            for (int i = 0; i < PODS_MAX; i++) /* a node goes with its pods */
                if ((world->pods[i].life == RUNS || world->pods[i].life == ENDING) &&
                    world->pods[i].node == n)
                    drop_pod(world, i);
            for (int i = 0; i < 2; i++)
                sched_drop_node(world->sched[i], name_of(world, "node", n));
        } else if (!world->nodes[n]) {
            world->nodes[n] = true;
            world->node_gpus[n] = n % 4 ? 2 + 2 * below(4) : 0;
            world->node_cpu[n] = 4000 + 4000 * below(4);
            put_node(world, n);
        }
        break;
    case 1:
        if (below(8) == 0) {
            world->quota[q] = below(4) ? amount(12) : SCHED_UNLIMITED;
            world->limit[q] = below(3) ? SCHED_UNLIMITED : amount(24);
            put_queue(world, q);
        }
        break;
    case 2:
    case 3:
    case 4:
        if (!world->groups[g].there)
            new_group(world, g);
        break;
    case 5:
        if (world->groups[g].there && below(4) == 0)
            drop_group(world, g);
        break;
    case 6:
    case 7:
        if (pod->life == ENDING)
            drop_pod(world, p);
        break;
    case 8:
        if (pod->life == RUNS && below(3) == 0) {
            pod->life = below(4) ? ENDING : FAILED;
            decide_on(world, p);
            put_pod(world, p);
        }
        break;
    case 9:
        if (pod->life == WAITING && below(4) == 0)
            drop_pod(world, p);
        break;
    case 10:
        if (pod->life == FAILED) { /* another of its name comes after it */
            drop_pod(world, p);
            pod->generation++;
            pod->life = WAITING;
            put_pod(world, p);
        }
        break;
    default:
        if (pod->life != GONE && pod->life != FAILED)
            put_pod(world, p); /* said again */
        break;
    }
}

/* ---- plans ---- */
static int by_group(const void *a, const void *b)
{
    return str_cmp(((const struct sched_waiting *)a)->group,
                   ((const struct sched_waiting *)b)->group);
}

/* By name: the lists they come from are kept in no order. */
static void add_waiting(struct buf *text, const struct sched_plan *plan)
{
    struct sched_waiting sorted[GROUPS_MAX];
    size_t count = plan->waiting_count < GROUPS_MAX ? plan->waiting_count : GROUPS_MAX;

    if (!count)
        return;
    memcpy(sorted, plan->waiting, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_group);
    for (size_t i = 0; i < count; i++)
        buf_addf(text, "waits " STR_FMT ": " STR_FMT "\n", STR_ARG(sorted[i].group),
                 STR_ARG(sorted[i].message));
}

static void plan_text(struct buf *text, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->bind_count; i++) {
        const struct sched_bind *bind = &plan->binds[i];
        buf_addf(text, "bind " STR_FMT " " STR_FMT " %u", STR_ARG(bind->pod.name),
                 STR_ARG(bind->node), bind->batch);
        for (size_t d = 0; d < bind->device_count; d++)
            buf_addf(text, " %u", bind->devices[d]);
        buf_addc(text, '\n');
    }
    for (size_t i = 0; i < plan->evict_count; i++)
        buf_addf(text, "evict " STR_FMT " " STR_FMT " %d\n", STR_ARG(plan->evicts[i].pod.name),
                 STR_ARG(plan->evicts[i].for_group), plan->evicts[i].moved);
    for (size_t i = 0; i < plan->nominate_count; i++)
        buf_addf(text, "promise " STR_FMT " " STR_FMT "\n", STR_ARG(plan->nominates[i].pod.name),
                 STR_ARG(plan->nominates[i].node));
    add_waiting(text, plan);
}

static int number_in(struct str name, size_t prefix)
{
    int64_t n = -1;

    (void)str_to_i64(str_sub(name, prefix, name.len), &n);
    return (int)n;
}

static int64_t held_in(const struct world *world, int g, int set)
{
    int64_t held = 0;

    for (int p = 0; p < PODS_MAX; p++)
        held += world->pods[p].life == RUNS && world->pods[p].group == g &&
                (!world->groups[g].two_sets || world->pods[p].set == set);
    return held;
}

static bool fail(const char *what, int n)
{
    (void)fprintf(stderr, "broken: %s (%d)\n", what, n);
    return false;
}

static bool check_nodes(const struct world *world)
{
    for (int n = 0; n < NODES_MAX; n++) {
        int64_t gpus = 0;
        int64_t cpu = 0;
        int64_t shares[64] = {0};
        bool ports = false;
        bool claims[CLAIMS_MAX + 1] = {false};

        if (!world->nodes[n])
            continue;
        for (int p = 0; p < PODS_MAX; p++) {
            const struct pod *pod = &world->pods[p];
            int64_t number = 0;

            if ((pod->life != RUNS && pod->life != ENDING) || pod->node != n)
                continue;
            gpus += pod->gpus;
            cpu += pod->cpu;
            if (pod->claim && !claims[pod->claim])
                gpus += (pod->claim - 1) % 2 + 1;
            claims[pod->claim] = pod->claim > 0;
            if (ports && pod->wants_port)
                return fail("a host port is taken twice", n);
            ports = ports || pod->wants_port;
            if (pod->share[0] && str_to_i64(str_from(pod->share), &number) && number < 64)
                shares[number] += pod->memory ? pod->memory : pod->fraction / 1000;
        }
        for (int s = 0; s < 64; s++) {
            gpus += shares[s] > 0;
            if (shares[s] > 1000)
                return fail("a shared GPU is over-committed", n);
        }
        if (gpus > world->node_gpus[n] || cpu > world->node_cpu[n])
            return fail("a node is over-committed", n);
    }
    return true;
}

/* Whether another pod of its group runs in the pod's rack. */
static bool has_company(const struct world *world, const struct pod *pod)
{
    for (int p = 0; p < PODS_MAX; p++)
        if (&world->pods[p] != pod && world->pods[p].life == RUNS &&
            world->pods[p].group == pod->group && world->pods[p].node / 3 == pod->node / 3)
            return true;
    return false;
}

static void play_evictions(struct world *world, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->evict_count; i++) {
        int p = number_in(plan->evicts[i].pod.name, 3);

        if (below(20) == 0) {
            for (int s = 0; s < 2; s++) {
                sched_evict_failed(world->sched[s], &plan->evicts[i].pod);
                sched_written(world->sched[s], STR("ns"), plan->evicts[i].for_group, true,
                              world->now);
            }
            continue;
        }
        world->pods[p].life = ENDING;
        put_pod(world, p);
    }
}

/* Plays the plan: what was bound runs, what was evicted ends. Some writes fail. */
static bool play(struct world *world, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->evict_count; i++) {
        struct pod *pod = &world->pods[number_in(plan->evicts[i].pod.name, 3)];

        if (world->groups[pod->group].fixed && plan->evicts[i].action != SCHED_ACTION_STALE)
            return fail("a pod that is not preemptible was evicted", pod->group);
        if (pod->life != RUNS)
            return fail("a pod that does not run was evicted", pod->group);
    }
    for (size_t i = 0; i < plan->bind_count; i++) {
        const struct sched_bind *bind = &plan->binds[i];
        struct pod *pod = &world->pods[number_in(bind->pod.name, 3)];

        pod->life = RUNS;
        pod->started = world->now;
        pod->node = number_in(bind->node, 4);
        pod->device_count = bind->gpu_group_count ? 0 : bind->device_count;
        for (size_t d = 0; d < pod->device_count; d++)
            pod->devices[d] = bind->devices[d];
        pod->share[0] = 0;
        if (bind->gpu_group_count)
            (void)snprintf(pod->share, sizeof(pod->share), STR_FMT, STR_ARG(bind->gpu_groups[0]));
        if (pod->picky && pod->node % 2 == 0)
            return fail("a pod is on a node it did not select", pod->node);
        if (pod->node == 7)
            return fail("a pod is on a tainted node", pod->node);
    }
    for (size_t i = 0; i < plan->bind_count; i++) {
        const struct pod *pod = &world->pods[number_in(plan->binds[i].pod.name, 3)];
        int g = pod->group;
        const struct group *group = &world->groups[g];

        if (pod->apart && has_company(world, pod))
            return fail("pods that keep away from each other are in one rack", g);

        if (held_in(world, g, 0) < group->min || (group->two_sets && held_in(world, g, 1) < 1))
            return fail("a gang is bound below its minimum", g);
    }
    if (!check_nodes(world))
        return false;
    play_evictions(world, plan);
    /* The binds of a batch happen all or not at all. */
    bool failed = false;
    for (size_t i = 0; i < plan->bind_count; i++) {
        int p = number_in(plan->binds[i].pod.name, 3);

        if (!i || plan->binds[i].batch != plan->binds[i - 1].batch)
            failed = below(20) == 0;
        if (failed) {
            world->pods[p].life = WAITING;
            bool shut = plan->binds[i].gpu_group_count && p % 4 == 0;
            for (int s = 0; s < 2; s++) {
                if (shut) /* its node did not give a device for sharing */
                    sched_share_opened(world->sched[s], plan->binds[i].node, true, world->now);
                sched_bind_failed(world->sched[s], &plan->binds[i].pod);
                sched_written(world->sched[s], STR("ns"), plan->binds[i].group, true, world->now);
            }
            continue;
        }
        put_pod(world, p);
    }
    return true;
}

/* What a queue counts, before a cycle and after it. */
struct used {
    bool known;
    double all, fixed;
};

static void look(const struct world *world, struct used used[static QUEUES_MAX])
{
    for (int q = 0; q < QUEUES_MAX; q++) {
        struct sched_queue_view view;
        char name[16];

        (void)snprintf(name, sizeof(name), "queue%d", q);
        used[q] = (struct used){.known = sched_queue_view(world->sched[0], str_from(name), &view)};
        if (!used[q].known)
            continue;
        used[q].all = view.allocated[SCHED_GPU];
        used[q].fixed = view.allocated_non_preemptible[SCHED_GPU];
    }
}

static bool grew_over(double bound, double before, double after)
{
    return bound >= 0 && after > bound + 1e-9 && after > before + 1e-9;
}

static bool check_queues(const struct world *world, const struct used before[static QUEUES_MAX])
{
    struct used after[QUEUES_MAX];

    look(world, after);
    for (int q = 0; q < QUEUES_MAX; q++) {
        if (after[q].known && grew_over(world->limit[q], before[q].all, after[q].all))
            return fail("a queue went over its limit", q);
        if (after[q].known && grew_over(world->quota[q], before[q].fixed, after[q].fixed))
            return fail("work that is not preemptible went over the quota of a queue", q);
    }
    return true;
}

/* The GPUs that a queue's pods hold, counted from what was bound: each shared claim once. */
static double held_by(const struct world *world, int queue)
{
    double held = 0;
    bool claims[CLAIMS_MAX + 1] = {false};

    for (int p = 0; p < PODS_MAX; p++) {
        const struct pod *pod = &world->pods[p];
        int own = world->groups[pod->group].queue;

        if (pod->life != RUNS || (own != queue && own % 2 != queue))
            continue;
        held += (double)pod->gpus + (double)(pod->memory * 1000 + pod->fraction) / 1e6;
        if (pod->claim && !claims[pod->claim])
            held += (pod->claim - 1) % 2 + 1;
        claims[pod->claim] = pod->claim > 0;
    }
    return held;
}

static void hold(const struct world *world, double held[static QUEUES_MAX])
{
    for (int q = 0; q < QUEUES_MAX; q++)
        held[q] = held_by(world, q);
}

static bool check_held(const struct world *world, const double before[static QUEUES_MAX])
{
    for (int q = 0; q < QUEUES_MAX; q++)
        if (grew_over(world->limit[q], before[q], held_by(world, q)))
            return fail("the pods of a queue hold more than its limit", q);
    return true;
}

static bool cycle(struct world *world)
{
    struct sched_plan plans[2];
    struct arena arenas[2] = {{0}};
    struct buf texts[2] = {{0}};
    struct err err = {0};
    struct used before[QUEUES_MAX];
    double held[QUEUES_MAX];
    bool good = true;

    world->now += 1000;
    look(world, before);
    hold(world, held);
    for (int i = 0; i < 2; i++) {
        sched_cycle(world->sched[i], world->now, &arenas[i], &plans[i]);
        plan_text(&texts[i], &plans[i]);
        if (good && sched_verify(world->sched[i], &err)) {
            (void)fprintf(stderr, "broken: %s\n", err.text);
            good = false;
        }
    }
    if (good && !str_eq(buf_str(&texts[0]), buf_str(&texts[1]))) {
        (void)fprintf(stderr, "broken: two plans for one history:\n%.*s---\n%.*s",
                      (int)texts[0].len, texts[0].p, (int)texts[1].len, texts[1].p);
        good = false;
    }
    for (size_t i = 0; i < texts[0].len; i++)
        plans_hash = (plans_hash ^ (unsigned char)texts[0].p[i]) * UINT64_C(0x100000001b3);
    good = good && check_queues(world, before) && play(world, &plans[0]) && check_held(world, held);
    for (int i = 0; i < 2; i++) {
        buf_done(&texts[i]);
        arena_done(&arenas[i]);
    }
    return good;
}

static bool run_cluster(uint64_t seed, int64_t events)
{
    struct world *world = calloc(1, sizeof(*world));
    struct str level = STR("rack");
    bool good = true;

    if (!world)
        abort();
    rng_state = seed;
    world->now = INT64_C(1800000000000);
    world->quirks = below(2) ? SCHED_QUIRKS_ALL : SCHED_QUIRKS_NONE;
    for (int i = 0; i < 2; i++) {
        struct sched_config config;
        sched_config_default(&config);
        config.quirks = world->quirks;
        config.plain = i == 1;
        config.seed = (uint64_t)i * 77;
        config.policy.stale_grace_ms = 20000;
        config.policy.reserve_after_ms = 5000;
        world->sched[i] = sched_new(&config);
        sched_put_topology(
            world->sched[i],
            &(struct sched_topology){.name = STR("t"), .levels = &level, .level_count = 1});
    }
    for (int q = 0; q < QUEUES_MAX; q++) {
        world->quota[q] = q < 2 ? SCHED_UNLIMITED : amount(8);
        world->limit[q] = SCHED_UNLIMITED;
        put_queue(world, q);
    }
    for (int c = 0; c < CLAIMS_MAX; c++)
        for (int i = 0; i < 2; i++)
            sched_put_claim(world->sched[i],
                            &(struct sched_claim){.ns = STR("ns"),
                                                  .name = name_of(world, "claim", c),
                                                  .queue = name_of(world, "queue", c + 2),
                                                  .device_class = STR("gpu.example.com"),
                                                  .device_count = c % 2 + 1});
    for (int64_t i = 0; i < events && good; i++) {
        random_event(world);
        if (below(6) == 0)
            good = cycle(world);
        if (i % 64 == 0)
            arena_reset(&world->arena);
    }
    if (!good)
        (void)fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 2; i++)
        sched_free(world->sched[i]);
    arena_done(&world->arena);
    free(world);
    return good;
}

int main(int argc, char *argv[])
{
    uint64_t seed = 1;
    int64_t clusters = 20;
    int64_t events = 1000;

    if ((argc > 1 && !str_to_u64(str_from(argv[1]), &seed)) ||
        (argc > 2 && !str_to_i64(str_from(argv[2]), &clusters)) ||
        (argc > 3 && !str_to_i64(str_from(argv[3]), &events))) {
        (void)fprintf(stderr, "usage: sched-property [SEED [CLUSTERS [EVENTS [HASH]]]]\n");
        return 2;
    }

    for (int64_t i = 0; i < clusters; i++) {
        if (!run_cluster(seed + (uint64_t)i, events))
            return 1;
        if (i % 100 == 99) {
            printf("%lld events, seed %llu\n", (long long)((i + 1) * events),
                   (unsigned long long)(seed + (uint64_t)i));
            (void)fflush(stdout);
        }
    }
    char hash[24];
    (void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)plans_hash);
    printf("%lld clusters, %lld events each, from seed %llu: nothing broken, plans %s\n",
           (long long)clusters, (long long)events, (unsigned long long)seed, hash);
    if (argc > 4 && strcmp(argv[4], hash) != 0) {
        (void)fprintf(stderr, "broken: the plans should be %s\n", argv[4]);
        return 1;
    }
    return 0;
}
