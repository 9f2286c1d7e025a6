#include "control/grouping/grouping.h"

#include "api/karta.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "conformance/conformance.h"
#include "control/core/control.h"
#include "control/grouping/grouping_rule.h"
#include "sched/sched.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Scenarios name the rule, because their owners often carry made-up kinds. */
struct around {
    const struct json *objects;
    const struct json *pod;
    const struct json *karta;
};

/* Objects of the scenarios may lack kind and namespace: what is not said matches. */
static bool fits(const struct json *object, const char *kind, struct str ns)
{
    struct str own = json_str(json_get(object, "kind"));
    struct str space = grouping_meta(object, "namespace");

    if (own.len ? !str_is(own, kind) : strcmp(kind, "Pod") == 0 || strcmp(kind, "PodGroup") == 0)
        return false;
    return !space.len || !ns.len || str_eq(space, ns);
}

static const struct json *find(void *user, const char *kind, struct str ns, struct str name)
{
    const struct around *around = user;

    JSON_FOREACH(around->objects, object)
        if (fits(object, kind, ns) && str_eq(grouping_meta(object, "name"), name))
            return object;
    return NULL;
}

static const struct json *next(void *user, const char *kind, struct str ns, size_t *cursor)
{
    const struct around *around = user;

    if (strcmp(kind, KARTA_KIND) == 0 && around->karta)
        return (*cursor)++ ? NULL : around->karta;
    for (; *cursor < json_count(around->objects); (*cursor)++) {
        const struct json *object = json_index(around->objects, *cursor);

        if (!fits(object, kind, ns))
            continue;
        (*cursor)++;
        return object;
    }
    return NULL;
}

static const char *rule_name(struct str rule)
{
    static const struct {
        const char *scenario;
        const char *ours;
    } names[] = {
        {"Knative Service", "Service"},
        {"Spark pod", "default"},
        {"skip top owner", "TrainJob"},
        {"Karta", "default"},
    };

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_is(rule, names[i].scenario))
            return names[i].ours;
    return NULL;
}

/* "Kubeflow distributed": the case brings the member of spec and the required roles along. */
static struct grouping_rule distributed(struct arena *arena, const struct json *others)
{
    struct training_kind *training = ARENA_NEW(arena, struct training_kind);
    size_t count = 0;

    training->specs = str_c(arena, json_str(json_index(others, 0)));
    JSON_FOREACH(json_index(others, 1), role) {
        assert(count + 1 < COUNT_OF(training->required));
        training->required[count++] = str_c(arena, json_str(role));
    }
    return (struct grouping_rule){
        .name = "distributed", .training = training, .apply = grouping_kubeflow};
}

/* ---- looking at the result ---- */

/* The next step of a path: a member, [index] or [name="..."]. */
static const struct json *descend(const struct json *at, struct str *path)
{
    struct str key;

    if (path->p[0] == '.')
        *path = str_sub(*path, 1, path->len);
    if (path->p[0] != '[') {
        size_t end = 0;

        while (end < path->len && path->p[end] != '.' && path->p[end] != '[')
            end++;
        key = str_sub(*path, 0, end);
        *path = str_sub(*path, end, path->len);
        return json_get_str(at, key);
    }
    size_t close = str_find(*path, ']');
    key = str_sub(*path, 1, close - 1);
    *path = str_sub(*path, close + 1, path->len);
    uint64_t index = 0;
    if (str_to_u64(key, &index))
        return json_index(at, (size_t)index);
    if (key.p[0] == '"')
        return json_get_str(at, str_sub(key, 1, key.len - 2));
    struct str name = str_sub(key, strlen("name=\""), key.len - strlen("name=\"\""));
    JSON_FOREACH(at, item)
        if (str_eq(json_str(json_get(item, "name")), name))
            return item;
    return NULL;
}

static const struct json *at_path(const struct json *root, struct str path)
{
    const struct json *at = root;

    if (str_starts(path, STR("ownerReference"))) {
        at = json_at(root, "metadata.ownerReferences.0");
        path = str_sub(path, strlen("ownerReference"), path.len);
    }
    while (path.len && at)
        at = descend(at, &path);
    return at;
}

/* Every member of `wanted` is there. */
static bool covers(const struct json *has, const struct json *wanted)
{
    int64_t a = 0;
    int64_t b = 0;

    if (json_is(has, JSON_STRING) && json_is(wanted, JSON_STRING) &&
        time_parse_duration(json_str(has), &a) && time_parse_duration(json_str(wanted), &b))
        return a == b;
    if (!json_is(wanted, JSON_OBJECT))
        return json_equal(has, wanted) ||
               (!has && json_is(wanted, JSON_STRING) && !json_str(wanted).len);
    JSON_FOREACH(wanted, member)
        if (!covers(json_get_str(has, json_key(member)), member))
            return false;
    return true;
}

static bool holds(struct arena *arena, const struct json *root, const struct json *claim)
{
    struct str path = json_str(json_get(claim, "path"));
    struct str op = json_str(json_get(claim, "op"));
    const struct json *wanted = json_get(claim, "value");
    bool counted = str_starts(path, STR("count("));

    if (counted)
        path = str_sub(path, strlen("count("), path.len - strlen("count()"));
    const struct json *has = at_path(root, path);
    if (counted)
        has = json_new_i64(arena, (int64_t)json_count(has));
    /* A minimum of 0 beside a minSubGroup is one that is not set. */
    if (str_is(op, "equal") && !has && str_ends(path, STR("minMember")))
        return json_i64_or(wanted, 1) == 0;
    if (str_is(op, "equal"))
        return covers(has, wanted);
    if (str_is(op, "contains") && json_is(has, JSON_ARRAY)) {
        JSON_FOREACH(has, item)
            if (str_eq(json_str(item), json_str(wanted)))
                return true;
        return false;
    }
    if (str_is(op, "contains"))
        return str_contains(json_str(has), json_str(wanted));
    if (str_is(op, "is_nil"))
        return json_is_null(has);
    if (str_is(op, "not_nil"))
        return !json_is_null(has);
    bool empty = json_is_null(has) || (json_is(has, JSON_STRING) && !json_str(has).len) ||
                 (has->type >= JSON_ARRAY && !json_count(has));
    if (str_is(op, "is_empty"))
        return empty;
    if (str_is(op, "not_empty"))
        return !empty;
    if (str_is(op, "is_true") || str_is(op, "is_false"))
        return json_bool_or(has, false) == str_is(op, "is_true");
    return false;
}

static void add_pods(struct arena *arena,
                     struct json *manifest,
                     const struct grouping *grouping,
                     const struct json *pod)
{
    JSON_FOREACH(json_at(manifest, "spec.subGroups"), sub) {
        struct json *pods = json_add_array(arena, sub, "pods");

        if (str_eq(json_str(json_get(sub, "name")), grouping->pod_sub) && grouping->pod_sub.len)
            json_push(pods, json_new_str(arena, grouping_meta(pod, "name")));
    }
}

/* ---- a case ---- */

/* An owner that the scenario left as an expression is known by what the object below says of it. */
static const struct json *resolve(struct arena *arena,
                                  const struct json *owner,
                                  const struct json *below)
{
    if (json_is(json_get(owner, "kind"), JSON_STRING))
        return owner;
    const struct json *reference = json_at(below, "metadata.ownerReferences.0");
    struct json *made = json_new_object(arena);
    struct json *meta = json_add_object(arena, made, "metadata");
    json_add_str(arena, made, "apiVersion", json_str(json_get(reference, "apiVersion")));
    json_add_str(arena, made, "kind", json_str(json_get(reference, "kind")));
    json_add_str(arena, meta, "name", json_str(json_get(reference, "name")));
    json_add_str(arena, meta, "namespace", grouping_meta(below, "namespace"));
    return made;
}

static void read_owners(struct grouping_input *in, const struct json *one, struct str rule)
{
    const struct json *owner = json_get(one, "owner");

    if (json_get(owner, "$go")) /* not resolved: the rule does not look at it */
        owner = NULL;
    if (str_is(rule, "Spark pod"))
        return;
    if (str_is(rule, "skip top owner")) {
        /* Listed from the pod upwards; the last is the top. */
        const struct json *others = json_get(one, "other_owners");
        const struct json *below = in->pod;

        in->owner_count = json_count(others);
        for (size_t i = 0; i < in->owner_count; i++) {
            in->owners[in->owner_count - 1 - i] = resolve(in->arena, json_index(others, i), below);
            below = in->owners[in->owner_count - 1 - i];
        }
        in->owners[0] = owner;
        return;
    }
    in->owners[in->owner_count++] = owner;
}

static bool check_case(struct arena *arena,
                       const struct json *scenario,
                       const struct json *one,
                       bool strict)
{
    const struct json *config = json_get(scenario, "config");
    struct str rule = json_str(json_get(scenario, "rule"));
    struct around around = {json_get(scenario, "cluster_objects"), json_get(one, "pod"),
                            recorded_karta(arena, scenario)};
    struct control_config settings = {.queue_label_key =
                                          json_str(json_get(config, "queue_label_key")),
                                      .default_queue = STR("default-queue")};
    struct grouping_input in = {
        .arena = arena,
        .config = &settings,
        .pod = around.pod,
        .find = find,
        .next = next,
        .user = &around,
        .knative_gang = json_bool_or(json_get(config, "gang_schedule_knative"), false),
        .legacy_jobs =
            json_bool_or(json_get(config, "search_legacy_job_groups"), str_is(rule, "RunaiJob")),
        .old_groups = !case_is_017(scenario),
        .strict_roles = strict};
    struct grouping grouping;
    struct err err = {0};
    struct grouping_rule made;
    const struct grouping_rule *use;

    JSON_FOREACH(around.objects, object)
        if (str_is(json_str(json_get(object, "kind")), "ConfigMap"))
            in.defaults = json_str_at(object, "data.types");
    read_owners(&in, one, rule);
    if (str_starts(rule, STR("Kubeflow distributed"))) {
        made = distributed(arena, json_get(one, "other_owners"));
        use = &made;
    } else {
        use = grouping_rule_named(rule_name(rule) ? str_from(rule_name(rule)) : rule);
    }
    if (str_is(rule, KARTA_KIND) && !around.karta && !json_count(around.objects))
        return differs(scenario, "the recording lacks the Karta that its outcome depends on");
    if (!use)
        return differs(scenario, "no rule for " STR_FMT, STR_ARG(rule));
    int r = grouping_decide(&in, use, &grouping, &err);
    const struct json *wanted = json_at(one, "expected.error");
    /* A case that asks both for an error and for a result is judged by the result. */
    bool refused = json_bool_or(wanted, false) && !json_count(json_at(one, "expected.podgroup"));
    if (!json_is_null(wanted) && refused != (r < 0))
        return differs(scenario, "%s", r < 0 ? err.text : "grouped, but should have been refused");
    struct str words = json_str(json_at(one, "expected.error_contains"));
    if (r == 0 && json_at(one, "expected.error_contains"))
        return differs(scenario, "grouped, but should have been refused in words");
    if (r < 0)
        return str_contains(str_from(err.text), words) ||
               differs(scenario, "\"%s\" does not say \"" STR_FMT "\"", err.text, STR_ARG(words));
    struct json *manifest = grouping_manifest(&grouping, arena);
    add_pods(arena, manifest, &grouping, around.pod);
    bool ok = true;
    JSON_FOREACH(json_at(one, "expected.podgroup"), claim) {
        if (holds(arena, manifest, claim))
            continue;
        ok = differs(scenario, "expected " STR_FMT " in " STR_FMT, STR_ARG(json_text(arena, claim)),
                     STR_ARG(json_text(arena, manifest)));
    }
    return ok;
}

bool run_grouping(struct arena *arena, const struct json *scenario, uint64_t quirks)
{
    bool strict = case_is_017(scenario) && quirks == SCHED_QUIRKS_ALL;

    JSON_FOREACH(json_get(scenario, "cases"), one)
        if (!check_case(arena, scenario, one, strict))
            return false;
    return true;
}
