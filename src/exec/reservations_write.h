#pragma once

#include "control/cluster/sharing.h"
#include "sched/sched.h"

#include <stddef.h>

struct api;
struct cache;
struct err;

/* reservations_write: what is written for one pod before it is bound to its shared devices: its two
 * ConfigMaps and the labels of its groups. Part of reservations.c. */
struct member_write;

struct member_write_options {
    struct api *api;
    const struct cache *cache;
    struct sched_pod_ref pod; /* strings must outlive it */
    const struct str *groups;
    size_t group_count;
    struct sharing_portion portion;
    /* From the loop, once, with everything written or the first failure; it is freed behind it. */
    void (*done)(void *user, int code, const struct err *err);
    void *user;
};

/* NULL is never returned; done does not come from inside. */
struct member_write *member_write_start(const struct member_write_options *options);
/* Pods changed: a label that met an older version of the pod is tried again. NULL is fine. */
void member_write_again(struct member_write *write);
/* done is not called any more. NULL is fine. */
void member_write_forget(struct member_write *write);
