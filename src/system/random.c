#include "system/random.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/types.h>
#ifdef __linux__
#    include <sys/random.h>
#endif

bool random_bytes(void *to, size_t size)
{
    assert(size <= RANDOM_BYTES_MAX);
#ifdef __linux__
    return getrandom(to, size, 0) == (ssize_t)size;
#else
    arc4random_buf(to, size);
    return true;
#endif
}
