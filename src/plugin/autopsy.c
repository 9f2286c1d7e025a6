#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "kube/inside.h"
#include "plugin/autopsy_view.h"
#include "plugin/job.h"
#include "plugin/kubectl.h"
#include "plugin/plugin.h"
#include "plugin/spent.h"
#include "system/errors.h"
#include "tool/clock.h"
#include "tool/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* autopsy: what every rank of a job is doing right now. `muster up` reads the stacks itself
 * (pods/stacks); on any other cluster muster-launch does, inside a pod that has it, through exec. */
#define ASK_MS     30000
#define TRIES_MAX  20 /* somebody else is asking, or a container has just ended */
#define TRY_MS     250
#define ANSWER_MAX ((size_t)32 << 20)

struct autopsy_values {
    struct common_values common;
    bool all;
    int output;
    const char *save;
};

static const char *const autopsy_outputs[] = {"table", "json", NULL};

static const struct option autopsy_options[] = {
    COMMON_OPTIONS,
    {"all", 'a', OPTION_BOOL, offsetof(struct autopsy_values, all),
     .help = "also every other thread, and the processes that ranks have started",
     .flag_only = true},
    {"output", 'o', OPTION_CHOICE, offsetof(struct autopsy_values, output), .fallback = "table",
     .choices = autopsy_outputs, .help = "table, or json: everything that is known",
     .flag_only = true},
    {"save", 0, OPTION_STR, offsetof(struct autopsy_values, save), .value = "PATH",
     .help = "write the json to this file; to a folder: JOB.json and JOB.txt", .flag_only = true},
    {0},
};

/* ---- which pods ---- */

/* Its controller is a job of that name, or one of a JobSet's. */
static bool is_own(const struct object *pod, const char *job)
{
    const struct object_owner *owner = object_controller(pod);
    size_t len = strlen(job);

    return owner && spent_kind_of(owner->api_version, owner->kind) &&
           str_starts(owner->name, str_from(job)) &&
           (owner->name.len == len || owner->name.p[len] == '-');
}

/* The job's companion, which brings its folder, is no rank; nor is a spare that waits. */
static size_t drop_others(const struct object **pods, size_t count, const char *job)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (is_own(pods[i], job) && !str_is(object_label(pods[i], "torchrun.ai/role"), "sync") &&
            !str_is(object_label(pods[i], "torchrun.ai/role"), "spare"))
            pods[kept++] = pods[i];
    return kept;
}

/* Of whichever kind the job is; a pod of that name is one as well. */
static int find_pods(struct session *session,
                     const char *job,
                     const struct object ***ret,
                     size_t *ret_count,
                     struct err *err)
{
    static const char *const labels[] = {"torchrun-job-name", "training.kubeflow.org/job-name",
                                         "jobset.sigs.k8s.io/jobset-name",
                                         "batch.kubernetes.io/job-name"};
    int r = 0;

    *ret_count = 0;
    for (size_t i = 0; r == 0 && *ret_count == 0 && i < COUNT_OF(labels); i++) {
        r = session_list(session, &kind_pod, session->config.ns,
                         str_printf(&session->arena, "%s=%s", labels[i], job).p, ret, ret_count,
                         err);
        if (r == 0)
            *ret_count = drop_others(*ret, *ret_count, job);
    }
    if (r < 0 || *ret_count)
        return r;
    struct object *pod = NULL;
    if (session_get(session, &kind_pod, job, &pod, NULL) < 0)
        return err_set(err, -ENOENT,
                       "no pod of a job %s is in namespace %s: it has not started, or was "
                       "suspended, or its name is another",
                       job, session->config.ns);
    const struct object **one = ARENA_ARRAY(&session->arena, const struct object *, 1);
    one[0] = pod;
    arena_defer(&session->arena, object_release, pod);
    *ret = one;
    *ret_count = 1;
    return 0;
}

/* ---- asking ---- */

static int ask_server(struct session *session,
                      const struct object *pod,
                      struct str *ret,
                      struct err *err)
{
    struct session_request request = {.method = "GET",
                                      .path = str_printf(&session->arena,
                                                         "/api/v1/namespaces/" STR_FMT
                                                         "/pods/" STR_FMT "/stacks",
                                                         STR_ARG(pod->ns), STR_ARG(pod->name)),
                                      .timeout_ms = ASK_MS};
    int status = 429;

    for (int i = 0; i < TRIES_MAX && (status == 429 || status == 409); i++) {
        if (i)
            session_pause(session, TRY_MS);
        status = session_http(session, &request, ret, err);
    }
    if (status < 0)
        return status;
    return status == 200 ? 0
                         : err_set(err, -EIO, STR_FMT, STR_ARG(session_error_text(session, *ret)));
}

static int read_all(int fd, struct buf *out)
{
    out->bytes_max = ANSWER_MAX;
    for (;;) {
        char piece[65536];
        ssize_t got = read(fd, piece, sizeof(piece));

        if (got > 0)
            buf_add(out, (struct str){piece, (size_t)got});
        else if (got == 0 || errno != EINTR)
            return out->overflow ? -EFBIG : 0;
    }
}

static int run_kubectl(const char *const *argv, struct buf *out, struct err *err)
{
    int ends[2];
    int status = 0;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %s", errno_words(errno));
    pid_t child = fork();
    if (child == 0) {
        if (dup2(ends[1], STDOUT_FILENO) >= 0)
            (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        fprintf(stderr, "cannot run kubectl, which this command needs: %m\n");
        _exit(127);
    }
    close(ends[1]);
    int r = child < 0 ? -EAGAIN : read_all(ends[0], out);
    close(ends[0]);
    if (child > 0)
        (void)waitpid(child, &status, 0);
    if (r == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        r = -EIO;
    return r < 0 ? err_set(err, r, "kubectl exec ended with status %d",
                           WIFEXITED(status) ? WEXITSTATUS(status) : 128)
                 : 0;
}

static struct str container_with_launcher(const struct json *pod)
{
    JSON_FOREACH(json_at(pod, "spec.containers"), container)
        if (str_is(json_str(json_at(container, "command.0")), LAUNCH_PATH))
            return json_str(json_get(container, "name"));
    return STR_NONE;
}

static bool on_inside(void *user, int fd, struct str bytes)
{
    struct buf *out = user;

    if (fd == 1)
        buf_add(out, bytes);
    else
        (void)fwrite(bytes.p, 1, bytes.len, stderr);
    return !out->overflow;
}

static int ask_without_kubectl(struct session *session,
                               const struct object *pod,
                               struct str container,
                               struct str *ret,
                               struct err *err)
{
    static const char *const words[] = {LAUNCH_PATH, "stacks"};
    _cleanup_(buf_done) struct buf out = {.bytes_max = ANSWER_MAX};
    struct arena *arena = &session->arena;
    struct inside_request request = {.ns = str_c(arena, pod->ns),
                                     .pod = str_c(arena, pod->name),
                                     .container = str_c(arena, container),
                                     .command = words,
                                     .command_count = COUNT_OF(words),
                                     .input_fd = -1,
                                     .output = on_inside,
                                     .user = &out};
    int r = inside_run(&session->loop, &session->config, &request, err);

    if (r > 0)
        return err_set(err, -EIO, "muster-launch stacks ended with status %d", r);
    if (r == 0)
        *ret = str_dup(arena, buf_str(&out));
    return r;
}

static int ask_pod(struct session *session,
                   const struct object *pod,
                   struct str *ret,
                   struct err *err)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct arena *arena = &session->arena;
    struct str container = container_with_launcher(object_json(pod, arena));
    struct kubectl_args args = {0};

    if (!container.len)
        return err_set(err, -ENOTSUP,
                       "on this cluster only pods that muster-launch started can be read, those of "
                       "TorchrunJobs");
    if (kubectl_find(NULL) < 0)
        return ask_without_kubectl(session, pod, container, ret, err);
    kubectl_begin_in(&args, session, str_c(arena, pod->ns), "exec");
    const char *const rest[] = {
        str_c(arena, pod->name), "-c", str_c(arena, container), "--", LAUNCH_PATH, "stacks"};
    for (size_t i = 0; i < COUNT_OF(rest); i++)
        kubectl_add(&args, rest[i]);
    int r = run_kubectl(args.items, &out, err);
    if (r == 0)
        *ret = str_dup(arena, buf_str(&out));
    return r;
}

/* What it answered goes into `item`; false: nothing useful. */
static bool add_pod(struct session *session,
                    const struct object *pod,
                    bool muster,
                    struct json *item)
{
    struct arena *arena = &session->arena;
    struct json *answer = NULL;
    struct str body = STR("");
    struct err err = {0};
    struct str phase = json_str_at(object_json(pod, arena), "status.phase");
    int r = 0;

    if (!str_is(phase, "Running"))
        r = err_set(&err, -ESRCH, "is " STR_FMT ": only what runs has stacks", STR_ARG(phase));
    else
        r = muster ? ask_server(session, pod, &body, &err) : ask_pod(session, pod, &body, &err);
    if (r == 0)
        r = json_parse(arena, body, &answer, &err);
    if (r < 0) {
        json_add_str(arena, item, "error", str_dup(arena, str_from(err.text)));
        return false;
    }
    struct json *left = json_get(answer, "left");
    (void)json_set(item, STR("processes"), json_clone(arena, json_get(answer, "processes")));
    if (left)
        (void)json_set(item, STR("left"), json_clone(arena, left));
    return true;
}

static int look(struct session *session, const char *job, struct json **ret, struct err *err)
{
    struct arena *arena = &session->arena;
    const struct object **pods = NULL;
    size_t count = 0;
    size_t answered = 0;
    int r = find_pods(session, job, &pods, &count, err);
    int muster = r < 0 ? 0 : session_is_muster(session, err);

    if (r < 0 || muster < 0)
        return r < 0 ? r : muster;
    struct json *document = json_make(arena, "{job: $, namespace: $, time: $, pods: []}", job,
                                      session->config.ns, time_text(arena, clock_now_ms()));
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(pods[i], arena);
        struct json *item = json_push(json_get(document, "pods"),
                                      json_make(arena, "{pod: $, node: $, phase: $}", pods[i]->name,
                                                json_str_at(tree, "spec.nodeName"),
                                                json_str_at(tree, "status.phase")));
        answered += add_pod(session, pods[i], muster == 1, item);
        if (!answered && count == 1)
            return err_set(err, -EIO, "pod " STR_FMT ": " STR_FMT, STR_ARG(pods[i]->name),
                           STR_ARG(json_str(json_get(item, "error"))));
    }
    autopsy_group(arena, document);
    *ret = document;
    return 0;
}

/* ---- where it goes ---- */

static int save(const char *path,
                const char *job,
                struct str text,
                struct str json,
                struct err *err)
{
    struct stat about;
    char file[4096];
    size_t len = strlen(path);

    if ((len && path[len - 1] == '/') || (stat(path, &about) == 0 && S_ISDIR(about.st_mode))) {
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return err_set(err, -errno, "cannot make folder %s: %s", path, errno_words(errno));
        (void)snprintf(file, sizeof(file), "%s/%s.json", path, job);
        int r = file_replace(file, json, 0644, err);
        (void)snprintf(file, sizeof(file), "%s/%s.txt", path, job);
        return r < 0 ? r : file_replace(file, text, 0644, err);
    }
    return file_replace(path, json, 0644, err);
}

static int autopsy_run(struct invocation *invocation)
{
    const struct autopsy_values *v = invocation->values;
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf json = {0};
    const char *job = job_arg(invocation->args[0]);
    struct json *document = NULL;
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = look(&session, job, &document, &err);
    if (r == 0) {
        json_write_pretty(&json, document);
        buf_addc(&json, '\n');
        autopsy_text(&text, &session.arena, document, v->all);
        if (v->output == 1)
            term_write(&session.out, buf_str(&json));
        else
            term_page(&session.out, buf_str(&text));
        if (v->save)
            r = save(v->save, job, buf_str(&text), buf_str(&json), &err);
    }
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_autopsy = {
    .name = "autopsy",
    .summary = "show where every rank of a job is: its Python stack, equal ones folded",
    .about = "The stacks are read from the memory of the processes, so ranks that hang answer as "
             "well; none of them is stopped, and none notices. CPython 3.9 to 3.14. The group with "
             "the fewest ranks comes first. Works for every kind of job, and for a pod; it takes "
             "the right to exec.",
    .example = "kubectl torchrun autopsy my-job\nkubectl torchrun autopsy my-job --save stacks/",
    .usage = "JOB",
    .options = autopsy_options,
    .values_size = sizeof(struct autopsy_values),
    .args_min = 1,
    .args_max = 1,
    .run = autopsy_run,
};
