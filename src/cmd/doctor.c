#include "agent/doctor.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/datadir.h"
#include "cmd/muster.h"
#include "launch/python.h"
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

/* The same search as the launcher's, so that both find the same PyTorch or none. */
static void look_for_torch(struct finding *ret)
{
    struct python python;
    struct err err = {0};

    *ret = (struct finding){.name = "PyTorch", .ok = python_find(&python, &err) == 0};
    if (ret->ok)
        (void)snprintf(ret->words, sizeof(ret->words), "%s, with %.180s", python.torch,
                       python.path);
    else
        (void)snprintf(ret->words, sizeof(ret->words), "%s", "not found");
    (void)snprintf(ret->fix, sizeof(ret->fix), "%s",
                   "install it for a Python on your PATH; jobs with images of their own need none "
                   "here");
}

/* What is needed and missing is wrong; what is only useful and missing is a hint. */
static void add_findings(struct buf *out,
                         const struct term *term,
                         const struct finding *findings,
                         size_t count,
                         bool needed)
{
    const char *missing = needed ? "✗" : "-";

    buf_addf(out, "%s\n", needed ? "Required:" : "Optional:");
    for (size_t i = 0; i < count; i++) {
        const struct finding *f = &findings[i];
        enum term_colour colour = f->ok ? COLOUR_GREEN : needed ? COLOUR_RED : COLOUR_YELLOW;

        if (f->needed != needed)
            continue;
        buf_addf(out, "%s%s%s %-14s  %s\n", term_colour(term, colour), f->ok ? "✓" : missing,
                 term_colour(term, COLOUR_NONE), f->name, f->words);
        if (!f->ok)
            buf_addf(out, "  %-14s  %s\n", "", f->fix);
    }
}

static int doctor_run(struct invocation *invocation)
{
    const struct doctor_values *values = invocation->values;
    struct term term = term_open(STDOUT_FILENO, environ);
    struct finding findings[DOCTOR_FINDINGS_MAX + 1];
    const char *folder = values->data_dir ? values->data_dir : datadir_default(invocation->arena);
    size_t count = doctor_all(folder, findings);
    _cleanup_(buf_done) struct buf page = {0};
    bool works = true;

    look_for_torch(&findings[count++]);
    add_findings(&page, &term, findings, count, true);
    add_findings(&page, &term, findings, count, false);
    term_page(&term, buf_str(&page));
    for (size_t i = 0; i < count; i++)
        works = works && (findings[i].ok || !findings[i].needed);
    return works ? EXIT_SUCCESS : EXIT_FAILURE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check what this machine allows, and how to fix the rest",
    .about = "Checks privileges, namespaces, control groups, overlay, GPUs, PyTorch and the "
             "programs that muster uses. Fails only when something required is missing: without it "
             "muster "
             "up does not work at all.",
    .example = "muster doctor",
    .options = doctor_options,
    .values_size = sizeof(struct doctor_values),
    .run = doctor_run,
};
