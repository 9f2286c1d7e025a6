#pragma once

#include "api/podio.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct err;
struct pod;
struct run_container;
struct podio_stream;

/* stream: what logs, exec and attach have in common. A stream knows its pod as long as both live;
 * a pod that ends notifies its streams (container_ended with NULL) and releases them.
 *
 * Of each sort there are only so many on a node, and namespaces share them (base/share.h). */
#define STREAM_STACKS_MAX 32
#define STREAM_SORTS(X)                                                          \
    /* A manifest of 16 MiB and two MiB that are read ahead: 144 MiB. */         \
    X(RESULTS, 8, "the files of", "pods are being read")                         \
    /* That are read or wait for that; STACKS_WORKERS are read at a time. */     \
    X(STACKS, STREAM_STACKS_MAX, "the stacks of", "pods are asked for")          \
    /* Two descriptors each, of the 524,288 that systemd lets a service have. */ \
    X(LOGS, 4096, "", "logs are being read")                                     \
    /* A process and three pipes each. */                                        \
    X(EXEC, 1024, "", "commands run in pods")

enum stream_sort {
#define X(sort, max, before, behind) STREAM_##sort,
    STREAM_SORTS(X)
#undef X
    STREAM_SORT_COUNT,
};

struct stream_ops {
    void (*write)(struct podio_stream *stream, struct str bytes);
    void (*resize)(struct podio_stream *stream, uint16_t columns, uint16_t rows);
    void (*pause)(struct podio_stream *stream, bool paused);
    void (*close)(struct podio_stream *stream);
    /* A container of its pod has ended; NULL: all have. */
    void (*container_ended)(struct podio_stream *stream, const struct run_container *container);
    /* Others have fewer, or it is not read: the reader is told `err`, once. */
    void (*give_way)(struct podio_stream *stream, const struct err *err);
    /* A message of the shim that is not about a container; true when it was for this stream. */
    bool (*message)(struct podio_stream *stream, const char *text, int fd);
};

struct podio_stream {
    const struct stream_ops *ops;
    struct agent *agent;
    struct pod *pod;           /* NULL once it is gone */
    struct podio_stream *next; /* of the same pod */
    struct podio_reader reader;
    enum stream_sort sort;
    struct podio_stream *older; /* of its sort */
    char ns[64];                /* whose it is; empty: it has no place (any more) */
    int64_t stalled_ms;         /* since when its reader cannot keep up; 0: it does */
};

/* A place among those of its sort, if need be another's. False: there is none, and err says so. */
bool stream_enter(struct podio_stream *stream,
                  enum stream_sort sort,
                  struct str ns,
                  struct err *err);
void stream_leave(struct podio_stream *stream);

void stream_link(struct podio_stream *stream, struct pod *pod);
void stream_unlink(struct podio_stream *stream);

/* For pod_end.c and pod_run.c. */
void streams_container_ended(struct pod *pod, const struct run_container *container);
void streams_message(struct pod *pod, const char *text, int fd);
void streams_end_pod(struct pod *pod);
