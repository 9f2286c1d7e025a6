#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/batch_job.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"

#include <stddef.h>
#include <stdint.h>

/* spec.scheduling of a Job: a Workload and a PodGroup of scheduling.k8s.io are made for it, before
 * its pods, which name the group. What of it may change, the minimum, is brought there. */

#define TEMPLATE  "pods"
#define HASH_SEED 17

static const struct json *scheduling_of(const struct json *spec)
{
    const struct json *scheduling = json_get(spec, "scheduling");

    return json_is(scheduling, JSON_OBJECT) ? scheduling : NULL;
}

static struct str workload_name(struct arena *arena, const struct object *job)
{
    return str_printf(arena, STR_FMT "-%08x", STR_ARG(job->name),
                      (unsigned)(str_hash(job->uid, HASH_SEED) & UINT32_MAX));
}

struct str batch_gang_name(struct arena *arena, const struct object *job, const struct json *spec)
{
    if (!scheduling_of(spec))
        return STR_NONE;
    return str_printf(arena, STR_FMT "-" TEMPLATE, STR_ARG(workload_name(arena, job)));
}

/* What a template and a group have in common. A gang that says no number is all of the pods. */
static void add_group(struct arena *arena, struct json *to, const struct json *spec)
{
    static const char *const copied[] = {"schedulingConstraints", "disruptionMode",
                                         "resourceClaims"};
    const struct json *scheduling = scheduling_of(spec);
    const struct json *policy = json_get(scheduling, "schedulingPolicy");
    struct json *own = json_is(policy, JSON_OBJECT) ? json_clone(arena, policy) : NULL;
    struct str class = json_str_at(spec, "template.spec.priorityClassName");

    if (!own) {
        own = json_new_object(arena);
        json_add_object(arena, own, "basic");
    }
    if (json_is(json_get(own, "gang"), JSON_OBJECT) && !json_at(own, "gang.minCount"))
        json_add_i64(arena, json_get(own, "gang"), "minCount",
                     json_i64_or(json_get(spec, "parallelism"), 1));
    json_set(to, STR("schedulingPolicy"), own);
    for (size_t i = 0; i < COUNT_OF(copied); i++)
        if (!json_is_null(json_get(scheduling, copied[i])))
            json_set(to, str_from(copied[i]), json_clone(arena, json_get(scheduling, copied[i])));
    if (class.len)
        json_add_str(arena, to, "priorityClassName", str_dup(arena, class));
}

static struct json *templates_of(struct arena *arena, const struct json *spec)
{
    struct json *list = json_new_array(arena);
    struct json *template = json_push(list, json_new_object(arena));

    json_add_c(arena, template, "name", TEMPLATE);
    add_group(arena, template, spec);
    return list;
}

static void create_both(struct actions *actions, const struct object *job, const struct json *spec)
{
    struct arena *arena = actions->arena;
    struct str name = workload_name(arena, job);
    struct str group = batch_gang_name(arena, job, spec);
    struct json *workload = owner_make(arena, job, &kind_workload, name);
    struct json *body = owner_make(arena, job, &kind_podgroup_k8s, group);
    struct json *controller = json_make_path(arena, workload, "spec.controllerRef");
    struct json *reference = json_make_path(arena, body, "spec.workloadRef");

    json_add_c(arena, controller, "apiGroup", kind_job.group);
    json_add_c(arena, controller, "kind", kind_job.name);
    json_add_str(arena, controller, "name", str_dup(arena, job->name));
    json_set(json_get(workload, "spec"), STR("podGroupTemplates"), templates_of(arena, spec));
    action_create(actions, &kind_workload, workload);
    json_add_str(arena, reference, "workloadName", name);
    json_add_c(arena, reference, "templateName", TEMPLATE);
    add_group(arena, json_get(body, "spec"), spec);
    action_create(actions, &kind_podgroup_k8s, body);
    action_event(actions, job, "PodGroupCreated",
                 str_printf(arena, "Created PodGroup " STR_FMT " for Job " STR_FMT, STR_ARG(group),
                            STR_ARG(job->name)));
}

static int64_t minimum_of(const struct json *group)
{
    return json_i64_or(json_at(group, "schedulingPolicy.gang.minCount"), 0);
}

void batch_gang_keep(const struct control_input *input,
                     const struct object *job,
                     const struct json *spec,
                     struct actions *actions)
{
    struct arena *arena = actions->arena;
    struct str name = batch_gang_name(arena, job, spec);
    struct json *wanted = json_new_object(arena);

    if (!name.len)
        return;
    const struct object *group = cache_get(input->cache, &kind_podgroup_k8s, job->ns, name);
    const struct object *workload =
        cache_get(input->cache, &kind_workload, job->ns, workload_name(arena, job));
    if (!group) {
        create_both(actions, job, spec);
        return;
    }
    add_group(arena, wanted, spec);
    if (minimum_of(wanted) == minimum_of(json_get(object_json(group, arena), "spec")))
        return;
    if (workload) {
        struct json *patch = json_new_object(arena);

        json_set(json_make_path(arena, patch, "spec"), STR("podGroupTemplates"),
                 templates_of(arena, spec));
        action_patch(actions, workload, patch);
    }
    struct json *patch = json_new_object(arena);
    json_add_i64(arena, json_make_path(arena, patch, "spec.schedulingPolicy.gang"), "minCount",
                 minimum_of(wanted));
    action_patch(actions, group, patch);
}
