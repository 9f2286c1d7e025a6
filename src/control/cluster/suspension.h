#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;
struct object;

/* suspension: pods with a share of a GPU that give it up and stay (api/suspend.h), on a cluster whose
 * kubelets are not ours. There is no agent: the operator has muster-launch run inside the container
 * (pods/exec), which asks our library there to move the memory (mover/container.h).
 *
 * All state is on the pod, so that another operator goes on from any step:
 *
 *     annotation  condition Suspended         what follows
 *     there       absent, or False            OUT; Suspending is said first
 *     there       False, SuspendFailed        nothing, or EVICT where it was to give way
 *     there       True, Checkpointed          nothing
 *     there       True, Resuming              OUT: what was under way is undone
 *     gone        True                        IN; Resuming is said first
 *     gone        False, Suspending           IN: what was under way is undone
 *     gone        False, SuspendFailed        SETTLE: it says that it runs
 *
 * Both ways may be repeated. A container that was started anew while its pod was suspended uses a
 * share that is not its own: that pod is evicted. */
#define SUSPENSION_TRIES_OUT \
    3 /* where the container is not reached and others wait for its share */
#define SUSPENSION_TRIES_IN 60   /* where it is not reached and nothing is lost yet */
#define SUSPENSION_RETRY_MS 5000 /* between them */

enum suspension_step {
    SUSPENSION_NONE,
    SUSPENSION_OUT,
    SUSPENSION_IN,
    SUSPENSION_SETTLE, /* only its condition is written anew */
    SUSPENSION_REFUSE, /* it was not prepared: `why` */
    SUSPENSION_EVICT,  /* `why` */
};

struct suspension {
    enum suspension_step step;
    struct str container; /* that has the share */
    struct str started;   /* when it was, as its status says */
    struct str why;
};
struct suspension suspension_decide(const struct object *pod, struct arena *arena);

/* Whether a pod that is about to be bound gets what it needs to be suspended: with one device, the
 * library put in at admission, and work that may be suspended (`may`), or by its annotation. */
bool suspension_prepares(const struct object *pod, bool may);
/* Whether it had that with its bind. */
bool suspension_prepared(const struct object *pod);

/* What came of a command in the container. */
struct suspension_end {
    bool out;
    bool reached;     /* false: whether it ran is not known */
    int status;       /* its exit status */
    struct str words; /* of standard error, or why it was not reached */
    int64_t mib;      /* in host memory, where `out` worked */
    int tries;        /* this one included */
};

/* What is done about it. */
enum suspension_after {
    SUSPENSION_SAY,   /* the condition alone */
    SUSPENSION_AGAIN, /* after SUSPENSION_RETRY_MS */
    SUSPENSION_LOSE,  /* evict it */
};
/* `wish`: the pod's annotation now. */
enum suspension_after suspension_after(const struct suspension_end *end, struct str wish);

/* The status with the condition, for a patch. */
struct json *suspension_status(struct arena *arena,
                               const char *status,
                               const char *reason,
                               struct str message,
                               int64_t now_ms);
/* The message of one that is suspended, or about to go on. */
struct str suspension_words(struct arena *arena, const struct suspension *of, int64_t mib);
