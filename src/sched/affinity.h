#pragma once

#include "base/str.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/spec.h"

#include <stdbool.h>

struct affinity;
struct sched;
struct shape;

/* affinity: constraints between pods. */

/* Whether a term of a pod in namespace own_ns selects `pod`. */
/* A namespace that is not known (NULL) has no labels. */
bool affinity_selector_means(const struct sched_selector *selector,
                             const struct sched_namespace *space);
bool affinity_term_means(const struct sched *sched,
                         const struct sched_pod_term *term,
                         struct str own_ns,
                         const struct pod *pod);
/* Where a pod of the shape may go depends on who went where before it. */
bool affinity_in_order(const struct sched *sched, const struct shape *shape);
/* Looks once at every pod the constraints could mean; NULL when there are none. */
struct affinity *affinity_prepare(struct sched *sched, struct pod *pod);
enum fit affinity_fit(const struct affinity *affinity,
                      struct node *node,
                      enum place_filter *ret_why);
double affinity_score(const struct affinity *affinity, const struct node *node);
void affinity_scale(struct affinity *affinity, const struct node_set *set);
