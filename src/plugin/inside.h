#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct session;

/* inside: a command in a container on this terminal, where there is no kubectl that could do it. */
struct inside_command {
    const char *pod;
    const char *container;
    const char *const *words;
    size_t count;
    bool input;                        /* with standard input */
    bool tty;                          /* which is a terminal */
    const volatile sig_atomic_t *stop; /* set by a signal: -EINTR; or NULL */
};
/* Its exit status, or -errno. */
int inside_become(struct session *session, const struct inside_command *command, struct err *err);
