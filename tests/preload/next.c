#include <dlfcn.h>
#include <stddef.h>

/* next: a library that stands in for a function of libc and looks for the real one, as allocators
 * and profilers do. Where dlsym() is told the wrong caller it finds itself, for ever. */
__attribute__((visibility("default"))) int abs(int number);

int abs(int number)
{
    static int depth;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "abs");

    if (depth++ || !real)
        return -1;
    int r = real(number) + 1000;
    depth--;
    return r;
}
