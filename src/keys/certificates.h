#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct certificates;
struct log;
struct uv_loop_s;

/* certificates: keeps the certificates of the admission webhooks (control/cluster/certificates.h
 * says when) in a Secret that all replicas watch and that the leader writes:
 *
 *     ca.crt           our authorities, newest first
 *     ca.key           of the newest
 *     tls.crt tls.key  what the webhooks are served with
 *
 * The leader also writes ca.crt into the webhook configurations of that name, where they exist.
 * Every write is guarded by the resourceVersion it was decided on. */
struct certificates_served {
    struct str certificate;
    struct str key;
    struct str authorities; /* one of them signed it; those of before and after it too */
};

struct certificates_options {
    struct uv_loop_s *loop;
    struct api *api;
    const char *ns;            /* of the Secret and the Service */
    const char *secret;        /* its name */
    const char *service;       /* name of the Service in front of the webhooks */
    const char *configuration; /* name of the Mutating- and ValidatingWebhookConfiguration */
    int64_t lifetime_ms;       /* of a certificate; 0: CERTIFICATES_LIFETIME_MS */
    const char *alias;         /* a name that the certificate is for besides; NULL: none */
    /* From the loop: serve with this from now on. PEM; copied if kept. */
    void (*serve)(void *user, const struct certificates_served *served);
    void *user;
    const struct log *log;
};

/* Strings must outlive it. */
struct certificates *certificates_start(const struct certificates_options *options);
/* This replica leads from now on, and writes; or another does. */
void certificates_lead(struct certificates *certificates, bool leads);
/* NULL is fine. Calls under way are not waited for. */
void certificates_stop(struct certificates *certificates);
