#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "observe/processes.h"
#include "observe/threads.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAR_S     3600
#define LOOKS_MAX 20000 /* at some 50 us each: until its threads have come to where they wait */

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
#define THROUGH_BYTES 64 /* of machine code: a call and little else */

static char libraries[] = "/tmp/muster-threads-XXXXXX"; /* their folder, while the test runs */

/* Not poll(): that is the sanitizer's own where there is one, and calls on from the sanitizer's library. */
typedef long syscall_fn(long number, ...);

/* Its bytes stand in a library of another name, so it must need nothing but its arguments. */
__attribute__((noinline, optimize("O1"), no_sanitize("address", "undefined"))) static long through(
    syscall_fn *call,
    struct pollfd *fds)
{
    long ret = call(SYS_ppoll, fds, 1L, NULL, NULL, 0L);

    __asm__ volatile("" : "+r"(ret)); /* so that it is a call, not a jump */
    return ret;
}

/* Polls for ever, called by a library of this name, in a thread of that name. */
static void *wait_in(const char *library, const char *thread)
{
    char path[96];
    int ends[2] = {-1, -1};
    union {
        void *memory;
        long (*call)(syscall_fn *call, struct pollfd *fds);
    } code = {0};

    if (pipe(ends) < 0)
        return NULL;
    (void)snprintf(path, sizeof(path), "%s/%s", libraries, library);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    union {
        long (*call)(syscall_fn *call, struct pollfd *fds);
        const void *memory;
    } here = {.call = through};
    if (write(fd, here.memory, THROUGH_BYTES) == THROUGH_BYTES)
        code.memory = mmap(NULL, THROUGH_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    (void)prctl(PR_SET_NAME, thread);
    if (code.memory && code.memory != MAP_FAILED)
        (void)code.call(syscall, &(struct pollfd){.fd = ends[0], .events = POLLIN});
    return NULL;
}

static void *wait_as_driver(void *user)
{
    (void)user;
    return wait_in(LIBCUDA, "cuda0000300000d");
}

static void *wait_for_gpu(void *user)
{
    (void)user;
    return wait_in(LIBCUDA, "python3");
}

static void *wait_for_ranks(void *user)
{
    (void)user;
    return wait_in(LIBNCCL, "NCCL Service");
}

static void *wait_in_cudart(void *user)
{
    (void)user;
    return wait_in(LIBCUDART, "cuda0000300000d");
}

static const struct row {
    const char *why;
    void *(*main)(void *user);
    void *(*thread)(void *user);
    bool locked;
} rows[] = {
    {"a lock that nobody opens", wait_for_lock, wait_for_lock, true},
    {"a thread that waits for a socket may bring what the lock waits for", wait_for_lock,
     wait_for_socket, false},
    {"so may one that waits for a timer", wait_for_lock, wait_for_timer, false},
    {"and one that sleeps", wait_for_lock, wait_for_sleep, false},
    {"and one that another process may wake", wait_for_lock, wait_for_process, false},
    {"Event().wait(3600) ends by itself", wait_for_timer, wait_for_lock, false},
    {"so does a poll in the main thread", wait_for_socket, wait_for_lock, false},
    {"and a lock that processes share", wait_for_process, wait_for_lock, false},
    {"a timer's signal may come", wait_for_alarm, wait_for_lock, false},
    {"so may one that somebody sends", wait_for_user, wait_for_lock, false},
    {"but not for a request to end", wait_for_end, wait_for_lock, true},
    {"the thread that CUDA has in every process opens no lock", wait_for_lock, wait_as_driver,
     true},
    {"one of the program's may, when the GPU is ready", wait_for_lock, wait_for_gpu, false},
    {"those of NCCL wait for other ranks", wait_for_lock, wait_for_ranks, true},
    {"a name alone tells nothing", wait_for_lock, wait_in_cudart, false},
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

TEST(threads_are_locked_when_nothing_outside_of_the_process_can_wake_them)
{
    static const char *const names[] = {LIBCUDA, LIBCUDART, LIBNCCL};

    EXPECT(mkdtemp(libraries));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct threads_wait wait = {0};
        int ready = -1;
        pid_t pid = child_start(&rows[i], &ready);
        char byte;

        test_case(rows[i].why);
        EXPECT(read(ready, &byte, 1) == 0); /* the thread was made */
        for (int look = 0; look < LOOKS_MAX; look++) {
            size_t opens = 1000;

            if (!all_sleep(pid))
                continue;
            wait = threads_look(pid, &opens);
            if (wait.locked == rows[i].locked)
                break;
        }
        EXPECT(wait.locked == rows[i].locked && !wait.meets);
        (void)close(ready);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[96];

        (void)snprintf(path, sizeof(path), "%s/%s", libraries, names[i]);
        (void)unlink(path);
    }
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
