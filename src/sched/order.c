#include "sched/order.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/group.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"
#include "sched/victims.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void order_init(struct order *order, struct sched *sched, enum order_kind kind)
{
    *order = (struct order){.sched = sched, .kind = kind, .id = ++sched->order_id};
}

/* ---- groups of a leaf ---- */
static bool entry_before(const struct order *order,
                         const struct order_entry *a,
                         const struct order_entry *b)
{
    int cmp = group_order(a->group, a->elastic, b->group, b->elastic);

    return order->kind == ORDER_VICTIMS ? cmp > 0 : cmp < 0;
}

static void swap_entries(struct order_entry *a, struct order_entry *b)
{
    struct order_entry swap = *a;

    *a = *b;
    *b = swap;
}

static void entries_up(const struct order *order, struct order_node *node, size_t i)
{
    struct order_entry *items = node->groups.items;

    for (; i && entry_before(order, &items[i], &items[(i - 1) / 2]); i = (i - 1) / 2)
        swap_entries(&items[i], &items[(i - 1) / 2]);
}

static void entries_down(const struct order *order, struct order_node *node)
{
    struct order_entry *items = node->groups.items;

    for (size_t i = 0;;) {
        size_t child = 2 * i + 1;

        if (child >= node->groups.count)
            return;
        if (child + 1 < node->groups.count && entry_before(order, &items[child + 1], &items[child]))
            child++;
        if (!entry_before(order, &items[child], &items[i]))
            return;
        swap_entries(&items[i], &items[child]);
        i = child;
    }
}

/* Moves the cursor to the next group that is still there and admitted. */
static void cursor_settle(struct order *order, struct order_node *node)
{
    if (order->kind != ORDER_VICTIMS || !node->queue || node->head.group)
        return;
    while (node->cursor) {
        struct group *group = node->queue->sorted.items[--node->cursor];
        if (!group || group->in_active == LIST_NONE || !order->admit(order->user, group))
            continue;
        node->head = (struct order_entry){.group = group, .elastic = group->sorted_elastic};
        return;
    }
}

/* Who is next changes with everything that is placed, where a queue goes by its users. */
static void users_settle(const struct order *order, struct order_node *node)
{
    struct order_entry *items = node->groups.items;
    size_t best = 0;

    if (order->kind != ORDER_PENDING || !node->queue || !node->groups.count ||
        node->queue->spec.order != SCHED_ORDER_USERS)
        return;
    for (size_t i = 1; i < node->groups.count; i++)
        if (group_line(items[i].group, items[i].elastic, items[best].group, items[best].elastic) <
            0)
            best = i;
    if (best)
        swap_entries(&items[0], &items[best]);
}

static struct order_entry *leaf_best(struct order *order, struct order_node *node)
{
    cursor_settle(order, node);
    users_settle(order, node);
    if (!node->head.group)
        return node->groups.count ? &node->groups.items[0] : NULL;
    if (node->groups.count && entry_before(order, &node->groups.items[0], &node->head))
        return &node->groups.items[0];
    return &node->head;
}

/* ---- queues ---- */
static struct order_entry *best_entry(struct order *order, struct order_node *node)
{
    while (node->children.count)
        node = node->children.items[0];
    struct order_entry *entry = leaf_best(order, node);
    if (entry && !entry->known) {
        struct pod_vec tasks = {0};

        if (entry->group->count[ST_PENDING] || order->kind == ORDER_SEARCH)
            group_tasks(order->sched, entry->group, order->kind != ORDER_PENDING, &tasks);
        tasks_request(order->sched, &tasks, entry->request);
        entry->known = true;
    }
    return entry;
}

static bool same_amounts(const int64_t *a, const int64_t *b)
{
    int64_t differ = 0;

    for (int r = 0; r < SCHED_RESOURCES; r++)
        differ |= a[r] ^ b[r];
    return !differ;
}

static const struct queue_rank *node_rank(struct order *order, struct order_node *node)
{
    const struct order_entry *best = best_entry(order, node);
    const struct queue *queue = node->queue;

    assert(best); /* a queue without groups is taken out of its parent's heap */
    if (node->ranked && !order->sched->config.plain &&
        same_amounts(node->ranked_allocated, queue->allocated) &&
        same_amounts(node->ranked_request, best->request) &&
        same_amounts(node->ranked_popped, node->popped))
        return &node->rank;
    node->ranked = true;
    memcpy(node->ranked_allocated, queue->allocated, sizeof(node->ranked_allocated));
    memcpy(node->ranked_request, best->request, sizeof(node->ranked_request));
    memcpy(node->ranked_popped, node->popped, sizeof(node->ranked_popped));
    node->rank = queue_rank((struct queue_side){
        queue, best->request, order->kind == ORDER_VICTIMS ? node->popped : NULL});
    return &node->rank;
}

static bool node_before(struct order *order, struct order_node *a, struct order_node *b)
{
    int cmp = queue_order(a->queue, node_rank(order, a), b->queue, node_rank(order, b));

    return order->kind == ORDER_VICTIMS ? cmp > 0 : cmp < 0;
}

static void swap_children(struct order_node *node, size_t a, size_t b)
{
    struct order_node *swap = node->children.items[a];

    node->children.items[a] = node->children.items[b];
    node->children.items[b] = swap;
}

static void children_up(struct order *order, struct order_node *node, size_t i)
{
    while (i && node_before(order, node->children.items[i], node->children.items[(i - 1) / 2])) {
        swap_children(node, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void children_down(struct order *order, struct order_node *node)
{
    struct order_node **items = node->children.items;

    for (size_t i = 0;;) {
        size_t child = 2 * i + 1;

        if (child >= node->children.count)
            return;
        if (child + 1 < node->children.count && node_before(order, items[child + 1], items[child]))
            child++;
        if (!node_before(order, items[child], items[i]))
            return;
        swap_children(node, i, child);
        i = child;
    }
}

static struct order_node *node_for(struct order *order, struct queue *queue)
{
    if (!queue)
        return &order->root;
    struct order_node *node = queue->order_nodes[order->kind];
    if (queue->order_ids[order->kind] != order->id) {
        node = ARENA_NEW(order->sched->arena, struct order_node);
        queue->order_nodes[order->kind] = node;
        queue->order_ids[order->kind] = order->id;
        node->queue = queue;
        node->parent = node_for(order, queue->parent);
        if (order->kind == ORDER_PENDING)
            VEC_RESERVE(order->sched->arena, &node->groups, queue->pending.count);
    }
    return node;
}

static void node_enqueue(struct order *order, struct order_node *node)
{
    if (!order->started) {
        if (!node->fresh)
            VEC_PUSH(order->sched->arena, &order->fresh, node);
        node->fresh = true;
        return;
    }
    for (; node->parent; node = node->parent) {
        if (node->queued) {
            node->parent->moved = true;
            continue;
        }
        node->queued = true;
        VEC_PUSH(order->sched->arena, &node->parent->children, node);
        children_up(order, node->parent, node->parent->children.count - 1);
    }
}

void order_push_tasks(struct order *order, struct group *group, const struct pod_vec *tasks)
{
    struct order_node *node = node_for(order, group->queue);
    struct order_entry entry = {.group = group, .elastic = group_elastic_left(group)};

    if (tasks) {
        tasks_request(order->sched, tasks, entry.request);
        entry.known = true;
    }
    VEC_PUSH(order->sched->arena, &node->groups, entry);
    entries_up(order, node, node->groups.count - 1);
    node_enqueue(order, node);
}

void order_push(struct order *order, struct group *group)
{
    order_push_tasks(order, group, NULL);
}

bool order_cut(struct order *order, const struct queue *queue, size_t count)
{
    struct order_node *node = queue->order_nodes[order->kind];
    size_t kept = 0;

    if (queue->order_ids[order->kind] != order->id || node->groups.count <= count)
        return false;
    struct order_entry *best = ARENA_ARRAY(order->sched->arena, struct order_entry, count);
    for (; kept < count; kept++) {
        users_settle(order, node);
        best[kept] = node->groups.items[0];
        node->groups.items[0] = node->groups.items[--node->groups.count];
        entries_down(order, node);
    }
    /* Sorted, and so a heap. */
    memcpy(node->groups.items, best, count * sizeof(*best));
    node->groups.count = count;
    return true;
}

void order_add_active(struct order *order, struct queue *queue)
{
    if (!queue->active.count || queue->children.count)
        return;
    victims_sorted(order->sched, queue);
    struct order_node *node = node_for(order, queue);
    node->cursor = queue->sorted.count;
    cursor_settle(order, node);
    if (node->head.group)
        node_enqueue(order, node);
}

static struct group *leaf_pop(struct order *order, struct order_node *node)
{
    struct order_entry *best = leaf_best(order, node);
    struct group *group = best->group;

    if (best == &node->head) {
        node->head = (struct order_entry){0};
        cursor_settle(order, node);
        return group;
    }
    node->groups.items[0] = node->groups.items[--node->groups.count];
    entries_down(order, node);
    return group;
}

static void node_popped(struct order_node *node, const struct group *group)
{
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];
        bool held = ST_IN(pod->status, ST_ALLOCATED) && !pod->taken;

        for (int r = 0; held && pod->set != SET_NONE && r < SCHED_RESOURCES; r++)
            node->popped[r] += pod->charge[r];
    }
}

static int by_index(const void *a, const void *b)
{
    const struct queue *l = (*(struct order_node *const *)a)->queue;
    const struct queue *r = (*(struct order_node *const *)b)->queue;

    return l->index < r->index ? -1 : l->index > r->index;
}

static void order_start(struct order *order)
{
    order->started = true;
    if (order->fresh.count > 1)
        qsort(order->fresh.items, order->fresh.count, sizeof(*order->fresh.items), by_index);
    for (size_t i = 0; i < order->fresh.count; i++)
        node_enqueue(order, order->fresh.items[i]);
}

static void node_rest(const struct order *order,
                      const struct order_node *node,
                      struct group_vec *ret)
{
    for (size_t i = 0; i < node->groups.count; i++)
        VEC_PUSH(order->sched->arena, ret, node->groups.items[i].group);
    for (size_t i = 0; i < node->children.count; i++)
        node_rest(order, node->children.items[i], ret);
}

void order_rest(const struct order *order, struct group_vec *ret)
{
    ret->count = 0;
    node_rest(order, &order->root, ret);
}

struct group *order_pop(struct order *order)
{
    struct order_node *node = &order->root;

    if (!order->started)
        order_start(order);

    while (node->children.count) {
        if (node->moved)
            children_down(order, node);
        node->moved = false;
        node = node->children.items[0];
    }
    if (!node->parent)
        return NULL;
    struct group *group = leaf_pop(order, node);
    for (; node->parent; node = node->parent) {
        struct order_node *parent = node->parent;

        if (order->kind == ORDER_VICTIMS)
            node_popped(node, group);
        parent->moved = true;
        if (node->groups.count || node->head.group || node->children.count)
            continue;
        node->queued = false;
        parent->children.items[0] = parent->children.items[--parent->children.count];
        children_down(order, parent);
    }
    return group;
}
