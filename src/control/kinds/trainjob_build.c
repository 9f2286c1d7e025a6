#include "api/hold.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/str.h"
#include "control/core/owner.h"
#include "control/job/job.h"
#include "control/kinds/list.h"
#include "control/kinds/trainjob.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runtime + overrides + TrainJob = JobSet. */

/* ---- finding ---- */

struct json *trainjob_part(const struct trainjob_build *build, struct str name)
{
    JSON_FOREACH(build->parts, part)
        if (str_eq(json_str(json_get(part, "name")), name))
            return part;
    return NULL;
}

static struct str step_of(const struct json *part)
{
    return json_str(json_get(json_at(part, "template.metadata.labels"), TRAINJOB_STEP));
}

struct json *trainjob_step(const struct trainjob_build *build, const char *step)
{
    JSON_FOREACH(build->parts, part)
        if (str_is(step_of(part), step))
            return part;
    if (!str_is(STR("trainer"), step))
        return trainjob_part(build, str_from(step));
    struct json *node = trainjob_part(build, STR("node"));
    if (!node)
        node = trainjob_part(build, STR("trainer-node"));
    return node || json_count(build->parts) != 1 ? node : json_first(build->parts);
}

struct json *trainjob_container(const struct json *part, struct str name)
{
    JSON_FOREACH(json_at(part, "template.spec.template.spec.containers"), container)
        if (str_eq(json_str(json_get(container, "name")), name))
            return container;
    return NULL;
}

int64_t trainjob_count(const struct json *part)
{
    return json_i64_or(json_at(part, "template.spec.parallelism"), 1);
}

/* ---- the runtime ---- */

/* A pod's spec in the place of a JobSet's: one part, node, with one container of that name. */
static void expand_shorthand(struct trainjob_build *build, struct json *spec)
{
    struct arena *arena = build->arena;
    struct json *pod = json_new_object(arena);

    if (json_count(json_get(spec, "replicatedJobs")) || !json_count(json_get(spec, "containers")))
        return;
    owner_merge_map(arena, pod, spec);
    while (json_first(spec))
        json_remove(spec, json_key(json_first(spec)));
    struct json *first = json_first(json_get(pod, "containers"));
    if (json_is(first, JSON_OBJECT) && json_count(json_get(pod, "containers")) == 1)
        json_add_c(arena, first, "name", "node");
    struct json *part =
        json_push(json_add_array(arena, spec, "replicatedJobs"), json_new_object(arena));
    json_add_c(arena, part, "name", "node");
    json_add_c(arena, json_make_path(arena, part, "template.metadata.labels"), TRAINJOB_STEP,
               "trainer");
    json_set(json_make_path(arena, part, "template.spec.template"), STR("spec"), pod);
    /* A gang restarts together or not at all. */
    json_add_i64(arena, json_at(part, "template.spec"), "backoffLimit", 0);
    if (!json_get(pod, "restartPolicy"))
        json_add_c(arena, pod, "restartPolicy", "Never");
}

static void take_runtime(struct trainjob_build *build, const struct json *runtime)
{
    struct arena *arena = build->arena;
    struct trainjob_runtime read = {0};

    trainjob_runtime_read(json_get(runtime, "spec"), arena, &read);
    struct json *spec = json_clone(arena, read.spec);
    build->policy = read.policy;
    build->body = owner_make(arena, build->object, &kind_jobset, build->object->name);
    struct json *meta = json_get(build->body, "metadata");
    owner_merge_map(arena, json_add_object(arena, meta, "labels"), read.labels);
    owner_merge_map(arena, json_add_object(arena, meta, "annotations"), read.annotations);
    if (!json_is(spec, JSON_OBJECT))
        spec = json_new_object(arena);
    json_set(build->body, STR("spec"), spec);
    expand_shorthand(build, spec);
    build->parts = json_get(spec, "replicatedJobs");
}

/* ---- overrides ---- */

/* `patch` in the shape of a Job template: {"metadata": ..., "spec": {"template": ...}}. */
static int patch_part(struct trainjob_build *build,
                      struct json *part,
                      const struct json *patch,
                      struct err *err)
{
    struct json *template = json_make_path(build->arena, part, "template");

    return patch_strategic(build->arena, &kind_job, template, patch, err);
}

static int apply_runtime_patch(struct trainjob_build *build,
                               const struct json *entry,
                               size_t index,
                               struct err *err)
{
    const struct json *template = json_at(entry, "trainingRuntimeSpec.template");
    struct json *meta = json_get(build->body, "metadata");

    owner_merge_map(build->arena, json_get(meta, "labels"), json_at(template, "metadata.labels"));
    owner_merge_map(build->arena, json_get(meta, "annotations"),
                    json_at(template, "metadata.annotations"));
    JSON_FOREACH(json_at(template, "spec.replicatedJobs"), change) {
        struct str name = json_str(json_get(change, "name"));
        struct json *part = trainjob_part(build, name);

        if (!part)
            return err_set(err, -EINVAL,
                           "spec.runtimePatches[%zu]: the runtime has no replicatedJob \"" STR_FMT
                           "\"",
                           index, STR_ARG(name));
        int r = patch_part(build, part, json_get(change, "template"), err);
        if (r < 0)
            return err_wrap(err, r, "spec.runtimePatches[%zu]", index);
    }
    return 0;
}

/* An entry of podTemplateOverrides, or of the older podSpecOverrides, as a patch of a Job. */
static struct json *override_patch(struct arena *arena, const struct json *entry, bool template)
{
    struct json *patch = json_new_object(arena);
    struct json *pod = json_make_path(arena, patch, "spec.template");
    struct json *copy = json_clone(arena, entry);

    json_remove(copy, STR("targetJobs"));
    if (template)
        owner_merge_map(arena, pod, copy);
    else
        json_set(pod, STR("spec"), copy);
    return patch;
}

static int apply_override(struct trainjob_build *build,
                          const struct json *entry,
                          struct str where,
                          struct err *err)
{
    bool template = str_starts(where, STR("spec.podTemplateOverrides"));
    const struct json *patch = override_patch(build->arena, entry, template);

    JSON_FOREACH(json_get(entry, "targetJobs"), target) {
        struct str name = json_str(json_get(target, "name"));
        struct json *part = trainjob_part(build, name);

        if (!part)
            return err_set(err, -EINVAL,
                           STR_FMT ": the runtime has no replicatedJob \"" STR_FMT "\"",
                           STR_ARG(where), STR_ARG(name));
        int r = patch_part(build, part, patch, err);
        if (r < 0)
            return err_wrap(err, r, STR_FMT, STR_ARG(where));
    }
    return 0;
}

static int apply_overrides(struct trainjob_build *build, struct err *err)
{
    static const char *const names[] = {"podSpecOverrides", "podTemplateOverrides"};
    const struct json *const lists[] = {build->spec->spec_overrides,
                                        build->spec->template_overrides};
    size_t index = 0;

    JSON_FOREACH(build->spec->patches, entry) {
        int r = apply_runtime_patch(build, entry, index++, err);

        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < 2; i++) {
        index = 0;
        JSON_FOREACH(lists[i], entry) {
            struct str where = str_printf(build->arena, "spec.%s[%zu]", names[i], index++);
            int r = apply_override(build, entry, where, err);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* ---- labels ---- */

static void copy_kai(struct arena *arena, struct json *to, const struct json *from)
{
    _cleanup_(json_names_done) struct json_names names = {.object = to};

    JSON_FOREACH(from, member)
        if (str_starts(json_key(member), STR(TRAINJOB_KAI)))
            (void)json_names_put(&names, str_dup(arena, json_key(member)),
                                 json_clone(arena, member));
}

/* spec.labels and annotations, and the scheduler's own of the TrainJob, on the JobSet and its
 * pods. */
static void add_labels(struct trainjob_build *build)
{
    static const char *const maps[] = {"labels", "annotations"};
    static const char *const restarting[] = {HOLD_ANNOTATION, JOB_ANNOTATION_HANG,
                                             JOB_ANNOTATION_SUSPICION, JOB_ANNOTATION_RESTART_MODE};
    struct arena *arena = build->arena;

    for (size_t i = 0; i < 2; i++) {
        const struct json *own = json_get(json_get(build->tree, "metadata"), maps[i]);
        const struct json *asked = i == 0 ? build->spec->labels : build->spec->annotations;
        struct json *to = json_make_path(arena, json_get(build->body, "metadata"), maps[i]);

        owner_merge_map(arena, to, asked);
        copy_kai(arena, to, own);
        /* What the JobSet is to know of restarts; it tells its pods. */
        for (size_t j = 0; i == 1 && j < COUNT_OF(restarting); j++)
            if (json_get(own, restarting[j]))
                json_set(to, str_from(restarting[j]),
                         json_clone(arena, json_get(own, restarting[j])));
        JSON_FOREACH(build->parts, part) {
            struct json *meta = json_make_path(arena, part, "template.spec.template.metadata");

            owner_merge_map(arena, json_make_path(arena, meta, maps[i]), asked);
            copy_kai(arena, json_get(meta, maps[i]), own);
        }
    }
}

/* ---- the trainer ---- */

void trainjob_env(struct arena *arena, struct json *container, const char *name, struct str value)
{
    struct json *env = list_at(arena, container, "env");
    struct json *entry = NULL;

    JSON_FOREACH(env, each)
        if (str_is(json_str(json_get(each, "name")), name))
            entry = each;
    if (!entry)
        entry = json_push(env, json_new_object(arena));
    json_add_str(arena, entry, "name", str_dup(arena, str_from(name)));
    json_remove(entry, STR("valueFrom"));
    json_add_str(arena, entry, "value", str_dup(arena, value));
}

static void merge_env(struct arena *arena, struct json *container, const struct json *from)
{
    JSON_FOREACH(from, wanted) {
        struct json *env = list_at(arena, container, "env");
        bool there = false;

        JSON_FOREACH(env, each) {
            if (!json_equal(json_get(each, "name"), json_get(wanted, "name")))
                continue;
            json_remove(each, STR("value"));
            json_remove(each, STR("valueFrom"));
            owner_merge_map(arena, each, wanted);
            there = true;
        }
        if (!there)
            json_push(env, json_clone(arena, wanted));
    }
}

void trainjob_resources(struct arena *arena, struct json *container, const struct json *wanted)
{
    static const char *const kinds[] = {"requests", "limits"};

    for (size_t i = 0; i < 2; i++)
        if (json_count(json_get(wanted, kinds[i])))
            owner_merge_map(
                arena,
                json_make_path(arena, json_make_path(arena, container, "resources"), kinds[i]),
                json_get(wanted, kinds[i]));
    if (json_get(wanted, "claims"))
        json_set(json_make_path(arena, container, "resources"), STR("claims"),
                 json_clone(arena, json_get(wanted, "claims")));
}

static void set_count(struct arena *arena, struct json *part, int64_t count)
{
    struct json *job = json_make_path(arena, part, "template.spec");

    json_add_i64(arena, job, "parallelism", count);
    json_add_i64(arena, job, "completions", count);
}

static int64_t wanted_nodes(const struct trainjob_build *build)
{
    int64_t said[] = {build->spec->nodes, build->policy.nodes, build->policy.torch_nodes, 1};
    int64_t nodes = -1;

    for (size_t i = 0; nodes < 0; i++)
        nodes = said[i];
    return nodes < TRAINJOB_PODS_MAX ? nodes : TRAINJOB_PODS_MAX;
}

static int fill_trainer(struct trainjob_build *build, struct err *err)
{
    static const char *const fields[] = {"image", "command", "args"};
    struct arena *arena = build->arena;
    const struct trainjob_spec *spec = build->spec;
    const struct json *const values[] = {spec->image, spec->command, spec->args};
    struct json *part = trainjob_step(build, "trainer");
    struct json *node = trainjob_container(part, STR("node"));

    if (!node)
        return err_set(err, -EINVAL,
                       "spec.runtimeRef: the runtime has no replicatedJob with the label %s: "
                       "trainer and a container named node",
                       TRAINJOB_STEP);
    if (spec->command)
        build->runtime_command = json_clone(arena, json_get(node, "command"));
    for (size_t i = 0; i < 3; i++)
        if (values[i])
            json_set(node, str_from(fields[i]), json_clone(arena, values[i]));
    merge_env(arena, node, spec->env);
    trainjob_resources(arena, node, spec->resources);
    json_add_i64(arena, part, "replicas", 1);
    build->nodes = wanted_nodes(build);
    set_count(arena, part, build->nodes);
    return 0;
}

/* ---- initializers ---- */

static int fill_initializer(struct trainjob_build *build,
                            const char *which,
                            const struct trainjob_initializer *wanted,
                            struct err *err)
{
    struct arena *arena = build->arena;
    struct str name = str_printf(arena, "%s-initializer", which);
    struct json *part = trainjob_step(build, name.p);
    struct json *container = trainjob_container(part, name);

    if (!container)
        return err_set(err, -EINVAL,
                       "spec.initializer.%s: the runtime has no replicatedJob and container "
                       "%s-initializer",
                       which, which);
    if (wanted->uri.len)
        trainjob_env(arena, container, "STORAGE_URI", wanted->uri);
    merge_env(arena, container, wanted->env);
    if (wanted->secret.len)
        json_push(list_at(arena, container, "envFrom"),
                  json_make(arena, "{secretRef: {name: $}}", str_dup(arena, wanted->secret)));
    return 0;
}

static bool has_named(const struct json *list, const char *name)
{
    JSON_FOREACH(list, entry)
        if (str_is(json_str(json_get(entry, "name")), name))
            return true;
    return false;
}

/* Whether the pods of a part have the volume already; where they do not, the container gets it. */
static bool mount_shared(struct trainjob_build *build, const char *step, const char *container)
{
    struct json *part = trainjob_step(build, step);
    struct json *main = trainjob_container(part, str_from(container));

    if (!main)
        return true;
    if (has_named(json_at(part, "template.spec.template.spec.volumes"), TRAINJOB_SHARED) ||
        has_named(json_get(main, "volumeMounts"), TRAINJOB_SHARED))
        return true;
    json_push(list_at(build->arena, main, "volumeMounts"),
              json_make(build->arena, "{name: $, mountPath: '/workspace'}", TRAINJOB_SHARED));
    return false;
}

/* What initializers fetch is for the trainer: a runtime that says nothing of a volume between them
 * gets one. */
static void share_volume(struct trainjob_build *build)
{
    struct arena *arena = build->arena;
    const struct trainjob_spec *wanted = build->spec;
    struct json *spec = json_get(build->body, "spec");
    bool there = true;

    if (wanted->has_dataset)
        there &= mount_shared(build, "dataset-initializer", "dataset-initializer");
    if (wanted->has_model)
        there &= mount_shared(build, "model-initializer", "model-initializer");
    if ((!wanted->has_dataset && !wanted->has_model) ||
        (mount_shared(build, "trainer", "node") && there))
        return;
    JSON_FOREACH(json_get(spec, "volumeClaimPolicies"), policy)
        JSON_FOREACH(json_get(policy, "templates"), claim)
            if (str_is(json_str_at(claim, "metadata.name"), TRAINJOB_SHARED))
                return;
    struct json *policy =
        json_push(list_at(arena, spec, "volumeClaimPolicies"), json_new_object(arena));
    struct json *claim =
        json_push(json_add_array(arena, policy, "templates"), json_new_object(arena));
    json_add_c(arena, json_add_object(arena, claim, "metadata"), "name", TRAINJOB_SHARED);
    json_push(json_add_array(arena, json_add_object(arena, claim, "spec"), "accessModes"),
              json_new_str(arena, STR("ReadWriteOnce")));
    json_add_c(arena, json_make_path(arena, claim, "spec.resources.requests"), "storage",
               TRAINJOB_SHARED_SIZE);
}

int trainjob_build(struct trainjob_build *build, const struct json *runtime, struct err *err)
{
    int r = 0;

    take_runtime(build, runtime);
    if (!json_count(build->parts))
        return err_set(err, -EINVAL,
                       "spec.runtimeRef: the runtime's template has no replicatedJobs");
    if (build->policy.flux)
        return err_set(
            err, -EINVAL,
            "spec.runtimeRef: the runtime has mlPolicy.flux, and Muster does not install "
            "or connect Flux brokers; use a runtime with mlPolicy.mpi, or one without a "
            "policy whose image starts Flux by itself");
    r = apply_overrides(build, err);
    if (r == 0)
        r = fill_trainer(build, err);
    if (r == 0 && build->spec->has_dataset)
        r = fill_initializer(build, "dataset", &build->spec->dataset, err);
    if (r == 0 && build->spec->has_model)
        r = fill_initializer(build, "model", &build->spec->model, err);
    share_volume(build);
    if (r == 0)
        r = trainjob_apply_policy(build, err);
    if (r < 0)
        return r;
    add_labels(build);
    trainjob_progress(build, trainjob_step(build, "trainer"));
    json_add_bool(build->arena, json_get(build->body, "spec"), "suspend", build->spec->suspend);
    return 0;
}
