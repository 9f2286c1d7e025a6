#pragma once

struct arena;
struct err;
struct json;
struct sched;
struct sched_config;
struct sched_policy;

/* policy: how a scheduler is run, as JSON: /debug/snapshot and recordings have
 * it, `muster simulate` and `muster replay` read it.
 * Everything that a decision depends on beside the objects is in it, so that a replay decides the
 * same:
 *
 *     schedulerName, queueLabel, poolLabel, devices: numbered|reserved|whole, quirks: [word],
 *     the members of a policy, of what is in no node pool;
 *     pools: [{name: a, and the members of a policy}]    # those that a SchedulingShard runs
 *     usage: {queue: {cpu: 0.5, memory: 0, gpu: 0.25}}   # over time, as shares of the pool
 *
 * A policy is
 *
 *     actions: [allocate], queueDepthPerAction: {reclaim: 3}, gpuPlacement, cpuPlacement:
 *     binpack|spread|fragmentation|fgd, staleGrace, stuckAfter, reserveAfter, preemptMinRuntime,
 * reclaimMinRuntime: 60s, consolidateMax: 16, kValue: 1, saturation: 1, and true or false:
 * consolidatingReclaim, lendExpected, restrictNodes, reclaimRuntimeByQueue, withoutProportion, withoutFilters,
 * withoutPlacement */
struct json *policy_tell(struct arena *arena, const struct sched *sched);
/* The members of one policy alone. */
void policy_tell_one(struct arena *arena, const struct sched_policy *policy, struct json *to);
int policy_read_one(const struct json *from, struct sched_policy *policy, struct err *err);

/* What is left out stays as it is. -EINVAL with the member's name. The strings are those of `from`.
 */
int policy_read_config(const struct json *from, struct sched_config *config, struct err *err);
/* The rest of the same JSON: once the scheduler is there, and once its queues are. */
int policy_read_pools(const struct json *from, struct sched *sched, struct err *err);
void policy_read_usage(const struct json *from, struct sched *sched);
