#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "control/group.h"
#include "control/job.h"
#include "launch/launch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The objects of a job: pods, sync pod, service, claims. All carry the model's labels and, unless
 * they are to survive it, the job as their owner. */

struct str job_pod_name(const struct job_model *model, size_t index, struct arena *arena)
{
    return str_printf(arena, STR_FMT "-" STR_FMT "-%zu", STR_ARG(model->object->name),
                      STR_ARG(model->role), index);
}

struct str job_sync_name(const struct job_model *model, struct arena *arena)
{
    return str_printf(arena, STR_FMT "-sync-0", STR_ARG(model->object->name));
}

static void own(const struct job_model *model, struct json *meta, struct arena *arena)
{
    struct json *owner =
        json_push(json_add_array(arena, meta, "ownerReferences"), json_new_object(arena));
    char version[KIND_API_VERSION_BYTES];

    json_add_str(arena, owner, "apiVersion",
                 str_dup(arena, kind_api_version(model->object->kind, version)));
    json_add_c(arena, owner, "kind", model->object->kind->name);
    json_add_str(arena, owner, "name", model->object->name);
    json_add_str(arena, owner, "uid", model->object->uid);
    json_add_bool(arena, owner, "controller", true);
    json_add_bool(arena, owner, "blockOwnerDeletion", true);
}

static struct json *object_of(const struct job_model *model,
                              const struct kind *kind,
                              struct str name,
                              struct arena *arena)
{
    struct json *body = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_add_str(arena, body, "apiVersion", str_dup(arena, kind_api_version(kind, version)));
    json_add_c(arena, body, "kind", kind->name);
    struct json *meta = json_add_object(arena, body, "metadata");
    json_add_str(arena, meta, "namespace", model->object->ns);
    json_add_str(arena, meta, "name", name);
    json_set(meta, STR("labels"),
             model->labels ? json_clone(arena, model->labels) : json_new_object(arena));
    return body;
}

struct json *job_make_pod(const struct job_model *model,
                          const struct job_pod *pod,
                          struct arena *arena)
{
    struct json *body = object_of(model, &kind_pod, pod->name, arena);
    struct json *meta = json_get(body, "metadata");
    struct json *labels = json_get(meta, "labels");
    struct json *spec = json_clone(arena, model->pod_spec);

    json_add_str(arena, labels, JOB_LABEL_ROLE, model->role);
    json_add_str(arena, labels, JOB_LABEL_INDEX, str_printf(arena, "%zu", pod->index));
    json_add_str(arena, labels, JOB_LABEL_GENERATION,
                 str_printf(arena, "%lld", (long long)pod->generation));
    struct json *annotations = json_set(meta, STR("annotations"),
                                        model->annotations ? json_clone(arena, model->annotations)
                                                           : json_new_object(arena));
    /* Told at birth, so that the pod grouper need not write the pod a second time. */
    json_add_str(arena, annotations, GROUP_ANNOTATION, group_name(model->object, arena));
    own(model, meta, arena);
    json_add_str(arena, spec, "hostname", pod->name);
    json_add_str(arena, spec, "subdomain", model->object->name);
    model->fill(model, pod, spec, arena);
    json_set(body, STR("spec"), spec);
    return body;
}

struct json *job_make_sync_pod(const struct job_model *model, struct arena *arena)
{
    struct str name = job_sync_name(model, arena);
    struct json *body = object_of(model, &kind_pod, name, arena);
    struct json *meta = json_get(body, "metadata");
    struct json *spec = json_clone(arena, model->sync_spec);

    json_add_c(arena, json_get(meta, "labels"), JOB_LABEL_ROLE, JOB_ROLE_SYNC);
    own(model, meta, arena);
    json_add_str(arena, spec, "hostname", name);
    json_add_str(arena, spec, "subdomain", model->object->name);
    json_set(body, STR("spec"), spec);
    return body;
}

struct json *job_make_service(const struct job_model *model, struct arena *arena)
{
    struct json *body = object_of(model, &kind_service, model->object->name, arena);
    struct json *spec = json_add_object(arena, body, "spec");

    own(model, json_get(body, "metadata"), arena);
    json_add_c(arena, spec, "clusterIP", "None");
    /* Ranks look each other up before they are ready, and the sync pod before anything is. */
    json_add_bool(arena, spec, "publishNotReadyAddresses", true);
    json_add_str(arena, json_add_object(arena, spec, "selector"), JOB_LABEL_NAME,
                 model->object->name);
    struct json *port = json_push(json_add_array(arena, spec, "ports"), json_new_object(arena));
    json_add_c(arena, port, "name", "sync");
    json_add_i64(arena, port, "port", LAUNCH_SYNC_PORT);
    return body;
}

struct json *job_make_claim(const struct job_model *model,
                            const struct job_claim *claim,
                            struct arena *arena)
{
    struct json *body = object_of(model, &kind_pvc, claim->name, arena);
    struct json *meta = json_get(body, "metadata");

    json_add_c(arena, json_get(meta, "labels"), "torchrun.ai/type", claim->what);
    if (!claim->keep)
        own(model, meta, arena);
    json_set(body, STR("spec"), json_clone(arena, claim->spec));
    return body;
}
