#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/core/group_name.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_rule.h"

#include <stddef.h>
#include <stdint.h>

/* Pods that name a PodGroup of scheduling.k8s.io. The group of ours that stands for it has the same
 * numbers, is owned by it, and follows it: so gangs, queues, preemption and words are the same. */

#define HASH_SEED 17
#define FOR_EVER  "-1s" /* as a stalenessGracePeriod */

/* A name that can be an object's, and is the same for the same label. */
struct str grouping_label_topology(struct arena *arena, struct str label)
{
    char *text = ARENA_ARRAY(arena, char, label.len + 1);

    for (size_t i = 0; i < label.len; i++) {
        char c = label.p[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        text[i] = c == '/' ? '.' : c == '_' ? '-' : c;
    }
    return str_printf(arena, "label-" STR_FMT "-%08x", STR_ARG(((struct str){text, label.len})),
                      (unsigned)(str_hash(label, HASH_SEED) & UINT32_MAX));
}

struct json *grouping_topology_manifest(struct arena *arena, struct str label)
{
    return json_make(arena,
                     "{apiVersion: 'kai.scheduler/v1alpha1', kind: 'Topology', "
                     "metadata: {name: $}, spec: {levels: [{nodeLabel: $}]}}",
                     grouping_label_topology(arena, label), label);
}

/* The queue that the pod's owners say, where neither the group nor the pod does. */
static struct str owners_queue(const struct grouping_input *input)
{
    struct grouping_input alone = *input;
    const struct json *none = json_new_object(input->arena);

    alone.pod = none;
    for (size_t i = 0; i < input->owner_count; i++) {
        struct str queue = grouping_queue(&alone, input->owners[i]);

        if (queue.len)
            return queue;
    }
    return STR_NONE;
}

void grouping_workload(const struct grouping_input *input,
                       const struct json *group,
                       struct grouping *ret)
{
    static const struct grouping_rule rule = {.name = "PodGroup"};
    const struct json *spec = json_get(group, "spec");
    struct str class = json_str(json_get(spec, "priorityClassName"));
    struct str level = json_str_at(spec, "schedulingConstraints.topology.0.key");

    *ret = (struct grouping){0};
    grouping_common(input, &rule, group, ret);
    char name[GROUP_NAME_BYTES];
    ret->name = str_dup(input->arena, group_for_named(json_str_at(group, "metadata.name"), name));
    if (!grouping_queue(input, group).len && owners_queue(input).len)
        ret->queue = owners_queue(input);
    ret->min_member = json_i64_or(json_at(spec, "schedulingPolicy.gang.minCount"), 1);
    if (class.len)
        ret->priority = class;
    if (level.len)
        ret->topology = (struct grouping_topology){
            .topology = grouping_label_topology(input->arena, level), .required = level};
    json_add_c(input->arena, ret->annotations, GROUP_DISRUPTION,
               json_is_null(json_at(spec, "disruptionMode.all")) ? "single" : "all");
    /* In Kubernetes a higher priority may stop every lower one, and the minimum counts only when a
     * gang starts. */
    if (!ret->preemptibility.len)
        ret->preemptibility = STR("preemptible");
    if (!ret->stale_grace.len)
        ret->stale_grace = STR(FOR_EVER);
    if (str_is(json_str(json_get(spec, "preemptionPolicy")), "Never"))
        ret->preempt_delay = STR(GROUPING_NEVER);
}
