#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* shim_sandbox: the namespaces that a pod's containers share, which are the shim's own. */

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r = fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return r;
}

/* Memory volumes live in a mount namespace of the shim, which every container's is a copy of. */
static int make_memory(const struct records *pod)
{
    const char *options = "";
    struct record record;
    if (!records_get(pod, "tmpfs"))
        return 0;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    for (size_t next = 0; records_next(pod, &next, &record);) {
        if (record_is(&record, "tmpfs.options"))
            options = record.value;
        if (record_is(&record, "tmpfs") &&
            mount("tmpfs", record.value, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
            return -errno;
    }
    return 0;
}

/* Without root: a user namespace in which we are who we were, but may make the other namespaces. */
static int make_user(void)
{
    char map[64];
    unsigned uid = geteuid(), gid = getegid();
    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    (void)write_file("/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
    int r = write_file("/proc/self/uid_map", map);
    (void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
    return r ? r : write_file("/proc/self/gid_map", map);
}

/* As linux/landlock.h has it since 6.12; older headers end after the second field. */
struct landlock_rules {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};
#define SCOPED_ABSTRACT 1

/* Names of abstract sockets belong to the network namespace, which pods may share: a process of this
 * pod reaches only those that a process of this pod made. Nothing else is restricted, so mounts can
 * still be made. What the kernel does not have is not missed here: the node's conditions tell. */
static void scope_sockets(void)
{
    struct landlock_rules rules = {.scoped = SCOPED_ABSTRACT};
    int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
    if (fd < 0)
        return;
    (void)syscall(SYS_landlock_restrict_self, fd, 0);
    close(fd);
}

int sandbox_make(const struct records *pod)
{
    int r = records_has(pod, "ns", "user") ? make_user() : 0;
    if (r)
        return r;
    int flags = (records_has(pod, "ns", "uts") ? CLONE_NEWUTS : 0) |
                (records_has(pod, "ns", "ipc") ? CLONE_NEWIPC : 0);
    if (flags && unshare(flags) < 0)
        return -errno;
    if (records_has(pod, "ns", "net"))
        r = network_make(pod);
    if (r == 0)
        r = make_memory(pod);
    if (r)
        return r;
    if (records_has(pod, "scope", "abstract"))
        scope_sockets();
    const char *hostname = records_get(pod, "hostname");
    if ((flags & CLONE_NEWUTS) && hostname && sethostname(hostname, strlen(hostname)) < 0)
        return -errno;
    return 0;
}
