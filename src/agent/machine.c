#include "agent/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
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
    int count = sizeof(machine->groups) / sizeof(*machine->groups);
    if (found && getgrouplist(found->pw_name, machine->gid, machine->groups, &count) >= 0)
        machine->group_count = (size_t)count;
    if (!found)
        (void)snprintf(machine->home, sizeof(machine->home), "/");
    const char *path = getenv("PATH");
    (void)snprintf(machine->path, sizeof(machine->path), "%s",
                   path && *path ? path
                                 : "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
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
    machine->mount_ns = machine->root;
    machine->overlay = machine->root;
}
