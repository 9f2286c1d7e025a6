#pragma once

#include "api/podio.h"

struct podio_stream;

/* exec: a command inside a running container, or its own input and output (struct podio_ops). */
struct podio_stream *exec_open(struct podio *podio,
                               const struct podio_exec_request *request,
                               const struct podio_reader *reader);
