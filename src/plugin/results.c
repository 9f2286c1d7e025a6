#include "plugin/results.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "kube/client.h"
#include "kube/inside.h"
#include "plugin/job.h"
#include "plugin/kubectl.h"
#include "plugin/plugin.h"
#include "system/errors.h"
#include "tool/clock.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRAINER    "trainer"
#define INPUT_MAX  (2 * FRAME_BYTES_MAX) /* of frames that are not whole yet */
#define PIPE_BYTES 65536
#define WORDS_MAX  1000
#define NAME_SHOWN 200 /* of a path, in messages */

/* A pod of a job that is over is told to end within a few seconds: ranks that lost a peer may speak first. */
#define TOLD_LIMIT_MS 10000
#define END_LIMIT_MS  30000 /* beyond the time that it is given then */
#define END_PAUSE_MS  200

/* A stream of frames on its way in. */
struct intake {
    struct session *session;
    struct result_list *list;  /* NULL: contents */
    struct results_sink *sink; /* NULL: a list */
    results_wants_fn *wants;   /* NULL: all of them */
    void *wants_user;
    struct buf input;
    struct str last_words;
    size_t words_count;
    bool kept;  /* of a pod that is gone */
    bool ended; /* the last frame was the end */
    bool done;  /* HTTP: the answer is complete */
    int code;
    struct err err;
    struct client_call *call;
};

const char *results_name(struct session *session, struct str path)
{
    struct str text = str_utf8(&session->arena, str_sub(path, 0, NAME_SHOWN));
    char *out = str_c(&session->arena, text);

    for (char *c = out; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return out;
}

/* ---- frames ---- */

static int take_entry(struct intake *in, const struct ws_entry *entry, struct err *err)
{
    struct arena *arena = &in->session->arena;
    int r = manifest_check_entry(entry, err);

    if (r < 0)
        return r;
    if (in->list->files.count >= RESULTS_FILES_MAX)
        return err_set(err, -E2BIG, "the pod lists more than %zu files", RESULTS_FILES_MAX);
    VEC_PUSH(arena, &in->list->files,
             (struct result_file){.path = str_dup(arena, entry->path),
                                  .size = entry->size,
                                  .shipped = entry->hash,
                                  .target = str_dup(arena, entry->target)});
    in->list->bytes += entry->size;
    return 0;
}

static int take_frame(void *user, const struct frame *frame, struct err *err)
{
    struct intake *in = user;
    struct arena *arena = &in->session->arena;

    in->ended = frame->type == FRAME_COMMIT;
    if (frame->type == FRAME_ENTRY && in->list)
        return take_entry(in, &frame->entry, err);
    if (frame->type == FRAME_BLOB && in->sink) {
        struct frame_blob blob = frame->blob;

        return in->wants && !in->wants(in->wants_user, frame->blob.path, &blob.path)
                   ? 0
                   : results_put(in->sink, &blob, err);
    }
    if (frame->type == FRAME_ENTRY && in->sink) {
        struct ws_entry link = frame->entry;

        return in->wants && !in->wants(in->wants_user, frame->entry.path, &link.path)
                   ? 0
                   : results_put_link(in->sink, &link, err);
    }
    if (frame->type == FRAME_GONE && in->words_count++ < WORDS_MAX) {
        in->last_words = str_dup(arena, frame->path);
        if (in->list)
            VEC_PUSH(arena, &in->list->words, in->last_words);
        else if (str_ends(frame->path, STR(RESULTS_MEANWHILE)))
            session_say(in->session, "not copied: %s", results_name(in->session, frame->path));
    }
    return 0;
}

static void take_bytes(struct intake *in, struct str bytes)
{
    if (in->code < 0)
        return;
    in->input.bytes_max = INPUT_MAX + bytes.len;
    buf_add(&in->input, bytes);
    in->code = frame_read(&in->input, take_frame, in, &in->err);
}

/* Did all of it come? */
static int finish(struct intake *in, const char *pod, struct err *err)
{
    int r = in->code;

    if (r < 0)
        err_set(err, r, "%s: %s", pod, in->err.text);
    else if (!in->ended)
        r = err_set(err, -EPIPE, "%s: %s", pod,
                    in->last_words.len ? results_name(in->session, in->last_words)
                                       : "its answer was cut; try again");
    buf_done(&in->input);
    return r;
}

/* ---- from muster up ---- */

static void on_data(void *user, struct str bytes)
{
    take_bytes(user, bytes);
}

static void on_done(void *user, const struct transport_reply *reply)
{
    struct intake *in = user;

    in->done = true;
    in->call = NULL;
    if (in->code < 0)
        return;
    if (reply->code < 0) {
        in->code = reply->code;
        in->err = *reply->err;
    } else if (reply->status != 200) {
        in->code = err_set(&in->err,
                           reply->status == 403               ? -EACCES
                           : reply->status == 404 && in->kept ? -ENOENT
                                                              : -EIO,
                           STR_FMT, STR_ARG(session_error_text(in->session, reply->body)));
    }
    uv_stop(&in->session->loop);
}

static void add_query(struct buf *out, const char *key, struct str value)
{
    buf_addf(out, "&%s=", key);
    buf_add_percent(out, value);
}

static int ask_server(struct intake *in,
                      const struct results_kept *of,
                      struct str path,
                      struct err *err)
{
    _cleanup_(buf_done) struct buf url = {0};

    buf_addf(&url, "/api/v1/namespaces/" STR_FMT "/pods/%s/results?container=" TRAINER,
             STR_ARG(of->ns), of->pod);
    add_query(&url, "folder", of->folder);
    if (of->generation >= 0)
        buf_addf(&url, "&generation=%lld", (long long)of->generation);
    if (of->generation == RESULTS_NEWEST)
        buf_add(&url, STR("&generation=newest"));
    if (of->job_uid.len)
        add_query(&url, "job", of->job_uid);
    if (path.len)
        add_query(&url, "path", path);
    if (in->list)
        buf_add(&url, STR("&list=true"));
    in->call = client_send(in->session->client, &(struct client_request){.class = LIMITER_READ,
                                                                         .method = "GET",
                                                                         .path = buf_str(&url),
                                                                         .accept = "*/*",
                                                                         .data = on_data,
                                                                         .done = on_done,
                                                                         .user = in});
    while (!in->done && in->code == 0)
        session_turn(in->session, 1000);
    if (!in->done)
        client_cancel(in->call);
    return finish(in, of->pod, err);
}

/* ---- from the sync pod of a job on another cluster ---- */

/* Whether there is a sync pod that is about to run: one that was evicted is made again. */
static bool sync_comes_back(struct session *session, const char *job)
{
    _cleanup_(object_unrefp) struct object *pod = NULL;
    const char *name = str_printf(&session->arena, "%s-sync-0", job).p;

    return session_get(session, &kind_pod, name, &pod, NULL) == 0 && !pod->deleted_ms &&
           !pod_is_over(object_json(pod, &session->arena));
}

/* What the first pod of a generation wrote, which has ended (workspace/keep_results.h). */
static int ask_sync(struct intake *in,
                    const char *job,
                    const struct results_kept *of,
                    struct str path,
                    struct err *err)
{
    struct session *session = in->session;
    _cleanup_(buf_done) struct buf url = {0};
    struct str header = STR_NONE;
    int r = sync_header(session, job, &header, err);

    if (r < 0)
        return r;
    buf_addf(&url, STR_FMT "?rank=0&generation=%lld", STR_ARG(sync_path(session, job, "results")),
             (long long)of->generation);
    if (path.len)
        add_query(&url, "path", path);
    if (in->list)
        buf_add(&url, STR("&list=true"));
    in->kept = true;
    in->call = client_send(session->client, &(struct client_request){.class = LIMITER_READ,
                                                                     .method = "GET",
                                                                     .path = buf_str(&url),
                                                                     .accept = "*/*",
                                                                     .header = header,
                                                                     .data = on_data,
                                                                     .done = on_done,
                                                                     .user = in});
    while (!in->done && in->code == 0)
        session_turn(session, 1000);
    if (!in->done)
        client_cancel(in->call);
    bool refused = in->done && (in->code == -ENOENT || in->code == -EIO);
    if (!refused) /* what could not be written here is said as it is */
        return finish(in, of->pod, err);
    buf_done(&in->input);
    if (!strstr(in->err.text, "nothing is kept") && sync_comes_back(session, job))
        return err_set(
            err, -EAGAIN,
            "the sync pod of job %s, which has what it wrote, does not answer (%s); it is "
            "started again where it was evicted: try again soon",
            job, in->err.text);
    return err_set(
        err, -ENOENT,
        "pod %s has ended, and nothing is kept of what it wrote (a cluster keeps it of a "
        "submitted job's first pod, for 24 hours). Pull while the job runs, or let it "
        "write to $CHECKPOINT_DIR",
        of->pod);
}

/* "JOB" of JOB-worker-0; NULL: it is another pod. */
static const char *job_of_first(struct session *session, struct str pod)
{
    static const char end[] = "-worker-0";

    if (pod.len < sizeof(end) || !str_ends(pod, str_from(end)))
        return NULL;
    return str_c(&session->arena, str_sub(pod, 0, pod.len - (sizeof(end) - 1)));
}

static int ask_ended(struct intake *in, const struct object *pod, struct str path, struct err *err)
{
    struct session *session = in->session;
    const char *name = str_c(&session->arena, pod->name);
    const char *job = job_of_first(session, pod->name);
    struct results_kept of = {.ns = pod->ns, .pod = name};

    if (!job)
        return err_set(err, -ESRCH,
                       "pod %s is not running, and a cluster keeps what a pod wrote only of the "
                       "first one of a job. Pull while the job runs, or let it write to its "
                       "queue's checkpoint volume ($CHECKPOINT_DIR)",
                       name);
    (void)str_to_i64(object_label(pod, "torchrun.ai/generation"), &of.generation);
    return ask_sync(in, job, &of, path, err);
}

/* ---- from a pod that runs on another cluster ---- */

static int run_kubectl(struct intake *in, const char *const *argv, const char *pod, struct err *err)
{
    char piece[PIPE_BYTES];
    int ends[2];
    int status = 0;
    ssize_t got = 0;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %s", errno_words(errno));
    child = fork();
    if (child == 0) {
        if (dup2(ends[1], STDOUT_FILENO) >= 0)
            (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        fprintf(stderr, "cannot run kubectl, which this command needs: %m\n");
        _exit(127);
    }
    close(ends[1]);
    while (child > 0 && in->code == 0 && (got = read(ends[0], piece, sizeof(piece))) != 0) {
        if (got > 0)
            take_bytes(in, (struct str){piece, (size_t)got});
        else if (errno != EINTR)
            break;
    }
    close(ends[0]);
    if (child > 0)
        (void)waitpid(child, &status, 0);
    if (in->code == 0 && !in->ended && !in->last_words.len)
        in->code = err_set(&in->err, -EIO, "kubectl exec ended with status %d",
                           WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    return finish(in, pod, err);
}

static bool on_inside(void *user, int fd, struct str bytes)
{
    struct intake *in = user;

    if (fd == 1)
        take_bytes(in, bytes);
    else
        (void)fwrite(bytes.p, 1, bytes.len, stderr);
    return in->code == 0;
}

static int ask_without_kubectl(struct intake *in,
                               const struct object *pod,
                               struct str folder,
                               struct str path,
                               struct err *err)
{
    struct arena *arena = &in->session->arena;
    const char *name = str_c(arena, pod->name);
    const char *const words[] = {LAUNCH_PATH, "results", in->list ? "list" : "read",
                                 str_c(arena, folder), str_c(arena, path)};
    struct inside_request request = {.ns = str_c(arena, pod->ns),
                                     .pod = name,
                                     .container = TRAINER,
                                     .command = words,
                                     .command_count = COUNT_OF(words),
                                     .input_fd = -1,
                                     .output = on_inside,
                                     .user = in};
    int r = inside_run(&in->session->loop, &in->session->config, &request, err);

    if (r < 0 && in->code == 0)
        in->code = err_set(&in->err, r, "%s", err->text);
    return finish(in, name, err);
}

static int ask_pod(struct intake *in,
                   const struct object *pod,
                   struct str folder,
                   struct str path,
                   struct err *err)
{
    struct session *session = in->session;
    struct arena *arena = &session->arena;
    const char *name = str_c(arena, pod->name);
    struct kubectl_args args = {0};

    if (!str_is(json_str_at(object_json(pod, arena), "status.phase"), "Running"))
        return ask_ended(in, pod, path, err);
    if (kubectl_find(NULL) < 0)
        return ask_without_kubectl(in, pod, folder, path, err);
    kubectl_begin_in(&args, session, str_c(arena, pod->ns), "exec");
    const char *const rest[] = {name,
                                "-c",
                                TRAINER,
                                "--",
                                LAUNCH_PATH,
                                "results",
                                in->list ? "list" : "read",
                                str_c(arena, folder),
                                str_c(arena, path)};
    for (size_t i = 0; i < COUNT_OF(rest); i++)
        kubectl_add(&args, rest[i]);
    return run_kubectl(in, args.items, name, err);
}

/* ---- both ---- */

/* What the controller told the launcher in a variable; empty: nothing. */
static struct str launch_value(struct arena *arena, const struct object *pod, const char *name)
{
    struct json *tree = object_json(pod, arena);

    JSON_FOREACH(json_at(tree, "spec.containers"), container) {
        if (!str_is(json_str(json_get(container, "name")), TRAINER))
            continue;
        JSON_FOREACH(json_get(container, "env"), variable)
            if (str_is(json_str(json_get(variable, "name")), name))
                return json_str(json_get(variable, "value"));
    }
    return STR_NONE;
}

/* Where the command works. */
static struct str folder_of(struct session *session, const struct object *pod)
{
    struct str folder = launch_value(&session->arena, pod, LAUNCH_ENV_APP_DIR);

    return folder.len ? folder : STR("/app");
}

/* Of JOB-worker-N: N. */
static int64_t results_index(const struct object *pod, const char *job)
{
    struct str rest = pod->name;
    int64_t index = -1;

    if (!str_starts(rest, str_from(job)))
        return -1;
    rest = str_sub(rest, strlen(job), rest.len);
    if (!str_starts(rest, STR("-worker-")) || !str_to_i64(str_sub(rest, 8, rest.len), &index))
        return -1;
    return index;
}

size_t results_pod_of_rank(struct arena *arena,
                           const struct object *const *pods,
                           size_t count,
                           const char *job,
                           int64_t rank)
{
    int64_t first = 0; /* rank of the pod */

    for (size_t i = 0; i < count; i++) {
        int64_t ranks = 1;

        if (results_index(pods[i], job) != (int64_t)i)
            break; /* one before it is gone: nobody knows how many ranks it had */
        (void)str_to_i64(launch_value(arena, pods[i], LAUNCH_ENV_NPROC), &ranks);
        if (rank < first + ranks)
            return i;
        first += ranks;
    }
    return count;
}

static int ask(struct intake *in, const struct object *pod, struct str path, struct err *err)
{
    struct str folder = folder_of(in->session, pod);
    int r = session_is_muster(in->session, err);

    if (r < 0)
        return r;
    if (!r)
        return ask_pod(in, pod, folder, path, err);
    struct results_kept of = {.ns = pod->ns,
                              .pod = str_c(&in->session->arena, pod->name),
                              .folder = folder,
                              .generation = -1};
    return ask_server(in, &of, path, err);
}

/* Of a pod that is gone. */
static int ask_kept(struct intake *in,
                    const struct results_kept *kept,
                    struct str path,
                    struct err *err)
{
    const char *job = job_of_first(in->session, str_from(kept->pod));
    int r = session_is_muster(in->session, err);

    in->kept = true;
    if (r != 0)
        return r < 0 ? r : ask_server(in, kept, path, err);
    if (!job)
        return err_set(err, -ENOENT, "a cluster keeps only what the first pod of a job wrote");
    if (kept->generation >= 0)
        return ask_sync(in, job, kept, path, err);
    r = -ENOENT;
    for (int64_t i = 0; r == -ENOENT && i < RESULTS_GENERATIONS && i <= kept->last_generation;
         i++) {
        struct results_kept one = *kept;
        struct intake fresh = *in;

        one.generation = kept->last_generation - i;
        r = ask_sync(&fresh, job, &one, path, err);
    }
    return r;
}

static int by_path(const void *a, const void *b)
{
    return str_cmp(((const struct result_file *)a)->path, ((const struct result_file *)b)->path);
}

int results_list(struct session *session,
                 const struct results_source *source,
                 struct str path,
                 struct result_list *ret,
                 struct err *err)
{
    struct intake in = {.session = session, .list = ret};
    int r;

    *ret = (struct result_list){0};
    r = source->pod ? ask(&in, source->pod, path, err) : ask_kept(&in, &source->kept, path, err);
    if (ret->files.count)
        qsort(ret->files.items, ret->files.count, sizeof(ret->files.items[0]), by_path);
    return r;
}

static int read_from(struct intake *in,
                     const struct results_source *source,
                     struct str path,
                     struct err *err)
{
    return source->pod ? ask(in, source->pod, path, err) : ask_kept(in, &source->kept, path, err);
}

int results_read(struct session *session,
                 const struct results_source *source,
                 struct str path,
                 struct results_sink *sink,
                 struct err *err)
{
    struct intake in = {.session = session, .sink = sink};

    return read_from(&in, source, path, err);
}

int results_read_some(struct session *session,
                      const struct results_source *source,
                      struct results_sink *sink,
                      results_wants_fn *wants,
                      void *user,
                      struct err *err)
{
    struct intake in = {.session = session, .sink = sink, .wants = wants, .wants_user = user};

    return read_from(&in, source, STR(""), err);
}

static int by_length_then_name(const void *a, const void *b)
{
    const struct object *x = *(const struct object *const *)a;
    const struct object *y = *(const struct object *const *)b;

    if (x->name.len != y->name.len)
        return x->name.len < y->name.len ? -1 : 1;
    return str_cmp(x->name, y->name);
}

int results_pods(struct session *session,
                 const char *job,
                 const struct object ***ret,
                 size_t *ret_count,
                 struct err *err)
{
    size_t kept = 0;
    size_t count = 0;
    const struct object **pods = NULL;
    int r = session_list_pods(session, job, &pods, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        if (results_index(pods[i], job) >= 0)
            pods[kept++] = pods[i];
    if (kept)
        qsort(pods, kept, sizeof(pods[0]), by_length_then_name);
    *ret = pods;
    *ret_count = kept;
    return 0;
}

int results_sources(struct session *session,
                    const char *job,
                    const struct object *object,
                    struct results_source **ret,
                    size_t *ret_count,
                    struct err *err)
{
    const struct object **pods = NULL;
    size_t pod_count = 0;
    const struct json *status =
        object ? json_get(object_json(object, &session->arena), "status") : NULL;
    int64_t size = object ? json_i64_or(json_get(status, "numNodes"), 1) : RESULTS_SOURCES_UNSEEN;
    int r = results_pods(session, job, &pods, &pod_count, err);

    if (r < 0)
        return r;
    if (pod_count && results_index(pods[pod_count - 1], job) >= size)
        size = results_index(pods[pod_count - 1], job) + 1;
    size = size < 1 ? 1 : size > RESULTS_SOURCES_MAX ? RESULTS_SOURCES_MAX : size;
    *ret = ARENA_ARRAY(&session->arena, struct results_source, (size_t)size);
    for (int64_t i = 0; i < size; i++) {
        struct results_source *source = &(*ret)[i];

        source->index = i;
        source->name = str_printf(&session->arena, "%s-worker-%lld", job, (long long)i).p;
        source->kept = (struct results_kept){
            .ns = str_from(session->config.ns),
            .pod = source->name,
            .folder = STR("/app"),
            .job_uid = object ? str_dup(&session->arena, object->uid) : STR_NONE,
            .generation = RESULTS_NEWEST,
            .last_generation = json_i64_or(json_get(status, "generation"), 0)};
    }
    for (size_t i = 0; i < pod_count; i++)
        if (results_index(pods[i], job) < size)
            (*ret)[results_index(pods[i], job)].pod = pods[i];
    *ret_count = (size_t)size;
    return 0;
}

/* One that may still write: it is told to end, or will be. */
static const struct object *results_writer(struct arena *arena,
                                           const struct results_source *sources,
                                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct object *pod = sources[i].pod;

        if (pod && (pod->deleted_ms || !pod_is_over(object_json(pod, arena))))
            return pod;
    }
    return NULL;
}

int results_await_end(struct session *session,
                      const char *job,
                      const struct object *object,
                      bool all,
                      struct err *err)
{
    struct arena *arena = &session->arena;
    int64_t until_ms = clock_monotonic_ms() + TOLD_LIMIT_MS;

    if (!object || !job_is_over(json_str_at(object_json(object, arena), "status.phase")))
        return 0;
    for (bool told = false;;) {
        struct results_source *sources = NULL;
        size_t count = 0;
        int r = results_sources(session, job, object, &sources, &count, err);
        const struct object *pod = r == 0 ? results_writer(arena, sources, all ? count : 1) : NULL;

        if (!pod)
            return r;
        if (pod->deleted_ms && !told)
            until_ms = clock_monotonic_ms() + END_LIMIT_MS +
                       1000 * json_i64_or(json_at(object_json(pod, arena),
                                                  "metadata.deletionGracePeriodSeconds"),
                                          0);
        told = told || pod->deleted_ms;
        if (clock_monotonic_ms() >= until_ms)
            return 0;
        session_pause(session, END_PAUSE_MS);
    }
}

void results_mark(struct session *session, const struct object *pod, const char *word)
{
    const struct json *body =
        json_make(&session->arena, "{metadata: {annotations: {" RESULTS_ANNOTATION ": $}}}", word);

    if (session_is_muster(session, NULL) > 0) /* who may not say so has it kept for longer */
        (void)session_call(session,
                           &(struct api_request){.verb = API_PATCH,
                                                 .kind = &kind_pod,
                                                 .ns = pod->ns,
                                                 .name = pod->name,
                                                 .uid = pod->uid,
                                                 .patch = API_PATCH_MERGE,
                                                 .body = json_text(&session->arena, body)},
                           NULL, NULL);
}
