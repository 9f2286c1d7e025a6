#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "cache/cache.h"
#include "exec/reservations.h"
#include "sched/sched.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Shared GPUs on a store in memory; events reach the reservations when a test says so. */
struct bench {
    struct harness h;
    struct cache *cache;
    struct sched *core;
    struct reservations *reservations;
    int64_t now_ms;
    int prepared; /* how often a gang was */
};

static int64_t now(void *user)
{
    const struct bench *bench = user;

    return bench->now_ms;
}

static void again(void *user)
{
    (void)user;
}

static void on_prepared(void *user, int code, const struct err *err)
{
    struct bench *bench = user;

    (void)err;
    EXPECT(code == 0);
    bench->prepared++;
}

static void open_bench(struct bench *bench)
{
    struct sched_config config;

    memset(bench, 0, sizeof(*bench));
    bench->now_ms = 1000000;
    harness_open(&bench->h, NULL);
    bench->cache = cache_new(1);
    sched_config_default(&config);
    config.devices = SCHED_DEVICES_RESERVED;
    bench->core = sched_new(&config);
    bench->reservations = reservations_new(
        &(struct reservations_options){.api = bench->h.api,
                                       .cache = bench->cache,
                                       .core = bench->core,
                                       .settings = {.ns = STR("reserved"), .image = STR("i")},
                                       .now = now,
                                       .again = again,
                                       .user = bench,
                                       .seed = 1});
    EXPECT(harness_create(&bench->h, &kind_namespace, "",
                          "{\"metadata\":{\"name\":\"reserved\"}}") == 0);
}

static void close_bench(struct bench *bench)
{
    reservations_free(bench->reservations);
    sched_free(bench->core);
    cache_free(bench->cache);
    harness_close(&bench->h);
}

static void turn(struct bench *bench)
{
    (void)reservations_turn(bench->reservations, bench->now_ms);
    harness_settle(&bench->h);
}

/* What the last call brought is what is seen now. */
static void observe(struct bench *bench)
{
    cache_put(bench->cache, bench->h.object);
    reservations_observe(bench->reservations, SCHED_PUT, bench->h.object);
    turn(bench);
}

static size_t reservation_count(struct bench *bench)
{
    EXPECT(harness_list(&bench->h, &kind_pod, "reserved") == 0);
    return bench->h.item_count;
}

/* A pod with half a GPU of node n, whose reservation has told its device. */
static struct sched_pod_ref prepare_half(struct bench *bench, char uid[static 64])
{
    const struct str group = STR("g");
    struct sched_pod_ref ref = {STR("default"), STR("half"), {uid, 0}};
    char name[256];

    EXPECT(harness_create(&bench->h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"half\",\"annotations\":{\"gpu-fraction\":"
                          "\"0.5\",\"runai/shared-gpu-configmap\":\"c\"}},\"spec\":{"
                          "\"containers\":[{\"name\":\"c\",\"image\":\"x\"}]}}") == 0);
    (void)snprintf(uid, 64, STR_FMT, STR_ARG(bench->h.object->uid));
    ref.uid.len = strlen(uid);
    observe(bench);
    reservations_prepare(bench->reservations,
                         &(struct reservations_pod){.pod = ref,
                                                    .node = STR("n"),
                                                    .groups = &group,
                                                    .group_count = 1,
                                                    .fraction_micro = 500000},
                         1, on_prepared, bench);
    turn(bench);
    EXPECT(reservation_count(bench) == 1);
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(bench->h.names, " "), bench->h.names);
    EXPECT(harness_patch(&bench->h, &kind_pod, "reserved", name,
                         "{\"metadata\":{\"annotations\":{\"run.ai/reserve_for_gpu_index\":"
                         "\"GPU-1\"}}}") == 0);
    observe(bench);
    turn(bench); /* its ConfigMaps and labels are written by now */
    EXPECT(bench->prepared == 1);
    return ref;
}

/* On a cluster a gang is bound pod by pod, and undone by deleting those that were bound: until such a pod is gone it
 * may run, whatever of it was seen when the answer came. */
TEST(a_reservation_is_held_for_a_pod_whose_bind_was_undone_until_it_is_gone)
{
    struct bench bench;

    for (int undone = 0; undone <= 1; undone++) {
        char uid[64];

        open_bench(&bench);
        struct sched_pod_ref half = prepare_half(&bench, uid);
        reservations_bound(bench.reservations, &half, 1, -EIO, undone ? (bool[]){true} : NULL);
        turn(&bench);
        EXPECT(reservation_count(&bench) == (size_t)undone);
        EXPECT(harness_get(&bench.h, &kind_pod, "default", "half") == 0);
        reservations_observe(bench.reservations, SCHED_DROP, bench.h.object);
        turn(&bench);
        EXPECT(reservation_count(&bench) == 0);
        close_bench(&bench);
    }
}
