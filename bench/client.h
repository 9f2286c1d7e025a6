#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* client: just enough HTTP to load a server: blocking sockets, plain or TLS, keep-alive. Anything
 * unexpected ends the program: a measurement with failures in it is none. */
struct client {
    int fd;
    gnutls_session_t tls; /* NULL: plain */
    struct buf in;
    double sent_s;
};

void client_open(struct client *client, uint16_t port, bool tls);
void client_close(struct client *client);
void client_send(struct client *client, struct str bytes);
/* Reads one answer, with a length or in chunks; returns its status. The body is dropped. */
int client_answer(struct client *client, size_t *ret_body_bytes);
/* Reads some bytes into client->in. */
void client_fill(struct client *client);
