#include "agent/storage.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "agent/pressure.h"
#include "agent/protect.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <uv.h>

#define PODS_MAX  256 /* measured at a time; the rest at the next look */
#define DEPTH_MAX 64

struct measured {
    char uid[64];
    char folder[POD_PATH_BYTES];
    int64_t limit_bytes; /* of all it writes; 0: none */
    int64_t used_bytes;
    int64_t requested_bytes;
    int64_t priority;
};

struct measurement {
    uv_work_t work;
    struct agent *agent;
    bool nearly_full;
    size_t count;
    struct measured pods[PODS_MAX];
};

/* ---- in the worker thread: nothing but the file system ---- */

static int64_t bytes_below(int folder_fd, int depth)
{
    int64_t total = 0;
    DIR *folder = fdopendir(folder_fd);
    if (!folder) {
        close(folder_fd);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        total += (int64_t)st.st_blocks * 512;
        if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
            continue;
        int fd =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            total += bytes_below(fd, depth + 1);
    }
    closedir(folder);
    return total;
}

static void measurement_take(uv_work_t *work)
{
    struct measurement *m = work->data;
    for (size_t i = 0; i < m->count; i++) {
        int fd = open(m->pods[i].folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
            m->pods[i].used_bytes = bytes_below(fd, 0);
    }
}

/* ---- in the loop ---- */

static void pod_evict(struct agent *agent, const struct measured *measured, const char *why)
{
    struct pod *pod = map_get(&agent->pods, str_from(measured->uid));
    char text[PRESSURE_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s: the pod uses %lld bytes of disk", why,
                   (long long)measured->used_bytes);
    if (pod)
        protect_evict(pod, text);
}

static void measurement_judge(struct measurement *m)
{
    struct pressure_pod pods[PODS_MAX];
    for (size_t i = 0; i < m->count; i++) {
        const struct measured *pod = &m->pods[i];
        if (pod->limit_bytes && pod->used_bytes > pod->limit_bytes)
            pod_evict(m->agent, pod, "it exceeds its limit of ephemeral-storage or emptyDir");
        pods[i] = (struct pressure_pod){
            .priority = pod->priority, .used = pod->used_bytes, .requested = pod->requested_bytes};
    }
    size_t victim = m->nearly_full ? pressure_victim(pods, m->count) : m->count;
    if (victim < m->count)
        pod_evict(m->agent, &m->pods[victim], "the node is low on resource ephemeral-storage");
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
    m->nearly_full = statvfs(agent->options.data_dir, &disk) == 0 &&
                     disk.f_bavail * 100 < disk.f_blocks * STORAGE_FREE_PERCENT;
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        int64_t limit = pod->stage == POD_RUNNING ? limit_of(pod) : 0;
        if (pod->stage != POD_RUNNING || m->count == PODS_MAX || (!limit && !m->nearly_full))
            continue;
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
