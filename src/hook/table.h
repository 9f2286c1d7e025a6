#pragma once

#include "base/arena.h"
#include "hook/review.h"

#include <stddef.h>

struct object;

/* table: all webhooks at a moment, however many; a write keeps the table it began with. */
struct hook_table {
    unsigned refs;
    struct arena arena;
    struct hook *hooks; /* mutating first, each in the order of names */
    size_t count;
};

/* Of these configurations, which are put in order. */
struct hook_table *hook_table_make(struct object **configurations, size_t count);
struct hook_table *hook_table_ref(struct hook_table *table);
void hook_table_unref(struct hook_table *table);
