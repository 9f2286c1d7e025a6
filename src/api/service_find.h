#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct api_result;

/* service_find: where a request to a Service goes: to a ready address of its Endpoints, or of its
 * EndpointSlices where somebody wrote only those. For the proxy, webhooks and other API servers. */
enum service_lack {
    SERVICE_LACKS_NOTHING,
    SERVICE_LACKS_ITSELF,    /* there is no such Service */
    SERVICE_LACKS_PORT,      /* of that number */
    SERVICE_LACKS_ADDRESSES, /* none is ready with that port */
    SERVICE_LACKS_ANSWER,    /* `result` says why the store gave none */
};

struct service_wish {
    struct str ns;
    struct str name;
    struct str port; /* a number of the Service's, or a name of its endpoints'; empty: any */
    bool pods_only;  /* addresses behind which no pod is known do not count */
    size_t turn;     /* which of them: each in turn */
};

/* Strings live until the call returns. */
struct service_place {
    enum service_lack lack;
    const struct api_result *result; /* of what could not be read; or NULL */
    struct str ip;
    struct str pod; /* behind it; empty: none is known */
    uint16_t port;
    struct str port_name; /* in the Service, or as it was asked for */
};

typedef void service_found_fn(void *user, const struct service_place *place);

/* `found` is called once, later, also when there is nothing. Strings of the wish are copied. */
void service_find(struct api *api,
                  const struct service_wish *wish,
                  service_found_fn *found,
                  void *user);
