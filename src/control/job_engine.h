#pragma once

#include "control/action.h"
#include "control/job.h"

#include <stdbool.h>

struct arena;
struct control_input;

/* job_engine: what the files of the engine share: one reconcile of one job. */
struct job_run {
    const struct control_input *input;
    struct arena *arena;
    struct actions actions; /* to follow the status */
    struct job_model model;
    struct job_state state;
    struct job_members members;
};

void job_say(struct job_run *run, enum job_phase phase, struct str message);
/* The end, for good. */
void job_finish(struct job_run *run, enum job_phase phase, struct str message);
/* From here on pods belong to a new generation; those there are belong to an old one. */
void job_next_generation(struct job_run *run);
/* Delete a pod, by force where nobody is left to do it gracefully. */
void job_remove(struct job_run *run, const struct job_member *member);
const struct object *job_sync_pod(const struct job_run *run);
bool object_owned_by(const struct object *object, struct str uid);

/* Claims, service, sync pod, upload. False: not ready, and the state says why. */
bool job_provision(struct job_run *run);
/* The pods. */
void job_gang(struct job_run *run);
