#pragma once

#include <stdbool.h>
#include <stdint.h>

/* certificates: when the certificates of the admission webhooks are made anew.
 *
 * An authority of our own signs the certificate that the webhooks are served with; the API server
 * knows the authority from the webhook configurations (caBundle). Both are replaced when two thirds
 * of their time are over. So that no call fails meanwhile, a new authority is published beside the
 * old one, and signs only CERTIFICATES_SETTLE_MS later, when every API server has heard of it. */
#define CERTIFICATES_SETTLE_MS   INT64_C(10000)
#define CERTIFICATES_LIFETIME_MS (INT64_C(90) * 24 * 3600 * 1000)
#define CERTIFICATES_AUTHORITY \
    40 /* lifetimes of a certificate are one of the authority: 10 years */

struct certificates_span {
    int64_t start_ms; /* 0: there is none */
    int64_t end_ms;
};

struct certificates_facts {
    int64_t now_ms;
    struct certificates_span authority;   /* the newest one */
    struct certificates_span certificate; /* that is served */
    bool fits; /* the certificate is signed by the newest authority, for the right names */
    bool told; /* every webhook configuration names exactly our authorities */
};

enum certificates_todo {
    CERTIFICATES_WAIT,
    CERTIFICATES_MAKE, /* a new authority, beside those that still hold */
    CERTIFICATES_TELL, /* the webhook configurations */
    CERTIFICATES_SIGN, /* a new certificate by the newest authority */
};

/* *ret_at_ms: when to look again, if nothing changes before. */
enum certificates_todo certificates_decide(const struct certificates_facts *facts,
                                           int64_t *ret_at_ms);
