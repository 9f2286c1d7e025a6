#pragma once

#include <stdbool.h>

struct buf;
struct err;
struct json;

/* sysctl: kernel settings of a pod (spec.securityContext.sysctls), in the namespaces that are its
 * own: those that Kubernetes' level `baseline` lets everybody have, for they touch nobody else. */
struct sysctl_scope {
    bool own_ipc;     /* what belongs to an IPC namespace can be set */
    bool own_network; /* the same of a network */
};

/* -ENOTSUP: one of them is not for pods, or the pod shares what it belongs to; -EINVAL: a value that
 * cannot be one. The words name it. */
int sysctl_check(const struct json *spec, struct sysctl_scope scope, struct err *err);
/* As records of a container, which sets them before it begins (shim/shim.h). */
void sysctl_add(const struct json *spec, struct buf *records);
