#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct agent;
struct arena;
struct buf;
struct env;
struct err;
struct json;
struct object;
struct pod;

/* volume: a pod's volumes as folders, and a container's mounts of them as records for its shim. */

/* Make every volume of the pod. -EAGAIN: a claim, ConfigMap or Secret is not there yet; err names
 * it and the volume. -ENOTSUP: the node has no such volumes, or not so many files. */
int volume_make_all(struct pod *pod, struct err *err);
/* Its memory volumes, as records of the pod file: the shim mounts them, so they go with it. */
void volume_add_memory(struct pod *pod, struct buf *records);
/* The container's volumeMounts. subPathExpr is expanded with `env`. */
int volume_mount_all(struct pod *pod,
                     const struct json *container,
                     struct env *env,
                     struct buf *records,
                     struct err *err);
/* The mode of a projected token in a pod of this spec. *uid: its owner; at first the user of those
 * who name none, -1: nobody knows. */
mode_t volume_token_mode(const struct json *spec, int64_t *uid);
/* A ConfigMap or Secret has changed: so do its files in the pods that run, each one at once; pods that
 * wait for it, or for a ServiceAccount, are tried again. */
void volume_refresh(struct agent *agent, const struct object *object);
/* The pod's own labels or annotations may be others: so are the files that show them. */
void volume_refresh_fields(struct pod *pod);
/* Where what is in a claim lies. */
const char *volume_claim_folder(struct arena *arena,
                                const struct agent *agent,
                                const struct object *claim);
/* A claim was deleted: its folder goes, unless its volume's reclaim policy is Retain. */
void volume_claim_gone(struct agent *agent, const struct object *claim);
