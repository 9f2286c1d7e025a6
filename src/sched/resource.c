#include "sched/resource.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/state.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Numbers of resources, in the order in which they were first named. */

uint32_t res_id(struct sched *sched, struct str name)
{
    const void *known = map_get(&sched->resource_ids, name);
    uintptr_t id = (uintptr_t)known;

    if (id)
        return (uint32_t)id;
    assert(sched->resources.count < RES_MAX);
    struct str copy = heap_str(name);
    id = sched->resources.count;
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
