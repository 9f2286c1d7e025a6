#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/batch.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/ship.h"
#include "plugin/view.h"
#include "tool/clock.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/outbox.h"
#include "workspace/scan.h"
#include "workspace/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* sync: bring the folder to a running job; with --watch, keep doing so.
 *
 * A batch of changes goes out as one commit that carries its contents, based on the revision that
 * the other side is known to have: one round trip. When that is not what the other side has (it was
 * restarted, somebody else synced), everything is compared again. Batches are sent one after the
 * other, so every worker gets them in order. */
#define QUIET_MS           3                   /* no event for so long: the batch is complete */
#define BATCH_LIMIT_MS     30                  /* but it is sent after this time at the latest */
#define DELTA_BYTES_MAX    ((uint64_t)4 << 20) /* more contents travel in segments */
#define FRAMES_TYPE        "application/octet-stream"
#define DELIVERED_LIMIT_MS 60000 /* of a revision: then it is said that it has not arrived */
#define DELIVERED_PAUSE_MS 200

struct sync_values {
    struct common_values common;
    const char *dir;
    bool watch;
    bool restart;
};

static const struct option sync_options[] = {
    COMMON_OPTIONS,
    {"dir", 'd', OPTION_STR, offsetof(struct sync_values, dir), .value = "DIR",
     .help = "folder to send (default: the current one)", .flag_only = true},
    {"watch", 'w', OPTION_BOOL, offsetof(struct sync_values, watch),
     .help = "keep sending changes until Ctrl-C", .flag_only = true},
    {"restart", 0, OPTION_BOOL, offsetof(struct sync_values, restart),
     .help = "restart the ranks in place after every change; pods and GPUs are kept",
     .flag_only = true},
    {0},
};

struct syncing {
    struct session *session;
    const char *job;
    const char *dir;
    const char *command; /* of the job */
    const struct sync_values *v;
    struct manifest *have; /* what the other side has */
    struct watch watch;
    char told[HASH_HEX_BYTES]; /* the revision that the job knows of; "": it waits for one */
    bool stop;
};

/* Workers that run, and so should have what is sent. */
static size_t count_running(struct session *session, const char *job)
{
    struct view_objects pods = {0};
    size_t running = 0;

    (void)session_list_pods(session, job, &pods.items, &pods.count, NULL);
    for (size_t i = 0; i < pods.count; i++) {
        const struct json *pod = object_json(pods.items[i], &session->arena);
        struct str rest = str_sub(pods.items[i]->name, strlen(job), pods.items[i]->name.len);

        running += str_starts(pods.items[i]->name, str_from(job)) &&
                   str_starts(rest, STR("-worker-")) && !pods.items[i]->deleted_ms &&
                   str_is(json_str_at(pod, "status.phase"), "Running");
    }
    return running;
}

/* Whether every worker has it, and how many these are; one that has not is named. */
static int check_delivered(struct syncing *s,
                           const struct json *state,
                           const char *revision,
                           size_t *ret_count,
                           struct err *err)
{
    struct session *session = s->session;
    const struct json *workers = json_get(state, "workers");
    size_t running = count_running(session, s->job);
    size_t count = 0;

    JSON_FOREACH(workers, worker) {
        struct str trouble = json_str(json_get(worker, "trouble"));

        if (str_is(json_str(json_get(worker, "revision")), revision))
            count++;
        else if (trouble.len)
            return err_set(err, -EAGAIN, "worker %lld cannot take revision %.12s: " STR_FMT,
                           (long long)json_i64_or(json_get(worker, "rank"), 0), revision,
                           STR_ARG(trouble));
    }
    if (count < json_count(workers) || count < running)
        return err_set(
            err, -EAGAIN, "revision %.12s is on %zu of %zu workers of %s; `%s logs %s` may say why",
            revision, count, json_count(workers) > running ? json_count(workers) : running, s->job,
            session->program, s->job);
    *ret_count = count;
    return 0;
}

/* What the job wrote itself was not replaced. */
static void name_kept(struct syncing *s, const struct json *state)
{
    JSON_FOREACH(json_get(state, "workers"), worker) {
        struct str names = json_str(json_get(worker, "names"));
        int64_t rank = json_i64_or(json_get(worker, "rank"), 0);
        int64_t kept = json_i64_or(json_get(worker, "kept"), 0);
        int64_t named = 0;
        struct str name;

        for (; str_cut(&names, '\n', &name) && name.len; named++)
            session_say(
                s->session,
                "kept: " STR_FMT " of worker %lld is the job's own, and was not replaced or "
                "removed; after `%s pull %s " STR_FMT " --force --to .` and a sync, it can be",
                STR_ARG(name), (long long)rank, s->session->program, s->job, STR_ARG(name));
        if (kept > named)
            session_say(s->session, "kept: %lld more of worker %lld", (long long)(kept - named),
                        (long long)rank);
    }
}

static int get_wait(struct syncing *s, const char *revision, struct json **ret, struct err *err)
{
    struct session *session = s->session;
    struct str path = str_printf(&session->arena, STR_FMT "?revision=%s",
                                 STR_ARG(sync_path(session, s->job, "wait")), revision);
    struct str body;
    int status =
        sync_http(session, s->job,
                  &(struct session_request){
                      .method = "GET", .path = path, .timeout_ms = 2 * SYNC_PROXY_LIMIT_MS},
                  &body, err);

    if (status != 200)
        return status < 0 ? status : err_set(err, -EIO, "the sync pod answered %d", status);
    return json_parse(&session->arena, body, ret, err) < 0 ? -EPROTO : 0;
}

/* Asks until every worker that runs has the revision: only then is it said. *ret_due: the ranks began
 * with an older one. */
static int wait_delivered(struct syncing *s, const char *revision, bool *ret_due, struct err *err)
{
    int64_t until_ms = clock_monotonic_ms() + DELIVERED_LIMIT_MS;
    struct json *state;
    size_t count = 0;

    for (;;) {
        int r = get_wait(s, revision, &state, err);
        struct hash started;

        if (r == 0)
            r = check_delivered(s, state, revision, &count, err);
        if (r == -EAGAIN && clock_monotonic_ms() < until_ms) {
            session_pause(s->session, DELIVERED_PAUSE_MS);
            continue;
        }
        if (r < 0)
            return r;
        if (count == 0)
            session_say(s->session, "revision %.12s is sent; no worker of %s runs yet", revision,
                        s->job);
        else
            session_say(s->session, "revision %.12s is on %zu worker%s", revision, count,
                        count == 1 ? "" : "s");
        *ret_due = hash_parse(json_str(json_get(state, "started")), &started) &&
                   !hash_is_zero(started) &&
                   !str_is(json_str(json_get(state, "started")), revision);
        name_kept(s, state);
        return 0;
    }
}

static int restart_ranks(struct syncing *s, struct err *err)
{
    struct session *session = s->session;
    struct str body;
    int status = sync_http(session, s->job,
                           &(struct session_request){.method = "POST",
                                                     .path = sync_path(session, s->job, "restart"),
                                                     .content_type = "application/json",
                                                     .timeout_ms = SYNC_PROXY_LIMIT_MS},
                           &body, err);

    if (status != 200)
        return status < 0 ? status
                          : err_set(err, -EIO, "the sync pod answered %d: " STR_FMT, status,
                                    STR_ARG(session_error_text(session, body)));
    session_say(session, "ranks of %s restart in place", s->job);
    return 0;
}

/* The job's annotation says what it has: `status` shows it, and a job whose first upload was cut
 * starts. Whoever may not change jobs can still send to one that runs. */
static int sync_tell(struct syncing *s, const char *revision, struct err *err)
{
    bool waits = s->told[0] == '\0';
    int r;

    if (strcmp(s->told, revision) == 0)
        return 0;
    r = upload_tell(s->session, s->job, revision, err);
    if (r < 0 && waits)
        return r;
    if (r < 0)
        session_say(s->session, "warning: job %s does not show the revision: %s", s->job,
                    err->text);
    (void)snprintf(s->told, sizeof(s->told), "%s", revision);
    return 0;
}

static int sync_all(struct syncing *s, struct err *err)
{
    struct upload upload = {.folder = s->dir, .command = s->command};
    char bytes[TERM_BYTES_TEXT];
    bool due = false;
    int r = upload_scan(s->session, &upload, err);

    if (r == 0)
        r = upload_run(s->session, s->job, &upload, err);
    if (r == 0 && upload.unchanged)
        session_say(s->session, "nothing changed (%zu entries)", upload.manifest->entries.count);
    else if (r == 0)
        session_say(s->session, "sent %s", term_bytes(upload.manifest->bytes, bytes));
    if (r == 0) {
        manifest_unref(s->have);
        s->have = manifest_ref(upload.manifest);
        r = sync_tell(s, upload.revision, err);
    }
    if (r == 0)
        r = wait_delivered(s, upload.revision, &due, err);
    if (r == 0 && s->v->restart && (due || !upload.unchanged))
        r = restart_ranks(s, err);
    upload_done(&upload);
    return r;
}

/* ---- watching ---- */

/* One round trip with everything in it. -ESTALE: compare everything again. */
static int send_delta(struct syncing *s,
                      const struct batch *batch,
                      struct str contents,
                      struct err *err)
{
    _cleanup_(buf_done) struct buf body = {0};
    struct session *session = s->session;
    struct str answer;
    int status;

    buf_add(&body, contents);
    frame_add_begin(&body,
                    &(struct frame_begin){.target = batch->revision, .base = s->have->revision});
    for (size_t i = 0; i < batch->gone.count; i++)
        frame_add_gone(&body, batch->gone.items[i]);
    for (size_t i = 0; i < batch->set.count; i++)
        frame_add_entry(&body, &batch->set.items[i]);
    frame_add_empty(&body, FRAME_COMMIT);
    status = sync_http(session, s->job,
                       &(struct session_request){.method = "POST",
                                                 .path = sync_commit_path(session, s->job),
                                                 .content_type = FRAMES_TYPE,
                                                 .body = buf_str(&body),
                                                 .timeout_ms = SYNC_PROXY_LIMIT_MS},
                       &answer, err);
    if (status != 200)
        return err_set(err, -ESTALE, "the change was not accepted: %d", status);
    for (size_t i = 0; i < batch->gone.count; i++)
        manifest_remove(s->have, batch->gone.items[i]);
    for (size_t i = 0; i < batch->set.count; i++)
        manifest_set(s->have, &batch->set.items[i]);
    return 1;
}

/* What is at the changed paths now, with contents. 1: too much for one commit. */
static int batch_read(struct syncing *s,
                      const struct str *paths,
                      size_t count,
                      struct manifest *now,
                      struct buf *contents,
                      struct err *err)
{
    struct scan_options options;
    struct outbox outbox;
    struct ship ship;
    uint64_t bytes = 0;
    int r = 0;

    ship_open(&ship, s->session);
    options = ship_scan(&ship, s->command);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (!batch_is_covered(paths, count, i))
            r = scan_path(s->dir, paths[i], &options, now, err);
    for (size_t i = 0; i < now->entries.count; i++)
        bytes += now->entries.items[i].size;
    if (r < 0 || bytes > DELTA_BYTES_MAX)
        return r < 0 ? r : 1;
    r = outbox_open(&outbox, s->dir, now, err);
    if (r == 0)
        r = outbox_next(&outbox, contents, 2 * DELTA_BYTES_MAX, err);
    outbox_done(&outbox);
    if (r == 0)
        manifest_sort(now);
    return r;
}

/* 1: sent, 0: nothing had changed, -ESTALE: compare everything. */
static int send_batch(struct syncing *s,
                      struct arena *arena,
                      const struct str *paths,
                      size_t count,
                      struct err *err)
{
    _cleanup_(manifest_unrefp) struct manifest *now = manifest_new();
    _cleanup_(buf_done) struct buf contents = {0};
    struct batch batch;
    int r = batch_read(s, paths, count, now, &contents, err);

    if (r != 0)
        return r < 0 ? r : -ESTALE;
    batch_compare(arena, s->have, now, paths, count, &batch);
    if (batch.set.count + batch.gone.count == 0)
        return 0;
    return send_delta(s, &batch, buf_str(&contents), err);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct syncing *s = handle->data;

    (void)number;
    s->stop = true;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct syncing *s = handle->data;

    (void)status;
    (void)events;
    (void)watch_read(&s->watch);
}

static void send_changes(struct syncing *s)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char hex[HASH_HEX_BYTES];
    struct err err = {0};
    struct json *state;
    struct str *paths;
    size_t workers = 0;
    bool everything;
    size_t count = watch_take(&s->watch, &arena, &paths, &everything);
    int r = everything ? -ESTALE : send_batch(s, &arena, paths, count, &err);

    if (r == 1) {
        (void)sync_tell(s, hash_hex(s->have->revision, hex), &err);
        r = get_wait(s, hex, &state, &err);
        if (r == 0)
            r = check_delivered(s, state, hex, &workers, &err);
        /* One that has not taken it at once is asked again, until it has or says why not. */
        r = r == 0 ? 1 : -ESTALE;
    }
    if (r == 1) {
        session_say(s->session, "revision %.12s: " STR_FMT "%s", hex, STR_ARG(paths[0]),
                    count > 1 ? " and more" : "");
        name_kept(s, state);
    }
    if (r == 1 && s->v->restart)
        r = restart_ranks(s, &err);
    if (r == -ESTALE || r == -EILSEQ)
        r = sync_all(s, &err);
    if (r < 0)
        session_say(s->session, "%s; the next change tries again", err.text);
}

/* Where the kernel does not tell, somebody has to look. */
static void watch_look(struct syncing *s)
{
    if (s->watch.fd < 0)
        (void)watch_read(&s->watch);
}

static int watch_run(struct syncing *s, struct err *err)
{
    struct session *session = s->session;
    uv_signal_t interrupt;
    uv_poll_t poll;

    if (s->watch.fd >= 0) {
        (void)uv_poll_init(&session->loop, &poll, s->watch.fd);
        poll.data = s;
        (void)uv_poll_start(&poll, UV_READABLE, on_readable);
    }
    (void)uv_signal_init(&session->loop, &interrupt);
    interrupt.data = s;
    (void)uv_signal_start(&interrupt, on_signal, SIGINT);
    session_say(session, "watching %s", s->dir);
    while (!s->stop) {
        session_turn(session, 1000);
        watch_look(s);
        if (s->watch.changed.count == 0 && !s->watch.everything)
            continue;
        int64_t until = clock_monotonic_ms() + BATCH_LIMIT_MS;
        size_t before;
        do {
            before = s->watch.changed.count;
            session_pause(session, QUIET_MS);
            watch_look(s);
        } while (s->watch.changed.count != before && clock_monotonic_ms() < until);
        send_changes(s);
    }
    (void)err;
    if (s->watch.fd >= 0) {
        (void)uv_poll_stop(&poll);
        uv_close((uv_handle_t *)&poll, NULL);
    }
    (void)uv_signal_stop(&interrupt);
    uv_close((uv_handle_t *)&interrupt, NULL);
    session_turn(session, 0);
    return 0;
}

static int sync_run(struct invocation *invocation)
{
    const struct sync_values *v = invocation->values;
    struct session session;
    struct syncing s = {.session = &session,
                        .v = v,
                        .dir = v->dir ? v->dir : ".",
                        .job = job_arg(invocation->args[0]),
                        .watch = {.fd = -1}};
    _cleanup_(object_unrefp) struct object *job = NULL;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = session_get(&session, &kind_torchrunjob, s.job, &job, &err);
    if (r == 0) {
        (void)snprintf(s.told, sizeof(s.told), STR_FMT,
                       STR_ARG(str_sub(object_annotation(job, JOB_REVISION), 0, sizeof(s.told))));
        s.command = str_c(&session.config_arena,
                          json_str_at(object_json(job, &session.arena), "spec.command"));
    }
    if (r == 0)
        r = ship_check_folder(&session, s.dir, v->dir != NULL, &err);
    if (r == 0 && v->watch)
        r = watch_open(&s.watch, s.dir, &err); /* before the scan: nothing falls between */
    if (r == 0)
        r = sync_all(&s, &err);
    if (r == 0 && v->watch)
        r = watch_run(&s, &err);
    watch_done(&s.watch);
    manifest_unref(s.have);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_sync = {
    .name = "sync",
    .summary = "send what changed to a running job",
    .usage = "JOB",
    .about = "Workers see each file whole, the old one or the new one. A change of the file "
             ".torchrun-restart in the folder restarts the ranks, as --restart does.",
    .options = sync_options,
    .values_size = sizeof(struct sync_values),
    .args_min = 1,
    .args_max = 1,
    .run = sync_run,
};
