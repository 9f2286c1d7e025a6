#pragma once

#include <stdint.h>

struct arena;
struct json;

/* shell: a pod in a queue with a shell in it. */
struct shell_request {
    const char *name;
    const char *ns;
    const char *queue;     /* the scheduling queue */
    const char *scheduler; /* schedulerName */
    const char *image;
    const char *folder;   /* of this machine, the same in the pod and written through; NULL: none */
    const char *priority; /* NULL: none */
    int64_t gpus;
    int64_t limit_s; /* of its whole life; 0: none */
};

/* The pod: it ends by itself soon after the last shell in it has. No I/O. */
struct json *shell_pod(struct arena *arena, const struct shell_request *request);
