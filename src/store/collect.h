#pragma once

#include <stdbool.h>

struct change;
struct object;
struct store;

/* collect: owners and dependents, namespaces. */
void collect_committed(struct store *store,
                       const struct change *change,
                       const struct object *previous);
/* Look at everything that is due; stages writes. True when something is left for the next turn. */
bool collect_run(struct store *store);
void collect_all(struct store *store);
void collect_done(struct store *store);
