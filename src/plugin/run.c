#include "plugin/run.h"

#include "api/api.h"
#include "api/gpus.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/job.h"
#include "plugin/local.h"
#include "plugin/plugin.h"
#include "plugin/precheck.h"
#include "plugin/sbatch.h"
#include "plugin/submit.h"
#include "system/errors.h"
#include "tool/file.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    {"gpus", 'g', OPTION_I64, offsetof(struct submit_values, gpus), .min = 1, .max = 1000000,
     .value = "N", .help = "number of GPUs, and of ranks (default: 1, or what the script asks for)",
     .flag_only = true, .also = "nproc-per-node"},
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

/* Words of torchrun and sbatch that have no place here. */
static const struct option_hint run_hints[] = {
    {"nodes", "`run` is for this machine: --gpus N; `submit --nodes N` is for a cluster"},
    {"nnodes", "`run` is for this machine: --gpus N; `submit --nodes N` is for a cluster"},
    {"standalone", "torchrun is started for you: leave it out"},
    {"rdzv-backend", "torchrun is started for you: leave it out"},
    {"rdzv-endpoint", "torchrun is started for you: leave it out"},
    {"master-port", "torchrun is started for you: leave it out"},
    {"master-addr", "torchrun is started for you: leave it out"},
    {"partition", "--queue QUEUE; `muster queues` lists them"},
    {"mem", "--memory, for a pod with all GPUs of its node"},
    {NULL, NULL},
};

/* A script that a shell runs, once, as sbatch does: what starts a rank for each GPU stands in it. */
static bool run_is_shell(const char *script)
{
    static const char *const ends[] = {".sh", ".bash", ".sbatch", ".slurm"};

    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (str_ends(str_from(script), str_from(ends[i])) && strlen(script) > strlen(ends[i]))
            return true;
    return false;
}

int run_command_text(struct arena *arena,
                     const struct run_words *words,
                     struct str *ret,
                     struct err *err)
{
    const char **all = ARENA_ARRAY(arena, const char *, words->count + 3);
    size_t n = 0;
    size_t len = words->count ? strlen(words->args[0]) : 0;
    bool script = len > 3 && strcmp(words->args[0] + len - 3, ".py") == 0;
    bool shell = !words->dashed && !words->module && words->count && run_is_shell(words->args[0]);

    if (words->count == 0)
        return err_set(err, -EINVAL,
                       "a script to run is needed, like train.py, or -m MODULE, or -- COMMAND");
    if (words->dashed && words->module)
        return err_set(err, -EINVAL, "-m MODULE and -- COMMAND exclude each other");
    if (!words->dashed && !words->module && !script && !shell)
        return err_set(
            err, -EINVAL,
            "'%.80s' is neither a Python script nor a shell script (.py, .sh); -m runs a module, "
            "and any command stands behind --",
            words->args[0]);
    if (!words->dashed)
        all[n++] = shell ? "bash" : "python";
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
 * place may be another one when the job starts. One beside the folder (../train.py) is where it is: there is nothing beside its copy. */
const char *run_script(struct arena *arena, const char *folder, const char *script)
{
    bool leaves = strncmp(script, "../", 3) == 0 || strstr(script, "/../");
    const char *from = script[0] == '/' ? script : str_printf(arena, "%s/%s", folder, script).p;
    const char *slash = strrchr(from, '/');
    char whole[PATH_MAX];
    char place[PATH_MAX];

    if ((script[0] != '/' && !leaves) || !realpath(folder, whole) ||
        !realpath(slash == from ? "/" : str_printf(arena, "%.*s", (int)(slash - from), from).p,
                  place))
        return script;
    const char *all = str_printf(arena, "%s/%s", strcmp(place, "/") == 0 ? "" : place, slash + 1).p;
    const char *inside = run_inside(whole, all);
    return inside ? inside : leaves ? all : script;
}

/* GPUs of the largest node, once there is a node, and whether they are simulated. */
static int run_machine_gpus(struct session *session,
                            int64_t *ret,
                            bool *ret_simulated,
                            struct err *err)
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
                gpus_of(json_at(object_json(nodes[i], &session->arena), "status.allocatable"));

            if (gpus > *ret) {
                *ret = gpus;
                *ret_simulated =
                    str_is(object_label(nodes[i], SUSPEND_LABEL), SUSPEND_LABEL_FREEZE);
            }
        }
        if (count)
            return 0;
        session_pause(session, NODES_PAUSE_MS);
    }
    return err_set(err, -ETIMEDOUT, "no node has registered; `muster doctor` says what is missing");
}

/* The name of what another one makes at this moment is taken before the list has it. */
static int run_await_queue(struct session *session, struct err *err)
{
    for (int tries = 0; tries < NODES_TRIES; tries++) {
        const struct object **queues;
        size_t count;
        int r = session_list(session, &kind_torchrunqueue, session->config.ns, NULL, &queues,
                             &count, err);

        if (r < 0 || count)
            return r;
        session_pause(session, NODES_PAUSE_MS);
    }
    return 0;
}

/* A queue the size of the machine, where there is none at all. */
static int run_make_queue(struct session *session, struct err *err)
{
    const struct object **queues;
    size_t count;
    bool simulated = false;
    int64_t gpus = 0;
    int r =
        session_list(session, &kind_torchrunqueue, session->config.ns, NULL, &queues, &count, err);

    if (r < 0 || count)
        return r;
    r = run_machine_gpus(session, &gpus, &simulated, err);
    if (r < 0)
        return r;
    if (gpus == 0)
        return err_set(err, -ENODEV,
                       "the muster of this machine has no GPU; start it with `muster up "
                       "--gpus-per-node 8` to simulate some");
    r = session_call(
        session,
        &(struct api_request){
            .verb = API_CREATE,
            .kind = &kind_torchrunqueue,
            .ns = str_from(session->config.ns),
            .body =
                str_printf(&session->arena,
                           "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunQueue\","
                           "\"metadata\":{\"name\":\"default\"},\"spec\":{\"kaiQueue\":\"default\","
                           "\"nodeResources\":{\"gpus\":%lld}}}",
                           (long long)gpus)},
        NULL, err);
    if (r < 0 && err->http_status == 409)
        return run_await_queue(session, err); /* another one was quicker */
    if (r == 0 && simulated)
        session_say(
            session,
            "queue default was made, with %lld simulated GPUs: this machine has none (no NVIDIA "
            "driver was found; `muster doctor` says more). Ranks run on the CPU.",
            (long long)gpus);
    else if (r == 0)
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

/* Nothing hangs on it: a server without a page has no link. */
static void run_say_page(struct session *session)
{
    const char *link;

    /* It is as good as a password for ten minutes: no file is to have it. */
    if (!session->err.live)
        session_say(session, "the page: `%s open`", session->program);
    else if (open_link(session, &link, NULL) == 0)
        session_say(session, "the page: %s (good once; `%s open` makes another)", link,
                    session->program);
}

/* What this shell has for programs that train, and the job does not: it would ask, or upload nothing. */
static void run_say_keys(struct session *session, const struct submit_values *values)
{
    static const char *const names[] = {"WANDB_API_KEY",          "HF_TOKEN",
                                        "HUGGING_FACE_HUB_TOKEN", "COMET_API_KEY",
                                        "NEPTUNE_API_TOKEN",      "MLFLOW_TRACKING_URI"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t len = strlen(names[i]);
        bool passed = false;

        for (size_t k = 0; k < values->env.count; k++)
            passed = passed || (strncmp(values->env.items[k], names[i], len) == 0 &&
                                (!values->env.items[k][len] || values->env.items[k][len] == '='));
        if (getenv(names[i]) && !passed)
            session_say(session,
                        "note: %s is set here, and the job does not get it: --env %s passes it on",
                        names[i], names[i]);
    }
}

/* Memory and CPUs of sbatch are those of the job; ours are of a pod with all GPUs of its node. */
static int run_take_amounts(struct session *session,
                            const struct sbatch *sbatch,
                            struct submit_values *v,
                            struct err *err)
{
    struct arena *arena = &session->arena;
    struct object *queue = NULL;
    int64_t whole = v->gpus;

    if (!sbatch->memory_bytes && !sbatch->cpus)
        return 0;
    int r = precheck_choose_queue(session, &v->queue, err);
    if (r < 0)
        return r;
    if (session_get(session, &kind_torchrunqueue, v->queue, &queue, NULL) == 0) {
        arena_defer(arena, object_release, queue);
        whole = json_i64_or(json_at(object_json(queue, arena), "spec.nodeResources.gpus"), v->gpus);
    }
    if (whole < v->gpus)
        whole = v->gpus;
    if (!v->memory && sbatch->memory_bytes)
        v->memory =
            str_printf(arena, "%lldMi",
                       (long long)((__int128)(sbatch->memory_bytes >> 20) * whole / v->gpus))
                .p;
    if (!v->cpus && sbatch->cpus)
        v->cpus =
            str_printf(arena, "%lldm", (long long)((__int128)sbatch->cpus * 1000 * whole / v->gpus))
                .p;
    return 0;
}

static int run_go(struct session *session,
                  struct submit_values *values,
                  const struct sbatch *sbatch,
                  struct str command,
                  struct err *err)
{
    int r = values->queue ? 0 : run_make_queue(session, err);

    if (r == 0)
        r = run_take_amounts(session, sbatch, values, err);
    if (r < 0)
        return r;
    if (session_is_local(session))
        run_add_environment(&session->arena, values);
    values->kept_seconds = KEPT_SECONDS;
    run_say_keys(session, values);
    run_say_page(session);
    return submit_go(session, values, command, true, err);
}

/* What is not there would wait in line, and then fail. */
static int run_check_script(struct arena *arena,
                            const char *folder,
                            const char *script,
                            struct err *err)
{
    const char *path = script[0] == '/' ? script : str_printf(arena, "%s/%s", folder, script).p;
    struct stat st;

    if (stat(path, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, errno_words(errno));
    return S_ISDIR(st.st_mode) ? err_set(err, -EISDIR, "%s is a folder, and not a script", path)
                               : 0;
}

/* What the script's #SBATCH lines ask for, where no flag says otherwise. */
static int run_take_sbatch(struct arena *arena,
                           const char *path,
                           struct submit_values *v,
                           struct sbatch *sbatch,
                           struct err *err)
{
    struct str text;
    int r = file_read(arena, path, &text, err);

    if (r == 0)
        r = sbatch_read(arena, text, sbatch, err);
    if (r < 0)
        return err_wrap(err, r, "%s", path);
    v->gpus = v->gpus ? v->gpus : sbatch->gpus;
    v->name = v->name ? v->name : sbatch->name;
    v->time = v->time ? v->time : sbatch->time;
    v->array = v->array ? v->array : sbatch->array;
    v->dir = v->dir ? v->dir : sbatch->folder;
    v->requeue = v->requeue || (sbatch->requeue && v->time);
    for (size_t i = 0; i < sbatch->env.count; i++)
        VEC_PUSH(arena, &v->env, sbatch->env.items[i]);
    for (size_t i = 0; i < sbatch->after.count; i++)
        VEC_PUSH(arena, &v->after, sbatch->after.items[i]);
    /* One process runs it, as a batch script; torchrun in it starts the ranks. */
    v->one_rank = true;
    VEC_PUSH(arena, &v->env, "SLURM_NNODES=1");
    VEC_PUSH(arena, &v->env,
             str_printf(arena, "SLURM_GPUS_ON_NODE=%lld", (long long)(v->gpus ? v->gpus : 1)).p);
    if (v->name)
        VEC_PUSH(arena, &v->env, str_printf(arena, "SLURM_JOB_NAME=%s", v->name).p);
    if (sbatch->task_cpus)
        VEC_PUSH(arena, &v->env,
                 str_printf(arena, "SLURM_CPUS_PER_TASK=%lld", (long long)sbatch->task_cpus).p);
    for (size_t i = 0; i < sbatch->unread.count; i++)
        (void)fprintf(stderr,
                      "note: %s: #SBATCH %s is not read; `muster run --help` has what there is\n",
                      path, sbatch->unread.items[i]);
    return 0;
}

/* What lies beside the folder has no place beside its copy. */
static void run_note_beside(const char *folder, const char *const *args, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *equals = args[i][0] == '-' ? strchr(args[i], '=') : NULL;
        const char *path = equals ? equals + 1 : args[i];
        char from[PATH_MAX];

        (void)snprintf(from, sizeof(from), "%s/%s", folder, path);
        if (strncmp(path, "../", 3) == 0 && access(from, F_OK) == 0)
            (void)fprintf(stderr,
                          "note: %s is beside the folder that is sent, and the job has no such "
                          "file: --dir .. sends the folder above, or give its whole path\n",
                          path);
    }
}

static int run_prepare(struct invocation *invocation,
                       const char **args,
                       struct sbatch *sbatch,
                       struct str *command,
                       struct err *err)
{
    struct submit_values *values = invocation->values;
    struct arena *arena = invocation->arena;
    bool script = invocation->arg_count && !invocation->dash_count && !values->module;
    const struct run_words words = {.args = args,
                                    .count = invocation->arg_count,
                                    .dashed = invocation->dash_count > 0,
                                    .module = values->module};
    const char *folder = values->dir ? values->dir : ".";
    int r = 0;

    if (script && !values->no_workspace)
        args[0] = run_script(arena, folder, args[0]);
    r = run_command_text(arena, &words, command, err);
    if (r == 0 && script && !values->no_workspace)
        r = run_check_script(arena, folder, args[0], err);
    if (r == 0 && script && !values->no_workspace && run_is_shell(args[0]))
        r = run_take_sbatch(
            arena, args[0][0] == '/' ? args[0] : str_printf(arena, "%s/%s", folder, args[0]).p,
            values, sbatch, err);
    if (r == 0 && !invocation->dash_count && !values->no_workspace && invocation->arg_count)
        run_note_beside(folder, args + 1, invocation->arg_count - 1);
    values->gpus = values->gpus ? values->gpus : 1;
    return r;
}

static int run_run(struct invocation *invocation)
{
    struct submit_values *values = invocation->values;
    struct session session = session_closed(invocation);
    struct err err = {0};
    struct str command = STR_NONE;
    struct sbatch sbatch = {0};
    const char **args = ARENA_ARRAY(invocation->arena, const char *, invocation->arg_count + 1);

    for (size_t i = 0; i < invocation->arg_count; i++)
        args[i] = invocation->args[i];
    int status = run_prepare(invocation, args, &sbatch, &command, &err);

    if (status < 0) {
        (void)session_fail(&session, &err);
        return EXIT_USAGE;
    }
    status = session_open_at(&session, invocation, SESSION_HERE, &err);
    if (status == 0)
        status = run_go(&session, values, &sbatch, command, &err);
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
    .usage = "SCRIPT.py [ARGS...] | SCRIPT.sh [ARGS...] | -m MODULE [ARGS...] | -- COMMAND...",
    .about =
        "Finds the muster of this machine, or starts one of your own, which ends when it has "
        "had no work for " LOCAL_IDLE ". Sends the folder, waits until the GPUs are free, runs the "
        "script with torchrun on each, shows what the ranks print, copies what it wrote back into "
        "the folder and ends with its exit status. Ctrl-C asks; Ctrl-C again cancels the job. A "
        "shell script "
        "runs once, as with sbatch, and its #SBATCH lines are read.",
    .hints = run_hints,
    .example = "muster run --gpus 2 train.py --lr 0.1\nmuster run --gpus 2 -m mypackage.train\n"
               "muster run train.sh\n"
               "muster run -- nvidia-smi",
    .options = run_options,
    .values_size = sizeof(struct submit_values),
    .args_max = 1000,
    .wraps = true,
    .run = run_run,
};
