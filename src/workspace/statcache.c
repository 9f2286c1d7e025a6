#include "workspace/statcache.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "system/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The file: a magic, then records in path order. Native numbers: it never leaves the machine. */
#define MAGIC "MUSTER-STAT-1\n"

struct record {
    uint64_t size;
    struct statcache_stat stat;
    struct hash hash;
    uint32_t mode;
    uint32_t path_len; /* the path follows, padded to eight bytes */
};

/* Where they are; false: nowhere. */
static bool cache_folder(char folder[static 400], const char *cache_home, const char *home)
{
    if (cache_home && cache_home[0] == '/')
        (void)snprintf(folder, 400, "%s/muster", cache_home);
    else if (home && home[0] == '/')
        (void)snprintf(folder, 400, "%s/.cache/muster", home);
    else
        return false;
    return true;
}

/* A file of ours, by its name: others keep things there too. */
static bool name_is_cache(const char *name)
{
    return strlen(name) == HASH_HEX_BYTES - 1 && strspn(name, "0123456789abcdef") == strlen(name);
}

void statcache_remove_all(const char *cache_home, const char *home)
{
    char folder[400];
    DIR *entries = cache_folder(folder, cache_home, home) ? opendir(folder) : NULL;

    if (!entries)
        return;
    for (struct dirent *e; (e = readdir(entries));)
        if (name_is_cache(e->d_name))
            (void)unlinkat(dirfd(entries), e->d_name, 0);
    closedir(entries);
    (void)rmdir(folder);
}

void statcache_open(struct statcache *cache,
                    const char *root,
                    const char *cache_home,
                    const char *home)
{
    char full[PATH_MAX];
    char folder[400];
    char hex[HASH_HEX_BYTES];
    struct timespec now;

    *cache = (struct statcache){.path = ""};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    cache->started_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (!realpath(root, full))
        return;
    if (!cache_folder(folder, cache_home, home))
        return;
    for (char *slash = folder + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(folder, 0700);
        *slash = '/';
    }
    (void)mkdir(folder, 0700);
    (void)snprintf(cache->path, sizeof(cache->path), "%s/%s", folder,
                   hash_hex(hash_of(str_from(full)), hex));
}

void statcache_done(struct statcache *cache)
{
    VEC_DONE(&cache->stats);
}

void statcache_reserve(struct statcache *cache, size_t count)
{
    if (count > cache->stats.capacity)
        cache->stats.items = vec_grow(NULL, cache->stats.items, &cache->stats.capacity, count,
                                      sizeof(*cache->stats.items), _Alignof(struct statcache_stat));
    cache->stats.count = count;
}

static int64_t stat_ns(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void statcache_note(struct statcache *cache, uint32_t tag, const struct stat *st)
{
    cache->stats.items[tag - 1] = (struct statcache_stat){.mtime_ns = stat_ns(file_modified(st)),
                                                          .ctime_ns = stat_ns(file_changed(st)),
                                                          .inode = st->st_ino};
}

static size_t padded(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

/* The record at *at, and *at behind it; NULL at the end or when the file is damaged. */
static const struct record *next_record(struct str file, size_t *at, struct str *ret_path)
{
    const struct record *record = (const struct record *)(const void *)(file.p + *at);

    if (file.len - *at < sizeof(*record) || record->path_len > WS_PATH_MAX ||
        file.len - *at - sizeof(*record) < padded(record->path_len))
        return NULL;
    *ret_path = (struct str){(const char *)(record + 1), record->path_len};
    *at += sizeof(*record) + padded(record->path_len);
    return record;
}

static void apply(struct statcache *cache, struct manifest *manifest, struct str file)
{
    size_t at = padded(sizeof(MAGIC));
    struct str path = STR("");
    const struct record *record = next_record(file, &at, &path);
    size_t skipped = 0; /* records of files that are gone */
    size_t unknown = 0;

    for (size_t i = 0; i < manifest->entries.count; i++) {
        struct ws_entry *entry = &manifest->entries.items[i];
        int order = -1;

        if (entry->type != WS_FILE || !entry->tag)
            continue;
        while (record && (order = str_cmp(path, entry->path)) < 0) {
            record = next_record(file, &at, &path);
            skipped++;
        }
        const struct statcache_stat *stat = &cache->stats.items[entry->tag - 1];
        if (record && order == 0 && record->size == entry->size &&
            record->stat.mtime_ns == stat->mtime_ns && record->stat.ctime_ns == stat->ctime_ns &&
            record->stat.inode == stat->inode)
            entry->hash = record->hash;
        else
            unknown++;
        if (record && order == 0)
            record = next_record(file, &at, &path);
    }
    cache->exact = unknown == 0 && skipped == 0 && !record;
}

void statcache_apply(struct statcache *cache, struct manifest *manifest)
{
    int fd = cache->path[0] ? open(cache->path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat st;
    void *map;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > (off_t)padded(sizeof(MAGIC))) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            if (memcmp(map, MAGIC, sizeof(MAGIC)) == 0)
                apply(cache, manifest, (struct str){map, (size_t)st.st_size});
            (void)munmap(map, (size_t)st.st_size);
        }
    }
    close(fd);
}

void statcache_save(struct statcache *cache, const struct manifest *manifest)
{
    _cleanup_(buf_done) struct buf out = {0};
    static const char zeroes[8];
    char temporary[sizeof(cache->path) + 8];
    bool written;
    int fd;

    if (!cache->path[0] || cache->exact)
        return;
    buf_add(&out, (struct str){MAGIC, sizeof(MAGIC)});
    buf_add(&out, (struct str){zeroes, padded(sizeof(MAGIC)) - sizeof(MAGIC)});
    for (size_t i = 0; i < manifest->entries.count; i++) {
        const struct ws_entry *entry = &manifest->entries.items[i];
        struct record record = {
            .size = entry->size, .hash = entry->hash, .path_len = (uint32_t)entry->path.len};

        if (entry->type != WS_FILE || !entry->tag || hash_is_zero(entry->hash))
            continue;
        record.stat = cache->stats.items[entry->tag - 1];
        if (record.stat.mtime_ns > cache->started_ns - STATCACHE_RACY_NS ||
            record.stat.ctime_ns > cache->started_ns - STATCACHE_RACY_NS)
            continue;
        buf_add(&out, (struct str){(const char *)&record, sizeof(record)});
        buf_add(&out, entry->path);
        buf_add(&out, (struct str){zeroes, padded(entry->path.len) - entry->path.len});
    }
    (void)snprintf(temporary, sizeof(temporary), "%s.new", cache->path);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    written = write(fd, out.p, out.len) == (ssize_t)out.len;
    close(fd);
    if (!written || rename(temporary, cache->path) < 0)
        (void)unlink(temporary);
}
