#pragma once

#include "base/str.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct arena;
struct cache;
struct err;
struct sched_bind;

/* volumes_write: PersistentVolumeClaims that wait for their first consumer are bound before their pods
 * are. A claim whose class has a provisioner is told the node (an annotation), one without is given a
 * volume (claimRef of the PersistentVolume); then it takes until the cluster's controllers have bound
 * all of them. Nothing is taken back when that fails: a claim that was told a node, or given a volume,
 * stays with it, as with Kubernetes' own scheduler, and the next plan goes by it. */
struct volumes_write;

/* A provisioner has so long, as in kube-scheduler. */
#define VOLUMES_WAIT_MS 600000

struct volumes_options {
    struct api *api;
    const struct cache *cache; /* claims and volumes */
    /* What the core knows of them, by what it observed. */
    enum sched_volumes (*state)(void *user,
                                const struct sched_pod_ref *pod,
                                struct str node,
                                struct str *ret_claim);
    void *state_user;
    /* The end: all are bound (0), or they will not be. */
    void (*done)(void *user, int code, const struct err *err);
    /* All is written: from now on it is polled. */
    void (*parked)(void *user);
    /* The pod waits for the claim now, its own or, when it has none that is not bound, one of its
     * gang's. */
    void (*waits)(void *user,
                  const struct sched_pod_ref *pod,
                  struct str node,
                  struct str claim,
                  int64_t now_ms);
    void *user;
};

/* What the binds (of one gang) need; NULL: nothing. Lives on the arena. */
struct volumes_write *volumes_write_new(struct arena *arena,
                                        const struct sched_bind *binds,
                                        size_t count,
                                        int64_t now_ms);
void volumes_write_send(struct volumes_write *write, const struct volumes_options *options);
/* Something changed, or time has passed. When to come back; INT64_MAX: it has ended, and `write` may
 * be gone, or waits for an answer. */
int64_t volumes_write_poll(struct volumes_write *write, int64_t now_ms);
/* Neither the API nor the cache may be used any more: `done` hears -ECANCELED, now or with the answer
 * to what is under way. */
void volumes_write_stop(struct volumes_write *write);
