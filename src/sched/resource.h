#pragma once

#include "base/str.h"

#include <stdint.h>

struct sched;

/* resource: amounts, and the numbers of the resources they are of. Amounts of a node are dense
 * arrays indexed by resource number. */

/* Resource numbers every node has. Others follow as they are first named. */
enum {
    RES_CPU,
    RES_MEMORY,
    RES_GPU, /* whole devices */
    RES_PODS,
    RES_FIRST_OTHER,
};
#define RES_MAX      256 /* distinct resource names in a cluster */
#define RES_ASKED    128 /* of them, those that pods named first: anybody may make up more */
#define RES_NONE     UINT32_MAX
#define GPU_MILLI    1000
#define GPU_FRACTION 1000000

struct want {
    uint32_t res;
    int64_t amount;
};

/* The number of a resource that a node has; a new one for a name that was not seen yet. RES_NONE:
 * there are too many. */
uint32_t res_id(struct sched *sched, struct str name);
/* The same of one that a pod asks for. Beyond RES_ASKED, names that are new share one number, of
 * which no node has anything. */
uint32_t res_asked(struct sched *sched, struct str name);
/* "nvidia.com/mig-2g.10gb" stands for 2 slices of a device; 0 for other resources. */
int64_t shape_mig_slices(struct str name);

static inline int64_t i64_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t i64_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
