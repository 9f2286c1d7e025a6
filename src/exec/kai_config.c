#include "exec/kai_config.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stddef.h>

/* Where a field that takes effect goes, and what has none. */
static const struct {
    const char *path;
    size_t offset;
} known[] = {
    {"global.queueLabelKey", offsetof(struct kai_config, queue_label)},
    {"global.schedulerName", offsetof(struct kai_config, scheduler_name)},
    {"global.nodePoolLabelKey", offsetof(struct kai_config, pool_label)},
    {"prometheus.externalPrometheusUrl", offsetof(struct kai_config, prometheus)},
};
#define KNOWN_COUNT COUNT_OF(known)

static struct str *place_of(struct kai_config *config, struct str path)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        if (str_is(path, known[i].path))
            return (struct str *)(void *)((char *)config + known[i].offset);
    return NULL;
}

static void take(struct kai_config *config,
                 struct str path,
                 const struct json *value,
                 struct arena *arena)
{
    struct str *place = place_of(config, path);

    if (place && json_str(value).len)
        *place = json_str(value);
    else
        config->ignored = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(config->ignored),
                                     config->ignored.len ? ", " : "", STR_ARG(path));
}

void kai_config_read(const struct json *tree, struct arena *arena, struct kai_config *ret)
{
    *ret = (struct kai_config){0};
    JSON_FOREACH(json_get(tree, "spec"), block) {
        struct str name = json_key(block);

        if (!str_is(name, "global") && !str_is(name, "prometheus")) {
            take(ret, name, block, arena);
            continue;
        }
        JSON_FOREACH(block, field)
            take(ret,
                 str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(name), STR_ARG(json_key(field))),
                 field, arena);
    }
    if (ret->ignored.len)
        ret->ignored = str_printf(
            arena,
            "no effect: " STR_FMT
            "; Muster is one program: use its options, its chart or its Deployment instead",
            STR_ARG(ret->ignored));
}
