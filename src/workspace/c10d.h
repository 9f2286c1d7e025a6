#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "workspace/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct door;
struct err;

/* c10d: the key-value store that torchrun's c10d rendezvous talks to (PyTorch's TCPStore), served
 * by the sync pod, so that no worker's end ends the rendezvous of the others.
 *
 * The protocol is PyTorch's own and not versioned: a request is one byte of type and its arguments,
 * in the byte order of the machine; texts and values are a 64-bit length and bytes. Clients
 * from 2.1 on begin with a greeting and count the types from there; older ones begin with a
 * request. Types that a rendezvous does not use end the connection.
 *
 * A connection asks one thing at a time. One that waits for keys is answered when they are all
 * there. Free of I/O but for c10d_start(). */
#define C10D_VALUE_MAX ((uint64_t)16 << 20)
#define C10D_BYTES_MAX ((uint64_t)256 << 20) /* of all values */
#define C10D_KEYS_MAX  100000
#define C10D_ARGS_MAX  10000 /* keys of one request */
#define C10D_CONNS_MAX 4096
/* Of these so many wait to be let in, at most: whoever is in has the others. */
#define C10D_WAITING_MAX (C10D_CONNS_MAX / 2)
/* And so many of one address. A pod has a connection a rank, and a few of its agent; a stranger who
 * says nothing takes 32 addresses to keep others waiting. */
#define C10D_WAITING_OF_ONE_MAX 64

struct c10d {
    struct map keys; /* key -> struct c10d_value */
    uint64_t bytes;
};

struct c10d_conn {
    struct c10d *store;
    bool greeted; /* it spoke at least once */
    bool recent;  /* with a greeting: the types of 2.1 and later */
    struct buf in;
    struct buf out;
    VEC(char *) awaited; /* keys, NUL-terminated after their length; empty: it does not wait */
};

void c10d_done(struct c10d *store);
/* Take what arrived and answer into conn->out. -EPROTO: it is no such client, or asks for what is
 * not served: close it. */
int c10d_input(struct c10d_conn *conn, struct str bytes);
/* Answer a connection that waits, if it can be now. */
void c10d_wake(struct c10d_conn *conn);
void c10d_conn_done(struct c10d_conn *conn);

/* One that is not let in yet. */
struct c10d_waiting {
    struct address address;
    int64_t until_ms;
};
/* Who of them gives way to another from `address`; SIZE_MAX: nobody has to. It is the one that has
 * waited longest, of that address where it has as many as it may. */
size_t c10d_gives_way(const struct c10d_waiting *waiting, size_t count, struct address address);

struct c10d_options {
    const char *address; /* NULL: all */
    uint16_t port;
    struct door *door;                          /* whom to serve; lives as long as the process */
    void (*note)(void *user, const char *text); /* of a refusal, from the store's thread */
    void *user;
};

/* Serve a store in a thread of its own, to the end of the process. */
int c10d_start(const struct c10d_options *options, struct err *err);
