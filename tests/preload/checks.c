#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* checks NAME: one check of libmuster-gpu.so, which run.py has preloaded, with a limit of LIMIT_MIB
 * on the devices of driver.c. Prints what is wrong; its status is the number of that. */

#define MIB         (INT64_C(1) << 20)
#define LIMIT_MIB   100
#define OOM         2
#define ROUNDS      20000
#define THREADS     8
#define RACERS      4
#define BENCH_CALLS 2000000

static struct {
    int (*alloc)(uint64_t *, size_t);
    int (*pitch)(uint64_t *, size_t *, size_t, size_t, unsigned);
    int (*managed)(uint64_t *, size_t, unsigned);
    int (*alloc_async)(uint64_t *, size_t, void *);
    int (*alloc_async_thread)(uint64_t *, size_t, void *);
    int (*alloc_pool)(uint64_t *, size_t, void *, void *);
    int (*free)(uint64_t);
    int (*free_async)(uint64_t, void *);
    int (*create)(uint64_t *, size_t, const int *, uint64_t);
    int (*release)(uint64_t);
    int (*retain)(uint64_t *, void *);
    int (*map)(uint64_t, size_t, size_t, uint64_t, uint64_t);
    int (*unmap)(uint64_t, size_t);
    int (*array)(void **, const size_t *);
    int (*array_destroy)(void *);
    int (*info)(size_t *, size_t *);
    int (*total)(size_t *, int);
    int (*reset)(int);
    int (*primary_retain)(void **, int);
    int (*primary_release)(int);
    int (*context_destroy)(void *);
} cu;

static int wrong;

#define EXPECT(condition)                                           \
    do {                                                            \
        if (!(condition)) {                                         \
            (void)printf("%d: not so: %s\n", __LINE__, #condition); \
            wrong++;                                                \
        }                                                           \
    } while (0)

/* As the CUDA runtime does it: one symbol by dlsym(), everything else through that. */
static void find_all(void)
{
    static const struct {
        const char *name;
        void *at;
        uint64_t flags;
    } wanted[] = {
        {"cuMemAlloc", &cu.alloc, 0},
        {"cuMemAllocPitch", &cu.pitch, 0},
        {"cuMemAllocManaged", &cu.managed, 0},
        {"cuMemAllocAsync", &cu.alloc_async, 1},
        {"cuMemAllocAsync", &cu.alloc_async_thread, 2},
        {"cuMemAllocFromPoolAsync", &cu.alloc_pool, 0},
        {"cuMemFree", &cu.free, 2},
        {"cuMemFreeAsync", &cu.free_async, 0},
        {"cuMemCreate", &cu.create, 0},
        {"cuMemRelease", &cu.release, 0},
        {"cuMemRetainAllocationHandle", &cu.retain, 0},
        {"cuMemMap", &cu.map, 0},
        {"cuMemUnmap", &cu.unmap, 0},
        {"cuArrayCreate", &cu.array, 0},
        {"cuArrayDestroy", &cu.array_destroy, 0},
        {"cuMemGetInfo", &cu.info, 0},
        {"cuDeviceTotalMem", &cu.total, 0},
        {"cuDevicePrimaryCtxReset", &cu.reset, 0},
        {"cuDevicePrimaryCtxRetain", &cu.primary_retain, 0},
        {"cuDevicePrimaryCtxRelease", &cu.primary_release, 0},
        {"cuCtxDestroy", &cu.context_destroy, 0},
    };
    int (*get)(const char *, void **, int, uint64_t, int *) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;

    memcpy(&get, &found, sizeof(get));
    EXPECT(get &&
           get("cuGetProcAddress", &found, 12000, 2, NULL) == 0); /* it asks for itself too */
    memcpy(&get, &found, sizeof(get));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        EXPECT(get(wanted[i].name, &found, 12080, wanted[i].flags, NULL) == 0 && found);
        memcpy(wanted[i].at, &found, sizeof(found));
    }
    EXPECT(get("cuNone", &found, 12080, 0, NULL) != 0);
}

static int64_t free_mib(void)
{
    size_t free_bytes = 0, total = 0;

    EXPECT(cu.info(&free_bytes, &total) == 0);
    return (int64_t)free_bytes / MIB;
}

static uint64_t take(int64_t mib)
{
    uint64_t pointer = 0;
    int r = cu.alloc(&pointer, (size_t)(mib * MIB));

    EXPECT(r == 0);
    return pointer;
}

static bool refused(int64_t mib)
{
    uint64_t pointer = 0;

    return cu.alloc(&pointer, (size_t)(mib * MIB)) == OOM;
}

/* ---- one process ---- */

static void check_limit(void)
{
    size_t total = 0, free_bytes = 0;

    EXPECT(cu.info(&free_bytes, &total) == 0 && total == LIMIT_MIB * MIB && free_bytes == total);
    EXPECT(cu.total(&total, 0) == 0 && total == LIMIT_MIB * MIB);
    uint64_t a = take(60);
    EXPECT(refused(41));
    EXPECT(refused(INT64_MAX / MIB));
    EXPECT(free_mib() == 40);
    uint64_t b = take(40);
    EXPECT(free_mib() == 0 && refused(1));
    EXPECT(cu.free(a) == 0 && free_mib() == 60);
    EXPECT(cu.free(0x1234) != 0 && free_mib() == 60); /* what the driver does not know either */
    EXPECT(cu.free(b) == 0 && free_mib() == LIMIT_MIB);
    fake_set_device(1); /* a limit of its own for each device */
    a = take(LIMIT_MIB);
    fake_set_device(0);
    EXPECT(free_mib() == LIMIT_MIB && cu.free(a) == 0);
    EXPECT(atomic_load(&fake_shared()->peak[0]) == LIMIT_MIB * MIB);
}

static void check_failure(void)
{
    static const int prop[] = {1, 0, 1, 0};
    uint64_t pointer = 0;
    size_t pitch;
    void *array;
    const size_t shape[] = {1 << 20, 70, 1 | (size_t)1 << 32};

    for (int i = 0; i < 3; i++) {
        fake_fail(999);
        EXPECT(cu.alloc(&pointer, 70 * MIB) == 999);
        fake_fail(999);
        EXPECT(cu.create(&pointer, 70 * MIB, prop, 0) == 999);
        fake_fail(999);
        EXPECT(cu.pitch(&pointer, &pitch, 1 << 20, 70, 4) == 999);
        fake_fail(999);
        EXPECT(cu.array(&array, shape) == 999);
    }
    EXPECT(free_mib() == LIMIT_MIB);
    EXPECT(cu.free(take(LIMIT_MIB)) == 0);
}

static void check_every_way(void)
{
    /* width, height, then format (unsigned, 8 bits) and channels in one word */
    const size_t shape[] = {1 << 20, 10, 1 | (size_t)1 << 32};
    uint64_t pointers[6] = {0};
    void *array = NULL;
    size_t pitch = 0;

    pointers[0] = take(10);
    EXPECT(cu.pitch(&pointers[1], &pitch, 600, 10240, 4) == 0 && pitch == FAKE_PITCH);
    EXPECT(free_mib() == 80); /* what the driver took, not what was guessed */
    EXPECT(cu.managed(&pointers[2], 10 * MIB, 1) == 0);
    EXPECT(cu.alloc_async(&pointers[3], 10 * MIB, NULL) == 0);
    EXPECT(cu.alloc_async_thread(&pointers[4], 10 * MIB, NULL) == 0);
    EXPECT(cu.alloc_pool(&pointers[5], 10 * MIB, NULL, NULL) == 0);
    EXPECT(cu.array(&array, shape) == 0);
    EXPECT(free_mib() == 30);
    EXPECT(cu.managed(&pointers[0] + 0, 31 * MIB, 1) == OOM);
    EXPECT(cu.alloc_async(&pointers[0], 31 * MIB, NULL) == OOM);
    EXPECT(cu.pitch(&pointers[0], &pitch, 1 << 20, 31, 4) == OOM);
    for (size_t i = 0; i < 6; i++)
        EXPECT((i < 3 ? cu.free(pointers[i]) : cu.free_async(pointers[i], NULL)) == 0);
    EXPECT(cu.array_destroy(array) == 0);
    EXPECT(free_mib() == LIMIT_MIB);
}

static void check_virtual(void)
{
    static const int here[] = {1, 0, 1, 0}, host[] = {1, 0, 2, 0};
    const uint64_t at = UINT64_C(0x500000000000), half = 20 * MIB;
    uint64_t a = 0, b = 0, c = 0;

    EXPECT(cu.create(&a, half, here, 0) == 0 && cu.create(&b, half, here, 0) == 0);
    EXPECT(free_mib() == 60);
    EXPECT(cu.create(&c, 61 * MIB, here, 0) == OOM);
    EXPECT(cu.create(&c, 500 * MIB, host, 0) == 0 && free_mib() == 60); /* not the device's */
    EXPECT(cu.map(at, half, 0, a, 0) == 0 && cu.map(at + half, half, 0, b, 0) == 0);
    EXPECT(cu.release(a) == 0);
    EXPECT(free_mib() == 60); /* mapped still */
    EXPECT(cu.release(b) == 0 && free_mib() == 60);
    EXPECT(cu.unmap(at, 2 * half) == 0); /* both at once */
    EXPECT(free_mib() == LIMIT_MIB);

    EXPECT(cu.create(&a, half, here, 0) == 0 && cu.map(a, half, 0, a, 0) == 0);
    EXPECT(cu.retain(&b, (void *)(uintptr_t)a) == 0 && b == a); /* as NCCL frees */
    EXPECT(cu.release(a) == 0 && free_mib() == 80);
    EXPECT(cu.unmap(a, half) == 0 && free_mib() == 80);
    EXPECT(cu.release(a) == 0 && free_mib() == LIMIT_MIB);
}

static void check_contexts(void)
{
    void *context = NULL;

    EXPECT(cu.primary_retain(&context, 0) == 0 && cu.primary_retain(&context, 0) == 0);
    (void)take(70);
    EXPECT(cu.primary_release(0) == 0 && free_mib() == 30); /* somebody uses it still */
    EXPECT(cu.primary_release(0) == 0 && free_mib() == LIMIT_MIB);
    EXPECT(cu.primary_retain(&context, 0) == 0);
    (void)take(70);
    EXPECT(cu.reset(0) == 0 && free_mib() == LIMIT_MIB);
    (void)take(70);
    EXPECT(cu.context_destroy(context) == 0 && free_mib() == LIMIT_MIB);
}

static void check_linked(void)
{
    extern int cuMemAlloc_v2(uint64_t *, size_t), cuMemFree_v2(uint64_t);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *by_handle = dlsym(library, "cuMemAlloc_v2");
    void *by_default = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    int (*linked)(uint64_t *, size_t) = cuMemAlloc_v2;
    uint64_t pointer = 0;

    EXPECT(linked(&pointer, 70 * MIB) == 0);
    EXPECT(linked(&pointer, 70 * MIB) == OOM);
    EXPECT(free_mib() == 30);
    EXPECT(memcmp(&linked, &by_handle, sizeof(linked)) == 0 && by_default == by_handle);
    EXPECT(!dlsym(library, "cuNone") && dlerror());
    EXPECT(cuMemFree_v2(pointer) == 0 || free_mib() == 30);
}

static void check_next(void)
{
    EXPECT(abs(-7) == 1007); /* tests/preload/next.c */
}

static void check_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*get)(void *, uint64_t *) = NULL, (*get_v2)(void *, uint64_t *) = NULL;
    void *found = dlsym(library, "nvmlDeviceGetMemoryInfo");
    uint64_t memory[5] = {0};

    memcpy(&get, &found, sizeof(get));
    found = dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
    memcpy(&get_v2, &found, sizeof(get_v2));
    (void)take(30);
    EXPECT(get((void *)1, memory) == 0);
    EXPECT(memory[0] == LIMIT_MIB * MIB && memory[1] == 70 * MIB && memory[2] == 30 * MIB);
    EXPECT(get_v2((void *)1, memory) == 0);
    EXPECT(memory[1] == LIMIT_MIB * MIB && memory[2] == 0 && memory[3] == 70 * MIB &&
           memory[4] == 30 * MIB);
    EXPECT(get((void *)2, memory) == 0 && memory[2] == 0); /* another device, by its UUID */
}

/* Without a limit that makes sense nothing is done. */
static void check_inert(void)
{
    size_t free_bytes = 0, total = 0;

    EXPECT(cu.info(&free_bytes, &total) == 0 && total == FAKE_TOTAL_BYTES);
    EXPECT(cu.free(take(900)) == 0);
}

/* ---- threads and processes ---- */

static void *churn(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    uint64_t held[4] = {0};
    uintptr_t refusals = 0;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t *at = &held[rand_r(&seed) % 4];

        if (*at) {
            (void)cu.free(*at);
            *at = 0;
        } else if (cu.alloc(at, (size_t)(1 + rand_r(&seed) % 20) * MIB) == OOM) {
            refusals++;
            *at = 0;
        }
    }
    for (size_t i = 0; i < 4; i++)
        if (held[i])
            (void)cu.free(held[i]);
    return (void *)refusals;
}

static uintptr_t churn_in_threads(void)
{
    pthread_t threads[THREADS];
    uintptr_t refusals = 0;

    for (uintptr_t i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, churn, (void *)(i + 1 + (uintptr_t)getpid()));
    for (size_t i = 0; i < THREADS; i++) {
        void *result = NULL;

        (void)pthread_join(threads[i], &result);
        refusals += (uintptr_t)result;
    }
    return refusals;
}

static void check_threads(void)
{
    EXPECT(churn_in_threads() > 0);
    EXPECT(free_mib() == LIMIT_MIB);
    EXPECT(atomic_load(&fake_shared()->peak[0]) <= LIMIT_MIB * MIB);
}

static void check_race(void)
{
    uintptr_t refusals = 0;
    pid_t racers[RACERS];

    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = fork();
        if (racers[i] == 0)
            _exit(churn_in_threads() > 0 ? 7 : 8);
    }
    for (size_t i = 0; i < RACERS; i++) {
        int status = 0;

        (void)waitpid(racers[i], &status, 0);
        EXPECT(WIFEXITED(status));
        refusals += WEXITSTATUS(status) == 7;
    }
    EXPECT(refusals > 0); /* they did meet */
    EXPECT(free_mib() == LIMIT_MIB);
    int64_t peak = atomic_load(&fake_shared()->peak[0]);
    EXPECT(peak <= LIMIT_MIB * MIB && peak > LIMIT_MIB * MIB / 2);
}

/* A child that allocates, tells, and waits to be killed. */
static pid_t start_holder(int64_t mib)
{
    int told[2];
    char byte;

    EXPECT(pipe(told) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)take(mib);
        (void)!write(told[1], "x", 1);
        for (;;)
            (void)pause();
    }
    EXPECT(read(told[0], &byte, 1) == 1);
    close(told[0]);
    close(told[1]);
    return pid;
}

static void check_killed(void)
{
    uint64_t own = take(20);
    pid_t holder = start_holder(80);

    EXPECT(refused(1) && free_mib() == 0);
    (void)kill(holder, SIGSTOP);
    EXPECT(refused(1)); /* stopped is not dead */
    (void)kill(holder, SIGKILL);
    siginfo_t info;
    EXPECT(waitid(P_PID, (id_t)holder, &info, WEXITED | WNOWAIT) == 0);
    EXPECT(free_mib() == 80); /* a zombie holds nothing */
    uint64_t rest = take(80);
    (void)waitpid(holder, NULL, 0);
    EXPECT(refused(1) && cu.free(own) == 0 && cu.free(rest) == 0 && free_mib() == LIMIT_MIB);
    for (int i = 0; i < 30; i++) { /* slots of the dead are used again */
        holder = start_holder(LIMIT_MIB);
        (void)kill(holder, SIGKILL);
        (void)waitpid(holder, NULL, 0);
    }
    EXPECT(cu.free(take(LIMIT_MIB)) == 0);
}

static void check_fork(void)
{
    uint64_t own = take(50);
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        EXPECT(free_mib() == 50);
        uint64_t rest = take(50);
        EXPECT(refused(1));
        EXPECT(cu.free(rest) == 0);
        (void)take(30); /* goes with the process */
        (void)fflush(stdout);
        _exit(wrong);
    }
    (void)waitpid(pid, &status, 0);
    EXPECT(status == 0);
    EXPECT(free_mib() == 50 && cu.free(own) == 0 && free_mib() == LIMIT_MIB);
}

static void check_exec(void)
{
    char self[] = "/proc/self/exe", name[] = "limit", *argv[] = {self, name, NULL};

    (void)take(90);
    atomic_store(&fake_shared()->peak[0], 0);
    atomic_store(&fake_shared()->used[0], 0);
    (void)execv(self, argv);
    wrong++;
}

/* ---- what it costs ---- */

static void check_bench(void)
{
    struct timespec start, end;
    uint64_t pointer = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < BENCH_CALLS; i++) {
        (void)cu.alloc(&pointer, 4096);
        (void)cu.free(pointer);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    (void)printf("%.1f\n", ns / (2.0 * BENCH_CALLS));
}

int main(int argc, char *argv[])
{
    static const struct {
        const char *name;
        void (*run)(void);
    } checks[] = {
        {"limit", check_limit},     {"failure", check_failure},   {"every-way", check_every_way},
        {"virtual", check_virtual}, {"contexts", check_contexts}, {"linked", check_linked},
        {"next", check_next},       {"nvml", check_nvml},         {"inert", check_inert},
        {"threads", check_threads}, {"race", check_race},         {"killed", check_killed},
        {"fork", check_fork},       {"exec", check_exec},         {"bench", check_bench},
    };

    find_all();
    for (size_t i = 0; argc == 2 && i < sizeof(checks) / sizeof(*checks); i++)
        if (strcmp(checks[i].name, argv[1]) == 0) {
            checks[i].run();
            return wrong;
        }
    (void)fprintf(stderr, "checks: there is no such check\n");
    return 2;
}
