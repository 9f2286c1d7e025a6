#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct tls_client;

/* tls_client: our end of a TLS connection to whoever answers on a non-blocking socket that somebody
 * else polls. */
struct tls_client_options {
    /* The name that the other's certificate must be for; NULL: no certificate is looked at, as of
     * Kubernetes' proxy to pods, where it says who is meant and not that it is him. */
    const char *server_name;
    bool insecure; /* the name is told to the other, and his certificate not looked at */
    struct str ca; /* PEM of who must have signed it; empty: those that the system trusts */
    struct str certificate; /* PEM of our own, with its key; empty: we have none */
    struct str key;
};
/* The options are not used later. */
int tls_client_new(int fd,
                   const struct tls_client_options *options,
                   struct tls_client **ret,
                   struct err *err);
void tls_client_free(struct tls_client *client); /* NULL is fine; the socket stays open */

/* 0: both ends know each other. -EAGAIN: it goes on when the socket can be read, or written
 * (tls_client_writes()). -EPROTO: err says why not. */
int tls_client_shake(struct tls_client *client, struct err *err);
bool tls_client_writes(const struct tls_client *client);

/* As send() and recv(), with -errno; only behind the shaking of hands. What was not sent at once
 * (-EAGAIN) must be sent again as it was, or with more behind it. */
ssize_t tls_client_send(struct tls_client *client, const char *bytes, size_t size);
ssize_t tls_client_recv(struct tls_client *client, char *bytes, size_t size);
/* It has bytes that the socket has no more. */
bool tls_client_pending(const struct tls_client *client);
