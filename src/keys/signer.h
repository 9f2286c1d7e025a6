#pragma once

#include "base/str.h"

struct api;
struct signer;

/* signer: signs approved CertificateSigningRequests of kubernetes.io/kube-apiserver-client with the
 * authority of the embedded server. Of other signers of kubernetes.io, which nobody serves here, a
 * request that is approved gets the condition Failed; those of other domains are somebody else's. */
#define SIGNER_SECONDS_DEFAULT (365LL * 24 * 3600)

struct signer_options {
    struct api *api;
    struct str ca; /* PEM; both must outlive it */
    struct str ca_key;
};

struct signer *signer_start(const struct signer_options *options);
/* NULL is fine. */
void signer_stop(struct signer *signer);
