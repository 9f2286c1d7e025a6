#pragma once

#include <stdbool.h>

struct pod;
struct run_container;
struct run_end;
struct shim_exit;

/* pod_end: how containers ended, from what the shim says and from the files it left. */

/* The shim is gone: whatever ran has ended. */
void pod_lost(struct pod *pod);
/* The current instance was started, and nobody can say how it ended. */
void pod_container_lost(struct pod *pod, struct run_container *c);
/* The current instance has ended: its probes and streams end too. */
void pod_container_ended(struct pod *pod, struct run_container *c, const struct run_end *end);
/* What the shim said, with the words that the container left. */
void pod_take_end(struct pod *pod,
                  const struct run_container *c,
                  const struct shim_exit *said,
                  struct run_end *ret);
/* How the current instance ended; false when it has not. */
bool pod_read_exit(struct pod *pod, const struct run_container *c, struct run_end *ret);
