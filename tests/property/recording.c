#include "replay/recording.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/str.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* recording EVENTS [FILE]: a core that is fed with so many random events is recorded, and the
 * recording played again: every plan must be the same. With FILE it is written there, for
 * `muster replay FILE`. Gangs come, run and go; writes fail; quotas, nodes and policies change.
 *
 * recording rotate EVENTS BYTES: the same in recordings of about BYTES each, every one of which is played on
 * its own. Another begins where the core is settled: it is restarted with everything there is. */
#define NODES    24
#define JOBS     160 /* at a time */
#define PODS_MAX 4
#define QUEUES   3
#define START_MS INT64_C(1800000000000)

enum life {
    GONE,
    WAITS,
    BOUND,
    LEAVING
};

struct recorded_job {
    unsigned life[PODS_MAX];
    const char *node[PODS_MAX];
    int pods;
    int gpus;
    int queue;
    unsigned number; /* of its incarnation */
};

static struct {
    struct sched *sched;
    struct buf out;
    struct arena line;
    struct arena cycle;
    struct rng rng;
    struct recorded_job jobs[JOBS];
    char nodes[NODES][16];
    bool ready[NODES];
    int quotas[QUEUES];
    int64_t now_ms;
    size_t events;
    size_t binds;
} world;

static void on_saw(void *user, const struct sched_input *input)
{
    (void)user;
    arena_reset(&world.line);
    recording_add(&world.out, &world.line, input);
    world.events += input->kind != SCHED_INPUT_CYCLE;
}

static void observe(const struct kind *kind, enum sched_change change, const char *text)
{
    struct object *object = NULL;

    if (object_new(kind, str_from(text), &object, NULL) < 0)
        abort();
    (void)sched_observe(world.sched, change, object, NULL);
    object_unref(object);
}

static void put_node(int i, bool ready)
{
    char text[800];

    world.ready[i] = ready;
    (void)snprintf(text, sizeof(text),
                   "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\"},"
                   "\"spec\":{},\"status\":{\"allocatable\":{\"cpu\":\"64\",\"memory\":\"256Gi\","
                   "\"pods\":\"110\",\"nvidia.com/gpu\":\"8\"},\"conditions\":[{\"type\":\"Ready\","
                   "\"status\":\"%s\"}]}}",
                   world.nodes[i], ready ? "True" : "False");
    observe(&kind_node, SCHED_PUT, text);
}

static void put_queue(int i, int quota)
{
    char text[400];

    world.quotas[i] = quota;
    (void)snprintf(text, sizeof(text),
                   "{\"apiVersion\":\"scheduling.run.ai/v2\",\"kind\":\"Queue\",\"metadata\":{"
                   "\"name\":\"q%d\"},\"spec\":{\"resources\":{\"gpu\":{\"quota\":%d,\"limit\":-1,"
                   "\"overQuotaWeight\":1}}}}",
                   i, quota);
    observe(&kind_queue, SCHED_PUT, text);
}

static void pod_text(char out[static 1000], int j, int p, const char *phase)
{
    const struct recorded_job *job = &world.jobs[j];
    const char *node = job->node[p];

    (void)snprintf(
        out, 1000,
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"j%d-%u-%d\","
        "\"namespace\":"
        "\"n\",\"uid\":\"u%d-%u-%d\",\"annotations\":{\"pod-group-name\":\"j%d-%u\"}%s},\"spec\":{"
        "%s%s%s\"containers\":[{\"name\":\"c\",\"resources\":{\"requests\":{\"cpu\":\"1\","
        "\"nvidia.com/gpu\":\"%d\"},\"limits\":{\"nvidia.com/gpu\":\"%d\"}}}]},\"status\":{"
        "\"phase\":\"%s\"}}",
        j, job->number, p, j, job->number, p, j, job->number,
        job->life[p] == LEAVING ? ",\"deletionTimestamp\":\"2027-01-15T08:00:00Z\"" : "",
        node ? "\"nodeName\":\"" : "", node ? node : "", node ? "\"," : "", job->gpus, job->gpus,
        phase);
}

static void put_pod(int j, int p)
{
    char text[1000];

    pod_text(text, j, p, world.jobs[j].node[p] ? "Running" : "Pending");
    observe(&kind_pod, SCHED_PUT, text);
}

static void drop_pod(int j, int p)
{
    char text[1000];

    pod_text(text, j, p, "Succeeded");
    observe(&kind_pod, SCHED_DROP, text);
    world.jobs[j].life[p] = GONE;
    world.jobs[j].node[p] = NULL;
}

static void group_event(int j, enum sched_change change)
{
    const struct recorded_job *job = &world.jobs[j];
    char text[600];

    (void)snprintf(text, sizeof(text),
                   "{\"apiVersion\":\"scheduling.run.ai/v2alpha2\",\"kind\":\"PodGroup\","
                   "\"metadata\":{\"name\":\"j%d-%u\",\"namespace\":\"n\",\"uid\":\"g%d-%u\"},"
                   "\"spec\":{\"minMember\":%d,\"queue\":\"q%d\"}}",
                   j, job->number, j, job->number, job->pods, job->queue);
    observe(&kind_podgroup, change, text);
}

/* A job comes where there is none, and goes where there is one. */
static void job_event(int j)
{
    struct recorded_job *job = &world.jobs[j];

    if (job->pods) {
        for (int p = 0; p < job->pods; p++)
            if (job->life[p] != GONE)
                drop_pod(j, p);
        group_event(j, SCHED_DROP);
        job->pods = 0;
        return;
    }
    job->number++;
    job->pods = (int)rng_between(&world.rng, 1, PODS_MAX);
    job->gpus = 1 << rng_below(&world.rng, 4);
    job->queue = (int)rng_below(&world.rng, 3);
    group_event(j, SCHED_PUT);
    for (int p = 0; p < job->pods; p++) {
        job->life[p] = WAITS;
        put_pod(j, p);
    }
}

static bool pod_find(const struct sched_pod_ref *pod, int *ret_j, int *ret_p)
{
    unsigned number = 0;
    char name[40];

    (void)snprintf(name, sizeof(name), STR_FMT, STR_ARG(pod->name));
    return sscanf(name, "j%d-%u-%d", ret_j, &number, ret_p) == 3 &&
           world.jobs[*ret_j].number == number && *ret_p < world.jobs[*ret_j].pods;
}

static void on_bind(const struct sched_bind *bind)
{
    bool failed = rng_below(&world.rng, 20) == 0;
    int j = 0;
    int p = 0;

    if (!pod_find(&bind->pod, &j, &p))
        abort();
    world.binds++;
    sched_written(world.sched, bind->pod.ns, bind->group, failed, world.now_ms);
    if (failed) {
        sched_bind_failed(world.sched, &bind->pod);
        return;
    }
    for (int i = 0; i < NODES; i++)
        if (str_is(bind->node, world.nodes[i]))
            world.jobs[j].node[p] = world.nodes[i];
    world.jobs[j].life[p] = BOUND;
    put_pod(j, p);
}

static void on_evict(const struct sched_evict *evict)
{
    int j = 0;
    int p = 0;

    if (!pod_find(&evict->pod, &j, &p))
        abort();
    if (rng_below(&world.rng, 10) == 0) {
        sched_evict_failed(world.sched, &evict->pod);
        return;
    }
    world.jobs[j].life[p] = LEAVING;
    put_pod(j, p);
}

static void play_cycle(void)
{
    struct sched_plan plan;

    world.now_ms += 1 + (int64_t)rng_below(&world.rng, 5000);
    arena_reset(&world.cycle);
    sched_cycle(world.sched, world.now_ms, &world.cycle, &plan);
    for (size_t i = 0; i < plan.bind_count; i++)
        on_bind(&plan.binds[i]);
    for (size_t i = 0; i < plan.evict_count; i++)
        on_evict(&plan.evicts[i]);
}

static void play_event(void)
{
    uint64_t what = rng_below(&world.rng, 100);
    int j = (int)rng_below(&world.rng, JOBS);
    int p = (int)rng_below(&world.rng, PODS_MAX);

    if (what == 0) {
        put_queue((int)rng_below(&world.rng, 3), (int)rng_below(&world.rng, 64));
    } else if (what == 1) {
        put_node((int)rng_below(&world.rng, NODES), rng_below(&world.rng, 8) != 0);
    } else if (what == 2) {
        int64_t used = rng_between(&world.rng, 0, 999);
        double usage[SCHED_RESOURCES] = {0, 0, (double)used / 999.0};
        sched_set_usage(world.sched, STR("q1"), usage);
    } else if (what == 3) {
        struct sched_policy policy = sched_config(world.sched)->policy;
        uint64_t drawn = rng_below(&world.rng, SCHED_FGD);
        policy.gpu_strategy = (enum sched_strategy)drawn;
        sched_set_policy(world.sched, STR(""), &policy);
    } else if (what < 30) {
        job_event(j);
    } else if (world.jobs[j].pods > p && world.jobs[j].life[p] == LEAVING) {
        drop_pod(j, p);
        world.jobs[j].life[p] = WAITS;
        put_pod(j, p);
    }
}

/* ---- rotation ---- */
static size_t objects_put(bool tell)
{
    size_t pods = 0;

    for (int i = 0; tell && i < QUEUES; i++)
        put_queue(i, world.quotas[i]);
    for (int i = 0; tell && i < NODES; i++)
        put_node(i, world.ready[i]);
    for (int j = 0; j < JOBS; j++) {
        if (tell && world.jobs[j].pods)
            group_event(j, SCHED_PUT);
        for (int p = 0; p < world.jobs[j].pods; p++) {
            if (world.jobs[j].life[p] == GONE)
                continue;
            pods++;
            if (tell)
                put_pod(j, p);
        }
    }
    return pods;
}

static int play_again(struct str text);

/* True: the recording was full and right, and another has begun. */
static bool rotate(size_t bytes, int *ret_code)
{
    double usage[SCHED_RESOURCES];
    struct str queue = STR_NONE;
    size_t cursor = 0;

    if (world.out.len < bytes || !sched_is_settled(world.sched, objects_put(false)))
        return false;
    *ret_code = play_again(buf_str(&world.out));
    buf_clear(&world.out);
    world.events = 0;
    bool used = sched_next_usage(world.sched, &cursor, &queue, usage);
    sched_restart(world.sched);
    recording_begin(&world.out, &world.line, world.sched);
    (void)objects_put(true);
    if (used)
        sched_set_usage(world.sched, STR("q1"), usage);
    return true;
}

static int play_again(struct str text)
{
    struct player *player = player_new(&(struct player_options){0});
    struct player_result result;
    struct err err = {0};
    struct str line = STR_NONE;
    int r = 0;

    while (r == 0 && text.len && str_cut(&text, '\n', &line))
        r = player_line(player, line, &err);
    player_result(player, &result);
    player_free(player);
    if (r < 0) {
        (void)fprintf(stderr, "recording: %s\n", err.text);
        return EXIT_FAILURE;
    }
    printf("%zu events, %zu cycles, %zu binds, %zu evictions recorded in %zu bytes; played again: "
           "%zu plans differ, hash %016llx\n",
           result.events, result.cycles, result.binds, result.evicts, world.out.len, result.wrong,
           (unsigned long long)result.hash);
    return result.wrong || result.events != world.events || !result.evicts || !result.binds
               ? EXIT_FAILURE
               : EXIT_SUCCESS;
}

static void open_world(bool rotating)
{
    struct sched_config config;

    sched_config_default(&config);
    config.queue_label = STR("kai.scheduler/queue");
    config.pool_label = STR("kai.scheduler/node-pool");
    /* The pods here do not name the devices they were given, so a new core could not know. */
    config.devices = rotating ? SCHED_DEVICES_WHOLE : SCHED_DEVICES_NUMBERED;
    world.rng.state = 1;
    world.now_ms = START_MS;
    world.sched = sched_new(&config);
    recording_begin(&world.out, &world.line, world.sched);
    sched_tap(world.sched, on_saw, NULL);
    for (int i = 0; i < QUEUES; i++)
        put_queue(i, 32);
    for (int i = 0; i < NODES; i++) {
        (void)snprintf(world.nodes[i], sizeof(world.nodes[i]), "node-%d", i);
        put_node(i, true);
    }
}

static void play_turn(void)
{
    for (int i = 0; i < 8; i++)
        play_event();
    play_cycle();
}

static int rotations(int64_t events, int64_t bytes)
{
    size_t begun = 0;
    int code = EXIT_SUCCESS;

    for (size_t seen = 0; code == EXIT_SUCCESS && seen < (size_t)events;) {
        size_t before = world.events;

        play_turn();
        seen += world.events - before;
        begun += rotate((size_t)bytes, &code);
    }
    printf("%zu recordings, each repeated on its own\n", begun);
    return code == EXIT_SUCCESS && begun < 2 ? EXIT_FAILURE : code;
}

static int write_file(const char *path)
{
    FILE *file = fopen(path, "we");

    if (!file || fwrite(world.out.p, 1, world.out.len, file) != world.out.len ||
        fclose(file) != 0) {
        (void)fprintf(stderr, "recording: %s: %s\n", path, strerrordesc_np(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    bool rotating = argc == 4 && strcmp(argv[1], "rotate") == 0;
    int64_t events = 0;
    int64_t bytes = 0;

    if (argc < 2 || !str_to_i64(str_from(argv[rotating ? 2 : 1]), &events) ||
        (rotating && !str_to_i64(str_from(argv[3]), &bytes))) {
        (void)fprintf(stderr, "usage: recording EVENTS [FILE]\n"
                              "       recording rotate EVENTS BYTES\n");
        return EXIT_FAILURE;
    }
    open_world(rotating);
    if (rotating)
        return rotations(events, bytes);
    while (world.events < (size_t)events)
        play_turn();
    if (argc > 2 && write_file(argv[2]) != EXIT_SUCCESS)
        return EXIT_FAILURE;
    return play_again(buf_str(&world.out));
}
