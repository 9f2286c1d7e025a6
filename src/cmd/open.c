#include "base/err.h"
#include "cmd/muster.h"
#include "plugin/plugin.h"
#include "tool/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* muster open: a link that signs in at the web page, once, as whom the kubeconfig names. The code
 * stands behind a #, so that browsers do not send it and no log has it. */

struct open_values {
    struct common_values common; /* first: open_job_run() reads them */
    bool print;
};

static const struct option open_options[] = {
    COMMON_OPTIONS,
    {"print", 0, OPTION_BOOL, offsetof(struct open_values, print),
     .help = "print the link only, and start no browser"},
    {0},
};

/* A browser is there when a screen is. */
static void start_browser(const char *link)
{
    const char *x = getenv("DISPLAY");
    const char *wayland = getenv("WAYLAND_DISPLAY");

    if ((x && *x) || (wayland && *wayland)) {
        (void)fflush(stdout);
        (void)execlp("xdg-open", "xdg-open", link, (char *)NULL);
    }
}

static int open_run(struct invocation *invocation)
{
    const struct open_values *values = invocation->values;
    struct session session;
    const char *link = NULL;
    struct err err = {0};

    if (invocation->arg_count)
        return open_job_run(invocation);
    int r = session_open(&session, invocation, &err);
    if (r == 0)
        r = open_link(&session, &link, &err);
    if (r == 0)
        (void)printf("%s\n", link);
    else
        (void)session_fail(&session, &err);
    if (r == 0 && !values->print)
        start_browser(link);
    session_close(&session);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_open = {
    .name = "open",
    .summary = "open the web page, or the address of a program in a job",
    .usage = "[JOB PORT]",
    .about =
        "The link is good once, for ten minutes, and signs in as the user of the kubeconfig, with "
        "that user's rights. With a job and a port it prints where that port of the job's first "
        "pod "
        "can be reached: TensorBoard, Jupyter.",
    .example = "muster open\nmuster open --print\nmuster open train-x7k2p 6006",
    .options = open_options,
    .values_size = sizeof(struct open_values),
    .args_max = 2,
    .run = open_run,
};
