#include "api/admit.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Workload and PodGroup of scheduling.k8s.io: what Kubernetes 1.37 admits of them with the gates
 * GenericWorkload, TopologyAwareWorkloadScheduling and PodGroupPreemptionPolicy on and the others
 * off. */

#define TEMPLATES_MAX  8
#define TOPOLOGY_MAX   1
#define PRIORITY_MAX   1000000000
#define NO_COMPOSITES  "groups of groups are not scheduled here; leave it out"
#define CLAIMS_MAX     4
#define ONE_OF_CLAIM   "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
#define ONE_OF_POLICY  "must specify one of: `basic`, `gang`"
#define ONE_OF_MODE    "must specify one of: `single`, `all`"
#define ONE_OF_PARTS   "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
#define IS_IMMUTABLE   "field is immutable"
#define BELOW_ONE      "must be greater than or equal to 1"
#define OTHER_TEMPLATE "templates may not be added or removed"

static struct str below(struct admit *admit, struct str path, const char *name)
{
    return str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), name);
}

static bool is_there(const struct json *object, const char *key)
{
    return !json_is_null(json_get(object, key));
}

/* ---- what templates and groups have in common ---- */

/* Exactly one member, of two that there are. */
static void check_union(struct admit *admit,
                        const struct json *value,
                        struct str path,
                        const char *const names[2],
                        const char *words)
{
    int said = is_there(value, names[0]) + is_there(value, names[1]);

    if (said == 0)
        admit_required(admit, path, words);
    else if (said > 1)
        admit_invalid(admit, path, value, words);
}

static void check_policy(struct admit *admit,
                         const struct json *policy,
                         struct str path,
                         bool counted)
{
    static const char *const names[] = {"basic", "gang"};
    const struct json *gang = json_get(policy, "gang");
    const struct json *least = json_get(gang, "minCount");

    check_union(admit, policy, path, names, ONE_OF_POLICY);
    if (json_is_null(gang))
        return;
    if (json_is_null(least) && counted)
        admit_required(admit, below(admit, path, "gang.minCount"), "");
    else if (!json_is_null(least) && json_i64_or(least, 0) < 1)
        admit_invalid(admit, below(admit, path, "gang.minCount"), least, BELOW_ONE);
}

static void check_topology(struct admit *admit, const struct json *constraints, struct str path)
{
    const struct json *list = json_get(constraints, "topology");
    struct str at = below(admit, path, "topology");
    const struct json *key = json_get(json_index(list, 0), "key");

    if (json_count(list) > TOPOLOGY_MAX)
        admit_invalid(admit, at, list, "must have at most 1 item");
    if (!json_count(list))
        return;
    if (!json_str(key).len)
        admit_required(admit, below(admit, at, "key"), "");
    else if (names_qualified(json_str(key)))
        admit_invalid(admit, below(admit, at, "key"), key, names_qualified(json_str(key)));
}

/* Devices that the pods of a group share. */
static void check_claims(struct admit *admit, const struct json *claims, struct str path)
{
    static const char *const names[] = {"resourceClaimName", "resourceClaimTemplateName"};
    size_t i = 0;

    if (json_count(claims) > CLAIMS_MAX)
        admit_invalid(admit, path, claims, "must have at most 4 items");
    JSON_FOREACH(claims, claim) {
        struct str at = str_printf(admit->arena, STR_FMT "[%zu]", STR_ARG(path), i++);
        const struct json *name = json_get(claim, "name");

        if (!json_str(name).len)
            admit_required(admit, below(admit, at, "name"), "");
        else if (names_dns_label(json_str(name)))
            admit_invalid(admit, below(admit, at, "name"), name, names_dns_label(json_str(name)));
        check_union(admit, claim, at, names, ONE_OF_CLAIM);
    }
}

/* A template, or the spec of a group. */
static void check_group(struct admit *admit, const struct json *spec, struct str path)
{
    static const char *const modes[] = {"single", "all"};
    const struct json *mode = json_get(spec, "disruptionMode");
    const struct json *class = json_get(spec, "priorityClassName");
    const struct json *priority = json_get(spec, "priority");
    const struct json *policy = json_get(spec, "preemptionPolicy");

    check_policy(admit, json_get(spec, "schedulingPolicy"), below(admit, path, "schedulingPolicy"),
                 true);
    check_topology(admit, json_get(spec, "schedulingConstraints"),
                   below(admit, path, "schedulingConstraints"));
    if (!json_is_null(mode))
        check_union(admit, mode, below(admit, path, "disruptionMode"), modes, ONE_OF_MODE);
    if (json_str(class).len && names_dns_subdomain(json_str(class)))
        admit_invalid(admit, below(admit, path, "priorityClassName"), class,
                      names_dns_subdomain(json_str(class)));
    if (json_i64_or(priority, 0) > PRIORITY_MAX)
        admit_invalid(admit, below(admit, path, "priority"), priority,
                      "must be less than or equal to 1000000000");
    check_claims(admit, json_get(spec, "resourceClaims"), below(admit, path, "resourceClaims"));
    if (is_there(spec, "preemptionPolicy") && !str_is(json_str(policy), "Never") &&
        !str_is(json_str(policy), "PreemptLowerPriority"))
        admit_unsupported(admit, below(admit, path, "preemptionPolicy"), policy,
                          "\"Never\", \"PreemptLowerPriority\"");
}

/* All of it but minCount, which follows the size of a job. */
static void check_unchanged(struct admit *admit,
                            const struct json *now,
                            const struct json *before,
                            struct str path)
{
    struct json *a = json_clone(admit->arena, now);
    struct json *b = json_clone(admit->arena, before);
    struct json *const gangs[] = {json_at(a, "schedulingPolicy.gang"),
                                  json_at(b, "schedulingPolicy.gang")};

    for (size_t i = 0; i < COUNT_OF(gangs); i++)
        if (json_is(gangs[i], JSON_OBJECT))
            json_remove(gangs[i], STR("minCount"));
    JSON_FOREACH(a, member)
        if (!json_equal(member, json_get_str(b, json_key(member))))
            admit_invalid(admit,
                          str_printf(admit->arena, STR_FMT "." STR_FMT, STR_ARG(path),
                                     STR_ARG(json_key(member))),
                          json_get_str(now, json_key(member)), IS_IMMUTABLE);
    JSON_FOREACH(b, member)
        if (!json_get_str(a, json_key(member)))
            admit_invalid(admit,
                          str_printf(admit->arena, STR_FMT "." STR_FMT, STR_ARG(path),
                                     STR_ARG(json_key(member))),
                          NULL, IS_IMMUTABLE);
}

/* ---- PodGroup ---- */

void admit_group_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *workload = json_get(spec, "workloadRef");
    struct str path = STR("spec");

    check_group(admit, spec, path);
    if (is_there(spec, "parentCompositePodGroupName"))
        admit_forbidden(admit, below(admit, path, "parentCompositePodGroupName"), NO_COMPOSITES);
    if (!json_is_null(workload)) {
        admit_name_at(admit, workload, STR("spec.workloadRef"), "workloadName",
                      names_dns_subdomain);
        admit_name_at(admit, workload, STR("spec.workloadRef"), "templateName", names_dns_label);
    }
    if (admit->old)
        check_unchanged(admit, spec, json_get(admit->old, "spec"), path);
}

/* ---- Workload ---- */

static void check_controller(struct admit *admit, const struct json *controller)
{
    const struct json *group = json_get(controller, "apiGroup");

    if (json_is_null(controller))
        return;
    if (json_str(group).len && names_dns_subdomain(json_str(group)))
        admit_invalid(admit, STR("spec.controllerRef.apiGroup"), group,
                      names_dns_subdomain(json_str(group)));
    admit_name_at(admit, controller, STR("spec.controllerRef"), "kind", names_path_segment);
    admit_name_at(admit, controller, STR("spec.controllerRef"), "name", names_path_segment);
}

static const struct json *template_named(const struct json *list, struct str name)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(json_get(item, "name")), name))
            return item;
    return NULL;
}

/* One piece of work has one priority. */
static void check_priorities(struct admit *admit, const struct json *list)
{
    const struct json *first = json_index(list, 0);

    JSON_FOREACH(list, item)
        if (!str_eq(json_str(json_get(item, "priorityClassName")),
                    json_str(json_get(first, "priorityClassName"))) ||
            json_i64_or(json_get(item, "priority"), -1) !=
                json_i64_or(json_get(first, "priority"), -1)) {
            admit_invalid(admit, STR("spec.podGroupTemplates"), NULL,
                          "all priority and priorityClassName values must be identical, detected "
                          "multiple values");
            return;
        }
}

static void check_templates(struct admit *admit, const struct json *list)
{
    const struct json *before = json_at(admit->old, "spec.podGroupTemplates");
    struct admit_names names = admit_names(admit->arena, list, "name");
    bool other = admit->old && json_count(before) != json_count(list);
    size_t index = 0;

    if (json_count(list) > TEMPLATES_MAX)
        admit_invalid(admit, STR("spec.podGroupTemplates"), NULL, "must have at most 8 items");
    JSON_FOREACH(list, item) {
        struct str path = str_printf(admit->arena, "spec.podGroupTemplates[%zu]", index);
        const struct json *old = template_named(before, json_str(json_get(item, "name")));

        admit_name_at(admit, item, path, "name", names_dns_label);
        if (names.again[index])
            admit_duplicate(admit, below(admit, path, "name"), json_get(item, "name"));
        check_group(admit, item, path);
        if (old)
            check_unchanged(admit, item, old, path);
        other = other || (admit->old && !old);
        index++;
    }
    if (other)
        admit_invalid(admit, STR("spec.podGroupTemplates"), NULL, OTHER_TEMPLATE);
    check_priorities(admit, list);
}

void admit_workload_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *list = json_get(spec, "podGroupTemplates");
    const struct json *controller = json_get(spec, "controllerRef");

    check_controller(admit, controller);
    if (admit->old && !json_equal(controller, json_at(admit->old, "spec.controllerRef")) &&
        (controller || json_at(admit->old, "spec.controllerRef")))
        admit_invalid(admit, STR("spec.controllerRef"), controller, IS_IMMUTABLE);
    if (json_count(json_get(spec, "compositePodGroupTemplates")))
        admit_forbidden(admit, STR("spec.compositePodGroupTemplates"), NO_COMPOSITES);
    else if (!json_count(list))
        admit_required(admit, STR("spec"), ONE_OF_PARTS);
    check_templates(admit, list);
}

/* ---- Job ---- */

static void check_job_update(struct admit *admit,
                             const struct json *now,
                             const struct json *before,
                             struct str path)
{
    if (json_is_null(now) != json_is_null(before))
        admit_invalid(admit, path, now, IS_IMMUTABLE);
    else if (!json_is_null(now))
        check_unchanged(admit, now, before, path);
}

void admit_job_scheduling(struct admit *admit,
                          const struct json *spec,
                          const struct json *before,
                          struct str path)
{
    static const char *const modes[] = {"single", "all"};
    const struct json *own = json_get(spec, "scheduling");
    const struct json *mode = json_get(own, "disruptionMode");
    const struct json *least = json_at(own, "schedulingPolicy.gang.minCount");

    if (before)
        check_job_update(admit, own, json_get(before, "scheduling"), path);
    if (json_is_null(own))
        return;
    if (is_there(own, "schedulingPolicy"))
        check_policy(admit, json_get(own, "schedulingPolicy"),
                     below(admit, path, "schedulingPolicy"), false);
    if (json_i64_or(least, 0) > json_i64_or(json_get(spec, "parallelism"), 1))
        admit_invalid(admit, below(admit, path, "schedulingPolicy.gang.minCount"), least,
                      "must not be above parallelism: so many pods never wait together");
    check_topology(admit, json_get(own, "schedulingConstraints"),
                   below(admit, path, "schedulingConstraints"));
    if (!json_is_null(mode))
        check_union(admit, mode, below(admit, path, "disruptionMode"), modes, ONE_OF_MODE);
    check_claims(admit, json_get(own, "resourceClaims"), below(admit, path, "resourceClaims"));
    if (!json_is_null(json_at(spec, "template.spec.schedulingGroup")))
        admit_forbidden(admit, path,
                        "the pod template names a group of its own in schedulingGroup; say one");
}

/* ---- pods ---- */

void admit_pod_group(struct admit *admit, const struct json *spec, struct str path)
{
    const struct json *group = json_get(spec, "schedulingGroup");
    const struct json *name = json_get(group, "podGroupName");

    if (json_is_null(group))
        return;
    if (!json_str(name).len)
        admit_required(admit, below(admit, path, "schedulingGroup"),
                       "must specify one of: `podGroupName`");
    else if (names_dns_subdomain(json_str(name)))
        admit_invalid(admit, below(admit, path, "schedulingGroup.podGroupName"), name,
                      names_dns_subdomain(json_str(name)));
}
