#include "agent/gpu_link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What was counted since the last look, which becomes this one. A counter that is lower than it was
 * has been reset. */
static unsigned long long link_grown(struct gpu_link *link, const struct gpu_link_seen *seen, int i)
{
    unsigned long long before = link->counters[i];
    unsigned long long after = seen->counters[i];

    if (after == GPU_LINK_UNKNOWN)
        return 0;
    link->counters[i] = after;
    return link->read && before != GPU_LINK_UNKNOWN && after > before ? after - before : 0;
}

static void link_take(struct gpu_link *link,
                      const struct gpu_link_seen *seen,
                      long long past_ms,
                      long long now)
{
    unsigned long long errors, recoveries;

    if (now > link->recovered_ms + GPU_LINK_KEPT_MS)
        link->recoveries = 0;
    if (!seen->there)
        return;
    if (!link->read)
        for (int i = 0; i < GPU_LINK_COUNTERS; i++)
            link->counters[i] = GPU_LINK_UNKNOWN;
    errors = link_grown(link, seen, GPU_LINK_REPLAYS) + link_grown(link, seen, GPU_LINK_CRCS);
    recoveries = link_grown(link, seen, GPU_LINK_RECOVERIES);
    link->read = true;
    link->was_up |= seen->up;
    link->down_looks = seen->up || !link->was_up ? 0 : link->down_looks + 1;
    bool fast =
        errors && past_ms > 0 && errors >= (unsigned long long)past_ms * GPU_LINK_FAST / 1000;
    link->fast_looks = fast ? link->fast_looks + 1 : 0;
    link->recoveries += recoveries;
    if (recoveries)
        link->recovered_ms = now;
}

static struct gpu_link_sign link_judge(const struct gpu_link *link, unsigned number)
{
    struct gpu_link_sign sign = {.link = number, .count = link->recoveries};

    if (link->down_looks >= GPU_LINK_DOWN_LOOKS)
        sign.fault = GPU_LINK_DOWN;
    else if (link->recoveries)
        sign.fault = GPU_LINK_RECOVERS;
    else if (link->fast_looks >= GPU_LINK_FAST_LOOKS)
        sign.fault = GPU_LINK_ERRORS;
    return sign;
}

struct gpu_link_sign gpu_links_take(struct gpu_links *links,
                                    const struct gpu_link_seen seen[static GPU_LINKS_MAX],
                                    long long now_ms)
{
    struct gpu_link_sign worst = {0};
    long long past_ms = now_ms - links->seen_ms;

    links->seen_ms = now_ms;
    for (unsigned i = 0; i < GPU_LINKS_MAX; i++) {
        link_take(&links->items[i], &seen[i], past_ms, now_ms);
        struct gpu_link_sign sign = link_judge(&links->items[i], i);

        if (sign.fault && (!worst.fault || sign.fault < worst.fault))
            worst = sign;
    }
    return worst;
}

bool gpu_link_words(const struct gpu_link_sign *sign, char ret[static GPU_LINK_TEXT])
{
    ret[0] = '\0';
    switch (sign->fault) {
    case GPU_LINK_FINE: return false;
    case GPU_LINK_DOWN:
        (void)snprintf(ret, GPU_LINK_TEXT, "NVLink %u has gone down; reset all GPUs of the machine",
                       sign->link);
        break;
    case GPU_LINK_RECOVERS:
        (void)snprintf(ret, GPU_LINK_TEXT,
                       "NVLink %u had to recover %llu time%s; an hour without it ends this; "
                       "reset all GPUs of the machine",
                       sign->link, sign->count, sign->count == 1 ? "" : "s");
        break;
    case GPU_LINK_ERRORS:
        (void)snprintf(ret, GPU_LINK_TEXT,
                       "NVLink %u has more than %d errors a second; look at how it is connected",
                       sign->link, GPU_LINK_FAST);
        break;
    }
    return true;
}
