#include "replay/queues.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/yaml.h"
#include "sched/decode.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static const struct sched_queue *queue_named(const struct replay_queues *queues, struct str name)
{
    for (size_t i = 0; i < queues->count; i++)
        if (str_eq(queues->items[i].name, name))
            return &queues->items[i];
    return NULL;
}

static int add_queue(struct arena *arena,
                     const struct json *manifest,
                     struct replay_queues *ret,
                     struct err *err)
{
    struct sched_config config;
    struct object *object = NULL;
    struct sched_queue queue;
    int r = object_new(&kind_queue, json_text(arena, manifest), &object, err);

    if (r < 0)
        return r;
    arena_defer(arena, object_release, object);
    sched_config_default(&config);
    struct decode decode = {.config = &config,
                            .arena = arena,
                            .object = object,
                            .tree = object_json(object, arena),
                            .err = err};
    decode_queue(&decode, &queue);
    if (decode.code)
        return decode.code;
    if (queue_named(ret, queue.name))
        return err_set(err, -EINVAL, "queue " STR_FMT " is there twice", STR_ARG(queue.name));
    queue.created_ms = 1 + (int64_t)ret->count;
    VEC_PUSH(arena, ret, queue);
    return 0;
}

static int add_torchrun_queue(struct arena *arena,
                              const struct json *manifest,
                              replay_queue_of_fn *queue_of,
                              struct replay_queues *ret,
                              struct err *err)
{
    struct object *object = NULL;
    int r = object_new(&kind_torchrunqueue, json_text(arena, manifest), &object, err);

    if (r < 0)
        return r;
    arena_defer(arena, object_release, object);
    return add_queue(arena, queue_of(arena, object), ret, err);
}

static bool is_of(struct str version, const struct kind *kind)
{
    struct str group = str_from(kind->group);

    return str_starts(version, group) && version.len > group.len && version.p[group.len] == '/';
}

static int add_document(struct arena *arena,
                        const struct json *document,
                        replay_queue_of_fn *queue_of,
                        struct replay_queues *ret,
                        struct err *err)
{
    struct str version = json_str(json_get(document, "apiVersion"));
    struct str kind = json_str(json_get(document, "kind"));
    int r = 0;

    if (json_is_null(document)) /* nothing between two lines of dashes */
        return 0;
    if (str_ends(kind, STR("List"))) {
        JSON_FOREACH(json_get(document, "items"), item) {
            if ((r = add_document(arena, item, queue_of, ret, err)) < 0)
                return r;
        }
        return 0;
    }
    if (str_is(kind, kind_torchrunqueue.name) && is_of(version, &kind_torchrunqueue))
        return add_torchrun_queue(arena, document, queue_of, ret, err);
    if (!str_is(kind, kind_queue.name) || !is_of(version, &kind_queue))
        return err_set(err, -EINVAL,
                       "kind \"" STR_FMT "\" of apiVersion \"" STR_FMT
                       "\" is no queue; write Queue of scheduling.run.ai/v2 or TorchrunQueue of "
                       "torchrun.ai/v1alpha1",
                       STR_ARG(kind), STR_ARG(version));
    return add_queue(arena, document, ret, err);
}

/* The parent of TorchrunQueues that name none is always there, and has no limits. */
static int check_parents(struct replay_queues *queues, struct err *err)
{
    for (size_t i = 0; i < queues->count; i++) {
        struct sched_queue *queue = &queues->items[i];

        if (!queue->parent.len || queue_named(queues, queue->parent))
            continue;
        if (str_is(queue->parent, "default"))
            queue->parent = STR_NONE;
        else
            return err_set(err, -EINVAL,
                           "queue " STR_FMT ": spec.parentQueue: " STR_FMT
                           " is not in the file; add its manifest",
                           STR_ARG(queue->name), STR_ARG(queue->parent));
    }
    return 0;
}

int replay_queues_parse(struct arena *arena,
                        const char *path,
                        struct str text,
                        replay_queue_of_fn *queue_of,
                        struct replay_queues *ret,
                        struct err *err)
{
    struct json_vec documents = {0};
    int r = yaml_parse_all(arena, text, &documents, err);

    for (size_t i = 0; i < documents.count && r == 0; i++)
        r = add_document(arena, documents.items[i], queue_of, ret, err);
    if (r == 0)
        r = check_parents(ret, err);
    if (r == 0 && !ret->count)
        r = err_set(err, -EINVAL, "has no queue");
    return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}
