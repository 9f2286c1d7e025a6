#include "load.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "bench.h"
#include "client.h"
#include "pods.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SINGLES       300
#define GETS          40000
#define WATCHERS      1000
#define FANOUT_ROUNDS 10
#define LIST_ROUNDS   5
#define ANSWER_MS     30000

_Noreturn static void die(const char *what)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

/* ---- requests ---- */

struct bodies {
    struct arena arena;
    struct str items[LOAD_PODS];
};

/* Fields that only a server may set are not for clients to send. */
static void make_bodies(struct bodies *bodies)
{
    struct buf *list = ARENA_NEW(&bodies->arena, struct buf);
    struct json *root = NULL;
    size_t count = 0;

    pods_write(list, LOAD_PODS);
    if (json_parse(&bodies->arena, buf_str(list), &root, NULL) < 0)
        die("pods");
    JSON_FOREACH(json_get(root, "items"), pod) {
        struct json *meta = json_get(pod, "metadata");

        (void)json_remove(meta, STR("uid"));
        (void)json_remove(meta, STR("resourceVersion"));
        (void)json_remove(meta, STR("ownerReferences"));
        (void)json_remove(meta, STR("finalizers"));
        (void)json_remove(meta, STR("managedFields"));
        json_set(meta, STR("namespace"), json_new_str(&bodies->arena, STR("default")));
        json_set(meta, STR("name"),
                 json_new_str(&bodies->arena, str_printf(&bodies->arena, "pod-%zu", count)));
        json_set(pod, STR("kind"), json_new_str(&bodies->arena, STR("Pod")));
        json_set(pod, STR("apiVersion"), json_new_str(&bodies->arena, STR("v1")));
        (void)json_remove(json_get(pod, "spec"), STR("priority"));
        JSON_FOREACH(json_at(pod, "spec.containers"), container)
            (void)json_remove(json_get(container, "resources"), STR("requests"));
        bodies->items[count++] = json_text(&bodies->arena, pod);
    }
}

/* Pods that are bound to a node that is not there would be cleaned up. */
static void unbind(struct bodies *bodies)
{
    for (size_t i = 0; i < LOAD_PODS; i++) {
        struct json *pod = NULL;

        if (json_parse(&bodies->arena, bodies->items[i], &pod, NULL) < 0)
            die("pods");
        (void)json_remove(json_get(pod, "spec"), STR("nodeName"));
        bodies->items[i] = json_text(&bodies->arena, pod);
    }
}

/* `count` requests over `client_count` connections, each sending its next when it has its answer.
 */
struct load {
    const struct target *target;
    struct client *clients;
    size_t client_count;
    size_t first; /* index of the first pod */
    size_t count;
    const struct bodies *bodies; /* NULL: gets */
    double *latencies_s;         /* sorted at the end */
    double rate;
    double cpu_s; /* what the server used for it */
};

static void create_request(const struct target *target, struct buf *out, struct str body)
{
    buf_clear(out);
    buf_addf(out,
             "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
             "%s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             target->token, body.len);
    buf_add(out, body);
}

static void get_request(const struct target *target, struct buf *out, const char *path)
{
    buf_clear(out);
    buf_addf(out, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path,
             target->token);
}

static void next_request(const struct load *load, struct client *client, size_t index)
{
    static struct buf out;
    char path[64];

    if (load->bodies) {
        create_request(load->target, &out, load->bodies->items[load->first + index]);
    } else {
        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/default/pods/pod-%zu",
                       index * 7919 % (LOAD_PODS / 2));
        get_request(load->target, &out, path);
    }
    client->sent_s = bench_now_s();
    client_send(client, buf_str(&out));
}

/* ---- what the server uses ---- */

/* Seconds of processor time: what a busy machine does not change. */
static double cpu_s(const struct target *target)
{
    long ticks = sysconf(_SC_CLK_TCK);
    double sum = 0;

    for (size_t i = 0; i < TARGET_PIDS_MAX && target->pids[i]; i++) {
        char path[64];
        char text[1024] = "";
        unsigned long user = 0;
        unsigned long system = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)target->pids[i]);
        FILE *file = fopen(path, "re");
        if (file) {
            if (!fgets(text, sizeof(text), file))
                text[0] = '\0';
            (void)fclose(file);
        }
        const char *at = strrchr(text, ')');
        if (at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                         &system) == 2)
            sum += (double)(user + system) / (double)ticks;
    }
    return sum;
}

double target_memory_mb(const struct target *target)
{
    long kb = 0;

    for (size_t i = 0; i < TARGET_PIDS_MAX && target->pids[i]; i++) {
        char path[64];
        char line[256];

        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)target->pids[i]);
        FILE *file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
            if (strncmp(line, "VmRSS:", 6) == 0)
                kb += strtol(line + 6, NULL, 10);
        if (file)
            (void)fclose(file);
    }
    return (double)kb / 1024;
}

/* ---- measurements ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void run_load(struct load *load)
{
    struct epoll_event events[LOAD_CLIENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    size_t sent = 0;
    size_t answered = 0;
    int wanted = load->bodies ? 201 : 200;

    for (size_t i = 0; i < load->client_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &load->clients[i]};
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, load->clients[i].fd, &event);
    }
    double cpu_before = cpu_s(load->target);
    double start = bench_now_s();
    for (size_t i = 0; i < load->client_count && sent < load->count; i++)
        next_request(load, &load->clients[i], sent++);
    while (answered < load->count) {
        int ready = epoll_wait(epoll, events, LOAD_CLIENTS, ANSWER_MS);
        if (ready <= 0)
            die("no answer");
        for (int i = 0; i < ready; i++) {
            struct client *client = events[i].data.ptr;
            int status = client_answer(client, NULL);

            if (status != wanted) {
                (void)fprintf(stderr, "bench: %s answered %d\n", load->target->name, status);
                exit(1);
            }
            load->latencies_s[answered++] = bench_now_s() - client->sent_s;
            if (sent < load->count)
                next_request(load, client, sent++);
        }
    }
    load->rate = (double)load->count / (bench_now_s() - start);
    load->cpu_s = cpu_s(load->target) - cpu_before;
    (void)close(epoll);
    qsort(load->latencies_s, load->count, sizeof(double), by_value);
}

static void print_load(const char *what, const struct load *load, double least, double most_ms)
{
    double p50_ms = load->latencies_s[load->count / 2] * 1e3;
    double p99_ms = load->latencies_s[load->count * 99 / 100] * 1e3;

    printf("%-16s %-22s %8.0f /s", load->target->name, what, load->rate);
    if (least > 0)
        printf(" (least %.0f)", least);
    printf("   p50 %.2f ms   p99 %.2f ms", p50_ms, p99_ms);
    if (most_ms > 0)
        printf(" (most %.0f)", most_ms);
    printf("   its CPU %.0f us each\n", load->cpu_s / (double)load->count * 1e6);
}

static void measure_list(const struct target *target, bool tls, double least)
{
    struct client client;
    _cleanup_(buf_done) struct buf request = {0};
    double best = 0;
    size_t bytes = 0;

    client_open(&client, tls ? target->tls_port : target->plain_port, tls);
    get_request(target, &request, "/api/v1/pods");
    for (int i = 0; i < LIST_ROUNDS; i++) {
        double start = bench_now_s();
        client_send(&client, buf_str(&request));
        if (client_answer(&client, &bytes) != 200)
            die("list");
        bench_best(&best, bench_now_s() - start);
    }
    client_close(&client);
    printf("%-16s list %d pods, %-5s %8.0f MB/s", target->name, LOAD_PODS, tls ? "TLS" : "plain",
           (double)bytes / 1e6 / best);
    if (least > 0)
        printf(" (least %.0f)", least);
    printf("   %.1f MB in %.0f ms\n", (double)bytes / 1e6, best * 1e3);
}

static void wait_event(struct client *watcher)
{
    while (!watcher->in.len || !memmem(watcher->in.p, watcher->in.len, "}\n", 2))
        client_fill(watcher);
}

static double fanout_round(const struct target *target,
                           struct client *writer,
                           struct client *watchers,
                           int round)
{
    _cleanup_(buf_done) struct buf request = {0};
    char body[128];
    int len =
        snprintf(body, sizeof(body), "{\"metadata\":{\"labels\":{\"round\":\"%02d\"}}}", round);

    buf_addf(&request,
             "PATCH /api/v1/namespaces/default/pods/pod-0 HTTP/1.1\r\nHost: x\r\nAuthorization: "
             "Bearer %s\r\nContent-Type: application/merge-patch+json\r\nContent-Length: "
             "%d\r\n\r\n%s",
             target->token, len, body);
    for (size_t i = 0; i < WATCHERS; i++)
        buf_clear(&watchers[i].in);
    double start = bench_now_s();
    client_send(writer, buf_str(&request));
    for (size_t i = 0; i < WATCHERS; i++)
        wait_event(&watchers[i]);
    double took_s = bench_now_s() - start;
    if (client_answer(writer, NULL) != 200)
        die("patch");
    return took_s;
}

/* One change, and how long until every one of many watchers has read it. */
static void measure_fanout(const struct target *target, struct client *writer, double most_ms)
{
    static struct client watchers[WATCHERS];
    _cleanup_(buf_done) struct buf request = {0};
    double rounds_s[FANOUT_ROUNDS];

    get_request(target, &request,
                "/api/v1/namespaces/default/pods?watch=true&fieldSelector=metadata.name%3Dpod-0");
    for (size_t i = 0; i < WATCHERS; i++) {
        client_open(&watchers[i], target->tls_port, true);
        client_send(&watchers[i], buf_str(&request));
    }
    for (size_t i = 0; i < WATCHERS; i++)
        wait_event(&watchers[i]);
    for (int i = 0; i < FANOUT_ROUNDS; i++)
        rounds_s[i] = fanout_round(target, writer, watchers, i);
    for (size_t i = 0; i < WATCHERS; i++)
        client_close(&watchers[i]);
    qsort(rounds_s, FANOUT_ROUNDS, sizeof(double), by_value);
    printf("%-16s fan-out to %d over TLS %5.1f ms", target->name, WATCHERS,
           rounds_s[FANOUT_ROUNDS / 2] * 1e3);
    if (most_ms > 0)
        printf(" (most %.0f)", most_ms);
    printf("   from the write to the last read; median of %d, best %.1f ms\n", FANOUT_ROUNDS,
           rounds_s[0] * 1e3);
}

static struct client *connect_all(const struct target *target)
{
    static struct client clients[LOAD_CLIENTS];

    for (size_t i = 0; i < LOAD_CLIENTS; i++)
        client_open(&clients[i], target->tls_port, true);
    return clients;
}

static void close_all(struct client *clients)
{
    for (size_t i = 0; i < LOAD_CLIENTS; i++)
        client_close(&clients[i]);
}

static double latencies_s[GETS];

static void measure_gets(const struct target *target, struct client *clients, double least)
{
    struct load load = {.target = target,
                        .clients = clients,
                        .client_count = LOAD_CLIENTS,
                        .count = GETS,
                        .latencies_s = latencies_s};

    run_load(&load);
    print_load("gets, 64 clients", &load, least, 0);
}

void load_measure(const struct target *target, const struct budget *budget)
{
    static struct bodies bodies;
    struct client *clients = connect_all(target);

    make_bodies(&bodies);
    struct load load = {.target = target,
                        .clients = clients,
                        .client_count = 1,
                        .count = SINGLES,
                        .bodies = &bodies,
                        .latencies_s = latencies_s};
    run_load(&load);
    print_load("creates, 1 client", &load, 0, 0);
    load.client_count = LOAD_CLIENTS;
    load.first = SINGLES;
    load.count = LOAD_PODS - SINGLES;
    run_load(&load);
    print_load("creates, 64 clients", &load, budget->creates, budget->create_p99_ms);
    measure_gets(target, clients, budget->gets);
    measure_list(target, true, budget->list_tls);
    if (target->plain_port)
        measure_list(target, false, budget->list_plain);
    measure_fanout(target, &clients[0], budget->fanout_ms);
    printf("%-16s memory, %d pods %6.0f MB", target->name, LOAD_PODS, target_memory_mb(target));
    if (budget->memory_mb > 0)
        printf(" (most %.0f)", budget->memory_mb);
    printf("\n");
    close_all(clients);
    arena_done(&bodies.arena);
}

void load_measure_null(const struct target *target)
{
    struct client *clients = connect_all(target);

    measure_gets(target, clients, 0);
    close_all(clients);
}

void load_fill(const struct target *target)
{
    static struct bodies bodies;
    struct client *clients = connect_all(target);

    make_bodies(&bodies);
    unbind(&bodies);
    struct load load = {.target = target,
                        .clients = clients,
                        .client_count = LOAD_CLIENTS,
                        .count = LOAD_PODS,
                        .bodies = &bodies,
                        .latencies_s = latencies_s};
    run_load(&load);
    print_load("creates, 64 clients", &load, 0, 0);
    close_all(clients);
    arena_done(&bodies.arena);
}
