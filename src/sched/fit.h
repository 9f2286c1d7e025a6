#pragma once

#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"

#include <stdbool.h>

struct sched;

/* fit: whether a node has room. */
enum fit fit_resources(const struct sched *sched,
                       const struct pod *pod,
                       struct node *node,
                       enum place_filter *ret_short);
bool fit_shares(struct sched *sched,
                const struct pod *pod,
                struct node *node,
                struct placement *ret);
/* Whether the devices that a suspended pod had are free, or about to be; of a victim, whether it
 * could stay beside such pods. */
enum fit fit_devices(const struct pod *pod, const struct node *node);
bool fit_share_open(const struct pod *pod, const struct node *node);
/* Whether, and when, the node's NUMA zones have room for the pod; over how many of them. */
enum fit fit_zones(const struct pod *pod, const struct node *node, uint32_t *ret_span);
/* Whether a shared device was promised as a whole, to a suspended pod that had it. */
bool fit_promised(const struct node *node, const struct share *share);
