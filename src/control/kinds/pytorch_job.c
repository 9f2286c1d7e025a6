#include "control/kinds/pytorch_job.h"

#include "api/decode.h"
#include "api/install.h"
#include "api/kind.h"
#include "api/launch.h"
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

/* PyTorchJob: Master and Workers that meet at the master's address, or (elasticPolicy) torchrun
 * agents that meet through a rendezvous store. */

#define WORKSPACE "/workspace"

static const struct decode_field elastic_fields[] = {
    PYTORCH_ELASTIC_FIELDS(struct pytorch_elastic)};
const struct decode_table pytorch_elastic_table =
    DECODE_TABLE(struct pytorch_elastic, NULL, elastic_fields);
static const struct decode_field spec_fields[] = {PYTORCH_SPEC_FIELDS(struct pytorch_spec)};
const struct decode_table pytorch_spec_table = DECODE_TABLE(struct pytorch_spec, NULL, spec_fields);

/* ---- the job ---- */

static bool is_etcd(const struct pytorch_spec *p)
{
    return str_starts(p->elastic.backend, STR("etcd"));
}

/* The store of an etcd rendezvous, where none is named: a pod of the job's own that holds no GPU
 * and outlives the workers. */
static void host_store(struct kubeflow *k, struct job_model *model, const struct job_role *worker)
{
    struct arena *arena = k->arena;
    struct json *spec = json_new_object(arena);
    struct json *container =
        json_push(json_add_array(arena, spec, "containers"), json_new_object(arena));
    struct json *command = json_add_array(arena, container, "command");
    struct json *env = json_add_array(arena, container, "env");
    struct str scheduler = json_str(json_get(worker->pod_spec, "schedulerName"));

    json_add_c(arena, container, "name", JOB_ROLE_SYNC);
    json_add_str(arena, container, "image", json_str_at(worker->pod_spec, "containers.0.image"));
    json_push(command, json_new_str(arena, STR(LAUNCH_PATH)));
    json_push(command, json_new_str(arena, STR(JOB_ROLE_SYNC)));
    kubeflow_env(
        arena, env, LAUNCH_ENV_JOB,
        str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(k->job->ns), STR_ARG(k->job->name)));
    kubeflow_env(arena, env, LAUNCH_ENV_WORKSPACE_DIR, STR(WORKSPACE));
    job_add_peer_uid(worker->pod_spec, json_at(worker->pod_spec, "containers.0"), env, arena);
    json_fill(arena, container, "{volumeMounts: [{name: 'workspace', mountPath: $}]}", WORKSPACE);
    json_fill(arena, spec,
              "{volumes: [{name: 'workspace', emptyDir: {}}], restartPolicy: 'Always'}");
    if (scheduler.len)
        json_add_str(arena, spec, "schedulerName", scheduler);
    job_secure_sync(spec, worker->pod_spec, json_at(worker->pod_spec, "containers.0"),
                    k->input->config->kubelets, arena);
    if (k->input->config->kubelets)
        install_requests(arena, container);
    model->sync_spec = spec;
    model->headless = true;
}

static void make_elastic(struct kubeflow *k, struct job_model *model, const struct pytorch_spec *p)
{
    struct job_role *worker = kubeflow_role(model, "Worker");
    int64_t min = p->elastic.min;
    int64_t max = p->elastic.max;

    if (!worker) {
        kubeflow_problem(model, "InvalidElasticPolicy",
                         STR("spec.elasticPolicy needs spec.pytorchReplicaSpecs.Worker"));
        return;
    }
    min = min ? min : max ? max : (int64_t)worker->count;
    max = max ? max : min > (int64_t)worker->count ? min : (int64_t)worker->count;
    worker->min = (size_t)min < worker->count ? (size_t)min : worker->count;
    worker->max = (size_t)max > worker->count ? (size_t)max : worker->count;
    if (worker->leads)
        worker->done = JOB_DONE_ANY;
    if (is_etcd(p) && !p->elastic.host.len)
        host_store(k, model, worker);
    struct job_role range = {.min = (size_t)min, .max = (size_t)max};
    kubeflow_autoscale(k, model, &range, p->elastic.metrics);
}

static void adjust(struct kubeflow *k, struct job_model *model)
{
    struct pytorch_spec *p = ARENA_NEW(k->arena, struct pytorch_spec);
    struct err err = {0};

    k->extra = p;
    if (decode_object(&pytorch_spec_table, k->arena, k->spec, p, &err) < 0)
        kubeflow_problem(model, "InvalidSpec", str_printf(k->arena, "spec.%s", err.text));
    else if (decode_object(&pytorch_elastic_table, k->arena, p->elastic_policy, &p->elastic, &err) <
             0)
        kubeflow_problem(model, "InvalidSpec",
                         str_printf(k->arena, "spec.elasticPolicy.%s", err.text));
    else if (p->elastic_policy)
        make_elastic(k, model, p);
}

/* ---- a pod ---- */

static void env_master(const struct kubeflow *k,
                       const struct job_model *model,
                       const struct job_pod *pod,
                       struct json *env,
                       struct arena *arena)
{
    const struct pytorch_spec *p = k->extra;
    const struct job_role *master = kubeflow_role(model, "Master");
    int64_t nproc = 1;

    if (!master)
        return;
    int64_t port = kubeflow_port(k, master);
    int64_t rank = (int64_t)kubeflow_rank(model, pod);
    struct str address = job_pod_name(model, master, 0, arena);
    if (!str_to_i64(p->nproc, &nproc) || nproc < 1)
        nproc = 1;
    kubeflow_env_i64(arena, env, "MASTER_PORT", port);
    kubeflow_env_i64(arena, env, "PET_MASTER_PORT", port);
    kubeflow_env(arena, env, "MASTER_ADDR", address);
    kubeflow_env(arena, env, "PET_MASTER_ADDR", address);
    kubeflow_env_i64(arena, env, "WORLD_SIZE", (int64_t)pod->pods * nproc);
    kubeflow_env_i64(arena, env, "RANK", rank);
    kubeflow_env_i64(arena, env, "PET_NODE_RANK", rank);
}

static struct str joined_conf(const struct json *conf, struct arena *arena)
{
    struct str text = STR_NONE;

    JSON_FOREACH(conf, entry)
        text = str_printf(arena, STR_FMT "%s" STR_FMT "=" STR_FMT, STR_ARG(text),
                          text.len ? "," : "", STR_ARG(json_str(json_get(entry, "key"))),
                          STR_ARG(json_str(json_get(entry, "value"))));
    return text;
}

/* A rendezvous that failed is closed for good: each generation meets under another name. */
static struct str rdzv_id(const struct kubeflow *k, const struct job_pod *pod, struct arena *arena)
{
    const struct pytorch_spec *p = k->extra;
    struct str id = p->elastic.id;

    if (!id.len)
        id = str_printf(arena, STR_FMT "-" STR_FMT, STR_ARG(k->job->name),
                        STR_ARG(str_sub(k->job->uid, 0, 8)));
    else if (!pod->generation)
        return id;
    return str_printf(arena, STR_FMT "-%lld", STR_ARG(id), (long long)pod->generation);
}

static void env_elastic(const struct kubeflow *k,
                        const struct job_model *model,
                        const struct job_pod *pod,
                        struct json *env,
                        struct arena *arena)
{
    const struct pytorch_spec *p = k->extra;
    const struct job_role *worker = kubeflow_role(model, "Worker");
    struct str host = p->elastic.host;
    int64_t port = p->elastic.port;

    if (model->sync_spec) {
        host = str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(job_sync_name(model, arena)),
                          STR_ARG(k->job->name));
        port = LAUNCH_SYNC_PORT;
    }
    if (!host.len)
        host = job_pod_name(model, worker, 0, arena);
    if (!port)
        port = kubeflow_port(k, worker);
    kubeflow_env(arena, env, "PET_RDZV_ENDPOINT",
                 str_printf(arena, STR_FMT ":%lld", STR_ARG(host), (long long)port));
    kubeflow_env(arena, env, "PET_RDZV_BACKEND", p->elastic.backend);
    kubeflow_env(arena, env, "PET_RDZV_ID", rdzv_id(k, pod, arena));
    if (p->elastic.max_restarts >= 0)
        kubeflow_env_i64(arena, env, "PET_MAX_RESTARTS", p->elastic.max_restarts);
    if (json_count(p->elastic.conf))
        kubeflow_env(arena, env, "PET_RDZV_CONF", joined_conf(p->elastic.conf, arena));
    kubeflow_env_elastic(arena, env);
    if (p->elastic.standalone)
        kubeflow_env(arena, env, "PET_STANDALONE", STR("1"));
}

static void env(const struct kubeflow *k,
                const struct job_model *model,
                const struct job_pod *pod,
                struct json *list,
                struct arena *arena)
{
    const struct pytorch_spec *p = k->extra;
    const struct job_role *worker = kubeflow_role(model, "Worker");

    kubeflow_env(arena, list, "PYTHONUNBUFFERED", STR("1"));
    env_master(k, model, pod, list, arena);
    kubeflow_env(arena, list, "PET_NPROC_PER_NODE",
                 p->elastic.nproc ? str_printf(arena, "%lld", (long long)p->elastic.nproc)
                                  : p->nproc);
    if (p->elastic_policy) {
        kubeflow_env(arena, list, "PET_NNODES",
                     str_printf(arena, "%zu:%zu", worker->min, worker->max));
        env_elastic(k, model, pod, list, arena);
    } else {
        kubeflow_env_i64(arena, list, "PET_NNODES", (int64_t)pod->pods);
    }
}

static const struct kubeflow_kind description = {
    .training = &training_kinds[TRAINING_PYTORCH],
    .adjust = adjust,
    .env = env,
};

KUBEFLOW_JOB_KIND(pytorchjob, description);

JOB_CONTROLLER(pytorch_job_controller,
               "pytorchjob",
               pytorchjob,
               &kind_pytorchjob,
               &kind_pod,
               &kind_service,
               &kind_node,
               &kind_podgroup);
