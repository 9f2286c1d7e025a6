#pragma once

#include "agent/doctor.h"

#include <stddef.h>

struct invocation;

/* What muster doctor finds: this machine, its PyTorch and disk, and the muster up that runs on the
 * data folder, if one does. */
#define DOCTOR_LOOK_MAX (DOCTOR_FINDINGS_MAX + 3)
size_t doctor_look(struct invocation *invocation,
                   const char *folder,
                   struct finding ret[static DOCTOR_LOOK_MAX]);
