#include "base/count.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/volume.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Pods go where their volumes can be used. Nodes a, b and c have a label zone with their own name in
 * capitals, 4 GPUs each. */

#define GIB (INT64_C(1) << 30)

static const struct sched_label zone_a = {STR("zone"), STR("A")};
static const struct sched_label zone_b = {STR("zone"), STR("B")};
static const struct sched_label zone_c = {STR("zone"), STR("C")};

static void stage_open(struct cluster *c)
{
    static const struct {
        const char *name;
        const struct sched_label *zone;
    } nodes[] = {{"a", &zone_a}, {"b", &zone_b}, {"c", &zone_c}};

    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", 100, 100);
    for (size_t i = 0; i < COUNT_OF(nodes); i++)
        sched_put_node(c->sched, &(struct sched_node){.name = str_from(nodes[i].name),
                                                      .cpu_milli = 64000,
                                                      .memory_bytes = 256 * GIB,
                                                      .gpus = 4,
                                                      .pods = 110,
                                                      .labels = nodes[i].zone,
                                                      .label_count = 1});
    sched_put_storage_class(c->sched, &(struct sched_storage_class){.name = STR("wait"),
                                                                    .provisioner = STR("disks"),
                                                                    .waits = true});
    sched_put_storage_class(
        c->sched, &(struct sched_storage_class){.name = STR("now"), .provisioner = STR("disks")});
    sched_put_storage_class(
        c->sched, &(struct sched_storage_class){.name = STR("local"),
                                                .provisioner = STR("kubernetes.io/no-provisioner"),
                                                .waits = true});
}

/* The term that means the nodes whose zone is that. */
static const struct sched_node_term *in_zone(struct cluster *c, const char *zone)
{
    struct str *value = ARENA_NEW(&c->arena, struct str);
    struct sched_expression *expression = ARENA_NEW(&c->arena, struct sched_expression);
    struct sched_node_term *term = ARENA_NEW(&c->arena, struct sched_node_term);

    *value = str_from(zone);
    *expression = (struct sched_expression){
        .key = STR("zone"), .op = SCHED_IN, .values = value, .value_count = 1};
    *term = (struct sched_node_term){.labels = expression, .label_count = 1};
    return term;
}

struct disk_row {
    const char *name;
    const char *class;
    const char *zone;  /* NULL: it is used from everywhere */
    const char *claim; /* NULL: nobody's */
    int64_t gib;       /* 0: 1 */
    const char *driver;
    const char *uid; /* of its claim; NULL: of any */
    bool kept;       /* for its claim, and not given to it yet */
    bool deleted;
};

static void put_disk(struct cluster *c, const struct disk_row *row)
{
    sched_put_volume(c->sched, &(struct sched_volume){
                                   .name = str_from(row->name),
                                   .class = str_from(row->class ? row->class : ""),
                                   .driver = str_from(row->driver ? row->driver : ""),
                                   .claim_ns = row->claim ? STR("ns") : STR(""),
                                   .claim_name = str_from(row->claim ? row->claim : ""),
                                   .claim_uid = str_from(row->uid ? row->uid : ""),
                                   .available = !row->claim || row->kept,
                                   .deleted = row->deleted,
                                   .access = SCHED_ONE_NODE | SCHED_WRITE_MANY | SCHED_ONE_POD,
                                   .bytes = (row->gib ? row->gib : 1) * GIB,
                                   .affine = row->zone != NULL,
                                   .terms = row->zone ? in_zone(c, row->zone) : NULL,
                                   .term_count = row->zone ? 1 : 0,
                               });
}

struct claim_row {
    const char *name;
    const char *class;
    const char *volume; /* that it is bound to; NULL: it is not */
    const char *selected;
    unsigned access; /* 0: one node */
    int64_t gib;     /* 0: 1 */
    const char *pod; /* uid of the pod that it was made for; NULL: for none */
};

static void put_claim(struct cluster *c, const struct claim_row *row)
{
    sched_put_volume_claim(c->sched,
                           &(struct sched_volume_claim){
                               .ns = STR("ns"),
                               .name = str_from(row->name),
                               .uid = STR("now"),
                               .class = str_from(row->class ? row->class : ""),
                               .volume = str_from(row->volume ? row->volume : ""),
                               .selected_node = str_from(row->selected ? row->selected : ""),
                               .pod_uid = str_from(row->pod ? row->pod : ""),
                               .bound = row->volume != NULL,
                               .access = row->access ? row->access : SCHED_ONE_NODE,
                               .bytes = (row->gib ? row->gib : 1) * GIB,
                           });
}

static const char *node_of(const struct cluster *c, const char *pod)
{
    const struct sched_bind *bind = cluster_bind(c, pod);

    return !bind ? "-" : str_is(bind->node, "a") ? "a" : str_is(bind->node, "b") ? "b" : "c";
}

static const struct sched_bind_volume *told_of(const struct cluster *c, const char *pod)
{
    const struct sched_bind *bind = cluster_bind(c, pod);

    return bind && bind->more && bind->more->volume_count ? bind->more->volumes : NULL;
}

TEST(a_pod_goes_where_its_volume_can_be_used)
{
    static const struct {
        const char *why;
        const char *zone;
        const char *node;
    } rows[] = {
        {"its volume says from where", "B", "b"},
        {"another one", "C", "c"},
        {"a volume that is used from everywhere", NULL, "a"},
        {"there is no such node", "D", "-"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        stage_open(&c);
        put_disk(&c, &(struct disk_row){.name = "pv", .zone = rows[i].zone, .claim = "data"});
        put_claim(&c, &(struct claim_row){.name = "data", .volume = "pv"});
        cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .volume = "data"});
        cluster_decide(&c, 1000);
        EXPECT(strcmp(node_of(&c, "j-0"), rows[i].node) == 0);
        EXPECT(!told_of(&c, "j-0"));
        if (!cluster_bound(&c, "j-0")) {
            EXPECT(cluster_waiting(&c, "j")->reason == SCHED_REASON_NO_NODE);
            EXPECT(cluster_waiting(&c, "j")->why.nodes[SCHED_FILTER_VOLUME] == 3);
            EXPECT(
                str_contains(cluster_waiting(&c, "j")->message, STR("PersistentVolumeClaim data")));
        }
        cluster_close(&c);
    }
}

TEST(a_pod_that_waits_for_a_claim_says_which_and_goes_when_it_is_there)
{
    static const struct {
        const char *why;
        struct claim_row claim;
        const char *words;
    } rows[] = {
        {"there is none", {0}, "ns/data, which does not exist"},
        {"its class binds at once, and has not",
         {.name = "data", .class = "now"},
         "ns/data, which is not bound"},
        {"its class is not there",
         {.name = "data", .class = "gone"},
         "names a StorageClass that does not exist"},
        {"it has no class", {.name = "data"}, "needs a PersistentVolume that fits"},
        {"its volume is gone",
         {.name = "data", .class = "now", .volume = "lost"},
         "a PersistentVolume that does not exist"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        stage_open(&c);
        if (rows[i].claim.name)
            put_claim(&c, &rows[i].claim);
        cluster_put(&c, &(struct job){.name = "j", .pods = 2, .gpus = 1, .volume = "data"});
        cluster_decide(&c, 1000);
        EXPECT(!cluster_bound(&c, "j-0"));
        EXPECT(cluster_waiting(&c, "j")->reason == SCHED_REASON_VOLUME);
        EXPECT(str_contains(cluster_waiting(&c, "j")->message, str_from(rows[i].words)));
        put_disk(&c, &(struct disk_row){.name = "pv", .zone = "C", .claim = "data"});
        put_claim(&c, &(struct claim_row){.name = "data", .volume = "pv"});
        cluster_decide(&c, 1000);
        EXPECT(strcmp(node_of(&c, "j-0"), "c") == 0 && strcmp(node_of(&c, "j-1"), "c") == 0);
        cluster_close(&c);
    }
}

TEST(a_claim_that_waits_for_its_first_consumer_is_made_for_the_node_of_the_pod)
{
    struct cluster c;

    stage_open(&c);
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait"});
    cluster_put(&c, &(struct job){.name = "j", .pods = 2, .gpus = 2, .volume = "data"});
    cluster_decide(&c, 1000);
    EXPECT(strcmp(node_of(&c, "j-0"), "a") == 0 && strcmp(node_of(&c, "j-1"), "a") == 0);
    const struct sched_bind_volume *told = told_of(&c, "j-1");
    EXPECT(told && str_is(told->claim, "data") && str_is(told->node, "a") && !told->volume.len);
    cluster_close(&c);
}

/* A class says where volumes can be made, a driver where it has room, the claim for which node one is
 * made already. */
TEST(a_volume_is_made_only_where_it_can_be)
{
    static const struct {
        const char *why;
        const char *allowed; /* zone */
        const char *room;    /* the zone that has some */
        const char *selected;
        const char *node;
    } rows[] = {
        {"nothing is said", NULL, NULL, NULL, "a"},
        {"the class allows one zone", "B", NULL, NULL, "b"},
        {"the driver has room in one", NULL, "C", NULL, "c"},
        {"both", "B", "C", NULL, "-"},
        {"its provisioner was told the node", NULL, NULL, "c", "c"},
        {"which has no room", NULL, "B", "c", "-"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        stage_open(&c);
        if (rows[i].allowed)
            sched_put_storage_class(
                c.sched, &(struct sched_storage_class){.name = STR("wait"),
                                                       .provisioner = STR("disks"),
                                                       .waits = true,
                                                       .terms = in_zone(&c, rows[i].allowed),
                                                       .term_count = 1});
        if (rows[i].room) {
            const struct sched_node_term *term = in_zone(&c, rows[i].room);
            struct sched_storage_room room = {
                .ns = STR("drivers"),
                .name = STR("r"),
                .class = STR("wait"),
                .bytes = GIB,
                .nodes = {.expressions = term->labels, .expression_count = 1, .set = true}};

            sched_put_storage_driver(c.sched, STR("disks"), true);
            sched_put_storage_room(c.sched, &room);
            room.name = STR("small");
            room.bytes = GIB / 2;
            room.nodes = (struct sched_selector){.set = true};
            sched_put_storage_room(c.sched, &room);
        }
        put_claim(
            &c, &(struct claim_row){.name = "data", .class = "wait", .selected = rows[i].selected});
        cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .volume = "data"});
        cluster_decide(&c, 1000);
        EXPECT(strcmp(node_of(&c, "j-0"), rows[i].node) == 0);
        cluster_close(&c);
    }
}

/* Local volumes: nobody makes them, each pod gets one of those that are there, the smallest that
 * fits. */
TEST(claims_of_volumes_that_nobody_makes_are_given_those_that_are_there)
{
    struct cluster c;

    stage_open(&c);
    put_disk(&c, &(struct disk_row){.name = "big", .class = "local", .zone = "B", .gib = 9});
    put_disk(&c, &(struct disk_row){.name = "small", .class = "local", .zone = "B", .gib = 2});
    put_disk(&c, &(struct disk_row){.name = "tiny", .class = "local", .zone = "A"});
    put_disk(&c, &(struct disk_row){.name = "other", .class = "wait", .zone = "A", .gib = 9});
    for (int i = 0; i < 3; i++) {
        const char *names[] = {"x", "y", "z"};

        put_claim(&c, &(struct claim_row){.name = names[i], .class = "local", .gib = 2});
        cluster_put(&c, &(struct job){.name = names[i], .gpus = 1, .volume = names[i]});
    }
    cluster_decide(&c, 1000);
    EXPECT(strcmp(node_of(&c, "x-0"), "b") == 0 && strcmp(node_of(&c, "y-0"), "b") == 0);
    EXPECT(told_of(&c, "x-0") && told_of(&c, "y-0"));
    bool first = str_is(told_of(&c, "x-0")->volume, "small"); /* they came at the same moment */
    EXPECT(str_is(told_of(&c, first ? "x-0" : "y-0")->volume, "small"));
    EXPECT(str_is(told_of(&c, first ? "y-0" : "x-0")->volume, "big"));
    EXPECT(!cluster_bound(&c, "z-0"));
    EXPECT(cluster_waiting(&c, "z")->why.nodes[SCHED_FILTER_VOLUME] == 3);

    /* A volume that is free again is the next one's. */
    sched_bind_failed(c.sched, &(struct sched_pod_ref){STR("ns"), STR("x-0"), STR("")});
    sched_drop_volume_claim(c.sched, STR("ns"), STR("x"));
    cluster_decide(&c, 1000);
    EXPECT(told_of(&c, "z-0") && str_is(told_of(&c, "z-0")->volume, first ? "small" : "big"));
    cluster_close(&c);
}

TEST(a_gang_whose_volumes_are_not_all_there_waits_as_a_whole)
{
    struct cluster c;

    stage_open(&c);
    put_disk(&c, &(struct disk_row){.name = "one", .class = "local", .zone = "B"});
    put_claim(&c, &(struct claim_row){.name = "x", .class = "local"});
    put_claim(&c, &(struct claim_row){.name = "y", .class = "local"});
    cluster_put(
        &c, &(struct job){.name = "gang", .pods = 2, .gpus = 1, .volume = "x", .volume_last = "y"});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "gang-0") && !cluster_bound(&c, "gang-1"));
    put_disk(&c, &(struct disk_row){.name = "two", .class = "local", .zone = "C"});
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "gang-0") && cluster_bound(&c, "gang-1"));
    EXPECT(strcmp(node_of(&c, "gang-0"), node_of(&c, "gang-1")) != 0);
    cluster_close(&c);
}

/* One node has a claim at a time, unless its access mode says otherwise. */
TEST(pods_that_share_a_claim_that_is_not_there_yet_go_where_all_can_use_it)
{
    static const struct {
        const char *why;
        unsigned access;
        bool placed;
    } rows[] = {
        {"a node has 4 GPUs", SCHED_ONE_NODE, false},
        {"many nodes may write it", SCHED_WRITE_MANY, true},
        {"one pod has it", SCHED_ONE_POD, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        stage_open(&c);
        put_claim(&c,
                  &(struct claim_row){.name = "data", .class = "wait", .access = rows[i].access});
        cluster_put(&c, &(struct job){.name = "j", .pods = 3, .gpus = 2, .volume = "data"});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "j-0") == rows[i].placed);
        EXPECT(cluster_bound(&c, "j-2") == rows[i].placed);
        if (rows[i].placed)
            EXPECT(str_eq(told_of(&c, "j-0")->node, told_of(&c, "j-2")->node));
        cluster_close(&c);
    }
}

TEST(a_claim_for_one_pod_is_given_to_one_pod)
{
    struct cluster c;

    stage_open(&c);
    put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data"});
    put_claim(&c, &(struct claim_row){.name = "data", .volume = "pv", .access = SCHED_ONE_POD});
    cluster_put(&c, &(struct job){.name = "first", .gpus = 1, .volume = "data", .node = "a"});
    cluster_put(&c, &(struct job){.name = "second", .gpus = 1, .volume = "data"});
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "second-0") && !cluster_promised(&c, "second-0"));
    cluster_put(&c, &(struct job){
                        .name = "first", .gpus = 1, .volume = "data", .node = "a", .ending = true});
    cluster_decide(&c, 1000);
    EXPECT(cluster_promised(&c, "second-0"));
    cluster_drop(&c, "first-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "second-0"));
    cluster_close(&c);
}

TEST(a_node_has_no_more_volumes_of_a_driver_than_it_can_attach)
{
    static const struct sched_amount two = {STR("disks"), 2};
    static const char *const names[] = {"u", "v", "w", "x", "y"};
    struct cluster c;

    stage_open(&c);
    sched_put_volume_limits(c.sched, &(struct sched_volume_limits){
                                         .node = STR("a"), .drivers = &two, .driver_count = 1});
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        put_disk(&c, &(struct disk_row){.name = names[i], .claim = names[i], .driver = "disks"});
        put_claim(&c, &(struct claim_row){.name = names[i], .volume = names[i]});
    }
    /* The same volume twice is one. */
    cluster_put(&c, &(struct job){.name = "again", .gpus = 1, .volume = "u", .node = "a"});
    cluster_put(&c, &(struct job){.name = "u", .gpus = 1, .volume = "u", .node = "a"});
    cluster_put(&c, &(struct job){.name = "v", .volume = "v"});
    cluster_decide(&c, 1000);
    EXPECT(strcmp(node_of(&c, "v-0"), "a") == 0);
    cluster_put(&c, &(struct job){.name = "w", .gpus = 1, .volume = "w"});
    cluster_decide(&c, 1000);
    EXPECT(strcmp(node_of(&c, "w-0"), "b") == 0);
    cluster_close(&c);
}

/* What a claim becomes is known to the shell before the pods are bound. */
TEST(the_shell_learns_when_volumes_are_ready_and_when_they_are_elsewhere)
{
    struct cluster c;
    struct sched_pod_ref pod = {STR("ns"), STR("j-0"), STR("")};
    struct str claim = STR_NONE;

    stage_open(&c);
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait"});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .volume = "data"});
    cluster_decide(&c, 1000);
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_TOLD_NOT);
    EXPECT(str_is(claim, "data"));
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .selected = "a"});
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_WAIT);
    put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data", .zone = "A"});
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .volume = "pv"});
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_READY);
    EXPECT(sched_volumes(c.sched, &pod, STR("b"), &claim) == SCHED_VOLUMES_LOST);
    sched_drop_volume_claim(c.sched, STR("ns"), STR("data"));
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_LOST);

    /* Made somewhere else, it is the pod that moves. */
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .volume = "pv"});
    put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data", .zone = "B"});
    sched_bind_failed(c.sched, &pod);
    cluster_decide(&c, 1000);
    EXPECT(strcmp(node_of(&c, "j-0"), "b") == 0);
    cluster_close(&c);
}

/* Pods whose claims matter to nobody are as alike as those without. */
TEST(a_claim_that_can_be_used_from_everywhere_costs_a_gang_no_search_of_its_own)
{
    struct cluster c;

    stage_open(&c);
    put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data"});
    put_claim(&c, &(struct claim_row){.name = "data", .volume = "pv", .access = SCHED_WRITE_MANY});
    cluster_put(&c, &(struct job){.name = "j", .pods = 2, .gpus = 1, .volume = "data"});
    cluster_put(&c, &(struct job){.name = "k", .pods = 2, .gpus = 1});
    EXPECT(cluster_shapes(&c) == 1);
    put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data", .zone = "B"});
    EXPECT(cluster_shapes(&c) == 2);
    put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data"});
    EXPECT(cluster_shapes(&c) == 1);
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "j-1") && cluster_bound(&c, "k-1"));
    cluster_close(&c);
}

/* What is kept for a claim is not for one of the same name that came later: what is in it is not its
 * own. */
TEST(a_volume_is_given_to_the_claim_that_it_is_for_and_to_no_later_one_of_that_name)
{
    static const struct {
        const char *why;
        struct disk_row disk;
        bool given;
    } rows[] = {
        {"somebody keeps it for any claim of that name", {.kept = true}, true},
        {"it is this one's", {.uid = "now"}, true},
        {"it was that of one before it", {.uid = "before"}, false},
        {"it is being deleted", {.uid = "now", .deleted = true}, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct disk_row disk = rows[i].disk;
        struct cluster c;

        test_case(rows[i].why);
        stage_open(&c);
        disk.name = "pv";
        disk.class = "local";
        disk.claim = "data";
        disk.zone = "B";
        put_disk(&c, &disk);
        put_claim(&c, &(struct claim_row){.name = "data", .class = "local"});
        cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .volume = "data"});
        cluster_decide(&c, 1000);
        EXPECT(strcmp(node_of(&c, "j-0"), rows[i].given ? "b" : "-") == 0);
        put_disk(&c, &(struct disk_row){.name = "free", .class = "local", .zone = "C"});
        cluster_decide(&c, 1000);
        if (!rows[i].given)
            EXPECT(told_of(&c, "j-0") && str_is(told_of(&c, "j-0")->volume, "free"));
        cluster_close(&c);
    }
}

/* Its provisioner is at it: a volume that comes free meanwhile would be a second one. */
TEST(a_claim_whose_volume_is_being_made_is_given_no_other_one)
{
    struct cluster c;

    stage_open(&c);
    put_disk(&c, &(struct disk_row){.name = "free", .class = "wait", .zone = "B"});
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .selected = "b"});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .volume = "data"});
    cluster_decide(&c, 1000);
    EXPECT(strcmp(node_of(&c, "j-0"), "b") == 0);
    EXPECT(told_of(&c, "j-0") && !told_of(&c, "j-0")->volume.len);
    cluster_close(&c);
}

/* What was decided for a node is worth nothing when the node is gone, or the claim was told another
 * one by whoever led before. */
TEST(the_shell_learns_that_a_node_is_gone_or_that_another_one_was_told)
{
    struct cluster c;
    struct sched_pod_ref pod = {STR("ns"), STR("j-0"), STR("")};
    struct str claim = STR_NONE;

    stage_open(&c);
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait"});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .volume = "data"});
    cluster_decide(&c, 1000);
    EXPECT(str_is(told_of(&c, "j-0")->node, "a"));
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .selected = "b"});
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_LOST);
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .selected = "a"});
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_WAIT);
    sched_drop_node(c.sched, STR("a"));
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_LOST);
    put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data"});
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .volume = "pv"});
    EXPECT(sched_volumes(c.sched, &pod, STR("a"), &claim) == SCHED_VOLUMES_LOST);
    cluster_close(&c);
}

/* Who finds a claim of that name there before would write into somebody's data. */
TEST(a_claim_that_is_made_for_a_pod_is_that_pod_s)
{
    static const struct {
        const char *why;
        const char *pod;
        bool own;
        bool placed;
    } rows[] = {
        {"it was made for it", "j-0", true, true},
        {"for one before it", "before", true, false},
        {"somebody made it by hand", NULL, true, false},
        {"who names it may have it", NULL, false, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        stage_open(&c);
        put_disk(&c, &(struct disk_row){.name = "pv", .claim = "data"});
        put_claim(&c, &(struct claim_row){.name = "data", .volume = "pv", .pod = rows[i].pod});
        cluster_put(
            &c, &(struct job){.name = "j", .gpus = 1, .volume = "data", .own_volume = rows[i].own});
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "j-0") == rows[i].placed);
        if (!rows[i].placed) {
            EXPECT(cluster_waiting(&c, "j")->reason == SCHED_REASON_VOLUME);
            EXPECT(str_contains(cluster_waiting(&c, "j")->message,
                                STR("ns/data, which was not made for it")));
        }
        cluster_close(&c);
    }
}

/* Of what a driver can make at a node, a gang gets no more than that. */
TEST(volumes_that_are_to_be_made_share_the_room_of_their_driver)
{
    static const struct {
        const char *why;
        int64_t total; /* GiB in zone B; 0: it is not said */
        int pods;
        bool placed;
    } rows[] = {
        {"room for both", 2, 2, true},
        {"for one of two", 1, 2, false},
        {"for one", 1, 1, true},
        {"only the largest is said", 0, 2, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        stage_open(&c);
        const struct sched_node_term *term = in_zone(&c, "B");
        struct sched_storage_room room = {
            .ns = STR("drivers"),
            .name = STR("r"),
            .class = STR("wait"),
            .bytes = GIB,
            .total = rows[i].total * GIB,
            .nodes = {.expressions = term->labels, .expression_count = 1, .set = true}};
        sched_put_storage_driver(c.sched, STR("disks"), true);
        sched_put_storage_room(c.sched, &room);
        put_claim(&c, &(struct claim_row){.name = "x", .class = "wait"});
        put_claim(&c, &(struct claim_row){.name = "y", .class = "wait"});
        cluster_put(&c, &(struct job){.name = "j",
                                      .pods = rows[i].pods,
                                      .gpus = 1,
                                      .volume = "x",
                                      .volume_last = rows[i].pods > 1 ? "y" : NULL});
        cluster_decide(&c, 1000);
        EXPECT(strcmp(node_of(&c, "j-0"), rows[i].placed ? "b" : "-") == 0);
        /* What there is elsewhere counts, too. */
        room.name = STR("s");
        room.nodes.expressions = in_zone(&c, "C")->labels;
        sched_put_storage_room(c.sched, &room);
        cluster_decide(&c, 2000);
        if (!rows[i].placed)
            EXPECT(cluster_bound(&c, "j-0") && strcmp(node_of(&c, "j-0"), node_of(&c, "j-1")) != 0);
        cluster_close(&c);
    }
}

/* A provisioner takes back the node that the claim was told when it cannot make the volume there. */
TEST(a_claim_that_was_refused_at_a_node_goes_to_others_first)
{
    static const char *const nodes[] = {"a", "b", "c"};
    struct sched_pod_ref pod = {STR("ns"), STR("j-0"), STR("")};
    struct cluster c;

    stage_open(&c);
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait"});
    cluster_put(&c, &(struct job){.name = "j", .gpus = 1, .volume = "data"});
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        test_case(nodes[i]);
        cluster_decide(&c, 1000);
        EXPECT(strcmp(node_of(&c, "j-0"), nodes[i]) == 0);
        put_claim(&c, &(struct claim_row){.name = "data", .class = "wait", .selected = nodes[i]});
        put_claim(&c, &(struct claim_row){.name = "data", .class = "wait"});
        sched_bind_failed(c.sched, &pod);
    }
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "j-0"));
    EXPECT(str_contains(cluster_waiting(&c, "j")->message, STR("PersistentVolumeClaim data")));
    EXPECT(c.plan.next_wake_ms == c.now - 3000 + VOLUME_REFUSED_MIN_MS);
    cluster_decide(&c, c.plan.next_wake_ms - c.now);
    EXPECT(strcmp(node_of(&c, "j-0"), "a") == 0);

    /* One that is made, or a later claim of that name, was not refused anywhere. */
    sched_bind_failed(c.sched, &pod);
    sched_drop_volume_claim(c.sched, STR("ns"), STR("data"));
    put_claim(&c, &(struct claim_row){.name = "data", .class = "wait"});
    cluster_decide(&c, 1000);
    EXPECT(strcmp(node_of(&c, "j-0"), "a") == 0);
    cluster_close(&c);
}
