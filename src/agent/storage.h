#pragma once

struct agent;

/* storage: pods that write more than they may. Every STORAGE_LOOK_MS a worker thread measures the
 * folders of pods that have an ephemeral-storage limit or a sizeLimit on an emptyDir; a pod beyond
 * its limit is evicted. When the disk of the data folder is nearly full, or has nearly no inodes
 * left, the pod that pressure_victim() names is evicted, whether it has a limit or not, so that one
 * pod cannot stop all others. What is nested too deep to be measured counts as more than any limit:
 * it is no place to hide in. */
#define STORAGE_LOOK_MS      10000
#define STORAGE_FREE_PERCENT 3 /* less than this is nearly full */

/* From the heartbeat; does nothing while a measurement is under way. */
void storage_look(struct agent *agent);
