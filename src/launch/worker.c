#include "launch/worker.h"

#include "api/launch.h"
#include "api/place.h"
#include "api/rank_page.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "launch/family.h"
#include "launch/fence.h"
#include "launch/full.h"
#include "launch/python.h"
#include "launch/record.h"
#include "launch/selftest.h"
#include "launch/shell.h"
#include "launch/tell.h"
#include "launch/torchrun.h"
#include "launch/warm.h"
#include "observe/ranks.h"
#include "workspace/disk.h"
#include "workspace/pull.h"
#include "workspace/results.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN_DIR          "/muster-XXXXXX"
#define EXIT_FOR_NOW     75 /* sysexits' EX_TEMPFAIL: elsewhere it may go better */
#define IDLE_MS          1000
#define LINGER_MS        3000 /* torchrun has this long to end when all of its ranks have, one badly */
#define STOP_LOOK_MS     20 /* while ranks are to end: whether they have */
#define KEEP_INTERVAL_MS 1000
#define KEEP_PIECE_BYTES ((size_t)256 << 10)
#define KEEP_LIMIT_MS    5000 /* at the end, for the rest */
/* What the pod wrote: how long its end waits for it to be sent, when it was told to end, and when the
 * sync pod does not answer. */
#define RESULTS_LIMIT_MS  ((int64_t)600000)
#define RESULTS_HURRY_MS  10000
#define RESULTS_SILENT_MS 10000

struct worker {
    const char *self;
    const char *app_dir;
    char run_dir[64];
    sigset_t old_mask;
    int signal_fd;
    bool synced; /* a workspace is asked for */
    struct pull pull;
    bool ready;  /* the workspace is here */
    pid_t child; /* setup, then torchrun; 0: not running */
    int status;  /* of the last child */
    bool ended;  /* it ended, and not because we restart */
    int signal;  /* the last one handed on */
    /* restart in place */
    uint64_t restart;
    bool stopping;
    int64_t kill_ms;
    /* what the ranks printed, on its way to the sync pod */
    uint64_t generation;
    uint64_t kept; /* bytes that it has */
    bool again;    /* this pod has run before: what that printed is there, but not how much of it */
    uint64_t kept_before;
    int64_t keep_ms;
    bool spare; /* it starts no rank: its pod waits to take the place of another */
    bool warm;  /* `python` has torch imported, and waits (launch/warm.h) */
    struct python python;
    struct tell tell;
    const char *fence_dir; /* NULL: there is none (launch/fence.h) */
    pid_t fence;           /* who looks at it; 0: nobody */
    int64_t linger_ms; /* since when torchrun has no ranks left, and one has failed; 0: not so */
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void worker_say(const char *fmt, ...) _printf_(1, 2);
static void worker_say(const char *fmt, ...)
{
    char text[600];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof(text) - 1, fmt, args);
    va_end(args);
    fprintf(stderr, "muster-launch: %.*s\n", n, text);
}

/* ---- the ranks ---- */

/* Why there are no ranks, for worker_finish(). */
static void write_reason(const struct worker *worker, const char *what, struct str words)
{
    char path[sizeof(worker->run_dir) + sizeof(LAUNCH_REASON_FILE) + 1];

    (void)snprintf(path, sizeof(path), "%s/" LAUNCH_REASON_FILE, worker->run_dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)dprintf(fd, "%s" STR_FMT, what, STR_ARG(words));
    close(fd);
}

/* A machine that does not compute what it should is found before the gang depends on it. */
static void preflight(const struct worker *worker)
{
    const struct selftest test = {.memory_bytes = SELFTEST_PREFLIGHT_BYTES,
                                  .limit_s = SELFTEST_PREFLIGHT_S,
                                  .gpu_mib = SELFTEST_PREFLIGHT_MIB};
    _cleanup_(buf_done) struct buf words = {0};

    /* Ranks that start again in a pod that is there need no test: it has run. */
    if (!getenv(LAUNCH_ENV_TEST_GPUS) || worker->restart || getenv(PLACE_ENV))
        return;
    worker_say("testing this machine before the ranks start");
    bool well = selftest_run(&test, &words);
    worker_say("the self-test %s: " STR_FMT, well ? "passed" : "failed", STR_ARG(buf_str(&words)));
    if (well)
        return;
    write_reason(worker, LAUNCH_PREFLIGHT, buf_str(&words));
    _exit(EXIT_FOR_NOW);
}

/* Before the first rank: those of the gang before this one have to end. */
static void raise_fence(const struct worker *worker)
{
    struct err err = {0};
    int r = worker->fence_dir ? fence_raise(worker->fence_dir, fence_own(), &err) : 0;

    if (r == -ESTALE) {
        write_reason(worker, "", str_from(err.text));
        _exit(EXIT_FOR_NOW);
    }
    if (r < 0)
        worker_say("ranks on a node that was given up are not told of this gang: %s", err.text);
}

static void child_run(const struct worker *worker) __attribute__((noreturn));
static void child_run(const struct worker *worker)
{
    const char *setup = getenv(LAUNCH_ENV_SETUP);
    _cleanup_(buf_done) struct buf script = {0};

    (void)setpgid(0, 0);
    (void)sigprocmask(SIG_SETMASK, &worker->old_mask, NULL);
    raise_fence(worker);
    preflight(worker);
    if (!setup || !*setup)
        _exit(torchrun_main(worker->self, worker->warm ? &worker->python : NULL));
    /* The same shell, so that what setup exports or activates holds for torchrun. */
    buf_addf(
        &script,
        "trap 'muster_status=$?; [ $muster_status -eq 0 ] || echo \"setupCommand ended with exit "
        "code $muster_status\" > \"$" LAUNCH_ENV_RUN_DIR "/" LAUNCH_REASON_FILE
        "\"' EXIT\n%s\nmuster_status=$?; [ $muster_status -eq 0 ] || exit $muster_status\n"
        "trap - EXIT\nexec \"$0\" torchrun\n",
        setup);
    shell_exec_with(script.p, worker->self);
}

static void start_ranks(struct worker *worker)
{
    char number[24];

    if (worker->spare)
        return;
    if (worker->restart) {
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)worker->restart);
        (void)setenv(LAUNCH_ENV_RESTART, number, 1);
        record_clear(worker->run_dir);
        tell_restart(&worker->tell);
    }
    worker->child = fork();
    if (worker->child == 0)
        child_run(worker);
    if (worker->child < 0) {
        worker_say("fork: %s", strerrordesc_np(errno));
        worker->child = 0;
        worker->status = 126 << 8;
        worker->ended = true;
        return;
    }
    (void)setpgid(worker->child, worker->child);
}

/* ---- what the sync service says ---- */

static void on_committed(void *user, struct hash revision)
{
    struct worker *worker = user;
    char hex[HASH_HEX_BYTES];

    if (!worker->ready)
        worker_say("workspace revision %.12s is in %s", hash_hex(revision, hex), worker->app_dir);
    worker->ready = true;
}

static void stop_finished(struct worker *worker)
{
    worker->stopping = false;
    family_kill(SIGKILL);
    pull_stopped(&worker->pull, worker->restart);
}

static void on_stop(void *user, uint64_t restart)
{
    struct worker *worker = user;

    if (restart <= worker->restart || worker->ended)
        return;
    worker_say("restarting the ranks in place (%llu)", (unsigned long long)restart);
    worker->restart = restart;
    worker->stopping = true;
    worker->kill_ms = now_ms() + WORKER_RESTART_GRACE_MS;
    if (worker->child > 0)
        family_kill(SIGTERM);
    else
        stop_finished(worker);
}

static void on_go(void *user, uint64_t restart)
{
    struct worker *worker = user;

    if (restart > worker->restart) {
        worker->restart = restart; /* we came after it: only the number matters */
    } else if (restart == worker->restart && worker->ready && worker->child == 0 &&
               !worker->ended) {
        worker_say("all workers have stopped; starting the ranks again");
        start_ranks(worker);
    }
}

static void on_trouble(void *user, const struct err *err)
{
    const struct worker *worker = user;

    worker_say("workspace: %s; trying again%s", err->text,
               worker->ready ? "" : " until it is there");
}

/* ---- the loop ---- */

/* A later gang trains: this pod was given up, and nobody could end it. */
static void fence_ended(struct worker *worker, int status)
{
    struct err err = {0};

    worker->fence = 0;
    if (!WIFEXITED(status) || fence_raise(worker->fence_dir, fence_own(), &err) != -ESTALE)
        return;
    worker_say("%s", err.text);
    write_reason(worker, "", str_from(err.text));
    family_kill(SIGKILL);
    worker->status = EXIT_FOR_NOW << 8;
    worker->child = 0;
    worker->ended = true;
}

static void worker_reap(struct worker *worker)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == worker->fence)
            fence_ended(worker, status);
        if (tell_reaped(&worker->tell, pid, status, now_ms()) || pid != worker->child)
            continue;
        worker->child = 0;
        worker->status = status;
        if (worker->stopping)
            stop_finished(worker);
        else
            worker->ended = true;
    }
}

static void take_signal(struct worker *worker)
{
    struct signalfd_siginfo info;
    char name[32];

    while (read(worker->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        int number = (int)info.ssi_signo;

        if (number == SIGCHLD) {
            worker_reap(worker);
            continue;
        }
        /* They ask a training to save, and torchrun would only die of them. */
        if (number == SIGUSR1 || number == SIGUSR2) {
            if (!family_hand_on(number))
                worker_say("no rank handles %s: it is not handed on",
                           record_signal_name(number, name));
            continue;
        }
        worker->signal = number;
        if (worker->child > 0)
            (void)kill(worker->child, number);
        else
            worker->ended = true;
    }
}

/* What the ranks have printed since the last time goes to the sync pod. False: there is no more, or
 * nobody takes it now. */
static bool keep_some(struct worker *worker)
{
    char path[sizeof(worker->run_dir) + sizeof(LAUNCH_KEPT_FILE) + 1];
    char text[KEEP_PIECE_BYTES];
    ssize_t got = 0;
    int fd;

    if (worker->again && pull_kept(&worker->pull, worker->generation, &worker->kept_before) < 0)
        return false;
    worker->again = false;
    (void)snprintf(path, sizeof(path), "%s/" LAUNCH_KEPT_FILE, worker->run_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = pread(fd, text, sizeof(text), (off_t)worker->kept);
        close(fd);
    }
    if (got <= 0 || pull_keep(&worker->pull, worker->generation, worker->kept_before + worker->kept,
                              (struct str){text, (size_t)got}) < 0)
        return false;
    worker->kept += (uint64_t)got;
    return true;
}

static void keep_rest(struct worker *worker)
{
    int64_t until = now_ms() + KEEP_LIMIT_MS;

    while (worker->synced && keep_some(worker) && now_ms() < until)
        ;
}

/* One piece, repeated while the sync pod does not answer. */
static int results_send(struct worker *worker, uint64_t offset, struct str piece, struct err *err)
{
    int64_t until = now_ms() + RESULTS_SILENT_MS;
    struct pollfd wait = {.fd = worker->signal_fd, .events = POLLIN};
    int r;

    while ((r = pull_keep_results(&worker->pull, worker->generation, offset, piece, err)) ==
               -EAGAIN &&
           now_ms() < until) {
        (void)poll(&wait, 1, PULL_RETRY_MIN_MS);
        take_signal(worker); /* one that stays there would end every wait at once */
    }
    return r;
}

/* On a cluster nobody can read the folder of a pod that has ended: the sync pod keeps what is new
 * in it. The ranks have ended. */
static void keep_results(struct worker *worker)
{
    const char *wanted = getenv(LAUNCH_ENV_KEEP_RESULTS);
    int64_t until = now_ms() + (worker->signal ? RESULTS_HURRY_MS : RESULTS_LIMIT_MS);
    int fd = worker->synced && wanted && *wanted
                 ? open(worker->app_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                 : -1;
    _cleanup_(buf_done) struct buf out = {0};
    struct err err = {0};
    uint64_t offset = 0;
    int r = 1;

    if (fd < 0)
        return;
    struct results *results = results_new(fd, &(struct results_request){0});
    while (r > 0 && now_ms() < until) {
        bool told = worker->signal;

        buf_clear(&out);
        r = results_turn(results, &out, &err);
        struct err lost = {0};
        int sent = out.len ? results_send(worker, offset, buf_str(&out), &lost) : 0;
        offset += out.len;
        if (sent < 0 && r >= 0) {
            err = lost;
            r = sent;
        }
        take_signal(worker);
        if (worker->signal && !told)
            until = now_ms() + RESULTS_HURRY_MS;
    }
    results_free(results);
    if (r != 0)
        worker_say("not all that was written in %s is kept: %s", worker->app_dir,
                   r < 0 ? err.text : "there was no more time");
}

static int turn_timeout(const struct worker *worker, int64_t now)
{
    int64_t until = now + IDLE_MS;

    if (worker->synced && pull_next_ms(&worker->pull) < until)
        until = pull_next_ms(&worker->pull);
    if (worker->stopping && now + STOP_LOOK_MS < until)
        until = now + STOP_LOOK_MS;
    if (worker->synced && worker->keep_ms < until)
        until = worker->keep_ms;
    if (tell_next_ms(&worker->tell) < until)
        until = tell_next_ms(&worker->tell);
    return until > now ? (int)(until - now) : 0;
}

/* Ranks of torchrun; one that is warm is below its server, and says itself which process it is. */
static bool worker_has_ranks(const struct worker *worker)
{
    char path[sizeof(worker->run_dir) + sizeof(LAUNCH_WARM_FILE) + 1];
    char text[24] = "";
    int64_t pid = 0;
    int fd;

    if (family_has_child(worker->child))
        return true;
    (void)snprintf(path, sizeof(path), "%s/" LAUNCH_WARM_FILE, worker->run_dir);
    fd = worker->warm ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    (void)!read(fd, text, sizeof(text) - 1);
    close(fd);
    return str_to_i64(str_from(text), &pid) && pid > 0 && family_has_child((pid_t)pid);
}

/* A rank has failed, and torchrun does not start it again. */
static bool worker_has_failed(const struct worker *worker)
{
    _cleanup_(buf_done) struct buf text = {0};
    const char *restarts = getenv(LAUNCH_ENV_MAX_RESTARTS);
    const char *nodes = getenv(LAUNCH_ENV_NNODES);
    struct record record;

    return (!restarts || !*restarts || strcmp(restarts, "0") == 0) &&
           !(nodes && strchr(nodes, ':')) && record_first(worker->run_dir, &record, &text);
}

/* PyTorch up to 1.13 waits five minutes for the ranks of other pods when its own have failed, and these
 * may not notice: nobody would hear of the failure so long. Nothing is lost with a torchrun that has
 * no rank left. */
static void worker_linger(struct worker *worker, int64_t now)
{
    if (worker->child <= 0 || worker->stopping || !worker_has_failed(worker) ||
        worker_has_ranks(worker)) {
        worker->linger_ms = 0;
        return;
    }
    worker->linger_ms = worker->linger_ms ? worker->linger_ms : now;
    if (now < worker->linger_ms + LINGER_MS)
        return;
    worker_say("a rank has failed and none is left here; torchrun is not waited for any longer");
    (void)kill(worker->child, SIGKILL);
    worker->linger_ms = 0;
}

static void worker_turn(struct worker *worker)
{
    struct pollfd polls[2] = {{.fd = worker->signal_fd, .events = POLLIN}, {.fd = -1}};
    int64_t now = now_ms();

    if (worker->synced && pull_fd(&worker->pull) >= 0)
        polls[1] =
            (struct pollfd){.fd = pull_fd(&worker->pull), .events = pull_events(&worker->pull)};
    (void)poll(polls, 2, turn_timeout(worker, now));
    now = now_ms();
    if (polls[0].revents)
        take_signal(worker);
    if (worker->synced && (polls[1].revents || now >= pull_next_ms(&worker->pull)))
        pull_turn(&worker->pull, now);
    if (worker->stopping && worker->child > 0 &&
        (now >= worker->kill_ms || !worker_has_ranks(worker)))
        family_kill(SIGKILL); /* torchrun alone is not waited for: it has nothing left to end */
    worker_linger(worker, now);
    if (worker->fence_dir && worker->fence <= 0 && worker->child > 0)
        worker->fence = fence_watch(worker->fence_dir, fence_own());
    tell_turn(&worker->tell, now);
    if (worker->synced && now >= worker->keep_ms) {
        (void)keep_some(worker);
        worker->keep_ms = now_ms() + KEEP_INTERVAL_MS;
    }
}

/* False: a signal ended it before the workspace came. */
static bool worker_fetch(struct worker *worker)
{
    int64_t news_ms = now_ms() + WORKER_NEWS_MS;

    while (!worker->ready && !worker->ended) {
        worker_turn(worker);
        if (news_ms && now_ms() > news_ms && !worker->ready) {
            worker_say("waiting for the workspace from %s", worker->pull.url);
            news_ms = 0;
        }
    }
    return worker->ready && !worker->ended;
}

/* A container that was made before it is needed: torch is imported meanwhile. False: a signal ended
 * it, it was never needed. */
static bool worker_stand_by(struct worker *worker)
{
    const char *file = getenv(LAUNCH_ENV_STANDBY);
    char path[PATH_MAX];
    char folder[PATH_MAX];
    char events[4096];

    if (!file)
        return true;
    (void)snprintf(path, sizeof(path), "%s", file);
    (void)snprintf(folder, sizeof(folder), "%s", file);
    (void)unsetenv(LAUNCH_ENV_STANDBY);
    worker->warm = python_find(&worker->python, NULL) == 0;
    if (worker->warm) {
        torchrun_environment(&worker->python);
        warm_start(&worker->python, &worker->old_mask);
    }
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0)
        (void)inotify_add_watch(fd, dirname(folder), IN_CREATE | IN_MOVED_TO);
    while (!worker->ended && access(path, F_OK) < 0) {
        struct pollfd polls[2] = {{.fd = worker->signal_fd, .events = POLLIN},
                                  {.fd = fd, .events = POLLIN}};

        (void)poll(polls, 2, IDLE_MS);
        take_signal(worker);
        while (fd >= 0 && read(fd, events, sizeof(events)) > 0)
            ;
    }
    if (fd >= 0)
        close(fd);
    return !worker->ended;
}

/* ---- the end ---- */

static void write_termination_log(struct str text)
{
    const char *path = getenv(LAUNCH_ENV_TERMINATION_LOG);
    int fd = open(path ? path : LAUNCH_TERMINATION_LOG, O_WRONLY | O_TRUNC | O_CLOEXEC);

    if (fd < 0 && path)
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return; /* not run in a pod */
    if (write(fd, text.p, text.len) < 0)
        worker_say("termination log: %s", strerrordesc_np(errno));
    close(fd);
}

/* Why torchrun could not be started, if that is what happened. */
static bool read_reason(const struct worker *worker, struct buf *text)
{
    char path[sizeof(worker->run_dir) + sizeof(LAUNCH_REASON_FILE) + 1];
    char reason[sizeof(((struct err *)0)->text)];
    ssize_t got;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/" LAUNCH_REASON_FILE, worker->run_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, reason, sizeof(reason));
    close(fd);
    if (got > 0)
        buf_add(text, (struct str){reason, (size_t)got});
    return got > 0;
}

static int worker_finish(struct worker *worker)
{
    _cleanup_(buf_done) struct buf text = {0};
    _cleanup_(buf_done) struct buf lines = {0};
    _cleanup_(arena_done) struct arena arena = {0};
    struct record record;
    char name[32];
    int status =
        WIFSIGNALED(worker->status) ? 128 + WTERMSIG(worker->status) : WEXITSTATUS(worker->status);

    if (status != 0 && record_first(worker->run_dir, &record, &lines)) {
        const char *pages = getenv(RANK_PAGE_ENV);
        record.no_step = pages && !observed_has_steps(pages);
        record_describe(&text, &record, full_here(&arena));
        status = record_status(&record);
    } else if (status != 0 && !read_reason(worker, &text)) {
        record_describe_none(&text, status);
    }
    if (worker->signal && (status != 0 || worker->child == 0)) {
        status = status ? 128 + worker->signal : 0;
        if (status) {
            buf_clear(&text);
            buf_addf(&text, "stopped by %s\n", record_signal_name(worker->signal, name));
        }
    }
    if (text.len)
        write_termination_log(buf_str(&text));
    family_kill(SIGKILL);
    return status;
}

static int worker_prepare(struct worker *worker, struct err *err)
{
    const char *places[] = {getenv("TMPDIR"), "/tmp"};
    const char *app_dir = getenv(LAUNCH_ENV_APP_DIR);
    sigset_t mask;

    worker->app_dir = app_dir && *app_dir ? app_dir : "/app";
    /* A TMPDIR may be meant for another machine, or be too long for the sockets in it. */
    bool made = false;
    for (size_t i = 0; !made && i < COUNT_OF(places); i++) {
        if (!places[i] || !*places[i] ||
            strlen(places[i]) + sizeof(RUN_DIR) > sizeof(worker->run_dir))
            continue;
        (void)snprintf(worker->run_dir, sizeof(worker->run_dir), "%s" RUN_DIR, places[i]);
        made = mkdtemp(worker->run_dir) != NULL;
    }
    if (!made)
        return err_set(err, -errno, "%s: %s", worker->run_dir, strerrordesc_np(errno));
    (void)setenv(LAUNCH_ENV_RUN_DIR, worker->run_dir, 1);
    (void)sigemptyset(&mask);
    for (size_t i = 0; i < launch_signal_count; i++)
        (void)sigaddset(&mask, launch_signals[i]);
    (void)sigaddset(&mask, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &mask, &worker->old_mask);
    worker->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (worker->signal_fd < 0)
        return err_set(err, -errno, "signalfd: %s", strerrordesc_np(errno));
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    return 0;
}

static int open_workspace(struct worker *worker, struct err *err)
{
    const struct pull_handler handler = {
        .committed = on_committed,
        .stop = on_stop,
        .go = on_go,
        .trouble = on_trouble,
        .user = worker,
    };
    const char *url = getenv(LAUNCH_ENV_SYNC_URL);
    const char *rank_text = getenv(LAUNCH_ENV_NODE_RANK);
    const char *generation = getenv(LAUNCH_ENV_GENERATION);
    const char *secret = getenv(LAUNCH_ENV_JOB_SECRET);
    uint64_t rank = 0;
    int r;

    if (!url || !*url)
        return 0;
    if (mkdir(worker->app_dir, 0755) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %s", worker->app_dir, strerrordesc_np(errno));
    if (rank_text)
        (void)str_to_u64(str_from(rank_text), &rank);
    if (generation)
        (void)str_to_u64(str_from(generation), &worker->generation);
    worker->again = getenv(PLACE_ENV) != NULL;
    worker->synced = true;
    r = pull_open(&worker->pull, &(struct pull_source){url, secret}, worker->app_dir, rank,
                  &handler, err);
    (void)unsetenv(LAUNCH_ENV_JOB_SECRET);
    return r;
}

int worker_main(const char *self)
{
    struct worker worker = {.self = self, .pull = {.fd = -1}};
    struct err err = {0};
    int r = worker_prepare(&worker, &err);

    if (r == 0 && !worker_stand_by(&worker)) {
        (void)disk_remove_path(worker.run_dir);
        return 128 + worker.signal;
    }
    if (r == 0)
        r = open_workspace(&worker, &err);
    if (r == 0 && worker.synced && !worker_fetch(&worker)) {
        (void)disk_remove_path(worker.run_dir);
        return 128 + worker.signal;
    }
    if (r == 0 && chdir(worker.app_dir) < 0 && worker.synced)
        r = err_set(&err, -errno, "%s: %s", worker.app_dir, strerrordesc_np(errno));
    if (r < 0) {
        worker_say("%s", err.text);
        write_termination_log(str_from(err.text));
        return 1;
    }
    const char *role = getenv(LAUNCH_ENV_ROLE);
    worker.fence_dir = getenv(LAUNCH_ENV_FENCE);
    worker.spare = role && strcmp(role, LAUNCH_ROLE_SPARE) == 0;
    if (worker.spare)
        worker_say("this pod is a spare: it waits to take the place of one that is lost");
    tell_start(&worker.tell, worker.run_dir, &worker.old_mask);
    start_ranks(&worker);
    while (!worker.ended)
        worker_turn(&worker);
    keep_rest(&worker);
    r = worker_finish(&worker);
    tell_last(&worker.tell, TELL_LAST_MS);
    keep_results(&worker);
    tell_done(&worker.tell);
    if (worker.synced)
        pull_done(&worker.pull);
    (void)disk_remove_path(worker.run_dir);
    return r;
}
