#include "agent/usage.h"

#include "agent/core.h"
#include "agent/counters.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/node.h"
#include "agent/pod.h"
#include "agent/pressure.h"
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
#include <unistd.h>

#define FILE_BYTES_MAX 65536 /* /proc/stat begins with the line of all CPUs */
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

/* ---- the machine ---- */

static int64_t machine_cpu_ns(void)
{
    _cleanup_(buf_done) struct buf text = {0};
    int64_t ticks = 0, number;
    if (!files_read("/proc/stat", FILE_BYTES_MAX, &text))
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
    _cleanup_(buf_done) struct buf text = {0};
    struct pressure_reading reading = {0};
    if (files_read("/proc/meminfo", FILE_BYTES_MAX, &text))
        pressure_read_memory(buf_str(&text), &reading);
    return reading.total[PRESSURE_MEMORY] - reading.left[PRESSURE_MEMORY];
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

/* Whoever asks, and however often: the files are read only so often. */
static bool samples_read(struct pod *pod, size_t index, int64_t now_ms)
{
    struct usage_samples *samples = samples_of(pod, index);
    if (samples->read_ms && now_ms - samples->read_ms < USAGE_FRESH_MS)
        return true;
    if (!counters_of_container(&pod->agent->machine.cgroups, pod->uid,
                               pod->run.containers[index].name, &samples->read))
        return false;
    samples->read_ms = now_ms;
    return true;
}

static bool container_usage(struct pod *pod, size_t index, int64_t now_ms, struct podio_usage *ret)
{
    const struct run_container *c = &pod->run.containers[index];
    if (c->state != RUN_RUNNING || !samples_read(pod, index, now_ms))
        return false;
    struct usage_samples *samples = samples_of(pod, index);
    *ret = (struct podio_usage){.node = str_from(pod->agent->nodes[pod->node].name),
                                .ns = pod->ns,
                                .pod = pod->name,
                                .container = c->name,
                                .at_ms = samples->read_ms,
                                .memory_bytes = samples->read.memory_bytes};
    ret->cpu_nano =
        usage_rate(samples, (struct usage_counter){samples->read_ms, samples->read.cpu_ns},
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
