#include "http/tls_client.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A record has no more; GnuTLS would cut it itself, and then say less than it was given. */
#define RECORD_BYTES ((size_t)16 << 10)

struct tls_client {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    bool unsent; /* GnuTLS holds a record that the socket did not take */
};

int tls_client_new(int fd, struct tls_client **ret, struct err *err)
{
    struct tls_client *client = MEM_NEW(struct tls_client);
    int r = gnutls_certificate_allocate_credentials(&client->credentials);

    if (r == 0)
        r = gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (r == 0)
        r = gnutls_set_default_priority(client->session);
    if (r == 0)
        r = gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    if (r < 0) {
        tls_client_free(client);
        return err_set(err, -EPROTO, "cannot begin TLS: %s", gnutls_strerror(r));
    }
    gnutls_transport_set_int(client->session, fd);
    *ret = client;
    return 0;
}

void tls_client_free(struct tls_client *client)
{
    if (!client)
        return;
    if (client->session)
        gnutls_deinit(client->session);
    if (client->credentials)
        gnutls_certificate_free_credentials(client->credentials);
    mem_free(client);
}

int tls_client_shake(struct tls_client *client, struct err *err)
{
    int r = gnutls_handshake(client->session);

    if (r == 0)
        return 0;
    return gnutls_error_is_fatal(r) ? err_set(err, -EPROTO, "TLS: %s", gnutls_strerror(r))
                                    : -EAGAIN;
}

bool tls_client_writes(const struct tls_client *client)
{
    return gnutls_record_get_direction(client->session) == 1;
}

ssize_t tls_client_send(struct tls_client *client, const char *bytes, size_t size)
{
    ssize_t sent = client->unsent ? gnutls_record_send(client->session, NULL, 0)
                                  : gnutls_record_send(client->session, bytes,
                                                       size < RECORD_BYTES ? size : RECORD_BYTES);

    client->unsent = sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED;
    if (client->unsent)
        return -EAGAIN;
    return sent < 0 ? -EPIPE : sent;
}

ssize_t tls_client_recv(struct tls_client *client, char *bytes, size_t size)
{
    ssize_t count = gnutls_record_recv(client->session, bytes, size);

    if (count >= 0)
        return count;
    if (count == GNUTLS_E_PREMATURE_TERMINATION)
        return 0; /* as many servers end; what the answer lacks is seen in the answer */
    return gnutls_error_is_fatal((int)count) ? -EPROTO : -EAGAIN;
}

bool tls_client_pending(const struct tls_client *client)
{
    return gnutls_record_check_pending(client->session) > 0;
}
