#pragma once

#include <stdbool.h>

struct cache;
struct check_report;
struct map;

/* check_rest: long after the last fault nobody waits in vain. A pod group whose pods ask for whole
 * GPUs, CPUs and memory alone, and all for the same, has no business waiting while that many of
 * them fit on the nodes as they are and every queue above has room for them: this counts it without
 * knowing how the scheduler does. Room that is kept for another group, which says so, is its own;
 * while a pod is suspended nothing is said. */
void check_rest(const struct map *facts,
                const struct cache *cache,
                bool reserved,
                struct check_report *report);
