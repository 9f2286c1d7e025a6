#include "shim/parts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* shim_execs: commands that join containers which run. Nobody is waited for: processes of the container see the child
 * before it has become its program, and can stop it. */

static struct exec_session *execs_find(struct exec_session execs[static EXECS_MAX], pid_t pid)
{
    for (size_t i = 0; i < EXECS_MAX; i++)
        if (execs[i].pid == pid)
            return &execs[i];
    return NULL;
}

static void exec_close(struct exec_session *exec)
{
    if (exec->report_fd >= 0)
        close(exec->report_fd);
    if (exec->master_fd >= 0)
        close(exec->master_fd);
    exec->report_fd = exec->master_fd = -1;
}

static void exec_fail(struct exec_session *exec, int error, const char *words)
{
    shim_tell(-1, "execexit %lu %d %s", exec->id, error == -ENOENT ? 127 : 126, words);
    exec_close(exec);
    exec->told = true;
}

void execs_start(struct exec_session execs[static EXECS_MAX],
                 const struct exec_order *order,
                 const struct records *spec)
{
    struct exec_session *exec = execs_find(execs, 0);
    struct exec_session made = {.id = order->id, .report_fd = -1, .master_fd = -1};
    char words[256] = "the container is not running";
    pid_t pid = -ESRCH;
    if (!exec)
        (void)snprintf(words, sizeof(words), "%d commands run in this pod: wait for one to end",
                       EXECS_MAX);
    else if (order->join_fd >= 0) {
        struct child_request request = {.spec = spec,
                                        .join_fd = order->join_fd,
                                        .pid_fd = -1,
                                        .terminal = order->fd_count == 0};
        for (int i = 0; i < 3; i++)
            request.stdio[i] = i < order->fd_count ? order->fds[i] : -1;
        pid = child_begin(&request, &made.report_fd, words);
    }
    made.pid = pid;
    if (pid < 0)
        exec_fail(&made, pid, words);
    else
        *exec = made;
}

/* What the child says, as far as it has. */
static void exec_hear(struct exec_session *exec)
{
    char words[256] = "";
    int r = 1;
    while (exec->report_fd >= 0 && r > 0) {
        r = report_next(exec->report_fd, MSG_DONTWAIT, &exec->master_fd, words);
        if (r == -EAGAIN)
            return;
    }
    if (r < 0)
        exec_fail(exec, r, words);
    else if (exec->master_fd >= 0)
        shim_tell(exec->master_fd, "terminal %lu", exec->id);
    exec_close(exec);
}

nfds_t execs_poll(const struct exec_session execs[static EXECS_MAX], struct pollfd *polls)
{
    nfds_t count = 0;
    for (size_t i = 0; i < EXECS_MAX; i++)
        if (execs[i].pid && execs[i].report_fd >= 0)
            polls[count++] = (struct pollfd){.fd = execs[i].report_fd, .events = POLLIN};
    return count;
}

void execs_hear(struct exec_session execs[static EXECS_MAX])
{
    for (size_t i = 0; i < EXECS_MAX; i++)
        if (execs[i].pid && execs[i].report_fd >= 0)
            exec_hear(&execs[i]);
}

bool execs_reaped(struct exec_session execs[static EXECS_MAX], pid_t pid, int status)
{
    struct exec_session *exec = execs_find(execs, pid);
    if (!exec)
        return false;
    if (exec->report_fd >= 0)
        exec_hear(exec);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (!exec->told)
        shim_tell(-1, "execexit %lu %d", exec->id, code);
    exec->pid = 0;
    return true;
}

void execs_signal(const struct exec_session execs[static EXECS_MAX], unsigned long id, int sig)
{
    for (size_t i = 0; i < EXECS_MAX; i++)
        if (execs[i].pid && execs[i].id == id)
            (void)kill(execs[i].pid, sig);
}
