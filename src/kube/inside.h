#pragma once

#include "base/str.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct kube_config;
struct uv_loop_s;

/* inside: run a command in a container, as kubectl exec does, for machines that have no kubectl.
 *
 * One connection of its own, upgraded to a WebSocket; the channels of v5.channel.k8s.io, or of v4,
 * which cannot tell that standard input has ended. The call waits for the end of the command. */
struct inside_request {
    const char *ns;
    const char *pod;
    const char *container;
    const char *const *command;
    size_t command_count;
    int input_fd; /* -1: no standard input */
    bool tty;     /* input_fd is a terminal, in raw mode; its size is told */
    /* What the command writes: 1 is standard output, 2 standard error. False: no more is wanted,
     * and the call ends with -ECANCELED. */
    bool (*output)(void *user, int fd, struct str bytes);
    void *user;
    const volatile sig_atomic_t *stop; /* set by a signal: the call ends with -EINTR; or NULL */
};

/* The exit status of the command, or -errno: it was not run, or its connection was lost. */
int inside_run(struct uv_loop_s *loop,
               const struct kube_config *config,
               const struct inside_request *request,
               struct err *err);

/* ---- for tests ---- */

/* What the error channel says at the end: the exit status, or -errno. */
int inside_status(struct arena *arena, struct str text, struct err *err);
