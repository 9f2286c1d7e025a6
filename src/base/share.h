#pragma once

#include <stddef.h>
#include <stdint.h>

/* share: who gives way when as many streams of a sort (results, stacks, logs, exec; connections to
 * services) are open on a node as can be. They are all namespaces' together: one whose clients do not
 * read must not keep the others out.
 *
 * A namespace that has more than the new one's would have gives one up: the one that has not been read
 * for longest, or its oldest. Where all have as many, one that has not been read for SHARE_STALLED_MS
 * does. Pure. */
#define SHARE_STALLED_MS 30000 /* for the MiB that waits to be read: less than 35 KiB a second */

struct share_item {
    const char *ns;
    int64_t stalled_ms; /* since when it waits to be read; 0: it is read */
};

/* `items` are those that are open, oldest first. The index of the one that goes for a new one of `ns`;
 * `count`: none does, and the new one is refused. */
size_t share_loser(const struct share_item *items, size_t count, const char *ns, int64_t now_ms);

/* One of those that take turns. */
struct share_turn {
    const char *ns;
    enum share_state {
        SHARE_DONE,
        SHARE_WAITS,
        SHARE_WORKS
    } state;
};

/* Who is next of those that wait: the oldest of the namespace of which the fewest are at work. `count`:
 * nobody waits. */
size_t share_next(const struct share_turn *items, size_t count);
