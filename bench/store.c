#include "store/store.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "bench.h"
#include "limit.h"
#include "pods.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

/* The store alone, without HTTP: durable creates by one caller and by 64, gets, a list, the memory
 * of 13,000 pods, and the time to open such a file again. Beside it the limit: the same bytes put
 * into SQLite in batches of 64, with nothing else done to them. */
#define PODS     13000
#define CALLERS  64
#define SINGLES  200
#define GETS     20000
#define LATE_MAX PODS

struct bench {
    uv_loop_t loop;
    struct store *store;
    struct api *api;
    struct arena arena;
    struct str bodies[PODS];
    size_t next;
    size_t end;
    size_t done;
    double late_s[LATE_MAX];
};

struct caller {
    struct bench *bench;
    double began_s;
};

_Noreturn static void die(const char *why)
{
    (void)fprintf(stderr, "bench-store: %s\n", why);
    exit(1);
}

/* The server's own fields are not for clients to send. */
static void make_bodies(struct bench *bench)
{
    /* Strings of the tree point into it as long as the bench runs. */
    static struct buf text;
    struct json *list = NULL;
    size_t at = 0;

    pods_write(&text, PODS);
    if (json_parse(&bench->arena, buf_str(&text), &list, NULL) < 0)
        die("pods");
    JSON_FOREACH(json_get(list, "items"), pod) {
        struct json *meta = json_get(pod, "metadata");

        json_remove(meta, STR("resourceVersion"));
        json_remove(meta, STR("uid"));
        json_remove(meta, STR("ownerReferences"));
        json_remove(json_get(pod, "spec"), STR("priorityClassName"));
        json_add_c(&bench->arena, meta, "namespace", "default");
        bench->bodies[at++] = json_text(&bench->arena, pod);
    }
}

static void create_next(struct caller *caller);

static void on_created(void *user, const struct api_result *result)
{
    struct caller *caller = user;
    struct bench *bench = caller->bench;

    if (result->code)
        die(result->err->text);
    bench->late_s[bench->done++] = bench_now_s() - caller->began_s;
    create_next(caller);
}

static void create_next(struct caller *caller)
{
    struct bench *bench = caller->bench;

    if (bench->next == bench->end)
        return;
    caller->began_s = bench_now_s();
    api_call(bench->api,
             &(struct api_request){.verb = API_CREATE,
                                   .kind = &kind_pod,
                                   .ns = STR("default"),
                                   .body = bench->bodies[bench->next++]},
             on_created, caller);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void creates(struct bench *bench, size_t callers, size_t count)
{
    static struct caller all[CALLERS];
    double began_s = bench_now_s();

    bench->end = bench->next + count;
    bench->done = 0;
    for (size_t i = 0; i < callers; i++) {
        all[i].bench = bench;
        create_next(&all[i]);
    }
    while (bench->done < count)
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
    double took_s = bench_now_s() - began_s;
    qsort(bench->late_s, bench->done, sizeof(double), by_size);
    (void)printf("store: creates, %2zu callers, durable %12.0f /s   p50 %.2f ms   p99 %.2f ms\n",
                 callers, (double)count / took_s, bench->late_s[bench->done / 2] * 1e3,
                 bench->late_s[bench->done * 99 / 100] * 1e3);
}

static void on_read(void *user, const struct api_result *result)
{
    struct bench *bench = user;

    if (result->code)
        die(result->err->text);
    bench->done++;
}

static void gets(struct bench *bench)
{
    double began_s = bench_now_s();
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *pod = NULL;

    if (json_parse(&arena, bench->bodies[PODS / 2], &pod, NULL) < 0)
        die("pod");
    struct api_request get = {.verb = API_GET,
                              .kind = &kind_pod,
                              .ns = STR("default"),
                              .name = json_str_at(pod, "metadata.name")};
    bench->done = 0;
    for (size_t i = 0; i < GETS; i++) {
        api_call(bench->api, &get, on_read, bench);
        if (i % CALLERS == 0)
            (void)uv_run(&bench->loop, UV_RUN_NOWAIT);
    }
    while (bench->done < GETS)
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
    (void)printf("store: gets %35.0f /s\n", GETS / (bench_now_s() - began_s));
    began_s = bench_now_s();
    bench->done = 0;
    api_call(bench->api, &(struct api_request){.verb = API_LIST, .kind = &kind_pod}, on_read,
             bench);
    while (bench->done < 1)
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
    (void)printf("store: list of %d pods %24.1f ms\n", PODS, (bench_now_s() - began_s) * 1e3);
}

static double resident_mb(void)
{
    long pages = 0;
    long page_bytes = sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        die("statm");
    (void)fclose(file);
    return (double)(pages * page_bytes) / 1e6;
}

static void open_store(struct bench *bench, const char *path)
{
    struct err err = {0};

    if (store_open(&(struct store_options){.loop = &bench->loop, .path = path, .seed = 1},
                   &bench->store, &err) < 0)
        die(err.text);
    bench->api = store_api(bench->store);
}

static void close_store(struct bench *bench)
{
    store_close(bench->store);
    (void)uv_run(&bench->loop, UV_RUN_DEFAULT);
}

int main(void)
{
    static struct bench bench;
    char folder[] = "/var/tmp/muster-bench-XXXXXX";
    char path[64];
    char command[64];

    if (!mkdtemp(folder))
        die("no folder");
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    (void)uv_loop_init(&bench.loop);
    make_bodies(&bench);
    double before_mb = resident_mb();
    open_store(&bench, path);
    creates(&bench, 1, SINGLES);
    creates(&bench, CALLERS, PODS - SINGLES);
    gets(&bench);
    (void)printf("store: memory of %d pods %21.1f MB\n", PODS, resident_mb() - before_mb);
    close_store(&bench);
    double began_s = bench_now_s();
    open_store(&bench, path);
    (void)printf("store: open again %29.1f ms\n", (bench_now_s() - began_s) * 1e3);
    close_store(&bench);
    (void)snprintf(path, sizeof(path), "%s/limit", folder);
    (void)printf("limit: SQLite alone, batches of %d %17.0f /s\n", CALLERS,
                 limit_commits(path, CALLERS));
    (void)uv_loop_close(&bench.loop);
    arena_done(&bench.arena);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command) == 0 ? 0 : 1;
}
