#pragma once

#include "base/str.h"
#include "net/pods.h"

#include <stdbool.h>

struct api;
struct bridge;
struct cache;
struct json;
struct log;
struct object;
struct services;
struct uv_loop_s;

/* service: ClusterIPs that can be reached.
 *
 * The store gives every service that is not headless an address of the pod network
 * (net/bridge.h), or of a loopback network (api/service.h). For each TCP port that has
 * somebody behind it we listen there and pass every connection on: to one of the ready pods the
 * selector names, or without a selector of the addresses that were written for it (net/slices.h), in
 * turn; while there is nobody the machine refuses connections. With
 * sessionAffinity ClientIP to the same one for the same client. What comes to a UDP port is passed
 * on in the same way (net/datagrams.h). A port of nodes (nodePort) is
 * listened on at the node's address, which pods and this machine reach. Headless services have no
 * address: their name leads to the pods. */

/* On the pod network the API server is passed on as a service is. */
#define SERVICE_API_PORT 443

/* A port that cannot be listened on, and whose it is. Texts live until `trouble` returns. */
struct services_trouble {
    struct str ns;
    struct str name; /* of the service; of the pod, where it is a hostPort */
    struct str pod;  /* the pod's uid; empty: it is a service's */
    struct str words;
};

/* `bridge` and `api_url` must live until services_stop(), the rest until closed(). */
struct services_options {
    struct uv_loop_s *loop;
    struct api *api;           /* where services are asked to be given addresses of our network */
    const struct cache *cache; /* of services and EndpointSlices */
    struct net_pods pods;
    const struct bridge *bridge; /* NULL: none */
    const char *api_url;         /* of the API server; NULL: it is not passed on */
    const struct log *log;
    void (*trouble)(void *user,
                    const struct services_trouble *trouble); /* NULL: it is only logged */
    void (*closed)(void *user); /* after services_stop(), when the last connection has ended */
    void *user;
};

struct services *services_start(const struct services_options *options);
/* Listens no more; connections go on until their ends close them. */
void services_stop(struct services *services);

/* A service came, changed or went. */
void services_observe(struct services *services, const struct object *service);
/* A pod is ready now, or not any more, or has other labels; or an EndpointSlice came, changed or went. */
void services_follow(struct services *services, const struct object *changed);
/* Is its port `number` listened on now? */
bool services_listen(const struct services *services, const struct object *service, int64_t number);
void services_gone(struct services *services, const struct object *service);

/* A pod came, or went (`there` false): what arrives at its hostPorts is passed on to it. They are
 * listened on at their hostIP; without one at the node's address, as nodePorts are. Without a bridge
 * pods listen on the machine itself, and there is nothing to pass on. */
void services_pod(struct services *services, const struct net_pod *pod, bool there);

/* Does the service's selector name this pod? (A service without one names none.) */
bool service_selects(const struct json *service, const struct object *pod);
