#include "workspace/sync.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/vec.h"
#include "workspace/door.h"
#include "workspace/etcd.h"
#include "workspace/facts.h"
#include "workspace/frame.h"
#include "workspace/httpd.h"
#include "workspace/keep.h"
#include "workspace/keep_results.h"
#include "workspace/manifest.h"
#include "workspace/source.h"
#include "workspace/sync_call.h"
#include "workspace/sync_log.h"
#include "workspace/sync_worker.h"
#include "workspace/tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PING_INTERVAL_MS 10000
/* A worker that does not say "stopped" in this time no longer holds up the others. */
#define RESTART_WAIT_MS 5000
#define WAIT_LIMIT_MS   30000
/* A stream is refilled up to here, so that many slow workers cost little memory. */
#define STREAM_BATCH_BYTES ((size_t)2 << 20)
#define TURN_MS            200

/* One request in progress; for a pull, as long as the worker stays connected. */
struct client {
    struct httpd_conn *conn;
    enum call call;
    struct buf in;
    struct buf out;
    struct err err;
    int failed;
    struct delta delta;
    bool committed;
    /* pull */
    bool in_step; /* the stream ends at `at`, the current revision: deltas can follow */
    struct hash at;
    struct manifest *have; /* not in step: what the worker has */
    struct manifest *goal; /* not in step: what is being streamed */
    struct map sent;       /* contents of this stream, by hash; keys on sent_arena */
    struct arena sent_arena;
    size_t file_index; /* next entry of goal to look at */
    int file_fd;
    uint64_t file_offset;
    struct sync_worker worker;
    int64_t ping_ms;
    bool entered; /* door_enter() was told, with this address */
    struct address address;
    struct keep_results *results; /* that are being sent */
    /* keys */
    struct etcd_wait keys_wait;
    /* wait */
    struct hash wanted;
    int64_t until_ms;
};

struct sync {
    struct httpd *httpd;
    struct door *door;
    struct sync_log log;
    struct tree tree;
    struct etcd etcd;
    struct client_vec VEC_FIELDS(struct client *) clients;
    uint64_t restart;
    struct hash started; /* the revision that the ranks began with; zero: not known */
    bool restart_going;  /* stop was told, go was not */
    int64_t restart_until_ms;
    int64_t now_ms;
};

/* Times to live are told to clients as moments. */
static int64_t wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void etcd_reply_done(struct etcd_reply *reply)
{
    buf_done(&reply->body);
}

static struct client *client_of(struct httpd_conn *conn)
{
    return httpd_data(conn);
}

static bool is_ready(const struct sync *sync)
{
    return !hash_is_zero(sync->tree.current->revision);
}

/* ---- answers ---- */

static void reply_error(struct client *client, int code, const struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    int status = code == -ESTALE   ? 409
                 : code == -EFBIG  ? 413
                 : code == -ENOENT ? 412
                 : code == -EINVAL ? 422
                 : code == -EPROTO ? 400
                 : code == -EILSEQ ? 422
                 : code == -ENOSPC ? 507
                 : code == -EACCES ? 401
                                   : 500;

    buf_addf(&text, "%s\n", err->text);
    httpd_reply(client->conn, status, "", "text/plain", buf_str(&text));
    client->call = CALL_NONE;
}

static void reply_state(struct sync *sync, struct client *client)
{
    _cleanup_(buf_done) struct buf text = {0};
    const struct manifest *current = sync->tree.current;
    char hex[HASH_HEX_BYTES];
    char started[HASH_HEX_BYTES];
    bool first = true;

    buf_addf(
        &text,
        "{\"revision\":\"%s\",\"entries\":%zu,\"bytes\":%llu,\"restart\":%llu,\"started\":\"%s\","
        "\"workers\":[",
        hash_hex(current->revision, hex), current->entries.count,
        (unsigned long long)current->bytes, (unsigned long long)sync->restart,
        hash_hex(sync->started, started));
    for (size_t i = 0; i < sync->clients.count; i++) {
        const struct client *worker = sync->clients.items[i];

        if (worker->call != CALL_PULL)
            continue;
        buf_add(&text, first ? STR("") : STR(","));
        sync_worker_write(&text, &worker->worker);
        first = false;
    }
    buf_add(&text, STR("]}\n"));
    httpd_reply(client->conn, 200, "", "application/json", buf_str(&text));
    client->call = CALL_NONE;
}

/* ---- uploads ---- */

static int take_frame(void *user, const struct frame *frame, struct err *err)
{
    struct client *client = user;
    struct sync *sync = httpd_user(client->conn);
    uint64_t offset;

    if (client->call == CALL_MISSING) {
        if (frame->type != FRAME_CONTENT)
            return err_set(err, -EPROTO, "only content frames can be asked for");
        if (!tree_has(&sync->tree, frame->content.hash, frame->content.size, &offset))
            frame_add_content(&client->out, frame->content.hash, offset);
        return 0;
    }
    if (frame->type == FRAME_BLOB)
        return tree_blob(&sync->tree, &frame->blob, err);
    if (client->call == CALL_BLOBS)
        return err_set(err, -EPROTO, "only contents can be sent here");
    if (client->call == CALL_PULL) {
        if (frame->type != FRAME_ENTRY)
            return err_set(err, -EPROTO, "only entries can be sent here");
        manifest_add(client->have, &frame->entry);
        return 0;
    }
    if (frame->type == FRAME_COMMIT && !client->committed) {
        client->committed = true;
        return 0;
    }
    return delta_frame(&client->delta, frame, err);
}

static void tell_workers(struct sync *sync, enum frame_type type)
{
    _cleanup_(buf_done) struct buf frame = {0};

    frame_add_number(&frame, type, sync->restart);
    for (size_t i = 0; i < sync->clients.count; i++)
        if (sync->clients.items[i]->call == CALL_PULL)
            (void)httpd_stream_add(sync->clients.items[i]->conn, buf_str(&frame));
}

/* Two steps, so that no rank of the new round meets a rank of the old one: everybody stops and says
 * so, then everybody goes. */
static void restart_begin(struct sync *sync)
{
    sync->restart++;
    sync->started = sync->tree.current->revision;
    sync_log_say(&sync->log, wall_ms(), "restart %llu of the ranks in place",
                 (unsigned long long)sync->restart);
    sync->restart_going = true;
    sync->restart_until_ms = sync->now_ms + RESTART_WAIT_MS;
    tell_workers(sync, FRAME_STOP);
}

static void restart_step(struct sync *sync)
{
    bool all = true;

    if (!sync->restart_going)
        return;
    for (size_t i = 0; i < sync->clients.count; i++)
        if (sync->clients.items[i]->call == CALL_PULL &&
            sync->clients.items[i]->worker.stopped < sync->restart)
            all = false;
    if (!all && sync->now_ms < sync->restart_until_ms)
        return;
    sync->restart_going = false;
    tell_workers(sync, FRAME_GO);
}

/* ---- pulls ---- */

static int add_change(void *user, const struct ws_entry *before, const struct ws_entry *after)
{
    struct buf *out = user;

    if (after)
        frame_add_entry(out, after);
    else
        frame_add_gone(out, before->path);
    return 0;
}

/* From here on the worker is being brought to the current revision. Also when the workspace moves
 * on in the middle: contents that were sent are remembered, so nothing travels twice and a stream
 * of edits cannot keep a slow worker from ever arriving. */
static void pull_aim(struct sync *sync, struct client *client)
{
    if (client->file_fd >= 0)
        close(TAKE_FD(client->file_fd));
    client->file_offset = 0;
    client->file_index = 0;
    client->in_step = false;
    manifest_unref(client->goal);
    client->goal = is_ready(sync) ? manifest_ref(sync->tree.current) : NULL;
}

static void pull_in_step(struct client *client, struct hash revision)
{
    manifest_unref(TAKE_PTR(client->have));
    manifest_unref(TAKE_PTR(client->goal));
    map_done(&client->sent);
    arena_done(&client->sent_arena);
    client->sent = (struct map){0};
    client->sent_arena = (struct arena){0};
    client->in_step = true;
    client->at = revision;
}

static void pull_end(struct client *client)
{
    _cleanup_(buf_done) struct buf out = {0};

    if (!hash_eq(client->have->revision, client->goal->revision)) {
        frame_add_begin(&out, &(struct frame_begin){.target = client->goal->revision,
                                                    .base = client->have->revision});
        (void)manifest_diff(client->have, client->goal, add_change, &out);
        frame_add_empty(&out, FRAME_COMMIT);
        (void)httpd_stream_add(client->conn, buf_str(&out));
    }
    pull_in_step(client, client->goal->revision);
}

/* One piece of the file at file_index into `out`; moves on at its end. */
static int pull_piece(struct sync *sync, struct client *client, struct buf *out)
{
    const struct ws_entry *entry = &client->goal->entries.items[client->file_index];
    struct frame_blob blob = {.hash = entry->hash,
                              .size = entry->size,
                              .offset = client->file_offset,
                              .mode = entry->mode};
    uint64_t left = entry->size - client->file_offset;
    size_t bytes = left < FRAME_PIECE_MAX ? (size_t)left : FRAME_PIECE_MAX;
    char *room;

    if (client->file_fd < 0) {
        client->file_fd = tree_open_file(&sync->tree, entry, NULL);
        if (client->file_fd < 0)
            return client->file_fd;
    }
    blob.bytes = (struct str){"", bytes};
    if (bytes == entry->size && client->have && hash_is_zero(client->have->revision))
        blob.path = entry->path;
    frame_add_blob_head(out, &blob);
    room = buf_room(out, bytes + 1);
    for (size_t got = 0; got < bytes;) {
        ssize_t n =
            pread(client->file_fd, room + got, bytes - got, (off_t)(client->file_offset + got));

        if (n <= 0)
            return -EIO;
        got += (size_t)n;
    }
    out->len += bytes;
    client->file_offset += bytes;
    if (client->file_offset == entry->size) {
        struct str key = str_dup(&client->sent_arena, hash_key(&entry->hash));

        (void)map_set(&client->sent, key, client);
        close(TAKE_FD(client->file_fd));
        client->file_offset = 0;
        client->file_index++;
    }
    return 0;
}

static bool worker_has(const struct client *client, const struct ws_entry *entry)
{
    const struct ws_entry *have = manifest_find(client->have, entry->path);

    return (have && have->type == WS_FILE && hash_eq(have->hash, entry->hash)) ||
           map_get(&client->sent, hash_key(&entry->hash));
}

static void pull_more(struct sync *sync, struct client *client)
{
    _cleanup_(buf_done) struct buf out = {0};

    while (client->goal && out.len < STREAM_BATCH_BYTES) {
        if (client->file_index == client->goal->entries.count) {
            (void)httpd_stream_add(client->conn, buf_str(&out));
            buf_clear(&out);
            pull_end(client);
            break;
        }
        const struct ws_entry *entry = &client->goal->entries.items[client->file_index];
        if (client->file_fd < 0 && (entry->type != WS_FILE || worker_has(client, entry))) {
            client->file_index++;
        } else if (pull_piece(sync, client, &out) < 0) {
            httpd_drop(client->conn); /* it will connect again and say what it has */
            return;
        }
    }
    (void)httpd_stream_add(client->conn, buf_str(&out));
}

/* The frames of a light delta that has just been committed. */
static int light_frames(struct sync *sync, const struct delta *delta, struct buf *out)
{
    struct client reader = {.file_fd = -1, .goal = manifest_new()};
    int r = 0;

    for (size_t i = 0; i < delta->set.count; i++)
        if (delta->set.items[i].type == WS_FILE)
            manifest_add(reader.goal, &delta->set.items[i]);
    while (r == 0 && reader.file_index < reader.goal->entries.count)
        r = pull_piece(sync, &reader, out);
    pull_in_step(&reader, delta->begin.target);
    if (reader.file_fd >= 0)
        close(reader.file_fd);
    frame_add_begin(out, &delta->begin);
    for (size_t i = 0; i < delta->gone.count; i++)
        frame_add_gone(out, delta->gone.items[i]);
    for (size_t i = 0; i < delta->set.count; i++)
        frame_add_entry(out, &delta->set.items[i]);
    frame_add_empty(out, FRAME_COMMIT);
    return r;
}

/* After a commit. `before` is the revision it replaced, held only when the delta is not light. */
static void deliver(struct sync *sync, const struct delta *delta, struct manifest *before)
{
    _cleanup_(buf_done) struct buf frames = {0};
    bool light = !before && light_frames(sync, delta, &frames) == 0;

    for (size_t i = 0; i < sync->clients.count; i++) {
        struct client *client = sync->clients.items[i];

        if (client->call != CALL_PULL)
            continue;
        if (client->in_step && light && hash_eq(client->at, delta->begin.base)) {
            (void)httpd_stream_add(client->conn, buf_str(&frames));
            client->at = delta->begin.target;
            continue;
        }
        if (client->in_step && !before) {
            httpd_drop(client->conn);
            continue;
        }
        if (client->in_step)
            client->have = manifest_ref(before);
        pull_aim(sync, client);
        pull_more(sync, client);
    }
}

/* ---- requests ---- */

static void on_begin(void *user, struct httpd_conn *conn, const struct httpd_request *request)
{
    struct sync *sync = user;
    struct client *client = client_of(conn);

    if (!client) {
        client = MEM_NEW(struct client);
        client->conn = conn;
        client->file_fd = -1;
        httpd_set_data(conn, client);
        VEC_PUSH(NULL, &sync->clients, client);
    }
    client->call = call_of(request);
    client->failed = 0;
    client->committed = false;
    client->in.bytes_max = 2 * FRAME_BYTES_MAX;
    buf_clear(&client->in);
    buf_clear(&client->out);
    delta_done(&client->delta);
    if (client->call == CALL_NONE)
        httpd_reply(conn, 404, "", "text/plain", STR("no such path; see workspace/sync.h\n"));
    if (call_needs_secret(client->call, request->path) &&
        door_secret(sync->door, request->secret, &client->err) < 0)
        client->call = CALL_REFUSED; /* answered behind the body: who still sends may not listen */
    /* That of a pull that was refused is still there: its connection stays. */
    manifest_unref(TAKE_PTR(client->have));
    if (client->call == CALL_PULL)
        client->have = manifest_new();
}

static void on_body(void *user, struct httpd_conn *conn, struct str bytes)
{
    struct client *client = client_of(conn);

    (void)user;
    if (client->failed || client->call == CALL_NONE || client->call == CALL_STATE ||
        client->call == CALL_WAIT || client->call == CALL_OTHER || client->call == CALL_REFUSED)
        return;
    if (client->call == CALL_KEYS || client->call == CALL_LOG || client->call == CALL_RESULTS ||
        client->call == CALL_ACK) {
        buf_add(&client->in, bytes);
        if (client->in.overflow)
            reply_error(client, -EFBIG, &(struct err){.text = "the body is too large"});
        return;
    }
    while (bytes.len && !client->failed) {
        struct str piece = str_sub(bytes, 0, FRAME_BYTES_MAX);

        bytes = str_sub(bytes, piece.len, bytes.len);
        buf_add(&client->in, piece);
        client->failed = frame_read(&client->in, take_frame, client, &client->err);
    }
    if (client->failed)
        reply_error(client, client->failed, &client->err);
}

static void end_commit(struct sync *sync, struct client *client)
{
    bool restart = delta_sets(&client->delta, STR(WS_RESTART_FILE)) && is_ready(sync);
    _cleanup_(manifest_unrefp) struct manifest *before =
        delta_is_light(&client->delta) ? NULL : manifest_ref(sync->tree.current);
    char by[SYNC_BY_BYTES] = "";
    bool first = !is_ready(sync);
    int r = 0;

    if (!client->committed)
        r = err_set(&client->err, -EPROTO, "the upload ended before its commit");
    if (r == 0)
        r = tree_commit(&sync->tree, &client->delta, &client->err);
    if (r < 0) {
        reply_error(client, r, &client->err);
        return;
    }
    if (hash_is_zero(sync->started))
        sync->started = first ? sync->tree.current->revision : sync->started;
    deliver(sync, &client->delta, before);
    delta_done(&client->delta);
    (void)httpd_query(client->conn, "by", by, sizeof(by));
    sync_log_commit(&sync->log, wall_ms(), sync->tree.current, by);
    if (restart)
        restart_begin(sync);
    reply_state(sync, client);
}

static void end_pull(struct sync *sync, struct client *client)
{
    char text[64] = "";
    int r = manifest_finish(client->have, &client->err);

    if (client->have->entries.count == 0) {
        /* Nothing yet, or an empty folder: only the worker knows. */
        client->have->revision = (struct hash){0};
        if (httpd_query(client->conn, "revision", text, sizeof(text)))
            (void)hash_parse(str_from(text), &client->have->revision);
    }
    if (r < 0) {
        reply_error(client, r, &client->err);
        return;
    }
    sync_worker_begin(&client->worker, client->conn, client->have->revision);
    client->worker.stopped = sync->restart;
    client->ping_ms = sync->now_ms;
    client->address = door_address(httpd_fd(client->conn));
    client->entered = true;
    door_enter(sync->door, client->address);
    httpd_stream_begin(client->conn, "application/octet-stream");
    if (sync->restart > 0 && !sync->restart_going) {
        /* It comes after a restart: ranks that meet must agree on its number. */
        _cleanup_(buf_done) struct buf frame = {0};

        frame_add_number(&frame, FRAME_GO, sync->restart);
        (void)httpd_stream_add(client->conn, buf_str(&frame));
    }
    pull_aim(sync, client);
    pull_more(sync, client);
}

static void end_ack(struct sync *sync, struct client *client)
{
    struct sync_ack ack = sync_ack_read(client->conn);

    for (size_t i = 0; i < sync->clients.count; i++) {
        struct client *other = sync->clients.items[i];

        if (other->call != CALL_PULL || other->worker.rank != ack.rank)
            continue;
        if (!hash_is_zero(ack.revision) && !hash_eq(other->worker.acked, ack.revision))
            sync_log_worker(&sync->log, wall_ms(), ack.rank, ack.revision);
        sync_worker_ack(&other->worker, &ack, buf_str(&client->in));
    }
    buf_clear(&client->in);
    httpd_reply(client->conn, 200, "", "text/plain", STR("ok\n"));
    client->call = CALL_NONE;
}

/* ---- keys ---- */

static void keys_reply(struct client *client, const struct etcd_reply *reply)
{
    char headers[160];

    (void)snprintf(headers, sizeof(headers),
                   "X-Etcd-Index: %llu\r\nX-Raft-Index: %llu\r\nX-Raft-Term: "
                   "1\r\nX-Etcd-Cluster-Id: muster\r\n",
                   (unsigned long long)reply->index, (unsigned long long)reply->index);
    httpd_reply(client->conn, reply->status, headers, "application/json", buf_str(&reply->body));
    client->call = CALL_NONE;
}

/* Whoever waits for a key that has changed. */
static void keys_tell(struct sync *sync)
{
    for (size_t i = 0; i < sync->clients.count; i++) {
        _cleanup_(etcd_reply_done) struct etcd_reply reply = {0};
        struct client *client = sync->clients.items[i];

        if (client->call == CALL_KEYS_WAIT && etcd_wait(&sync->etcd, &client->keys_wait, &reply))
            keys_reply(client, &reply);
    }
}

static void end_keys(struct sync *sync, struct client *client)
{
    _cleanup_(etcd_reply_done) struct etcd_reply reply = {0};
    const struct httpd_request *http = httpd_request(client->conn);
    struct etcd_request request = {
        .method = http->method,
        .path = str_sub(http->path, sizeof(CALL_KEYS_PATH) - 1, http->path.len),
        .query = http->query,
        .form = buf_str(&client->in),
    };

    etcd_handle(&sync->etcd, &request, wall_ms(), &reply, &client->keys_wait);
    buf_clear(&client->in);
    if (reply.status == 0) {
        client->call = CALL_KEYS_WAIT;
        return;
    }
    keys_reply(client, &reply);
    keys_tell(sync);
}

/* A request for keys is complete: whose is it? */
static void keys_door(struct sync *sync, struct client *client)
{
    enum door_answer answer =
        door_peer(sync->door, httpd_fd(client->conn), sync->now_ms, &client->err);

    if (answer == DOOR_OPEN) {
        end_keys(sync, client);
        return;
    }
    if (answer == DOOR_WAIT && client->call == CALL_KEYS) {
        client->call = CALL_KEYS_DOOR;
        client->until_ms = sync->now_ms + DOOR_WAIT_MS;
    }
    if (answer == DOOR_WAIT && sync->now_ms < client->until_ms)
        return;
    if (answer == DOOR_WAIT)
        door_unknown(sync->door, httpd_fd(client->conn), &client->err);
    httpd_reply(client->conn, 403, "", "text/plain", str_from(client->err.text));
    buf_clear(&client->in);
    client->call = CALL_NONE;
}

static void end_other(struct sync *sync, struct client *client)
{
    struct str path = httpd_request(client->conn)->path;

    if (str_is(path, "/v1/restart")) {
        restart_begin(sync);
        reply_state(sync, client);
    } else if (!facts_answer(client->conn)) {
        httpd_reply(client->conn, 200, "", "text/plain", STR("ok\n"));
    }
    client->call = CALL_NONE;
}

static void results_over(struct client *client)
{
    keep_results_close(TAKE_PTR(client->results));
    client->call = CALL_NONE;
}

static void end_results(struct sync *sync, struct client *client)
{
    client->results = keep_results_answer(sync->tree.root_fd, client->conn, buf_str(&client->in));
    buf_clear(&client->in);
    if (!client->results)
        client->call = CALL_NONE;
}

static void on_end(void *user, struct httpd_conn *conn)
{
    struct sync *sync = user;
    struct client *client = client_of(conn);
    char text[64];

    if (client->in.len && client->call != CALL_NONE && client->call != CALL_KEYS &&
        client->call != CALL_LOG && client->call != CALL_RESULTS && client->call != CALL_ACK) {
        err_set(&client->err, -EPROTO, "the body ended in the middle of a frame");
        reply_error(client, -EPROTO, &client->err);
        return;
    }
    switch (client->call) {
    case CALL_NONE: break;
    case CALL_STATE: reply_state(sync, client); break;
    case CALL_MISSING:
        httpd_reply(conn, 200, "", "application/octet-stream", buf_str(&client->out));
        client->call = CALL_NONE;
        break;
    case CALL_BLOBS:
        httpd_reply(conn, 200, "", "text/plain", STR("ok\n"));
        client->call = CALL_NONE;
        break;
    case CALL_COMMIT: end_commit(sync, client); break;
    case CALL_PULL: end_pull(sync, client); break;
    case CALL_WAIT:
        client->wanted = (struct hash){0};
        if (httpd_query(conn, "revision", text, sizeof(text)))
            (void)hash_parse(str_from(text), &client->wanted);
        client->until_ms = sync->now_ms + WAIT_LIMIT_MS;
        break;
    case CALL_LOG:
        keep_answer(sync->tree.root_fd, conn, buf_str(&client->in));
        buf_clear(&client->in);
        client->call = CALL_NONE;
        break;
    case CALL_RESULTS: end_results(sync, client); break;
    case CALL_KEYS: keys_door(sync, client); break;
    case CALL_KEYS_DOOR:
    case CALL_KEYS_WAIT: break;
    case CALL_REFUSED: reply_error(client, -EACCES, &client->err); break;
    case CALL_ACK: end_ack(sync, client); break;
    case CALL_OTHER: end_other(sync, client); break;
    }
}

static bool on_drained(void *user, struct httpd_conn *conn)
{
    struct client *client = client_of(conn);

    if (client->call == CALL_RESULTS) {
        if (keep_results_more(client->results, conn))
            return true;
        results_over(client);
        return false;
    }
    if (client->call == CALL_PULL)
        pull_more(user, client);
    return client->call == CALL_PULL && client->goal;
}

static void on_closed(void *user, struct httpd_conn *conn)
{
    struct sync *sync = user;
    struct client *client = client_of(conn);

    for (size_t i = 0; client && i < sync->clients.count; i++) {
        if (sync->clients.items[i] != client)
            continue;
        VEC_REMOVE_SWAP(&sync->clients, i);
        buf_done(&client->in);
        buf_done(&client->out);
        delta_done(&client->delta);
        results_over(client);
        pull_in_step(client, client->at);
        if (client->file_fd >= 0)
            close(client->file_fd);
        if (client->entered)
            door_leave(sync->door, client->address);
        if (client->entered)
            sync_log_say(&sync->log, wall_ms(), "worker %llu has left",
                         (unsigned long long)client->worker.rank);
        mem_free(client);
        break;
    }
}

static bool all_have(const struct sync *sync, struct hash revision)
{
    for (size_t i = 0; i < sync->clients.count; i++)
        if (sync->clients.items[i]->call == CALL_PULL &&
            !hash_eq(sync->clients.items[i]->worker.acked, revision))
            return false;
    return true;
}

static void on_tick(void *user, int64_t now_ms)
{
    _cleanup_(buf_done) struct buf ping = {0};
    struct sync *sync = user;

    sync->now_ms = now_ms;
    frame_add_empty(&ping, FRAME_PING);
    for (size_t i = 0; i < sync->clients.count; i++) {
        struct client *client = sync->clients.items[i];

        if (client->call == CALL_PULL && now_ms - client->ping_ms > PING_INTERVAL_MS) {
            client->ping_ms = now_ms;
            (void)httpd_stream_add(client->conn, buf_str(&ping));
        }
        if (client->call == CALL_WAIT &&
            (now_ms > client->until_ms || all_have(sync, client->wanted)))
            reply_state(sync, client);
        if (client->call == CALL_KEYS_DOOR)
            keys_door(sync, client);
    }
    (void)etcd_expire(&sync->etcd, wall_ms());
    keys_tell(sync);
    restart_step(sync);
}

int sync_serve(const struct sync_options *options, struct err *err)
{
    struct sync sync = {.door = options->door, .log = {options->note, options->user}};
    struct httpd_handler handler = {
        .begin = on_begin,
        .body = on_body,
        .end = on_end,
        .drained = on_drained,
        .closed = on_closed,
        .tick = on_tick,
        .user = &sync,
    };
    etcd_open(&sync.etcd);
    int r = tree_open(&sync.tree, options->folder, options->adopt, err);

    if (r == 0 && options->source && !is_ready(&sync))
        r = source_fetch(&sync.tree, options->folder, options->source, err);
    if (r == 0)
        r = httpd_open(options->address, options->port, &handler, &sync.httpd, err);
    if (r == 0 && options->ready)
        options->ready(options->user, httpd_port(sync.httpd));
    while (r == 0 && !(options->stop && options->stop(options->user)))
        r = httpd_turn(sync.httpd, TURN_MS, err);
    httpd_close(sync.httpd);
    VEC_DONE(&sync.clients);
    tree_done(&sync.tree);
    etcd_done(&sync.etcd);
    return r;
}
