#include "sched/nodeindex.h"

#include "base/vec.h"
#include "sched/alike.h"
#include "sched/node.h"
#include "sched/pool.h"
#include "sched/resource.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The capacity indexes: per pool, nodes ordered by what is free (idle and releasing) and then by
 * name, so that "the fullest node with at least this much" is a descent and the next one a step.
 *
 * Treaps: search trees by (key, rank) that are heaps by a priority drawn from the node's slot.
 * Their shape depends on the set of nodes alone, not on the order of updates. Invariant: a node is
 * in a tree exactly while it can be scheduled to, under the key of its present free room. */

static uint32_t priority_of(uint32_t slot)
{
    uint32_t x = slot + 0x9e3779b9U;

    x = (x ^ (x >> 16)) * 0x85ebca6bU;
    x = (x ^ (x >> 13)) * 0xc2b2ae35U;
    return x ^ (x >> 16);
}

static bool node_before(int64_t key, uint32_t rank, const struct node *node, int which)
{
    return key < node->links[which].key || (key == node->links[which].key && rank < node->rank);
}

/* Splits into nodes before (key, rank) and the others. */
static void tree_split(struct node *root,
                       int which,
                       const struct node *at,
                       struct node **left,
                       struct node **right)
{
    if (!root) {
        *left = *right = NULL;
    } else if (node_before(at->links[which].key, at->rank, root, which)) {
        tree_split(root->links[which].left, which, at, left, &root->links[which].left);
        *right = root;
    } else {
        tree_split(root->links[which].right, which, at, &root->links[which].right, right);
        *left = root;
    }
}

static struct node *tree_merge(struct node *left, struct node *right, int which)
{
    if (!left || !right)
        return left ? left : right;
    if (left->links[which].priority >= right->links[which].priority) {
        left->links[which].right = tree_merge(left->links[which].right, right, which);
        return left;
    }
    right->links[which].left = tree_merge(left, right->links[which].left, which);
    return right;
}

static void tree_insert(struct node **root, struct node *node, int which)
{
    struct node_link *link = &node->links[which];

    link->priority = priority_of(node->slot);
    while (*root && (*root)->links[which].priority >= link->priority)
        root = node_before(link->key, node->rank, *root, which) ? &(*root)->links[which].left
                                                                : &(*root)->links[which].right;
    tree_split(*root, which, node, &link->left, &link->right);
    *root = node;
    link->in = true;
}

static void take_out(struct node **root, struct node *node, int which)
{
    struct node_link *link = &node->links[which];

    while (*root && *root != node)
        root = node_before(link->key, node->rank, *root, which) ? &(*root)->links[which].left
                                                                : &(*root)->links[which].right;
    if (*root)
        *root = tree_merge(link->left, link->right, which);
    link->left = link->right = NULL;
    link->in = false;
}

static bool has_gpus(const struct node *node)
{
    return node->total[RES_GPU] > 0 || node->mig;
}

static struct node **root_of(struct node *node, int which)
{
    if (which != INDEX_CPU)
        return &node->pool->index[which == INDEX_GPU ? 0 : 3];
    return &node->pool->index[has_gpus(node) ? 2 : 1];
}

void index_remove(struct node *node)
{
    for (int r = 0; r < RES_PODS; r++) {
        node->pool->room[r] -= node->counted[r];
        node->pool->idle[r] -= node->counted_idle[r];
        node->pool->whole[r] -= node->counted_total[r];
    }
    memset(node->counted_idle, 0, sizeof(node->counted_idle));
    memset(node->counted_total, 0, sizeof(node->counted_total));
    node->pool->parts -= node->counted[RES_PODS];
    memset(node->counted, 0, sizeof(node->counted));
    for (int which = 0; which < INDEX_COUNT; which++)
        if (node->links[which].in)
            take_out(root_of(node, which), node, which);
}

/* GPUs that are free in parts: on shared devices and as MIG instances, in thousandths. */
static int64_t parts_free(struct sched *sched, const struct node *node)
{
    int64_t parts = 0;

    for (uint32_t s = 0; s < node->share_count; s++) {
        const struct share *share = &node->shares[s];
        if (share->live && node->gpu_memory > 0)
            parts += (node->gpu_memory - share->allocated - share->pipelined) * GPU_MILLI /
                     node->gpu_memory;
    }
    for (size_t m = 0; node->mig && m < node->spec.amount_count; m++) {
        int64_t slices = shape_mig_slices(node->spec.amounts[m].name);
        uint32_t res = slices ? res_id(sched, node->spec.amounts[m].name) : RES_NONE;
        if (res != RES_NONE)
            parts += (node->idle[res] + node->releasing[res]) * slices * GPU_MILLI;
    }
    return parts;
}

static void count_room(struct sched *sched, struct node *node)
{
    for (int r = 0; r < RES_PODS; r++) {
        int64_t room = node->ready ? node->idle[r] + node->releasing[r] : 0;
        if (node->keep) /* what is kept may still be in use: that is no debt of the pool */
            room = i64_max(0, room);
        node->pool->room[r] += room - node->counted[r];
        node->counted[r] = room;
        int64_t idle = node->schedulable ? i64_max(0, node->idle[r]) : 0;
        node->pool->idle[r] += idle - node->counted_idle[r];
        node->counted_idle[r] = idle;
        int64_t total = node->schedulable ? node->total[r] : 0;
        node->pool->whole[r] += total - node->counted_total[r];
        node->counted_total[r] = total;
    }
    if (!node->share_count && !node->mig && !node->counted[RES_PODS])
        return;
    int64_t parts = node->ready ? parts_free(sched, node) : 0;
    node->pool->parts += parts - node->counted[RES_PODS];
    node->counted[RES_PODS] = parts;
}

/* For those who keep what they worked out from the room of nodes. */
static void room_note(struct sched *sched, const struct node *node)
{
    if (sched->room_changes.count > 4 * sched->nodes.count + 64) {
        sched->room_changes.count = 0;
        sched->room_epoch++;
    }
    VEC_PUSH(NULL, &sched->room_changes, node->slot);
}

void index_update(struct sched *sched, struct node *node)
{
    count_room(sched, node);
    alike_note(sched, node);
    if (sched->fragment)
        room_note(sched, node);

    const int64_t keys[INDEX_COUNT] = {
        [INDEX_GPU] = node->idle[RES_GPU] + node->releasing[RES_GPU],
        [INDEX_CPU] = node->idle[RES_CPU] + node->releasing[RES_CPU],
        [INDEX_IDLE] = node->idle[RES_GPU],
    };

    for (int which = 0; which < INDEX_COUNT; which++) {
        struct node_link *link = &node->links[which];
        bool wanted = node->ready && (which == INDEX_CPU || has_gpus(node));

        if (link->in == wanted && (!wanted || link->key == keys[which]))
            continue;
        if (!sched->ranks_valid && wanted)
            continue; /* nodes_ranked() puts everything in */
        if (link->in)
            take_out(root_of(node, which), node, which);
        link->key = keys[which];
        if (wanted)
            tree_insert(root_of(node, which), node, which);
    }
}

struct node *index_from(struct node *root, int which, int64_t key)
{
    struct node *found = NULL;

    while (root) {
        if (root->links[which].key >= key) {
            found = root;
            root = root->links[which].left;
        } else {
            root = root->links[which].right;
        }
    }
    return found;
}

int64_t index_largest(struct node *root, int which)
{
    int64_t largest = INT64_MIN;

    for (; root; root = root->links[which].right)
        largest = root->links[which].key;
    return largest;
}

struct node *index_next(struct node *root, int which, const struct node *node)
{
    struct node *found = NULL;

    while (root) {
        if (node_before(node->links[which].key, node->rank, root, which)) {
            found = root;
            root = root->links[which].left;
        } else {
            root = root->links[which].right;
        }
    }
    return found;
}
