#include "api/admit.h"
#include "api/training.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Jobs of kubeflow.org, checked as Kubeflow's webhooks check them, and where those let something
 * through that cannot work or must not change. On a cluster the rules of the CRDs say the same. */

static bool is_one_of(struct str word, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        if (str_is(word, words[i]))
            return true;
    return false;
}

static struct str joined(struct arena *arena, const char *const *words)
{
    struct str text = STR("");

    for (size_t i = 0; words[i]; i++)
        text = str_printf(arena, STR_FMT "%s\"%s\"", STR_ARG(text), i ? ", " : "", words[i]);
    return text;
}

static void check_containers(struct admit *admit,
                             const struct training_kind *rule,
                             const struct json *template,
                             struct str path)
{
    struct str at = str_printf(admit->arena, STR_FMT ".template.spec.containers", STR_ARG(path));
    bool found = !rule->container;
    size_t index = 0;

    JSON_FOREACH(json_at(template, "spec.containers"), container) {
        found = found || str_is(json_str(json_get(container, "name")), rule->container);
        if (!json_str(json_get(container, "image")).len)
            admit_required(admit,
                           str_printf(admit->arena, STR_FMT "[%zu].image", STR_ARG(at), index), "");
        index++;
    }
    if (!index)
        admit_required(admit, at, "");
    else if (!found)
        admit_required(admit, at,
                       str_c(admit->arena,
                             str_printf(admit->arena,
                                        "one container must be named \"%s\": it runs the training",
                                        rule->container)));
    if (index)
        admit_pod_validate(admit, json_get(template, "spec"),
                           str_printf(admit->arena, STR_FMT ".template.spec", STR_ARG(path)));
}

static void check_replicas(struct admit *admit,
                           const struct training_kind *rule,
                           const struct json *specs)
{
    JSON_FOREACH(specs, entry) {
        struct str type = json_key(entry);
        struct str path = str_printf(admit->arena, "spec.%s." STR_FMT, rule->specs, STR_ARG(type));
        const struct json *replicas = json_get(entry, "replicas");
        struct str at = str_printf(admit->arena, STR_FMT ".replicas", STR_ARG(path));
        int64_t count = json_i64_or(replicas, 1);

        if (!is_one_of(type, rule->roles)) {
            admit_unsupported(admit, path, json_new_str(admit->arena, type),
                              str_c(admit->arena, joined(admit->arena, rule->roles)));
            continue;
        }
        if (is_one_of(type, rule->single) && json_is_null(replicas) && rule->counted)
            admit_required(admit, at, "must be 1");
        else if (is_one_of(type, rule->single) && count != 1)
            admit_invalid(admit, at, replicas, "must be 1");
        check_containers(admit, rule, json_get(entry, "template"), path);
    }
}

static void check_present(struct admit *admit,
                          const struct training_kind *rule,
                          const struct json *specs)
{
    struct str at = str_printf(admit->arena, "spec.%s", rule->specs);

    if (!json_count(specs))
        admit_required(admit, at, "at least one replica type is needed");
    for (size_t i = 0; json_count(specs) && rule->required[i]; i++)
        if (!json_get(specs, rule->required[i]))
            admit_required(
                admit, str_printf(admit->arena, STR_FMT ".%s", STR_ARG(at), rule->required[i]), "");
    if (json_get(specs, "Chief") && json_get(specs, "Master"))
        admit_forbidden(admit, str_printf(admit->arena, STR_FMT ".Master", STR_ARG(at)),
                        "Chief and Master mean the same: use only one of them");
}

static void check_elastic(struct admit *admit, const struct json *spec, const struct json *specs)
{
    const struct json *policy = json_get(spec, "elasticPolicy");
    int64_t min = json_i64_or(json_get(policy, "minReplicas"), 0);
    int64_t max = json_i64_or(json_get(policy, "maxReplicas"), 0);

    if (json_is_null(policy))
        return;
    if (!json_get(specs, "Worker"))
        admit_forbidden(admit, STR("spec.elasticPolicy"), "an elastic job needs Worker replicas");
    if (min && max && max < min)
        admit_invalid(admit, STR("spec.elasticPolicy.maxReplicas"), json_get(policy, "maxReplicas"),
                      "must be at least minReplicas");
    if (json_get(policy, "nProcPerNode") && json_get(spec, "nprocPerNode"))
        admit_forbidden(admit, STR("spec.elasticPolicy.nProcPerNode"),
                        "spec.nprocPerNode has the same meaning: set only that one");
}

static void check_fixed(struct admit *admit)
{
    static const char *const fixed[] = {"spec.runPolicy.managedBy",
                                        "spec.runPolicy.schedulingPolicy.queue"};

    for (size_t i = 0; admit->old && i < COUNT_OF(fixed); i++) {
        const struct json *before = json_at(admit->old, fixed[i]);
        const struct json *now = json_at(admit->object, fixed[i]);

        if ((before || now) && !json_equal(before, now))
            admit_invalid(admit, str_from(fixed[i]), now, "field is immutable");
    }
}

void admit_kubeflow(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");

    const struct training_kind *rule = training_of(admit->kind);

    if (!rule)
        return;
    const struct json *specs = json_get(spec, rule->specs);
    check_present(admit, rule, specs);
    check_replicas(admit, rule, specs);
    check_elastic(admit, spec, specs);
    check_fixed(admit);
}
