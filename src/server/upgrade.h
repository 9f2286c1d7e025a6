#pragma once

#include "base/str.h"

#include <stdbool.h>

struct http_exchange;
struct json;
struct request;

/* upgrade: from a request about a pod to a WebSocket or SPDY connection with it.
 *
 * What exec, attach and port-forward share: a node agent must be here, the client must ask for an
 * upgrade, the pod must be there and on a node, and one of our protocols must be among those the
 * client offers. Whatever is missing is answered as an error. */
struct upgrade {
    /* Those we speak, best first, NULL-terminated. */
    const char *const *websocket_protocols;
    const char *const *spdy_protocols;
    const char *websocket_default; /* of a client that names none; NULL: it must */
    /* Whether this pod will do; answers the request when not. NULL: every pod does. */
    bool (*check)(struct request *request, const struct json *pod);
    /* The connection stands. `protocol` is one of the lists'; sets request->stream, from which the
     * others find what they need. */
    void (*begin)(struct request *request, const char *protocol);
    void (*on_data)(struct http_exchange *x, struct str bytes);
    void (*on_drain)(struct http_exchange *x);
    void (*on_close)(struct http_exchange *x);
};

/* `upgrade` must outlive the request. */
void upgrade_pod(struct request *request, const struct upgrade *upgrade);
bool upgrade_is_websocket(const struct request *request);
/* 101, with this subprotocol unless it is NULL. False: the client's version or key will not do, and
 * nothing has been answered. */
bool upgrade_to_websocket(struct request *request, const char *protocol);
