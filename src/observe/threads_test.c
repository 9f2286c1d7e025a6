#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "observe/processes.h"
#include "observe/threads.h"
#include "test.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAR_S     3600
#define SOON_S    60
#define LOOKS_MAX 20000 /* at some 50 us each: until its threads have come to where they wait */
#define SURE      100   /* looks at which none is locked: they may still be on their way */

static void *wait_for_lock(void *user)
{
    (void)pthread_mutex_lock(user);
    return NULL;
}

static void *wait_for_timer(void *user)
{
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    struct timespec at;

    (void)user;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += FAR_S;
    (void)pthread_mutex_lock(&own);
    (void)pthread_cond_timedwait(&never, &own, &at);
    return NULL;
}

/* As the loop of asyncio does that runs in a thread. */
static void *wait_for_socket(void *user)
{
    struct epoll_event event = {.events = EPOLLIN};
    int ends[2] = {-1, -1};
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    (void)user;
    (void)socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    (void)epoll_wait(epoll, &event, 1, -1);
    return NULL;
}

static void *wait_for_sleep(void *user)
{
    (void)user;
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_sec = FAR_S}, NULL);
    return NULL;
}

/* One that another process may raise. */
static void *wait_for_process(void *user)
{
    (void)sem_wait(user);
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
}

/* As Python's signal.setitimer() has it: the handler would open the lock. */
static void *wait_for_alarm(void *user)
{
    (void)signal(SIGALRM, on_signal);
    return wait_for_lock(user);
}

static void *wait_for_user(void *user)
{
    (void)signal(SIGUSR1, on_signal);
    return wait_for_lock(user);
}

/* It pauses when it is asked to, by SIGTSTP, and goes on by this. */
static void *wait_to_continue(void *user)
{
    (void)signal(SIGCONT, on_signal);
    return wait_for_lock(user);
}

/* It reads its settings again, and goes on with them. */
static void *wait_for_settings(void *user)
{
    (void)signal(SIGHUP, on_signal);
    return wait_for_lock(user);
}

/* It is asked to end, or a child has: nobody goes on for that. */
static void *wait_for_end(void *user)
{
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGCHLD, on_signal);
    return wait_for_lock(user);
}

/* ---- of whom a thread is ---- */

#define LIBCUDA       "libcuda.so.580.1"
#define LIBCUDART     "libcudart.so.13"
#define LIBNCCL       "libnccl.so.2"
#define LIBTORCH      "libtorch_cpu.so"
#define LIBTORCHAUDIO "libtorchaudio.so"
#define PYTHON        "python3.11"
#define LIBSTDCXX     "libstdc++.so.6"
#define LIBPLANNER    "libplanner.so"
#define PROGRAM       "program"
#define THROUGH_BYTES 256 /* of machine code: a call and little else */
#define HOPS_MAX      4
#define LEFT_WORDS    8

static char libraries[] = "/tmp/muster-threads-XXXXXX"; /* their folder, while the test runs */
static bool tables;    /* the libraries have those of their frames */
static uint64_t stale; /* an address that an earlier call has left behind on the stack */

/* Not poll() or sem_timedwait(): these are the sanitizer's own where there is one, and call on from the
 * sanitizer's library. */
typedef long syscall_fn(long number, ...);

/* A call that goes through libraries, the first one first. */
struct hop {
    long (*code)(struct hop *hop);
    struct hop *next; /* NULL: then this is called */
    syscall_fn *call;
    long number;
    void *what;
    long how;
    long count;
    void *until;
    uint64_t stale;
};

/* Its bytes stand in a library of another name, so it must need nothing but its argument. */
__attribute__((noinline, optimize("O1"), no_sanitize("address", "undefined"))) static long through(
    struct hop *hop)
{
    uint64_t left[LEFT_WORDS];

    for (size_t i = 0; i < LEFT_WORDS; i++)
        left[i] = hop->stale;
    __asm__ volatile("" : : "r"(left) : "memory");
    long ret = hop->next
                   ? hop->next->code(hop->next)
                   : hop->call(hop->number, hop->what, hop->how, hop->count, hop->until, 0L, -1L);

    __asm__ volatile("" : "+r"(ret)); /* so that it is a call, not a jump */
    return ret;
}

union place {
    long (*code)(struct hop *hop);
    void *(*main)(void *hop);
    const void *memory;
    uint64_t address;
};

/* A file that is this program, mapped as the loader would do it. */
static int program_map(struct dl_phdr_info *info, size_t size, void *user)
{
    const uint64_t page = (uint64_t)getpagesize(), fd = *(uint64_t *)user;
    uint64_t end = 0;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    char *base = mmap(NULL, end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t before = part->p_vaddr % page;

        if (part->p_type == PT_LOAD)
            (void)mmap(base + part->p_vaddr - before, part->p_filesz + before,
                       PROT_READ | (part->p_flags & PF_X ? PROT_EXEC : 0), MAP_PRIVATE | MAP_FIXED,
                       (int)fd, (off_t)(part->p_offset - before));
    }
    *(uint64_t *)user = (union place){.code = through}.address - info->dlpi_addr +
                        (union place){.memory = base}.address;
    return 1; /* the first one is the program itself */
}

static bool hop_make(const char *library, struct hop *hop)
{
    const void *code = (union place){.code = through}.memory;
    union place there = {0};
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/%s%s", libraries, tables ? "tables/" : "", library);
    int fd = open(path, tables ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    if (tables) {
        there.address = (uint64_t)fd;
        (void)dl_iterate_phdr(program_map, &there.address);
    } else if (write(fd, code, THROUGH_BYTES) == THROUGH_BYTES) {
        there.memory = mmap(NULL, THROUGH_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    }
    (void)close(fd);
    hop->code = there.code;
    return there.memory && there.memory != MAP_FAILED;
}

/* Waits, called through these libraries, in a thread of that name. */
static void *wait_through(const char *const names[HOPS_MAX],
                          const char *thread,
                          const struct hop *last)
{
    struct hop hops[HOPS_MAX] = {0};
    size_t count = 0;

    for (; count < HOPS_MAX && names[count]; count++) {
        hops[count] = *last;
        hops[count].stale = stale;
        if (!hop_make(names[count], &hops[count]))
            return NULL;
        if (count)
            hops[count - 1].next = &hops[count];
    }
    (void)prctl(PR_SET_NAME, thread);
    (void)hops[0].code(&hops[0]);
    return NULL;
}

/* For a socket, for ever. */
static void *poll_through(const char *const names[HOPS_MAX], const char *thread)
{
    int ends[2] = {-1, -1};

    if (pipe(ends) < 0)
        return NULL;
    struct pollfd fds = {.fd = ends[0], .events = POLLIN};
    return wait_through(
        names, thread, &(struct hop){.call = syscall, .number = SYS_ppoll, .what = &fds, .how = 1});
}

/* For a lock, with a limit. */
static void *lock_until(const char *const names[HOPS_MAX],
                        const char *thread,
                        long how,
                        struct timespec limit)
{
    int lock = 0;

    return wait_through(
        names, thread,
        &(struct hop){
            .call = syscall, .number = SYS_futex, .what = &lock, .how = how, .until = &limit});
}

static void *lock_through(const char *const names[HOPS_MAX])
{
    return lock_until(names, "python3", FUTEX_WAIT_PRIVATE, (struct timespec){.tv_sec = FAR_S});
}

#define THROUGH(...) ((const char *const[HOPS_MAX]){__VA_ARGS__})

static void *wait_as_driver(void *user)
{
    (void)user;
    return poll_through(THROUGH(LIBCUDA), "cuda0000300000d");
}

static void *wait_for_gpu(void *user)
{
    (void)user;
    return poll_through(THROUGH(LIBCUDA), "python3");
}

static void *wait_for_ranks(void *user)
{
    (void)user;
    return poll_through(THROUGH(LIBNCCL), "NCCL Service");
}

static void *wait_in_cudart(void *user)
{
    (void)user;
    return poll_through(THROUGH(LIBCUDART), "cuda0000300000d");
}

static void *wait_in_torchaudio(void *user)
{
    (void)user;
    return poll_through(THROUGH(LIBTORCHAUDIO), "python3");
}

static void *wait_as_gloo(void *user)
{
    (void)user;
    return poll_through(THROUGH(LIBTORCH), "python3");
}

static void *wait_for_key(void *user)
{
    (void)user;
    return poll_through(THROUGH(PYTHON, LIBTORCH, LIBTORCH), "python3");
}

static void *wait_for_peers(void *user)
{
    (void)user;
    return lock_through(THROUGH(PYTHON, LIBTORCH, LIBTORCH, LIBTORCH));
}

/* With a limit that it may go on by: it is caught. */
static void *wait_for_peers_a_minute(void *user)
{
    (void)user;
    return lock_until(THROUGH(PYTHON, LIBTORCH, LIBTORCH, LIBTORCH), "python3", FUTEX_WAIT_PRIVATE,
                      (struct timespec){.tv_sec = SOON_S});
}

static struct timespec later(clockid_t clock, time_t seconds)
{
    struct timespec at;

    (void)clock_gettime(clock, &at);
    at.tv_sec += seconds;
    return at;
}

/* The same by gloo's thread, as std::condition_variable does it, of now and of some years ago. */
static void *collect_a_minute(void *user)
{
    (void)user;
    return lock_until(THROUGH(LIBTORCH), "python3", FUTEX_WAIT_BITSET_PRIVATE,
                      later(CLOCK_MONOTONIC, SOON_S));
}

static void *collect_a_minute_by_the_clock(void *user)
{
    (void)user;
    return lock_until(THROUGH(LIBTORCH), "python3",
                      FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME,
                      later(CLOCK_REALTIME, SOON_S));
}

static void *collect_an_hour(void *user)
{
    (void)user;
    return lock_until(THROUGH(LIBTORCH), "python3",
                      FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME,
                      later(CLOCK_REALTIME, FAR_S));
}

/* As those that look after others: it wakes, and waits again. */
static void *wake_every_second(void *user)
{
    (void)user;
    for (size_t i = 0; i < FAR_S; i++)
        (void)lock_until(THROUGH(LIBTORCH), "python3", FUTEX_WAIT_BITSET_PRIVATE,
                         later(CLOCK_MONOTONIC, 1));
    return NULL;
}

static void *watch_nccl(void *user)
{
    (void)user;
    return lock_until(THROUGH(LIBTORCH), "pt_nccl_heartbt", FUTEX_WAIT_BITSET_PRIVATE,
                      later(CLOCK_MONOTONIC, SOON_S));
}

/* Python's own, where an earlier call has left an address behind. */
static void *wait_for_event(void *user)
{
    (void)user;
    return lock_through(THROUGH(PYTHON, LIBTORCH));
}

/* From here on libraries may have tables, and the stack holds addresses of this one. */
static void leave_behind(const char *library, bool with_tables)
{
    struct hop hop = {0};

    tables = with_tables;
    if (hop_make(library, &hop))
        stale = (union place){.code = hop.code}.address;
}

/* In a thread that begins in the first of these libraries, as C++ does it, and not in this program. */
static void *poll_begun_by(const char *const names[HOPS_MAX])
{
    static struct hop hops[HOPS_MAX];
    static struct pollfd fds = {.events = POLLIN};
    size_t count = 0;
    pthread_t thread;
    int ends[2] = {-1, -1};

    if (pipe(ends) < 0)
        return NULL;
    fds.fd = ends[0];
    for (; count < HOPS_MAX && names[count]; count++) {
        if (!hop_make(names[count], &hops[count]))
            return NULL;
        if (count)
            hops[count - 1].next = &hops[count];
    }
    struct hop *last = &hops[count - 1];
    *last = (struct hop){.code = last->code,
                         .call = syscall,
                         .number = SYS_ppoll,
                         .what = &fds,
                         .how = 1,
                         .stale = stale};
    (void)pthread_create(&thread, NULL, (union place){.code = hops[0].code}.main, &hops[0]);
    return NULL; /* so that the process has two threads again */
}

/* Threads of the program's have ended, whose stack this one has now. */
static void *wait_as_gloo_later(void *user)
{
    (void)user;
    leave_behind(PYTHON, true);
    return poll_begun_by(THROUGH(LIBSTDCXX, LIBTORCH));
}

static void *wait_as_cpp_later(void *user)
{
    (void)user;
    leave_behind(PYTHON, false);
    return poll_begun_by(THROUGH(LIBSTDCXX, LIBTORCH));
}

/* A thread of an extension's own, which waits for a key of a store. */
static void *wait_in_planner(void *user)
{
    (void)user;
    leave_behind(LIBSTDCXX, true);
    return poll_begun_by(THROUGH(LIBSTDCXX, LIBPLANNER, LIBTORCH, LIBTORCH));
}

static void *wait_for_peers_later(void *user)
{
    leave_behind(PYTHON, true);
    return wait_for_peers(user);
}

static void *wait_for_key_later(void *user)
{
    leave_behind(LIBTORCH, true);
    return wait_for_key(user);
}

static void *wait_for_event_later(void *user)
{
    (void)user;
    leave_behind(LIBTORCH, true);
    return lock_through(THROUGH(PYTHON, LIBSTDCXX));
}

static void *wait_in_torchaudio_later(void *user)
{
    (void)user;
    leave_behind(LIBTORCH, true);
    return poll_through(THROUGH(LIBTORCHAUDIO, LIBSTDCXX), "python3");
}

static const struct row {
    const char *why;
    void *(*main)(void *user);
    void *(*thread)(void *user);
    bool locked;
    bool meets;
} rows[] = {
    {"a lock that nobody opens", wait_for_lock, wait_for_lock, true, false},
    {"a thread that waits for a socket may bring what the lock waits for", wait_for_lock,
     wait_for_socket, false, false},
    {"so may one that waits for a timer", wait_for_lock, wait_for_timer, false, false},
    {"and one that sleeps", wait_for_lock, wait_for_sleep, false, false},
    {"and one that another process may wake", wait_for_lock, wait_for_process, false, false},
    {"Event().wait(3600) ends by itself", wait_for_timer, wait_for_lock, false, false},
    {"so does a poll in the main thread", wait_for_socket, wait_for_lock, false, false},
    {"and a lock that processes share", wait_for_process, wait_for_lock, false, false},
    {"a timer's signal may come", wait_for_alarm, wait_for_lock, false, false},
    {"so may one that somebody sends", wait_for_user, wait_for_lock, false, false},
    {"or that it shall go on by", wait_to_continue, wait_for_lock, false, false},
    {"or read its settings again", wait_for_settings, wait_for_lock, false, false},
    {"but not for a request to end", wait_for_end, wait_for_lock, true, false},
    {"the thread that CUDA has in every process opens no lock", wait_for_lock, wait_as_driver, true,
     false},
    {"one of the program's may, when the GPU is ready", wait_for_lock, wait_for_gpu, false, false},
    {"those of NCCL wait for other ranks", wait_for_lock, wait_for_ranks, true, false},
    {"a name alone tells nothing", wait_for_lock, wait_in_cudart, false, false},
    {"gloo's threads wait for other ranks", wait_for_lock, wait_as_gloo, true, false},
    {"libtorchaudio is not PyTorch, and may read from anywhere", wait_for_lock, wait_in_torchaudio,
     false, false},
    {"a key of a store may be written by anybody", wait_for_lock, wait_for_key, false, false},
    {"a collective is for the gang", wait_for_peers, wait_for_lock, true, true},
    {"but one with a limit of a minute ends by itself", wait_for_peers_a_minute, wait_for_lock,
     false, true},
    {"so it does where a thread of gloo's waits for it", wait_for_lock, collect_a_minute, false,
     true},
    {"by whatever clock", wait_for_lock, collect_a_minute_by_the_clock, false, true},
    {"an hour is as good as for ever", wait_for_lock, collect_an_hour, true, true},
    {"who wakes every second does it for nothing", wait_for_lock, wake_every_second, true, true},
    {"nor does a watchdog of NCCL's open locks", wait_for_lock, watch_nccl, true, true},
    {"a wait of Python's is not, whatever was called before", wait_for_event, wait_for_lock, false,
     false},
/* Frames of a sanitized function, or of one that is not optimized, do not lead to where it begins. */
#if !defined(__SANITIZE_ADDRESS__) && defined(__OPTIMIZE__)
    {"gloo's thread is not Python's for what lay on its stack before", wait_for_lock,
     wait_as_gloo_later, true, false},
    {"nor where frames cannot be told", wait_for_lock, wait_as_cpp_later, true, false},
    {"nor is a collective less of one", wait_for_peers_later, wait_for_lock, true, true},
    {"a store is asked whatever lay there", wait_for_lock, wait_for_key_later, false, false},
    {"nor is another library PyTorch for it", wait_for_lock, wait_in_torchaudio_later, false,
     false},
    {"a thread that an extension began is the program's", wait_for_lock, wait_in_planner, false,
     false},
    {"and so Python's own wait is no collective", wait_for_event_later, wait_for_lock, false,
     false},
#endif
};

static pid_t child_start(const struct row *row, int *ret_ready)
{
    int ready[2];

    EXPECT(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        sem_t *shared =
            mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_t thread;

        (void)sem_init(shared, 1, 0);
        (void)pthread_mutex_lock(&lock);
        (void)pthread_create(&thread, NULL, row->thread,
                             row->thread == wait_for_process ? (void *)shared : (void *)&lock);
        (void)close(ready[1]);
        (void)row->main(row->main == wait_for_process ? (void *)shared : (void *)&lock);
        _exit(0);
    }
    (void)close(ready[1]);
    *ret_ready = ready[0];
    return pid;
}

/* Both of its threads sleep. */
static bool all_sleep(pid_t pid)
{
    char path[64];
    size_t asleep = 0;

    (void)snprintf(path, sizeof(path), "/proc/%lld/task", (long long)pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        _cleanup_(buf_done) struct buf text = {0};

        (void)snprintf(path, sizeof(path), "task/%.20s/status", entry->d_name);
        asleep += entry->d_name[0] != '.' && process_read(pid, path, &text, PROCESS_FILE_BYTES) &&
                  str_contains(buf_str(&text), STR("State:\tS"));
    }
    if (folder)
        closedir(folder);
    return asleep == 2;
}

static const char *library_path(const char *folder, const char *name)
{
    static char path[96];

    (void)snprintf(path, sizeof(path), "%s/%s%s", libraries, folder, name);
    return path;
}

/* Copies of this program, which has tables. */
static void libraries_make(const char *const *names, size_t count)
{
    char program[96];
    struct stat info = {0};

    EXPECT(mkdir(library_path("tables", ""), 0700) == 0);
    (void)snprintf(program, sizeof(program), "%s", library_path("", PROGRAM));
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(program, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(fstat(from, &info) == 0);
    while (lseek(from, 0, SEEK_CUR) < info.st_size)
        EXPECT(sendfile(to, from, NULL, (size_t)info.st_size) > 0);
    (void)close(from);
    (void)close(to);
    for (size_t i = 0; i < count; i++)
        EXPECT(link(program, library_path("tables/", names[i])) == 0);
}

static void libraries_remove(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)unlink(library_path("", names[i])); /* not all are there */
        EXPECT(unlink(library_path("tables/", names[i])) == 0);
    }
    EXPECT(unlink(library_path("", PROGRAM)) == 0);
    EXPECT(rmdir(library_path("tables", "")) == 0);
}

TEST(threads_are_locked_when_nothing_outside_of_the_process_can_wake_them)
{
    static const char *const names[] = {LIBCUDA,       LIBCUDART, LIBNCCL,   LIBTORCH,
                                        LIBTORCHAUDIO, PYTHON,    LIBSTDCXX, LIBPLANNER};

    EXPECT(mkdtemp(libraries));
    libraries_make(names, COUNT_OF(names));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct threads_wait wait = {0};
        int ready = -1, same = 0;
        pid_t pid = child_start(&rows[i], &ready);
        char byte;

        test_case(rows[i].why);
        EXPECT(read(ready, &byte, 1) == 0); /* the thread was made */
        for (int look = 0; look < LOOKS_MAX && same < SURE; look++) {
            size_t opens = 1000;

            if (!all_sleep(pid))
                continue;
            wait = threads_look(pid, &opens);
            wait.locked = wait.locked && !wait.limited;
            same = wait.locked != rows[i].locked ? 0 : wait.locked ? SURE : same + 1;
        }
        EXPECT(same == SURE && wait.locked == rows[i].locked && wait.meets == rows[i].meets);
        (void)close(ready);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    libraries_remove(names, COUNT_OF(names));
    EXPECT(rmdir(libraries) == 0);
}

TEST(threads_are_looked_at_no_more_than_allowed)
{
    size_t opens = 0;

    EXPECT(!threads_look(getpid(), &opens).locked && opens == 0);
    opens = 2;
    EXPECT(!threads_look(getpid(), &opens).locked); /* this one runs */
    EXPECT(opens < 2);
}

TEST(threads_of_a_process_whose_data_is_under_way_are_not_locked)
{
    static const struct {
        const char *why;
        const char *line;
        bool sends;
    } lines[] = {
        {"what it says of itself",
         "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
         "timeout "
         "inode",
         false},
        {"nothing under way",
         "   1: 0100007F:A3CC 0100007F:9C9B 01 00000000:00000000 00:00000000 00000000     0        "
         "0 "
         "91234 1 0 20 4 30 10 -1",
         false},
        {"sent, and sent again for seconds",
         "   1: 0100007F:A3CC 0100007F:9C9B 01 00000A00:00000000 01:00000123 00000005     0        "
         "0 "
         "91234 2 0 20 4 30 10 -1",
         true},
        {"sent a moment ago: a network may be slow, with gigabytes to come",
         "   1: 0100007F:A3CC 0100007F:9C9B 01 00000A00:00000000 01:00000014 00000000     0        "
         "0 "
         "91234 2 0 20 4 30 10 -1",
         true},
        {"its own link is down, so nothing is sent at all",
         "   0: 0100090A:B87C 0200090A:1388 01 00000006:00000000 04:0000018A 00000000     0        "
         "5 "
         "91234 2 0 20 0 0 11 -1",
         true},
        {"the other end takes nothing, and says so whenever it is asked",
         "   1: 0100090A:A8E8 0200090A:1388 01 00008358:00000000 04:00000048 00000000     0        "
         "0 "
         "91234 2 0 20 0 0 10 -1",
         false},
        {"nobody is there yet",
         "   1: 0100007F:A3CC 0100007F:9C9B 02 00000001:00000000 01:00000123 00000004     0        "
         "0 "
         "91234 2 0 20 4 30 10 -1",
         false},
        {"cut", "   1: 0100007F:A3CC 0100007F:9C9B 01 00000A00:00000000 01:00000123 00000005",
         false},
        {"", "", false},
    };
    struct str inode = STR_NONE;

    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        test_case(lines[i].why);
        EXPECT(threads_sends(str_from(lines[i].line), &inode) == lines[i].sends);
        EXPECT(!lines[i].sends || str_is(inode, "91234"));
    }
}
