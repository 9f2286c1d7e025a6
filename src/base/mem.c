#include "base/mem.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

void mem_exhausted(void)
{
    /* assert() is the one way to say something from here: the pure layers write nothing. */
    assert(false && "out of memory");
    abort();
}

void *mem_alloc(size_t bytes)
{
    void *block = calloc(1, bytes ? bytes : 1);

    if (!block)
        mem_exhausted();
    return block;
}

void mem_free(void *block)
{
    free(block);
}
