#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pressure: when the machine is short of memory, disk, process ids or inodes, and whose pod has to go
 * then.
 * Pure: what was read of the machine in, what is the matter out.
 *
 * Short: no pod is started any more, and the nodes say so (MemoryPressure and the like, with the
 * taints that go with them). Still short a look later, or nearly nothing left: one pod is evicted at
 * each look: first those that use more than they requested, among them the least important, among
 * those the one that is furthest above its request. */
enum pressure_kind {
    PRESSURE_MEMORY,
    PRESSURE_DISK,
    PRESSURE_PIDS,
    PRESSURE_INODES, /* of the disk: files that there may be, however small */
    PRESSURE_KINDS,
};
#define PRESSURE_CONDITIONS PRESSURE_INODES /* that a node tells: inodes are a matter of its disk */

/* In percent of all there is: short below the first, no longer above the second, dire below the
 * third. */
#define PRESSURE_SHORT_PERCENT 5
#define PRESSURE_FINE_PERCENT  7
#define PRESSURE_DIRE_PERCENT  2
/* Where all tasks wait for memory this much of the time (PSI, in hundredths of a percent), it is
 * short already when this much is left. */
#define PRESSURE_STALL         2000
#define PRESSURE_STALL_PERCENT 15
/* A pod counts as this much memory where nothing else is said: so many there may be at once. */
#define PRESSURE_SLOT_BYTES ((int64_t)256 << 20)
#define PRESSURE_SLOTS_MIN  4
#define PRESSURE_SLOTS_MAX  1000
#define PRESSURE_TEXT_BYTES 200
#define PRESSURE_EVICT_MS   5000 /* short for so long: a pod has to go */

struct pressure_reading {
    int64_t total[PRESSURE_KINDS]; /* 0: not known, and then never short */
    int64_t left[PRESSURE_KINDS];
    int64_t stall; /* of memory: hundredths of a percent of the last ten seconds; -1: not known */
};

struct pressure {
    bool is_short[PRESSURE_KINDS];
    int64_t since_ms[PRESSURE_KINDS];
    bool dire[PRESSURE_KINDS]; /* a pod is to be evicted */
};

/* True: something of is_short changed. */
bool pressure_step(struct pressure *pressure,
                   const struct pressure_reading *reading,
                   int64_t now_ms);
/* Whether the node has the condition of this kind, of PRESSURE_CONDITIONS. */
bool pressure_is_told(const struct pressure *pressure, enum pressure_kind kind);
/* "memory", or what it is short of first; NULL: nothing. */
const char *pressure_words(const struct pressure *pressure);

struct pressure_pod {
    int64_t priority;
    int64_t used;
    int64_t requested;
};
/* Whose turn it is; SIZE_MAX: nobody uses anything. */
size_t pressure_victim(const struct pressure_pod *pods, size_t count);

/* How many pods a node of so much memory runs at once. */
int64_t pressure_slots(int64_t memory_bytes);
/* What each of so many nodes has of a machine's CPUs, in thousandths. At least one: with less a node
 * would run nothing that asks for a CPU, and a CPU is a share of time. */
int64_t pressure_cpu_milli(int64_t cpus, int64_t nodes);

/* Texts of /proc/meminfo, /proc/pressure/memory and /proc/loadavg into the reading. */
void pressure_read_memory(struct str meminfo, struct pressure_reading *reading);
void pressure_read_stall(struct str psi, struct pressure_reading *reading);
void pressure_read_tasks(struct str loadavg, int64_t max, struct pressure_reading *reading);
