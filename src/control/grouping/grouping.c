#include "control/grouping/grouping.h"

#include "api/group.h"
#include "api/hold.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "control/core/control.h"
#include "control/core/memory.h"
#include "control/grouping/grouping_rule.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_OWNER   "kai.scheduler/top-owner-metadata"
#define POOL_LABEL  "kai.scheduler/node-pool"
#define TRAIN       "train"
#define PREEMPTIBLE "kai.scheduler/preemptibility"
#define PRIORITY    "priorityClassName"

/* ---- small readers ---- */

struct str grouping_api_group(struct str api_version)
{
    size_t slash = str_find(api_version, '/');

    return slash < api_version.len ? str_sub(api_version, 0, slash) : STR("");
}

struct str grouping_meta(const struct json *object, const char *key)
{
    return json_str(json_get(json_get(object, "metadata"), key));
}

struct str grouping_label(const struct json *object, const char *key)
{
    return json_str(json_get(json_at(object, "metadata.labels"), key));
}

struct str grouping_annotation(const struct json *object, const char *key)
{
    return json_str(json_get(json_at(object, "metadata.annotations"), key));
}

struct grouping_topology grouping_topology_of(const struct json *annotations,
                                              const char *required,
                                              const char *preferred,
                                              const struct json *fallback)
{
    struct grouping_topology ret = {
        .topology = json_str(json_get(annotations, "kai.scheduler/topology")),
        .required = json_str(json_get(annotations, required)),
        .preferred = json_str(json_get(annotations, preferred)),
    };

    if (!ret.topology.len)
        ret.topology = json_str(json_get(fallback, "kai.scheduler/topology"));
    if (!ret.topology.len || (!ret.required.len && !ret.preferred.len))
        return (struct grouping_topology){0};
    return ret;
}

void grouping_own(struct grouping *ret, const struct json *object)
{
    struct str version = json_str(json_get(object, "apiVersion"));
    struct str kind = json_str(json_get(object, "kind"));

    ret->owner = (struct grouping_owner){.api_version = version,
                                         .kind = kind,
                                         .name = grouping_meta(object, "name"),
                                         .uid = grouping_meta(object, "uid")};
}

void grouping_per_pod(const struct grouping_input *input, struct grouping *ret)
{
    grouping_own(ret, input->pod);
    if (!ret->owner.api_version.len)
        ret->owner.api_version = STR("v1");
    if (!ret->owner.kind.len)
        ret->owner.kind = STR("Pod");
    ret->name = str_printf(input->arena, "pg-" STR_FMT "-" STR_FMT, STR_ARG(ret->owner.name),
                           STR_ARG(ret->owner.uid));
    ret->min_member = 1;
}

void grouping_sub_add(const struct grouping_input *input,
                      struct grouping *ret,
                      const struct grouping_sub *sub)
{
    ret->crowded = ret->crowded || ret->subs.count == GROUP_SUBGROUPS_MAX;
    if (!ret->crowded)
        VEC_PUSH(input->arena, &ret->subs, *sub);
}

/* ---- what is common to all kinds ---- */

static bool class_exists(const struct grouping_input *input, struct str name)
{
    return name.len && input->find(input->user, "PriorityClass", STR(""), name);
}

/* The entry of the defaults for a kind: group and kind, else kind alone. */
static const struct json *kind_defaults(const struct grouping_input *input,
                                        const struct json *owner)
{
    struct str kind = json_str(json_get(owner, "kind"));
    struct str group = grouping_api_group(json_str(json_get(owner, "apiVersion")));
    const struct json *by_kind = NULL;
    struct json *list = NULL;

    if (!input->defaults.len || !kind.len ||
        json_parse(input->arena, input->defaults, &list, NULL) < 0)
        return NULL;
    JSON_FOREACH(list, entry) {
        struct str entry_group = json_str(json_get(entry, "group"));

        if (!str_eq(json_str(json_get(entry, "typeName")), kind))
            continue;
        if (str_eq(entry_group, group) && group.len)
            return entry;
        if (!entry_group.len && !by_kind)
            by_kind = entry;
    }
    return by_kind;
}

static struct str priority_of(const struct grouping_input *input,
                              const struct grouping_rule *rule,
                              const struct json *owner)
{
    struct str name = grouping_label(owner, PRIORITY);

    if (class_exists(input, name))
        return name;
    for (size_t i = 0; i < input->owner_count; i++) {
        name = grouping_label(input->owners[i], PRIORITY);
        if (class_exists(input, name))
            return name;
    }
    name = grouping_label(input->pod, PRIORITY);
    if (class_exists(input, name))
        return name;
    name = json_str_at(input->pod, "spec.priorityClassName");
    if (class_exists(input, name))
        return name;
    name = json_str(json_get(kind_defaults(input, owner), "priorityName"));
    if (class_exists(input, name))
        return name;
    return str_from(rule->priority ? rule->priority : TRAIN);
}

static bool is_preemptibility(struct str value)
{
    return str_is(value, "preemptible") || str_is(value, "non-preemptible") ||
           str_is(value, "semi-preemptible");
}

static struct str preemptibility_of(const struct grouping_input *input, const struct json *owner)
{
    const struct json *const said[] = {owner, input->pod};

    for (size_t i = 0; i < 2; i++) {
        struct str value = grouping_label(said[i], PREEMPTIBLE);
        if (is_preemptibility(value))
            return value;
        value = grouping_annotation(said[i], PREEMPTIBLE);
        if (is_preemptibility(value))
            return value;
    }
    struct str value = json_str(json_get(kind_defaults(input, owner), "preemptibility"));
    return is_preemptibility(value) ? value : STR_NONE;
}

struct str grouping_odd_words(const struct grouping_input *input)
{
    for (size_t i = 0; i <= input->owner_count; i++) {
        const struct json *said = i < input->owner_count ? input->owners[i] : input->pod;
        const struct str words[] = {grouping_label(said, PREEMPTIBLE),
                                    grouping_annotation(said, PREEMPTIBLE)};
        struct str class = grouping_label(said, PRIORITY);

        for (size_t j = 0; j < COUNT_OF(words); j++)
            if (words[j].len && !is_preemptibility(words[j]))
                return str_printf(input->arena,
                                  PREEMPTIBLE
                                  " is \"" STR_FMT
                                  "\", which means nothing, so the priority decides; it "
                                  "can be preemptible, non-preemptible or "
                                  "semi-preemptible",
                                  STR_ARG(words[j]));
        if (class.len && !class_exists(input, class))
            return str_printf(input->arena,
                              "the label " PRIORITY " is \"" STR_FMT
                              "\", and there is no such PriorityClass, so the label means nothing; "
                              "see kubectl get priorityclasses",
                              STR_ARG(class));
    }
    return STR_NONE;
}

static struct str either_label(const struct grouping_input *input,
                               const struct json *owner,
                               const char *key)
{
    struct str value = grouping_label(owner, key);

    return value.len ? value : grouping_label(input->pod, key);
}

struct str grouping_queue(const struct grouping_input *input, const struct json *owner)
{
    const char *const keys[] = {str_c(input->arena, input->config->queue_label_key), "runai/queue"};

    for (size_t i = 0; i < 2; i++) {
        struct str queue = either_label(input, owner, keys[i]);

        if (queue.len)
            return queue;
    }
    struct str project = either_label(input, owner, "project");
    struct str pool = either_label(input, owner, POOL_LABEL);
    if (project.len && pool.len)
        return str_printf(input->arena, STR_FMT "-" STR_FMT, STR_ARG(project), STR_ARG(pool));
    return project;
}

/* The first duration that an annotation of the owners, then of the pod, says. One that cannot be
 * read is as if it was not there. */
static struct str duration_of(const struct grouping_input *input,
                              const struct json *owner,
                              const char *key,
                              bool negative)
{
    for (size_t i = 0; i < input->owner_count + 2; i++) {
        const struct json *from = i == 0                    ? owner
                                  : i <= input->owner_count ? input->owners[i - 1]
                                                            : input->pod;
        struct str text = grouping_annotation(from, key);
        int64_t ms = 0;

        if (text.len && time_parse_duration(text, &ms) && (ms >= 0 || negative))
            return text;
    }
    return STR_NONE;
}

/* spec.maxRunTime of the job where its kind has it, else the annotation. */
static struct str max_run_of(const struct grouping_input *input, const struct json *owner)
{
    struct str text = json_str_at(owner, "spec.maxRunTime");
    int64_t ms = 0;

    return text.len && time_parse_duration(text, &ms) && ms > 0
               ? text
               : duration_of(input, owner, "muster.dev/max-run-time", false);
}

static bool is_requeued(const struct grouping_input *input, const struct json *owner)
{
    const char *key = "muster.dev/requeue-after-max-run-time";

    for (size_t i = 0; i < input->owner_count; i++)
        if (str_is(grouping_annotation(input->owners[i], key), "true"))
            return true;
    return json_bool_or(json_at(owner, "spec.requeueAfterMaxRunTime"), false) ||
           str_is(grouping_annotation(owner, key), "true") ||
           str_is(grouping_annotation(input->pod, key), "true");
}

static struct json *copy_map(struct arena *arena, const struct json *map)
{
    return json_is(map, JSON_OBJECT) ? json_clone(arena, map) : json_new_object(arena);
}

static void add_metadata(const struct grouping_input *input,
                         const struct json *owner,
                         struct grouping *ret)
{
    struct str user = either_label(input, owner, "user");
    struct str pool = either_label(input, owner, POOL_LABEL);
    struct str version = json_str(json_get(owner, "apiVersion"));

    ret->labels = copy_map(input->arena, json_at(owner, "metadata.labels"));
    ret->annotations = copy_map(input->arena, json_at(owner, "metadata.annotations"));
    /* What kubectl noted about the owner, and what is counted there, is not about the group; whether
     * its room is held is for the job's controller to say there. */
    json_remove(ret->annotations, STR("kubectl.kubernetes.io/last-applied-configuration"));
    json_remove(ret->annotations, STR(MEMORY_ANNOTATION));
    json_remove(ret->annotations, STR(HOLD_UNTIL_ANNOTATION));
    if (user.len)
        json_add_str(input->arena, ret->labels, "user", user);
    if (pool.len)
        json_add_str(input->arena, ret->labels, POOL_LABEL, pool);
    size_t slash = str_find(version, '/');
    json_add_str(input->arena, ret->annotations, TOP_OWNER,
                 str_printf(input->arena,
                            "name: " STR_FMT "\nuid: " STR_FMT "\ngroup: " STR_FMT
                            "\nversion: " STR_FMT "\nkind: " STR_FMT "\n",
                            STR_ARG(grouping_meta(owner, "name")),
                            STR_ARG(grouping_meta(owner, "uid")),
                            STR_ARG(grouping_api_group(version)),
                            STR_ARG(slash < version.len ? str_sub(version, slash + 1, version.len)
                                                        : version),
                            STR_ARG(json_str(json_get(owner, "kind")))));
}

void grouping_common(const struct grouping_input *input,
                     const struct grouping_rule *rule,
                     const struct json *owner,
                     struct grouping *ret)
{
    grouping_own(ret, owner);
    ret->ns = grouping_meta(owner, "namespace");
    if (!ret->ns.len)
        ret->ns = grouping_meta(input->pod, "namespace");
    ret->name = str_printf(input->arena, "pg-" STR_FMT "-" STR_FMT, STR_ARG(ret->owner.name),
                           STR_ARG(ret->owner.uid));
    ret->min_member = 1;
    ret->queue = grouping_queue(input, owner);
    if (!ret->queue.len)
        ret->queue = input->config->default_queue;
    ret->priority = priority_of(input, rule, owner);
    ret->preemptibility = preemptibility_of(input, owner);
    ret->preempt_delay = duration_of(input, owner, "kai.scheduler/preemption-delay", false);
    if (!ret->preempt_delay.len &&
        str_is(json_str_at(input->pod, "spec.preemptionPolicy"), "Never"))
        ret->preempt_delay = STR(GROUPING_NEVER);
    ret->stale_grace = duration_of(input, owner, "kai.scheduler/staleness-grace-period", true);
    ret->max_run = max_run_of(input, owner);
    ret->requeue = is_requeued(input, owner);
    ret->topology = grouping_topology_of(json_at(owner, "metadata.annotations"),
                                         "kai.scheduler/topology-required-placement",
                                         "kai.scheduler/topology-preferred-placement", NULL);
    add_metadata(input, owner, ret);
}

/* ---- annotations ---- */

#define BATCH_MIN "kai.scheduler/batch-min-member"

int grouping_batch_min(const struct json *object,
                       int64_t fallback,
                       int64_t least,
                       int64_t *ret,
                       struct err *err)
{
    struct str text = grouping_annotation(object, BATCH_MIN);

    *ret = fallback;
    if (!text.len)
        return 0;
    if (!str_to_i64(text, ret) || *ret > INT32_MAX || *ret < least)
        return err_set(err, -EINVAL,
                       "annotation " BATCH_MIN ": \"" STR_FMT "\" is not a number of at least %lld",
                       STR_ARG(text), (long long)least);
    return 0;
}

int grouping_segments(int64_t pods, int64_t size, int64_t *ret, struct err *err)
{
    *ret = (pods + size - 1) / size;
    if (*ret > GROUPING_SEGMENTS_MAX)
        return err_set(err, -EINVAL,
                       "%lld segments of %lld pods are greater than max allowed segmentation, %d",
                       (long long)*ret, (long long)size, GROUPING_SEGMENTS_MAX);
    return 0;
}

bool grouping_skips(const struct grouping_input *input)
{
    const char *key = "kai.scheduler/skip-podgrouper";

    for (size_t i = 0; i < input->owner_count; i++)
        if (str_is(grouping_annotation(input->owners[i], key), "true"))
            return true;
    return str_is(grouping_annotation(input->pod, key), "true");
}

/* ---- the manifest ---- */

static void add_topology(struct arena *arena,
                         struct json *to,
                         const struct grouping_topology *topology)
{
    if (!topology->topology.len)
        return;
    struct json *constraint = json_add_object(arena, to, "topologyConstraint");
    json_add_str(arena, constraint, "topology", topology->topology);
    if (topology->required.len)
        json_add_str(arena, constraint, "requiredTopologyLevel", topology->required);
    if (topology->preferred.len)
        json_add_str(arena, constraint, "preferredTopologyLevel", topology->preferred);
}

struct json *grouping_manifest(const struct grouping *grouping, struct arena *arena)
{
    struct json *body =
        json_make(arena,
                  "{apiVersion: 'scheduling.run.ai/v2alpha2', kind: 'PodGroup', "
                  "metadata: {namespace: $, name: $, labels: $, annotations: $, "
                  "ownerReferences: [{apiVersion: $, kind: $, name: $, uid: $, "
                  "controller: true}]}}",
                  grouping->ns, grouping->name, json_clone(arena, grouping->labels),
                  json_clone(arena, grouping->annotations), grouping->owner.api_version,
                  grouping->owner.kind, grouping->owner.name, grouping->owner.uid);
    struct json *spec = json_add_object(arena, body, "spec");
    if (grouping->min_sub > 0)
        json_add_i64(arena, spec, "minSubGroup", grouping->min_sub);
    else
        json_add_i64(arena, spec, "minMember", grouping->min_member);
    json_fill(arena, spec, "{queue: $, priorityClassName: $}", grouping->queue, grouping->priority);
    if (grouping->preemptibility.len)
        json_add_str(arena, spec, "preemptibility", grouping->preemptibility);
    if (grouping->preempt_delay.len)
        json_add_str(arena, spec, "preemptionDelay", grouping->preempt_delay);
    if (grouping->max_run.len)
        json_add_str(arena, spec, "maxRunTime", grouping->max_run);
    if (grouping->max_run.len && grouping->requeue)
        json_add_bool(arena, spec, "requeueAfterMaxRunTime", true);
    if (grouping->stale_grace.len)
        json_add_str(arena, spec, "stalenessGracePeriod", grouping->stale_grace);
    add_topology(arena, spec, &grouping->topology);
    if (!grouping->subs.count)
        return body;
    struct json *subs = json_add_array(arena, spec, "subGroups");
    for (size_t i = 0; i < grouping->subs.count; i++) {
        const struct grouping_sub *sub = &grouping->subs.items[i];
        struct json *entry = json_push(subs, json_new_object(arena));

        json_add_str(arena, entry, "name", sub->name);
        if (sub->inner)
            json_add_i64(arena, entry, "minSubGroup", sub->min_sub);
        else
            json_add_i64(arena, entry, "minMember", sub->min);
        if (sub->parent.len)
            json_add_str(arena, entry, "parent", sub->parent);
        add_topology(arena, entry, &sub->topology);
    }
    return body;
}
