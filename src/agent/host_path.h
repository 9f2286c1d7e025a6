#pragma once

struct agent;
struct arena;
struct buf;
struct err;
struct json;
struct pod;

/* host_path: volumes that are paths of the machine, and what of it no pod may see. */

/* One path a line: kubeconfigs that were written with the owner's token, besides the one in the
 * data folder. */
#define HOST_PATH_KUBECONFIGS "kubeconfigs"

/* What is to be hidden, as records of a container. */
void host_path_masks(const struct agent *agent, struct buf *records);
/* Make it, or see that it is what hostPath.type says. -EAGAIN: it is not there yet; -ENOTSUP: no
 * pod may have it. The shim looks again when it mounts. */
int host_path_make(const struct pod *pod,
                   const struct json *source,
                   struct arena *arena,
                   struct err *err);
