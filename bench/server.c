#include "server/server.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "bench.h"
#include "client.h"
#include "http/tls.h"
#include "null.h"
#include "pods.h"
#include "store/store.h"
#include "tool/clock.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

/* The API server under load: creates that are durable when answered, gets, a long list, the fan-out
 * of one change to many watchers. Server and clients share the machine's cores, as they did when
 * kube-apiserver was measured. A null server (the same HTTP, no objects) is the limit beside it. */
#define PODS          13000
#define CLIENTS       64
#define SINGLES       300
#define GETS          40000
#define WATCHERS      1000
#define FANOUT_ROUNDS 10
#define LIST_ROUNDS   3
#define TOKEN         "bench"

/* What kube-apiserver 1.37 + etcd 3.5 reached on two cores. */
#define THEIR_CREATES 673.0
#define THEIR_GETS    2224.0
#define THEIR_LIST    114.0

static const char *const auth = "Authorization: Bearer " TOKEN "\r\n";

struct ports {
    uint16_t tls;
    uint16_t plain;
};

_Noreturn static void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, err ? err->text : strerror(errno));
    exit(1);
}

/* ---- the server, in a process of its own ---- */
static void on_term(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

static void make_certificate(struct buf *ret_crt, struct buf *ret_key)
{
    _cleanup_(buf_done) struct buf ca = {0};
    _cleanup_(buf_done) struct buf ca_key = {0};
    struct tls_made made = {&ca, &ca_key, ret_crt, ret_key};
    struct err err = {0};

    if (tls_make("127.0.0.1", clock_now_ms(), &made, &err) < 0)
        die("certificate", &err);
}

static struct tls_identity *make_identity(void)
{
    _cleanup_(buf_done) struct buf crt = {0};
    _cleanup_(buf_done) struct buf key = {0};
    struct tls_identity *identity = NULL;
    struct err err = {0};

    make_certificate(&crt, &key);
    if (tls_identity_new(buf_str(&crt), buf_str(&key), STR(""), &identity, &err) < 0)
        die("certificate", &err);
    return identity;
}

_Noreturn static void serve(const char *path, int ready_fd)
{
    uv_loop_t loop;
    uv_signal_t term;
    struct store *store = NULL;
    struct server *servers[2] = {NULL};
    struct err err = {0};

    (void)uv_loop_init(&loop);
    (void)uv_signal_init(&loop, &term);
    (void)uv_signal_start(&term, on_term, SIGTERM);
    if (store_open(&(struct store_options){.loop = &loop, .path = path}, &store, &err) < 0)
        die("store", &err);
    struct server_options options = {
        .address = "127.0.0.1", .tls = make_identity(), .token = STR(TOKEN)};
    if (server_start(&loop, store_api(store), &options, &servers[0], &err) < 0)
        die("server", &err);
    options.tls = NULL;
    if (server_start(&loop, store_api(store), &options, &servers[1], &err) < 0)
        die("server", &err);
    struct ports ports = {server_port(servers[0]), server_port(servers[1])};
    if (write(ready_fd, &ports, sizeof(ports)) != sizeof(ports))
        die("pipe", NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    server_stop(servers[0]);
    server_stop(servers[1]);
    store_close(store);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    exit(0);
}

/* The null server, in a process of its own too. */
_Noreturn static void serve_null(int ready_fd, struct str body)
{
    struct buf crt = {0};
    struct buf key = {0};
    sigset_t signals;
    int number = 0;

    make_certificate(&crt, &key);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    struct null_server *server = null_start(crt.p, key.p, body);
    struct ports ports = {.tls = server ? null_port(server) : 0};
    if (write(ready_fd, &ports, sizeof(ports)) != sizeof(ports))
        die("pipe", NULL);
    (void)sigwait(&signals, &number);
    if (server)
        null_stop(server);
    exit(0);
}

/* ---- requests ---- */
struct bodies {
    struct arena arena;
    struct str items[PODS];
};

static void make_bodies(struct bodies *bodies)
{
    struct buf *list = ARENA_NEW(&bodies->arena, struct buf);
    struct json *root = NULL;
    size_t count = 0;

    pods_write(list, PODS);
    if (json_parse(&bodies->arena, buf_str(list), &root, NULL) < 0)
        die("pods", NULL);
    JSON_FOREACH(json_get(root, "items"), pod) {
        struct json *meta = json_get(pod, "metadata");

        (void)json_remove(meta, STR("uid"));
        (void)json_remove(meta, STR("resourceVersion"));
        (void)json_remove(meta, STR("ownerReferences"));
        (void)json_remove(meta, STR("finalizers"));
        json_set(meta, STR("namespace"), json_new_str(&bodies->arena, STR("default")));
        json_set(meta, STR("name"),
                 json_new_str(&bodies->arena, str_printf(&bodies->arena, "pod-%zu", count)));
        json_set(pod, STR("kind"), json_new_str(&bodies->arena, STR("Pod")));
        json_set(pod, STR("apiVersion"), json_new_str(&bodies->arena, STR("v1")));
        JSON_FOREACH(json_at(pod, "spec.containers"), container)
            (void)json_remove(json_get(container, "resources"), STR("requests"));
        bodies->items[count++] = json_text(&bodies->arena, pod);
    }
}

static void create_request(struct buf *out, struct str body)
{
    buf_clear(out);
    buf_addf(out,
             "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\n%sContent-Type: "
             "application/json\r\nContent-Length: %zu\r\n\r\n",
             auth, body.len);
    buf_add(out, body);
}

static void get_request(struct buf *out, size_t index)
{
    buf_clear(out);
    buf_addf(out, "GET /api/v1/namespaces/default/pods/pod-%zu HTTP/1.1\r\nHost: x\r\n%s\r\n",
             index, auth);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* `count` requests over `client_count` connections, each sending its next when it has its answer.
 * Returns requests a second; latencies are sorted. */
struct load {
    struct client *clients;
    size_t client_count;
    size_t first; /* index of the first pod */
    size_t count;
    const struct bodies *bodies; /* NULL: gets */
    double *latencies_s;
    pid_t server;
    double cpu_s; /* what the server used for it */
};

static void next_request(const struct load *load, struct client *client, size_t index)
{
    static struct buf out;

    if (load->bodies)
        create_request(&out, load->bodies->items[load->first + index]);
    else
        get_request(&out, (load->first + index * 7919) % (PODS / 2));
    client->sent_s = bench_now_s();
    client_send(client, buf_str(&out));
}

/* Seconds of processor time the server has used: what a busy machine does not change. */
static double cpu_s(pid_t pid)
{
    char path[64];
    char text[1024] = "";
    unsigned long user = 0;
    unsigned long system = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(text, sizeof(text), file))
            text[0] = '\0';
        (void)fclose(file);
    }
    const char *at = strrchr(text, ')');
    if (!at ||
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    long ticks = sysconf(_SC_CLK_TCK);
    return (double)(user + system) / (double)ticks;
}

static double run_load(struct load *load)
{
    struct epoll_event events[CLIENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    size_t sent = 0;
    size_t answered = 0;
    int wanted = load->bodies ? 201 : 200;

    for (size_t i = 0; i < load->client_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &load->clients[i]};
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, load->clients[i].fd, &event);
    }
    double cpu_before = cpu_s(load->server);
    double start = bench_now_s();
    for (size_t i = 0; i < load->client_count && sent < load->count; i++)
        next_request(load, &load->clients[i], sent++);
    while (answered < load->count) {
        int ready = epoll_wait(epoll, events, CLIENTS, 10000);
        if (ready <= 0)
            die("no answer within 10 s", NULL);
        for (int i = 0; i < ready; i++) {
            struct client *client = events[i].data.ptr;
            int status = client_answer(client, NULL);

            if (status != wanted) {
                (void)fprintf(stderr, "bench: status %d\n", status);
                exit(1);
            }
            load->latencies_s[answered++] = bench_now_s() - client->sent_s;
            if (sent < load->count)
                next_request(load, client, sent++);
        }
    }
    double took = bench_now_s() - start;
    load->cpu_s = cpu_s(load->server) - cpu_before;
    (void)close(epoll);
    qsort(load->latencies_s, load->count, sizeof(double), by_value);
    return (double)load->count / took;
}

static void print_load(const char *what, double rate, const struct load *load, double theirs)
{
    double p50 = load->latencies_s[load->count / 2] * 1e3;
    double p99 = load->latencies_s[load->count * 99 / 100] * 1e3;

    printf("server %-28s %9.0f /s   p50 %6.2f ms  p99 %6.2f ms  server's CPU %5.1f us", what, rate,
           p50, p99, load->cpu_s / (double)load->count * 1e6);
    if (theirs > 0)
        printf("   %5.1f x kube-apiserver", rate / theirs);
    printf("\n");
}

static void bench_list(struct ports ports, bool tls)
{
    struct client client;
    _cleanup_(buf_done) struct buf request = {0};
    double best = 0;
    size_t bytes = 0;

    client_open(&client, tls ? ports.tls : ports.plain, tls);
    buf_addf(&request, "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n%s\r\n", auth);
    for (int i = 0; i < LIST_ROUNDS; i++) {
        double start = bench_now_s();
        client_send(&client, buf_str(&request));
        if (client_answer(&client, &bytes) != 200)
            die("list", NULL);
        bench_best(&best, bench_now_s() - start);
    }
    client_close(&client);
    double rate = (double)bytes / 1e6 / best;
    printf("server list %d pods %-10s %9.0f MB/s (%.1f MB in %.0f ms)   %5.1f x kube-apiserver\n",
           PODS, tls ? "TLS" : "plain", rate, (double)bytes / 1e6, best * 1e3, rate / THEIR_LIST);
}

/* One change, and how long until every one of many watchers has read it. */
static void bench_fanout(struct ports ports, struct client *writer)
{
    static struct client watchers[WATCHERS];
    _cleanup_(buf_done) struct buf request = {0};
    double best = 0;
    double sum = 0;
    static const char patch[] = "{\"metadata\":{\"labels\":{\"round\":\"%02d\"}}}";

    buf_addf(&request,
             "GET /api/v1/namespaces/default/pods?watch=true&fieldSelector=metadata.name%%3Dpod-0 "
             "HTTP/1.1\r\nHost: x\r\n%s\r\n",
             auth);
    for (size_t i = 0; i < WATCHERS; i++) {
        client_open(&watchers[i], ports.tls, true);
        client_send(&watchers[i], buf_str(&request));
    }
    for (size_t i = 0; i < WATCHERS; i++)
        while (!memmem(watchers[i].in.p ? watchers[i].in.p : "", watchers[i].in.len, "}\n", 2))
            client_fill(&watchers[i]);
    for (int round = 0; round < FANOUT_ROUNDS; round++) {
        char body[128];
        int len = snprintf(body, sizeof(body), patch, round);

        buf_clear(&request);
        buf_addf(
            &request,
            "PATCH /api/v1/namespaces/default/pods/pod-0 HTTP/1.1\r\nHost: x\r\n%sContent-Type: "
            "application/merge-patch+json\r\nContent-Length: %d\r\n\r\n%s",
            auth, len, body);
        for (size_t i = 0; i < WATCHERS; i++)
            buf_clear(&watchers[i].in);
        double start = bench_now_s();
        client_send(writer, buf_str(&request));
        for (size_t i = 0; i < WATCHERS; i++)
            while (!memmem(watchers[i].in.p ? watchers[i].in.p : "", watchers[i].in.len, "}\n", 2))
                client_fill(&watchers[i]);
        double took = bench_now_s() - start;
        sum += took;
        bench_best(&best, took);
        if (client_answer(writer, NULL) != 200)
            die("patch", NULL);
    }
    for (size_t i = 0; i < WATCHERS; i++)
        client_close(&watchers[i]);
    printf(
        "server fan-out to %d watchers      best %.1f ms, mean %.1f ms (TLS, write to last read; "
        "limit 25 ms)\n",
        WATCHERS, best * 1e3, sum / FANOUT_ROUNDS * 1e3);
}

static void print_memory(pid_t pid)
{
    char path[64];
    char line[256];
    long kb = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            kb = atol(line + 6);
    if (file)
        (void)fclose(file);
    printf("server memory with %d pods         %.0f MB (limit 120 MB)\n", PODS, (double)kb / 1024);
}

static void measure(struct ports ports, pid_t server)
{
    static struct client clients[CLIENTS];
    static struct bodies bodies;
    double *latencies = calloc(GETS, sizeof(double));

    if (!latencies)
        die("memory", NULL);
    make_bodies(&bodies);
    for (size_t i = 0; i < CLIENTS; i++)
        client_open(&clients[i], ports.tls, true);
    struct load load = {clients, 1, 0, SINGLES, &bodies, latencies, server, 0};
    print_load("creates, 1 client, durable", run_load(&load), &load, 323);
    load = (struct load){clients, CLIENTS, SINGLES, PODS - SINGLES, &bodies, latencies, server, 0};
    print_load("creates, 64 clients, durable", run_load(&load), &load, THEIR_CREATES);
    load = (struct load){clients, CLIENTS, 0, GETS, NULL, latencies, server, 0};
    print_load("gets, 64 clients", run_load(&load), &load, THEIR_GETS);
    bench_list(ports, true);
    bench_list(ports, false);
    bench_fanout(ports, &clients[0]);
    print_memory(server);
    for (size_t i = 0; i < CLIENTS; i++)
        client_close(&clients[i]);
    free(latencies);
}

/* The same gets from a server that only speaks HTTP and TLS. */
static void measure_null(void)
{
    static struct client clients[CLIENTS];
    static char body[5000];
    _cleanup_(buf_done) struct buf request = {0};
    double *latencies = calloc(GETS, sizeof(double));
    struct ports ports = {0};
    int fds[2];

    if (!latencies || pipe(fds) < 0)
        die("pipe", NULL);
    (void)fflush(stdout); /* or the child prints it again */
    pid_t pid = fork();
    if (pid == 0)
        serve_null(fds[1], (struct str){memset(body, ' ', sizeof(body)), sizeof(body)});
    if (pid < 0 || read(fds[0], &ports, sizeof(ports)) != sizeof(ports))
        die("null server", NULL);
    if (ports.tls) {
        for (size_t i = 0; i < CLIENTS; i++)
            client_open(&clients[i], ports.tls, true);
        struct load load = {clients, CLIENTS, 0, GETS, NULL, latencies, pid, 0};
        print_load("limit: null TLS server, gets", run_load(&load), &load, 0);
        for (size_t i = 0; i < CLIENTS; i++)
            client_close(&clients[i]);
    }
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
    free(latencies);
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        (void)closedir(dir);
    (void)rmdir(folder);
}

int main(void)
{
    char folder[] = "/tmp/muster-bench-XXXXXX";
    char path[64];
    int fds[2];
    struct ports ports;

    if (!mkdtemp(folder) || pipe(fds) < 0)
        die(folder, NULL);
    (void)snprintf(path, sizeof(path), "%s/store.db", folder);
    pid_t pid = fork();
    if (pid < 0)
        die("fork", NULL);
    if (pid == 0)
        serve(path, fds[1]);
    if (read(fds[0], &ports, sizeof(ports)) != sizeof(ports))
        die("server did not start", NULL);
    measure(ports, pid);
    measure_null();
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
    remove_folder(folder);
    return 0;
}
