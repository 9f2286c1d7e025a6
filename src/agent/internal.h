#pragma once

#include "agent/agent.h"
#include "agent/cgroup.h"
#include "agent/gpu.h"
#include "agent/lifecycle.h"
#include "agent/stream.h"
#include "agent/trash.h"
#include "api/api.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "exec/event.h"
#include "net/address.h"
#include "shim/shim.h"
#include "tool/timer.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct agent;
struct api_watch;
struct bridge;
struct cache;
struct env;
struct env_context;
struct hosts;
struct json;
struct object;
struct pod;
struct probe;
struct services;
struct shim_exit;

/* internal: what the files of the agent share. Nothing outside src/agent includes this. */

#define POD_PATH_BYTES 512 /* data folder + /pods/<uid>; longer data folders are refused */

/* ---- the link to a shim (link.c) ---- */

/* One message from the shim, with the descriptor that came along or -1; whoever wants to keep the
 * descriptor duplicates it. */
typedef void link_message_fn(void *user, const char *text, int fd);
typedef void link_lost_fn(void *user);

struct link {
    uv_poll_t poll;
    bool open;
    int fd;
    link_message_fn *message;
    link_lost_fn *lost;         /* the shim is gone; not called after link_close() */
    void (*closed)(void *user); /* link_close() has finished: the memory is the owner's again */
    void *user;
};

/* The process that makes shims (shim/shim.h). */
struct spawner {
    pid_t pid; /* 0: none */
    int fd;
    const char *program;
    char points[POD_PATH_BYTES]; /* folder of mount points; empty: none */
};
int spawner_start(struct spawner *spawner, struct err *err);
void spawner_stop(struct spawner *spawner);

/* The lock of the pod's shim, a descriptor: whoever has it may have a shim made. -EBUSY: a shim has
 * it, or one that is being made. */
int link_lock(const char *folder, struct err *err);
/* A shim is there, or will be. */
bool link_locked(const char *folder);
/* What a shim is made from. */
struct link_order {
    struct spawner *spawner; /* started again where it is gone */
    const char *folder;
    int lock_fd; /* of link_lock(); stays the caller's, the shim has it too */
};
/* Have a shim made. One that cannot be made shows as a lost link. */
int link_spawn(struct link *link, uv_loop_t *loop, const struct link_order *order, struct err *err);
/* Reach the shim that is already there; -ECONNREFUSED or -ENOENT: it is gone. */
int link_connect(struct link *link, uv_loop_t *loop, const char *folder, struct err *err);
void link_send(struct link *link, const int *fds, size_t fd_count, const char *fmt, ...)
    _printf_(4, 5);
void link_close(struct link *link);

/* ---- what the machine is and allows (machine.c) ---- */
struct machine {
    int64_t cpu_count;
    int64_t memory_bytes;
    int64_t disk_bytes;
    bool root;
    bool user_ns;  /* needed, and can be made: not root */
    bool mount_ns; /* mount, pid, uts and ipc namespaces can be made */
    bool overlay;
    uid_t uid; /* whom pods run as */
    gid_t gid;
    char home[256];
    char path[4096]; /* PATH of muster up */
    gid_t groups[64];
    size_t group_count;
    struct cgroups cgroups;
    struct gpus gpus;
    char boot_id[64];
    char machine_id[64];
    char kernel[128];
    char os_image[128];
    char hostname[256];
};
void machine_look(struct machine *machine, const char *data_dir);

/* ---- one pod (pod.c) ---- */
enum pod_stage {
    POD_NEW,     /* seen; perhaps waiting for something it refers to */
    POD_RUNNING, /* has a shim */
    POD_OVER,    /* ended for good, shim told to go */
    POD_GONE,    /* to be freed */
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
    bool awaited; /* no link, but perhaps a shim: recover_shim() finds out */
    bool asked;   /* the shim has not said yet what there is */
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
};

void pod_observe(struct agent *agent, const struct object *object);
void pod_vanish(struct agent *agent, const struct object *object);
void pod_step(struct pod *pod);
void pod_mark(struct pod *pod); /* look at it in the next turn */
/* Forget it; its processes go on. */
void pod_free(struct pod *pod);
/* The shim is gone: whatever ran has ended. */
void pod_lost(struct pod *pod);
struct pod *pod_by_name(struct agent *agent, struct str ns, struct str name);
/* SIZE_MAX: there is none of that name. */
size_t pod_container_index(const struct pod *pod, struct str name);
/* The same; an empty name is the first main container. */
size_t pod_choose_container(const struct pod *pod, struct str name);
const struct json *pod_container_spec(const struct pod *pod, size_t index);
void pod_env_context(const struct pod *pod, struct env_context *ret);
void pod_event(struct pod *pod, bool warning, const char *reason, struct str message);
/* The current instance was started, and nobody can say how it ended. */
void pod_container_lost(struct pod *pod, struct run_container *c);
/* The current instance has ended: its probes and streams end too. */
void pod_container_ended(struct pod *pod, struct run_container *c, const struct run_end *end);
/* What the shim said, with the words that the container left. */
void pod_take_end(struct pod *pod,
                  const struct run_container *c,
                  const struct shim_exit *said,
                  struct run_end *ret);
/* How the current instance ended; false when it has not. */
bool pod_read_exit(struct pod *pod, const struct run_container *c, struct run_end *ret);

/* ---- GPUs of a pod (device.c) ---- */
void device_take(struct pod *pod);
void device_give(struct pod *pod);
/* Container `index` has a part of each of the pod's GPUs. */
bool device_has_share(const struct pod *pod, size_t index);
/* What container `index` is told about them. */
void device_env(const struct pod *pod, size_t index, struct arena *arena, struct env *env);
/* The device files of a container, as mounts. */
void device_files(const struct pod *pod, size_t index, struct buf *records);

/* ---- pods of an earlier muster (recover.c) ---- */
void recover_finished(struct pod *pod);
void recover_running(struct pod *pod);
/* The shim of an awaited pod: linked again, or known to be gone. False: it is there but not to be
 * spoken to yet; look again in RECOVER_LOOK_MS. */
#define RECOVER_LOOK_MS 50
bool recover_shim(struct pod *pod);
void recover_synced(struct pod *pod);
void recover_orphans(struct agent *agent);

/* ---- making a pod's files (prepare.c) ---- */
/* Folders, volumes, pod file. -EAGAIN: something it refers to is not there yet; -ENOTSUP: it can
 * never run here; err says what. */
int prepare_pod(struct pod *pod, struct err *err);
/* The spec file of the container's current instance. -EAGAIN as above. */
int prepare_container(struct pod *pod, size_t container, struct err *err);
int prepare_exec(struct pod *pod,
                 size_t container,
                 const struct podio_exec_request *request,
                 const char *file,
                 struct err *err);

/* ---- status (status.c): pure ---- */
struct str status_patch(struct arena *arena, struct pod *pod, int64_t now_ms);

/* ---- the agent ---- */
/* Something for a worker thread, which sees nothing of the agent but its trash. Freed when done. */
struct agent_work {
    uv_work_t work;
    struct agent *agent;
    struct trash *trash;
    void (*run)(struct agent_work *work);
};

struct node {
    struct agent *agent;
    char name[256];
    uint32_t gpu_users[AGENT_GPUS_MAX]; /* pods that have GPU i */
    bool registered;
};

struct agent {
    struct podio podio; /* first: agent_podio() */
    uv_loop_t *loop;
    struct api *api;
    struct agent_options options;
    struct arena arena; /* copies of the options' strings */
    const struct log *log;
    struct machine machine;
    struct cache *cache; /* services, config maps, secrets, claims */
    struct api_watch *watches[8];
    size_t watch_count;
    size_t synced_count;
    struct map pods;            /* uid -> struct pod */
    struct map by_key;          /* ns/name -> struct pod, the newest of that name */
    struct event_budget events; /* that are not warnings */
    struct pod *dirty;
    struct pod **dirty_tail;
    struct spawner spawner;
    struct trash trash;
    struct bridge *bridge; /* NULL: none */
    struct address_pool addresses;
    struct hosts *hosts;
    struct services *services;
    char node_address[16]; /* where pods find this node */
    uint16_t port;         /* of the nodes, for an API server; 0: none */
    struct timer *turn;
    timer_fn *on_turn; /* what is due in it (agent.c) */
    struct timer *heartbeat;
    struct node *nodes;
    int64_t cpus_per_node;
    int64_t memory_per_node_bytes;
    uint32_t gpus_per_node;
    bool gpus_real;
    const char *gpu_product;
    int64_t gpu_memory_mib;
    unsigned long next_exec;
    unsigned long burials;
    bool orphans_left; /* some could not be reached yet */
    bool stopping;
    bool images_told;
    bool measuring;
    int handles_open;
    size_t calls_open;
    size_t pods_open;
    size_t streams_open;
    size_t results_open; /* of them */
};

/* ---- what all parts may call (core.c) ---- */
int64_t agent_now_ms(void);
void agent_turn_soon(struct agent *agent);
/* api_call(), counted: the agent's memory stays until all have come back. */
void agent_call(struct agent *agent,
                const struct api_request *request,
                api_done_fn *done,
                void *user);
void agent_maybe_free(struct agent *agent);
/* Remove a tree: its place is free at once, its files go later, if need be after a restart. */
void agent_discard(struct agent *agent, const char *path);
/* uv_queue_work(), counted as calls are. Takes `work`, the first member of what MEM_NEW made. */
void agent_work(struct agent *agent, struct agent_work *work);
/* Remove what an earlier muster left in the trash. */
void agent_empty_trash(struct agent *agent);
void nodes_start(struct agent *agent);
void nodes_beat(struct agent *agent);
/* Index of a node of ours, or -1. */
int agent_node(const struct agent *agent, struct str name);
