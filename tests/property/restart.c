#include "base/arena.h"
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

/* restart [SEED [CLUSTERS [EVENTS]]]: gangs that fail and start again, and the room they left.
 *
 * Nobody here may evict anybody, so what is held (hold.h) is known without looking into the core:
 * the places of pods that failed or went while their gang restarts, until the time that was said.
 * After every cycle each node must have exactly the GPUs free that neither pods nor such places nor
 * promises have: nobody else runs there meanwhile, and nothing is held beyond its time. A gang that is back
 * in time must be back in its old places, all of it at once. In the end everybody's time is over
 * and no room is held. */

#define NODES     6
#define GPUS      4
#define GANGS     12
#define PODS      4 /* of a gang at most */
#define HOLD_MS   4000
#define NS        STR("ns")
#define START     INT64_C(1800000000000)
#define AT_EVENT  3 /* one of so many events is a cycle */
#define END_STEPS 200

enum life {
    GONE,
    WAITING,
    RUNS,
    ENDING, /* is being deleted */
    FAILED,
};

struct member {
    enum life life;
    int node;
    int64_t created;
    int64_t failed_since; /* of the first cycle that saw it, as the core counts; 0: not yet */
    bool held;            /* its place is */
    uint64_t generation;
};

enum phase {
    NOBODY,
    LIVES,   /* waits or runs */
    DECIDES, /* a pod has failed; its controller has not said what becomes of it */
    STOPS,   /* starts again: its pods go */
    BACK,    /* all are gone and are made again */
    OVER,    /* ends for good */
};

struct gang {
    enum phase phase;
    int pods;
    int64_t gpus;
    int64_t created;
    int64_t until; /* 0: nobody says so */
    struct member members[PODS];
};

struct world {
    struct sched *sched;
    struct gang gangs[GANGS];
    uint64_t rng;
    int64_t now;
    size_t kept, expired, given_up, alone;
    struct arena arena;
};

static int64_t below(struct world *world, int64_t n)
{
    world->rng = world->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((world->rng >> 33) % (uint64_t)n);
}

static bool fail(const char *what, int n)
{
    (void)fprintf(stderr, "broken: %s (%d)\n", what, n);
    return false;
}

/* ---- what the core is told ---- */

static struct str node_name(struct world *world, int n)
{
    return str_printf(&world->arena, "node%d", n);
}

static struct str pod_name(struct world *world, int g, int m)
{
    return str_printf(&world->arena, "%d-%d", g, m);
}

static void put_gang(struct world *world, int g)
{
    const struct gang *gang = &world->gangs[g];

    sched_put_group(world->sched,
                    &(struct sched_group){.ns = NS,
                                          .name = str_printf(&world->arena, "gang%d", g),
                                          .queue = STR("q"),
                                          .created_ms = gang->created,
                                          .min_member = gang->pods,
                                          .has_priority = true,
                                          .priority = 50,
                                          .preemptibility = SCHED_NON_PREEMPTIBLE,
                                          .hold_until_ms = gang->until});
}

static void put_member(struct world *world, int g, int m)
{
    static const enum sched_phase phases[] = {[WAITING] = SCHED_PENDING,
                                              [RUNS] = SCHED_RUNNING,
                                              [ENDING] = SCHED_RELEASING,
                                              [FAILED] = SCHED_FAILED};
    const struct gang *gang = &world->gangs[g];
    const struct member *member = &gang->members[m];
    bool placed = member->life != WAITING;

    sched_put_pod(world->sched,
                  &(struct sched_pod){.ns = NS,
                                      .name = pod_name(world, g, m),
                                      .uid = str_printf(&world->arena, "%d-%d-%llu", g, m,
                                                        (unsigned long long)member->generation),
                                      .group = str_printf(&world->arena, "gang%d", g),
                                      .created_ms = member->created,
                                      .cpu_milli = 100,
                                      .memory_bytes = 1 << 20,
                                      .gpus = gang->gpus,
                                      .role_rank = 2,
                                      .hold_ms = HOLD_MS,
                                      .phase = phases[member->life],
                                      .node = placed ? node_name(world, member->node) : STR_NONE});
}

static void make_member(struct world *world, int g, int m)
{
    struct member *member = &world->gangs[g].members[m];

    member->life = WAITING;
    member->created = world->now;
    member->generation++;
    put_member(world, g, m);
}

/* The room of one that goes is held if its gang starts again; of one that failed it is already. */
static void drop_member(struct world *world, int g, int m)
{
    struct gang *gang = &world->gangs[g];
    struct member *member = &gang->members[m];

    member->held = member->held || ((member->life == RUNS || member->life == ENDING) &&
                                    gang->phase == STOPS && gang->until > world->now);
    member->life = GONE;
    sched_drop_pod(world->sched, NS, pod_name(world, g, m));
}

static void drop_gang(struct world *world, int g)
{
    struct gang *gang = &world->gangs[g];

    for (int m = 0; m < gang->pods; m++) {
        if (gang->members[m].life != GONE)
            drop_member(world, g, m);
        gang->members[m].held = false;
    }
    gang->phase = NOBODY;
    sched_drop_group(world->sched, NS, str_printf(&world->arena, "gang%d", g));
}

/* ---- events ---- */

static int count_life(const struct gang *gang, enum life life)
{
    int count = 0;

    for (int m = 0; m < gang->pods; m++)
        count += gang->members[m].life == life;
    return count;
}

static void gang_arrives(struct world *world, int g)
{
    struct gang *gang = &world->gangs[g];

    gang->phase = LIVES;
    gang->pods = 1 + (int)below(world, PODS);
    gang->gpus = 1 + below(world, GPUS);
    gang->created = world->now;
    gang->until = 0;
    put_gang(world, g);
    for (int m = 0; m < gang->pods; m++)
        make_member(world, g, m);
}

static void member_fails(struct world *world, int g)
{
    struct gang *gang = &world->gangs[g];
    int m = (int)below(world, gang->pods);

    gang->phase = DECIDES;
    gang->members[m].life = FAILED;
    gang->members[m].failed_since = 0;
    gang->members[m].held = true;
    put_member(world, g, m);
}

/* Starts again, as a whole or this pod alone, or does not. */
static void gang_decides(struct world *world, int g)
{
    struct gang *gang = &world->gangs[g];
    int64_t what = below(world, 8);
    bool late = false; /* whether what is left is held for it depends on who else ends */

    for (int m = 0; m < gang->pods; m++)
        late = late || (gang->members[m].life == FAILED && !gang->members[m].held);
    if (what == 0 || late) {
        gang->phase = OVER;
        gang->until = world->now;
        world->given_up++;
        put_gang(world, g);
        return;
    }
    if (what <= 2) {
        gang->phase = LIVES;
        world->alone++;
        for (int m = 0; m < gang->pods; m++)
            if (gang->members[m].life == FAILED) {
                drop_member(world, g, m);
                make_member(world, g, m);
            }
        return;
    }
    gang->phase = STOPS;
    gang->until = world->now + 2000 + 1000 * below(world, 8);
    put_gang(world, g);
}

/* One pod at a time is told to end, or is gone. */
static void gang_stops(struct world *world, int g)
{
    struct gang *gang = &world->gangs[g];
    int m = (int)below(world, gang->pods);
    struct member *member = &gang->members[m];

    if (count_life(gang, GONE) == gang->pods) {
        gang->phase = BACK;
    } else if (member->life == RUNS && below(world, 4)) {
        member->life = ENDING;
        put_member(world, g, m);
    } else if (member->life != GONE) {
        drop_member(world, g, m);
    }
}

/* They are made one after the other: those that are there first must not start alone. */
static void gang_returns(struct world *world, int g)
{
    struct gang *gang = &world->gangs[g];

    for (int m = 0; m < gang->pods; m++)
        if (gang->members[m].life == GONE) {
            make_member(world, g, m);
            if (below(world, 3) == 0)
                break;
        }
    if (count_life(gang, WAITING) == gang->pods)
        gang->phase = LIVES;
}

static void random_event(struct world *world)
{
    int g = (int)below(world, GANGS);
    struct gang *gang = &world->gangs[g];

    switch (gang->phase) {
    case NOBODY: gang_arrives(world, g); break;
    case LIVES:
        if (below(world, 40) == 0)
            drop_gang(world, g);
        else if (count_life(gang, RUNS) == gang->pods && below(world, 3) == 0)
            member_fails(world, g);
        break;
    case DECIDES:
        if (below(world, 3) == 0)
            gang_decides(world, g);
        break;
    case STOPS: gang_stops(world, g); break;
    case BACK: gang_returns(world, g); break;
    case OVER: drop_gang(world, g); break;
    }
}

/* ---- what must hold ---- */

/* Places whose time is over are held no more. */
static void judge_places(struct world *world, struct gang *gang)
{
    for (int m = 0; m < gang->pods; m++) {
        struct member *member = &gang->members[m];

        if (!member->held)
            continue;
        if (!member->failed_since)
            member->failed_since = world->now;
        int64_t until = gang->until ? gang->until : member->failed_since + HOLD_MS;
        member->held = until > world->now;
        world->expired += !member->held;
    }
}

/* A gang whose pods are all there again, with the places of all that wait: they are its own. */
static bool finds_places(const struct gang *gang)
{
    bool any = false;

    if (gang->phase != LIVES)
        return false;
    for (int m = 0; m < gang->pods; m++) {
        if (gang->members[m].life == WAITING && !gang->members[m].held)
            return false;
        any = any || gang->members[m].life == WAITING;
    }
    return any;
}

static bool play_binds(struct world *world, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->bind_count; i++) {
        struct str name = plan->binds[i].pod.name;
        int64_t g = 0;
        int64_t m = 0;
        int64_t node = 0;

        if (!str_to_i64(str_sub(name, 0, str_find(name, '-')), &g) ||
            !str_to_i64(str_sub(name, str_find(name, '-') + 1, name.len), &m) ||
            !str_to_i64(str_sub(plan->binds[i].node, 4, plan->binds[i].node.len), &node))
            return fail("a pod that nobody made is bound", (int)i);
        struct member *member = &world->gangs[g].members[m];
        if (member->life != WAITING || world->gangs[g].phase != LIVES)
            return fail("a pod is bound that does not wait, or alone", (int)g);
        if (member->held && member->node != node && finds_places(&world->gangs[g]))
            return fail("a gang that came back in time is not in its old place", (int)g);
        member->node = (int)node;
        member->life = RUNS;
        put_member(world, (int)g, (int)m);
    }
    return true;
}

static bool check_gang(struct world *world, int g, bool back)
{
    struct gang *gang = &world->gangs[g];

    if (gang->phase != LIVES)
        return true;
    if (back && count_life(gang, RUNS) < gang->pods)
        return fail("a gang that came back in time does not run", g);
    if (count_life(gang, RUNS) && count_life(gang, WAITING) && back)
        return fail("a part of a gang runs", g);
    world->kept += back;
    /* It is all there: what it found of its places it has, and the others are of no use to it. */
    for (int m = 0; m < gang->pods; m++) {
        gang->members[m].held = false;
        gang->members[m].failed_since = 0;
    }
    if (gang->until && count_life(gang, RUNS) == gang->pods) {
        gang->until = 0;
        put_gang(world, g);
    }
    return true;
}

/* What a gang has of a node. */
struct share {
    int64_t used;     /* by its pods, those on their way out too */
    int64_t leaving;  /* of that: nobody holds it when they are gone */
    int64_t held;     /* for its pods to come */
    int64_t promised; /* to those that wait, where others are on their way out */
};

static void add_share(struct world *world, int g, int n, struct share *share)
{
    const struct gang *gang = &world->gangs[g];

    for (int m = 0; m < gang->pods && gang->phase != NOBODY; m++) {
        const struct member *member = &gang->members[m];
        bool here = member->node == n;
        bool leaves = member->life == ENDING && gang->until <= world->now;
        struct str node;

        share->used += here && (member->life == RUNS || member->life == ENDING) ? gang->gpus : 0;
        share->leaving += here && leaves ? gang->gpus : 0;
        share->held += here && member->held ? gang->gpus : 0;
        if (member->life == WAITING &&
            sched_promised(world->sched, NS, pod_name(world, g, m), &node) &&
            str_eq(node, node_name(world, n)))
            share->promised += gang->gpus;
    }
}

static bool check_nodes(struct world *world)
{
    for (int n = 0; n < NODES; n++) {
        struct sched_node_view view;
        struct share all = {0};

        for (int g = 0; g < GANGS; g++)
            add_share(world, g, n, &all);
        if (all.used + all.held > GPUS)
            return fail("others run where room is held", n);
        if (!sched_node_view(world->sched, node_name(world, n), &view))
            return fail("a node is not known", n);
        if (view.idle_gpus > GPUS - all.used - all.held ||
            view.idle_gpus + view.releasing_gpus !=
                GPUS - all.used + all.leaving - all.held - all.promised) {
            (void)fprintf(stderr,
                          "%lld GPUs are free and %lld leave; %lld are used, %lld of them leave, "
                          "%lld are held, %lld promised: ",
                          (long long)view.idle_gpus, (long long)view.releasing_gpus,
                          (long long)all.used, (long long)all.leaving, (long long)all.held,
                          (long long)all.promised);
            return fail("a node has other room than it should", n);
        }
    }
    return true;
}

static bool cycle(struct world *world)
{
    struct sched_plan plan;
    struct arena arena = {0};
    struct err err = {0};
    bool back[GANGS];
    bool good = true;

    world->now += 100 + below(world, 600);
    for (int g = 0; g < GANGS; g++) {
        judge_places(world, &world->gangs[g]);
        back[g] = finds_places(&world->gangs[g]);
    }
    sched_cycle(world->sched, world->now, &arena, &plan);
    if (sched_verify(world->sched, &err)) {
        (void)fprintf(stderr, "broken: %s\n", err.text);
        good = false;
    }
    if (good && plan.evict_count)
        good = fail("somebody is evicted", (int)plan.evict_count);
    good = good && play_binds(world, &plan);
    for (int g = 0; g < GANGS && good; g++)
        good = check_gang(world, g, back[g]);
    good = good && check_nodes(world);
    arena_done(&arena);
    arena_reset(&world->arena);
    return good;
}

static void world_open(struct world *world, uint64_t seed)
{
    struct sched_config config;
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    world->rng = seed;
    world->now = START;
    sched_config_default(&config);
    config.policy.stale_grace_ms = -1; /* nobody is evicted, for nothing */
    world->sched = sched_new(&config);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(world->sched, &queue);
    for (int n = 0; n < NODES; n++)
        sched_put_node(world->sched, &(struct sched_node){.name = node_name(world, n),
                                                          .cpu_milli = 64000,
                                                          .memory_bytes = INT64_C(1) << 36,
                                                          .gpus = GPUS,
                                                          .pods = 110});
}

static bool run_cluster(uint64_t seed, int64_t events, struct world *world)
{
    bool good = true;
    bool held = false;

    world_open(world, seed);
    for (int64_t i = 0; i < events && good; i++) {
        random_event(world);
        if (below(world, AT_EVENT) == 0)
            good = cycle(world);
    }
    /* Nobody comes back any more. */
    for (int i = 0; i < END_STEPS && good; i++)
        good = cycle(world);
    for (int g = 0; g < GANGS && good; g++)
        for (int m = 0; m < world->gangs[g].pods; m++)
            held = held || (world->gangs[g].phase != NOBODY && world->gangs[g].members[m].held);
    if (good && held)
        good = fail("room is held for ever", 0);
    if (!good)
        (void)fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    sched_free(world->sched);
    arena_done(&world->arena);
    return good;
}

int main(int argc, char *argv[])
{
    uint64_t seed = 1;
    int64_t clusters = 20;
    int64_t events = 1000;
    size_t kept = 0, expired = 0, given_up = 0, alone = 0;

    if ((argc > 1 && !str_to_u64(str_from(argv[1]), &seed)) ||
        (argc > 2 && !str_to_i64(str_from(argv[2]), &clusters)) ||
        (argc > 3 && !str_to_i64(str_from(argv[3]), &events))) {
        (void)fprintf(stderr, "usage: sched-restart [SEED [CLUSTERS [EVENTS]]]\n");
        return 2;
    }
    for (int64_t i = 0; i < clusters; i++) {
        struct world *world = calloc(1, sizeof(*world));

        if (!world)
            abort();
        bool good = run_cluster(seed + (uint64_t)i, events, world);
        kept += world->kept;
        expired += world->expired;
        given_up += world->given_up;
        alone += world->alone;
        free(world);
        if (!good)
            return 1;
    }
    printf(
        "%lld clusters, %lld events each, from seed %llu: nothing broken; %zu gangs came back to "
        "their places, %zu pods started again alone, %zu places were held in vain, %zu gangs "
        "gave up\n",
        (long long)clusters, (long long)events, (unsigned long long)seed, kept, alone, expired,
        given_up);
    if (!kept || !expired || !given_up || !alone) {
        (void)fprintf(stderr, "broken: not everything happened\n");
        return 1;
    }
    return 0;
}
