#include "workspace/keep_results.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/hash.h"
#include "workspace/httpd.h"
#include "workspace/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESULTS_DIR      WS_PRIVATE_DIR "/results"
#define NAME_BYTES       64
#define BATCH_BYTES      ((size_t)2 << 20)
#define BATCH_FRAMES     1000
#define BLOB_HEAD_BYTES  36 /* of a blob's payload, before its path */
#define ENTRY_HEAD_BYTES 29 /* the same of an entry */
#define TOO_MUCH                                                                                  \
    "what the job wrote is more than the sync pod keeps, and is gone with its pod; let it write " \
    "to "                                                                                         \
    "a volume"
#define NO_ROOM                                                                                   \
    "the volume of the sync pod has no room for what the job wrote, which is gone with its pod; " \
    "let it write to a volume"

struct keep_results {
    int fd;
    uint64_t at;
    bool list;
    bool found; /* something of what is asked for */
    char path[WS_PATH_MAX + 1];
};

static const char *results_name(uint64_t generation, uint64_t rank, char out[static NAME_BYTES])
{
    (void)snprintf(out, NAME_BYTES, "%llu-%llu", (unsigned long long)generation,
                   (unsigned long long)rank);
    return out;
}

static int results_open_folder(int root_fd, bool make)
{
    if (make && mkdirat(root_fd, WS_PRIVATE_DIR, 0700) < 0 && errno != EEXIST)
        return -errno;
    if (make && mkdirat(root_fd, RESULTS_DIR, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(root_fd, RESULTS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---- what comes ---- */

/* What there is beside `own`: how much, how many, and which of them is the oldest. */
struct results_others {
    uint64_t bytes;
    size_t count;
    uint64_t oldest;
    char name[NAME_BYTES];
};

static struct results_others results_look(int folder, const char *own)
{
    struct results_others others = {0};
    int fd = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    struct stat st;

    if (dir)
        rewinddir(dir); /* the position is shared with the folder's own descriptor */
    while (dir && (item = readdir(dir)) != NULL) {
        struct str rest = str_from(item->d_name);
        struct str word;
        uint64_t generation;

        if (strcmp(item->d_name, own) == 0 || !str_cut(&rest, '-', &word) ||
            !str_to_u64(word, &generation) || rest.len + word.len + 2 > NAME_BYTES ||
            fstatat(folder, item->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!others.count || generation < others.oldest) {
            others.oldest = generation;
            (void)snprintf(others.name, sizeof(others.name), "%.*s", NAME_BYTES - 1, item->d_name);
        }
        others.bytes += (uint64_t)st.st_size;
        others.count++;
    }
    if (dir)
        closedir(dir);
    return others;
}

/* Older generations make room: one that comes late does not take that of newer ones. */
static bool results_make_room(int folder,
                              const struct keep_results_piece *piece,
                              uint64_t bytes,
                              uint64_t bytes_max)
{
    char own[NAME_BYTES];

    (void)results_name(piece->generation, piece->rank, own);
    for (;;) {
        struct results_others others = results_look(folder, own);

        if (others.bytes + bytes <= bytes_max && others.count < KEEP_RESULTS_MAX)
            return true;
        if (!others.count || others.oldest > piece->generation ||
            unlinkat(folder, others.name, 0) < 0)
            return false;
    }
}

/* Instead of half of it: words, and no end. */
static int results_give_up(int fd, int code, struct err *err)
{
    _cleanup_(buf_done) struct buf out = {0};
    const char *words = code == -EFBIG ? TOO_MUCH : NO_ROOM;

    frame_add_gone(&out, str_from(words));
    if (ftruncate(fd, 0) == 0)
        (void)disk_write(fd, buf_str(&out));
    return err_set(err, code, "%s", words);
}

int keep_results_add(int root_fd,
                     const struct keep_results_piece *piece,
                     uint64_t bytes_max,
                     struct err *err)
{
    _cleanup_(disk_closep) int folder = results_open_folder(root_fd, true);
    _cleanup_(disk_closep) int fd = -1;
    char name[NAME_BYTES];
    struct stat st;

    if (folder < 0)
        return err_set(err, folder, "%s: %s", RESULTS_DIR, strerrordesc_np(-folder));
    fd = openat(folder, results_name(piece->generation, piece->rank, name),
                O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC |
                    (piece->offset ? 0 : O_TRUNC),
                0600);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", RESULTS_DIR, strerrordesc_np(errno));
    uint64_t have = (uint64_t)st.st_size;
    /* This one was cut: the service died while it wrote. */
    if (have > piece->offset && have - piece->offset < piece->frames.len &&
        ftruncate(fd, (off_t)piece->offset) == 0)
        have = piece->offset;
    if (have != piece->offset) /* this one has come before, or others have not */
        return have == piece->offset + piece->frames.len
                   ? 0
                   : err_set(err, -ESTALE, "%llu bytes are here, and not %llu",
                             (unsigned long long)have, (unsigned long long)piece->offset);
    if (!results_make_room(folder, piece, have + piece->frames.len, bytes_max))
        return results_give_up(fd, -EFBIG, err);
    int r = disk_write(fd, piece->frames);
    if (r == -ENOSPC || r == -EDQUOT)
        return results_give_up(fd, -ENOSPC, err);
    return r < 0 ? err_set(err, r, "%s: %s", RESULTS_DIR, strerrordesc_np(-r)) : 0;
}

/* ---- what is read ---- */

struct keep_results *keep_results_open(int root_fd, const struct keep_results_request *request)
{
    _cleanup_(disk_closep) int folder = results_open_folder(root_fd, false);
    char name[NAME_BYTES];
    int fd = folder < 0 || request->path.len > WS_PATH_MAX
                 ? -1
                 : openat(folder, results_name(request->generation, request->rank, name),
                          O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    struct keep_results *kept = MEM_NEW(struct keep_results);
    *kept = (struct keep_results){.fd = fd, .list = request->list};
    memcpy(kept->path, request->path.p ? request->path.p : "", request->path.len);
    return kept;
}

void keep_results_close(struct keep_results *kept)
{
    if (!kept)
        return;
    (void)close(kept->fd);
    mem_free(kept);
}

static bool results_wants(const struct keep_results *kept, struct str path)
{
    size_t len = strlen(kept->path);

    return !len || (str_starts(path, (struct str){kept->path, len}) &&
                    (path.len == len || path.p[len] == '/'));
}

static uint64_t results_number(const unsigned char *bytes, size_t width)
{
    uint64_t number = 0;

    for (size_t i = 0; i < width; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* The next `len` bytes, whole, as they are. */
static bool results_copy(struct keep_results *kept, struct buf *out, size_t len)
{
    char *room = buf_room(out, len + 1);
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(kept->fd, room + got, len - got, (off_t)(kept->at + got));

        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    out->len += len;
    return true;
}

static bool results_blob(struct keep_results *kept, struct buf *out, size_t len)
{
    unsigned char head[FRAME_HEAD_BYTES + BLOB_HEAD_BYTES + WS_PATH_MAX];
    ssize_t got = pread(kept->fd, head, sizeof(head), (off_t)kept->at);
    const unsigned char *blob = head + FRAME_HEAD_BYTES;

    if (got < FRAME_HEAD_BYTES + BLOB_HEAD_BYTES || len < BLOB_HEAD_BYTES)
        return false;
    size_t path_len = (size_t)results_number(blob + 34, 2);
    if (path_len > WS_PATH_MAX || (size_t)got < FRAME_HEAD_BYTES + BLOB_HEAD_BYTES + path_len)
        return false;
    struct str path = {(const char *)blob + BLOB_HEAD_BYTES, path_len};
    if (!results_wants(kept, path))
        return true;
    kept->found = true;
    if (!kept->list)
        return results_copy(kept, out, FRAME_HEAD_BYTES + len);
    if (results_number(blob + 24, 8) == 0) /* the first piece of a file */
        frame_add_entry(out, &(struct ws_entry){.type = WS_FILE,
                                                .path = path,
                                                .hash = hash_take(blob),
                                                .size = results_number(blob + 16, 8),
                                                .mode = (uint32_t)results_number(blob + 32, 2)});
    return true;
}

/* A link: as it came, where it is asked for. */
static bool results_link(struct keep_results *kept, struct buf *out, size_t len)
{
    unsigned char head[FRAME_HEAD_BYTES + ENTRY_HEAD_BYTES + WS_PATH_MAX];
    ssize_t got = pread(kept->fd, head, sizeof(head), (off_t)kept->at);
    const unsigned char *entry = head + FRAME_HEAD_BYTES;

    if (got < FRAME_HEAD_BYTES + ENTRY_HEAD_BYTES || len < ENTRY_HEAD_BYTES)
        return false;
    size_t path_len = (size_t)results_number(entry + 27, 2);
    if (path_len > WS_PATH_MAX || (size_t)got < FRAME_HEAD_BYTES + ENTRY_HEAD_BYTES + path_len)
        return false;
    if (!results_wants(kept, (struct str){(const char *)entry + ENTRY_HEAD_BYTES, path_len}))
        return true;
    kept->found = true;
    return results_copy(kept, out, FRAME_HEAD_BYTES + len);
}

int keep_results_read(struct keep_results *kept, struct buf *out)
{
    for (int i = 0; i < BATCH_FRAMES && out->len < BATCH_BYTES; i++) {
        unsigned char head[FRAME_HEAD_BYTES];

        if (pread(kept->fd, head, sizeof(head), (off_t)kept->at) != sizeof(head))
            return 0; /* cut: there is no end */
        size_t len = (size_t)results_number(head + 1, 4);
        bool whole = len <= FRAME_BYTES_MAX;
        bool last = head[0] == FRAME_COMMIT;

        if (whole && head[0] == FRAME_BLOB)
            whole = results_blob(kept, out, len);
        else if (whole && head[0] == FRAME_ENTRY)
            whole = results_link(kept, out, len);
        else if (whole && last && kept->path[0] && !kept->found)
            frame_add_gone(out, STR("no such file or folder is kept of it"));
        else if (whole)
            whole = results_copy(kept, out, FRAME_HEAD_BYTES + len);
        if (!whole || last)
            return 0;
        kept->at += FRAME_HEAD_BYTES + len;
    }
    return 1;
}

/* ---- requests ---- */

static bool results_query(struct httpd_conn *conn, const char *name, uint64_t *ret)
{
    char text[32];

    return httpd_query(conn, name, text, sizeof(text)) && str_to_u64(str_from(text), ret);
}

static void results_take(int root_fd, struct httpd_conn *conn, struct keep_results_piece *piece)
{
    struct err err = {0};

    if (!results_query(conn, "offset", &piece->offset)) {
        httpd_reply(conn, 400, "", "text/plain", STR("offset must be a number\n"));
        return;
    }
    int r = keep_results_add(root_fd, piece, KEEP_RESULTS_BYTES_MAX, &err);
    if (r < 0)
        httpd_reply(conn, r == -ESTALE ? 409 : 507, "", "text/plain", str_from(err.text));
    else
        httpd_reply(conn, 200, "", "text/plain", STR("ok\n"));
}

struct keep_results *keep_results_answer(int root_fd, struct httpd_conn *conn, struct str body)
{
    struct keep_results_piece piece = {.frames = body};
    char path[WS_PATH_MAX + 1] = "";
    char list[8] = "";

    if (!results_query(conn, "generation", &piece.generation) ||
        !results_query(conn, "rank", &piece.rank)) {
        httpd_reply(conn, 400, "", "text/plain", STR("generation and rank must be numbers\n"));
        return NULL;
    }
    if (str_is(httpd_request(conn)->method, "POST")) {
        results_take(root_fd, conn, &piece);
        return NULL;
    }
    (void)httpd_query(conn, "path", path, sizeof(path));
    (void)httpd_query(conn, "list", list, sizeof(list));
    struct keep_results *kept = keep_results_open(
        root_fd, &(struct keep_results_request){.generation = piece.generation,
                                                .rank = piece.rank,
                                                .path = str_from(path),
                                                .list = strcmp(list, "true") == 0});
    if (kept)
        httpd_stream_begin(conn, "application/octet-stream");
    else
        httpd_reply(conn, 404, "", "text/plain", STR("nothing is kept of it\n"));
    return kept;
}

bool keep_results_more(struct keep_results *kept, struct httpd_conn *conn)
{
    _cleanup_(buf_done) struct buf out = {0};
    bool more = keep_results_read(kept, &out) > 0;

    (void)httpd_stream_add(conn, buf_str(&out));
    if (!more)
        httpd_stream_end(conn);
    return more;
}
