#include "api/rank_page.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/vec.h"
#include "observe/processes.h"
#include "observe/ranks.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOW_MS INT64_C(1700000000000)

struct scene {
    char folder[32];
    char file[64];
    pid_t child; /* stopped by a signal */
    uint64_t started_ns;
    struct observed ranks;
};

static uint64_t ago_ns(uint64_t seconds)
{
    struct timespec clock;

    (void)clock_gettime(CLOCK_MONOTONIC, &clock);
    return ((uint64_t)clock.tv_sec - seconds) * 1000000000;
}

/* As hook.py writes it. */
static void page_write(struct scene *scene, uint64_t silent_s)
{
    if (!scene->started_ns)
        scene->started_ns = ago_ns(silent_s + 60);
    const struct rank_page page = {.magic = RANK_PAGE_MAGIC,
                                   .pid = (uint64_t)scene->child,
                                   .rank = 3,
                                   .local_rank = 1,
                                   .started_ns = scene->started_ns,
                                   .steps = 40,
                                   .step_ns = ago_ns(silent_s),
                                   .first_ns = ago_ns(silent_s + 50)};
    int fd = open(scene->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    EXPECT(write(fd, &page, sizeof(page)) == sizeof(page));
    close(fd);
}

static bool scene_open(struct scene *scene)
{
    int status = 0;

    *scene = (struct scene){.folder = "/tmp/observed-XXXXXX"};
    EXPECT(mkdtemp(scene->folder));
    (void)snprintf(scene->file, sizeof(scene->file), "%s/3-1", scene->folder);
    scene->child = fork();
    if (scene->child == 0) {
        (void)raise(SIGSTOP);
        _exit(0);
    }
    bool stopped = scene->child > 0 && waitpid(scene->child, &status, WUNTRACED) == scene->child;
    EXPECT(stopped && WIFSTOPPED(status));
    return stopped;
}

static void scene_close(struct scene *scene)
{
    (void)kill(scene->child, SIGKILL);
    (void)waitpid(scene->child, NULL, 0);
    (void)unlink(scene->file);
    (void)rmdir(scene->folder);
    observed_done(&scene->ranks);
}

static void turn(struct scene *scene, int64_t now_ms, int64_t pid)
{
    struct observed_look look = observed_look_begin(now_ms, 1);
    bool said;

    (void)observed_look(&scene->ranks, &look, scene->folder, pid, &said);
    observed_look_end(&look);
}

TEST(a_rank_that_is_stopped_is_seen_to_be_by_whoever_started_it)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    if (!scene_open(&scene))
        return;
    page_write(&scene, 10);
    turn(&scene, NOW_MS, getpid());
    EXPECT(scene.ranks.urgent && observed_is_due(&scene.ranks, NOW_MS));
    struct str text = observed_tell(&scene.ranks, NOW_MS, NULL, 0, &arena);
    EXPECT(ranks_parse(&arena, text, reports) == 1);
    EXPECT(reports[0].rank == 3 && reports[0].act == RANK_STOPPED && reports[0].steps == 40);
    EXPECT(reports[0].gpu == 0); /* none is known */
    scene_close(&scene);
}

TEST(that_a_rank_goes_on_is_told_as_soon_as_that_it_stood)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    if (!scene_open(&scene))
        return;
    page_write(&scene, 10);
    turn(&scene, NOW_MS, getpid());
    (void)observed_tell(&scene.ranks, NOW_MS, NULL, 0, &arena);
    page_write(&scene, 0); /* another step, just now */
    turn(&scene, NOW_MS + 1000, getpid());
    EXPECT(scene.ranks.urgent && observed_is_due(&scene.ranks, NOW_MS + OBSERVED_TELL_MS));
    struct str text = observed_tell(&scene.ranks, NOW_MS + OBSERVED_TELL_MS, NULL, 0, &arena);
    EXPECT(ranks_parse(&arena, text, reports) == 1 && reports[0].act == RANK_STEPPING);
    scene_close(&scene);
}

TEST(a_process_that_is_not_below_the_container_is_no_rank_of_it)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    if (!scene_open(&scene))
        return;
    page_write(&scene, 10);
    turn(&scene, NOW_MS, scene.child + 1000000);
    EXPECT(ranks_parse(&arena, observed_tell(&scene.ranks, NOW_MS, NULL, 0, &arena), reports) == 1);
    EXPECT(reports[0].act == RANK_GONE);
    scene_close(&scene);
}

TEST(what_was_told_is_told_again_only_when_it_was_lost_or_is_old)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    if (!scene_open(&scene))
        return;
    page_write(&scene, 10);
    turn(&scene, NOW_MS, getpid());
    EXPECT(observed_tell(&scene.ranks, NOW_MS, NULL, 0, &arena).len);
    EXPECT(!observed_is_due(&scene.ranks, NOW_MS + OBSERVED_TELL_MS));
    int64_t still_ms = NOW_MS; /* that it is stopped still is told some times more */
    for (int i = 0; i < RANKS_STILL_TIMES; i++) {
        still_ms += RANKS_STILL_MS;
        EXPECT(!observed_is_due(&scene.ranks, still_ms - 1));
        turn(&scene, still_ms, getpid());
        EXPECT(observed_is_due(&scene.ranks, still_ms));
        struct str text = observed_tell(&scene.ranks, still_ms, NULL, 0, &arena);
        EXPECT(ranks_parse(&arena, text, reports) == 1 && reports[0].seen_ms == still_ms);
    }
    EXPECT(!observed_is_due(&scene.ranks, still_ms + RANKS_STILL_MS));
    EXPECT(observed_is_due(&scene.ranks, still_ms + RANKS_REFRESH_MS));
    EXPECT(!observed_tell(&scene.ranks, still_ms + RANKS_REFRESH_MS, NULL, 0, &arena).len);
    observed_lost(&scene.ranks);
    int64_t later_ms = still_ms + RANKS_REFRESH_MS + OBSERVED_TELL_MS * 4;
    EXPECT(observed_is_due(&scene.ranks, later_ms));
    EXPECT(observed_tell(&scene.ranks, later_ms, NULL, 0, &arena).len);
    scene_close(&scene);
}

TEST(what_ranks_came_to_is_told_when_they_have_ended)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    const uint32_t gpus[] = {4, 7};
    struct scene scene;

    if (!scene_open(&scene))
        return;
    page_write(&scene, 1);
    observed_last(&scene.ranks, scene.folder, NOW_MS);
    struct str text = observed_tell(&scene.ranks, NOW_MS, gpus, 2, &arena);
    EXPECT(ranks_parse(&arena, text, reports) == 1);
    EXPECT(reports[0].steps == 40 && reports[0].last_ms && reports[0].gpu == 8);
    observed_clear(&scene.ranks);
    EXPECT(str_is(observed_tell(&scene.ranks, NOW_MS, gpus, 2, &arena), "[]"));
    scene_close(&scene);
}

/* A shell that waits for its input, as if it were a rank. */
static pid_t rank_start(const char *flag, char *const *environment, int *ret_input)
{
    char words[4][16] = {"python3", "", "-c", "read line"};
    char *const argv[] = {words[0], words[1], words[2], words[3], NULL};
    int input[2];

    (void)snprintf(words[1], sizeof(words[1]), "%s", flag);
    EXPECT(pipe(input) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(input[0], 0);
        (void)close(input[1]);
        (void)execve("/bin/sh", argv, environment);
        _exit(1);
    }
    (void)close(input[0]);
    *ret_input = input[1];
    return pid;
}

/* The arguments of a process that has just been forked are still ours. */
static void wait_started(pid_t pid)
{
    bool started = false;

    while (!started) {
        _cleanup_(buf_done) struct buf text = {0};

        started = !process_read(pid, "cmdline", &text, PROCESS_FILE_BYTES) ||
                  str_contains(buf_str(&text), STR("read line"));
    }
}

TEST(why_nobody_tells_of_its_ranks_is_told_after_a_minute)
{
    static const struct {
        const char *flag;
        char environment[4][40];
        const char *says;
    } rows[] = {
        {"-u", {"A=1"}, "no process of it has a RANK"},
        {"-u", {"RANK=0", "PYTHONPATH=/x/hook"}, "without the environment of their container"},
        {"-u", {"RANK=0", "MUSTER_RANKS_DIR=/x", "PYTHONPATH=src"}, "PYTHONPATH is set anew"},
        {"-u", {"RANK=0", "MUSTER_RANKS_DIR=/x", "PYTHONPATH=/hooks"}, "PYTHONPATH is set anew"},
        {"-I", {"RANK=0", "MUSTER_RANKS_DIR=/x", "PYTHONPATH=/x/hook:src"}, "-E, -I or -S"},
        {"-u", {"RANK=0", "MUSTER_RANKS_DIR=/x", "PYTHONPATH=/x/hook"}, "torch.optim"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct scene scene = {.folder = "/tmp/observed-XXXXXX"};
        struct str why = STR_NONE;
        int input = -1;
        char *environment[5] = {NULL};
        for (int j = 0; j < 4 && rows[i].environment[j][0]; j++)
            environment[j] = str_c(&arena, str_from(rows[i].environment[j]));
        pid_t pid = rank_start(rows[i].flag, environment, &input);

        EXPECT(mkdtemp(scene.folder));
        wait_started(pid);
        for (int second = 0; second < 90; second++) {
            turn(&scene, NOW_MS + second * 1000, pid);
            EXPECT(second >= 60 || !scene.ranks.changed);
        }
        EXPECT(observed_is_due(&scene.ranks, NOW_MS + 90000));
        struct str text = observed_tell(&scene.ranks, NOW_MS + 90000, NULL, 0, &arena);
        why = ranks_unwatched(&arena, text);
        if (!str_contains(why, str_from(rows[i].says)))
            printf("%s: " STR_FMT "\n", rows[i].says, STR_ARG(text));
        EXPECT(str_contains(why, str_from(rows[i].says)));
        (void)close(input);
        (void)waitpid(pid, NULL, 0);
        (void)rmdir(scene.folder);
        observed_done(&scene.ranks);
    }
}

/* As torchrun starts a command: by a shell, which has a RANK, and no flags. */
TEST(why_nobody_tells_of_its_ranks_is_asked_of_python_and_not_of_its_shell)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct scene scene = {.folder = "/tmp/observed-XXXXXX"};
    char python[64], line[128];
    int input[2];
    bool started = false;

    EXPECT(mkdtemp(scene.folder) && pipe(input) == 0);
    (void)snprintf(python, sizeof(python), "%s/python3", scene.folder);
    (void)snprintf(line, sizeof(line), "%s -I -c 'read line'; :", python);
    EXPECT(symlink("/bin/sh", python) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        char words[2][8] = {"sh", "-c"};
        char environment[3][40] = {"RANK=0", "MUSTER_RANKS_DIR=/x", "PYTHONPATH=/x/hook"};
        char *const argv[] = {words[0], words[1], line, NULL};
        char *const with[] = {environment[0], environment[1], environment[2], NULL};

        (void)dup2(input[0], 0);
        (void)close(input[1]);
        (void)execve("/bin/sh", argv, with);
        _exit(1);
    }
    (void)close(input[0]);
    while (!started) {
        struct processes all = {0};

        processes_read(&all);
        for (size_t i = 0; i < all.count; i++) {
            _cleanup_(buf_done) struct buf text = {0};

            started =
                started || (all.items[i].parent == pid &&
                            process_read(all.items[i].pid, "cmdline", &text, PROCESS_FILE_BYTES) &&
                            str_starts(buf_str(&text), str_from(python)));
        }
        VEC_DONE(&all);
    }
    for (int second = 0; second < 90; second++)
        turn(&scene, NOW_MS + second * 1000, pid);
    struct str text = observed_tell(&scene.ranks, NOW_MS + 90000, NULL, 0, &arena);
    EXPECT(str_contains(ranks_unwatched(&arena, text), STR("-E, -I or -S")));
    (void)close(input[1]);
    (void)waitpid(pid, NULL, 0);
    (void)unlink(python);
    (void)rmdir(scene.folder);
    observed_done(&scene.ranks);
}
