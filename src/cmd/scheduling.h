#pragma once

#include "control/core/control.h"
#include "sched/sched.h"
#include "tool/option.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* The options of scheduling that `muster up` and `muster operator` share. SchedulingShards change
 * most of them while the program runs; these hold where no shard says otherwise. */
struct scheduling_values {
    const char *queue_label_key;
    const char *default_queue;
    const char *default_parent;
    int gpu_placement;
    int cpu_placement;
    int64_t stale_grace_ms;
    int64_t preempt_min_runtime_ms;
    int64_t reclaim_min_runtime_ms;
    struct option_list quirks;
    const char *record;
    int64_t record_mib;
};

extern const char *const scheduling_placements[];

#define SCHEDULING_DAY_MS ((int64_t)24 * 3600 * 1000)

/* The rows of the option table of a command whose values are a `type` with scheduling_values as
 * `member`. */
#define SCHEDULING_OPTIONS(type, member)                                                        \
    {"queue-label-key",                                                                         \
     0,                                                                                         \
     OPTION_STR,                                                                                \
     offsetof(type, member.queue_label_key),                                                    \
     .fallback = "kai.scheduler/queue",                                                         \
     .value = "KEY",                                                                            \
     .help = "label that names a pod's queue"},                                                 \
        {"default-queue",                                                                       \
         0,                                                                                     \
         OPTION_STR,                                                                            \
         offsetof(type, member.default_queue),                                                  \
         .fallback = "default-queue",                                                           \
         .value = "NAME",                                                                       \
         .help = "queue of pods that name none; created if it is missing"},                     \
        {"default-parent-queue",                                                                \
         0,                                                                                     \
         OPTION_STR,                                                                            \
         offsetof(type, member.default_parent),                                                 \
         .fallback = "default-parent-queue",                                                    \
         .value = "NAME",                                                                       \
         .help = "parent of the default queue; created with it"},                               \
        {"gpu-placement",                                                                       \
         0,                                                                                     \
         OPTION_CHOICE,                                                                         \
         offsetof(type, member.gpu_placement),                                                  \
         .fallback = "binpack",                                                                 \
         .choices = scheduling_placements,                                                      \
         .value = "STRATEGY",                                                                   \
         .help = "binpack: fill nodes with GPU pods one after another; spread: use all nodes"}, \
        {"cpu-placement",       0,                                                              \
         OPTION_CHOICE,         offsetof(type, member.cpu_placement),                           \
         .fallback = "binpack", .choices = scheduling_placements,                               \
         .value = "STRATEGY",   .help = "the same for pods without GPUs"},                      \
        {"staleness-grace",                                                                     \
         0,                                                                                     \
         OPTION_DURATION,                                                                       \
         offsetof(type, member.stale_grace_ms),                                                 \
         .fallback = "1m",                                                                      \
         .min = 0,                                                                              \
         .max = 365 * SCHEDULING_DAY_MS,                                                        \
         .value = "TIME",                                                                       \
         .help = "how long a gang may run below its minimum"},                                  \
        {"preempt-min-runtime",                                                                 \
         0,                                                                                     \
         OPTION_DURATION,                                                                       \
         offsetof(type, member.preempt_min_runtime_ms),                                         \
         .fallback = "0s",                                                                      \
         .min = 0,                                                                              \
         .max = 365 * SCHEDULING_DAY_MS,                                                        \
         .value = "TIME",                                                                       \
         .help =                                                                                \
             "how long a group runs before its own queue may preempt it, if no queue sets it"}, \
        {"reclaim-min-runtime",                                                                 \
         0,                                                                                     \
         OPTION_DURATION,                                                                       \
         offsetof(type, member.reclaim_min_runtime_ms),                                         \
         .fallback = "0s",                                                                      \
         .min = 0,                                                                              \
         .max = 365 * SCHEDULING_DAY_MS,                                                        \
         .value = "TIME",                                                                       \
         .help = "how long a group runs before other queues may reclaim from it, if no queue "  \
                 "sets it"},                                                                    \
        {"record",                                                                              \
         0,                                                                                     \
         OPTION_STR,                                                                            \
         offsetof(type, member.record),                                                         \
         .value = "FOLDER",                                                                     \
         .help = "record what the scheduler sees and decides there, for muster replay"},        \
        {"record-mib",                                                                          \
         0,                                                                                     \
         OPTION_I64,                                                                            \
         offsetof(type, member.record_mib),                                                     \
         .fallback = "256",                                                                     \
         .min = 1,                                                                              \
         .max = 1 << 20,                                                                        \
         .value = "N",                                                                          \
         .help = "MiB after which another recording begins; the newest four stay"},             \
    {                                                                                           \
        "quirk", 0, OPTION_LIST, offsetof(type, member.quirks),                                 \
            .value = "NAME",                                                                    \
            .help = "do one thing as KAI Scheduler does, or \"all\"; can be repeated"           \
    }

/* -EINVAL names the option that makes no sense. Strings are borrowed. */
int scheduling_config(const struct scheduling_values *values,
                      struct sched_config *ret_sched,
                      struct control_config *ret_control,
                      struct err *err);
