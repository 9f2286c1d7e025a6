#include "bench.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* spawn PROGRAM: how many processes a second this machine starts in namespaces of their own (mount,
 * pid, uts, ipc), several at a time, with nothing else done: the limit beside the node agent. */
#define SPAWNS   1000
#define PARALLEL 4

static pid_t start(char *program)
{
    struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC,
                              .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        char *argv[] = {program, NULL}, *envp[] = {NULL};
        if (!freopen("/dev/null", "w", stdout))
            _exit(126);
        execve(program, argv, envp);
        _exit(127);
    }
    return pid;
}

int main(int argc, char *argv[])
{
    if (argc != 2)
        return 2;
    double begin = bench_now_s();
    int running = 0, status;
    for (int started = 0; started < SPAWNS || running;) {
        if (started < SPAWNS && running < PARALLEL) {
            if (start(argv[1]) < 0) {
                perror("bench-spawn: clone3 (needs root)");
                return 1;
            }
            started++;
            running++;
        } else if (wait(&status) > 0) {
            running--;
            if (!WIFEXITED(status) || WEXITSTATUS(status))
                return 1;
        }
    }
    printf("%.0f\n", SPAWNS / (bench_now_s() - begin));
    return 0;
}
