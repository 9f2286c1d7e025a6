#include "launch/tell.h"

#include "api/launch.h"
#include "api/rank_page.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "observe/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOOK_DIR       "hook"
#define PAGES_DIR      "ranks"
#define AUTHORITY_FILE "operator.pem"
#define LAST_LOOK_MS   10
#define LAST_RETRY_MS  250

extern const char tell_py[]; /* tools/embed_text.c made it of tell.py */

static int64_t clock_ms(clockid_t which)
{
    struct timespec now;

    (void)clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void path_of(const struct tell *tell, const char *name, char ret[static PATH_MAX + 32])
{
    (void)snprintf(ret, PATH_MAX + 32, "%s/%s", tell->folder, name);
}

static bool file_write(const char *path, const char *text)
{
    size_t len = strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0)
        return false;
    bool whole = write(fd, text, len) == (ssize_t)len;
    close(fd);
    return whole;
}

/* ---- what the ranks get ---- */

static bool make_folders(const struct tell *tell, const char *authority)
{
    char path[PATH_MAX + 32];

    path_of(tell, PAGES_DIR, path);
    if (mkdir(path, 0755) < 0)
        return false;
    path_of(tell, AUTHORITY_FILE, path);
    if (!file_write(path, authority))
        return false;
    path_of(tell, HOOK_DIR, path);
    if (mkdir(path, 0755) < 0)
        return false;
    path_of(tell, HOOK_DIR "/sitecustomize.py", path);
    return file_write(path, hook_py);
}

static void set_environment(const struct tell *tell)
{
    const char *before = getenv("PYTHONPATH");
    char path[PATH_MAX + 32];
    char *value = NULL;

    path_of(tell, PAGES_DIR, path);
    (void)setenv(RANK_PAGE_ENV, path, 1);
    path_of(tell, HOOK_DIR, path);
    if (asprintf(&value, "%s%s%s", path, before && *before ? ":" : "", before ? before : "") < 0)
        return;
    (void)setenv("PYTHONPATH", value, 1);
    free(value);
}

void tell_start(struct tell *tell, const char *run_dir, const sigset_t *mask)
{
    const char *url = getenv(LAUNCH_ENV_RANKS_URL);
    const char *authority = getenv(LAUNCH_ENV_RANKS_CA);

    *tell = (struct tell){.mask = *mask};
    /* Whoever has set a folder for pages looks at them. */
    if (url && strncmp(url, "https://", 8) == 0 && authority && !getenv(RANK_PAGE_ENV)) {
        (void)snprintf(tell->folder, sizeof(tell->folder), "%s", run_dir);
        if (make_folders(tell, authority)) {
            tell->url = strdup(url);
            tell->seen = MEM_NEW(struct observed);
            set_environment(tell);
        }
    }
    (void)unsetenv(LAUNCH_ENV_RANKS_URL);
    (void)unsetenv(LAUNCH_ENV_RANKS_CA);
}

/* Pages of those before would add up. */
void tell_restart(struct tell *tell)
{
    char path[PATH_MAX + 32];

    if (!tell->seen)
        return;
    path_of(tell, PAGES_DIR, path);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    observed_clear(tell->seen);
}

/* ---- a report ---- */

static bool python_read(const struct tell *tell, char ret[static PATH_MAX])
{
    char path[PATH_MAX + 32];
    ssize_t got;
    int fd;

    path_of(tell, LAUNCH_PYTHON_FILE, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, ret, PATH_MAX - 1);
    close(fd);
    ret[got > 0 ? got : 0] = '\0';
    return got > 0;
}

static void report_run(const struct tell *tell, const char *python, int body)
    __attribute__((noreturn));
static void report_run(const struct tell *tell, const char *python, int body)
{
    char authority[PATH_MAX + 32];
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    path_of(tell, AUTHORITY_FILE, authority);
    const char *argv[] = {python,    "-I",    "-S",      "-B",
                          "-c",      tell_py, tell->url, LAUNCH_RANKS_TOKEN_FILE,
                          authority, NULL};
    (void)sigprocmask(SIG_SETMASK, &tell->mask, NULL);
    (void)unsetenv("LD_PRELOAD"); /* what is meant for the ranks */
    (void)dup2(body, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(null, STDERR_FILENO);
    if (chdir("/") < 0)
        _exit(127);
    (void)execv(python, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static bool report_start(struct tell *tell, struct str text, int64_t now_ms)
{
    char python[PATH_MAX];
    int body = memfd_create("ranks", MFD_CLOEXEC);
    bool whole = body >= 0 && write(body, text.p, text.len) == (ssize_t)text.len &&
                 lseek(body, 0, SEEK_SET) == 0 && python_read(tell, python);
    pid_t child = whole ? fork() : -1;

    if (child == 0)
        report_run(tell, python, body);
    if (body >= 0)
        close(body);
    if (child < 0)
        return false;
    tell->child = child;
    tell->kill_ms = now_ms + TELL_LIMIT_MS;
    return true;
}

static void report_failed(struct tell *tell, int64_t now_ms)
{
    int64_t wait_ms = TELL_RETRY_MS;

    for (unsigned i = 0; i < tell->failures && wait_ms < TELL_RETRY_MAX_MS; i++)
        wait_ms *= 2;
    tell->failures++;
    tell->retry_ms = now_ms + (wait_ms < TELL_RETRY_MAX_MS ? wait_ms : TELL_RETRY_MAX_MS);
    observed_lost(tell->seen);
}

static void report_send(struct tell *tell, int64_t wall_ms, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = observed_tell(tell->seen, wall_ms, NULL, 0, &arena);

    if (text.len && !report_start(tell, text, now_ms))
        report_failed(tell, now_ms);
}

/* ---- turns ---- */

int64_t tell_next_ms(const struct tell *tell)
{
    return tell->seen ? tell->look_ms : INT64_MAX;
}

void tell_turn(struct tell *tell, int64_t now_ms)
{
    int64_t wall_ms = clock_ms(CLOCK_REALTIME);
    char path[PATH_MAX + 32];
    bool said;

    if (!tell->seen || now_ms < tell->look_ms)
        return;
    tell->look_ms = now_ms + OBSERVED_LOOK_MS;
    path_of(tell, PAGES_DIR, path);
    struct observed_look look = observed_look_begin(wall_ms, tell->turns++);
    (void)observed_look(tell->seen, &look, path, getpid(), &said);
    observed_look_end(&look);
    if (tell->child && now_ms >= tell->kill_ms)
        (void)kill(tell->child, SIGKILL);
    if (!tell->child && now_ms >= tell->retry_ms && observed_is_due(tell->seen, wall_ms))
        report_send(tell, wall_ms, now_ms);
}

static bool came_too_soon(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == TELL_NOT_NOW;
}

bool tell_reaped(struct tell *tell, pid_t pid, int status, int64_t now_ms)
{
    if (!tell->child || pid != tell->child)
        return false;
    tell->child = 0;
    if (came_too_soon(status)) {
        tell->failures = 0;
        tell->retry_ms = now_ms + TELL_RETRY_MS;
        observed_lost(tell->seen);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        tell->failures = 0;
    } else {
        report_failed(tell, now_ms);
    }
    return true;
}

/* ---- the end ---- */

/* What one ended with that was under way; it is cut short at that moment. */
static int report_end(struct tell *tell, int64_t until_ms)
{
    int status = 0;

    while (tell->child) {
        pid_t pid = waitpid(tell->child, &status, WNOHANG);

        if (pid == tell->child || pid < 0) {
            tell->child = 0;
            break;
        }
        if (clock_ms(CLOCK_MONOTONIC) >= until_ms)
            (void)kill(tell->child, SIGKILL);
        (void)poll(NULL, 0, LAST_LOOK_MS);
    }
    return status;
}

/* The one before it may have been a moment ago. */
static void report_last(struct tell *tell, int64_t wall_ms, int64_t until_ms)
{
    int64_t now_ms = clock_ms(CLOCK_MONOTONIC);

    while (now_ms < until_ms) {
        observed_lost(tell->seen);
        report_send(tell, wall_ms, now_ms);
        if (!came_too_soon(report_end(tell, until_ms)))
            return;
        (void)poll(NULL, 0, LAST_RETRY_MS);
        now_ms = clock_ms(CLOCK_MONOTONIC);
    }
}

void tell_last(struct tell *tell, int64_t limit_ms)
{
    int64_t wall_ms = clock_ms(CLOCK_REALTIME);
    char path[PATH_MAX + 32];

    if (!tell->seen)
        return;
    (void)report_end(tell, 0);
    path_of(tell, PAGES_DIR, path);
    observed_last(tell->seen, path, wall_ms);
    if (!tell->seen->count || tell->failures)
        return;
    report_last(tell, wall_ms, clock_ms(CLOCK_MONOTONIC) + limit_ms);
}

void tell_done(struct tell *tell)
{
    if (tell->seen)
        observed_done(tell->seen);
    mem_free(tell->seen);
    free(tell->url);
    *tell = (struct tell){0};
}
