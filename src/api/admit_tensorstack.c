#include "api/admit.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PyTorchTrainingJob: what cannot work is refused when it is written, with the field. */

static bool is_on(const struct json *object)
{
    return json_bool_or(json_get(object, "enabled"), false) ||
           json_bool_or(json_get(object, "enable"), false);
}

static bool has_type(const struct json *spec, const struct json *type)
{
    JSON_FOREACH(json_get(spec, "replicaSpecs"), entry)
        if (json_equal(json_get(entry, "type"), type))
            return true;
    return false;
}

/* Entries of `list` speak of types that there are. */
static void check_types(struct admit *admit, const struct json *spec, const char *path)
{
    size_t index = 0;

    JSON_FOREACH(json_at(spec, path), entry) {
        const struct json *type = json_get(entry, "type");

        if (!has_type(spec, type))
            admit_invalid(admit, str_printf(admit->arena, "spec.%s[%zu].type", path, index), type,
                          "is not a type in spec.replicaSpecs");
        index++;
    }
}

/* The names that the kind's two generations of documents use. Another one would be a role of which
 * nothing is known: a chief is somebody's master, and would be a worker here. */
static bool type_is_known(struct str type)
{
    static const char *const types[] = {"master", "node", "ps", "worker"};

    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (str_is(type, types[i]))
            return true;
    return false;
}

static void check_type(struct admit *admit, const struct json *entry, struct str path)
{
    const struct json *type = json_get(entry, "type");

    if (!type_is_known(json_str(type)))
        admit_unsupported(admit, str_printf(admit->arena, STR_FMT ".type", STR_ARG(path)), type,
                          "\"master\", \"node\", \"ps\", \"worker\"");
    else if (str_is(json_str(type), "master") && json_i64_or(json_get(entry, "replicas"), 1) > 1)
        admit_invalid(admit, str_printf(admit->arena, STR_FMT ".replicas", STR_ARG(path)),
                      json_get(entry, "replicas"),
                      "must be 1 for type master; put the others into a type worker");
}

static void check_replicas(struct admit *admit, const struct json *spec)
{
    struct str job = json_str_at(admit->object, "metadata.name");
    size_t index = 0;

    JSON_FOREACH(json_get(spec, "replicaSpecs"), entry) {
        struct str path = str_printf(admit->arena, "spec.replicaSpecs[%zu]", index++);
        struct str name = str_printf(admit->arena, STR_FMT "-" STR_FMT "-%lld", STR_ARG(job),
                                     STR_ARG(json_str(json_get(entry, "type"))),
                                     (long long)json_i64_or(json_get(entry, "replicas"), 1));

        check_type(admit, entry, path);
        admit_pod_validate(admit, json_at(entry, "template.spec"),
                           str_printf(admit->arena, STR_FMT ".template.spec", STR_ARG(path)));
        if (name.len > NAMES_LABEL_MAX)
            admit_invalid(admit, str_printf(admit->arena, STR_FMT ".type", STR_ARG(path)),
                          json_get(entry, "type"),
                          "the names of its pods would be longer than 63 characters");
    }
}

static void check_elastic(struct admit *admit, const struct json *spec)
{
    const struct json *elastic = json_get(spec, "elastic");
    const struct json *max = json_get(elastic, "maxReplicas");
    const struct json *expected = json_get(elastic, "expectedReplicas");
    int64_t min_count = json_i64_or(json_get(elastic, "minReplicas"), 1);
    int64_t max_count = json_i64_or(max, INT64_MAX);

    if (!is_on(elastic))
        return;
    if (!is_on(json_get(spec, "torchrunConfig")))
        admit_required(
            admit, STR("spec.torchrunConfig"),
            "must be enabled, because only torchrun can continue with another number of pods");
    if (json_is_null(json_get(elastic, "minReplicas")))
        admit_required(admit, STR("spec.elastic.minReplicas"), "");
    if (json_is_null(max))
        admit_required(admit, STR("spec.elastic.maxReplicas"), "");
    else if (max_count < min_count)
        admit_invalid(admit, STR("spec.elastic.maxReplicas"), max, "must be at least minReplicas");
    if (!json_is_null(expected) && (json_i64_or(expected, min_count) < min_count ||
                                    json_i64_or(expected, min_count) > max_count))
        admit_invalid(admit, STR("spec.elastic.expectedReplicas"), expected,
                      "must be between minReplicas and maxReplicas");
}

static void check_mode(struct admit *admit, const struct json *spec)
{
    if (is_on(json_at(spec, "runMode.debug")) && is_on(json_at(spec, "runMode.pause")))
        admit_forbidden(admit, STR("spec.runMode.pause"),
                        "cannot be enabled together with runMode.debug: switch one of them off");
}

static void check_scheduler(struct admit *admit, const struct json *spec)
{
    const struct json *t9k = json_at(spec, "scheduler.t9kScheduler");

    if (!json_is_null(t9k) && !json_str(json_get(t9k, "queue")).len &&
        !json_str(json_get(t9k, "Queue")).len)
        admit_required(admit, STR("spec.scheduler.t9kScheduler.queue"), "");
}

static void check_update(struct admit *admit, const struct json *spec, const struct json *before)
{
    static const char *const fixed[] = {"runMode.pause.resumeSpecs", "elastic.minReplicas",
                                        "elastic.maxReplicas", "scheduler"};

    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        if (!json_equal(json_at(spec, fixed[i]), json_at(before, fixed[i])))
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", fixed[i]),
                          json_at(spec, fixed[i]), "field is immutable");
}

void admit_tensorstack_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *name = json_at(admit->object, "metadata.name");
    const struct json *processes = json_at(spec, "torchrunConfig.procPerNode");
    struct str word = json_str(processes);
    int64_t number = 0;

    /* Of a job that was admitted before there was a rule, labels and status can be written. */
    if (admit->old && json_equal(spec, json_get(admit->old, "spec")))
        return;
    if (names_dns_1035_label(json_str(name)))
        admit_invalid(admit, STR("metadata.name"), name, names_dns_1035_label(json_str(name)));
    check_replicas(admit, spec);
    check_elastic(admit, spec);
    check_mode(admit, spec);
    check_scheduler(admit, spec);
    check_types(admit, spec, "runMode.debug.replicaSpecs");
    check_types(admit, spec, "runMode.pause.resumeSpecs");
    if (word.len && !str_is(word, "gpu") && !str_is(word, "cpu") && !str_is(word, "auto") &&
        (!str_to_i64(word, &number) || number < 1))
        admit_invalid(admit, STR("spec.torchrunConfig.procPerNode"), processes,
                      "must be a positive number, gpu, cpu or auto");
    if (admit->old)
        check_update(admit, spec, json_get(admit->old, "spec"));
}
