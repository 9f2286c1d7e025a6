#pragma once

/* beyond: a queue that lends to work which is not preemptible.
 *
 * Such work runs within a quota only. Where a queue with this annotation has no quota of a resource
 * (0), it takes what is free instead, and evicts nobody for it. The queues that `muster up` makes
 * have it: a Deployment runs there, as it does on any cluster. */
#define BEYOND_ANNOTATION      "muster.dev/beyond-quota"
#define BEYOND_NON_PREEMPTIBLE "non-preemptible"
