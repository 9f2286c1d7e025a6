#pragma once

#include "base/str.h"
#include "workspace/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* door: whom the sync service lets in.
 *
 * Code, logs and restarts (/v1/...) need the job's secret: its pods have it in
 * their environment, people read it from the API with their own rights and send it in DOOR_HEADER.
 *
 * The rendezvous (etcd's keys, the c10d store) is for the job's own pods. Their clients are
 * PyTorch's and cannot send a secret, so the other end of the connection decides:
 *  - it has an address of this very network (pods on the host's network, containers of this pod):
 *    the process that holds it must be of our user, of root, or of the user that the job's pods run
 *    as. The kernel says whose it is (NETLINK_SOCK_DIAG). A socket that nobody holds any more is
 *    nobody's.
 *  - else its address must be one of the job's pods: one that pulls with the secret just now, or
 *    one that the job's headless Service names. Names may come late: until then it waits.
 *
 * Without a job (a store that people run themselves) the keys are for everybody and the rest is for
 * nobody. Thread-safe: the c10d store has a thread of its own. */
#define DOOR_HEADER   "Muster-Job-Secret"
#define DOOR_WAIT_MS  60000 /* a name server may hold on to an old answer for half a minute */
#define DOOR_RETRY_MS 200   /* how often to ask again about whom has to wait */
/* Addresses of a Service are believed for so long: pods come and go, and addresses are used again.
 */
#define DOOR_FRESH_MS      10000
#define DOOR_ADDRESSES_MAX 4096 /* JOB_PODS_MAX */

struct door;

struct door_options {
    const char *job;    /* namespace/name; NULL or empty: no job */
    const char *secret; /* NULL or empty: none, and nothing is served for it */
    int64_t peer_uid;   /* the user of the job's pods where they name one; -1: they do not */
};

enum door_answer {
    DOOR_OPEN,
    DOOR_WAIT, /* not known yet: ask again, for DOOR_WAIT_MS at most */
    DOOR_SHUT, /* err says why */
};

struct door *door_new(const struct door_options *options);
void door_free(struct door *door);
bool door_has_job(const struct door *door);

/* 0, or -EACCES and what to do. */
int door_secret(const struct door *door, struct str given, struct err *err);
/* May the other end of this connection use the rendezvous? */
enum door_answer door_peer(struct door *door, int fd, int64_t now_ms, struct err *err);
/* Words for one that has waited long enough. */
void door_unknown(const struct door *door, int fd, struct err *err);

/* A pod that showed the secret is connected, and no longer is. */
void door_enter(struct door *door, struct address address);
void door_leave(struct door *door, struct address address);
struct address door_address(int fd);

/* Parts, for the tests: what the Service's name leads to; whether an address may enter. */
void door_learn(struct door *door, const struct address *addresses, size_t count, int64_t now_ms);
enum door_answer door_knows(struct door *door, struct address address, int64_t now_ms);
