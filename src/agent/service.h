#pragma once

#include "base/str.h"

#include <stdbool.h>

struct agent;
struct json;
struct object;
struct pod;

/* service: ClusterIPs that can be reached.
 *
 * The store gives every service that is not headless an address of the pod network
 * (agent/bridge.h), or of a loopback network (api/service.h). For each TCP port the agent listens
 * there and passes every connection on to one of the ready pods the selector
 * names, in turn. Headless services have no address: their name leads to the pods. */
void service_observe(struct agent *agent, const struct object *service);
/* On the pod network the API server is passed on as a service is. */
#define SERVICE_API_PORT 443
void service_start(struct agent *agent);
/* Where pods reach it. */
void service_api_address(const struct agent *agent, char out[static 16]);
void service_gone(struct agent *agent, const struct object *service);
void service_stop_all(struct agent *agent);

/* Does the service's selector name this pod? (A service without one names none.) */
bool service_selects(const struct json *service, const struct pod *pod);
