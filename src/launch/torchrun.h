#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct err;

/* torchrun: finds the user's PyTorch and becomes its launcher around the ranks.
 *
 * The first Python that can import torch is taken: `python`, `python3`, the interpreter of a
 * `torchrun` on PATH, then the usual places. When `python` on PATH is another one (or there is
 * none), a folder with `python` and `python3` that start the right one goes to the front of PATH,
 * so that the user's command and its ranks agree.
 *
 * Options are spelled with underscores, which every version takes. PyTorch 1.x on Python 3.11
 * reads its redirect flags as nothing and fails; a mapping for a local rank that has no meaning
 * ("9:1") avoids that, as flags for us and as PET_ environment for a torchrun of the user's own. */
struct torchrun_python {
    char path[4096];
    int torch_major;
    bool has_etcd;      /* the package python-etcd */
    int python_minor;   /* of Python 3 */
    bool first_on_path; /* `python` already means this one */
};

int torchrun_find(struct torchrun_python *ret, struct err *err);
bool torchrun_redirects_broken(const struct torchrun_python *python);

/* argv for the launcher, NULL-terminated, from the environment that launch.h names. `room` holds
 * the texts it makes. */
#define TORCHRUN_ARGS_MAX 40
int torchrun_args(const struct torchrun_python *python,
                  const char *self,
                  const char *args[static TORCHRUN_ARGS_MAX],
                  char *room,
                  size_t room_bytes,
                  struct err *err);
/* Find, prepare, exec. Returns an exit status when that failed. */
int torchrun_main(const char *self);
