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

struct count count = {.most = UINT64_MAX, .enough_at = UINT64_MAX};

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

/* Above `most`: that is all there may be, or every place is looked at. */
UNTRACED static void beyond(const char *here)
{
    size_t at = (size_t)(here - __executable_start);

    if (count.places && at < COUNT_PLACES)
        count.places[at]++;
    if (count.blocks <= count.enough_at)
        return;
    count_until(UINT64_MAX);
    count.enough();
}

UNTRACED void count_until(uint64_t blocks)
{
    count.enough_at = blocks;
    count.most = count.places && blocks != UINT64_MAX ? 0 : blocks;
}

/* Called for every block: one sum and one comparison. */
UNTRACED void __sanitizer_cov_trace_pc(void)
{
    if (__builtin_expect(++count.blocks > count.most, 0))
        beyond(__builtin_return_address(0));
}

UNTRACED static inline void add(size_t bytes)
{
    count.blocks += bytes / BYTES_A_BLOCK;
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
