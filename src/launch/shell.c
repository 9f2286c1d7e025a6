#include "launch/shell.h"

#include "base/count.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const int launch_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
const size_t launch_signal_count = COUNT_OF(launch_signals);

void shell_exec_with(const char *script, const char *zero)
{
    char path[PATH_MAX];
    bool bash = shell_which("bash", path, sizeof(path));

    if (!bash)
        (void)snprintf(path, sizeof(path), "/bin/sh");
    (void)execl(path, bash ? "bash" : "sh", "-c", script, zero, (char *)NULL);
    fprintf(stderr, "muster-launch: %s: %s\n", path, strerrordesc_np(errno));
    _exit(127);
}

void shell_exec(const char *script)
{
    shell_exec_with(script, "sh");
}

bool shell_which(const char *name, char *out, size_t out_bytes)
{
    const char *path = getenv("PATH");
    struct str rest = str_from(path && *path ? path : "/usr/local/bin:/usr/bin:/bin");
    struct str folder;

    while (str_cut(&rest, ':', &folder)) {
        struct stat st;
        int n =
            snprintf(out, out_bytes, STR_FMT "/%s", STR_ARG(folder.len ? folder : STR(".")), name);

        if (n > 0 && (size_t)n < out_bytes && stat(out, &st) == 0 && S_ISREG(st.st_mode) &&
            access(out, X_OK) == 0)
            return true;
    }
    return false;
}

bool shell_capture(const char *const *argv, char *out, size_t out_bytes)
{
    size_t len = 0;
    int status = -1;
    int fds[2];
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        (void)dup2(null, 0);
        (void)dup2(fds[1], 1);
        (void)dup2(null, 2);
        (void)execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(fds[1]);
    while (pid > 0 && len + 1 < out_bytes) {
        ssize_t got = read(fds[0], out + len, out_bytes - 1 - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fds[0]);
    out[len] = '\0';
    out[strcspn(out, "\n")] = '\0';
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
