#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "stacks/pod.h"
#include "stacks/process.h"
#include "test.h"

#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every CPython of this machine, dead-locked on a known line. */
#define ROUNDS_MAX  6000 /* of 10 ms: a machine that is busy for a minute */
#define PYTHONS_MAX 24

static const char program[] = "import os, threading\n"            /* 1 */
                              "class Loader:\n"                   /* 2 */
                              "    def fetch(self):\n"            /* 3 */
                              "        lock = threading.Lock()\n" /* 4 */
                              "        lock.acquire()\n"          /* 5 */
                              "        lock.acquire(True,\n"      /* 6 */
                              "                     -1)\n"        /* 7 */
                              "\n"                                /* 8 */
                              "def waits():\n"                    /* 9 */
                              "    threading.Event().wait()\n"    /* 10 */
                              "\n"                                /* 11 */
                              "def trains():\n"                   /* 12 */
                              "    for step in [1]:\n"            /* 13 */
                              "        Loader().fetch()\n"        /* 14 */
                              "threading.Thread(target=waits, daemon=True).start()\n"
                              "trains()\n"; /* 16 */

struct child {
    pid_t pid;
    char script[64];
};

static bool child_start(struct child *child, const char *python)
{
    (void)snprintf(child->script, sizeof(child->script), "/tmp/stacks-test-XXXXXX");
    int fd = mkstemp(child->script);
    if (fd < 0 || write(fd, program, sizeof(program) - 1) != (ssize_t)sizeof(program) - 1)
        return false;
    close(fd);
    child->pid = fork();
    if (child->pid == 0) {
        int quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)dup2(quiet, STDOUT_FILENO);
        (void)dup2(quiet, STDERR_FILENO);
        (void)setenv("RANK", "5", 1);
        (void)setenv("LOCAL_RANK", "1", 1);
        execl(python, python, "-S", child->script, (char *)NULL);
        _exit(127);
    }
    return child->pid > 0;
}

static void child_end(struct child *child)
{
    int status;

    (void)kill(child->pid, SIGKILL);
    (void)waitpid(child->pid, &status, 0);
    (void)unlink(child->script);
}

/* The second thread, in waits(): it may come later than the first to where it stops. */
static bool look_has_other(const struct process_look *look)
{
    for (size_t i = 1; i < look->tasks.count; i++) {
        const struct process_task *task = &look->tasks.items[i];

        for (size_t j = 0; j < task->frame_count; j++)
            if (str_is(task->frames[j].function, "waits") && task->frames[j].line == 10)
                return task->tid > 0;
    }
    return false;
}

/* Have both got to where they stop? */
static bool look_stands(const struct process_look *look)
{
    const struct process_task *first = look->tasks.items;

    return look->python && look->tasks.count && first->frame_count >= 3 &&
           first->frames[0].line == 6 && first->state == 'S' && str_is(first->syscall, "futex") &&
           look_has_other(look);
}

static void expect_frame(const struct process_task *task, size_t index, const char *end, int line)
{
    EXPECT(index < task->frame_count);
    if (index >= task->frame_count)
        return;
    EXPECT(str_ends(task->frames[index].function, str_from(end)));
    EXPECT(task->frames[index].line == line);
}

static void expect_stacks(const struct child *child, const struct process_look *look)
{
    const struct process_task *main_task = &look->tasks.items[0];

    EXPECT(main_task->tid == child->pid && main_task->frame_count == 3);
    expect_frame(main_task, 0, "fetch", 6);
    expect_frame(main_task, 1, "trains", 14);
    expect_frame(main_task, 2, "<module>", 16);
    EXPECT(str_is(main_task->frames[0].file, child->script));
}

/* The same in short: where it is, and that it is still there. */
static void expect_line(const struct child *child)
{
    struct process_line line = {0}, again = {0};

    EXPECT(process_line(child->pid, NULL, &line) && process_line(child->pid, NULL, &again));
    EXPECT(str_ends(str_from(line.text), STR(":6 in fetch")) ||
           str_ends(str_from(line.text), STR("fetch")));
    EXPECT(!str_contains(str_from(line.text), STR("/")));
    EXPECT(line.stack && line.stack == again.stack);
}

/* The document of the same process. */
static void expect_document(const struct child *child)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct json *root = NULL;
    int64_t root_pid = child->pid;

    pod_stacks(&(struct pod_stacks_request){.roots = &root_pid, .root_count = 1}, &text);
    EXPECT(json_parse(&arena, buf_str(&text), &root, NULL) == 0);
    const struct json *process = json_at(root, "processes.0");
    EXPECT(json_i64_or(json_get(process, "rank"), -1) == 5);
    EXPECT(json_bool_or(json_get(process, "main"), false));
    EXPECT(json_i64_or(json_at(process, "threads.0.frames.0.line"), -1) == 6);
}

static void try_python(const char *python)
{
    struct child child = {0};

    test_case(python);
    if (!child_start(&child, python)) {
        test_fail(__FILE__, __LINE__, "cannot start it");
        return;
    }
    bool stood = false;
    bool refused = false; /* in words: a version that is not known */
    for (int i = 0; i < ROUNDS_MAX && !stood; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct process_look look;

        process_look(child.pid, NULL, &arena, &look);
        stood = look_stands(&look);
        refused = look.python && str_contains(look.why, STR("cannot be read"));
        if (stood)
            expect_stacks(&child, &look);
        else if (refused || look.state == 'Z' || look.state == '?')
            break;
        else
            (void)poll(NULL, 0, 10);
    }
    EXPECT(stood || refused);
    if (stood)
        expect_document(&child);
    if (stood)
        expect_line(&child);
    child_end(&child);
}

/* Paths of the interpreters, each once. */
static size_t find_pythons(char out[PYTHONS_MAX][256])
{
    static const char *const patterns[] = {
        "/usr/bin/python3", "/usr/local/bin/python3", "%s/.pyenv/versions/3.9*/bin/python3",
        "%s/.pyenv/versions/3.1[0-9]*/bin/python3", "%s/.cache/muster/torch/bin/python"};
    ino_t seen[PYTHONS_MAX];
    const char *home = getenv("HOME");
    size_t count = 0;

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        char pattern[512];
        glob_t found = {0};

        if (str_starts(str_from(patterns[i]), STR("%s")))
            (void)snprintf(pattern, sizeof(pattern), "%s%s", home ? home : "", patterns[i] + 2);
        else
            (void)snprintf(pattern, sizeof(pattern), "%s", patterns[i]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t j = 0; j < found.gl_pathc && count < PYTHONS_MAX; j++) {
            struct stat about;
            bool known = false;

            if (stat(found.gl_pathv[j], &about) < 0)
                continue;
            for (size_t k = 0; k < count; k++)
                known = known || seen[k] == about.st_ino;
            if (known)
                continue;
            seen[count] = about.st_ino;
            (void)snprintf(out[count++], 256, "%s", found.gl_pathv[j]);
        }
        globfree(&found);
    }
    return count;
}

TEST(stacks_of_every_python_of_this_machine)
{
    char pythons[PYTHONS_MAX][256];
    size_t count = find_pythons(pythons);

    for (size_t i = 0; i < count; i++)
        try_python(pythons[i]);
}

TEST(stacks_of_what_is_no_python_are_none)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_look look;

    process_look(getpid(), NULL, &arena, &look);
    EXPECT(!look.python && look.state == 'R' && look.tasks.count >= 1);
    process_look(INT32_MAX, NULL, &arena, &look);
    EXPECT(look.state == '?' && !look.tasks.count);
    EXPECT(!process_line(getpid(), NULL, &(struct process_line){0}));
    EXPECT(!process_line(INT32_MAX, NULL, &(struct process_line){0}));
}

TEST(environ_values_are_whole_names)
{
    static const char text[] = "LOCAL_RANK=1\0RANK=7\0RANKS=9\0EMPTY=";
    struct str env = {text, sizeof(text)};

    EXPECT(str_is(environ_get(env, "RANK"), "7"));
    EXPECT(str_is(environ_get(env, "LOCAL_RANK"), "1"));
    EXPECT(!environ_get(env, "LOCAL").len && !environ_get(env, "EMPTY").len);
}
