#include "hook/table.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "hook/review.h"

#include <stddef.h>
#include <stdlib.h>

struct hook_table *hook_table_ref(struct hook_table *table)
{
    table->refs++;
    return table;
}

void hook_table_unref(struct hook_table *table)
{
    if (!table || --table->refs)
        return;
    arena_done(&table->arena);
    mem_free(table);
}

static int object_order(const void *a, const void *b)
{
    const struct object *const *x = a;
    const struct object *const *y = b;
    int first = (*y)->kind == &kind_mutatingwebhooks;
    int second = (*x)->kind == &kind_mutatingwebhooks;

    return first != second ? first - second : str_cmp((*x)->name, (*y)->name);
}

struct hook_table *hook_table_make(struct object **configurations, size_t count)
{
    struct hook_table *table = MEM_NEW(struct hook_table);

    table->refs = 1;
    if (count)
        qsort(configurations, count, sizeof(configurations[0]), object_order);
    struct json **trees = ARENA_ARRAY(&table->arena, struct json *, count + 1);
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        struct object *object = object_ref(configurations[i]);

        arena_defer(&table->arena, object_release, object);
        trees[i] = object_json(object, &table->arena);
        most += json_count(json_get(trees[i], "webhooks"));
    }
    table->hooks = ARENA_ARRAY(&table->arena, struct hook, most + 1);
    for (size_t i = 0; i < count; i++)
        table->count +=
            review_hooks(&table->arena, trees[i], configurations[i]->kind == &kind_mutatingwebhooks,
                         &table->hooks[table->count], most - table->count);
    return table;
}
