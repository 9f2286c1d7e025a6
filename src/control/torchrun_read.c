#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "control/torchrun.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str torchrun_job_queue(const struct json *job_spec)
{
    struct str name = json_str(json_get(job_spec, "jobQueue"));

    return name.len ? name : json_str(json_get(job_spec, "queue"));
}

struct str torchrun_kai_queue(const struct object *queue, const struct json *queue_spec)
{
    struct str name = json_str(json_get(queue_spec, "kaiQueue"));

    if (!name.len)
        name = json_str_at(queue_spec, "queue.name");
    return name.len ? name : queue->name;
}

struct str torchrun_kai_parent(const struct json *queue_spec)
{
    struct str name = json_str(json_get(queue_spec, "parentKaiQueue"));

    if (!name.len)
        name = json_str_at(queue_spec, "queue.parentQueue");
    return name.len ? name : STR(TORCHRUN_PARENT);
}

struct str torchrun_template_problem(const struct json *queue_spec, struct arena *arena)
{
    const struct json *spec = json_at(queue_spec, "podTemplate.spec");
    const struct json *containers = json_get(spec, "containers");
    size_t trainers = 0;

    /* A template without containers is partial: it sets what is around them. */
    if (json_is_null(spec) || json_is_null(containers))
        return STR_NONE;
    if (!json_is(containers, JSON_ARRAY) || !json_count(containers))
        return STR("podTemplate.spec.containers must be a list with a container named trainer");
    JSON_FOREACH(containers, container)
        trainers += str_is(json_str(json_get(container, "name")), TORCHRUN_TRAINER);
    if (trainers > 1)
        return STR("podTemplate.spec.containers has more than one container named trainer");
    struct str first = json_str_at(containers, "0.name");
    if (!str_is(first, TORCHRUN_TRAINER))
        return str_printf(arena,
                          "podTemplate.spec.containers: the first container is named \"" STR_FMT
                          "\", it must be \"trainer\", the one that runs the command",
                          STR_ARG(first));
    return STR_NONE;
}

size_t torchrun_split(int64_t gpus, int64_t gpus_per_node, int64_t *ret_gpus, size_t max)
{
    size_t pods = 1;

    if (gpus_per_node > 0 && gpus > gpus_per_node)
        pods = (size_t)((gpus + gpus_per_node - 1) / gpus_per_node);
    if (pods > max)
        return pods;
    for (size_t i = 0; i < pods; i++)
        ret_gpus[i] = gpus / (int64_t)pods + ((int64_t)i < gpus % (int64_t)pods ? 1 : 0);
    return pods;
}
