#pragma once

#include "sim/link.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct inside;
struct json;
struct plane;
struct sim_options;

/* plane: the process that has the controllers and the scheduler, and its link to the store.
 *
 * Alone it is the control plane and always leads. Two of them are operators of a cluster, which
 * compete for a lease by the real election (exec/lease.h): who holds it has controllers and a
 * scheduler, who is in doubt of it starts nothing, who loses it competes anew. What it has sent
 * may arrive after that, within PLANE_LATE_MS. That is what the election counts on: who may not renew
 * stops within LEASE_RENEW_MS and one more LEASE_RETRY_MS, and nobody follows before
 * LEASE_DURATION_MS. Nothing at the API server would stop a request that comes later still. */
#define PLANE_LATE_MS 2000

/* What befalls an operator. */
enum plane_trouble {
    PLANE_KILLED,   /* and started again after a while */
    PLANE_REPLACED, /* stopped in order, as an upgrade does it, and started again */
    PLANE_PAUSED,   /* it stands still for a while, and does not know */
    PLANE_CUT_OFF,  /* nothing comes through between it and the API server for a while */
    PLANE_TROUBLES,
};

struct plane_options {
    const struct sim_options *sim;
    struct link_options link; /* .user and .now are for the rest, too */
    bool competes;            /* for the lease */
    struct inside *inside;    /* how it reaches containers; NULL: it does not */
    /* What must not happen to it. */
    void (*fail)(void *user, const char *text);
};

struct plane *plane_new(const struct plane_options *options);
/* Only what its process has left behind is freed with it. NULL is fine. */
void plane_free(struct plane *plane);
struct link *plane_link(struct plane *plane);

void plane_start(struct plane *plane);
/* At once, and not started again. */
void plane_kill(struct plane *plane);
/* What befalls it, for `ms`. */
void plane_trouble(struct plane *plane, enum plane_trouble trouble, int64_t ms);
/* Its troubles are over, and if it leads, nobody takes that from it. */
void plane_repair(struct plane *plane);
/* It is stopped in order and does not come back. */
void plane_retire(struct plane *plane);

bool plane_leads(const struct plane *plane); /* and is awake */
/* What its controllers know of a pod that is about to be made. */
void plane_admit(struct plane *plane, struct json *pod, struct arena *arena);

/* Something moves on its link: link_step(). */
bool plane_step(struct plane *plane);
/* What is due of its election and its troubles. Returns when that is next, and when a slow request
 * arrives. */
int64_t plane_time(struct plane *plane);
/* Its controllers or its scheduler have their turn. Returns when they want the next. */
int64_t plane_control(struct plane *plane);
int64_t plane_schedule(struct plane *plane);
