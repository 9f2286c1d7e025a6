#include "server/server.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "bench.h"
#include "http/tls.h"
#include "limit.h"
#include "load.h"
#include "null.h"
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
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

/* bench-server: the API server under load, and beside it in the same run the limits: SQLite's group
 * commit alone, and a server that only speaks HTTP and TLS.
 *
 *   bench-server                           all of that
 *   bench-server at NAME PORT TOKEN PID... the same load on a server that is running already
 *   bench-server fill NAME PORT TOKEN PID  13,000 pods for it, to stay
 */
#define TOKEN "bench"

/* Ten times what kube-apiserver and etcd gave on two cores (673 creates, 2,224 gets), four times
 * their 114 MB/s of list through TLS and ten times without. */
static const struct budget budget = {.creates = 6730,
                                     .create_p99_ms = 10,
                                     .gets = 22240,
                                     .list_tls = 456,
                                     .list_plain = 1140,
                                     .fanout_ms = 25,
                                     .memory_mb = 120};

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

static pid_t child_with(int fds[static 2])
{
    if (pipe(fds) < 0)
        die("pipe", NULL);
    (void)fflush(stdout); /* or the child prints it again */
    pid_t pid = fork();
    if (pid < 0)
        die("fork", NULL);
    return pid;
}

static struct ports ports_from(int fd)
{
    struct ports ports;

    if (read(fd, &ports, sizeof(ports)) != sizeof(ports))
        die("server did not start", NULL);
    return ports;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
}

static void measure_ours(const char *folder)
{
    char path[64];
    int fds[2];

    (void)snprintf(path, sizeof(path), "%s/store.db", folder);
    pid_t pid = child_with(fds);
    if (pid == 0)
        serve(path, fds[1]);
    struct ports ports = ports_from(fds[0]);
    load_measure(&(struct target){.name = "muster",
                                  .token = TOKEN,
                                  .tls_port = ports.tls,
                                  .plain_port = ports.plain,
                                  .pids = {pid}},
                 &budget);
    end(pid);
}

static void measure_limits(const char *folder)
{
    static char body[5000];
    char path[64];
    int fds[2];

    (void)snprintf(path, sizeof(path), "%s/limit.db", folder);
    printf("%-16s commits, batches of %d %8.0f /s   object and log row, fsync each batch\n",
           "limit: SQLite", LOAD_CLIENTS, limit_commits(path, LOAD_CLIENTS));
    pid_t pid = child_with(fds);
    if (pid == 0)
        serve_null(fds[1], (struct str){memset(body, ' ', sizeof(body)), sizeof(body)});
    struct ports ports = ports_from(fds[0]);
    if (ports.tls)
        load_measure_null(&(struct target){
            .name = "limit: null TLS", .token = TOKEN, .tls_port = ports.tls, .pids = {pid}});
    end(pid);
}

/* NAME PORT TOKEN PID... */
static bool read_target(int argc, char *argv[], struct target *ret)
{
    if (argc < 4 || argc > 3 + TARGET_PIDS_MAX)
        return false;
    *ret = (struct target){.name = argv[0], .token = argv[2]};
    ret->tls_port = (uint16_t)strtoul(argv[1], NULL, 10);
    for (int i = 3; i < argc; i++)
        ret->pids[i - 3] = (pid_t)strtol(argv[i], NULL, 10);
    return ret->tls_port != 0;
}

int main(int argc, char *argv[])
{
    char folder[] = "/var/tmp/muster-bench-XXXXXX";
    struct target target;

    if (argc > 2 && strcmp(argv[1], "at") == 0 && read_target(argc - 2, argv + 2, &target)) {
        load_measure(&target, &(struct budget){0});
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "fill") == 0 && read_target(argc - 2, argv + 2, &target)) {
        load_fill(&target);
        return 0;
    }
    if (argc > 1) {
        (void)fprintf(stderr, "usage: bench-server [at|fill NAME PORT TOKEN PID...]\n");
        return 2;
    }
    if (!mkdtemp(folder))
        die(folder, NULL);
    measure_ours(folder);
    measure_limits(folder);
    remove_folder(folder);
    return 0;
}
