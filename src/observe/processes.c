#include "observe/processes.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of /proc/PID/stat, counted from the first behind the name. */
#define FIELD_PARENT 2
#define FIELD_USER   12
#define FIELD_SYSTEM 13
#define FIELD_BORN   20
#define FIELD_EXIT   50

bool process_read(int64_t pid, const char *name, struct buf *ret, size_t bytes_max)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    buf_clear(ret);
    while (ret->len < bytes_max) {
        char *room = buf_room(ret, bytes_max - ret->len);
        ssize_t got = room ? read(fd, room, bytes_max - ret->len) : 0;

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        ret->len += (size_t)got;
    }
    close(fd);
    return true;
}

static bool stat_parse(struct str text, struct process *ret)
{
    int64_t ticks = 0;
    size_t field = 1, last = FIELD_BORN;
    size_t end = text.len;
    struct str word;

    while (end && text.p[end - 1] != ')') /* a name may have blanks and brackets */
        end--;
    text = str_trim(str_sub(text, end, text.len));
    for (; field <= last && str_cut(&text, ' ', &word); field++) {
        int64_t number = 0;

        if (field == 1) {
            ret->state = word.len ? word.p[0] : '?';
            last = ret->state == 'Z' ? FIELD_EXIT : last;
        } else if (!str_to_i64(word, &number)) {
            continue;
        }
        if (field == FIELD_PARENT)
            ret->parent = number;
        else if (field == FIELD_USER || field == FIELD_SYSTEM)
            ticks += number;
        else if (field == FIELD_BORN)
            ret->born = number;
        else if (field == FIELD_EXIT)
            ret->failed = number != 0;
    }
    ret->cpu_ms = ticks * 1000 / sysconf(_SC_CLK_TCK);
    return field > FIELD_BORN;
}

static int process_compare(const void *a, const void *b)
{
    const struct process *x = a;
    const struct process *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

void processes_read(struct processes *ret)
{
    DIR *folder = opendir("/proc");

    ret->count = 0;
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) && ret->count < PROCESSES_MAX;) {
        _cleanup_(buf_done) struct buf text = {0};
        struct process process = {0};

        if (str_to_i64(str_from(entry->d_name), &process.pid) && process.pid > 0 &&
            process_read(process.pid, "stat", &text, PROCESS_FILE_BYTES) &&
            stat_parse(buf_str(&text), &process))
            VEC_PUSH(NULL, ret, process);
    }
    closedir(folder);
    if (ret->count)
        qsort(ret->items, ret->count, sizeof(*ret->items), process_compare);
    for (size_t i = 0; i < ret->count; i++) {
        const struct process *above = process_find(ret, ret->items[i].parent);

        ret->items[i].above = above ? (size_t)(above - ret->items) : SIZE_MAX;
    }
}

struct process *process_find(const struct processes *all, int64_t pid)
{
    const struct process key = {.pid = pid};

    return all->count ? bsearch(&key, all->items, all->count, sizeof(key), process_compare) : NULL;
}

bool process_is_below(const struct processes *all, const struct process *process, int64_t ancestor)
{
    for (int i = 0; process && i < PROCESS_DEPTH; i++) {
        if (process->pid == ancestor)
            return true;
        process = process->above < all->count ? &all->items[process->above] : NULL;
    }
    return false;
}

static int64_t status_inner_pid(int64_t pid)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct str rest;
    struct str line;

    if (!process_read(pid, "status", &text, PROCESS_FILE_BYTES))
        return -1;
    rest = buf_str(&text);
    while (str_cut(&rest, '\n', &line)) {
        int64_t inner = pid;
        struct str word;

        if (!str_starts(line, STR("NSpid:")))
            continue;
        line = str_sub(line, 6, line.len);
        while (str_cut(&line, '\t', &word))
            (void)str_to_i64(word, &inner);
        return inner;
    }
    return pid;
}

int64_t process_inner_pid(struct process *process, size_t *opens)
{
    if (!process->inner && *opens) {
        (*opens)--;
        process->inner = status_inner_pid(process->pid);
    }
    return process->inner;
}

int64_t process_io_bytes(int64_t pid, size_t *opens)
{
    _cleanup_(buf_done) struct buf text = {0};
    int64_t bytes = 0;

    if (!*opens)
        return 0;
    (*opens)--;
    if (!process_read(pid, "io", &text, PROCESS_FILE_BYTES))
        return 0;
    struct str rest = buf_str(&text), line = STR_NONE;
    while (str_cut(&rest, '\n', &line)) {
        int64_t number = 0;

        if ((str_starts(line, STR("rchar: ")) || str_starts(line, STR("wchar: "))) &&
            str_to_i64(str_sub(line, sizeof("rchar: ") - 1, line.len), &number))
            bytes += number;
    }
    return bytes;
}
