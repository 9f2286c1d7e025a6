#include "plugin/shell.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "plugin/inside.h"
#include "plugin/job.h"
#include "plugin/kubectl.h"
#include "plugin/plugin.h"
#include "plugin/submit.h"
#include "plugin/view.h"
#include "system/errors.h"
#include "system/random.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* shell: a pod that holds GPUs while somebody is in it.
 *
 * The pod is scheduled in its queue like any other. What it runs itself is a keeper, which ends, and
 * the pod with it, soon after the last shell has: also if this program was killed or the connection
 * is lost. A shell that waits at its prompt for --idle ends by itself (TMOUT). */
#define SHELL_CONTAINER "shell"
#define SHELL_PAUSE_MS  200
#define SHELL_IMAGE     "pytorch/pytorch:latest"
#define NAME_LETTERS    5
#define SHELL_WORDS_MAX 110

/* Shells write a file named by their process. Nobody for five minutes from the start, or for ten
 * seconds since somebody was: the end. */
#define SHELL_FOLDER "/tmp/.muster-shell-$HOSTNAME"
#define SHELL_KEEPER                                                                               \
    "d=" SHELL_FOLDER "; mkdir -p \"$d\"; n=0; limit=300; trap 'exit 0' TERM; while [ $n -lt "     \
    "$limit ]; do sleep 2; n=$((n+2)); for p in \"$d\"/*; do if [ -e \"$p\" ]; then limit=10; if " \
    "kill -0 \"${p##*/}\" 2>/dev/null; then n=0; else rm -f \"$p\"; fi; fi; done; done; rm -rf "   \
    "\"$d\""
#define SHELL_ENTER                                                                                \
    "d=" SHELL_FOLDER                                                                              \
    "; mkdir -p \"$d\"; : > \"$d/$$\"; cd \"$1\" 2>/dev/null; export TMOUT=\"$2\"; "               \
    "shift 2; if [ $# -gt 0 ]; then exec \"$@\"; elif command -v bash >/dev/null; then exec bash " \
    "-i; else exec sh -i; fi"

struct shell_values {
    struct common_values common;
    int64_t gpus;
    const char *queue;
    const char *image;
    const char *priority;
    const char *time;
    int64_t idle_ms;
};

static const struct option shell_options[] = {
    COMMON_OPTIONS,
    {"gpus", 'g', OPTION_I64, offsetof(struct shell_values, gpus), .fallback = "1", .min = 0,
     .max = 1024, .value = "N", .help = "number of GPUs, all on one node", .flag_only = true},
    {"queue", 'q', OPTION_STR, offsetof(struct shell_values, queue), .value = "QUEUE",
     .help = "TorchrunQueue to run in (default: the only one, or the one named default)"},
    {"idle", 0, OPTION_DURATION, offsetof(struct shell_values, idle_ms), .fallback = "1h",
     .value = "DURATION", .help = "end a shell that waited at its prompt for so long (0s: never)",
     .flag_only = true},
    {"time", 't', OPTION_STR, offsetof(struct shell_values, time), .value = "DURATION",
     .help = "end it after so long in any case, such as 8h", .flag_only = true},
    {"image", 0, OPTION_STR, offsetof(struct shell_values, image), .value = "IMAGE",
     .help = "image of the container (default: the queue's)", .flag_only = true},
    {"priority", 0, OPTION_STR, offsetof(struct shell_values, priority), .value = "CLASS",
     .help = "PriorityClass of the pod", .flag_only = true},
    {0},
};

struct json *shell_pod(struct arena *arena, const struct shell_request *request)
{
    struct json *pod = json_make(
        arena,
        "{apiVersion: 'v1', kind: 'Pod', metadata: {name: $, namespace: $, labels: "
        "{app: 'muster-shell', kai.scheduler/queue: $}}, spec: {schedulerName: $, restartPolicy: "
        "'Never', terminationGracePeriodSeconds: 2, containers: [{name: $, image: $, command: "
        "['sh', '-c', $]}]}}",
        request->name, request->ns, request->queue, request->scheduler, SHELL_CONTAINER,
        request->image, SHELL_KEEPER);
    struct json *spec = json_get(pod, "spec");
    struct json *container = json_at(spec, "containers.0");

    if (request->gpus)
        json_add_str(arena, json_make_path(arena, container, "resources.limits"), "nvidia.com/gpu",
                     str_printf(arena, "%lld", (long long)request->gpus));
    if (request->priority)
        json_add_c(arena, spec, "priorityClassName", request->priority);
    if (request->limit_s)
        json_add_i64(arena, spec, "activeDeadlineSeconds", request->limit_s);
    if (request->folder) {
        json_fill(arena, spec,
                  "{volumes: [{name: 'folder', hostPath: {path: $, type: 'Directory'}}]}",
                  request->folder);
        json_fill(arena, container, "{volumeMounts: [{name: 'folder', mountPath: $}]}",
                  request->folder);
    }
    return pod;
}

static const char *shell_name(struct arena *arena)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    unsigned char random[NAME_LETTERS];
    char name[] = "shell-xxxxx";

    if (!random_bytes(random, sizeof(random)))
        memset(random, getpid() & 255, sizeof(random));
    for (size_t i = 0; i < NAME_LETTERS; i++)
        name[6 + i] = letters[random[i] % (sizeof(letters) - 1)];
    return str_c(arena, str_from(name));
}

/* What the queue says of pods: the scheduling queue, and the image. */
static int shell_read_queue(struct session *session,
                            const char *name,
                            struct shell_request *request,
                            struct err *err)
{
    _cleanup_(object_unrefp) struct object *queue = NULL;
    int r = session_get(session, &kind_torchrunqueue, name, &queue, err);

    if (r < 0)
        return r;
    const struct json *tree = object_json(queue, &session->arena);
    struct str kai = json_str_at(tree, "spec.kaiQueue");
    struct str image = json_str_at(tree, "spec.image");
    struct str scheduler = json_str_at(tree, "spec.scheduling.scheduler");
    if (!kai.len)
        kai = json_str_at(tree, "spec.queue.name");
    if (!image.len)
        image = json_str_at(tree, "spec.podTemplate.spec.containers.0.image");
    request->queue = str_c(&session->arena, kai.len ? kai : str_from(name));
    request->scheduler = str_c(&session->arena, scheduler.len ? scheduler : STR("kai-scheduler"));
    if (!request->image)
        request->image = str_c(&session->arena, image.len ? image : STR(SHELL_IMAGE));
    return 0;
}

static void shell_delete(struct session *session, const char *name)
{
    struct err why = {0};
    int r =
        session_call(session,
                     &(struct api_request){.verb = API_DELETE,
                                           .kind = &kind_pod,
                                           .ns = str_from(session->config.ns),
                                           .name = str_from(name),
                                           .body = STR("{\"propagationPolicy\":\"Background\"}")},
                     NULL, &why);

    if (r < 0 && why.http_status != 404)
        session_say(session, "pod %s could not be deleted (%s); it ends by itself", name, why.text);
}

static volatile sig_atomic_t shell_interrupted;

static void shell_on_signal(int number)
{
    shell_interrupted = number;
}

/* Until its container runs; what it waits for is said once each. */
static int shell_await(struct session *session, const char *name, struct err *err)
{
    struct str told = STR_NONE;
    _cleanup_(arena_done) struct arena kept = {0};

    while (!shell_interrupted) {
        _cleanup_(object_unrefp) struct object *pod = NULL;
        int r = session_get(session, &kind_pod, name, &pod, err);

        if (r < 0)
            return r;
        const struct json *tree = object_json(pod, &session->arena);
        struct str phase = json_str_at(tree, "status.phase");
        struct str words = view_pod_words(&session->arena, tree);
        if (str_is(phase, "Running"))
            return 0;
        if (str_is(phase, "Failed") || str_is(phase, "Succeeded"))
            return err_set(err, -ECHILD, "pod %s has ended: " STR_FMT, name, STR_ARG(words));
        if (words.len && !str_eq(words, told)) {
            told = str_dup(&kept, words);
            session_say(session, STR_FMT, STR_ARG(words));
        }
        arena_done(&session->arena);
        session_pause(session, SHELL_PAUSE_MS);
    }
    return err_set(err, -EINTR, "interrupted");
}

static int shell_without_kubectl(struct session *session,
                                 const struct invocation *invocation,
                                 const char *name,
                                 const char *folder,
                                 struct err *err)
{
    const struct shell_values *v = invocation->values;
    const char *words[SHELL_WORDS_MAX] = {
        "sh",
        "-c",
        SHELL_ENTER,
        "sh",
        folder ? folder : ".",
        str_printf(&session->arena, "%lld", (long long)(v->idle_ms / 1000)).p};
    size_t count = 6;

    for (size_t i = 0; i < invocation->arg_count && count < SHELL_WORDS_MAX; i++)
        words[count++] = invocation->args[i];
    return inside_become(
        session,
        &(struct inside_command){.pod = name,
                                 .container = SHELL_CONTAINER,
                                 .words = words,
                                 .count = count,
                                 .input = true,
                                 .tty = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
                                 .stop = &shell_interrupted},
        err);
}

/* kubectl exec, and its exit status. */
static int shell_enter(struct session *session,
                       const struct invocation *invocation,
                       const char *name,
                       const char *folder,
                       struct err *err)
{
    const struct shell_values *v = invocation->values;
    struct kubectl_args args = {0};
    int status = 0;

    if (kubectl_find(NULL) < 0)
        return shell_without_kubectl(session, invocation, name, folder, err);
    kubectl_begin(&args, session, "exec");
    kubectl_add(&args, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? "-it" : "-i");
    kubectl_add(&args, name);
    kubectl_add(&args, "--");
    kubectl_add(&args, "sh");
    kubectl_add(&args, "-c");
    kubectl_add(&args, SHELL_ENTER);
    kubectl_add(&args, "sh");
    kubectl_add(&args, folder ? folder : ".");
    kubectl_add(&args, str_printf(&session->arena, "%lld", (long long)(v->idle_ms / 1000)).p);
    for (size_t i = 0; i < invocation->arg_count; i++)
        kubectl_add(&args, invocation->args[i]);
    pid_t child = fork();
    if (child < 0)
        return err_set(err, -errno, "cannot start kubectl: %s", errno_words(errno));
    if (child == 0) {
        (void)kubectl_become(&args, err);
        (void)fprintf(stderr, "%s\n", err->text);
        _exit(127);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int shell_prepare(struct session *session,
                         const struct shell_values *v,
                         struct shell_request *request,
                         struct err *err)
{
    const char *queue = v->queue;
    char folder[PATH_MAX];
    int64_t ms = 0;
    int r = v->time ? submit_time(v->time, &ms, err) : 0;

    if (r == 0)
        r = precheck_choose_queue(session, &queue, err);
    *request = (struct shell_request){.name = shell_name(&session->arena),
                                      .ns = session->config.ns,
                                      .image = v->image,
                                      .priority = v->priority,
                                      .gpus = v->gpus,
                                      .limit_s = (ms + 999) / 1000};
    if (r == 0)
        r = shell_read_queue(session, queue, request, err);
    if (r == 0 && session_is_local(session) && getcwd(folder, sizeof(folder)) &&
        strcmp(folder, "/") != 0)
        request->folder = str_c(&session->arena, str_from(folder));
    return r;
}

static int shell_go(struct session *session, const struct invocation *invocation, struct err *err)
{
    _cleanup_(arena_done) struct arena kept = {0}; /* the session's is emptied while it waits */
    struct shell_request request;
    int r = shell_prepare(session, invocation->values, &request, err);

    if (r < 0)
        return r;
    const char *name = str_c(&kept, str_from(request.name));
    const char *folder = request.folder ? str_c(&kept, str_from(request.folder)) : NULL;
    r = session_call(session,
                     &(struct api_request){
                         .verb = API_CREATE,
                         .kind = &kind_pod,
                         .ns = str_from(session->config.ns),
                         .body = json_text(&session->arena, shell_pod(&session->arena, &request)),
                         .strict_fields = true},
                     NULL, err);
    if (r < 0)
        return r;
    session_say(session, "pod %s asks for %lld GPU%s in queue %s", name, (long long)request.gpus,
                request.gpus == 1 ? "" : "s", request.queue);
    (void)signal(SIGINT, shell_on_signal);
    (void)signal(SIGTERM, shell_on_signal);
    (void)signal(SIGHUP, shell_on_signal);
    r = shell_await(session, name, err);
    if (r == 0)
        r = shell_enter(session, invocation, name, folder, err);
    shell_delete(session, name);
    return r == -EINTR ? 128 + shell_interrupted : r;
}

static int shell_run(struct invocation *invocation)
{
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = shell_go(&session, invocation, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_shell = {
    .name = "shell",
    .summary = "open a shell on GPUs of a queue; they are given back when it ends",
    .usage = "[-- COMMAND...]",
    .about =
        "Makes a pod in the queue, waits for its GPUs and opens a shell in it. On "
        "one's own machine the current folder is the same in the pod. The pod is deleted when the "
        "shell ends, and ends by itself if this program is killed.",
    .example = "muster shell --gpus 1\nmuster shell --gpus 2 --idle 30m -- python -i setup.py",
    .options = shell_options,
    .values_size = sizeof(struct shell_values),
    .args_max = 100,
    .run = shell_run,
};
