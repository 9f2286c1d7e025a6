#pragma once

#include <stddef.h>

struct err;
struct pod;
struct podio_exec_request;

/* prepare: the files that a shim works from. */

/* Folders, volumes, pod file. -EAGAIN: something it refers to is not there yet; -ENOTSUP: it can
 * never run here; err says what. */
int prepare_pod(struct pod *pod, struct err *err);
/* What prepare_pod() does for each container, of one that was added since. */
int prepare_ephemeral(struct pod *pod, size_t container, struct err *err);
/* The spec file of the container's current instance. -EAGAIN as above. */
int prepare_container(struct pod *pod, size_t container, struct err *err);
int prepare_exec(struct pod *pod,
                 size_t container,
                 const struct podio_exec_request *request,
                 const char *file,
                 struct err *err);
