#pragma once

struct python;

/* torchrun: finds the user's PyTorch and becomes its launcher around the ranks.
 *
 * The first Python that can import torch is taken (launch/python.h). When `python` on PATH is
 * another one (or there is none), a folder with `python` and `python3` that start the right one
 * goes to the front of PATH, so that the user's command and its ranks agree.
 *
 * Options are spelled with underscores, which every version takes. PyTorch 1.x on Python 3.11
 * reads its redirect flags as nothing and fails; a mapping for a local rank that has no meaning
 * ("9:1") avoids that, as flags for us and as PET_ environment for a torchrun of the user's own. */
/* Find, prepare, exec. Returns an exit status when that failed. `known`: it was found before; NULL: look. */
int torchrun_main(const char *self, const struct python *known);
/* What torchrun and its ranks have in their environment, unless it is there already. */
void torchrun_environment(const struct python *python);
