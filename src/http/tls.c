#include "http/tls.h"

#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/certificate.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* AES-128-GCM first: the fastest on every machine with AES instructions, and clients without them
 * offer ChaCha first anyway. No version below 1.2. */
#define PRIORITY                                                                        \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:" \
    "+CHACHA20-POLY1305:%SERVER_PRECEDENCE"

#define VALID_MS          ((int64_t)10 * 365 * 24 * 3600 * 1000)
#define RANDOM_MAX        64
#define ORGANIZATIONS_MAX 16 /* groups of one user */

struct tls_identity {
    uint32_t refs;
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    gnutls_datum_t ticket_key;
    bool client_certificates;
};

static int tls_err(struct err *err, int code, const char *what)
{
    return err_set(err, -EINVAL, "%s: %s", what, gnutls_strerror(code));
}

static gnutls_datum_t datum(struct str text)
{
    union {
        const char *in;
        unsigned char *out;
    } pun = {.in = text.p};

    return (gnutls_datum_t){.data = pun.out, .size = (unsigned)text.len};
}

int tls_identity_new(struct str certificate,
                     struct str key,
                     struct str ca,
                     struct tls_identity **ret,
                     struct err *err)
{
    struct tls_identity *identity = MEM_NEW(struct tls_identity);
    gnutls_datum_t crt_datum = datum(certificate);
    gnutls_datum_t key_datum = datum(key);

    identity->refs = 1;
    int r = gnutls_certificate_allocate_credentials(&identity->credentials);

    if (r == 0)
        r = gnutls_certificate_set_x509_key_mem(identity->credentials, &crt_datum, &key_datum,
                                                GNUTLS_X509_FMT_PEM);
    if (r == 0 && ca.len) {
        gnutls_datum_t ca_datum = datum(ca);
        r = gnutls_certificate_set_x509_trust_mem(identity->credentials, &ca_datum,
                                                  GNUTLS_X509_FMT_PEM);
        r = r > 0 ? 0 : r;
        identity->client_certificates = true;
    }
    if (r == 0)
        r = gnutls_priority_init(&identity->priority, PRIORITY, NULL);
    if (r == 0)
        r = gnutls_session_ticket_key_generate(&identity->ticket_key);
    if (r < 0) {
        tls_identity_free(identity);
        return tls_err(err, r, "TLS certificate and key");
    }
    *ret = identity;
    return 0;
}

int tls_identity_add(struct tls_identity *identity,
                     struct str certificate,
                     struct str key,
                     struct err *err)
{
    gnutls_datum_t crt_datum = datum(certificate);
    gnutls_datum_t key_datum = datum(key);
    int r = gnutls_certificate_set_x509_key_mem(identity->credentials, &crt_datum, &key_datum,
                                                GNUTLS_X509_FMT_PEM);

    return r < 0 ? tls_err(err, r, "certificate and key") : 0;
}

struct tls_identity *tls_identity_ref(struct tls_identity *identity)
{
    if (identity)
        identity->refs++;
    return identity;
}

void tls_identity_free(struct tls_identity *identity)
{
    if (!identity || --identity->refs)
        return;
    if (identity->credentials)
        gnutls_certificate_free_credentials(identity->credentials);
    if (identity->priority)
        gnutls_priority_deinit(identity->priority);
    gnutls_free(identity->ticket_key.data);
    mem_free(identity);
}

int tls_session_new(const struct tls_identity *identity, int fd, gnutls_session_t *ret)
{
    gnutls_session_t session = NULL;
    int r = gnutls_init(&session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);

    if (r < 0)
        return -ENOMEM;
    if (gnutls_priority_set(session, identity->priority) < 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, identity->credentials) < 0 ||
        gnutls_session_ticket_enable_server(session, &identity->ticket_key) < 0) {
        gnutls_deinit(session);
        return -EINVAL;
    }
    gnutls_certificate_server_set_request(
        session, identity->client_certificates ? GNUTLS_CERT_REQUEST : GNUTLS_CERT_IGNORE);
    gnutls_transport_set_int(session, fd);
    *ret = session;
    return 0;
}

void tls_peer_identity(gnutls_session_t session, struct buf *out)
{
    unsigned count = 0;
    unsigned status = 0;
    gnutls_x509_crt_t crt = NULL;
    const gnutls_datum_t *peers = gnutls_certificate_get_peers(session, &count);

    if (!peers || !count || gnutls_certificate_verify_peers2(session, &status) < 0 || status)
        return;
    if (gnutls_x509_crt_init(&crt) < 0)
        return;
    if (gnutls_x509_crt_import(crt, &peers[0], GNUTLS_X509_FMT_DER) == 0) {
        char text[256];
        size_t size = sizeof(text);

        if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, text, &size) == 0)
            buf_add(out, (struct str){text, size});
        for (unsigned i = 0; i < ORGANIZATIONS_MAX; i++) {
            size = sizeof(text);
            if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, i, 0, text,
                                              &size) < 0)
                break;
            buf_addc(out, '\0');
            buf_add(out, (struct str){text, size});
        }
    }
    gnutls_x509_crt_deinit(crt);
}

/* ---- certificates of a first start ---- */

int tls_make_server(const char *const *hosts,
                    int64_t now_ms,
                    const struct tls_authority *by,
                    const struct certificate_pair *out,
                    struct err *err)
{
    static const char *const names[] = {"localhost",
                                        "kubernetes",
                                        "kubernetes.default",
                                        "kubernetes.default.svc",
                                        "kubernetes.default.svc.cluster.local",
                                        "127.0.0.1",
                                        "::1"};
    const char *all[COUNT_OF(names) + TLS_HOSTS_MAX + 1] = {NULL};
    size_t count = 0;

    for (; count < COUNT_OF(names); count++)
        all[count] = names[count];
    for (size_t i = 0; hosts[i] && i < TLS_HOSTS_MAX; i++) {
        bool known = false;

        for (size_t k = 0; k < count; k++)
            known = known || strcmp(hosts[i], all[k]) == 0;
        if (!known)
            all[count++] = hosts[i];
    }
    return certificate_sign(&(struct certificate_wish){.ca = by->certificate,
                                                       .ca_key = by->key,
                                                       .names = all,
                                                       .now_ms = now_ms,
                                                       .lifetime_ms = VALID_MS},
                            out, err);
}

int tls_make(const char *const *hosts, int64_t now_ms, const struct tls_made *out, struct err *err)
{
    int r = certificate_authority(
        now_ms, VALID_MS, &(struct certificate_pair){out->ca_certificate, out->ca_key}, err);

    if (r < 0)
        return r;
    return tls_make_server(
        hosts, now_ms, &(struct tls_authority){buf_str(out->ca_certificate), buf_str(out->ca_key)},
        &(struct certificate_pair){out->certificate, out->key}, err);
}

int tls_make_client(const char *name, int64_t now_ms, const struct tls_made *out, struct err *err)
{
    struct buf key = {0};
    int r = certificate_authority(now_ms, VALID_MS,
                                  &(struct certificate_pair){out->ca_certificate, &key}, err);

    if (r == 0)
        r = certificate_sign(&(struct certificate_wish){.ca = buf_str(out->ca_certificate),
                                                        .ca_key = buf_str(&key),
                                                        .client = name,
                                                        .now_ms = now_ms,
                                                        .lifetime_ms = VALID_MS},
                             &(struct certificate_pair){out->certificate, out->key}, err);
    buf_done(&key);
    return r;
}

void tls_base64(struct buf *out, struct str bytes)
{
    gnutls_datum_t in = datum(bytes);
    gnutls_datum_t text = {0};

    if (!bytes.len || gnutls_base64_encode2(&in, &text) < 0)
        return;
    buf_add(out, (struct str){(const char *)text.data, text.size});
    gnutls_free(text.data);
}

void tls_sha256(struct str bytes, char out[static TLS_SHA256_BYTES])
{
    (void)gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes.p, bytes.len, out);
}

int tls_random_hex(struct buf *out, size_t count, struct err *err)
{
    unsigned char bytes[RANDOM_MAX];

    if (count > sizeof(bytes))
        return err_set(err, -EINVAL, "at most %d random bytes at once", RANDOM_MAX);
    int r = gnutls_rnd(GNUTLS_RND_KEY, bytes, count);
    if (r < 0)
        return tls_err(err, r, "random bytes");
    for (size_t i = 0; i < count; i++)
        buf_addf(out, "%02x", (unsigned)bytes[i]);
    return 0;
}
