#include "workspace/outbox.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "system/errors.h"
#include "workspace/disk.h"
#include "workspace/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int outbox_open(struct outbox *outbox, const char *root, struct manifest *manifest, struct err *err)
{
    *outbox = (struct outbox){
        .root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .manifest = manifest, .fd = -1};
    if (outbox->root_fd < 0)
        return err_set(err, -errno, "folder %s: %s", root, errno_words(errno));
    outbox->scratch = mem_alloc(FRAME_PIECE_MAX + 1);
    return 0;
}

void outbox_done(struct outbox *outbox)
{
    if (outbox->root_fd >= 0)
        close(outbox->root_fd);
    if (outbox->fd >= 0)
        close(outbox->fd);
    map_done(&outbox->sent);
    arena_done(&outbox->arena);
    buf_done(&outbox->plain);
    mem_free(outbox->scratch);
    *outbox = (struct outbox){.root_fd = -1, .fd = -1};
}

static void drop(struct outbox *outbox, struct ws_entry *entry)
{
    entry->size = UINT64_MAX; /* taken out at the end, when nobody counts indexes any more */
    outbox->dropped = true;
}

/* True the first time this content is asked for. */
static bool first_time(struct outbox *outbox, struct hash hash)
{
    if (map_get(&outbox->sent, hash_key(&hash)))
        return false;
    (void)map_set(&outbox->sent, str_dup(&outbox->arena, hash_key(&hash)), outbox);
    return true;
}

/* Does the other side lack it? *ret_offset: what it already has. */
static bool is_missing(const struct outbox *outbox, struct hash hash, uint64_t *ret_offset)
{
    const uint64_t *offset;

    *ret_offset = 0;
    if (!outbox->missing)
        return true;
    offset = map_get(outbox->missing, hash_key(&hash));
    if (offset)
        *ret_offset = *offset;
    return offset != NULL;
}

static ssize_t read_full(int fd, char *out, size_t bytes, uint64_t offset)
{
    size_t total = 0;

    while (total < bytes) {
        ssize_t got = pread(fd, out + total, bytes - total, (off_t)(offset + total));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        total += (size_t)got;
        if ((size_t)got < bytes - (total - (size_t)got))
            break; /* the end: files do not read short elsewhere */
    }
    return (ssize_t)total;
}

/* A hole of a sparse file travels packed, whatever the way. */
static void add_piece(const struct outbox *outbox, struct buf *out, const struct frame_blob *blob)
{
    _cleanup_(buf_done) struct buf frame = {0};

    if (!outbox->packed && disk_is_hole(blob->bytes))
        frame_add_blob(&frame, blob);
    if (frame.len == 0 || !frame_pack(out, buf_str(&frame)))
        frame_add_blob(out, blob);
}

/* The next piece of the large file in progress. */
static int large_piece(struct outbox *outbox, struct buf *out, struct err *err)
{
    struct ws_entry *entry = &outbox->manifest->entries.items[outbox->index];
    uint64_t left = entry->size - outbox->offset;
    size_t want = left < FRAME_PIECE_MAX ? (size_t)left : FRAME_PIECE_MAX;
    ssize_t got = read_full(outbox->fd, outbox->scratch, want, outbox->offset);

    if (got != (ssize_t)want)
        return err_set(err, -EILSEQ, "'" STR_FMT "' changed while it was read",
                       STR_ARG(entry->path));
    add_piece(outbox, out,
              &(struct frame_blob){.hash = entry->hash,
                                   .size = entry->size,
                                   .offset = outbox->offset,
                                   .mode = entry->mode,
                                   .bytes = {outbox->scratch, want}});
    outbox->bytes_read += want;
    outbox->offset += want;
    if (outbox->offset == entry->size) {
        close(TAKE_FD(outbox->fd));
        outbox->index++;
    }
    return 0;
}

/* Starts a file that needs several pieces; `fd` is taken over. */
static int large_begin(struct outbox *outbox, struct ws_entry *entry, int fd, struct err *err)
{
    int64_t size = hash_fd(fd, &entry->hash);

    if (size < 0) {
        close(fd);
        return err_set(err, (int)size, "'" STR_FMT "': %s", STR_ARG(entry->path),
                       errno_words((int)-size));
    }
    entry->size = (uint64_t)size;
    if (!is_missing(outbox, entry->hash, &outbox->offset) || !first_time(outbox, entry->hash) ||
        outbox->offset >= entry->size) {
        close(fd);
        outbox->bytes_read += entry->size;
        outbox->index++;
        return 0;
    }
    outbox->bytes_read += outbox->offset;
    outbox->fd = fd;
    return 0;
}

static int one_file(struct outbox *outbox, struct ws_entry *entry, struct buf *out, struct err *err)
{
    int fd = openat(outbox->root_fd, entry->path.p, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    uint64_t offset;
    ssize_t got;

    if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR)) {
        drop(outbox, entry);
        outbox->index++;
        return 0;
    }
    if (fd < 0)
        return err_set(err, -errno, "'" STR_FMT "': %s", STR_ARG(entry->path), errno_words(errno));
    got = read_full(fd, outbox->scratch, FRAME_PIECE_MAX + 1, 0);
    if (got > (ssize_t)FRAME_PIECE_MAX)
        return large_begin(outbox, entry, fd, err);
    close(fd);
    if (got < 0)
        return err_set(err, (int)got, "'" STR_FMT "': %s", STR_ARG(entry->path),
                       errno_words((int)-got));
    struct str bytes = {outbox->scratch, (size_t)got};
    entry->size = bytes.len;
    entry->hash = hash_of(bytes);
    outbox->bytes_read += bytes.len;
    outbox->index++;
    if (is_missing(outbox, entry->hash, &offset) && first_time(outbox, entry->hash))
        frame_add_blob(out, &(struct frame_blob){.hash = entry->hash,
                                                 .size = entry->size,
                                                 .mode = entry->mode,
                                                 .path = outbox->missing ? STR("") : entry->path,
                                                 .bytes = bytes});
    return 0;
}

static void pack(struct outbox *outbox, struct buf *out)
{
    if (outbox->plain.len && !frame_pack(out, buf_str(&outbox->plain)))
        buf_add(out, buf_str(&outbox->plain));
    buf_clear(&outbox->plain);
}

int outbox_next(struct outbox *outbox, struct buf *out, size_t bytes, struct err *err)
{
    struct ws_entry_vec *entries = &outbox->manifest->entries;

    while (outbox->index < entries->count && out->len < bytes) {
        struct ws_entry *entry = &entries->items[outbox->index];
        struct buf *to = outbox->packed ? &outbox->plain : out;
        uint64_t offset;
        int r = 0;

        if (outbox->fd >= 0)
            r = large_piece(outbox, to, err);
        else if (entry->type != WS_FILE)
            outbox->index++;
        else if (outbox->missing && !hash_is_zero(entry->hash) &&
                 !is_missing(outbox, entry->hash, &offset))
            outbox->index++;
        else
            r = one_file(outbox, entry, to, err);
        if (r < 0)
            return r;
        if (outbox->plain.len + FRAME_PIECE_MAX + FRAME_BLOB_HEAD_MAX > FRAME_PACK_MAX)
            pack(outbox, out);
    }
    pack(outbox, out);
    if (outbox->index < entries->count)
        return 1;
    size_t kept = 0;
    for (size_t i = 0; i < entries->count; i++)
        if (!(entries->items[i].type == WS_FILE && entries->items[i].size == UINT64_MAX))
            entries->items[kept++] = entries->items[i];
    entries->count = kept;
    outbox->index = kept;
    return 0;
}

int outbox_hash(const char *root, struct manifest *manifest, struct err *err)
{
    struct map nothing = {0};
    struct outbox outbox;
    struct buf out = {0};
    int r = outbox_open(&outbox, root, manifest, err);

    outbox.missing = &nothing;
    while (r == 0 && outbox.index < manifest->entries.count) {
        struct ws_entry *entry = &manifest->entries.items[outbox.index];

        if (entry->type != WS_FILE || !hash_is_zero(entry->hash))
            outbox.index++;
        else
            r = one_file(&outbox, entry, &out, err);
    }
    if (r == 0)
        r = outbox_next(&outbox, &out, 1, err);
    buf_done(&out);
    outbox_done(&outbox);
    return r < 0 ? r : 0;
}
