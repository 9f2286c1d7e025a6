#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;
struct object;

/* sharing: shared GPUs on a cluster, where a device plugin hands out whole devices only.
 *
 * A device that is shared is held by a reservation pod of ours, which asks for one whole device on
 * that node and writes down which one it got. Its users ask for none; they learn the device from
 * ConfigMaps that admission made them read (api/share.h). Everything is kept in objects, so that it
 * is known again after a restart:
 *
 *     group            names a shared device on a node; a label of the reservation pod and of users
 *     reservation pod  gpu-reservation-<node>-<group>, exactly one for a group
 *     users            pods on the node with the group's label that have not ended
 *
 * A reservation pod is there before the first user is bound, and goes after the last one. A user
 * whose reservation pod is gone may use a device that another pod has by now, and is removed.
 * Names are KAI Scheduler's. This file has the objects; reservation.h decides, as a state machine.
 */
#define SHARING_NAMESPACE  "kai-resource-reservation"
#define SHARING_APP        "kai-resource-reservation"
#define SHARING_COMMAND    "reserve-gpu" /* of muster: what a reservation pod runs */
#define SHARING_TIMEOUT_MS 40000         /* for a reservation pod to tell its device */

struct sharing_settings {
    struct str ns;              /* of reservation pods */
    struct str image;           /* this program's */
    struct str service_account; /* that may patch them */
    struct str runtime_class;   /* empty: none */
};

/* ---- objects ---- */

struct str sharing_reservation_name(struct arena *arena, struct str node, struct str group);
struct json *sharing_reservation(struct arena *arena,
                                 const struct sharing_settings *settings,
                                 struct str node,
                                 struct str group);
bool sharing_is_reservation(const struct sharing_settings *settings, const struct object *pod);

/* What one user is told. */
struct sharing_portion {
    int64_t fraction_micro; /* of each device */
    int64_t memory_mib;     /* of each device; 0: not known */
    struct str devices;     /* UUIDs with commas between */
    bool movable;           /* our library is to move its memory when it is suspended */
};
/* The pod's ConfigMaps, owned by it; `ret[1]` is the one that is taken whole. False: the pod was
 * not prepared at admission. */
bool sharing_configs(struct arena *arena,
                     const struct object *pod,
                     const struct sharing_portion *portion,
                     struct json *ret[static 2]);
/* A merge patch that gives the pod the labels of these groups and takes others away; NULL: it has
 * them. */
struct json *sharing_labels(struct arena *arena,
                            const struct object *pod,
                            const struct str *groups,
                            size_t count);
/* The groups that the pod's labels name, in `arena`. */
const struct str *sharing_groups(struct arena *arena, const struct object *pod, size_t *ret_count);

/* Asks for a share of a device. */
bool sharing_has_share(const struct object *pod);
