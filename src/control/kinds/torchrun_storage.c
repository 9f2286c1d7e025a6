#include "api/launch.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/job/job.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Volumes of a TorchrunJob: the workspace is the job's own; datasets and checkpoints belong to the
 * queue, are shared by its jobs and outlive them. */

#define SIZE_DEFAULT ((int64_t)1 << 30) /* of a claim that says nothing: 1Gi */

static int64_t claim_bytes(const struct torchrun *t,
                           const struct torchrun_volume *volume,
                           int64_t gpus)
{
    if (volume->bytes > 0)
        return volume->bytes;
    if (volume->bytes_per_gpu > 0)
        return volume->bytes_per_gpu * (gpus > 0 ? gpus : 1);
    if (volume == &t->spec.workspace && t->spec.workspace_bytes > 0)
        return t->spec.workspace_bytes;
    return SIZE_DEFAULT;
}

static struct str claim_class(const struct torchrun *t, const struct torchrun_volume *volume)
{
    if (!volume->storage_class.len && volume == &t->spec.workspace)
        return t->spec.workspace_class;
    return volume->storage_class;
}

static struct json *claim_spec(struct torchrun *t,
                               const struct torchrun_volume *volume,
                               int64_t gpus,
                               const char *mode)
{
    struct json *spec = json_new_object(t->arena);
    struct str class = claim_class(t, volume);

    if (json_count(volume->access_modes))
        json_set(spec, STR("accessModes"), json_clone(t->arena, volume->access_modes));
    else
        json_push(json_add_array(t->arena, spec, "accessModes"),
                  json_new_str(t->arena, str_from(mode)));
    if (class.len)
        json_add_str(t->arena, spec, "storageClassName", class);
    json_add_str(t->arena, json_make_path(t->arena, spec, "resources.requests"), "storage",
                 quantity_text(t->arena, (struct quantity){(__int128)claim_bytes(t, volume, gpus) *
                                                               1000000000,
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
    struct json *trainer = torchrun_trainer(spec);
    struct json *mount = json_push(json_get(trainer, "volumeMounts"),
                                   json_make(arena, "{name: $, mountPath: $}", name, path));

    if (read_only)
        json_add_bool(arena, mount, "readOnly", true);
    json_push(json_get(trainer, "env"),
              json_make(arena, "{name: $, value: $}",
                        read_only ? STR("DATASET_DIR") : STR("CHECKPOINT_DIR"), path));
}

/* A volume that the queue's jobs share. */
static void make_shared(struct torchrun *t,
                        struct job_model *model,
                        const char *what,
                        const char *mount_path)
{
    bool datasets = str_is(str_from(what), "datasets");
    const struct torchrun_volume *volume = datasets ? &t->spec.datasets : &t->spec.checkpoints;
    struct str existing = volume->existing_claim;
    struct str path = volume->mount_path;
    bool keep = json_bool_or(volume->persist, true);

    if (!json_bool_or(volume->enabled, existing.len > 0))
        return;
    struct job_claim claim = {.what = what, .keep = keep, .name = existing};
    if (!existing.len) {
        claim.name =
            str_printf(t->arena, STR_FMT "-%s", STR_ARG(keep ? t->queue_name : t->job->name), what);
        claim.spec = claim_spec(t, volume, t->gpus_total, "ReadWriteMany");
        claim.queue = keep ? t->queue_name : STR_NONE;
    }
    VEC_PUSH(t->arena, &model->claims, claim);
    add_volume(t->arena, t->worker->pod_spec, what, claim.name);
    path = path.len ? path : str_from(mount_path);
    add_mount(t->arena, t->worker->pod_spec, what, path, datasets);
    if (!datasets)
        json_push(json_get(torchrun_trainer(t->worker->pod_spec), "env"),
                  json_make(t->arena, "{name: $, value: $}", LAUNCH_ENV_FENCE,
                            str_printf(t->arena, STR_FMT "/.muster-" STR_FMT, STR_ARG(path),
                                       STR_ARG(t->job->uid))));
}

static void make_workspace(struct torchrun *t, struct job_model *model)
{
    const struct torchrun_volume *volume = &t->spec.workspace;
    struct str existing = volume->existing_claim;
    bool enabled = json_bool_or(volume->enabled, t->spec.workspace_storage != NULL);
    struct job_claim claim = {
        .what = "workspace", .name = existing, .keep = json_bool_or(volume->persist, false)};

    /* The ranks work on a copy of their own, so that one volume needs only one writer. */
    add_volume(t->arena, t->worker->pod_spec, "workspace", STR_NONE);
    json_push(json_get(torchrun_trainer(t->worker->pod_spec), "volumeMounts"),
              json_make(t->arena, "{name: 'workspace', mountPath: $}", t->mount_path));
    if (t->array_above || (!enabled && !t->host_workspace && !existing.len)) {
        if (model->sync_spec)
            add_volume(t->arena, model->sync_spec, "workspace", STR_NONE);
        return;
    }
    if (!existing.len) {
        claim.name = str_printf(t->arena, STR_FMT "-workspace", STR_ARG(t->job->name));
        claim.spec = claim_spec(t, volume, t->gpus_total, "ReadWriteOnce");
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
