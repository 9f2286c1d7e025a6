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

#define FILE_BYTES_MAX 16384
/* Of /proc/PID/stat, counted from the first behind the name. */
#define FIELD_PARENT 2
#define FIELD_USER   12
#define FIELD_SYSTEM 13
#define FIELD_BORN   20

static bool proc_read(int64_t pid, const char *name, struct buf *ret)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    buf_clear(ret);
    while (ret->len < FILE_BYTES_MAX) {
        char *room = buf_room(ret, FILE_BYTES_MAX - ret->len);
        ssize_t got = room ? read(fd, room, FILE_BYTES_MAX - ret->len) : 0;

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
    size_t field = 1;
    size_t end = text.len;
    struct str word;

    while (end && text.p[end - 1] != ')') /* a name may have blanks and brackets */
        end--;
    text = str_trim(str_sub(text, end, text.len));
    for (; field <= FIELD_BORN && str_cut(&text, ' ', &word); field++) {
        int64_t number = 0;

        if (field == 1)
            ret->state = word.len ? word.p[0] : '?';
        else if (!str_to_i64(word, &number))
            continue;
        if (field == FIELD_PARENT)
            ret->parent = number;
        else if (field == FIELD_USER || field == FIELD_SYSTEM)
            ticks += number;
        else if (field == FIELD_BORN)
            ret->born = number;
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
            proc_read(process.pid, "stat", &text) && stat_parse(buf_str(&text), &process))
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

    if (!proc_read(pid, "status", &text))
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

static bool is_lock(struct str wait)
{
    return str_starts(wait, STR("futex_"));
}

/* Of /proc/PID/task/TID/syscall "NUMBER ARG ARG ARG ...": poll without a limit. */
static bool is_endless_poll(struct str call)
{
#if defined(__x86_64__)
    const int64_t number = 7; /* poll(fds, count, -1) */
    const char *const endless[] = {"0xffffffff", "0xffffffffffffffff"};
#else
    const int64_t number = 73; /* ppoll(fds, count, NULL, ...) of all newer architectures */
    const char *const endless[] = {"0x0", "0x0"};
#endif
    int64_t called = -1;
    struct str word = STR_NONE;

    for (int i = 0; i < 4; i++) {
        if (!str_cut(&call, ' ', &word))
            return false;
        if (i == 0 && (!str_to_i64(word, &called) || called != number))
            return false;
    }
    return str_is(word, endless[0]) || str_is(word, endless[1]);
}

static bool thread_waits(int64_t pid, const char *thread)
{
    _cleanup_(buf_done) struct buf text = {0};
    char name[64];

    (void)snprintf(name, sizeof(name), "task/%.20s/wchan", thread);
    if (!proc_read(pid, name, &text))
        return false;
    struct str wait = str_trim(buf_str(&text));
    if (is_lock(wait) || str_is(wait, "ep_poll") || str_is(wait, "do_epoll_wait"))
        return true;
    (void)snprintf(name, sizeof(name), "task/%.20s/syscall", thread);
    return proc_read(pid, name, &text) && is_endless_poll(buf_str(&text));
}

int64_t process_io_bytes(int64_t pid, size_t *opens)
{
    _cleanup_(buf_done) struct buf text = {0};
    int64_t bytes = 0;

    if (!*opens)
        return 0;
    (*opens)--;
    if (!proc_read(pid, "io", &text))
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

bool process_wait(int64_t pid, char *out, size_t out_bytes, size_t *opens)
{
    _cleanup_(buf_done) struct buf main_wait = {0};
    char path[64];
    size_t threads = 0;
    bool locked;

    out[0] = '\0';
    if (!*opens)
        return false;
    (*opens)--;
    if (!proc_read(pid, "wchan", &main_wait))
        return false;
    struct str wait = str_trim(buf_str(&main_wait));
    if (!wait.len || str_is(wait, "0"))
        return false;
    (void)snprintf(out, out_bytes, STR_FMT, STR_ARG(wait));
    locked = is_lock(wait);
    (void)snprintf(path, sizeof(path), "/proc/%lld/task", (long long)pid);
    DIR *folder = locked ? opendir(path) : NULL;
    if (!folder)
        return false;
    for (struct dirent *entry; locked && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        locked = *opens && ++threads <= PROCESS_THREADS && thread_waits(pid, entry->d_name);
        *opens -= *opens > 0;
    }
    closedir(folder);
    return locked;
}
