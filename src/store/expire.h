#pragma once

#include <stdbool.h>

struct store;

/* expire: events go some time after they were last told. */

/* Begins a look at all of them now and then, and does a part of it; stages deletes. True when something
 * of it is left for the next turn. */
bool expire_run(struct store *store);
