#pragma once

#include "base/str.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/shape.h"
#include "sched/spec.h"

#include <stdbool.h>

struct sched;

/* filter: what depends on the node's own description only. */
enum place_filter filter_static(const struct shape *shape, const struct node *node);
bool filter_allowed(const struct sched *sched, struct shape *shape, const struct node *node);
/* Whether the pod's node selector and node affinity mean the node. */
bool filter_selects(const struct sched_pod *spec, const struct node *node);
bool filter_tolerates(const struct sched_pod *spec, const struct node *node, bool prefer);
struct str node_label(const struct node *node, struct str key);
/* Of a label with that value; not set: there is no such label. */
bool filter_holds(const struct sched_expression *expression, struct str value);
bool node_term_matches(const struct node *node, const struct sched_node_term *term);
