#pragma once

#include "base/str.h"

struct api;
struct check_report;
struct object;

/* check_jobs: what must hold for jobs of every kind. Part of check.c.
 *   - a job that has finished stays finished and gets no more pods and jobs of its own;
 *   - at rest, a job that has not finished has a pod or a job that has not: nobody forgot it;
 *   - when people have deleted everything, nothing that was made for a job is left. */
struct check_jobs;

struct check_jobs *check_jobs_new(struct api *api, struct check_report *report);
/* NULL is fine. */
void check_jobs_free(struct check_jobs *jobs);

/* A pod was made. */
void check_jobs_pod_made(struct check_jobs *jobs, const struct object *pod);
/* At rest: tell of every pod that has not ended, then look. */
void check_jobs_pod_lives(struct check_jobs *jobs, const struct object *pod);
void check_jobs_at_rest(struct check_jobs *jobs);
/* Nothing may be left in this namespace. */
void check_jobs_clean(struct check_jobs *jobs, struct str ns);
