#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct err;
struct log;
struct uv_loop_s;

/* hollow: nodes without machines, for a real API server.
 *
 * Registers nodes, renews their leases, and plays the kubelet for the pods bound to them: a pod
 * is Running after start_ms, ends after its run time, and is removed stop_ms after it was asked
 * to. What one pod does differently, its annotations say:
 *   - hollow.muster.dev/run-ms: end by itself after this (default: the option run_ms);
 *   - hollow.muster.dev/exit-code: of all containers, when it ends;
 *   - hollow.muster.dev/start-ms: Running only after this;
 *   - hollow.muster.dev/stuck: "true" never starts.
 *
 * GPUs are handed out as a device plugin does it: a pod that asks for more than are free fails, and
 * a reservation pod of a shared GPU (control/cluster/sharing.h) reports the one it got,
 * GPU-<node>-<number>.
 *
 * Everything goes through struct api; what failed is tried again after HOLLOW_RETRY_MS. */
#define HOLLOW_TAINT        "muster.dev/hollow" /* with options.taint; the label has the same name */
#define HOLLOW_NODES_MAX    10000
#define HOLLOW_RETRY_MS     500
#define HOLLOW_REGISTER_MAX 32 /* nodes being registered at once */

struct hollow;

struct hollow_options {
    struct uv_loop_s *loop;
    struct api *api;
    size_t nodes;
    const char *prefix;     /* node names: PREFIX-0, PREFIX-1, ... */
    int64_t gpus;           /* of each node */
    int64_t broken_gpus;    /* so many nodes, the first ones, advertise GPUs and give none */
    int64_t gpu_memory_mib; /* label nvidia.com/gpu.memory; 0: none */
    int64_t cpus;
    int64_t memory_gib;
    int64_t pods;              /* of each node */
    const char *const *labels; /* "KEY=VALUE" for every node; NULL-terminated, or NULL */
    bool taint;                /* who does not tolerate HOLLOW_TAINT stays away */
    int64_t racks;        /* label muster.dev/rack = r(i mod racks), and zones alike; 0: none */
    int64_t heartbeat_ms; /* 0: never; a real control plane then calls the nodes dead */
    int64_t start_ms;
    int64_t stop_ms;
    int64_t run_ms;       /* 0: pods run until they are deleted */
    int64_t run_jobs_ms;  /* the same for pods of batch/v1 Jobs, which are meant to end */
    int64_t fail_percent; /* of pods that end by themselves: with exit code 1 */
    uint64_t seed;
    const struct log *log;
    void (*ready)(void *user); /* all nodes are registered; once */
    void *user;
};

/* Strings must outlive it. */
int hollow_start(const struct hollow_options *options, struct hollow **ret, struct err *err);
/* The nodes stay registered and turn NotReady by themselves. NULL is fine. */
void hollow_stop(struct hollow *hollow);
