#pragma once

/* autoscale: what those who add and take away nodes read on pods.
 *
 * A pod whose condition PodScheduled is False with the reason AUTOSCALE_WANTS_NODES, and that is
 * nominated to no node, has nodes added for it; so whatever more nodes do not help has another
 * reason. A pod with one of the annotations is not evicted when a node is to go or to be packed:
 * Cluster Autoscaler looks at the first, Karpenter at the second. */
#define AUTOSCALE_WANTS_NODES   "Unschedulable"
#define AUTOSCALE_SAFE          "cluster-autoscaler.kubernetes.io/safe-to-evict"
#define AUTOSCALE_SAFE_NOT      "false"
#define AUTOSCALE_DISRUPT       "karpenter.sh/do-not-disrupt"
#define AUTOSCALE_DISRUPT_NEVER "true"
