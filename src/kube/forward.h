#pragma once

#include <signal.h>
#include <stdint.h>

struct err;
struct kube_config;
struct uv_loop_s;

/* forward: connections to a port of this machine go on to a port of a pod, through the API server.
 *
 * Each has a WebSocket of its own with two channels, the bytes and the words of a failure: what
 * every kubelet has understood for years and the API server hands on as it is, so nothing has to be
 * multiplexed. Only the end of one direction cannot be told: a client that will send no more is
 * left until the pod has said nothing for a moment. */
struct forward_request {
    const char *ns;
    const char *pod;
    int port;     /* of the pod */
    int listener; /* listens on this machine */
    /* What went wrong with a connection; the next one may do better. */
    void (*say)(void *user, const char *words);
    void *user;
    const volatile sig_atomic_t *stop; /* set by a signal: the call ends with -EINTR; or NULL */
};

/* One connection that is given up again: 0, or why there will be none: the server refuses it, or
 * nothing in the pod listens. */
int forward_try(struct uv_loop_s *loop,
                const struct kube_config *config,
                const struct forward_request *request,
                struct err *err);
/* Until the server refuses one, for instance because the pod has ended; that it is busy (429, 5xx)
 * ends one connection only. */
int forward_run(struct uv_loop_s *loop,
                const struct kube_config *config,
                const struct forward_request *request,
                struct err *err);
