#include "plugin/queues_view.h"

#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/time.h"
#include "plugin/job.h"
#include "plugin/view.h"
#include "tool/term.h"

#include <stdbool.h>
#include <stddef.h>

#define GPU               "nvidia.com/gpu"
#define NANO_OF_HUNDREDTH 10000000
#define DEPTH_MAX         64
#define BAR_WIDTH         20
#define BAR_NARROW        8 /* on a terminal of fewer columns than ROOMY */
#define ROOMY             110

/* ---- amounts ---- */

struct str queue_share(struct arena *arena, const struct json *queue, const char *field)
{
    const struct json *value = json_get(json_at(queue, "spec.resources.gpu"), field);
    struct str text = json_number_text(value);

    if (!text.len)
        return STR("-");
    return str_is(text, "-1") ? STR("unlimited") : str_dup(arena, text);
}

/* -1: unlimited. */
static int64_t queue_hundredths(const struct json *queue, const char *field)
{
    struct quantity quantity = {0};
    const struct json *amounts = json_get(json_get(queue, "status"), field);

    if (quantity_parse(json_str(json_get(amounts, GPU)), &quantity, NULL) < 0)
        return 0;
    return quantity.nano < 0 ? -1 : (int64_t)(quantity.nano / NANO_OF_HUNDREDTH);
}

struct str queue_amount(struct arena *arena, const struct json *queue, const char *field)
{
    long long value = (long long)queue_hundredths(queue, field);

    if (value < 0)
        return STR("unlimited");
    return value % 100 ? str_printf(arena, "%lld.%02lld", value / 100, value % 100)
                       : str_printf(arena, "%lld", value / 100);
}

/* ---- queues that jobs name ---- */

struct queue_counts {
    int64_t running;
    int64_t gpus; /* of those that run */
    int64_t waiting;
};

static struct queue_counts queue_count(struct arena *arena,
                                       struct view_objects jobs,
                                       struct str queue)
{
    struct queue_counts counts = {0};

    for (size_t i = 0; i < jobs.count; i++) {
        struct json *tree = object_json(jobs.items[i], arena);
        struct str phase = json_str_at(tree, "status.phase");

        if (!str_eq(job_queue(tree), queue))
            continue;
        if (str_is(phase, "Running")) {
            counts.running++;
            counts.gpus += json_i64_or(json_at(tree, "status.numGPUs"), 0);
        } else if (!str_is(phase, "Suspended") && !job_is_over(phase)) {
            counts.waiting++;
        }
    }
    return counts;
}

/* The scheduler's queue that its jobs wait in. */
static struct str own_queue(const struct object *own, const struct json *tree)
{
    struct str kai = json_str_at(tree, "spec.kaiQueue");

    if (!kai.len)
        kai = json_str_at(tree, "spec.queue.name");
    return kai.len ? kai : own->name;
}

static void own_write(struct buf *out, struct arena *arena, const struct queues_view *view)
{
    static const char *const headers[] = {"NAME",      "KAI QUEUE", "GPUS/NODE", "RUNNING",
                                          "GPUS USED", "QUEUED",    "AGE",       NULL};
    struct table table;

    table_init(&table, arena, headers);
    table.wraps_at = view->wraps_at;
    for (size_t i = 0; i < view->own.count; i++) {
        const struct object *queue = view->own.items[i];
        struct json *tree = object_json(queue, arena);
        struct queue_counts counts = queue_count(arena, view->jobs, queue->name);
        struct str gpus = json_number_text(json_at(tree, "spec.nodeResources.gpus"));

        table_add(&table, queue->name);
        table_add(&table, own_queue(queue, tree));
        table_add(&table, gpus.len ? gpus : STR("-"));
        table_add(&table, str_printf(arena, "%lld", (long long)counts.running));
        table_add(&table, str_printf(arena, "%lld", (long long)counts.gpus));
        table_add(&table, str_printf(arena, "%lld", (long long)counts.waiting));
        table_add(&table, time_age(arena, view->now_ms - queue->created_ms));
    }
    table_write(out, &table, true);
}

/* ---- the scheduler's queues ---- */

/* How much of its fair share a queue holds: ####...... and + for what is above it. */
static struct str queue_bar(struct arena *arena, const struct json *queue, int64_t width)
{
    int64_t held = queue_hundredths(queue, "allocated");
    int64_t fair = queue_hundredths(queue, "fairShare");
    int64_t most = held > fair ? held : fair;
    char text[BAR_WIDTH + 1];

    if (most <= 0)
        return STR("");
    for (int64_t i = 0; i < width; i++) {
        int64_t at = i * most; /* times width */

        text[i] = at < held * width ? (at < fair * width ? '#' : '+') : '.';
    }
    text[width] = '\0';
    return str_dup(arena, str_from(text));
}

static bool group_waits_in(const struct json *group, struct str queue)
{
    return str_eq(json_str_at(group, "spec.queue"), queue) &&
           str_is(json_str_at(group, "status.phase"), "Pending");
}

/* NAMESPACE/NAME of what a group was made for, or of the group itself where nothing owns it. */
static struct str group_subject(struct arena *arena, const struct json *group)
{
    struct str owner = json_str_at(group, "metadata.ownerReferences.0.name");

    return str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(json_str_at(group, "metadata.namespace")),
                      STR_ARG(owner.len ? owner : json_str_at(group, "metadata.name")));
}

static struct str queue_waiting(struct arena *arena,
                                const struct queues_view *view,
                                struct str queue)
{
    struct str text = STR_NONE;
    size_t count = 0;

    for (size_t i = 0; i < view->groups.count; i++) {
        const struct json *group = object_json(view->groups.items[i], arena);

        if (group_waits_in(group, queue) && count++ == 0)
            text = group_subject(arena, group);
    }
    return count > 1 ? str_printf(arena, STR_FMT " and %zu more", STR_ARG(text), count - 1) : text;
}

static bool queue_is_seen(const struct queues_view *view, struct str name)
{
    for (size_t i = 0; i < view->queues.count; i++)
        if (str_eq(view->queues.items[i]->name, name))
            return true;
    return false;
}

/* What hangs below `parent`; below nobody also that whose parent was not asked for or may not be
 * seen. */
static bool queue_is_below(const struct queues_view *view,
                           const struct json *queue,
                           struct str parent)
{
    struct str own = json_str_at(queue, "spec.parentQueue");

    return parent.len ? str_eq(own, parent) : !own.len || !queue_is_seen(view, own);
}

static void tree_rows(struct table *table,
                      const struct queues_view *view,
                      struct str parent,
                      size_t depth)
{
    static const char blanks[] = "                                                                ";
    struct arena *arena = table->arena;
    bool narrow = view->wraps_at && view->wraps_at < ROOMY;

    for (size_t i = 0; depth < DEPTH_MAX && i < view->queues.count; i++) {
        const struct object *object = view->queues.items[i];
        const struct json *queue = object_json(object, arena);

        if (!queue_is_below(view, queue, parent))
            continue;
        int indent = depth * 2 < sizeof(blanks) ? (int)(depth * 2) : (int)sizeof(blanks) - 1;
        table_add(table, str_printf(arena, "%.*s" STR_FMT, indent, blanks, STR_ARG(object->name)));
        table_add(table, queue_share(arena, queue, "quota"));
        table_add(table, queue_share(arena, queue, "limit"));
        table_add(table, queue_amount(arena, queue, "fairShare"));
        table_add(table, queue_amount(arena, queue, "allocated"));
        table_add(table, queue_amount(arena, queue, "requested"));
        table_add(table, queue_bar(arena, queue, narrow ? BAR_NARROW : BAR_WIDTH));
        table_add(table, queue_waiting(arena, view, object->name));
        tree_rows(table, view, object->name, depth + 1);
    }
}

void queues_write(struct buf *out, struct arena *arena, const struct queues_view *view)
{
    static const char *const headers[] = {
        "QUEUE (GPUs)", "QUOTA", "LIMIT",  "FAIR SHARE", "ALLOCATED",
        "REQUESTED",    "",      "QUEUED", NULL};
    struct table table;

    if (view->own.count)
        own_write(out, arena, view);
    if (view->own.count && view->queues.count)
        buf_addc(out, '\n');
    if (!view->queues.count)
        return;
    table_init(&table, arena, headers);
    table.wraps_at = view->wraps_at;
    tree_rows(&table, view, STR(""), 0);
    table_write(out, &table, true);
}

/* ---- for programs ---- */

/* The TorchrunQueues whose jobs wait in this one. */
static void record_own(struct arena *arena,
                       const struct queues_view *view,
                       struct str queue,
                       struct json *row)
{
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < view->own.count; i++) {
        const struct object *own = view->own.items[i];
        struct queue_counts counts = queue_count(arena, view->jobs, own->name);

        if (str_eq(own_queue(own, object_json(own, arena)), queue))
            json_push(list,
                      json_make(arena,
                                "{name: $, namespace: $, running: $, gpus: $, "
                                "waiting: $}",
                                own->name, own->ns, counts.running, counts.gpus, counts.waiting));
    }
    if (json_count(list))
        json_set(row, STR("torchrunQueues"), list);
}

static struct json *record_row(struct arena *arena,
                               const struct queues_view *view,
                               const struct object *object)
{
    static const char *const told[] = {"fairShare", "allocated", "allocatedNonPreemptible",
                                       "requested", "usage",     "pendingGroups"};
    const struct json *queue = object_json(object, arena);
    struct json *row = json_make(arena, "{name: $, parent: $}", object->name,
                                 json_str_at(queue, "spec.parentQueue"));
    struct json *waits = json_new_array(arena);

    if (json_at(queue, "spec.resources"))
        json_set(row, STR("resources"), json_clone(arena, json_at(queue, "spec.resources")));
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        const struct json *value = json_get(json_get(queue, "status"), told[i]);

        if (value)
            json_set(row, str_from(told[i]), json_clone(arena, value));
    }
    for (size_t i = 0; i < view->groups.count; i++) {
        const struct json *group = object_json(view->groups.items[i], arena);

        if (group_waits_in(group, object->name))
            json_push(waits, json_new_str(arena, str_printf(arena, STR_FMT "/" STR_FMT,
                                                            STR_ARG(view->groups.items[i]->ns),
                                                            STR_ARG(view->groups.items[i]->name))));
    }
    json_set(row, STR("waiting"), waits);
    record_own(arena, view, object->name, row);
    return row;
}

static void record_rows(struct arena *arena,
                        const struct queues_view *view,
                        struct str parent,
                        struct json *list,
                        size_t depth)
{
    for (size_t i = 0; depth < DEPTH_MAX && i < view->queues.count; i++) {
        const struct object *queue = view->queues.items[i];

        if (!queue_is_below(view, object_json(queue, arena), parent))
            continue;
        json_push(list, record_row(arena, view, queue));
        record_rows(arena, view, queue->name, list, depth + 1);
    }
}

struct json *queues_record(struct arena *arena, const struct queues_view *view)
{
    struct json *list = json_new_array(arena);

    record_rows(arena, view, STR(""), list, 0);
    for (size_t i = 0; i < view->own.count; i++) { /* of queues that nobody may see */
        struct str name = own_queue(view->own.items[i], object_json(view->own.items[i], arena));
        bool told = queue_is_seen(view, name);

        for (size_t j = 0; !told && j < i; j++)
            told =
                str_eq(name, own_queue(view->own.items[j], object_json(view->own.items[j], arena)));
        if (!told)
            record_own(arena, view, name, json_push(list, json_make(arena, "{name: $}", name)));
    }
    return list;
}
