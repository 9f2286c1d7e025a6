#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/claim.h"
#include "sched/device.h"
#include "sched/event.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/numa.h"
#include "sched/pack.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stddef.h>
#include <stdint.h>

/* Devices and claims of them, and NUMA zones. */

void sched_put_claim(struct sched *sched, const struct sched_claim *spec)
{
    struct claim *claim = claim_get(sched, spec->ns, spec->name, true);

    mem_free(claim->block);
    pack_claim(spec, &claim->spec, &claim->block);
    claim->known = true;
    claim_describe(sched, claim, spec);
    claim->gpu =
        claim->ask ? claim->spec.device_count > 0 : str_contains(spec->device_class, STR("gpu"));
    if (!claim->holders)
        claim->node = spec->node.len ? node_get(sched, spec->node, true) : NULL;
    for (uint32_t i = 0; i < claim->users.count; i++)
        pod_reclaimed(sched, claim->users.items[i]);
    sched->changed = true;
}

void sched_drop_claim(struct sched *sched, struct str ns, struct str name)
{
    struct claim *claim = claim_get(sched, ns, name, false);

    if (!claim || !claim->known)
        return;
    claim->known = false;
    claim->allocated = false;
    /* Whoever may write claims can make one go whose pods run: they have its devices until they end. */
    if (!claim->holders)
        claim_forget_picks(sched, claim);
    for (size_t i = 0; i < claim->picks.count; i++)
        claim->picks.items[i].choice = NULL; /* of what it asked for */
    device_ask_free(sched->devices, claim->ask);
    claim->ask = NULL;
    for (uint32_t i = 0; i < claim->users.count; i++)
        pod_reclaimed(sched, claim->users.items[i]);
    sched->changed = true;
    claim_release(sched, claim);
}

void sched_put_slice(struct sched *sched, const struct sched_slice *slice)
{
    slice_put(sched->devices, slice->name, slice->spec);
    sched->nodes_version++; /* what was said of the nodes no longer holds */
    sched->changed = true;
}

void sched_drop_slice(struct sched *sched, struct str name)
{
    sched->changed = slice_drop(sched->devices, name) || sched->changed;
}

void sched_put_device_class(struct sched *sched, const struct sched_device_class *spec)
{
    device_class_put(sched->devices, spec->name, spec->created_ms, spec->spec);
    sched->devices->dirty = true;
    sched->nodes_version++;
    sched->changed = true;
}

void sched_drop_device_class(struct sched *sched, struct str name)
{
    sched->changed = device_class_drop(sched->devices, name) || sched->changed;
    sched->devices->dirty = true;
}

/* Zones may come before their node does, and stay when it is described anew. */
void sched_put_numa(struct sched *sched, const struct sched_numa *spec)
{
    struct node *node = node_get(sched, spec->node, true);

    numa_describe(sched, node, spec);
    sched->nodes_version++;
    sched->changed = true;
}

void sched_drop_numa(struct sched *sched, struct str name)
{
    struct node *node = node_get(sched, name, false);

    if (!node)
        return;
    numa_describe(sched, node, NULL);
    sched->nodes_version++;
    sched->changed = true;
    node_release(sched, node);
}

/* A node without a device plugin has as many GPUs as drivers publish for it. */
void devices_settled(struct sched *sched)
{
    bool served = device_class_of_gpus(sched->devices) != NULL;

    if (!sched->devices->dirty)
        return;
    devices_gathered(sched);
    for (size_t i = 0; i < sched->nodes.count; i++) {
        struct node *node = sched->nodes.items[i];
        int64_t gpus = 0;

        for (size_t d = 0; node && d < node->devices.count; d++)
            gpus += device_is_gpu(node->devices.items[d]);
        if (!node || (gpus == node->device_gpus && served == node->device_served))
            continue;
        index_remove(node);
        node->device_gpus = gpus;
        node->device_served = served;
        node_totals(sched, node);
        index_update(sched, node);
        shape_node_changed(sched, node->slot);
        sched->totals_dirty = true;
        sched->nodes_version++;
    }
}
