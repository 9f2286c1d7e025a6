#include "api/admit.h"
#include "api/array.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <stddef.h>
#include <stdint.h>

/* TorchrunJob and TorchrunQueue: what their schema cannot say. */

static void check_quantities(struct admit *admit, const struct json *spec)
{
    static const char *const paths[] = {
        "nodeResources.cpus",
        "nodeResources.memory",
        "storage.shmSizePerGPU",
        "storage.workspace.size",
        "storage.datasets.size",
        "storage.checkpoints.size",
        "storage.workspace.sizePerGPU",
        "storage.datasets.sizePerGPU",
        "storage.checkpoints.sizePerGPU",
        "workspaceStorage.size",
    };

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const struct json *value = json_at(spec, paths[i]);
        struct err err = {0};
        int64_t amount = 0;

        if (json_is_null(value))
            continue;
        if (quantity_milli_json(value, &amount, &err) < 0)
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", paths[i]), value, err.text);
        else if (amount < 0)
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", paths[i]), value,
                          "must not be negative");
    }
}

/* Returns how many characters the index adds to the name of a job: "-9999". */
static size_t check_array(struct admit *admit, const struct json *spec)
{
    const struct json *text = json_at(spec, "array.indexes");
    struct array_indexes indexes = {0};
    struct err err = {0};

    /* The jobs are made, and numbered, once; how many run at a time may change. */
    if (admit->old && !str_eq(json_str_at(admit->old, "spec.array.indexes"), json_str(text)))
        admit_invalid(admit, STR("spec.array.indexes"), text, "field is immutable");
    if (json_is_null(json_get(spec, "array")))
        return 0;
    if (array_parse(admit->arena, json_str(text), &indexes, &err) < 0) {
        admit_invalid(admit, STR("spec.array.indexes"), text, err.text);
        return 0;
    }
    return str_printf(admit->arena, "-%lld", (long long)indexes.items[indexes.count - 1]).len;
}

/* A service is named after the job, and each pod NAME-worker-N, which is its host name as well:
 * what cannot be made would be waited for for ever. */
static void check_name(struct admit *admit, const struct json *spec, size_t more)
{
    const struct json *name = json_at(admit->object, "metadata.name");
    int64_t nodes = json_i64_or(json_get(spec, "numNodes"), 1);
    int64_t gpus = json_i64_or(json_get(spec, "numGPUs"), 1); /* no pod has less than one */
    int64_t most = json_i64_or(json_at(spec, "elastic.maxNodes"), 1);
    int64_t pods = nodes > gpus ? nodes : gpus;
    int64_t last = (most > pods ? most : pods) - 1;
    struct str pod =
        str_printf(admit->arena, STR_FMT "-worker-%lld", STR_ARG(json_str(name)), (long long)last);
    const char *wrong = names_dns_1035_label(json_str(name));

    if (admit->old || json_str(name).len == 0)
        return;
    if (json_str(name).len <= NAMES_LABEL_MAX && wrong)
        admit_invalid(admit, STR("metadata.name"), name,
                      str_printf(admit->arena, "its service has the same name: %s", wrong).p);
    else if (pod.len + more > NAMES_LABEL_MAX)
        admit_invalid(admit, STR("metadata.name"), name,
                      str_printf(admit->arena,
                                 "at most %zu characters: NAME-worker-%lld may have %d",
                                 NAMES_LABEL_MAX - more - (pod.len - json_str(name).len),
                                 (long long)last, NAMES_LABEL_MAX)
                          .p);
}

static void check_max_run(struct admit *admit, const struct json *spec)
{
    const struct json *value = json_get(spec, "maxRunTime");
    int64_t ms = 0;

    if (!json_is_null(value) && (!time_parse_duration(json_str(value), &ms) || ms <= 0))
        admit_invalid(admit, STR("spec.maxRunTime"), value, "must be a duration such as \"90m\"");
}

static void check_after(struct admit *admit, const struct json *spec)
{
    struct str own = json_str_at(admit->object, "metadata.name");
    size_t index = 0;

    JSON_FOREACH(json_get(spec, "after"), entry) {
        const struct json *job = json_get(entry, "job");

        if (own.len && str_eq(json_str(job), own))
            admit_invalid(admit, str_printf(admit->arena, "spec.after[%zu].job", index), job,
                          "a job cannot wait for itself");
        index++;
    }
}

void admit_torchrun_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    int64_t min = json_i64_or(json_at(spec, "elastic.minNodes"), 0);
    int64_t max = json_i64_or(json_at(spec, "elastic.maxNodes"), 0);

    check_quantities(admit, spec);
    check_max_run(admit, spec);
    if (admit->kind == &kind_torchrunjob)
        check_name(admit, spec, check_array(admit, spec));
    check_after(admit, spec);
    if (min && max && max < min)
        admit_invalid(admit, STR("spec.elastic.maxNodes"), json_at(spec, "elastic.maxNodes"),
                      "must be at least minNodes");
}
