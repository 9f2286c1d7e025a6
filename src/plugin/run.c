#include "plugin/run.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/job.h"
#include "plugin/local.h"
#include "plugin/plugin.h"
#include "plugin/submit.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* run: a script on this machine's GPUs, as torchrun would run it, but in a queue.
 *
 * What serves this machine is found, or started; a queue the size of the machine is made where
 * there is none; the rest is `submit`. */
#define NODES_TRIES    100
#define NODES_PAUSE_MS 100
#define KEPT_SECONDS   (7 * 24 * 3600)

static const struct option run_options[] = {
    COMMON_OPTIONS,
    {"gpus", 'g', OPTION_I64, offsetof(struct submit_values, gpus), .fallback = "1", .min = 1,
     .max = 1000000, .value = "N", .help = "number of GPUs, and of ranks", .flag_only = true},
    {"module", 'm', OPTION_BOOL, offsetof(struct submit_values, module),
     .help = "run a module instead of a script, as python -m does", .flag_only = true},
    {"queue", 'q', OPTION_STR, offsetof(struct submit_values, queue), .value = "QUEUE",
     .help = "queue to run in (default: the only one; it is made if there is none)"},
    SUBMIT_OPTIONS,
    {"no-workspace", 0, OPTION_BOOL, offsetof(struct submit_values, no_workspace),
     .help = "send no folder", .flag_only = true},
    {"detach", 0, OPTION_BOOL, offsetof(struct submit_values, detach),
     .help = "return once the job is submitted", .flag_only = true},
    {"follow", 0, OPTION_BOOL, offsetof(struct submit_values, follow), .fallback = "true",
     .help = "show the logs and return the training's exit status", .flag_only = true},
    {0},
};

int run_command_text(struct arena *arena,
                     const struct run_words *words,
                     struct str *ret,
                     struct err *err)
{
    const char **all = ARENA_ARRAY(arena, const char *, words->count + 3);
    size_t n = 0;
    size_t len = words->count ? strlen(words->args[0]) : 0;
    bool script = len > 3 && strcmp(words->args[0] + len - 3, ".py") == 0;

    if (words->count == 0)
        return err_set(err, -EINVAL,
                       "a script to run is needed, like train.py, or -m MODULE, or -- COMMAND");
    if (words->dashed && words->module)
        return err_set(err, -EINVAL, "-m MODULE and -- COMMAND exclude each other");
    if (!words->dashed && !words->module && !script)
        return err_set(err, -EINVAL,
                       "'%.80s' is not a Python script; -m runs a module, and any command stands "
                       "behind --",
                       words->args[0]);
    if (!words->dashed)
        all[n++] = "python";
    if (words->module)
        all[n++] = "-m";
    for (size_t i = 0; i < words->count; i++)
        all[n++] = words->args[i];
    /* One argument behind "--" is a line for the shell, as for submit. */
    *ret = words->dashed ? job_command(arena, all, n) : job_words(arena, all, n);
    return 0;
}

const char *run_inside(const char *folder, const char *script)
{
    size_t len = strlen(folder);

    while (len > 0 && folder[len - 1] == '/')
        len--;
    return strncmp(script, folder, len) == 0 && script[len] == '/' && script[len + 1]
               ? script + len + 1
               : NULL;
}

/* A script with its whole path is the one that is sent, where it is in the folder; the file in its
 * place may be another one when the job starts. */
static const char *run_script(struct arena *arena, const char *folder, const char *script)
{
    char whole[PATH_MAX];
    char place[PATH_MAX];
    const char *slash = strrchr(script, '/');
    const char *inside;

    if (script[0] != '/' || !realpath(folder, whole) ||
        !realpath(slash == script ? "/"
                                  : str_printf(arena, "%.*s", (int)(slash - script), script).p,
                  place))
        return script;
    inside = run_inside(whole, str_printf(arena, "%s/%s", place, slash + 1).p);
    return inside ? str_printf(arena, "%s", inside).p : script;
}

/* GPUs of the largest node, once there is a node. */
static int run_machine_gpus(struct session *session, int64_t *ret, struct err *err)
{
    for (int tries = 0; tries < NODES_TRIES; tries++) {
        const struct object **nodes;
        size_t count;
        int r = session_list(session, &kind_node, "*", NULL, &nodes, &count, err);

        if (r < 0)
            return r;
        *ret = 0;
        for (size_t i = 0; i < count; i++) {
            int64_t gpus =
                job_gpus(json_at(object_json(nodes[i], &session->arena), "status.allocatable"));

            *ret = gpus > *ret ? gpus : *ret;
        }
        if (count)
            return 0;
        session_pause(session, NODES_PAUSE_MS);
    }
    return err_set(err, -ETIMEDOUT, "no node has registered; `muster doctor` says what is missing");
}

/* A queue the size of the machine, where there is none at all. */
static int run_make_queue(struct session *session, struct err *err)
{
    const struct object **queues;
    size_t count;
    int64_t gpus = 0;
    int r =
        session_list(session, &kind_torchrunqueue, session->config.ns, NULL, &queues, &count, err);

    if (r < 0 || count)
        return r;
    r = run_machine_gpus(session, &gpus, err);
    if (r < 0)
        return r;
    if (gpus == 0)
        return err_set(err, -ENODEV,
                       "the muster of this machine has no GPU; start it with `muster up "
                       "--gpus-per-node 8` to simulate some");
    r = session_call(session,
                     &(struct api_request){
                         .verb = API_CREATE,
                         .kind = &kind_torchrunqueue,
                         .ns = str_from(session->config.ns),
                         .body = str_printf(
                             &session->arena,
                             "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunQueue\","
                             "\"metadata\":{\"name\":\"default\"},\"spec\":{\"nodeResources\":"
                             "{\"gpus\":%lld}}}",
                             (long long)gpus)},
                     NULL, err);
    if (r < 0 && err->http_status == 409)
        return 0; /* another one was quicker */
    if (r == 0)
        session_say(session, "queue default was made, with the %lld GPUs of this machine",
                    (long long)gpus);
    return r;
}

/* What makes Python the person's own goes along: the muster may have been started elsewhere. */
static void run_add_environment(struct arena *arena, struct submit_values *values)
{
    static const char *const names[] = {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"};
    struct option_list all = {0};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (getenv(names[i]))
            VEC_PUSH(arena, &all, names[i]);
    for (size_t i = 0; i < values->env.count; i++)
        VEC_PUSH(arena, &all, values->env.items[i]);
    values->env = all;
}

static int run_go(struct session *session,
                  struct submit_values *values,
                  struct str command,
                  struct err *err)
{
    int r = values->queue ? 0 : run_make_queue(session, err);

    if (r < 0)
        return r;
    if (session_is_local(session))
        run_add_environment(&session->arena, values);
    values->kept_seconds = KEPT_SECONDS;
    return submit_go(session, values, command, true, err);
}

static int run_run(struct invocation *invocation)
{
    struct submit_values *values = invocation->values;
    struct session session = session_closed(invocation);
    struct err err = {0};
    struct str command = STR_NONE;
    const char **args = ARENA_ARRAY(invocation->arena, const char *, invocation->arg_count + 1);

    for (size_t i = 0; i < invocation->arg_count; i++)
        args[i] = invocation->args[i];
    if (invocation->arg_count && !invocation->dash_count && !values->module &&
        !values->no_workspace)
        args[0] = run_script(invocation->arena, values->dir ? values->dir : ".", args[0]);
    int status = run_command_text(invocation->arena,
                                  &(struct run_words){.args = args,
                                                      .count = invocation->arg_count,
                                                      .dashed = invocation->dash_count > 0,
                                                      .module = values->module},
                                  &command, &err);

    if (status < 0) {
        (void)session_fail(&session, &err);
        return EXIT_USAGE;
    }
    status = session_open_at(&session, invocation, SESSION_HERE, &err);
    if (status == 0)
        status = run_go(&session, values, command, &err);
    if (status < 0) {
        bool interrupted = status == -EINTR;

        status = session_fail(&session, &err);
        status = interrupted ? 128 + SIGINT : status;
    }
    session_close(&session);
    return status;
}

const struct command command_run = {
    .name = "run",
    .summary = "run a script on GPUs of this machine, and bring home what it writes",
    .usage = "SCRIPT.py [ARGS...] | -m MODULE [ARGS...] | -- COMMAND...",
    .about =
        "Finds the muster of this machine, or starts one of your own, which ends when it has "
        "had no work for " LOCAL_IDLE ". Sends the folder, waits until the GPUs are free, runs the "
        "script with torchrun on each, shows what the ranks print, copies what it wrote back into "
        "the folder and ends with its exit status. Ctrl-C asks; Ctrl-C again cancels the job.",
    .example = "muster run --gpus 2 train.py --lr 0.1\nmuster run --gpus 2 -m mypackage.train\n"
               "muster run -- nvidia-smi",
    .options = run_options,
    .values_size = sizeof(struct submit_values),
    .args_max = 1000,
    .wraps = true,
    .run = run_run,
};
