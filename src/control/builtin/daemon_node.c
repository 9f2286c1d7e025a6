#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/builtin/daemonset.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether the pods of a DaemonSet belong on a node: by its name, its labels and its taints. Room is
 * the scheduler's matter. */

/* What every DaemonSet tolerates, so that it runs on nodes that are in trouble. */
static const struct {
    const char *key;
    const char *effect;
} tolerated[] = {
    {"node.kubernetes.io/not-ready", "NoExecute"},
    {"node.kubernetes.io/unreachable", "NoExecute"},
    {"node.kubernetes.io/disk-pressure", "NoSchedule"},
    {"node.kubernetes.io/memory-pressure", "NoSchedule"},
    {"node.kubernetes.io/pid-pressure", "NoSchedule"},
    {"node.kubernetes.io/unschedulable", "NoSchedule"},
    /* The last one: of pods that use the node's own network. */
    {"node.kubernetes.io/network-unavailable", "NoSchedule"},
};

static size_t tolerated_count(const struct json *spec)
{
    return COUNT_OF(tolerated) - (json_bool_or(json_get(spec, "hostNetwork"), false) ? 0 : 1);
}

void daemon_tolerate(struct arena *arena, struct json *spec)
{
    struct json *list = json_get(spec, "tolerations");

    if (!json_is(list, JSON_ARRAY))
        list = json_add_array(arena, spec, "tolerations");
    for (size_t i = 0; i < tolerated_count(spec); i++) {
        json_push(list, json_make(arena, "{key: $, operator: 'Exists', effect: $}",
                                  tolerated[i].key, tolerated[i].effect));
    }
}

static bool tolerates(const struct json *toleration, const struct json *taint)
{
    struct str effect = json_str(json_get(toleration, "effect"));
    struct str key = json_str(json_get(toleration, "key"));
    struct str op = json_str(json_get(toleration, "operator"));

    if (effect.len && !str_eq(effect, json_str(json_get(taint, "effect"))))
        return false;
    if (key.len && !str_eq(key, json_str(json_get(taint, "key"))))
        return false;
    if (str_is(op, "Exists"))
        return true;
    return key.len &&
           str_eq(json_str(json_get(toleration, "value")), json_str(json_get(taint, "value")));
}

static bool is_tolerated(const struct json *spec, const struct json *taint)
{
    for (size_t i = 0; i < tolerated_count(spec); i++)
        if (str_is(json_str(json_get(taint, "key")), tolerated[i].key) &&
            str_is(json_str(json_get(taint, "effect")), tolerated[i].effect))
            return true;
    JSON_FOREACH(json_get(spec, "tolerations"), toleration)
        if (tolerates(toleration, taint))
            return true;
    return false;
}

/* Gt and Lt compare numbers; the others are those of a label selector. Unlike one of those, a term
 * that says nothing holds nowhere. */
static bool term_holds(struct arena *arena, const struct json *term, const struct object *node)
{
    struct json *plain = json_new_object(arena);
    struct json *list = json_add_array(arena, plain, "matchExpressions");
    struct selector selector = {0};

    if (!json_count(json_get(term, "matchFields")) &&
        !json_count(json_get(term, "matchExpressions")))
        return false;
    JSON_FOREACH(json_get(term, "matchFields"), field) {
        bool in = str_is(json_str(json_get(field, "operator")), "In");
        bool listed = false;

        JSON_FOREACH(json_get(field, "values"), value)
            listed |= str_eq(json_str(value), node->name);
        if (!str_is(json_str(json_get(field, "key")), "metadata.name") || listed != in)
            return false;
    }
    JSON_FOREACH(json_get(term, "matchExpressions"), expression) {
        struct str op = json_str(json_get(expression, "operator"));
        bool greater = str_is(op, "Gt");
        int64_t limit = 0;
        int64_t number = 0;

        if (!greater && !str_is(op, "Lt")) {
            json_push(list, json_clone(arena, expression));
            continue;
        }
        if (!str_to_i64(json_str_at(expression, "values.0"), &limit) ||
            !str_to_i64(object_label(node, str_c(arena, json_str(json_get(expression, "key")))),
                        &number) ||
            (greater ? number <= limit : number >= limit))
            return false;
    }
    return selector_from_json(arena, plain, &selector, NULL) == 0 &&
           selector_matches(&selector, node->labels, node->label_count);
}

static bool affinity_holds(struct arena *arena, const struct json *spec, const struct object *node)
{
    const struct json *terms =
        json_at(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
                      "nodeSelectorTerms");

    if (!json_count(terms))
        return true;
    JSON_FOREACH(terms, term)
        if (term_holds(arena, term, node))
            return true;
    return false;
}

enum daemon_place daemon_place(struct arena *arena,
                               const struct json *spec,
                               const struct object *node)
{
    struct str name = json_str(json_get(spec, "nodeName"));
    enum daemon_place place = DAEMON_RUN;

    if (name.len && !str_eq(name, node->name))
        return DAEMON_AWAY;
    JSON_FOREACH(json_get(spec, "nodeSelector"), label) {
        struct str value = object_label(node, str_c(arena, json_key(label)));

        if (!str_is_set(value) || !str_eq(value, json_str(label)))
            return DAEMON_AWAY; /* "" is the value of a label that is there, as of roles */
    }
    if (!affinity_holds(arena, spec, node))
        return DAEMON_AWAY;
    JSON_FOREACH(json_at(object_json(node, arena), "spec.taints"), taint) {
        struct str effect = json_str(json_get(taint, "effect"));

        if (is_tolerated(spec, taint))
            continue;
        if (str_is(effect, "NoExecute"))
            return DAEMON_AWAY;
        if (str_is(effect, "NoSchedule"))
            place = DAEMON_STAY;
    }
    return place;
}
