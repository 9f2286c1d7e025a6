#include "api/group.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/str.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_rule.h"

#include <errno.h>
#include <stddef.h>

/* Which rule groups the pods of which kind of owner. The rules are in grouping_kubeflow.c,
 * grouping_sets.c and grouping_single.c; what they have in common is in grouping.c. A kind that none
 * is for may be described by a Karta (grouping_karta.c). */

/* One line a kind. Whatever is not here gets the last one. */
static const struct grouping_rule rules[] = {
    {.name = "TorchrunJob", .group = "torchrun.ai", .apply = grouping_torchrun},
    {.name = "PyTorchTrainingJob", .group = "batch.tensorstack.dev", .apply = grouping_tensorstack},
    {.name = "PyTorchJob",
     .group = "kubeflow.org",
     .training = &training_kinds[TRAINING_PYTORCH],
     .apply = grouping_pytorch},
    {.name = "TFJob",
     .group = "kubeflow.org",
     .training = &training_kinds[TRAINING_TENSORFLOW],
     .apply = grouping_kubeflow},
    {.name = "XGBoostJob",
     .group = "kubeflow.org",
     .training = &training_kinds[TRAINING_XGBOOST],
     .strict = {"Master", "Worker"},
     .apply = grouping_kubeflow},
    {.name = "JAXJob",
     .group = "kubeflow.org",
     .training = &training_kinds[TRAINING_JAX],
     .apply = grouping_kubeflow},
    {.name = "PaddleJob",
     .group = "kubeflow.org",
     .training = &training_kinds[TRAINING_PADDLE],
     .apply = grouping_kubeflow},
    {.name = "MPIJob",
     .group = "kubeflow.org",
     .training = &training_kinds[TRAINING_MPI],
     .apply = grouping_mpi},
    {.name = "Notebook", .group = "kubeflow.org", .priority = "build"},
    {.name = "JobSet", .group = "jobset.x-k8s.io", .apply = grouping_jobset},
    {.name = "LeaderWorkerSet", .group = "leaderworkerset.x-k8s.io", .apply = grouping_lws},
    {.name = "RayCluster", .group = "ray.io", .apply = grouping_ray},
    {.name = "RayJob", .group = "ray.io", .apply = grouping_ray},
    {.name = "RayService", .group = "ray.io", .apply = grouping_ray},
    {.name = "PodGangSet", .group = "grove.io", .apply = grouping_grove},
    {.name = "PodCliqueSet", .group = "grove.io", .apply = grouping_grove},
    {.name = "Job", .group = "batch", .apply = grouping_job},
    {.name = "CronJob", .group = "batch", .apply = grouping_cronjob},
    {.name = "Deployment", .group = "apps", .priority = "inference", .apply = grouping_deployment},
    {.name = "Service",
     .group = "serving.knative.dev",
     .priority = "inference",
     .apply = grouping_knative},
    {.name = "SPOTRequest", .group = "egx.nvidia.io", .priority = "inference"},
    {.name = "RunaiJob", .group = "run.ai", .apply = grouping_runaijob},
    {.name = "AmlJob", .group = "amlarc.azureml.com", .apply = grouping_aml},
    {.name = "TrainJob", .group = "trainer.kubeflow.org", .skip = true},
    {.name = "Workflow", .group = "argoproj.io", .skip = true},
    {.name = "DynamoGraphDeployment", .group = "nvidia.com", .skip = true},
    {.name = "TrainingWorkload", .group = "run.ai", .skip = true},
    {.name = "InteractiveWorkload", .group = "run.ai", .skip = true},
    {.name = "DistributedWorkload", .group = "run.ai", .skip = true},
    {.name = "DistributedInferenceWorkload", .group = "run.ai", .skip = true},
    {.name = "InferenceWorkload", .group = "run.ai", .skip = true},
    {.name = "default"},
};
#define RULES        COUNT_OF(rules)
#define RULE_DEFAULT (&rules[RULES - 1])

/* The rule of an owner, by its apiVersion and kind; never NULL. */
static const struct grouping_rule *rule_for(const struct json *owner)
{
    struct str kind = json_str(json_get(owner, "kind"));
    struct str group = grouping_api_group(json_str(json_get(owner, "apiVersion")));

    for (size_t i = 0; i < RULES; i++)
        if (str_is(kind, rules[i].name) && (!rules[i].group || str_is(group, rules[i].group)))
            return &rules[i];
    return RULE_DEFAULT;
}

const struct grouping_rule *grouping_rule_named(struct str name)
{
    for (size_t i = 0; i < RULES; i++)
        if (str_is(name, rules[i].name))
            return &rules[i];
    return NULL;
}

/* ---- deciding ---- */

/* An owner with what it lacks of labels and annotations taken from the one above it. */
static struct json *inherit(struct arena *arena,
                            const struct json *object,
                            const struct json *above)
{
    struct json *copy = json_clone(arena, object);
    struct json *meta = json_make_path(arena, copy, "metadata");
    const char *const maps[] = {"labels", "annotations"};

    for (size_t i = 0; i < 2; i++) {
        const struct json *from = json_get(json_get(above, "metadata"), maps[i]);
        struct json *to = json_get(meta, maps[i]);

        if (!json_is(from, JSON_OBJECT))
            continue;
        if (!json_is(to, JSON_OBJECT))
            to = json_add_object(arena, meta, maps[i]);
        _cleanup_(json_names_done) struct json_names names = {.object = to};
        JSON_FOREACH(from, member)
            if (!json_names_get(&names, json_key(member)))
                (void)json_names_put(&names, str_dup(arena, json_key(member)),
                                     json_clone(arena, member));
    }
    return copy;
}

static void spark(const struct grouping_input *input, struct grouping *ret)
{
    struct str selector = grouping_label(input->pod, "spark-app-selector");

    if (selector.len && grouping_label(input->pod, "spark-app-name").len)
        ret->name = selector;
}

static int decide(const struct grouping_input *input,
                  const struct grouping_rule *rule,
                  struct grouping *ret,
                  struct err *err)
{
    const struct json *owner = input->owner_count ? input->owners[0] : input->pod;

    if (!rule)
        rule = rule_for(owner);
    for (size_t below = 1; rule->skip; below++) {
        const struct json *next = below < input->owner_count ? input->owners[below] : input->pod;

        owner = inherit(input->arena, next, owner);
        rule = below < input->owner_count ? rule_for(owner) : RULE_DEFAULT;
    }
    grouping_common(input, rule, owner, ret);
    if (!input->owner_count) {
        spark(input, ret);
        if (!ret->owner.api_version.len)
            ret->owner.api_version = STR("v1");
        if (!ret->owner.kind.len)
            ret->owner.kind = STR("Pod");
    }
    if (rule == RULE_DEFAULT && input->owner_count)
        return grouping_karta(input, owner, ret, err);
    return rule->apply ? rule->apply(input, rule, owner, ret, err) : 0;
}

int grouping_decide(const struct grouping_input *input,
                    const struct grouping_rule *rule,
                    struct grouping *ret,
                    struct err *err)
{
    *ret = (struct grouping){0};
    int r = decide(input, rule, ret, err);

    /* What is left out would be waited for. */
    return ret->crowded ? err_set(err, -EINVAL,
                                  "its group would have more than the %d subgroups that it can",
                                  GROUP_SUBGROUPS_MAX)
                        : r;
}
