#pragma once

#include "api/quantity.h"
#include "base/str.h"

#include <stdbool.h>

struct arena;
struct json;
struct kind;

/* quota: what an object takes of a ResourceQuota, as Kubernetes counts it.
 *
 * A quota names resources: "pods", "requests.cpu", "limits.memory", "requests.nvidia.com/gpu",
 * "persistentvolumeclaims", "requests.storage", "gold.storageclass.storage.k8s.io/requests.storage",
 * "services.loadbalancers", "count/deployments.apps". Pods that have ended take nothing. */

/* Whether objects of the kind can take of the resource at all. */
bool quota_concerns(struct str resource, const struct kind *kind);
/* How much an object takes, in billionths. */
__int128 quota_taken(struct str resource, const struct kind *kind, const struct json *object);
/* Whether the scopes of the quota (its spec) cover the object. */
bool quota_covers(const struct json *spec, const struct kind *kind, const struct json *object);
/* The name of a container that says nothing about an amount that the quota limits; STR_NONE: all
 * do, or they need not. */
struct str quota_silent(struct str resource, const struct json *pod);
/* The kind that "count/deployments.apps" means by its plural and group; false: it is no such
 * resource. */
bool quota_counted(struct str resource, struct str *ret_plural, struct str *ret_group);
