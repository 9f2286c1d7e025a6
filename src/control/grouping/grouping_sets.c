#include "api/group.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/group_name.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_rule.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owners that hold sets of pods: JobSet, LeaderWorkerSet, Ray, Grove. */

#define REQUIRED     "kai.scheduler/topology-required-placement"
#define PREFERRED    "kai.scheduler/topology-preferred-placement"
#define JOBSET_SET   "jobset.sigs.k8s.io/replicatedjob-name"
#define JOBSET_INDEX "jobset.sigs.k8s.io/job-index"
#define LWS_INDEX    "leaderworkerset.sigs.k8s.io/worker-index"

/* ---- JobSet ---- */

static int64_t replicated_pods(const struct json *replicated)
{
    int64_t replicas = json_i64_or(json_get(replicated, "replicas"), 1);
    int64_t parallel = json_i64_or(json_at(replicated, "template.spec.parallelism"), 1);
    int64_t completions = json_i64_or(json_at(replicated, "template.spec.completions"), 0);

    if (parallel <= 0)
        parallel = 1;
    if (completions > 0 && completions < parallel)
        parallel = completions;
    return replicas * parallel;
}

/* Those that must fit at once: all, unless the Job can begin with fewer. */
static int64_t replicated_min(const struct json *replicated)
{
    struct str text =
        json_str(json_get(json_at(replicated, "template.metadata.annotations"), GROUPING_MIN_PODS));
    int64_t replicas = json_i64_or(json_get(replicated, "replicas"), 1);
    int64_t all = replicated_pods(replicated);
    int64_t min = 0;

    return str_to_i64(text, &min) && min > 0 && min < all / (replicas > 0 ? replicas : 1)
               ? min * replicas
               : all;
}

/* As KAI up to 0.14: one group, or one a set of Jobs where they come one after the other. */
static int jobset_flat(const struct grouping_input *input,
                       const struct json *owner,
                       struct grouping *ret)
{
    struct str order = json_str_at(owner, "spec.startupPolicy.startupPolicyOrder");
    struct str mine = grouping_label(input->pod, JOBSET_SET);
    int64_t total = 0;
    int64_t own = 1;
    bool at_once = order.len && !str_is(order, "InOrder");

    JSON_FOREACH(json_at(owner, "spec.replicatedJobs"), replicated) {
        total += replicated_min(replicated);
        if (str_eq(json_str(json_get(replicated, "name")), mine))
            own = replicated_min(replicated);
        /* Its pods come only when those of another set are ready, or done. */
        at_once &= !json_count(json_get(replicated, "dependsOn"));
    }
    if (at_once) {
        ret->min_member = total > 0 ? total : 1;
        return 0;
    }
    /* One after the other: the next set is made when the last one is ready. */
    ret->min_member = own;
    if (mine.len)
        ret->name =
            str_printf(input->arena, STR_FMT "-" STR_FMT, STR_ARG(ret->name), STR_ARG(mine));
    return 0;
}

/* A group of it that has no subgroups, made by an older version: the JobSet stays that way. */
static const struct json *jobset_old(const struct grouping_input *input, const struct grouping *ret)
{
    struct str longer = str_printf(input->arena, STR_FMT "-", STR_ARG(ret->name));
    const struct json *group;
    size_t cursor = 0;

    while ((group = input->next(input->user, "PodGroup", ret->ns, &cursor))) {
        struct str name = grouping_meta(group, "name");

        if ((str_eq(name, ret->name) || str_starts(name, longer)) &&
            !json_count(json_at(group, "spec.subGroups")))
            return group;
    }
    return NULL;
}

static int jobset_as_before(const struct grouping_input *input,
                            const struct json *owner,
                            const struct json *old,
                            struct grouping *ret,
                            struct err *err)
{
    int64_t stored = json_i64_or(json_at(old, "spec.minMember"), 1);
    struct str mine = grouping_label(input->pod, JOBSET_SET);

    if (!str_eq(grouping_meta(old, "name"), ret->name) && mine.len)
        ret->name =
            str_printf(input->arena, STR_FMT "-" STR_FMT, STR_ARG(ret->name), STR_ARG(mine));
    return grouping_batch_min(owner, stored, 1, &ret->min_member, err);
}

/* Pods of one Job that must start. Not more than it makes. */
static int jobset_leaf_min(const struct json *replicated, int64_t *ret, struct err *err)
{
    int64_t replicas = json_i64_or(json_get(replicated, "replicas"), 1);
    const struct json *template = json_get(replicated, "template");

    return grouping_batch_min(template, replicas > 0 ? replicated_min(replicated) / replicas : 1, 1,
                              ret, err);
}

/* A set of Jobs as a subgroup, with one below it for each Job. */
static int jobset_set(const struct grouping_input *input,
                      const struct json *replicated,
                      struct grouping *ret,
                      struct err *err)
{
    struct str name = json_str(json_get(replicated, "name"));
    int64_t replicas = json_i64_or(json_get(replicated, "replicas"), 1);
    struct grouping_topology topology = grouping_topology_of(
        json_at(replicated, "template.metadata.annotations"), REQUIRED, PREFERRED, NULL);
    int64_t min = 0;
    int r = name.len ? jobset_leaf_min(replicated, &min, err)
                     : err_set(err, -EINVAL, "a replicatedJob of the JobSet has no name");

    if (r < 0)
        return r;
    if (replicas > GROUP_SUBGROUPS_MAX)
        return err_set(err, -EINVAL,
                       "replicatedJob " STR_FMT
                       " has %lld replicas, and a group at most %d subgroups",
                       STR_ARG(name), (long long)replicas, GROUP_SUBGROUPS_MAX);
    grouping_sub_add(input, ret,
                     &(struct grouping_sub){.name = name, .inner = true, .min_sub = replicas});
    for (int64_t i = 0; i < replicas; i++)
        grouping_sub_add(
            input, ret,
            &(struct grouping_sub){.name = str_printf(input->arena, STR_FMT "-replica-%lld",
                                                      STR_ARG(name), (long long)i),
                                   .min = min,
                                   .parent = name,
                                   .topology = topology});
    return 0;
}

/* The subgroup of the pod, by its labels. */
static int jobset_place(const struct grouping_input *input, struct grouping *ret, struct err *err)
{
    struct str set = grouping_label(input->pod, JOBSET_SET);
    struct str index = grouping_label(input->pod, JOBSET_INDEX);

    if (!set.len || !index.len)
        return err_set(err, -EINVAL, "the pod of a JobSet has no label %s",
                       set.len ? JOBSET_INDEX : JOBSET_SET);
    ret->pod_sub =
        str_printf(input->arena, STR_FMT "-replica-" STR_FMT, STR_ARG(set), STR_ARG(index));
    for (size_t i = 0; i < ret->subs.count; i++)
        if (str_eq(ret->subs.items[i].name, ret->pod_sub))
            return 0;
    return err_set(err, -EINVAL, "the JobSet has no Job " STR_FMT " of replicatedJob " STR_FMT,
                   STR_ARG(index), STR_ARG(set));
}

/* One group: a subgroup for each replicatedJob, and below it one for each of its Jobs. All start
 * together, unless they are made one after the other. */
int grouping_jobset(const struct grouping_input *input,
                    const struct grouping_rule *rule,
                    const struct json *owner,
                    struct grouping *ret,
                    struct err *err)
{
    const struct json *sets = json_at(owner, "spec.replicatedJobs");
    struct str order = json_str_at(owner, "spec.startupPolicy.startupPolicyOrder");
    bool in_order = str_is(order, "InOrder");

    (void)rule;
    if (!ret->owner.name.len || !ret->owner.uid.len)
        return err_set(err, -EINVAL, "the JobSet has no name or no uid");
    if (input->old_groups)
        return jobset_flat(input, owner, ret);
    if (!json_count(sets))
        return err_set(err, -EINVAL, "the JobSet has no replicatedJobs");
    const struct json *old = jobset_old(input, ret);
    if (old)
        return jobset_as_before(input, owner, old, ret, err);
    JSON_FOREACH(sets, replicated) {
        int r = jobset_set(input, replicated, ret, err);

        if (r < 0)
            return r;
        in_order = in_order || json_count(json_get(replicated, "dependsOn"));
    }
    int64_t count = (int64_t)json_count(sets);
    int r = grouping_batch_min(owner, in_order ? 1 : count, 1, &ret->min_sub, err);
    if (r < 0)
        return r;
    ret->min_sub = ret->min_sub < count ? ret->min_sub : count;
    ret->min_member = 0;
    return jobset_place(input, ret, err);
}

/* ---- LeaderWorkerSet ---- */

struct lws {
    int64_t size;
    int64_t index; /* of the pod; 0 is the leader, -1: not said */
    int64_t segment;
    bool excluded; /* the leader is in no segment */
    struct grouping_topology topology;
};

static void lws_plain(const struct grouping_input *input,
                      const struct lws *lws,
                      struct grouping *ret)
{
    grouping_sub_add(input, ret, &(struct grouping_sub){.name = STR("leader"), .min = 1});
    if (ret->min_member > 1)
        grouping_sub_add(input, ret,
                         &(struct grouping_sub){.name = STR("workers"), .min = lws->size - 1});
    ret->pod_sub = lws->index == 0 ? STR("leader") : STR("workers");
}

static struct str segment_name(const struct grouping_input *input, int64_t index)
{
    return str_printf(input->arena, "segment-%lld", (long long)index);
}

static int lws_segments(const struct grouping_input *input,
                        const struct lws *lws,
                        struct grouping *ret,
                        struct err *err)
{
    /* Where only the workers can be divided, the leader is one more in the first segment. */
    bool extra = !lws->excluded && lws->size % lws->segment && !((lws->size - 1) % lws->segment) &&
                 !input->old_groups;
    int64_t members = lws->excluded || extra ? lws->size - 1 : lws->size;
    int64_t position = lws->excluded || extra ? lws->index - 1 : lws->index;
    int64_t count = 0;
    int r = grouping_segments(members, lws->segment, &count, err);

    if (r < 0)
        return r;
    if (lws->excluded)
        grouping_sub_add(input, ret, &(struct grouping_sub){.name = STR("leader"), .min = 1});
    for (int64_t i = 0; i < count; i++) {
        int64_t left = members - i * lws->segment;
        int64_t size = (left < lws->segment ? left : lws->segment) + (extra && i == 0);
        bool nested = i == 0 && !lws->excluded;

        grouping_sub_add(input, ret,
                         &(struct grouping_sub){.name = segment_name(input, i),
                                                .min = size,
                                                .inner = nested,
                                                .min_sub = size > 1 ? 2 : 1,
                                                .topology = lws->topology});
        if (!nested)
            continue;
        grouping_sub_add(input, ret,
                         &(struct grouping_sub){
                             .name = STR("leader"), .min = 1, .parent = segment_name(input, 0)});
        if (size > 1)
            grouping_sub_add(input, ret,
                             &(struct grouping_sub){.name = STR("workers"),
                                                    .min = size - 1,
                                                    .parent = segment_name(input, 0)});
    }
    if (lws->index == 0)
        ret->pod_sub = STR("leader");
    else if (position >= 0)
        ret->pod_sub = position < lws->segment && !lws->excluded
                           ? STR("workers")
                           : segment_name(input, position / lws->segment);
    return 0;
}

static int lws_read(const struct grouping_input *input,
                    const struct json *owner,
                    struct lws *ret,
                    struct err *err)
{
    const struct json *template = json_at(owner, "spec.leaderWorkerTemplate");
    const struct json *annotations = json_at(template, "workerTemplate.metadata.annotations");
    struct str text = json_str(json_get(annotations, "kai.scheduler/segment-size"));

    *ret = (struct lws){.size = json_i64_or(json_get(template, "size"), 1), .index = -1};
    struct str index = grouping_label(input->pod, LWS_INDEX);
    if (index.len && (!str_to_i64(index, &ret->index) || ret->index < 0))
        return err_set(err, -EINVAL,
                       "label " LWS_INDEX ": \"" STR_FMT
                       "\" is not valid. It must be bigger than 0",
                       STR_ARG(index));
    ret->segment = json_i64_or(json_at(template, "subGroupPolicy.subGroupSize"), 0);
    ret->excluded =
        str_is(json_str_at(template, "subGroupPolicy.subGroupPolicyType"), "LeaderExcluded");
    ret->topology =
        grouping_topology_of(annotations, "kai.scheduler/segment-topology-required-placement",
                             "kai.scheduler/segment-topology-preferred-placement",
                             json_at(owner, "metadata.annotations"));
    if (text.len && (!str_to_i64(text, &ret->segment) || ret->segment <= 0))
        return err_set(err, -EINVAL,
                       "annotation kai.scheduler/segment-size: \"" STR_FMT
                       "\" is not a positive number",
                       STR_ARG(text));
    if (ret->size <= 0)
        return err_set(err, -EINVAL, "spec.leaderWorkerTemplate.size must be at least 1");
    if (ret->excluded && ret->segment > 0 && (ret->size - 1) % ret->segment)
        return err_set(err, -EINVAL,
                       "%lld workers cannot be divided into segments of %lld without the leader",
                       (long long)ret->size - 1, (long long)ret->segment);
    return 0;
}

int grouping_lws(const struct grouping_input *input,
                 const struct grouping_rule *rule,
                 const struct json *owner,
                 struct grouping *ret,
                 struct err *err)
{
    struct str group = grouping_label(input->pod, "leaderworkerset.sigs.k8s.io/group-index");
    bool waits = str_is(json_str_at(owner, "spec.startupPolicy"), "LeaderReady");
    struct lws lws;
    int r = lws_read(input, owner, &lws, err);

    (void)rule;
    if (r < 0)
        return r;
    if (group.len)
        ret->name =
            str_printf(input->arena, STR_FMT "-group-" STR_FMT, STR_ARG(ret->name), STR_ARG(group));
    ret->min_member = lws.size;
    /* Workers are made only when the leader is ready: until then it is alone. */
    if (waits && lws.index == 0 && !json_str_at(input->pod, "spec.nodeName").len)
        ret->min_member = 1;
    if (lws.segment > 0 && ret->min_member > 1)
        return lws_segments(input, &lws, ret, err);
    lws_plain(input, &lws, ret);
    return 0;
}

/* ---- Ray ---- */

static const struct json *ray_cluster(const struct grouping_input *input, const struct json *owner)
{
    struct str kind = json_str(json_get(owner, "kind"));
    struct str name = json_str_at(owner, "status.rayClusterName");

    if (str_is(kind, "RayCluster"))
        return owner;
    if (str_is(kind, "RayService")) {
        name = json_str_at(owner, "status.activeServiceStatus.rayClusterName");
        if (!name.len)
            name = json_str_at(owner, "status.pendingServiceStatus.rayClusterName");
    }
    return name.len
               ? input->find(input->user, "RayCluster", grouping_meta(owner, "namespace"), name)
               : NULL;
}

static int64_t ray_group_pods(const struct json *group)
{
    int64_t min = json_i64_or(json_get(group, "minReplicas"), 0);
    int64_t replicas = json_i64_or(json_get(group, "replicas"), 1);
    int64_t hosts = json_i64_or(json_get(group, "numOfHosts"), 1);

    return (min > 0 ? min : replicas) * (hosts > 0 ? hosts : 1);
}

static bool ray_group_suspended(const struct json *group)
{
    return json_bool_or(json_get(group, "suspended"), false) ||
           json_bool_or(json_get(group, "suspend"), false);
}

/* A RayJob may submit its program by a Job, when the cluster is there: no node of the cluster,
 * which neither waits for it nor counts it. */
static bool ray_is_submitter(const struct grouping_input *input)
{
    const struct json *below = input->owner_count > 1 ? input->owners[1] : NULL;

    return str_is(json_str(json_get(below, "kind")), "Job");
}

/* A group that was made without subgroups keeps none: its pods carry no subgroup. */
static bool ray_is_flat(const struct grouping_input *input, const struct grouping *ret)
{
    const struct json *old = input->find(input->user, "PodGroup", ret->ns, ret->name);

    return old && !json_count(json_at(old, "spec.subGroups"));
}

int grouping_ray(const struct grouping_input *input,
                 const struct grouping_rule *rule,
                 const struct json *owner,
                 struct grouping *ret,
                 struct err *err)
{
    const struct json *cluster = ray_cluster(input, owner);
    struct str priority = grouping_label(owner, "ray.io/priority-class-name");
    int64_t index = 0;

    (void)rule;
    if (!cluster)
        return err_set(err, -EINVAL, "the " STR_FMT " has no RayCluster yet",
                       STR_ARG(json_str(json_get(owner, "kind"))));
    if (priority.len)
        ret->priority = priority;
    if (ray_is_submitter(input)) {
        grouping_per_pod(input, ret);
        return 0;
    }
    bool flat = ray_is_flat(input, ret);
    if (!flat)
        grouping_sub_add(
            input, ret,
            &(struct grouping_sub){
                .name = STR("headgroup"),
                .min = 1,
                .topology = grouping_topology_of(
                    json_at(cluster, "spec.headGroupSpec.template.metadata.annotations"), REQUIRED,
                    PREFERRED, NULL)});
    JSON_FOREACH(json_at(cluster, "spec.workerGroupSpecs"), group) {
        struct str name = json_str(json_get(group, "groupName"));

        if (!name.len)
            name = str_printf(input->arena, "worker-group-%lld", (long long)index);
        index++;
        if (ray_group_suspended(group))
            continue;
        ret->min_member += ray_group_pods(group);
        if (!flat)
            grouping_sub_add(
                input, ret,
                &(struct grouping_sub){.name = name,
                                       .min = ray_group_pods(group),
                                       .topology = grouping_topology_of(
                                           json_at(group, "template.metadata.annotations"),
                                           REQUIRED, PREFERRED, NULL)});
    }
    if (!flat)
        ret->pod_sub = str_is(grouping_label(input->pod, "ray.io/node-type"), "head")
                           ? STR("headgroup")
                           : grouping_label(input->pod, "ray.io/group");
    return 0;
}

/* ---- Grove ---- */

/* packConstraint of a part of the gang, in the topology that the gang names. */
static struct grouping_topology grove_topology(const struct json *part, struct str topology)
{
    const struct json *pack = json_at(part, "topologyConstraint.packConstraint");
    struct grouping_topology ret = {.topology = topology,
                                    .required = json_str(json_get(pack, "required")),
                                    .preferred = json_str(json_get(pack, "preferred"))};

    return topology.len && (ret.required.len || ret.preferred.len) ? ret
                                                                   : (struct grouping_topology){0};
}

/* Parents of pod groups that have to be near each other. */
static void grove_parents(const struct grouping_input *input,
                          const struct json *gang,
                          struct str topology,
                          struct grouping *ret)
{
    JSON_FOREACH(json_at(gang, "spec.topologyConstraintGroupConfigs"), config)
        grouping_sub_add(input, ret,
                         &(struct grouping_sub){
                             .name = json_str(json_get(config, "name")),
                             .inner = true,
                             .min_sub = (int64_t)json_count(json_get(config, "podGroupNames")),
                             .topology = grove_topology(config, topology)});
}

static struct str grove_parent(const struct json *gang, struct str set)
{
    JSON_FOREACH(json_at(gang, "spec.topologyConstraintGroupConfigs"), config)
        JSON_FOREACH(json_get(config, "podGroupNames"), name)
            if (str_eq(json_str(name), set))
                return json_str(json_get(config, "name"));
    return STR_NONE;
}

static void grove_set(const struct grouping_input *input,
                      const struct json *gang,
                      const struct json *set,
                      struct str topology,
                      struct grouping *ret)
{
    struct str name = json_str(json_get(set, "name"));
    int64_t min = json_i64_or(json_get(set, "minReplicas"), 1);

    ret->min_member += min;
    grouping_sub_add(input, ret,
                     &(struct grouping_sub){.name = name,
                                            .min = min,
                                            .parent = grove_parent(gang, name),
                                            .topology = grove_topology(set, topology)});
    JSON_FOREACH(json_get(set, "podReferences"), reference)
        if (str_eq(json_str(json_get(reference, "name")), grouping_meta(input->pod, "name")) &&
            str_eq(json_str(json_get(reference, "namespace")),
                   grouping_meta(input->pod, "namespace")))
            ret->pod_sub = name;
}

int grouping_grove(const struct grouping_input *input,
                   const struct grouping_rule *rule,
                   const struct json *owner,
                   struct grouping *ret,
                   struct err *err)
{
    struct str name = grouping_label(input->pod, "grove.io/podgang");
    struct str ns = grouping_meta(input->pod, "namespace");
    const struct json *gang = name.len ? input->find(input->user, "PodGang", ns, name) : NULL;
    struct str topology = grouping_annotation(gang, "grove.io/topology-name");

    (void)rule;
    (void)owner;
    if (!gang)
        return err_set(err, -EINVAL, "the pod's PodGang \"" STR_FMT "\" does not exist",
                       STR_ARG(name));
    ret->name = group_name_make(input->arena, name, grouping_meta(gang, "uid"));
    grouping_own(ret, gang);
    struct str priority = json_str_at(gang, "spec.priorityClassName");
    if (priority.len)
        ret->priority = priority;
    struct grouping_topology whole = grove_topology(json_get(gang, "spec"), topology);
    if (whole.topology.len)
        ret->topology = whole;
    ret->min_member = 0;
    grove_parents(input, gang, topology, ret);
    JSON_FOREACH(json_at(gang, "spec.podgroups"), set)
        grove_set(input, gang, set, topology, ret);
    if (ret->min_member <= 0)
        return err_set(err, -EINVAL, "PodGang " STR_FMT " asks for no pod at all", STR_ARG(name));
    return 0;
}
