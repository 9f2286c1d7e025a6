#include "agent/freeze.h"

#include "agent/cgroup.h"
#include "base/err.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define FREEZE_PATH_BYTES (CGROUP_PATH_BYTES * 2)
#define FREEZE_ROUNDS     16 /* of looking for processes that were forked meanwhile */

/* ---- processes ---- */

/* State and parent of a process; false: it is gone. */
static bool process_stat(pid_t pid, char *ret_state, pid_t *ret_parent)
{
    char path[64], text[512];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *rest = strrchr(text, ')'); /* its name may have anything in it */
    int parent = 0;
    char state = 0;
    if (!rest || sscanf(rest + 1, " %c %d", &state, &parent) != 2)
        return false;
    *ret_state = state;
    *ret_parent = parent;
    return true;
}

static bool pid_in(pid_t pid, const pid_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == pid)
            return true;
    return false;
}

/* What descends from the roots. A parent may have a higher number than its child: rounds, until
 * nobody new is found. */
static size_t descendants(const struct freeze *freeze, pid_t *ret)
{
    size_t count = 0, before = SIZE_MAX;
    for (size_t i = 0; i < freeze->root_count; i++)
        ret[count++] = freeze->roots[i];
    while (count != before) {
        before = count;
        DIR *folder = opendir("/proc");
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            int64_t pid = 0;
            pid_t parent = 0;
            char state = 0;
            if (!str_to_i64(str_from(entry->d_name), &pid) || count == FREEZE_PIDS_MAX ||
                pid_in((pid_t)pid, ret, count) || !process_stat((pid_t)pid, &state, &parent))
                continue;
            if (state != 'Z' && pid_in(parent, ret, count))
                ret[count++] = (pid_t)pid;
        }
        if (folder)
            closedir(folder);
    }
    return count;
}

size_t freeze_pids(const struct freeze *freeze, pid_t ret[static FREEZE_PIDS_MAX])
{
    if (freeze->cgroups->kind == CGROUP_NONE)
        return descendants(freeze, ret);
    return cgroup_pids(freeze->cgroups, freeze->uid, ret, FREEZE_PIDS_MAX);
}

/* ---- control groups ---- */

static int file_write(const char *folder, const char *file, const char *text)
{
    char path[FREEZE_PATH_BYTES + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r = fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return r;
}

static bool file_has(const char *folder, const char *file, const char *word)
{
    char path[FREEZE_PATH_BYTES + 64], text[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, word) != NULL;
}

/* The pod's group; false: signals must do. */
static bool freezer_of(const struct freeze *freeze, char ret[static FREEZE_PATH_BYTES])
{
    const struct cgroups *cgroups = freeze->cgroups;
    const char *base = cgroups->kind == CGROUP_V2   ? cgroups->memory
                       : cgroups->kind == CGROUP_V1 ? cgroups->freezer
                                                    : "";
    (void)snprintf(ret, FREEZE_PATH_BYTES, "%s/" STR_FMT, base, STR_ARG(freeze->uid));
    return *base != '\0';
}

/* Of version 1: into the group of the pod's own, which is frozen already when the last ones come,
 * so that whoever was forked meanwhile stands, too. */
static int freezer_take(const struct freeze *freeze, const char *folder)
{
    pid_t pids[FREEZE_PIDS_MAX];
    char number[32];
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return -errno;
    size_t count = freeze_pids(freeze, pids);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(number, sizeof(number), "%d", pids[i]);
        int r = file_write(folder, "cgroup.procs", number);
        if (r && r != -ESRCH)
            return r;
    }
    return 0;
}

static int freezer_stop_v1(const struct freeze *freeze, const char *folder)
{
    int r = freezer_take(freeze, folder);
    r = r ? r : file_write(folder, "freezer.state", "FROZEN");
    r = r ? r : freezer_take(freeze, folder);
    return r ? r : file_has(folder, "freezer.state", "FROZEN") ? 0 : -EAGAIN;
}

static int freezer_stop_v2(const char *folder)
{
    int r = file_write(folder, "cgroup.freeze", "1");
    if (r == -ENOENT)
        return 0; /* nothing was started yet */
    return r ? r : file_has(folder, "cgroup.events", "frozen 1") ? 0 : -EAGAIN;
}

/* ---- signals ---- */

static int signals_stop(const struct freeze *freeze)
{
    pid_t pids[FREEZE_PIDS_MAX], parent;
    bool all = false;
    for (int round = 0; round < FREEZE_ROUNDS && !all; round++) {
        size_t count = freeze_pids(freeze, pids);
        all = true;
        for (size_t i = 0; i < count; i++) {
            char state = 0;
            if (!process_stat(pids[i], &state, &parent) || state == 'Z' || state == 'T' ||
                state == 't')
                continue;
            all = false;
            if (kill(pids[i], SIGSTOP) < 0 && errno != ESRCH)
                return -errno;
        }
    }
    return all ? 0 : -EAGAIN;
}

static int signals_send(const struct freeze *freeze, int sig)
{
    pid_t pids[FREEZE_PIDS_MAX];
    size_t count = freeze_pids(freeze, pids);
    int r = 0;
    for (size_t i = 0; i < count; i++)
        if (kill(pids[i], sig) < 0 && errno != ESRCH)
            r = -errno;
    return r;
}

/* ---- both ---- */

int freeze_stop(const struct freeze *freeze, struct err *err)
{
    char folder[FREEZE_PATH_BYTES];
    int r = !freezer_of(freeze, folder)          ? signals_stop(freeze)
            : freeze->cgroups->kind == CGROUP_V2 ? freezer_stop_v2(folder)
                                                 : freezer_stop_v1(freeze, folder);
    if (r == 0 || r == -EAGAIN)
        return r;
    return err_set(err, r, "the processes cannot be stopped: %s", strerrordesc_np(-r));
}

int freeze_go(const struct freeze *freeze, struct err *err)
{
    char folder[FREEZE_PATH_BYTES];
    int r = !freezer_of(freeze, folder)          ? signals_send(freeze, SIGCONT)
            : freeze->cgroups->kind == CGROUP_V2 ? file_write(folder, "cgroup.freeze", "0")
                                                 : file_write(folder, "freezer.state", "THAWED");
    if (r == 0 || r == -ENOENT)
        return 0;
    return err_set(err, r, "the processes cannot be woken: %s", strerrordesc_np(-r));
}

void freeze_kill(const struct freeze *freeze)
{
    (void)signals_send(freeze, SIGKILL);
    (void)freeze_go(freeze, NULL);
}
