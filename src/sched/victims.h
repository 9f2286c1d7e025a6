#pragma once

#include <stdbool.h>

struct group;
struct queue;

/* victims: the active groups of a queue in order, kept as they start and end. */

/* An active group of a queue, and where it stands to its minimum now. */
void victims_note(struct group *group, int elastic);
void victims_forget(struct group *group);
/* All of them: they will be noted again, in their order. */
void victims_clear(struct queue *queue);
/* queue->sorted as it should be: last to start, first to go, from its end. `afresh`: without using
 * what is there, as a twin does. */
void victims_sorted(struct queue *queue, bool afresh);
