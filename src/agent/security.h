#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct buf;
struct err;
struct image;
struct json;
struct pod;

/* security: who a container runs as and what it may do, from the securityContexts, as records. */
int security_add(struct pod *pod,
                 const struct image *image,
                 const struct json *container,
                 struct buf *records,
                 struct err *err);
/* -ENOTSUP: the pod asks for what would let it see through everything else: privileged, hostPID, or
 * a capability of that kind (NET_RAW and NET_ADMIN where it shares the machine's network), and the
 * node does not allow it. */
int security_check(const struct pod *pod, struct err *err);
/* The same of one container alone. */
int security_check_container(const struct pod *pod, size_t index, struct err *err);
/* -ENOTSUP: the spec asks for what no pod has here: another runtime, processes that containers share, more groups. */
#define SECURITY_GROUPS_MAX 64
int security_check_spec(const struct json *spec, struct err *err);
/* Are the pod's abstract sockets its own? Those of a privileged one are the network's. */
bool security_is_scoped(const struct pod *pod);
/* "CAP_CHOWN". */
struct str security_cap_name(struct arena *arena, unsigned cap);
