#pragma once

#include "agent/counters.h"
#include "api/podio.h"

#include <stdint.h>

struct agent;

/* usage: what containers and nodes use of cpu and memory, from the counters of their groups.
 *
 * Cpu time is counted, so what is told is a mean: over the time since the sample before the last
 * one, or since the container began. Samples are taken with the heartbeat, and only while somebody
 * has asked lately; the files of a container are read at most once in USAGE_FRESH_MS, whoever asks. */
#define USAGE_SAMPLE_MS 10000 /* two samples are at least so far apart */
#define USAGE_FRESH_MS  2000
#define USAGE_ASKED_MS  (10LL * 60 * 1000)

struct usage_counter {
    int64_t at_ms; /* 0: none */
    int64_t cpu_ns;
};

/* Of one container, or of the machine. */
struct usage_samples {
    unsigned instance;
    struct usage_counter before;
    struct usage_counter last;
    struct counters read;
    int64_t read_ms; /* 0: never */
};

/* The mean between `before` and `now`, and of how long that is; remembers `now` when it is time. */
int64_t usage_rate(struct usage_samples *samples,
                   struct usage_counter now,
                   struct usage_counter begin,
                   int64_t *ret_window_ms);

void usage_start(struct agent *agent);
/* With every heartbeat. */
void usage_sample(struct agent *agent);
/* Of podio: tells of every node and every container that runs. */
void usage_tell(struct podio *podio, podio_usage_fn *fn, void *user);
