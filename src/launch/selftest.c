#include "launch/selftest.h"

#include "api/launch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "launch/python.h"
#include "launch/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SQUARE       ((size_t)SELFTEST_SIDE * SELFTEST_SIDE)
#define ROUND_WORDS  512 /* that processes pass on at a time: a socket holds them unread */
#define ROUNDS       64
#define OUTPUT_BYTES 1024
#define EXIT_CANNOT  3 /* of selftest.py: it could not find out */
#define EXIT_STARTED 127

extern const char selftest_py[];

/* ---- memory ---- */

static uint64_t word_of(uint64_t seed, size_t at)
{
    uint64_t x = (seed ^ (uint64_t)at) * 0x9e3779b97f4a7c15u;

    return x ^ (x >> 29);
}

void selftest_fill(uint64_t *words, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        words[i] = word_of(seed, i);
}

size_t selftest_differs(const uint64_t *words, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] != word_of(seed, i))
            return i;
    return count;
}

/* Two passes: every bit is once set and once not. */
static bool test_memory(size_t bytes, struct buf *words, struct buf *notes)
{
    size_t count = bytes / sizeof(uint64_t);
    uint64_t *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (room == MAP_FAILED) {
        buf_addf(notes, "; memory was not tested: %s", strerrordesc_np(errno));
        return true;
    }
    size_t at = count;
    for (uint64_t pass = 0; pass < 2 && at == count; pass++) {
        selftest_fill(room, count, pass ? ~UINT64_C(0x5eed) : UINT64_C(0x5eed));
        at = selftest_differs(room, count, pass ? ~UINT64_C(0x5eed) : UINT64_C(0x5eed));
    }
    (void)munmap(room, bytes);
    if (at != count)
        buf_addf(words, "; memory did not keep what was written to it, at byte %zu of %zu",
                 at * sizeof(uint64_t), bytes);
    return at == count;
}

/* ---- every CPU ---- */

void selftest_multiply(const double *a, const double *b, double *c)
{
    for (size_t i = 0; i < SELFTEST_SIDE; i++)
        for (size_t j = 0; j < SELFTEST_SIDE; j++)
            c[i * SELFTEST_SIDE + j] = 0;
    for (size_t i = 0; i < SELFTEST_SIDE; i++)
        for (size_t k = 0; k < SELFTEST_SIDE; k++)
            for (size_t j = 0; j < SELFTEST_SIDE; j++)
                c[i * SELFTEST_SIDE + j] += a[i * SELFTEST_SIDE + k] * b[k * SELFTEST_SIDE + j];
}

static void apply(const double *matrix, const double *vector, double *ret)
{
    for (size_t i = 0; i < SELFTEST_SIDE; i++) {
        ret[i] = 0;
        for (size_t j = 0; j < SELFTEST_SIDE; j++)
            ret[i] += matrix[i * SELFTEST_SIDE + j] * vector[j];
    }
}

bool selftest_is_product(const double *a, const double *b, const double *c)
{
    double x[SELFTEST_SIDE], bx[SELFTEST_SIDE], abx[SELFTEST_SIDE], cx[SELFTEST_SIDE];

    for (size_t i = 0; i < SELFTEST_SIDE; i++)
        x[i] = (double)(word_of(7, i) % 1000) + 1;
    apply(b, x, bx);
    apply(a, bx, abx);
    apply(c, x, cx);
    return memcmp(abx, cx, sizeof(cx)) == 0;
}

/* Entries below 1000: all sums stay below 2^53, where doubles are exact. */
static bool test_products(struct buf *words)
{
    cpu_set_t all, one;
    double *room = calloc(3 * SQUARE, sizeof(double));
    size_t wrong = CPU_SETSIZE;

    if (!room || sched_getaffinity(0, sizeof(all), &all) < 0)
        CPU_ZERO(&all);
    for (size_t i = 0; room && i < 2 * SQUARE; i++)
        room[i] = (double)(word_of(3, i) % 1000);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && wrong == CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof(one), &one) < 0)
            continue;
        selftest_multiply(room, room + SQUARE, room + 2 * SQUARE);
        if (!selftest_is_product(room, room + SQUARE, room + 2 * SQUARE))
            wrong = cpu;
    }
    if (room && CPU_COUNT(&all))
        (void)sched_setaffinity(0, sizeof(all), &all);
    free(room);
    if (wrong != CPU_SETSIZE)
        buf_addf(words, "; CPU %zu computed a wrong product of matrices", wrong);
    return wrong == CPU_SETSIZE;
}

/* ---- an all-reduce of processes ---- */

static bool pass_on(int to, int from, uint64_t *vector)
{
    size_t bytes = ROUND_WORDS * sizeof(uint64_t);

    if (write(to, vector, bytes) != (ssize_t)bytes)
        return false;
    for (size_t got = 0; got < bytes;) {
        ssize_t n = read(from, (char *)vector + got, bytes - got);

        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

/* What the others have comes by in turn; each adds it up and compares. */
static void reduce(int rank, int to, int from) __attribute__((noreturn));
static void reduce(int rank, int to, int from)
{
    uint64_t own[ROUND_WORDS];
    uint64_t sum[ROUND_WORDS];
    uint64_t want[ROUND_WORDS] = {0};

    for (uint64_t round = 0; round < ROUNDS; round++) {
        memset(want, 0, sizeof(want));
        for (uint64_t r = 0; r < SELFTEST_PROCESSES; r++)
            for (size_t i = 0; i < ROUND_WORDS; i++)
                want[i] += word_of(round * SELFTEST_PROCESSES + r, i);
        selftest_fill(own, ROUND_WORDS, round * SELFTEST_PROCESSES + (uint64_t)rank);
        memcpy(sum, own, sizeof(sum));
        for (int step = 1; step < SELFTEST_PROCESSES; step++) {
            if (!pass_on(to, from, own))
                _exit(2);
            for (size_t i = 0; i < ROUND_WORDS; i++)
                sum[i] += own[i];
        }
        if (memcmp(sum, want, sizeof(sum)) != 0)
            _exit(1);
    }
    _exit(0);
}

static bool test_reduce(struct buf *words)
{
    int pairs[SELFTEST_PROCESSES][2];
    pid_t pids[SELFTEST_PROCESSES] = {0};
    bool wrong = false;
    int open = 0;

    while (open < SELFTEST_PROCESSES &&
           socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[open]) == 0)
        open++;
    for (int i = 0; open == SELFTEST_PROCESSES && i < SELFTEST_PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        int to = fcntl(pairs[i][0], F_DUPFD_CLOEXEC, 0);
        int from = fcntl(pairs[(i + 1) % SELFTEST_PROCESSES][1], F_DUPFD_CLOEXEC, 0);
        for (int j = 0; j < SELFTEST_PROCESSES; j++) {
            close(pairs[j][0]);
            close(pairs[j][1]);
        }
        reduce(i, to, from);
    }
    for (int i = 0; i < open; i++) {
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
    for (int i = 0; i < SELFTEST_PROCESSES; i++) {
        int status = 0;

        if (pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i])
            wrong = wrong || (WIFEXITED(status) && WEXITSTATUS(status) == 1);
    }
    if (wrong)
        buf_addf(words, "; processes that added up their numbers had different sums");
    return !wrong;
}

/* ---- programs: torch, and the administrator's ---- */

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One that has nothing more to say may still run, and is given no more time than the others. */
static int end_of(pid_t pid, int64_t until_ms)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    int status = 0;
    pid_t got = 0;

    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && now_ms() < until_ms)
        (void)nanosleep(&moment, NULL);
    (void)kill(-pid, SIGKILL); /* and what it leaves behind */
    if (got == 0) {
        (void)waitpid(pid, &status, 0);
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The last line of what it prints is in `ret`; its exit status, or -1: it was killed at the limit. */
static int run_program(char *const *argv, int64_t until_ms, char ret[static OUTPUT_BYTES])
{
    int ends[2];
    size_t used = 0;

    ret[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) < 0)
        return EXIT_STARTED;
    pid_t pid = fork();
    if (pid == 0) {
        (void)setpgid(0, 0);
        (void)dup2(ends[1], STDOUT_FILENO);
        execvp(argv[0], argv);
        _exit(EXIT_STARTED);
    }
    close(ends[1]);
    if (pid > 0)
        (void)setpgid(pid, pid);
    while (pid > 0 && now_ms() < until_ms) {
        struct pollfd wait = {.fd = ends[0], .events = POLLIN};
        char piece[OUTPUT_BYTES];
        ssize_t got = 0;

        if (poll(&wait, 1, 100) == 0)
            continue;
        got = read(ends[0], piece, sizeof(piece));
        if (got <= 0)
            break;
        (void)!write(STDERR_FILENO, piece, (size_t)got);
        for (ssize_t i = 0; i < got; i++) {
            if (used && ret[used - 1] == '\n')
                used = 0;
            if (used + 1 < OUTPUT_BYTES)
                ret[used++] = piece[i];
        }
    }
    close(ends[0]);
    ret[used] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    return pid > 0 ? end_of(pid, until_ms) : EXIT_STARTED;
}

static bool write_program(char path[static 64])
{
    const char *temporary = getenv("TMPDIR");
    size_t len = strlen(selftest_py);

    (void)snprintf(path, 64, "%.40s/muster-test-XXXXXX", temporary ? temporary : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return false;
    bool whole = write(fd, selftest_py, len) == (ssize_t)len;
    close(fd);
    if (!whole)
        (void)unlink(path);
    return whole;
}

/* The cards. Without a driver the GPUs are pretended ones. */
static bool test_gpus(const struct selftest *test,
                      int64_t until_ms,
                      struct buf *words,
                      struct buf *notes)
{
    const char *text = getenv(LAUNCH_ENV_TEST_GPUS);
    struct python python;
    char path[64];
    char limit[24];
    char number[24];
    char said[OUTPUT_BYTES];
    int64_t gpus = 0;

    if (!text || !str_to_i64(str_from(text), &gpus) || gpus <= 0)
        return true;
    if (access("/dev/nvidiactl", F_OK) < 0) {
        buf_addf(notes, "; GPUs were not tested: there is no driver here");
        return true;
    }
    if (python_find(&python, NULL) < 0 || !write_program(path)) {
        buf_addf(notes, "; GPUs were not tested: no Python here can import torch");
        return true;
    }
    (void)snprintf(limit, sizeof(limit), "%lld", (long long)test->gpu_mib);
    (void)snprintf(number, sizeof(number), "%lld", (long long)gpus);
    char *argv[] = {python.path, path, number, limit, NULL};
    int status = run_program(argv, until_ms, said);
    (void)unlink(path);
    if (status == 0 || status == EXIT_CANNOT) {
        buf_addf(notes, "; %s", said[0] ? said : "GPUs were tested");
        return true;
    }
    buf_addf(words, "; %s", status < 0 ? "GPUs did not answer in time" : said);
    return false;
}

static bool test_command(int64_t until_ms, struct buf *words)
{
    char *command = getenv(LAUNCH_ENV_TEST_COMMAND);
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char said[OUTPUT_BYTES];

    if (!command || !*command)
        return true;
    char *argv[] = {shell, option, command, NULL};
    int status = run_program(argv, until_ms, said);
    if (status == 0)
        return true;
    if (status < 0)
        buf_addf(words, "; the administrator's test did not end in time");
    else
        buf_addf(words, "; the administrator's test ended with exit status %d%s%.300s", status,
                 said[0] ? ": " : "", said);
    return false;
}

/* ---- all of it ---- */

bool selftest_run(const struct selftest *test, struct buf *words)
{
    _cleanup_(buf_done) struct buf found = {0};
    _cleanup_(buf_done) struct buf notes = {0};
    int64_t until_ms = now_ms() + test->limit_s * 1000;
    bool well = test_products(&found);

    well = test_memory(test->memory_bytes, &found, &notes) && well;
    well = test_reduce(&found) && well;
    well = well && test_gpus(test, until_ms, &found, &notes);
    well = well && test_command(until_ms, &found);
    if (well)
        buf_addf(words, "memory, products of matrices and sums are right" STR_FMT,
                 STR_ARG(buf_str(&notes)));
    else
        buf_add(words, str_sub(buf_str(&found), strlen("; "), found.len));
    return well;
}

int selftest_main(void)
{
    const struct selftest test = {.memory_bytes = SELFTEST_MEMORY_BYTES,
                                  .limit_s = SELFTEST_LIMIT_S};
    _cleanup_(buf_done) struct buf words = {0};
    bool well = selftest_run(&test, &words);
    const char *path = getenv(LAUNCH_ENV_TERMINATION_LOG);
    int fd = open(path ? path : LAUNCH_TERMINATION_LOG, O_WRONLY | O_TRUNC | O_CLOEXEC);

    fprintf(stderr, "muster-launch selftest: %s: " STR_FMT "\n", well ? "passed" : "failed",
            STR_ARG(buf_str(&words)));
    if (fd >= 0) {
        (void)!write(fd, words.p, words.len);
        close(fd);
    }
    return well ? 0 : LAUNCH_TEST_FAILED;
}
