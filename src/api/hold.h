#pragma once

/* hold: how controllers tell the scheduler that a gang which restarts keeps its room.
 *
 * A pod of a job that may restart says how long its room is held when it fails: long enough for the
 * job's controller to decide. With the decision comes a time on the pod group: until then room that
 * its pods leave is held, however they leave it; a time that is over gives it up. It counts for
 * pods that were made before that time, so what was decided of one generation says nothing of the
 * next. */
#define HOLD_ANNOTATION       "muster.dev/restart-hold" /* of jobs and their pods: a duration */
#define HOLD_UNTIL_ANNOTATION "muster.dev/held-until"   /* of pod groups: a time */
#define HOLD_DEFAULT_MS       60000
/* Whoever may write a pod or a pod group may write these: nothing that has no pod is held for longer,
 * whatever they say. */
#define HOLD_MAX_MS 3600000
