#include "api/object.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/job.h"
#include "control/torchrun.h"
#include "control/torchrun_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Volumes of a TorchrunJob: the workspace is the job's own; datasets and checkpoints belong to the
 * queue, are shared by its jobs and outlive them. */

#define SIZE_DEFAULT ((int64_t)1 << 30) /* of a claim that says nothing: 1Gi */

/* storage.<what>.<field>, of the job or the queue. */
static const struct json *field(const struct torchrun *t, const char *what, const char *name)
{
    char path[64];
    struct str parts[] = {STR("storage."), str_from(what), STR("."), str_from(name)};
    size_t len = 0;

    for (size_t i = 0; i < 4; i++) {
        if (len + parts[i].len >= sizeof(path))
            return NULL;
        memcpy(path + len, parts[i].p, parts[i].len);
        len += parts[i].len;
    }
    path[len] = '\0';
    return torchrun_pick(t, path);
}

static int64_t claim_bytes(const struct torchrun *t, const char *what, int64_t gpus)
{
    int64_t bytes = 0;

    if (quantity_whole_json(field(t, what, "size"), &bytes, NULL) == 0 && bytes > 0)
        return bytes;
    if (quantity_whole_json(field(t, what, "sizePerGPU"), &bytes, NULL) == 0 && bytes > 0)
        return bytes * (gpus > 0 ? gpus : 1);
    if (str_is(str_from(what), "workspace") &&
        quantity_whole_json(torchrun_pick(t, "workspaceStorage.size"), &bytes, NULL) == 0 &&
        bytes > 0)
        return bytes;
    return SIZE_DEFAULT;
}

static struct str claim_class(const struct torchrun *t, const char *what)
{
    struct str class = json_str(field(t, what, "storageClass"));

    if (!class.len)
        class = json_str(field(t, what, "storageClassName"));
    if (!class.len && str_is(str_from(what), "workspace"))
        class = torchrun_pick_str(t, "workspaceStorage.storageClass");
    return class;
}

static struct json *claim_spec(struct torchrun *t, const char *what, int64_t gpus, const char *mode)
{
    struct json *spec = json_new_object(t->arena);
    const struct json *modes = field(t, what, "accessModes");
    struct str class = claim_class(t, what);

    if (json_count(modes))
        json_set(spec, STR("accessModes"), json_clone(t->arena, modes));
    else
        json_push(json_add_array(t->arena, spec, "accessModes"),
                  json_new_str(t->arena, str_from(mode)));
    if (class.len)
        json_add_str(t->arena, spec, "storageClassName", class);
    json_add_str(
        t->arena, json_make_path(t->arena, spec, "resources.requests"), "storage",
        quantity_text(t->arena, (struct quantity){(__int128)claim_bytes(t, what, gpus) * 1000000000,
                                                  QUANTITY_BINARY}));
    return spec;
}

static void add_volume(struct arena *arena, struct json *spec, const char *name, struct str claim)
{
    struct json *volumes = json_get(spec, "volumes");
    struct json *volume = json_push(volumes, json_new_object(arena));

    json_add_c(arena, volume, "name", name);
    if (claim.len)
        json_add_str(arena, json_add_object(arena, volume, "persistentVolumeClaim"), "claimName",
                     claim);
    else
        json_add_object(arena, volume, "emptyDir");
}

static void add_mount(struct arena *arena,
                      struct json *spec,
                      const char *name,
                      struct str path,
                      bool read_only)
{
    JSON_FOREACH(json_get(spec, "containers"), container) {
        if (!str_is(json_str(json_get(container, "name")), TORCHRUN_TRAINER))
            continue;
        struct json *mount = json_push(json_get(container, "volumeMounts"), json_new_object(arena));
        json_add_c(arena, mount, "name", name);
        json_add_str(arena, mount, "mountPath", path);
        if (read_only)
            json_add_bool(arena, mount, "readOnly", true);
        struct json *env = json_push(json_get(container, "env"), json_new_object(arena));
        json_add_str(arena, env, "name",
                     str_is(str_from(name), "datasets") ? STR("DATASET_DIR")
                                                        : STR("CHECKPOINT_DIR"));
        json_add_str(arena, env, "value", path);
    }
}

/* A volume that the queue's jobs share. */
static void make_shared(struct torchrun *t,
                        struct job_model *model,
                        const char *what,
                        const char *mount_path)
{
    struct str existing = json_str(field(t, what, "existingClaim"));
    struct str path = json_str(field(t, what, "mountPath"));
    bool keep = json_bool_or(field(t, what, "persist"), true);

    if (!json_bool_or(field(t, what, "enabled"), existing.len > 0))
        return;
    struct job_claim claim = {.what = what, .keep = keep, .name = existing};
    if (!existing.len) {
        claim.name =
            str_printf(t->arena, STR_FMT "-%s", STR_ARG(keep ? t->queue_name : t->job->name), what);
        claim.spec = claim_spec(t, what, t->gpus_total, "ReadWriteMany");
    }
    VEC_PUSH(t->arena, &model->claims, claim);
    add_volume(t->arena, t->worker->pod_spec, what, claim.name);
    add_mount(t->arena, t->worker->pod_spec, what, path.len ? path : str_from(mount_path),
              str_is(str_from(what), "datasets"));
}

static void make_workspace(struct torchrun *t, struct job_model *model)
{
    struct str existing = json_str(field(t, "workspace", "existingClaim"));
    bool enabled = json_bool_or(field(t, "workspace", "enabled"),
                                torchrun_pick(t, "workspaceStorage") != NULL);
    struct job_claim claim = {.what = "workspace",
                              .name = existing,
                              .keep = json_bool_or(field(t, "workspace", "persist"), false)};

    /* The ranks work on a copy of their own, so that one volume needs only one writer. */
    add_volume(t->arena, t->worker->pod_spec, "workspace", STR_NONE);
    JSON_FOREACH(json_get(t->worker->pod_spec, "containers"), container) {
        if (!str_is(json_str(json_get(container, "name")), TORCHRUN_TRAINER))
            continue;
        struct json *mount =
            json_push(json_get(container, "volumeMounts"), json_new_object(t->arena));
        json_add_c(t->arena, mount, "name", "workspace");
        json_add_str(t->arena, mount, "mountPath", t->mount_path);
    }
    if (!enabled && !t->host_workspace && !existing.len) {
        if (model->sync_spec)
            add_volume(t->arena, model->sync_spec, "workspace", STR_NONE);
        return;
    }
    if (!existing.len) {
        claim.name = str_printf(t->arena, STR_FMT "-workspace", STR_ARG(t->job->name));
        claim.spec = claim_spec(t, "workspace", t->gpus_total, "ReadWriteOnce");
    }
    VEC_PUSH(t->arena, &model->claims, claim);
    if (model->sync_spec)
        add_volume(t->arena, model->sync_spec, "workspace", claim.name);
}

void torchrun_make_storage(struct torchrun *t, struct job_model *model)
{
    make_workspace(t, model);
    make_shared(t, model, "datasets", "/datasets");
    make_shared(t, model, "checkpoints", "/checkpoints");
}
