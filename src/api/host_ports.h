#pragma once

#include "api/service.h"
#include "base/str.h"

struct arena;
struct json;

/* host_ports: which ports of the machine (hostPort, at its hostIP) who may have.
 *
 * What listens there is reached instead of what people think is there: the machine's own programs, the
 * API server, another tenant's Service. So nobody has ports of the range of nodePorts, which are the
 * Services'; and who does not have the owner's rights has neither ports below 1024 nor addresses of
 * loopback, of Services and of the API server. People have none, or what `muster user add --ports` gave
 * them (api/people.h). Pure. */
#define HOST_PORTS_FREE_FIRST 1024

/* The range of nodePorts, as Kubernetes has it. */
#define NODE_PORT_FIRST 30000
#define NODE_PORT_COUNT 2768

struct host_ports {
    struct service_network services;
    struct str
        api; /* the address of the API server; empty: it is at all of them, where nobody else can
                     * have its port */
};

/* Why nobody may have what this spec of a pod asks for; empty: they may. */
struct str host_ports_refuse(struct arena *arena, const struct json *spec);
/* Why somebody without the owner's rights may not write the object: it is a pod, or has templates of
 * pods, wherever they are in it. What `old` (NULL: nothing) has already goes on. */
struct str host_ports_refuse_account(struct arena *arena,
                                     const struct host_ports *rules,
                                     const struct json *object,
                                     const struct json *old);
