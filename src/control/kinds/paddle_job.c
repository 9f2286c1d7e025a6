#include "api/decode.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job.h"
#include "control/kinds/kubeflow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PaddleJob: trainers that meet at rank 0 (collective), or parameter servers (Master) and trainers.
 */

struct paddle_spec {
    PADDLE_SPEC_MEMBERS
};
static const struct decode_field spec_fields[] = {PADDLE_SPEC_FIELDS(struct paddle_spec)};
const struct decode_table paddle_spec_table = DECODE_TABLE(struct paddle_spec, NULL, spec_fields);

static void adjust(struct kubeflow *k, struct job_model *model)
{
    struct paddle_spec *spec = ARENA_NEW(k->arena, struct paddle_spec);
    struct job_role *worker = kubeflow_role(model, "Worker");
    struct err err = {0};

    k->extra = spec;
    if (decode_object(&paddle_spec_table, k->arena, k->spec, spec, &err) < 0) {
        kubeflow_problem(model, "InvalidSpec", str_printf(k->arena, "spec.%s", err.text));
        return;
    }
    if (!spec->elastic || !worker)
        return;
    int64_t min = spec->min ? spec->min : spec->max ? spec->max : (int64_t)worker->count;
    int64_t max = spec->max ? spec->max : min;
    worker->min = (size_t)min < worker->count ? (size_t)min : worker->count;
    worker->max = (size_t)max > worker->count ? (size_t)max : worker->count;
    struct job_role range = {.min = (size_t)min, .max = (size_t)max};
    kubeflow_autoscale(k, model, &range, spec->metrics);
}

/* Rank 0 names its own address: its service may not lead to it yet. */
static void env_own_address(struct json *list, struct arena *arena)
{
    struct json *entry = json_push(list, json_new_object(arena));

    json_add_c(arena, entry, "name", "POD_IP_DUMMY");
    struct json *ref = json_make_path(arena, entry, "valueFrom.fieldRef");
    json_add_c(arena, ref, "fieldPath", "status.podIP");
}

static void env(const struct kubeflow *k,
                const struct job_model *model,
                const struct job_pod *pod,
                struct json *list,
                struct arena *arena)
{
    const struct job_role *master = kubeflow_role(model, "Master");
    const struct job_role *first = master ? master : kubeflow_role(model, "Worker");
    bool own = pod->role == first && pod->index == 0;

    kubeflow_env(arena, list, "PYTHONUNBUFFERED", STR("1"));
    kubeflow_env(arena, list, "PADDLE_JOB_ID", k->job->name);
    kubeflow_env_i64(arena, list, "PADDLE_NNODES", (int64_t)pod->pods);
    if (own)
        env_own_address(list, arena);
    kubeflow_env(
        arena, list, "PADDLE_MASTER",
        str_printf(arena, STR_FMT ":%lld",
                   STR_ARG(own ? STR("$(POD_IP_DUMMY)") : job_pod_name(model, first, 0, arena)),
                   (long long)kubeflow_port(k, first)));
    if (master)
        kubeflow_env(arena, list, pod->role == master ? "PADDLE_SERVER_NUM" : "PADDLE_TRAINER_NUM",
                     STR("1"));
}

static const struct kubeflow_kind description = {
    .training = &training_kinds[TRAINING_PADDLE],
    .adjust = adjust,
    .env = env,
};

KUBEFLOW_JOB_KIND(paddlejob, description);

JOB_CONTROLLER(paddle_job_controller,
               "paddlejob",
               paddlejob,
               &kind_paddlejob,
               &kind_pod,
               &kind_service,
               &kind_node,
               &kind_podgroup);
