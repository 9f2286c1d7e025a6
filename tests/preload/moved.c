#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* moved [lent|ipc|none|pool]: a program that has memory on the card of driver.c and uses it, while run.py has it
 * moved away and back. Prints a line a step, from two threads; ends when its input does, with the
 * number of things that were wrong. */

#define MIB    ((size_t)1 << 20)
#define BLOCKS 3

static const size_t sizes[BLOCKS] = {8 * MIB, 40 * MIB, 2 * MIB};

static struct {
    int (*alloc)(uint64_t *, size_t);
    int (*free)(uint64_t);
    int (*set)(uint64_t, unsigned, size_t);
    int (*get)(void *, uint64_t, size_t);
    int (*retain)(uint64_t *, void *);
    int (*ipc)(void *, uint64_t);
    int (*pool)(uint64_t *, size_t, void *);
    int (*launch)(void *,
                  unsigned,
                  unsigned,
                  unsigned,
                  unsigned,
                  unsigned,
                  unsigned,
                  unsigned,
                  void *,
                  void **,
                  void **);
} cu;

extern int cuLaunchKernel(void *,
                          unsigned,
                          unsigned,
                          unsigned,
                          unsigned,
                          unsigned,
                          unsigned,
                          unsigned,
                          void *,
                          void **,
                          void **);

static uint64_t blocks[BLOCKS];
static _Atomic int wrong;
static _Atomic bool ends;

static void expect(bool good, const char *what)
{
    if (!good) {
        (void)printf("not so: %s\n", what);
        wrong++;
    }
}

/* One by cuGetProcAddress() as the CUDA runtime does it, the others by dlsym() as Python does. */
static void find_all(void)
{
    static const struct {
        const char *name;
        void *at;
    } wanted[] = {
        {"cuMemFree_v2", &cu.free},     {"cuMemsetD32_v2", &cu.set},
        {"cuMemcpyDtoH_v2", &cu.get},   {"cuMemRetainAllocationHandle", &cu.retain},
        {"cuIpcGetMemHandle", &cu.ipc}, {"cuLaunchKernel", &cu.launch},
        {"cuMemAllocAsync", &cu.pool},
    };
    int (*address)(const char *, void **, int, uint64_t, int *) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = dlsym(library, "cuGetProcAddress_v2");

    memcpy(&address, &found, sizeof(address));
    expect(address("cuMemAlloc", &found, 12080, 0, NULL) == 0, "cuMemAlloc is found");
    memcpy(&cu.alloc, &found, sizeof(found));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        found = dlsym(library, wanted[i].name);
        expect(found != NULL, wanted[i].name);
        memcpy(wanted[i].at, &found, sizeof(found));
    }
}

static void check_calls(void)
{
    uint64_t all = 0;
    void *seven = (void *)7, **eight = (void **)8, **nine = (void **)9;

    expect(cu.launch(&all, 9, 1, 2, 3, 4, 5, 6, seven, eight, nine) == 77 && all == 9876543219,
           "every argument arrives, by dlsym()");
    all = 0;
    expect(cuLaunchKernel(&all, 9, 1, 2, 3, 4, 5, 6, seven, eight, nine) == 77 && all == 9876543219,
           "every argument arrives, linked");
}

/* The first and last words of each block; all of them belong to one step. */
static void *use(void *user)
{
    unsigned lane = (unsigned)(uintptr_t)user;

    for (unsigned step = 1; !ends; step++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            uint64_t at = blocks[i] + lane * sizes[i] / 2, last = at + sizes[i] / 2 - 4;
            unsigned seen = 0;

            expect(cu.get(&seen, last, 4) == 0 && seen == step - 1, "what was written is there");
            expect(cu.set(at, step, 1) == 0 && cu.set(last, step, 1) == 0, "it can be written");
        }
        (void)printf("step %u\n", step);
        (void)fflush(stdout);
        (void)poll(NULL, 0, 2);
    }
    return NULL;
}

int main(int argc, char *argv[])
{
    uint64_t small = 0, handle = 0, pool = 0;
    unsigned middle = 0;
    pthread_t other;
    char byte;

    find_all();
    check_calls();
    expect(cu.alloc(&small, MIB) == 0, "a small one");
    for (size_t i = 0; i < BLOCKS; i++) {
        expect(cu.alloc(&blocks[i], sizes[i]) == 0, "a block");
        if (argc > 1 && strcmp(argv[1], "none") == 0) { /* the driver's own is no memory here */
            (void)printf("step 1\n");
            continue;
        }
        expect(cu.set(blocks[i], 0, sizes[i] / 4) == 0, "it is cleared");
        expect(cu.set(blocks[i] + sizes[i] / 4, 4711 + (unsigned)i, 1) == 0, "it is marked");
    }
    if (argc > 1 && strcmp(argv[1], "lent") == 0)
        expect(cu.retain(&handle, (void *)(uintptr_t)(blocks[0] + MIB)) == 0, "it is lent");
    if (argc > 1 && strcmp(argv[1], "pool") == 0)
        expect(cu.pool(&pool, 80 * MIB, NULL) == 0, "memory of a pool, which is the driver's");
    if (argc > 1 && strcmp(argv[1], "ipc") == 0)
        expect(cu.ipc(&byte, blocks[0]) == 801 && cu.ipc(&byte, small) == 0, "it is not shared");
    (void)fflush(stdout);
    bool uses = argc < 2 || strcmp(argv[1], "none") != 0;
    if (uses)
        (void)pthread_create(&other, NULL, use, (void *)1);
    while (uses && !ends) { /* one thread computes, this one waits for the end */
        if (read(0, &byte, 1) <= 0)
            ends = true;
    }
    if (uses)
        (void)pthread_join(other, NULL);
    else
        (void)!read(0, &byte, 1);
    for (size_t i = 0; uses && i < BLOCKS; i++)
        expect(cu.get(&middle, blocks[i] + sizes[i] / 4, 4) == 0 && middle == 4711 + i,
               "it is whole");
    for (size_t i = 0; i < BLOCKS; i++)
        expect(cu.free(blocks[i]) == 0, "it is freed");
    expect(cu.free(small) == 0, "the small one is freed");
    return wrong;
}
