#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct json;

/* account_volume: how a pod gets the token of its ServiceAccount: as Kubernetes' own admission does
 * it, a projected volume in the pod's spec with the token, the API server's certificate and the
 * namespace, which every container mounts where programs look for it. Pure. */
#define ACCOUNT_MOUNT_PATH    "/var/run/secrets/kubernetes.io/serviceaccount"
#define ACCOUNT_VOLUME_PREFIX "kube-api-access-"
#define ACCOUNT_TOKEN_SECONDS 3607 /* an hour, in a number by which it is known who asked */

/* Does the pod want one? Its own automountServiceAccountToken counts before that of `account`, its
 * ServiceAccount, which may be NULL: not there yet. */
bool account_volume_wanted(const struct json *spec, const struct json *account);
/* Adds the mounts, and the volume `name` where one is needed: a container that mounts something
 * there keeps that, and a volume whose name has the prefix is the one that is mounted. `name` must
 * live as long as the arena. */
void account_volume_add(struct arena *arena, struct json *spec, struct str name);
