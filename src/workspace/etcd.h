#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* etcd: the keys API of etcd's second version, as much of it as a rendezvous needs.
 *
 * torchrun's etcd-v2 backend wants a server with the v2 API, which etcd itself no longer has. The
 * sync pod is the right place for one: it sits on no GPU and outlives the workers. Keys, folders,
 * time to live, compare-and-swap, in-order keys, recursive reads, waiting from an index with a
 * history of ETCD_HISTORY_MAX events. Everything is in memory and ends with the job.
 *
 * Free of I/O: the caller hands in the time and keeps connections that wait. */
#define ETCD_NODES_MAX   20000
#define ETCD_VALUE_MAX   ((size_t)1 << 20)
#define ETCD_BYTES_MAX   ((size_t)64 << 20) /* of all values */
#define ETCD_HISTORY_MAX 1000
#define ETCD_PATH_MAX    1024
#define ETCD_DEPTH_MAX   32
#define ETCD_TTL_S_MAX   INT64_C(3153600000) /* a hundred years: its milliseconds fit with room */

struct etcd_node {
    struct str path; /* "/a/b"; owned */
    struct str value;
    bool folder;
    bool hidden; /* a part begins with "_": not listed */
    uint64_t created;
    uint64_t modified;
    int64_t expires_ms; /* 0: never */
};

struct etcd_event {
    uint64_t index;
    char *path;
    char *json; /* {"action":...,"node":...,"prevNode":...} */
};

struct etcd {
    struct etcd_nodes VEC_FIELDS(struct etcd_node *) nodes; /* sorted by path; [0] is "/" */
    struct etcd_event history[ETCD_HISTORY_MAX];            /* a ring */
    uint64_t event_count;
    uint64_t index;
    size_t bytes;
};

struct etcd_request {
    struct str method;
    struct str path;  /* behind /v2/keys, percent-decoded: "/a/b" or "" */
    struct str query; /* parameters of the URL */
    struct str form;  /* body of PUT and POST: the same, x-www-form-urlencoded */
};

struct etcd_reply {
    int status; /* 0: wait; try etcd_wait() after the next change */
    struct buf body;
    uint64_t index; /* X-Etcd-Index */
};

struct etcd_wait {
    char path[ETCD_PATH_MAX];
    uint64_t from; /* the first index that counts */
    bool recursive;
};

void etcd_open(struct etcd *etcd);
void etcd_done(struct etcd *etcd);
/* `reply` is zeroed by the caller and its body released by it. */
void etcd_handle(struct etcd *etcd,
                 const struct etcd_request *request,
                 int64_t now_ms,
                 struct etcd_reply *reply,
                 struct etcd_wait *ret_wait);
/* True and the answer when what it waits for has happened. */
bool etcd_wait(struct etcd *etcd, const struct etcd_wait *wait, struct etcd_reply *reply);
/* Drop what has run out; 0 or the time when the next key does. */
int64_t etcd_expire(struct etcd *etcd, int64_t now_ms);
