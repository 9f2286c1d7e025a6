#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;

/* trace: jobs and nodes from CSV files.
 *
 * The first line names the columns, in any order; what is not known is passed over. Our own names
 * come first, those of public traces behind them:
 *
 *     name                    of the job
 *     submit   timestamp, creation_time     when: seconds, or "2017-10-09 07:01:55"
 *     run      duration       how long it runs, in seconds
 *     queue    cluster, vc    whose it is
 *     gpus     num_gpu, num_gpus            GPUs in all; more than a node has make a gang
 *     gpu_milli               thousandths of one GPU, below 1000: a share
 *     cpu_milli, memory_mib   of each pod
 *     models   gpu_spec       GPU models it may run on, with | between them; empty: any
 *
 * A file without a column for run times has jobs that never end. Nodes have: name (sn), cpu_milli,
 * memory_mib, gpu (gpus), model. */
#define TRACE_JOBS_MAX  2000000
#define TRACE_NODES_MAX 100000
#define TRACE_GPUS_MAX  16 /* of one node */

struct trace_job {
    struct str name;
    struct str queue;
    struct str models;
    int64_t submit_ms;
    int64_t run_ms;
    int64_t gpus;
    int64_t gpu_milli; /* 1000: whole ones */
    int64_t cpu_milli;
    int64_t memory_mib;
};
struct trace_jobs VEC_FIELDS(struct trace_job);

struct trace_node {
    struct str name;
    struct str model;
    int64_t cpu_milli;
    int64_t memory_mib;
    int64_t gpus;
};
struct trace_nodes VEC_FIELDS(struct trace_node);

struct trace {
    struct trace_jobs jobs; /* by submission */
    bool ends;              /* there are run times */
};

/* Errors name the file, the line and the column. The text must live as long as the result. */
int trace_parse(struct arena *arena,
                const char *path,
                struct str text,
                struct trace *ret,
                struct err *err);
int trace_parse_nodes(struct arena *arena,
                      const char *path,
                      struct str text,
                      struct trace_nodes *ret,
                      struct err *err);
/* So many nodes with so many GPUs each; 12 cores and 48 GiB for each GPU. */
void trace_make_nodes(struct arena *arena, int64_t count, int64_t gpus, struct trace_nodes *ret);
