#include "api/admit.h"
#include "api/kind.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* batch/v1 Job: what Kubernetes fills in when one is created, and what it refuses. The same rules
 * hold for the Job templates inside other kinds (admit_job_spec). */

#define BACKOFF_DEFAULT 6
#define BACKOFF_NONE    2147483647 /* each index has a limit of its own */
#define INDEXES_MAX     100000
#define EXIT_CODES_MAX  255 /* of a rule */
#define RULES_MAX       20  /* of a policy, and conditions of a rule */

/* ---- defaults ---- */

/* The labels by which the job, and `kubectl logs job/x`, finds its pods. */
static void select_pods(struct admit *admit, struct json *spec)
{
    struct arena *arena = admit->arena;
    struct str uid = json_str_at(admit->object, "metadata.uid");
    struct str name = json_str_at(admit->object, "metadata.name");
    struct json *match = json_make_path(arena, spec, "selector.matchLabels");
    struct json *labels = json_make_path(arena, spec, "template.metadata.labels");

    json_add_str(arena, match, "batch.kubernetes.io/controller-uid", uid);
    json_fill(arena, labels,
              "{batch.kubernetes.io/controller-uid: $, "
              "batch.kubernetes.io/job-name: $, controller-uid: $, job-name: $}",
              uid, name, uid, name);
}

void admit_job_default(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");

    if (!json_is(json_get(spec, "template"), JSON_OBJECT))
        return;
    if (json_is_null(json_get(spec, "completions")) && json_is_null(json_get(spec, "parallelism")))
        json_add_i64(admit->arena, spec, "completions", 1);
    admit_fill_i64(admit, spec, "parallelism", 1);
    admit_fill_i64(admit, spec, "backoffLimit",
                   json_is_null(json_get(spec, "backoffLimitPerIndex")) ? BACKOFF_DEFAULT
                                                                        : BACKOFF_NONE);
    admit_fill_c(admit, spec, "podReplacementPolicy",
                 json_is_null(json_get(spec, "podFailurePolicy")) ? "TerminatingOrFailed"
                                                                  : "Failed");
    admit_template_default(admit, json_at(spec, "template.spec"));
}

void admit_job_add(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");
    struct json *meta = json_get(admit->object, "metadata");

    if (!json_is(json_get(spec, "template"), JSON_OBJECT))
        return;
    if (!admit->old && !json_bool_or(json_get(spec, "manualSelector"), false))
        select_pods(admit, spec);
    /* A job without labels has those of its pods. */
    const struct json *labels = json_at(spec, "template.metadata.labels");
    if (json_count(labels) && !json_count(json_get(meta, "labels")))
        json_set(meta, STR("labels"), json_clone(admit->arena, labels));
}

/* ---- checks ---- */

static struct str at(struct admit *admit, struct str path, const char *rest)
{
    return str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), rest);
}

static void check_numbers(struct admit *admit, const struct json *spec, struct str path)
{
    static const char *const names[] = {"parallelism",
                                        "completions",
                                        "backoffLimit",
                                        "backoffLimitPerIndex",
                                        "maxFailedIndexes",
                                        "activeDeadlineSeconds",
                                        "ttlSecondsAfterFinished"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct json *value = json_get(spec, names[i]);

        if (!json_is_null(value) && json_i64_or(value, -1) < 0)
            admit_invalid(admit, at(admit, path, names[i]), value,
                          "must be greater than or equal to 0");
    }
}

static void check_mode(struct admit *admit, const struct json *spec, struct str path)
{
    static const char *const indexed_only[] = {"backoffLimitPerIndex", "maxFailedIndexes",
                                               "successPolicy"};
    const struct json *mode = json_get(spec, "completionMode");
    bool indexed = str_is(json_str(mode), "Indexed");

    if (!json_is_null(mode) && !indexed && !str_is(json_str(mode), "NonIndexed"))
        admit_unsupported(admit, at(admit, path, "completionMode"), mode,
                          "\"Indexed\", \"NonIndexed\"");
    if (indexed && json_is_null(json_get(spec, "completions")))
        admit_required(admit, at(admit, path, "completions"), "when completion mode is Indexed");
    if (indexed && json_i64_or(json_get(spec, "completions"), 0) > INDEXES_MAX)
        admit_invalid(admit, at(admit, path, "completions"), json_get(spec, "completions"),
                      "must be at most 100000 when completion mode is Indexed");
    if (indexed && json_i64_or(json_get(spec, "parallelism"), 0) > INDEXES_MAX)
        admit_invalid(admit, at(admit, path, "parallelism"), json_get(spec, "parallelism"),
                      "must be less than or equal to 100000 when completion mode is Indexed");
    if (indexed && json_i64_or(json_get(spec, "maxFailedIndexes"), 0) >
                       json_i64_or(json_get(spec, "completions"), INDEXES_MAX))
        admit_invalid(admit, at(admit, path, "maxFailedIndexes"),
                      json_get(spec, "maxFailedIndexes"),
                      "must be less than or equal to completions");
    for (size_t i = 0; !indexed && i < COUNT_OF(indexed_only); i++)
        if (!json_is_null(json_get(spec, indexed_only[i])))
            admit_invalid(admit, at(admit, path, indexed_only[i]), json_get(spec, indexed_only[i]),
                          "requires indexed completion mode");
    if (!json_is_null(json_get(spec, "maxFailedIndexes")) &&
        json_is_null(json_get(spec, "backoffLimitPerIndex")))
        admit_required(admit, at(admit, path, "backoffLimitPerIndex"),
                       "when maxFailedIndexes is specified");
}

static bool has_container(const struct json *template, struct str name)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"};

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_at(template, lists[i]), container)
            if (str_eq(json_str(json_get(container, "name")), name))
                return true;
    return false;
}

static void check_exit_codes(struct admit *admit,
                             const struct json *spec,
                             const struct json *exits,
                             struct str path)
{
    const struct json *container = json_get(exits, "containerName");
    const struct json *values = json_get(exits, "values");
    struct str op = json_str(json_get(exits, "operator"));
    bool ordered = true;
    int64_t last = INT64_MIN;
    size_t index = 0;

    if (!op.len)
        admit_required(admit, at(admit, path, "operator"), "valid values: \"In\", \"NotIn\"");
    if (!json_is_null(container) && !has_container(json_get(spec, "template"), json_str(container)))
        admit_invalid(admit, at(admit, path, "containerName"), container,
                      "must be one of the container or initContainer names in the pod template");
    if (!json_count(values))
        admit_invalid(admit, at(admit, path, "values"), values, "at least one value is required");
    else if (json_count(values) > EXIT_CODES_MAX)
        admit_too_many(admit, at(admit, path, "values"), json_count(values), EXIT_CODES_MAX);
    JSON_FOREACH(values, value) {
        struct str where = str_printf(admit->arena, STR_FMT ".values[%zu]", STR_ARG(path), index++);
        int64_t code = json_i64_or(value, 0);

        if (str_is(op, "In") && code == 0)
            admit_invalid(admit, where, value, "must not be 0 for the In operator");
        if (code == last)
            admit_duplicate(admit, where, value);
        ordered = ordered && code >= last;
        last = code;
    }
    if (!ordered)
        admit_invalid(admit, at(admit, path, "values"), values, "must be ordered");
}

static void check_failure_rule(struct admit *admit,
                               const struct json *spec,
                               const struct json *rule,
                               struct str path)
{
    const struct json *action = json_get(rule, "action");
    const struct json *exits = json_get(rule, "onExitCodes");
    const struct json *conditions = json_get(rule, "onPodConditions");
    struct str word = json_str(action);

    if (!word.len)
        admit_required(admit, at(admit, path, "action"),
                       "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"");
    else if (str_is(word, "FailIndex") && json_is_null(json_get(spec, "backoffLimitPerIndex")))
        admit_invalid(admit, at(admit, path, "action"), action,
                      "requires the backoffLimitPerIndex to be set");
    if (json_is_null(exits) == !json_count(conditions))
        admit_invalid(admit, path, NULL,
                      json_is_null(exits)
                          ? "specifying one of OnExitCodes and OnPodConditions is required"
                          : "specifying both OnExitCodes and OnPodConditions is not supported");
    if (json_count(conditions) > RULES_MAX)
        admit_too_many(admit, at(admit, path, "onPodConditions"), json_count(conditions),
                       RULES_MAX);
    if (!json_is_null(exits))
        check_exit_codes(admit, spec, exits, at(admit, path, "onExitCodes"));
}

/* "0,2-4": numbers that rise, below `end`. How many they are; -1: they are none. */
static int64_t count_indexes(struct str text, int64_t end)
{
    int64_t total = 0;
    int64_t next = 0;
    struct str part;

    while (text.len && str_cut(&text, ',', &part)) {
        size_t dash = str_find(part, '-');
        uint64_t first = 0;
        uint64_t last = 0;

        if (!str_to_u64(str_sub(part, 0, dash), &first) ||
            !str_to_u64(dash < part.len ? str_sub(part, dash + 1, part.len) : part, &last) ||
            first < (uint64_t)next || last >= (uint64_t)end || (dash < part.len && last <= first))
            return -1;
        total += (int64_t)(last - first) + 1;
        next = (int64_t)last + 1;
    }
    return total;
}

static void check_success_rule(struct admit *admit,
                               const struct json *rule,
                               int64_t completions,
                               struct str path)
{
    const struct json *indexes = json_get(rule, "succeededIndexes");
    const struct json *wanted = json_get(rule, "succeededCount");
    int64_t total = count_indexes(json_str(indexes), completions);
    int64_t count = json_i64_or(wanted, 0);

    if (json_is_null(indexes) && json_is_null(wanted))
        admit_required(admit, path,
                       "at least one of succeededCount or succeededIndexes must be specified");
    if (total < 0)
        admit_invalid(admit, at(admit, path, "succeededIndexes"), indexes,
                      "must be numbers and ranges that rise, below the completions: 0,2-4");
    if (count > completions)
        admit_invalid(admit, at(admit, path, "succeededCount"), wanted,
                      "must be less than or equal to the number of specified completions");
    else if (!json_is_null(indexes) && count > total)
        admit_invalid(admit, at(admit, path, "succeededCount"), wanted,
                      "must be less than or equal to the number of indexes in succeededIndexes");
}

static void check_success(struct admit *admit, const struct json *spec, struct str path)
{
    const struct json *success = json_get(spec, "successPolicy");
    const struct json *rules = json_get(success, "rules");
    int64_t completions = json_i64_or(json_get(spec, "completions"), 0);
    struct str where = at(admit, path, "successPolicy.rules");
    size_t index = 0;

    if (json_is_null(success) || !str_is(json_str(json_get(spec, "completionMode")), "Indexed"))
        return;
    if (!json_count(rules))
        admit_required(admit, where,
                       "at least one rules must be specified when the successPolicy is specified");
    if (json_count(rules) > RULES_MAX)
        admit_too_many(admit, where, json_count(rules), RULES_MAX);
    JSON_FOREACH(rules, rule)
        check_success_rule(admit, rule, completions,
                           str_printf(admit->arena, STR_FMT "[%zu]", STR_ARG(where), index++));
}

static void check_policies(struct admit *admit, const struct json *spec, struct str path)
{
    const struct json *failure = json_get(spec, "podFailurePolicy");
    const struct json *rules = json_get(failure, "rules");
    const struct json *replacement = json_get(spec, "podReplacementPolicy");
    const struct json *restart = json_at(spec, "template.spec.restartPolicy");
    size_t index = 0;

    if (!json_is_null(failure) && str_is(json_str(restart), "OnFailure"))
        admit_invalid(admit, at(admit, path, "template.spec.restartPolicy"), restart,
                      "only \"Never\" is supported when podFailurePolicy is specified");
    if (!json_is_null(failure) && !json_is_null(replacement) &&
        !str_is(json_str(replacement), "Failed"))
        admit_unsupported(admit, at(admit, path, "podReplacementPolicy"), replacement,
                          "\"Failed\"");
    if (json_count(rules) > RULES_MAX)
        admit_too_many(admit, at(admit, path, "podFailurePolicy.rules"), json_count(rules),
                       RULES_MAX);
    JSON_FOREACH(rules, rule)
        check_failure_rule(admit, spec, rule,
                           str_printf(admit->arena, STR_FMT ".podFailurePolicy.rules[%zu]",
                                      STR_ARG(path), index++));
    check_success(admit, spec, path);
}

void admit_job_spec(struct admit *admit, const struct json *spec, struct str path)
{
    const struct json *template = json_get(spec, "template");
    const struct json *restart = json_at(template, "spec.restartPolicy");

    check_numbers(admit, spec, path);
    check_mode(admit, spec, path);
    check_policies(admit, spec, path);
    admit_job_scheduling(admit, spec, NULL, at(admit, path, "scheduling"));
    if (str_is(json_str(restart), "Always"))
        admit_required(admit, at(admit, path, "template.spec.restartPolicy"),
                       "valid values: \"OnFailure\", \"Never\"");
    else if (!json_is_null(restart) && !str_is(json_str(restart), "Never") &&
             !str_is(json_str(restart), "OnFailure"))
        admit_unsupported(admit, at(admit, path, "template.spec.restartPolicy"), restart,
                          "\"OnFailure\", \"Never\"");
    admit_pod_validate(admit, json_get(template, "spec"), at(admit, path, "template.spec"));
}

/* The template, but for what may change while no pod of it runs. */
static struct json *fixed_template(struct arena *arena, const struct json *spec)
{
    static const char *const open_meta[] = {"labels", "annotations"};
    static const char *const open_spec[] = {"nodeSelector", "tolerations", "affinity",
                                            "schedulingGates"};
    struct json *copy = json_clone(arena, json_get(spec, "template"));

    for (size_t i = 0; i < COUNT_OF(open_meta); i++)
        json_remove(json_get(copy, "metadata"), str_from(open_meta[i]));
    for (size_t i = 0; i < COUNT_OF(open_spec); i++)
        json_remove(json_get(copy, "spec"), str_from(open_spec[i]));
    if (json_is(json_get(copy, "metadata"), JSON_OBJECT) && !json_count(json_get(copy, "metadata")))
        json_remove(copy, STR("metadata"));
    return copy;
}

static void check_update(struct admit *admit, const struct json *spec, const struct json *before)
{
    static const char *const fixed[] = {"podFailurePolicy", "successPolicy", "backoffLimitPerIndex",
                                        "managedBy"};
    const struct json *now_count = json_get(spec, "completions");
    bool stopped = json_bool_or(json_get(before, "suspend"), false);
    bool elastic = str_is(json_str(json_get(spec, "completionMode")), "Indexed") &&
                   json_equal(now_count, json_get(spec, "parallelism"));

    check_numbers(admit, spec, STR("spec"));
    check_mode(admit, spec, STR("spec"));
    if (!json_equal(now_count, json_get(before, "completions")) && !elastic)
        admit_invalid(admit, STR("spec.completions"), now_count, "field is immutable");
    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        if (!json_equal(json_get(spec, fixed[i]), json_get(before, fixed[i])))
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", fixed[i]),
                          json_get(spec, fixed[i]), "field is immutable");
    admit_job_scheduling(admit, spec, before, STR("spec.scheduling"));
    struct json *now = stopped ? fixed_template(admit->arena, spec) : json_get(spec, "template");
    struct json *then =
        stopped ? fixed_template(admit->arena, before) : json_get(before, "template");
    if (!json_equal(now, then))
        admit_invalid(admit, STR("spec.template"), json_new_str(admit->arena, STR("template")),
                      stopped ? "only labels, annotations, nodeSelector, tolerations, affinity and "
                                "schedulingGates of a suspended job can change"
                              : "field is immutable");
}

/* The job finds its pods by them. */
static void check_labels(struct admit *admit, const struct json *spec)
{
    const struct json *wanted = json_get(spec, "selector");
    const struct json *labels = json_at(spec, "template.metadata.labels");
    struct selector selector = {0};

    bool none = json_is_null(wanted) && json_bool_or(json_get(spec, "manualSelector"), false);

    if (none)
        admit_required(admit, STR("spec.selector"), "");
    if (none ||
        (!json_is_null(wanted) && selector_from_json(admit->arena, wanted, &selector, NULL) == 0 &&
         !selector_matches_json(&selector, labels)))
        admit_invalid(admit, STR("spec.template.metadata.labels"), labels,
                      "`selector` does not match template `labels`");
}

void admit_job_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *before = json_get(admit->old, "spec");

    if (!json_is(json_get(spec, "template"), JSON_OBJECT))
        return;
    check_labels(admit, spec);
    if (before) {
        check_update(admit, spec, before);
        return;
    }
    admit_job_spec(admit, spec, STR("spec"));
    if (json_is_null(json_at(spec, "template.spec.restartPolicy")))
        admit_required(admit, STR("spec.template.spec.restartPolicy"),
                       "valid values: \"OnFailure\", \"Never\"");
}
