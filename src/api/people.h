#pragma once

#include "base/account.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;
struct object;

/* people: who a namespace belongs to, on a machine of several people. `muster user add` writes it
 * down as annotations of her namespace, which she may not write herself; whatever runs there runs as
 * her, whoever made it. A namespace without them is the owner's. Pure. */
#define PERSON_NAME   "torchrun.ai/person"
#define PERSON_UID    "torchrun.ai/person-uid"
#define PERSON_GID    "torchrun.ai/person-gid"
#define PERSON_GROUPS "torchrun.ai/person-groups" /* "1001,27" */
#define PERSON_HOME   "torchrun.ai/person-home"
#define PERSON_PATHS  "torchrun.ai/person-paths" /* "/data,/scratch": hostPaths besides her home */
#define PERSON_PORTS  "torchrun.ai/person-ports" /* "8000-8010,9000": hostPorts; empty: none */
#define PERSON_QUEUE  "torchrun.ai/person-queue"
#define PERSON_TIME   "torchrun.ai/person-time"  /* "8h": no job of hers runs longer */
#define PERSON_UNTIL  "torchrun.ai/person-until" /* when the newest credentials end */

/* On jobs: who made it, which the server writes and nobody changes. */
#define PERSON_SUBMITTED "muster.dev/submitted-by"

/* Condition of a node whose pods have networks of their own, without which nobody's but the owner's
 * pods are run. */
#define NETWORK_CONDITION "NetworkIsolated"

#define PERSON_QUEUE_LABEL "kai.scheduler/queue"

#define PEOPLE_NAMESPACE  ACCOUNT_PEOPLE /* of their ServiceAccounts */
#define PERSON_GROUPS_MAX 64
#define PERSON_PATHS_MAX  16
#define PERSON_PORTS_MAX  16

struct person_ports {
    struct person_range {
        int64_t first;
        int64_t last;
    } ranges[PERSON_PORTS_MAX];
    size_t count;
};

struct person {
    struct str name;
    int64_t uid;
    int64_t gid;
    int64_t groups[PERSON_GROUPS_MAX];
    size_t group_count;
    struct str home;                    /* empty: none */
    struct str paths[PERSON_PATHS_MAX]; /* her home and what else she may mount */
    size_t path_count;
    struct person_ports ports; /* of the machine */
    struct str queue;          /* empty: any */
};

/* False: the namespace is the owner's. Points into the object. A namespace whose annotations make no
 * sense is a person's who may do nothing: uid is -1. */
bool person_of(const struct object *ns, struct person *ret);
/* "8000-8010,9000". False: it is not that, or has ports that nobody but the owner may have
 * (api/host_ports.h). */
bool person_ports_parse(struct str text, struct person_ports *ret);
/* Is the path, or the folder above it that she may mount, hers? NULL: no. Without "..". */
const struct str *person_path(const struct person *person, struct str path);
/* What she has of the PATH of whoever started muster: not what lies in /root or in somebody else's home
 * below /home, which her pods cannot see. */
struct str person_search_path(struct arena *arena, const struct person *person, struct str path);
/* Why a pod of hers with this spec is refused; empty: it is not. */
struct str person_refuses_pod(struct arena *arena,
                              const struct person *person,
                              const struct json *spec);
/* Why an object of hers may not have these labels, or this queue; empty: it may. */
struct str person_refuses_queue(struct arena *arena,
                                const struct person *person,
                                const struct json *object);
