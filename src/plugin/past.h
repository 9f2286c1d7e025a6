#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct json;
struct selector;

/* past: jobs that have ended, a line of JSON each, in the file `history` of the data folder.
 *
 * `muster up` writes a line when a job ends, and `history` reads it: the line stays when the job is
 * deleted or its time to live has passed. The file has at most PAST_BYTES_MAX bytes, some 30,000
 * jobs; then the older half goes. No I/O here. */
#define PAST_FILE      "history"
#define PAST_BYTES_MAX ((size_t)8 << 20)

/* Appends the line of a job that is over, or was deleted before that, `now`: its phase is then Cancelled, and it ran
 * until then. False, and nothing, for any other. */
bool past_add(struct buf *out, const struct json *job, bool deleted, int64_t now_ms);
/* The newer half of a file that is too long, from the start of a line; the whole of any other. */
struct str past_trim(struct str text);

struct past_options {
    const char *ns;                  /* NULL: all */
    const struct selector *selector; /* by labels; NULL: all */
    int64_t limit;                   /* the newest so many; 0: all */
    unsigned wraps_at;               /* of struct term */
    struct str
        accounts; /* lines of plugin/spent.h, which know better how long each job waited and ran; may be empty */
};
/* The table of the newest jobs of a text of lines, each job once, in their order. Returns how many. */
size_t past_table(struct buf *out,
                  struct arena *arena,
                  struct str text,
                  const struct past_options *options);
/* The same as a list of what the lines have. */
struct json *past_list(struct arena *arena, struct str text, const struct past_options *options);
