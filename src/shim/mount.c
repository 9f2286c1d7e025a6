#include "base/count.h"
#include "shim/hidden.h"
#include "shim/openin.h"
#include "shim/parts.h"
#include "shim/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* shim_mount: what a container sees of the file system. Runs in the container's first process, in a
 * mount namespace of its own. The new root is put together at <folder>/<n>.root; every path inside
 * it is resolved by the kernel as if it were / already (openat2, RESOLVE_IN_ROOT), so neither a
 * symbolic link on the host nor one inside a volume can lead a mount elsewhere. */
#define MOUNTS_MAX 512 /* file systems of the host that are carried over */

static void fd_path(char out[static 32], int fd)
{
    (void)snprintf(out, 32, "/proc/self/fd/%d", fd);
}

static bool has_option(const char *options, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = options; p && *p;) {
        const char *comma = strchr(p, ',');
        size_t n = comma ? (size_t)(comma - p) : strlen(p);
        if (n == len && memcmp(p, word, len) == 0)
            return true;
        p = comma ? comma + 1 : NULL;
    }
    return false;
}

/* A bind keeps its source's flags and gets those the options name; of nodev no mount below it is
 * left out. */
static int restrict_tree(int tree, const char *options)
{
    struct mount_attr below = {.attr_set = MOUNT_ATTR_NODEV};
    if (has_option(options, "nodev") && has_option(options, "rec") &&
        syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &below, sizeof(below)) <
            0)
        return -1;
    struct mount_attr attributes = {0};
    attributes.attr_set |= has_option(options, "ro") ? MOUNT_ATTR_RDONLY : 0ULL;
    attributes.attr_set |= has_option(options, "nosuid") ? MOUNT_ATTR_NOSUID : 0ULL;
    attributes.attr_set |= has_option(options, "nodev") ? MOUNT_ATTR_NODEV : 0ULL;
    if (!attributes.attr_set)
        return 0;
    return (int)syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes,
                        sizeof(attributes));
}

/* What source_fd is, mounted at target_fd: put together before it is seen. */
static int bind_at(int source_fd, int target_fd, const char *options)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
                     (has_option(options, "rec") ? AT_RECURSIVE : 0U);
    int tree = (int)syscall(SYS_open_tree, source_fd, "", flags);
    int r = tree < 0 || restrict_tree(tree, options) < 0 ||
                    syscall(SYS_move_mount, tree, "", target_fd, "",
                            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
                ? -errno
                : 0;
    if (tree >= 0)
        close(tree);
    return r;
}

static int bind_over(struct root *root, int source_fd, const char *target, const char *options)
{
    struct stat st;
    if (fstat(source_fd, &st) < 0)
        return shim_fail(root->words, "mount", target);
    int fd = target_open(root, target, S_ISDIR(st.st_mode));
    if (fd < 0) {
        errno = -fd;
        return shim_fail(root->words, "make mount point", target);
    }
    int r = bind_at(source_fd, fd, options);
    close(fd);
    if (r) {
        errno = -r;
        return shim_fail(root->words, "mount", target);
    }
    return 0;
}

int mount_in(struct root *root,
             const char *type,
             const char *target,
             unsigned long flags,
             const char *data)
{
    int fd = folder_make_in(root->fd, target);
    if (fd < 0) {
        errno = -fd;
        return shim_fail(root->words, "make mount point", target);
    }
    char to[32] = "."; /* by way of /proc it would cost twice as much */
    if (fchdir(fd) < 0)
        fd_path(to, fd);
    int r = mount(type, to, type, flags, data) ? shim_fail(root->words, "mount", target) : 0;
    close(fd);
    return r;
}

/* ---- the root itself ---- */

/* The layers below: the mount points made beforehand, then the host's folder. */
static void lower_layers(const struct root *root, const char *lower, char out[static PATH_BYTES])
{
    if (root->points) {
        const char *below = strcmp(lower, root->lower) == 0 ? "" : lower;
        int n = snprintf(out, PATH_BYTES, "%s%s", root->points, below);
        if (n > 0 && n < PATH_BYTES && access(out, F_OK) == 0) {
            (void)snprintf(out, PATH_BYTES, "%s%s:%s", root->points, below, lower);
            return;
        }
    }
    (void)snprintf(out, PATH_BYTES, "%s", lower);
}

/* The mount itself, from inside <n>.upper. */
static int mount_layers(const char *layers, unsigned number, const char *target)
{
    /* volatile: nobody wants the pod's scratch files synced when it ends. */
    static const char *const tails[] = {",volatile", "", ",userxattr,volatile", ",userxattr"};
    char options[PATH_BYTES + 128];
    for (size_t i = 0; i < COUNT_OF(tails); i++) {
        (void)snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%u.up,workdir=%u.work%s",
                       layers, number, number, tails[i]);
        if (mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options) == 0)
            return 0;
    }
    return -errno;
}

static bool under(const char *path, const char *folder)
{
    size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* In the layer above `lower`, which is the current folder: a name that nobody can see below it, as overlays write down
 * what was removed. The folders around it look as they do below. */
static void hide_absent(const char *lower, const char *path)
{
    char at[PATH_BYTES], host[PATH_BYTES];
    const char *rest = path + (strcmp(lower, "/") == 0 ? 0 : strlen(lower));
    while (*rest == '/')
        rest++;
    size_t begins = (size_t)(rest - path), len = strlen(path);
    if (!*rest || len >= sizeof(at))
        return;
    memcpy(host, path, len + 1);
    for (size_t i = begins; i < len; i++) {
        struct stat st;
        if (path[i] != '/')
            continue;
        host[i] = '\0';
        memcpy(at, path + begins, i - begins);
        at[i - begins] = '\0';
        if (lstat(host, &st) < 0 || !S_ISDIR(st.st_mode) ||
            (mkdir(at, 0700) < 0 && errno != EEXIST))
            return;
        if (chown(at, st.st_uid, st.st_gid) < 0 || chmod(at, st.st_mode & 07777) < 0)
            errno = 0; /* without root: they are ours there */
        host[i] = '/';
    }
    (void)mknod(path + begins, S_IFCHR, makedev(0, 0));
}

static int hide_all_absent(const struct root *root, const char *lower, const char *up)
{
    struct record record;
    bool entered = false;
    for (size_t next = 0; records_next(root->spec, &next, &record);) {
        if (!record_is(&record, "absent") || !under(record.value, lower))
            continue;
        if (!entered && chdir(up) < 0)
            return -errno;
        entered = true;
        hide_absent(lower, record.value);
    }
    return entered && chdir("..") < 0 ? -errno : 0;
}

/* An overlay of the host's `lower` at `target` (a path or /proc/self/fd/N): what is written goes to
 * <n>.upper/<k>.up. */
static int overlay(struct root *root, const char *lower, const char *target)
{
    char folder[PATH_BYTES + 64], layers[PATH_BYTES], up[32], work[32];
    unsigned number = root->overlay_count++;
    int n = snprintf(folder, sizeof(folder), "%s.upper", root->base);
    if (n < 0 || (size_t)n >= sizeof(folder))
        return -ENAMETOOLONG;
    lower_layers(root, lower, layers);
    (void)snprintf(up, sizeof(up), "%u.up", number);
    (void)snprintf(work, sizeof(work), "%u.work", number);
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (here < 0 || chdir(folder) < 0)
        return -errno;
    int r = 0;
    struct stat st;
    if ((mkdir(up, 0755) < 0 && errno != EEXIST) || (mkdir(work, 0700) < 0 && errno != EEXIST))
        r = -errno;
    /* The top folder of the upper layer stands for the lower one: it must look like it. */
    if (r == 0 && stat(lower, &st) == 0 &&
        ((st.st_mode & 07777) != 0755 || st.st_uid != geteuid() || st.st_gid != getegid()) &&
        (chmod(up, st.st_mode & 07777) < 0 || chown(up, st.st_uid, st.st_gid) < 0))
        errno = 0;
    if (r == 0)
        r = hide_all_absent(root, lower, up);
    if (r == 0)
        r = mount_layers(layers, number, target);
    if (fchdir(here) < 0 && r == 0)
        r = -errno;
    close(here);
    return r;
}

static bool carried(const char *path, const char *type)
{
    static const char *const kernel_types[] = {
        "proc",    "sysfs",    "devtmpfs", "devpts",      "cgroup", "cgroup2",    "securityfs",
        "debugfs", "bpf",      "mqueue",   "hugetlbfs",   "pstore", "tracefs",    "configfs",
        "fusectl", "efivarfs", "autofs",   "binfmt_misc", "nsfs",   "rpc_pipefs", "overlay.pod",
    };
    if (strcmp(path, "/") == 0 || under(path, "/proc") || under(path, "/sys") ||
        under(path, "/dev"))
        return false;
    for (size_t i = 0; i < COUNT_OF(kernel_types); i++)
        if (strcmp(type, kernel_types[i]) == 0)
            return false;
    return true;
}

/* The host's other file systems: an overlay each, or read-only where that cannot be. */
static int carry_mount(struct root *root, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || under(root->base, path))
        return 0; /* not to be reached, or the data folder's own file system: masked anyway */
    int fd = open_in(root->fd, path, O_PATH, 0644);
    if (fd < 0)
        return 0; /* hidden by another mount */
    char to[32];
    fd_path(to, fd);
    /* What nobody may write to on the host needs no layer to write to. */
    struct statvfs fs;
    bool plain = S_ISDIR(st.st_mode) && !strpbrk(path, ",:\\") &&
                 !(statvfs(path, &fs) == 0 && fs.f_flag & ST_RDONLY);
    int r = 0;
    if (!plain || overlay(root, path, to) < 0) {
        int source = open(path, O_PATH | O_CLOEXEC);
        r = source < 0 ? -errno : bind_at(source, fd, "ro,nosuid,nodev");
        if (source >= 0)
            close(source);
    }
    close(fd);
    /* One that its owner took away meanwhile is not missed. */
    return (r == -ENOENT || r == -EINVAL) && !is_mount_point(path) ? 0 : r;
}

static bool is_masked(const struct records *spec, const char *path)
{
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);)
        if ((record_is(&record, "mask") || record_is(&record, "mask.exact")) &&
            under(path, record.value))
            return true;
    return false;
}

struct carrier {
    struct root *root;
    const struct records *spec;
    const char *folder;
    int count;
};

static int carry_one(void *user, const char *path, const char *type)
{
    struct carrier *carrier = user;
    if (carrier->count == MOUNTS_MAX || !carried(path, type) || under(path, carrier->folder) ||
        is_masked(carrier->spec, path))
        return 0;
    carrier->count++;
    int r = carry_mount(carrier->root, path);
    errno = -r;
    return r ? shim_fail(carrier->root->words, "carry over", path) : 0;
}

/* Those inside the pod's folder are memory volumes: not for carrying. The new root is not among them. */
static int carry_mounts(struct root *root, const struct records *spec, const char *folder)
{
    struct carrier carrier = {root, spec, folder, 0};
    int r = hidden_mounts(&root->hidden, carry_one, &carrier);
    if (r && !root->words[0]) {
        errno = -r;
        return shim_fail(root->words, "read", "/proc/self/mountinfo");
    }
    return r;
}

int make_read_only(struct root *root, const char *path)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    int fd = open_in(root->fd, path, O_PATH, 0644);
    if (fd < 0)
        return fd;
    long r = syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                     sizeof(attributes));
    close(fd);
    return r < 0 ? shim_fail(root->words, "make read-only", path) : 0;
}

/* A new root of the host's directories, bound and read-only, with /tmp and /run of its own: where
 * the kernel lets us have no overlay. */
static int bind_root(struct root *root, const char *target)
{
    static const char *const folders[] = {"/bin",   "/boot",  "/etc", "/home", "/lib", "/lib32",
                                          "/lib64", "/media", "/mnt", "/nix",  "/opt", "/root",
                                          "/sbin",  "/srv",   "/tmp", "/usr",  "/var"};
    if (mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m") < 0)
        return shim_fail(root->words, "mount tmpfs at", target);
    root->fd = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root->fd < 0)
        return shim_fail(root->words, "open", target);
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        struct stat st;
        char link[PATH_BYTES];
        if (lstat(folders[i], &st) < 0)
            continue;
        if (S_ISLNK(st.st_mode)) {
            ssize_t n = readlink(folders[i], link, sizeof(link) - 1);
            if (n > 0) {
                link[n] = '\0';
                if (symlinkat(link, root->fd, folders[i] + 1) < 0)
                    return shim_fail(root->words, "symlink", folders[i]);
            }
            continue;
        }
        int fd = open(folders[i], O_PATH | O_CLOEXEC);
        if (fd < 0)
            continue;
        int r = bind_over(root, fd, folders[i], "rec");
        close(fd);
        if (r == 0)
            r = make_read_only(root, folders[i]);
        if (r)
            return r;
    }
    int r = mount_in(root, "tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=755");
    return r ? r : mount_in(root, "tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777");
}

int bind_path(struct root *root, const char *source, const char *target, const char *options)
{
    int fd = open(source, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return shim_fail(root->words, "open", source);
    int r = bind_over(root, fd, target, options);
    close(fd);
    return r;
}

struct mount_words {
    const char *source;
    const char *sub;
    const char *target;
    const char *options;
};

/* Whoever may mount could make the file system of the spawner's empty folder writable, for all pods. */
static bool may_mount(const struct records *spec)
{
    const char *caps = records_get(spec, "caps");
    uint64_t keep;
    return !caps || !shim_number(caps, 16, &keep) || keep & 1ULL << CAP_SYS_ADMIN;
}

/* The spawner's empty folder, in a file system that nobody can write to: a new one for every folder that is
 * hidden costs more than all the rest of hiding it. */
static int cover_with_nothing(const struct root *root, int fd)
{
    char path[PATH_BYTES];
    int n = root->shares ? snprintf(path, sizeof(path), "%s" POINTS_NOTHING, root->points) : -1;
    int nothing =
        n > 0 && n < PATH_BYTES ? open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (nothing < 0)
        return -ENOENT;
    int r = bind_at(nothing, fd, "ro,nosuid,nodev");
    close(nothing);
    return r;
}

/* An empty folder, or an empty file, over what is open. */
static int cover(const struct root *root, int fd)
{
    struct stat st;
    char to[32];
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode) && cover_with_nothing(root, fd) == 0)
        return 0;
    fd_path(to, fd);
    int r = S_ISDIR(st.st_mode)
                ? mount("tmpfs", to, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV, "mode=0,size=4k")
                : mount("/dev/null", to, NULL, MS_BIND, NULL);
    return r < 0 ? -errno : 0;
}

static int hide(struct root *root, const char *path)
{
    int fd = open_in(root->fd, path, O_PATH, 0);
    if (fd < 0)
        return 0; /* nothing to hide */
    int r = cover(root, fd);
    close(fd);
    errno = -r;
    return r ? shim_fail(root->words, "hide", path) : 0;
}

static int hide_seen(void *user, const char *path)
{
    return hide(user, path);
}

static int cover_seen(void *user, const char *path)
{
    struct root *root = user;
    int fd = open_exact(path, O_PATH);
    int r = fd < 0 ? fd : cover(root, fd);
    if (fd >= 0)
        close(fd);
    errno = -r;
    /* A place inside one that was covered before is not there any more. */
    return r && r != -ENOENT ? shim_fail(root->words, "hide", path) : 0;
}

/* ---- what of the host a pod may ask for ---- */

/* The source of a hostPath, on the descriptor that will be mounted: what the agent looked at may be
 * something else by now. */
static int check_source(struct root *root, int fd, const struct mount_words *words)
{
    struct stat st;
    const struct hidden_thing *thing = NULL;
    int r = fstat(fd, &st) < 0 ? -errno : hidden_find(&root->hidden, fd, &thing);
    if (r) {
        errno = -r;
        return shim_fail(root->words, "look at hostPath", words->source);
    }
    bool device = S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode);
    if (!thing && !(device && has_option(words->options, "nodev")))
        return 0;
    (void)snprintf(root->words, 256, "hostPath %.120s: it shows %s, which no pod may see",
                   words->source, thing ? "private files" : "a device of the machine");
    return -EPERM;
}

/* What lies below the source, wherever it is mounted now. */
static int cover_below(struct root *root, const struct mount_words *words)
{
    char link[32], path[PATH_BYTES];
    int fd = open_in(root->fd, words->target, O_PATH, 0);
    if (fd < 0) {
        errno = -fd;
        return shim_fail(root->words, "open", words->target);
    }
    fd_path(link, fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    close(fd);
    if (n < 0)
        return shim_fail(root->words, "open", words->target);
    path[n] = '\0';
    root->hidden.with_proc = has_option(words->options, "nodev");
    int r = hidden_places(&root->hidden, path, cover_seen, root);
    root->hidden.with_proc = false;
    if (r && !root->words[0]) {
        errno = -r;
        return shim_fail(root->words, "hide", words->target);
    }
    return r;
}

static int bind_source(struct root *root, int fd, const struct mount_words *words)
{
    bool host = has_option(words->options, "host");
    int r = host ? check_source(root, fd, words) : 0;
    if (r == 0)
        r = bind_over(root, fd, words->target, words->options);
    if (r == 0 && root->of_person)
        r = target_note(root, words->target);
    return r || !host ? r : cover_below(root, words);
}

/* A folder which the user may not enter is no way to what lies in it. */
static int open_sub_as(const struct root *root, int source_fd, const char *sub)
{
    int r = rights_of_user(root);
    int fd = r ? r : open_in(source_fd, sub, O_PATH, 0);
    rights_of_shim();
    return fd;
}

/* Of a person's folder none of the links on the way is hers: root goes there. */
static int source_open(const char *path, bool as)
{
    int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = top < 0 ? -errno
             : as    ? open_trusted(top, path, O_PATH | O_DIRECTORY)
                     : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!as && fd < 0)
        fd = -errno;
    if (top >= 0)
        close(top);
    return fd;
}

/* A path inside a volume, which the pod may have filled with links: resolved inside it. */
static int bind_sub(struct root *root, const struct mount_words *words)
{
    bool as = has_option(words->options, "as");
    int source = source_open(words->source, as);
    if (source < 0) {
        errno = -source;
        return shim_fail(root->words, "open", words->source);
    }
    int fd = as ? open_sub_as(root, source, words->sub) : open_in(source, words->sub, O_PATH, 0644);
    if (fd == -ENOENT && !as)
        fd = folder_make_in(source, words->sub);
    close(source);
    if (fd < 0) {
        errno = -fd;
        return shim_fail(root->words, "subPath", words->sub);
    }
    int r = bind_source(root, fd, words);
    close(fd);
    return r;
}

static int bind_record(struct root *root, const struct mount_words *words)
{
    int fd = open(words->source, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return shim_fail(root->words, "open", words->source);
    int r = bind_source(root, fd, words);
    close(fd);
    return r;
}

static int mount_record(struct root *root, const char *type, const struct mount_words *words)
{
    if (strcmp(type, "bind") == 0 && *words->sub)
        return bind_sub(root, words);
    if (strcmp(type, "bind") == 0)
        return bind_record(root, words);
    if (strcmp(type, "tmpfs") == 0)
        return mount_in(root, "tmpfs", words->target, MS_NOSUID | MS_NODEV, words->options);
    return 0; /* of a newer agent */
}

/* Does the program of the spec start the container, in the root that is made for it? */
static bool is_for_runtime(const struct records *spec)
{
    return records_number(spec, "runtime", 0) != 0;
}

static int make_records(struct root *root, const struct records *spec)
{
    static const struct mount_words none = {"", "", "", ""};
    struct mount_words words = none;
    struct record record;
    int r = 0;
    /* What is hidden comes first, so that a volume inside the data folder's path can be mounted
     * over it but never revealed by it. */
    r = hidden_places_known(&root->hidden, hide_seen, root);
    if (r && !root->words[0]) {
        errno = -r;
        return shim_fail(root->words, "hide", "muster's files");
    }
    for (size_t next = 0; r == 0 && records_next(spec, &next, &record);) {
        if (record_is(&record, "mount.source"))
            words.source = record.value;
        else if (record_is(&record, "mount.sub"))
            words.sub = record.value;
        else if (record_is(&record, "mount.target"))
            words.target = record.value;
        else if (record_is(&record, "mount.options"))
            words.options = record.value;
        else if (record_is(&record, "mount")) {
            r = mount_record(root, record.value, &words);
            words = none;
        }
    }
    return r;
}

static void root_know_user(struct root *root, const struct records *spec)
{
    struct record record;
    uint64_t group;
    for (size_t next = 0; records_next(spec, &next, &record);)
        root->of_person |= record_is(&record, "mount.options") && has_option(record.value, "as");
    root->uid = (uid_t)records_number(spec, "uid", (long)geteuid());
    root->gid = (gid_t)records_number(spec, "gid", (long)getegid());
    for (size_t next = 0; records_next(spec, &next, &record);)
        if (record_is(&record, "group") && root->group_count < SHIM_GROUPS_MAX &&
            shim_number(record.value, 10, &group))
            root->groups[root->group_count++] = (gid_t)group;
}

/* Where the new root is put together: nobody but this process sees it there. */
static int choose_target(const struct root *root,
                         const struct records *spec,
                         char target[static PATH_BYTES])
{
    const char *at = is_for_runtime(spec) ? NULL : records_get(spec, "root.at");
    int n = at ? snprintf(target, PATH_BYTES, "%s", at)
               : snprintf(target, PATH_BYTES, "%s.root", root->base);
    if (n < 0 || n >= PATH_BYTES)
        return -ENAMETOOLONG;
    return at || mkdir(target, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

static int make_root(struct root *root,
                     const struct records *spec,
                     const char *folder,
                     char target[static PATH_BYTES])
{
    char upper[PATH_BYTES + 16];
    const char *kind = records_get(spec, "root");
    (void)snprintf(upper, sizeof(upper), "%s.upper", root->base);
    int r = choose_target(root, spec, target);
    if (r) {
        errno = -r;
        return shim_fail(root->words, "mkdir", target);
    }
    if (strcmp(kind, "bind") == 0)
        return bind_root(root, target);
    if (strcmp(kind, "overlay") == 0) {
        r = mkdir(upper, 0700) < 0 && errno != EEXIST ? -errno : overlay(root, root->lower, target);
        if (r) {
            errno = -r;
            return shim_fail(root->words, "overlay at", target);
        }
    } else if (mount(kind, target, NULL, MS_BIND | MS_REC, NULL) < 0) {
        return shim_fail(root->words, "bind", kind);
    }
    root->fd = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root->fd < 0)
        return shim_fail(root->words, "open", target);
    return strcmp(kind, "overlay") == 0 && strcmp(root->lower, "/") == 0
               ? carry_mounts(root, spec, folder)
               : 0;
}

/* It works from outside the root, and looks at its own processes there. Groups are not its business
 * (the shim has joined them), but crun refuses to start where it sees two versions of them. */
static int prepare_for_runtime(char words[static 256])
{
    static const char second[] = "/sys/fs/cgroup/unified";
    unsigned long strict = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (mount("proc", "/proc", "proc", strict, NULL) < 0)
        return shim_fail(words, "mount", "/proc");
    if (access(second, F_OK) == 0 && mount("tmpfs", second, "tmpfs", strict | MS_RDONLY, "") < 0)
        return shim_fail(words, "mount", second);
    return 0;
}

static int know_hidden(struct root *root, const struct records *spec)
{
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);) {
        int r = record_is(&record, "mask") ? hidden_add(&root->hidden, record.value)
                : record_is(&record, "mask.exact") || record_is(&record, "absent")
                    ? hidden_add_exact(&root->hidden, record.value)
                    : 0;
        if (r) {
            errno = -r;
            return shim_fail(root->words, "hide", record.value);
        }
    }
    return 0;
}

int mounts_make(const struct child_request *request, char words[static 256])
{
    const struct records *spec = request->spec;
    if (!records_get(spec, "root") || !records_has(spec, "ns", "mount"))
        return 0;
    const char *lower = records_get(spec, "root.lower");
    struct root root = {.fd = -1,
                        .spec = spec,
                        .words = words,
                        .points = records_get(spec, "root.points"),
                        .lower = lower ? lower : "/"};
    root.shares = root.points && !may_mount(spec);
    char here[PATH_BYTES - 512], target[PATH_BYTES];
    if (!getcwd(here, sizeof(here)))
        return shim_fail(words, "getcwd", "");
    (void)snprintf(root.base, sizeof(root.base), "%s/%s/%u", here, request->folder,
                   request->instance);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return shim_fail(words, "make private", "/");
    root_know_user(&root, spec);
    int r = know_hidden(&root, spec);
    if (r == 0)
        r = make_root(&root, spec, here, target);
    if (r == 0)
        r = homes_shut(root.fd, spec, words);
    if (r == 0)
        r = kernel_mounts_make(&root, spec, !is_for_runtime(spec));
    if (r == 0)
        r = make_records(&root, spec);
    if (r)
        return r;
    if (is_for_runtime(spec))
        return chdir(here) < 0 ? shim_fail(words, "chdir", here) : prepare_for_runtime(words);
    if (fchdir(root.fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return shim_fail(words, "pivot_root", target);
    close(root.fd);
    return 0;
}
