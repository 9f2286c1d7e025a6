#include "base/count.h"
#include "shim/openin.h"
#include "shim/parts.h"
#include "shim/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* kernel_mounts: /dev, /proc and /sys of a container, as every container has them. */

/* What is in /dev/shm counts as memory of the pod, and its limit holds for both: a smaller one would only
 * end data loaders with SIGBUS (the kernel's own default is half of the machine). */
#define SHM_OPTIONS "mode=1777,size=100%"

/* File systems inside a /dev that was made just now and is the current folder: nothing there leads elsewhere,
 * so the kernel need not look each of them up from the root. */
static int mount_devices(struct root *root)
{
    unsigned long strict = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mkdir("pts", 0755) < 0 || mkdir("shm", 0755) < 0 || mkdir("mqueue", 0755) < 0)
        return shim_fail(root->words, "mkdir in", "/dev");
    if (mount("tmpfs", "shm", "tmpfs", strict, SHM_OPTIONS) < 0)
        return shim_fail(root->words, "mount", "/dev/shm");
    (void)mount("mqueue", "mqueue", "mqueue", strict, NULL);
    if (mount("devpts", "pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620") < 0)
        return bind_path(root, "/dev/pts", "/dev/pts", "rec");
    return 0;
}

static int make_devices(struct root *root)
{
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {{"/proc/self/fd", "fd"},
                                           {"/proc/self/fd/0", "stdin"},
                                           {"/proc/self/fd/1", "stdout"},
                                           {"/proc/self/fd/2", "stderr"},
                                           {"pts/ptmx", "ptmx"}};
    mode_t before = umask(0);
    int r = mount_in(root, "tmpfs", "/dev", MS_NOSUID | MS_NOEXEC, "mode=755,size=4m");
    int dev = r == 0 ? open_in(root->fd, "/dev", O_PATH | O_DIRECTORY, 0644) : -1;
    if (r == 0 && dev < 0)
        return shim_fail(root->words, "open", "/dev");
    for (size_t i = 0; r == 0 && i < COUNT_OF(devices); i++) {
        char path[32];
        struct stat st;
        (void)snprintf(path, sizeof(path), "/dev/%s", devices[i]);
        /* A node of our own is cheaper than a mount of the host's; only root may make one. */
        if (stat(path, &st) < 0 || mknodat(dev, devices[i], S_IFCHR | 0666, st.st_rdev) < 0)
            r = bind_path(root, path, path, "");
    }
    (void)umask(before);
    for (size_t i = 0; r == 0 && i < COUNT_OF(links); i++)
        if (symlinkat(links[i][0], dev, links[i][1]) < 0)
            r = shim_fail(root->words, "symlink /dev/", links[i][1]);
    if (r == 0 && fchdir(dev) < 0)
        r = shim_fail(root->words, "open", "/dev");
    if (dev >= 0)
        close(dev);
    return r ? r : mount_devices(root);
}

/* Read-only from now on, where this kernel has it; the folder is the kernel's own, and no link is followed. */
static int freeze_in(struct root *root, int proc, const char *name)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    int tree = (int)syscall(SYS_open_tree, proc, name,
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (tree < 0)
        return errno == ENOENT ? 0 : shim_fail(root->words, "protect /proc/", name);
    int r =
        syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0 ||
                syscall(SYS_move_mount, tree, "", proc, name, MOVE_MOUNT_F_EMPTY_PATH) < 0
            ? shim_fail(root->words, "protect /proc/", name)
            : 0;
    close(tree);
    return r;
}

/* Files of /proc that change the machine and ask for no capability, only for the user root. */
static int protect_proc(struct root *root, const struct records *spec)
{
    static const char *const names[] = {"sys", "sysrq-trigger", "irq", "bus", "fs"};
    bool is_root = records_number(spec, "uid", (long)geteuid()) == 0;
    if (!is_root || !records_get(spec, "caps"))
        return 0;
    int proc = open_in(root->fd, "/proc", O_PATH | O_DIRECTORY, 0), r = 0;
    if (proc < 0) {
        errno = -proc;
        return shim_fail(root->words, "open", "/proc");
    }
    for (size_t i = 0; r == 0 && i < COUNT_OF(names); i++)
        r = freeze_in(root, proc, names[i]);
    close(proc);
    return r;
}

static int make_proc(struct root *root, const struct records *spec)
{
    unsigned long strict = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    bool own_pids = records_has(spec, "ns", "pid") || records_get(spec, "pid.of");
    /* Where the machine hides parts of its own /proc, a new one is refused to ordinary users. */
    int r = own_pids ? mount_in(root, "proc", "/proc", strict, NULL) : -EINVAL;
    if (r)
        r = bind_path(root, "/proc", "/proc", "rec");
    return r ? r : protect_proc(root, spec);
}

int kernel_mounts_make(struct root *root, const struct records *spec, bool with_proc)
{
    int r = make_devices(root);
    if (r)
        return r;
    r = with_proc ? make_proc(root, spec) : 0;
    if (r)
        return r;
    /* In a user namespace only the whole tree may be bound. */
    if (bind_path(root, "/sys", "/sys", "ro") == 0)
        return 0;
    r = bind_path(root, "/sys", "/sys", "rec");
    return r ? r : make_read_only(root, "/sys");
}
