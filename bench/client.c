#include "client.h"

#include "base/buf.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 << 10)

static gnutls_certificate_credentials_t credentials;

_Noreturn static void die(const char *what)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void start_tls(struct client *client)
{
    if (!credentials && gnutls_certificate_allocate_credentials(&credentials) < 0)
        die("TLS credentials");
    if (gnutls_init(&client->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) < 0 ||
        gnutls_set_default_priority(client->tls) < 0 ||
        gnutls_credentials_set(client->tls, GNUTLS_CRD_CERTIFICATE, credentials) < 0)
        die("TLS session");
    gnutls_transport_set_int(client->tls, client->fd);
    int r = 0;
    do
        r = gnutls_handshake(client->tls);
    while (r < 0 && !gnutls_error_is_fatal(r));
    if (r < 0)
        die("TLS handshake");
}

void client_open(struct client *client, uint16_t port, bool tls)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int one = 1;

    *client = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (client->fd < 0 ||
        connect(client->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        die("connect");
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (tls)
        start_tls(client);
}

void client_close(struct client *client)
{
    if (client->tls)
        gnutls_deinit(client->tls);
    (void)close(client->fd);
    buf_done(&client->in);
}

void client_send(struct client *client, struct str bytes)
{
    while (bytes.len) {
        ssize_t sent = client->tls ? gnutls_record_send(client->tls, bytes.p, bytes.len)
                                   : send(client->fd, bytes.p, bytes.len, MSG_NOSIGNAL);
        if (sent <= 0)
            die("send");
        bytes = str_sub(bytes, (size_t)sent, bytes.len);
    }
}

void client_fill(struct client *client)
{
    char *room = buf_room(&client->in, READ_BYTES);

    if (!room)
        die("answer is too large");
    for (;;) {
        ssize_t count = client->tls ? gnutls_record_recv(client->tls, room, READ_BYTES)
                                    : recv(client->fd, room, READ_BYTES, 0);
        if (count == GNUTLS_E_AGAIN || count == GNUTLS_E_INTERRUPTED)
            continue;
        if (count <= 0)
            die("connection closed by the server");
        client->in.len += (size_t)count;
        return;
    }
}

/* Drops `count` bytes of the answer, so that a long list costs the client no memory. */
static void drop(struct client *client, size_t count)
{
    for (;;) {
        size_t have = client->in.len < count ? client->in.len : count;

        buf_consume(&client->in, have);
        count -= have;
        if (!count)
            return;
        client_fill(client);
    }
}

/* Bytes up to and with `end`. */
static size_t until(struct client *client, const char *end)
{
    const char *at = NULL;

    while (!client->in.len || !(at = memmem(client->in.p, client->in.len, end, strlen(end))))
        client_fill(client);
    return (size_t)(at - client->in.p) + strlen(end);
}

static size_t drop_chunks(struct client *client)
{
    size_t sum = 0;

    for (;;) {
        size_t head = until(client, "\r\n");
        size_t size = strtoul(client->in.p, NULL, 16);

        drop(client, head + size + 2);
        sum += size;
        if (!size)
            return sum;
    }
}

int client_answer(struct client *client, size_t *ret_body_bytes)
{
    int64_t status = 0;
    size_t bytes = 0;
    size_t head = until(client, "\r\n\r\n");
    const char *length = memmem(client->in.p, head, "Content-Length: ", 16);
    bool chunked = memmem(client->in.p, head, "Transfer-Encoding: chunked", 26);

    if (!str_to_i64(str_sub(buf_str(&client->in), 9, 3), &status) || (!length && !chunked))
        die("answer without a length");
    bytes = length ? strtoul(length + 16, NULL, 10) : 0;
    drop(client, head);
    if (chunked)
        bytes = drop_chunks(client);
    else
        drop(client, bytes);
    if (ret_body_bytes)
        *ret_body_bytes = bytes;
    return (int)status;
}
