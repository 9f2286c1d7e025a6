#include "agent/limit.h"

#include "agent/checkpoint.h"
#include "agent/core.h"
#include "agent/device.h"
#include "agent/env.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/pod.h"
#include "api/gpu.h"
#include "api/gpu_page.h"
#include "api/limit.h"
#include "api/object.h"
#include "api/share.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "shim/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGION_FILE "gpu-region" /* in the pod's folder */

bool limit_find_library(char ret[static PATH_MAX])
{
    static const char *const places[] = {LIMIT_LIBRARY_NAME, "../lib/muster/" LIMIT_LIBRARY_NAME};
    char here[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", here, sizeof(here) - 1);

    here[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(here, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = COUNT_OF(places); i-- > 0;) {
        int n = snprintf(ret, PATH_MAX, "%s/%s", here, places[i]);

        if (n > 0 && n < PATH_MAX && access(ret, R_OK) == 0)
            return true;
    }
    return false;
}

static bool is_limited(const struct pod *pod, size_t index)
{
    return pod->agent->options.gpu_library && device_has_share(pod, index) &&
           object_annotation(pod->object, GPU_ANNOTATION_MEMORY).len &&
           !str_is(object_annotation(pod->object, LIMIT_ANNOTATION), "false");
}

/* Somebody said that it may be suspended, and not that the driver is to copy. */
static bool pod_may_move(const struct pod *pod)
{
    struct str copy = object_annotation(pod->object, SUSPEND_COPY);
    struct str unused = object_annotation(pod->object, SUSPEND_UNUSED_AFTER);

    if (copy.len)
        return str_is(copy, SUSPEND_COPY_LIBRARY);
    return str_is(object_annotation(pod->object, SUSPEND_MAY), "true") ||
           (unused.len && !str_is(unused, SUSPEND_UNUSED_NEVER));
}

/* With several GPUs processes open each other's memory, which cannot be moved then. */
static bool is_moved(const struct pod *pod, size_t index)
{
    return pod->agent->options.gpu_library && device_has_one(pod, index) &&
           (pod->agent->gpus_real || getenv(CHECKPOINT_LIBRARY)) && pod_may_move(pod) &&
           !str_is(object_annotation(pod->object, LIMIT_ANNOTATION), "false");
}

static void region_path(const struct pod *pod, char ret[static PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/" REGION_FILE, pod->folder);
}

int limit_make_region(const struct pod *pod, struct err *err)
{
    char path[PATH_MAX];
    bool wanted = false;

    for (size_t i = 0; i < pod->run.count; i++)
        wanted = wanted || is_limited(pod, i);
    if (!wanted)
        return 0;
    region_path(pod, path);
    /* Never emptied: a process that still has it mapped would be killed by the kernel. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return err_set(err, -errno, "cannot create %s: %s", path, strerrordesc_np(errno));
    (void)fchmod(fd, 0666); /* the pod's processes may be of any user */
    close(fd);
    return 0;
}

void limit_env(const struct pod *pod, size_t index, struct arena *arena, struct env *env)
{
    bool mounted = pod->agent->machine.mount_ns;
    char path[PATH_MAX];

    bool limited = is_limited(pod, index), moved = is_moved(pod, index);
    if (!limited && !moved)
        return;
    region_path(pod, path);
    if (moved)
        env_set(arena, env, STR(GPU_PAGE_ENV), STR("1"));
    if (limited) {
        env_set(arena, env, STR(SHARE_MEMORY),
                str_dup(arena, object_annotation(pod->object, GPU_ANNOTATION_MEMORY)));
        env_set(arena, env, STR(LIMIT_ENV_REGION),
                mounted ? STR(LIMIT_REGION) : str_dup(arena, str_from(path)));
    }
    env_set(
        arena, env, STR(LIMIT_ENV_PRELOAD),
        limit_preload(arena, env_get(env, STR(LIMIT_ENV_PRELOAD)),
                      mounted ? STR(LIMIT_LIBRARY) : str_from(pod->agent->options.gpu_library)));
}

void limit_mounts(const struct pod *pod, size_t index, struct buf *records)
{
    char path[PATH_MAX];

    bool limited = is_limited(pod, index);
    if (!limited && !is_moved(pod, index))
        return;
    record_mount(records,
                 &(struct record_mount){.type = "bind",
                                        .source = str_from(pod->agent->options.gpu_library),
                                        .target = STR(LIMIT_LIBRARY),
                                        .options = STR("ro")});
    if (!limited)
        return;
    region_path(pod, path);
    record_mount(records, &(struct record_mount){.type = "bind",
                                                 .source = str_from(path),
                                                 .target = STR(LIMIT_REGION)});
}
