#pragma once

#include <stdbool.h>

/* host_torch: Debian 12's PyTorch.
 *
 * PyTorch 1.x reads the value "none" of its redirect flags by looking through an enum, in which
 * Python 3.11 no longer shows it: torchrun fails with an AttributeError in to_map. A mapping for a
 * local rank that has no meaning avoids that. muster-launch gives it as flags (launch/torchrun.h);
 * containers that start torchrun themselves, as those of PyTorchJob, TrainJob and torchrunConfig do,
 * have it in their environment, where it changes nothing for another PyTorch. */
#define HOST_TORCH_MAPPING "9:1"

/* Whether the distribution's own Python has such a PyTorch. `python` is /usr/bin/python3, a link to
 * python3.11; `packages` the folder with torch. */
bool host_torch_is_broken(const char *python, const char *packages);
