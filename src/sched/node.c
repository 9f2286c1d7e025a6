#include "sched/node.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/alike.h"
#include "sched/names.h"
#include "sched/nodeindex.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Nodes: what is free there, and what pods take of it. A node that pods name before it arrives
 * exists with known == false and is completed by its event. */

struct node *node_get(struct sched *sched, struct str name, bool make)
{
    struct node *node = map_get(&sched->nodes_by_name, name);
    size_t slot;

    if (node || !make)
        return node;
    node = MEM_NEW(struct node);
    node->name = heap_str(name);
    for (slot = sched->nodes_full; slot < sched->nodes.count && sched->nodes.items[slot];)
        slot++;
    sched->nodes_full = slot + 1;
    if (slot == sched->nodes.count)
        VEC_PUSH(NULL, &sched->nodes, node);
    sched->nodes.items[slot] = node;
    node->slot = (uint32_t)slot;
    node->total = mem_alloc(3 * sched->resource_capacity * sizeof(*node->total));
    node->idle = node->total + sched->resource_capacity;
    node->releasing = node->idle + sched->resource_capacity;
    node->pool = pool_get(sched, STR(""));
    map_set(&sched->nodes_by_name, node->name, node);
    shape_node_changed(sched, node->slot);
    return node;
}

void node_free(struct node *node)
{
    VEC_DONE(&node->pods);
    VEC_DONE(&node->devices);
    mem_free(node->shares);
    mem_free(node->block);
    mem_free(node->total);
    heap_str_free(node->name);
    heap_str_free(node->model);
    mem_free(node);
}

/* Gone for good once nothing names it; pods that are still said to be there keep it. */
void node_release(struct sched *sched, struct node *node)
{
    if (!node || node->known || node->pods.count || node->numa)
        return;
    map_remove(&sched->nodes_by_name, node->name);
    sched->nodes.items[node->slot] = NULL;
    if (node->slot < sched->nodes_full)
        sched->nodes_full = node->slot;
    sched->ranks_valid = false;
    node_free(node);
}

/* ---- order ---- */
static int by_node_name(const void *a, const void *b)
{
    return str_cmp((*(struct node *const *)a)->name, (*(struct node *const *)b)->name);
}

void nodes_ranked(struct sched *sched)
{
    VEC(struct node *) sorted = {0};

    if (sched->ranks_valid)
        return;
    for (size_t i = 0; i < sched->pools.count; i++)
        sched->pools.items[i]->nodes.count = 0;
    for (size_t i = 0; i < sched->nodes.count; i++)
        if (sched->nodes.items[i])
            VEC_PUSH(NULL, &sorted, sched->nodes.items[i]);
    if (sorted.count)
        qsort(sorted.items, sorted.count, sizeof(*sorted.items), by_node_name);
    sched->ranks_valid = true;
    alike_forget(sched);
    for (size_t i = 0; i < sorted.count; i++)
        sorted.items[i]->rank = (uint32_t)i; /* relative order is kept: the trees stay valid */
    for (size_t i = 0; i < sorted.count; i++) {
        struct node *node = sorted.items[i];
        if (node->known)
            VEC_PUSH(NULL, &node->pool->nodes, node);
        index_update(sched, node);
    }
    VEC_DONE(&sorted);
}

/* ---- shared devices ---- */
int64_t share_memory(const struct pod *pod, const struct node *node)
{
    const struct sched_pod *spec = &pod->shape->spec;

    if (spec->keeps_shares)
        return 0;
    if (spec->gpu_memory_mib > 0)
        return spec->gpu_memory_mib;
    return i64_max(1,
                   (int64_t)((__int128)spec->gpu_fraction_micro * node->gpu_memory / GPU_FRACTION));
}

void share_name(struct share *share, struct name *name)
{
    if (name)
        name->refs++;
    if (share->name)
        share->name->refs--;
    share->name = name;
}

/* The slot of the shared device of that name; share_count: there is none. */
static uint32_t share_find(const struct node *node, const struct name *name)
{
    uint32_t slot = 0;

    while (slot < node->share_count &&
           !(node->shares[slot].live && node->shares[slot].name == name))
        slot++;
    return slot;
}

int64_t shares_left(const struct node *node)
{
    int64_t left = SHARES_MAX;

    for (uint32_t i = 0; i < node->share_count; i++)
        left -= node->shares[i].live;
    return left;
}

bool share_can_open(const struct node *node, const struct name *name)
{
    return (name && share_find(node, name) < node->share_count) || shares_left(node) > 0;
}

uint8_t share_open(struct node *node, struct name *name)
{
    uint32_t slot = name ? share_find(node, name) : node->share_count;

    if (slot < node->share_count)
        return (uint8_t)slot;
    slot = 0;
    while (slot < node->share_count && node->shares[slot].live)
        slot++;
    assert(slot < SHARES_MAX);
    if (slot == node->share_count) {
        struct share *shares = mem_alloc((slot + 4) * sizeof(*shares));

        if (slot)
            memcpy(shares, node->shares, slot * sizeof(*shares));
        mem_free(node->shares);
        node->shares = shares;
        node->share_count = slot + 4;
    }
    node->shares[slot] = (struct share){.live = true};
    share_name(&node->shares[slot], name);
    return (uint8_t)slot;
}

/* What a shared device takes from the node's whole ones. */
static void share_effect(struct node *node, const struct share *share, int64_t sign)
{
    if (share->allocated + share->releasing > 0 || share->kept) {
        node->idle[RES_GPU] -= sign;
        if (!share->allocated && !share->pipelined && !share->kept)
            node->releasing[RES_GPU] += sign;
    } else if (share->pipelined > 0) {
        node->releasing[RES_GPU] -= sign;
    }
}

static bool device_is_whole(const struct node *node, int64_t number)
{
    return number >= 0 && number < DEVICES_MAX &&
           (node->devices_used[number / 64] >> (number % 64) & 1) != 0;
}

bool device_is_used(const struct node *node, int64_t number)
{
    for (uint32_t i = 0; i < node->share_count; i++) {
        int64_t named = -1;

        if (node->shares[i].live && node->shares[i].name &&
            str_to_i64(node->shares[i].name->text, &named) && named == number)
            return true;
    }
    return device_is_whole(node, number);
}

static bool name_is_whole(const struct node *node, const struct name *name)
{
    int64_t number = -1;

    return str_to_i64(name->text, &number) && device_is_whole(node, number);
}

static void shares_change(struct pod *pod,
                          struct node *node,
                          enum status status,
                          const uint8_t *slots,
                          int64_t sign)
{
    int64_t memory = share_memory(pod, node);

    for (uint8_t i = 0; i < pod->share_count; i++) {
        struct share *share = &node->shares[slots[i]];

        share->live = true;
        /* Unless those who stayed on the device it remembers have given that another slot since, or
         * somebody got it as a whole after its own bind was refused. */
        if (!share->name && pod->sharing->names && pod->sharing->named_node == node &&
            pod->sharing->named_shares[i] == slots[i] &&
            share_find(node, pod->sharing->names[i]) == node->share_count &&
            !name_is_whole(node, pod->sharing->names[i]))
            share_name(share, pod->sharing->names[i]);
        share_effect(node, share, -1);
        if (status == ST_RELEASING)
            share->releasing += sign * memory;
        else if (status == ST_PIPELINED)
            share->pipelined += sign * memory;
        else
            share->allocated += sign * memory;
        share->pod_count += (uint32_t)sign;
        share->kept += pod->shape->spec.keeps_shares ? (uint32_t)sign : 0;
        share_effect(node, share, 1);
        if (!share->pod_count) {
            share_name(share, NULL);
            *share = (struct share){0};
        }
    }
}

/* ---- what a pod takes ---- */
void node_weigh(struct pod *pod,
                struct node *node,
                enum status status,
                const uint8_t *slots,
                int64_t sign)
{
    bool idle = status != ST_PIPELINED;
    int64_t releasing = status == ST_RELEASING ? 1 : idle ? 0 : -1;

    for (size_t i = 0; i < pod->want_count; i++) {
        const struct want *want = &pod->wants[i];

        if (idle)
            node->idle[want->res] -= sign * want->amount;
        node->releasing[want->res] += sign * releasing * want->amount;
    }
    if (idle)
        node->idle[RES_PODS] -= sign;
    node->releasing[RES_PODS] += sign * releasing;
    shares_change(pod, node, status, slots, sign);
    node->legacy_mig += (uint32_t)(pod->shape->spec.legacy_mig ? sign : 0);
    for (size_t i = 0; idle && i < pod->device_count; i++) {
        uint64_t bit = UINT64_C(1) << (pod->devices[i] % 64);

        if (pod->devices[i] >= DEVICES_MAX)
            continue;
        uint64_t *word = &node->devices_used[pod->devices[i] / 64];
        *word = sign > 0 ? *word | bit : *word & ~bit;
    }
}
