#include "base/str.h"
#include "base/vec.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JOB_SCOPE_POD: every pod lives and dies alone. A container that its node restarts in place costs
 * a restart as much as a pod that is replaced. Failures are taken one a reconcile, the earliest
 * first: so each is counted once, see job_may_restart(). */

/* Pods that were taken from us are replaced and cost nothing. */
static void replace_taken(struct job_run *run)
{
    for (size_t i = 0; i < run->members.count; i++) {
        const struct job_member *member = &run->members.items[i];

        if (member->leaving && !member->lost)
            continue;
        if (!member->lost && !(member->taken && member->phase == JOB_POD_FAILED))
            continue;
        if (!member->leaving)
            run->state.disruptions++;
        job_remove(run, member);
    }
}

static bool too_many_in_place(struct job_run *run)
{
    int64_t limit = run->model.max_restarts;

    if (limit < 0 || run->state.restarts + run->state.in_place <= limit)
        return false;
    job_finish(run, JOB_FAILED,
               str_printf(run->arena, "containers were restarted %lld times, the limit is %lld",
                          (long long)(run->state.restarts + run->state.in_place),
                          (long long)limit));
    return true;
}

void job_each(struct job_run *run, const struct job_look *look)
{
    int64_t until_ms = job_backoff_until(run);
    struct str except = STR_NONE;

    if (too_many_in_place(run))
        return;
    if (look->failed) {
        if (!job_may_restart(run, look->failed))
            return;
        job_remove(run, look->failed);
        job_say(run, JOB_RESTARTING, job_restart_words(run));
        return;
    }
    replace_taken(run);
    job_remove_surplus(run);
    if (until_ms > run->input->now_ms) {
        except = run->state.failure.pod;
        action_look_again(&run->actions, until_ms);
    }
    job_create_missing(run, except);
    job_say_running(run, look);
}
