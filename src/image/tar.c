#include "image/tar.h"

#include "base/buf.h"
#include "base/err.h"
#include "image/tar_stream.h"
#include "shim/openin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK        512
#define CHUNK        65536
#define RECORD_BYTES (1 << 20) /* of pax records or a long name */
#define DEPTH_MAX    128       /* of folders that a whiteout removes */

/* The header block; all text, numbers in octal or, with the top bit set, binary. */
struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char owner[32];
    char group[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char padding[12];
};

struct entry {
    char name[PATH_MAX];
    char link[PATH_MAX];
    char type;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    int64_t size;
    /* Said by records before the header, for the next entry only. */
    bool has_name;
    bool has_link;
    bool has_size;
};

struct unpacking {
    struct tar_stream *stream;
    const struct tar_options *options;
    struct err *err;
};

static int64_t number(const char *field, size_t size)
{
    uint64_t value = 0;
    if ((unsigned char)field[0] & 0x80) {
        value = (unsigned char)field[0] & 0x7f;
        for (size_t i = 1; i < size; i++)
            value = value << 8 | (unsigned char)field[i];
    } else {
        for (size_t i = 0; i < size; i++)
            if (field[i] >= '0' && field[i] <= '7')
                value = value << 3 | (uint64_t)(field[i] - '0');
    }
    return value > INT64_MAX ? -1 : (int64_t)value;
}

/* ---- places below the folder ---- */

/* The folder that holds `path`, made where missing; *ret_name is the last word. Words that would
 * name a folder itself are refused. */
static int open_parent(const struct unpacking *u, const char *path, const char **ret_name)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EINVAL;
    *ret_name = name;
    memcpy(folder, path, len);
    folder[len] = '\0';
    int fd = open_in(u->options->root_fd, len ? folder : ".", O_PATH | O_DIRECTORY, 0);
    for (size_t i = 1; fd == -ENOENT && i <= len; i++) {
        if (folder[i] != '/' && folder[i] != '\0')
            continue;
        char kept = folder[i];
        const char *word;
        folder[i] = '\0';
        int parent = open_parent(u, folder, &word);
        if (parent < 0)
            return parent;
        if (mkdirat(parent, word, 0755) < 0 && errno != EEXIST) {
            int r = -errno;
            close(parent);
            return r;
        }
        close(parent);
        folder[i] = kept;
        if (i == len)
            fd = open_in(u->options->root_fd, folder, O_PATH | O_DIRECTORY, 0);
    }
    return fd;
}

static void empty_folder(int fd, int depth);

/* What is in the way goes, never followed. */
static void remove_at(int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
        return;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && depth < DEPTH_MAX)
        empty_folder(fd, depth + 1);
    else if (fd >= 0)
        close(fd);
    (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* Takes the descriptor. */
static void empty_folder(int fd, int depth)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(folder));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove_at(dirfd(folder), e->d_name, depth);
    closedir(folder);
}

/* ---- entries ---- */

static int take_file(struct unpacking *u, const struct entry *entry, int fd)
{
    char chunk[CHUNK];
    for (int64_t left = entry->size; left > 0;) {
        size_t want = left < CHUNK ? (size_t)left : CHUNK;
        ssize_t n = tar_stream_read(u->stream, chunk, want, u->err);
        if (n < 0)
            return (int)n;
        if ((size_t)n < want)
            return err_set(u->err, -EBADMSG, "the archive ends inside %s", entry->name);
        if (fd >= 0 && write(fd, chunk, want) != (ssize_t)want)
            return err_set(u->err, -errno, "cannot write %s: %s", entry->name,
                           strerrordesc_np(errno));
        left -= (int64_t)want;
    }
    char padding[BLOCK];
    size_t rest = (size_t)(-entry->size & (BLOCK - 1));
    ssize_t n = rest ? tar_stream_read(u->stream, padding, rest, u->err) : 0;
    return n < 0 ? (int)n : 0;
}

static int make_file(struct unpacking *u, const struct entry *entry, int parent, const char *name)
{
    remove_at(parent, name, 0);
    int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int r = take_file(u, entry, fd);
    if (r == 0 && u->options->owners && fchown(fd, entry->uid, entry->gid) < 0)
        r = -errno;
    if (r == 0 && fchmod(fd, entry->mode) < 0)
        r = -errno;
    close(fd);
    return r;
}

static int make_folder(struct unpacking *u, const struct entry *entry, int parent, const char *name)
{
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
        remove_at(parent, name, 0);
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (u->options->owners &&
        fchownat(parent, name, entry->uid, entry->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return fchmodat(parent, name, entry->mode, 0) < 0 ? -errno : 0;
}

static int make_hard_link(struct unpacking *u,
                          const struct entry *entry,
                          int parent,
                          const char *name)
{
    const char *from_name;
    int from = open_parent(u, entry->link, &from_name);
    if (from < 0)
        return from;
    remove_at(parent, name, 0);
    int r = linkat(from, from_name, parent, name, 0) < 0 ? -errno : 0;
    close(from);
    return r;
}

static int make_symlink(struct unpacking *u,
                        const struct entry *entry,
                        int parent,
                        const char *name)
{
    remove_at(parent, name, 0);
    if (symlinkat(entry->link, parent, name) < 0)
        return -errno;
    if (u->options->owners &&
        fchownat(parent, name, entry->uid, entry->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

/* True when the name is a whiteout, and what it hides is gone. */
static bool whiteout(const struct unpacking *u, int parent, const char *name)
{
    if (!u->options->layer || strncmp(name, ".wh.", 4) != 0)
        return false;
    if (strcmp(name, ".wh..wh..opq") == 0) {
        int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            empty_folder(fd, 0);
    } else if (name[4]) {
        remove_at(parent, name + 4, 0);
    }
    return true;
}

static int make_entry(struct unpacking *u, const struct entry *entry)
{
    const char *name;
    int parent = open_parent(u, entry->name, &name);
    if (parent == -EINVAL) /* the folder itself */
        return take_file(u, entry, -1);
    if (parent < 0)
        return err_set(u->err, parent, "cannot create %s: %s", entry->name,
                       strerrordesc_np(-parent));
    int r = 0;
    bool file = entry->type == '0' || entry->type == '\0' || entry->type == '7';
    if (whiteout(u, parent, name))
        r = take_file(u, entry, -1);
    else if (file)
        r = make_file(u, entry, parent, name);
    else if (entry->type == '5')
        r = make_folder(u, entry, parent, name);
    else if (entry->type == '1')
        r = make_hard_link(u, entry, parent, name);
    else if (entry->type == '2')
        r = make_symlink(u, entry, parent, name);
    else
        r = take_file(u, entry, -1); /* devices and the like */
    close(parent);
    if (r < 0 && !(u->err && u->err->code))
        return err_set(u->err, r, "cannot create %s: %s", entry->name, strerrordesc_np(-r));
    return r;
}

/* ---- headers ---- */

static void set_text(char out[static PATH_MAX], struct str text)
{
    (void)snprintf(out, PATH_MAX, STR_FMT, STR_ARG(text));
}

/* "LEN KEY=VALUE\n" ... */
static void take_pax(struct str records, struct entry *next)
{
    while (records.len) {
        size_t blank = str_find(records, ' ');
        uint64_t len;
        if (blank == records.len || !str_to_u64(str_sub(records, 0, blank), &len) ||
            len <= blank + 1 || len > records.len)
            return;
        struct str record = str_sub(records, blank + 1, (size_t)len - 1), key;
        uint64_t size;
        if (str_cut(&record, '=', &key)) {
            if (str_is(key, "path")) {
                set_text(next->name, record);
                next->has_name = true;
            } else if (str_is(key, "linkpath")) {
                set_text(next->link, record);
                next->has_link = true;
            } else if (str_is(key, "size") && str_to_u64(record, &size) && size <= INT64_MAX) {
                next->size = (int64_t)size;
                next->has_size = true;
            }
        }
        records = str_sub(records, (size_t)len, records.len);
    }
}

static int take_record(struct unpacking *u, char type, int64_t size, struct entry *next)
{
    _cleanup_(buf_done) struct buf text = {0};
    size_t padded = ((size_t)size + BLOCK - 1) & ~(size_t)(BLOCK - 1);
    char *room = size >= 0 && size <= RECORD_BYTES ? buf_room(&text, padded + 1) : NULL;
    if (!room)
        return err_set(u->err, -EFBIG, "a record of %lld bytes: at most %d", (long long)size,
                       RECORD_BYTES);
    ssize_t n = tar_stream_read(u->stream, room, padded, u->err);
    if (n < 0)
        return (int)n;
    if ((size_t)n < padded)
        return err_set(u->err, -EBADMSG, "the archive ends inside a record");
    struct str all = {room, (size_t)size};
    struct str name = str_sub(all, 0, str_find(all, '\0'));
    if (type == 'x') {
        take_pax(all, next);
    } else if (type == 'L') {
        set_text(next->name, name);
        next->has_name = true;
    } else if (type == 'K') {
        set_text(next->link, name);
        next->has_link = true;
    }
    return 0;
}

static bool checksum_is_right(const struct header *header)
{
    struct header copy = *header;
    unsigned char bytes[BLOCK];
    int64_t sum = 0;
    memset(copy.checksum, ' ', sizeof(copy.checksum));
    memcpy(bytes, &copy, sizeof(bytes));
    for (size_t i = 0; i < BLOCK; i++)
        sum += bytes[i];
    return sum == number(header->checksum, sizeof(header->checksum));
}

static void take_header(const struct header *header, struct entry *entry)
{
    if (!entry->has_name) {
        bool prefixed = memcmp(header->magic, "ustar", 5) == 0 && header->prefix[0];
        (void)snprintf(entry->name, sizeof(entry->name), "%.*s%s%.*s",
                       prefixed ? (int)sizeof(header->prefix) : 0, header->prefix,
                       prefixed ? "/" : "", (int)sizeof(header->name), header->name);
    }
    if (!entry->has_link)
        (void)snprintf(entry->link, sizeof(entry->link), "%.*s", (int)sizeof(header->link),
                       header->link);
    /* "./a", "/a" and "a/" are a. */
    size_t skip = 0;
    while (entry->name[skip] == '/' || (entry->name[skip] == '.' && entry->name[skip + 1] == '/'))
        skip++;
    memmove(entry->name, entry->name + skip, strlen(entry->name + skip) + 1);
    size_t len = strlen(entry->name);
    while (len > 0 && entry->name[len - 1] == '/')
        entry->name[--len] = '\0';
    entry->type = header->type;
    entry->mode = (mode_t)(number(header->mode, sizeof(header->mode)) & 07777);
    entry->uid = (uid_t)number(header->uid, sizeof(header->uid));
    entry->gid = (gid_t)number(header->gid, sizeof(header->gid));
    bool has_body = header->type == '0' || header->type == '\0' || header->type == '7';
    if (!has_body)
        entry->size = 0;
    else if (!entry->has_size)
        entry->size = number(header->size, sizeof(header->size));
}

/* 1: there was one; 0: the end. */
static int next_entry(struct unpacking *u, struct entry *entry)
{
    static const struct header zeroes;
    struct header header;
    ssize_t n = tar_stream_read(u->stream, &header, sizeof(header), u->err);
    if (n < 0)
        return (int)n;
    if (n == 0 || memcmp(&header, &zeroes, sizeof(header)) == 0)
        return 0;
    if (n < (ssize_t)sizeof(header) || !checksum_is_right(&header))
        return err_set(u->err, -EBADMSG, "this is not a tar archive, or it is damaged");
    struct tar_limits *limits = u->options->limits;
    if (--limits->entries < 0)
        return err_set(u->err, -EFBIG, "the image has too many files");
    if (strchr("xgLK", header.type) && header.type) {
        int r = take_record(u, header.type, number(header.size, sizeof(header.size)), entry);
        return r ? r : 1;
    }
    take_header(&header, entry);
    if (entry->size < 0 || entry->size > limits->bytes)
        return err_set(u->err, -EFBIG, "%s: the image is too large", entry->name);
    limits->bytes -= entry->size;
    int r = make_entry(u, entry);
    *entry = (struct entry){0};
    return r ? r : 1;
}

int tar_extract(int fd, const struct tar_options *options, struct err *err)
{
    struct err own = {0};
    struct unpacking u = {.options = options, .err = err ? err : &own};
    struct entry entry = {0};
    int r = tar_stream_open(fd, &u.stream, u.err);
    if (r)
        return r;
    do
        r = next_entry(&u, &entry);
    while (r > 0);
    if (r == 0)
        r = tar_stream_check(u.stream, options->digest, u.err);
    tar_stream_close(u.stream);
    return r;
}
