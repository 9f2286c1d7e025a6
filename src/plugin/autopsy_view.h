#pragma once

#include <stdbool.h>

struct arena;
struct buf;
struct json;

/* autopsy_view: what all ranks of a job are doing, in words. No I/O.
 *
 * The document is {job, namespace, time, pods: [{pod, node, phase, error, processes: [...]}]} with
 * the processes as in stacks/pod.h. Equal stacks are one group; the smallest groups come first: of
 * many ranks that wait, the one that they wait for is alone. */
#define AUTOPSY_FRAMES_MAX 40 /* of a stack in the text; the document has all */
#define AUTOPSY_NATIVE_MAX 12 /* of those of C and C++ above them */

/* Sets `groups`: [{ranks, pods, where, states, frames}], and, where ranks have a flight recorder
 * (stacks/flight.h), `collectives`: [{group, ranks: [{ranks, last}], says}]; `says` is where they differ. */
void autopsy_group(struct arena *arena, struct json *document);
/* `all`: also the threads beside the main one, and the processes that ranks have started. */
void autopsy_text(struct buf *out, struct arena *arena, const struct json *document, bool all);
