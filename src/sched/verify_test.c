#include "base/count.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "sched/alike.h"
#include "sched/claim.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/verify.h"
#include "sched/world_test.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The checker of what is derived: a cluster in which there is some of everything, and one thing in
 * it that is not as it should be. */

static void put_share(struct cluster *c, const char *name, const char *device)
{
    const struct str group = str_from(device);

    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = str_from(name),
                                                .uid = str_from(name),
                                                .group = STR("share"),
                                                .created_ms = c->now,
                                                .cpu_milli = 1000,
                                                .gpu_fraction_micro = 250000,
                                                .gpu_devices = 1,
                                                .gpu_groups = &group,
                                                .gpu_group_count = 1,
                                                .phase = SCHED_RUNNING,
                                                .node = STR("b")});
}

static void put_held(struct cluster *c, enum sched_phase phase)
{
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = STR("held-0"),
                                                .uid = STR("held"),
                                                .group = STR("held"),
                                                .created_ms = c->now,
                                                .cpu_milli = 1000,
                                                .gpus = 1,
                                                .hold_ms = 60000,
                                                .phase = phase,
                                                .node = STR("b")});
}

/* Numbers beyond those that the core counts are nobody else's. */
static void put_numbered(struct cluster *c)
{
    static const uint32_t numbers[] = {3, 300};

    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = STR("far"),
                                                .uid = STR("far"),
                                                .phase = SCHED_RUNNING,
                                                .node = STR("b"),
                                                .gpus = 2,
                                                .devices = numbers,
                                                .device_count = COUNT_OF(numbers)});
}

/* It waits for a label that no node has. */
static void put_picky(struct cluster *c)
{
    static const struct sched_label label = {{"disk", 4}, {"ssd", 3}};

    cluster_put(c, &(struct job){.name = "picky"});
    cluster_drop(c, "picky-0");
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = STR("picky-0"),
                                                .uid = STR("picky"),
                                                .group = STR("picky"),
                                                .node_selector = &label,
                                                .node_selector_count = 1});
}

static void world_open(struct cluster *c)
{
    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"a", "d", "e"};

        cluster_node(c, names[i], 8);
    }
    sched_put_node(c->sched, &(struct sched_node){.name = STR("b"),
                                                  .cpu_milli = 64000,
                                                  .memory_bytes = INT64_C(1) << 38,
                                                  .gpus = 8,
                                                  .gpu_memory_mib = 1000,
                                                  .pods = 110});
    cluster_node(c, "c", 0);
    cluster_claim(c, "claim", 1);
    cluster_put(c, &(struct job){.name = "low", .gpus = 2, .priority = 10, .node = "a"});
    cluster_put(c, &(struct job){.name = "mid", .gpus = 1, .priority = 20, .node = "a"});
    cluster_put(c, &(struct job){.name = "semi",
                                 .pods = 2,
                                 .min = 1,
                                 .gpus = 1,
                                 .kind = SCHED_SEMI_PREEMPTIBLE,
                                 .node = "d"});
    cluster_put(c, &(struct job){.name = "fixed",
                                 .pods = 2,
                                 .claim = "claim",
                                 .kind = SCHED_NON_PREEMPTIBLE,
                                 .node = "d"});
    cluster_put(c, &(struct job){.name = "share", .pods = 1, .priority = 30});
    cluster_put(c, &(struct job){.name = "held", .pods = 1, .priority = 30});
    cluster_drop(c, "share-0");
    cluster_drop(c, "held-0");
    put_share(c, "share-1", "0");
    put_share(c, "share-2", "1");
    put_numbered(c);
    put_held(c, SCHED_RUNNING);
    put_picky(c);
    /* Victims for it are searched in vain, and so stand in their order. */
    cluster_put(c, &(struct job){.name = "high", .pods = 4, .gpus = 8, .priority = 90});
    cluster_put(c, &(struct job){.name = "wait", .pods = 9, .gpus = 8, .priority = 5});
    cluster_put(c, &(struct job){.name = "new", .gpus = 1, .priority = 40});
    cluster_decide(c, 1000);
    EXPECT(cluster_bound(c, "new-0") && cluster_waiting(c, "wait"));
    put_held(c, SCHED_FAILED);
    cluster_decide(c, 1000);
    EXPECT(c->sched->holds.count == 1);
}

static struct pod *pod_of(struct cluster *c, const char *name)
{
    return pod_get(c->sched, STR("ns"), str_from(name));
}

static struct group *group_of(struct cluster *c, const char *name)
{
    return group_get(c->sched, STR("ns"), str_from(name), false);
}

static struct node *node_of(struct cluster *c, const char *name)
{
    return node_get(c->sched, str_from(name), false);
}

static struct queue *queue_of(struct cluster *c)
{
    return queue_get(c->sched, STR("q"), false);
}

static struct claim *claim_of(struct cluster *c)
{
    MAP_FOREACH(&c->sched->claims, entry)
        return entry->value;
    return NULL;
}

static struct shape *shape_of(struct cluster *c)
{
    return pod_of(c, "picky-0")->shape;
}

/* Where it is, and how many bytes it has. */
struct place {
    void *at;
    size_t size;
};
#define PLACE(what) ((struct place){&(what), sizeof(what)})
#define PART(name, what)                               \
    static struct place part_##name(struct cluster *c) \
    {                                                  \
        return PLACE(what);                            \
    }

PART(pod_node, pod_of(c, "low-0")->node)
PART(pod_node_index, pod_of(c, "low-0")->node_index)
PART(node_idle, node_of(c, "a")->idle[RES_CPU])
PART(node_releasing, node_of(c, "a")->releasing[RES_GPU])
PART(node_devices, node_of(c, "b")->devices_used[0])
PART(share_live, node_of(c, "b")->shares[0].live)
PART(share_pods, node_of(c, "b")->shares[0].pod_count)
PART(share_kept, node_of(c, "b")->shares[0].kept)
PART(share_memory, node_of(c, "b")->shares[0].allocated)
PART(pod_group, pod_of(c, "low-0")->group)
PART(pod_group_index, pod_of(c, "low-0")->group_index)
PART(pod_taken, pod_of(c, "low-0")->taken)
PART(pod_recorded, pod_of(c, "low-0")->recorded)
PART(pod_victim, pod_of(c, "low-0")->victim)
PART(pod_logged, pod_of(c, "low-0")->logged)
PART(pod_left, pod_of(c, "low-0")->left)
PART(group_count, group_of(c, "low")->count[ST_PENDING])
PART(group_set_count, group_of(c, "low")->sets[1].count[ST_PENDING])
PART(group_core, group_of(c, "semi")->core[SCHED_GPU])
PART(group_pending, group_of(c, "low")->in_pending)
PART(group_active, group_of(c, "wait")->in_active)
PART(claim_count, claim_of(c)->spec.device_count)
PART(claim_guard, claim_of(c)->guard)
PART(queue_allocated, queue_of(c)->allocated[SCHED_GPU])
PART(queue_fixed, queue_of(c)->fixed[SCHED_GPU])
PART(queue_asked, queue_of(c)->asked[SCHED_GPU])
PART(index_key, node_of(c, "a")->links[INDEX_GPU].key)
PART(index_priority, node_of(c, "a")->pool->index[0]->links[INDEX_GPU].priority)
PART(index_in, node_of(c, "c")->ready)
PART(pool_room, node_of(c, "a")->pool->room[RES_GPU])
PART(pool_idle, node_of(c, "a")->pool->idle[RES_GPU])
PART(pool_whole, node_of(c, "a")->pool->whole[RES_GPU])
PART(pool_parts, node_of(c, "a")->pool->parts)
PART(alike_class, node_of(c, "a")->alike)
PART(alike_at, node_of(c, "a")->alike_at)
PART(alike_key, node_of(c, "a")->alike->bytes[0])
PART(sorted, group_of(c, "low")->in_sorted)
PART(sorted_at, group_of(c, "low")->sorted_at)
PART(sorted_elastic, group_of(c, "low")->sorted_elastic)
PART(unsorted, group_of(c, "low")->in_unsorted)
PART(frail, group_of(c, "low")->in_frail)
PART(order, group_of(c, "low")->priority)
PART(priorities, queue_of(c)->priorities.items[0].count)
PART(priority_count, queue_of(c)->priorities.count)
PART(odd, queue_of(c)->odd)
PART(allowed, shape_of(c)->allowed[0])
PART(holds_group, c->sched->holds.items[0]->group)
PART(holds_known, group_of(c, "held")->known)
PART(holds_node, node_of(c, "b")->known)
PART(holds_counted, group_of(c, "held")->stand_ins)
PART(holds_listed, c->sched->holds.count)
PART(holds_time, c->sched->now_ms)
PART(holds_kind, c->sched->holds.items[0]->stand_in)

enum how {
    FLIP, /* the lowest bit of it */
    ZERO,
    ONES, /* in all bytes but the highest: a large number */
};

static void damage(struct place place, enum how how)
{
    unsigned char *bytes = place.at;

    if (how == FLIP)
        bytes[0] ^= 1;
    else if (how == ZERO)
        memset(bytes, 0, place.size);
    else
        memset(bytes, 0xff, place.size - 1);
}

static const struct {
    const char *why;
    struct place (*part)(struct cluster *c);
    enum how how;
    const char *words;
} damages[] = {
    {"a pod on another node", part_pod_node, FLIP, "node a: pod ns/low-0 is not where it says"},
    {"a pod in another place", part_pod_node_index, FLIP, "is not where it says"},
    {"more is idle", part_node_idle, FLIP, "node a: cpu idle"},
    {"more is being left", part_node_releasing, FLIP, "releasing 1, should be"},
    {"another device is in use", part_node_devices, FLIP, "node b: devices"},
    {"a shared device is not", part_share_live, FLIP, "node b share 0: 1 pods hold 250 MiB"},
    {"a shared device has more pods", part_share_pods, FLIP, "node b share 0"},
    {"a shared device is kept", part_share_kept, FLIP, "node b"},
    {"a shared device has less memory", part_share_memory, FLIP, "node b share 0"},
    {"a pod of another group", part_pod_group, FLIP, "group ns/low: pod ns/low-0 left in a search"},
    {"a pod elsewhere in its group", part_pod_group_index, FLIP, "left in a search"},
    {"a pod that is proposed", part_pod_taken, FLIP, "left in a search"},
    {"a pod that is kept as a victim", part_pod_recorded, FLIP, "left in a search"},
    {"a pod that is a victim", part_pod_victim, FLIP, "left in a search"},
    {"a pod that was touched", part_pod_logged, FLIP, "left in a search"},
    {"a pod that left its node", part_pod_left, FLIP, "left in a search"},
    {"a group counts another pod", part_group_count, FLIP, "group ns/low: counts are off"},
    {"a subgroup counts another pod", part_group_set_count, FLIP, "group ns/low: counts are off"},
    {"a minimum is charged less", part_group_core, FLIP, "what its minimum is charged is off"},
    {"a group does not wait", part_group_pending, FLIP, "group ns/low: in the wrong lists"},
    {"a group does not run", part_group_active, FLIP, "group ns/wait: in the wrong lists"},
    {"a claim has more devices", part_claim_count, ONES, "claim ns/claim: 1 devices paid for"},
    {"a claim has another guard", part_claim_guard, FLIP, "claim ns/claim: 1 devices paid for, 0"},
    {"a queue holds more", part_queue_allocated, FLIP, "queue q: sums are off"},
    {"a queue holds more for good", part_queue_fixed, FLIP, "queue q: sums are off"},
    {"a queue asks for more", part_queue_asked, FLIP, "queue q: sums are off"},
    {"a key of an index is old", part_index_key, FLIP, "index 0: node a is out of order"},
    {"an index is no heap", part_index_priority, ZERO, "is out of order"},
    {"an index lacks a node", part_index_in, FLIP, "index 1 has 1 nodes, should have 0"},
    {"a pool has more room", part_pool_room, FLIP, "sums of its nodes are off"},
    {"a pool has more idle", part_pool_idle, FLIP, "sums of its nodes are off"},
    {"a pool has more in all", part_pool_whole, FLIP, "sums of its nodes are off"},
    {"a pool has more parts", part_pool_parts, FLIP, "sums of its nodes are off"},
    {"a node is like others", part_alike_class, FLIP, "node a is among others than those like it"},
    {"a node is elsewhere among them", part_alike_at, FLIP, "node a is among others"},
    {"a class is of others", part_alike_key, FLIP, "node a is among others"},
    {"a victim is not in the order", part_sorted, FLIP, "group ns/low is missing in the order"},
    {"a victim is elsewhere in it", part_sorted_at, FLIP, "is missing in the order of victims"},
    {"a victim is beyond its end", part_sorted_at, ONES, "is missing in the order of victims"},
    {"a victim has more pods", part_sorted_elastic, FLIP, "is missing in the order of victims"},
    {"a victim is to be sorted", part_unsorted, FLIP, "is missing in the order of victims"},
    {"a group is frail", part_frail, FLIP, "group ns/low: wrongly among the frail"},
    {"victims are in another order", part_order, ONES, "are out of order"},
    {"a priority has more groups", part_priorities, FLIP, "queue q: counts by priority are off"},
    {"a priority is missing", part_priority_count, ZERO, "queue q: 0 of"},
    {"odd groups are counted twice", part_odd, FLIP, "queue q:"},
    {"a filter says otherwise", part_allowed, FLIP, "is out of date"},
    {"held room has no group", part_holds_group, ZERO, "left in a search"},
    {"held room is nobody's", part_holds_known, FLIP, "is of no use to anybody"},
    {"held room is nowhere", part_holds_node, FLIP, "is of no use to anybody"},
    {"held room is counted twice", part_holds_counted, FLIP, "1 places are held and 0 are counted"},
    {"held room is not listed", part_holds_listed, ZERO, "1 places are held and 0 are listed"},
    {"held room is held for ever", part_holds_time, ONES, "is held beyond its time"},
    {"held room is a pod's", part_holds_kind, FLIP, "is listed as one that holds room"},
};

TEST(the_checker_names_whatever_is_not_as_it_should_be)
{
    struct cluster c;
    struct err err;

    world_open(&c);
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        struct place place = damages[i].part(&c);
        unsigned char before[16];

        test_case(damages[i].why);
        EXPECT(sched_verify(c.sched, NULL) == 0);
        EXPECT(place.size <= sizeof(before));
        memcpy(before, place.at, place.size);
        damage(place, damages[i].how);
        err = (struct err){0};
        EXPECT(sched_verify(c.sched, &err) == -EINVAL);
        EXPECT(str_contains(str_from(err.text), str_from(damages[i].words)));
        memcpy(place.at, before, place.size);
    }
    EXPECT(sched_verify(c.sched, NULL) == 0);
    cluster_close(&c);
}

TEST(two_shared_devices_of_one_name_are_seen)
{
    struct cluster c;
    struct err err = {0};

    world_open(&c);
    struct share *shares = node_of(&c, "b")->shares;
    struct name *own = shares[1].name;
    shares[1].name = shares[0].name;
    EXPECT(sched_verify(c.sched, &err) == -EINVAL);
    EXPECT(str_contains(str_from(err.text), STR("node b has two shared devices 0")));
    shares[1].name = own;
    cluster_close(&c);
}

/* Gangs that take whole nodes search for them by the last victim of each. */
TEST(a_node_with_another_last_victim_is_seen)
{
    struct cluster c;
    struct err err = {0};

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", 0, SCHED_UNLIMITED);
    cluster_queue(&c, "own", 1000, SCHED_UNLIMITED);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"a", "b", "c", "d"};

        cluster_node(&c, names[i], 4);
        cluster_put(&c,
                    &(struct job){
                        .name = names[i], .gpus = 4, .kind = SCHED_PREEMPTIBLE, .node = names[i]});
    }
    cluster_decide(&c, 1000);
    cluster_put(&c, &(struct job){.name = "big", .queue = "own", .pods = 2, .gpus = 4});
    cluster_decide(&c, 1000);
    EXPECT(c.plan.evict_count == 2);
    struct node *node = NULL;
    for (size_t i = 0; i < c.sched->nodes.count; i++)
        if (c.sched->nodes.items[i]->closer)
            node = c.sched->nodes.items[i];
    EXPECT(node && !node->closer_due);
    const struct group *closer = node->closer;
    node->closer = NULL;
    EXPECT(sched_verify(c.sched, &err) == -EINVAL);
    EXPECT(str_contains(str_from(err.text), STR("has another group that is its last victim")));
    node->closer = closer;
    struct group *own = group_get(c.sched, closer->ns, closer->name, false);
    own->closes = false;
    EXPECT(sched_verify(c.sched, &err) == -EINVAL);
    own->closes = true;
    EXPECT(sched_verify(c.sched, NULL) == 0);
    cluster_close(&c);
}

/* Before the next cycle what depends on them is not worked out. */
TEST(queues_that_have_just_changed_are_not_held_against_their_sums)
{
    struct cluster c;

    world_open(&c);
    cluster_queue(&c, "late", 1, 1);
    queue_of(&c)->allocated[SCHED_GPU]++;
    EXPECT(sched_verify(c.sched, NULL) == 0);
    queue_of(&c)->allocated[SCHED_GPU]--;
    cluster_close(&c);
}
