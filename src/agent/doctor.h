#pragma once

#include <stdbool.h>
#include <stddef.h>

struct machine;

/* doctor: what this machine allows the node agent, and how to fix the rest. `muster doctor`
 * prints all of it; what the agent itself needs is also reported as conditions of its nodes. */
struct finding {
    const char *name;      /* "namespaces" */
    const char *condition; /* type of the node's condition; NULL: none */
    bool ok;
    bool needed; /* muster does not work without it */
    char words[240];
    char fix[240]; /* not ok: what would help */
};

#define DOCTOR_FINDINGS_MAX 16

/* What the agent found when it looked at the machine. Returns the number of findings. */
size_t doctor_machine(const struct machine *machine,
                      struct finding ret[static DOCTOR_FINDINGS_MAX]);
/* That, and programs and libraries beside it. Takes a moment: it starts some of them. */
size_t doctor_all(const char *data_dir, struct finding ret[static DOCTOR_FINDINGS_MAX]);
