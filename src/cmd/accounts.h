#pragma once

#include "base/str.h"

struct accounts;
struct api;
struct buf;
struct log;

/* accounts: watches jobs and their pods, and writes what each spends its time on to the file of
 * plugin/spent.h in the data folder. What was true before a restart is read from there; of the time
 * in between it is taken to have stayed so. */
struct accounts *accounts_start(struct api *api, const char *path, const struct log *log);
/* NULL is fine. */
void accounts_stop(struct accounts *accounts);
/* The lines that there are; of one job alone, unless `uid` is empty. */
void accounts_tell(const struct accounts *accounts, struct str uid, struct buf *out);
/* muster_job_gpu_seconds_total by queue and state, since the start, as text of Prometheus. */
void accounts_metrics(struct accounts *accounts, struct buf *out);
