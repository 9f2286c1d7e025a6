#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* podio: the bytes of running pods (logs, exec, ports), which the API server hands through and the
 * node agent provides. Wired together in src/cmd, so that neither shell knows the other. On a
 * cluster the kubelets do this and nobody calls it. */
struct podio;
struct podio_stream; /* one log, exec or port stream; the agent's to define */

struct podio_log_request {
    struct str ns;
    struct str pod;
    struct str container; /* empty: the only one */
    /* Of which of a job's pods of that name, by its label torchrun.ai/generation; empty: of the one
     * that is there, or that was last. */
    struct str generation;
    bool follow;   /* until the container ends */
    bool previous; /* of the last instance that ended */
    bool timestamps;
    int64_t tail_lines;  /* -1: all */
    int64_t since_ms;    /* 0: from the beginning */
    int64_t limit_bytes; /* -1: all */
};

/* What a job wrote into one of its folders, also when its containers have ended: frames of
 * workspace/results.h. */
struct podio_results_request {
    struct str ns;
    struct str pod;
    struct str container; /* empty: the first */
    struct str folder;    /* as the container sees it; in a volume of the pod's own */
    struct str path;      /* below it; empty: all */
    /* Of an earlier generation of the job with this uid; empty: of the pod that is there. */
    struct str generation;
    struct str job_uid;
    bool list;
    bool
        curves; /* instead: the scalars of its TensorBoard event files, as workspace/curves.h says */
};

/* What the processes of a pod are doing now: the document of stacks/pod.h. */
struct podio_stacks_request {
    struct str ns;
    struct str pod;
    struct str container; /* empty: all */
};

struct podio_exec_request {
    struct str ns;
    struct str pod;
    struct str container;
    const struct str *command; /* argv; attach: none */
    size_t command_count;
    bool attach;
    bool tty;
    bool stdin_open;
};

/* What the stream tells its reader, from the loop. `data` takes all it is given; a reader that
 * cannot keep up calls ops->pause(). `full` is the same the other way: the process reads its stdin
 * too slowly (true), or there is room again (false); what is written meanwhile is kept all the
 * same, so a reader that does not listen can fill the memory. `end` comes exactly once and last:
 * err NULL and the exit code (exec), or why the stream failed. No call comes after ops->close(). */
struct podio_reader {
    void (*data)(void *user, int channel, struct str bytes); /* 1 stdout (and logs), 2 stderr */
    void (*full)(void *user, bool full);                     /* NULL: writes no stdin */
    void (*end)(void *user, int exit_code, const struct err *err);
    void *user;
};

/* What a container uses, or a node: then `pod` is empty. */
struct podio_usage {
    struct str node;
    struct str ns;
    struct str pod;
    struct str container;
    int64_t at_ms;
    int64_t window_ms; /* cpu_nano is the mean of so long */
    int64_t cpu_nano;  /* billionths of a cpu */
    int64_t memory_bytes;
};
typedef void podio_usage_fn(void *user, const struct podio_usage *usage);

struct podio_ops {
    struct podio_stream *(*logs)(struct podio *podio,
                                 const struct podio_log_request *request,
                                 const struct podio_reader *reader);
    struct podio_stream *(*exec)(struct podio *podio,
                                 const struct podio_exec_request *request,
                                 const struct podio_reader *reader);
    struct podio_stream *(*results)(struct podio *podio,
                                    const struct podio_results_request *request,
                                    const struct podio_reader *reader);
    struct podio_stream *(*stacks)(struct podio *podio,
                                   const struct podio_stacks_request *request,
                                   const struct podio_reader *reader);
    /* To the process: stdin bytes (an empty str closes stdin), terminal size. */
    void (*write)(struct podio_stream *stream, struct str bytes);
    void (*resize)(struct podio_stream *stream, uint16_t columns, uint16_t rows);
    void (*pause)(struct podio_stream *stream, bool paused);
    void (*close)(struct podio_stream *stream);
    /* A non-blocking socket to a port inside the pod, connected or about to be, or -errno with
     * words. */
    int (*dial)(struct podio *podio, struct str ns, struct str pod, uint16_t port, struct err *err);
    /* Every node and every container that runs, from inside this call. */
    void (*usage)(struct podio *podio, podio_usage_fn *fn, void *user);
};

/* A provider embeds this as its first member. */
struct podio {
    const struct podio_ops *ops;
};
