#include "agent/doctor.h"

#include "cmd/datadir.h"
#include "cmd/muster.h"
#include "tool/option.h"
#include "tool/term.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* muster doctor: what this machine permits, and the fix for the rest. */

struct doctor_values {
    const char *data_dir;
};

static const struct option doctor_options[] = {
    {"data-dir", 0, OPTION_STR, offsetof(struct doctor_values, data_dir), .value = "DIR",
     .help = "data folder that muster up uses (default: the same as for up)"},
    {0},
};

static int doctor_run(struct invocation *invocation)
{
    const struct doctor_values *values = invocation->values;
    struct term term = term_open(STDOUT_FILENO, environ);
    struct finding findings[DOCTOR_FINDINGS_MAX];
    const char *folder = values->data_dir ? values->data_dir : datadir_default(invocation->arena);
    size_t count = doctor_all(folder, findings);
    bool works = true;

    for (size_t i = 0; i < count; i++) {
        const struct finding *f = &findings[i];

        (void)printf("%s%s%s %-14s  %s\n", term_colour(&term, f->ok ? COLOUR_GREEN : COLOUR_RED),
                     f->ok ? "✓" : "✗", term_colour(&term, COLOUR_NONE), f->name, f->words);
        if (!f->ok)
            (void)printf("  %-14s  %s\n", "", f->fix);
        works = works && (f->ok || !f->needed);
    }
    return works ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check what this machine allows, and how to fix the rest",
    .about = "Checks privileges, namespaces, control groups, overlay, GPUs, PyTorch and the "
             "programs that muster uses. Fails only when muster up cannot work at all.",
    .example = "muster doctor",
    .options = doctor_options,
    .values_size = sizeof(struct doctor_values),
    .run = doctor_run,
};
