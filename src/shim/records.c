#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int records_cut(struct records *records)
{
    const char *end = records->p + records->len;
    size_t lines = 0;
    for (const char *p = records->p; p < end; p += strlen(p) + 1)
        lines++;
    records->items = calloc(lines + 1, sizeof(*records->items));
    if (!records->items)
        return -ENOMEM;
    for (const char *p = records->p, *next; p < end; p = next) {
        size_t len = strlen(p);
        const char *equals = memchr(p, '=', len);
        next = p + len + 1;
        if (equals)
            records->items[records->count++] = (struct record){p, (size_t)(equals - p), equals + 1};
    }
    return 0;
}

int records_open(struct records *records, int dirfd, const char *path)
{
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat st;
    int r = fstat(fd, &st) ? -errno : 0;
    if (r == 0 && (st.st_size <= 0 || st.st_size > SHIM_SPEC_BYTES))
        r = st.st_size ? -EFBIG : -ENODATA;
    void *p = MAP_FAILED;
    if (r == 0) {
        p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        r = p == MAP_FAILED ? -errno : 0;
    }
    close(fd);
    if (r)
        return r;
    records->p = p;
    records->len = (size_t)st.st_size;
    /* Every value is a C string, whatever the file ends with. */
    if (records->p[records->len - 1])
        records->p[records->len - 1] = '\0';
    r = records_cut(records);
    if (r)
        records_close(records);
    return r;
}

void records_close(struct records *records)
{
    if (records->p)
        munmap(records->p, records->len);
    free(records->items);
    *records = (struct records){0};
}

bool records_next(const struct records *records, size_t *next, struct record *ret)
{
    if (*next >= records->count)
        return false;
    *ret = records->items[(*next)++];
    return true;
}

bool record_is(const struct record *record, const char *name)
{
    return strlen(name) == record->name_len && memcmp(record->name, name, record->name_len) == 0;
}

const char *records_get(const struct records *records, const char *name)
{
    struct record record;
    for (size_t next = 0; records_next(records, &next, &record);)
        if (record_is(&record, name))
            return record.value;
    return NULL;
}

bool records_has(const struct records *records, const char *name, const char *value)
{
    struct record record;
    for (size_t next = 0; records_next(records, &next, &record);)
        if (record_is(&record, name) && strcmp(record.value, value) == 0)
            return true;
    return false;
}

size_t shim_number(const char *text, unsigned base, uint64_t *ret)
{
    uint64_t number = 0;
    size_t used = 0;
    for (;; used++) {
        char c = text[used];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : base;
        if (digit >= base)
            break;
        number = number * base + digit;
    }
    *ret = number;
    return used;
}

long records_number(const struct records *records, const char *name, long otherwise)
{
    const char *text = records_get(records, name);
    uint64_t number = 0;
    size_t used = text ? shim_number(text, 10, &number) : 0;
    return used && !text[used] && number <= LONG_MAX ? (long)number : otherwise;
}
