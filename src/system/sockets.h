#pragma once

/* As socket(), and no program that is started inherits it. */
int socket_open(int family, int type, int protocol);
/* As accept(), the same; calls on it do not wait. */
int socket_accept(int fd);

/* How soon a peer that is gone is noticed on a TCP connection. */
struct socket_patience {
    unsigned int unanswered_ms; /* what was sent and is not acknowledged */
    int idle_s;                 /* before, and between, probes of a quiet connection */
    int probes;
};

/* Best effort: without it a dead peer is noticed later, by a time-out. */
void socket_be_patient(int fd, const struct socket_patience *patience);
