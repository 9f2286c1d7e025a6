#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

/* record: how a rank ended. Its wrapper reports it to the launcher in a small file.
 *
 * torchrun exits with 1 whatever its ranks did, so the launcher must find out which rank
 * failed first, with what status, and what it said last. One file a rank in the run's folder:
 * nanoseconds, exit code, signal, rank on the first line, then text. */
#define RECORD_TEXT_MAX \
    ((size_t)3 << 10) /* Kubernetes keeps 4096 bytes of a termination message \
                       */
#define RECORD_LINES_MAX 20

struct record {
    int64_t when_ns; /* CLOCK_REALTIME: ends of ranks in other pods are compared with it */
    int code;
    int signal; /* 0: it exited by itself */
    int64_t rank;
    bool no_step; /* no rank of this pod had made one; set by whoever has looked at their pages */
    struct str text;
};

int record_write(const char *folder, const struct record *record, struct err *err);
/* The failure that began it; its text is added to `text`. False: there is none. Of a rank that fails its
 * peers lose their connections, and may be gone before it is; then torchrun ends those that are left.
 * So who lost a peer began it only if nobody else has another reason, who was ended by SIGTERM only
 * if all were; among equals it is the earliest. */
bool record_first(const char *folder, struct record *ret, struct buf *text);

/* Forgets what ranks told that were stopped for a restart in place: new ones are not to be blamed. */
void record_clear(const char *folder);

/* Why the same would happen again is added: the script does not exist, or is none. False: it may go
 * better. */
bool record_final(const struct record *record, struct buf *why);
/* The status a shell would give: 128 + n for signals. */
int record_status(const struct record *record);
/* "rank 3 ended with exit code 7 at 2026-11-15T02:03:04.567000Z" and so on, with the names of disks that
 * are `full`, if any are, and its text, for /dev/termination-log. The job engine reads the moment, to name the rank that failed first, and
 * LAUNCH_FINAL, to not try again. */
void record_describe(struct buf *out, const struct record *record, struct str full);
/* The same where no rank has left a record: torchrun itself ended, with that status. Who was killed was
 * killed by somebody; who only ended may have lost a peer, and the job engine waits for another's word. */
void record_describe_none(struct buf *out, int status);
/* "SIGKILL" for 9; "signal 77" in `out` for one without a name. */
const char *record_signal_name(int number, char out[static 32]);

/* The last lines of a stream, at most RECORD_LINES_MAX and RECORD_TEXT_MAX bytes. */
struct tail {
    char text[RECORD_TEXT_MAX];
    size_t len;
};
void tail_add(struct tail *tail, struct str bytes);
struct str tail_lines(const struct tail *tail);
