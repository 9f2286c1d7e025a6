#include "launch/fence.h"

#include "api/launch.h"
#include "api/place.h"
#include "base/err.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t number(const char *name)
{
    const char *text = getenv(name);
    uint64_t value = 0;

    if (text)
        (void)str_to_u64(str_from(text), &value);
    return value;
}

struct fence_gang fence_own(void)
{
    return (struct fence_gang){number(LAUNCH_ENV_GENERATION), number(PLACE_ENV)};
}

static bool is_later(struct fence_gang a, struct fence_gang b)
{
    return a.generation != b.generation ? a.generation > b.generation : a.round > b.round;
}

/* "3.0" */
static bool gang_of_name(const char *name, struct fence_gang *ret)
{
    struct str rest = str_from(name);
    struct str generation;

    return str_cut(&rest, '.', &generation) && str_to_u64(generation, &ret->generation) &&
           str_to_u64(rest, &ret->round);
}

bool fence_is_passed(const char *folder, struct fence_gang own, struct fence_gang *ret_by)
{
    DIR *dir = opendir(folder);
    struct fence_gang latest = own;
    struct dirent *item;

    while (dir && (item = readdir(dir)) != NULL) {
        struct fence_gang gang;

        if (gang_of_name(item->d_name, &gang) && is_later(gang, latest))
            latest = gang;
    }
    if (dir)
        closedir(dir);
    *ret_by = latest;
    return is_later(latest, own);
}

int fence_raise(const char *folder, struct fence_gang own, struct err *err)
{
    char path[PATH_MAX];
    struct fence_gang by;

    if (fence_is_passed(folder, own, &by))
        return err_set(err, -ESTALE,
                       LAUNCH_FENCED
                       "%" PRIu64 "; this pod was given up, and its ranks must not write beside it",
                       by.generation);
    if (!is_later(own, (struct fence_gang){0}))
        return 0; /* there is nobody before the first */
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %s", folder, strerrordesc_np(errno));
    (void)snprintf(path, sizeof(path), "%s/%" PRIu64 ".%" PRIu64, folder, own.generation,
                   own.round);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    /* Another pod of the gang has made it, perhaps as another user. */
    if (fd < 0 && access(path, F_OK) < 0)
        return err_set(err, -errno, "%s: %s", path, strerrordesc_np(errno));
    if (fd >= 0)
        close(fd);
    return 0;
}

pid_t fence_watch(const char *folder, struct fence_gang own)
{
    const struct timespec pause = {.tv_sec = FENCE_LOOK_MS / 1000,
                                   .tv_nsec = FENCE_LOOK_MS % 1000 * 1000000L};
    struct fence_gang by;
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent && !fence_is_passed(folder, own, &by))
        (void)nanosleep(&pause, NULL);
    _exit(EXIT_FAILURE);
}
