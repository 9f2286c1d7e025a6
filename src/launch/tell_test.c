#include "api/launch.h"
#include "api/rank_page.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "launch/tell.h"
#include "observe/ranks.h"
#include "test.h"
#include "workspace/disk.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define URL "https://operator.test/api/v1/namespaces/n/pods/p/ranks"

struct scene {
    char folder[40];
    struct tell tell;
};

static void put(const struct scene *scene, const char *name, const char *text, mode_t mode)
{
    char path[128];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", scene->folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static struct str taken(const struct scene *scene, const char *name, struct arena *arena)
{
    char path[128];
    char text[16384];

    (void)snprintf(path, sizeof(path), "%s/%s", scene->folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    return str_dup(arena, (struct str){text, got > 0 ? (size_t)got : 0});
}

static void scene_open(struct scene *scene)
{
    sigset_t mask;

    *scene = (struct scene){.folder = "/tmp/tell-XXXXXX"};
    EXPECT(mkdtemp(scene->folder));
    (void)sigemptyset(&mask);
    tell_start(&scene->tell, scene->folder, &mask);
}

static void scene_close(struct scene *scene)
{
    tell_done(&scene->tell);
    (void)disk_remove_path(scene->folder);
    (void)unsetenv(RANK_PAGE_ENV);
    (void)unsetenv("PYTHONPATH");
}

/* Of this very process, which makes steps. */
static void page_put(const struct scene *scene, uint64_t steps)
{
    struct timespec clock;
    char path[128];

    (void)clock_gettime(CLOCK_MONOTONIC, &clock);
    uint64_t now_ns = (uint64_t)clock.tv_sec * 1000000000 + (uint64_t)clock.tv_nsec;
    const struct rank_page page = {.magic = RANK_PAGE_MAGIC,
                                   .pid = (uint64_t)getpid(),
                                   .rank = 1,
                                   .started_ns = 1000,
                                   .steps = steps,
                                   .step_ns = now_ns,
                                   .first_ns = now_ns};
    (void)snprintf(path, sizeof(path), "%s/ranks/1-%d", scene->folder, getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(write(fd, &page, sizeof(page)) == sizeof(page));
    close(fd);
}

/* A program in the place of Python. */
static void fake_put(const struct scene *scene, const char *text)
{
    char path[128];

    put(scene, "fake", text, 0755);
    (void)snprintf(path, sizeof(path), "%s/fake", scene->folder);
    put(scene, LAUNCH_PYTHON_FILE, path, 0600);
}

/* It keeps what it was given, and ends so. */
static void python_put(const struct scene *scene, int status)
{
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "#!/bin/sh\ncat > %s/body\necho \"$1 $2 $3 $4 $6 $7 $8\" > %s/args\nexit %d\n",
                   scene->folder, scene->folder, status);
    fake_put(scene, text);
}

static void reap(struct scene *scene, int64_t now_ms)
{
    int status = 0;
    pid_t pid = scene->tell.child;

    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid);
    EXPECT(tell_reaped(&scene->tell, pid, status, now_ms));
}

TEST(without_being_asked_nothing_of_the_environment_changes)
{
    static const struct {
        const char *why;
        const char *url;
        const char *pages;
    } rows[] = {
        {"nobody asks", NULL, NULL},
        {"a node agent looks at them already", URL, "/agent"},
        {"no way to be sure of who hears it", "http://operator.test/", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct scene scene;

        test_case(rows[i].why);
        (void)setenv("PYTHONPATH", "/mine", 1);
        if (rows[i].pages)
            (void)setenv(RANK_PAGE_ENV, rows[i].pages, 1);
        if (rows[i].url)
            (void)setenv(LAUNCH_ENV_RANKS_URL, rows[i].url, 1);
        (void)setenv(LAUNCH_ENV_RANKS_CA, "pem", 1);
        scene_open(&scene);
        const char *pages = getenv(RANK_PAGE_ENV);
        EXPECT(str_is(str_from(getenv("PYTHONPATH")), "/mine"));
        EXPECT(str_is(str_from(pages ? pages : ""), rows[i].pages ? rows[i].pages : ""));
        EXPECT(!getenv(LAUNCH_ENV_RANKS_URL) && !getenv(LAUNCH_ENV_RANKS_CA));
        EXPECT(tell_next_ms(&scene.tell) == INT64_MAX);
        tell_turn(&scene.tell, 1000);
        tell_last(&scene.tell, TELL_LAST_MS);
        scene_close(&scene);
    }
}

static void asked(void)
{
    (void)setenv(LAUNCH_ENV_RANKS_URL, URL, 1);
    (void)setenv(LAUNCH_ENV_RANKS_CA, "pem", 1);
}

TEST(ranks_get_the_hook_before_what_their_python_path_has)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct scene scene;

    (void)setenv("PYTHONPATH", "/mine:/other", 1);
    asked();
    scene_open(&scene);
    EXPECT(str_eq(str_from(getenv("PYTHONPATH")),
                  str_printf(&arena, "%s/hook:/mine:/other", scene.folder)));
    EXPECT(str_eq(str_from(getenv(RANK_PAGE_ENV)), str_printf(&arena, "%s/ranks", scene.folder)));
    EXPECT(str_contains(taken(&scene, "hook/sitecustomize.py", &arena), STR("sitecustomize")));
    EXPECT(str_is(taken(&scene, "operator.pem", &arena), "pem"));
    EXPECT(!getenv(LAUNCH_ENV_RANKS_URL)); /* the ranks have no use for it */
    scene_close(&scene);
}

TEST(a_report_leaves_when_a_rank_appears_and_is_not_repeated)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    asked();
    scene_open(&scene);
    python_put(&scene, 0);
    tell_turn(&scene.tell, 1000);
    EXPECT(!scene.tell.child); /* there is nobody to tell of */
    page_put(&scene, 3);
    tell_turn(&scene.tell, 1000 + OBSERVED_LOOK_MS);
    reap(&scene, 2000);
    EXPECT(ranks_parse(&arena, taken(&scene, "body", &arena), reports) == 1);
    EXPECT(reports[0].rank == 1 && reports[0].steps == 3 && reports[0].act == RANK_STEPPING);
    EXPECT(
        str_eq(str_trim(taken(&scene, "args", &arena)),
               str_printf(&arena, "-I -S -B -c " URL " " LAUNCH_RANKS_TOKEN_FILE " %s/operator.pem",
                          scene.folder)));
    page_put(&scene, 4);
    tell_turn(&scene.tell, 2000 + OBSERVED_LOOK_MS);
    EXPECT(!scene.tell.child); /* a step is no news */
    scene_close(&scene);
}

/* As on a machine of its own: after a minute without a page, and what to do. */
TEST(why_no_rank_tells_of_itself_is_told_on_a_cluster_too)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct scene scene;

    asked();
    scene_open(&scene);
    python_put(&scene, 0);
    for (int64_t second = 1; second <= 90 && !scene.tell.child; second++)
        tell_turn(&scene.tell, second * OBSERVED_LOOK_MS);
    reap(&scene, 91000);
    EXPECT(str_contains(ranks_unwatched(&arena, taken(&scene, "body", &arena)),
                        STR("no process of it has a RANK, as torchrun gives its ranks")));
    page_put(&scene, 3);
    scene.tell.seen->told_ms = 0;
    tell_turn(&scene.tell, 100000);
    reap(&scene, 101000);
    EXPECT(!ranks_unwatched(&arena, taken(&scene, "body", &arena)).len);
    scene_close(&scene);
}

TEST(what_nobody_took_is_told_again_ever_more_seldom)
{
    struct scene scene;
    int64_t now_ms = 100000;
    int64_t wait_ms = TELL_RETRY_MS;

    asked();
    scene_open(&scene);
    python_put(&scene, 1);
    page_put(&scene, 3);
    tell_turn(&scene.tell, now_ms);
    for (int i = 0; i < 8; i++) {
        reap(&scene, now_ms);
        EXPECT(scene.tell.retry_ms == now_ms + wait_ms);
        /* It is due by the wall clock; what holds it back is the failure. */
        scene.tell.seen->told_ms = 0;
        tell_turn(&scene.tell, now_ms + wait_ms - 1);
        EXPECT(!scene.tell.child);
        scene.tell.look_ms = 0;
        now_ms += wait_ms;
        tell_turn(&scene.tell, now_ms);
        wait_ms = wait_ms * 2 < TELL_RETRY_MAX_MS ? wait_ms * 2 : TELL_RETRY_MAX_MS;
    }
    reap(&scene, now_ms);
    python_put(&scene, 0);
    scene.tell.seen->told_ms = 0;
    scene.tell.look_ms = 0;
    now_ms = scene.tell.retry_ms;
    tell_turn(&scene.tell, now_ms);
    reap(&scene, now_ms);
    EXPECT(scene.tell.failures == 0);
    scene_close(&scene);
}

TEST(one_that_hangs_is_ended)
{
    struct scene scene;

    asked();
    scene_open(&scene);
    fake_put(&scene, "#!/bin/sh\nexec sleep 1000\n");
    page_put(&scene, 3);
    tell_turn(&scene.tell, 1000);
    pid_t child = scene.tell.child;
    tell_turn(&scene.tell, 1000 + TELL_LIMIT_MS - 1);
    EXPECT(child > 0 && waitpid(child, NULL, WNOHANG) == 0);
    tell_turn(&scene.tell, 1000 + TELL_LIMIT_MS + OBSERVED_LOOK_MS);
    reap(&scene, 20000);
    EXPECT(scene.tell.failures == 1);
    scene_close(&scene);
}

TEST(how_far_they_came_is_told_at_the_end)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    asked();
    scene_open(&scene);
    python_put(&scene, 0);
    page_put(&scene, 3);
    tell_turn(&scene.tell, 1000);
    reap(&scene, 1000);
    page_put(&scene, 97);
    tell_last(&scene.tell, 60 * TELL_LAST_MS); /* a machine may be slow */
    EXPECT(!scene.tell.child);
    EXPECT(ranks_parse(&arena, taken(&scene, "body", &arena), reports) == 1);
    EXPECT(reports[0].steps == 97);
    scene_close(&scene);
}

/* Takes none before the third. */
static void busy_python_put(const struct scene *scene)
{
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "#!/bin/sh\ncd %s\necho x >> tries\n[ $(wc -l < tries) -ge 3 ] || exit %d\n"
                   "cat > body\n",
                   scene->folder, TELL_NOT_NOW);
    fake_put(scene, text);
}

TEST(the_last_word_of_a_pod_that_told_a_moment_ago_waits_for_its_turn)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    asked();
    scene_open(&scene);
    busy_python_put(&scene);
    page_put(&scene, 3);
    tell_turn(&scene.tell, 1000);
    reap(&scene, 1000);
    EXPECT(scene.tell.failures == 0); /* it was heard */
    EXPECT(scene.tell.retry_ms == 1000 + TELL_RETRY_MS);
    page_put(&scene, 97);
    tell_last(&scene.tell, 60 * TELL_LAST_MS);
    EXPECT(ranks_parse(&arena, taken(&scene, "body", &arena), reports) == 1);
    EXPECT(reports[0].steps == 97);
    scene_close(&scene);
}

TEST(ranks_that_start_anew_begin_with_no_pages)
{
    char path[128];
    struct scene scene;

    asked();
    scene_open(&scene);
    page_put(&scene, 3);
    (void)snprintf(path, sizeof(path), "%s/ranks/1-%d", scene.folder, getpid());
    EXPECT(access(path, F_OK) == 0);
    tell_restart(&scene.tell);
    EXPECT(access(path, F_OK) < 0 && scene.tell.seen->count == 0);
    scene_close(&scene);
}
