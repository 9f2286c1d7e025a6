#include "sched/world_test.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/verify.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define START_MS INT64_C(1800000000000)

void cluster_open_as(struct cluster *cluster, const struct sched_config *config)
{
    *cluster = (struct cluster){.sched = sched_new(config), .now = START_MS};
}

void cluster_open(struct cluster *cluster, uint64_t quirks)
{
    struct sched_config config;

    sched_config_default(&config);
    config.quirks = quirks;
    cluster_open_as(cluster, &config);
}

void cluster_close(struct cluster *cluster)
{
    sched_free(cluster->sched);
    arena_done(&cluster->arena);
}

void cluster_queue(struct cluster *cluster, const char *name, double gpu_quota, double gpu_limit)
{
    struct sched_queue queue = {.name = str_from(name),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    queue.quota[SCHED_GPU].quota = gpu_quota;
    queue.quota[SCHED_GPU].limit = gpu_limit;
    sched_put_queue(cluster->sched, &queue);
}

void cluster_node(struct cluster *cluster, const char *name, int64_t gpus)
{
    sched_put_node(cluster->sched, &(struct sched_node){.name = str_from(name),
                                                        .cpu_milli = 64000,
                                                        .memory_bytes = INT64_C(1) << 38,
                                                        .gpus = gpus,
                                                        .pods = 110});
}

void cluster_claim(struct cluster *cluster, const char *name, int64_t devices)
{
    sched_put_claim(cluster->sched, &(struct sched_claim){.ns = STR("ns"),
                                                          .name = str_from(name),
                                                          .queue = STR("q"),
                                                          .device_class = STR("gpu.example.com"),
                                                          .device_count = devices});
}

void cluster_put(struct cluster *cluster, const struct job *job)
{
    int64_t pods = job->pods ? job->pods : 1;
    struct sched_claim_use claim = {.name = str_from(job->claim ? job->claim : "")};
    struct str volume = str_from(job->volume ? job->volume : "");

    sched_put_group(cluster->sched,
                    &(struct sched_group){.ns = STR("ns"),
                                          .name = str_from(job->name),
                                          .queue = str_from(job->queue ? job->queue : "q"),
                                          .min_member = job->min ? job->min : pods,
                                          .created_ms = cluster->now,
                                          .has_priority = true,
                                          .priority = job->priority,
                                          .preemptibility = job->kind,
                                          .preempt_delay_ms = job->preempt_delay_ms});
    for (int64_t i = 0; i < pods; i++) {
        struct sched_pod pod = {.ns = STR("ns"),
                                .name =
                                    str_printf(&cluster->arena, "%s-%lld", job->name, (long long)i),
                                .group = str_from(job->name),
                                .created_ms = cluster->now,
                                .cpu_milli = 1000,
                                .memory_bytes = INT64_C(1) << 30,
                                .gpus = job->gpus,
                                .claims = &claim,
                                .claim_count = job->claim ? 1 : 0,
                                .deadline_ms = job->deadline_ms,
                                .role_rank = 2};
        pod.uid = pod.name;
        if (job->volume_last && i == pods - 1)
            volume = str_from(job->volume_last);
        pod.volumes = &volume;
        pod.volume_count = volume.len ? 1 : 0;
        pod.own_volumes = job->own_volume ? pod.volume_count : 0;
        if (job->node) {
            pod.node = str_from(job->node);
            pod.phase = job->ending ? SCHED_RELEASING : SCHED_RUNNING;
            pod.started_ms = cluster->now;
            pod.deleted_ms = job->ending ? cluster->now : 0;
        }
        sched_put_pod(cluster->sched, &pod);
    }
}

void cluster_drop(struct cluster *cluster, const char *pod)
{
    sched_drop_pod(cluster->sched, STR("ns"), str_from(pod));
}

void cluster_decide(struct cluster *cluster, int64_t later_ms)
{
    struct err err = {0};

    cluster->now += later_ms;
    sched_cycle(cluster->sched, cluster->now, &cluster->arena, &cluster->plan);
    EXPECT(sched_verify(cluster->sched, &err) == 0);
}

const struct sched_bind *cluster_bind(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.bind_count; i++)
        if (str_is(cluster->plan.binds[i].pod.name, pod))
            return &cluster->plan.binds[i];
    return NULL;
}

bool cluster_bound(const struct cluster *cluster, const char *pod)
{
    return cluster_bind(cluster, pod) != NULL;
}

bool cluster_evicted(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.evict_count; i++)
        if (str_is(cluster->plan.evicts[i].pod.name, pod))
            return true;
    return false;
}

bool cluster_promised(const struct cluster *cluster, const char *pod)
{
    for (size_t i = 0; i < cluster->plan.nominate_count; i++)
        if (str_is(cluster->plan.nominates[i].pod.name, pod))
            return true;
    return false;
}

const struct sched_waiting *cluster_waiting(const struct cluster *cluster, const char *group)
{
    for (size_t i = 0; i < cluster->plan.waiting_count; i++)
        if (str_is(cluster->plan.waiting[i].group, group))
            return &cluster->plan.waiting[i];
    return NULL;
}

double cluster_used(const struct cluster *cluster, const char *queue)
{
    struct sched_queue_view view = {0};

    EXPECT(sched_queue_view(cluster->sched, str_from(queue), &view));
    return view.allocated[SCHED_GPU];
}

size_t cluster_shapes(const struct cluster *cluster)
{
    return cluster->sched->shapes.count;
}
