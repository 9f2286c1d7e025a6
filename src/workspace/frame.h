#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* frame: how manifests and contents travel between the plugin, the sync pod and the workers.
 *
 * A stream of frames: one byte of type, four bytes of length (big-endian, as all numbers here), the
 * payload. Every frame is bounded, so a reader needs a bounded buffer whatever it is sent.
 *
 * - 'T' begin: target revision 16, base revision 16, flags 1
 * - 'B' blob: hash 16, size of the whole content 8, offset 8, mode 2, path length 2, path, bytes:
 *   one piece of a file
 * - 'Z' packed: size unpacked 4, zstd: frames (no 'Z' among them), for slow links
 * - 'E' entry: type 1, mode 2, size 8, hash 16, path length 2, path, link target
 * - 'X' gone: path
 * - 'H' content: hash 16, size 8: asked for ("do you have it?") or answered ("send from here on")
 * - 'C' commit: nothing: everything since 'T' becomes the workspace
 * - 'S' stop: restart number 8: end the ranks, say so, wait
 * - 'G' go: restart number 8: all have stopped, start the ranks
 * - 'P' ping: nothing
 */
enum frame_type {
    FRAME_BEGIN = 'T',
    FRAME_BLOB = 'B',
    FRAME_PACKED = 'Z',
    FRAME_ENTRY = 'E',
    FRAME_GONE = 'X',
    FRAME_CONTENT = 'H',
    FRAME_COMMIT = 'C',
    FRAME_STOP = 'S',
    FRAME_GO = 'G',
    FRAME_PING = 'P',
};

#define FRAME_HEAD_BYTES 5
/* Everything of a blob frame but its bytes. */
#define FRAME_BLOB_HEAD_MAX (FRAME_HEAD_BYTES + 36 + WS_PATH_MAX)
/* Content of one blob frame: large enough that the head costs nothing, small enough to buffer. */
#define FRAME_PIECE_MAX ((size_t)1 << 20)
/* A packed frame may unpack to a few pieces' worth; everything else is smaller. */
#define FRAME_PACK_MAX  ((size_t)2 << 20)
#define FRAME_BYTES_MAX (FRAME_PACK_MAX + ((size_t)64 << 10))

#define FRAME_FLAG_FULL 1 /* begin: entries are the whole manifest, not changes to the base */

struct frame_begin {
    struct hash target;
    struct hash base;
    bool full;
};

struct frame_blob {
    struct hash hash;
    uint64_t size; /* of the whole content */
    uint64_t offset;
    uint32_t mode;   /* a hint: of the first file that will have this content */
    struct str path; /* a hint: of the same; empty: not told */
    struct str bytes;
};

struct frame {
    enum frame_type type;
    struct str payload;
    union {
        struct frame_begin begin;
        struct frame_blob blob;
        struct ws_entry entry; /* strings point into the payload */
        struct str path;       /* gone */
        struct {
            struct hash hash;
            uint64_t size;
        } content;
        uint64_t number; /* stop, go */
    };
};

void frame_add_begin(struct buf *out, const struct frame_begin *begin);
void frame_add_blob(struct buf *out, const struct frame_blob *blob);
void frame_add_entry(struct buf *out, const struct ws_entry *entry);
void frame_add_gone(struct buf *out, struct str path);
void frame_add_content(struct buf *out, struct hash hash, uint64_t size);
void frame_add_number(struct buf *out, enum frame_type type, uint64_t number);
void frame_add_empty(struct buf *out, enum frame_type type);
/* The head of a blob frame whose `blob->bytes.len` bytes the caller adds itself. */
void frame_add_blob_head(struct buf *out, const struct frame_blob *blob);

/* Pack whole frames (at most FRAME_PACK_MAX bytes) into one; false, and nothing added, when that
 * would not save an eighth. */
bool frame_pack(struct buf *out, struct str frames);

/* Reading: add bytes to `in`, then call fn for every whole frame; what is left over stays in `in`.
 * -EPROTO for anything that is no frame; whatever fn returns below zero is handed on. */
typedef int frame_fn(void *user, const struct frame *frame, struct err *err);
int frame_read(struct buf *in, frame_fn *fn, void *user, struct err *err);
/* The same for bytes that are already complete: a cut frame at the end is an error. */
int frame_read_all(struct str bytes, frame_fn *fn, void *user, struct err *err);
