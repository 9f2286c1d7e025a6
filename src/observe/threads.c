#include "observe/threads.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "observe/callers.h"
#include "observe/processes.h"
#include "stacks/unwind.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#    define CALL_FUTEX       202
#    define CALL_POLL        7
#    define CALL_PPOLL       271
#    define CALL_EPOLL       232
#    define CALL_EPOLL_PWAIT 281
#else /* all newer architectures; they have no poll and no epoll_wait */
#    define CALL_FUTEX       98
#    define CALL_POLL        CALL_PPOLL
#    define CALL_PPOLL       73
#    define CALL_EPOLL       CALL_EPOLL_PWAIT
#    define CALL_EPOLL_PWAIT 22
#endif
#define FUTEX_PRIVATE  128 /* no other process can wake it */
#define FUTEX_REALTIME 256 /* whose clock its limit is of */
#define FUTEX_RELATIVE 0   /* operation: the limit counts from now; others have a moment */

#define PYTORCH_DEEP 3 /* so many calls within PyTorch are a collective of the program's */

/* Who waits with a limit goes on when it is over, and the program may have meant that. PyTorch's own is half
 * an hour. Threads that look after others wake every second or so, for nothing. */
#define LIMIT_MEANT_S (15 * 60)
#define LIMIT_LOOP_S  2

/* Of /proc/PID/task/TID/syscall: "202 0x7f0c 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f0d". */
struct call {
    uint64_t number;
    uint64_t args[6];
    uint64_t stack;
    uint64_t returns_to;
};

static bool hex_parse(struct str word, uint64_t *ret)
{
    uint64_t value = 0;

    if (!word.len || word.len > 16)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        char c = word.p[i];
        bool digit = c >= '0' && c <= '9';

        if (!digit && (c < 'a' || c > 'f'))
            return false;
        value = value << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    *ret = value;
    return true;
}

/* False: nobody may know, or *ret_runs: it runs. */
static bool call_read(int64_t pid, const char *thread, struct call *ret, bool *ret_runs)
{
    _cleanup_(buf_done) struct buf text = {0};
    uint64_t *const words[] = {&ret->args[0], &ret->args[1], &ret->args[2], &ret->args[3],
                               &ret->args[4], &ret->args[5], &ret->stack,   &ret->returns_to};
    char name[64];
    struct str word = STR_NONE;

    (void)snprintf(name, sizeof(name), "task/%.20s/syscall", thread);
    if (!process_read(pid, name, &text, PROCESS_FILE_BYTES))
        return false;
    struct str rest = str_trim(buf_str(&text));
    *ret_runs = str_is(rest, "running");
    if (!str_cut(&rest, ' ', &word) || !str_to_u64(word, &ret->number))
        return false;
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (!str_cut(&rest, ' ', &word) || !str_starts(word, STR("0x")) ||
            !hex_parse(str_sub(word, 2, word.len), words[i]))
            return false;
    return true;
}

/* ---- who called ---- */

/* Threads of PyTorch that bring what others send: those of tensorpipe are named so. And the one that
 * CUDA has in every process with a GPU ("cuda0000300000d"), which waits for the device for ever and
 * opens no lock of the program's.
 *
 * A thread of the program's that waits for a socket through PyTorch waits for a key of a store, which
 * anybody may write. One that waits for a lock through PyTorch came there by several calls: where
 * frames do not lead far, a single address is what an earlier call left behind on the stack. */
static bool is_harmless(int64_t pid, const char *thread, const struct caller *caller, bool socket)
{
    _cleanup_(buf_done) struct buf text = {0};
    char name[64];

    if (caller->python && (socket || caller->pytorch < PYTORCH_DEEP))
        return false;
    (void)snprintf(name, sizeof(name), "task/%.20s/comm", thread);
    if (!process_read(pid, name, &text, PROCESS_FILE_BYTES))
        return false;
    if (caller->owner == OWNER_DRIVER)
        return str_starts(buf_str(&text), STR("cuda0"));
    return caller->owner == OWNER_PYTORCH && !str_starts(buf_str(&text), STR("TP_")) &&
           !str_starts(buf_str(&text), STR("pt_tensorpipe"));
}

/* ---- limits ---- */

/* NCCL's watch their own kind, for minutes. */
static bool is_watchdog(int64_t pid, const char *thread)
{
    _cleanup_(buf_done) struct buf text = {0};
    char name[64];

    (void)snprintf(name, sizeof(name), "task/%.20s/comm", thread);
    return process_read(pid, name, &text, PROCESS_FILE_BYTES) &&
           str_starts(buf_str(&text), STR("pt_nccl_"));
}

/* The limit of a lock is meant: it is over soon, or cannot be read. */
static bool is_meant(const struct callers *callers, const char *thread, const struct call *call)
{
    uint64_t flags = call->args[1];
    struct timespec limit, now = {0};

    if (pread(callers->memory, &limit, sizeof(limit), (off_t)call->args[3]) != sizeof(limit))
        return true;
    if ((flags & ~(uint64_t)(FUTEX_PRIVATE | FUTEX_REALTIME)) != FUTEX_RELATIVE)
        (void)clock_gettime(flags & FUTEX_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
    return limit.tv_sec >= now.tv_sec && limit.tv_sec - now.tv_sec <= LIMIT_MEANT_S &&
           limit.tv_sec - now.tv_sec > LIMIT_LOOP_S && !is_watchdog(callers->pid, thread);
}

/* ---- signals ---- */

#define SIGNAL(number) (UINT64_C(1) << ((number)-1))
/* Those whose handlers let nobody go on: what asks a program to end or tells it of its own faults, its
 * terminal, its children (looked at elsewhere) or the CPU time that it has used, and the two of glibc. Not
 * SIGHUP, SIGTSTP and SIGCONT: who handles these may pause, and go on by them. */
#define SIGNALS_OF_NO_USE                                                                      \
    (SIGNAL(SIGINT) | SIGNAL(SIGQUIT) | SIGNAL(SIGILL) | SIGNAL(SIGTRAP) | SIGNAL(SIGABRT) |   \
     SIGNAL(SIGBUS) | SIGNAL(SIGFPE) | SIGNAL(SIGSEGV) | SIGNAL(SIGPIPE) | SIGNAL(SIGTERM) |   \
     SIGNAL(SIGCHLD) | SIGNAL(SIGTTIN) | SIGNAL(SIGTTOU) | SIGNAL(SIGXCPU) | SIGNAL(SIGXFSZ) | \
     SIGNAL(SIGVTALRM) | SIGNAL(SIGPROF) | SIGNAL(SIGWINCH) | SIGNAL(SIGSYS) | SIGNAL(32) |    \
     SIGNAL(33))

bool threads_handle(int64_t pid, uint64_t *ret)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct str line;

    if (!process_read(pid, "status", &text, PROCESS_FILE_BYTES))
        return false;
    for (struct str rest = buf_str(&text); str_cut(&rest, '\n', &line);)
        if (str_starts(line, STR("SigCgt:\t")))
            return hex_parse(str_sub(line, sizeof("SigCgt:\t") - 1, line.len), ret);
    return false;
}

/* A handler may open the lock: of a timer's signal, or of one that somebody sends. */
static bool is_woken_by_signals(int64_t pid)
{
    uint64_t caught = 0;

    return !threads_handle(pid, &caught) || (caught & ~SIGNALS_OF_NO_USE);
}

/* ---- the network ---- */

#define NET_BYTES_MAX (1 << 20) /* of /proc/PID/net/tcp: 7,000 connections */
#define NET_OPENS     16        /* what reading one counts for */
#define UNHEARD_MIN   3         /* times that nobody answered: by then seconds have passed */

/* Of a line of /proc/PID/net/tcp: a connection whose data is on its way, which may take long where the
 * network is slow, or is sent again and again, as the other end is out of reach just now; or that has no
 * way to send any. Not one whose other end takes nothing, and says so. */
bool threads_sends(struct str line, struct str *ret_inode)
{
    enum {
        STATE = 3,
        TIMER = 5,
        PROBES = 8,
        INODE = 9,
        WORDS
    };
    struct str words[WORDS] = {STR_NONE}, word = STR_NONE;
    uint64_t probes = 0;

    for (size_t i = 0; i < WORDS && str_cut(&line, ' ', &word);)
        if (word.len)
            words[i++] = word;
    *ret_inode = words[INODE];
    if (!words[INODE].len || !str_is(words[STATE], "01") || !str_to_u64(words[PROBES], &probes))
        return false;
    return str_starts(words[TIMER], STR("01:")) ||
           (str_starts(words[TIMER], STR("04:")) && probes >= UNHEARD_MIN);
}

static bool has_socket(int64_t pid, struct str inode)
{
    char path[64], link[64], wanted[64];
    bool found = false;

    (void)snprintf(wanted, sizeof(wanted), "socket:[%.*s]", (int)inode.len, inode.p);
    (void)snprintf(path, sizeof(path), "/proc/%lld/fd", (long long)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link));

        found = bytes > 0 && str_is((struct str){link, (size_t)bytes}, wanted);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* What it has sent has not arrived: it, or who waits for it, goes on when that does. */
static bool is_under_way(int64_t pid, size_t *opens)
{
    static const char *const files[] = {"net/tcp", "net/tcp6"};

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        _cleanup_(buf_done) struct buf text = {0};
        struct str line, inode;

        *opens -= *opens < NET_OPENS ? *opens : NET_OPENS;
        if (!process_read(pid, files[i], &text, NET_BYTES_MAX))
            continue;
        for (struct str rest = buf_str(&text); str_cut(&rest, '\n', &line);)
            if (threads_sends(line, &inode) && has_socket(pid, inode))
                return true;
    }
    return false;
}

/* ---- threads ---- */

static bool thread_waits(struct callers *callers,
                         const char *thread,
                         bool main,
                         struct threads_wait *wait,
                         size_t *opens)
{
    struct call call;
    bool runs = false;

    if (!call_read(callers->pid, thread, &call, &runs)) {
        wait->unsure = wait->unsure || runs;
        return runs;
    }
    bool futex = call.number == CALL_FUTEX && (call.args[1] & FUTEX_PRIVATE);
    bool socket = call.number == CALL_POLL || call.number == CALL_PPOLL ||
                  call.number == CALL_EPOLL || call.number == CALL_EPOLL_PWAIT;
    if (futex && !call.args[3])
        return true;
    if (!futex && (main || !socket))
        return false;
    const struct unwind_start start = {.pc = call.returns_to, .sp = call.stack};
    struct caller caller = callers_find(callers, &start, opens);
    if (!is_harmless(callers->pid, thread, &caller, socket))
        return false;
    wait->limited = wait->limited || (futex && is_meant(callers, thread, &call));
    wait->meets = wait->meets || futex;
    return true;
}

struct threads_wait threads_look(int64_t pid, size_t *opens)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct threads_wait ret = {0};
    struct callers callers = {.pid = pid, .memory = -1};
    char path[64];
    size_t threads = 0;

    if (!*opens)
        return ret;
    (*opens)--;
    if (!process_read(pid, "wchan", &text, PROCESS_FILE_BYTES))
        return ret;
    struct str wait = str_trim(buf_str(&text));
    if (wait.len && !str_is(wait, "0"))
        (void)snprintf(ret.in, sizeof(ret.in), STR_FMT, STR_ARG(wait));
    (void)snprintf(path, sizeof(path), "/proc/%lld/task", (long long)pid);
    DIR *folder = opendir(path);
    ret.locked = folder != NULL;
    for (struct dirent *entry; ret.locked && (entry = readdir(folder));) {
        int64_t thread = 0;

        if (!str_to_i64(str_from(entry->d_name), &thread))
            continue;
        ret.locked = *opens && ++threads <= THREADS_MAX &&
                     thread_waits(&callers, entry->d_name, thread == pid, &ret, opens);
        *opens -= *opens > 0;
    }
    if (folder)
        closedir(folder);
    callers_done(&callers);
    ret.locked = ret.locked && !is_woken_by_signals(pid) && !is_under_way(pid, opens);
    ret.unsure = ret.unsure && ret.locked;
    ret.locked = ret.locked && !ret.unsure;
    ret.meets = ret.meets && ret.locked;
    return ret;
}
