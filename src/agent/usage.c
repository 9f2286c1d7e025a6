#include "agent/usage.h"

#include "agent/cgroup.h"
#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/node.h"
#include "agent/pod.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"
#include "tool/files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define FILE_BYTES_MAX 65536 /* memory.stat has 2 KiB; 4096 pids of 8 bytes have 32 KiB */
#define NS_PER_MS      1000000LL
#define NS_PER_S       1000000000LL

int64_t usage_rate(struct usage_samples *samples,
                   struct usage_counter now,
                   struct usage_counter begin,
                   int64_t *ret_window_ms)
{
    struct usage_counter base = samples->before.at_ms ? samples->before : begin;

    if (now.at_ms - samples->last.at_ms >= USAGE_SAMPLE_MS) {
        samples->before = samples->last;
        samples->last = now;
    }
    int64_t window_ms = now.at_ms - base.at_ms;
    *ret_window_ms = window_ms > 0 ? window_ms : 1;
    /* Counted process by process the sum falls when one ends. */
    int64_t used_ns = now.cpu_ns > base.cpu_ns ? now.cpu_ns - base.cpu_ns : 0;
    return (int64_t)((__int128)used_ns * NS_PER_S / (*ret_window_ms * NS_PER_MS));
}

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

/* ---- counters ---- */

struct amounts {
    int64_t cpu_ns;
    int64_t memory_bytes;
    bool has_cpu;
    bool has_memory;
};

/* Of one process: fields 14 and 15 (user and system time) and 24 (pages) of its stat. */
static void process_add(struct str pid, struct amounts *amounts)
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
    amounts->cpu_ns += ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
    amounts->memory_bytes += pages * sysconf(_SC_PAGESIZE);
}

static void processes_add(const char *folder, struct amounts *amounts)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct amounts sum = {0};
    if (!file_read(folder, "cgroup.procs", &text))
        return;
    struct str rest = buf_str(&text), pid;
    while (str_cut(&rest, '\n', &pid))
        if (pid.len)
            process_add(pid, &sum);
    if (!amounts->has_cpu)
        amounts->cpu_ns = sum.cpu_ns;
    if (!amounts->has_memory)
        amounts->memory_bytes = sum.memory_bytes;
    amounts->has_cpu = amounts->has_memory = true;
}

static void folder_of(const struct pod *pod,
                      const struct run_container *c,
                      const char *base,
                      char out[static CGROUP_PATH_BYTES * 2])
{
    (void)snprintf(out, CGROUP_PATH_BYTES * 2, "%s/" STR_FMT "/" STR_FMT, base, STR_ARG(pod->uid),
                   STR_ARG(c->name));
}

/* What can be given back at once is not counted, as the kubelet does. */
static void memory_take(const char *folder, bool v2, struct amounts *amounts)
{
    int64_t used = 0, idle = 0;
    amounts->has_memory =
        file_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", &used);
    (void)file_line(folder, "memory.stat", v2 ? "inactive_file" : "total_inactive_file", &idle);
    amounts->memory_bytes = used > idle ? used - idle : 0;
}

/* Of version 1 a container is only in the groups that limit it, but always in that of its
 * processes: what no group counts is counted process by process. */
static bool container_amounts(const struct pod *pod,
                              const struct run_container *c,
                              struct amounts *ret)
{
    const struct cgroups *cgroups = &pod->agent->machine.cgroups;
    char folder[CGROUP_PATH_BYTES * 2];
    int64_t us = 0;
    *ret = (struct amounts){0};
    switch (cgroups->kind) {
    case CGROUP_V2:
        folder_of(pod, c, cgroups->memory, folder);
        ret->has_cpu = file_line(folder, "cpu.stat", "usage_usec", &us);
        ret->cpu_ns = us * 1000;
        memory_take(folder, true, ret);
        break;
    case CGROUP_V1:
        folder_of(pod, c, cgroups->cpu, folder);
        ret->has_cpu = file_number(folder, "cpuacct.usage", &ret->cpu_ns);
        folder_of(pod, c, cgroups->memory, folder);
        memory_take(folder, false, ret);
        folder_of(pod, c, cgroups->pids, folder);
        break;
    case CGROUP_NONE: return false;
    }
    if (!ret->has_cpu || !ret->has_memory)
        processes_add(folder, ret);
    return ret->has_cpu && ret->has_memory;
}

static int64_t machine_cpu_ns(void)
{
    _cleanup_(buf_done) struct buf text = {0};
    int64_t ticks = 0, number;
    if (!file_read("/proc", "stat", &text))
        return 0;
    struct str rest = buf_str(&text), line, word;
    (void)str_cut(&rest, '\n', &line);
    /* "cpu  user nice system idle iowait irq softirq steal guest guest_nice": all but idle, iowait
     * and the guests, who are counted as user already. */
    for (size_t i = 0; str_cut(&line, ' ', &word);) {
        if (!str_to_i64(word, &number))
            continue;
        if (i != 3 && i != 4 && i < 8)
            ticks += number;
        i++;
    }
    return ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
}

static int64_t machine_memory_bytes(void)
{
    int64_t total = 0, available = 0;
    if (!file_line("/proc", "meminfo", "MemTotal:", &total) ||
        !file_line("/proc", "meminfo", "MemAvailable:", &available))
        return 0;
    return (total - available) * 1024;
}

/* ---- samples ---- */

static struct usage_samples *samples_of(struct pod *pod, size_t index)
{
    if (pod->usage_count < pod->run.count) { /* also when ephemeral containers were added */
        pod->usage = ARENA_ARRAY(&pod->arena, struct usage_samples, pod->run.count);
        pod->usage_count = pod->run.count;
    }
    struct usage_samples *samples = &pod->usage[index];
    if (samples->instance != pod->run.containers[index].instance)
        *samples = (struct usage_samples){.instance = pod->run.containers[index].instance};
    return samples;
}

static bool container_usage(struct pod *pod, size_t index, int64_t now_ms, struct podio_usage *ret)
{
    const struct run_container *c = &pod->run.containers[index];
    struct amounts amounts;
    if (c->state != RUN_RUNNING || !container_amounts(pod, c, &amounts))
        return false;
    *ret = (struct podio_usage){.node = str_from(pod->agent->nodes[pod->node].name),
                                .ns = pod->ns,
                                .pod = pod->name,
                                .container = c->name,
                                .at_ms = now_ms,
                                .memory_bytes = amounts.memory_bytes};
    ret->cpu_nano =
        usage_rate(samples_of(pod, index), (struct usage_counter){now_ms, amounts.cpu_ns},
                   (struct usage_counter){c->started_ms, 0}, &ret->window_ms);
    return true;
}

struct totals {
    int64_t cpu_nano;
    int64_t memory_bytes;
};

static void pods_tell(struct agent *agent,
                      int64_t now_ms,
                      struct totals *totals,
                      podio_usage_fn *fn,
                      void *user)
{
    MAP_FOREACH(&agent->pods, entry) {
        struct pod *pod = entry->value;
        for (size_t i = 0; pod->stage == POD_RUNNING && i < pod->run.count; i++) {
            struct podio_usage usage;
            if (!container_usage(pod, i, now_ms, &usage))
                continue;
            if (totals) {
                totals[pod->node].cpu_nano += usage.cpu_nano;
                totals[pod->node].memory_bytes += usage.memory_bytes;
            }
            if (fn)
                fn(user, &usage);
        }
    }
}

/* A machine that plays one node is that node; of several, each is its pods. */
static void nodes_tell(struct agent *agent,
                       int64_t now_ms,
                       const struct totals *totals,
                       podio_usage_fn *fn,
                       void *user)
{
    int64_t window_ms = 0;
    int64_t cpu_nano = usage_rate(&agent->usage, (struct usage_counter){now_ms, machine_cpu_ns()},
                                  agent->usage_begin, &window_ms);
    bool alone = agent->options.node_count == 1;
    for (uint32_t i = 0; fn && i < agent->options.node_count; i++)
        fn(user, &(struct podio_usage){.node = str_from(agent->nodes[i].name),
                                       .at_ms = now_ms,
                                       .window_ms = window_ms,
                                       .cpu_nano = alone ? cpu_nano : totals[i].cpu_nano,
                                       .memory_bytes = alone ? machine_memory_bytes()
                                                             : totals[i].memory_bytes});
}

void usage_start(struct agent *agent)
{
    agent->usage_begin = (struct usage_counter){agent_now_ms(), machine_cpu_ns()};
}

void usage_sample(struct agent *agent)
{
    int64_t now_ms = agent_now_ms();
    if (now_ms - agent->usage_asked_ms > USAGE_ASKED_MS)
        return;
    pods_tell(agent, now_ms, NULL, NULL, NULL);
    nodes_tell(agent, now_ms, NULL, NULL, NULL);
}

void usage_tell(struct podio *podio, podio_usage_fn *fn, void *user)
{
    struct agent *agent = (struct agent *)podio;
    _cleanup_(arena_done) struct arena arena = {0};
    struct totals *totals = ARENA_ARRAY(&arena, struct totals, agent->options.node_count);
    int64_t now_ms = agent_now_ms();
    agent->usage_asked_ms = now_ms;
    pods_tell(agent, now_ms, totals, fn, user);
    nodes_tell(agent, now_ms, totals, fn, user);
}
