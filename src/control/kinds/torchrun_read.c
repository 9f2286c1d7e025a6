#include "api/decode.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "control/kinds/torchrun.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static const struct decode_field job_name_fields[] = {
    DECODE_FIELD(struct torchrun_names, queue, "jobQueue", STR, .alias = "queue"),
};
const struct decode_table torchrun_job_names =
    DECODE_TABLE(struct torchrun_names, "spec", job_name_fields);

static const struct decode_field queue_name_fields[] = {
    DECODE_FIELD(struct torchrun_names, queue, "kaiQueue", STR, .alias = "queue.name"),
    DECODE_FIELD(struct torchrun_names,
                 parent,
                 "parentKaiQueue",
                 STR,
                 .alias = "queue.parentQueue",
                 .absent = TORCHRUN_PARENT),
    DECODE_FIELD(struct torchrun_names, shares, "queue.resources", JSON),
};
const struct decode_table torchrun_queue_names =
    DECODE_TABLE(struct torchrun_names, "spec", queue_name_fields);

struct str torchrun_job_queue(struct arena *arena, const struct json *job)
{
    struct torchrun_names names = {0};

    (void)decode_object(&torchrun_job_names, arena, job, &names, NULL);
    return names.queue;
}

struct torchrun_names torchrun_queue_map(struct arena *arena,
                                         const struct object *queue,
                                         const struct json *tree)
{
    struct torchrun_names names = {0};

    (void)decode_object(&torchrun_queue_names, arena, tree, &names, NULL);
    names.named = names.queue.len > 0;
    if (!names.named)
        names.queue = queue->name;
    return names;
}

struct str torchrun_template_problem(const struct json *template, struct arena *arena)
{
    const struct json *containers = json_at(template, "spec.containers");
    size_t trainers = 0;

    /* A template without containers is partial: it sets what is around them. */
    if (json_is_null(containers))
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
