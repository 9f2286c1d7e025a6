#pragma once

/* rank: what torchrun starts as each rank: runs the user's command in a shell, hands its output on
 * line by line with the rank in front ("[rank3] loss 0.12"), and records how it ended.
 *
 * The prefix is what lets `kubectl torchrun logs --rank 3` work: rank numbers are given by the
 * rendezvous and cannot be told from the pod's name. Signals for us go to the command; when the
 * command dies by a signal, so do we, so that torchrun sees the truth. */
#define RANK_PREFIX_FORMAT "[rank%lld] "
#define RANK_LINE_MAX      4000 /* longer lines are handed on in pieces: one write(2) each */
#define RANK_HOLD_MS       1000 /* an unfinished line is handed on after this time */
#define RANK_UPDATE_MS     1000 /* of a progress bar, which ends in "\r\n", there is one in this time */

int rank_main(void);
