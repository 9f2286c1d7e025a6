#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "http/certificate.h"
#include "http/tls.h"
#include "test.h"

#include <stdint.h>

#define NOW_MS  INT64_C(1800000000000)
#define HOUR_MS INT64_C(3600000)

TEST(a_signed_certificate_is_known_by_its_authority_names_and_time)
{
    static const char *const names[] = {"a.b.svc", "127.0.0.1", NULL};
    _cleanup_(buf_done) struct buf ca = {0};
    _cleanup_(buf_done) struct buf ca_key = {0};
    _cleanup_(buf_done) struct buf other = {0};
    _cleanup_(buf_done) struct buf other_key = {0};
    _cleanup_(buf_done) struct buf crt = {0};
    _cleanup_(buf_done) struct buf key = {0};
    struct certificate_facts facts = {0};
    struct tls_identity *identity = NULL;
    struct err err = {0};

    EXPECT(!certificate_authority(NOW_MS, 10 * HOUR_MS, &(struct certificate_pair){&ca, &ca_key},
                                  &err));
    EXPECT(!certificate_authority(NOW_MS, 10 * HOUR_MS,
                                  &(struct certificate_pair){&other, &other_key}, &err));
    EXPECT(!certificate_sign(&(struct certificate_wish){.ca = buf_str(&ca),
                                                        .ca_key = buf_str(&ca_key),
                                                        .names = names,
                                                        .now_ms = NOW_MS,
                                                        .lifetime_ms = HOUR_MS},
                             &(struct certificate_pair){&crt, &key}, &err));
    EXPECT(certificate_is_signed_by(buf_str(&crt), buf_str(&ca)));
    EXPECT(!certificate_is_signed_by(buf_str(&crt), buf_str(&other)));
    EXPECT(certificate_is_for(buf_str(&crt), "a.b.svc"));
    EXPECT(certificate_is_for(buf_str(&crt), "127.0.0.1"));
    EXPECT(!certificate_is_for(buf_str(&crt), "c.b.svc"));
    EXPECT(certificate_look(buf_str(&crt), &facts) && facts.end_ms == NOW_MS + HOUR_MS);
    EXPECT(!certificate_look(STR("nothing"), &facts));
    EXPECT(!tls_identity_new(buf_str(&crt), buf_str(&key), STR_NONE, &identity, &err));
    tls_identity_free(identity);
}

TEST(a_bundle_is_cut_into_its_certificates)
{
    struct str rest = STR("x\n-----BEGIN CERTIFICATE-----\na\n-----END CERTIFICATE-----\n"
                          "-----BEGIN CERTIFICATE-----\nb\n-----END CERTIFICATE-----\ny");
    struct str pem;

    EXPECT(certificate_cut(&rest, &pem) &&
           str_is(pem, "-----BEGIN CERTIFICATE-----\na\n-----END CERTIFICATE-----"));
    EXPECT(certificate_cut(&rest, &pem) && str_contains(pem, STR("\nb\n")));
    EXPECT(!certificate_cut(&rest, &pem));
}
