#pragma once

#include "base/str.h"

#include <stdbool.h>

struct agent;
struct buf;
struct err;
struct pod;

/* token: a pod's credentials for the API server, where its programs look for them. */
#define TOKEN_PATH "/var/run/secrets/kubernetes.io/serviceaccount"

/* Before the first pod: what pods share of them is made anew. */
void token_start(const struct agent *agent);
/* Write token, ca.crt and namespace for the pod and add the mount of them to a container's records.
 * Nothing is added for a pod that does not want them, or whose ServiceAccount does not exist. */
int token_add(struct pod *pod, struct buf *records, struct err *err);
/* The token alone, bound to the pod; false when there is none to give. */
bool token_sign(struct pod *pod, struct str audience, struct buf *ret);
