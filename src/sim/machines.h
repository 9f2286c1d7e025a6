#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct rng;
struct sim_process;

/* machines: the nodes of the simulator, on virtual time.
 *
 * Registers nodes and plays their agents: a pod that is bound to one starts as a process after a
 * while, ends on its own or because its pod is deleted, and each of these is sent to the API until
 * the API has it. A process goes on while the control plane is dead. A machine that loses power
 * loses its processes, reports nothing, and finds out when it is back. The annotations of hollow.h
 * (run-ms, exit-code) are honoured. */
struct machines;

struct machines_options {
    struct api *api;
    struct rng *rng;
    size_t count;
    int64_t gpus; /* of each */
    /* A device plugin hands out whole GPUs, and reservation pods (control/cluster/sharing.h) tell
     * theirs or fail. Otherwise the plan says who has which. */
    bool device_plugin;
    /* They can suspend pods (api/suspend.h), which may fail: as agents of ours, or with a device plugin
     * by commands in containers (machines_move()). */
    bool suspend;
    bool wide; /* they restart pods in place (api/place.h), as `muster up` does */
    /* A process starts and ends: the truth, whatever the API says. */
    void (*started)(void *user, const struct sim_process *process);
    /* There were fewer GPUs left than the pod wants: it failed. */
    void (*refused)(void *user, const struct sim_process *process);
    void (*ended)(void *user, struct str ns, struct str name, struct str uid);
    /* By a command it has given up its share, or has it back; may be NULL. */
    void (*moved)(void *user, struct str uid, bool out);
    void *user;
};

struct machines *machines_new(const struct machines_options *options, int64_t now_ms);
/* Calls under way must have been answered (link_cut()). NULL is fine. */
void machines_free(struct machines *machines);
/* Stops listening, so that its link can be cut. */
void machines_stop(struct machines *machines);

/* Everything that is due. Returns when the next thing is, INT64_MAX for never. */
int64_t machines_turn(struct machines *machines, int64_t now_ms);
bool machines_are_registered(const struct machines *machines);
/* A command in the container of a pod with a share: its memory leaves the GPU, or comes back. Again
 * changes nothing. */
enum machines_moved {
    MACHINES_MOVED,
    MACHINES_STAYED,    /* it cannot be moved, and runs on */
    MACHINES_UNREACHED, /* no such container runs */
};
enum machines_moved machines_move(struct machines *machines,
                                  struct str ns,
                                  struct str pod,
                                  bool out);
/* Power of one machine, off or on; its node is told NotReady by somebody else. */
void machines_power(struct machines *machines, size_t index, bool on, int64_t now_ms);
/* One of its pods is ended for want of memory, as a kubelet and our agent do. */
void machines_evict(struct machines *machines, size_t index, int64_t now_ms);
/* Pods end within a few seconds from now on, unless they say otherwise. */
void machines_hurry(struct machines *machines);
