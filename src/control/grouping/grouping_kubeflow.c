#include "api/training.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_rule.h"
#include "control/job/job.h"
#include "control/kinds/tensorstack_job.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kubeflow's training kinds, and those shaped like them: a map of roles with replicas. */

#define SEGMENT_SIZE      "kai.scheduler/segment-size"
#define SEGMENT_REQUIRED  "kai.scheduler/segment-topology-required-placement"
#define SEGMENT_PREFERRED "kai.scheduler/segment-topology-preferred-placement"
#define REPLICA_TYPE      "training.kubeflow.org/replica-type"
#define REPLICA_INDEX     "training.kubeflow.org/replica-index"

static int64_t replicas_of(const struct json *specs, const char *role)
{
    const struct json *spec = json_get(specs, role);

    return spec ? json_i64_or(json_get(spec, "replicas"), 1) : 0;
}

static int64_t min_available(const struct json *owner)
{
    return json_i64_or(json_at(owner, "spec.runPolicy.schedulingPolicy.minAvailable"), 0);
}

/* What KAI refuses beyond what cannot be grouped at all. */
static int check_strictly(const struct grouping_rule *rule,
                          const struct json *specs,
                          struct err *err)
{
    const char *name = rule->training->specs;

    for (size_t i = 0; rule->strict[i]; i++)
        if (!json_get(specs, rule->strict[i]))
            return err_set(err, -EINVAL, "spec.%s has no %s", name, rule->strict[i]);
    JSON_FOREACH(specs, spec)
        if (json_i64_or(json_get(spec, "replicas"), 0) <= 0)
            return err_set(err, -EINVAL, "spec.%s." STR_FMT " has no replicas", name,
                           STR_ARG(json_key(spec)));
    return 0;
}

int grouping_kubeflow(const struct grouping_input *input,
                      const struct grouping_rule *rule,
                      const struct json *owner,
                      struct grouping *ret,
                      struct err *err)
{
    const struct training_kind *training = rule->training;
    const struct json *specs = json_get(json_get(owner, "spec"), training->specs);
    int64_t total = 0;

    /* Who says how many must start need not say who they are. */
    if (min_available(owner) > 0 && !input->old_groups) {
        ret->min_member = min_available(owner);
        return 0;
    }
    if (!specs)
        return err_set(err, -EINVAL, "spec.%s is missing", training->specs);
    for (size_t i = 0; training->required[i]; i++)
        if (!json_get(specs, training->required[i]))
            return err_set(err, -EINVAL, "spec.%s has no %s", training->specs,
                           training->required[i]);
    if (input->strict_roles && check_strictly(rule, specs, err) < 0)
        return -EINVAL;
    JSON_FOREACH(specs, spec)
        total += json_i64_or(json_get(spec, "replicas"), 1);
    if (total <= 0)
        return err_set(err, -EINVAL, "spec.%s asks for no pod at all", training->specs);
    ret->min_member = min_available(owner) > 0 ? min_available(owner) : total;
    return 0;
}

/* ---- MPIJob ---- */

static bool launcher_lives(const struct grouping_input *input, const struct json *owner)
{
    const struct json *pod;
    size_t cursor = 0;
    struct str ns = grouping_meta(owner, "namespace");

    while ((pod = input->next(input->user, "Pod", ns, &cursor))) {
        struct str phase = json_str_at(pod, "status.phase");

        if (str_eq(grouping_label(pod, "training.kubeflow.org/job-name"),
                   grouping_meta(owner, "name")) &&
            str_is(grouping_label(pod, "training.kubeflow.org/job-role"), "launcher") &&
            !str_is(phase, "Failed") && !grouping_meta(pod, "deletionTimestamp").len)
            return true;
    }
    return false;
}

int grouping_mpi(const struct grouping_input *input,
                 const struct grouping_rule *rule,
                 const struct json *owner,
                 struct grouping *ret,
                 struct err *err)
{
    struct str policy = json_str_at(owner, "spec.launcherCreationPolicy");
    int r = grouping_kubeflow(input, rule, owner, ret, err);

    if (r < 0)
        return r;
    /* The launcher comes when the workers are ready: it must not be waited for. */
    if (str_is(policy, "WaitForWorkersReady") && !launcher_lives(input, owner))
        ret->min_member -= replicas_of(json_at(owner, "spec.mpiReplicaSpecs"), "Launcher");
    return 0;
}

/* ---- PyTorchJob ---- */

static const struct json *worker_annotations(const struct json *owner)
{
    return json_at(owner, "spec.pytorchReplicaSpecs.Worker.template.metadata.annotations");
}

/* 0: none. */
static int segment_size(const struct grouping_input *input,
                        const struct json *owner,
                        int64_t *ret,
                        struct err *err)
{
    struct str text = grouping_annotation(input->pod, SEGMENT_SIZE);

    if (!text.len)
        text = json_str(json_get(worker_annotations(owner), SEGMENT_SIZE));
    *ret = 0;
    if (!text.len)
        return 0;
    if (!str_to_i64(text, ret) || *ret <= 0)
        return err_set(err, -EINVAL,
                       "annotation " SEGMENT_SIZE ": \"" STR_FMT "\" is not a positive number",
                       STR_ARG(text));
    return 0;
}

struct segments {
    int64_t workers;
    int64_t size;  /* workers of one */
    int64_t least; /* workers that must start */
};

/* Segments of workers, of which the first that `least` workers need must start. */
static int add_segments(const struct grouping_input *input,
                        const struct json *owner,
                        struct segments segments,
                        struct grouping *ret,
                        struct err *err)
{
    int64_t workers = segments.workers;
    int64_t size = segments.size;
    int64_t index = 0;
    int64_t count = 0;
    int r = grouping_segments(workers, size, &count, err);
    struct grouping_topology topology =
        grouping_topology_of(worker_annotations(owner), SEGMENT_REQUIRED, SEGMENT_PREFERRED,
                             json_at(owner, "metadata.annotations"));

    if (r < 0)
        return r;
    grouping_sub_add(
        input, ret, &(struct grouping_sub){.name = STR("worker"), .inner = true, .min_sub = count});
    for (int64_t i = 0; i < count; i++) {
        int64_t own = workers - i * size < size ? workers - i * size : size;

        grouping_sub_add(
            input, ret,
            &(struct grouping_sub){.name = str_printf(input->arena, "worker-%lld", (long long)i),
                                   .min = i * size < segments.least || input->old_groups ? own : 0,
                                   .parent = STR("worker"),
                                   .topology = topology});
    }
    if (!str_to_i64(grouping_label(input->pod, REPLICA_INDEX), &index))
        return 0;
    if (index < 0)
        return err_set(err, -EINVAL, "label " REPLICA_INDEX ": %lld is not the number of a replica",
                       (long long)index);
    ret->pod_sub = str_printf(input->arena, "worker-%lld", (long long)(index / size));
    return 0;
}

int grouping_pytorch(const struct grouping_input *input,
                     const struct grouping_rule *rule,
                     const struct json *owner,
                     struct grouping *ret,
                     struct err *err)
{
    const struct json *specs = json_at(owner, "spec.pytorchReplicaSpecs");
    int64_t elastic = json_i64_or(json_at(owner, "spec.elasticPolicy.minReplicas"), 0);
    int64_t masters = replicas_of(specs, "Master");
    struct str type = grouping_label(input->pod, REPLICA_TYPE);
    int64_t size = 0;
    /* The store of an elastic job's rendezvous is there before the workers are. */
    if (str_is(grouping_label(input->pod, JOB_LABEL_ROLE), JOB_ROLE_SYNC)) {
        grouping_per_pod(input, ret);
        ret->max_run = STR_NONE; /* which is how long the job may run, not what serves it */
        ret->endless = true;
        return 0;
    }
    int r = grouping_kubeflow(input, rule, owner, ret, err);

    if (r < 0)
        return r;
    r = segment_size(input, owner, &size, err);
    if (r < 0)
        return r;
    if (min_available(owner) <= 0 && elastic > 0)
        ret->min_member = elastic;
    if (json_get(specs, "Master"))
        grouping_sub_add(input, ret, &(struct grouping_sub){.name = STR("master"), .min = masters});
    if (json_get(specs, "Worker")) {
        int64_t workers = ret->min_member > masters ? ret->min_member - masters : 0;

        struct segments segments = {replicas_of(specs, "Worker"), size, workers};

        if (segments.workers <= 0)
            size = 0; /* nothing to divide */
        if (size)
            r = add_segments(input, owner, segments, ret, err);
        else
            grouping_sub_add(input, ret,
                             &(struct grouping_sub){.name = STR("worker"), .min = workers});
    }
    if (str_is(type, "master"))
        ret->pod_sub = STR("master");
    else if (str_is(type, "worker") && !size)
        ret->pod_sub = STR("worker");
    return r;
}

/* ---- kinds with a list of roles ---- */

/* Its replicas are the job's own; a TensorBoard's pod belongs to the TensorBoard, and that to the
 * job. */
static bool is_replica(const struct grouping_input *input)
{
    return input->owner_count < 2;
}

int grouping_tensorstack(const struct grouping_input *input,
                         const struct grouping_rule *rule,
                         const struct json *owner,
                         struct grouping *ret,
                         struct err *err)
{
    struct tensorstack_spec spec;
    int64_t min = 0;
    int64_t total = 0;

    (void)rule;
    tensorstack_spec_read(json_get(owner, "spec"), input->arena, &spec);
    for (size_t i = 0; i < spec.replica_count; i++)
        total += spec.replicas[i].count;
    if (total <= 0)
        return err_set(err, -EINVAL, "spec.replicaSpecs asks for no pod at all");
    if (spec.elastic)
        min = spec.min;
    else if (spec.torchrun)
        min = spec.min_nodes;
    ret->min_member = min > 0 ? min : total;
    /* What looks on is not waited for, and does not stand in for one that is. */
    if (!is_replica(input)) {
        grouping_per_pod(input, ret);
        if (spec.queue.len && !grouping_queue(input, owner).len)
            ret->queue = spec.queue;
    }
    /* A number there is a class of ours, whatever it is: the gang may always be stopped. */
    if (spec.queue.len) {
        struct str class =
            str_printf(input->arena, TENSORSTACK_CLASS_PREFIX "%lld", (long long)spec.priority);

        if (input->find(input->user, "PriorityClass", STR(""), class))
            ret->priority = class;
        ret->preemptibility = STR("preemptible");
    }
    return 0;
}
