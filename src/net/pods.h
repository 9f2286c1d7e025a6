#pragma once

#include <stdbool.h>
#include <stddef.h>

struct json;
struct object;

/* pods: what the network needs to know of the pods of this node. Whoever runs them fills it in. */
struct net_pod {
    const struct object *object; /* the newest version: its name and labels */
    const struct json *root;     /* the version that it was started from */
    const char *ip;              /* empty: it has none yet */
    bool named; /* it has an address and is not over: others may have names for it */
    bool ready;
};

/* All of them, one after another. Start with *cursor = 0; false ends the walk. What *ret points to
 * stays until the loop runs again. */
struct net_pods {
    bool (*next)(void *user, size_t *cursor, struct net_pod *ret);
    void *user;
};
