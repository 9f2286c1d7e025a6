#include "exec/scheduler_metrics.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "sched/sched.h"
#include "tool/clock.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* QUEUE_METRICS(X): X(name, help, value of struct sched_queue_view v) */
#define QUEUE_METRICS(X)                                                                           \
    X("kai_queue_info", "1 for every queue", 1)                                                    \
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

static void fine(struct buf *buf, const char *name, const char *help, double value)
{
    head(buf, name, "gauge", help);
    buf_addf(buf, "%s %.15g\n", name, value);
}

/* spec.displayName as the text of a label. */
static struct str display_name(struct arena *arena, const struct object *queue)
{
    struct str name = json_str_at(object_json(queue, arena), "spec.displayName");
    struct buf text = {0};

    buf_add_label(&text, name);
    struct str ret = str_dup(arena, buf_str(&text));
    buf_done(&text);
    return ret;
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
        _cleanup_(arena_done) struct arena arena = {0};
        struct sched_queue_view v;

        if (!sched_queue_view(core, queue->name, &v))
            continue;
#define QUEUE_VALUE(metric, help, value) (value),
        const double values[] = {QUEUE_METRICS(QUEUE_VALUE)};
#undef QUEUE_VALUE
        buf_addf(buf,
                 "%s{queue_name=\"" STR_FMT "\",queue_metadata_name=\"" STR_FMT
                 "\",queue_display_name=\"" STR_FMT "\"} %.15g\n",
                 name, STR_ARG(queue->name), STR_ARG(queue->name),
                 STR_ARG(display_name(&arena, queue)), values[which]);
    }
}

/* Queues that go by their users. */
static void user_lines(struct buf *buf, const struct sched *core, const struct cache *cache)
{
    const char *name = "muster_queue_user_allocated_gpus";
    const struct object *queue;
    size_t cursor = 0;

    head(buf, name, "gauge", "GPUs that a user holds of a queue with the order fairUsers");
    while ((queue = cache_next(cache, &kind_queue, STR(""), &cursor))) {
        int64_t held[SCHED_RESOURCES];
        struct str user;
        size_t at = 0;

        while (sched_next_user(core, queue->name, &at, &user, held))
            buf_addf(buf, "%s{queue_name=\"" STR_FMT "\",user=\"" STR_FMT "\"} %.15g\n", name,
                     STR_ARG(queue->name), STR_ARG(user), (double)held[SCHED_GPU] / 1000);
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

static void latency_lines(struct buf *buf,
                          const char *name,
                          const char *help,
                          const struct latency *latency)
{
    uint64_t count = 0;

    head(buf, name, "histogram", help);
    for (unsigned i = 0; i < SCHEDULER_BUCKETS; i++) {
        count += latency->counts[i];
        buf_addf(buf, "%s_bucket{le=\"%u\"} %" PRIu64 "\n", name, 5U << i, count);
    }
    count += latency->counts[SCHEDULER_BUCKETS];
    buf_addf(buf, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %" PRIu64 "\n%s_count %" PRIu64 "\n",
             name, count, name, latency->sum_ms, name, count);
}

void latency_add(struct latency *latency, size_t times, int64_t took_ms)
{
    unsigned bucket = 0;

    while (bucket < SCHEDULER_BUCKETS && took_ms > (int64_t)5 << bucket)
        bucket++;
    latency->counts[bucket] += times;
    latency->sum_ms += (uint64_t)(took_ms > 0 ? took_ms : 0) * times;
}

void scheduler_stats_begin(struct scheduler_stats *stats)
{
    stats->at_us = clock_monotonic_us();
}

void scheduler_stats_step(void *user, enum sched_step step)
{
    struct scheduler_stats *stats = user;
    int64_t now_us = clock_monotonic_us();

    stats->last_us[step] = now_us - stats->at_us;
    stats->all_us[step] += (uint64_t)stats->last_us[step];
    stats->at_us = now_us;
}

void scheduler_stats_bound(struct scheduler_stats *stats, size_t pods, int64_t took_ms)
{
    stats->bound += pods;
    latency_add(&stats->bind, pods, took_ms);
}

void scheduler_stats_plan(struct scheduler_stats *stats,
                          const struct sched_plan *plan,
                          int64_t now_ms)
{
    stats->cycles++;
    memset(stats->waiting, 0, sizeof(stats->waiting));
    for (size_t i = 0; i < plan->waiting_count; i++)
        stats->waiting[plan->waiting[i].reason]++;
    for (size_t i = 0; i < plan->bind_count; i++)
        latency_add(&stats->wait, 1, now_ms - plan->binds[i].created_ms);
    for (size_t i = 0; i < plan->evict_count; i++) {
        const struct sched_evict *evict = &plan->evicts[i];
        const struct sched_evict *before = i ? &plan->evicts[i - 1] : NULL;

        stats->evicted[evict->action]++;
        stats->helped +=
            evict->for_group.len && (!before || !str_eq(before->for_group, evict->for_group) ||
                                     !str_eq(before->for_ns, evict->for_ns));
    }
}

static double ms(int64_t us)
{
    return (double)us / 1000;
}

/* What the steps of cycles take. */
static void step_lines(struct buf *buf, const struct scheduler_stats *stats)
{
    static const char *const words[SCHED_STEP_ACTION] = {
        [SCHED_STEP_OPEN] = "open", [SCHED_STEP_SHARES] = "shares"};
    const char *name = "kai_action_scheduling_latency_milliseconds";
    int64_t whole_us = 0;

    for (unsigned i = 0; i < SCHED_STEP_COUNT; i++)
        whole_us += stats->last_us[i];
    fine(buf, "kai_e2e_scheduling_latency_milliseconds", "Time that the last cycle took",
         ms(whole_us));
    fine(buf, "kai_open_session_latency_milliseconds",
         "Time of the last cycle before its actions: queues, ranks of nodes, fair shares",
         ms(stats->last_us[SCHED_STEP_OPEN] + stats->last_us[SCHED_STEP_SHARES]));
    fine(buf, "kai_close_session_latency_milliseconds",
         "Time of the last cycle after its actions: reasons for waiting, the plan",
         ms(stats->last_us[SCHED_STEP_PLAN]));
    head(buf, name, "gauge", "Time that an action of the last cycle took");
    for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++)
        buf_addf(buf, "%s{action=\"%s\"} %.15g\n", name, sched_action_word((enum sched_action)i),
                 ms(stats->last_us[SCHED_STEP_ACTION + i]));
    name = "muster_scheduler_step_seconds_total";
    head(buf, name, "counter", "Time that the steps of all cycles took");
    for (unsigned i = 0; i < SCHED_STEP_COUNT; i++)
        buf_addf(buf, "%s{step=\"%s\"} %.15g\n", name,
                 i < SCHED_STEP_ACTION ? words[i]
                 : i < SCHED_STEP_PLAN
                     ? sched_action_word((enum sched_action)(i - SCHED_STEP_ACTION))
                     : "plan",
                 (double)stats->all_us[i] / 1e6);
}

/* What actions did. X(name, help, value of struct sched_tally t) */
#define ACTION_METRICS(X)                                                                    \
    X("kai_podgroups_acted_on_by_action", "Groups that an action examined, over all cycles", \
      t.tried)                                                                               \
    X("kai_podgroups_scheduled_by_action", "Groups that an action found room for", t.placed) \
    X("kai_scenarios_simulation_by_action", "Sets of victims that an action simulated",      \
      t.simulated)                                                                           \
    X("kai_scenarios_filtered_by_action",                                                    \
      "Sets of victims that an action rejected without simulation", t.filtered)

static void action_lines(struct buf *buf, const struct sched *core, const char *name, size_t which)
{
    for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++) {
        struct sched_tally t;

        sched_tally(core, (enum sched_action)i, &t);
#define ACTION_VALUE(metric, help, value) (value),
        const uint64_t values[] = {ACTION_METRICS(ACTION_VALUE)};
#undef ACTION_VALUE
        buf_addf(buf, "%s{action=\"%s\"} %" PRIu64 "\n", name,
                 sched_action_word((enum sched_action)i), values[which]);
    }
}

static void waiting_lines(struct buf *buf, const struct scheduler_stats *stats)
{
    const char *name = "muster_scheduler_waiting_groups";

    head(buf, name, "gauge", "Pod groups that wait, by reason");
    for (unsigned i = SCHED_REASON_NONE + 1; i < SCHED_REASON_COUNT; i++)
        buf_addf(buf, "%s{reason=\"%s\"} %" PRIu64 "\n", name,
                 sched_reason_word((enum sched_reason)i), stats->waiting[i]);
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
    whole(buf, "muster_scheduler_groups", "gauge", "Pod groups the scheduler knows", counts.groups);
    whole(buf, "muster_scheduler_queues", "gauge", "Queues the scheduler knows", counts.queues);
    whole(buf, "muster_scheduler_cycles_total", "counter", "Cycles of the scheduler",
          stats->cycles);
    whole(buf, "muster_scheduler_bound_pods_total", "counter", "Pods bound", stats->bound);
    whole(buf, "muster_scheduler_bind_failures_total", "counter", "Binds that were refused",
          stats->bind_failures);
    user_lines(buf, core, cache);
    waiting_lines(buf, stats);
    step_lines(buf, stats);
#define ACTION_LINES(name, help, value) \
    head(buf, name, "counter", help);   \
    action_lines(buf, core, name, which++);
    ACTION_METRICS(ACTION_LINES)
#undef ACTION_LINES
    which = 0;
    whole(buf, "kai_total_preemption_attempts", "counter", "Groups for which others were evicted",
          stats->helped);
    head(buf, "kai_pod_group_evicted_pods_total", "counter", "Pods evicted, by the rule");
    for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++)
        buf_addf(buf, "kai_pod_group_evicted_pods_total{action=\"%s\"} %" PRIu64 "\n",
                 sched_action_word((enum sched_action)i), stats->evicted[i]);
    latency_lines(buf, "kai_task_scheduling_latency_milliseconds",
                  "Time from a pod's creation (known to the second) to the decision on it",
                  &stats->wait);
    latency_lines(buf, "kai_task_bind_latency_milliseconds",
                  "Time from the decision to the answered bind, per pod", &stats->bind);
    latency_lines(buf, "kai_usage_query_latency_milliseconds",
                  "Time that Prometheus took to answer queries for use over time", &stats->usage);
    whole(buf, "muster_usage_query_failures_total", "counter",
          "Queries that Prometheus did not answer", stats->usage_failures);
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
