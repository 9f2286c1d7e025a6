#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct buf;
struct err;
struct log;
struct runtimes_like;
struct sched;
struct sched_config;
struct sched_input;
struct shadow;
struct sharing_settings;

/* scheduler: puts src/sched to work on a struct api.
 *
 * Watches nodes, pods, pod groups, queues, priority classes and topologies, and feeds the core. A
 * cycle runs when something changed that could matter, once a turn of the loop however much
 * changed, or when the core asked to be woken. Its plan is carried out at once: the binds of a gang
 * in one api_bind(), evictions through the eviction subresource (which honours
 * PodDisruptionBudgets), and for every group that waits the reason: in the group's status, in the
 * condition PodScheduled of its pods, and as an event when the reason is a new one. A write that
 * fails is reported to the core, which reverts the decision and pauses that group for a while:
 * one bad pod neither keeps the loop busy nor makes others wait. */

struct scheduler;

/* What KAI's Config may rename while the scheduler runs. */
struct scheduler_names {
    struct str scheduler_name;
    struct str queue_label;
};

/* Hears of everything that the core sees and decides. */
struct scheduler_recorder {
    void (*begin)(void *user, const struct sched *core); /* before anything else */
    void (*saw)(void *user, const struct sched_input *input);
    /* It would rather begin anew. At the next moment at which nothing is under way the core is
     * restarted with the objects there are, so that what follows can be repeated on its own, and
     * begin() is called again. NULL: never. */
    bool (*is_full)(void *user);
    void *user;
};

struct scheduler_options {
    const struct sched_config *config; /* copied; NULL: the defaults, and pods of every scheduler */
    /* Shared devices are held by reservation pods (exec/reservations.h); strings must outlive the
     * scheduler. NULL: the node's agent knows them. */
    const struct sharing_settings *sharing;
    /* With `sharing`: how pods that share devices are reached to be suspended (exec/suspender.h); it
     * must outlive the scheduler. NULL: they are not. */
    const struct suspender_inside *inside;
    const struct log *log;      /* may be NULL */
    uint64_t seed;              /* of hash tables */
    bool autoscalers;           /* there may be some: see applier_options */
    bool taught;                /* scheduler_teach() tells of jobs that have ended before */
    int64_t (*now)(void *user); /* the clock; NULL: the wall clock */
    void *now_user;
    const struct scheduler_recorder *recorder; /* must outlive the scheduler; NULL: none */
    /* The Config `kai-config` changed these for everybody; empty fields: as the program was
     * started. May be NULL. */
    void (*renamed)(void *user, const struct scheduler_names *names);
    void *renamed_user;
    /* Decide beside another scheduler, write nothing, and hold the decisions against that one's
     * (exec/scheduler_shadow.h); with the names of the queues that the operator would make. */
    bool shadow;
    struct str default_queue;
    struct str default_parent;
};

/* `loop` NULL: no timers; the caller turns the scheduler by hand (the simulator does). */
int scheduler_start(uv_loop_t *loop,
                    struct api *api,
                    const struct scheduler_options *options,
                    struct scheduler **ret,
                    struct err *err);
/* One turn; returns when the next one is due without any event, INT64_MAX for never. */
int64_t scheduler_turn(struct scheduler *scheduler);
/* Nothing is decided while it is held: what it would decide by is not whole. */
void scheduler_hold(struct scheduler *scheduler, bool held);
/* The core, to look at (queue shares, node views). */
const struct sched *scheduler_core(const struct scheduler *scheduler);
/* What came of the comparison; NULL: it is no shadow. */
const struct shadow *scheduler_shadow(const struct scheduler *scheduler);
/* A job of the past ran so long: what estimates of starts are made from. */
void scheduler_teach(struct scheduler *scheduler, const struct runtimes_like *like, int64_t run_ms);
/* What it tells Prometheus, added to `buf` as text. */
void scheduler_metrics(const struct scheduler *scheduler, struct buf *buf);
/* NULL is fine. Calls under way are not waited for. */
void scheduler_stop(struct scheduler *scheduler);
