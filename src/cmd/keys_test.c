#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/certificate.h"
#include "keys/signer.h"
#include "keys/ssh_keys.h"
#include "store/harness.h"
#include "test.h"
#include "tool/clock.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- ssh ---- */

/* A length in four bytes, then as many. */
static struct str take_string(struct str *rest)
{
    size_t len = 0;

    for (size_t i = 0; i < 4 && i < rest->len; i++)
        len = len << 8 | (unsigned char)rest->p[i];
    struct str text = str_sub(*rest, 4, len);
    *rest = str_sub(*rest, 4 + len, rest->len);
    return text;
}

/* The two halves of the point that belongs to a private key, without leading zeros. */
static void point_of(struct str pem, gnutls_datum_t *x, gnutls_datum_t *y)
{
    gnutls_privkey_t key = NULL;
    gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
    gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem.p, (unsigned)pem.len};

    EXPECT(gnutls_privkey_init(&key) == 0);
    EXPECT(gnutls_privkey_import_x509_raw(key, &text, GNUTLS_X509_FMT_PEM, NULL, 0) == 0);
    EXPECT(gnutls_privkey_export_ecc_raw2(key, &curve, x, y, NULL, GNUTLS_EXPORT_FLAG_NO_LZ) == 0);
    EXPECT(curve == GNUTLS_ECC_CURVE_SECP521R1);
    gnutls_privkey_deinit(key);
}

static bool ends_with(struct str field, const gnutls_datum_t *number)
{
    return number->size <= field.len &&
           memcmp(field.p + field.len - number->size, number->data, number->size) == 0;
}

TEST(a_pair_of_ssh_keys_belongs_together)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str before = STR("");

    for (int i = 0; i < 3; i++) { /* now and then a half begins with zeros */
        struct json *secret = json_new_object(&arena);
        struct str line = STR_NONE, pem = STR_NONE, blob = STR_NONE, word;
        gnutls_datum_t x = {0}, y = {0};

        EXPECT(ssh_keys_fill(&arena, secret, NULL) == 0);
        EXPECT(base64_decode(&arena, json_str_at(secret, "data.ssh-publickey"), &line));
        EXPECT(base64_decode(&arena, json_str_at(secret, "data.ssh-privatekey"), &pem));
        EXPECT(!str_eq(line, before)); /* it is drawn */
        before = line;
        EXPECT(str_cut(&line, ' ', &word) && str_is(word, "ecdsa-sha2-nistp521"));
        EXPECT(base64_decode(&arena, str_trim(line), &blob));
        EXPECT(str_is(take_string(&blob), "ecdsa-sha2-nistp521"));
        EXPECT(str_is(take_string(&blob), "nistp521"));
        struct str point = take_string(&blob);
        EXPECT(point.len == 1 + 2 * 66 && point.p[0] == 4 && blob.len == 0);
        point_of(pem, &x, &y);
        EXPECT(point.len == 133 && ends_with(str_sub(point, 1, 66), &x) &&
               ends_with(str_sub(point, 67, 66), &y));
        gnutls_free(x.data);
        gnutls_free(y.data);
    }
}

/* ---- certificates for clients ---- */

static struct str request_for(struct arena *arena, const char *name)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_x509_crq_t request = NULL;
    gnutls_datum_t pem = {0};

    EXPECT(gnutls_x509_privkey_init(&key) == 0 && gnutls_x509_crq_init(&request) == 0);
    EXPECT(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                        GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) == 0);
    EXPECT(gnutls_x509_crq_set_dn_by_oid(request, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                         (unsigned)strlen(name)) == 0);
    EXPECT(gnutls_x509_crq_set_key(request, key) == 0 &&
           gnutls_x509_crq_sign2(request, key, GNUTLS_DIG_SHA256, 0) == 0);
    EXPECT(gnutls_x509_crq_export2(request, GNUTLS_X509_FMT_PEM, &pem) == 0);
    /* GnuTLS writes "NEW" before the words that others expect. */
    _cleanup_(buf_done) struct buf plain = {0};
    struct str rest = {(const char *)pem.data, (size_t)pem.size}, line;
    while (str_cut(&rest, '\n', &line))
        if (str_contains(line, STR("NEW CERTIFICATE REQUEST")))
            buf_add(&plain, str_starts(line, STR("-----BEGIN"))
                                ? STR("-----BEGIN CERTIFICATE REQUEST-----\n")
                                : STR("-----END CERTIFICATE REQUEST-----\n"));
        else
            buf_addf(&plain, STR_FMT "\n", STR_ARG(line));
    struct str text = base64_encode(arena, buf_str(&plain));
    gnutls_free(pem.data);
    gnutls_x509_crq_deinit(request);
    gnutls_x509_privkey_deinit(key);
    return text;
}

/* Seconds that the certificate lasts from now on; 0: there is none. */
static int64_t lasts(const struct harness *h, struct str ca)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct certificate_facts facts = {0};
    struct str pem = STR("");

    if (!h->object)
        return 0;
    (void)base64_decode(&arena, json_str_at(object_json(h->object, &arena), "status.certificate"),
                        &pem);
    if (!pem.len)
        return 0;
    EXPECT(certificate_is_signed_by(pem, ca) && certificate_look(pem, &facts));
    return (facts.end_ms - clock_now_ms() + 999) / 1000;
}

static int approve(struct harness *h, const char *type)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return harness_call(
        h,
        &(struct api_request){
            .verb = API_PATCH,
            .kind = &kind_csr,
            .name = STR("a"),
            .subresource = STR("approval"),
            .patch = API_PATCH_MERGE,
            .body = str_printf(&arena, "{\"status\":{\"conditions\":[{\"type\":\"%s\"}]}}", type)});
}

static void ask(struct harness *h,
                struct str request,
                const char *signer,
                const char *usages,
                int64_t seconds)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str expires =
        seconds ? str_printf(&arena, "\"expirationSeconds\":%lld,", (long long)seconds) : STR("");

    EXPECT(harness_create(h, &kind_csr, "",
                          str_printf(&arena,
                                     "{\"metadata\":{\"name\":\"a\"},\"spec\":{" STR_FMT
                                     "\"request\":\"" STR_FMT
                                     "\",\"signerName\":\"%s\",\"usages\":%s}}",
                                     STR_ARG(expires), STR_ARG(request), signer, usages)
                              .p) == 0);
}

TEST(certificates_are_signed_when_they_were_approved_and_are_for_clients)
{
#define CLIENT "kubernetes.io/kube-apiserver-client"
    static const struct {
        const char *signer;
        const char *usages;
        const char *decision;
        int64_t seconds; /* that are asked for; 0: none */
        int64_t lasts;   /* 0: nothing is signed */
        const char *failed;
        const char *why;
    } rows[] = {
        {CLIENT, "[\"client auth\"]", "Approved", 3600, 3600, "", "as long as it was asked for"},
        {CLIENT, "[\"client auth\",\"digital signature\",\"key encipherment\"]", "Approved", 0,
         SIGNER_SECONDS_DEFAULT, "", "a year, if nothing is said"},
        {CLIENT, "[\"client auth\"]", "Approved", 10 * SIGNER_SECONDS_DEFAULT,
         SIGNER_SECONDS_DEFAULT, "", "and no longer"},
        {CLIENT, "[\"client auth\"]", "Denied", 0, 0, "", "it was denied"},
        {CLIENT, "[\"client auth\",\"server auth\"]", "Approved", 0, 0, "SignerValidationFailure",
         "a server's"},
        {CLIENT, "[\"digital signature\"]", "Approved", 0, 0, "SignerValidationFailure",
         "not a client's"},
        {"kubernetes.io/kubelet-serving", "[\"server auth\"]", "Approved", 0, 0, "SignerNotServed",
         "what nobody signs here"},
        {"example.org/own", "[\"client auth\"]", "Approved", 0, 0, "", "somebody else's"},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf ca = {0};
    _cleanup_(buf_done) struct buf ca_key = {0};
    struct str request = request_for(&arena, "ann");

    EXPECT(certificate_authority(clock_now_ms(), 100 * SIGNER_SECONDS_DEFAULT * 1000,
                                 &(struct certificate_pair){&ca, &ca_key}, NULL) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        struct signer *signer = signer_start(
            &(struct signer_options){.api = h.api, .ca = buf_str(&ca), .ca_key = buf_str(&ca_key)});
        ask(&h, request, rows[i].signer, rows[i].usages, rows[i].seconds);
        harness_settle(&h);
        EXPECT(harness_get(&h, &kind_csr, "", "a") == 0);
        EXPECT(!harness_text(&h, "status.certificate")[0]); /* nobody has approved it */
        EXPECT(approve(&h, rows[i].decision) == 0);
        harness_settle(&h);
        EXPECT(harness_get(&h, &kind_csr, "", "a") == 0);
        EXPECT(strcmp(harness_text(&h, "status.conditions.1.reason"), rows[i].failed) == 0);
        int64_t left = lasts(&h, buf_str(&ca));
        EXPECT(left <= rows[i].lasts && (left > rows[i].lasts - 600 || !rows[i].lasts));
        signer_stop(signer);
        harness_settle(&h);
        harness_close(&h);
    }
#undef CLIENT
}
