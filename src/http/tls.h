#pragma once

#include "base/str.h"

#include <gnutls/gnutls.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

/* tls: who we are on a TLS connection, and the certificates made at first start. */
struct tls_identity;

/* Certificate and key in PEM; `ca` (may be empty) is what client certificates must be signed by. */
int tls_identity_new(struct str certificate,
                     struct str key,
                     struct str ca,
                     struct tls_identity **ret,
                     struct err *err);
/* A further certificate, with its chain, which clients get that ask for one of its names: before any
 * session. The first stays that of all others. */
int tls_identity_add(struct tls_identity *identity,
                     struct str certificate,
                     struct str key,
                     struct err *err);
/* Another reference; tls_identity_free() drops one. Each connection holds one, so an identity can
 * be replaced while connections made with it last. */
struct tls_identity *tls_identity_ref(struct tls_identity *identity);
void tls_identity_free(struct tls_identity *identity);
/* A server session on a non-blocking socket. */
int tls_session_new(const struct tls_identity *identity, int fd, gnutls_session_t *ret);

/* The subject of a client certificate that our authority signed: "CN\0O1\0O2" appended to `out`.
 * Nothing when there is none or it does not hold. */
void tls_peer_identity(gnutls_session_t session, struct buf *out);

/* What tls_make() makes, all PEM. */
struct tls_made {
    struct buf *ca_certificate;
    struct buf *ca_key;
    struct buf *certificate;
    struct buf *key;
};

/* A certificate authority of our own, valid for ten years, and a server certificate signed by it
 * for localhost, the loopback addresses, the names under which pods know the API server, and `hosts`,
 * names and addresses (NULL-terminated; at most TLS_HOSTS_MAX count). */
#define TLS_HOSTS_MAX 64
int tls_make(const char *const *hosts, int64_t now_ms, const struct tls_made *out, struct err *err);

/* An authority of its own, whose key is not kept, and the one certificate that it signs, for ten
 * years: of a client of that name. `ca_key` is not used. */
int tls_make_client(const char *name, int64_t now_ms, const struct tls_made *out, struct err *err);

/* The authority that signs; PEM. */
struct tls_authority {
    struct str certificate;
    struct str key;
};

struct certificate_pair;
/* Such a server certificate again, by the same authority, for other hosts. */
int tls_make_server(const char *const *hosts,
                    int64_t now_ms,
                    const struct tls_authority *by,
                    const struct certificate_pair *out,
                    struct err *err);

/* Base64 of `bytes` appended to `out`. */
void tls_base64(struct buf *out, struct str bytes);
#define TLS_SHA256_BYTES 32
void tls_sha256(struct str bytes, char out[static TLS_SHA256_BYTES]);
/* `count` random bytes as lower-case hexadecimal digits. */
int tls_random_hex(struct buf *out, size_t count, struct err *err);
