#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* weather: preloaded into muster, moves its calendar and slows its disk while it runs.
 *
 * SOAK_WEATHER names a file of two numbers that a test writes: milliseconds by which the calendar
 * is ahead (CLOCK_REALTIME alone, as an administrator or NTP moves it), and milliseconds that each
 * fsync takes longer. Programs that muster starts are left alone. */
#define EXPORT __attribute__((visibility("default")))

struct weather {
    int64_t ahead_ms;
    int64_t sync_ms;
};

static const volatile struct weather *weather;
static int (*next_gettime)(clockid_t, struct timespec *);
static int (*next_fsync)(int);
static int (*next_fdatasync)(int);

__attribute__((constructor)) static void start(void)
{
    const char *name = getenv("SOAK_WEATHER");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

    *(void **)&next_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    *(void **)&next_fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&next_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    (void)unsetenv("LD_PRELOAD");
    if (fd < 0)
        return;
    void *at = mmap(NULL, sizeof(*weather), PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    weather = at == MAP_FAILED ? NULL : at;
}

static int64_t ahead_ms(void)
{
    return weather ? weather->ahead_ms : 0;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *now)
{
    int r = next_gettime(id, now);

    if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += (time_t)(ahead_ms() / 1000);
    return r;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec moment = {0};

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &moment);
    now->tv_sec = moment.tv_sec;
    now->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

EXPORT time_t time(time_t *ret)
{
    struct timespec moment = {0};

    (void)clock_gettime(CLOCK_REALTIME, &moment);
    if (ret)
        *ret = moment.tv_sec;
    return moment.tv_sec;
}

static void slow_down(void)
{
    int64_t ms = weather ? weather->sync_ms : 0;

    if (ms > 0)
        (void)nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000),
                                           .tv_nsec = (long)(ms % 1000) * 1000000},
                        NULL);
}

EXPORT int fsync(int fd)
{
    slow_down();
    return next_fsync(fd);
}

EXPORT int fdatasync(int fd)
{
    slow_down();
    return next_fdatasync(fd);
}
