#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"

#include <stddef.h>

/* Any bytes from a peer: read whole or in pieces they mean the same, memory stays bounded, and
 * entries that pass the manifest's rules stay inside the workspace. */
struct seen {
    size_t frames;
    struct manifest *manifest;
};

static int see(void *user, const struct frame *frame, struct err *err)
{
    struct seen *seen = user;

    (void)err;
    seen->frames++;
    if (frame->type == FRAME_ENTRY && seen->manifest)
        manifest_add(seen->manifest, &frame->entry);
    return 0;
}

FUZZ(frame)
{
    _cleanup_(manifest_unrefp) struct manifest *manifest = manifest_new();
    _cleanup_(buf_done) struct buf whole = {0};
    _cleanup_(buf_done) struct buf pieces = {0};
    struct seen at_once = {.manifest = manifest};
    struct seen by_bytes = {0};
    struct err err = {0};
    int r;
    int r_pieces = 0;

    buf_add(&whole, input);
    r = frame_read(&whole, see, &at_once, &err);
    for (size_t i = 0; r_pieces == 0 && i < input.len; i++) {
        buf_addc(&pieces, input.p[i]);
        r_pieces = frame_read(&pieces, see, &by_bytes, NULL);
    }
    FUZZ_HOLDS(r == r_pieces && at_once.frames == by_bytes.frames);
    FUZZ_HOLDS(r == 0 || err.text[0]);
    if (manifest_finish(manifest, NULL) < 0)
        return;
    for (size_t i = 0; i < manifest->entries.count; i++) {
        struct str path = manifest->entries.items[i].path;

        FUZZ_HOLDS(path.len > 0 && path.p[0] != '/' && !str_starts(path, STR("../")));
    }
}
