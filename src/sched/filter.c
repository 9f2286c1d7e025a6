#include "sched/filter.h"

#include "base/mem.h"
#include "base/str.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pool.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Filters that depend on the node's own description only. Their result for a shape and a node is
 * kept as two bits until the node changes. */

struct str node_label(const struct node *node, struct str key)
{
    for (size_t i = 0; i < node->spec.label_count; i++)
        if (str_eq(node->spec.labels[i].key, key))
            return node->spec.labels[i].value;
    return STR_NONE;
}

static bool value_in(const struct sched_expression *expression, struct str value)
{
    for (size_t i = 0; i < expression->value_count; i++)
        if (str_eq(expression->values[i], value))
            return true;
    return false;
}

static bool expression_compares(const struct sched_expression *expression, struct str value)
{
    int64_t have = 0;
    int64_t bound = 0;

    if (expression->value_count != 1 || !str_to_i64(value, &have) ||
        !str_to_i64(expression->values[0], &bound))
        return false;
    return expression->op == SCHED_GT ? have > bound : have < bound;
}

bool filter_holds(const struct sched_expression *expression, struct str value)
{
    switch (expression->op) {
    case SCHED_IN: return str_is_set(value) && value_in(expression, value);
    case SCHED_NOT_IN: return !str_is_set(value) || !value_in(expression, value);
    case SCHED_EXISTS: return str_is_set(value);
    case SCHED_NOT_EXISTS: return !str_is_set(value);
    case SCHED_GT:
    case SCHED_LT: return str_is_set(value) && expression_compares(expression, value);
    }
    return false;
}

bool node_term_matches(const struct node *node, const struct sched_node_term *term)
{
    if (!term->label_count && !term->field_count)
        return false;
    for (size_t i = 0; i < term->label_count; i++)
        if (!filter_holds(&term->labels[i], node_label(node, term->labels[i].key)))
            return false;
    for (size_t i = 0; i < term->field_count; i++)
        if (!filter_holds(&term->fields[i], node->name))
            return false;
    return true;
}

static bool node_terms_match(const struct node *node,
                             const struct sched_node_term *terms,
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (node_term_matches(node, &terms[i]))
            return true;
    return false;
}

static bool taint_tolerated(const struct sched_pod *spec, const struct sched_taint *taint)
{
    for (size_t i = 0; i < spec->toleration_count; i++) {
        const struct sched_toleration *toleration = &spec->tolerations[i];

        if (!toleration->any_effect && toleration->effect != taint->effect)
            continue;
        if (toleration->key.len && !str_eq(toleration->key, taint->key))
            continue;
        if (toleration->exists || str_eq(toleration->value, taint->value))
            return true;
    }
    return false;
}

/* A cordon is this taint, whether or not somebody has written it on the node. */
static bool cordon_tolerated(const struct sched_pod *spec)
{
    const struct sched_taint cordon = {.key = STR("node.kubernetes.io/unschedulable"),
                                       .effect = SCHED_NO_SCHEDULE};

    return taint_tolerated(spec, &cordon);
}

bool filter_tolerates(const struct sched_pod *spec, const struct node *node, bool prefer)
{
    for (size_t i = 0; i < node->spec.taint_count; i++) {
        const struct sched_taint *taint = &node->spec.taints[i];

        if ((taint->effect == SCHED_PREFER_NO_SCHEDULE) == prefer && !taint_tolerated(spec, taint))
            return false;
    }
    return true;
}

static bool gpu_type_fits(const struct shape *shape, const struct node *node)
{
    const struct sched_pod *spec = &shape->spec;
    bool whole = spec->gpus > 0 && !shape->shared;

    if (spec->gpu_memory_mib > 0 && node->spec.gpu_memory_mib <= 0)
        return false;
    /* Its GPUs are claimed: no device plugin hands them out. Parts of them nobody does. */
    if ((shape->shared || (whole && !node->device_served)) && !node->spec.gpus && node->device_gpus)
        return false;
    if (node->pool->policy.without_filters)
        return true;
    if (!node->mig)
        return !shape->wants_mig;
    if (shape->shared)
        return false;
    if (node->spec.mig == SCHED_MIG_SINGLE)
        return !shape->wants_mig;
    if (node->spec.mig == SCHED_MIG_MIXED)
        return !whole;
    return true;
}

static bool roles_fit(const struct shape *shape, const struct node *node)
{
    const struct sched_pod *spec = &shape->spec;

    if (!node->pool->policy.restrict_nodes)
        return true;
    return spec->gpus || shape->shared || shape->wants_mig ? node->spec.gpu_worker
                                                           : node->spec.cpu_worker;
}

bool filter_selects(const struct sched_pod *spec, const struct node *node)
{
    for (size_t i = 0; i < spec->node_selector_count; i++) {
        struct str value = node_label(node, spec->node_selector[i].key);
        if (!str_is_set(value) || !str_eq(value, spec->node_selector[i].value))
            return false;
    }
    return !spec->node_affinity || node_terms_match(node, spec->node_terms, spec->node_term_count);
}

enum place_filter filter_static(const struct shape *shape, const struct node *node)
{
    const struct sched_pod *spec = &shape->spec;

    if (!node->ready || (!node->schedulable && !cordon_tolerated(spec)))
        return PLACE_UNREADY;
    if (!gpu_type_fits(shape, node))
        return PLACE_GPU_TYPE;
    if (node->pool->policy.without_filters)
        return PLACE_OK;
    if (spec->legacy_mig || spec->invalid.len)
        return PLACE_GPU_TYPE;
    if (!filter_selects(spec, node))
        return PLACE_SELECTOR;
    if (!filter_tolerates(spec, node, false))
        return PLACE_TAINT;
    if (shape->barred)
        return PLACE_VOLUME;
    for (size_t i = 0; i < shape->volume_count; i++)
        if (!volume_reaches(shape->volumes[i], node))
            return PLACE_VOLUME;
    return roles_fit(shape, node) ? PLACE_OK : PLACE_SELECTOR;
}

bool filter_allowed(const struct sched *sched, struct shape *shape, const struct node *node)
{
    size_t word = node->slot / 64;
    uint64_t bit = UINT64_C(1) << (node->slot % 64);

    if (word >= shape->word_count) {
        size_t count = sched->nodes.count / 64 + 1;
        uint64_t *known = mem_alloc(count * sizeof(*known));
        uint64_t *allowed = mem_alloc(count * sizeof(*allowed));

        if (shape->word_count) {
            memcpy(known, shape->known, shape->word_count * sizeof(*known));
            memcpy(allowed, shape->allowed, shape->word_count * sizeof(*allowed));
        }
        mem_free(shape->known);
        mem_free(shape->allowed);
        shape->known = known;
        shape->allowed = allowed;
        shape->word_count = count;
    }
    if (!(shape->known[word] & bit)) {
        shape->known[word] |= bit;
        if (filter_static(shape, node) == PLACE_OK)
            shape->allowed[word] |= bit;
        else
            shape->allowed[word] &= ~bit;
    }
    return (shape->allowed[word] & bit) != 0;
}
