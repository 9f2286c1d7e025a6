#pragma once

#include <signal.h>

struct python;

/* warm: a Python that has torch imported before it is needed (warm.py), and programs that it becomes.
 *
 * A pod that restarts in place may have its next container made beforehand (agent/standby.h): the
 * launcher in it starts warm.py, which imports torch and listens, and waits until it is its turn. Then
 * torchrun, and every `python` that is found on PATH, ask warm.py to fork instead of starting anew:
 * the child gets the arguments, environment, folder, umask and the descriptors 0 to 2 of who asked,
 * who stays in between, hands signals on, and ends as the child ended. What could turn out otherwise
 * than with a Python of its own is started as one: other options of Python, limits, CPUs, niceness or
 * memory policy, variables that are read when libraries are loaded, files that hide a module. */

/* Starts it, with that signal mask; who asks at LAUNCH_ENV_WARM before torch is there starts cold. */
void warm_start(const struct python *python, const sigset_t *mask);
/* Becomes it, and does not return; or returns: it is to be started cold. argv[0] is its path. */
void warm_become(char *const *argv);
/* muster-launch python PATH ARG...: what `python` on PATH is; warm or cold. */
int warm_main(char *const *argv);
