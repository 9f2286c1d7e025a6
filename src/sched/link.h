#pragma once

struct group;
struct sched;

/* link: groups find their queue, queues their parent. */

/* Looks up the group's queue and priority again, and moves what it counts for there. */
void group_resolve(struct sched *sched, struct group *group);
/* Links queues to parents and groups to queues again, and sums up what they use. */
void queues_linked(struct sched *sched);
