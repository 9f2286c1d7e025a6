#include "workspace/resolve.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define NAME_MAX_BYTES   253
#define PACKET_BYTES     1500
#define TRY_MS           1000
#define DNS_HEAD_BYTES   12
#define DNS_PORT         53
#define DNS_CUT          2 /* of the third byte: there is more than fits */

static bool read_file(const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    char *room;

    if (fd < 0)
        return false;
    while ((room = buf_room(out, 4096)) != NULL && out->len < CONFIG_BYTES_MAX &&
           (got = read(fd, room, 4096)) > 0)
        out->len += (size_t)got;
    close(fd);
    return got >= 0;
}

/* The next word of a line; false at its end or at a comment. */
static bool next_word(struct str *line, struct str *ret)
{
    size_t i = 0;
    size_t start;

    while (i < line->len && (line->p[i] == ' ' || line->p[i] == '\t'))
        i++;
    start = i;
    while (i < line->len && !strchr(" \t#\r", line->p[i]))
        i++;
    *ret = str_sub(*line, start, i - start);
    *line = str_sub(*line, i, line->len);
    return ret->len > 0;
}

static bool same_name(struct str a, struct str b)
{
    return a.len == b.len && strncasecmp(a.p, b.p, a.len) == 0;
}

static size_t hosts_of(struct str hosts, struct str host, bool v4, struct address *out, size_t max)
{
    struct str line;
    size_t count = 0;

    while (count < max && str_cut(&hosts, '\n', &line)) {
        struct address address;
        struct str word;

        if (!next_word(&line, &word) || !address_parse(word, &address) ||
            address_is_v4(address) != v4)
            continue;
        while (next_word(&line, &word)) {
            if (same_name(word, host)) {
                out[count++] = address;
                break;
            }
        }
    }
    return count;
}

/* Those of version 4 first: many a server listens there alone, and "localhost" is both. */
size_t resolve_in_hosts(struct str hosts, struct str host, struct address *out, size_t max)
{
    size_t count = hosts_of(hosts, host, true, out, max);

    return count + hosts_of(hosts, host, false, out + count, max - count);
}

size_t resolve_query(const struct resolve_question *question, unsigned char *out, size_t out_bytes)
{
    struct str name = question->name;
    size_t n = DNS_HEAD_BYTES;
    struct str part;

    if (name.len == 0 || name.len > NAME_MAX_BYTES || out_bytes < DNS_HEAD_BYTES + name.len + 6)
        return 0;
    memset(out, 0, DNS_HEAD_BYTES);
    out[0] = (unsigned char)(question->id >> 8);
    out[1] = (unsigned char)question->id;
    out[2] = 1; /* recursion, please */
    out[5] = 1; /* one question */
    while (str_cut(&name, '.', &part)) {
        if (part.len == 0 || part.len > 63)
            return 0;
        out[n++] = (unsigned char)part.len;
        memcpy(out + n, part.p, part.len);
        n += part.len;
    }
    memcpy(out + n, "\0\0\0\0\1", 5); /* end, the type, class IN */
    out[n + 2] = (unsigned char)question->type;
    return n + 5;
}

/* Behind a name, compressed or not; 0 past the end. */
static size_t skip_name(const unsigned char *p, size_t len, size_t at)
{
    while (at < len && p[at] != 0) {
        if (p[at] >= 0xc0)
            return at + 2;
        at += (size_t)p[at] + 1;
    }
    return at < len ? at + 1 : 0;
}

size_t resolve_answer(const unsigned char *p,
                      size_t len,
                      uint16_t id,
                      struct address *out,
                      size_t max)
{
    size_t count = 0;
    unsigned questions;
    unsigned answers;
    size_t at = DNS_HEAD_BYTES;

    if (len < DNS_HEAD_BYTES || (p[0] << 8 | p[1]) != id || !(p[2] & 0x80) || (p[3] & 15) != 0)
        return 0;
    questions = (unsigned)(p[4] << 8 | p[5]);
    answers = (unsigned)(p[6] << 8 | p[7]);
    for (; questions > 0; questions--) {
        at = skip_name(p, len, at);
        if (at == 0 || at + 4 > len)
            return 0;
        at += 4;
    }
    for (; answers > 0 && count < max; answers--) {
        at = skip_name(p, len, at);
        if (at == 0 || at + 10 > len)
            return 0;
        unsigned type = (unsigned)(p[at] << 8 | p[at + 1]);
        size_t size = (size_t)(p[at + 8] << 8 | p[at + 9]);

        at += 10;
        if (size > len - at)
            return 0;
        if ((type == RESOLVE_A || type == RESOLVE_AAAA) &&
            address_of_bytes(p + at, size, &out[count]))
            count++;
        at += size;
    }
    return count;
}

bool resolve_is_cut(const unsigned char *p, size_t len, size_t count, size_t max)
{
    return len > DNS_HEAD_BYTES && (p[2] & DNS_CUT) && count < max;
}

struct server {
    struct sockaddr_storage at;
    socklen_t size;
};

/* The same question where the answer may be long; its size, or 0. */
static size_t ask_stream(const struct server *server,
                         const unsigned char *query,
                         size_t query_bytes,
                         struct buf *answer)
{
    unsigned char head[2] = {(unsigned char)(query_bytes >> 8), (unsigned char)query_bytes};
    struct timeval limit = {.tv_sec = TRY_MS / 1000};
    int fd = socket(server->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t size = 0;

    if (fd < 0)
        return 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&server->at, server->size) == 0 &&
        send(fd, head, sizeof(head), MSG_NOSIGNAL | MSG_MORE) == (ssize_t)sizeof(head) &&
        send(fd, query, query_bytes, MSG_NOSIGNAL) == (ssize_t)query_bytes &&
        recv(fd, head, sizeof(head), MSG_WAITALL) == (ssize_t)sizeof(head)) {
        size_t wanted = (size_t)(head[0] << 8 | head[1]);

        if (recv(fd, buf_room(answer, wanted + 1), wanted, MSG_WAITALL) == (ssize_t)wanted)
            size = wanted;
    }
    close(fd);
    return size;
}

/* How many addresses of that version the name has; -1: the server does not know the name, or is
 * silent. */
static ptrdiff_t ask_type(const struct server *server,
                          const struct resolve_question *question,
                          struct address *out,
                          size_t max)
{
    _cleanup_(buf_done) struct buf long_answer = {0};
    unsigned char query[PACKET_BYTES];
    unsigned char packet[PACKET_BYTES];
    ptrdiff_t count = -1;
    size_t size = resolve_query(question, query, sizeof(query));
    int fd = size ? socket(server->at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&server->at, server->size) == 0 &&
        send(fd, query, size, 0) == (ssize_t)size && poll(&wait, 1, TRY_MS) == 1) {
        ssize_t got = recv(fd, packet, sizeof(packet), 0);

        if (got >= DNS_HEAD_BYTES && (packet[3] & 15) == 0)
            count = (ptrdiff_t)resolve_answer(packet, (size_t)got, question->id, out, max);
        if (got > 0 && resolve_is_cut(packet, (size_t)got, count > 0 ? (size_t)count : 0, max)) {
            size_t more = ask_stream(server, query, size, &long_answer);

            if (more)
                count = (ptrdiff_t)resolve_answer((unsigned char *)long_answer.p, more,
                                                  question->id, out, max);
        }
    }
    close(fd);
    return count;
}

/* Addresses of version 4; where the name has none, of version 6. */
static size_t ask(const struct server *server, struct str name, struct address *out, size_t max)
{
    struct resolve_question question = {.name = name, .type = RESOLVE_A};
    struct timespec now;
    ptrdiff_t count;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    question.id = (uint16_t)(now.tv_nsec / 1000 ^ getpid());
    count = ask_type(server, &question, out, max);
    if (count == 0) {
        question.type = RESOLVE_AAAA;
        question.id++;
        count = ask_type(server, &question, out, max);
    }
    return count > 0 ? (size_t)count : 0;
}

/* The name with each search domain, then as it is. */
static size_t ask_all(const struct server *server,
                      struct str search,
                      struct str host,
                      struct address *out,
                      size_t max)
{
    char name[NAME_MAX_BYTES + 1];
    struct str domain;

    while (next_word(&search, &domain)) {
        int n = snprintf(name, sizeof(name), STR_FMT "." STR_FMT, STR_ARG(host), STR_ARG(domain));

        size_t count =
            n > 0 && (size_t)n < sizeof(name) ? ask(server, str_from(name), out, max) : 0;

        if (count)
            return count;
    }
    return ask(server, host, out, max);
}

static size_t ask_servers(struct str config, struct str host, struct address *out, size_t max)
{
    struct str search = STR("");
    struct str lines = config;
    struct str line;
    struct str word;

    while (str_cut(&lines, '\n', &line))
        if (next_word(&line, &word) && (str_is(word, "search") || str_is(word, "domain")))
            search = line;
    lines = config;
    while (str_cut(&lines, '\n', &line)) {
        struct server server;
        struct address address;
        size_t count;

        if (!next_word(&line, &word) || !str_is(word, "nameserver") || !next_word(&line, &word) ||
            !address_parse(word, &address))
            continue;
        server.size = address_to(address, DNS_PORT, &server.at);
        count = ask_all(&server, search, host, out, max);
        if (count)
            return count;
    }
    return 0;
}

size_t resolve_all(struct str host, struct address *out, size_t max)
{
    _cleanup_(buf_done) struct buf text = {0};
    size_t count = 0;

    if (address_parse(host, out))
        return 1;
    if (read_file("/etc/hosts", &text))
        count = resolve_in_hosts(buf_str(&text), host, out, max);
    if (count)
        return count;
    if (str_is(host, "localhost"))
        return address_parse(STR("127.0.0.1"), out) ? 1 : 0;
    buf_clear(&text);
    (void)read_file("/etc/resolv.conf", &text);
    return ask_servers(buf_str(&text), host, out, max);
}

int resolve_host(struct str host, struct address *ret, struct err *err)
{
    if (resolve_all(host, ret, 1))
        return 0;
    return err_set(err, -ENOENT,
                   "host '" STR_FMT "' is in no hosts file and no name server knows it",
                   STR_ARG(host));
}

int resolve_url(struct str url, struct str *ret_host, uint16_t *ret_port, struct err *err)
{
    uint64_t port = 80;
    size_t bracket; /* an IPv6 address has colons of its own */
    size_t colon;

    if (!str_starts(url, STR("http://")))
        return err_set(err, -EINVAL, "'" STR_FMT "' is not an http:// address", STR_ARG(url));
    struct str rest = str_sub(url, 7, url.len);
    rest = str_sub(rest, 0, str_find(rest, '/'));
    bracket = rest.len && rest.p[0] == '[' ? str_find(rest, ']') : 0;
    colon = bracket + str_find(str_sub(rest, bracket, rest.len), ':');
    if (colon < rest.len &&
        (!str_to_u64(str_sub(rest, colon + 1, rest.len), &port) || port == 0 || port > 65535))
        return err_set(err, -EINVAL, "'" STR_FMT "' has a bad port", STR_ARG(url));
    *ret_host = str_sub(rest, 0, colon);
    *ret_port = (uint16_t)port;
    return 0;
}
