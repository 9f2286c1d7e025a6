#include "sched/tenant.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "sched/affinity.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/queue.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>

#define UNKNOWN_NAMED 5 /* of the queues that somebody could have meant */

static bool takes(const struct sched *sched, const struct sched_tenants *tenants, struct str ns)
{
    for (size_t i = 0; i < tenants->name_count; i++)
        if (str_eq(tenants->names[i], ns))
            return true;
    return !tenants->closed ||
           (tenants->selector.set &&
            affinity_selector_means(&tenants->selector, map_get(&sched->namespaces, ns)));
}

static const struct queue *refused_by(const struct sched *sched,
                                      const struct queue *queue,
                                      struct str ns)
{
    for (; queue; queue = queue->parent)
        if (!takes(sched, &queue->spec.tenants, ns))
            return queue;
    return NULL;
}

const struct queue *tenant_refused_by(const struct sched *sched, const struct group *group)
{
    return refused_by(sched, group->queue, group->ns);
}

struct str tenant_unknown_text(const struct sched *sched, const struct group *group)
{
    struct arena *arena = sched->arena;
    struct str text = str_printf(arena, "queue \"" STR_FMT "\" does not exist",
                                 STR_ARG(name_text(group->queue_name)));
    size_t count = 0;

    for (size_t i = 0; i < sched->queues.count; i++) {
        const struct queue *queue = sched->queues.items[i];

        if (!queue->known || queue->broken || queue->children.count ||
            !str_eq(queue->spec.pool, name_text(group->pool_name)) ||
            refused_by(sched, queue, group->ns))
            continue;
        if (count == UNKNOWN_NAMED)
            return str_printf(arena, STR_FMT ", ...", STR_ARG(text));
        text = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(text),
                          count++ ? ", " : "; those that would take it: ", STR_ARG(queue->name));
    }
    return text;
}

struct str tenant_text(const struct sched *sched, const struct group *group)
{
    struct arena *arena = sched->arena;
    const struct queue *queue = group->queue, *refused = tenant_refused(sched, group);

    if (queue->broken)
        return str_printf(arena,
                          "queue " STR_FMT ": its parent \"" STR_FMT
                          "\" does not exist or is part of a cycle",
                          STR_ARG(queue->name), STR_ARG(queue->spec.parent));
    if (queue->children.count)
        return str_printf(arena, "queue " STR_FMT " has child queues; submit to one of them",
                          STR_ARG(queue->name));
    if (refused)
        return str_printf(arena, "queue " STR_FMT " takes no work of namespace " STR_FMT,
                          STR_ARG(refused->name), STR_ARG(group->ns));
    return str_printf(
        arena,
        "queue " STR_FMT " belongs to node pool \"" STR_FMT "\", the pod group to \"" STR_FMT "\"",
        STR_ARG(queue->name), STR_ARG(queue->spec.pool), STR_ARG(name_text(group->pool_name)));
}

static bool names_same(const struct str *a, const struct str *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!str_eq(a[i], b[i]))
            return false;
    return true;
}

bool tenants_same(const struct sched_tenants *a, const struct sched_tenants *b)
{
    if (a->closed != b->closed || a->name_count != b->name_count ||
        a->selector.set != b->selector.set ||
        a->selector.expression_count != b->selector.expression_count ||
        !names_same(a->names, b->names, a->name_count))
        return false;
    for (size_t i = 0; i < a->selector.expression_count; i++) {
        const struct sched_expression *one = &a->selector.expressions[i];
        const struct sched_expression *other = &b->selector.expressions[i];

        if (one->op != other->op || !str_eq(one->key, other->key) ||
            one->value_count != other->value_count ||
            !names_same(one->values, other->values, one->value_count))
            return false;
    }
    return true;
}
