#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* family: the processes below us. Newer PyTorch starts ranks in sessions of their own, so a process
 * group is not enough; as PID 1 or sub-reaper everything that ever came from us stays below us. */

/* Whether the process has a child that has not ended. */
bool family_has_child(pid_t pid);
/* Hands a signal on to the descendants that have a handler for it, but not to what those started: data
 * loaders inherit the handler of their training. False: there is none. */
bool family_hand_on(int signal);
/* Send a signal to every process that descends from this one. */
void family_kill(int signal);
