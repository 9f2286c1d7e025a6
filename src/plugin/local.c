#include "plugin/local.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "kube/kubeconfig.h"
#include "system/errors.h"
#include "system/sockets.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "workspace/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_WORDS   "muster is ready at"
#define READY_MS      60000 /* a loaded machine; a quiet one needs half a second */
#define LOOK_MS       50
#define LOG_BYTES_MAX ((off_t)4 << 20)
/* Where a machine has no GPU: enough to try things with. */
#define GPUS_IF_NONE "8"

const char *local_folder(struct arena *arena)
{
    const char *named = getenv("MUSTER_DATA_DIR");
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");

    if (named && named[0] == '/')
        return named;
    if (geteuid() == 0)
        return "/var/lib/muster";
    if (data && data[0] == '/')
        return str_printf(arena, "%s/muster", data).p;
    return str_printf(arena, "%s/.local/share/muster", home && *home ? home : "/tmp").p;
}

const char *local_kubeconfig(struct arena *arena)
{
    return str_printf(arena, "%s/kubeconfig", local_folder(arena)).p;
}

bool local_is_own(const char *folder)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/own", folder);
    return access(path, F_OK) == 0;
}

bool local_is_here(struct arena *arena)
{
    const char *folder = local_folder(arena);

    return local_holder(folder) != 0 || local_is_own(folder);
}

bool local_is_address(const char *url)
{
    return strstr(url, "//127.") || strstr(url, "//localhost") || strstr(url, "//[::1]");
}

bool local_is_served(const struct kube_config *config)
{
    const char *server = config->server ? config->server : "";

    return local_is_address(server) && config->context && strcmp(config->context, "muster") == 0 &&
           local_answers(server);
}

long local_holder(const char *folder)
{
    char path[PATH_MAX];
    char text[32] = "";
    int64_t pid = 0;

    (void)snprintf(path, sizeof(path), "%s/lock", folder);
    _cleanup_(disk_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    if (read(fd, text, sizeof(text) - 1) <= 0 || !str_to_i64(str_trim(str_from(text)), &pid))
        return -1;
    return (long)pid;
}

bool local_answers(const char *url)
{
    const char *host = url ? strstr(url, "//") : NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char name[256];
    bool answers = false;

    if (!host)
        return false;
    (void)snprintf(name, sizeof(name), "%s", host + 2);
    name[strcspn(name, "/")] = '\0';
    char *colon = strrchr(name, ':');
    if (!colon)
        return false;
    *colon = '\0';
    char *start = name[0] == '[' ? name + 1 : name;
    start[strcspn(start, "]")] = '\0';
    if (getaddrinfo(start, colon + 1, &hints, &found) != 0)
        return false;
    for (struct addrinfo *at = found; at && !answers; at = at->ai_next) {
        _cleanup_(disk_closep) int fd =
            socket_open(at->ai_family, at->ai_socktype, at->ai_protocol);

        answers = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0;
    }
    freeaddrinfo(found);
    return answers;
}

/* Where it listened before, so that pods which outlived it find it again; else anywhere. */
static const char *local_listen(struct arena *arena, const char *folder)
{
    struct kube_config config = {0};
    const char *path = str_printf(arena, "%s/kubeconfig", folder).p;

    if (access(path, R_OK) < 0 ||
        kubeconfig_load(arena, &(struct kubeconfig_options){.path = path}, &config, NULL) < 0 ||
        !config.server || local_answers(config.server))
        return "127.0.0.1:0";
    const char *slashes = strstr(config.server, "//");
    return slashes ? slashes + 2 : "127.0.0.1:0";
}

/* The program beside the one that runs. */
static int local_program(char out[static PATH_MAX], struct err *err)
{
    ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 8);
    char *slash;

    if (len <= 0)
        return err_set(err, -ENOENT, "cannot see where this program is: /proc is not mounted");
    out[len] = '\0';
    slash = strrchr(out, '/');
    (void)snprintf(slash ? slash + 1 : out, 8, "muster");
    if (access(out, X_OK) < 0)
        return err_set(err, -ENOENT, "%s, which would serve this machine, does not exist", out);
    return 0;
}

_Noreturn static void local_child(const char *const *argv, int log, int ready)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)setsid();
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(ready, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0 && chdir("/") == 0)
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Reads what it prints until it is ready; false when it has ended or says nothing for too long. */
static bool local_says_ready(int fd)
{
    char text[512];
    size_t len = 0;

    while (len < sizeof(text) - 1) {
        struct pollfd input = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (poll(&input, 1, READY_MS) <= 0 ||
            (got = read(fd, text + len, sizeof(text) - 1 - len)) <= 0)
            return false;
        len += (size_t)got;
        text[len] = '\0';
        if (strstr(text, READY_WORDS))
            return true;
    }
    return false;
}

static int local_why(struct arena *arena, const char *log, struct err *err)
{
    struct str text = STR("");
    struct str last = STR("");
    struct str line;

    (void)file_read(arena, log, &text, NULL);
    while (str_cut(&text, '\n', &line))
        last = line.len ? line : last;
    return err_set(err, -EIO, "the muster for this machine did not start; the end of %s: " STR_FMT,
                   log, STR_ARG(str_sub(last, 0, 120)));
}

int local_start(struct arena *arena, const char *folder, struct err *err)
{
    char program[PATH_MAX];
    const char *path = str_printf(arena, "%s/muster.log", folder).p;
    const char *argv[] = {program,
                          "up",
                          "--data-dir",
                          folder,
                          "--listen",
                          NULL,
                          "--stop-when-idle",
                          LOCAL_IDLE,
                          "--gpus-if-none",
                          GPUS_IF_NONE,
                          "--notify-to", /* it serves nobody but who started it */
                          "any",
                          NULL};
    _cleanup_(disk_closep) int log = -1;
    struct stat st;
    int ends[2];
    int r = local_program(program, err);

    if (r == 0 && (r = disk_make_folders(folder)) < 0)
        return err_set(err, r, "%s: %s", folder, errno_words(-r));
    if (r == 0)
        r = file_replace(str_printf(arena, "%s/own", folder).p,
                         STR("started by muster run; muster stop --all removes this folder\n"),
                         0600, err);
    if (r < 0)
        return r;
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, -errno, "%s: %s", path, errno_words(errno));
    if (fstat(log, &st) == 0 && st.st_size > LOG_BYTES_MAX && ftruncate(log, 0) < 0)
        return err_set(err, -errno, "%s: %s", path, errno_words(errno));
    argv[5] = local_listen(arena, folder);
    pid_t child = fork();
    if (child == 0)
        local_child(argv, log, ends[1]);
    (void)close(ends[1]);
    bool ready = child > 0 && local_says_ready(ends[0]);
    (void)close(ends[0]);
    if (ready)
        return 1;
    /* Two at once: the other one has the folder, and will serve as well. */
    long holder = local_holder(folder);
    return holder != 0 && holder != child ? 0 : local_why(arena, path, err);
}

int local_await(struct arena *arena, const char *folder, struct err *err)
{
    struct kubeconfig_options file = {.path = str_printf(arena, "%s/kubeconfig", folder).p};
    int64_t until_ms = clock_monotonic_ms() + READY_MS;

    while (local_holder(folder) != 0 && clock_monotonic_ms() < until_ms) {
        _cleanup_(arena_done) struct arena once = {0};
        struct kube_config config = {0};

        if (access(file.path, R_OK) < 0 && errno != ENOENT)
            return 0; /* reading it will say why not */
        if (kubeconfig_load(&once, &file, &config, NULL) == 0 && local_answers(config.server))
            return 0;
        (void)poll(NULL, 0, LOOK_MS);
    }
    return local_why(arena, str_printf(arena, "%s/muster.log", folder).p, err);
}
