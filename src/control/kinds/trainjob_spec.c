#include "api/decode.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "control/kinds/trainjob.h"

#include <stdbool.h>
#include <stddef.h>

/* What is read of a TrainJob and of a runtime, by table. */

static const struct decode_field initializer_fields[] = {
    DECODE_FIELD(struct trainjob_initializer, uri, "storageUri", STR),
    DECODE_FIELD(struct trainjob_initializer, env, "env", JSON),
    DECODE_FIELD(struct trainjob_initializer, secret, "secretRef.name", STR),
};
static const struct decode_table initializer_table =
    DECODE_TABLE(struct trainjob_initializer, NULL, initializer_fields);

#define SPEC(member, name, type, ...) \
    DECODE_FIELD(struct trainjob_spec, member, name, type, ##__VA_ARGS__)
static const struct decode_field spec_fields[] = {
    SPEC(runtime, "runtimeRef.name", STR),
    SPEC(runtime_group, "runtimeRef.apiGroup", STR, .absent = "trainer.kubeflow.org"),
    SPEC(runtime_kind, "runtimeRef.kind", STR, .absent = "ClusterTrainingRuntime"),
    SPEC(image, "trainer.image", JSON),
    SPEC(command, "trainer.command", JSON),
    SPEC(args, "trainer.args", JSON),
    SPEC(env, "trainer.env", JSON),
    SPEC(nodes, "trainer.numNodes", I64, .absent = "-1"),
    SPEC(resources, "trainer.resourcesPerNode", JSON),
    SPEC(processes, "trainer.numProcPerNode", JSON),
    SPEC(dataset, "initializer.dataset", OBJECT, .table = &initializer_table),
    SPEC(model, "initializer.model", OBJECT, .table = &initializer_table),
    SPEC(patches, "runtimePatches", JSON),
    SPEC(template_overrides, "podTemplateOverrides", JSON),
    SPEC(spec_overrides, "podSpecOverrides", JSON),
    SPEC(labels, "labels", JSON),
    SPEC(annotations, "annotations", JSON),
    SPEC(suspend, "suspend", BOOL, .absent = "false"),
    SPEC(deadline_s, "activeDeadlineSeconds", I64),
    SPEC(manager, "managedBy", STR, .absent = TRAINJOB_MANAGER),
};
#undef SPEC
const struct decode_table trainjob_spec_table =
    DECODE_TABLE(struct trainjob_spec, NULL, spec_fields);

void trainjob_spec_read(const struct json *spec, struct arena *arena, struct trainjob_spec *ret)
{
    /* What is not said first, so that what is wrong has it too. */
    (void)decode_object(&trainjob_spec_table, arena, json_new_object(arena), ret, NULL);
    (void)decode_over(&trainjob_spec_table, arena, spec, ret, NULL);
    ret->has_dataset = !json_is_null(json_at(spec, "initializer.dataset"));
    ret->has_model = !json_is_null(json_at(spec, "initializer.model"));
}

static const char *const mpi_words[] = {"OpenMPI", "Intel", "MPICH", NULL};
static const struct decode_field target_fields[] = {
    DECODE_FIELD(struct trainjob_target, part, "jobName", STR, .required = true),
    DECODE_ITEMS(struct trainjob_target, containers, container_count, "containerNames", STRS),
};
static const struct decode_table target_table =
    DECODE_TABLE(struct trainjob_target, NULL, target_fields);

#define POLICY(member, name, type, ...) \
    DECODE_FIELD(struct trainjob_policy, member, name, type, ##__VA_ARGS__)
static const struct decode_field policy_fields[] = {
    POLICY(nodes, "numNodes", I64, .absent = "-1"),
    POLICY(torch_nodes, "torch.numNodes", I64, .absent = "-1"),
    POLICY(torch_processes, "torch.numProcPerNode", JSON),
    POLICY(min_nodes, "torch.elasticPolicy.minNodes", I64),
    POLICY(max_nodes, "torch.elasticPolicy.maxNodes", I64),
    POLICY(max_restarts, "torch.elasticPolicy.maxRestarts", I64),
    DECODE_ITEMS(struct trainjob_policy,
                 targets,
                 target_count,
                 "torch.envInjection.targets",
                 LIST,
                 .table = &target_table),
    POLICY(mpi_processes, "mpi.numProcPerNode", JSON),
    POLICY(mpi, "mpi.mpiImplementation", ENUM, .words = mpi_words, .absent = "OpenMPI"),
    POLICY(ssh_path, "mpi.sshAuthMountPath", STR, .absent = "/root/.ssh"),
    POLICY(launcher_is_node, "mpi.runLauncherAsNode", BOOL, .absent = "false"),
    POLICY(jax, "jax", JSON),
    POLICY(xgboost, "xgboost", JSON),
    POLICY(flux, "flux", JSON),
};
#undef POLICY
const struct decode_table trainjob_policy_table =
    DECODE_TABLE(struct trainjob_policy, "mlPolicy", policy_fields);

static const struct decode_field runtime_fields[] = {
    DECODE_FIELD(struct trainjob_runtime, labels, "template.metadata.labels", JSON),
    DECODE_FIELD(struct trainjob_runtime, annotations, "template.metadata.annotations", JSON),
    DECODE_FIELD(struct trainjob_runtime, spec, "template.spec", JSON),
};
const struct decode_table trainjob_runtime_table =
    DECODE_TABLE(struct trainjob_runtime, NULL, runtime_fields);

void trainjob_runtime_read(const struct json *spec,
                           struct arena *arena,
                           struct trainjob_runtime *ret)
{
    const struct json *policy = json_get(spec, "mlPolicy");

    (void)decode_object(&trainjob_runtime_table, arena, json_new_object(arena), ret, NULL);
    (void)decode_over(&trainjob_runtime_table, arena, spec, ret, NULL);
    (void)decode_object(&trainjob_policy_table, arena, json_new_object(arena), &ret->policy, NULL);
    (void)decode_over(&trainjob_policy_table, arena, spec, &ret->policy, NULL);
    ret->policy.has_torch = !json_is_null(json_get(policy, "torch"));
    ret->policy.has_mpi = !json_is_null(json_get(policy, "mpi"));
    ret->policy.is_elastic = json_count(json_at(policy, "torch.elasticPolicy")) > 0;
}
