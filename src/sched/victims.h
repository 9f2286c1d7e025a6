#pragma once

#include <stdbool.h>
#include <stddef.h>

struct group;
struct queue;
struct sched;

/* victims: the active groups of a queue in order, kept as they start and end. */

/* An active group of a queue, and where it stands to its minimum now. */
void victims_note(struct group *group, int elastic);
void victims_forget(struct group *group);
/* All of them: they will be noted again, in their order. */
void victims_clear(struct queue *queue);
/* queue->sorted as it should be: last to start, first to go, from its end. A twin (config.plain)
 * does not use what is there. Nodes of groups that found another place are noted (closers.h). */
void victims_sorted(struct sched *sched, struct queue *queue);
/* Whether a group is a closer, see closers.h. */
void victims_close(struct group *group, bool closes);
bool victims_closes(const struct group *group);
/* Of those in queue->sorted before `end` the last that is a closer: its place, and one more; 0: there
 * is none. */
size_t victims_closing(const struct queue *queue, size_t end);
