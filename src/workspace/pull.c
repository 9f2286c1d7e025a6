#include "workspace/pull.h"

#include "base/cleanup.h"
#include "workspace/address.h"
#include "workspace/door.h"
#include "workspace/frame.h"
#include "workspace/resolve.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES      ((size_t)256 << 10)
#define KEPT_HEAD_BYTES 1024 /* of an answer: its head */
#define ACK_LIMIT_S     2
#define READS_PER_TURN  16

int pull_open(struct pull *pull,
              const struct pull_source *source,
              const char *folder,
              uint64_t rank,
              const struct pull_handler *handler,
              struct err *err)
{
    *pull =
        (struct pull){.fd = -1, .rank = rank, .handler = *handler, .pause_ms = PULL_RETRY_MIN_MS};
    (void)snprintf(pull->url, sizeof(pull->url), "%s", source->url);
    (void)snprintf(pull->secret, sizeof(pull->secret), "%s", source->secret ? source->secret : "");
    pull->frames.bytes_max = 2 * FRAME_BYTES_MAX;
    pull->in.bytes_max = 4 * READ_BYTES;
    int r = tree_open(&pull->tree, folder, false, err);

    pull->tree.shared = true;
    return r;
}

static void disconnect(struct pull *pull)
{
    if (pull->fd >= 0)
        close(TAKE_FD(pull->fd));
    buf_clear(&pull->in);
    buf_clear(&pull->out);
    buf_clear(&pull->frames);
    delta_done(&pull->delta);
    pull->connected = false;
    pull->in_body = false;
    pull->response = (struct http_response){0};
    arena_reset(&pull->head);
}

void pull_done(struct pull *pull)
{
    disconnect(pull);
    buf_done(&pull->in);
    buf_done(&pull->out);
    buf_done(&pull->frames);
    arena_done(&pull->head);
    tree_done(&pull->tree);
}

int pull_fd(const struct pull *pull)
{
    return pull->fd;
}

short pull_events(const struct pull *pull)
{
    return (short)(POLLIN | (!pull->connected || pull->out.len ? POLLOUT : 0));
}

int64_t pull_next_ms(const struct pull *pull)
{
    return pull->fd < 0 ? pull->retry_ms : pull->heard_ms + PULL_SILENCE_MS;
}

static void trouble(struct pull *pull, const struct err *err, int64_t now_ms)
{
    disconnect(pull);
    if (!pull->troubled)
        pull->handler.trouble(pull->handler.user, err);
    pull->troubled = true;
    pull->retry_ms = now_ms + pull->pause_ms;
    pull->pause_ms =
        pull->pause_ms * 2 < PULL_RETRY_MAX_MS ? pull->pause_ms * 2 : PULL_RETRY_MAX_MS;
}

static int dial(struct pull *pull, int flags, struct err *err)
{
    struct sockaddr_storage to = {0};
    struct address address;
    struct str host;
    uint16_t port;
    int yes = 1;
    int r = resolve_url(str_from(pull->url), &host, &port, err);
    int fd;

    if (r == 0)
        r = resolve_host(host, &address, err);
    if (r < 0)
        return r;
    socklen_t size = address_to(address, port, &to);
    fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %s", strerrordesc_np(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if (!(flags & SOCK_NONBLOCK)) {
        struct timeval limit = {.tv_sec = ACK_LIMIT_S};

        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    }
    if (connect(fd, (struct sockaddr *)&to, size) < 0 && errno != EINPROGRESS) {
        r = err_set(err, -errno, "%s: %s", pull->url, strerrordesc_np(errno));
        close(fd);
        return r;
    }
    return fd;
}

static void start(struct pull *pull, int64_t now_ms)
{
    _cleanup_(buf_done) struct buf body = {0};
    const struct manifest *have = pull->tree.current;
    char hex[HASH_HEX_BYTES];
    struct err err = {0};

    pull->fd = dial(pull, SOCK_NONBLOCK, &err);
    if (pull->fd < 0) {
        pull->fd = -1;
        trouble(pull, &err, now_ms);
        return;
    }
    pull->heard_ms = now_ms;
    for (size_t i = 0; i < have->entries.count; i++)
        frame_add_entry(&body, &have->entries.items[i]);
    buf_addf(&pull->out,
             "POST /v1/pull?rank=%llu&revision=%s&trouble=", (unsigned long long)pull->rank,
             hash_hex(have->revision, hex));
    for (const char *c = pull->words; *c; c++)
        buf_addf(&pull->out, "%%%02x", (unsigned)(unsigned char)*c);
    buf_addf(&pull->out,
             " HTTP/1.1\r\nHost: sync\r\n" DOOR_HEADER ": %s\r\nContent-Length: %zu\r\n\r\n",
             pull->secret, body.len);
    buf_add(&pull->out, buf_str(&body));
}

/* A small request on a connection of its own; the answer does not matter, only that it came. */
static void say(struct pull *pull, const char *query, struct str body)
{
    _cleanup_(buf_done) struct buf out = {0};
    char answer[256];
    int fd = dial(pull, 0, NULL);

    if (fd < 0)
        return;
    buf_addf(&out,
             "POST /v1/ack?rank=%llu&%s HTTP/1.1\r\nHost: sync\r\nConnection: close\r\n" DOOR_HEADER
             ": %s\r\nContent-Length: %zu\r\n\r\n" STR_FMT,
             (unsigned long long)pull->rank, query, pull->secret, body.len, STR_ARG(body));
    if (send(fd, out.p, out.len, MSG_NOSIGNAL) == (ssize_t)out.len)
        (void)recv(fd, answer, sizeof(answer), 0);
    close(fd);
}

int pull_keep(struct pull *pull, uint64_t generation, uint64_t offset, struct str text)
{
    _cleanup_(buf_done) struct buf out = {0};
    char answer[64] = "";
    ssize_t got = 0;
    int fd = pull->in_body ? dial(pull, 0, NULL) : -1;

    if (fd < 0)
        return -EAGAIN;
    buf_addf(&out,
             "POST /v1/log?rank=%llu&generation=%llu&offset=%llu HTTP/1.1\r\nHost: sync\r\n"
             "Connection: close\r\n" DOOR_HEADER ": %s\r\nContent-Length: %zu\r\n\r\n" STR_FMT,
             (unsigned long long)pull->rank, (unsigned long long)generation,
             (unsigned long long)offset, pull->secret, text.len, STR_ARG(text));
    if (disk_write(fd, buf_str(&out)) == 0)
        got = recv(fd, answer, sizeof(answer) - 1, 0);
    close(fd);
    return got > 0 && str_starts(str_from(answer), STR("HTTP/1.1 200 ")) ? 0 : -EAGAIN;
}

int pull_keep_results(struct pull *pull,
                      uint64_t generation,
                      uint64_t offset,
                      struct str frames,
                      struct err *err)
{
    _cleanup_(buf_done) struct buf out = {0};
    char answer[KEPT_HEAD_BYTES] = "";
    size_t got = 0;
    ssize_t more = 0;
    int fd = dial(pull, 0, err);

    if (fd < 0)
        return -EAGAIN;
    buf_addf(&out,
             "POST /v1/results?rank=%llu&generation=%llu&offset=%llu HTTP/1.1\r\nHost: sync\r\n"
             "Connection: close\r\n" DOOR_HEADER ": %s\r\nContent-Length: %zu\r\n\r\n",
             (unsigned long long)pull->rank, (unsigned long long)generation,
             (unsigned long long)offset, pull->secret, frames.len);
    if (disk_write(fd, buf_str(&out)) == 0 && disk_write(fd, frames) == 0)
        while (got + 1 < sizeof(answer) &&
               (more = recv(fd, answer + got, sizeof(answer) - 1 - got, 0)) > 0)
            got += (size_t)more;
    close(fd);
    if (str_starts(str_from(answer), STR("HTTP/1.1 200 ")))
        return 0;
    const char *words = strstr(answer, "\r\n\r\n");
    if (!got || !words)
        return err_set(err, -EAGAIN, "the sync pod does not answer");
    bool behind = str_starts(str_from(answer), STR("HTTP/1.1 409 "));
    return err_set(err, behind ? -EAGAIN : -EFBIG, "%s", words + 4);
}

int pull_kept(struct pull *pull, uint64_t generation, uint64_t *ret_bytes)
{
    static const char mark[] = "\r\nContent-Length: ";
    char text[KEPT_HEAD_BYTES] = "";
    size_t got = 0;
    int fd = pull->in_body ? dial(pull, 0, NULL) : -1;
    int n;

    if (fd < 0)
        return -EAGAIN;
    n = snprintf(text, sizeof(text),
                 "GET /v1/log?rank=%llu&generation=%llu HTTP/1.1\r\nHost: sync\r\n"
                 "Connection: close\r\n" DOOR_HEADER ": %s\r\n\r\n",
                 (unsigned long long)pull->rank, (unsigned long long)generation, pull->secret);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) == n) {
        ssize_t more;

        text[0] = '\0';
        while (got + 1 < sizeof(text) && !strstr(text, "\r\n\r\n") &&
               (more = recv(fd, text + got, sizeof(text) - 1 - got, 0)) > 0)
            text[got += (size_t)more] = '\0';
    }
    close(fd);
    const char *length = strstr(text, mark);
    *ret_bytes = 0;
    if (!got || !strstr(text, "\r\n\r\n"))
        return -EAGAIN;
    if (length && str_starts(str_from(text), STR("HTTP/1.1 200 "))) {
        struct str number = str_from(length + sizeof(mark) - 1);

        (void)str_to_u64(str_sub(number, 0, str_find(number, '\r')), ret_bytes);
    }
    return 0;
}

void pull_stopped(struct pull *pull, uint64_t restart)
{
    char query[64];

    (void)snprintf(query, sizeof(query), "restart=%llu", (unsigned long long)restart);
    say(pull, query, STR(""));
}

static int take_frame(void *user, const struct frame *frame, struct err *err)
{
    struct pull *pull = user;
    char query[128];
    char hex[HASH_HEX_BYTES];
    int r;

    switch (frame->type) {
    case FRAME_BLOB: return tree_blob(&pull->tree, &frame->blob, err);
    case FRAME_BEGIN:
    case FRAME_ENTRY:
    case FRAME_GONE: return delta_frame(&pull->delta, frame, err);
    case FRAME_COMMIT:
        r = tree_commit(&pull->tree, &pull->delta, err);
        delta_done(&pull->delta);
        if (r < 0)
            return r;
        pull->troubled = false;
        pull->pause_ms = PULL_RETRY_MIN_MS;
        pull->words[0] = '\0';
        (void)snprintf(query, sizeof(query), "revision=%s&kept=%zu",
                       hash_hex(pull->tree.current->revision, hex), pull->tree.kept_count);
        say(pull, query, buf_str(&pull->tree.kept));
        pull->handler.committed(pull->handler.user, pull->tree.current->revision);
        return 0;
    case FRAME_STOP: pull->handler.stop(pull->handler.user, frame->number); return 0;
    case FRAME_GO: pull->handler.go(pull->handler.user, frame->number); return 0;
    case FRAME_PING: return 0;
    case FRAME_PACKED:
    case FRAME_CONTENT: break;
    }
    return err_set(err, -EPROTO, "the sync pod sent a '%c' frame", (char)frame->type);
}

/* pull->in -> pull->frames, and read those. */
static int read_answer(struct pull *pull, struct err *err)
{
    struct http_response *response = &pull->response;
    int r = http_response_read(response, &pull->head, &pull->in, &pull->frames, err);

    if (r < 0 || !response->head_done)
        return r < 0 ? err_wrap(err, r, "the sync pod") : 0;
    if (response->status != 200) {
        struct str words = str_trim(buf_str(&pull->frames));

        return err_set(err, -EPROTO, "the sync pod answered %d%s" STR_FMT, response->status,
                       words.len ? ": " : "", STR_ARG(words));
    }
    pull->in_body = true;
    r = frame_read(&pull->frames, take_frame, pull, err);
    if (r < 0) /* whoever sent it is told, when we ask again */
        (void)snprintf(pull->words, sizeof(pull->words), "%s", err->text);
    return r == 0 && response->done ? err_set(err, -ECONNRESET, "the sync pod ended the stream")
                                    : r;
}

static int receive(struct pull *pull, int64_t now_ms, struct err *err)
{
    int r = 0;

    for (int i = 0; r == 0 && i < READS_PER_TURN; i++) {
        char *room = buf_room(&pull->in, READ_BYTES);
        ssize_t got = recv(pull->fd, room, READ_BYTES, 0);

        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return err_set(err, -ECONNRESET, "%s: %s", pull->url,
                           got == 0 ? "the connection was closed" : strerrordesc_np(errno));
        pull->in.len += (size_t)got;
        pull->heard_ms = now_ms;
        r = read_answer(pull, err);
    }
    return r;
}

static int transmit(struct pull *pull, struct err *err)
{
    ssize_t sent = pull->out.len ? send(pull->fd, pull->out.p, pull->out.len, MSG_NOSIGNAL) : 0;

    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
        return err_set(err, -errno, "%s: %s", pull->url, strerrordesc_np(errno));
    if (sent > 0) {
        pull->connected = true;
        buf_consume(&pull->out, (size_t)sent);
    }
    return 0;
}

void pull_turn(struct pull *pull, int64_t now_ms)
{
    struct err err = {0};
    int r;

    if (pull->fd < 0) {
        if (now_ms >= pull->retry_ms)
            start(pull, now_ms);
        return;
    }
    r = transmit(pull, &err);
    if (r == 0 && pull->connected)
        r = receive(pull, now_ms, &err);
    if (r == 0 && now_ms - pull->heard_ms > PULL_SILENCE_MS)
        r = err_set(&err, -ETIMEDOUT, "%s: nothing heard for %d s", pull->url,
                    PULL_SILENCE_MS / 1000);
    if (r < 0)
        trouble(pull, &err, now_ms);
}
