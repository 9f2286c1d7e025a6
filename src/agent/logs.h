#pragma once

#include "api/podio.h"

#include <stddef.h>

struct buf;
struct pod;
struct podio_stream;
struct run_container;

/* logs: a container's log files as one stream (struct podio_ops). */
struct podio_stream *logs_open(struct podio *podio,
                               const struct podio_log_request *request,
                               const struct podio_reader *reader);
/* The end of a container's output, without timestamps. */
void logs_tail(struct pod *pod, const struct run_container *c, size_t bytes_max, struct buf *ret);
