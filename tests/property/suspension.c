#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/verify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* suspension [SEED [CLUSTERS [STEPS]]]: random gangs that are suspended, by hand and to make room.
 *
 * Each cluster lives twice, as in property.c, and both plans must be the same. What must always hold:
 * no device has two users and no node too many; who is suspended holds none; a gang is suspended and
 * resumed as a whole, where it or its queue says so, on its own node and devices; who is suspended
 * goes on or is told why not; and when all others are done, everybody goes on. */

#define NODES  4
#define GPUS   4
#define GROUPS 16
#define PODS   3 /* of a group, at most */

enum life {
    GONE,
    WAITING,
    RUNS,
    EVICTING,
    SUSPENDING,
    SUSPENDED,
};

struct pod {
    enum life life;
    int node;
    int64_t generation;
    int64_t gpus;
    uint32_t devices[GPUS];
};

struct group {
    bool there;
    bool held;      /* by hand */
    int64_t failed; /* when a write for it did last */
    int queue;
    int64_t priority;
    enum sched_loss loss;
    int pod_count;
    struct pod pods[PODS];
};

struct world {
    struct sched *sched[2];
    struct group groups[GROUPS];
    int64_t now;
    struct arena arena; /* of the step */
};

static uint64_t rng_state;
static size_t suspensions;
static size_t resumes;

static int64_t below(int64_t n)
{
    rng_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = rng_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ (z >> 31)) % (uint64_t)n);
}

__attribute__((noreturn)) static void fail(const char *what)
{
    (void)fprintf(stderr, "suspension: %s\n", what);
    exit(1);
}

static void must(bool holds, const char *what)
{
    if (!holds)
        fail(what);
}

static struct str named(struct world *world, const char *prefix, int64_t a, int64_t b)
{
    return str_printf(&world->arena, "%s%lld-%lld", prefix, (long long)a, (long long)b);
}

/* ---- what the cores are told ---- */

static void put_pod(struct world *world, int g, int p)
{
    struct pod *pod = &world->groups[g].pods[p];
    bool placed = pod->life >= RUNS;
    struct sched_pod spec = {
        .ns = STR("ns"),
        .name = named(world, "p", g, p),
        .uid = str_printf(&world->arena, "u%d-%d-%lld", g, p, (long long)pod->generation),
        .group = named(world, "g", g, 0),
        .cpu_milli = 100,
        .memory_bytes = 1 << 20,
        .gpus = pod->gpus,
        .node = placed ? named(world, "n", pod->node, 0) : STR_NONE,
        .devices = pod->devices,
        .device_count = placed ? (size_t)pod->gpus : 0,
        .suspended = pod->life == SUSPENDED,
        .phase = pod->life == WAITING                              ? SCHED_PENDING
                 : pod->life == RUNS                               ? SCHED_RUNNING
                 : pod->life == SUSPENDED && world->groups[g].held ? SCHED_GATED
                 : pod->life == SUSPENDED                          ? SCHED_PENDING
                                                                   : SCHED_RELEASING};

    for (int i = 0; i < 2; i++)
        if (pod->life == GONE)
            sched_drop_pod(world->sched[i], spec.ns, spec.name);
        else
            sched_put_pod(world->sched[i], &spec);
}

static void put_pods(struct world *world, int g)
{
    for (int p = 0; p < world->groups[g].pod_count; p++)
        put_pod(world, g, p);
}

static void start(struct world *world, int g)
{
    static const enum sched_loss losses[] = {SCHED_LOSS_UNSET, SCHED_LOSS_SUSPEND,
                                             SCHED_LOSS_EVICT};
    struct group *group = &world->groups[g];

    *group = (struct group){.there = true,
                            .queue = (int)below(2),
                            .priority = below(2) ? 50 : 75,
                            .loss = losses[below(3)],
                            .pod_count = 1 + (int)below(PODS)};
    struct sched_group spec = {.ns = STR("ns"),
                               .name = named(world, "g", g, 0),
                               .queue = group->queue ? STR("q1") : STR("q0"),
                               .created_ms = world->now,
                               .min_member = group->pod_count,
                               .has_priority = true,
                               .priority = group->priority,
                               .loss = group->loss};
    for (int i = 0; i < 2; i++)
        sched_put_group(world->sched[i], &spec);
    for (int p = 0; p < group->pod_count; p++)
        group->pods[p] =
            (struct pod){.life = WAITING, .gpus = 1 + below(GPUS / 2), .generation = world->now};
    put_pods(world, g);
}

static void finish(struct world *world, int g)
{
    for (int p = 0; p < world->groups[g].pod_count; p++)
        world->groups[g].pods[p].life = GONE;
    put_pods(world, g);
    for (int i = 0; i < 2; i++)
        sched_drop_group(world->sched[i], STR("ns"), named(world, "g", g, 0));
    world->groups[g].there = false;
}

/* What is lost starts again, as new pods. */
static void restart(struct world *world, int g)
{
    for (int p = 0; p < world->groups[g].pod_count; p++) {
        world->groups[g].pods[p].life = GONE;
        put_pod(world, g, p);
        world->groups[g].pods[p].life = WAITING;
        world->groups[g].pods[p].generation++;
    }
    world->groups[g].held = false;
    put_pods(world, g);
}

static bool all_are(const struct group *group, enum life life)
{
    for (int p = 0; p < group->pod_count; p++)
        if (group->pods[p].life != life)
            return false;
    return group->there;
}

static bool any_is(const struct group *group, enum life life)
{
    for (int p = 0; group->there && p < group->pod_count; p++)
        if (group->pods[p].life == life)
            return true;
    return false;
}

static void set_all(struct group *group, enum life life)
{
    for (int p = 0; p < group->pod_count; p++)
        group->pods[p].life = life;
}

static void happen(struct world *world, int g)
{
    struct group *group = &world->groups[g];

    if (!group->there) {
        if (below(3) == 0)
            start(world, g);
    } else if (any_is(group, EVICTING)) {
        if (below(2))
            restart(world, g);
    } else if (any_is(group, SUSPENDING)) {
        int p = (int)below(group->pod_count);

        if (below(12) == 0) /* it cannot be moved: evicted */
            restart(world, g);
        else if (group->pods[p].life == SUSPENDING) {
            group->pods[p].life = SUSPENDED;
            put_pod(world, g, p);
        }
    } else if (all_are(group, SUSPENDED)) {
        if (below(16) == 0)
            restart(world, g);
        else if (below(2))
            group->held = group->held && below(2);
        put_pods(world, g);
    } else if (all_are(group, RUNS)) {
        if (below(6) == 0) {
            group->held = true;
            set_all(group, SUSPENDING);
            put_pods(world, g);
        } else if (below(4) == 0) {
            finish(world, g);
        }
    }
}

/* ---- what the plan says ---- */

static int which(struct str name, int *ret_pod)
{
    struct str group = str_sub(name, 1, str_find(name, '-') - 1);
    int64_t g = 0, p = 0;

    must(str_to_i64(group, &g) &&
             str_to_i64(str_sub(name, str_find(name, '-') + 1, name.len), &p) && g < GROUPS,
         "the plan names a pod that is not there");
    *ret_pod = (int)p;
    return (int)g;
}

static void apply_bind(struct world *world, const struct sched_bind *bind)
{
    int p = 0, g = which(bind->pod.name, &p);
    struct pod *pod = &world->groups[g].pods[p];
    bool same = str_eq(bind->node, named(world, "n", pod->node, 0));
    int64_t node = 0;

    must(bind->device_count == (size_t)pod->gpus, "a pod has not the devices it needs");
    if (bind->resume) {
        for (size_t i = 0; i < bind->device_count; i++)
            same = same && bind->devices[i] == pod->devices[i];
        must(pod->life == SUSPENDED && !world->groups[g].held, "who is not to go on goes on");
        must(same, "a suspended pod goes on elsewhere");
        resumes++;
    } else {
        must(pod->life == WAITING, "a pod is bound that does not wait");
        must(str_to_i64(str_sub(bind->node, 1, str_find(bind->node, '-') - 1), &node), "a node");
        pod->node = (int)node;
        for (size_t i = 0; i < bind->device_count; i++)
            pod->devices[i] = bind->devices[i];
    }
    if (bind->resume && below(8) == 0) { /* the write failed */
        world->groups[g].failed = world->now;
        for (int i = 0; i < 2; i++)
            sched_bind_failed(world->sched[i], &bind->pod);
        return;
    }
    if (below(4) == 0)
        put_pod(world, g, p); /* what is older than the decision does not undo it */
    pod->life = RUNS;
}

static void apply_evict(struct world *world, const struct sched_evict *evict)
{
    int p = 0, g = which(evict->pod.name, &p);
    struct group *group = &world->groups[g];
    bool wanted = group->loss == SCHED_LOSS_SUSPEND || (!group->loss && group->queue == 1);

    must(group->pods[p].life == RUNS, "a pod is evicted that does not run");
    must(!evict->suspend || wanted, "suspended where nobody allows it");
    suspensions += evict->suspend;
    group->pods[p].life = evict->suspend ? SUSPENDING : EVICTING;
}

static void apply(struct world *world, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->evict_count; i++)
        apply_evict(world, &plan->evicts[i]);
    for (int g = 0; g < GROUPS; g++)
        must(!any_is(&world->groups[g], SUSPENDING) || !any_is(&world->groups[g], RUNS),
             "half a gang is suspended");
    for (size_t i = 0; i < plan->bind_count; i++)
        apply_bind(world, &plan->binds[i]);
    for (int g = 0; g < GROUPS; g++)
        if (world->groups[g].there)
            put_pods(world, g);
}

/* ---- what must hold ---- */

static bool is_told(struct world *world, const struct sched_plan *plan, int g)
{
    for (size_t i = 0; i < plan->waiting_count; i++)
        if (str_eq(plan->waiting[i].group, named(world, "g", g, 0)))
            return plan->waiting[i].message.len > 0;
    return false;
}

static void check(struct world *world, const struct sched_plan *plan)
{
    int users[NODES][GPUS] = {0};
    struct err err = {0};

    for (int i = 0; i < 2; i++)
        if (sched_verify(world->sched[i], &err))
            fail(err.text);
    for (int g = 0; g < GROUPS; g++) {
        const struct group *group = &world->groups[g];

        for (int p = 0; group->there && p < group->pod_count; p++) {
            const struct pod *pod = &group->pods[p];

            for (int64_t d = 0; d < pod->gpus; d++)
                if (pod->life == RUNS || pod->life == EVICTING || pod->life == SUSPENDING)
                    must(pod->devices[d] < GPUS && users[pod->node][pod->devices[d]]++ == 0,
                         "a device has two users");
        }
        if (all_are(group, SUSPENDED) && group->failed != world->now)
            must(is_told(world, plan, g), "a suspended gang neither goes on nor says why");
    }
}

static void add_plan(struct buf *to, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->bind_count; i++) {
        const struct sched_bind *bind = &plan->binds[i];
        buf_addf(to, "+" STR_FMT "@" STR_FMT "%d", STR_ARG(bind->pod.name), STR_ARG(bind->node),
                 bind->resume);
        for (size_t d = 0; d < bind->device_count; d++)
            buf_addf(to, ",%u", bind->devices[d]);
    }
    for (size_t i = 0; i < plan->evict_count; i++)
        buf_addf(to, "-" STR_FMT "%d" STR_FMT, STR_ARG(plan->evicts[i].pod.name),
                 plan->evicts[i].suspend, STR_ARG(plan->evicts[i].message));
    for (size_t i = 0; i < plan->waiting_count; i++)
        buf_addf(to, "?" STR_FMT STR_FMT, STR_ARG(plan->waiting[i].group),
                 STR_ARG(plan->waiting[i].message));
}

static void cycle(struct world *world)
{
    struct sched_plan plans[2];
    struct buf texts[2] = {{0}, {0}};

    world->now += 1000;
    for (int i = 0; i < 2; i++) {
        sched_cycle(world->sched[i], world->now, &world->arena, &plans[i]);
        add_plan(&texts[i], &plans[i]);
    }
    must(str_eq(buf_str(&texts[0]), buf_str(&texts[1])), "two cores decide differently");
    apply(world, &plans[0]);
    check(world, &plans[0]);
    for (int i = 0; i < 2; i++)
        buf_done(&texts[i]);
    arena_reset(&world->arena);
}

/* ---- a cluster ---- */

static void open_world(struct world *world)
{
    struct sched_label label = {STR("muster.dev/suspend"), STR("freeze")};

    *world = (struct world){.now = INT64_C(1800000000000)};
    for (int i = 0; i < 2; i++) {
        struct sched_config config;

        sched_config_default(&config);
        config.plain = i == 1;
        config.seed = (uint64_t)i;
        world->sched[i] = sched_new(&config);
        for (int q = 0; q < 2; q++) {
            struct sched_queue queue = {.name = q ? STR("q1") : STR("q0"),
                                        .priority = 100,
                                        .preempt_min_runtime_ms = -1,
                                        .reclaim_min_runtime_ms = -1,
                                        .loss = q ? SCHED_LOSS_SUSPEND : SCHED_LOSS_UNSET};

            for (int r = 0; r < SCHED_RESOURCES; r++)
                queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
            queue.quota[SCHED_GPU].quota = NODES * GPUS / 2.0;
            sched_put_queue(world->sched[i], &queue);
        }
        for (int n = 0; n < NODES; n++)
            sched_put_node(world->sched[i], &(struct sched_node){.name = named(world, "n", n, 0),
                                                                 .labels = &label,
                                                                 .label_count = 1,
                                                                 .cpu_milli = 64000,
                                                                 .memory_bytes = INT64_C(1) << 36,
                                                                 .gpus = GPUS,
                                                                 .pods = 110});
    }
}

/* Nothing new comes, and what runs ends: everybody has its turn. */
static void drain(struct world *world)
{
    for (int step = 0; step < 40 * GROUPS; step++) {
        bool left = false;

        for (int g = 0; g < GROUPS; g++) {
            struct group *group = &world->groups[g];

            left = left || group->there;
            group->held = false;
            if (any_is(group, EVICTING))
                restart(world, g);
            for (int p = 0; p < group->pod_count; p++)
                if (group->there && group->pods[p].life == SUSPENDING)
                    group->pods[p].life = SUSPENDED;
            if (all_are(group, RUNS))
                finish(world, g);
            else if (group->there)
                put_pods(world, g);
        }
        if (!left)
            return;
        cycle(world);
    }
    fail("somebody waits for ever");
}

int main(int argc, char *argv[])
{
    int64_t numbers[] = {1, 40, 300};

    for (int i = 1; i < argc && i <= 3; i++)
        if (!str_to_i64(str_from(argv[i]), &numbers[i - 1]))
            fail("usage: suspension [SEED [CLUSTERS [STEPS]]]");
    for (int64_t cluster = 0; cluster < numbers[1]; cluster++) {
        struct world world;

        rng_state = (uint64_t)(numbers[0] + cluster);
        open_world(&world);
        for (int64_t step = 0; step < numbers[2]; step++) {
            for (int64_t n = below(4); n >= 0; n--)
                happen(&world, (int)below(GROUPS));
            cycle(&world);
        }
        drain(&world);
        for (int i = 0; i < 2; i++)
            sched_free(world.sched[i]);
        arena_done(&world.arena);
    }
    must(suspensions > 0 && resumes > 0, "nobody was suspended");
    printf("%lld clusters, %zu suspensions, %zu resumes: ok\n", (long long)numbers[1], suspensions,
           resumes);
    return 0;
}
