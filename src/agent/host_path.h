#pragma once

struct agent;
struct arena;
struct buf;
struct err;
struct json;
struct pod;
struct record_mount;

/* host_path: volumes that are paths of the machine, and what of it no pod may see. */

/* One path a line: kubeconfigs that were written with the owner's token, besides the one in the
 * data folder. */
#define HOST_PATH_KUBECONFIGS "kubeconfigs"

/* What is to be hidden, as records of a container. */
void host_path_masks(const struct pod *pod, struct buf *records);
/* The mount of a container, whose `sub` is inside the volume: of a person's pod (api/people.h) it is
 * found as her, inside what she may mount. */
void host_path_mount(const struct pod *pod,
                     const struct json *source,
                     struct arena *arena,
                     struct record_mount *mount);
/* Make it, or see that it is what hostPath.type says. -EAGAIN: it is not there yet; -ENOTSUP: no
 * pod may have it. The shim looks again when it mounts. */
int host_path_make(const struct pod *pod,
                   const struct json *source,
                   struct arena *arena,
                   struct err *err);
