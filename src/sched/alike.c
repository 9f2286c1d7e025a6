#include "sched/alike.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/node.h"
#include "sched/pool.h"
#include "sched/resource.h"
#include "sched/state.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FLAGS 3 /* what a class has in common besides amounts */

/* What turns pods without selectors away is in the amounts, but for these. */
static bool node_is_plain(const struct node *node)
{
    return node->untainted && !node->mig && !node->device_gpus;
}

/* Empty for a node that is like no other. */
static struct str node_key(const struct sched *sched, const struct node *node, int64_t *words)
{
    size_t count = sched->resources.count;

    if (!node_is_plain(node))
        return STR_NONE;
    words[0] = node->ready;
    words[1] = node->spec.gpu_worker;
    words[2] = node->spec.cpu_worker;
    memcpy(words + FLAGS, node->total, count * sizeof(*words));
    memcpy(words + FLAGS + count, node->idle, count * sizeof(*words));
    memcpy(words + FLAGS + 2 * count, node->releasing, count * sizeof(*words));
    return (struct str){(const char *)words, (FLAGS + 3 * count) * sizeof(*words)};
}

static struct alike *class_make(struct pool *pool, struct str key)
{
    struct alike *class = mem_alloc(sizeof(*class) + key.len);

    if (key.len)
        memcpy(class->bytes, key.p, key.len);
    class->key = (struct str){class->bytes, key.len};
    map_set(&pool->alike, class->key, class);
    return class;
}

static void class_free(struct alike *class)
{
    VEC_DONE(&class->nodes);
    mem_free(class);
}

static void node_leave(struct node *node)
{
    struct alike *class = node->alike;

    if (!class)
        return;
    struct node *last = class->nodes.items[--class->nodes.count];
    class->nodes.items[node->alike_at] = last;
    last->alike_at = node->alike_at;
    node->alike = NULL;
    if (class->nodes.count)
        return;
    map_remove(&node->pool->alike, class->key);
    class_free(class);
}

static void node_join(struct sched *sched, struct node *node)
{
    int64_t words[FLAGS + 3 * RES_MAX];
    struct str key = node_key(sched, node, words);
    struct alike *class = node->alike;

    if (class && str_eq(class->key, key))
        return;
    node_leave(node);
    class = map_get(&node->pool->alike, key);
    if (!class)
        class = class_make(node->pool, key);
    node->alike = class;
    node->alike_at = (uint32_t) class->nodes.count;
    VEC_PUSH(NULL, &class->nodes, node);
}

void alike_note(struct sched *sched, struct node *node)
{
    if (node->alike_due)
        return;
    node->alike_due = true;
    VEC_PUSH(NULL, &sched->alike_due, node->slot);
}

void alike_forget(struct sched *sched)
{
    sched->alike_valid = false;
}

void alike_free(struct pool *pool)
{
    MAP_FOREACH(&pool->alike, entry)
        class_free(entry->value);
    map_done(&pool->alike);
    pool->alike = (struct map){0};
}

static void sort_anew(struct sched *sched)
{
    for (size_t i = 0; i < sched->pools.count; i++)
        alike_free(sched->pools.items[i]);
    for (size_t i = 0; i < sched->nodes.count; i++)
        if (sched->nodes.items[i]) {
            sched->nodes.items[i]->alike = NULL;
            sched->nodes.items[i]->alike_due = false;
        }
    for (size_t i = 0; i < sched->pools.count; i++)
        for (size_t j = 0; j < sched->pools.items[i]->nodes.count; j++)
            node_join(sched, sched->pools.items[i]->nodes.items[j]);
    sched->alike_valid = true;
}

void alike_settle(struct sched *sched)
{
    if (!sched->alike_valid)
        sort_anew(sched);
    for (size_t i = 0; i < sched->alike_due.count; i++) {
        struct node *node = sched->nodes.items[sched->alike_due.items[i]];

        if (!node || !node->alike_due)
            continue;
        node->alike_due = false;
        if (node->known)
            node_join(sched, node);
    }
    sched->alike_due.count = 0;
}

int alike_verify(const struct sched *sched, const struct pool *pool, struct err *err)
{
    int64_t words[FLAGS + 3 * RES_MAX];
    size_t count = 0;

    if (!sched->alike_valid)
        return 0;
    MAP_FOREACH(&pool->alike, entry) {
        const struct alike *class = entry->value;

        for (size_t i = 0; i < class->nodes.count; i++) {
            const struct node *node = class->nodes.items[i];
            struct str key = node_key(sched, node, words);
            struct str known = class->key;

            count++;
            /* One that was sorted before a resource was first named has a shorter key. */
            if (node->alike != class || node->alike_at != i || node->pool != pool ||
                (!node->alike_due && key.len == known.len && !str_eq(key, known)) ||
                (!node->alike_due && !key.len != !known.len))
                return err_set(err, -EINVAL, "node " STR_FMT " is among others than those like it",
                               STR_ARG(node->name));
        }
    }
    return count == pool->nodes.count
               ? 0
               : err_set(err, -EINVAL, "pool \"" STR_FMT "\": %zu of %zu nodes have their like",
                         STR_ARG(pool->name), count, pool->nodes.count);
}
