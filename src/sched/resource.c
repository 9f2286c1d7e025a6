#include "sched/resource.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/state.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Numbers of resources, in the order in which they were first named. */

static uint32_t res_known(const struct sched *sched, struct str name)
{
    const void *known = map_get(&sched->resource_ids, name);

    return (uint32_t)(uintptr_t)known; /* 0: it is not */
}

static uint32_t res_new(struct sched *sched, struct str name)
{
    struct str copy = heap_str(name);
    uintptr_t id = sched->resources.count;

    VEC_PUSH(NULL, &sched->resources, copy);
    map_set(&sched->resource_ids, copy, (void *)id);
    if (id < sched->resource_capacity)
        return (uint32_t)id;
    size_t capacity = sched->resource_capacity * 2;
    for (size_t i = 0; i < sched->nodes.count; i++) {
        struct node *node = sched->nodes.items[i];
        if (!node)
            continue;
        int64_t *amounts = mem_alloc(3 * capacity * sizeof(*amounts));
        memcpy(amounts, node->total, sched->resource_capacity * sizeof(*amounts));
        memcpy(amounts + capacity, node->idle, sched->resource_capacity * sizeof(*amounts));
        memcpy(amounts + 2 * capacity, node->releasing,
               sched->resource_capacity * sizeof(*amounts));
        mem_free(node->total);
        node->total = amounts;
        node->idle = amounts + capacity;
        node->releasing = amounts + 2 * capacity;
    }
    sched->resource_capacity = capacity;
    return (uint32_t)id;
}

uint32_t res_id(struct sched *sched, struct str name)
{
    uint32_t id = res_known(sched, name);

    if (id)
        return id;
    return sched->resources.count < RES_MAX - 1 ? res_new(sched, name) : RES_NONE;
}

uint32_t res_asked(struct sched *sched, struct str name)
{
    const struct str rest = STR("a resource that no node has"); /* and none can be called so */
    uint32_t id = res_known(sched, name);

    if (id)
        return id;
    if (sched->resources.count < RES_ASKED)
        return res_new(sched, name);
    id = res_known(sched, rest);
    return id ? id : res_new(sched, rest);
}

/* "nvidia.com/mig-2g.10gb" stands for 2 slices of a device; 0 for other resources. */
int64_t shape_mig_slices(struct str name)
{
    const struct str prefix = STR("nvidia.com/mig-");
    int64_t slices = 0;

    if (!str_starts(name, prefix))
        return 0;
    for (size_t i = prefix.len; i < name.len && name.p[i] >= '0' && name.p[i] <= '9'; i++)
        slices = slices * 10 + (name.p[i] - '0');
    return slices > 0 && slices < 100 ? slices : 1;
}
