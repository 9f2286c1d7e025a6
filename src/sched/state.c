#include "sched/state.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/order.h"
#include "sched/pack.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The objects and how they find each other. An object that is only named (a pod's group before the
 * group itself arrives) exists with known == false and is completed by its event. */

struct str heap_str(struct str s)
{
    char *copy = mem_alloc(s.len + 1);

    if (s.len)
        memcpy(copy, s.p, s.len);
    return (struct str){copy, s.len};
}

void heap_str_free(struct str s)
{
    mem_free((char *)(uintptr_t)s.p);
}

struct str sched_key(char *out, size_t size, struct str ns, struct str name)
{
    size_t len = ns.len + 1 + name.len;

    assert(len < size);
    if (ns.len)
        memcpy(out, ns.p, ns.len);
    out[ns.len] = '/';
    if (name.len)
        memcpy(out + ns.len + 1, name.p, name.len);
    return (struct str){out, len};
}

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

struct pool *pool_get(struct sched *sched, struct str name)
{
    struct pool *pool = map_get(&sched->pools_by_name, name);

    if (pool)
        return pool;
    pool = MEM_NEW(struct pool);
    pool->name = heap_str(name);
    pool->policy = sched->config.policy;
    map_set(&sched->pools_by_name, pool->name, pool);
    VEC_PUSH(NULL, &sched->pools, pool);
    return pool;
}

struct node *node_get(struct sched *sched, struct str name, bool make)
{
    struct node *node = map_get(&sched->nodes_by_name, name);
    size_t slot = 0;

    if (node || !make)
        return node;
    node = MEM_NEW(struct node);
    node->name = heap_str(name);
    while (slot < sched->nodes.count && sched->nodes.items[slot])
        slot++;
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

struct queue *queue_get(struct sched *sched, struct str name, bool make)
{
    struct queue *queue = map_get(&sched->queues_by_name, name);

    if (queue || !make)
        return queue;
    queue = MEM_NEW(struct queue);
    queue->name = heap_str(name);
    map_set(&sched->queues_by_name, queue->name, queue);
    return queue;
}

/* Calls the group ns/name. Its key leaves the namespace out where that does not count. */
void group_call(struct sched *sched, struct group *group, struct str ns, struct str name)
{
    struct str old = group->ns;
    size_t len = ns.len + 1 + name.len;
    char *text = mem_alloc(len + 1);

    (void)sched_key(text, len + 1, ns, name);
    group->ns = (struct str){text, ns.len};
    group->name = (struct str){text + ns.len + 1, name.len};
    group->key = QUIRK(sched, GROUP_BY_NAME) ? (struct str){text + ns.len, name.len + 1}
                                             : (struct str){text, len};
    map_set(&sched->groups_by_key, group->key, group);
    heap_str_free(old);
}

struct group *group_get(struct sched *sched, struct str ns, struct str name, bool make)
{
    char text[KEY_BYTES];
    struct str key =
        sched_key(text, sizeof(text), QUIRK(sched, GROUP_BY_NAME) ? STR_NONE : ns, name);
    struct group *group = map_get(&sched->groups_by_key, key);

    if (group || !make)
        return group;
    group = MEM_NEW(struct group);
    group->id = ++sched->group_next_id;
    group->in_pending = group->in_active = group->in_queue = group->in_frail = LIST_NONE;
    group->in_strays = (uint32_t)sched->strays.count;
    VEC_PUSH(NULL, &sched->strays, group);
    group_call(sched, group, ns, name);
    return group;
}

struct pod *pod_get(struct sched *sched, struct str ns, struct str name)
{
    char text[KEY_BYTES];

    return map_get(&sched->pods_by_key, sched_key(text, sizeof(text), ns, name));
}

struct claim *claim_get(struct sched *sched, struct str ns, struct str name, bool make)
{
    char text[KEY_BYTES];
    struct str key = sched_key(text, sizeof(text), ns, name);
    struct claim *claim = map_get(&sched->claims, key);

    if (claim || !make)
        return claim;
    claim = MEM_NEW(struct claim);
    claim->key = heap_str(key);
    map_set(&sched->claims, claim->key, claim);
    return claim;
}

void queue_free(struct queue *queue)
{
    VEC_DONE(&queue->children);
    VEC_DONE(&queue->groups);
    VEC_DONE(&queue->pending);
    VEC_DONE(&queue->active);
    VEC_DONE(&queue->frail);
    VEC_DONE(&queue->sorted);
    VEC_DONE(&queue->unsorted);
    VEC_DONE(&queue->priorities);
    mem_free(queue->block);
    heap_str_free(queue->name);
    mem_free(queue);
}

/* ---- lists of a queue ---- */
struct group_vec VEC_FIELDS(struct group *);

static void list_add(void *list, struct group *group, uint32_t *index)
{
    struct group_vec *vec = list;

    *index = (uint32_t)vec->count;
    VEC_PUSH(NULL, vec, group);
}

static void list_remove(void *list, uint32_t *index, size_t offset)
{
    struct group_vec *vec = list;
    uint32_t at = *index;

    VEC_REMOVE_SWAP(vec, at);
    if (at < vec->count)
        memcpy((char *)vec->items[at] + offset, &at, sizeof(at));
    *index = LIST_NONE;
}

static void count_priority(struct queue *queue, struct group *group, int64_t sign)
{
    size_t at = 0;

    if (sign > 0)
        group->counted_priority = group->priority;
    while (at < queue->priorities.count &&
           queue->priorities.items[at].priority != group->counted_priority)
        at++;
    if (at == queue->priorities.count)
        VEC_PUSH(NULL, &queue->priorities, (struct priority_count){group->counted_priority, 0});
    queue->priorities.items[at].count += sign;
    if (!queue->priorities.items[at].count)
        VEC_REMOVE_SWAP(&queue->priorities, at);
}

void group_lists(struct group *group)
{
    struct queue *queue = group->queue;

    if (!queue)
        return;
    bool pending = group->count[ST_PENDING] + group->count[ST_GATED] > 0;
    bool active = group->count[ST_BINDING] + group->count[ST_BOUND] + group->count[ST_RUNNING] +
                      group->count[ST_PIPELINED] >
                  0;
    if (pending && group->in_pending == LIST_NONE)
        list_add(&queue->pending, group, &group->in_pending);
    else if (!pending && group->in_pending != LIST_NONE)
        list_remove(&queue->pending, &group->in_pending, offsetof(struct group, in_pending));
    if (active && group->in_active == LIST_NONE) {
        list_add(&queue->active, group, &group->in_active);
        count_priority(queue, group, 1);
    } else if (!active && group->in_active != LIST_NONE) {
        list_remove(&queue->active, &group->in_active, offsetof(struct group, in_active));
        count_priority(queue, group, -1);
    }
    int elastic = active ? group_elastic(group) : 0;
    bool frail = elastic < 0;
    if (frail && group->in_frail == LIST_NONE)
        list_add(&queue->frail, group, &group->in_frail);
    else if (!frail && group->in_frail != LIST_NONE)
        list_remove(&queue->frail, &group->in_frail, offsetof(struct group, in_frail));
    if (active)
        victims_note(group, elastic);
}

void group_unlink(struct group *group)
{
    struct queue *queue = group->queue;

    if (!queue)
        return;
    if (group->in_pending != LIST_NONE)
        list_remove(&queue->pending, &group->in_pending, offsetof(struct group, in_pending));
    if (group->in_active != LIST_NONE) {
        list_remove(&queue->active, &group->in_active, offsetof(struct group, in_active));
        count_priority(queue, group, -1);
    }
    if (group->in_frail != LIST_NONE)
        list_remove(&queue->frail, &group->in_frail, offsetof(struct group, in_frail));
    victims_forget(group);
    list_remove(&queue->groups, &group->in_queue, offsetof(struct group, in_queue));
    group->queue = NULL;
}

void group_stray(struct sched *sched, struct group *group)
{
    list_add(&sched->strays, group, &group->in_strays);
}

void group_unstray(struct sched *sched, struct group *group)
{
    if (group->in_strays != LIST_NONE)
        list_remove(&sched->strays, &group->in_strays, offsetof(struct group, in_strays));
}

/* Adds or takes off what the group's pods count for in its queue and above. */
void group_weigh(struct group *group, int64_t sign)
{
    for (size_t i = 0; i < group->pods.count; i++)
        pod_weigh(group->pods.items[i], sign);
    for (struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++)
            queue->fixed[r] += sign * group->core[r];
}

static int by_pod_order(const void *a, const void *b)
{
    return pod_order(*(struct pod *const *)a, *(struct pod *const *)b);
}

void group_core(const struct group *group, int64_t ret[static SCHED_RESOURCES])
{
    VEC(struct pod *) pods = {0};

    memset(ret, 0, SCHED_RESOURCES * sizeof(*ret));
    for (uint32_t s = 1; group->semi && s < group->set_count; s++) {
        pods.count = 0;
        for (size_t i = 0; group->sets[s].leaf && i < group->pods.count; i++) {
            struct pod *pod = group->pods.items[i];

            if (pod->set != s || !pod->ours || !ST_IN(pod->status, ST_ACTIVE))
                continue;
            VEC_PUSH(NULL, &pods, pod);
            ret[SCHED_GPU] += pod->claims_fixed * GPU_MILLI;
        }
        if (pods.count > 1)
            qsort(pods.items, pods.count, sizeof(*pods.items), by_pod_order);
        for (size_t i = 0; i < pods.count && (int64_t)i < group->sets[s].min; i++) {
            for (int r = 0; r < SCHED_RESOURCES; r++)
                ret[r] += pods.items[i]->charge[r];
            ret[SCHED_GPU] -= pods.items[i]->claims_paid * GPU_MILLI;
        }
    }
    VEC_DONE(&pods);
}

void group_charge_core(struct group *group)
{
    int64_t core[SCHED_RESOURCES];

    group_core(group, core);
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        for (struct queue *queue = group->queue; queue; queue = queue->parent)
            queue->fixed[r] += core[r] - group->core[r];
        group->core[r] = core[r];
    }
}

static int64_t class_priority(struct sched *sched, const struct group *group)
{
    const struct sched_priority_class *class =
        group->class_name ? map_get(&sched->classes, group->class_name->text) : NULL;

    if (group->has_priority)
        return group->own_priority;
    if (class)
        return class->value;
    MAP_FOREACH(&sched->classes, entry) {
        class = entry->value;
        if (class->global_default)
            return class->value;
    }
    return PRIORITY_DEFAULT;
}

void group_resolve(struct sched *sched, struct group *group)
{
    struct queue *queue =
        group->known ? queue_get(sched, name_text(group->queue_name), false) : NULL;

    group_weigh(group, -1);
    group_unlink(group);
    group->priority = class_priority(sched, group);
    group->due_ms = group->created_ms;
    if (queue && queue->known && queue->spec.order == SCHED_ORDER_EXPECTED)
        group->due_ms += SCHED_EXPECTED_TIMES * (group->expected_ms   ? group->expected_ms
                                                 : group->deadline_ms ? group->deadline_ms
                                                                      : SCHED_EXPECTED_MS);
    group->semi = group->preemptibility == SCHED_SEMI_PREEMPTIBLE;
    group->preemptible = group->preemptibility == SCHED_BY_PRIORITY
                             ? group->priority < PRIORITY_FIXED
                             : group->preemptibility != SCHED_NON_PREEMPTIBLE;
    group_unstray(sched, group);
    if (!queue || !queue->known)
        group_stray(sched, group);
    if (queue && queue->known) {
        group->queue = queue;
        for (size_t i = 0; i < group->pods.count; i++) /* by the smallest GPU of the queue's pool */
            if (group->pods.items[i]->shape->spec.gpu_memory_mib)
                pod_ask(sched, group->pods.items[i]);
        list_add(&queue->groups, group, &group->in_queue);
        group_lists(group);
        group_weigh(group, 1);
    }
    group_charge_core(group);
    for (size_t i = 0; i < group->pods.count; i++) /* what they guard may have changed with it */
        claims_settled(sched, group->pods.items[i]);
    sched->changed = true;
}

/* ---- order of nodes, tree of queues ---- */
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

static int by_queue_age(const void *a, const void *b)
{
    const struct queue *l = *(struct queue *const *)a;
    const struct queue *r = *(struct queue *const *)b;

    if (l->spec.created_ms != r->spec.created_ms)
        return l->spec.created_ms < r->spec.created_ms ? -1 : 1;
    return str_cmp(l->name, r->name);
}

/* A queue is broken when its way up ends at a queue that is not there, or in a circle. */
static void queue_place(struct queue *queue)
{
    uint32_t level = 0;
    const struct queue *top = queue;

    while (top->parent && level <= QUEUE_DEPTH_MAX) {
        top = top->parent;
        level++;
    }
    queue->level = level;
    queue->broken = level > QUEUE_DEPTH_MAX || top->spec.parent.len > 0;
}

/* Queues that were deleted and that no group points to any more. */
static void queues_swept(struct sched *sched)
{
    MAP_FOREACH(&sched->queues_by_name, entry) {
        struct queue *queue = entry->value;

        if (queue->known)
            continue;
        map_remove(&sched->queues_by_name, queue->name);
        queue_free(queue);
    }
}

void queues_linked(struct sched *sched)
{
    if (!sched->queues_dirty)
        return;
    sched->queues_dirty = false;
    sched->queues.count = 0;
    for (size_t i = 0; i < sched->pools.count; i++)
        sched->pools.items[i]->tops.count = 0;
    MAP_FOREACH(&sched->queues_by_name, entry) {
        struct queue *queue = entry->value;

        memset(queue->allocated, 0, sizeof(queue->allocated));
        memset(queue->fixed, 0, sizeof(queue->fixed));
        memset(queue->asked, 0, sizeof(queue->asked));
        queue->children.count = 0;
        queue->parent = NULL;
        victims_clear(queue);
        if (queue->known)
            VEC_PUSH(NULL, &sched->queues, queue);
    }
    if (sched->queues.count)
        qsort(sched->queues.items, sched->queues.count, sizeof(*sched->queues.items), by_queue_age);
    for (size_t i = 0; i < sched->queues.count; i++) {
        struct queue *queue = sched->queues.items[i];
        struct queue *parent = queue_get(sched, queue->spec.parent, false);

        queue->index = (uint32_t)i;
        queue->pool = pool_get(sched, queue->spec.pool);
        if (queue->spec.parent.len && parent && parent->known)
            queue->parent = parent;
    }
    for (size_t i = 0; i < sched->queues.count; i++)
        queue_place(sched->queues.items[i]);
    for (size_t i = 0; i < sched->queues.count; i++) {
        struct queue *queue = sched->queues.items[i];

        if (queue->broken)
            queue->parent = NULL;
        else if (queue->parent)
            VEC_PUSH(NULL, &queue->parent->children, queue);
        else
            VEC_PUSH(NULL, &queue->pool->tops, queue);
    }
    MAP_FOREACH(&sched->groups_by_key, entry) {
        struct group *group = entry->value;
        group_unlink(group);
        group_resolve(sched, group);
    }
    queues_swept(sched);
}
