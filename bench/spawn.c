#include "base/count.h"
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* spawn PROGRAM: how many processes a second this machine starts in namespaces of their own (mount,
 * pid, uts, ipc), several at a time: the limits beside the node agent. Two numbers: with nothing
 * else done; and with the root file system every pod gets, a writable view of this machine's with
 * /dev, /proc and /sys of its own, which goes again with the process. What the second lacks of a
 * pod: an API, a store that outlives a power cut, a scheduler, a shim, logs, limits, volumes. */
#define SPAWNS     1000
#define PARALLEL   4
#define FOLDER_FDS 8

static char base[] = "/var/tmp/muster-spawn-XXXXXX";

/* As the agent does with the folder of its pods: ext4 puts what is in it into different groups of inodes, where
 * those of the rounds before, which it does not take again at once, are not in the way. */
static void spread(const char *folder)
{
    int flags = 0;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_TOPDIR_FL;
        (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
    if (fd >= 0)
        close(fd);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
    (void)st;
    (void)walk;
    return flag == FTW_DP ? rmdir(path) : unlink(path);
}

/* In the child: leaves it in the new root, or fails. */
static bool make_root(const char *folder)
{
    static const struct {
        const char *type, *at, *options;
    } mounts[] = {{"tmpfs", "dev", "mode=755,size=4m"},
                  {"devpts", "dev/pts", "newinstance,ptmxmode=0666,mode=0620"},
                  {"tmpfs", "dev/shm", "mode=1777,size=64m"},
                  {"mqueue", "dev/mqueue", NULL},
                  {"proc", "proc", NULL}};
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    if (chdir(folder) < 0 || mkdir("up", 0755) < 0 || mkdir("work", 0700) < 0 ||
        mkdir("root", 0755) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("overlay", "root", "overlay", MS_NODEV,
              "lowerdir=/,upperdir=up,workdir=work,volatile") < 0 ||
        chdir("root") < 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(mounts); i++) {
        if (mkdir(mounts[i].at, 0755) < 0 && errno != EEXIST)
            return false;
        if (mount(mounts[i].type, mounts[i].at, mounts[i].type, MS_NOSUID, mounts[i].options) < 0)
            return false;
    }
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        char host[32];
        struct stat st;
        (void)snprintf(host, sizeof(host), "/dev/%s", devices[i]);
        if (stat(host, &st) < 0 || mknod(host + 1, S_IFCHR | 0666, st.st_rdev) < 0)
            return false;
    }
    return mount("/sys", "sys", NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, "sys", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0 &&
           syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
           chdir("/") == 0;
}

static pid_t start(char *program, const char *folder)
{
    struct clone_args args = {.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC,
                              .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        char *argv[] = {program, NULL}, *envp[] = {NULL};
        if ((folder && !make_root(folder)) || !freopen("/dev/null", "w", stdout))
            _exit(126);
        execve(program, argv, envp);
        _exit(127);
    }
    return pid;
}

/* A second; 0: it cannot be done here. */
static double measure(char *program, bool rooted)
{
    struct {
        pid_t pid;
        char folder[sizeof(base) + 16];
    } slots[PARALLEL] = {0};
    int started = 0, running = 0, status;
    double begin = bench_now_s();
    while (started < SPAWNS || running) {
        int at = 0;
        while (at < PARALLEL && slots[at].pid)
            at++;
        if (started < SPAWNS && at < PARALLEL) {
            (void)snprintf(slots[at].folder, sizeof(slots[at].folder), "%s/%d", base, started++);
            if (rooted && mkdir(slots[at].folder, 0755) < 0)
                return 0;
            slots[at].pid = start(program, rooted ? slots[at].folder : NULL);
            if (slots[at].pid < 0)
                return 0;
            running++;
            continue;
        }
        pid_t pid = wait(&status);
        for (at = 0; at < PARALLEL && slots[at].pid != pid; at++)
            ;
        if (pid < 0 || at == PARALLEL || !WIFEXITED(status) || WEXITSTATUS(status))
            return 0;
        slots[at].pid = 0;
        running--;
        if (rooted && nftw(slots[at].folder, remove_one, FOLDER_FDS, FTW_DEPTH | FTW_PHYS) < 0)
            return 0;
    }
    return SPAWNS / (bench_now_s() - begin);
}

int main(int argc, char *argv[])
{
    if (argc != 2 || !mkdtemp(base))
        return 2;
    spread(base);
    double bare = measure(argv[1], false), rooted = bare > 0 ? measure(argv[1], true) : 0;
    if (nftw(base, remove_one, FOLDER_FDS, FTW_DEPTH | FTW_PHYS) < 0 || rooted <= 0) {
        perror("bench-spawn: needs root and overlays");
        return 1;
    }
    printf("%.0f %.0f\n", bare, rooted);
    return 0;
}
