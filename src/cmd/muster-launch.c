/* muster-launch: runs inside a job's pods. src/api/launch.h is its contract; everything it needs
 * to know is in the environment, so it has subcommands and no options. */
#include "api/launch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "launch/rank.h"
#include "launch/selftest.h"
#include "launch/torchrun.h"
#include "launch/warm.h"
#include "launch/worker.h"
#include "mover/container.h"
#include "stacks/pod.h"
#include "workspace/address.h"
#include "workspace/c10d.h"
#include "workspace/disk.h"
#include "workspace/door.h"
#include "workspace/resolve.h"
#include "workspace/results.h"
#include "workspace/source.h"
#include "workspace/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Which Debian gives to the machine's own name. */
#define DEBIAN_HOST_ADDRESS "127.0.1.1"

static volatile sig_atomic_t stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

static bool stop(void *user)
{
    (void)user;
    return stop_asked;
}

static void ready(void *user, uint16_t port)
{
    const struct sync_options *options = user;

    fprintf(stderr, "muster-launch sync: serving %s on port %u\n", options->folder, port);
}

/* Pods that share the host's network have a loopback address each, which their own name leads to:
 * then we may listen only there. NULL: everywhere. */
static const char *listen_address(char out[static INET6_ADDRSTRLEN])
{
    const char *given = getenv(LAUNCH_ENV_SYNC_ADDRESS);
    const char *host = getenv("HOSTNAME");
    struct address address;
    char name[256] = "";

    if (given && *given)
        return given;
    if (!host && gethostname(name, sizeof(name) - 1) == 0)
        host = name;
    if (!host || resolve_host(str_from(host), &address, NULL) < 0)
        return NULL;
    const char *text = address_text(address, out);
    bool own = strncmp(text, "127.", 4) == 0 && strcmp(text, "127.0.0.1") != 0 &&
               strcmp(text, DEBIAN_HOST_ADDRESS) != 0;
    return own ? text : NULL;
}

static void note(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "muster-launch sync: %s\n", text);
}

static uint16_t port_of(const char *variable, uint16_t otherwise)
{
    const char *text = getenv(variable);
    uint64_t number;

    return text && str_to_u64(str_from(text), &number) && number <= UINT16_MAX ? (uint16_t)number
                                                                               : otherwise;
}

/* The secret leaves the environment here: what fetches a workspace must not inherit it. */
static struct door *open_door(void)
{
    const char *uid = getenv(LAUNCH_ENV_PEER_UID);
    struct door_options options = {
        .job = getenv(LAUNCH_ENV_JOB), .secret = getenv(LAUNCH_ENV_JOB_SECRET), .peer_uid = -1};
    struct door *door;

    if (uid)
        (void)str_to_i64(str_from(uid), &options.peer_uid);
    door = door_new(&options);
    (void)unsetenv(LAUNCH_ENV_JOB_SECRET);
    return door;
}

static void start_store(struct door *door, const char *address)
{
    struct c10d_options options = {.address = address,
                                   .port = port_of(LAUNCH_ENV_STORE_PORT, LAUNCH_STORE_PORT),
                                   .door = door,
                                   .note = note};
    struct err err = {0};

    if (door_has_job(door) && c10d_start(&options, &err) < 0)
        note(NULL, err.text); /* jobs with another rendezvous do not need it */
}

static int sync_main(void)
{
    char listen_at[INET6_ADDRSTRLEN];
    struct sigaction action = {.sa_handler = on_signal};
    const char *folder = getenv(LAUNCH_ENV_WORKSPACE_DIR);
    const char *source = getenv(LAUNCH_ENV_SOURCE);
    struct sync_options options = {
        .folder = folder ? folder : "/workspace",
        .door = open_door(),
        .address = listen_address(listen_at),
        .port = port_of(LAUNCH_ENV_SYNC_PORT, LAUNCH_SYNC_PORT),
        .adopt = source && strcmp(source, "existing") == 0,
        .ready = ready,
        .stop = stop,
        .note = note,
    };
    const char *url = getenv(LAUNCH_ENV_SOURCE_URL);
    struct source fetched = {.kind = source ? source : "zip", .url = url, .note = note};
    struct err err = {0};

    options.user = &options;
    if (url && *url && !options.adopt)
        options.source = &fetched;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    start_store(options.door, options.address);
    if (sync_serve(&options, &err) < 0) {
        fprintf(stderr, "muster-launch sync: %s\n", err.text);
        return 1;
    }
    return 0;
}

/* Copy this very program, or another file, for containers that come after (api/install.h). */
static int install_file(const char *path, const char *source)
{
    FILE *from = fopen(source, "re");
    FILE *to = from ? fopen(path, "we") : NULL;
    char piece[65536];
    size_t got = 0;
    bool ok = to != NULL;

    while (ok && (got = fread(piece, 1, sizeof(piece), from)) > 0)
        ok = fwrite(piece, 1, got, to) == got;
    ok = ok && !ferror(from);
    if (from)
        (void)fclose(from);
    if (to)
        ok = fclose(to) == 0 && ok;
    if (!ok || chmod(path, 0755) < 0) {
        fprintf(stderr, "muster-launch install: %s to %s: %m\n", source, path);
        return 1;
    }
    return 0;
}

/* Pairs of FILE and SOURCE. */
static int install_main(char *argv[], int count)
{
    int r = 0;

    for (int i = 0; r == 0 && i + 1 < count; i += 2)
        r = install_file(argv[i], argv[i + 1]);
    return r;
}

/* The container's GPU memory to host memory, or back: how the operator asks where only exec reaches a
 * pod. "ok out 1 400" on stdout: processes and MiB; else words on stderr. */
static int gpu_memory_main(const char *way, char *argv[], int count)
{
    pid_t pids[CONTAINER_PROCESSES_MAX];
    struct container_order order = {.pids = pids};
    struct container_report report;
    struct err err = {0};
    bool out = strcmp(way, "out") == 0;
    int64_t pid = 0;

    if ((!out && strcmp(way, "in") != 0) || count > CONTAINER_PROCESSES_MAX)
        return 2;
    for (int i = 0; i < count; i++) {
        if (!str_to_i64(str_from(argv[i]), &pid) || pid < 1 || pid > INT_MAX)
            return 2;
        pids[order.pid_count++] = (pid_t)pid;
    }
    (void)alarm(CONTAINER_LIMIT_S); /* whoever asked is gone by then, and may ask again */
    int r = out ? container_out(&order, &report, &err) : container_in(&order, &report, &err);
    if (r < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("ok %s %lld %lld\n", way, (long long)report.processes, (long long)report.moved_mib);
    return 0;
}

/* What the job wrote, to stdout (workspace/results.h): how kubectl torchrun asks where only exec
 * reaches a pod. */
static int results_main(const char *what, const char *folder, const char *path)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct results_request request = {.path = str_from(path), .list = strcmp(what, "list") == 0};
    struct err err = {0};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct results *results;
    int r = 1;

    if (fd < 0) {
        fprintf(stderr, "muster-launch results: %s: %m\n", folder);
        return 1;
    }
    results = results_new(fd, &request);
    while (r == 1) {
        buf_clear(&out);
        r = results_turn(results, &out, &err);
        if (disk_write(STDOUT_FILENO, buf_str(&out)) < 0)
            r = -EPIPE; /* whoever asked is gone */
    }
    results_free(results);
    return r < 0 ? 1 : 0;
}

/* What the container's processes are doing, to stdout: how kubectl torchrun autopsy asks where only
 * exec reaches a pod. */
static int stacks_main(void)
{
    _cleanup_(buf_done) struct buf out = {0};

    pod_stacks(&(struct pod_stacks_request){0}, &out);
    return disk_write(STDOUT_FILENO, buf_str(&out)) < 0 ? 1 : 0;
}

int main(int argc, char *argv[])
{
    const char *what = argc == 2 ? argv[1] : "";
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[len > 0 ? len : 0] = '\0';
    if (strcmp(what, "worker") == 0)
        return worker_main(self);
    if (strcmp(what, "torchrun") == 0)
        return torchrun_main(self, NULL);
    if (strcmp(what, "rank") == 0)
        return rank_main();
    if (argc >= 3 && strcmp(argv[1], "python") == 0)
        return warm_main(argv + 2);
    if (strcmp(what, "sync") == 0)
        return sync_main();
    if (argc == 3 && strcmp(argv[1], "install") == 0)
        return install_file(argv[2], self);
    if (argc >= 4 && argc % 2 == 0 && strcmp(argv[1], "install") == 0)
        return install_main(argv + 2, argc - 2);
    if (argc >= 3 && strcmp(argv[1], CONTAINER_COMMAND) == 0)
        return gpu_memory_main(argv[2], argv + 3, argc - 3);
    if (argc == 5 && strcmp(argv[1], "results") == 0)
        return results_main(argv[2], argv[3], argv[4]);
    if (strcmp(what, "stacks") == 0)
        return stacks_main();
    if (strcmp(what, "selftest") == 0)
        return selftest_main();
    if (strcmp(what, "version") == 0) {
        printf("muster-launch %s\n", MUSTER_VERSION);
        return 0;
    }
    fprintf(stderr,
            "usage: muster-launch worker|sync|install FILE [SOURCE [FILE SOURCE ...]]|results "
            "list|read "
            "FOLDER PATH|stacks|selftest|gpu-memory out|in [PID ...]|version (runs inside a job's "
            "pods)\n");
    return 2;
}
