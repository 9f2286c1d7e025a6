#pragma once

#include "base/str.h"
#include "control/cluster/sharing.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct cache;
struct err;
struct log;
struct object;

/* reservations: shared GPUs on a cluster, carried out (control/cluster/sharing.h says what they
 * are, control/cluster/reservation.h decides).
 *
 * Before pods with shares are bound, reservations_prepare() sees to it that each of their groups
 * has a reservation pod that has reported its device, and writes the pods' ConfigMaps and labels.
 * Afterwards it watches: a reservation pod whose last user is gone is deleted, users whose
 * reservation pod is gone are. What it knows it learns from pods alone, so a new leader knows it
 * too.
 *
 * The scheduler's core counts users, not reservation pods; one without users counts until it is
 * gone. So reservation pods reach the core through here. */
struct reservations;

struct reservations_options {
    struct api *api;
    const struct cache *cache; /* pods */
    struct sched *core;
    struct sharing_settings settings; /* strings must outlive it */
    int64_t timeout_ms;               /* 0: SHARING_TIMEOUT_MS */
    int64_t (*now)(void *user);
    void (*again)(void *user); /* wants a turn soon */
    void *user;
    const struct log *log;
    uint64_t seed;
};

struct reservations *reservations_new(const struct reservations_options *options);
/* What is being prepared fails with -ECANCELED. NULL is fine. */
void reservations_free(struct reservations *reservations);

/* It is a reservation pod: the core is told about it here, not by the caller. */
bool reservations_has(const struct reservations *reservations, const struct object *pod);
/* Every pod, after the core has seen it. */
void reservations_observe(struct reservations *reservations,
                          enum sched_change change,
                          const struct object *pod);
/* Releases and removes; call once everything that exists is known. Returns when it wants the next
 * turn; INT64_MAX for never. */
int64_t reservations_turn(struct reservations *reservations, int64_t now_ms);

struct reservations_pod {
    struct sched_pod_ref pod;
    struct str node;
    const struct str *groups; /* none: nothing to prepare for this one */
    size_t group_count;
    int64_t fraction_micro;
    int64_t memory_mib;
    bool movable; /* see sharing_portion */
};
typedef void reservations_done_fn(void *user, int code, const struct err *err);
/* `done` comes once, maybe at once. After success the pods must be bound, and
 * reservations_bound() told what came of it. */
void reservations_prepare(struct reservations *reservations,
                          const struct reservations_pod *pods,
                          size_t count,
                          reservations_done_fn *done,
                          void *user);
/* `undone` (NULL: none): which of them were bound and are on their way out again; their devices are held until
 * they are gone. */
void reservations_bound(struct reservations *reservations,
                        const struct sched_pod_ref *pods,
                        size_t count,
                        int code,
                        const bool *undone);
