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

/* The last line that says something. */
static struct str last_line(struct str text)
{
    text = str_trim(text);
    for (size_t i = text.len; i-- > 0;)
        if (text.p[i] == '\n')
            return str_trim(str_sub(text, i + 1, text.len));
    return text;
}

struct str job_broken_program(const struct job_failure *failure)
{
    static const char *const errors[] = {"SyntaxError: ", "IndentationError: ", "TabError: "};
    struct str line = last_line(failure->message);

    if (!str_starts(failure->message, STR("rank ")))
        return STR_NONE;
    for (size_t i = 0; i < COUNT_OF(errors); i++)
        if (str_starts(line, str_from(errors[i])))
            return line;
    /* Python's own line about a script that is not there. */
    if (failure->exit_code == 2 && str_contains(line, STR("can't open file")) &&
        str_contains(line, STR("No such file or directory")))
        return line;
    return STR_NONE;
}
