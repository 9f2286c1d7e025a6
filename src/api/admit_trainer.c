#include "api/admit.h"
#include "api/kind.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TrainJob and its runtimes: what cannot work is refused when it is written, with the field. */

#define STEP_LABEL "trainer.kubeflow.org/trainjob-ancestor-step"

/* ---- TrainJob ---- */

/* Variables that the platform sets itself. */
static bool is_reserved(struct str name)
{
    static const char *const names[] = {"PET_NNODES",
                                        "PET_NPROC_PER_NODE",
                                        "PET_NODE_RANK",
                                        "PET_MASTER_ADDR",
                                        "PET_MASTER_PORT",
                                        "DMLC_TRACKER_URI",
                                        "DMLC_TRACKER_PORT",
                                        "DMLC_TASK_ID",
                                        "DMLC_NUM_WORKER",
                                        "OMPI_MCA_orte_default_hostfile",
                                        "OMPI_MCA_orte_keep_fqdn_hostnames",
                                        "OMPI_MCA_orte_set_default_slots",
                                        "OMPI_MCA_plm_rsh_args"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_is(name, names[i]))
            return true;
    return false;
}

/* Whether two lists of patches say the same; when they were made is no difference. */
static bool patches_equal(struct arena *arena, const struct json *a, const struct json *b)
{
    struct json *one = a ? json_clone(arena, a) : json_new_array(arena);
    struct json *other = b ? json_clone(arena, b) : json_new_array(arena);

    JSON_FOREACH(one, patch)
        json_remove(patch, STR("time"));
    JSON_FOREACH(other, patch)
        json_remove(patch, STR("time"));
    return json_equal(one, other);
}

/* Each patch has the moment of its last change. Who makes one may say when that was; later the date
 * follows what the patch says. */
void admit_trainjob_default(struct admit *admit)
{
    struct str now = time_text(admit->arena, admit->now_ms);
    _cleanup_(map_done) struct map managers = {.seed = (uintptr_t)admit->object};

    if (!admit->now_ms || admit->subresource.len)
        return;
    JSON_FOREACH(json_at(admit->old, "spec.runtimePatches"), before)
        (void)map_set(&managers, json_str(json_get(before, "manager")), before);
    JSON_FOREACH(json_at(admit->object, "spec.runtimePatches"), patch) {
        const struct json *before = map_get(&managers, json_str(json_get(patch, "manager")));
        const struct json *what = json_get(patch, "trainingRuntimeSpec");
        bool changed = before && !json_equal(json_get(before, "trainingRuntimeSpec"), what);

        if (changed || (!before && json_is_null(json_get(patch, "time"))))
            json_add_str(admit->arena, patch, "time", now);
        else if (before && json_get(before, "time"))
            json_set(patch, STR("time"), json_clone(admit->arena, json_get(before, "time")));
    }
}

static void check_trainer(struct admit *admit, const struct json *trainer)
{
    const struct json *processes = json_get(trainer, "numProcPerNode");
    struct str word = json_str(processes);
    size_t index = 0;
    int64_t number = 0;

    admit_resources(admit, json_get(trainer, "resourcesPerNode"),
                    STR("spec.trainer.resourcesPerNode"));
    JSON_FOREACH(json_get(trainer, "env"), entry) {
        struct str path = str_printf(admit->arena, "spec.trainer.env[%zu].name", index++);

        if (is_reserved(json_str(json_get(entry, "name"))))
            admit_invalid(admit, path, json_get(entry, "name"),
                          "is reserved: the platform sets it");
    }
    if (json_is_null(processes) || str_is(word, "auto") || str_is(word, "cpu") ||
        str_is(word, "gpu"))
        return;
    if ((!json_i64(processes, &number) && !str_to_i64(word, &number)) || number < 1)
        admit_invalid(admit, STR("spec.trainer.numProcPerNode"), processes,
                      "must be a positive number, auto, cpu or gpu");
}

static void check_patches(struct admit *admit, const struct json *spec)
{
    static const char *const ours[] = {"node", "dataset-initializer", "model-initializer"};
    size_t index = 0;

    JSON_FOREACH(json_get(spec, "runtimePatches"), patch) {
        struct str path = str_printf(admit->arena, "spec.runtimePatches[%zu]", index++);
        struct str manager = json_str(json_get(patch, "manager"));

        if (names_qualified(manager) || str_find(manager, '/') == manager.len)
            admit_invalid(admit, str_printf(admit->arena, STR_FMT ".manager", STR_ARG(path)),
                          json_get(patch, "manager"), "must be like example.com/name");
        JSON_FOREACH(json_at(patch, "trainingRuntimeSpec.template.spec.replicatedJobs"), part)
            JSON_FOREACH(json_at(part, "template.spec.template.spec.containers"), container)
                for (size_t i = 0; json_get(container, "env") && i < 3; i++)
                    if (str_is(json_str(json_get(container, "name")), ours[i]))
                        admit_forbidden(admit,
                                        str_printf(admit->arena, STR_FMT " container %s env",
                                                   STR_ARG(path), ours[i]),
                                        "set spec.trainer.env or spec.initializer instead");
    }
}

static void check_job_update(struct admit *admit,
                             const struct json *spec,
                             const struct json *before)
{
    static const char *const fixed[] = {"runtimeRef", "trainer", "initializer", "managedBy",
                                        "activeDeadlineSeconds"};
    static const char *const while_stopped[] = {"runtimePatches", "podTemplateOverrides",
                                                "podSpecOverrides"};
    bool stopped = json_bool_or(json_get(spec, "suspend"), false) ||
                   json_bool_or(json_get(before, "suspend"), false);

    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        if (!json_equal(json_get(spec, fixed[i]), json_get(before, fixed[i])))
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", fixed[i]),
                          json_get(spec, fixed[i]), "field is immutable");
    for (size_t i = 0; !stopped && i < 3; i++)
        if (!patches_equal(admit->arena, json_get(spec, while_stopped[i]),
                           json_get(before, while_stopped[i])))
            admit_forbidden(admit, str_printf(admit->arena, "spec.%s", while_stopped[i]),
                            "can change only while the TrainJob is suspended");
}

void admit_trainjob_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *name = json_at(admit->object, "metadata.name");
    struct str group = json_str_at(spec, "runtimeRef.apiGroup");

    if (admit->old) {
        check_job_update(admit, spec, json_get(admit->old, "spec"));
        check_patches(admit, spec);
        return;
    }
    if (names_dns_1035_label(json_str(name)))
        admit_invalid(admit, STR("metadata.name"), name, names_dns_1035_label(json_str(name)));
    if (group.len && !str_is(group, "trainer.kubeflow.org"))
        admit_unsupported(admit, STR("spec.runtimeRef.apiGroup"),
                          json_at(spec, "runtimeRef.apiGroup"), "\"trainer.kubeflow.org\"");
    check_trainer(admit, json_get(spec, "trainer"));
    check_patches(admit, spec);
}

/* ---- runtimes ---- */

static void check_step(struct admit *admit, const struct json *part, size_t index)
{
    static const struct {
        const char *step;
        const char *container;
    } rows[] = {{"trainer", "node"},
                {"dataset-initializer", "dataset-initializer"},
                {"model-initializer", "model-initializer"}};
    struct str path = str_printf(admit->arena, "spec.template.spec.replicatedJobs[%zu]", index);
    struct str step = json_str(json_get(json_at(part, "template.metadata.labels"), STEP_LABEL));

    for (size_t i = 0; i < 3; i++) {
        bool found = false;

        if (!str_is(step, rows[i].step))
            continue;
        if (json_i64_or(json_get(part, "replicas"), 1) != 1)
            admit_invalid(admit, str_printf(admit->arena, STR_FMT ".replicas", STR_ARG(path)),
                          json_get(part, "replicas"),
                          "must be 1; set numNodes to choose the number of pods");
        JSON_FOREACH(json_at(part, "template.spec.template.spec.containers"), container)
            found |= str_is(json_str(json_get(container, "name")), rows[i].container);
        if (!found)
            admit_required(
                admit,
                str_printf(admit->arena, STR_FMT ".template.spec.template.spec.containers",
                           STR_ARG(path)),
                str_printf(admit->arena, "a container named %s, as its label " STEP_LABEL " asks",
                           rows[i].container)
                    .p);
    }
}

/* Of a template that a job completes: its volumes and variables may come with the job. */
static void check_amounts(struct admit *admit, const struct json *pod, struct str path)
{
    size_t index = 0;

    JSON_FOREACH(json_get(pod, "containers"), container)
        admit_resources(
            admit, json_get(container, "resources"),
            str_printf(admit->arena, STR_FMT ".containers[%zu].resources", STR_ARG(path), index++));
}

void admit_runtime_validate(struct admit *admit)
{
    static const char *const policies[] = {"torch", "mpi", "jax", "xgboost", "flux"};
    const struct json *policy = json_at(admit->object, "spec.mlPolicy");
    const struct json *elastic = json_at(policy, "torch.elasticPolicy");
    int64_t min = json_i64_or(json_get(elastic, "minNodes"), 1);
    const struct json *template = json_at(admit->object, "spec.template.spec");
    size_t said = 0;
    size_t index = 0;

    for (size_t i = 0; i < COUNT_OF(policies); i++)
        said += json_get(policy, policies[i]) != NULL;
    if (said > 1)
        admit_invalid(admit, STR("spec.mlPolicy"), policy,
                      "only one of torch, mpi, jax, xgboost and flux can be set");
    if (json_i64_or(json_get(elastic, "maxNodes"), min) < min)
        admit_invalid(admit, STR("spec.mlPolicy.torch.elasticPolicy.maxNodes"),
                      json_get(elastic, "maxNodes"), "must be at least minNodes");
    if (!json_count(json_get(template, "replicatedJobs")) &&
        !json_count(json_get(template, "containers")))
        admit_required(admit, STR("spec.template.spec.replicatedJobs"),
                       "set the Jobs of the JobSet, or containers for a single Job");
    check_amounts(admit, template, STR("spec.template.spec"));
    JSON_FOREACH(json_get(template, "replicatedJobs"), part) {
        check_amounts(
            admit, json_at(part, "template.spec.template.spec"),
            str_printf(admit->arena,
                       "spec.template.spec.replicatedJobs[%zu].template.spec.template.spec",
                       index));
        check_step(admit, part, index++);
    }
}
