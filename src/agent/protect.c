#include "agent/protect.h"

#include "agent/core.h"
#include "agent/counters.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/node.h"
#include "agent/pod.h"
#include "agent/pressure.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "tool/files.h"
#include "tool/log.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/statvfs.h>

#define FILE_BYTES    16384
#define LEAVING_MS    10000 /* what a pod that goes may take before another one has to */
#define LOOK_AGAIN_MS 1000  /* where a pod waits for it */

/* ---- the machine ---- */

static bool proc_read(const struct agent *agent, const char *name, struct buf *ret)
{
    char path[PATH_MAX];
    const char *top = agent->options.proc_dir ? agent->options.proc_dir : "/proc";
    (void)snprintf(path, sizeof(path), "%s/%s", top, name);
    buf_clear(ret);
    return files_read(path, FILE_BYTES, ret);
}

static int64_t proc_number(const struct agent *agent, const char *name, struct buf *text)
{
    int64_t number = 0;
    return proc_read(agent, name, text) && str_to_i64(str_trim(buf_str(text)), &number) ? number
                                                                                        : INT64_MAX;
}

static void machine_read(const struct agent *agent, struct pressure_reading *ret)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct statvfs disk;
    *ret = (struct pressure_reading){.stall = -1};
    if (proc_read(agent, "meminfo", &text))
        pressure_read_memory(buf_str(&text), ret);
    if (proc_read(agent, "pressure/memory", &text))
        pressure_read_stall(buf_str(&text), ret);
    int64_t pids = proc_number(agent, "sys/kernel/pid_max", &text);
    int64_t threads = proc_number(agent, "sys/kernel/threads-max", &text);
    int64_t most = pids < threads ? pids : threads;
    if (most != INT64_MAX && proc_read(agent, "loadavg", &text))
        pressure_read_tasks(buf_str(&text), most, ret);
    if (statvfs(agent->options.data_dir, &disk) == 0) {
        ret->total[PRESSURE_DISK] = (int64_t)(disk.f_blocks * disk.f_frsize);
        ret->left[PRESSURE_DISK] = (int64_t)(disk.f_bavail * disk.f_frsize);
        ret->total[PRESSURE_INODES] = (int64_t)disk.f_files; /* 0: not counted there */
        ret->left[PRESSURE_INODES] = (int64_t)disk.f_favail;
    }
}

/* ---- pods ---- */

static int64_t pod_requested(const struct pod *pod, const char *resource)
{
    int64_t sum = 0, one;
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct json *resources = json_get(pod_container_spec(pod, i), "resources");
        const struct json *amount = json_get(json_get(resources, "requests"), resource);
        if (!pod->run.containers[i].init && amount && quantity_whole_json(amount, &one, NULL) == 0)
            sum += one;
    }
    return sum;
}

void protect_evict(struct pod *pod, const char *why)
{
    if (pod->stage != POD_RUNNING || (pod->run.stop_ms && !pod->run.grace_ms))
        return;
    /* One that takes its time to go is hurried: a long grace is no shelter. */
    if (!pod->run.stop_ms)
        pod->run.stop_ms = agent_now_ms();
    pod->run.grace_ms = 0;
    pod->run.failed = true;
    pod->stop_reason = STR("Evicted");
    pod->stop_message = str_dup(&pod->arena, str_from(why));
    pod_event(pod, true, "Evicted", pod->stop_message);
    pod_mark(pod);
}

/* Disk is agent/storage.c's, which takes longer to measure. */
static void evict_for(struct agent *agent, enum pressure_kind kind)
{
    struct arena arena = {0};
    struct pressure_pod *all = ARENA_ARRAY(&arena, struct pressure_pod, agent->pods.count + 1);
    struct pod **who = ARENA_ARRAY(&arena, struct pod *, agent->pods.count + 1);
    size_t count = 0;
    MAP_FOREACH(&agent->pods, entry) {
        struct pod *pod = entry->value;
        if (pod->stage != POD_RUNNING)
            continue;
        struct counters use = counters_of_pod(&agent->machine.cgroups, pod->uid);
        /* One is on its way out: that may be enough, if it does not take long. */
        if (pod->run.stop_ms && use.tasks && agent_now_ms() < pod->run.stop_ms + LEAVING_MS) {
            arena_done(&arena);
            return;
        }
        all[count] = (struct pressure_pod){
            .priority = json_i64_or(json_at(pod->root, "spec.priority"), 0),
            .used = kind == PRESSURE_MEMORY ? use.memory_bytes : use.tasks,
            .requested = kind == PRESSURE_MEMORY ? pod_requested(pod, "memory") : 0};
        who[count++] = pod;
    }
    size_t victim = pressure_victim(all, count);
    if (victim < count)
        protect_evict(who[victim],
                      str_printf(&arena,
                                 "The node was low on resource: %s. The pod was using %lld, its "
                                 "request is %lld",
                                 kind == PRESSURE_MEMORY ? "memory" : "pids",
                                 (long long)all[victim].used, (long long)all[victim].requested)
                          .p);
    arena_done(&arena);
}

void protect_look(struct agent *agent)
{
    struct pressure_reading reading;
    int64_t now_ms = agent_now_ms();
    agent->looked_ms = now_ms;
    machine_read(agent, &reading);
    bool changed = pressure_step(&agent->pressure, &reading, now_ms);
    if (changed) {
        const char *what = pressure_words(&agent->pressure);
        if (what)
            log_warn(agent->log, "machine.short", LOG_C("of", what));
        else
            log_info(agent->log, "machine.fine");
        nodes_tell_pressure(agent);
    }
    for (enum pressure_kind kind = 0; kind < PRESSURE_KINDS; kind++)
        if (agent->pressure.dire[kind] && kind != PRESSURE_DISK && kind != PRESSURE_INODES)
            evict_for(agent, kind);
}

const char *protect_wait(struct agent *agent)
{
    int64_t age_ms = agent_now_ms() - agent->looked_ms;
    if (!agent->looked_ms || (pressure_words(&agent->pressure) && age_ms >= LOOK_AGAIN_MS))
        protect_look(agent);
    return pressure_words(&agent->pressure);
}
