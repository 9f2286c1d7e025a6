#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

/* certificate: makes and reads X.509 certificates. Everything is PEM. They hold from
 * CERTIFICATE_EARLY_MS before `now_ms` on: clocks of other machines differ. */
#define CERTIFICATE_EARLY_MS INT64_C(3600000)

struct certificate_pair {
    struct buf *certificate;
    struct buf *key;
};

/* A certificate authority of our own. */
int certificate_authority(int64_t now_ms,
                          int64_t lifetime_ms,
                          const struct certificate_pair *out,
                          struct err *err);

struct certificate_wish {
    struct str ca; /* the first certificate of it counts */
    struct str ca_key;
    const char *const *names; /* host names and numeric addresses; NULL-terminated */
    const char *client;       /* a client's of this name instead, and `names` is not used */
    int64_t now_ms;
    int64_t lifetime_ms;
};
/* A server's certificate, or a client's, signed by an authority. */
int certificate_sign(const struct certificate_wish *wish,
                     const struct certificate_pair *out,
                     struct err *err);

struct certificate_request {
    struct str ca; /* the first certificate of it counts */
    struct str ca_key;
    struct str request; /* PEM of a CERTIFICATE REQUEST */
    int64_t now_ms;
    int64_t lifetime_ms;
};
/* A client's certificate for the name and groups (CN, O) that the request says, signed by an
 * authority. -EACCES: the request is not for a name, or for the group of those who may do
 * everything. */
int certificate_sign_client(const struct certificate_request *request,
                            struct buf *ret,
                            struct err *err);

struct certificate_facts {
    int64_t start_ms;
    int64_t end_ms;
};
/* Of the first certificate in `pem`. False when there is none that can be read. */
bool certificate_look(struct str pem, struct certificate_facts *ret);
/* The first certificate of `ca` signed it. */
bool certificate_is_signed_by(struct str pem, struct str ca);
bool certificate_is_for(struct str pem, const char *host);

/* The next certificate of a bundle, with its first and last line; false at the end. Start with a
 * copy of the whole text. */
bool certificate_cut(struct str *rest, struct str *ret_pem);
