#pragma once

/* family: the processes below us. Newer PyTorch starts ranks in sessions of their own, so a process
 * group is not enough; as PID 1 or sub-reaper everything that ever came from us stays below us. */

/* Send a signal to every process that descends from this one. */
void family_kill(int signal);
