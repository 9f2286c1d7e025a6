#pragma once

#include "api/podio.h"

struct podio_stream;

/* stacks: what the processes of a pod are doing (struct podio_ops). One at a time for a pod, and
 * STACKS_WORKERS for the node: each occupies a worker thread, for POD_STACKS_MS_MAX or as long as the
 * kernel keeps a process that it reads. All others wait; the next is of the namespace of which the
 * fewest are being read. */
#define STACKS_WORKERS 2
struct podio_stream *stacks_open(struct podio *podio,
                                 const struct podio_stacks_request *request,
                                 const struct podio_reader *reader);
