#pragma once

#include "base/map.h"

struct buf;
struct object;

/* job_counts: what became of the training jobs of kubeflow.org, under the names that people's
 * dashboards know from Kubeflow's training operator:
 *
 *     training_operator_jobs_{created,deleted,successful,failed,restarted}_total
 *         {job_namespace="ns",framework="pytorch"}
 *
 * Counted as the changes come by, once each, since the start of the process. */
#define JOB_COUNTS_MAX 10000 /* namespaces times frameworks; what is beyond is counted nowhere */

struct job_counts {
    struct map rows; /* "framework namespace" -> numbers */
};

/* Zeroes are a fresh one. */
void job_counts_done(struct job_counts *counts);
/* An object came (`before` NULL), changed, or went (`now` NULL). Of other kinds: nothing. */
void job_counts_see(struct job_counts *counts,
                    const struct object *before,
                    const struct object *now);
/* Prometheus text. */
void job_counts_write(const struct job_counts *counts, struct buf *buf);
