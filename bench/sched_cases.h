#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* sched_cases: what bench-sched measures. A case builds a cluster of n nodes (queues, for
 * many_queues), decides once and says how long that took and what came of it. */
struct outcome {
    double seconds;
    size_t binds;
    size_t evicts;
    size_t nominates;
    size_t record_bytes; /* explain: what is kept of each waiting group */
    size_t heap_bytes;   /* with the plan gone */
    bool failed;         /* the answer was not the right one */
};

struct outcome reclaim_large(int64_t n, bool mimic);
struct outcome many_single(int64_t n, bool mimic);
struct outcome unschedulable_quota(int64_t n, bool mimic);
struct outcome unschedulable_apart(int64_t n, bool mimic); /* anti-affinity over 9 racks */
struct outcome unschedulable_rack(int64_t n, bool mimic);  /* a required rack of too few nodes */
struct outcome cpu_jobs(int64_t n, bool mimic);
struct outcome fill_gangs(int64_t n, bool mimic);
struct outcome one_gang(int64_t n, bool mimic);
struct outcome one_more(int64_t n, bool mimic);
struct outcome reclaim_64(int64_t n, bool mimic);
struct outcome preempt_64(int64_t n, bool mimic);
struct outcome consolidate(int64_t n, bool mimic);
struct outcome topology_gang(int64_t n, bool mimic);
struct outcome many_queues(int64_t n, bool mimic);
struct outcome explain(int64_t n, bool mimic);
struct outcome idle(int64_t n, bool mimic);

/* ---- for cases of one's own ---- */
struct bench {
    struct sched *sched;
    struct arena names;
    int64_t nodes;
    bool mimic;
};

void open_cluster(struct bench *bench, uint32_t actions);
void close_cluster(struct bench *bench);
void add_queue(struct bench *bench, const char *name, const char *parent, double gpus);
/* Racks of `rack` nodes; 0: no rack label. */
void add_nodes(struct bench *bench, int64_t count, int64_t gpus, int64_t cpu, int64_t rack);
/* One cycle. */
struct outcome decide(struct bench *bench, int64_t now_ms);
double cpu_now_s(void);
/* What the program has allocated and not freed. */
size_t heap_bytes(void);
