#pragma once

struct err;
struct log;
struct recorder;
struct scheduler_recorder;

/* record: writes what the scheduler sees and decides to a folder (replay/recording.h).
 *
 * Each start of the scheduler begins a recording, a file that is called by its time. One has at most
 * RECORD_BYTES_MAX bytes, some 500,000 events; then it ends, and the log says so: its end is of no
 * use without its beginning. Of the recordings the newest RECORD_KEPT stay. Written when
 * something is decided, in pieces of RECORD_PIECE_BYTES, and after RECORD_LATE_MS at the next
 * event. */
#define RECORD_BYTES_MAX   ((size_t)1 << 30)
#define RECORD_KEPT        4
#define RECORD_PIECE_BYTES ((size_t)64 << 10)
#define RECORD_LATE_MS     1000

/* -errno with words when the folder cannot be used. */
int recorder_open(const char *folder,
                  const struct log *log,
                  struct recorder **ret,
                  struct err *err);
/* For scheduler_options.recorder; lives as long as the recorder. */
const struct scheduler_recorder *recorder_calls(const struct recorder *recorder);
/* NULL is fine. */
void recorder_close(struct recorder *recorder);
