#include "agent/results_kept.h"

#include "agent/core.h"
#include "agent/pod.h"
#include "agent/results.h"
#include "agent/trash.h"
#include "api/api.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/count.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "tool/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GENERATION_LABEL "torchrun.ai/generation"
#define TRAINER          "trainer"
#define VOLUME           "folder" /* below a name, so that what a job owns is no entry of ours */
#define DEPTH_MAX        64 /* of folders that are measured, as many as results are read from */

/* ---- in the loop ---- */

/* The volume that is the working folder of the command; empty: it is in none of the pod's own. */
static struct str pod_folder_volume(const struct pod *pod)
{
    JSON_FOREACH(json_at(pod->root, "spec.containers"), container) {
        struct str folder = STR("/app");

        if (!str_is(json_str(json_get(container, "name")), TRAINER))
            continue;
        JSON_FOREACH(json_get(container, "env"), variable)
            if (str_is(json_str(json_get(variable, "name")), LAUNCH_ENV_APP_DIR))
                folder = json_str(json_get(variable, "value"));
        JSON_FOREACH(json_get(container, "volumeMounts"), mount) {
            struct str name = json_str(json_get(mount, "name"));

            if (str_eq(json_str(json_get(mount, "mountPath")), folder) &&
                !json_get(mount, "subPath") && !json_get(mount, "subPathExpr") &&
                results_volume_is_own(pod, name))
                return name;
        }
    }
    return STR_NONE;
}

bool results_burial_prepare(const struct pod *pod, struct results_burial *ret)
{
    const struct object_owner *owner = object_controller(pod->object);
    struct str generation = object_label(pod->object, GENERATION_LABEL);
    struct str volume = pod_folder_volume(pod);

    *ret = (struct results_burial){0};
    if (!owner || !str_is(owner->kind, "TorchrunJob") || !generation.len || !volume.len ||
        !str_is(object_label(pod->object, "torchrun.ai/role"), "worker") ||
        !str_is(object_label(pod->object, "torchrun.ai/index"), "0") ||
        owner->name.len >= sizeof(ret->job) || owner->uid.len >= sizeof(ret->job_uid))
        return false;
    (void)snprintf(ret->from, sizeof(ret->from), "%s/volumes/" STR_FMT, pod->folder,
                   STR_ARG(volume));
    (void)snprintf(ret->all, sizeof(ret->all), "%s/" RESULTS_KEPT_FOLDER,
                   pod->agent->options.data_dir);
    (void)snprintf(ret->name, sizeof(ret->name), STR_FMT "_" STR_FMT "_" STR_FMT "_" STR_FMT,
                   STR_ARG(pod->ns), STR_ARG(pod->name), STR_ARG(generation), STR_ARG(owner->uid));
    (void)snprintf(ret->job, sizeof(ret->job), STR_FMT, STR_ARG(owner->name));
    (void)snprintf(ret->job_uid, sizeof(ret->job_uid), STR_FMT, STR_ARG(owner->uid));
    return true;
}

bool results_job_is_there(const struct results_burial *burial, const struct api_result *result)
{
    const struct object *job = result->code == 0 ? result->object : NULL;

    if (!job)
        return result->code != 0 && result->code != -ENOENT;
    return !job->deleted_ms && str_is(job->uid, burial->job_uid);
}

/* ---- in the worker thread: nothing but the file system ---- */

/* A pod may name any owner: what is kept of other namespaces is not its. */
static void kept_drop_job(const struct results_burial *burial, struct trash *trash)
{
    DIR *folder = opendir(burial->all);
    size_t ns_len = strcspn(burial->name, "_") + 1;

    for (struct dirent *e; folder && (e = readdir(folder));) {
        char path[RESULTS_KEPT_PATH + NAME_MAX + 2];
        const char *uid = strrchr(e->d_name, '_');

        if (!uid || strcmp(uid + 1, burial->job_uid) != 0 ||
            strncmp(e->d_name, burial->name, ns_len) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", burial->all, e->d_name);
        trash_put(trash, path);
    }
    if (folder)
        closedir(folder);
}

void results_burial_run(const struct results_burial *burial, struct trash *trash)
{
    char path[RESULTS_KEPT_PATH + sizeof(burial->name) + 32];

    if (!burial->from[0])
        return;
    if (!burial->job_is_there) {
        kept_drop_job(burial, trash);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", burial->all, burial->name);
    trash_put(trash, path); /* of an earlier pod of this generation */
    if (files_make_folder(path, 0700, NULL) < 0)
        return;
    (void)snprintf(path, sizeof(path), "%s/%s/" VOLUME, burial->all, burial->name);
    if (rename(burial->from, path) < 0) { /* a mount, or there is none: nothing to keep */
        (void)snprintf(path, sizeof(path), "%s/%s", burial->all, burial->name);
        (void)rmdir(path);
    }
    results_kept_prune(
        burial->all,
        &(struct results_kept_limits){.since_ms = agent_now_ms() - RESULTS_KEPT_AGE_MS,
                                      .count = RESULTS_KEPT_MAX,
                                      .bytes = RESULTS_KEPT_BYTES_MAX},
        trash);
}

/* ---- how much is kept ---- */

struct kept_folder {
    struct timespec at;
    uint64_t bytes;
    char name[NAME_MAX + 1];
};

static int folder_newest_first(const void *a, const void *b)
{
    const struct kept_folder *x = a, *y = b;

    if (x->at.tv_sec != y->at.tv_sec)
        return x->at.tv_sec < y->at.tv_sec ? 1 : -1;
    return x->at.tv_nsec < y->at.tv_nsec ? 1 : x->at.tv_nsec > y->at.tv_nsec ? -1 : 0;
}

/* All files below; takes the descriptor. */
static uint64_t tree_bytes(int fd, int depth)
{
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    uint64_t bytes = 0;

    if (!folder && fd >= 0)
        close(fd);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
        else if (S_ISDIR(st.st_mode) && depth > 0)
            bytes += tree_bytes(
                openat(dirfd(folder), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                depth - 1);
    }
    if (folder)
        closedir(folder);
    return bytes;
}

void results_kept_prune(const char *all,
                        const struct results_kept_limits *limits,
                        struct trash *trash)
{
    VEC(struct kept_folder) items = {0};
    uint64_t bytes = 0;
    DIR *folder = opendir(all);

    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct kept_folder item = {0};
        struct stat st;

        if (e->d_name[0] == '.' || fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        (void)snprintf(item.name, sizeof(item.name), "%s", e->d_name);
        item.at = st.st_mtim;
        item.bytes = tree_bytes(
            openat(dirfd(folder), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
            DEPTH_MAX);
        VEC_PUSH(NULL, &items, item);
    }
    if (folder)
        closedir(folder);
    if (items.count)
        qsort(items.items, items.count, sizeof(items.items[0]), folder_newest_first);
    for (size_t i = 0; i < items.count; i++) {
        const struct kept_folder *item = &items.items[i];
        char path[RESULTS_KEPT_PATH + NAME_MAX + 2];

        bytes += item->bytes;
        if ((int64_t)item->at.tv_sec * 1000 >= limits->since_ms && i < limits->count &&
            bytes <= limits->bytes)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", all, item->name);
        trash_put(trash, path);
    }
    VEC_DONE(&items);
}

int results_kept_open(const char *data_dir, const struct results_kept_request *request)
{
    char path[RESULTS_KEPT_PATH];
    struct str words[] = {request->ns, request->pod, request->generation, request->job_uid};

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (!words[i].len || str_find(words[i], '/') < words[i].len ||
            str_find(words[i], '_') < words[i].len)
            return -ENOENT;
    int n = snprintf(path, sizeof(path),
                     "%s/" RESULTS_KEPT_FOLDER "/" STR_FMT "_" STR_FMT "_" STR_FMT "_" STR_FMT
                     "/" VOLUME,
                     data_dir, STR_ARG(request->ns), STR_ARG(request->pod),
                     STR_ARG(request->generation), STR_ARG(request->job_uid));
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
