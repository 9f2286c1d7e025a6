#include "count.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* Every basic block of the libraries is counted in count_blocks (trace.h). What libc does for them is not
 * compiled so: bytes that are moved, compared and looked through are counted here, by the linker's
 * --wrap, a block for every BYTES_A_BLOCK of them. */
#define BYTES_A_BLOCK 32

uint64_t count_blocks[COUNTERS];

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

/* Called for every block where trace.h does not count them. */
UNTRACED void __sanitizer_cov_trace_pc(void)
{
    count_blocks[0]++;
}

UNTRACED uint64_t count_now(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < COUNTERS; i++)
        sum += count_blocks[i];
    return sum;
}

UNTRACED static inline void add(size_t bytes)
{
    count_blocks[0] += bytes / BYTES_A_BLOCK;
}

UNTRACED void *__wrap_memcpy(void *to, const void *from, size_t bytes)
{
    add(bytes);
    return __real_memcpy(to, from, bytes);
}

UNTRACED void *__wrap_memmove(void *to, const void *from, size_t bytes)
{
    add(bytes);
    return __real_memmove(to, from, bytes);
}

UNTRACED void *__wrap_memset(void *to, int c, size_t bytes)
{
    add(bytes);
    return __real_memset(to, c, bytes);
}

UNTRACED int __wrap_memcmp(const void *a, const void *b, size_t bytes)
{
    add(bytes);
    return __real_memcmp(a, b, bytes);
}

UNTRACED void *__wrap_memchr(const void *in, int c, size_t bytes)
{
    void *found = __real_memchr(in, c, bytes);

    add(found ? (size_t)((const char *)found - (const char *)in) : bytes);
    return found;
}
