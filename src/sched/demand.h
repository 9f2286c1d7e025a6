#pragma once

struct sched;

/* demand: what every queue could use, by which fair shares are divided.
 *
 * What waits counts unless it could not start however much were free: it is held, refused or
 * incomplete; it fits on no node, or the gang into no cluster like this; limits, or, where it is not
 * preemptible, quotas are smaller than it. A queue asks for no more than those below it could use. So
 * nobody's share is lowered by work that leaves the room idle. Fills queue->demand, once a cycle. */
void demands_counted(struct sched *sched);
