#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cmd/ending.h"
#include "test.h"
#include "tool/timer.h"
#include "tool/turn.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define TEXT_BYTES  1024
#define ENDS_MS_MAX 60000 /* it is ended by the test then, which has failed */

/* A program as `muster up` is one: a signal stops its loop. Something keeps it from that. */
struct held {
    uv_loop_t loop;
    uv_signal_t sigterm;
    uv_work_t work;
    struct timer *timer;
    struct turns *turns;
    int ready; /* a descriptor: it is held now */
};

static void tell_held(const struct held *held)
{
    EXPECT(write(held->ready, "x", 1) == 1);
}

static void on_stop(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

static void hold_loop(void *user)
{
    struct held *held = user;

    turn_enter(&held->loop, &(struct turn_piece){STR("eve"), STR("POST"), STR("/api/v1/pods")});
    tell_held(held);
    for (;;)
        ;
}

static void hold_worker(uv_work_t *work)
{
    tell_held(work->data);
    for (;;)
        (void)pause();
}

static void on_worked(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

static void run_held(bool loop, int ready, int words)
{
    struct held held = {.ready = ready};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(words, STDERR_FILENO);
    (void)uv_loop_init(&held.loop);
    held.turns = turns_start(&held.loop, NULL);
    (void)uv_signal_init(&held.loop, &held.sigterm);
    (void)uv_signal_start(&held.sigterm, on_stop, SIGTERM);
    ending_watch(&held.loop, SIGTERM, 1);
    held.timer = timer_new(&held.loop, &held);
    held.work.data = &held;
    if (loop)
        timer_in(held.timer, 0, hold_loop);
    else
        (void)uv_queue_work(&held.loop, &held.work, hold_worker, on_worked);
    (void)uv_run(&held.loop, UV_RUN_DEFAULT);
    exit(EXIT_SUCCESS); /* libuv waits for its threads then */
}

/* What it says in the end; the status of waitpid(). */
static struct str end_held(struct arena *arena, bool loop, int *ret_status)
{
    int ready[2], words[2];
    char byte;
    char *text = arena_raw(arena, TEXT_BYTES, 1);
    size_t len = 0;

    EXPECT(pipe(ready) == 0 && pipe(words) == 0);
    pid_t pid = fork();
    if (pid == 0)
        run_held(loop, ready[1], words[1]);
    (void)close(words[1]);
    EXPECT(read(ready[0], &byte, 1) == 1);
    EXPECT(kill(pid, SIGTERM) == 0);
    ssize_t n;
    do {
        if (poll(&(struct pollfd){.fd = words[0], .events = POLLIN}, 1, ENDS_MS_MAX) <= 0)
            (void)kill(pid, SIGKILL);
        n = read(words[0], text + len, TEXT_BYTES - len);
        len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    EXPECT(waitpid(pid, ret_status, 0) == pid);
    (void)close(ready[0]);
    (void)close(ready[1]);
    (void)close(words[0]);
    return (struct str){text, len};
}

TEST(a_signal_ends_a_program_whose_loop_or_worker_is_held)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int status = 0;

    struct str said = end_held(&arena, true, &status);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
    EXPECT(str_contains(said, STR("Its loop was held by eve: POST /api/v1/pods")));
    said = end_held(&arena, false, &status);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
    EXPECT(str_contains(said, STR("A thread of it was waited for")));
}
