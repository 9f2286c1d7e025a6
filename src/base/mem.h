#pragma once

#include <stddef.h>

/* mem: heap blocks for the few things that outlive a piece of work (cached objects, indexes).
 * Zeroed, never NULL: running out of memory aborts, as everywhere (base/arena.h says why). */
void *mem_alloc(size_t bytes) __attribute__((returns_nonnull, malloc));
void mem_free(void *block);

#define MEM_NEW(type) ((type *)mem_alloc(sizeof(type)))
