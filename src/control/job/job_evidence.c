#include "api/launch.h"
#include "base/count.h"
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

/* Words of a program that lost a peer: of sockets, gloo, NCCL, torch.distributed and torchrun. A
 * rank that says so may have a trouble of its own (a wrong address), but then no other pod has a
 * better one. */
static const char *const peer_words[] = {
    "Connection reset by peer",
    "Connection closed by peer",
    "Connection refused",
    "Broken pipe",
    "ncclRemoteError",
    "NCCL communicator was aborted",
    "Watchdog caught collective operation timeout",
    "Timed out waiting",
    "Socket Timeout",
    "DistNetworkError",
    "DistStoreError",
    "RendezvousConnectionError",
    "RendezvousClosedError",
    "RendezvousTimeoutError",
    "before any rank failed", /* muster-launch, of a torchrun that ended without a reason here */
};

#define EXIT_BY_SIGTERM 143

enum job_evidence job_evidence(const struct job_failure *failure)
{
    if (str_is(failure->reason, "OOMKilled"))
        return JOB_EVIDENCE_CERTAIN;
    if (failure->exit_code == EXIT_BY_SIGTERM)
        return JOB_EVIDENCE_TOLD;
    for (size_t i = 0; i < COUNT_OF(peer_words); i++)
        if (str_contains(failure->message, str_from(peer_words[i])))
            return JOB_EVIDENCE_PEER;
    return JOB_EVIDENCE_OWN;
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
