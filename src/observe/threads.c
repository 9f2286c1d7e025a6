#include "observe/threads.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "base/vec.h"
#include "observe/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
#define FUTEX_PRIVATE 128 /* no other process can wake it */

#define STACK_WORDS    512 /* that are looked at, from the top; more may be another thread's */
#define PYTHON_DEEP    3   /* addresses of Python's code are a call of it, */
#define PYTORCH_DEEP   3   /* and so many of PyTorch's below them a call of that */
#define MAPS_BYTES_MAX (4 << 20) /* of /proc/PID/maps: PyTorch has some 2,000 lines of 150 bytes */
#define MAPS_OPENS     64        /* what reading it counts for, as it is as much work */

/* Whose code it is. */
enum owner {
    OWNER_NOBODY, /* what all call: who called it is asked */
    OWNER_PYTORCH,
    OWNER_PYTHON, /* its interpreter */
    OWNER_DRIVER, /* of the GPU */
    OWNER_OTHERS
};

struct span {
    uint64_t from;
    uint64_t to;
    enum owner owner;
};

/* The code of a process; read when it is first asked for. */
struct code {
    int64_t pid;
    bool read;
    struct spans VEC_FIELDS(struct span) spans; /* by address; heap */
};

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

/* Not all that begins with libtorch is PyTorch's: libtorchaudio and libtorchcodec read from anywhere. */
static enum owner file_owner(struct str file)
{
    static const struct {
        const char *begins;
        enum owner owner;
    } names[] = {
        {"libtorch.", OWNER_PYTORCH},
        {"libtorch_cpu", OWNER_PYTORCH},
        {"libtorch_cuda", OWNER_PYTORCH},
        {"libtorch_hip", OWNER_PYTORCH},
        {"libtorch_python", OWNER_PYTORCH},
        {"libgloo", OWNER_PYTORCH},
        {"libc10", OWNER_PYTORCH},
        {"libnccl.", OWNER_PYTORCH},
        {"python", OWNER_PYTHON},
        {"libpython", OWNER_PYTHON},
        {"libcuda.", OWNER_DRIVER},
        {"libc.", OWNER_NOBODY},
        {"libc-", OWNER_NOBODY},
        {"libm.", OWNER_NOBODY},
        {"ld-", OWNER_NOBODY},
        {"libpthread", OWNER_NOBODY},
        {"libstdc++", OWNER_NOBODY},
        {"libuv", OWNER_NOBODY},
        {"[vdso]", OWNER_NOBODY},
    };

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_starts(file, str_from(names[i].begins)))
            return names[i].owner;
    return OWNER_OTHERS;
}

/* "7f00-7f01 r-xp 00000000 08:01 1234    /usr/lib/libc.so.6": false, if that is no code. */
static bool span_parse(struct str line, struct span *ret)
{
    struct str range = STR_NONE, from = STR_NONE, rights = STR_NONE;
    size_t file = line.len;

    while (file && line.p[file - 1] != '/' && line.p[file - 1] != ' ')
        file--;
    ret->owner = file_owner(str_sub(line, file, line.len));
    return str_cut(&line, ' ', &range) && str_cut(&line, ' ', &rights) && rights.len > 2 &&
           rights.p[2] == 'x' && str_cut(&range, '-', &from) && hex_parse(from, &ret->from) &&
           hex_parse(range, &ret->to);
}

static void code_read(struct code *code, size_t *opens)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct span span = {0};
    struct str line;

    code->read = true;
    *opens -= *opens < MAPS_OPENS ? *opens : MAPS_OPENS;
    if (!process_read(code->pid, "maps", &text, MAPS_BYTES_MAX))
        return;
    for (struct str rest = buf_str(&text); str_cut(&rest, '\n', &line);)
        if (span_parse(line, &span))
            VEC_PUSH(NULL, &code->spans, span);
}

static enum owner code_owner(const struct code *code, uint64_t address)
{
    size_t low = 0, high = code->spans.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct span *span = &code->spans.items[middle];

        if (address >= span->from && address < span->to)
            return span->owner;
        if (address < span->from)
            high = middle;
        else
            low = middle + 1;
    }
    return OWNER_NOBODY; /* a number, an address of data */
}

/* Who called. */
struct caller {
    enum owner owner; /* whose code the first address on the stack is in, that is anybody's */
    size_t pytorch;   /* so many of PyTorch's, before those of Python */
    size_t python;    /* of Python: the thread is one of the program's */
};

static struct caller caller_find(struct code *code, uint64_t stack, size_t *opens)
{
    uint64_t words[STACK_WORDS];
    struct caller ret = {.owner = OWNER_NOBODY};
    char path[64];

    if (!code->read)
        code_read(code, opens);
    (void)snprintf(path, sizeof(path), "/proc/%lld/mem", (long long)code->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ret;
    ssize_t got = pread(fd, words, sizeof(words), (off_t)stack); /* it may end before that */
    close(fd);
    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof(words[0]); i++) {
        enum owner owner = code_owner(code, words[i]);

        if (ret.owner == OWNER_NOBODY)
            ret.owner = owner;
        ret.pytorch += owner == OWNER_PYTORCH;
        ret.python += owner == OWNER_PYTHON;
        if (ret.python == PYTHON_DEEP || (ret.owner != OWNER_NOBODY && ret.owner != OWNER_PYTORCH))
            break;
    }
    return ret;
}

/* Threads of PyTorch that bring what others send: those of tensorpipe are named so. And the one that
 * CUDA has in every process with a GPU ("cuda0000300000d"), which waits for the device for ever and
 * opens no lock of the program's.
 *
 * A thread of the program's that waits for a socket through PyTorch waits for a key of a store, which
 * anybody may write. One that waits for a lock through PyTorch came there by several calls: a
 * single address is what an earlier call left behind on the stack of a wait of Python's own. */
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

/* ---- signals ---- */

#define SIGNAL(number) (UINT64_C(1) << ((number)-1))
/* Those whose handlers let nobody go on: what asks a program to end or tells it of its own faults, its
 * terminal, its children (looked at elsewhere) or the CPU time that it has used, and the two of glibc. */
#define SIGNALS_OF_NO_USE                                                                        \
    (SIGNAL(SIGHUP) | SIGNAL(SIGINT) | SIGNAL(SIGQUIT) | SIGNAL(SIGILL) | SIGNAL(SIGTRAP) |      \
     SIGNAL(SIGABRT) | SIGNAL(SIGBUS) | SIGNAL(SIGFPE) | SIGNAL(SIGSEGV) | SIGNAL(SIGPIPE) |     \
     SIGNAL(SIGTERM) | SIGNAL(SIGCHLD) | SIGNAL(SIGCONT) | SIGNAL(SIGTSTP) | SIGNAL(SIGTTIN) |   \
     SIGNAL(SIGTTOU) | SIGNAL(SIGXCPU) | SIGNAL(SIGXFSZ) | SIGNAL(SIGVTALRM) | SIGNAL(SIGPROF) | \
     SIGNAL(SIGWINCH) | SIGNAL(SIGSYS) | SIGNAL(32) | SIGNAL(33))

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

/* Of a line of /proc/PID/net/tcp: a connection whose data is sent again and again, as the other end
 * is out of reach just now, or that has no way to send any; not one whose other end takes nothing, and
 * says so. */
bool threads_resends(struct str line, struct str *ret_inode)
{
    enum {
        STATE = 3,
        TIMER = 5,
        RESENT = 6,
        PROBES = 8,
        INODE = 9,
        WORDS
    };
    struct str words[WORDS] = {STR_NONE}, word = STR_NONE;
    uint64_t resent = 0, probes = 0;

    for (size_t i = 0; i < WORDS && str_cut(&line, ' ', &word);)
        if (word.len)
            words[i++] = word;
    *ret_inode = words[INODE];
    if (!words[INODE].len || !str_is(words[STATE], "01") || !hex_parse(words[RESENT], &resent) ||
        !str_to_u64(words[PROBES], &probes))
        return false;
    return str_starts(words[TIMER], STR("01:"))
               ? resent >= UNHEARD_MIN
               : str_starts(words[TIMER], STR("04:")) && probes >= UNHEARD_MIN;
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

/* What it has sent does not arrive: it, or who waits for it, goes on when the network does. */
static bool is_cut_off(int64_t pid, size_t *opens)
{
    static const char *const files[] = {"net/tcp", "net/tcp6"};

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        _cleanup_(buf_done) struct buf text = {0};
        struct str line, inode;

        *opens -= *opens < NET_OPENS ? *opens : NET_OPENS;
        if (!process_read(pid, files[i], &text, NET_BYTES_MAX))
            continue;
        for (struct str rest = buf_str(&text); str_cut(&rest, '\n', &line);)
            if (threads_resends(line, &inode) && has_socket(pid, inode))
                return true;
    }
    return false;
}

/* ---- threads ---- */

static bool thread_waits(struct code *code,
                         const char *thread,
                         bool main,
                         struct threads_wait *wait,
                         size_t *opens)
{
    struct call call;
    bool runs = false;

    if (!call_read(code->pid, thread, &call, &runs)) {
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
    struct caller caller = caller_find(code, call.stack, opens);
    if (!is_harmless(code->pid, thread, &caller, socket))
        return false;
    wait->meets = wait->meets || futex;
    return true;
}

struct threads_wait threads_look(int64_t pid, size_t *opens)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct threads_wait ret = {0};
    struct code code = {.pid = pid};
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
                     thread_waits(&code, entry->d_name, thread == pid, &ret, opens);
        *opens -= *opens > 0;
    }
    if (folder)
        closedir(folder);
    VEC_DONE(&code.spans);
    ret.locked = ret.locked && !is_woken_by_signals(pid) && !is_cut_off(pid, opens);
    ret.unsure = ret.unsure && ret.locked;
    ret.locked = ret.locked && !ret.unsure;
    ret.meets = ret.meets && ret.locked;
    return ret;
}
