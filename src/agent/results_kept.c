#include "agent/results_kept.h"

#include "agent/core.h"
#include "agent/pod.h"
#include "agent/results.h"
#include "agent/trash.h"
#include "agent/volume.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "tool/files.h"
#include "workspace/frame.h"
#include "workspace/results.h"

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
#define ROLE_LABEL       "torchrun.ai/role"
#define TRAINER          "trainer"
#define WORKSPACE        "torchrun.ai/workspace" /* annotation of a job: "upload" */
#define VOLUME           "folder" /* below a name, so that what a job owns is no entry of ours */
#define SAID             "said"   /* beside it: the moment at which its end was announced */
#define DEPTH_MAX        64 /* of folders that are measured, as many as results are read from */
#define EARLIER_MAX      9  /* names that are tried: the job may have such folders itself */
#define BURIAL_PATH      (RESULTS_KEPT_PATH + RESULTS_KEPT_NAME + 32)
#define EMPTY_BYTES      FRAME_HEAD_BYTES /* of a turn that gave only the end of the stream */

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

/* The claim that the job made for its sync pod. One that outlives the job is its owner's. */
static bool sync_burial_prepare(const struct pod *pod,
                                const struct object_owner *owner,
                                struct results_burial *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str name = str_printf(&arena, STR_FMT "-workspace", STR_ARG(owner->name));
    const struct object *claim = cache_get(pod->agent->cache, &kind_pvc, pod->ns, name);
    const struct object_owner *of = claim ? object_controller(claim) : NULL;

    if (!of || claim->deleted_ms || !str_eq(of->uid, owner->uid) ||
        !str_is(json_str_at(pod->root, "spec.volumes.0.persistentVolumeClaim.claimName"), name.p))
        return false;
    (void)snprintf(ret->from, sizeof(ret->from), "%s",
                   volume_claim_folder(&arena, pod->agent, claim));
    ret->claim = true;
    return true;
}

bool results_claim_is_done(const struct results_burial *burial, const struct api_result *result)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *job = result->code == 0 ? result->object : NULL;

    return job && str_is(job->uid, burial->job_uid) &&
           str_is(object_annotation(job, WORKSPACE), "upload") &&
           json_str_at(object_json(job, &arena), "status.completionTime").len > 0;
}

bool results_strip_prepare(const struct pod *pod, struct results_burial *ret)
{
    if (!results_burial_prepare(pod, ret))
        return false;
    ret->strip = !ret->claim;
    return true;
}

/* Whoever makes a pod says what its owner is: it becomes a part of a path. */
static bool uid_is_plain(struct str uid)
{
    for (size_t i = 0; i < uid.len; i++)
        if (!strchr("0123456789abcdefABCDEF-", uid.p[i]) || !uid.p[i])
            return false;
    return uid.len > 0;
}

bool results_burial_prepare(const struct pod *pod, struct results_burial *ret)
{
    const struct object_owner *owner = object_controller(pod->object);
    struct str generation = object_label(pod->object, GENERATION_LABEL);
    struct str volume = pod_folder_volume(pod);

    *ret = (struct results_burial){0};
    if (!owner || !str_is(owner->kind, "TorchrunJob") || owner->name.len >= sizeof(ret->job) ||
        owner->uid.len >= sizeof(ret->job_uid) || !uid_is_plain(owner->uid))
        return false;
    (void)snprintf(ret->job, sizeof(ret->job), STR_FMT, STR_ARG(owner->name));
    (void)snprintf(ret->job_uid, sizeof(ret->job_uid), STR_FMT, STR_ARG(owner->uid));
    if (str_is(object_label(pod->object, ROLE_LABEL), "sync"))
        return sync_burial_prepare(pod, owner, ret);
    if (!generation.len || !volume.len || !str_is(object_label(pod->object, ROLE_LABEL), "worker"))
        return false;
    (void)snprintf(ret->from, sizeof(ret->from), "%s/volumes/" STR_FMT, pod->folder,
                   STR_ARG(volume));
    (void)snprintf(ret->all, sizeof(ret->all), "%s/" RESULTS_KEPT_FOLDER,
                   pod->agent->options.data_dir);
    (void)snprintf(ret->name, sizeof(ret->name), STR_FMT "_" STR_FMT "_" STR_FMT "_" STR_FMT,
                   STR_ARG(pod->ns), STR_ARG(pod->name), STR_ARG(generation), STR_ARG(owner->uid));
    ret->settled = object_annotation(pod->object, RESULTS_ANNOTATION).len > 0;
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

/* What is as it was shipped goes. False: nothing is left that the pod wrote. */
static bool strip_shipped(const char *folder)
{
    struct results *results;
    size_t written = 0;
    int r = 1;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return false;
    results = results_new(fd, &(struct results_request){.list = true, .strip = true});
    while (r == 1) {
        _cleanup_(buf_done) struct buf out = {0};

        r = results_turn(results, &out, NULL);
        written += out.len > EMPTY_BYTES;
    }
    results_free(results);
    return written || r < 0; /* of what cannot be read to its end, all is kept */
}

/* A pod of the same name and generation was before it, as in an elastic job: what that one wrote stays, in a folder
 * of what this one wrote. */
static void keep_earlier(const char *older, const char *path, struct trash *trash)
{
    char from[BURIAL_PATH + 32];
    char to[BURIAL_PATH + 32];

    (void)snprintf(from, sizeof(from), "%s/" VOLUME, older);
    for (int i = 1; i <= EARLIER_MAX; i++) {
        (void)snprintf(to, sizeof(to), "%s/" VOLUME "/" RESULTS_EARLIER "%d", path, i);
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 || errno != EEXIST)
            break;
    }
    trash_put(trash, older);
}

void results_burial_run(const struct results_burial *burial, struct trash *trash)
{
    char path[BURIAL_PATH];
    char older[BURIAL_PATH];

    if (!burial->from[0])
        return;
    if (burial->claim || burial->strip) {
        if (burial->strip)
            (void)strip_shipped(burial->from);
        return;
    }
    if (!burial->job_is_there && burial->settled) {
        kept_drop_job(burial, trash);
        return;
    }
    if (!strip_shipped(burial->from))
        return;
    (void)snprintf(path, sizeof(path), "%s/%s", burial->all, burial->name);
    (void)snprintf(older, sizeof(older), "%s/%s.older", burial->all, burial->name);
    bool second = rename(path, older) == 0;
    if (files_make_folder(path, 0700, NULL) < 0)
        return;
    char volume[BURIAL_PATH + 8];
    (void)snprintf(volume, sizeof(volume), "%s/" VOLUME, path);
    if (rename(burial->from, volume) < 0) { /* a mount, or there is none: nothing to keep */
        (void)rmdir(path);
        if (second)
            (void)rename(older, path);
    } else if (second) {
        keep_earlier(older, path, trash);
    }
}

/* ---- how much is kept ---- */

struct kept_folder {
    struct timespec at;
    int64_t said_ms; /* when it was named; 0: it was not */
    uint64_t bytes;
    char name[NAME_MAX + 1];
};
struct kept_folders VEC_FIELDS(struct kept_folder);

/* By namespace, the newest first. */
static int folder_order(const void *a, const void *b)
{
    const struct kept_folder *x = a, *y = b;
    size_t len = strcspn(x->name, "_") + 1;
    int order = strncmp(x->name, y->name, len);

    if (order != 0)
        return order;
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

static struct kept_folders kept_look(const char *all)
{
    struct kept_folders items = {0};
    DIR *folder = opendir(all);

    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct kept_folder item = {0};
        struct stat st;
        char said[NAME_MAX + sizeof("/" SAID)];

        if (e->d_name[0] == '.' || fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        (void)snprintf(item.name, sizeof(item.name), "%s", e->d_name);
        item.at = st.st_mtim;
        (void)snprintf(said, sizeof(said), "%s/" SAID, e->d_name);
        if (fstatat(dirfd(folder), said, &st, AT_SYMLINK_NOFOLLOW) == 0)
            item.said_ms = (int64_t)st.st_mtim.tv_sec * 1000;
        item.bytes = tree_bytes(
            openat(dirfd(folder), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
            DEPTH_MAX);
        VEC_PUSH(NULL, &items, item);
    }
    if (folder)
        closedir(folder);
    if (items.count)
        qsort(items.items, items.count, sizeof(items.items[0]), folder_order);
    return items;
}

/* A file in its folder says that it was named, and when; the folder's own time stays the one it was kept at. */
static bool folder_say(const char *path, const struct kept_folder *item, int64_t now_ms)
{
    struct timespec at[2] = {item->at, item->at};
    struct timespec now[2] = {{.tv_sec = now_ms / 1000}, {.tv_sec = now_ms / 1000}};
    char said[RESULTS_KEPT_PATH + NAME_MAX + 32];

    (void)snprintf(said, sizeof(said), "%s/" SAID, path);
    int fd = open(said, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    (void)futimens(fd, now);
    close(fd);
    (void)utimensat(AT_FDCWD, path, at, AT_SYMLINK_NOFOLLOW);
    return true;
}

size_t results_kept_prune(const char *all,
                          const struct results_kept_limits *limits,
                          struct results_said said[RESULTS_KEPT_SAID_MAX],
                          struct trash *trash)
{
    struct kept_folders items = kept_look(all);
    uint64_t bytes = 0;
    size_t count = 0;

    for (size_t i = 0; i < items.count; i++) {
        const struct kept_folder *item = &items.items[i];
        int64_t age_ms = limits->now_ms - (int64_t)item->at.tv_sec * 1000;
        size_t ns_len = strcspn(item->name, "_") + 1;
        char path[RESULTS_KEPT_PATH + NAME_MAX + 2];

        if (i && strncmp(item->name, items.items[i - 1].name, ns_len) != 0)
            bytes = 0; /* another namespace */
        bytes += item->bytes;
        bool too_much = bytes > limits->bytes;
        if (!too_much && age_ms < RESULTS_KEPT_AGE_MS - RESULTS_KEPT_NOTICE_MS)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", all, item->name);
        if (item->said_ms && limits->now_ms - item->said_ms >= RESULTS_KEPT_NOTICE_MS) {
            trash_put(trash, path);
            continue;
        }
        if (item->said_ms || count == RESULTS_KEPT_SAID_MAX ||
            !folder_say(path, item, limits->now_ms))
            continue;
        said[count] = (struct results_said){.bytes = item->bytes, .too_much = too_much};
        (void)snprintf(said[count++].name, RESULTS_KEPT_NAME, "%s", item->name);
    }
    VEC_DONE(&items);
    return count;
}

/* "namespace_pod_generation_uid" of what is meant: its generation, else -1. */
static int64_t name_generation(struct str name, const struct results_kept_request *request)
{
    struct str ns, pod, generation;
    int64_t number = -1;

    if (!str_cut(&name, '_', &ns) || !str_cut(&name, '_', &pod) ||
        !str_cut(&name, '_', &generation) || !str_eq(ns, request->ns) ||
        !str_eq(pod, request->pod) || (request->job_uid.len && !str_eq(name, request->job_uid)))
        return -1;
    if (!str_to_i64(generation, &number) || !(str_is(request->generation, RESULTS_NEWEST_WORD) ||
                                              str_eq(request->generation, generation)))
        return -1;
    return number;
}

/* The newest that is meant: of one job by its generation, of several the one that was kept last. */
static void kept_newest(const char *all,
                        const struct results_kept_request *request,
                        char name[NAME_MAX + 1])
{
    DIR *folder = opendir(all);
    struct timespec best_at = {0};
    int64_t best = -1;

    name[0] = '\0';
    for (struct dirent *e; folder && (e = readdir(folder));) {
        int64_t generation = name_generation(str_from(e->d_name), request);
        struct stat st;

        if (generation < 0 || fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        bool later = st.st_mtim.tv_sec > best_at.tv_sec ||
                     (st.st_mtim.tv_sec == best_at.tv_sec && st.st_mtim.tv_nsec > best_at.tv_nsec);
        if (request->job_uid.len ? generation <= best : !later)
            continue;
        best = generation;
        best_at = st.st_mtim;
        (void)snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    }
    if (folder)
        closedir(folder);
}

int results_kept_open(const char *data_dir, const struct results_kept_request *request)
{
    char path[RESULTS_KEPT_PATH];
    struct str words[] = {request->ns, request->pod, request->generation, request->job_uid};

    bool search = !request->job_uid.len || str_is(request->generation, RESULTS_NEWEST_WORD);
    char name[NAME_MAX + 1] = "";

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if ((!words[i].len && i != 3) || str_find(words[i], '/') < words[i].len ||
            str_find(words[i], '_') < words[i].len)
            return -ENOENT;
    int n = snprintf(path, sizeof(path), "%s/" RESULTS_KEPT_FOLDER, data_dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return -ENAMETOOLONG;
    if (search)
        kept_newest(path, request, name);
    else
        (void)snprintf(name, sizeof(name), STR_FMT "_" STR_FMT "_" STR_FMT "_" STR_FMT,
                       STR_ARG(request->ns), STR_ARG(request->pod), STR_ARG(request->generation),
                       STR_ARG(request->job_uid));
    if (!name[0])
        return -ENOENT;
    n = snprintf(path, sizeof(path), "%s/" RESULTS_KEPT_FOLDER "/%s", data_dir, name);
    if (n < 0 || (size_t)n >= sizeof(path) - sizeof("/" VOLUME))
        return -ENAMETOOLONG;
    if (!agent_is_since(path, request->since_ms))
        return -ENOENT;
    (void)snprintf(path + n, sizeof(path) - (size_t)n, "/" VOLUME);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
