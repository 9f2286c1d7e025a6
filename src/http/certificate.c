#include "http/certificate.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SERIAL_BYTES 16
#define EARLY_S      ((time_t)(CERTIFICATE_EARLY_MS / 1000))

#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
#define PEM_END   "-----END CERTIFICATE-----"

static void crt_donep(gnutls_x509_crt_t *crt)
{
    if (*crt)
        gnutls_x509_crt_deinit(*crt);
}

static void key_donep(gnutls_x509_privkey_t *key)
{
    if (*key)
        gnutls_x509_privkey_deinit(*key);
}

static gnutls_datum_t datum(struct str text)
{
    union {
        const char *in;
        unsigned char *out;
    } pun = {.in = text.p};

    return (gnutls_datum_t){.data = pun.out, .size = (unsigned)text.len};
}

/* ---- reading ---- */

static int crt_read(struct str pem, gnutls_x509_crt_t *ret)
{
    struct str rest = pem;
    struct str first;
    int r = gnutls_x509_crt_init(ret);

    if (r < 0)
        return r;
    if (!certificate_cut(&rest, &first))
        return GNUTLS_E_NO_CERTIFICATE_FOUND;
    gnutls_datum_t text = datum(first);
    return gnutls_x509_crt_import(*ret, &text, GNUTLS_X509_FMT_PEM);
}

bool certificate_look(struct str pem, struct certificate_facts *ret)
{
    _cleanup_(crt_donep) gnutls_x509_crt_t crt = NULL;

    if (crt_read(pem, &crt) < 0)
        return false;
    ret->start_ms = (int64_t)gnutls_x509_crt_get_activation_time(crt) * 1000;
    ret->end_ms = (int64_t)gnutls_x509_crt_get_expiration_time(crt) * 1000;
    return true;
}

bool certificate_is_signed_by(struct str pem, struct str ca)
{
    _cleanup_(crt_donep) gnutls_x509_crt_t crt = NULL;
    _cleanup_(crt_donep) gnutls_x509_crt_t authority = NULL;
    unsigned status = 0;

    return crt_read(pem, &crt) >= 0 && crt_read(ca, &authority) >= 0 &&
           gnutls_x509_crt_verify(crt, &authority, 1, GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &status) >=
               0 &&
           status == 0;
}

bool certificate_is_for(struct str pem, const char *host)
{
    _cleanup_(crt_donep) gnutls_x509_crt_t crt = NULL;

    return crt_read(pem, &crt) >= 0 && gnutls_x509_crt_check_hostname(crt, host) != 0;
}

static size_t find(struct str text, struct str needle)
{
    const char *at = text.len ? memmem(text.p, text.len, needle.p, needle.len) : NULL;

    return at ? (size_t)(at - text.p) : SIZE_MAX;
}

bool certificate_cut(struct str *rest, struct str *ret_pem)
{
    size_t begin = find(*rest, STR(PEM_BEGIN));
    size_t end = find(*rest, STR(PEM_END));

    if (begin == SIZE_MAX || end == SIZE_MAX || end < begin)
        return false;
    end += sizeof(PEM_END) - 1;
    *ret_pem = str_sub(*rest, begin, end - begin);
    *rest = str_sub(*rest, end, rest->len);
    return true;
}

/* ---- making ---- */

static int key_new(gnutls_x509_privkey_t *ret)
{
    int r = gnutls_x509_privkey_init(ret);

    if (r == 0)
        r = gnutls_x509_privkey_generate(*ret, GNUTLS_PK_ECDSA,
                                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    return r;
}

static int crt_new(gnutls_x509_crt_t *ret,
                   gnutls_x509_privkey_t key,
                   const char *name,
                   time_t now,
                   time_t lifetime)
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
    if (r == 0)
        r = gnutls_x509_crt_set_activation_time(*ret, now - EARLY_S);
    if (r == 0)
        r = gnutls_x509_crt_set_expiration_time(*ret, now + lifetime);
    if (r == 0)
        r = gnutls_x509_crt_set_dn_by_oid(*ret, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                          (unsigned)strlen(name));
    if (r == 0)
        r = gnutls_x509_crt_set_key(*ret, key);
    return r;
}

static int add_name(gnutls_x509_crt_t crt, const char *name)
{
    unsigned char raw[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, name, raw) == 1)
        return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, raw,
                                                    sizeof(struct in_addr), GNUTLS_FSAN_APPEND);
    if (inet_pton(AF_INET6, name, raw) == 1)
        return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, raw,
                                                    sizeof(struct in6_addr), GNUTLS_FSAN_APPEND);
    return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name,
                                                (unsigned)strlen(name), GNUTLS_FSAN_APPEND);
}

static int take(struct buf *out, int r, gnutls_datum_t *text)
{
    if (r == 0) {
        buf_add(out, (struct str){(const char *)text->data, text->size});
        gnutls_free(text->data);
    }
    return r;
}

static int export(gnutls_x509_crt_t crt,
                  gnutls_x509_privkey_t key,
                  const struct certificate_pair *out)
{
    gnutls_datum_t text = {0};
    int r = take(out->certificate, gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &text), &text);

    if (r == 0)
        r = take(out->key, gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), &text);
    return r;
}

/* Tells authorities apart that are made in one second: two of one name and different keys confuse
 * whoever looks for the one that signed. */
static int authority_name(char name[static 32])
{
    unsigned char bytes[6];
    int r = gnutls_rnd(GNUTLS_RND_NONCE, bytes, sizeof(bytes));

    (void)snprintf(name, 32, "muster-ca-%02x%02x%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2],
                   bytes[3], bytes[4], bytes[5]);
    return r;
}

int certificate_authority(int64_t now_ms,
                          int64_t lifetime_ms,
                          const struct certificate_pair *out,
                          struct err *err)
{
    _cleanup_(key_donep) gnutls_x509_privkey_t key = NULL;
    _cleanup_(crt_donep) gnutls_x509_crt_t crt = NULL;
    char name[32];
    int r = key_new(&key);

    if (r == 0)
        r = authority_name(name);
    if (r == 0)
        r = crt_new(&crt, key, name, (time_t)(now_ms / 1000), (time_t)(lifetime_ms / 1000));
    if (r == 0)
        r = gnutls_x509_crt_set_basic_constraints(crt, 1, -1);
    if (r == 0)
        r = gnutls_x509_crt_set_key_usage(crt,
                                          GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (r == 0)
        r = gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
    if (r == 0)
        r = export(crt, key, out);
    return r < 0 ? err_set(err, -EINVAL, "making a certificate authority: %s", gnutls_strerror(r))
                 : 0;
}

static int describe(gnutls_x509_crt_t crt, const struct certificate_wish *wish)
{
    int r = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);

    for (size_t i = 0; !wish->client && wish->names[i] && r == 0; i++)
        r = add_name(crt, wish->names[i]);
    if (r == 0)
        r = gnutls_x509_crt_set_key_purpose_oid(
            crt, wish->client ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER, 0);
    return r;
}

int certificate_sign(const struct certificate_wish *wish,
                     const struct certificate_pair *out,
                     struct err *err)
{
    _cleanup_(key_donep) gnutls_x509_privkey_t ca_key = NULL;
    _cleanup_(crt_donep) gnutls_x509_crt_t ca = NULL;
    _cleanup_(key_donep) gnutls_x509_privkey_t key = NULL;
    _cleanup_(crt_donep) gnutls_x509_crt_t crt = NULL;
    gnutls_datum_t ca_key_text = datum(wish->ca_key);
    int r = crt_read(wish->ca, &ca);

    if (r == 0)
        r = gnutls_x509_privkey_init(&ca_key);
    if (r == 0)
        r = gnutls_x509_privkey_import(ca_key, &ca_key_text, GNUTLS_X509_FMT_PEM);
    if (r == 0)
        r = key_new(&key);
    if (r == 0)
        r = crt_new(&crt, key, wish->client ? wish->client : "muster",
                    (time_t)(wish->now_ms / 1000), (time_t)(wish->lifetime_ms / 1000));
    if (r == 0)
        r = describe(crt, wish);
    if (r == 0)
        r = gnutls_x509_crt_sign2(crt, ca, ca_key, GNUTLS_DIG_SHA256, 0);
    if (r == 0)
        r = export(crt, key, out);
    return r < 0 ? err_set(err, -EINVAL, "making a certificate: %s", gnutls_strerror(r)) : 0;
}

/* ---- clients ---- */

#define NAME_BYTES_MAX 256
#define GROUPS_MAX     32

static void crq_donep(gnutls_x509_crq_t *crq)
{
    if (*crq)
        gnutls_x509_crq_deinit(*crq);
}

/* Whoever is in it may do everything, whatever roles say. */
static int check_subject(gnutls_x509_crq_t crq, struct err *err)
{
    char text[NAME_BYTES_MAX];
    size_t len = sizeof(text);

    if (gnutls_x509_crq_get_dn_by_oid(crq, GNUTLS_OID_X520_COMMON_NAME, 0, 0, text, &len) < 0 ||
        !len)
        return err_set(err, -EACCES, "the request has no common name (CN), which is the user's");
    for (unsigned i = 0; i <= GROUPS_MAX; i++) {
        len = sizeof(text);
        int r =
            gnutls_x509_crq_get_dn_by_oid(crq, GNUTLS_OID_X520_ORGANIZATION_NAME, i, 0, text, &len);

        if (r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
            return 0;
        if (r < 0 || i == GROUPS_MAX)
            return err_set(err, -EACCES, "the request has more than %d groups (O), or longer ones",
                           GROUPS_MAX);
        if (str_is((struct str){text, len}, "system:masters"))
            return err_set(err, -EACCES,
                           "use of the group system:masters is not allowed: bind a role to the "
                           "user instead");
    }
    return 0;
}

static int crq_read(struct str pem, gnutls_x509_crq_t *ret, struct err *err)
{
    gnutls_datum_t text = datum(pem);
    int r = gnutls_x509_crq_init(ret);

    if (r == 0)
        r = gnutls_x509_crq_import(*ret, &text, GNUTLS_X509_FMT_PEM);
    if (r == 0)
        r = gnutls_x509_crq_verify(*ret, 0);
    return r < 0 ? err_set(err, -EINVAL, "the request cannot be read: %s", gnutls_strerror(r)) : 0;
}

static int client_describe(gnutls_x509_crt_t crt,
                           gnutls_x509_crq_t crq,
                           int64_t now_ms,
                           int64_t end_ms)
{
    unsigned char serial[SERIAL_BYTES] = {0};
    int r = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));

    serial[0] &= 0x7f;
    if (r == 0)
        r = gnutls_x509_crt_set_crq(crt, crq); /* its name and key, none of its extensions */
    if (r == 0)
        r = gnutls_x509_crt_set_version(crt, 3);
    if (r == 0)
        r = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
    if (r == 0)
        r = gnutls_x509_crt_set_activation_time(crt, (time_t)(now_ms / 1000) - EARLY_S);
    if (r == 0)
        r = gnutls_x509_crt_set_expiration_time(crt, (time_t)(end_ms / 1000));
    if (r == 0)
        r = gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
    if (r == 0)
        r = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE |
                                                   GNUTLS_KEY_KEY_ENCIPHERMENT);
    if (r == 0)
        r = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    return r;
}

int certificate_sign_client(const struct certificate_request *request,
                            struct buf *ret,
                            struct err *err)
{
    _cleanup_(key_donep) gnutls_x509_privkey_t ca_key = NULL;
    _cleanup_(crt_donep) gnutls_x509_crt_t ca = NULL;
    _cleanup_(crt_donep) gnutls_x509_crt_t crt = NULL;
    _cleanup_(crq_donep) gnutls_x509_crq_t crq = NULL;
    gnutls_datum_t ca_key_text = datum(request->ca_key);
    gnutls_datum_t text = {0};
    int wrong = crq_read(request->request, &crq, err);

    if (wrong == 0)
        wrong = check_subject(crq, err);
    if (wrong < 0)
        return wrong;
    int r = crt_read(request->ca, &ca);
    if (r == 0)
        r = gnutls_x509_privkey_init(&ca_key);
    if (r == 0)
        r = gnutls_x509_privkey_import(ca_key, &ca_key_text, GNUTLS_X509_FMT_PEM);
    if (r == 0)
        r = gnutls_x509_crt_init(&crt);
    if (r == 0)
        r = client_describe(crt, crq, request->now_ms, request->now_ms + request->lifetime_ms);
    if (r == 0)
        r = gnutls_x509_crt_sign2(crt, ca, ca_key, GNUTLS_DIG_SHA256, 0);
    if (r == 0)
        r = take(ret, gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &text), &text);
    return r < 0 ? err_set(err, -EINVAL, "signing the certificate: %s", gnutls_strerror(r)) : 0;
}
