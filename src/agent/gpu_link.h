#pragma once

#include <stdbool.h>
#include <stddef.h>

/* gpu_link: what a card's links to the others (NVLink) say against it, judged from what was read of
 * them at each look.
 *
 * A link that was never up is none that anybody uses: cards have more of them than a machine has wired.
 * What was counted before the first look, or before the card was reset, is history. A link that
 * recovers was trained anew because repeating did not help, and everybody on it waited; NVIDIA's own
 * health checks call one such recovery a failure, and errors that repeating mends one from a hundred
 * a second on. */
#define GPU_LINKS_MAX       18 /* of a card, as NVML has it */
#define GPU_LINK_DOWN_LOOKS 3  /* in a row; at ten seconds each, half a minute */
#define GPU_LINK_FAST_LOOKS 6
#define GPU_LINK_FAST       100 /* errors a second */
#define GPU_LINK_KEPT_MS    (3600LL * 1000)
#define GPU_LINK_TEXT       120

/* Counters of a link, by NVML's numbers. */
enum {
    GPU_LINK_REPLAYS,
    GPU_LINK_RECOVERIES,
    GPU_LINK_CRCS,
    GPU_LINK_COUNTERS
};
#define GPU_LINK_UNKNOWN (~0ULL)

struct gpu_link_seen {
    bool there; /* it answers whether it is up */
    bool up;
    unsigned long long counters[GPU_LINK_COUNTERS]; /* GPU_LINK_UNKNOWN: no answer */
};

/* What is remembered of a link. All zeroes: nothing. */
struct gpu_link {
    bool read; /* `counters` are of a look before */
    unsigned long long counters[GPU_LINK_COUNTERS];
    bool was_up;
    unsigned down_looks, fast_looks; /* in a row */
    unsigned long long recoveries;   /* none is longer than GPU_LINK_KEPT_MS after the one before */
    long long recovered_ms;
};

struct gpu_links {
    struct gpu_link items[GPU_LINKS_MAX];
    long long seen_ms; /* when they were looked at */
};

enum gpu_link_fault {
    GPU_LINK_FINE,
    GPU_LINK_DOWN,
    GPU_LINK_RECOVERS,
    GPU_LINK_ERRORS,
};

struct gpu_link_sign {
    enum gpu_link_fault fault;
    unsigned link;
    unsigned long long count; /* of recoveries */
};

/* A look: the worst of all links, the first of equals. */
struct gpu_link_sign gpu_links_take(struct gpu_links *links,
                                    const struct gpu_link_seen seen[static GPU_LINKS_MAX],
                                    long long now_ms);
/* A sentence of it; false: there is nothing to say. */
bool gpu_link_words(const struct gpu_link_sign *sign, char ret[static GPU_LINK_TEXT]);
