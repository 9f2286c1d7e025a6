#include "workspace/frame.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <sys/types.h>
#include <zstd.h>

static void put(struct buf *out, uint64_t number, unsigned bytes)
{
    char text[8];

    for (unsigned i = 0; i < bytes; i++)
        text[i] = (char)(unsigned char)(number >> (8 * (bytes - 1 - i)));
    buf_add(out, (struct str){text, bytes});
}

static uint64_t take(const char *p, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes; i++)
        number = number << 8 | (unsigned char)p[i];
    return number;
}

static void put_hash(struct buf *out, struct hash hash)
{
    unsigned char bytes[HASH_BYTES];

    hash_put(hash, bytes);
    buf_add(out, (struct str){(const char *)bytes, HASH_BYTES});
}

static struct hash take_hash(const char *p)
{
    return hash_take((const unsigned char *)p);
}

static void put_head(struct buf *out, enum frame_type type, size_t payload)
{
    assert(payload <= FRAME_BYTES_MAX);
    put(out, (uint64_t)type, 1);
    put(out, payload, 4);
}

void frame_add_begin(struct buf *out, const struct frame_begin *begin)
{
    put_head(out, FRAME_BEGIN, 33);
    put_hash(out, begin->target);
    put_hash(out, begin->base);
    put(out, begin->full ? FRAME_FLAG_FULL : 0, 1);
}

void frame_add_blob_head(struct buf *out, const struct frame_blob *blob)
{
    assert(blob->bytes.len <= FRAME_PIECE_MAX && blob->path.len <= WS_PATH_MAX);
    put_head(out, FRAME_BLOB, 36 + blob->path.len + blob->bytes.len);
    put_hash(out, blob->hash);
    put(out, blob->size, 8);
    put(out, blob->offset, 8);
    put(out, blob->mode, 2);
    put(out, blob->path.len, 2);
    buf_add(out, blob->path);
}

void frame_add_blob(struct buf *out, const struct frame_blob *blob)
{
    frame_add_blob_head(out, blob);
    buf_add(out, blob->bytes);
}

void frame_add_entry(struct buf *out, const struct ws_entry *entry)
{
    put_head(out, FRAME_ENTRY, 29 + entry->path.len + entry->target.len);
    put(out, (uint64_t)entry->type, 1);
    put(out, entry->mode, 2);
    put(out, entry->size, 8);
    put_hash(out, entry->hash);
    put(out, entry->path.len, 2);
    buf_add(out, entry->path);
    buf_add(out, entry->target);
}

void frame_add_gone(struct buf *out, struct str path)
{
    put_head(out, FRAME_GONE, path.len);
    buf_add(out, path);
}

void frame_add_content(struct buf *out, struct hash hash, uint64_t size)
{
    put_head(out, FRAME_CONTENT, 24);
    put_hash(out, hash);
    put(out, size, 8);
}

void frame_add_number(struct buf *out, enum frame_type type, uint64_t number)
{
    put_head(out, type, 8);
    put(out, number, 8);
}

void frame_add_empty(struct buf *out, enum frame_type type)
{
    put_head(out, type, 0);
}

bool frame_pack(struct buf *out, struct str frames)
{
    size_t mark = out->len;
    size_t bound = ZSTD_compressBound(frames.len);
    char *room;

    assert(frames.len <= FRAME_PACK_MAX);
    put_head(out, FRAME_PACKED, 0);
    put(out, frames.len, 4);
    room = buf_room(out, bound);
    size_t packed = room ? ZSTD_compress(room, bound, frames.p, frames.len, 1) : 0;
    if (!room || ZSTD_isError(packed) || packed >= frames.len - frames.len / 8) {
        out->len = mark;
        return false;
    }
    out->len += packed;
    packed += 4;
    for (unsigned i = 0; i < 4; i++)
        out->p[mark + 1 + i] = (char)(unsigned char)(packed >> (24 - 8 * i));
    return true;
}

static int decode_entry(struct frame *frame, struct err *err)
{
    struct str p = frame->payload;
    struct ws_entry *entry = &frame->entry;

    if (p.len < 29)
        return err_set(err, -EPROTO, "an entry frame of %zu bytes", p.len);
    size_t path_len = (size_t)take(p.p + 27, 2);
    if (29 + path_len > p.len)
        return err_set(err, -EPROTO, "an entry frame whose path is longer than itself");
    *entry = (struct ws_entry){
        .mode = (uint32_t)take(p.p + 1, 2),
        .size = take(p.p + 3, 8),
        .hash = take_hash(p.p + 11),
        .path = str_sub(p, 29, path_len),
    };
    if (p.len > 29 + path_len)
        entry->target = str_sub(p, 29 + path_len, p.len);
    switch (p.p[0]) {
    case WS_FILE: entry->type = WS_FILE; break;
    case WS_DIR: entry->type = WS_DIR; break;
    case WS_LINK: entry->type = WS_LINK; break;
    default:
        return err_set(err, -EPROTO,
                       "path '" STR_FMT
                       "' is not a file, a folder or a link; nothing else is accepted",
                       STR_ARG(entry->path));
    }
    return 0;
}

static int decode_blob(struct frame *frame, struct err *err)
{
    struct str p = frame->payload;
    size_t path_len = (size_t)take(p.p + 34, 2);

    if (36 + path_len > p.len)
        return err_set(err, -EPROTO, "a blob frame whose path is longer than itself");
    frame->blob = (struct frame_blob){.hash = take_hash(p.p),
                                      .size = take(p.p + 16, 8),
                                      .offset = take(p.p + 24, 8),
                                      .mode = (uint32_t)take(p.p + 32, 2),
                                      .path = str_sub(p, 36, path_len),
                                      .bytes = str_sub(p, 36 + path_len, p.len)};
    return 0;
}

static int decode(struct frame *frame, struct err *err)
{
    struct str p = frame->payload;
    size_t least = 0;

    switch (frame->type) {
    case FRAME_BEGIN: least = 33; break;
    case FRAME_BLOB: least = 36; break;
    case FRAME_PACKED: least = 4; break;
    case FRAME_CONTENT: least = 24; break;
    case FRAME_STOP:
    case FRAME_GO: least = 8; break;
    case FRAME_GONE: least = 1; break;
    case FRAME_ENTRY: return decode_entry(frame, err);
    case FRAME_COMMIT:
    case FRAME_PING: return 0;
    default: return err_set(err, -EPROTO, "a frame of unknown type %d", (int)frame->type);
    }
    if (p.len < least)
        return err_set(err, -EPROTO, "a cut '%c' frame", (char)frame->type);
    if (frame->type == FRAME_BEGIN)
        frame->begin = (struct frame_begin){.target = take_hash(p.p),
                                            .base = take_hash(p.p + 16),
                                            .full = p.p[32] & FRAME_FLAG_FULL};
    else if (frame->type == FRAME_BLOB)
        return decode_blob(frame, err);
    else if (frame->type == FRAME_CONTENT) {
        frame->content.hash = take_hash(p.p);
        frame->content.size = take(p.p + 16, 8);
    } else if (frame->type == FRAME_GONE)
        frame->path = p;
    else if (frame->type != FRAME_PACKED)
        frame->number = take(p.p, 8);
    return 0;
}

static int unpack(const struct frame *packed, frame_fn *fn, void *user, struct err *err)
{
    _cleanup_(buf_done) struct buf bytes = {0};
    size_t size = (size_t)take(packed->payload.p, 4);

    if (size > FRAME_PACK_MAX)
        return err_set(err, -EPROTO, "a packed frame that claims %zu bytes (at most %zu)", size,
                       FRAME_PACK_MAX);
    char *room = buf_room(&bytes, size + 1);
    size_t got = ZSTD_decompress(room, size, packed->payload.p + 4, packed->payload.len - 4);
    if (ZSTD_isError(got) || got != size)
        return err_set(err, -EPROTO, "a packed frame that does not unpack to what it claims");
    return frame_read_all((struct str){room, size}, fn, user, err);
}

/* One frame off the front of `bytes`: its size, 0 when it is not complete yet, or an error. */
static ssize_t read_one(struct str bytes, bool packed_ok, frame_fn *fn, void *user, struct err *err)
{
    struct frame frame = {0};
    int r;

    if (bytes.len < FRAME_HEAD_BYTES)
        return 0;
    size_t length = (size_t)take(bytes.p + 1, 4);
    if (length > FRAME_BYTES_MAX)
        return err_set(err, -EPROTO, "a frame of %zu bytes (at most %zu)", length, FRAME_BYTES_MAX);
    if (bytes.len < FRAME_HEAD_BYTES + length)
        return 0;
    frame.type = (enum frame_type)(unsigned char)bytes.p[0];
    frame.payload = str_sub(bytes, FRAME_HEAD_BYTES, length);
    r = decode(&frame, err);
    if (r < 0)
        return r;
    if (frame.type == FRAME_PACKED)
        r = packed_ok ? unpack(&frame, fn, user, err)
                      : err_set(err, -EPROTO, "a packed frame inside a packed frame");
    else
        r = fn(user, &frame, err);
    return r < 0 ? r : (ssize_t)(FRAME_HEAD_BYTES + length);
}

int frame_read(struct buf *in, frame_fn *fn, void *user, struct err *err)
{
    size_t used = 0;
    ssize_t got;

    while ((got = read_one(str_sub(buf_str(in), used, in->len), true, fn, user, err)) > 0)
        used += (size_t)got;
    buf_consume(in, used);
    return got < 0 ? (int)got : 0;
}

int frame_read_all(struct str bytes, frame_fn *fn, void *user, struct err *err)
{
    while (bytes.len) {
        ssize_t got = read_one(bytes, false, fn, user, err);

        if (got < 0)
            return (int)got;
        if (got == 0)
            return err_set(err, -EPROTO, "frames that end in the middle of one");
        bytes = str_sub(bytes, (size_t)got, bytes.len);
    }
    return 0;
}
