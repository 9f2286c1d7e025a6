#include "net/dns.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/dns_message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <uv.h>

#define DATAGRAM_BYTES 65536
#define PREFIX_BYTES   2   /* before every message by TCP: its length */
#define SWEEP_MS       250 /* DNS_TRY_MS and DNS_IDLE_MS are looked at so often */
#define SOURCES        1024
#define MILLI          1000

/* What a source may still ask. Two that share a place take it from each other: both then have more
 * than is theirs, never less. */
struct source {
    uint32_t address;
    uint64_t since_ms;
    uint64_t milli;
};

/* A client by TCP. One question at a time is answered, and its answer sent; the next ones wait in the
 * socket. */
struct conn {
    struct conn *next;
    struct dns *dns;
    uv_tcp_t tcp;
    uint32_t address;
    uint64_t spoke_ms;
    size_t len;
    bool asking;
    bool closing;
    char in[PREFIX_BYTES + DNS_QUERY_MAX];
};

/* A question that others are asked. */
struct ask {
    struct ask *next;
    struct dns *dns;
    struct conn *conn; /* NULL: by UDP */
    struct sockaddr_in client;
    struct dns_query query;
    char message[DNS_QUERY_MAX]; /* as it came */
    size_t message_len;
    char sent[PREFIX_BYTES + DNS_QUERY_MAX]; /* as it was passed on */
    size_t sent_len;                         /* without the prefix */
    bool alias;                              /* `sent` asks for what the name stands for */
    uint16_t id;
    unsigned tries;
    uint64_t since_ms;
    union {
        uv_handle_t handle;
        uv_udp_t udp;
        uv_tcp_t tcp;
    };
    bool open; /* the handle is */
    uv_connect_t connect;
    uv_write_t write;
    char *in; /* of TCP, with the prefix */
    size_t in_len;
};

struct dns {
    struct dns_options options;
    uv_udp_t udp;
    uv_tcp_t tcp;
    uv_timer_t sweep;
    struct conn *conns;
    size_t conn_count;
    struct ask *asks;
    size_t ask_count;
    size_t handles; /* that are not closed yet */
    bool stopping;
    struct source sources[SOURCES];
    struct dns_writer writer;
    char buffer[DATAGRAM_BYTES]; /* filled and emptied within one callback */
};

static void dns_release(struct dns *dns)
{
    if (--dns->handles)
        return;
    if (dns->stopping && dns->options.closed)
        dns->options.closed(dns->options.user);
    mem_free(dns);
}

static void on_handle_closed(uv_handle_t *handle)
{
    dns_release(handle->data);
}

static uint64_t now_ms(const struct dns *dns)
{
    return uv_now(dns->options.loop);
}

/* ---- who may ask ---- */

static bool source_may(struct dns *dns, const struct sockaddr *from, uint32_t *ret_address)
{
    const struct sockaddr_in *at = (const struct sockaddr_in *)(const void *)from;

    if (!from || from->sa_family != AF_INET)
        return false;
    uint32_t address = ntohl(at->sin_addr.s_addr);
    if ((address & dns->options.zone.mask) != dns->options.zone.network)
        return false;
    struct source *source = &dns->sources[address % SOURCES];
    if (source->address != address)
        *source = (struct source){address, now_ms(dns), (uint64_t)DNS_BURST * MILLI};
    source->milli += (now_ms(dns) - source->since_ms) * DNS_RATE;
    source->since_ms = now_ms(dns);
    if (source->milli > (uint64_t)DNS_BURST * MILLI)
        source->milli = (uint64_t)DNS_BURST * MILLI;
    *ret_address = address;
    if (source->milli < MILLI)
        return false;
    source->milli -= MILLI;
    return true;
}

/* ---- answers ---- */

static void conn_close(struct conn *conn);
static void conn_go_on(struct conn *conn);

struct sending {
    uv_write_t write;
    struct conn *conn; /* it is closed after its writes */
    char bytes[];
};

/* Who does not take his answers gets no more of them: the next question is read when this is gone. */
static void on_sent(uv_write_t *write, int status)
{
    struct sending *sending = write->data;
    struct conn *conn = sending->conn;

    mem_free(sending);
    if (conn->closing)
        return;
    conn->asking = false;
    if (status < 0)
        conn_close(conn);
    else
        conn_go_on(conn);
}

static void conn_send(struct conn *conn, struct str message)
{
    struct sending *sending = mem_alloc(sizeof(*sending) + PREFIX_BYTES + message.len);

    sending->write.data = sending;
    sending->conn = conn;
    sending->bytes[0] = (char)(message.len >> 8);
    sending->bytes[1] = (char)message.len;
    memcpy(sending->bytes + PREFIX_BYTES, message.p, message.len);
    uv_buf_t out = uv_buf_init(sending->bytes, (unsigned)(PREFIX_BYTES + message.len));
    conn->spoke_ms = now_ms(conn->dns);
    if (uv_write(&sending->write, (uv_stream_t *)&conn->tcp, &out, 1, on_sent) < 0) {
        mem_free(sending);
        conn_close(conn);
    }
}

/* To the client, by the way he came. */
static void reply(struct dns *dns,
                  struct conn *conn,
                  const struct sockaddr_in *client,
                  struct str message)
{
    if (conn) {
        if (message.len <= UINT16_MAX)
            conn_send(conn, message);
        return;
    }
    uv_buf_t out = uv_buf_init((char *)(uintptr_t)message.p, (unsigned)message.len);
    (void)uv_udp_try_send(&dns->udp, &out, 1, (const struct sockaddr *)client);
}

/* ---- questions to others ---- */

static void on_ask_closed(uv_handle_t *handle)
{
    struct ask *ask = handle->data;
    struct dns *dns = ask->dns;

    mem_free(ask->in);
    mem_free(ask);
    dns_release(dns);
}

static void ask_close(struct ask *ask)
{
    for (struct ask **at = &ask->dns->asks; *at; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            ask->dns->ask_count--;
            break;
        }
    if (ask->open) {
        uv_close(&ask->handle, on_ask_closed);
        return;
    }
    mem_free(ask->in);
    mem_free(ask);
}

static void ask_end(struct ask *ask, struct str message)
{
    reply(ask->dns, ask->conn, &ask->client, message);
    ask_close(ask);
}

static void ask_fail(struct ask *ask)
{
    dns_begin(&ask->dns->writer, &ask->query, (struct str){ask->message, ask->message_len},
              DNS_PLAIN_MAX);
    ask_end(ask, dns_end(&ask->dns->writer, DNS_FAILED, false));
}

/* What an ExternalName stands for: the alias, and what others say of its target. */
static void ask_end_alias(struct ask *ask, struct str answer)
{
    struct dns *dns = ask->dns;
    struct dns_writer *writer = &dns->writer;
    _cleanup_(arena_done) struct arena arena = {0};
    struct dns_record record;
    struct str target = STR_NONE;

    dns_begin(writer, &ask->query, (struct str){ask->message, ask->message_len},
              ask->conn ? DNS_MESSAGE_MAX : ask->query.size_max);
    (void)dns_zone_answer(&dns->options.zone, &arena, &ask->query, writer, &target);
    for (size_t cursor = 0; dns_next_record(answer, &cursor, &record);)
        if (record.type == DNS_A || record.type == DNS_AAAA || record.type == DNS_CNAME)
            dns_add_record(writer, &record);
    ask_end(ask, dns_end(writer, dns_code_of(answer), false));
}

static void ask_heard(struct ask *ask, struct str answer)
{
    struct str sent = {ask->sent + PREFIX_BYTES, ask->sent_len};

    if (!dns_is_answer_to(answer, sent, ask->id))
        return; /* somebody guesses; the right one may still come */
    if (ask->alias) {
        ask_end_alias(ask, answer);
        return;
    }
    if (!ask->conn && answer.len > (ask->query.edns ? DATAGRAM_BYTES : DNS_PLAIN_MAX)) {
        dns_begin(&ask->dns->writer, &ask->query, (struct str){ask->message, ask->message_len},
                  ask->query.size_max);
        ask->dns->writer.cut = true;
        ask_end(ask, dns_end(&ask->dns->writer, DNS_FINE, false));
        return;
    }
    char *bytes = (char *)(uintptr_t)answer.p; /* ours: the buffer that it was read into */
    bytes[0] = (char)(ask->query.id >> 8);
    bytes[1] = (char)ask->query.id;
    ask_end(ask, answer);
}

static void on_ask_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    const struct ask *ask = handle->data;

    (void)size;
    *buf = ask->conn ? uv_buf_init(ask->in + ask->in_len, (unsigned)(DATAGRAM_BYTES - ask->in_len))
                     : uv_buf_init(ask->dns->buffer, DATAGRAM_BYTES);
}

static void on_ask_datagram(uv_udp_t *udp,
                            ssize_t n,
                            const uv_buf_t *buf,
                            const struct sockaddr *from,
                            unsigned flags)
{
    (void)flags;
    if (n > 0 && from) /* one that refuses is not waited for any longer than one that is silent */
        ask_heard(udp->data, (struct str){buf->base, (size_t)n});
}

static void on_ask_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct ask *ask = stream->data;

    (void)buf;
    if (n < 0) {
        ask_fail(ask);
        return;
    }
    ask->in_len += (size_t)n;
    size_t whole = ask->in_len < PREFIX_BYTES
                       ? 0
                       : (size_t)(unsigned char)ask->in[0] << 8 | (unsigned char)ask->in[1];
    if (ask->in_len < PREFIX_BYTES || ask->in_len < PREFIX_BYTES + whole) {
        if (ask->in_len == DATAGRAM_BYTES)
            ask_fail(ask);
        return;
    }
    struct str answer = {ask->in + PREFIX_BYTES, whole};
    if (dns_is_answer_to(answer, (struct str){ask->sent + PREFIX_BYTES, ask->sent_len}, ask->id))
        ask_heard(ask, answer);
    else
        ask_fail(ask);
}

static void on_ask_written(uv_write_t *write, int status)
{
    if (status < 0 && status != UV_ECANCELED)
        ask_fail(write->data);
}

static void on_ask_connected(uv_connect_t *connect, int status)
{
    struct ask *ask = connect->data;
    uv_buf_t out = uv_buf_init(ask->sent, (unsigned)(PREFIX_BYTES + ask->sent_len));

    if (status == UV_ECANCELED)
        return;
    ask->write.data = ask;
    if (status < 0 || uv_read_start((uv_stream_t *)&ask->tcp, on_ask_alloc, on_ask_read) < 0 ||
        uv_write(&ask->write, (uv_stream_t *)&ask->tcp, &out, 1, on_ask_written) < 0)
        ask_fail(ask);
}

static bool ask_open(struct ask *ask, const struct sockaddr *server)
{
    struct dns *dns = ask->dns;

    if (ask->conn) {
        (void)uv_tcp_init(dns->options.loop, &ask->tcp);
        ask->in = mem_alloc(DATAGRAM_BYTES);
    } else {
        (void)uv_udp_init(dns->options.loop, &ask->udp);
    }
    ask->handle.data = ask;
    ask->open = true;
    dns->handles++;
    ask->connect.data = ask;
    if (ask->conn)
        return uv_tcp_connect(&ask->connect, &ask->tcp, server, on_ask_connected) == 0;
    uv_buf_t out = uv_buf_init(ask->sent + PREFIX_BYTES, (unsigned)ask->sent_len);
    return uv_udp_connect(&ask->udp, server) == 0 &&
           uv_udp_recv_start(&ask->udp, on_ask_alloc, on_ask_datagram) == 0 &&
           uv_udp_try_send(&ask->udp, &out, 1, NULL) > 0;
}

/* The next server. By UDP the socket turns to it; a connection is tried once. */
static void ask_try(struct ask *ask)
{
    struct sockaddr_storage servers[DNS_SERVERS_MAX];
    size_t count = ask->dns->options.servers(ask->dns->options.user, servers);

    if (!count || ask->tries == DNS_TRIES || (ask->conn && ask->open)) {
        ask_fail(ask);
        return;
    }
    const struct sockaddr *server = (const struct sockaddr *)&servers[ask->tries % count];
    ask->tries++;
    ask->since_ms = now_ms(ask->dns);
    if (!ask->open) {
        if (!ask_open(ask, server))
            ask_fail(ask);
        return;
    }
    uv_buf_t out = uv_buf_init(ask->sent + PREFIX_BYTES, (unsigned)ask->sent_len);
    (void)uv_udp_connect(&ask->udp, NULL);
    if (uv_udp_connect(&ask->udp, server) < 0 || uv_udp_try_send(&ask->udp, &out, 1, NULL) < 0)
        ask_fail(ask);
}

static bool may_ask(const struct dns *dns, uint32_t address)
{
    size_t own = 0;

    for (const struct ask *ask = dns->asks; ask; ask = ask->next)
        own += ntohl(ask->client.sin_addr.s_addr) == address;
    return dns->ask_count < DNS_PENDING_MAX && own < DNS_SOURCE_PENDING;
}

/* A question of our own, for the target of an alias. */
static size_t write_question(const struct ask *ask, struct str target, char *out)
{
    struct str rest = target, label;
    size_t len = 12;

    if (target.len + 2 + 16 > DNS_NAME_BYTES)
        return 0;
    memset(out, 0, len);
    out[2] = 1; /* recursion */
    out[5] = 1; /* one question */
    while (str_cut(&rest, '.', &label)) {
        if (!label.len || label.len > 63)
            return 0;
        out[len++] = (char)label.len;
        memcpy(out + len, label.p, label.len);
        len += label.len;
    }
    out[len++] = 0;
    out[len++] = (char)(ask->query.type >> 8);
    out[len++] = (char)ask->query.type;
    out[len++] = 0;
    out[len++] = 1;
    return len;
}

struct asked {
    struct conn *conn;
    const struct sockaddr_in *client;
    uint32_t address;
    struct str message;
};

/* `target`: of an alias; without one the question is passed on as it is. */
static void ask_others(struct dns *dns,
                       const struct asked *from,
                       const struct dns_query *query,
                       struct str target)
{
    struct ask *ask = MEM_NEW(struct ask);

    ask->dns = dns;
    ask->conn = from->conn;
    ask->client = *from->client;
    ask->query = *query;
    memcpy(ask->message, from->message.p, from->message.len);
    ask->message_len = from->message.len;
    ask->alias = target.len > 0;
    if (ask->alias) {
        ask->sent_len = write_question(ask, target, ask->sent + PREFIX_BYTES);
    } else {
        memcpy(ask->sent + PREFIX_BYTES, from->message.p, from->message.len);
        ask->sent_len = from->message.len;
    }
    ask->next = dns->asks;
    dns->asks = ask;
    dns->ask_count++;
    if (!ask->sent_len || getrandom(&ask->id, sizeof(ask->id), 0) != sizeof(ask->id)) {
        ask_fail(ask);
        return;
    }
    ask->sent[0] = (char)(ask->sent_len >> 8);
    ask->sent[1] = (char)ask->sent_len;
    ask->sent[PREFIX_BYTES] = (char)(ask->id >> 8);
    ask->sent[PREFIX_BYTES + 1] = (char)ask->id;
    ask_try(ask);
}

/* ---- questions ---- */

static void take_question(struct dns *dns, const struct asked *from)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct dns_query query;
    enum dns_code code = DNS_FINE;
    struct str target = STR_NONE;
    enum dns_found found = DNS_FOUND;

    if (dns_read_query(from->message, &query, &code) < 0) {
        if (from->conn)
            conn_close(from->conn);
        return;
    }
    dns_begin(&dns->writer, &query, from->message, from->conn ? DNS_MESSAGE_MAX : query.size_max);
    if (code == DNS_FINE)
        found = dns_zone_answer(&dns->options.zone, &arena, &query, &dns->writer, &target);
    if (found == DNS_ELSEWHERE || found == DNS_ALIAS) {
        if (may_ask(dns, from->address)) {
            ask_others(dns, from, &query, found == DNS_ALIAS ? target : STR_NONE);
            return;
        }
        code = DNS_FAILED;
        dns_begin(&dns->writer, &query, from->message, DNS_PLAIN_MAX);
    }
    if (found == DNS_NOT_FOUND)
        code = DNS_NO_SUCH_NAME;
    if (!dns->writer.answers && (code == DNS_FINE || code == DNS_NO_SUCH_NAME))
        dns_add_authority(&dns->writer, STR(DNS_ZONE));
    reply(dns, from->conn, from->client, dns_end(&dns->writer, code, code != DNS_FAILED));
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct dns *dns = handle->data;

    (void)size;
    *buf = uv_buf_init(dns->buffer, DATAGRAM_BYTES);
}

static void on_datagram(uv_udp_t *udp,
                        ssize_t n,
                        const uv_buf_t *buf,
                        const struct sockaddr *from,
                        unsigned flags)
{
    struct dns *dns = udp->data;
    char message[DNS_QUERY_MAX];
    uint32_t address;

    (void)flags;
    if (n <= 0 || (size_t)n > sizeof(message) || !source_may(dns, from, &address))
        return;
    /* The buffer is used again for what others answer. */
    memcpy(message, buf->base, (size_t)n);
    struct sockaddr_in client = *(const struct sockaddr_in *)(const void *)from;
    take_question(dns, &(struct asked){NULL, &client, address, {message, (size_t)n}});
}

/* ---- by TCP ---- */

static void on_conn_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    struct dns *dns = conn->dns;

    mem_free(conn);
    dns_release(dns);
}

static void conn_close(struct conn *conn)
{
    struct dns *dns = conn->dns;

    if (conn->closing)
        return;
    conn->closing = true;
    for (struct conn **at = &dns->conns; *at; at = &(*at)->next)
        if (*at == conn) {
            *at = conn->next;
            dns->conn_count--;
            break;
        }
    for (struct ask *ask = dns->asks, *next; ask; ask = next) {
        next = ask->next;
        if (ask->conn == conn)
            ask_close(ask);
    }
    uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
}

static void on_conn_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct conn *conn = handle->data;

    (void)size;
    *buf = uv_buf_init(conn->in + conn->len, (unsigned)(sizeof(conn->in) - conn->len));
}

static void on_conn_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *conn = stream->data;

    (void)buf;
    if (n < 0) {
        conn_close(conn);
        return;
    }
    conn->len += (size_t)n;
    conn->spoke_ms = now_ms(conn->dns);
    conn_go_on(conn);
}

/* Takes the next question, if it has come whole. While one is asked of others nothing is read. */
static void conn_go_on(struct conn *conn)
{
    while (!conn->closing && !conn->asking && conn->len >= PREFIX_BYTES) {
        size_t size = (size_t)(unsigned char)conn->in[0] << 8 | (unsigned char)conn->in[1];
        struct sockaddr_in client = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(conn->address)};
        char message[DNS_QUERY_MAX];
        uint32_t address;

        if (size > DNS_QUERY_MAX) {
            conn_close(conn);
            return;
        }
        if (conn->len < PREFIX_BYTES + size)
            break;
        memcpy(message, conn->in + PREFIX_BYTES, size);
        conn->len -= PREFIX_BYTES + size;
        memmove(conn->in, conn->in + PREFIX_BYTES + size, conn->len);
        if (!source_may(conn->dns, (const struct sockaddr *)&client, &address)) {
            conn_close(conn);
            return;
        }
        conn->asking = true;
        take_question(conn->dns, &(struct asked){conn, &client, address, {message, size}});
    }
    if (conn->closing)
        return;
    if (conn->asking)
        (void)uv_read_stop((uv_stream_t *)&conn->tcp);
    else
        (void)uv_read_start((uv_stream_t *)&conn->tcp, on_conn_alloc, on_conn_read);
}

static bool conn_is_welcome(struct conn *conn)
{
    const struct dns *dns = conn->dns;
    struct sockaddr_in from = {0};
    int size = sizeof(from);
    size_t own = 0;

    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&from, &size) < 0 ||
        from.sin_family != AF_INET || dns->conn_count > DNS_CONNS_MAX)
        return false;
    conn->address = ntohl(from.sin_addr.s_addr);
    for (const struct conn *other = dns->conns; other; other = other->next)
        own += other->address == conn->address;
    return own <= DNS_SOURCE_CONNS &&
           (conn->address & dns->options.zone.mask) == dns->options.zone.network;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct dns *dns = listener->data;

    if (status < 0)
        return;
    struct conn *conn = MEM_NEW(struct conn);
    conn->dns = dns;
    conn->spoke_ms = now_ms(dns);
    (void)uv_tcp_init(dns->options.loop, &conn->tcp);
    conn->tcp.data = conn;
    conn->next = dns->conns;
    dns->conns = conn;
    dns->conn_count++;
    dns->handles++;
    if (uv_accept(listener, (uv_stream_t *)&conn->tcp) < 0 || !conn_is_welcome(conn))
        conn_close(conn);
    else
        conn_go_on(conn);
}

/* ---- the server ---- */

static void on_sweep(uv_timer_t *timer)
{
    struct dns *dns = timer->data;
    uint64_t now = now_ms(dns);

    for (struct ask *ask = dns->asks, *next; ask; ask = next) {
        next = ask->next;
        if (now - ask->since_ms >= DNS_TRY_MS)
            ask_try(ask);
    }
    for (struct conn *conn = dns->conns, *next; conn; conn = next) {
        next = conn->next;
        if (now - conn->spoke_ms >= DNS_IDLE_MS)
            conn_close(conn);
    }
}

static void close_all(struct dns *dns)
{
    while (dns->conns)
        conn_close(dns->conns);
    while (dns->asks)
        ask_close(dns->asks);
    uv_close((uv_handle_t *)&dns->udp, on_handle_closed);
    uv_close((uv_handle_t *)&dns->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&dns->sweep, on_handle_closed);
}

int dns_start(const struct dns_options *options, struct dns **ret, struct err *err)
{
    struct dns *dns = MEM_NEW(struct dns);
    const struct sockaddr *at = (const struct sockaddr *)&dns->options.at;
    int unread = DNS_MESSAGE_MAX;

    dns->options = *options;
    (void)uv_udp_init(options->loop, &dns->udp);
    (void)uv_tcp_init(options->loop, &dns->tcp);
    (void)uv_timer_init(options->loop, &dns->sweep);
    dns->udp.data = dns->tcp.data = dns->sweep.data = dns;
    dns->handles = 3;
    int r = uv_udp_bind(&dns->udp, at, 0);
    if (r == 0)
        r = uv_udp_recv_start(&dns->udp, on_alloc, on_datagram);
    if (r == 0)
        r = uv_tcp_bind(&dns->tcp, at, 0);
    if (r == 0)
        r = uv_send_buffer_size((uv_handle_t *)&dns->tcp, &unread); /* of its connections, too */
    if (r == 0)
        r = uv_listen((uv_stream_t *)&dns->tcp, DNS_CONNS_MAX, on_connection);
    if (r == 0)
        r = uv_timer_start(&dns->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    if (r < 0) {
        close_all(dns);
        return err_set(err, r, "cannot listen on port %d of the pod network: %s",
                       (int)ntohs(options->at.sin_port), uv_strerror(r));
    }
    *ret = dns;
    return 0;
}

size_t dns_unread(const struct dns *dns)
{
    size_t sum = 0;

    for (const struct conn *conn = dns->conns; conn; conn = conn->next)
        sum += uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp);
    return sum;
}

void dns_stop(struct dns *dns)
{
    if (!dns)
        return;
    dns->stopping = true;
    close_all(dns);
}
