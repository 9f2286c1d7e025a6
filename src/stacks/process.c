#include "stacks/process.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "stacks/decode.h"
#include "stacks/image.h"
#include "stacks/memory.h"
#include "stacks/native.h"
#include "stacks/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SMALL_BYTES    4096
#define ENV_BYTES_MAX  ((size_t)128 << 10)
#define COMMAND_MAX    300
#define READS_MAX      300000 /* 512 threads of 100 frames; a second of reading */
#define TRIES          3
#define CANDIDATES_MAX 8
/* Where glibc keeps a thread's number behind its pthread_t, for CPython before 3.11. */
#if defined(__x86_64__)
#    define PTHREAD_TID 720
#elif defined(__aarch64__)
#    define PTHREAD_TID 208
#endif

static void fd_closep(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

struct str proc_file(struct arena *arena, int64_t pid, const char *name, size_t bytes_max)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)pid, name);
    _cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t room = bytes_max < SMALL_BYTES ? bytes_max : SMALL_BYTES;
    char *bytes = arena_raw(arena, room + 1, 1);
    size_t len = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && len < bytes_max) {
        if (len == room) {
            size_t more = room * 2 < bytes_max ? room * 2 : bytes_max;
            char *larger = arena_raw(arena, more + 1, 1);
            memcpy(larger, bytes, len);
            bytes = larger;
            room = more;
        }
        got = read(fd, bytes + len, room - len);
        len += got > 0 ? (size_t)got : 0;
    }
    bytes[len] = '\0';
    return got < 0 ? STR_NONE : (struct str){bytes, len};
}

/* The fields behind the name in brackets, which may hold anything: state, parent, ... */
static struct str stat_rest(struct str stat)
{
    size_t end = stat.len;

    while (end && stat.p[end - 1] != ')')
        end--;
    return str_trim(str_sub(stat, end, stat.len));
}

int64_t process_parent(int64_t pid)
{
    char bytes[512];
    char path[64];
    int64_t parent = 0;
    struct str word;

    (void)snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    _cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
    struct str rest = stat_rest((struct str){bytes, got > 0 ? (size_t)got : 0});
    if (str_cut(&rest, ' ', &word) && str_cut(&rest, ' ', &word))
        (void)str_to_i64(word, &parent);
    return parent;
}

struct str process_environ(struct arena *arena, int64_t pid)
{
    return proc_file(arena, pid, "environ", ENV_BYTES_MAX);
}

struct str environ_get(struct str env, const char *name)
{
    struct str item;
    size_t len = strlen(name);

    while (str_cut(&env, '\0', &item))
        if (item.len > len && item.p[len] == '=' && memcmp(item.p, name, len) == 0)
            return str_sub(item, len + 1, item.len);
    return STR_NONE;
}

/* ---- threads as the kernel knows them ---- */

static struct str syscall_name(struct str line)
{
    static const struct {
        long number;
        const char *name;
    } names[] = {
        {SYS_futex, "futex"},
        {SYS_ppoll, "ppoll"},
        {SYS_epoll_pwait, "epoll_pwait"},
        {SYS_read, "read"},
        {SYS_write, "write"},
        {SYS_pselect6, "pselect6"},
        {SYS_clock_nanosleep, "clock_nanosleep"},
        {SYS_nanosleep, "nanosleep"},
        {SYS_wait4, "wait4"},
        {SYS_waitid, "waitid"},
        {SYS_recvfrom, "recvfrom"},
        {SYS_recvmsg, "recvmsg"},
        {SYS_sendto, "sendto"},
        {SYS_sendmsg, "sendmsg"},
        {SYS_accept, "accept"},
        {SYS_accept4, "accept4"},
        {SYS_connect, "connect"},
        {SYS_ioctl, "ioctl"},
        {SYS_fsync, "fsync"},
        {SYS_openat, "openat"},
        {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
#ifdef SYS_poll
        {SYS_poll, "poll"},
        {SYS_select, "select"},
        {SYS_epoll_wait, "epoll_wait"},
        {SYS_pause, "pause"},
#endif
    };
    struct str word = str_sub(line, 0, str_find(line, ' '));
    int64_t number;

    if (!str_to_i64(word, &number)) /* running */
        return STR_NONE;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (names[i].number == number)
            return str_from(names[i].name);
    return word;
}

/* "202 0x7f.. 0x0 ... 0x7ffd31c0 0x7f51d2": the last two are where its stack is, and where it is. */
static void syscall_place(struct str line, struct process_task *ret)
{
    struct str word = STR_NONE, before = STR_NONE, last = STR_NONE;

    while (str_cut(&line, ' ', &word)) {
        before = last;
        last = word;
    }
    if (!str_starts(before, STR("0x")) || !str_starts(last, STR("0x")) ||
        !proc_hex(str_sub(before, 2, before.len), &ret->sp) ||
        !proc_hex(str_sub(last, 2, last.len), &ret->pc))
        ret->sp = ret->pc = 0;
}

static void task_look(int64_t pid, int64_t tid, struct arena *arena, struct process_task *ret)
{
    char name[64];
    struct str text;

    *ret = (struct process_task){.tid = tid, .state = '?'};
    (void)snprintf(name, sizeof(name), "task/%lld/comm", (long long)tid);
    ret->name = str_utf8(arena, str_trim(proc_file(arena, pid, name, 64)));
    (void)snprintf(name, sizeof(name), "task/%lld/stat", (long long)tid);
    text = stat_rest(proc_file(arena, pid, name, 512));
    if (text.len)
        ret->state = text.p[0];
    (void)snprintf(name, sizeof(name), "task/%lld/wchan", (long long)tid);
    text = str_trim(proc_file(arena, pid, name, 128));
    ret->wchan = str_is(text, "0") ? STR("") : str_utf8(arena, text);
    (void)snprintf(name, sizeof(name), "task/%lld/syscall", (long long)tid);
    text = str_trim(proc_file(arena, pid, name, 256));
    ret->syscall = syscall_name(text);
    syscall_place(text, ret);
}

static void tasks_look(int64_t pid, struct arena *arena, struct process_look *ret)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%lld/task", (long long)pid);
    DIR *dir = opendir(path);
    struct dirent *item;
    while (dir && (item = readdir(dir)) != NULL && ret->tasks.count < PROCESS_TASKS_MAX) {
        struct process_task task;
        int64_t tid;

        if (!str_to_i64(str_from(item->d_name), &tid))
            continue;
        task_look(pid, tid, arena, &task);
        VEC_PUSH(arena, &ret->tasks, task);
    }
    if (dir)
        closedir(dir);
}

/* ---- the interpreter ---- */

/* Something that may be one: a mapping of the beginning of a file. */
struct candidate {
    uint64_t base;
    struct str path;
    bool program; /* the executable, else a library */
};

bool proc_hex(struct str text, uint64_t *ret)
{
    uint64_t number = 0;

    if (!text.len || text.len > 16)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if (c >= '0' && c <= '9')
            number = number * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number * 16 + (uint64_t)(c - 'a') + 10;
        else
            return false;
    }
    *ret = number;
    return true;
}

struct str proc_base(struct str path)
{
    size_t at = path.len;

    while (at && path.p[at - 1] != '/')
        at--;
    return str_sub(path, at, path.len);
}

/* "7f51-7f52 r--p 00000000 fe:01 1234    /usr/lib/libpython3.9.so.1.0" */
static bool maps_line(struct str line, struct candidate *ret)
{
    struct str range, word, offset;
    uint64_t at = 1;

    if (!str_cut(&line, ' ', &range) || !str_cut(&line, ' ', &word) ||
        !str_cut(&line, ' ', &offset) || !proc_hex(offset, &at) || at != 0)
        return false;
    *ret = (struct candidate){.path = str_sub(line, str_find(line, '/'), line.len)};
    return ret->path.len && proc_hex(str_sub(range, 0, str_find(range, '-')), &ret->base);
}

/* Libraries first: a program that is linked with one has no interpreter of its own. */
static size_t maps_candidates(struct str maps, struct str program, struct candidate *out)
{
    struct candidate own = {0};
    struct candidate item;
    struct str line;
    size_t count = 0;

    while (str_cut(&maps, '\n', &line) && count + 1 < CANDIDATES_MAX) {
        if (!maps_line(line, &item))
            continue;
        if (str_starts(proc_base(item.path), STR("libpython")))
            out[count++] = item;
        else if (!own.base && str_eq(item.path, program))
            own = item;
    }
    own.program = true;
    if (own.base)
        out[count++] = own;
    return count;
}

/* 0x03090000 of "libpython3.9.so.1.0" and of "python3.9". */
static uint32_t version_of_name(struct str path)
{
    struct str name = proc_base(path);
    int64_t minor;

    if (str_starts(name, STR("lib")))
        name = str_sub(name, 3, name.len);
    if (!str_starts(name, STR("python3.")))
        return 0;
    name = str_sub(name, 8, name.len);
    size_t digits = 0;
    while (digits < name.len && digits < 2 && name.p[digits] >= '0' && name.p[digits] <= '9')
        digits++;
    return str_to_i64(str_sub(name, 0, digits), &minor) ? 0x03000000U | (uint32_t)minor << 16 : 0;
}

/* The file behind a mapping, also where the process has a root folder of its own: no link in it
 * leads out of that, and nothing but a plain file is opened. */
static int candidate_open(int64_t pid, const struct candidate *candidate)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    char path[PATH_MAX];
    struct stat about;
    int fd;

    if (candidate->program) {
        (void)snprintf(path, sizeof(path), "/proc/%lld/exe", (long long)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } else {
        (void)snprintf(path, sizeof(path), "/proc/%lld/root", (long long)pid);
        _cleanup_(fd_closep) int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void)snprintf(path, sizeof(path), STR_FMT, STR_ARG(candidate->path));
        fd = root < 0 ? -1 : (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    }
    if (fd >= 0 && (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool candidate_read(struct memory *memory,
                           int64_t pid,
                           const struct candidate *candidate,
                           struct decode_where *ret)
{
    struct image image;
    uint64_t at;

    if (!image_open(memory, candidate->base, &image))
        return false;
    *ret = (struct decode_where){
        .runtime = image_symbol(memory, &image, "_PyRuntime"),
        .code_type = image_symbol(memory, &image, "PyCode_Type"),
        .version = version_of_name(candidate->path),
    };
    if (!ret->runtime) {
        _cleanup_(fd_closep) int fd = candidate_open(pid, candidate);
        ret->runtime = fd < 0 ? 0 : image_section(fd, &image, ".PyRuntime");
    }
    at = image_symbol(memory, &image, "Py_Version");
    if (at)
        (void)memory_read(memory, at, &ret->version, sizeof(ret->version));
    return ret->runtime != 0;
}

int64_t patience_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool patience_over(const struct patience *patience)
{
    return patience && ((patience->given_up && atomic_load(patience->given_up)) ||
                        patience_now_ms() > patience->until_ms);
}

bool proc_read(void *user, uint64_t address, void *out, size_t size)
{
    const struct proc_memory *from = user;

    return address <= INT64_MAX && !patience_over(from->patience) &&
           pread(from->fd, out, size, (off_t)address) == (ssize_t)size;
}

static bool find_python(int64_t pid, struct proc_memory *from, struct decode_where *ret)
{
    _cleanup_(arena_done) struct arena scratch = {0}; /* mappings are many, and not needed again */
    struct memory memory = {.read = proc_read, .user = from, .reads_left = READS_MAX};
    struct candidate candidates[CANDIDATES_MAX];
    char path[64];
    char program[PATH_MAX];

    (void)snprintf(path, sizeof(path), "/proc/%lld/exe", (long long)pid);
    ssize_t got = readlink(path, program, sizeof(program));
    struct str maps = proc_file(&scratch, pid, "maps", PROC_MAPS_BYTES_MAX);
    size_t count =
        maps_candidates(maps, (struct str){program, got > 0 ? (size_t)got : 0}, candidates);
    for (size_t i = 0; i < count; i++)
        if (candidate_read(&memory, pid, &candidates[i], ret))
            return true;
    return false;
}

static size_t threads_broken(const struct stack_threads *threads)
{
    size_t broken = 0;

    for (size_t i = 0; i < threads->count; i++)
        broken += threads->items[i].broken;
    return broken;
}

/* Read while it runs: what made no sense is read again, and the best of three counts. */
static int read_threads(struct proc_memory *from,
                        const struct decode_where *where,
                        struct arena *arena,
                        struct stack_threads *ret,
                        uint32_t *ret_version,
                        struct err *err)
{
    size_t best = SIZE_MAX;
    int r = 0;

    for (int i = 0; i < TRIES && best > 0; i++) {
        struct memory memory = {.read = proc_read, .user = from, .reads_left = READS_MAX};
        struct stack_threads threads = {0};

        r = decode_threads(&memory, where, arena, &threads, ret_version, err);
        if (r == -ENOTSUP)
            return r;
        if (r == 0 && threads_broken(&threads) < best) {
            best = threads_broken(&threads);
            *ret = threads;
        }
    }
    return best < SIZE_MAX ? 0 : r;
}

/* ---- both together ---- */

static struct process_task *task_by_id(struct process_look *look, int64_t tid)
{
    for (size_t i = 0; i < look->tasks.count; i++)
        if (look->tasks.items[i].tid == tid)
            return &look->tasks.items[i];
    return NULL;
}

static struct process_task *task_of(struct process_look *look,
                                    struct proc_memory *from,
                                    const struct stack_thread *thread,
                                    bool oldest)
{
    struct process_task *task = task_by_id(look, thread->tid);

#ifdef PTHREAD_TID
    int32_t tid = 0;
    if (!task && thread->pthread &&
        proc_read(from, thread->pthread + PTHREAD_TID, &tid, sizeof(tid)))
        task = task_by_id(look, tid);
#endif
    return task || !oldest ? task : task_by_id(look, look->pid);
}

static void tasks_join(struct process_look *look,
                       struct proc_memory *from,
                       const struct stack_threads *threads,
                       struct arena *arena)
{
    for (size_t i = 0; i < threads->count; i++) {
        const struct stack_thread *thread = &threads->items[i];
        struct process_task *task = task_of(look, from, thread, i + 1 == threads->count);

        if (!task) { /* it is new, or nobody knows its number */
            VEC_PUSH(arena, &look->tasks, (struct process_task){.tid = thread->tid, .state = '?'});
            task = &look->tasks.items[look->tasks.count - 1];
        }
        task->python = true;
        task->cut = thread->cut;
        task->frames = thread->frames.items;
        task->frame_count = thread->frames.count;
    }
}

static int task_order(const struct process_look *look, const struct process_task *task)
{
    return task->tid == look->pid ? 0 : task->python ? 1 : 2;
}

/* Few items that are nearly in order. */
static void tasks_sort(struct process_look *look)
{
    struct process_task *items = look->tasks.items;

    for (size_t i = 1; i < look->tasks.count; i++)
        for (size_t j = i; j && task_order(look, &items[j]) < task_order(look, &items[j - 1]);
             j--) {
            struct process_task other = items[j];
            items[j] = items[j - 1];
            items[j - 1] = other;
        }
}

static struct str command_text(struct arena *arena, struct str bytes)
{
    char *out = str_c(arena, str_sub(bytes, 0, COMMAND_MAX));
    size_t len = bytes.len < COMMAND_MAX ? bytes.len : COMMAND_MAX;

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
            out[i] = ' ';
    return str_utf8(arena, str_trim((struct str){out, len}));
}

void process_look(int64_t pid,
                  const struct patience *patience,
                  struct arena *arena,
                  struct process_look *ret)
{
    struct proc_memory from = {-1, patience};
    struct stack_threads threads = {0};
    struct decode_where where;
    struct err err = {0};
    char path[64];

    *ret = (struct process_look){.pid = pid, .state = '?'};
    struct str stat = stat_rest(proc_file(arena, pid, "stat", 512));
    if (!stat.len)
        return;
    ret->state = stat.p[0];
    ret->command = command_text(arena, proc_file(arena, pid, "cmdline", SMALL_BYTES));
    tasks_look(pid, arena, ret);
    (void)snprintf(path, sizeof(path), "/proc/%lld/mem", (long long)pid);
    _cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        ret->why = errno == ENOENT || errno == ESRCH
                       ? STR("the process has ended")
                       : str_printf(arena,
                                    "its memory may not be read (%s): that takes the right to "
                                    "attach a debugger",
                                    strerrordesc_np(errno));
        return;
    }
    from.fd = fd;
    ret->python = find_python(pid, &from, &where);
    if (ret->python) {
        ret->version = where.version;
        if (read_threads(&from, &where, arena, &threads, &ret->version, &err) < 0)
            ret->why = str_dup(arena, str_from(err.text));
        else
            tasks_join(ret, &from, &threads, arena);
        tasks_sort(ret);
    }
    native_look(&from, arena, ret);
    if (patience_over(patience))
        ret->why = STR("reading it took too long: not all of it is shown");
}

/* ---- one line ---- */

static bool is_of_library(struct str file)
{
    return str_contains(file, STR("/site-packages/")) ||
           str_contains(file, STR("/dist-packages/")) || str_contains(file, STR("/lib/python3")) ||
           str_starts(file, STR("<")) ||
           str_is(proc_base(file), "sitecustomize.py"); /* ours (observe/hook.py) */
}

static void line_write(const struct stack_thread *thread, struct process_line *ret)
{
    const struct stack_frame *own = &thread->frames.items[0];

    ret->stack = 0;
    for (size_t i = 0; i < thread->frames.count; i++) {
        const struct stack_frame *frame = &thread->frames.items[i];

        ret->stack =
            str_hash(frame->file, str_hash(frame->function, ret->stack)) + (uint64_t)frame->line;
        if (is_of_library(own->file) && !is_of_library(frame->file))
            own = frame;
    }
    (void)snprintf(ret->text, sizeof(ret->text), STR_FMT ":%lld in " STR_FMT,
                   STR_ARG(proc_base(own->file)), (long long)own->line, STR_ARG(own->function));
    for (char *c = ret->text; *c;
         c++) /* it is shown on terminals, and may be cut within a letter */
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
            *c = '?';
}

bool process_line(int64_t pid, const struct patience *patience, struct process_line *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct proc_memory from = {-1, patience};
    struct stack_threads threads = {0};
    struct decode_where where;
    uint32_t version = 0;
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%lld/mem", (long long)pid);
    _cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    from.fd = fd;
    if (fd < 0 || !find_python(pid, &from, &where) ||
        read_threads(&from, &where, &arena, &threads, &version, NULL) < 0 || !threads.count)
        return false;
    const struct stack_thread *main = &threads.items[threads.count - 1];
    for (size_t i = 0; i < threads.count; i++)
        if (threads.items[i].tid == pid)
            main = &threads.items[i];
    if (!main->frames.count || main->broken)
        return false;
    line_write(main, ret);
    return true;
}
