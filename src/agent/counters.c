#include "agent/counters.h"

#include "agent/cgroup.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/files.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_BYTES_MAX 65536 /* memory.stat has 2 KiB; 4096 pids of 8 bytes have 32 KiB */
#define NS_PER_S       1000000000LL

/* ---- files ---- */

static bool file_read(const char *folder, const char *name, struct buf *ret)
{
    char path[CGROUP_PATH_BYTES * 3];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return files_read(path, FILE_BYTES_MAX, ret);
}

static bool file_number(const char *folder, const char *name, int64_t *ret)
{
    _cleanup_(buf_done) struct buf text = {0};
    return file_read(folder, name, &text) && str_to_i64(str_trim(buf_str(&text)), ret);
}

/* The number behind "KEY " at the beginning of a line. */
static bool line_number(struct str text, const char *key, int64_t *ret)
{
    struct str line, word;
    while (str_cut(&text, '\n', &line))
        if (str_cut(&line, ' ', &word) && str_is(word, key)) {
            struct str rest = str_trim(line);
            return str_to_i64(str_sub(rest, 0, str_find(rest, ' ')), ret);
        }
    return false;
}

static bool file_line(const char *folder, const char *name, const char *key, int64_t *ret)
{
    _cleanup_(buf_done) struct buf text = {0};
    return file_read(folder, name, &text) && line_number(buf_str(&text), key, ret);
}

/* ---- processes ---- */

/* Of one process: fields 14 and 15 (user and system time) and 24 (pages) of its stat. */
static void process_add(struct str pid, struct counters *counters)
{
    _cleanup_(buf_done) struct buf text = {0};
    char folder[64];
    (void)snprintf(folder, sizeof(folder), "/proc/" STR_FMT, STR_ARG(str_sub(pid, 0, 20)));
    if (!file_read(folder, "stat", &text))
        return;
    struct str rest = buf_str(&text), word;
    size_t end = rest.len;
    while (end && rest.p[end - 1] != ')') /* a name may have blanks and brackets */
        end--;
    rest = str_trim(str_sub(rest, end, rest.len));
    int64_t ticks = 0, pages = 0, number;
    for (size_t field = 3; field <= 24 && str_cut(&rest, ' ', &word); field++) {
        if (!str_to_i64(word, &number))
            continue;
        if (field == 14 || field == 15)
            ticks += number;
        else if (field == 24)
            pages = number;
    }
    counters->cpu_ns += ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
    counters->memory_bytes += pages * sysconf(_SC_PAGESIZE);
}

static void processes_add(const char *folder, struct counters *counters)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct counters sum = {0};
    if (!file_read(folder, "cgroup.procs", &text))
        return;
    struct str rest = buf_str(&text), pid;
    for (int left = COUNTERS_PROCESSES_MAX; left && str_cut(&rest, '\n', &pid); left--)
        if (pid.len)
            process_add(pid, &sum);
    if (!counters->has_cpu)
        counters->cpu_ns = sum.cpu_ns;
    if (!counters->has_memory)
        counters->memory_bytes = sum.memory_bytes;
    counters->has_cpu = counters->has_memory = true;
}

/* ---- groups ---- */

static void folder_of(char out[static CGROUP_PATH_BYTES * 2],
                      const char *base,
                      struct str uid,
                      struct str container)
{
    (void)snprintf(out, CGROUP_PATH_BYTES * 2, "%s/" STR_FMT "/" STR_FMT, base, STR_ARG(uid),
                   STR_ARG(container));
}

/* What can be given back at once is not counted, as the kubelet does. */
static void memory_take(const char *folder, bool v2, struct counters *counters)
{
    int64_t used = 0, idle = 0;
    counters->has_memory =
        file_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", &used);
    (void)file_line(folder, "memory.stat", v2 ? "inactive_file" : "total_inactive_file", &idle);
    counters->memory_bytes = used > idle ? used - idle : 0;
}

/* Of version 1 a container is always in the groups of memory and processes, in that of CPUs only
 * where it asks for some: what no group counts is counted process by process. */
bool counters_of_container(const struct cgroups *cgroups,
                           struct str uid,
                           struct str container,
                           struct counters *ret)
{
    char folder[CGROUP_PATH_BYTES * 2];
    int64_t us = 0;
    *ret = (struct counters){0};
    switch (cgroups->kind) {
    case CGROUP_V2:
        folder_of(folder, cgroups->memory, uid, container);
        ret->has_cpu = file_line(folder, "cpu.stat", "usage_usec", &us);
        ret->cpu_ns = us * 1000;
        memory_take(folder, true, ret);
        break;
    case CGROUP_V1:
        folder_of(folder, cgroups->cpu, uid, container);
        ret->has_cpu = file_number(folder, "cpuacct.usage", &ret->cpu_ns);
        folder_of(folder, cgroups->memory, uid, container);
        memory_take(folder, false, ret);
        folder_of(folder, cgroups->pids, uid, container);
        break;
    case CGROUP_NONE: return false;
    }
    if (!ret->has_cpu || !ret->has_memory)
        processes_add(folder, ret);
    return ret->has_cpu && ret->has_memory;
}

/* Of version 1 the groups within a group of memory are not counted in it everywhere. */
static int64_t containers_memory(const struct cgroups *cgroups, struct str uid, const char *pod)
{
    int64_t sum = 0;
    DIR *folder = opendir(pod);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct counters one;
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            counters_of_container(cgroups, uid, str_from(entry->d_name), &one))
            sum += one.memory_bytes;
    }
    if (folder)
        closedir(folder);
    return sum;
}

struct counters counters_of_pod(const struct cgroups *cgroups, struct str uid)
{
    struct counters all = {0};
    char folder[CGROUP_PATH_BYTES * 2];
    bool v2 = cgroups->kind == CGROUP_V2;
    if (cgroups->kind == CGROUP_NONE || !uid.len)
        return all;
    /* Every pod is in a group of processes. */
    (void)snprintf(folder, sizeof(folder), "%s/" STR_FMT, v2 ? cgroups->memory : cgroups->pids,
                   STR_ARG(uid));
    (void)file_number(folder, "pids.current", &all.tasks);
    if (v2)
        memory_take(folder, true, &all);
    else
        all.memory_bytes = containers_memory(cgroups, uid, folder);
    return all;
}
