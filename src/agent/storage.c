#include "agent/storage.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "agent/pressure.h"
#include "agent/protect.h"
#include "agent/trash.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uv.h>

#define PODS_MAX  256 /* measured at a time; those that come after them at the next look */
#define DEPTH_MAX 128 /* a descriptor each */

struct tally {
    int64_t bytes;
    int64_t files; /* and folders: inodes */
    bool deep;     /* there is more below DEPTH_MAX */
};

struct measured {
    char uid[64];
    char folder[POD_PATH_BYTES];
    int64_t limit_bytes; /* of all it writes; 0: none */
    struct tally used;
    int64_t requested_bytes;
    int64_t priority;
};

struct measurement {
    uv_work_t work;
    struct agent *agent;
    bool nearly_full;
    bool few_inodes;
    size_t count;
    struct measured pods[PODS_MAX];
};

/* ---- in the worker thread: nothing but the file system ---- */

static void folder_tally(int folder_fd, int depth, struct tally *tally)
{
    DIR *folder = fdopendir(folder_fd);
    if (!folder) {
        close(folder_fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        tally->bytes += (int64_t)st.st_blocks * 512;
        tally->files++;
        if (!S_ISDIR(st.st_mode))
            continue;
        if (depth == DEPTH_MAX) {
            tally->deep = true;
            continue;
        }
        int fd =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            folder_tally(fd, depth + 1, tally);
    }
    closedir(folder);
}

static void measurement_take(uv_work_t *work)
{
    struct measurement *m = work->data;
    for (size_t i = 0; i < m->count; i++) {
        int fd = open(m->pods[i].folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            folder_tally(fd, 0, &m->pods[i].used);
    }
}

/* ---- in the loop ---- */

/* What it wrote is why it has to go, so it goes at once, and not only when somebody deletes the pod:
 * the next look would choose another one. The pod's processes may write on for a moment, until they
 * are killed; its logs and how it ended stay. */
static void pod_discard(struct pod *pod)
{
    struct trash *trash = &pod->agent->trash;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/volumes", pod->folder);
    trash_put(trash, path);
    for (size_t i = 0; i < pod->run.count; i++)
        for (unsigned k = 0; k <= pod->run.containers[i].instance; k++) {
            (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT "/%u.upper", pod->folder,
                           STR_ARG(pod->run.containers[i].name), k);
            trash_put(trash, path);
        }
    agent_empty_trash(pod->agent);
}

static void pod_evict(struct agent *agent, const struct measured *measured, const char *why)
{
    struct pod *pod = map_get(&agent->pods, str_from(measured->uid));
    const struct tally *used = &measured->used;
    char text[PRESSURE_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s: the pod uses %lld bytes of disk in %lld files%s", why,
                   (long long)used->bytes, (long long)used->files,
                   used->deep ? " and more, nested too deep to count" : "");
    if (!pod || pod->stage != POD_RUNNING)
        return; /* it has ended while it was measured, and what it wrote may be its results */
    protect_evict(pod, text);
    pod_discard(pod);
}

/* One of those that were measured has to go. */
static void measurement_choose(struct measurement *m, bool inodes)
{
    struct pressure_pod pods[PODS_MAX];
    for (size_t i = 0; i < m->count; i++) {
        const struct measured *pod = &m->pods[i];
        int64_t used = inodes ? pod->used.files : pod->used.bytes;
        pods[i] = (struct pressure_pod){.priority = pod->priority,
                                        .used = pod->used.deep ? INT64_MAX : used,
                                        .requested = inodes ? 0 : pod->requested_bytes};
    }
    size_t victim = pressure_victim(pods, m->count);
    if (victim < m->count)
        pod_evict(m->agent, &m->pods[victim],
                  inodes ? "the node is low on resource inodes"
                         : "the node is low on resource ephemeral-storage");
}

static void measurement_judge(struct measurement *m)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct measured *pod = &m->pods[i];
        if (pod->limit_bytes && (pod->used.deep || pod->used.bytes > pod->limit_bytes))
            pod_evict(m->agent, pod, "it exceeds its limit of ephemeral-storage or emptyDir");
    }
    /* What the last one left is still being removed: that may be enough. */
    if ((m->nearly_full || m->few_inodes) && !atomic_load(&m->agent->trash.busy))
        measurement_choose(m, !m->nearly_full);
}

static void measurement_taken(uv_work_t *work, int status)
{
    struct measurement *m = work->data;
    struct agent *agent = m->agent;
    if (status == 0 && !agent->stopping)
        measurement_judge(m);
    mem_free(m);
    agent->measuring = false;
    agent->streams_open--;
    agent_maybe_free(agent);
}

static int64_t limit_of(const struct pod *pod)
{
    int64_t sum = 0, one = 0;
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct json *limits = json_at(pod_container_spec(pod, i), "resources.limits");
        if (quantity_whole_json(json_get(limits, "ephemeral-storage"), &one, NULL) == 0)
            sum += one;
    }
    JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume) {
        const struct json *empty = json_get(volume, "emptyDir");
        if (!str_is(json_str(json_get(empty, "medium")), "Memory") &&
            quantity_whole_json(json_get(empty, "sizeLimit"), &one, NULL) == 0)
            sum += one;
    }
    return sum;
}

static int64_t request_of(const struct pod *pod)
{
    int64_t sum = 0, one = 0;
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct json *requests = json_at(pod_container_spec(pod, i), "resources.requests");
        if (quantity_whole_json(json_get(requests, "ephemeral-storage"), &one, NULL) == 0)
            sum += one;
    }
    return sum;
}

void storage_look(struct agent *agent)
{
    struct statvfs disk;
    if (agent->measuring)
        return;
    struct measurement *m = MEM_NEW(struct measurement);
    m->agent = agent;
    m->work.data = m;
    if (statvfs(agent->options.data_dir, &disk) == 0) {
        m->nearly_full = disk.f_bavail * 100 < disk.f_blocks * STORAGE_FREE_PERCENT;
        m->few_inodes = disk.f_favail * 100 < disk.f_files * STORAGE_FREE_PERCENT;
    }
    size_t at = 0, from = agent->measured;
    agent->measured = 0; /* the first ones again, unless there are more */
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        int64_t limit = pod->stage == POD_RUNNING ? limit_of(pod) : 0;
        if (pod->stage != POD_RUNNING || (!limit && !m->nearly_full && !m->few_inodes) ||
            at++ < from)
            continue;
        if (m->count == PODS_MAX) {
            agent->measured = at - 1;
            break;
        }
        struct measured *one = &m->pods[m->count++];
        one->limit_bytes = limit;
        one->requested_bytes = request_of(pod);
        one->priority = json_i64_or(json_at(pod->root, "spec.priority"), 0);
        (void)snprintf(one->uid, sizeof(one->uid), STR_FMT, STR_ARG(pod->uid));
        (void)snprintf(one->folder, sizeof(one->folder), "%s", pod->folder);
    }
    if (!m->count ||
        uv_queue_work(agent->loop, &m->work, measurement_take, measurement_taken) < 0) {
        mem_free(m);
        return;
    }
    agent->measuring = true;
    agent->streams_open++;
}
