#include "sched/sched.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/alike.h"
#include "sched/claim.h"
#include "sched/device.h"
#include "sched/event.h"
#include "sched/fragment.h"
#include "sched/leaving.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/numa.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/topology.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The core as a whole: its configuration, its beginning and its end. */

void sched_config_default(struct sched_config *config)
{
    *config = (struct sched_config){
        .policy = {.actions = SCHED_ACTIONS_ALL,
                   .stale_grace_ms = 60000,
                   .stuck_after_ms = LEAVING_STUCK_MS,
                   .consolidate_max = 16,
                   .consolidating_reclaim = true,
                   .k_value = 1.0,
                   .saturation = 1.0,
                   .reserve_after_ms = 300000},
        .queue_label = STR("kai.scheduler/queue"),
        .pool_label = STR("kai.scheduler/node-pool"),
    };
}

struct sched *sched_new(const struct sched_config *config)
{
    struct sched *sched = MEM_NEW(struct sched);
    struct map *maps[] = {&sched->nodes_by_name,  &sched->pods_by_key, &sched->groups_by_key,
                          &sched->queues_by_name, &sched->classes,     &sched->topologies,
                          &sched->namespaces,     &sched->claims,      &sched->shapes,
                          &sched->pools_by_name,  &sched->names,       &sched->resource_ids};
    const struct str names[] = {STR("cpu"), STR("memory"), STR("nvidia.com/gpu"), STR("pods")};

    sched->devices = MEM_NEW(struct devices);
    sched->storage = storage_new();
    sched->devices->by_key.seed = sched->devices->selectors.seed = config->seed;
    sched->devices->slices.seed = sched->devices->classes.seed = config->seed;
    sched->config = *config;
    sched->config.scheduler_name = str_dup(&sched->config_arena, config->scheduler_name);
    sched->config.queue_label = str_dup(&sched->config_arena, config->queue_label);
    sched->config.pool_label = str_dup(&sched->config_arena, config->pool_label);
    for (size_t i = 0; i < COUNT_OF(maps); i++)
        maps[i]->seed = config->seed;
    sched->resource_capacity = 8;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct str name = heap_str(names[i]);
        if (i) /* number 0 cannot be told from absent in the map; nobody asks for "cpu" by name */
            map_set(&sched->resource_ids, name, (void *)i);
        VEC_PUSH(NULL, &sched->resources, name);
    }
    (void)pool_get(sched, STR(""));
    fragment_policy(sched);
    sched->queues_dirty = true;
    return sched;
}

void sched_set_policy(struct sched *sched, struct str pool, const struct sched_policy *policy)
{
    struct pool *own = pool_get(sched, pool);

    tapped(sched,
           &(struct sched_input){.kind = SCHED_INPUT_POLICY, .name = pool, .policy = policy});
    if (pool.len) {
        own->own_policy = policy != NULL;
        own->policy = policy ? *policy : sched->config.policy;
    } else {
        sched->config.policy = *policy;
        for (size_t i = 0; i < sched->pools.count; i++)
            if (!sched->pools.items[i]->own_policy)
                sched->pools.items[i]->policy = *policy;
    }
    /* The static filters of nodes may answer differently now. */
    for (size_t i = 0; i < sched->nodes.count; i++)
        if (sched->nodes.items[i]) {
            shape_node_changed(sched, (uint32_t)i);
            numa_policy_changed(sched, sched->nodes.items[i]);
        }
    sched->queues_dirty = true;
    sched->totals_dirty = true;
    fragment_policy(sched);
    sched->changed = true;
}

bool sched_next_policy(const struct sched *sched,
                       size_t *cursor,
                       struct str *ret_pool,
                       struct sched_policy *ret)
{
    while (*cursor < sched->pools.count) {
        const struct pool *pool = sched->pools.items[(*cursor)++];

        if (!pool->own_policy)
            continue;
        *ret_pool = pool->name;
        *ret = pool->policy;
        return true;
    }
    return false;
}

void sched_set_names(struct sched *sched,
                     struct str scheduler_name,
                     struct str queue_label,
                     struct str pool_label)
{
    struct arena old = sched->config_arena;

    tapped(sched, &(struct sched_input){.kind = SCHED_INPUT_NAMES,
                                        .ns = scheduler_name,
                                        .name = queue_label,
                                        .pool = pool_label});
    sched->config_arena = (struct arena){0};
    sched->config.scheduler_name = str_dup(&sched->config_arena, scheduler_name);
    sched->config.queue_label = str_dup(&sched->config_arena, queue_label);
    sched->config.pool_label = str_dup(&sched->config_arena, pool_label);
    arena_done(&old);
}

bool sched_counts_starts(const struct sched *sched)
{
    if (sched->limited.count)
        return true;
    for (size_t i = 0; i < sched->pools.count; i++) {
        const struct sched_policy *policy = &sched->pools.items[i]->policy;

        if (policy->preempt_min_runtime_ms > 0 || policy->reclaim_min_runtime_ms > 0)
            return true;
    }
    MAP_FOREACH(&sched->queues_by_name, entry) {
        const struct sched_queue *queue = &((const struct queue *)entry->value)->spec;

        if (queue->preempt_min_runtime_ms > 0 || queue->reclaim_min_runtime_ms > 0)
            return true;
    }
    return false;
}

void sched_set_usage(struct sched *sched,
                     struct str queue,
                     const double usage[static SCHED_RESOURCES])
{
    struct queue *found = map_get(&sched->queues_by_name, queue);

    tapped(sched, &(struct sched_input){.kind = SCHED_INPUT_USAGE, .name = queue, .usage = usage});
    if (!found)
        return;
    for (size_t r = 0; r < SCHED_RESOURCES; r++)
        found->usage[r] = usage[r];
    found->has_usage = true;
    sched->queues_dirty = true;
    sched->changed = true;
    sched->changed = true;
}

void sched_forget_usage(struct sched *sched, struct str pool)
{
    tapped(sched, &(struct sched_input){.kind = SCHED_INPUT_FORGET, .name = pool});
    MAP_FOREACH(&sched->queues_by_name, entry) {
        struct queue *queue = entry->value;

        if (str_eq(queue->spec.pool, pool))
            queue->has_usage = false;
    }
    sched->queues_dirty = true;
    sched->changed = true;
}

bool sched_next_usage(const struct sched *sched,
                      size_t *cursor,
                      struct str *ret_queue,
                      double ret[static SCHED_RESOURCES])
{
    const struct map *queues = &sched->queues_by_name;

    while (*cursor < queues->entry_count) {
        struct map_entry *entry = map_live(queues, &queues->entries[*cursor]);
        const struct queue *queue = entry ? entry->value : NULL;

        *cursor = entry ? (size_t)(entry - queues->entries) + 1 : queues->entry_count;
        if (!queue || !queue->has_usage)
            continue;
        *ret_queue = queue->name;
        for (size_t r = 0; r < SCHED_RESOURCES; r++)
            ret[r] = queue->usage[r];
        return true;
    }
    return false;
}

static void objects_free(struct sched *sched)
{
    MAP_FOREACH(&sched->pods_by_key, entry) {
        struct pod *pod = entry->value;
        pod_out(sched, pod);
        pod_forget(sched, pod);
    }
    MAP_FOREACH(&sched->groups_by_key, entry)
        group_free(sched, entry->value);
    MAP_FOREACH(&sched->queues_by_name, entry)
        queue_free(entry->value);
    for (size_t i = 0; i < sched->nodes.count; i++)
        if (sched->nodes.items[i]) {
            numa_free(sched->nodes.items[i]->numa);
            node_free(sched->nodes.items[i]);
        }
    MAP_FOREACH(&sched->classes, entry) {
        struct sched_priority_class *class = entry->value;
        heap_str_free(class->name);
        mem_free(class);
    }
    MAP_FOREACH(&sched->topologies, entry) {
        struct topology *topology = entry->value;
        mem_free(topology->block);
        heap_str_free(topology->name);
        mem_free(topology);
    }
    MAP_FOREACH(&sched->namespaces, entry)
        mem_free(entry->value);
    MAP_FOREACH(&sched->claims, entry) {
        struct claim *claim = entry->value;
        claim->known = false;
        claim_release(sched, claim);
    }
}

static bool pod_is_settled(const struct pod *pod)
{
    bool asked = pod->evicting && pod->observed != ST_RELEASING;

    return !asked && !pod->resuming && pod->status != ST_BINDING;
}

bool sched_is_settled(const struct sched *sched, size_t pods)
{
    /* One that is suspended has a second entry, for what it holds meanwhile. */
    if (sched->holds.count || sched->pods_by_key.count != pods + sched->homed.count)
        return false;
    MAP_FOREACH(&sched->pods_by_key, entry)
        if (!pod_is_settled(entry->value))
            return false;
    return true;
}

void sched_restart(struct sched *sched)
{
    struct sched *fresh = sched_new(&sched->config);
    struct sched_policy policy;
    struct str pool = STR_NONE;
    size_t cursor = 0;

    while (sched_next_policy(sched, &cursor, &pool, &policy))
        sched_set_policy(fresh, pool, &policy);
    fresh->measure = sched->measure;
    fresh->measure_user = sched->measure_user;
    fresh->tap = sched->tap;
    fresh->tap_user = sched->tap_user;
    memcpy(fresh->tally, sched->tally, sizeof(fresh->tally));

    struct sched old = *sched;
    *sched = *fresh; /* nothing in it points back to it */
    *fresh = old;
    fresh->tap = NULL;
    sched_free(fresh);
}

void sched_free(struct sched *sched)
{
    if (!sched)
        return;
    objects_free(sched);
    devices_free(sched->devices);
    fragment_free(sched);
    storage_free(sched->storage);
    mem_free(sched->stem);
    names_swept(sched);
    for (size_t i = 0; i < sched->pools.count; i++) {
        struct pool *pool = sched->pools.items[i];
        VEC_DONE(&pool->nodes);
        VEC_DONE(&pool->tops);
        alike_free(pool);
        heap_str_free(pool->name);
        mem_free(pool);
    }
    for (size_t i = 0; i < sched->resources.count; i++)
        heap_str_free(sched->resources.items[i]);
    struct map *maps[] = {&sched->nodes_by_name,  &sched->pods_by_key, &sched->groups_by_key,
                          &sched->queues_by_name, &sched->classes,     &sched->topologies,
                          &sched->namespaces,     &sched->claims,      &sched->shapes,
                          &sched->pools_by_name,  &sched->names,       &sched->resource_ids};
    for (size_t i = 0; i < COUNT_OF(maps); i++)
        map_done(maps[i]);
    VEC_DONE(&sched->nodes);
    VEC_DONE(&sched->alike_due);
    VEC_DONE(&sched->closers_due);
    VEC_DONE(&sched->queues);
    VEC_DONE(&sched->pools);
    VEC_DONE(&sched->strays);
    VEC_DONE(&sched->resources);
    VEC_DONE(&sched->journal);
    VEC_DONE(&sched->touched);
    VEC_DONE(&sched->slots);
    VEC_DONE(&sched->promised);
    VEC_DONE(&sched->leaving);
    VEC_DONE(&sched->homed);
    VEC_DONE(&sched->anti_pods);
    VEC_DONE(&sched->given_up);
    VEC_DONE(&sched->holds);
    VEC_DONE(&sched->limited);
    VEC_DONE(&sched->notes);
    VEC_DONE(&sched->stale);
    VEC_DONE(&sched->keeps);
    VEC_DONE(&sched->rooms);
    buf_done(&sched->shape_key);
    topology_cache_free(sched->topology_cache);
    arena_done(&sched->config_arena);
    mem_free(sched);
}
