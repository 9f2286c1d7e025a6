#include "exec/scheduler_metrics.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/str.h"
#include "cache/cache.h"
#include "sched/sched.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

/* QUEUE_METRICS(X): X(name, help, value of struct sched_queue_view v) */
#define QUEUE_METRICS(X)                                                                           \
    X("kai_queue_info", "1 for every queue there is", 1)                                           \
    X("kai_queue_deserved_gpus", "GPU quota of the queue", v.quota[SCHED_GPU])                     \
    X("kai_queue_quota_cpu_cores", "CPU quota of the queue", cores(v.quota[SCHED_CPU]))            \
    X("kai_queue_quota_memory_bytes", "Memory quota of the queue", v.quota[SCHED_MEMORY])          \
    X("kai_queue_allocated_gpus", "GPUs in use by the queue", v.allocated[SCHED_GPU])              \
    X("kai_queue_allocated_cpu_cores", "CPUs in use by the queue", cores(v.allocated[SCHED_CPU]))  \
    X("kai_queue_allocated_memory_bytes", "Memory in use by the queue", v.allocated[SCHED_MEMORY]) \
    X("kai_queue_fair_share_gpu", "GPUs the queue may have now", v.fair_share[SCHED_GPU])          \
    X("kai_queue_fair_share_cpu_cores", "CPUs the queue may have now",                             \
      cores(v.fair_share[SCHED_CPU]))                                                              \
    X("kai_queue_fair_share_memory_gb", "Memory the queue may have now",                           \
      v.fair_share[SCHED_MEMORY] / 1e9)                                                            \
    X("kai_queue_gpu_usage", "Share of the GPUs it used over time, 0 to 1", v.usage[SCHED_GPU])    \
    X("kai_queue_cpu_usage", "Share of the CPUs it used over time, 0 to 1", v.usage[SCHED_CPU])    \
    X("kai_queue_memory_usage", "Share of the memory it used over time, 0 to 1",                   \
      v.usage[SCHED_MEMORY])                                                                       \
    X("muster_queue_requested_gpus", "GPUs asked for by the queue, waiting ones included",         \
      v.requested[SCHED_GPU])

/* NODE_METRICS(X): X(name, help, value of struct sched_node_view v) */
#define NODE_METRICS(X)                                                                         \
    X("muster_node_gpus", "GPUs of the node", (double)v.gpus)                                   \
    X("muster_node_gpus_free", "GPUs that nobody uses", (double)v.idle_gpus)                    \
    X("muster_node_gpus_shared", "GPUs that pods have fractions of", (double)v.shared_gpus)     \
    X("muster_node_gpu_shares_free", "What is free of the shared GPUs: 0.5 is half of one GPU", \
      (double)v.free_shares_milli / 1000)

static double cores(double milli)
{
    return milli < 0 ? milli : milli / 1000;
}

static void head(struct buf *buf, const char *name, const char *type, const char *help)
{
    buf_addf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void whole(struct buf *buf,
                  const char *name,
                  const char *type,
                  const char *help,
                  uint64_t value)
{
    head(buf, name, type, help);
    buf_addf(buf, "%s %" PRIu64 "\n", name, value);
}

static void queue_lines(struct buf *buf,
                        const struct sched *core,
                        const struct cache *cache,
                        size_t which,
                        const char *name)
{
    const struct object *queue;
    size_t cursor = 0;

    while ((queue = cache_next(cache, &kind_queue, STR(""), &cursor))) {
        struct sched_queue_view v;

        if (!sched_queue_view(core, queue->name, &v))
            continue;
#define QUEUE_VALUE(metric, help, value) (value),
        const double values[] = {QUEUE_METRICS(QUEUE_VALUE)};
#undef QUEUE_VALUE
        buf_addf(buf, "%s{queue_name=\"" STR_FMT "\"} %.15g\n", name, STR_ARG(queue->name),
                 values[which]);
    }
}

/* Nodes without GPUs say nothing. */
static void node_lines(struct buf *buf,
                       const struct sched *core,
                       const struct cache *cache,
                       size_t which,
                       const char *name)
{
    const struct object *node;
    size_t cursor = 0;

    while ((node = cache_next(cache, &kind_node, STR(""), &cursor))) {
        struct sched_node_view v;

        if (!sched_node_view(core, node->name, &v) || !v.gpus)
            continue;
#define NODE_VALUE(metric, help, value) (value),
        const double values[] = {NODE_METRICS(NODE_VALUE)};
#undef NODE_VALUE
        buf_addf(buf, "%s{node=\"" STR_FMT "\"} %.15g\n", name, STR_ARG(node->name), values[which]);
    }
}

static void bind_lines(struct buf *buf, const struct scheduler_stats *stats)
{
    const char *name = "kai_task_bind_latency_milliseconds";
    uint64_t count = 0;

    head(buf, name, "histogram", "From the decision to the bind that was answered, by pod");
    for (unsigned i = 0; i < SCHEDULER_BUCKETS; i++) {
        count += stats->bind_ms[i];
        buf_addf(buf, "%s_bucket{le=\"%u\"} %" PRIu64 "\n", name, 5U << i, count);
    }
    count += stats->bind_ms[SCHEDULER_BUCKETS];
    buf_addf(buf, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %" PRIu64 "\n%s_count %" PRIu64 "\n",
             name, count, name, stats->bind_ms_sum, name, count);
}

void scheduler_stats_bound(struct scheduler_stats *stats, size_t pods, int64_t took_ms)
{
    unsigned bucket = 0;

    while (bucket < SCHEDULER_BUCKETS && took_ms > (int64_t)5 << bucket)
        bucket++;
    stats->bound += pods;
    stats->bind_ms[bucket] += pods;
    stats->bind_ms_sum += (uint64_t)(took_ms > 0 ? took_ms : 0) * pods;
}

void scheduler_stats_plan(struct scheduler_stats *stats,
                          const struct sched_plan *plan,
                          int64_t took_ms)
{
    stats->cycles++;
    stats->cycle_ms = took_ms;
    for (size_t i = 0; i < plan->evict_count; i++) {
        const struct sched_evict *evict = &plan->evicts[i];
        const struct sched_evict *before = i ? &plan->evicts[i - 1] : NULL;

        stats->evicted[evict->action]++;
        stats->helped +=
            evict->for_group.len && (!before || !str_eq(before->for_group, evict->for_group) ||
                                     !str_eq(before->for_ns, evict->for_ns));
    }
}

void scheduler_metrics_write(struct buf *buf,
                             const struct sched *core,
                             const struct cache *cache,
                             const struct scheduler_stats *stats)
{
    struct sched_counts counts;
    size_t which = 0;

    sched_count(core, &counts);
    whole(buf, "muster_scheduler_nodes", "gauge", "Nodes the scheduler knows", counts.nodes);
    whole(buf, "muster_scheduler_pods", "gauge", "Pods the scheduler knows", counts.pods);
    whole(buf, "muster_scheduler_groups", "gauge", "Pod groups it knows", counts.groups);
    whole(buf, "muster_scheduler_queues", "gauge", "Queues it knows", counts.queues);
    whole(buf, "muster_scheduler_cycles_total", "counter", "Cycles of the scheduler",
          stats->cycles);
    whole(buf, "muster_scheduler_bound_pods_total", "counter", "Pods bound", stats->bound);
    whole(buf, "muster_scheduler_bind_failures_total", "counter", "Binds that were refused",
          stats->bind_failures);
    whole(buf, "kai_e2e_scheduling_latency_milliseconds", "gauge", "What the last cycle took",
          (uint64_t)(stats->cycle_ms > 0 ? stats->cycle_ms : 0));
    whole(buf, "kai_total_preemption_attempts", "counter", "Groups that others were evicted for",
          stats->helped);
    head(buf, "kai_pod_group_evicted_pods_total", "counter", "Pods evicted, by the rule");
    for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++)
        buf_addf(buf, "kai_pod_group_evicted_pods_total{action=\"%s\"} %" PRIu64 "\n",
                 sched_action_word((enum sched_action)i), stats->evicted[i]);
    bind_lines(buf, stats);
#define QUEUE_LINES(name, help, value) \
    head(buf, name, "gauge", help);    \
    queue_lines(buf, core, cache, which++, name);
    QUEUE_METRICS(QUEUE_LINES)
#undef QUEUE_LINES
    which = 0;
#define NODE_LINES(name, help, value) \
    head(buf, name, "gauge", help);   \
    node_lines(buf, core, cache, which++, name);
    NODE_METRICS(NODE_LINES)
#undef NODE_LINES
}
