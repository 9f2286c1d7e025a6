#include "agent/cgroup.h"

#include "agent/core.h"
#include "agent/machine.h"
#include "agent/pod.h"
#include "api/quantity.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "shim/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#define ROOT         "/sys/fs/cgroup"
#define NAME         "muster"
#define PERIOD_US    100000
#define QUOTA_MIN_US 1000
#define SHARES_MIN   2
#define SHARES_MAX   262144
#define CONTROLLERS  "+cpu +memory +pids"

static int cgroup_make_base(char out[static CGROUP_PATH_BYTES], const char *parent)
{
    (void)snprintf(out, CGROUP_PATH_BYTES, "%s/" NAME, parent);
    if (mkdir(out, 0755) < 0 && errno != EEXIST)
        return -errno;
    return access(out, W_OK) < 0 ? -errno : 0; /* perhaps another user's */
}

static int controllers_enable(const char *folder)
{
    char path[CGROUP_PATH_BYTES + 32];
    (void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", folder);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r = fd < 0 || write(fd, CONTROLLERS, sizeof(CONTROLLERS) - 1) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return r;
}

/* Of version 1, where a group without shares of its own weighs as much as one process outside: all
 * pods together weigh as the machine's CPUs. */
static void base_weigh(const char *base)
{
    char path[CGROUP_PATH_BYTES + 32];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    (void)snprintf(path, sizeof(path), "%s/cpu.shares", base);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)dprintf(fd, "%ld", cpus > 0 ? cpus * 1024 : 1024);
    close(fd);
}

static int cgroup_look_v2(struct cgroups *cgroups)
{
    int r = controllers_enable(ROOT);
    if (r == 0)
        r = cgroup_make_base(cgroups->memory, ROOT);
    if (r == 0)
        r = controllers_enable(cgroups->memory);
    return r;
}

void cgroup_look(struct cgroups *cgroups)
{
    *cgroups = (struct cgroups){0};
    struct statfs fs;
    int r = statfs(ROOT, &fs) < 0 ? -errno : 0;
    bool v2 = r == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
    if (r == 0 && v2) {
        r = cgroup_look_v2(cgroups);
    } else if (r == 0) {
        r = cgroup_make_base(cgroups->memory, ROOT "/memory");
        r = r ? r : cgroup_make_base(cgroups->cpu, ROOT "/cpu");
        r = r ? r : cgroup_make_base(cgroups->pids, ROOT "/pids");
        if (r == 0)
            base_weigh(cgroups->cpu);
        if (r == 0 && cgroup_make_base(cgroups->freezer, ROOT "/freezer"))
            cgroups->freezer[0] = '\0'; /* pods are stopped by signals */
    }
    if (r == 0)
        cgroups->kind = v2 ? CGROUP_V2 : CGROUP_V1;
    else
        (void)snprintf(cgroups->why, sizeof(cgroups->why), "%s: %s; limits are not enforced", ROOT,
                       strerrordesc_np(-r));
}

/* ---- records ---- */

struct group {
    char pod[CGROUP_PATH_BYTES * 2];
    char container[CGROUP_PATH_BYTES * 2];
};

static void group_of(const struct pod *pod,
                     const struct json *container,
                     const char *base,
                     struct group *ret)
{
    (void)snprintf(ret->pod, sizeof(ret->pod), "%s/" STR_FMT, base, STR_ARG(pod->uid));
    (void)snprintf(ret->container, sizeof(ret->container), "%s/" STR_FMT "/" STR_FMT, base,
                   STR_ARG(pod->uid), STR_ARG(json_str(json_get(container, "name"))));
}

static void record_file(struct buf *records, const char *folder, const char *file, long long number)
{
    buf_addf(records, "cgroup.file=%s/%s", folder, file);
    buf_addc(records, '\0');
    record_number(records, "cgroup.write", number);
}

/* What the next file may answer, and nothing is wrong: ENOENT, where the machine has no such thing (swap that is
 * counted), or EINVAL, where the group above allows less anyway. */
static void record_except(struct buf *records, int error)
{
    record_number(records, "cgroup.except", error);
}

/* Of version 1. A thread that moves itself by way of `tasks` waits for nobody; cgroup.procs would
 * wait until every CPU has passed by (an RCU grace period, some 20 ms on a busy machine). */
static void record_join(struct buf *records, const char *folder)
{
    buf_addf(records, "cgroup.join=%s/tasks", folder);
    buf_addc(records, '\0');
}

static void add_folders(struct buf *records, const struct group *group)
{
    record_add(records, "cgroup.make", str_from(group->pod));
    record_add(records, "cgroup.make", str_from(group->container));
}

static int64_t container_amount(const struct json *container,
                                const char *list,
                                const char *name,
                                bool milli)
{
    int64_t value = 0;
    const struct json *entry = json_get(json_get(json_get(container, "resources"), list), name);
    int r =
        milli ? quantity_milli_json(entry, &value, NULL) : quantity_whole_json(entry, &value, NULL);
    return r ? 0 : value;
}

static int64_t shares_of_milli(int64_t milli)
{
    int64_t shares = milli * 1024 / 1000;
    return shares < SHARES_MIN ? SHARES_MIN : shares > SHARES_MAX ? SHARES_MAX : shares;
}

static int64_t shares_of(const struct json *container)
{
    return shares_of_milli(container_amount(container, "requests", "cpu", true));
}

/* Of all that may run at the same time: containers weigh against each other within their pod only.
 */
static int64_t pod_shares(const struct pod *pod)
{
    const struct json *spec = json_get(pod->root, "spec");
    int64_t sum = 0;
    int64_t most = 0;
    JSON_FOREACH(json_get(spec, "containers"), container)
        sum += container_amount(container, "requests", "cpu", true);
    JSON_FOREACH(json_get(spec, "initContainers"), container) {
        int64_t milli = container_amount(container, "requests", "cpu", true);
        if (str_is(json_str(json_get(container, "restartPolicy")), "Always"))
            sum += milli;
        else
            most = milli > most ? milli : most;
    }
    return shares_of_milli(sum > most ? sum : most);
}

/* The kernel takes no less than a thousandth of a second. */
static int64_t quota_of(int64_t cpu_milli)
{
    int64_t us = cpu_milli * (PERIOD_US / 1000);
    return us < QUOTA_MIN_US ? QUOTA_MIN_US : us;
}

static void limits_add_v1(const struct pod *pod, const struct json *container, struct buf *records)
{
    const struct cgroups *cgroups = &pod->agent->machine.cgroups;
    int64_t memory = container_amount(container, "limits", "memory", false);
    int64_t cpu = container_amount(container, "limits", "cpu", true);
    struct group group;
    /* Groups are made one by one in version 1. Memory is counted for all: only its group knows of
     * what no process has mapped (a memfd, a file in /dev/shm). */
    group_of(pod, container, cgroups->memory, &group);
    add_folders(records, &group);
    if (memory) {
        record_file(records, group.container, "memory.limit_in_bytes", memory);
        record_except(records, ENOENT);
        record_file(records, group.container, "memory.memsw.limit_in_bytes", memory);
    }
    record_join(records, group.container);
    if (memory) {
        buf_addf(records, "cgroup.oom=%s/memory.oom_control", group.container);
        buf_addc(records, '\0');
    }
    if (cpu || container_amount(container, "requests", "cpu", true)) {
        group_of(pod, container, cgroups->cpu, &group);
        add_folders(records, &group);
        record_file(records, group.pod, "cpu.shares", pod_shares(pod));
        record_file(records, group.container, "cpu.shares", shares_of(container));
    }
    if (cpu) {
        record_file(records, group.container, "cpu.cfs_period_us", PERIOD_US);
        record_except(records, EINVAL);
        record_file(records, group.container, "cpu.cfs_quota_us", quota_of(cpu));
    }
    if (cpu || container_amount(container, "requests", "cpu", true))
        record_join(records, group.container);
    group_of(pod, container, cgroups->pids, &group);
    add_folders(records, &group);
    record_file(records, group.pod, "pids.max", CGROUP_POD_PIDS_MAX);
    record_join(records, group.container);
}

static void limits_add_v2(const struct pod *pod, const struct json *container, struct buf *records)
{
    int64_t memory = container_amount(container, "limits", "memory", false);
    int64_t cpu = container_amount(container, "limits", "cpu", true);
    struct group group;
    group_of(pod, container, pod->agent->machine.cgroups.memory, &group);
    record_add(records, "cgroup.make", str_from(group.pod));
    buf_addf(records, "cgroup.file=%s/cgroup.subtree_control", group.pod);
    buf_addc(records, '\0');
    record_add(records, "cgroup.write", STR(CONTROLLERS));
    record_file(records, group.pod, "pids.max", CGROUP_POD_PIDS_MAX);
    record_add(records, "cgroup.make", str_from(group.container));
    if (memory) {
        record_file(records, group.container, "memory.max", memory);
        record_except(records, ENOENT);
        record_file(records, group.container, "memory.swap.max", 0);
        record_except(records, ENOENT);
        record_file(records, group.container, "memory.oom.group", 1);
    }
    record_file(records, group.container, "cpu.weight",
                1 + (shares_of(container) - SHARES_MIN) * 9999 / (SHARES_MAX - SHARES_MIN));
    if (cpu) {
        buf_addf(records, "cgroup.file=%s/cpu.max", group.container);
        buf_addc(records, '\0');
        buf_addf(records, "cgroup.write=%lld %d", (long long)quota_of(cpu), PERIOD_US);
        buf_addc(records, '\0');
    }
    record_add(records, "cgroup.into", str_from(group.container));
    buf_addf(records, "cgroup.oom=%s/memory.events", group.container);
    buf_addc(records, '\0');
}

void cgroup_add(const struct pod *pod, const struct json *container, struct buf *records)
{
    switch (pod->agent->machine.cgroups.kind) {
    case CGROUP_V1: limits_add_v1(pod, container, records); break;
    case CGROUP_V2: limits_add_v2(pod, container, records); break;
    case CGROUP_NONE: break;
    }
}

void cgroup_add_first(const struct pod *pod, struct buf *records)
{
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct run_container *c = &pod->run.containers[i];
        if (c->state == RUN_ENDED || c->ephemeral)
            continue;
        cgroup_add(pod, pod_container_spec(pod, i), records);
        return;
    }
}

void cgroup_add_join(const struct pod *pod, const struct json *container, struct buf *records)
{
    const struct cgroups *cgroups = &pod->agent->machine.cgroups;
    const char *bases[] = {cgroups->memory, cgroups->cpu, cgroups->pids};
    size_t count = cgroups->kind == CGROUP_V1 ? 3 : cgroups->kind == CGROUP_V2 ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        struct group group;
        group_of(pod, container, bases[i], &group);
        if (access(group.container, F_OK) < 0)
            continue;
        if (cgroups->kind == CGROUP_V2)
            record_add(records, "cgroup.into", str_from(group.container));
        else
            record_join(records, group.container);
    }
}

/* Of version 1 every pod is in a group of processes, of version 2 in the one that there is. */
size_t cgroup_pids(const struct cgroups *cgroups, struct str uid, pid_t *ret, size_t max)
{
    size_t count = 0;
    char path[CGROUP_PATH_BYTES * 2 + NAME_MAX];
    const char *base = cgroups->kind == CGROUP_V1 ? cgroups->pids : cgroups->memory;
    int n = snprintf(path, sizeof(path), "%s/" STR_FMT, base, STR_ARG(uid));
    DIR *folder = cgroups->kind == CGROUP_NONE ? NULL : opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        (void)snprintf(path + n, sizeof(path) - (size_t)n, "/%s/cgroup.procs", entry->d_name);
        FILE *file = fopen(path, "re");
        long long pid;
        while (file && count < max && fscanf(file, "%lld", &pid) == 1)
            ret[count++] = (pid_t)pid;
        if (file)
            (void)fclose(file);
    }
    if (folder)
        closedir(folder);
    return count;
}

static void limit_write(const char *folder, const char *file, int64_t bytes)
{
    char path[CGROUP_PATH_BYTES * 2 + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)dprintf(fd, "%lld", (long long)bytes);
    close(fd);
}

void cgroup_allow(const struct pod *pod, const struct json *container, int64_t extra_bytes)
{
    const struct cgroups *cgroups = &pod->agent->machine.cgroups;
    int64_t limit = container_amount(container, "limits", "memory", false);
    struct group group;
    if (!limit || cgroups->kind == CGROUP_NONE)
        return;
    group_of(pod, container, cgroups->memory, &group);
    if (cgroups->kind == CGROUP_V2) {
        limit_write(group.container, "memory.max", limit + extra_bytes);
        return;
    }
    /* Neither may pass the other: one of the two orders is right, whichever way it goes. */
    limit_write(group.container, "memory.memsw.limit_in_bytes", limit + extra_bytes);
    limit_write(group.container, "memory.limit_in_bytes", limit + extra_bytes);
    limit_write(group.container, "memory.memsw.limit_in_bytes", limit + extra_bytes);
}

/* Groups have no files that could be removed, only folders in folders. */
static void remove_group(const char *base, struct str uid)
{
    char path[CGROUP_PATH_BYTES * 2];
    (void)snprintf(path, sizeof(path), "%s/" STR_FMT, base, STR_ARG(uid));
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            (void)unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    if (folder)
        closedir(folder);
    (void)rmdir(path);
}

void cgroup_remove(const struct cgroups *cgroups, struct str uid)
{
    const char *bases[] = {cgroups->memory, cgroups->cpu, cgroups->pids, cgroups->freezer};
    size_t count = cgroups->kind == CGROUP_V2   ? 1
                   : cgroups->kind == CGROUP_V1 ? 3 + (cgroups->freezer[0] != '\0')
                                                : 0;
    for (size_t i = 0; uid.len && i < count; i++)
        remove_group(bases[i], uid);
}
