#include "api/decode.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job.h"
#include "control/kinds/kubeflow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* TFJob: TensorFlow's roles, told of each other by TF_CONFIG. Servers and workers come and go
 * alone: TensorFlow lets a worker rejoin. */

struct tf_spec {
    TF_SPEC_MEMBERS
};
static const struct decode_field spec_fields[] = {TF_SPEC_FIELDS(struct tf_spec)};
const struct decode_table tf_spec_table = DECODE_TABLE(struct tf_spec, NULL, spec_fields);

static void adjust(struct kubeflow *k, struct job_model *model)
{
    struct tf_spec *spec = ARENA_NEW(k->arena, struct tf_spec);
    struct job_role *worker = kubeflow_role(model, "Worker");
    struct err err = {0};

    k->extra = spec;
    if (decode_object(&tf_spec_table, k->arena, k->spec, spec, &err) < 0) {
        kubeflow_problem(model, "InvalidSpec", str_printf(k->arena, "spec.%s", err.text));
        return;
    }
    if (!worker)
        return;
    if (worker->leads && !str_is(spec->success, "AllWorkers"))
        worker->done = JOB_DONE_FIRST;
    if (spec->dynamic)
        worker->restart = JOB_RESTART_ALWAYS;
}

static struct str address(const struct kubeflow *k,
                          const struct job_model *model,
                          const struct job_role *role,
                          size_t index,
                          struct arena *arena)
{
    return str_printf(arena, STR_FMT "." STR_FMT ".svc:%lld",
                      STR_ARG(job_pod_name(model, role, index, arena)), STR_ARG(k->job->ns),
                      (long long)kubeflow_port(k, role));
}

static struct json *addresses(const struct kubeflow *k,
                              const struct job_model *model,
                              const struct job_role *role,
                              struct arena *arena)
{
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < role->count; i++)
        json_push(list, json_new_str(arena, address(k, model, role, i, arena)));
    return list;
}

/* All but the evaluator, which stands apart. */
static struct json *whole_cluster(const struct kubeflow *k,
                                  const struct job_model *model,
                                  struct arena *arena)
{
    struct json *cluster = json_new_object(arena);

    for (size_t i = 0; i < model->roles.count; i++) {
        const struct job_role *role = &model->roles.items[i];

        if (strcmp(role->type, "Evaluator") != 0)
            json_set(cluster, role->name, addresses(k, model, role, arena));
    }
    return cluster;
}

/* A worker that knows itself and the servers needs no restart when others come and go. */
static struct json *sparse_cluster(const struct kubeflow *k,
                                   const struct job_model *model,
                                   const struct job_pod *pod,
                                   struct arena *arena)
{
    const struct job_role *servers = kubeflow_role(model, "PS");
    struct json *cluster = json_new_object(arena);
    struct json *workers = json_add_object(arena, cluster, "worker");
    struct str own = address(k, model, pod->role, pod->index, arena);

    if (strcmp(pod->role->type, "Worker") == 0)
        json_set(workers, str_printf(arena, "%zu", pod->index), json_new_str(arena, own));
    if (pod->role == servers)
        json_push(json_add_array(arena, cluster, "ps"), json_new_str(arena, own));
    else
        json_set(cluster, STR("ps"),
                 servers ? addresses(k, model, servers, arena) : json_new_array(arena));
    return cluster;
}

static void env(const struct kubeflow *k,
                const struct job_model *model,
                const struct job_pod *pod,
                struct json *list,
                struct arena *arena)
{
    const struct tf_spec *spec = k->extra;
    struct json *config = json_new_object(arena);

    if (pod->pods == 1)
        return;
    if (spec->dynamic)
        json_set(config, STR("sparseCluster"), sparse_cluster(k, model, pod, arena));
    else
        json_set(config, STR("cluster"), whole_cluster(k, model, arena));
    json_fill(arena, config, "{task: {type: $, index: $}}", pod->role->name, (int64_t)pod->index);
    if (!spec->dynamic)
        json_add_c(arena, config, "environment", "cloud");
    kubeflow_env(arena, list, "TF_CONFIG", json_text(arena, config));
}

static const struct kubeflow_kind description = {
    .training = &training_kinds[TRAINING_TENSORFLOW],
    .each_alone = true,
    .env_for_training_only = true,
    .adjust = adjust,
    .env = env,
};

KUBEFLOW_JOB_KIND(tfjob, description);

JOB_CONTROLLER(tf_job_controller,
               "tfjob",
               tfjob,
               &kind_tfjob,
               &kind_pod,
               &kind_service,
               &kind_node,
               &kind_podgroup);
