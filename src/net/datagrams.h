#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct datagrams;
struct uv_loop_s;

/* datagrams: a UDP port that is passed on.
 *
 * Every client (address and port) has a flow: a socket of its own, connected to the one that was
 * chosen for it, whose answers go back to the client. UDP has no end, so a flow ends when it was
 * silent for DATAGRAMS_SILENT_MS, when its other end refuses, or when a port with
 * DATAGRAMS_FLOWS_MAX of them needs room: then the most silent one goes. What cannot be sent at
 * once is dropped, as UDP may. */
#define DATAGRAMS_SILENT_MS 60000
/* Each is a descriptor of muster; one port must not have them all. */
#define DATAGRAMS_FLOWS_MAX 256

struct datagrams_options {
    struct uv_loop_s *loop;
    struct sockaddr_in at;
    /* Where a new client is passed on to; false: there is nobody, and the datagram is dropped. */
    bool (*choose)(void *user, uint32_t client, struct sockaddr_in *ret);
    void (*closed)(void *user); /* after datagrams_close(), from the loop */
    void *user;
};

/* 0 or libuv's error. */
int datagrams_listen(const struct datagrams_options *options, struct datagrams **ret);
void datagrams_close(struct datagrams *port);
