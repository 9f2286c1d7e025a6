#include "mover/container.h"

#include "api/gpu_page.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "mover/driver.h"
#include "mover/gpu_copy.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define LINE_BYTES  512

/* ---- which processes ---- */

struct found {
    pid_t pids[CONTAINER_PROCESSES_MAX];
    struct gpu_page *pages[CONTAINER_PROCESSES_MAX];
    size_t count;
    pid_t unknown; /* one that may not be looked at; 0: all were */
    pid_t foreign; /* one that has the driver and no page */
    bool many;     /* more than there is room for */
};

static void look_at(struct found *found, pid_t pid)
{
    struct gpu_page *page = gpu_copy_find(pid);
    int mapped = page ? 1 : driver_mapped(pid);

    if (page && found->count < COUNT_OF(found->pids)) {
        found->pids[found->count] = pid;
        found->pages[found->count++] = page;
    } else if (page) {
        found->many = true;
        gpu_copy_done(page);
    } else if (mapped < 0) {
        found->unknown = pid;
    } else if (mapped && driver_has_thread(pid)) {
        found->foreign = pid;
    }
}

static void look(const struct container_order *order, struct found *found)
{
    DIR *folder = order->pid_count ? NULL : opendir("/proc");
    int64_t pid = 0;

    *found = (struct found){0};
    for (size_t i = 0; i < order->pid_count; i++)
        look_at(found, order->pids[i]);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (str_to_i64(str_from(entry->d_name), &pid) && pid > 0 && pid <= INT_MAX &&
            pid != getpid())
            look_at(found, (pid_t)pid);
    if (folder)
        closedir(folder);
}

static void found_done(struct found *found)
{
    for (size_t i = 0; i < found->count; i++)
        gpu_copy_done(found->pages[i]);
}

/* ---- host memory ---- */

/* The number after `key` in a file; without a key the number that it begins with. -1: none. */
static int64_t file_number(const char *root, const char *name, const char *key)
{
    char path[PATH_MAX], line[LINE_BYTES];
    size_t skip = key ? strlen(key) : 0;
    long long number = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "re");
    while (file && number < 0 && fgets(line, sizeof(line), file))
        if (!key || (strncmp(line, key, skip) == 0 && line[skip] == ' '))
            if (sscanf(line + skip, " %lld", &number) != 1)
                number = -1;
    if (file)
        (void)fclose(file);
    return number;
}

int64_t container_room_mib(const char *root)
{
    int64_t limit = file_number(root, "memory.max", NULL);
    int64_t used = file_number(root, "memory.current", NULL);
    int64_t files = file_number(root, "memory.stat", "inactive_file");

    if (limit < 0) {
        limit = file_number(root, "memory/memory.limit_in_bytes", NULL);
        used = file_number(root, "memory/memory.usage_in_bytes", NULL);
        files = file_number(root, "memory/memory.stat", "total_inactive_file");
    }
    if (limit < 0 || limit >= INT64_MAX / 2 || used < 0) /* version 1: no limit is a large one */
        return INT64_MAX;
    int64_t room = limit - used + (files > 0 ? files : 0);
    return room > 0 ? room >> 20 : 0;
}

static int64_t host_room_mib(void)
{
    int64_t kib = file_number("/proc", "meminfo", "MemAvailable:");

    return kib < 0 ? INT64_MAX : kib >> 10;
}

static int room_check(int64_t held_mib, struct err *err)
{
    int64_t need_mib = held_mib + GPU_PAGE_PINNED_MIB + CONTAINER_SPARE_MIB;
    int64_t own_mib = container_room_mib(CGROUP_ROOT), host_mib = host_room_mib();

    if (need_mib > own_mib)
        return err_set(
            err, -ENOMEM,
            "%lld MiB on the GPU need %lld MiB of host memory, and the container has %lld "
            "MiB left of its memory limit: raise resources.limits.memory",
            (long long)held_mib, (long long)need_mib, (long long)own_mib);
    if (need_mib > host_mib)
        return err_set(
            err, -ENOMEM,
            "%lld MiB on the GPU need %lld MiB of host memory, of which %lld MiB are free",
            (long long)held_mib, (long long)need_mib, (long long)host_mib);
    return 0;
}

/* ---- out and in ---- */

static int found_check(const struct found *found, struct err *err)
{
    int64_t held_mib = 0;
    bool away = false; /* an earlier one has begun */

    if (found->many)
        return err_set(err, -E2BIG, "more than %d processes use the GPU", CONTAINER_PROCESSES_MAX);
    if (found->foreign)
        return err_set(err, -ENOTSUP,
                       "process %d uses the GPU without Muster's library: see \"On a cluster\" in "
                       "docs/suspend.md",
                       found->foreign);
    if (found->unknown)
        return err_set(err, -EPERM,
                       "process %d is another user's, and whether it uses the GPU cannot be seen",
                       found->unknown);
    if (!found->count)
        return err_set(
            err, -ENOENT,
            "no process of the container has memory on the GPU that Muster's library can "
            "move");
    for (size_t i = 0; i < found->count; i++) {
        held_mib += gpu_copy_held_mib(found->pages[i]);
        away = away || gpu_copy_is_away(found->pages[i]);
    }
    return away && !held_mib ? 0 : room_check(held_mib, err);
}

static int process_out(struct gpu_page *page,
                       pid_t pid,
                       struct container_report *ret,
                       struct err *err)
{
    int64_t mib = 0;
    int r = gpu_copy_out(page, pid, &mib, err);

    if (r < 0)
        return r;
    if (!gpu_copy_is_away(page))
        return err_set(err, -ENOTSUP,
                       "process %d has nothing on the GPU that Muster's library could move", pid);
    int64_t left_mib = gpu_copy_left_mib(page);
    if (left_mib < 0)
        return err_set(
            err, -ENOTSUP,
            "process %d: what stays on the GPU is not counted, as the share has no limit: "
            "label the node with nvidia.com/gpu.memory",
            pid);
    if (left_mib > CONTAINER_LEFT_MIB)
        return err_set(err, -ENOTSUP,
                       "process %d has %lld MiB on the GPU that Muster's library cannot move, as "
                       "expandable segments and cudaMallocAsync have them",
                       pid, (long long)left_mib);
    ret->moved_mib += mib;
    return 0;
}

static int all_in(const struct found *found, struct err *err)
{
    struct err again = {0};
    int first = 0;

    for (size_t i = 0; i < found->count; i++) {
        int r = gpu_copy_in(found->pages[i], found->pids[i], first ? &again : err);

        first = first ? first : r;
    }
    return first;
}

int container_out(const struct container_order *order,
                  struct container_report *ret,
                  struct err *err)
{
    struct found found;

    *ret = (struct container_report){0};
    look(order, &found);
    int r = found_check(&found, err);
    for (size_t i = 0; r == 0 && i < found.count; i++)
        r = process_out(found.pages[i], found.pids[i], ret, err);
    ret->processes = (int64_t)found.count;
    if (r < 0)
        (void)all_in(&found, NULL);
    found_done(&found);
    return r;
}

int container_in(const struct container_order *order, struct container_report *ret, struct err *err)
{
    struct found found;

    look(order, &found);
    *ret = (struct container_report){.processes = (int64_t)found.count};
    int r = all_in(&found, err);
    found_done(&found);
    return r;
}
