#pragma once

#include "api/podio.h"

struct podio_stream;

/* stacks: what the processes of a pod are doing (struct podio_ops). One at a time for a pod, and
 * STACKS_STREAMS_MAX for the node: each occupies a worker thread, for as long as the kernel keeps a
 * process that it reads. */
#define STACKS_STREAMS_MAX 2
struct podio_stream *stacks_open(struct podio *podio,
                                 const struct podio_stacks_request *request,
                                 const struct podio_reader *reader);
