#include "api/admit.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

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

void admit_torchrun_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    int64_t min = json_i64_or(json_at(spec, "elastic.minNodes"), 0);
    int64_t max = json_i64_or(json_at(spec, "elastic.maxNodes"), 0);

    check_quantities(admit, spec);
    if (min && max && max < min)
        admit_invalid(admit, STR("spec.elastic.maxNodes"), json_at(spec, "elastic.maxNodes"),
                      "must be at least minNodes");
}
