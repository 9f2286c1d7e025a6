#include "agent/volume.h"

#include "agent/core.h"
#include "agent/env.h"
#include "agent/host_path.h"
#include "agent/machine.h"
#include "agent/people.h"
#include "agent/pod.h"
#include "agent/token.h"
#include "api/folder.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "shim/record.h"
#include "tool/files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files of ConfigMaps and Secrets follow their objects while the pod runs; those of the downward
 * API are written when it starts. */
#define FILE_MODE 0644
/* Of one pod's volumes: they are written in one turn of the loop, and each is a file on the disk.
 * ConfigMaps that people write have tens of keys. */
#define FILES_MAX 4096

struct paths {
    VEC(struct str) list;
};

struct content {
    struct pod *pod;
    struct arena *arena;
    struct env_context context;
    const char *folder; /* the volume */
    mode_t mode;
    uid_t uid; /* who the files belong to */
    gid_t gid;
    bool person;           /* the pod runs as one, whatever its image says */
    bool grouped;          /* fsGroup: the group reads them all */
    struct paths *written; /* what was written so far */
};

static const char *volume_folder(struct arena *arena, const struct pod *pod, struct str name)
{
    return str_c(arena, str_printf(arena, "%s/volumes/" STR_FMT, pod->folder, STR_ARG(name)));
}

/* A key may name a path ("a/b"), but never leave the volume. */
static bool path_is_inside(struct str path)
{
    struct str rest = path, part;
    if (!path.len || path.p[0] == '/')
        return false;
    while (str_cut(&rest, '/', &part))
        if (str_is(part, ".."))
            return false;
    return true;
}

static int put_file(const struct content *content,
                    struct str path,
                    struct str bytes,
                    mode_t mode,
                    struct err *err)
{
    if (!path_is_inside(path))
        return err_set(err, -EINVAL, "path " STR_FMT ": must stay inside the volume",
                       STR_ARG(path));
    if (content->written->list.count == FILES_MAX)
        return err_set(err, -ENOTSUP,
                       "the volumes of a pod have at most %d files of ConfigMaps, Secrets and the "
                       "like; name the keys it needs in items, or mount fewer",
                       FILES_MAX);
    VEC_PUSH(content->arena, &content->written->list, path);
    char *full = str_c(content->arena,
                       str_printf(content->arena, "%s/" STR_FMT, content->folder, STR_ARG(path)));
    char *slash = strrchr(full, '/');
    *slash = '\0';
    int r = files_make_folder(full, 0755, err);
    *slash = '/';
    /* Written beside it and renamed: a reader sees the old file or the new one, never half. */
    char *next = str_c(content->arena, str_printf(content->arena, "%s..new", full));
    if (r == 0)
        r = files_write(next, bytes, content->grouped ? mode | 0440 : mode, err);
    if (r == 0 && content->pod->agent->machine.root && chown(next, content->uid, content->gid) < 0)
        return err_set(err, -errno, "cannot give %s to the pod's user", full);
    if (r == 0 && rename(next, full) < 0)
        r = err_set(err, -errno, "cannot write %s: %s", full, strerrordesc_np(errno));
    return r;
}

static mode_t mode_of(const struct json *value, mode_t otherwise)
{
    return (mode_t)json_i64_or(value, (int64_t)otherwise) & 0777;
}

static int put_key(const struct content *content,
                   const struct json *member,
                   bool encoded,
                   const struct json *item,
                   struct err *err)
{
    struct str bytes = json_str(member);

    if (encoded && !base64_decode(content->arena, bytes, &bytes))
        return 0;
    return item ? put_file(content, json_str(json_get(item, "path")), bytes,
                           mode_of(json_get(item, "mode"), content->mode), err)
                : put_file(content, json_key(member), bytes, content->mode, err);
}

/* The keys of a ConfigMap or Secret as files: all of them, or those that items names. */
static int put_keys(const struct content *content,
                    const struct kind *kind,
                    struct str name,
                    const struct json *source,
                    struct err *err)
{
    struct arena *arena = content->arena;
    bool optional = json_bool_or(json_get(source, "optional"), false);
    const struct object *object = cache_get(content->context.cache, kind, content->pod->ns, name);
    if (!object)
        return optional ? 0
                        : err_set(err, -EAGAIN, "%s \"" STR_FMT "\" not found", kind->singular,
                                  STR_ARG(name));
    arena_defer(arena, object_release, object_ref(object));
    const struct json *root = object_json(object, arena), *items = json_get(source, "items");
    static const char *const maps[] = {"data", "binaryData"};
    int r = 0;
    for (size_t m = 0; m < 2; m++) {
        const struct json *data = json_get(root, maps[m]);
        _cleanup_(json_names_done) struct json_names names = {.object = data};
        bool encoded = kind == &kind_secret || m == 1;

        JSON_FOREACH(items, item) {
            const struct json *member = json_names_get(&names, json_str(json_get(item, "key")));
            if (r == 0 && member)
                r = put_key(content, member, encoded, item, err);
        }
        if (!items)
            JSON_FOREACH(data, member)
                if (r == 0)
                    r = put_key(content, member, encoded, NULL, err);
    }
    return r;
}

static int put_fields(const struct content *content, const struct json *items, struct err *err)
{
    JSON_FOREACH(items, item) {
        const struct json *resource = json_get(item, "resourceFieldRef");
        struct str value;
        int r = resource
                    ? env_resource(content->arena, &content->context, NULL, resource, &value, err)
                    : env_field(content->arena, &content->context,
                                json_str_at(item, "fieldRef.fieldPath"), &value, err);
        if (r == 0)
            r = put_file(content, json_str(json_get(item, "path")), value,
                         mode_of(json_get(item, "mode"), content->mode), err);
        if (r)
            return r;
    }
    return 0;
}

/* As the kubelet does: one user's own where all containers have that user, else everybody's in the
 * pod. A group (fsGroup) reads it in any case. */
mode_t volume_token_mode(const struct json *spec, int64_t *uid)
{
    static const char *const lists[] = {"initContainers", "containers"};
    const struct json *shared = json_at(spec, "securityContext.runAsUser");
    int64_t usual = *uid, only = -1;

    if (!json_is_null(json_at(spec, "securityContext.fsGroup")))
        return 0600;
    for (size_t l = 0; l < COUNT_OF(lists); l++)
        JSON_FOREACH(json_get(spec, lists[l]), container) {
            const struct json *own = json_at(container, "securityContext.runAsUser");
            int64_t its = json_i64_or(json_is_null(own) ? shared : own, usual);

            if (its < 0 || its >= UINT32_MAX || (only >= 0 && only != its))
                return FILE_MODE;
            only = its;
        }
    if (only >= 0)
        *uid = only;
    return 0600;
}

static int put_token(const struct content *content, const struct json *part, struct err *err)
{
    _cleanup_(buf_done) struct buf token = {0};
    int r = token_sign(content->pod, json_str(json_get(part, "audience")), &token, err);
    if (r)
        return r;
    struct content its = *content;
    /* Whom an image runs as who does not say is known to the image. */
    bool unknown = content->pod->agent->options.images_oci && !content->person;
    int64_t uid = unknown ? -1 : (int64_t)content->uid;
    mode_t mode = volume_token_mode(json_get(content->pod->root, "spec"), &uid);
    its.uid = uid < 0 ? content->uid : (uid_t)uid;
    return put_file(&its, json_str(json_get(part, "path")), buf_str(&token), mode, err);
}

static int put_projected(const struct content *content, const struct json *sources, struct err *err)
{
    JSON_FOREACH(sources, source) {
        const struct json *part;
        int r = 0;
        if ((part = json_get(source, "configMap")))
            r = put_keys(content, &kind_configmap, json_str(json_get(part, "name")), part, err);
        else if ((part = json_get(source, "secret")))
            r = put_keys(content, &kind_secret, json_str(json_get(part, "name")), part, err);
        else if ((part = json_get(source, "downwardAPI")))
            r = put_fields(content, json_get(part, "items"), err);
        else if ((part = json_get(source, "serviceAccountToken")))
            r = put_token(content, part, err);
        if (r)
            return r;
    }
    return 0;
}

/* ---- volumes that are folders ---- */

const char *volume_claim_folder(struct arena *arena,
                                const struct agent *agent,
                                const struct object *claim)
{
    return str_c(arena, str_printf(arena, "%s/volumes/" STR_FMT "_" STR_FMT "_" STR_FMT,
                                   agent->options.data_dir, STR_ARG(claim->ns),
                                   STR_ARG(claim->name), STR_ARG(claim->uid)));
}

void volume_claim_gone(struct agent *agent, const struct object *claim)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str name = json_str_at(object_json(claim, &arena), "spec.volumeName");
    const struct object *volume =
        name.len ? cache_get(agent->cache, &kind_pv, STR(""), name) : NULL;
    struct str policy = json_str_at(volume ? object_json(volume, &arena) : NULL,
                                    "spec.persistentVolumeReclaimPolicy");
    /* Retain: the folder is the administrator's to look at, and to remove. */
    if (!str_is(policy, "Retain"))
        agent_discard(agent, volume_claim_folder(&arena, agent, claim));
}

static const struct object *claim_of(struct arena *arena,
                                     const struct pod *pod,
                                     const struct json *volume)
{
    struct str claim = json_str_at(volume, "persistentVolumeClaim.claimName");
    if (json_get(volume, "ephemeral"))
        claim = str_printf(arena, STR_FMT "-" STR_FMT, STR_ARG(pod->name),
                           STR_ARG(json_str(json_get(volume, "name"))));
    return cache_get(pod->agent->cache, &kind_pvc, pod->ns, claim);
}

/* What a claim is here: *ret_path, a path of the machine (as the source of a hostPath) where its
 * PersistentVolume says so, else NULL: a folder of ours. */
static int claim_path(struct arena *arena,
                      const struct pod *pod,
                      const struct object *claim,
                      const struct json **ret_path,
                      struct err *err)
{
    struct str name = json_str_at(object_json(claim, arena), "spec.volumeName");
    const struct object *volume =
        name.len ? cache_get(pod->agent->cache, &kind_pv, STR(""), name) : NULL;
    const struct json *spec = volume ? json_get(object_json(volume, arena), "spec") : NULL;
    const struct json *local = json_get(spec, "local");

    if (!spec) /* what it will be is not known: a folder of ours would be the wrong one */
        return err_set(err, -EAGAIN, "persistentvolumeclaim \"" STR_FMT "\" is not bound%s" STR_FMT,
                       STR_ARG(claim->name),
                       name.len ? " to a PersistentVolume that is there: " : "", STR_ARG(name));
    *ret_path = json_get(spec, "hostPath");
    if (local)
        *ret_path =
            json_make(arena, "{path: $, type: 'Directory'}", json_str(json_get(local, "path")));
    if (*ret_path || str_is(json_str_at(spec, "csi.driver"), FOLDER_DRIVER))
        return 0;
    return err_set(err, -ENOTSUP,
                   "PersistentVolume " STR_FMT " is neither a hostPath nor a local path: this node "
                   "has those, and the folders that it makes for claims of a class whose "
                   "provisioner is " FOLDER_PROVISIONER,
                   STR_ARG(name));
}

/* Open to every user: who may use a volume is decided by who may mount it. */
static int folder_make_open(struct pod *pod, const char *path, struct err *err)
{
    const struct machine *machine = &pod->agent->machine;
    int64_t group = json_i64_or(json_at(pod->root, "spec.securityContext.fsGroup"), machine->gid);
    struct stat st;
    if (stat(path, &st) == 0)
        return 0;
    int r = files_make_folder(path, 0777, err);
    if (r)
        return r;
    if (machine->root && chown(path, machine->uid, (gid_t)group) < 0)
        return err_set(err, -errno, "cannot give %s to the pod's user", path);
    if (chmod(path, 02777) < 0)
        return err_set(err, -errno, "cannot open %s to the pod's user", path);
    return 0;
}

/* Her files are hers; other pods have the machine's user, and the group that the pod names. */
static void content_own(struct content *content)
{
    const struct pod *pod = content->pod;
    struct person person;
    int64_t gid = 0;

    content->uid = pod->agent->machine.uid;
    content->gid = pod->agent->machine.gid;
    if (people_find(pod, &person) && person.uid > 0 && person.gid > 0) {
        content->uid = (uid_t)person.uid;
        content->gid = (gid_t)person.gid;
        content->person = true;
    }
    content->grouped = json_i64(json_at(pod->root, "spec.securityContext.fsGroup"), &gid) &&
                       gid >= 0 && gid < UINT32_MAX;
    if (content->grouped)
        content->gid = (gid_t)gid;
}

static bool items_follow_pod(const struct json *items)
{
    JSON_FOREACH(items, item) {
        struct str field = json_str_at(item, "fieldRef.fieldPath");
        if (str_starts(field, STR("metadata.labels")) ||
            str_starts(field, STR("metadata.annotations")))
            return true;
    }
    return false;
}

/* Does it have what changes with the pod itself? */
static bool volume_follows_pod(const struct json *volume)
{
    if (items_follow_pod(json_at(volume, "downwardAPI.items")))
        return true;
    JSON_FOREACH(json_at(volume, "projected.sources"), source)
        if (items_follow_pod(json_at(source, "downwardAPI.items")))
            return true;
    return false;
}

static int volume_make(struct pod *pod,
                       struct arena *arena,
                       const struct json *volume,
                       struct paths *written,
                       struct err *err)
{
    struct content content = {.pod = pod, .arena = arena, .mode = FILE_MODE, .written = written};
    content.folder = volume_folder(arena, pod, json_str(json_get(volume, "name")));
    pod_env_context(pod, &content.context);
    if (volume_follows_pod(volume))
        content.context.pod = object_json(pod->object, arena);
    content_own(&content);
    const struct json *source;
    if (json_get(volume, "emptyDir"))
        return folder_make_open(pod, content.folder, err);
    if (json_get(volume, "persistentVolumeClaim") || json_get(volume, "ephemeral")) {
        const struct object *claim = claim_of(arena, pod, volume);
        if (!claim)
            return err_set(err, -EAGAIN, "persistentvolumeclaim \"" STR_FMT "\" not found",
                           STR_ARG(json_str_at(volume, "persistentVolumeClaim.claimName")));
        int r = claim_path(arena, pod, claim, &source, err);
        return r        ? r
               : source ? host_path_make(pod, source, arena, err)
                        : folder_make_open(pod, volume_claim_folder(arena, pod->agent, claim), err);
    }
    if ((source = json_get(volume, "hostPath")))
        return host_path_make(pod, source, arena, err);
    int r = files_make_folder(content.folder, 0755, err);
    if (r)
        return r;
    if ((source = json_get(volume, "configMap"))) {
        content.mode = mode_of(json_get(source, "defaultMode"), FILE_MODE);
        return put_keys(&content, &kind_configmap, json_str(json_get(source, "name")), source, err);
    }
    if ((source = json_get(volume, "secret"))) {
        content.mode = mode_of(json_get(source, "defaultMode"), FILE_MODE);
        return put_keys(&content, &kind_secret, json_str(json_get(source, "secretName")), source,
                        err);
    }
    if ((source = json_get(volume, "projected"))) {
        content.mode = mode_of(json_get(source, "defaultMode"), FILE_MODE);
        return put_projected(&content, json_get(source, "sources"), err);
    }
    if ((source = json_get(volume, "downwardAPI"))) {
        content.mode = mode_of(json_get(source, "defaultMode"), FILE_MODE);
        return put_fields(&content, json_get(source, "items"), err);
    }
    return err_set(
        err, -ENOTSUP,
        "this node has emptyDir, hostPath, configMap, secret, projected, downwardAPI and "
        "persistentVolumeClaim volumes only");
}

static struct str memory_options(struct arena *arena, const struct json *empty)
{
    int64_t bytes = 0;
    if (quantity_whole_json(json_get(empty, "sizeLimit"), &bytes, NULL) == 0 && bytes > 0)
        return str_printf(arena, "mode=1777,size=%lld", (long long)bytes);
    return STR("mode=1777");
}

void volume_add_memory(struct pod *pod, struct buf *records)
{
    _cleanup_(arena_done) struct arena arena = {0};
    JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume) {
        const struct json *empty = json_get(volume, "emptyDir");
        if (!str_is(json_str(json_get(empty, "medium")), "Memory"))
            continue;
        struct str name = json_str(json_get(volume, "name"));
        record_add(records, "tmpfs.options", memory_options(&arena, empty));
        record_add(records, "tmpfs", str_printf(&arena, "volumes/" STR_FMT, STR_ARG(name)));
    }
}

int volume_make_all(struct pod *pod, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct paths written = {0};
    JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume) {
        int r = volume_make(pod, &arena, volume, &written, err);
        if (r)
            return err_wrap(err, r, "volume " STR_FMT, STR_ARG(json_str(json_get(volume, "name"))));
    }
    return 0;
}

/* ---- objects that change while pods use them ---- */

static bool volume_refers_to(const struct json *volume, const struct object *object)
{
    bool secret = object->kind == &kind_secret;
    const char *kind = secret ? "secret" : "configMap";
    if (str_eq(json_str(json_get(json_get(volume, kind), secret ? "secretName" : "name")),
               object->name))
        return true;
    JSON_FOREACH(json_at(volume, "projected.sources"), source)
        if (str_eq(json_str(json_get(json_get(source, kind), "name")), object->name))
            return true;
    return false;
}

void volume_refresh_fields(struct pod *pod)
{
    JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct paths written = {0};
        if (pod->stage == POD_RUNNING && volume_follows_pod(volume))
            (void)volume_make(pod, &arena, volume, &written, NULL);
    }
}

/* Keys that are gone; those in folders of their own stay until the pod goes. */
static void volume_remove_stale(const char *path, const struct paths *written)
{
    _cleanup_(map_done) struct map names = {.seed = (uintptr_t)written};
    for (size_t i = 0; i < written->list.count; i++)
        (void)map_set(&names, written->list.items[i], &written->list.items[i]);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_type == DT_REG && !map_get(&names, str_from(entry->d_name)))
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

void volume_refresh(struct agent *agent, const struct object *object)
{
    MAP_FOREACH(&agent->pods, entry) {
        struct pod *pod = entry->value;
        if (!str_eq(pod->ns, object->ns))
            continue;
        if (pod->stage == POD_NEW && str_is(pod->waiting_reason, "FailedMount")) {
            pod->retry_ms = 0;
            pod_mark(pod);
        }
        if (pod->stage != POD_RUNNING || object->kind == &kind_serviceaccount)
            continue;
        JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume) {
            _cleanup_(arena_done) struct arena arena = {0};
            struct paths written = {0};
            if (volume_refers_to(volume, object) &&
                volume_make(pod, &arena, volume, &written, NULL) == 0)
                volume_remove_stale(volume_folder(&arena, pod, json_str(json_get(volume, "name"))),
                                    &written);
        }
    }
}

/* ---- mounts ---- */

static const struct json *volume_named(const struct pod *pod, struct str name)
{
    JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume)
        if (str_eq(json_str(json_get(volume, "name")), name))
            return volume;
    return NULL;
}

static int volume_mount(struct pod *pod,
                        struct arena *arena,
                        const struct json *wanted,
                        struct env *env,
                        struct buf *records,
                        struct err *err)
{
    struct str name = json_str(json_get(wanted, "name"));
    const struct json *volume = volume_named(pod, name), *empty = json_get(volume, "emptyDir");
    bool read_only = json_bool_or(json_get(wanted, "readOnly"), false) ||
                     json_bool_or(json_at(volume, "persistentVolumeClaim.readOnly"), false);
    struct record_mount mount = {.type = "bind",
                                 .target = json_str(json_get(wanted, "mountPath")),
                                 .sub = json_str(json_get(wanted, "subPath")),
                                 .options = read_only ? STR("rec,ro") : STR("rec")};
    struct str expression = json_str(json_get(wanted, "subPathExpr"));
    int r = expression.len ? env_expand(arena, env, expression, &mount.sub, err) : 0;
    if (r)
        return r;
    /* What a variable says may be mended while the pod waits; what the spec says cannot. */
    if (mount.sub.len && !path_is_inside(mount.sub))
        return err_set(err, expression.len ? -EAGAIN : -EINVAL,
                       "subPath " STR_FMT ": must be relative and without ..", STR_ARG(mount.sub));
    if (!volume)
        return err_set(err, -EINVAL, "no volume of that name in spec.volumes");
    if (json_get(volume, "hostPath")) {
        host_path_mount(pod, json_get(volume, "hostPath"), arena, &mount);
    } else if (json_get(volume, "persistentVolumeClaim") || json_get(volume, "ephemeral")) {
        const struct object *claim = claim_of(arena, pod, volume);
        const struct json *path = NULL;
        if (!claim)
            return err_set(err, -EAGAIN, "its persistentVolumeClaim was deleted");
        r = claim_path(arena, pod, claim, &path, err);
        if (r)
            return r;
        if (path)
            host_path_mount(pod, path, arena, &mount);
        else
            mount.source = str_from(volume_claim_folder(arena, pod->agent, claim));
    } else {
        mount.source = str_from(volume_folder(arena, pod, name));
        bool files = !empty;
        mount.options = files || read_only ? STR("ro") : STR("");
    }
    record_mount(records, &mount);
    return 0;
}

int volume_mount_all(struct pod *pod,
                     const struct json *container,
                     struct env *env,
                     struct buf *records,
                     struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    JSON_FOREACH(json_get(container, "volumeMounts"), wanted) {
        int r = volume_mount(pod, &arena, wanted, env, records, err);
        if (r)
            return err_wrap(err, r, "volumeMount " STR_FMT,
                            STR_ARG(json_str(json_get(wanted, "name"))));
    }
    return 0;
}
