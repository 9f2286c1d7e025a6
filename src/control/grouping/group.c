#include "control/grouping/group.h"

#include "api/array.h"
#include "api/group.h"
#include "api/karta.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/queue_rules.h"
#include "api/scheduler_name.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/group_name.h"
#include "control/core/status.h"
#include "control/grouping/grouping.h"
#include "control/grouping/longest.h"
#include "control/job/job.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pod grouper: every pod belongs to one PodGroup, made here and nowhere else.
 * control/grouping/grouping.h decides which; this collects the pod's owners and writes what is
 * missing.
 *
 * A key is a pod. Owners may be of any kind: one that is not watched yet is asked for, and the pod
 * is looked at again when it is. */

#define LEFT_MAX   64   /* pods that look again when one of their group is gone */
#define FOREIGN_MS 2000 /* by then the group that a pod of ours names is made */
#define UNREAD_MS  5000 /* so long an owner that cannot be read is not worth a word */

struct run {
    const struct control_input *input;
    struct actions *actions;
    struct arena *arena;
    bool waits;                 /* for a kind to be watched */
    bool gone;                  /* an owner is not there */
    struct object_owner unread; /* the owner that it waits for; no kind: it waits for others */
};

/* ---- what is around ---- */

static const struct json *tree(struct run *run, const struct object *object)
{
    if (!object)
        return NULL;
    arena_defer(run->arena, object_release, object_ref(object));
    return object_json(object, run->arena);
}

/* False: its objects are not known yet, and have been asked for. */
static bool is_known(struct run *run, const struct kind *kind)
{
    if (!run->input->is_watched || run->input->is_watched(run->input->user, kind))
        return true;
    action_watch(run->actions, kind);
    run->waits = true;
    return false;
}

static const struct kind *kind_named(const struct run *run, const char *name)
{
    static const struct kind *const own[] = {
        &kind_priorityclass, &kind_podgroup,      &kind_pod,         &kind_job,      &kind_karta,
        &kind_queue,         &kind_torchrunqueue, &kind_torchrunjob, &kind_namespace};

    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (str_is(str_from(name), own[i]->name))
            return own[i];
    for (size_t i = 0; run->input->kinds && i < kinds_count(run->input->kinds); i++)
        if (str_is(str_from(name), kinds_at(run->input->kinds, i)->name))
            return kinds_at(run->input->kinds, i);
    return NULL;
}

static const struct json *find(void *user, const char *name, struct str ns, struct str object)
{
    struct run *run = user;
    const struct kind *kind = kind_named(run, name);

    if (!kind || !is_known(run, kind))
        return NULL;
    return tree(run, cache_get(run->input->cache, kind, ns, object));
}

static const struct json *next(void *user, const char *name, struct str ns, size_t *cursor)
{
    struct run *run = user;
    const struct kind *kind = kind_named(run, name);

    if (!kind || !is_known(run, kind))
        return NULL;
    return tree(run, cache_next(run->input->cache, kind, ns, cursor));
}

/* Whether a Karta names the kind. Where the kinds of others are found by name (api_learn()), only
 * those are: whoever wrote the Karta grants the right to read them. */
static bool is_described(struct run *run, const struct object_owner *owner)
{
    const struct json *karta;
    size_t cursor = 0;

    while ((karta = next(run, KARTA_KIND, STR(""), &cursor)))
        if (grouping_karta_names(karta, owner->api_version, owner->kind))
            return true;
    return false;
}

static const struct object *owner_object(struct run *run,
                                         struct str ns,
                                         const struct object_owner *owner)
{
    const struct kind *kind = NULL;

    if (run->input->kinds)
        kind = kinds_by_name(run->input->kinds, owner->api_version, owner->kind);
    else if (str_is(owner->kind, kind_torchrunjob.name))
        kind = &kind_torchrunjob;
    if (!kind && run->input->learns && is_described(run, owner)) {
        action_learn(run->actions, owner->api_version, owner->kind);
        run->waits = true;
    }
    if (!kind || !is_known(run, kind)) {
        if (run->waits)
            run->unread = *owner;
        return NULL;
    }
    const struct object *object =
        cache_get(run->input->cache, kind, kind->namespaced ? ns : STR(""), owner->name);
    if (object && str_eq(object->uid, owner->uid))
        return object;
    run->gone = true;
    return NULL;
}

/* Up the owner references, from the pod's owner on. What cannot be read ends the way: the last one
 * found is the top. */
static int collect_owners(struct run *run,
                          const struct object *first,
                          struct grouping_input *in,
                          struct err *err)
{
    const struct object *chain[GROUPING_OWNERS_MAX];
    size_t count = 0;

    for (const struct object *at = first; at && count < GROUPING_OWNERS_MAX;) {
        chain[count++] = at;
        if (at->owner_count > 1)
            return err_set(err, -1, "%s " STR_FMT " has %zu owners; a pod group needs one",
                           at->kind->name, STR_ARG(at->name), at->owner_count);
        if (at->kind == &kind_torchrunjob && object_label(at, ARRAY_LABEL_INDEX).len)
            break; /* the jobs of an array are gangs, the array is none */
        at = at->owner_count ? owner_object(run, at->ns, &at->owners[0]) : NULL;
    }
    in->owner_count = count;
    for (size_t i = 0; i < count; i++)
        in->owners[i] = tree(run, chain[count - 1 - i]);
    if (count && chain[count - 1]->kind == &kind_torchrunjob) {
        struct job_model model = {.object = chain[count - 1]};

        torchrun_job_kind.translate(run->input, model.object, run->arena, &model);
        const struct torchrun *t = model.front;
        in->torchrun_min = (int64_t)job_min_size(&model);
        if (t->spec.topology_required.len || t->spec.topology_preferred.len)
            in->torchrun_topology = (struct grouping_topology){
                t->spec.topology, t->spec.topology_required, t->spec.topology_preferred};
    }
    return 0;
}

static struct grouping_input input_of(struct run *run, const struct json *pod)
{
    return (struct grouping_input){.arena = run->arena,
                                   .config = run->input->config,
                                   .pod = pod,
                                   .find = find,
                                   .next = next,
                                   .user = run,
                                   .knative_gang = true,
                                   .legacy_jobs = true,
                                   .old_groups = run->input->config->old_groups};
}

/* ---- writing ---- */

/* What a group that exists keeps, whatever its owner says now. */
static void keep(struct arena *arena, struct json *spec, const struct json *before)
{
    const struct json *near = json_get(before, "topologyConstraint");

    const char *const kept[] = {"queue",       "markUnschedulable", "schedulingBackoff",
                                "parallelism", "completions",       "backoffLimit"};

    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        const struct json *value = json_get(before, kept[i]);

        if (value)
            json_set(spec, str_from(kept[i]), json_clone(arena, value));
    }
    /* One that was written to the group by hand, where the workload names no topology. */
    if (near && !json_get(spec, "topologyConstraint"))
        json_set(spec, STR("topologyConstraint"), json_clone(arena, near));
}

/* A constraint that cannot mean what its writer thinks is worth a word, once. */
static void warn_of_topology(struct run *run,
                             const struct object *pod,
                             const struct grouping_input *in)
{
    const struct json *top = in->owner_count ? in->owners[0] : NULL;
    const struct json *notes = json_at(top, "metadata.annotations");

    if (in->old_groups && str_is(json_str_at(top, "kind"), "Job") &&
        json_get(notes, "kai.scheduler/topology"))
        action_warn(run->actions, pod, "PodGrouperWarning",
                    STR("every pod of a Job is a pod group of its own: the topology constraint "
                        "holds for each pod alone and does not keep them together; use one "
                        "PodGroup or a JobSet for that"));
}

static void warn_of_words(struct run *run,
                          const struct object *pod,
                          const struct grouping_input *in)
{
    struct str words = grouping_odd_words(in);

    if (words.len)
        action_warn(run->actions, pod, "PodGrouperWarning", words);
}

static struct json *manifest_of(struct run *run,
                                const struct grouping *grouping,
                                const struct json *before)
{
    struct grouping short_enough = *grouping;

    grouping_shorten(&(struct queue_around){find, run}, before, &short_enough);
    return grouping_manifest(&short_enough, run->arena);
}

static void write_group(struct run *run, const struct grouping *grouping)
{
    const struct object *group =
        cache_get(run->input->cache, &kind_podgroup, grouping->ns, grouping->name);
    const struct json *before = json_get(tree(run, group), "spec");
    struct json *manifest = manifest_of(run, grouping, before);

    if (run->waits)
        return;
    if (!group) {
        action_create(run->actions, &kind_podgroup, manifest);
        return;
    }
    struct json *spec = json_get(manifest, "spec");
    keep(run->arena, spec, before);
    struct json *patch = merge_diff(run->arena, before, spec);
    if (!patch)
        return;
    struct json *body = json_new_object(run->arena);
    json_set(body, STR("spec"), patch);
    action_patch(run->actions, group, body);
}

static void write_pod(struct run *run, const struct object *pod, const struct grouping *grouping)
{
    struct json *patch = json_new_object(run->arena);
    bool moved = !str_eq(pod->group, grouping->name);
    bool placed = grouping->pod_sub.len &&
                  !str_eq(object_label(pod, GROUP_SUBGROUP_LABEL), grouping->pod_sub);

    if (moved)
        json_add_str(run->arena, json_make_path(run->arena, patch, "metadata.annotations"),
                     GROUP_ANNOTATION, grouping->name);
    if (placed)
        json_add_str(run->arena, json_make_path(run->arena, patch, "metadata.labels"),
                     GROUP_SUBGROUP_LABEL, grouping->pod_sub);
    if (!moved && !placed)
        return;
    action_patch(run->actions, pod, patch);
    /* A group that could not be made is made at the next look: the pod need not wait for it. */
    run->actions->list.items[run->actions->list.count - 1].beside = true;
}

bool group_is_ours(const struct control_input *input, const struct json *pod)
{
    struct str name = json_str_at(pod, "spec.schedulerName");

    return !input->config->other_schedulers || str_eq(name, input->config->scheduler_name) ||
           (input->config->schedulers.len && scheduler_places(input->config->schedulers, name));
}

/* ---- pods that name a PodGroup of scheduling.k8s.io ---- */

/* Its owners are asked for what the group does not say; one that cannot be read says nothing. */
static struct grouping_input named_input(struct run *run, const struct object *pod)
{
    struct grouping_input in = input_of(run, tree(run, pod));

    if (pod->owner_count == 1)
        (void)collect_owners(run, owner_object(run, pod->ns, &pod->owners[0]), &in, NULL);
    return in;
}

/* Where its pods must be near to each other by a label, that is a Topology of one level. */
static void make_topology(struct run *run, const struct json *group)
{
    struct str label = json_str_at(group, "spec.schedulingConstraints.topology.0.key");

    if (!label.len || !is_known(run, &kind_topology) ||
        cache_get(run->input->cache, &kind_topology, STR(""),
                  grouping_label_topology(run->arena, label)))
        return;
    action_create(run->actions, &kind_topology, grouping_topology_manifest(run->arena, label));
}

/* ---- pods that cannot be together ---- */

#define MIXED "should have the same .spec.schedulerName"

bool group_is_mixed(struct str refused)
{
    return str_contains(refused, STR(MIXED));
}

/* Why no pod of the group may start while this one is in it; empty: it fits. */
static struct str misfit(struct run *run, const struct object *pod, const struct json *group)
{
    const struct json *root = tree(run, pod);
    struct str phase = json_str_at(root, "status.phase");
    int64_t own = json_i64_or(json_at(root, "spec.priority"), 0);
    int64_t its = json_i64_or(json_at(group, "spec.priority"), 0);

    if (pod->deleted_ms || str_is(phase, "Succeeded") || str_is(phase, "Failed"))
        return STR_NONE;
    if (!group_is_ours(run->input, root))
        return str_printf(run->arena,
                          "all pods in a single pod group " MIXED " set, got: \"" STR_FMT
                          "\" and \"" STR_FMT "\"; give each scheduler a PodGroup of its own",
                          STR_ARG(run->input->config->scheduler_name),
                          STR_ARG(json_str_at(root, "spec.schedulerName")));
    if (own == its)
        return STR_NONE;
    return str_printf(run->arena,
                      "all pods in a single pod group should have the same priority as the pod "
                      "group's priority, got %lld and %lld; give the pod the priorityClassName of "
                      "PodGroup \"" STR_FMT "\"",
                      (long long)own, (long long)its, STR_ARG(json_str_at(group, "metadata.name")));
}

/* The same of all pods of the group that `pod` is in. */
static struct str any_misfit(struct run *run, const struct object *pod, const struct json *group)
{
    const struct object *each;
    size_t cursor = 0;

    while ((each = cache_next_grouped(run->input->cache, &kind_pod, pod->group, &cursor))) {
        struct str words = str_eq(each->ns, pod->ns) ? misfit(run, each, group) : STR_NONE;

        if (words.len)
            return words;
    }
    return STR_NONE;
}

/* Of the pods that are there together one makes the group: the first of ours. */
static bool is_first(struct run *run, const struct object *pod)
{
    const struct object *each;
    size_t cursor = 0;

    while ((each = cache_next_grouped(run->input->cache, &kind_pod, pod->group, &cursor))) {
        if (!str_eq(each->ns, pod->ns) || each->deleted_ms)
            continue;
        if (each == pod || group_is_ours(run->input, tree(run, each)))
            return each == pod;
    }
    return true;
}

/* Empty words: its pods may start again. */
static void refuse(struct run *run, const struct object *ours, struct str words)
{
    struct json *patch = json_new_object(run->arena);

    json_set(json_make_path(run->arena, patch, "metadata.annotations"), STR(GROUP_REFUSED),
             words.len ? json_new_str(run->arena, words) : json_new_null(run->arena));
    action_patch(run->actions, ours, patch);
}

/* A pod of another scheduler names a group of which we have made one of ours, or soon will. */
static void reconcile_foreign(struct run *run, const struct object *pod)
{
    const struct object *ours = cache_get(run->input->cache, &kind_podgroup, pod->ns, pod->group);
    struct str words = misfit(run, pod, NULL);
    int64_t at_ms = pod->created_ms + FOREIGN_MS;

    if (ours && words.len && !object_annotation(ours, GROUP_REFUSED).len)
        refuse(run, ours, words);
    else if (!ours && run->input->now_ms < at_ms)
        action_look_again(run->actions, at_ms);
}

/* The group of ours as it should be. While there is none the first pod makes it for all of them. */
static void write_named(struct run *run,
                        const struct object *pod,
                        const struct object *named,
                        struct grouping *grouping)
{
    const struct object *ours =
        cache_get(run->input->cache, &kind_podgroup, pod->ns, grouping->name);
    struct str before = ours ? object_annotation(ours, GROUP_REFUSED) : STR_NONE;
    const struct json *group = tree(run, named);
    struct str words = misfit(run, pod, group);
    bool first = ours || is_first(run, pod);

    if (!words.len && (before.len || (!ours && first)))
        words = any_misfit(run, pod, group);
    if (!ours && words.len)
        json_add_str(run->arena, grouping->annotations, GROUP_REFUSED, words);
    /* Of a PodGroup that was deleted and made again. */
    if (ours && ours->owner_count && str_is(ours->owners[0].kind, kind_podgroup_k8s.name) &&
        !str_eq(ours->owners[0].uid, named->uid)) {
        if (!ours->deleted_ms)
            action_delete(run->actions, ours);
        return;
    }
    if (first)
        write_group(run, grouping);
    else if (words.len) /* the first one may have looked before this one came */
        action_look_again(run->actions, run->input->now_ms + FOREIGN_MS);
    if (ours && !before.len != !words.len)
        refuse(run, ours, words);
}

static void reconcile_named(struct run *run, const struct object *pod, struct str name)
{
    const struct control_input *input = run->input;
    struct grouping grouping = {0};

    if (!is_known(run, &kind_podgroup_k8s))
        return;
    const struct object *object = cache_get(input->cache, &kind_podgroup_k8s, pod->ns, name);
    if (!object) {
        group_tell_pod(run->actions, pod,
                       str_printf(run->arena,
                                  "The pod waits for PodGroup \"" STR_FMT
                                  "\" of scheduling.k8s.io, which does not exist; create it in "
                                  "namespace \"" STR_FMT "\"",
                                  STR_ARG(name), STR_ARG(pod->ns)),
                       input->now_ms);
        return;
    }
    struct grouping_input in = named_input(run, pod);
    make_topology(run, tree(run, object));
    if (run->waits)
        return;
    grouping_workload(&in, tree(run, object), &grouping);
    write_named(run, pod, object, &grouping);
    write_pod(run, pod, &grouping);
}

/* A kind is read within a moment, or a right is missing: then its pods say what they wait for. */
static void tell_unread(struct run *run, const struct object *pod)
{
    const struct object_owner *owner = &run->unread;
    int64_t at_ms = pod->created_ms + UNREAD_MS;

    if (!owner->kind.len)
        return;
    if (run->input->now_ms < at_ms) {
        action_look_again(run->actions, at_ms);
        return;
    }
    group_tell_pod(run->actions, pod,
                   str_printf(run->arena,
                              "The pod waits until its owner can be read, " STR_FMT " of " STR_FMT
                              ": the operator needs get, list and watch of that kind",
                              STR_ARG(owner->kind), STR_ARG(owner->api_version)),
                   run->input->now_ms);
}

/* An owner that is not there takes with it what it owns, or is seen in a moment: until then a pod
 * is not put into the group of less than that. */
static bool stays(struct run *run, const struct object *pod, struct str group)
{
    int64_t at_ms = pod->created_ms + UNREAD_MS;

    if (!run->gone || !pod->group.len || str_eq(pod->group, group))
        return false;
    if (run->input->now_ms < at_ms)
        action_look_again(run->actions, at_ms);
    return true;
}

/* The group that was written with its pod, which is alone in it, while nobody has changed one of
 * them since: their revisions follow each other. */
static bool is_made(const struct control_input *input, const struct object *pod)
{
    struct str named = object_annotation(pod, GROUP_ANNOTATION);
    const struct object *group = NULL;

    if (pod->owner_count || !named.len)
        return false;
    group = cache_get(input->cache, &kind_podgroup, pod->ns, named);
    return group && group->revision == pod->revision + 1 && group->owner_count == 1 &&
           str_eq(group->owners[0].uid, pod->uid);
}

/* Grouped by hand: left alone. Its own group's name is what admission wrote. */
static bool is_by_hand(const struct object *pod, struct arena *arena)
{
    struct str named = object_annotation(pod, GROUP_ANNOTATION);

    return named.len && !pod->owner_count && !str_eq(named, group_name(pod, arena));
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *pod = cache_get(input->cache, &kind_pod, key->ns, key->name);
    struct run run = {.input = input, .actions = actions, .arena = actions->arena};
    struct grouping grouping = {0};
    struct err err = {0};

    if (!pod || pod->deleted_ms || object_annotation(pod, GROUP_MIRROR).len || is_made(input, pod))
        return;
    bool by_hand = is_by_hand(pod, run.arena);
    if (by_hand && !group_named(pod, run.arena).len)
        return; /* nothing of it has to be read */
    const struct json *root = tree(&run, pod);
    struct str name = group_named_by(root);
    if (!group_is_ours(input, root)) {
        if (name.len)
            reconcile_foreign(&run, pod);
        return;
    }
    if (name.len) {
        reconcile_named(&run, pod, name);
        return;
    }
    if (by_hand)
        return;
    struct grouping_input in = input_of(&run, root);
    int r = 0;
    if (pod->owner_count > 1)
        r = err_set(&err, -1, "Pod " STR_FMT " has %zu owners; a pod group needs one",
                    STR_ARG(pod->name), pod->owner_count);
    else if (pod->owner_count)
        r = collect_owners(&run, owner_object(&run, pod->ns, &pod->owners[0]), &in, &err);
    if (r == 0 && grouping_skips(&in))
        return; /* somebody else says which group it is in */
    if (r == 0)
        r = grouping_decide(&in, NULL, &grouping, &err);
    if (run.waits) {
        tell_unread(&run, pod);
        return;
    }
    if (r < 0) {
        action_warn(actions, pod, "PodGrouperWarning", str_from(err.text));
        return;
    }
    if (stays(&run, pod, grouping.name))
        return;
    if (!cache_get(input->cache, &kind_podgroup, grouping.ns, grouping.name)) {
        if (grouping.warning.len)
            action_warn(actions, pod, "PodGrouperWarning", grouping.warning);
        warn_of_topology(&run, pod, &in);
        warn_of_words(&run, pod, &in);
    }
    write_group(&run, &grouping);
    write_pod(&run, pod, &grouping);
}

/* ---- at admission ---- */

void group_admit(const struct control_input *input, struct json *pod, struct arena *arena)
{
    struct actions none = {.arena = arena};
    struct run run = {.input = input, .actions = &none, .arena = arena};
    struct json *meta = json_get(pod, "metadata");
    const struct json *notes = json_get(meta, "annotations");
    const struct json *owners = json_get(meta, "ownerReferences");
    const struct json *first = json_index(owners, 0);
    struct grouping_input in = input_of(&run, pod);
    struct grouping grouping = {0};

    if (json_get(notes, GROUP_ANNOTATION) || json_get(notes, GROUP_MIRROR) ||
        json_count(owners) > 1 || group_named_by(pod).len || !group_is_ours(input, pod))
        return;
    if (first) {
        const struct object_owner named = {.api_version = json_str_at(first, "apiVersion"),
                                           .kind = json_str_at(first, "kind"),
                                           .name = json_str_at(first, "name"),
                                           .uid = json_str_at(first, "uid")};
        const struct object *owner = owner_object(&run, json_str_at(meta, "namespace"), &named);

        if (!owner || collect_owners(&run, owner, &in, NULL) < 0)
            return;
    }
    if (grouping_skips(&in) || grouping_decide(&in, NULL, &grouping, NULL) < 0 || run.waits)
        return;
    json_add_str(arena, json_make_path(arena, pod, "metadata.annotations"), GROUP_ANNOTATION,
                 grouping.name);
    if (grouping.pod_sub.len)
        json_add_str(arena, json_make_path(arena, pod, "metadata.labels"), GROUP_SUBGROUP_LABEL,
                     grouping.pod_sub);
}

struct json *group_alone(const struct control_input *input,
                         const struct object *pod,
                         struct arena *arena)
{
    struct actions none = {.arena = arena};
    struct run run = {.input = input, .actions = &none, .arena = arena};
    struct grouping grouping = {0};

    if (pod->owner_count || object_annotation(pod, GROUP_MIRROR).len ||
        !str_eq(object_annotation(pod, GROUP_ANNOTATION), group_name(pod, arena)))
        return NULL;
    const struct json *root = tree(&run, pod);
    struct grouping_input in = input_of(&run, root);
    if (group_named_by(root).len || !group_is_ours(input, root) || grouping_skips(&in) ||
        grouping_odd_words(&in).len || grouping_decide(&in, NULL, &grouping, NULL) < 0 ||
        run.waits || grouping.warning.len ||
        cache_get(input->cache, &kind_podgroup, grouping.ns, grouping.name))
        return NULL;
    struct json *manifest = manifest_of(&run, &grouping, NULL);
    return run.waits ? NULL : manifest;
}

/* ---- keys ---- */

static void pods_below(const struct cache *cache,
                       const struct object *object,
                       bool deeper,
                       struct control_keys *ret)
{
    const struct object *child;
    size_t cursor = 0;

    while ((child = cache_next_owned(cache, &kind_pod, object->uid, &cursor)))
        control_keys_add(ret, child->ns, child->name);
    cursor = 0;
    while (deeper && (child = cache_next_owned(cache, &kind_job, object->uid, &cursor)))
        pods_below(cache, child, false, ret);
}

static bool pods_grouped(const struct cache *cache,
                         struct str ns,
                         struct str group,
                         struct control_keys *ret)
{
    const struct object *pod;
    size_t cursor = 0;
    bool any = false;

    while ((pod = cache_next_grouped(cache, &kind_pod, group, &cursor)))
        if (str_eq(pod->ns, ns)) {
            control_keys_add(ret, pod->ns, pod->name);
            any = true;
        }
    return any;
}

/* Those that are in it, or, while there are none, those that wait for it. */
static void pods_naming(const struct cache *cache,
                        const struct object *group,
                        struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    char name[GROUP_NAME_BYTES];
    const struct object *pod;
    size_t cursor = 0;

    if (pods_grouped(cache, group->ns, group_for_named(group->name, name), ret))
        return;
    while ((pod = cache_next(cache, &kind_pod, group->ns, &cursor)))
        if (str_eq(group_named(pod, &arena), group->name))
            control_keys_add(ret, pod->ns, pod->name);
}

/* Whichever kind it describes or described: it may be any that is not grouped by itself. */
static void pods_described(const struct cache *cache, struct control_keys *ret)
{
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next(cache, &kind_pod, STR(""), &cursor)))
        if (pod->owner_count)
            control_keys_add(ret, pod->ns, pod->name);
}

/* A pod is gone that was to make its group, or for which the others were refused: some of them look
 * again, one is enough. */
static void pods_left(const struct cache *cache,
                      const struct object *gone,
                      struct control_keys *ret)
{
    const struct object *ours = cache_get(cache, &kind_podgroup, gone->ns, gone->group);
    const struct object *pod;
    size_t cursor = 0;

    if (object_annotation(gone, GROUP_ANNOTATION).len ||
        (ours && !object_annotation(ours, GROUP_REFUSED).len))
        return;
    for (size_t count = 0;
         count < LEFT_MAX && (pod = cache_next_grouped(cache, &kind_pod, gone->group, &cursor));)
        if (str_eq(pod->ns, gone->ns)) {
            control_keys_add(ret, pod->ns, pod->name);
            count++;
        }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_pod) {
        control_keys_add(ret, object->ns, object->name);
        if (object->group.len && !cache_get(cache, &kind_pod, object->ns, object->name))
            pods_left(cache, object, ret);
    } else if (object->kind == &kind_karta) {
        pods_described(cache, ret);
    } else if (object->kind == &kind_podgroup_k8s) {
        pods_naming(cache, object, ret);
    } else if (object->kind == &kind_podgroup) {
        /* One that was deleted under its pods comes back. */
        if (!cache_get(cache, &kind_podgroup, object->ns, object->name) && object->owner_count)
            (void)pods_grouped(cache, object->ns, object->name, ret);
    } else if (object->kind != &kind_torchrunqueue && object->kind != &kind_node &&
               object->kind != &kind_priorityclass && object->kind != &kind_topology) {
        pods_below(cache, object, true, ret);
    }
}

/* `after` without what a bind added behind the annotations that were there: no group depends on it. */
static bool same_but_bind(const struct object *before, const struct object *after)
{
    struct object bare = *after;

    while (bare.annotation_count > before->annotation_count &&
           pod_has_by_bind(bare.annotations[bare.annotation_count - 1].key))
        bare.annotation_count--;
    return object_same_but_status(before, &bare);
}

/* A pod has several statuses in its life and one node, and is grouped once. Of some owners' pods it
 * counts whether they ended or where they are. */
static bool passes_by(const struct object *before, const struct object *after)
{
    return after->kind == &kind_pod &&
           (!after->owner_count || str_is(after->owners[0].kind, kind_torchrunjob.name)) &&
           same_but_bind(before, after);
}

static const struct kind *const watches[] = {&kind_pod,
                                             &kind_podgroup,
                                             &kind_torchrunjob,
                                             &kind_torchrunqueue,
                                             &kind_node,
                                             &kind_priorityclass,
                                             NULL};

const struct controller group_controller = {.name = "podgrouper",
                                            .kind = &kind_pod,
                                            .passes_by = passes_by,
                                            .watches = watches,
                                            .keys = keys,
                                            .reconcile = reconcile};
