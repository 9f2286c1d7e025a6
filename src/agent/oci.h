#pragma once

#include "base/str.h"

#include <stddef.h>

struct arena;
struct buf;
struct env;
struct err;
struct image;
struct json;
struct pod;

/* oci: containers that run from an image (--images=oci), started by crun.
 *
 * The shim makes the container's root, a layer of its own over the image's files with all mounts
 * but /proc, and starts crun there; crun makes the process: namespaces, user, capabilities,
 * seccomp. Its bundle is <n>.bundle/config.json in the container's folder. */

/* The image of container `index`. -EAGAIN: not here; *ret_reason is then the reason that Kubernetes
 * has for it. */
int oci_image(const struct pod *pod,
              size_t index,
              struct arena *arena,
              struct image *ret,
              const char **ret_reason,
              struct err *err);
/* What the image says about the environment. */
void oci_env(struct arena *arena, struct env *env, const struct image *image);
/* Turns the spec of a container into a bundle, and into the spec of crun that runs it. */
int oci_bundle(const struct pod *pod,
               size_t index,
               const struct image *image,
               struct buf *records,
               struct err *err);
/* Where crun is, or NULL. */
const char *oci_runtime(void);
