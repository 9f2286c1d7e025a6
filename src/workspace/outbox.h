#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* outbox: reads the files of a scanned folder and packs their contents for sending.
 *
 * A file is hashed as it is read, so what the manifest says is what was sent even if the file
 * changed after the scan; only a file larger than one piece is read twice, and the other side
 * notices when the two readings differ. Files that vanish in between are dropped from the manifest.
 * Contents that appear twice are sent once. */
struct outbox {
    int root_fd;
    struct manifest *manifest; /* borrowed; hashes and sizes are filled in */
    const struct map *missing; /* hash_key() -> uint64_t *offset; NULL: send everything */
    bool packed;               /* compress where it pays */
    size_t index;
    int fd; /* a large file in progress */
    uint64_t offset;
    struct map sent; /* hash -> anything */
    struct arena arena;
    struct buf plain; /* frames waiting to be packed */
    char *scratch;
    uint64_t bytes_read; /* of files, for the progress bar */
    bool dropped;        /* some entry vanished */
};

int outbox_open(struct outbox *outbox,
                const char *root,
                struct manifest *manifest,
                struct err *err);
void outbox_done(struct outbox *outbox);
/* Fill `out` with frames until it holds about `bytes`. Returns 1 when there may be more, 0 at the
 * end (out may still hold the last ones). */
int outbox_next(struct outbox *outbox, struct buf *out, size_t bytes, struct err *err);
/* Learn the hashes that the scan left open, without sending. */
int outbox_hash(const char *root, struct manifest *manifest, struct err *err);
