#pragma once

#include "agent/agent.h"
#include "agent/gpu_health.h"
#include "agent/homes.h"
#include "agent/machine.h"
#include "agent/pressure.h"
#include "agent/stream.h"
#include "agent/trash.h"
#include "agent/usage.h"
#include "api/api.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "exec/event.h"
#include "net/address.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct api_watch;
struct bridge;
struct cache;
struct dns;
struct hosts;
struct node;
struct pod;
struct secure;
struct services;
struct spawner;

/* core: the agent itself, and what every part of it may call. Nothing outside src/agent includes
 * this. */
struct agent {
    struct podio podio; /* first: agent_podio() */
    uv_loop_t *loop;
    struct api *api;
    struct agent_options options;
    struct arena arena; /* copies of the options' strings */
    const struct log *log;
    struct machine machine;
    struct cache *cache; /* services, config maps, secrets, claims */
    struct api_watch *watches[9];
    size_t watch_count;
    size_t synced_count;
    struct map pods;            /* uid -> struct pod */
    struct map by_key;          /* ns/name -> struct pod, the newest of that name */
    struct event_budget events; /* that are not warnings */
    struct pod *dirty;
    struct pod **dirty_tail;
    struct spawner *spawner;
    struct trash trash;
    struct homes homes;
    struct bridge *bridge; /* NULL: none */
    struct address_pool addresses;
    struct hosts *hosts;
    struct services *services;
    struct dns *dns;       /* NULL: none */
    char dns_address[16];  /* of it; empty: none */
    char node_address[16]; /* where pods find this node */
    uint16_t port;         /* of the nodes, for an API server; 0: none */
    struct timer *turn;
    timer_fn *on_turn; /* what is due in it (agent.c) */
    struct timer *heartbeat;
    struct timer *ranks; /* set while there is somebody to look at (ranks.c) */
    unsigned long ranks_turns;
    size_t
        lines_after; /* so many ranks had their turn before those that are asked next where they are */
    bool lines_asked;         /* that is under way */
    struct node *nodes;       /* and behind them one for pods of nodes that are no longer there */
    VEC(struct str) departed; /* names of nodes that an earlier start had */
    struct pressure pressure;
    int64_t looked_ms; /* at the machine, last */
    int64_t cpu_milli_per_node;
    int64_t memory_per_node_bytes;
    int64_t disk_per_node_bytes;
    int64_t pods_per_node;
    uint32_t gpus_per_node;
    bool gpus_real;
    struct gpu_health health; /* of the GPUs */
    bool gpu_looking;         /* a measurement of them is under way */
    const char *gpu_product;
    int64_t gpu_memory_mib;
    unsigned long next_exec;
    unsigned long burials;
    size_t burials_open;     /* what their pods wrote is on its way to where it is kept */
    int64_t results_look_ms; /* when what is kept was looked through, last */
    int64_t shipped_ms;      /* until when originals that changed were held against others */
    bool shipped_looking;
    bool orphans_left;          /* some could not be reached yet */
    struct usage_samples usage; /* of the machine */
    struct usage_counter usage_begin;
    int64_t usage_asked_ms;
    bool stopping;
    bool pods_synced;
    bool reported;
    int64_t started_ms;
    bool images_told;
    bool measuring;
    size_t measured; /* pods of the storage that were, while there are more */
    int handles_open;
    size_t calls_open;
    size_t pods_open;
    size_t streams_open;
    struct stream_places {
        struct podio_stream *newest;
        size_t count;
    } places[STREAM_SORT_COUNT]; /* of them; stream.h */
    size_t stacks_working;       /* worker threads that read stacks */
    struct secure *secures;      /* checks in threads of their own; secure.h */
};

int64_t agent_now_ms(void);
/* When the namespace was made; 0: there is none. What was kept of an earlier one of that name is not its. */
int64_t agent_namespace_ms(const struct agent *agent, struct str name);
/* Was the file, or folder, written then or later? In seconds, as objects have it. */
bool agent_is_since(const char *path, int64_t since_ms);
/* Pods that are marked are looked at in the next turn of the loop. */
void agent_turn_soon(struct agent *agent);
/* Index of a node of ours, or -1. */
int agent_node(const struct agent *agent, struct str name);
/* An earlier start had a node of that name; options.node_count is the index of its pods. */
bool agent_node_departed(const struct agent *agent, struct str name);

/* api_call(), counted: the agent's memory stays until all have come back. */
void agent_call(struct agent *agent,
                const struct api_request *request,
                api_done_fn *done,
                void *user);
/* Something for a worker thread, which sees nothing of the agent but its trash. Freed when done. */
struct agent_work {
    uv_work_t work;
    struct agent *agent;
    struct trash *trash;
    void (*run)(struct agent_work *work);
    void (*done)(struct agent_work *work); /* in the loop; NULL: nothing is left to do */
};

/* uv_queue_work(), counted as calls are. Takes `work`, the first member of what MEM_NEW made. */
void agent_work(struct agent *agent, struct agent_work *work);

/* Remove a tree: its place is free at once, its files go later, if need be after a restart. */
void agent_discard(struct agent *agent, const char *path);
/* Remove what an earlier muster left in the trash. */
void agent_empty_trash(struct agent *agent);

/* After agent_stop(): whoever closed something of what is counted calls this. */
void agent_maybe_free(struct agent *agent);
