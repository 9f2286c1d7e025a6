#include "api/launch.h"
#include "api/lost_peer.h"
#include "base/str.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>

/* What the end of a pod says about whose fault it is.
 *
 * When one rank fails, the others lose their connections to it and fail too, and a pod may end long
 * after its first rank did: torchrun waits for the ranks beside it, a core is written, logs are
 * handed over. So neither the order in which pods are heard of nor the moments of their ends say
 * who began. What a pod leaves behind says more: its exit status, and its termination message, which
 * begins with muster-launch's own line (launch/record.h) or is the end of its log. */

#define EXIT_BY_SIGTERM 143

enum job_evidence job_evidence(const struct job_failure *failure)
{
    if (str_is(failure->reason, "OOMKilled"))
        return JOB_EVIDENCE_CERTAIN;
    if (failure->exit_code == EXIT_BY_SIGTERM)
        return JOB_EVIDENCE_TOLD;
    return says_lost_peer(failure->message) ? JOB_EVIDENCE_PEER : JOB_EVIDENCE_OWN;
}

/* "ValueError" of "ValueError: 3 is not 4": what stands behind it may differ from try to try. */
static struct str kind_of_end(struct str message)
{
    struct str line = str_trim(message);
    size_t at = line.len;

    while (at > 0 && line.p[at - 1] != '\n')
        at--;
    if (at == 0) /* nothing but the launcher's own line, with its moment */
        return STR_NONE;
    line = str_sub(line, at, line.len);
    return str_sub(line, 0, str_find(line, ':'));
}

static bool ended_at_the_start(const struct job_failure *failure)
{
    struct str line = str_sub(failure->message, 0, str_find(failure->message, '\n'));

    return str_starts(line, STR("rank ")) && str_contains(line, STR(LAUNCH_NO_STEP)) &&
           job_evidence(failure) == JOB_EVIDENCE_OWN && !job_blame_word(failure);
}

bool job_ends_alike(const struct job_failure *one, const struct job_failure *other)
{
    return ended_at_the_start(one) && ended_at_the_start(other) &&
           one->exit_code == other->exit_code &&
           str_eq(kind_of_end(one->message), kind_of_end(other->message));
}

struct str job_broken_program(const struct job_failure *failure)
{
    struct str line = str_sub(failure->message, 0, str_find(failure->message, '\n'));

    if (!str_starts(line, STR("rank ")))
        return STR_NONE;
    while (line.len && !str_starts(line, STR(LAUNCH_FINAL)))
        line = str_sub(line, 1, line.len);
    line = str_sub(line, sizeof(LAUNCH_FINAL) - 1, line.len);
    return str_sub(line, 0, str_find(line, ';'));
}
