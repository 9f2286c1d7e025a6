#include "api/admit.h"
#include "api/crd.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/schema.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TorchrunQueue: checks the template, makes the scheduling Queue it maps to, says how it is.
 *
 * A scheduling Queue is cluster-scoped and cannot be owned by a namespaced object, so it carries
 * the name and namespace of the TorchrunQueue that made it as labels; one whose maker is gone is
 * deleted, once no job of it is under way. A Queue that somebody else made is used and left alone;
 * one that another TorchrunQueue made is not taken from it. */
#define LABEL_MANAGED "torchrun.ai/managed-by"
#define LABEL_QUEUE   JOB_QUEUE_LABEL_NAME
#define LABEL_SPACE   JOB_QUEUE_LABEL_SPACE
#define MANAGED_BY    "jobqueue-controller"

struct run {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    const struct object *object;
    struct torchrun_spec spec;
    struct torchrun_names names; /* of the scheduling queue */
    const struct object *kai;    /* the scheduling Queue; NULL: not there yet */
    struct str problem;          /* of the spec */
};

static bool made_by(const struct object *kai, struct str ns, struct str name)
{
    return str_is(object_label(kai, LABEL_MANAGED), MANAGED_BY) &&
           str_eq(object_label(kai, LABEL_QUEUE), name) &&
           str_eq(object_label(kai, LABEL_SPACE), ns);
}

struct str torchrun_queue_conflict(const struct cache *cache,
                                   const struct object *queue,
                                   const struct torchrun_names *names,
                                   struct arena *arena)
{
    const struct object *kai = cache_get(cache, &kind_queue, STR(""), names->queue);

    if (!kai || !str_is(object_label(kai, LABEL_MANAGED), MANAGED_BY) ||
        made_by(kai, queue->ns, queue->name))
        return STR_NONE;
    struct str owner =
        str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(object_label(kai, LABEL_SPACE)),
                   STR_ARG(object_label(kai, LABEL_QUEUE)));
    if (!names->named)
        return str_printf(arena,
                          "scheduling queue " STR_FMT " belongs to TorchrunQueue " STR_FMT
                          "; set spec.kaiQueue to another name, or to this one to share it",
                          STR_ARG(names->queue), STR_ARG(owner));
    if (!json_is_null(names->shares))
        return str_printf(
            arena,
            "scheduling queue " STR_FMT " belongs to TorchrunQueue " STR_FMT
            ", so spec.queue.resources would have no effect; leave it out to share the "
            "queue, or set spec.queue.name to another name",
            STR_ARG(names->queue), STR_ARG(owner));
    return STR_NONE;
}

/* Queues that (ns, name) made and that are not called `keep`. */
static void drop_others(const struct control_input *input,
                        const struct control_key *key,
                        struct str keep,
                        struct actions *actions)
{
    const struct object *kai;
    size_t cursor = 0;

    while ((kai = cache_next(input->cache, &kind_queue, STR(""), &cursor)))
        if (!str_eq(kai->name, keep) && !kai->deleted_ms && made_by(kai, key->ns, key->name))
            action_delete(actions, kai);
}

/* Jobs of the TorchrunQueue that have not ended. */
static int64_t active_jobs(const struct control_input *input, struct str ns, struct str name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *job;
    size_t cursor = 0;
    int64_t count = 0;

    while ((job = cache_next(input->cache, &kind_torchrunjob, ns, &cursor))) {
        const struct json *root = object_json(job, &arena);
        struct str phase = json_str_at(root, "status.phase");

        if (str_eq(torchrun_job_queue(&arena, root), name) &&
            !job_phase_is_final(job_phase_parse(phase)))
            count++;
    }
    return count;
}

/* ---- the scheduling queue ---- */

static struct json *share_of(struct arena *arena,
                             const struct torchrun_names *names,
                             const char *resource)
{
    const struct json *given = json_get(names->shares, resource);
    struct json *share = json_new_object(arena);
    static const struct {
        const char *key;
        int64_t otherwise;
    } fields[] = {{"quota", -1}, {"limit", -1}, {"overQuotaWeight", 1}};

    for (size_t i = 0; i < 3; i++) {
        const struct json *value = json_get(given, fields[i].key);

        if (json_is(value, JSON_NUMBER))
            json_set(share, str_from(fields[i].key), json_clone(arena, value));
        else
            json_add_i64(arena, share, fields[i].key, fields[i].otherwise);
    }
    return share;
}

/* `queue`: the TorchrunQueue, whose words are the scheduling queue's. */
static struct json *kai_spec(struct arena *arena,
                             const struct torchrun_names *names,
                             const struct json *queue)
{
    static const char *const handed[] = {"maxRunTime", "namespaces", "namespaceSelector"};
    struct json *spec = json_new_object(arena);
    struct json *resources = json_new_object(arena);
    const char *const resource_names[] = {"gpu", "cpu", "memory"};

    if (!str_eq(names->parent, names->queue))
        json_add_str(arena, spec, "parentQueue", names->parent);
    for (size_t i = 0; i < 3; i++)
        json_set(resources, str_from(resource_names[i]), share_of(arena, names, resource_names[i]));
    json_set(spec, STR("resources"), resources);
    for (size_t i = 0; i < COUNT_OF(handed); i++) {
        const struct json *value = json_get(json_get(queue, "spec"), handed[i]);

        if (!json_is_null(value))
            json_set(spec, str_from(handed[i]), json_clone(arena, value));
    }
    return spec;
}

struct json *torchrun_queue_manifest(struct arena *arena, const struct object *queue)
{
    const struct json *tree = object_json(queue, arena);
    struct torchrun_names names = torchrun_queue_map(arena, queue, tree);
    struct json *manifest = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, manifest, "{apiVersion: $, kind: $, metadata: {name: $}, spec: $}",
              str_dup(arena, kind_api_version(&kind_queue, version)), kind_queue.name, names.queue,
              kai_spec(arena, &names, tree));
    return manifest;
}

/* As the scheduling queue has it; empty: it has none. */
static struct str unused_text(const struct run *run)
{
    return run->spec.unused_ms
               ? json_str_at(object_json(run->object, run->arena), "spec.suspendUnusedAfter")
               : STR_NONE;
}

static void create_kai(const struct run *run)
{
    struct json *body = torchrun_queue_manifest(run->arena, run->object);
    struct json *labels = json_make_path(run->arena, body, "metadata.labels");
    struct str unused = unused_text(run);

    json_add_str(run->arena, labels, LABEL_MANAGED, STR(MANAGED_BY));
    json_add_str(run->arena, labels, LABEL_QUEUE, run->object->name);
    json_add_str(run->arena, labels, LABEL_SPACE, run->object->ns);
    if (unused.len)
        json_add_str(run->arena, json_make_path(run->arena, body, "metadata.annotations"),
                     SUSPEND_UNUSED_AFTER, unused);
    action_create(run->actions, &kind_queue, body);
}

static void reconcile_kai(struct run *run)
{
    if (!run->kai) {
        create_kai(run);
        return;
    }
    if (!made_by(run->kai, run->object->ns, run->object->name))
        return;
    const struct json *now = json_get(object_json(run->kai, run->arena), "spec");
    struct json *patch = merge_diff(
        run->arena, now, kai_spec(run->arena, &run->names, object_json(run->object, run->arena)));
    struct str unused = unused_text(run);
    bool same = str_eq(object_annotation(run->kai, SUSPEND_UNUSED_AFTER), unused);
    if (!patch && same)
        return;
    struct json *body = json_new_object(run->arena);
    if (patch)
        json_set(body, STR("spec"), patch);
    if (!same)
        json_set(json_make_path(run->arena, body, "metadata.annotations"),
                 STR(SUSPEND_UNUSED_AFTER),
                 unused.len ? json_new_str(run->arena, unused) : json_new_null(run->arena));
    action_patch(run->actions, run->kai, body);
}

/* ---- status ---- */

static struct str queue_problem(const struct run *run)
{
    struct str conflict =
        torchrun_queue_conflict(run->input->cache, run->object, &run->names, run->arena);

    if (conflict.len)
        return conflict;
    if (!run->kai)
        return str_printf(run->arena, "creating scheduling queue " STR_FMT "%s" STR_FMT,
                          STR_ARG(run->names.queue), run->input->refusal.len ? ": " : "",
                          STR_ARG(run->input->refusal));
    struct str parent = json_str_at(object_json(run->kai, run->arena), "spec.parentQueue");
    if (parent.len && !cache_get(run->input->cache, &kind_queue, STR(""), parent))
        return str_printf(run->arena,
                          "parent " STR_FMT " of scheduling queue " STR_FMT
                          " does not exist; see: kubectl get queues",
                          STR_ARG(parent), STR_ARG(run->names.queue));
    const struct object *other;
    size_t cursor = 0;
    _cleanup_(arena_done) struct arena arena = {0};
    while ((other = cache_next(run->input->cache, &kind_queue, STR(""), &cursor)))
        if (str_eq(json_str_at(object_json(other, &arena), "spec.parentQueue"), run->names.queue))
            return str_printf(run->arena,
                              "scheduling queue " STR_FMT " has child queues (" STR_FMT
                              "): only a queue without children accepts jobs",
                              STR_ARG(run->names.queue), STR_ARG(other->name));
    return STR_NONE;
}

/* On a cluster no node can, see docs/suspend.md. */
static bool nodes_cannot_suspend(const struct run *run)
{
    const struct object *node;
    size_t cursor = 0, count = 0;

    while ((node = cache_next(run->input->cache, &kind_node, STR(""), &cursor))) {
        count++;
        if (object_label(node, SUSPEND_LABEL).len)
            return false;
    }
    return count > 0;
}

/* What holds when all is well. */
static struct str charge_words(const struct run *run)
{
    bool own = made_by(run->kai, run->object->ns, run->object->name);
    const char *unused =
        !run->spec.unused_ms ? ""
        : !own               ? "; spec.suspendUnusedAfter is not applied: somebody else made it"
        : nodes_cannot_suspend(run)
            ? "; spec.suspendUnusedAfter does nothing: no node here can suspend pods"
            : "";

    return str_printf(run->arena, "jobs are charged to scheduling queue " STR_FMT "%s%s",
                      STR_ARG(run->names.queue),
                      !own && !json_is_null(run->names.shares)
                          ? ", which somebody else made: spec.queue.resources is not applied to it"
                          : "",
                      unused);
}

static void write_status(const struct run *run, struct json *status)
{
    struct arena *arena = run->arena;
    int64_t now_ms = run->input->now_ms;
    struct str queue = queue_problem(run);
    struct str conflict =
        torchrun_queue_conflict(run->input->cache, run->object, &run->names, run->arena);
    bool resources = torchrun_resources(run->input, run->object, &run->spec, run->actions, status);
    bool ready = !queue.len && !run->problem.len && resources;

    json_fill(arena, status,
              "{phase: $, message: $, kaiQueue: $, activeJobs: $, "
              "observedGeneration: $}",
              ready ? "Active" : "Updating",
              run->problem.len ? run->problem
              : queue.len      ? queue
              : !resources     ? STR("not all objects of spec.resources are there; "
                                         "status.resourceStatuses has the reasons")
                               : charge_words(run),
              run->names.queue, active_jobs(run->input, run->object->ns, run->object->name),
              run->object->generation);
    condition_set(arena, status,
                  &(struct condition){"Valid", run->problem.len ? "False" : "True",
                                      run->problem.len ? "ValidationError" : "ValidationPassed",
                                      run->problem},
                  now_ms);
    condition_set(arena, status,
                  &(struct condition){"QueueReady", queue.len ? "False" : "True",
                                      !queue.len     ? "QueueExists"
                                      : conflict.len ? "QueueTaken"
                                                     : "QueueNotFound",
                                      queue},
                  now_ms);
    if (run->spec.resource_count)
        condition_set(arena, status,
                      &(struct condition){"ResourcesReady", resources ? "True" : "False",
                                          resources ? "AllResourcesReady" : "ResourcesNotReady",
                                          STR("")},
                      now_ms);
}

static void patch_status(const struct run *run, struct actions *actions)
{
    const struct json *before = json_get(object_json(run->object, run->arena), "status");
    struct json *after = before ? json_clone(run->arena, before) : json_new_object(run->arena);
    bool was_valid =
        !str_is(json_str(json_get(condition_find(before, "Valid"), "status")), "False");

    write_status(run, after);
    struct json *patch = merge_diff(run->arena, before, after);
    if (!patch)
        return;
    json_add_str(run->arena, patch, "lastUpdateTime", time_text(run->arena, run->input->now_ms));
    struct json *body = json_new_object(run->arena);
    json_set(body, STR("status"), patch);
    action_patch_status(actions, run->object, body);
    if (run->problem.len && was_valid)
        action_warn(actions, run->object, "ValidationError", run->problem);
}

/* What admission refuses where it is asked, and a name that nobody knows whoever asked for it to be
 * let in. Looked at once for each generation of the queue. */
#define FIELD_PROBLEM "field "
static struct str field_problem(const struct run *run, const struct json *tree)
{
    struct str before =
        json_str(json_get(condition_find(json_get(tree, "status"), "Valid"), "message"));
    struct schema_unknown unknown = {0};
    struct admit admit = {
        .arena = run->arena, .kind = &kind_torchrunqueue, .object = json_clone(run->arena, tree)};

    if (json_i64_or(json_at(tree, "status.observedGeneration"), -1) == run->object->generation)
        return str_starts(before, STR(FIELD_PROBLEM)) ? before : STR_NONE;
    crd_check_templates(&admit, &unknown);
    if (unknown.count)
        return str_printf(run->arena,
                          FIELD_PROBLEM STR_FMT
                          ": there is no such field; see kubectl explain torchrunqueue",
                          STR_ARG(unknown.items[0]));
    if (admit.causes.count)
        return str_printf(run->arena, FIELD_PROBLEM STR_FMT ": " STR_FMT,
                          STR_ARG(admit.causes.items[0].field),
                          STR_ARG(admit.causes.items[0].message));
    return STR_NONE;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *object = cache_get(input->cache, &kind_torchrunqueue, key->ns, key->name);

    if (!object || object->deleted_ms) {
        /* Its jobs go on, and what they use stays charged. The end of the last is heard of. */
        if (!active_jobs(input, key->ns, key->name))
            drop_others(input, key, STR_NONE, actions);
        return;
    }
    struct actions later = {.arena = actions->arena};
    struct run run = {.input = input, .arena = actions->arena, .actions = &later, .object = object};
    arena_defer(run.arena, object_release, object_ref(object));
    const struct json *tree = object_json(object, run.arena);
    struct err err = {0};
    run.names = torchrun_queue_map(run.arena, object, tree);
    run.kai = cache_get(input->cache, &kind_queue, STR(""), run.names.queue);
    if (run.kai)
        arena_defer(run.arena, object_release, object_ref(run.kai));
    if (torchrun_spec_read(run.arena, tree, NULL, &run.spec, &err))
        run.problem = str_printf(run.arena, "%s", err.text);
    else
        run.problem = torchrun_template_problem(run.spec.pod_template, run.arena);
    if (!run.problem.len)
        run.problem = field_problem(&run, tree);
    drop_others(input, key, run.names.queue, actions);
    reconcile_kai(&run);
    patch_status(&run, actions); /* first: what is refused ends the list */
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

static void all_queues(const struct cache *cache, struct str kai_name, struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *queue;
    size_t cursor = 0;

    while ((queue = cache_next(cache, &kind_torchrunqueue, STR(""), &cursor))) {
        struct torchrun_names names = torchrun_queue_map(&arena, queue, object_json(queue, &arena));

        if (str_eq(names.queue, kai_name) || str_eq(names.parent, kai_name))
            control_keys_add(ret, queue->ns, queue->name);
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_torchrunqueue) {
        control_keys_add(ret, object->ns, object->name);
    } else if (object->kind == &kind_queue) {
        struct str name = object_label(object, LABEL_QUEUE);

        if (name.len)
            control_keys_add(ret, object_label(object, LABEL_SPACE), name);
        all_queues(cache, object->name, ret);
    } else if (object->kind == &kind_torchrunjob) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str queue = torchrun_job_queue(&arena, object_json(object, &arena));

        if (queue.len)
            control_keys_add(ret, object->ns, queue);
    } else {
        const struct object_owner *owner = object_controller(object);

        if (owner && str_is(owner->kind, kind_torchrunqueue.name))
            control_keys_add(ret, object->ns, owner->name);
    }
}

static const struct kind *const watches[] = {&kind_torchrunqueue, &kind_queue, &kind_torchrunjob,
                                             NULL};

const struct controller torchrun_queue_controller = {.name = "torchrunqueue",
                                                     .kind = &kind_torchrunqueue,
                                                     .watches = watches,
                                                     .keys = keys,
                                                     .reconcile = reconcile};
