#include "api/queue_rules.h"

#include "api/gpus.h"
#include "api/people.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "api/training.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEPTH_MAX 64 /* queues above one another; a circle ends here, too */

static const struct json *queue_spec(const struct queue_around *around, struct str name)
{
    return json_get(around->find(around->user, "Queue", STR(""), name), "spec");
}

static void take(struct longest *longest, const struct longest *other)
{
    struct longest found = *other;

    if (found.text.len && time_parse_duration(found.text, &found.ms) && found.ms > 0 &&
        (!longest->ms || found.ms < longest->ms))
        *longest = found;
}

void longest_of_queue(struct longest *longest, const struct queue_around *around, struct str name)
{
    for (int depth = 0; name.len && depth < DEPTH_MAX; depth++) {
        const struct json *spec = queue_spec(around, name);

        take(longest, &(struct longest){.text = json_str(json_get(spec, "maxRunTime")),
                                        .kind = "queue",
                                        .name = name});
        name = json_str(json_get(spec, "parentQueue"));
    }
}

struct str queue_of_torchrun(const struct json *queue, struct str name)
{
    struct str own = json_str_at(queue, "spec.kaiQueue");

    if (!own.len)
        own = json_str_at(queue, "spec.queue.name");
    return own.len ? own : name;
}

void longest_of_torchrun(struct longest *longest,
                         const struct queue_around *around,
                         struct str ns,
                         struct str name)
{
    const struct json *queue =
        name.len ? around->find(around->user, "TorchrunQueue", ns, name) : NULL;

    if (!queue)
        return;
    take(longest, &(struct longest){.text = json_str_at(queue, "spec.maxRunTime"),
                                    .kind = "queue",
                                    .name = name});
    longest_of_queue(longest, around, queue_of_torchrun(queue, name));
}

void longest_of_person(struct longest *longest, const struct queue_around *around, struct str ns)
{
    const struct json *space = ns.len ? around->find(around->user, "Namespace", STR(""), ns) : NULL;
    const struct json *notes = json_at(space, "metadata.annotations");

    take(longest, &(struct longest){.text = json_str(json_get(notes, PERSON_TIME)),
                                    .kind = "person",
                                    .name = json_str(json_get(notes, PERSON_NAME))});
}

static bool takes(struct arena *arena,
                  const struct queue_around *around,
                  const struct json *spec,
                  struct str ns)
{
    const struct json *names = json_get(spec, "namespaces");
    const struct json *selector = json_get(spec, "namespaceSelector");
    struct selector parsed = {0};

    JSON_FOREACH(names, name)
        if (str_eq(json_str(name), ns))
            return true;
    if (json_is_null(selector))
        return json_is_null(names);
    const struct json *space = around->find(around->user, "Namespace", STR(""), ns);
    return selector_from_json(arena, selector, &parsed, NULL) == 0 &&
           selector_matches_json(&parsed, json_at(space, "metadata.labels"));
}

struct str queue_refuses(struct arena *arena,
                         const struct queue_around *around,
                         struct str name,
                         struct str ns)
{
    for (int depth = 0; name.len && depth < DEPTH_MAX; depth++) {
        const struct json *spec = queue_spec(around, name);

        if (!takes(arena, around, spec, ns))
            return name;
        name = json_str(json_get(spec, "parentQueue"));
    }
    return STR_NONE;
}

int64_t queue_gpus_most(const struct queue_around *around, struct str name, struct str *ret_queue)
{
    int64_t most = -1;

    for (int depth = 0; name.len && depth < DEPTH_MAX; depth++) {
        const struct json *spec = queue_spec(around, name);
        const struct json *limit = json_at(spec, "resources.gpu.limit");
        int64_t milli = -1;

        if (!json_is_null(limit) && quantity_milli_json(limit, &milli, NULL) == 0 && milli >= 0 &&
            (most < 0 || milli < most)) {
            most = milli;
            *ret_queue = name;
        }
        name = json_str(json_get(spec, "parentQueue"));
    }
    return most;
}

int64_t torchrun_gpus_least(const struct json *job, const struct json *queue)
{
    const struct json *spec = json_get(job, "spec");
    int64_t of_node = json_i64_or(json_at(spec, "nodeResources.gpus"),
                                  json_i64_or(json_at(queue, "spec.nodeResources.gpus"), 0));
    int64_t nodes =
        json_i64_or(json_at(spec, "elastic.minNodes"), json_i64_or(json_get(spec, "minNodes"), 0));
    int64_t gpus = json_i64_or(json_get(spec, "numGPUs"), 0);

    if (nodes > 0 || gpus <= 0)
        gpus = __builtin_mul_overflow(
                   nodes > 0 ? nodes : json_i64_or(json_get(spec, "numNodes"), 0), of_node, &gpus)
                   ? INT64_MAX
                   : gpus;
    return gpus;
}

int64_t training_gpus_least(const struct training_kind *kind, const struct json *job)
{
    const struct json *spec = json_get(job, "spec");

    if (!json_is_null(json_at(spec, "runPolicy.schedulingPolicy.minAvailable")) ||
        !json_is_null(json_get(spec, "elasticPolicy")))
        return 0;
    return gpus_of_roles(json_get(spec, kind->specs));
}

struct str queue_of_torchrun_job(const struct json *job)
{
    struct str name = json_str_at(job, "spec.jobQueue");

    return name.len ? name : json_str_at(job, "spec.queue");
}

struct str queue_of_labels(const struct json *object)
{
    static const char *const places[] = {"metadata.labels", "spec.template.metadata.labels"};
    static const char *const keys[] = {PERSON_QUEUE_LABEL, "runai/queue"};

    for (size_t i = 0; i < COUNT_OF(places); i++)
        for (size_t k = 0; k < COUNT_OF(keys); k++) {
            struct str name = json_str(json_get(json_at(object, places[i]), keys[k]));

            if (name.len)
                return name;
        }
    return STR_NONE;
}
