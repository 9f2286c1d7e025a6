#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "kube/client.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/ship.h"
#include "tool/clock.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/outbox.h"
#include "workspace/scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Contents travel in segments: each is acknowledged, may be repeated, and needs no order, so a cut
 * connection or a restarted server costs one segment. A few are under way at once, so that reading,
 * sending and writing overlap. */
#define SEGMENT_BYTES     ((size_t)4 << 20)
#define SEGMENTS_MAX      3
#define SEGMENT_TRIES_MAX 60
#define RETRY_MS          500
#define QUICK_RETRY_MS    20 /* while a pod that starts at once would be starting */
#define QUICK_START_MS    1500
#define POD_LIMIT_MS      600000 /* an image may have to be pulled first */
#define SEGMENT_LIMIT_MS  120000
#define CHANGED_TRIES_MAX 3
#define FRAMES_TYPE       "application/octet-stream"

struct segment {
    struct sender *sender;
    struct client_call *call; /* while it is under way */
    struct buf body;
    uint64_t covers; /* bytes of files read up to here */
    int tries;
    bool used;
    bool sent;      /* under way */
    int64_t due_ms; /* not under way: when to send */
};

struct sender {
    struct session *session;
    struct str path;
    struct str header; /* shows the secret of the job */
    struct segment segments[SEGMENTS_MAX];
    struct outbox outbox;
    struct progress progress;
    uint64_t acked;
    bool reading; /* the outbox may have more */
    int failed;
    struct err err;
};

const struct ws_entry *upload_next_large(const struct manifest *manifest, size_t *at)
{
    while (*at < manifest->entries.count) {
        const struct ws_entry *entry = &manifest->entries.items[(*at)++];

        if (entry->type == WS_FILE && entry->size >= UPLOAD_LARGE_BYTES)
            return entry;
    }
    return NULL;
}

/* Before anything is sent: such a file is mostly data that the job could read in its place. */
static void upload_warn_large(struct session *session, const struct manifest *manifest)
{
    const struct ws_entry *entry;
    char bytes[TERM_BYTES_TEXT];

    for (size_t at = 0; (entry = upload_next_large(manifest, &at));)
        session_say(session,
                    "warning: " STR_FMT " (%s) is sent with the folder; a line in .torchrunignore "
                    "leaves it out, and %s",
                    STR_ARG(str_sub(entry->path, 0, 200)), term_bytes(entry->size, bytes),
                    session_is_local(session) ? "the job can read it at its own path"
                                              : "a --volume can hold it");
}

int upload_scan(struct session *session, struct upload *upload, struct err *err)
{
    struct scan_options options;

    ship_open(&upload->ship, session);
    options = ship_scan(&upload->ship, upload->command);
    options.cache = &upload->cache;
    statcache_open(&upload->cache, upload->folder, getenv("XDG_CACHE_HOME"), getenv("HOME"));
    upload->manifest = manifest_new();
    int r = scan_folder(upload->folder, &options, upload->manifest, err);
    if (r == 0)
        upload_warn_large(session, upload->manifest);
    return r;
}

void upload_done(struct upload *upload)
{
    manifest_unref(TAKE_PTR(upload->manifest));
    statcache_done(&upload->cache);
}

/* No answer, or the pod or the server cannot be reached right now: worth trying again. */
static bool worth_retrying(int code, int status)
{
    return code < 0 || status == 404 || status == 429 || status == 500 || status == 502 ||
           status == 503 || status == 504;
}

static void on_segment(void *user, const struct transport_reply *reply)
{
    struct segment *segment = user;
    struct sender *sender = segment->sender;

    segment->sent = false;
    segment->call = NULL;
    uv_stop(&sender->session->loop); /* the next one can be sent now */
    if (reply->code == 0 && reply->status == 200) {
        sender->acked = segment->covers > sender->acked ? segment->covers : sender->acked;
        segment->used = false;
        return;
    }
    if (worth_retrying(reply->code, reply->status) && ++segment->tries < SEGMENT_TRIES_MAX) {
        segment->due_ms = clock_monotonic_ms() + RETRY_MS;
        return;
    }
    sender->failed = reply->status == 422 ? -EILSEQ : -EIO;
    if (reply->code < 0)
        sender->err = *reply->err;
    else
        err_set(&sender->err, sender->failed, "the sync pod answered %d: " STR_FMT, reply->status,
                STR_ARG(session_error_text(sender->session, reply->body)));
}

static void send_segment(struct sender *sender, struct segment *segment)
{
    segment->sent = true;
    segment->call = client_send(sender->session->client, &(struct client_request){
                                                             .class = LIMITER_NORMAL,
                                                             .method = "POST",
                                                             .path = sender->path,
                                                             .content_type = FRAMES_TYPE,
                                                             .accept = "*/*",
                                                             .body = buf_str(&segment->body),
                                                             .header = sender->header,
                                                             .timeout_ms = SEGMENT_LIMIT_MS,
                                                             .done = on_segment,
                                                             .user = segment,
                                                         });
}

/* Pieces of one large file must arrive in order: while one is under way, the next waits. */
static bool may_fill(const struct sender *sender)
{
    if (!sender->reading || sender->failed)
        return false;
    for (size_t i = 0; sender->outbox.fd >= 0 && i < SEGMENTS_MAX; i++)
        if (sender->segments[i].used)
            return false;
    return true;
}

/* One step for one slot: fill it, or send it again. True while it is in use. */
static bool step(struct sender *sender, struct segment *segment)
{
    if (!segment->used && may_fill(sender)) {
        int more;

        buf_clear(&segment->body);
        more = outbox_next(&sender->outbox, &segment->body, SEGMENT_BYTES, &sender->err);
        if (more < 0) {
            sender->failed = more;
            return false;
        }
        sender->reading = more == 1;
        segment->covers = sender->outbox.bytes_read;
        segment->tries = 0;
        segment->used = segment->body.len > 0;
        if (segment->used)
            send_segment(sender, segment);
    } else if (segment->used && !segment->sent && !sender->failed &&
               clock_monotonic_ms() >= segment->due_ms) {
        send_segment(sender, segment);
    }
    return segment->sent || (segment->used && !sender->failed);
}

static int upload_interrupted(struct err *err)
{
    return err_set(err, -EINTR, "the upload was interrupted");
}

static void drop_segments(struct sender *sender)
{
    for (size_t i = 0; i < SEGMENTS_MAX; i++) {
        client_cancel(TAKE_PTR(sender->segments[i].call));
        sender->segments[i].sent = false;
    }
}

static int send_contents(struct session *session,
                         const char *job,
                         struct upload *upload,
                         const struct map *missing,
                         struct err *err)
{
    struct sender sender = {.session = session, .path = sync_path(session, job, "blobs")};
    bool busy = true;
    int r = outbox_open(&sender.outbox, upload->folder, upload->manifest, err);

    if (r == 0)
        r = sync_header(session, job, &sender.header, err);
    if (r < 0) {
        outbox_done(&sender.outbox);
        return r;
    }
    sender.outbox.missing = missing;
    sender.outbox.packed = !session_is_local(session);
    sender.progress = (struct progress){
        .term = &session->err, .what = "uploading", .total = upload->manifest->bytes};
    sender.reading = true;
    for (size_t i = 0; i < SEGMENTS_MAX; i++)
        sender.segments[i].sender = &sender;
    while ((busy || sender.reading) && !(sender.failed && !busy)) {
        if (upload->interrupted && !sender.failed) {
            sender.failed = upload_interrupted(&sender.err);
            drop_segments(&sender);
        }
        busy = false;
        for (size_t i = 0; i < SEGMENTS_MAX; i++)
            busy |= step(&sender, &sender.segments[i]);
        if (busy)
            session_turn(session, 50);
        progress_update(&sender.progress, sender.acked, clock_monotonic_ms());
    }
    progress_done(&sender.progress);
    for (size_t i = 0; i < SEGMENTS_MAX; i++)
        buf_done(&sender.segments[i].body);
    outbox_done(&sender.outbox);
    if (sender.failed && err)
        *err = sender.err;
    return sender.failed;
}

/* What kube-apiserver says about a pod that has no address yet. */
static bool has_no_address(int status, struct str body)
{
    return status == 400 && str_contains(body, STR("address not allowed"));
}

/* Says what the job is waiting for, each sentence once. -ECANCELED: it will never come. */
static int look_at_job(struct session *session,
                       const char *job,
                       char said[static 256],
                       struct err *err)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    struct str message;
    struct str phase;
    struct json *tree;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r < 0)
        return r == -ENOENT ? r : 0;
    tree = object_json(object, &session->arena);
    message = str_sub(json_str_at(tree, "status.message"), 0, 250);
    phase = json_str_at(tree, "status.phase");
    if (job_is_over(phase))
        return err_set(err, -ECANCELED, "job %s is over (" STR_FMT "): " STR_FMT, job,
                       STR_ARG(phase), STR_ARG(message));
    if (message.len && !str_is(message, said)) {
        (void)snprintf(said, 256, STR_FMT, STR_ARG(message));
        session_say(session, "%s: %s", job, said);
    }
    return 0;
}

/* What the other side has now: {"revision": ...}. Waits for the pod to be there. */
static int get_state(struct session *session,
                     const char *job,
                     const struct upload *upload,
                     struct hash *ret,
                     struct err *err)
{
    struct session_request request = {.method = "GET",
                                      .path = sync_path(session, job, "state"),
                                      .timeout_ms = SYNC_PROXY_LIMIT_MS};
    char said[256] = "starting the sync pod";
    struct json *state;
    struct str body;

    for (int64_t began_ms = clock_monotonic_ms();;) {
        int status = sync_http(session, job, &request, &body, err);
        int64_t waited_ms = clock_monotonic_ms() - began_ms;
        int r;

        if (status == 200)
            break;
        if (upload->interrupted)
            return upload_interrupted(err);
        if (status == -EACCES || status == -ENOENT) /* the secret or the job: not the pod */
            return status;
        r = waited_ms > QUICK_START_MS ? look_at_job(session, job, said, err) : 0;
        if (r < 0)
            return r;
        bool early = worth_retrying(status < 0 ? status : 0, status) ||
                     (status > 0 && has_no_address(status, body));
        if (!early || waited_ms > POD_LIMIT_MS)
            return status < 0 ? status
                              : err_set(err, -EIO, "the sync pod of job %s answered %d: " STR_FMT,
                                        job, status, STR_ARG(session_error_text(session, body)));
        session_pause(session, waited_ms < QUICK_START_MS ? QUICK_RETRY_MS : RETRY_MS);
    }
    if (json_parse(&session->arena, body, &state, err) < 0 ||
        !hash_parse(json_str(json_get(state, "revision")), ret))
        return err_set(err, -EPROTO, "the sync pod of job %s gave no state", job);
    return 0;
}

struct missing_list {
    struct arena *arena;
    struct map map;
};

static int take_missing(void *user, const struct frame *frame, struct err *err)
{
    struct missing_list *list = user;
    uint64_t *offset;

    if (frame->type != FRAME_CONTENT)
        return err_set(err, -EPROTO, "the sync pod sent an unexpected answer");
    offset = ARENA_NEW(list->arena, uint64_t);
    *offset = frame->content.size;
    (void)map_set(&list->map, str_dup(list->arena, hash_key(&frame->content.hash)), offset);
    return 0;
}

static int ask_missing(struct session *session,
                       const char *job,
                       const struct manifest *manifest,
                       struct missing_list *list,
                       struct err *err)
{
    _cleanup_(buf_done) struct buf body = {0};
    struct str answer;
    int status;

    for (size_t i = 0; i < manifest->entries.count; i++)
        if (manifest->entries.items[i].type == WS_FILE)
            frame_add_content(&body, manifest->entries.items[i].hash,
                              manifest->entries.items[i].size);
    status = sync_http(session, job,
                       &(struct session_request){.method = "POST",
                                                 .path = sync_path(session, job, "missing"),
                                                 .content_type = FRAMES_TYPE,
                                                 .body = buf_str(&body),
                                                 .timeout_ms = SEGMENT_LIMIT_MS},
                       &answer, err);
    if (status != 200)
        return status < 0 ? status
                          : err_set(err, -EIO, "the sync pod answered %d: " STR_FMT, status,
                                    STR_ARG(session_error_text(session, answer)));
    return frame_read_all(answer, take_missing, list, err);
}

static int commit(struct session *session, const char *job, struct upload *upload, struct err *err)
{
    _cleanup_(buf_done) struct buf body = {0};
    struct manifest *manifest = upload->manifest;
    struct str answer = STR("");
    int status = 0;
    int r = manifest_finish(manifest, err);

    if (r < 0)
        return r;
    frame_add_begin(&body, &(struct frame_begin){.target = manifest->revision, .full = true});
    for (size_t i = 0; i < manifest->entries.count; i++)
        frame_add_entry(&body, &manifest->entries.items[i]);
    frame_add_empty(&body, FRAME_COMMIT);
    for (int tries = 0; tries < SEGMENT_TRIES_MAX; tries++) {
        if (upload->interrupted)
            return upload_interrupted(err);
        status = sync_http(session, job,
                           &(struct session_request){.method = "POST",
                                                     .path = sync_commit_path(session, job),
                                                     .content_type = FRAMES_TYPE,
                                                     .body = buf_str(&body),
                                                     .timeout_ms = SEGMENT_LIMIT_MS},
                           &answer, err);
        if (!worth_retrying(status < 0 ? status : 0, status))
            break;
        session_pause(session, RETRY_MS);
    }
    if (status == 200)
        return 0;
    return status < 0 ? status
                      : err_set(err, status == 412 || status == 422 ? -EILSEQ : -EIO,
                                "the sync pod refused the workspace: " STR_FMT,
                                STR_ARG(session_error_text(session, answer)));
}

static int upload_once(struct session *session,
                       const char *job,
                       struct upload *upload,
                       struct err *err)
{
    struct missing_list list = {.arena = &session->arena};
    struct hash there = {0};
    bool first;
    int r = get_state(session, job, upload, &there, err);

    if (r < 0)
        return r;
    first = hash_is_zero(there);
    upload->began_ms = clock_monotonic_ms();
    if (!first) {
        if (!upload->cache.exact)
            r = outbox_hash(upload->folder, upload->manifest, err);
        if (r == 0 && !upload->cache.exact)
            r = manifest_finish(upload->manifest, err);
        if (r < 0)
            return r;
        upload->unchanged = hash_eq(there, upload->manifest->revision);
        if (upload->unchanged)
            return 0;
        r = ask_missing(session, job, upload->manifest, &list, err);
    }
    if (r == 0)
        r = send_contents(session, job, upload, first ? NULL : &list.map, err);
    map_done(&list.map);
    return r < 0 ? r : commit(session, job, upload, err);
}

int upload_run(struct session *session, const char *job, struct upload *upload, struct err *err)
{
    char hex[HASH_HEX_BYTES];
    int r = -EILSEQ;

    for (int tries = 0; r == -EILSEQ && tries < CHANGED_TRIES_MAX; tries++) {
        if (tries > 0) {
            upload_done(upload);
            r = upload_scan(session, upload, err);
            if (r < 0)
                return r;
        }
        r = upload_once(session, job, upload, err);
    }
    if (r < 0)
        return r;
    upload->took_ms = clock_monotonic_ms() - upload->began_ms;
    statcache_save(&upload->cache, upload->manifest);
    (void)snprintf(upload->revision, sizeof(upload->revision), "%s",
                   hash_hex(upload->manifest->revision, hex));
    return 0;
}

int upload_tell(struct session *session, const char *job, const char *revision, struct err *err)
{
    return session_patch(
        session, &kind_torchrunjob, job,
        str_printf(&session->arena,
                   "{\"metadata\":{\"annotations\":{\"" JOB_REVISION "\":\"%s\"}}}", revision),
        err);
}
