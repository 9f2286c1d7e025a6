#include "base/mem.h"

#include <stddef.h>
#include <stdlib.h>

void *mem_alloc(size_t bytes)
{
    void *block = calloc(1, bytes ? bytes : 1);

    if (!block)
        abort();
    return block;
}

void mem_free(void *block)
{
    free(block);
}
