#pragma once

#include "agent/agent.h"
#include "agent/lifecycle.h"
#include "agent/link.h"
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct env_context;
struct json;
struct object;
struct podio_stream;
struct probe;
struct ranks;
struct suspend_call;
struct timer;
struct usage_samples;

/* pod: one pod, questions about it, and what every part of the agent may do to it: report an event,
 * and have it looked at. Its life is in agent/pod_run.h. */
#define POD_PATH_BYTES 512 /* data folder + /pods/<uid>; longer data folders are refused */

enum pod_stage {
    POD_NEW,     /* seen; perhaps waiting for something it refers to */
    POD_RUNNING, /* has a shim */
    POD_OVER,    /* ended for good, shim told to go */
    POD_GONE,    /* to be freed */
};

/* Where a pod stands that gives up its GPUs and stays: see agent/suspend.h. X(NAME, word on disk) */
#define SUSPEND_STAGES(X)                                                  \
    X(NONE, "none") /* it runs */                                          \
    X(OUT, "out")   /* what it has on GPUs is on its way to host memory */ \
    X(FREEZING, "freezing")                                                \
    X(FROZEN, "frozen")                                                    \
    X(IN, "in") /* it was woken, and gets its GPUs back */

enum suspend_stage {
#define SUSPEND_STAGE_ENUM(name, word) SUSPEND_STAGE_##name,
    SUSPEND_STAGES(SUSPEND_STAGE_ENUM)
#undef SUSPEND_STAGE_ENUM
};

struct pod_suspend {
    enum suspend_stage stage;
    int64_t changed_ms;  /* when its condition last changed; 0: it was never suspended */
    int64_t begun_ms;    /* it stands still since then; 0: it runs */
    int64_t freezing_ms; /* its processes are told to stand since then; 0: not yet */
    int64_t total_ms;    /* that it stood still before */
    int64_t moved_mib;   /* to host memory */
    bool moved;          /* its processes are off the GPU */
    bool refused;        /* it cannot be suspended: `why`; not tried again until it is asked anew */
    struct str why;
    struct suspend_call *call; /* the helper, while it works; NULL: it does not */
};

/* The next container of a pod that restarts in place, made beforehand: see agent/standby.h. */
struct pod_standby {
    bool making; /* its spec is being written */
    bool there;  /* the shim was told to start it, or runs it */
    bool failed; /* it ended before it was needed; none is made until the next round */
    size_t container;
    unsigned instance;
    int pid; /* 0: not known yet */
};

struct pod_token {
    struct str audience; /* empty: the API */
    struct str token;
};

struct pod {
    struct agent *agent;
    struct object *object; /* newest version */
    struct arena arena;    /* holds `root` and everything that points into it */
    struct json *root;     /* of the version the pod was started from */
    struct str ns;
    struct str name;
    struct str uid;
    struct str key; /* ns/name */
    uint32_t node;  /* index */
    char folder[POD_PATH_BYTES];
    char ip[48];
    uint32_t gpus[AGENT_GPUS_MAX];
    size_t gpu_count;
    enum pod_stage stage;
    struct run run;
    struct str waiting_reason; /* why nothing could be started yet */
    struct str waiting_message;
    struct str stop_reason; /* DeadlineExceeded, Evicted, ...: goes to status.reason */
    struct str stop_message;
    VEC(struct pod_token) tokens; /* of another API server, one an audience */
    bool token_under_way;
    int64_t started_ms;
    int64_t retry_ms; /* try again then */
    struct link link;
    struct run_shim shim;
    bool prepared; /* its containers have what they need of it (prepare.h) */
    bool awaited;  /* no link, but perhaps a shim: recover_shim() finds out */
    bool asked;    /* the shim has not said yet what there is */
    bool dirty;
    bool silent; /* ended before this muster started: its status is as it should be */
    bool status_under_way;
    bool delete_sent;
    bool deleted;      /* the object is gone from the API */
    char *status_sent; /* the last patch, on the heap: the same one is not sent again */
    uint64_t hosts_hash;
    int64_t ready_changed_ms;
    int64_t initialized_ms;
    bool was_ready;
    struct timer *timer;
    int handles_open;
    struct pod *next_dirty;
    struct podio_stream *streams; /* logs that follow, execs */
    struct probe *probes;
    struct pod_suspend suspend;
    struct pod_standby standby;
    struct usage_samples *usage; /* one a container; NULL: nobody has asked */
    size_t usage_count;
    struct ranks *ranks; /* NULL: it has none, as far as is known */
};

void pod_mark(struct pod *pod); /* look at it in the next turn */
void pod_event(struct pod *pod, bool warning, const char *reason, struct str message);

struct pod *pod_by_name(struct agent *agent, struct str ns, struct str name);
/* SIZE_MAX: there is none of that name. */
size_t pod_container_index(const struct pod *pod, struct str name);
/* The same; an empty name is the first main container. */
size_t pod_choose_container(const struct pod *pod, struct str name);
const struct json *pod_container_spec(const struct pod *pod, size_t index);
void pod_env_context(const struct pod *pod, struct env_context *ret);
