#pragma once

#include "base/str.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>

struct group;
struct queue;

/* tenant: whose work queues take: of namespaces by name and label, of their pool, at leaves of the tree. */

/* The queue, of the group's and those above it, that does not take it; NULL: all do. What holds room
 * already keeps it. */
const struct queue *tenant_refused_by(const struct sched *sched, const struct group *group);
static inline const struct queue *tenant_refused(const struct sched *sched,
                                                 const struct group *group)
{
    return sched->tenants ? tenant_refused_by(sched, group) : NULL; /* mostly nobody says */
}
/* Of a queue that nobody made: that, and which ones there are for it. */
struct str tenant_unknown_text(const struct sched *sched, const struct group *group);
/* Why a queue that is there does not take the group. */
struct str tenant_text(const struct sched *sched, const struct group *group);
bool tenants_same(const struct sched_tenants *a, const struct sched_tenants *b);
