#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct secure;

/* secure: probes that need more than a plain socket: httpGet with scheme HTTPS, whose certificate
 * nobody looks at (as the kubelet's), and grpc, the health service grpc.health.v1. Each runs in a thread
 * of its own, with blocking calls that end when its time is over. The pod says how long that is, so
 * the worker threads that everybody shares are not for it, and of a namespace and of the node only
 * so many are under way. */
#define SECURE_A_NAMESPACE 16
#define SECURE_MAX         256

struct secure_request {
    struct agent *agent;
    struct str ns;    /* of the pod; copied */
    const char *host; /* an IPv4 address */
    uint16_t port;
    int64_t timeout_ms;
    bool grpc;
    struct str text; /* HTTPS: the whole request; grpc: name of the service, may be empty */
    void (*done)(void *user, bool ok, struct str words); /* from the loop, unless cancelled */
    void *user;
};

/* NULL: there are too many already. */
struct secure *secure_start(const struct secure_request *request);
/* done is not called any more, and its thread ends soon; NULL is fine. */
void secure_cancel(struct secure *secure);
