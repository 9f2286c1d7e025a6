#include "http/tls.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* AES-128-GCM first: the fastest on every machine with AES instructions, and clients without them
 * offer ChaCha first anyway. No version below 1.2. */
#define PRIORITY                                                                        \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:" \
    "+CHACHA20-POLY1305:%SERVER_PRECEDENCE"

#define VALID_SECONDS     ((time_t)10 * 365 * 24 * 3600)
#define SERIAL_BYTES      16
#define RANDOM_MAX        64
#define ORGANIZATIONS_MAX 16 /* groups of one user */

struct tls_identity {
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

void tls_identity_free(struct tls_identity *identity)
{
    if (!identity)
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

/* ---- making certificates ---- */
struct maker {
    gnutls_x509_privkey_t ca_key;
    gnutls_x509_crt_t ca;
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
};

static void maker_done(struct maker *maker)
{
    if (maker->ca_key)
        gnutls_x509_privkey_deinit(maker->ca_key);
    if (maker->key)
        gnutls_x509_privkey_deinit(maker->key);
    if (maker->ca)
        gnutls_x509_crt_deinit(maker->ca);
    if (maker->crt)
        gnutls_x509_crt_deinit(maker->crt);
}

static int key_new(gnutls_x509_privkey_t *ret)
{
    int r = gnutls_x509_privkey_init(ret);

    if (r == 0)
        r = gnutls_x509_privkey_generate(*ret, GNUTLS_PK_ECDSA,
                                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    return r;
}

static int crt_new(gnutls_x509_crt_t *ret, gnutls_x509_privkey_t key, const char *name, time_t now)
{
    unsigned char serial[SERIAL_BYTES] = {0};
    int r = gnutls_x509_crt_init(ret);

    if (r == 0)
        r = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));
    if (r < 0)
        return r;
    serial[0] &= 0x7f; /* serial numbers are positive */
    r = gnutls_x509_crt_set_version(*ret, 3);
    if (r == 0)
        r = gnutls_x509_crt_set_serial(*ret, serial, sizeof(serial));
    if (r == 0) /* an hour early: clocks of client machines differ */
        r = gnutls_x509_crt_set_activation_time(*ret, now - 3600);
    if (r == 0)
        r = gnutls_x509_crt_set_expiration_time(*ret, now + VALID_SECONDS);
    if (r == 0)
        r = gnutls_x509_crt_set_dn_by_oid(*ret, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                          (unsigned)strlen(name));
    if (r == 0)
        r = gnutls_x509_crt_set_key(*ret, key);
    return r;
}

static int add_address(gnutls_x509_crt_t crt, const char *address)
{
    unsigned char raw[sizeof(struct in6_addr)];
    unsigned size = 0;

    if (inet_pton(AF_INET, address, raw) == 1)
        size = sizeof(struct in_addr);
    else if (inet_pton(AF_INET6, address, raw) == 1)
        size = sizeof(struct in6_addr);
    if (!size)
        return 0;
    return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, raw, size,
                                                GNUTLS_FSAN_APPEND);
}

static int add_names(gnutls_x509_crt_t crt, const char *address)
{
    static const char *const names[] = {"localhost", "kubernetes", "kubernetes.default",
                                        "kubernetes.default.svc",
                                        "kubernetes.default.svc.cluster.local"};
    int r = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && r == 0; i++)
        r = gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, names[i],
                                                 (unsigned)strlen(names[i]), GNUTLS_FSAN_APPEND);
    if (r == 0)
        r = add_address(crt, "127.0.0.1");
    if (r == 0)
        r = add_address(crt, "::1");
    if (r == 0 && address && strcmp(address, "127.0.0.1") != 0 && strcmp(address, "::1") != 0)
        r = add_address(crt, address);
    return r;
}

static int sign(const struct maker *maker, const char *address)
{
    int r = gnutls_x509_crt_set_basic_constraints(maker->ca, 1, -1);

    if (r == 0)
        r = gnutls_x509_crt_set_key_usage(maker->ca,
                                          GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (r == 0)
        r = gnutls_x509_crt_sign2(maker->ca, maker->ca, maker->ca_key, GNUTLS_DIG_SHA256, 0);
    if (r == 0)
        r = add_names(maker->crt, address);
    if (r == 0)
        r = gnutls_x509_crt_set_key_usage(maker->crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (r == 0)
        r = gnutls_x509_crt_set_key_purpose_oid(maker->crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
    if (r == 0)
        r = gnutls_x509_crt_sign2(maker->crt, maker->ca, maker->ca_key, GNUTLS_DIG_SHA256, 0);
    return r;
}

static int take(struct buf *out, int r, gnutls_datum_t *text)
{
    if (r == 0) {
        buf_add(out, (struct str){(const char *)text->data, text->size});
        gnutls_free(text->data);
    }
    return r;
}

static int export(const struct maker *maker, const struct tls_made *out)
{
    gnutls_datum_t text = {0};
    int r = gnutls_x509_crt_export2(maker->ca, GNUTLS_X509_FMT_PEM, &text);

    r = take(out->ca_certificate, r, &text);
    if (r == 0)
        r = take(out->ca_key,
                 gnutls_x509_privkey_export2(maker->ca_key, GNUTLS_X509_FMT_PEM, &text), &text);
    if (r == 0)
        r = take(out->certificate, gnutls_x509_crt_export2(maker->crt, GNUTLS_X509_FMT_PEM, &text),
                 &text);
    if (r == 0)
        r = take(out->key, gnutls_x509_privkey_export2(maker->key, GNUTLS_X509_FMT_PEM, &text),
                 &text);
    return r;
}

int tls_make(const char *address, int64_t now_ms, const struct tls_made *out, struct err *err)
{
    _cleanup_(maker_done) struct maker maker = {0};
    time_t now = (time_t)(now_ms / 1000);
    int r = key_new(&maker.ca_key);

    if (r == 0)
        r = key_new(&maker.key);
    if (r == 0)
        r = crt_new(&maker.ca, maker.ca_key, "muster-ca", now);
    if (r == 0)
        r = crt_new(&maker.crt, maker.key, "muster", now);
    if (r == 0)
        r = sign(&maker, address);
    if (r == 0)
        r = export(&maker, out);
    return r < 0 ? tls_err(err, r, "making the server's certificate") : 0;
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
