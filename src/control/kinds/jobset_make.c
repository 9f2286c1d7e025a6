#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/sha1.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"
#include "control/kinds/jobset.h"
#include "control/kinds/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The Jobs, the headless service and the claims of a JobSet. */

struct str jobset_job_name(const struct jobset *set, const struct jobset_part *part, int64_t index)
{
    return str_printf(set->arena, STR_FMT "-" STR_FMT "-%lld", STR_ARG(set->object->name),
                      STR_ARG(part->name), (long long)index);
}

static bool has_names(const struct jobset *set)
{
    return set->spec.names;
}

struct str jobset_subdomain(const struct jobset *set)
{
    return set->spec.subdomain.len ? set->spec.subdomain : set->object->name;
}

struct json *jobset_make_service(const struct jobset *set)
{
    struct arena *arena = set->arena;

    if (!has_names(set))
        return NULL;
    struct json *body = owner_make(arena, set->object, &kind_service, jobset_subdomain(set));
    json_fill(arena, body,
              "{spec: {clusterIP: 'None', publishNotReadyAddresses: $, selector: {" JOBSET_NAME
              ": $}}}",
              set->spec.publish, set->object->name);
    return body;
}

/* ---- labels ---- */

static void add_number(struct arena *arena, struct json *to, const char *key, int64_t number)
{
    json_add_str(arena, to, key, str_printf(arena, "%lld", (long long)number));
}

static struct str job_key(const struct jobset *set, struct str job)
{
    return sha1_text(set->arena, str_printf(set->arena, STR_FMT "/" STR_FMT,
                                            STR_ARG(set->object->ns), STR_ARG(job)));
}

/* The same on Jobs and pods, as labels and as annotations. */
static struct json *identity(const struct jobset *set,
                             const struct jobset_part *part,
                             int64_t index)
{
    struct arena *arena = set->arena;
    struct json *map = json_make(arena,
                                 "{" JOBSET_NAME ": $, " JOBSET_DOMAIN "jobset-uid"
                                 ": $, " JOBSET_REPLICATED_NAME ": $}",
                                 set->object->name, set->object->uid, part->name);

    add_number(arena, map, JOBSET_DOMAIN "replicatedjob-replicas", part->replicas);
    add_number(arena, map, JOBSET_DOMAIN "global-replicas", set->total);
    add_number(arena, map, JOBSET_JOB_INDEX, index);
    add_number(arena, map, JOBSET_DOMAIN "job-global-index", part->global_first + index);
    json_add_str(arena, map, JOBSET_DOMAIN "job-key",
                 job_key(set, jobset_job_name(set, part, index)));
    add_number(arena, map, JOBSET_ATTEMPT, jobset_restarts(set));
    json_add_str(arena, map, JOBSET_DOMAIN "group-name", part->spec->group);
    add_number(arena, map, JOBSET_DOMAIN "group-replicas", part->group_replicas);
    add_number(arena, map, JOBSET_DOMAIN "job-group-index", part->group_first + index);
    if (set->spec.coordinator.len)
        json_add_str(
            arena, map, JOBSET_DOMAIN "coordinator",
            str_printf(arena, STR_FMT "-" STR_FMT "-%lld-%lld." STR_FMT, STR_ARG(set->object->name),
                       STR_ARG(set->spec.coordinator), (long long)set->spec.coordinator_job,
                       (long long)set->spec.coordinator_pod, STR_ARG(jobset_subdomain(set))));
    return map;
}

/* ---- placement ---- */

/* A Job for itself in its topology domain: pods of one Job attract each other there, those of
 * another keep out. */
static void add_exclusive(const struct jobset *set,
                          struct json *pod_spec,
                          struct str topology,
                          struct str key)
{
    static const char *const kinds[] = {"podAffinity", "podAntiAffinity"};
    struct arena *arena = set->arena;

    for (size_t i = 0; i < 2; i++) {
        struct json *affinity =
            json_make_path(arena, json_make_path(arena, pod_spec, "affinity"), kinds[i]);
        struct json *term =
            json_push(list_at(arena, affinity, "requiredDuringSchedulingIgnoredDuringExecution"),
                      json_new_object(arena));
        struct json *rules = json_add_array(arena, json_add_object(arena, term, "labelSelector"),
                                            "matchExpressions");
        struct json *rule = json_push(rules, json_new_object(arena));
        if (i == 1) {
            json_add_c(arena, rule, "key", JOBSET_DOMAIN "job-key");
            json_add_c(arena, rule, "operator", "Exists");
            rule = json_push(rules, json_new_object(arena));
        }
        json_fill(arena, rule, "{key: $, operator: $, values: [$]}", JOBSET_DOMAIN "job-key",
                  i == 0 ? "In" : "NotIn", key);
        json_fill(arena, term, "{topologyKey: $, namespaceSelector: {}}", str_dup(arena, topology));
    }
}

/* With the annotation node-selector, nodes were labelled and tainted for the Job beforehand. */
static void add_node_selector(const struct jobset *set, struct json *pod_spec, struct str job)
{
    struct arena *arena = set->arena;

    json_add_str(arena, json_make_path(arena, pod_spec, "nodeSelector"),
                 "alpha.jobset.sigs.k8s.io/namespaced-job",
                 str_printf(arena, STR_FMT "_" STR_FMT, STR_ARG(set->object->ns), STR_ARG(job)));
    json_push(list_at(arena, pod_spec, "tolerations"),
              json_make(arena, "{key: 'alpha.jobset.sigs.k8s.io/no-schedule', operator: 'Exists', "
                               "effect: 'NoSchedule'}"));
}

static void place(const struct jobset *set,
                  const struct jobset_part *part,
                  struct json *pod_spec,
                  struct str job)
{
    const struct json *own = json_at(part->spec->template, "metadata.annotations");
    const struct json *all = json_at(set->tree, "metadata.annotations");
    struct str topology = json_str(json_get(own, JOBSET_EXCLUSIVE));
    bool selector = json_get(own, "alpha.jobset.sigs.k8s.io/node-selector") ||
                    json_get(all, "alpha.jobset.sigs.k8s.io/node-selector");

    if (!topology.len)
        topology = json_str(json_get(all, JOBSET_EXCLUSIVE));
    if (!topology.len)
        return;
    if (selector)
        add_node_selector(set, pod_spec, job);
    else
        add_exclusive(set, pod_spec, topology, job_key(set, job));
}

/* ---- claims ---- */

static struct str claim_name(const struct jobset *set, const struct json *template)
{
    return str_printf(set->arena, STR_FMT "-" STR_FMT,
                      STR_ARG(json_str_at(template, "metadata.name")), STR_ARG(set->object->name));
}

void jobset_make_claims(struct jobset *set)
{
    struct arena *arena = set->arena;

    JSON_FOREACH(set->spec.claims, policy)
        JSON_FOREACH(json_get(policy, "templates"), template) {
            struct str name = claim_name(set, template);
            bool keep = str_is(json_str_at(policy, "retentionPolicy.whenDeleted"), "Retain");

            if (cache_get(set->input->cache, &kind_pvc, set->object->ns, name))
                continue;
            struct json *body = owner_make(arena, set->object, &kind_pvc, name);
            struct json *meta = json_get(body, "metadata");
            if (keep)
                json_remove(meta, STR("ownerReferences"));
            owner_merge_map(arena, json_make_path(arena, meta, "labels"),
                            json_at(template, "metadata.labels"));
            json_add_str(arena, json_get(meta, "labels"), JOBSET_NAME, set->object->name);
            owner_merge_map(arena, json_make_path(arena, meta, "annotations"),
                            json_at(template, "metadata.annotations"));
            json_set(body, STR("spec"), json_clone(arena, json_get(template, "spec")));
            action_create(set->actions, &kind_pvc, body);
        }
}

static bool is_mounted(const struct json *pod_spec, struct str volume)
{
    static const char *const lists[] = {"containers", "initContainers"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_get(pod_spec, lists[i]), container)
            JSON_FOREACH(json_get(container, "volumeMounts"), mount)
                if (str_eq(json_str(json_get(mount, "name")), volume))
                    return true;
    return false;
}

/* A pod that mounts a claim of the set by the name of its template gets the volume. */
static void add_volumes(const struct jobset *set, struct json *pod_spec)
{
    struct arena *arena = set->arena;

    JSON_FOREACH(set->spec.claims, policy)
        JSON_FOREACH(json_get(policy, "templates"), template) {
            struct str name = json_str_at(template, "metadata.name");
            bool there = false;

            JSON_FOREACH(json_get(pod_spec, "volumes"), volume)
                there |= str_eq(json_str(json_get(volume, "name")), name);
            if (there || !is_mounted(pod_spec, name))
                continue;
            json_push(list_at(arena, pod_spec, "volumes"),
                      json_make(arena, "{name: $, persistentVolumeClaim: {claimName: $}}",
                                str_dup(arena, name), claim_name(set, template)));
        }
}

/* ---- Jobs ---- */

struct json *jobset_make_job(const struct jobset *set,
                             const struct jobset_part *part,
                             int64_t index)
{
    struct arena *arena = set->arena;
    struct str name = jobset_job_name(set, part, index);
    struct json *body = owner_make(arena, set->object, &kind_job, name);
    const struct json *template = part->spec->template;
    struct json *spec = json_clone(arena, json_get(template, "spec"));
    struct json *ids = identity(set, part, index);
    static const char *const maps[] = {"labels", "annotations"};

    json_set(body, STR("spec"), spec);
    struct json *meta = json_get(body, "metadata");
    struct json *pod_meta = json_make_path(arena, spec, "template.metadata");
    for (size_t i = 0; i < 2; i++) {
        struct json *of_job = json_make_path(arena, meta, maps[i]);

        owner_merge_map(arena, of_job, json_get(json_get(template, "metadata"), maps[i]));
        owner_merge_map(arena, of_job, ids);
        owner_merge_map(arena, json_make_path(arena, pod_meta, maps[i]), ids);
    }
    if (jobset_own_restarts(set, name))
        add_number(arena, json_get(meta, "annotations"), JOBSET_OWN_ATTEMPT,
                   jobset_own_restarts(set, name));
    jobset_hold_mark(set, json_get(spec, "template"));
    jobset_place_mark(set, json_get(spec, "template"));
    struct json *pod_spec = json_make_path(arena, spec, "template.spec");
    if (json_is_null(json_get(spec, "completionMode")))
        json_add_c(arena, spec, "completionMode", "Indexed");
    if (json_is_null(json_get(spec, "completions")))
        json_add_i64(arena, spec, "completions", json_i64_or(json_get(spec, "parallelism"), 1));
    if (json_is_null(json_get(pod_spec, "restartPolicy")))
        json_add_c(arena, pod_spec, "restartPolicy", "OnFailure");
    if (has_names(set))
        json_add_str(arena, pod_spec, "subdomain", jobset_subdomain(set));
    json_add_bool(arena, spec, "suspend", set->suspended);
    add_volumes(set, pod_spec);
    place(set, part, pod_spec, name);
    return body;
}
