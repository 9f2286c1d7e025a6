#include "agent/host_path.h"

#include "agent/core.h"
#include "agent/homes.h"
#include "agent/machine.h"
#include "agent/people.h"
#include "agent/pod.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "shim/hidden.h"
#include "shim/openin.h"
#include "shim/record.h"
#include "tool/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KUBECONFIGS_MAX 32
#define LIST_BYTES      (KUBECONFIGS_MAX * PATH_MAX)
#define PASSWD_BYTES    (1 << 20)

/* Muster's own files. */
static void own_masks(const struct agent *agent, struct buf *records)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf list = {0};
    size_t count = 2;
    record_add(records, "mask", str_from(agent->options.data_dir));
    if (agent->options.kubeconfig)
        record_add(records, "mask", str_from(agent->options.kubeconfig));
    (void)snprintf(path, sizeof(path), "%s/%s", agent->options.data_dir, HOST_PATH_KUBECONFIGS);
    if (!files_read(path, LIST_BYTES, &list))
        return;
    struct str rest = buf_str(&list), line;
    while (count < KUBECONFIGS_MAX && str_cut(&rest, '\n', &line))
        if (line.len && !str_is(line, agent->options.kubeconfig ? agent->options.kubeconfig : "")) {
            record_add(records, "mask", line);
            count++;
        }
}

void host_path_masks(const struct pod *pod, struct buf *records)
{
    struct agent *agent = pod->agent;
    _cleanup_(buf_done) struct buf passwd = {0};
    struct person person;
    int64_t uid = people_find(pod, &person) ? person.uid : (int64_t)agent->machine.uid;
    own_masks(agent, records);
    if (files_read("/etc/passwd", PASSWD_BYTES, &passwd))
        homes_masks(&agent->homes, buf_str(&passwd), uid, agent_now_ms(), records);
}

static int hidden_know(const struct pod *pod, struct hidden *hidden, struct err *err)
{
    _cleanup_(buf_done) struct buf records = {0};
    int r = 0;
    host_path_masks(pod, &records);
    struct str rest = buf_str(&records), record;
    while (r == 0 && str_cut(&rest, '\0', &record) && record.len) {
        const char *path = record.p + str_find(record, '=') + 1;
        r = str_starts(record, STR("mask=")) ? hidden_add(hidden, path)
                                             : hidden_add_exact(hidden, path);
    }
    return r ? err_set(err, r, "cannot read the paths that pods must not see: %s",
                       strerrordesc_np(-r))
             : 0;
}

/* The path, or the nearest folder above it that is there: what is made is made in it. */
static int path_open_nearest(const char *path)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, path, len + 1);
    for (;;) {
        int fd = open(*part ? part : "/", O_PATH | O_CLOEXEC);
        char *slash = strrchr(part, '/');
        if (fd >= 0 || errno != ENOENT || !slash)
            return fd < 0 ? -errno : fd;
        *slash = '\0';
    }
}

/* The machine's devices and processes lead to the same secrets by another way. */
static int path_check_kind(const char *path, int fd, struct err *err)
{
    struct stat st;
    char type[32];
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "hostPath %s: %s", path, strerrordesc_np(errno));
    hidden_type(fd, type);
    bool device = S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode) || strcmp(type, "devtmpfs") == 0;
    if (!device && strcmp(type, "proc") != 0)
        return 0;
    return err_set(err, -ENOTSUP,
                   "hostPath %s shows the machine's %s, and with them what muster hides: this node "
                   "runs such a pod only when muster was started with --allow-privileged",
                   path, device ? "devices" : "processes");
}

static int path_check(const struct pod *pod, const char *path, struct err *err)
{
    struct hidden hidden = {0};
    const struct hidden_thing *thing = NULL;
    int fd = path_open_nearest(path);
    if (fd < 0)
        return err_set(err, -EAGAIN, "hostPath %s: %s", path, strerrordesc_np(-fd));
    int r = hidden_know(pod, &hidden, err);
    if (r == 0) {
        r = hidden_find(&hidden, fd, &thing);
        if (r)
            (void)err_set(err, r, "hostPath %s: %s", path, strerrordesc_np(-r));
    }
    if (r == 0 && thing)
        r = err_set(
            err, -ENOTSUP,
            "hostPath %s is %s or lies in it: those are muster's own or somebody's private files, "
            "which no pod may see; use another folder, or a persistentVolumeClaim",
            path, thing->path);
    if (r == 0 && !pod->agent->options.allow_privileged)
        r = path_check_kind(path, fd, err);
    hidden_done(&hidden);
    close(fd);
    return r;
}

/* Of a person's pod: nothing is made for her, which root would own, and no link leads out of what is
 * hers. Whether she may go there is seen by the shim, which goes there as her. */
static int host_path_find(const struct person *person,
                          struct arena *arena,
                          struct str path,
                          struct err *err)
{
    const struct str *top = person_path(person, path);
    if (!top)
        return err_set(err, -ENOTSUP, "hostPath " STR_FMT ": not " STR_FMT "'s to mount",
                       STR_ARG(path), STR_ARG(person->name));
    int machine_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int top_fd = open_trusted(machine_fd, str_c(arena, *top), O_PATH | O_DIRECTORY);
    close(machine_fd);
    if (top_fd == -ELOOP)
        return err_set(err, -ENOTSUP,
                       "hostPath " STR_FMT ": there is a link on the way that is not root's; name "
                       "the folder itself in `muster user add --paths`",
                       STR_ARG(*top));
    if (top_fd < 0)
        return err_set(err, -EAGAIN, "hostPath " STR_FMT ": %s", STR_ARG(*top),
                       strerrordesc_np(-top_fd));
    const char *rest = str_c(arena, str_sub(path, top->len, path.len));
    int fd = open_in(top_fd, *rest ? rest : "/", O_PATH, 0);
    close(top_fd);
    if (fd < 0)
        return err_set(err, -EAGAIN, "hostPath " STR_FMT ": %s; create it first", STR_ARG(path),
                       strerrordesc_np(-fd));
    close(fd);
    return 0;
}

void host_path_mount(const struct pod *pod,
                     const struct json *source,
                     struct arena *arena,
                     struct record_mount *mount)
{
    struct str path = json_str(json_get(source, "path"));
    struct person person;
    const struct str *top = people_find(pod, &person) ? person_path(&person, path) : NULL;
    mount->source = path;
    if (top) {
        mount->source = str_dup(arena, *top);
        mount->sub = str_printf(arena, STR_FMT "/" STR_FMT,
                                STR_ARG(str_sub(path, top->len, path.len)), STR_ARG(mount->sub));
        mount->options =
            str_printf(arena, STR_FMT ",host,nodev,nosuid,as", STR_ARG(mount->options));
    } else {
        mount->options = str_printf(arena, STR_FMT ",host%s", STR_ARG(mount->options),
                                    pod->agent->options.allow_privileged ? "" : ",nodev");
    }
}

int host_path_make(const struct pod *pod,
                   const struct json *source,
                   struct arena *arena,
                   struct err *err)
{
    const char *path = str_c(arena, json_str(json_get(source, "path")));
    struct str type = json_str(json_get(source, "type"));
    struct stat st;
    struct person person;
    if (people_find(pod, &person))
        return host_path_find(&person, arena, str_from(path), err);
    int r = path_check(pod, path, err);
    if (r)
        return r;
    bool there = stat(path, &st) == 0;
    if (str_is(type, "DirectoryOrCreate") && !there)
        return files_make_folder(path, 0755, err);
    if (str_is(type, "FileOrCreate") && !there)
        return files_write(path, STR(""), 0644, err);
    if (str_is(type, "Directory") && !(there && S_ISDIR(st.st_mode)))
        return err_set(err, -EAGAIN, "hostPath %s is not a directory", path);
    if (str_is(type, "File") && !(there && S_ISREG(st.st_mode)))
        return err_set(err, -EAGAIN, "hostPath %s is not a file", path);
    if (!there && !type.len)
        return files_make_folder(path, 0755, err);
    return there ? 0 : err_set(err, -EAGAIN, "hostPath %s does not exist", path);
}
