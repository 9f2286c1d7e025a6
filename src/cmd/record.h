#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct log;
struct recorder;
struct scheduler_recorder;

/* record: writes what the scheduler sees and decides to a folder (replay/recording.h).
 *
 * Each start of the scheduler begins a recording, a file that is called by its time. One that has
 * `bytes` beyond what it begins with is full: at the next moment at which nothing is under way
 * another begins with everything that is there, so that each can be repeated on its own. What is
 * there does not count: where it is more than `bytes`, each would be full as it begins. If that
 * moment does not come before it has RECORD_BYTES_TIMES as much, it ends, and there is a gap until
 * then; the log says so. Of the recordings the newest RECORD_KEPT stay: RECORD_KEPT *
 * RECORD_BYTES_TIMES * `bytes` at most, and a snapshot each, of RECORD_BEGIN_MAX at most. Written
 * when something is decided, in pieces of RECORD_PIECE_BYTES, and after RECORD_LATE_MS at the next
 * event. */
#define RECORD_KEPT        4
#define RECORD_BYTES_TIMES 2
#define RECORD_BEGIN_MAX   ((size_t)1 << 30) /* some 200,000 objects */
#define RECORD_PIECE_BYTES ((size_t)64 << 10)
#define RECORD_LATE_MS     1000

/* -errno with words when the folder cannot be used. */
int recorder_open(const char *folder,
                  int64_t bytes,
                  const struct log *log,
                  struct recorder **ret,
                  struct err *err);
/* For scheduler_options.recorder; lives as long as the recorder. */
const struct scheduler_recorder *recorder_calls(const struct recorder *recorder);
/* NULL is fine. */
void recorder_close(struct recorder *recorder);
