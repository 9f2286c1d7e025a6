#pragma once

#include <stdint.h>

struct json;

/* gpus: how many GPUs objects ask for, by nvidia.com/gpu. Pure. What adds up has an upper bound,
 * ACCOUNT_GPUS_MAX. */

/* Of a list of resources, as of a node's allocatable; 0 where it has none. */
int64_t gpus_of(const struct json *resources);
/* Of {limits, requests}: the limits, else the requests. */
int64_t gpus_asked(const struct json *resources);
/* Of a pod, or of a template of one. */
int64_t gpus_of_pod(const struct json *pod);
/* Of a map of roles: of each, replicas times what one of its pods asks for. */
int64_t gpus_of_roles(const struct json *roles);
int64_t gpus_times(int64_t gpus, int64_t count);
