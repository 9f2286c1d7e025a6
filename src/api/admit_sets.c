#include "api/admit.h"
#include "api/names.h"
#include "api/regex.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JobSet: what cannot work is refused when it is written, with the field. */

static struct str part_path(struct admit *admit, size_t index, const char *rest)
{
    return str_printf(admit->arena, "spec.replicatedJobs[%zu]%s", index, rest);
}

/* The longest name that follows from the set's, its parts' and the numbers. */
static void check_name_length(struct admit *admit,
                              const struct json *part,
                              struct str set,
                              size_t index)
{
    int64_t jobs = json_i64_or(json_get(part, "replicas"), 1);
    int64_t pods = json_i64_or(json_at(part, "template.spec.parallelism"), 1);
    struct str name =
        str_printf(admit->arena, STR_FMT "-" STR_FMT "-%lld-%lld", STR_ARG(set),
                   STR_ARG(json_str(json_get(part, "name"))), (long long)(jobs > 0 ? jobs - 1 : 0),
                   (long long)(pods > 0 ? pods - 1 : 0));

    if (name.len > NAMES_LABEL_MAX)
        admit_invalid(
            admit, part_path(admit, index, ".name"), json_get(part, "name"),
            str_printf(admit->arena,
                       "the names of its pods (" STR_FMT
                       ") would be longer than 63 characters: shorten it or metadata.name",
                       STR_ARG(name))
                .p);
    else if (names_dns_1035_label(name))
        admit_invalid(admit, part_path(admit, index, ".name"), json_get(part, "name"),
                      names_dns_1035_label(name));
}

static void check_depends(struct admit *admit,
                          const struct json *spec,
                          const struct admit_names *parts,
                          const struct json *part,
                          size_t index)
{
    bool in_order = str_is(json_str_at(spec, "startupPolicy.startupPolicyOrder"), "InOrder");

    if (json_count(json_get(part, "dependsOn")) && in_order)
        admit_invalid(admit, part_path(admit, index, ".dependsOn"), json_get(part, "dependsOn"),
                      "cannot be used together with startupPolicy InOrder");
    JSON_FOREACH(json_get(part, "dependsOn"), entry) {
        const struct json *name = json_get(entry, "name");
        size_t before = admit_names_find(parts, json_str(name));

        if (before == SIZE_MAX || before >= index)
            admit_invalid(admit, part_path(admit, index, ".dependsOn"), name,
                          "must name a replicatedJob that comes before this one");
    }
}

static void check_targets(struct admit *admit,
                          const struct admit_names *parts,
                          const struct json *targets,
                          struct str path)
{
    JSON_FOREACH(targets, target)
        if (!admit_names_have(parts, json_str(target)))
            admit_invalid(admit,
                          str_printf(admit->arena, STR_FMT ".targetReplicatedJobs", STR_ARG(path)),
                          target, "is not a name in spec.replicatedJobs");
}

static void check_rules(struct admit *admit,
                        const struct json *spec,
                        const struct admit_names *parts)
{
    const struct json *rules = json_at(spec, "failurePolicy.rules");
    struct admit_names names = admit_names(admit->arena, rules, "name");
    size_t index = 0;

    JSON_FOREACH(rules, rule) {
        struct str path = str_printf(admit->arena, "spec.failurePolicy.rules[%zu]", index);

        check_targets(admit, parts, json_get(rule, "targetReplicatedJobs"), path);
        if (names.again[index++])
            admit_duplicate(admit, str_printf(admit->arena, STR_FMT ".name", STR_ARG(path)),
                            json_get(rule, "name"));
        JSON_FOREACH(json_get(rule, "onJobFailureMessagePatterns"), pattern) {
            struct regex *regex = NULL;
            struct err err = {0};

            if (regex_compile(admit->arena, json_str(pattern), &regex, &err) < 0)
                admit_invalid(
                    admit,
                    str_printf(admit->arena, STR_FMT ".onJobFailureMessagePatterns", STR_ARG(path)),
                    pattern, str_c(admit->arena, str_from(err.text)));
        }
    }
}

static void check_coordinator(struct admit *admit, const struct json *spec)
{
    const struct json *coordinator = json_get(spec, "coordinator");
    struct str name = json_str(json_get(coordinator, "replicatedJob"));

    if (json_is_null(coordinator))
        return;
    JSON_FOREACH(json_get(spec, "replicatedJobs"), part) {
        if (!str_eq(json_str(json_get(part, "name")), name))
            continue;
        if (json_i64_or(json_get(coordinator, "jobIndex"), 0) >=
            json_i64_or(json_get(part, "replicas"), 1))
            admit_invalid(admit, STR("spec.coordinator.jobIndex"),
                          json_get(coordinator, "jobIndex"),
                          "must be below the replicas of its replicatedJob");
        if (json_i64_or(json_get(coordinator, "podIndex"), 0) >=
            json_i64_or(json_at(part, "template.spec.completions"),
                        json_i64_or(json_at(part, "template.spec.parallelism"), 1)))
            admit_invalid(admit, STR("spec.coordinator.podIndex"),
                          json_get(coordinator, "podIndex"),
                          "must be below the completions of its replicatedJob");
        return;
    }
    admit_invalid(admit, STR("spec.coordinator.replicatedJob"),
                  json_get(coordinator, "replicatedJob"), "is not a name in spec.replicatedJobs");
}

/* A part without what may change while the set is suspended. */
static struct json *fixed_parts(struct arena *arena, const struct json *spec)
{
    static const char *const open_fields[] = {"nodeSelector", "tolerations", "schedulingGates"};
    struct json *copy = json_clone(arena, json_get(spec, "replicatedJobs"));

    JSON_FOREACH(copy, part) {
        struct json *template = json_at(part, "template.spec.template");

        json_remove(json_get(template, "metadata"), STR("labels"));
        json_remove(json_get(template, "metadata"), STR("annotations"));
        if (!json_count(json_get(template, "metadata")))
            json_remove(template, STR("metadata"));
        for (size_t i = 0; i < COUNT_OF(open_fields); i++)
            json_remove(json_get(template, "spec"), str_from(open_fields[i]));
    }
    return copy;
}

static void check_update(struct admit *admit, const struct json *spec, const struct json *before)
{
    static const char *const fixed[] = {"successPolicy",      "failurePolicy", "startupPolicy",
                                        "coordinator",        "managedBy",     "network",
                                        "volumeClaimPolicies"};
    bool stopped = json_bool_or(json_get(spec, "suspend"), false) ||
                   json_bool_or(json_get(before, "suspend"), false);
    const struct json *now = json_get(spec, "replicatedJobs");
    const struct json *then = json_get(before, "replicatedJobs");

    if (stopped ? !json_equal(fixed_parts(admit->arena, spec), fixed_parts(admit->arena, before))
                : !json_equal(now, then))
        admit_invalid(admit, STR("spec.replicatedJobs"),
                      json_new_str(admit->arena, STR("replicatedJobs")),
                      "field is immutable, but for labels, annotations, nodeSelector, tolerations "
                      "and schedulingGates of the pod template while the jobset is suspended");
    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        if (!json_equal(json_get(spec, fixed[i]), json_get(before, fixed[i])))
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", fixed[i]),
                          json_get(spec, fixed[i]), "field is immutable");
}

/* The Job of a part as the controller will complete it: indexed, and with the claims of the set as
 * volumes. */
static struct json *whole_job(struct admit *admit, const struct json *spec, const struct json *part)
{
    struct arena *arena = admit->arena;
    struct json *job = json_clone(arena, json_at(part, "template.spec"));
    struct json *pod = json_at(job, "template.spec");

    if (!json_is(pod, JSON_OBJECT))
        return job;
    if (json_is_null(json_get(job, "completionMode")))
        json_add_c(arena, job, "completionMode", "Indexed");
    if (json_is_null(json_get(job, "completions")))
        json_add_i64(arena, job, "completions", json_i64_or(json_get(job, "parallelism"), 1));
    JSON_FOREACH(json_get(spec, "volumeClaimPolicies"), policy)
        JSON_FOREACH(json_get(policy, "templates"), template) {
            struct json *volumes = json_get(pod, "volumes");
            struct str name = json_str_at(template, "metadata.name");
            bool there = false;

            if (!json_is(volumes, JSON_ARRAY))
                volumes = json_add_array(arena, pod, "volumes");
            JSON_FOREACH(volumes, volume)
                there |= str_eq(json_str(json_get(volume, "name")), name);
            if (there)
                continue;
            json_push(volumes, json_make(arena, "{name: $, persistentVolumeClaim: {claimName: $}}",
                                         name, name));
        }
    return job;
}

void admit_jobset_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    struct str set = json_str_at(admit->object, "metadata.name");
    struct str manager = json_str(json_get(spec, "managedBy"));
    struct admit_names parts = admit_names(admit->arena, json_get(spec, "replicatedJobs"), "name");
    size_t index = 0;

    if (admit->old) {
        check_update(admit, spec, json_get(admit->old, "spec"));
        return;
    }
    if (!json_count(json_get(spec, "replicatedJobs")))
        admit_warn(admit,
                   STR("spec.replicatedJobs: names no job, so nothing comes of this JobSet"));
    if (manager.len && (names_qualified(manager) || str_find(manager, '/') == manager.len))
        admit_invalid(admit, STR("spec.managedBy"), json_get(spec, "managedBy"),
                      "must be a domain-prefixed path, like acme.io/foo");
    JSON_FOREACH(json_get(spec, "replicatedJobs"), part) {
        check_name_length(admit, part, set, index);
        check_depends(admit, spec, &parts, part, index);
        admit_job_spec(admit, whole_job(admit, spec, part),
                       part_path(admit, index, ".template.spec"));
        index++;
    }
    check_targets(admit, &parts, json_at(spec, "successPolicy.targetReplicatedJobs"),
                  STR("spec.successPolicy"));
    check_rules(admit, spec, &parts);
    check_coordinator(admit, spec);
}
