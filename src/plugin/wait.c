#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/home.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/view.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdio.h>

/* wait: until jobs have ended; the status is that of the first that failed. */
#define WAIT_PAUSE_MS 300
#define STATUS_LATE   124 /* as timeout(1) has it */

struct wait_values {
    struct common_values common;
    int64_t limit_ms;
    bool home;
};

static const struct option wait_options[] = {
    COMMON_OPTIONS,
    {"timeout", 0, OPTION_DURATION, offsetof(struct wait_values, limit_ms), .fallback = "0s",
     .value = "DURATION", .help = "give up after so long, with exit status 124 (0s: never)",
     .flag_only = true},
    {"home", 0, OPTION_BOOL, offsetof(struct wait_values, home),
     .help = "then copy what the jobs wrote to where they came from, as submit does",
     .flag_only = true},
    {0},
};

/* The exit status of one job, or -errno. */
static int wait_job(struct session *session, const char *name, int64_t until_ms, struct err *err)
{
    for (;;) {
        _cleanup_(object_unrefp) struct object *job = NULL;
        _cleanup_(arena_done) struct arena arena = {0};
        int r = session_get(session, &kind_torchrunjob, name, &job, err);

        if (r < 0)
            return r;
        struct json *tree = object_json(job, &arena);
        struct str phase = json_str_at(tree, "status.phase");
        if (job_is_over(phase)) {
            (void)printf("%s " STR_FMT "\n", name, STR_ARG(phase));
            return job_exit_status(tree);
        }
        if (until_ms && clock_monotonic_ms() > until_ms) {
            session_say(session, "job %s is still " STR_FMT, name, STR_ARG(view_phase(phase)));
            return STATUS_LATE;
        }
        session_pause(session, WAIT_PAUSE_MS);
    }
}

static int wait_run(struct invocation *invocation)
{
    const struct wait_values *v = invocation->values;
    struct session session;
    struct err err = {0};
    int status = 0;
    int r = session_open(&session, invocation, &err);
    int64_t until_ms = v->limit_ms ? clock_monotonic_ms() + v->limit_ms : 0;

    size_t count = invocation->arg_count ? invocation->arg_count : 1;

    for (size_t i = 0; r >= 0 && i < count; i++) {
        const char *job =
            i ? job_arg(invocation->args[i]) : session_job(&session, invocation, &err);

        if (!job) {
            r = err.code;
            break;
        }

        r = wait_job(&session, job, until_ms, &err);
        status = status ? status : r;
        int home = r >= 0 && r != STATUS_LATE && v->home ? home_bring(&session, job, &err) : 0;
        if (home < 0 && home != -ESRCH) /* one that wrote nothing has nothing to bring */
            r = -EIO;
    }
    if (r < 0)
        status = session_fail(&session, &err);
    session_close(&session);
    return status;
}

const struct command command_wait = {
    .name = "wait",
    .summary = "wait until jobs have ended, and return the exit status of the first that failed",
    .usage = "[JOB...]",
    .about = "Without a job: the newest.",
    .example = "muster wait train-x7k2p && muster run eval.py",
    .options = wait_options,
    .values_size = sizeof(struct wait_values),
    .args_max = 100,
    .run = wait_run,
};
