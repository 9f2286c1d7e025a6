#pragma once

#include "api/podio.h"
#include "base/str.h"

#include <stdbool.h>

struct pod;
struct podio_stream;

/* results: the files that a pod wrote (struct podio_ops). */
/* Whether a volume of the pod is a folder on disk that is the pod's own. */
bool results_volume_is_own(const struct pod *pod, struct str name);
struct podio_stream *results_open(struct podio *podio,
                                  const struct podio_results_request *request,
                                  const struct podio_reader *reader);
