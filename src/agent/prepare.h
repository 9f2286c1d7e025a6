#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct pod;
struct podio_exec_request;

/* prepare: the files that a shim works from. */

/* What its shim begins with: the folder and the pod file; and prepare_files(), unless nothing is in its volumes
 * but what is surely there: then they can be made while the shim begins. -EAGAIN: something it refers
 * to is not there yet; -ENOTSUP: it can never run here; err says what. */
int prepare_pod(struct pod *pod, struct err *err);
/* What its containers need of the pod: folders, volumes, names. pod->prepared says that it was done. */
int prepare_files(struct pod *pod, struct err *err);
/* Was it, by an earlier muster? */
bool prepare_was_done(const struct pod *pod);
/* What prepare_files() does for each container, of one that was added since. */
int prepare_ephemeral(struct pod *pod, size_t container, struct err *err);
/* The spec file of the container's current instance. -EAGAIN as above. */
int prepare_container(struct pod *pod, size_t container, struct err *err);
int prepare_exec(struct pod *pod,
                 size_t container,
                 const struct podio_exec_request *request,
                 const char *file,
                 struct err *err);
