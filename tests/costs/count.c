#include "count.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Every basic block of the libraries calls __sanitizer_cov_trace_pc(). What libc does for them is not
 * compiled so: bytes that are moved, compared and looked through are counted here, by the linker's
 * --wrap, a block for every BYTES_A_BLOCK of them. */
#define BYTES_A_BLOCK 32

struct count count = {.most = UINT64_MAX};

extern const char __executable_start[]; /* the linker's */
void __sanitizer_cov_trace_pc(void);
void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__real_memmove(void *to, const void *from, size_t bytes);
void *__real_memset(void *to, int c, size_t bytes);
int __real_memcmp(const void *a, const void *b, size_t bytes);
void *__real_memchr(const void *in, int c, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memmove(void *to, const void *from, size_t bytes);
void *__wrap_memset(void *to, int c, size_t bytes);
int __wrap_memcmp(const void *a, const void *b, size_t bytes);
void *__wrap_memchr(const void *in, int c, size_t bytes);

#define UNTRACED __attribute__((no_sanitize_coverage))

UNTRACED static inline void add(uint64_t blocks)
{
    count.blocks += blocks;
    if (count.blocks > count.most) {
        count.most = UINT64_MAX;
        count.enough();
    }
}

UNTRACED void __sanitizer_cov_trace_pc(void)
{
    add(1);
    if (count.places && count.most != UINT64_MAX) {
        const char *here = __builtin_return_address(0);
        size_t at = (size_t)(here - __executable_start);

        if (at < COUNT_PLACES)
            count.places[at]++;
    }
}

UNTRACED void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    add(bytes / BYTES_A_BLOCK);
    return __real_memcpy(to, from, bytes);
}

UNTRACED void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
    add(bytes / BYTES_A_BLOCK);
    return __real_memmove(to, from, bytes);
}

UNTRACED void *__wrap_memset(void *to, int c, size_t bytes)
{
    add(bytes / BYTES_A_BLOCK);
    return __real_memset(to, c, bytes);
}

UNTRACED int __wrap_memcmp(const void *a, const void *b, size_t bytes)
{
    add(bytes / BYTES_A_BLOCK);
    return __real_memcmp(a, b, bytes);
}

UNTRACED void *__wrap_memchr(const void *in, int c, size_t bytes)
{
    void *found = __real_memchr(in, c, bytes);

    add((found ? (size_t)((const char *)found - (const char *)in) : bytes) / BYTES_A_BLOCK);
    return found;
}
