#pragma once

#include "net/pods.h"

#include <stdint.h>

struct arena;
struct cache;
struct dns_query;
struct dns_writer;
struct str;

/* dns_zone: what the names of the cluster mean, as Kubernetes' specification of its names has it. Looks
 * at Services and pods, and at nothing else.
 *
 *     SVC.NS.svc.cluster.local                A: its address, or the addresses of its ready pods
 *                                             CNAME: of an ExternalName
 *     _PORT._PROTOCOL.SVC.NS.svc....          SRV: the port of that name
 *     HOST.SVC.NS.svc....                     A: a pod with that hostname and subdomain, or of a headless
 *                                             service the pod whose address is HOST, with dashes
 *     A-B-C-D.NS.pod.cluster.local            A: a pod of that namespace has this address
 *     D.C.B.A.in-addr.arpa                    PTR: of an address of the pod network
 *
 * There are no addresses of IPv6: who asks for AAAA hears that there are none of that kind. */
#define DNS_ZONE "cluster.local"

struct dns_zone {
    const struct cache *cache; /* of services */
    struct net_pods pods;
    uint32_t api_address; /* of kubernetes.default.svc */
    uint32_t network;     /* whose addresses have names here, in the machine's byte order */
    uint32_t mask;
};

enum dns_found {
    DNS_FOUND,     /* the answer is written; perhaps it is that there is nothing of that type */
    DNS_NOT_FOUND, /* there is no such name */
    DNS_ELSEWHERE, /* it is no name of the cluster */
    DNS_ALIAS,     /* the answer so far is a CNAME, and *ret_target a name elsewhere */
};

enum dns_found dns_zone_answer(const struct dns_zone *zone,
                               struct arena *arena,
                               const struct dns_query *query,
                               struct dns_writer *writer,
                               struct str *ret_target);
