#pragma once

#include <stddef.h>

/* mem: heap blocks for the few things that outlive a piece of work (cached objects, indexes).
 * Zeroed, never NULL: running out of memory aborts, as everywhere (base/arena.h says why). */
void *mem_alloc(size_t bytes) __attribute__((returns_nonnull, malloc));
void mem_free(void *block);

/* Ends the process with a line on stderr that says so: the system gave no memory, or a size that
 * was computed cannot be. */
_Noreturn void mem_exhausted(void);

#define MEM_NEW(type) ((type *)mem_alloc(sizeof(type)))
