#include "http/tls_client.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

/* A record has no more; GnuTLS would cut it itself, and then say less than it was given. */
#define RECORD_BYTES ((size_t)16 << 10)

struct tls_client {
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    struct arena arena;
    bool unsent; /* GnuTLS holds a record that the socket did not take */
};

static gnutls_datum_t datum(struct str text)
{
    union {
        const char *in;
        unsigned char *out;
    } pun = {.in = text.p};

    return (gnutls_datum_t){.data = pun.out, .size = (unsigned)text.len};
}

/* Whom we trust, and who we are. */
static int set_credentials(struct tls_client *client, const struct tls_client_options *options)
{
    gnutls_datum_t ca = datum(options->ca);
    gnutls_datum_t certificate = datum(options->certificate);
    gnutls_datum_t key = datum(options->key);
    int r = 0;

    if (options->ca.len)
        r = gnutls_certificate_set_x509_trust_mem(client->credentials, &ca, GNUTLS_X509_FMT_PEM);
    else if (options->server_name && !options->insecure)
        r = gnutls_certificate_set_x509_system_trust(client->credentials);
    if (r >= 0 && options->certificate.len)
        r = gnutls_certificate_set_x509_key_mem(client->credentials, &certificate, &key,
                                                GNUTLS_X509_FMT_PEM);
    return r < 0 ? r : 0;
}

static bool is_address(const char *name)
{
    unsigned char raw[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, name, raw) == 1 || inet_pton(AF_INET6, name, raw) == 1;
}

static int set_name(struct tls_client *client, const struct tls_client_options *options)
{
    /* GnuTLS looks at it when the certificate comes. */
    const char *name = str_c(&client->arena, str_from(options->server_name));
    int r = 0;

    if (!is_address(name))
        r = gnutls_server_name_set(client->session, GNUTLS_NAME_DNS, name, strlen(name));
    if (r == 0 && !options->insecure)
        gnutls_session_set_verify_cert(client->session, name, 0);
    return r;
}

int tls_client_new(int fd,
                   const struct tls_client_options *options,
                   struct tls_client **ret,
                   struct err *err)
{
    struct tls_client *client = MEM_NEW(struct tls_client);
    int r = gnutls_certificate_allocate_credentials(&client->credentials);

    if (r == 0)
        r = gnutls_init(&client->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (r == 0)
        r = gnutls_set_default_priority(client->session);
    if (r == 0)
        r = set_credentials(client, options);
    if (r == 0)
        r = gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    if (r == 0 && options->server_name)
        r = set_name(client, options);
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
    arena_done(&client->arena);
    mem_free(client);
}

/* "The certificate is NOT trusted. The certificate issuer is unknown. " */
static int certificate_refused(const struct tls_client *client, struct err *err)
{
    unsigned status = gnutls_session_get_verify_cert_status(client->session);
    gnutls_datum_t text = {0};

    if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) < 0)
        return err_set(err, -EPROTO, "TLS: its certificate does not hold");
    struct str words = str_trim((struct str){(const char *)text.data, text.size});
    (void)err_set(err, -EPROTO, "TLS: " STR_FMT, STR_ARG(words));
    gnutls_free(text.data);
    return -EPROTO;
}

int tls_client_shake(struct tls_client *client, struct err *err)
{
    int r = gnutls_handshake(client->session);

    if (r == 0)
        return 0;
    if (r == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
        return certificate_refused(client, err);
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
