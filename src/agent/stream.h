#pragma once

#include "api/podio.h"

struct agent;
struct pod;
struct run_container;
struct podio_stream;

/* stream: what logs, exec and attach have in common. A stream knows its pod as long as both live;
 * a pod that ends notifies its streams (container_ended with NULL) and releases them. */
struct stream_ops {
    void (*write)(struct podio_stream *stream, struct str bytes);
    void (*resize)(struct podio_stream *stream, uint16_t columns, uint16_t rows);
    void (*pause)(struct podio_stream *stream, bool paused);
    void (*close)(struct podio_stream *stream);
    /* A container of its pod has ended; NULL: all have. */
    void (*container_ended)(struct podio_stream *stream, const struct run_container *container);
    /* A message of the shim that is not about a container; true when it was for this stream. */
    bool (*message)(struct podio_stream *stream, const char *text, int fd);
};

struct podio_stream {
    const struct stream_ops *ops;
    struct agent *agent;
    struct pod *pod;           /* NULL once it is gone */
    struct podio_stream *next; /* of the same pod */
    struct podio_reader reader;
};

void stream_link(struct podio_stream *stream, struct pod *pod);
void stream_unlink(struct podio_stream *stream);

/* For pod_end.c and pod_run.c. */
void streams_container_ended(struct pod *pod, const struct run_container *container);
void streams_message(struct pod *pod, const char *text, int fd);
void streams_end_pod(struct pod *pod);
