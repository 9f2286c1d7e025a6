#pragma once

#include "api/podio.h"

struct podio_stream;

/* results: the files that a pod wrote (struct podio_ops). At most RESULTS_STREAMS_MAX at a time:
 * each may occupy a worker thread. */
#define RESULTS_STREAMS_MAX 4
struct podio_stream *results_open(struct podio *podio,
                                  const struct podio_results_request *request,
                                  const struct podio_reader *reader);
