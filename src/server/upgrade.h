#pragma once

#include <stdbool.h>

struct request;

/* upgrade: from a request to a WebSocket or SPDY connection.
 *
 * `protocols` are those we speak, best first, NULL-terminated; the first one that the client offers
 * is agreed on and returned (a string of the list). NULL when none is, and then the request has
 * been answered. */
const char *upgrade_websocket(struct request *request, const char *const *protocols);
const char *upgrade_spdy(struct request *request, const char *const *protocols);
bool upgrade_wants(const struct request *request, const char *what);
