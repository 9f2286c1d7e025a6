#include "launch/torchrun.h"

#include "api/launch.h"
#include "api/place.h"
#include "base/err.h"
#include "base/str.h"
#include "launch/batch.h"
#include "launch/python.h"
#include "launch/reach.h"
#include "launch/shell.h"
#include "launch/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How soon an elastic gang goes on after somebody left (PyTorch itself waits 30 s for latecomers
 * and 15 s for a silent peer). Versions that do not know a key ignore it. */
#define ELASTIC_CONF "last_call_timeout=5,keep_alive_interval=2,keep_alive_max_attempt=3"

#define TORCHRUN_ARGS_MAX 40

#define EXIT_NOT_FOUND    127
#define EXIT_NOT_POSSIBLE 126 /* trying again cannot help */
#define EXIT_FOR_NOW      75  /* it may: sysexits' EX_TEMPFAIL */

static const char *env_or(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value && *value ? value : otherwise;
}

struct args {
    const char **items;
    size_t count;
    char *room;
    size_t room_bytes;
    bool full;
};

static void args_add(struct args *args, const char *item)
{
    if (args->count + 1 < TORCHRUN_ARGS_MAX)
        args->items[args->count++] = item;
    else
        args->full = true;
    args->items[args->count] = NULL;
}

/* Text made of two parts, kept in the room. */
static const char *args_join(struct args *args, const char *a, const char *b)
{
    int n = snprintf(args->room, args->room_bytes, "%s%s", a, b);
    char *text = args->room;

    if (n < 0 || (size_t)n >= args->room_bytes) {
        args->full = true;
        return "";
    }
    args->room += n + 1;
    args->room_bytes -= (size_t)n + 1;
    return text;
}

static void add_rendezvous(struct args *args)
{
    const char *backend = env_or(LAUNCH_ENV_RDZV_BACKEND, "standalone");
    const char *node_rank = env_or(LAUNCH_ENV_NODE_RANK, "0");
    const char *restart = env_or(LAUNCH_ENV_RESTART, "");
    const char *round = env_or(PLACE_ENV, "");
    const char *id = env_or(LAUNCH_ENV_RDZV_ID, "muster");
    bool standalone = strcmp(backend, "standalone") == 0;
    bool elastic = strchr(env_or(LAUNCH_ENV_NNODES, "1"), ':') != NULL;

    if (*round)
        id = args_join(args, args_join(args, id, "-p"), round);
    if (*restart)
        id = args_join(args, args_join(args, id, "-r"), restart);
    args_add(args, "--rdzv_id");
    args_add(args, id);
    args_add(args, "--rdzv_backend");
    /* Not --standalone: version 1.x then uses one fixed port on the whole host. */
    args_add(args, standalone ? "c10d" : backend);
    args_add(args, "--rdzv_endpoint");
    args_add(args,
             standalone ? "localhost:0" : env_or(LAUNCH_ENV_RDZV_ENDPOINT, "localhost:29500"));
    if (standalone || strcmp(backend, "c10d") == 0) {
        /* Version 1.x decides who hosts the store by comparing names literally: say it. */
        bool hosted = *env_or(LAUNCH_ENV_RDZV_HOSTED, "") != '\0';
        bool host = standalone || (!hosted && strcmp(node_rank, "0") == 0);

        args_add(args, "--rdzv_conf");
        args_add(args, args_join(args, host ? "is_host=1" : "is_host=0",
                                 elastic ? "," ELASTIC_CONF : ""));
    } else if (elastic) {
        args_add(args, "--rdzv_conf");
        args_add(args, ELASTIC_CONF);
    }
    if (strcmp(backend, "static") == 0) {
        args_add(args, "--node_rank");
        args_add(args, node_rank);
    }
}

/* argv for the launcher, NULL-terminated, from the environment that launch.h names. `room` holds
 * the texts it makes. */
static int torchrun_args(const struct python *python,
                         const char *self,
                         const char *items[static TORCHRUN_ARGS_MAX],
                         char *room,
                         size_t room_bytes,
                         struct err *err)
{
    struct args args = {.items = items, .room = room, .room_bytes = room_bytes};

    args_add(&args, python->path);
    args_add(&args, "-m");
    args_add(&args, "torch.distributed.run");
    args_add(&args, "--nnodes");
    args_add(&args, env_or(LAUNCH_ENV_NNODES, "1"));
    args_add(&args, "--nproc_per_node");
    args_add(&args, env_or(LAUNCH_ENV_NPROC, "1"));
    args_add(&args, "--max_restarts");
    args_add(&args, env_or(LAUNCH_ENV_MAX_RESTARTS, "0"));
    args_add(&args, "--monitor_interval");
    args_add(&args, "0.2");
    add_rendezvous(&args);
    if (python_redirects_broken(python)) {
        args_add(&args, "-r");
        args_add(&args, "9:1");
        args_add(&args, "-t");
        args_add(&args, "9:1");
    }
    args_add(&args, "--no_python");
    args_add(&args, self);
    args_add(&args, "rank");
    if (args.full)
        return err_set(err, -E2BIG, "torchrun's arguments do not fit");
    return 0;
}

/* Whether a shell would start the one that was found by that name: the same file, of the same folder,
 * which tells virtual environments apart. */
static bool python_is_named(const struct python *python, const char *name)
{
    char path[PATH_MAX];
    char real[2][PATH_MAX];
    const char *slash[2] = {NULL, strrchr(python->path, '/')};

    if (!shell_which(name, path, sizeof(path)) || !(slash[0] = strrchr(path, '/')) || !slash[1])
        return false;
    return slash[0] - path == slash[1] - python->path &&
           strncmp(path, python->path, (size_t)(slash[0] - path)) == 0 && realpath(path, real[0]) &&
           realpath(python->path, real[1]) && strcmp(real[0], real[1]) == 0;
}

/* A script `name` in that folder that starts the Python that was found, by way of one that is warm
 * where there is one. */
static int write_wrapper(const struct python *python,
                         const char *self,
                         const char *folder,
                         const char *name,
                         struct err *err)
{
    const char *slash = strrchr(python->path, '/');
    bool warm = getenv(LAUNCH_ENV_WARM) != NULL;
    char file[PATH_MAX + 16];
    char target[PATH_MAX + 16];
    int fd;

    (void)snprintf(target, sizeof(target), "%s", python->path);
    if (python->first_on_path && slash) /* by its name, as it would be without us */
        (void)snprintf(target, sizeof(target), "%.*s%s", (int)(slash + 1 - python->path),
                       python->path, name);
    (void)snprintf(file, sizeof(file), "%s/%s", folder, name);
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    int n = fd < 0 ? -1
            : warm ? dprintf(fd, "#!/bin/sh\nexec '%s' python '%s' \"$@\"\n", self, target)
                   : dprintf(fd, "#!/bin/sh\nexec '%s' \"$@\"\n", target);
    int r = n < 0 ? err_set(err, -errno, "%s: %s", file, strerrordesc_np(errno)) : 0;
    if (fd >= 0)
        close(fd);
    return r;
}

/* A `python` of our own at the front of PATH. */
static int put_on_path(const struct python *python, const char *self, struct err *err)
{
    static const char *const names[] = {"python", "python3"};
    const char *run_dir = env_or(LAUNCH_ENV_RUN_DIR, "/tmp");
    const char *path = env_or("PATH", "/usr/local/bin:/usr/bin:/bin");
    char folder[PATH_MAX];
    char *value = NULL;
    int r = 0;

    (void)snprintf(folder, sizeof(folder), "%s/bin", run_dir);
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %s", folder, strerrordesc_np(errno));
    for (size_t i = 0; r == 0 && i < 2; i++)
        if (!python->first_on_path || python_is_named(python, names[i]))
            r = write_wrapper(python, self, folder, names[i], err);
    if (r)
        return r;
    if (asprintf(&value, "%s:%s", folder, path) < 0)
        return err_set(err, -ENOMEM, "PATH is too long");
    (void)setenv("PATH", value, 1);
    free(value);
    return 0;
}

void torchrun_environment(const struct python *python)
{
    int64_t nproc = 1;

    batch_environment();
    (void)setenv("PYTHONUNBUFFERED", "1", 0); /* a log that comes when it is printed */
    (void)str_to_i64(str_from(env_or(LAUNCH_ENV_NPROC, "1")), &nproc);
    if (nproc > 1)
        (void)setenv("OMP_NUM_THREADS", "1", 0); /* what torchrun does, without its warning */
    /* Agents that share one store among rounds tell its address in the first round only: whoever
     * joins later would wait for it in vain. */
    if (strchr(env_or(LAUNCH_ENV_NNODES, "1"), ':'))
        (void)setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", 0);
    if (python_redirects_broken(python)) {
        (void)setenv("PET_REDIRECTS", "9:1", 0);
        (void)setenv("PET_TEE", "9:1", 0);
    }
}

/* What the rendezvous needs: a package that this Python has, a port, a service that answers. */
static int check_rendezvous(const struct python *python, struct err *err)
{
    const char *backend = env_or(LAUNCH_ENV_RDZV_BACKEND, "standalone");
    const char *endpoint = env_or(LAUNCH_ENV_RDZV_ENDPOINT, "");
    bool etcd = strncmp(backend, "etcd", 4) == 0;

    if (strcmp(backend, "standalone") == 0)
        return 0;
    if (!etcd && strcmp(env_or(LAUNCH_ENV_NODE_RANK, "0"), "0") == 0 &&
        !*env_or(LAUNCH_ENV_RDZV_HOSTED, ""))
        return reach_listen(endpoint, err);
    if (!etcd)
        return 0;
    if (python->has_etcd)
        return *env_or(LAUNCH_ENV_RDZV_GIVEN, "") ? reach_connect(endpoint, err) : 0;
    return err_set(err, -ENOPKG,
                   "rdzvBackend %s " LAUNCH_NO_ETCD ", which %s does not have: "
                   "put it into the image or install it in setupCommand, or use rdzvBackend c10d",
                   backend, python->path);
}

/* For the launcher, in a file of the run's folder. */
static void leave_word(const char *file, const char *text)
{
    char path[PATH_MAX];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", env_or(LAUNCH_ENV_RUN_DIR, "/tmp"), file);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)!write(fd, text, strlen(text));
    close(fd);
}

int torchrun_main(const char *self, const struct python *known)
{
    struct python python;
    const char *args[TORCHRUN_ARGS_MAX];
    char room[1024];
    struct err err = {0};
    int r = 0;

    if (known)
        python = *known;
    else
        r = python_find(&python, &err);
    if (r == 0)
        r = check_rendezvous(&python, &err);
    if (r == 0 && (!python.first_on_path || getenv(LAUNCH_ENV_WARM)))
        r = put_on_path(&python, self, &err);
    if (r == 0)
        r = torchrun_args(&python, self, args, room, sizeof(room), &err);
    if (r < 0) {
        fprintf(stderr, "muster-launch: %s\n", err.text);
        leave_word(LAUNCH_REASON_FILE, err.text); /* for the termination message */
        return r == -ENOENT || r == -ENOPKG ? EXIT_NOT_POSSIBLE : EXIT_FOR_NOW;
    }
    if (getenv(LAUNCH_ENV_RUN_DIR))
        leave_word(LAUNCH_PYTHON_FILE, python.path);
    torchrun_environment(&python);
    warm_become((char *const *)(uintptr_t)args);
    (void)execv(python.path, (char *const *)(uintptr_t)args);
    fprintf(stderr, "muster-launch: %s: %s\n", python.path, strerrordesc_np(errno));
    return EXIT_NOT_FOUND;
}
