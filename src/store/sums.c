#include "store/sums.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/quota.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/shelf.h"
#include "store/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static __int128 tree_takes(const struct shelf *shelf,
                           const struct json *spec,
                           struct str resource,
                           const struct json *tree)
{
    return tree && quota_covers(spec, shelf->kind, tree) ? quota_taken(resource, shelf->kind, tree)
                                                         : 0;
}

__int128 sums_of(const struct shelf *shelf,
                 const struct json *spec,
                 struct str resource,
                 const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return object ? tree_takes(shelf, spec, resource, object_json(object, &arena)) : 0;
}

static void sum_drop(struct sums *sums, size_t index)
{
    mem_free((void *)(uintptr_t)sums->items.items[index].ns.p);
    VEC_REMOVE_SWAP(&sums->items, index);
}

void sums_forget(struct store *store)
{
    while (store->sums.items.count)
        sum_drop(&store->sums, store->sums.items.count - 1);
    VEC_DONE(&store->sums.items);
}

static char *text_put(char *at, struct str text, struct str *ret)
{
    if (text.len)
        memcpy(at, text.p, text.len);
    *ret = (struct str){at, text.len};
    return at + text.len;
}

static void sum_add(struct store *store, struct sum sum)
{
    if (store->sums.items.count >= SUMS_MAX)
        sums_forget(store);
    char *block = mem_alloc(sum.ns.len + sum.quota.len + sum.resource.len + 1);
    char *at = text_put(block, sum.ns, &sum.ns);
    at = text_put(at, sum.quota, &sum.quota);
    (void)text_put(at, sum.resource, &sum.resource);
    VEC_PUSH(NULL, &store->sums.items, sum);
}

__int128 sums_taken(struct store *store,
                    const struct shelf *shelf,
                    const struct object *quota,
                    const struct json *spec,
                    struct str resource)
{
    struct sum sum = {shelf, quota->ns, quota->name, resource, 0};

    for (size_t i = 0; i < store->sums.items.count; i++) {
        const struct sum *known = &store->sums.items.items[i];

        if (known->shelf == shelf && str_eq(known->ns, quota->ns) &&
            str_eq(known->quota, quota->name) && str_eq(known->resource, resource))
            return known->nano;
    }
    store->sums.added_up++;
    for (size_t at = shelf_lower(shelf, quota->ns, STR("")); at < shelf->entries.count; at++) {
        const struct entry *entry = shelf->entries.items[at];

        if (!str_eq(entry->ns, quota->ns))
            break;
        sum.nano += sums_of(shelf, spec, resource, entry_latest(entry));
    }
    sum_add(store, sum);
    return sum.nano;
}

/* A quota that counts something else now; that its status was told changes nothing. */
static void quota_changed(struct store *store,
                          const struct object *before,
                          const struct object *now)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *either = now ? now : before;

    if (before && now &&
        json_equal(json_get(object_json(before, &arena), "spec"),
                   json_get(object_json(now, &arena), "spec")))
        return;
    for (size_t i = store->sums.items.count; i-- > 0;)
        if (str_eq(store->sums.items.items[i].ns, either->ns) &&
            str_eq(store->sums.items.items[i].quota, either->name))
            sum_drop(&store->sums, i);
}

void sums_follow(struct store *store,
                 const struct shelf *shelf,
                 const struct object *before,
                 const struct object *now)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct shelf *quotas = shelf_of(store, &kind_resourcequota);
    const struct object *either = now ? now : before;
    const struct json *trees[2] = {NULL, NULL}; /* read when somebody counts them */
    const struct object *read = NULL; /* the quota whose spec this is: its sums stand together */
    const struct json *spec = NULL;

    if (!either || !store->sums.items.count)
        return;
    if (shelf->kind == &kind_resourcequota)
        quota_changed(store, before, now);
    for (size_t i = store->sums.items.count; i-- > 0;) {
        struct sum *sum = &store->sums.items.items[i];

        if (sum->shelf != shelf || !str_eq(sum->ns, either->ns))
            continue;
        const struct object *quota = entry_latest(shelf_find(quotas, sum->ns, sum->quota));
        if (!quota) {
            sum_drop(&store->sums, i);
            continue;
        }
        if (!trees[0] && !trees[1]) {
            trees[0] = before ? object_json(before, &arena) : NULL;
            trees[1] = now ? object_json(now, &arena) : NULL;
        }
        if (quota != read)
            spec = json_get(object_json(quota, &arena), "spec");
        read = quota;
        sum->nano += tree_takes(shelf, spec, sum->resource, trees[1]) -
                     tree_takes(shelf, spec, sum->resource, trees[0]);
    }
}
