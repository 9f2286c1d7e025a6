#include "agent/machine.h"

#include "agent/cgroup.h"
#include "agent/gpu.h"
#include "agent/host_torch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "tool/files.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* machine: what this machine has and permits, looked at once at the start. */

static void read_line(const char *path, char *out, size_t size)
{
    _cleanup_(buf_done) struct buf buf = {0};
    out[0] = '\0';
    if (files_read(path, size - 1, &buf))
        (void)snprintf(out, size, STR_FMT, STR_ARG(str_trim(buf_str(&buf))));
}

static void read_os(struct machine *machine)
{
    _cleanup_(buf_done) struct buf buf = {0};
    struct utsname uts;
    if (uname(&uts) == 0) {
        (void)snprintf(machine->kernel, sizeof(machine->kernel), "%s", uts.release);
        (void)snprintf(machine->hostname, sizeof(machine->hostname), "%s", uts.nodename);
    }
    (void)snprintf(machine->os_image, sizeof(machine->os_image), "Linux");
    if (!files_read("/usr/lib/os-release", 8192, &buf))
        return;
    struct str rest = buf_str(&buf), line;
    while (str_cut(&rest, '\n', &line))
        if (str_starts(line, STR("PRETTY_NAME=\"")) && line.len > 14)
            (void)snprintf(machine->os_image, sizeof(machine->os_image), STR_FMT,
                           STR_ARG(str_sub(line, 13, line.len - 14)));
}

static uint32_t env_id(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);
    uint64_t id;
    return text && str_to_u64(str_from(text), &id) && id <= UINT32_MAX ? (uint32_t)id : otherwise;
}

static void read_user(struct machine *machine)
{
    machine->root = geteuid() == 0;
    machine->uid = machine->root ? env_id("SUDO_UID", getuid()) : getuid();
    machine->gid = machine->root ? env_id("SUDO_GID", getgid()) : getgid();
    struct passwd entry, *found = NULL;
    char text[4096];
    if (getpwuid_r(machine->uid, &entry, text, sizeof(text), &found) == 0 && found)
        (void)snprintf(machine->home, sizeof(machine->home), "%s", found->pw_dir);
    int count = COUNT_OF(machine->groups);
    if (found && getgrouplist(found->pw_name, machine->gid, machine->groups, &count) >= 0)
        machine->group_count = (size_t)count;
    if (!found)
        (void)snprintf(machine->home, sizeof(machine->home), "/");
    const char *path = getenv("PATH");
    (void)snprintf(machine->path, sizeof(machine->path), "%s",
                   path && *path ? path
                                 : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
}

/* ---- what the kernel permits: tried out in a child, which is gone afterwards ---- */

#define LANDLOCK_ASK    1 /* for the version */
#define LANDLOCK_SCOPES 6 /* the version that has scopes */
#define PERMITS_USER    1
#define PERMITS_MOUNT   2
#define PERMITS_OVERLAY 4
#define OVERLAY         "lowerdir=/,upperdir=up,workdir=work"

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r = fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return r;
}

static int try_namespaces(bool root, const char *folder)
{
    int permits = 0;
    char map[64];
    unsigned uid = geteuid(), gid = getegid();
    if (!root) {
        if (unshare(CLONE_NEWUSER) < 0)
            return permits;
        (void)write_text("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
        if (write_text("/proc/self/uid_map", map) < 0)
            return permits;
        (void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
        if (write_text("/proc/self/gid_map", map) < 0)
            return permits;
        permits |= PERMITS_USER;
    }
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC) < 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir(folder) < 0)
        return permits;
    if (mount("overlay", "root", "overlay", 0, OVERLAY) == 0 ||
        mount("overlay", "root", "overlay", 0, OVERLAY ",userxattr") == 0)
        permits |= PERMITS_OVERLAY;
    if (!(permits & PERMITS_OVERLAY) && mount("tmpfs", "root", "tmpfs", 0, "size=64k") < 0)
        return permits;
    /* The whole way: in a chroot there are namespaces, but no other root to be had in them. */
    if (chdir("root") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        return permits & ~PERMITS_OVERLAY;
    return permits | PERMITS_MOUNT;
}

static void look_at_namespaces(struct machine *machine, const char *data_dir)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    static const char *const parts[] = {"up", "work", "root"};
    (void)snprintf(folder, sizeof(folder), "%s/probe", data_dir);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, parts[i]);
        (void)files_make_folder(path, 0700, NULL);
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(try_namespaces(machine->root, folder));
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
        machine->user_ns = WEXITSTATUS(status) & PERMITS_USER;
        machine->mount_ns = WEXITSTATUS(status) & PERMITS_MOUNT;
        machine->overlay = WEXITSTATUS(status) & PERMITS_OVERLAY;
    }
    (void)snprintf(path, sizeof(path), "%s/work/work", folder);
    (void)rmdir(path);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, parts[i]);
        (void)rmdir(path);
    }
    (void)rmdir(folder);
}

void machine_look(struct machine *machine, const char *data_dir)
{
    *machine = (struct machine){0};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
    machine->cpu_count = cpus > 0 ? cpus : 1;
    machine->memory_bytes = (pages > 0 ? pages : 1) * (int64_t)sysconf(_SC_PAGESIZE);
    struct statvfs disk;
    if (statvfs(data_dir, &disk) == 0)
        machine->disk_bytes = (int64_t)(disk.f_blocks * disk.f_frsize);
    read_line("/proc/sys/kernel/random/boot_id", machine->boot_id, sizeof(machine->boot_id));
    read_line("/etc/machine-id", machine->machine_id, sizeof(machine->machine_id));
    read_os(machine);
    read_user(machine);
    cgroup_look(&machine->cgroups);
    gpu_look(&machine->gpus);
    look_at_namespaces(machine, data_dir);
    machine->scopes =
        syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_ASK) >= LANDLOCK_SCOPES;
    machine->old_torch = host_torch_is_broken("/usr/bin/python3", "/usr/lib/python3/dist-packages");
}
