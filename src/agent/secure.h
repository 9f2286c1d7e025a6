#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct secure;

/* secure: probes that need more than a plain socket: httpGet with scheme HTTPS, whose certificate
 * nobody looks at (as the kubelet's), and grpc, the health service grpc.health.v1. They are few and
 * short: each runs in a worker thread, with blocking calls that end when its time is over. */
struct secure_request {
    struct agent *agent;
    const char *host; /* an IPv4 address */
    uint16_t port;
    int64_t timeout_ms;
    bool grpc;
    struct str text; /* HTTPS: the whole request; grpc: name of the service, may be empty */
    void (*done)(void *user, bool ok, struct str words); /* from the loop, unless cancelled */
    void *user;
};

struct secure *secure_start(const struct secure_request *request);
/* done is not called any more; NULL is fine. */
void secure_cancel(struct secure *secure);
