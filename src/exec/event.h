#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct kind;

/* event: write a Kubernetes Event about an object.
 *
 * The same event again (same object, reason and message) is not a second object: its count goes up,
 * so that `kubectl describe` stays readable. Sent and forgotten. */
struct event {
    const struct kind *kind; /* of the object it is about */
    struct str ns;
    struct str name;
    struct str uid;
    struct str reason;  /* CamelCase */
    struct str message; /* a sentence; cut at EVENT_MESSAGE_BYTES_MAX */
    bool warning;
    const char *component; /* source.component */
    int64_t now_ms;
};

#define EVENT_MESSAGE_BYTES_MAX 1024 /* the limit of Kubernetes' own API server */

void event_send(struct api *api, const struct event *event);

/* A burst, then so many a second: for events that tell one ordinary pod after the other, which in a
 * crowd would only double the writes. Starts full. */
#define EVENT_BURST      200
#define EVENT_PER_SECOND 50

struct event_budget {
    int64_t spent; /* thousandths of events */
    int64_t at_ms; /* moment that was true */
};
/* Takes one where there is one left. */
bool event_budget_take(struct event_budget *budget, int64_t now_ms);
