#pragma once

#include <stdbool.h>

struct pod_vec;
struct search;

/* lost: what a reclaim costs other queues. */

/* Whether the queues may lose what is really lost of these pods, as units: of every leaf the pods
 * above its minimum one by one, and the rest of the group in one piece. */
bool reclaim_allowed(struct search *search, const struct pod_vec *evicted);
