#include "sched/shape.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pack.h"
#include "sched/resource.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shapes: pods of one template ask for the same and may go to the same nodes, so both are worked
 * out once. The identity of a shape is its contents written out as bytes: numbers as eight bytes in
 * host order, texts with their length in front. It never leaves the process. */

static void key_i64(struct buf *key, int64_t value)
{
    buf_add(key, (struct str){(const char *)&value, sizeof(value)});
}

static void key_str(struct buf *key, struct str s)
{
    key_i64(key, (int64_t)s.len);
    buf_add(key, s);
}

static void key_expressions(struct buf *key, const struct sched_expression *items, size_t count)
{
    key_i64(key, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        key_str(key, items[i].key);
        key_i64(key, (int64_t)items[i].op);
        key_i64(key, (int64_t)items[i].value_count);
        for (size_t j = 0; j < items[i].value_count; j++)
            key_str(key, items[i].values[j]);
    }
}

static void key_node_terms(struct buf *key, const struct sched_node_term *items, size_t count)
{
    key_i64(key, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        key_i64(key, items[i].weight);
        key_expressions(key, items[i].labels, items[i].label_count);
        key_expressions(key, items[i].fields, items[i].field_count);
    }
}

static void key_selector(struct buf *key, const struct sched_selector *selector)
{
    key_i64(key, selector->set);
    key_expressions(key, selector->expressions, selector->expression_count);
}

static void key_pod_terms(struct buf *key, const struct sched_pod_term *items, size_t count)
{
    key_i64(key, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        key_selector(key, &items[i].selector);
        key_str(key, items[i].topology_key);
        key_selector(key, &items[i].namespace_selector);
        key_i64(key, items[i].weight);
        key_i64(key, (int64_t)items[i].namespace_count);
        for (size_t j = 0; j < items[i].namespace_count; j++)
            key_str(key, items[i].namespaces[j]);
    }
}

static bool looks_at_pods(const struct sched_pod *pod)
{
    return pod->affinity_count || pod->anti_affinity_count || pod->affinity_preference_count ||
           pod->anti_affinity_preference_count || pod->spread_count;
}

static void key_constraints(struct buf *key, const struct sched_pod *pod)
{
    key_i64(key, (int64_t)pod->node_selector_count);
    for (size_t i = 0; i < pod->node_selector_count; i++) {
        key_str(key, pod->node_selector[i].key);
        key_str(key, pod->node_selector[i].value);
    }
    key_i64(key, pod->node_affinity);
    key_node_terms(key, pod->node_terms, pod->node_term_count);
    key_node_terms(key, pod->node_preferences, pod->node_preference_count);
    key_i64(key, (int64_t)pod->toleration_count);
    for (size_t i = 0; i < pod->toleration_count; i++) {
        const struct sched_toleration *toleration = &pod->tolerations[i];
        key_str(key, toleration->key);
        key_str(key, toleration->value);
        key_i64(key, (int64_t)toleration->effect + (toleration->exists ? 16 : 0) +
                         (toleration->any_effect ? 32 : 0));
    }
    key_i64(key, (int64_t)pod->port_count);
    for (size_t i = 0; i < pod->port_count; i++) {
        key_str(key, pod->ports[i].address);
        key_str(key, pod->ports[i].protocol);
        key_i64(key, pod->ports[i].port);
    }
    key_pod_terms(key, pod->affinity, pod->affinity_count);
    key_pod_terms(key, pod->anti_affinity, pod->anti_affinity_count);
    key_pod_terms(key, pod->affinity_preferences, pod->affinity_preference_count);
    key_pod_terms(key, pod->anti_affinity_preferences, pod->anti_affinity_preference_count);
    key_i64(key, (int64_t)pod->spread_count);
    for (size_t i = 0; i < pod->spread_count; i++) {
        key_selector(key, &pod->spreads[i].selector);
        key_str(key, pod->spreads[i].topology_key);
        key_i64(key, pod->spreads[i].max_skew);
        key_i64(key, pod->spreads[i].min_domains);
        key_i64(key, pod->spreads[i].required + pod->spreads[i].any_selected * 2 +
                         pod->spreads[i].any_taints * 4);
    }
}

static void key_amounts(struct buf *key, const struct sched_amount *amounts, size_t count)
{
    key_i64(key, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        key_str(key, amounts[i].name);
        key_i64(key, amounts[i].amount);
    }
}

static void key_shape(struct buf *key, const struct sched_pod *pod)
{
    const int64_t numbers[] = {pod->cpu_milli,          pod->memory_bytes,   pod->gpus,
                               pod->gpu_fraction_micro, pod->gpu_memory_mib, pod->gpu_devices,
                               pod->keeps_shares,       pod->legacy_mig,     pod->role_rank,
                               pod->has_task_priority,  pod->task_priority};

    buf_add(key, (struct str){(const char *)numbers, sizeof(numbers)});
    key_str(key, pod->invalid);
    key_amounts(key, pod->amounts, pod->amount_count);
    key_i64(key, pod->guaranteed);
    key_i64(key, (int64_t)pod->container_count);
    for (size_t i = 0; i < pod->container_count; i++) {
        key_i64(key, (int64_t)pod->containers[i].role);
        key_amounts(key, pod->containers[i].amounts, pod->containers[i].amount_count);
    }
    /* What the affinity terms mean depends on the namespace; nothing else does. */
    key_str(key, looks_at_pods(pod) ? pod->ns : STR_NONE);
    key_constraints(key, pod);
}

/* Claims of volumes that matter, and how. */
static void key_volumes(struct sched *sched, struct buf *key, const struct sched_pod *pod)
{
    for (size_t i = 0; i < pod->volume_count; i++) {
        const struct volume *volume = volume_get(sched->storage, pod->ns, pod->volumes[i], true);
        bool foreign = i < pod->own_volumes && volume_is_foreign(volume, pod->uid);

        if (volume->kind == VOLUME_FREE && !foreign)
            continue;
        key_i64(key, foreign ? -1 : (int64_t)volume->kind);
        key_str(key, volume->key);
    }
}

static void shape_volumes(struct sched *sched, struct shape *shape, const struct sched_pod *pod)
{
    if (!pod->volume_count)
        return;
    shape->volumes = mem_alloc(pod->volume_count * sizeof(*shape->volumes));
    for (size_t i = 0; i < pod->volume_count; i++) {
        struct volume *volume = volume_get(sched->storage, pod->ns, pod->volumes[i], true);
        bool foreign = i < pod->own_volumes && volume_is_foreign(volume, pod->uid);

        shape->barred = shape->barred || foreign;
        if (volume->kind == VOLUME_FREE && !foreign)
            continue;
        volume->shapes++;
        shape->volumes[shape->volume_count++] = volume;
        shape->mounts = shape->mounts || volume->kind == VOLUME_OPEN;
    }
}

static void shape_wants(struct sched *sched, struct shape *shape)
{
    const struct sched_pod *spec = &shape->spec;
    size_t count = 0;
    struct want *wants = mem_alloc((spec->amount_count + 3) * sizeof(*wants));

    if (spec->cpu_milli > 0)
        wants[count++] = (struct want){RES_CPU, spec->cpu_milli};
    if (spec->memory_bytes > 0)
        wants[count++] = (struct want){RES_MEMORY, spec->memory_bytes};
    if (spec->gpus > 0 && !shape->shared)
        wants[count++] = (struct want){RES_GPU, spec->gpus};
    for (size_t i = 0; i < spec->amount_count; i++) {
        int64_t slices = shape_mig_slices(spec->amounts[i].name);
        int64_t amount = spec->amounts[i].amount;

        if (amount <= 0)
            continue;
        if (slices) {
            shape->wants_mig = true;
            shape->mig_slices += slices * amount;
        }
        wants[count++] = (struct want){res_asked(sched, spec->amounts[i].name), amount};
    }
    shape->wants = wants;
    shape->want_count = count;
}

static struct shape *shape_new(struct sched *sched, const struct sched_pod *pod, struct str key)
{
    struct shape *shape = MEM_NEW(struct shape);
    const struct sched_pod *spec = &shape->spec;

    shape->key = heap_str(key);
    shape->id = ++sched->shape_next_id;
    pack_shape(pod, &shape->spec, &shape->block);
    shape->shared = spec->gpu_fraction_micro > 0 || spec->gpu_memory_mib > 0 || spec->keeps_shares;
    shape->devices = shape->shared ? i64_max(1, spec->gpu_devices) : 0;
    shape_wants(sched, shape);
    shape_volumes(sched, shape, pod);
    shape->best_effort = !shape->want_count && !shape->shared;
    shape->open = !spec->node_selector_count && !spec->node_affinity && !spec->legacy_mig &&
                  !spec->invalid.len && !shape->wants_mig && !spec->gpus && !shape->shared &&
                  !shape->volume_count;
    shape->local = !shape->mounts && !spec->port_count && !spec->affinity_count &&
                   !spec->anti_affinity_count && (!spec->spread_count || QUIRK(sched, NO_SPREAD));
    shape->scored = spec->affinity_preference_count || spec->anti_affinity_preference_count ||
                    shape->shared ||
                    (!QUIRK(sched, NO_PREFERENCES) && spec->node_preference_count) ||
                    (!QUIRK(sched, NO_SPREAD) && spec->spread_count);
    map_set(&sched->shapes, shape->key, shape);
    return shape;
}

struct shape *shape_get(struct sched *sched, const struct sched_pod *pod)
{
    struct buf *key = &sched->shape_key;

    buf_clear(key);
    key_shape(key, pod);
    key_volumes(sched, key, pod);
    struct shape *shape = map_get(&sched->shapes, buf_str(key));
    if (!shape)
        shape = shape_new(sched, pod, buf_str(key));
    shape->refs++;
    return shape;
}

void shape_unref(struct sched *sched, struct shape *shape)
{
    if (!shape || --shape->refs)
        return;
    map_remove(&sched->shapes, shape->key);
    for (size_t i = 0; i < shape->volume_count; i++) {
        shape->volumes[i]->shapes--;
        volume_release(sched->storage, shape->volumes[i]);
    }
    mem_free(shape->volumes);
    mem_free(shape->block);
    mem_free(shape->wants);
    mem_free(shape->known);
    mem_free(shape->allowed);
    mem_free(shape->counts);
    mem_free(shape->scores);
    mem_free((char *)(uintptr_t)shape->key.p);
    mem_free(shape);
}

void shape_node_changed(struct sched *sched, uint32_t slot)
{
    sched->nodes.items[slot]->described = ++sched->descriptions;
    MAP_FOREACH(&sched->shapes, entry) {
        struct shape *shape = entry->value;
        if (slot / 64 < shape->word_count)
            shape->known[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
    }
}
