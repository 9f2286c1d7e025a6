#include "api/group.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_rule.h"
#include "control/job/job.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owners whose pods are mostly on their own: Job, CronJob, Deployment, Knative, and our own jobs.
 */

int grouping_torchrun(const struct grouping_input *input,
                      const struct grouping_rule *rule,
                      const struct json *owner,
                      struct grouping *ret,
                      struct err *err)
{
    struct str queue = grouping_label(input->pod, "kai.scheduler/queue");

    (void)rule;
    (void)owner;
    (void)err;
    /* The job says which TorchrunQueue; its pods say which scheduling queue that means. */
    if (queue.len)
        ret->queue = queue;
    struct str role = grouping_label(input->pod, JOB_LABEL_ROLE);
    if (str_is(role, JOB_ROLE_SYNC) || str_is(role, JOB_ROLE_SPARE)) {
        grouping_per_pod(input, ret);
        ret->max_run = STR_NONE; /* which is how long the job may run, not what serves it */
        ret->endless = true;
        return 0;
    }
    ret->min_member = input->torchrun_min > 0 ? input->torchrun_min : 1;
    if (!ret->topology.topology.len) /* what annotations say wins, as everywhere */
        ret->topology = input->torchrun_topology;
    return 0;
}

/* One group for all pods of the Job. A pod that an older version gave a group of its own keeps that.
 */
int grouping_job(const struct grouping_input *input,
                 const struct grouping_rule *rule,
                 const struct json *owner,
                 struct grouping *ret,
                 struct err *err)
{
    struct str single =
        group_name_make(input->arena, grouping_meta(input->pod, "name"), ret->owner.uid);
    struct str seen = input->old_groups ? ret->name : single;
    bool made = input->legacy_jobs && input->find(input->user, "PodGroup", ret->ns, seen);

    (void)rule;
    if (made != input->old_groups) {
        ret->name = single;
        return 0;
    }
    return input->old_groups ? 0 : grouping_batch_min(owner, 1, INT32_MIN, &ret->min_member, err);
}

int grouping_cronjob(const struct grouping_input *input,
                     const struct grouping_rule *rule,
                     const struct json *owner,
                     struct grouping *ret,
                     struct err *err)
{
    (void)rule;
    JSON_FOREACH(json_at(input->pod, "metadata.ownerReferences"), reference) {
        struct str name = json_str(json_get(reference, "name"));

        if (!str_is(json_str(json_get(reference, "kind")), "Job"))
            continue;
        if (!input->find(input->user, "Job", grouping_meta(owner, "namespace"), name))
            return err_set(err, -EINVAL, "Job " STR_FMT " of the CronJob does not exist",
                           STR_ARG(name));
        ret->owner =
            (struct grouping_owner){.api_version = json_str(json_get(reference, "apiVersion")),
                                    .kind = STR("Job"),
                                    .name = name,
                                    .uid = json_str(json_get(reference, "uid"))};
        ret->name = group_name_make(input->arena, name, ret->owner.uid);
        return 0;
    }
    return err_set(err, -EINVAL, "the pod of CronJob " STR_FMT " belongs to no Job",
                   STR_ARG(ret->owner.name));
}

int grouping_deployment(const struct grouping_input *input,
                        const struct grouping_rule *rule,
                        const struct json *owner,
                        struct grouping *ret,
                        struct err *err)
{
    (void)rule;
    (void)owner;
    (void)err;
    grouping_per_pod(input, ret);
    return 0;
}

/* ---- Knative ---- */

/* Pods of this revision that were grouped one by one before: the revision stays that way. */
static bool revision_is_single(const struct grouping_input *input,
                               struct str ns,
                               struct str revision)
{
    const struct json *pod;
    size_t cursor = 0;

    while ((pod = input->next(input->user, "Pod", ns, &cursor))) {
        struct str group = grouping_annotation(pod, "pod-group-name");

        if (!group.len || !str_eq(grouping_label(pod, "serving.knative.dev/revision"), revision))
            continue;
        const struct json *old = input->find(input->user, "PodGroup", ns, group);
        if (str_is(json_str_at(old, "metadata.ownerReferences.0.kind"), "Pod"))
            return true;
    }
    return false;
}

int grouping_knative(const struct grouping_input *input,
                     const struct grouping_rule *rule,
                     const struct json *owner,
                     struct grouping *ret,
                     struct err *err)
{
    struct str ns = grouping_meta(input->pod, "namespace");
    struct str name = grouping_label(input->pod, "serving.knative.dev/revision");
    const struct json *revision = name.len ? input->find(input->user, "Revision", ns, name) : NULL;
    struct str scale = grouping_annotation(revision, "autoscaling.knative.dev/min-scale");
    int64_t min = 0;

    (void)owner;
    (void)rule;
    struct str priority = grouping_label(revision, "priorityClassName");
    if (priority.len && !grouping_label(input->pod, "priorityClassName").len &&
        input->find(input->user, "PriorityClass", STR(""), priority))
        ret->priority = priority;
    if (!input->knative_gang || revision_is_single(input, ns, name)) {
        grouping_per_pod(input, ret);
        return 0;
    }
    if (!revision)
        return err_set(err, -EINVAL, "Revision \"" STR_FMT "\" of the pod does not exist",
                       STR_ARG(name));
    grouping_own(ret, revision);
    ret->name = group_name_make(input->arena, ret->owner.name, ret->owner.uid);
    ret->min_member = str_to_i64(scale, &min) && min > 0 ? min : 1;
    return 0;
}

/* ---- others ---- */

int grouping_runaijob(const struct grouping_input *input,
                      const struct grouping_rule *rule,
                      const struct json *owner,
                      struct grouping *ret,
                      struct err *err)
{
    struct str pod = grouping_meta(input->pod, "name");
    size_t end = pod.len;

    (void)rule;
    (void)owner;
    (void)err;
    if (input->legacy_jobs && input->find(input->user, "PodGroup", ret->ns, ret->name))
        return 0;
    while (end > 0 && pod.p[end - 1] != '-')
        end--;
    ret->name =
        group_name_make(input->arena, end > 1 ? str_sub(pod, 0, end - 1) : pod, ret->owner.uid);
    return 0;
}

int grouping_aml(const struct grouping_input *input,
                 const struct grouping_rule *rule,
                 const struct json *owner,
                 struct grouping *ret,
                 struct err *err)
{
    const struct json *count = json_at(owner, "spec.job.options.envs.AZUREML_NODE_COUNT");
    int64_t min = json_i64_or(count, 0);

    (void)input;
    (void)rule;
    (void)err;
    if (min <= 0)
        (void)str_to_i64(json_str(count), &min);
    ret->min_member = min > 0 ? min : 1;
    return 0;
}
