#pragma once

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/place.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct node;
struct pod;
struct sched;

/* A provisioner that could not make a volume for a node is not asked for that node from here on,
 * twice as long each time: others are tried before. */
#define VOLUME_REFUSED_MIN_MS 30000
#define VOLUME_REFUSED_MAX_MS 960000

/* volume: where pods can go because of the PersistentVolumeClaims that they mount.
 *
 * What a claim means to its pods is one of four things (enum volume_kind). It is part of their shape,
 * so pods whose claims do not matter are as alike as those without any, and are placed as fast; when
 * it changes they get another shape (volume_settle()).
 *
 * A claim that waits for its first consumer is open: the node that is chosen for a pod decides which
 * volume it becomes. `pick` is the volume of those that are there, while somebody holds room with the
 * claim; where there is none, its provisioner makes one for `node`. */
enum volume_kind {
    VOLUME_FREE,    /* it can be used from every node */
    VOLUME_FIXED,   /* from some: its volume says so */
    VOLUME_OPEN,    /* who else runs where matters as well: volumes_fit() */
    VOLUME_BLOCKED, /* from none yet; see `trouble` */
};

/* Why a claim cannot be used: X(NAME, words behind "PersistentVolumeClaim NAME"). */
#define VOLUME_TROUBLES(X)                                                              \
    X(NONE, "")                                                                         \
    X(MISSING, "does not exist")                                                        \
    X(DELETED, "is being deleted")                                                      \
    X(LOST, "is bound to a PersistentVolume that does not exist")                       \
    X(NO_CLASS, "names a StorageClass that does not exist")                             \
    X(UNBOUND, "is not bound to a volume yet; its class binds at once, so look at the " \
               "claim's events for what its provisioner says")                          \
    X(UNNAMED, "is not bound to a volume yet; it has no StorageClass, so it needs a "   \
               "PersistentVolume that fits")                                            \
    X(BINDING, "is not bound yet to the PersistentVolume that it names")                \
    X(FOREIGN, "was not made for it; delete that claim, or give the pod another name")

enum volume_trouble {
#define VOLUME_TROUBLE_ENUM(name, words) VOLUME_TROUBLE_##name,
    VOLUME_TROUBLES(VOLUME_TROUBLE_ENUM)
#undef VOLUME_TROUBLE_ENUM
};

/* A PersistentVolume. */
struct disk {
    struct sched_volume spec;
    void *block;
    uint32_t takers; /* claims that are to have it and are not bound yet */
    uint64_t tried;  /* storage->stamp of the search that took it */
    bool zoned;      /* labels say from which zones it is used */
};

/* A node for which its provisioner could not make a volume. */
struct volume_refusal {
    struct str node; /* heap */
    int64_t until_ms;
};

/* A PersistentVolumeClaim. One that is only named by pods has known == false. */
struct volume {
    struct str key; /* ns/name, heap */
    struct sched_volume_claim spec;
    void *block;
    bool known;
    enum volume_kind kind;
    enum volume_trouble trouble;
    const struct disk *disk; /* that it is bound to */
    struct disk *pick;       /* that it is to be, while `holders` */
    struct node *node;       /* of the first of them */
    uint32_t holders;        /* pods that hold room with it */
    uint32_t shapes;         /* that name it */
    uint64_t seen;           /* storage->stamp of who counted it */
    uint64_t asked;          /* of who looked for its volume */
    uint64_t made;           /* of whom it is to be made for */
    uint8_t refused;         /* times */
    VEC(struct volume_refusal) refusals;
    VEC(struct pod *) users;
};

/* The claims of a pod. */
struct pod_volumes {
    uint32_t count;
    uint32_t own; /* the first ones are made for it */
    struct volume *items[];
};

struct storage_class {
    struct sched_storage_class spec;
    void *block;
};

struct storage_limits {
    struct sched_volume_limits spec;
    void *block;
};

struct storage_room {
    struct sched_storage_room spec;
    void *block;
};

struct storage {
    struct map volumes; /* by ns/name */
    struct map disks;   /* PersistentVolumes by name */
    struct map classes;
    struct map limits;           /* by node */
    struct map rooms;            /* CSIStorageCapacities by ns/name */
    struct map drivers;          /* that say how much room they have */
    VEC(struct str) limited;     /* drivers that some node has a limit for */
    VEC(struct volume *) making; /* claims that hold room, and whose volume is to be made */
    uint64_t stamp;
    bool dirty; /* what claims mean has to be looked at again */
};

struct storage *storage_new(void);
void storage_free(struct storage *storage); /* NULL is fine; pods are gone */

/* NULL: there is none, and none is made. */
struct volume *volume_get(struct storage *storage, struct str ns, struct str name, bool make);
/* Its name in its namespace. */
struct str volume_name(const struct volume *volume);
/* Gone for good once nothing names it. */
void volume_release(struct storage *storage, struct volume *volume);
/* What it means now. */
enum volume_kind volume_meaning(const struct storage *storage,
                                const struct volume *volume,
                                const struct disk **ret_disk,
                                enum volume_trouble *ret);
/* Whether it was made for another pod than this one, or for none. */
bool volume_is_foreign(const struct volume *volume, struct str pod_uid);
/* Why it keeps this pod waiting, wherever there is room. */
enum volume_trouble pod_volume_trouble(const struct pod *pod, const struct volume *volume);
/* Its volume could not be made for the node, or that is no longer known of any. */
void volume_refused(struct volume *volume, struct str node, int64_t now_ms);
void volume_refusals_forget(struct volume *volume);
/* Why the pod waits for it, as a sentence. */
struct str volume_waits_text(struct arena *arena,
                             const struct pod *pod,
                             const struct volume *volume);
/* Which claims keep the pod from nodes: "; it mounts PersistentVolumeClaim a, b". */
struct str volume_names_text(struct arena *arena, const struct pod *pod);

/* Never NULL. */
const struct pod_volumes *pod_volumes(const struct pod *pod);
/* Pods hold room with their claims on the node (1), or no longer (-1). */
void volumes_weigh(struct sched *sched, const struct pod *pod, struct node *node, int sign);
/* Whether a volume that is FIXED, or BLOCKED, can be used from the node. */
bool volume_reaches(const struct volume *volume, const struct node *node);
/* Whether all the claims of a pod can be used from the node, beside those of others. */
enum fit volumes_fit(struct sched *sched, const struct pod *pod, const struct node *node);
/* Whether labels of a PersistentVolume say from which zones it is used. */
bool disk_is_zoned(const struct sched_volume *spec);
/* Whether it has to be bound before its pods are. */
bool volume_is_unbound(const struct volume *volume);
