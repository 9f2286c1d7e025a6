#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct curves;
struct err;

/* curves: the scalars in TensorBoard event files, thinned to what a picture can show. Pure: bytes in,
 * JSON out.
 *
 * A file is a sequence of records: length 8 (little-endian), a sum of it 4, that many bytes, a sum of
 * them 4; the bytes are a protobuf message Event with a step and a Summary of tags and values. Sums
 * are not looked at: a file that is being written ends anywhere, and what cannot be read ends it.
 *
 * Whoever wrote a file is not trusted: any bytes lead to some curves within these limits.
 *   a series   CURVES_POINTS_MAX points and the newest: when it is full, every second one goes, and
 *              from then on only every second, fourth, eighth ... is taken
 *   records    up to CURVES_RECORD_MAX bytes are read, larger ones (pictures, sounds) are passed over
 * so that all of it is at most 32 x 257 x 16 bytes and one record, and its JSON some 350 KiB. */
#define CURVES_SERIES_MAX 32
#define CURVES_POINTS_MAX 256
#define CURVES_NAME_MAX   120 /* bytes of a tag; longer ones are cut */
#define CURVES_RECORD_MAX ((size_t)256 << 10)

struct curves *curves_new(void);
/* NULL is fine. */
void curves_free(struct curves *curves);
/* What comes now is another file, of the run `run` (its folder; it names the series too). */
void curves_begin(struct curves *curves, struct str run);
/* The next bytes of it, in pieces of any size. */
void curves_add(struct curves *curves, struct str bytes);
/* {"cut":false,"series":[{"run":"runs/a","name":"train/loss","points":[[0,1.5],[1,1.25]]}]}: step and
 * value. `cut`: not all that there is was read. */
void curves_write(const struct curves *curves, bool cut, struct buf *out);

/* ---- the event files in a folder that a job wrote ----
 *
 * The folder is listed and its newest CURVES_FILES_MAX event files, by the time in their names, are
 * read as workspace/results.h reads it: never through a link, and in bounded turns. Of a file the
 * first CURVES_FILE_BYTES_MAX are read: 280,000 scalars. */
#define CURVES_FILES_MAX      8
#define CURVES_NAMES_MAX      256
#define CURVES_FILE_BYTES_MAX ((uint64_t)16 << 20)

struct curves_walk;

/* Takes the descriptor of the folder. */
struct curves_walk *curves_walk_new(int root_fd);
/* 1: there is more to do; 0: the JSON was added to `out`; -errno: err says why. */
int curves_walk_turn(struct curves_walk *walk, struct buf *out, struct err *err);
/* NULL is fine. */
void curves_walk_free(struct curves_walk *walk);
