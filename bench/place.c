#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "bench.h"
#include "crowd.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "server/server.h"
#include "sim/hollow.h"
#include "sim/hollow_body.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

/* Pods placed end to end: created over HTTP by a process beside, grouped, decided, bound, every
 * write durable in SQLite and seen by a watcher, with the API server, all controllers and the
 * scheduler of `muster up` on one loop. Nodes are objects without a machine, so nothing runs.
 *
 * Beside each figure stands the limit of the same server in the same run: the same pods created and
 * bound over HTTP by a bare loop, with nobody deciding anything. The watcher counts gangs of which
 * it ever saw a part bound: there must be none. Real and bare runs take turns. Medians are printed,
 * each budget behind its figure; what the loop's thread computed for a pod, which hardly depends on
 * what else the machine does; and all writes there were until the cluster was at rest. */

#define WAIT_S    120
#define RUNS      5
#define RUNS_MAX  16
#define ROW_S     16   /* no further run of a row after this */
#define SYNC_MS   500  /* the first objects, and everything known */
#define SETTLE_MS 1500 /* the last status is written behind the last bind */
#define TOKEN     "bench"

struct place {
    uv_loop_t loop;
    char folder[64];
    struct store *store;
    struct api *api;
    struct server *server;
    struct runner *runner;
    struct scheduler *scheduler;
    struct api_watch *watch;
    struct crowd crowd;
    size_t bound;
    uint32_t *seen; /* bound pods of each gang */
    size_t partial; /* gangs seen in part */
    double *late_s;
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

/* ---- what is seen ---- */

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
    place->late_s[place->bound++] = bench_now_s() - place->crowd.began_s[number];
    place->seen[(size_t)number / place->crowd.size]++;
}

static void count_partial(struct place *place)
{
    for (size_t i = 0; i < place->crowd.gangs; i++)
        place->partial += place->seen[i] && place->seen[i] < place->crowd.size;
}

/* ---- a run ---- */

static void on_rest(uv_timer_t *timer)
{
    timer->data = timer;
}

static void rest(struct place *place, uint64_t ms)
{
    uv_timer_t timer = {0};

    (void)uv_timer_init(&place->loop, &timer);
    (void)uv_timer_start(&timer, on_rest, ms, 0);
    while (!timer.data)
        (void)uv_run(&place->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&place->loop, UV_RUN_NOWAIT);
}

static void on_list(void *user, const struct api_result *result)
{
    uint64_t *revision = user;

    if (result->code)
        die(result->err->text);
    *revision = result->revision;
}

/* Every write counts it up. */
static uint64_t revision_of(struct place *place)
{
    uint64_t revision = 0;

    api_call(place->api, &(struct api_request){.verb = API_LIST, .kind = &kind_namespace}, on_list,
             &revision);
    while (!revision)
        (void)uv_run(&place->loop, UV_RUN_ONCE);
    return revision;
}

/* Of this thread, which is the loop's. */
static double computed_s(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

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
    if (server_start(&place->loop, place->api,
                     &(struct server_options){.address = "127.0.0.1", .token = STR(TOKEN)},
                     &place->server, &err) < 0)
        die(err.text);
    if (!place->crowd.bare &&
        (runner_start(&place->loop, place->api, &(struct runner_options){.embedded = true},
                      &place->runner, &err) < 0 ||
         scheduler_start(&place->loop, place->api, &(struct scheduler_options){0},
                         &place->scheduler, &err) < 0))
        die(err.text);
    if (place->runner) {
        store_set_admit_pod(place->store, runner_admit_pod, place->runner);
        store_set_made_pod(place->store, runner_made_pod, place->runner);
    }
    place->watch =
        api_watch(place->api, &(struct api_watch_request){.kind = &kind_pod}, on_pod, place);
    rest(place, SYNC_MS);
}

static void stop(struct place *place)
{
    char command[128];

    while (!crowd_end(&place->crowd)) /* its last answers */
        (void)uv_run(&place->loop, UV_RUN_NOWAIT);
    api_watch_stop(place->api, place->watch);
    server_stop(place->server);
    store_set_admit_pod(place->store, NULL, NULL);
    store_set_made_pod(place->store, NULL, NULL);
    scheduler_stop(place->scheduler);
    runner_stop(place->runner);
    store_close(place->store);
    for (int i = 0; i < 3; i++)
        (void)uv_run(&place->loop, UV_RUN_NOWAIT);
    (void)snprintf(command, sizeof(command), "rm -r '%s'", place->folder);
    if (system(command) != 0)
        die("cannot remove the folder");
    mem_free(place->seen);
    mem_free(place->late_s);
}

struct row {
    const char *name;
    size_t nodes;
    size_t gangs;
    size_t size;
    bool no_gpus;
    double rate;    /* pods created a second; 0: as fast as they are answered */
    double least;   /* budget: pods/s; 0: none */
    double most_s;  /* budget: seconds for all */
    double p99_ms;  /* budget */
    double of_bare; /* budget: share of the bare loop */
};

struct result {
    double took_s; /* from the first create to the last bind that the watcher saw */
    double p50_ms;
    double p99_ms;
    double loop_us; /* computed by the loop's thread, a pod */
    double writes;  /* a pod; 0: not counted */
    size_t partial;
};

static void run(const struct row *row, bool bare, bool settle, struct result *ret)
{
    struct place place = {.crowd = {.gangs = row->gangs,
                                    .size = row->size,
                                    .bare = bare,
                                    .no_gpus = row->no_gpus,
                                    .nodes = row->nodes,
                                    .rate = row->rate,
                                    .token = TOKEN}};
    size_t pods = row->gangs * row->size;

    place.seen = mem_alloc(row->gangs * sizeof(*place.seen));
    place.late_s = mem_alloc(pods * sizeof(double));
    crowd_begin(&place.crowd);
    start(&place, row->nodes);
    uint64_t revision = revision_of(&place);
    double computed = computed_s();
    double began_s = bench_now_s();
    crowd_go(&place.crowd, server_port(place.server));
    while (place.bound < pods) {
        (void)uv_run(&place.loop, UV_RUN_ONCE);
        if (row->size > 1 && !bare)
            count_partial(&place);
        if (bench_now_s() - began_s > WAIT_S)
            die("not all pods were bound");
    }
    *ret = (struct result){.took_s = bench_now_s() - began_s,
                           .loop_us = (computed_s() - computed) * 1e6 / (double)pods,
                           .partial = place.partial};
    qsort(place.late_s, pods, sizeof(double), by_size);
    ret->p50_ms = place.late_s[pods / 2] * 1e3;
    ret->p99_ms = place.late_s[pods * 99 / 100] * 1e3;
    if (settle) {
        rest(&place, SETTLE_MS);
        ret->writes = (double)(revision_of(&place) - revision) / (double)pods;
    }
    stop(&place);
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct result *)a)->took_s;
    double y = ((const struct result *)b)->took_s;

    return x < y ? -1 : x > y;
}

/* A budget behind its figure; 0: there is none. */
static void print_budget(const char *sign, double budget, bool met)
{
    if (budget > 0)
        (void)printf(" (%s %.0f: %s)", sign, budget, met ? "met" : "MISSED");
}

struct runs {
    struct result real[RUNS_MAX];
    struct result bare[RUNS_MAX];
    size_t count;
    double writes;
    size_t partial;
};

static void print_row(const struct row *row, const struct runs *runs)
{
    const struct result *real = &runs->real[runs->count / 2];
    const struct result *bare = &runs->bare[runs->count / 2];
    size_t pods = row->gangs * row->size;
    double rate = (double)pods / real->took_s;

    (void)printf("%-15s %zu nodes, %zu x %zu, %zu run%s: %.0f pods/s", row->name, row->nodes,
                 row->gangs, row->size, runs->count, runs->count == 1 ? "" : "s", rate);
    print_budget(">=", row->least, rate >= row->least);
    (void)printf(", %.2f s", real->took_s);
    print_budget("<=", row->most_s, real->took_s <= row->most_s);
    (void)printf(", p50 %.1f p99 %.1f ms", real->p50_ms, real->p99_ms);
    print_budget("<=", row->p99_ms, real->p99_ms <= row->p99_ms);
    if (row->rate <= 0) {
        (void)printf(", %.0f %% of a bare loop of %.0f", 100 * bare->took_s / real->took_s,
                     (double)pods / bare->took_s);
        print_budget(">=", 100 * row->of_bare, bare->took_s / real->took_s >= row->of_bare);
        (void)printf(", computing %.0f us a pod against %.0f", real->loop_us, bare->loop_us);
    }
    (void)printf(", %.2f writes a pod, %zu partial gangs seen\n", runs->writes, runs->partial);
    (void)fflush(stdout);
}

static void measure(const struct row *row, size_t most)
{
    struct runs runs = {0};
    double began_s = bench_now_s();

    while (runs.count < most && (!runs.count || bench_now_s() - began_s < ROW_S)) {
        struct result *real = &runs.real[runs.count];

        run(row, false, !runs.count, real);
        runs.partial += real->partial;
        if (!runs.count)
            runs.writes = real->writes;
        if (row->rate <= 0)
            run(row, true, false, &runs.bare[runs.count]);
        runs.count++;
    }
    qsort(runs.real, runs.count, sizeof(struct result), by_time);
    qsort(runs.bare, runs.count, sizeof(struct result), by_time);
    print_row(row, &runs);
}

int main(int argc, char *argv[])
{
    /* The budgets are those of 10 times kube-scheduler on two cores, and 5 s for 10,000 pods. */
    static const struct row rows[] = {
        {"gangs of 8", 1000, 625, 8, .least = 2000, .of_bare = 0.9},
        {"B2 1,000 pods", 5000, 1000, 1, .least = 2000},
        {"B2 10,000 pods", 5000, 10000, 1, .least = 2000},
        {"B2 at 1,000/s", 5000, 3000, 1, .rate = 1000, .p99_ms = 250},
        {"B3 1000 x 3", 5000, 1000, 3, .least = 1350},
        {"B3 3 x 1000", 5000, 3, 1000, .least = 2700},
        {"B3 9 x 1000", 5000, 9, 1000, .least = 2130},
        {"B3 500 x 20", 1000, 500, 20, .no_gpus = true, .most_s = 5},
        {"B3 20 x 500", 1000, 20, 500, .no_gpus = true, .most_s = 5},
        {"B3 1 x 10,000", 1000, 1, 10000, .no_gpus = true, .most_s = 5},
        {"one at a time", 1000, 50, 1, .rate = 20},
    };
    size_t runs = RUNS;
    size_t first = 0;
    size_t last = COUNT_OF(rows);
    uint64_t number = 0;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!str_to_u64(str_from(argv[i + 1]), &number))
            die("--runs N, --row N");
        if (strcmp(argv[i], "--runs") == 0 && number && number <= RUNS_MAX)
            runs = number;
        else if (strcmp(argv[i], "--row") == 0 && number < last)
            first = number;
        if (strcmp(argv[i], "--row") == 0)
            last = first + 1;
    }
    for (size_t i = first; i < last; i++)
        measure(&rows[i], runs);
    return 0;
}
