#pragma once

struct group;
struct sched;

/* lists: which groups of a queue wait, hold room, or are below their minimum. */

/* Puts the group on the lists of its queue where it belongs now. */
void group_lists(struct group *group);
/* Puts it into its queue, and takes it out. */
void group_link(struct group *group);
void group_unlink(struct group *group);
/* Groups without a queue, or only named by pods. */
void group_stray(struct sched *sched, struct group *group);
void group_unstray(struct sched *sched, struct group *group);
