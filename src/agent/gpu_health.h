#pragma once

#include "agent/gpu_link.h"
#include "api/suspect.h"

#include <stdbool.h>
#include <stddef.h>

struct agent;
struct pod;
struct run_end;

/* gpu_health: what the driver says against the machine's GPUs, looked at in a worker thread at every
 * heartbeat: errors that it reports (XID), memory that could not be corrected or remapped, links that
 * fail (gpu_link.h), clocks held down by heat or power. A node with such a card is tainted, and nothing new comes to it; the taint
 * goes when a self-test, or a muster that is started anew, finds nothing. Nothing where GPUs are
 * pretended. */
#define GPU_HEALTH_MAX       64 /* cards, as GPU_MAX */
#define GPU_HEALTH_TEXT      160
#define GPU_HEALTH_SLOW      18 /* looks in a row: at ten seconds each, three minutes */
#define GPU_HEALTH_TAINT     SUSPECT_GPU_TAINT
#define GPU_HEALTH_CONDITION "GPUsHealthy"

/* What is known of one card. */
struct gpu_sign {
    unsigned xid;                   /* the last one that is the card's fault; 0: none */
    long long xid_ms;               /* when it was heard of */
    unsigned long long uncorrected; /* errors of its memory since the driver was loaded */
    bool remap_pending;             /* rows of memory are replaced when it is reset */
    bool remap_failed;
    unsigned slow_looks; /* in a row with clocks held down */
    struct gpu_link_sign link;
};

/* A word for taints, or NULL: there is nothing against it. `ret` has a sentence. */
const char *gpu_sign_judge(const struct gpu_sign *sign, char ret[static GPU_HEALTH_TEXT]);

/* Of NVML; each returns 0 when it has an answer. A member may be NULL: that is not looked at. */
struct health_event {
    void *device;
    unsigned long long type;
    unsigned long long data;
    unsigned gpu_instance;
    unsigned compute_instance;
};
struct health_nvml {
    void *library;
    int (*init)(void);
    int (*by_uuid)(const char *, void **);
    int (*remapped)(void *, unsigned *, unsigned *, unsigned *, unsigned *);
    int (*ecc)(void *, int, int, unsigned long long *);
    int (*clocks)(void *, unsigned long long *);
    int (*link_up)(void *, unsigned, unsigned *);
    int (*link_errors)(void *, unsigned, int, unsigned long long *);
    int (*set_create)(void **);
    int (*set_add)(void *, unsigned long long, void *);
    int (*set_wait)(void *, struct health_event *, unsigned);
};

struct gpu_health {
    struct health_nvml nvml;
    void *events;
    void *devices[GPU_HEALTH_MAX];
    char uuids[GPU_HEALTH_MAX][96];
    size_t count;
    struct gpu_sign signs[GPU_HEALTH_MAX];
    struct gpu_links links[GPU_HEALTH_MAX];
    long long now_ms; /* of the look that is on */
    long long
        tested_ms[GPU_HEALTH_MAX]; /* a self-test that found nothing began then; 0: none did */
    bool begun;                    /* the driver was opened, or cannot be */
    bool looking; /* a thread is at it: all but the following is the thread's then */
    struct gpu_sign seen[GPU_HEALTH_MAX]; /* of the last look */
    bool told;
    unsigned long long told_hash; /* of what was told last */
};

/* The first look, and each one, with a driver that is open: for the tests, too. */
void gpu_health_begin(struct gpu_health *health);
void gpu_health_read(struct gpu_health *health);
/* The first card of `count` that something is said against: its word, or NULL. */
const char *gpu_signs_judge(const struct gpu_sign *signs,
                            size_t count,
                            char ret[static GPU_HEALTH_TEXT]);

/* Cards that have passed a self-test since have nothing against them but what is read again. */
void gpu_health_forgive(struct gpu_health *health);

/* A container ended: if it was the self-test of the node (control/cluster/health.h) and it has found
 * nothing, what the driver had reported of its cards before is over. */
void gpu_health_tested(struct pod *pod, const struct run_end *end);

/* At a heartbeat. */
void gpu_health_look(struct agent *agent);
