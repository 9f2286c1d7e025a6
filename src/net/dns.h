#pragma once

#include "net/dns_zone.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

struct dns;
struct err;
struct uv_loop_s;

/* dns: the name server of a node's pods, by UDP and TCP.
 *
 * Names of the cluster are answered at once (net/dns_zone.h). Others are asked of the machine's own name
 * servers, each time by a socket and a number that nobody can guess, and what comes back is passed
 * on as it came if it answers that question. Only who has an address of the zone's network is
 * answered.
 *
 * Everything has a bound: a source asks DNS_RATE times a second (after DNS_BURST at once) and has
 * DNS_SOURCE_PENDING questions with others under way, all together DNS_PENDING_MAX; what is above is
 * dropped, as UDP may. */
#define DNS_PORT           53
#define DNS_RATE           1000
#define DNS_BURST          2000
#define DNS_PENDING_MAX    512
#define DNS_SOURCE_PENDING 64
#define DNS_CONNS_MAX      128 /* by TCP */
#define DNS_SOURCE_CONNS   16
#define DNS_SERVERS_MAX    3     /* as many as libc looks at */
#define DNS_TRY_MS         2000  /* then the next server is asked */
#define DNS_TRIES          3     /* then there is no answer */
#define DNS_IDLE_MS        10000 /* of a connection */

struct dns_options {
    struct uv_loop_s *loop;
    struct dns_zone zone;
    struct sockaddr_in at;
    /* The machine's name servers, now; how many. */
    size_t (*servers)(void *user, struct sockaddr_storage out[static DNS_SERVERS_MAX]);
    void (*closed)(void *user); /* after dns_stop(), when nothing is left */
    void *user;
};

int dns_start(const struct dns_options *options, struct dns **ret, struct err *err);
void dns_stop(struct dns *dns);
/* Bytes of answers that clients by TCP have not taken and that no socket has room for: at most one
 * answer of each. */
size_t dns_unread(const struct dns *dns);
