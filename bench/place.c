#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "bench.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "sim/hollow.h"
#include "sim/hollow_body.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

/* Pods placed end to end: created, grouped, decided, bound, every write durable in SQLite and seen
 * by a watcher, with all controllers and the scheduler of `muster up` on one loop. Callers use
 * struct api in the process, not HTTP. Nodes are objects without a machine, so nothing runs.
 *
 * Beside each figure stands the limit of the same store in the same run: the same pods created and
 * bound by a bare loop, gang by gang, with nobody deciding anything. The watcher counts gangs of
 * which it ever saw a part bound: there must be none. */

#define CALLERS    64
#define LATE_MAX   20000
#define WAIT_S     120
#define BODY_BYTES 700

struct place {
    uv_loop_t loop;
    char folder[64];
    struct store *store;
    struct api *api;
    struct runner *runner;
    struct scheduler *scheduler;
    struct api_watch *watch;
    size_t gangs;
    size_t size; /* of a gang; 1: pods without one */
    size_t next; /* object to be created */
    size_t created;
    size_t bound;
    uint32_t *seen; /* bound pods of each gang */
    size_t partial; /* gangs seen in part */
    double *began_s;
    double *late_s;
    bool bare; /* bind ourselves */
};

_Noreturn static void die(const char *why)
{
    (void)fprintf(stderr, "bench-place: %s\n", why);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void on_made(void *user, const struct api_result *result)
{
    size_t *left = user;

    if (result->code)
        die(result->err->text);
    (*left)--;
}

static void make_nodes(struct place *place, size_t count)
{
    struct hollow_options shape = {.gpus = 8, .cpus = 128, .memory_gib = 1024, .pods = 256};
    size_t left = count;

    for (size_t i = 0; i < count; i++) {
        struct arena arena = {0};
        struct json *node = hollow_node(&arena, &shape, str_printf(&arena, "node-%05zu", i), i, 1);

        api_call(place->api,
                 &(struct api_request){
                     .verb = API_CREATE, .kind = &kind_node, .body = json_text(&arena, node)},
                 on_made, &left);
        arena_done(&arena);
    }
    while (left)
        (void)uv_run(&place->loop, UV_RUN_ONCE);
}

/* ---- pods ---- */

/* Objects are numbered gang by gang: a gang's group first, where it has one, then its pods. */
static size_t objects_of(const struct place *place)
{
    return place->size > 1 && !place->bare ? place->size + 1 : place->size;
}

static void create_next(struct place *place);

static void bind_gang(struct place *place, size_t gang)
{
    struct arena arena = {0};
    struct api_binding *bindings = ARENA_ARRAY(&arena, struct api_binding, place->size);
    static size_t ignored;

    for (size_t i = 0; i < place->size; i++) {
        size_t number = gang * place->size + i;

        bindings[i] = (struct api_binding){.ns = STR("default"),
                                           .pod = str_printf(&arena, "p-%zu", number),
                                           .node = str_printf(&arena, "node-%05zu", number / 8)};
    }
    ignored++;
    api_bind(place->api, bindings, place->size, on_made, &ignored);
    arena_done(&arena);
}

static void on_created(void *user, const struct api_result *result)
{
    struct place *place = user;

    if (result->code)
        die(result->err->text);
    place->created++;
    if (place->bare && place->created % place->size == 0)
        bind_gang(place, place->created / place->size - 1);
    create_next(place);
}

static void create_next(struct place *place)
{
    size_t each = objects_of(place);
    size_t gang = place->next / each;
    size_t at = place->next % each;
    char body[BODY_BYTES];
    char group[64] = "";
    int len;

    if (gang == place->gangs)
        return;
    place->next++;
    if (place->size > 1)
        (void)snprintf(group, sizeof(group), "\"pod-group-name\":\"g-%zu\"", gang);
    if (each > place->size && at == 0) {
        len = snprintf(body, sizeof(body),
                       "{\"apiVersion\":\"scheduling.run.ai/v2alpha2\",\"kind\":\"PodGroup\","
                       "\"metadata\":{\"name\":\"g-%zu\"},\"spec\":{\"minMember\":%zu,"
                       "\"queue\":\"default-queue\"}}",
                       gang, place->size);
    } else {
        size_t number = gang * place->size + (each > place->size ? at - 1 : at);

        place->began_s[number] = bench_now_s();
        len =
            snprintf(body, sizeof(body),
                     "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p-%zu\","
                     "\"labels\":{\"kai.scheduler/queue\":\"default-queue\"},"
                     "\"annotations\":{%s}},\"spec\":{\"schedulerName\":\"kai-scheduler\","
                     "\"containers\":[{\"name\":\"main\",\"image\":\"x\",\"resources\":{"
                     "\"limits\":{\"cpu\":\"1\",\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"1\"}}}]}}",
                     number, group);
    }
    api_call(
        place->api,
        &(struct api_request){.verb = API_CREATE,
                              .kind = each > place->size && at == 0 ? &kind_podgroup : &kind_pod,
                              .ns = STR("default"),
                              .body = (struct str){body, (size_t)len}},
        on_created, place);
}

/* All events of one commit come in one turn of the loop: what is seen at its end is what a watcher
 * can see. */
static void on_pod(void *user, const struct api_change *change)
{
    struct place *place = user;
    int64_t number = 0;

    if (change->event != API_MODIFIED || !change->previous ||
        !str_contains(change->object->raw, STR("\"nodeName\"")) ||
        str_contains(change->previous->raw, STR("\"nodeName\"")) ||
        !str_to_i64(str_sub(change->object->name, 2, 32), &number))
        return;
    place->late_s[place->bound++] = bench_now_s() - place->began_s[number];
    place->seen[(size_t)number / place->size]++;
}

static void count_partial(struct place *place)
{
    for (size_t i = 0; i < place->gangs; i++)
        place->partial += place->seen[i] && place->seen[i] < place->size;
}

/* ---- a run ---- */

static void start(struct place *place, size_t nodes)
{
    struct err err = {0};
    char path[128];

    (void)snprintf(place->folder, sizeof(place->folder), "/tmp/bench-place-XXXXXX");
    if (!mkdtemp(place->folder) || uv_loop_init(&place->loop) < 0)
        die("no folder");
    (void)snprintf(path, sizeof(path), "%s/store.db", place->folder);
    if (store_open(&(struct store_options){.loop = &place->loop, .path = path}, &place->store,
                   &err) < 0)
        die(err.text);
    place->api = store_api(place->store);
    make_nodes(place, nodes);
    if (!place->bare &&
        (runner_start(&place->loop, place->api, &(struct runner_options){.embedded = true},
                      &place->runner, &err) < 0 ||
         scheduler_start(&place->loop, place->api, &(struct scheduler_options){0},
                         &place->scheduler, &err) < 0))
        die(err.text);
    if (place->runner)
        store_set_admit_pod(place->store, runner_admit_pod, place->runner);
    place->watch =
        api_watch(place->api, &(struct api_watch_request){.kind = &kind_pod}, on_pod, place);
    double until_s = bench_now_s() + 1; /* the first objects, and everything known */
    while (bench_now_s() < until_s)
        (void)uv_run(&place->loop, UV_RUN_NOWAIT);
}

static void stop(struct place *place)
{
    char command[128];

    api_watch_stop(place->api, place->watch);
    scheduler_stop(place->scheduler);
    runner_stop(place->runner);
    store_close(place->store);
    for (int i = 0; i < 3; i++)
        (void)uv_run(&place->loop, UV_RUN_NOWAIT);
    (void)snprintf(command, sizeof(command), "rm -r '%s'", place->folder);
    if (system(command) != 0)
        die("cannot remove the folder");
    mem_free(place->seen);
    mem_free(place->began_s);
    mem_free(place->late_s);
}

/* Seconds from the first create to the last bind that the watcher saw. */
static double run(struct place *place, size_t nodes)
{
    size_t pods = place->gangs * place->size;

    place->seen = mem_alloc(place->gangs * sizeof(*place->seen));
    place->began_s = mem_alloc(pods * sizeof(double));
    place->late_s = mem_alloc(pods * sizeof(double));
    start(place, nodes);
    double began_s = bench_now_s();
    for (size_t i = 0; i < CALLERS; i++)
        create_next(place);
    while (place->bound < pods) {
        (void)uv_run(&place->loop, UV_RUN_ONCE);
        if (place->size > 1 && !place->bare)
            count_partial(place);
        if (bench_now_s() - began_s > WAIT_S)
            die("not all pods were bound");
    }
    return bench_now_s() - began_s;
}

struct row {
    size_t nodes;
    size_t gangs;
    size_t size;
};

static void measure(const struct row *row)
{
    struct place real = {.gangs = row->gangs, .size = row->size};
    struct place bare = {.gangs = row->gangs, .size = row->size, .bare = true};
    size_t pods = row->gangs * row->size;
    double real_s = run(&real, row->nodes);

    qsort(real.late_s, pods, sizeof(double), by_size);
    double middle_s = real.late_s[pods / 2];
    double late_s = real.late_s[pods * 99 / 100];
    size_t partial = real.partial;
    stop(&real);
    double bare_s = run(&bare, row->nodes);
    stop(&bare);
    (void)printf("%6zu nodes  %5zu x %-5zu %8.0f pods/s  %6.2f s  p50 %7.1f ms  p99 %7.1f ms  bare "
                 "loop %8.0f pods/s (%3.0f %%)  partial gangs seen: %zu\n",
                 row->nodes, row->gangs, row->size, (double)pods / real_s, real_s, middle_s * 1e3,
                 late_s * 1e3, (double)pods / bare_s, 100 * bare_s / real_s, partial);
    (void)fflush(stdout);
}

/* One pod at a time on an idle cluster: from the create to the bind that a watcher sees. */
static void measure_single(void)
{
    struct place place = {.gangs = LATE_MAX, .size = 1};
    enum {
        TIMES = 50
    };

    place.seen = mem_alloc(LATE_MAX * sizeof(*place.seen));
    place.began_s = mem_alloc(LATE_MAX * sizeof(double));
    place.late_s = mem_alloc(LATE_MAX * sizeof(double));
    start(&place, 1000);
    for (size_t i = 0; i < TIMES; i++) {
        place.gangs = i + 1; /* on_created() starts no other */
        create_next(&place);
        while (place.bound <= i)
            (void)uv_run(&place.loop, UV_RUN_ONCE);
    }
    qsort(place.late_s, TIMES, sizeof(double), by_size);
    (void)printf(
        "one pod on an idle cluster of 1000 nodes, create to bind: p50 %.1f ms, p90 %.1f ms\n",
        place.late_s[TIMES / 2] * 1e3, place.late_s[TIMES * 9 / 10] * 1e3);
    stop(&place);
}

int main(int argc, char *argv[])
{
    static const struct row rows[] = {
        {1000, 625, 8},                                     /* 5,000 pods in gangs of 8 */
        {5000, 1000, 1}, {5000, 10000, 1},                  /* B2 */
        {5000, 1000, 3}, {5000, 3, 1000},  {5000, 9, 1000}, /* B3 */
        {2000, 500, 20}, {2000, 20, 500},  {2000, 1, 10000},
    };
    size_t count = argc > 1 && strcmp(argv[1], "--short") == 0 ? 2 : sizeof(rows) / sizeof(rows[0]);

    measure_single();
    for (size_t i = 0; i < count; i++)
        measure(&rows[i]);
    return 0;
}
