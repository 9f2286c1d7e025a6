#include "hook/table.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
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
    for (size_t i = 0; i < count; i++) {
        struct object *object = object_ref(configurations[i]);

        arena_defer(&table->arena, object_release, object);
        table->count += review_hooks(&table->arena, object_json(object, &table->arena),
                                     object->kind == &kind_mutatingwebhooks,
                                     &table->hooks[table->count], HOOK_HOOKS_MAX - table->count);
    }
    return table;
}
