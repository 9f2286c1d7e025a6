#include "api/gpu.h"

#include "api/kind.h"
#include "api/pod.h"
#include "api/quantity.h"
#include "api/suspect.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cmd/look.h"
#include "cmd/muster.h"
#include "tool/option.h"
#include "tool/term.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* muster gpu: every device of every node, how much of it is taken and by whom. A node's allocatable
 * does not change with shares, so this is where free shares can be seen. On a cluster, where a
 * device plugin hands out devices, their numbers here mean nothing: a shared one has a UUID, in
 * JSON. */

#define PORTION_FULL 1000000 /* a whole device, in millionths */

static const struct option gpu_options[] = {
    LOOK_OPTIONS,
    LOOK_TABLE("nodes"),
    {0},
};

/* One device as far as the pods tell. */
struct slot {
    struct str group; /* of a shared one that a reservation pod holds; empty: none */
    struct str uuid;  /* where such a pod tells it */
    struct str users;
    struct json *pods;
    int64_t used; /* in millionths */
};

struct view {
    struct arena *arena;
    struct look_list nodes;
    struct look_list pods;
    struct table table;
    struct json *list; /* -o json: one object a row */
    bool faults;       /* of any node */
    /* of the node that is looked at */
    struct str node;
    struct str fault; /* what is said against it; empty: nothing */
    struct slot *slots;
    int64_t count;
    int64_t memory_mib; /* of each device; 0: not known */
};

static struct str annotation(const struct json *pod, const char *key)
{
    return json_str(json_get(json_at(pod, "metadata.annotations"), key));
}

static bool is_on(const struct json *pod, struct str node)
{
    return str_eq(json_str_at(pod, "spec.nodeName"), node) && !pod_is_over(pod);
}

static int64_t portion_of(const struct view *view, const struct json *pod)
{
    struct quantity portion = {0};
    struct str told = annotation(pod, GPU_ANNOTATION_PORTION);
    int64_t mib = 0;

    if (quantity_parse(told.len ? told : annotation(pod, GPU_ANNOTATION_FRACTION), &portion,
                       NULL) == 0)
        return (int64_t)(portion.nano / 1000);
    if (str_to_i64(annotation(pod, GPU_ANNOTATION_FRACTION_MEMORY), &mib) && view->memory_mib)
        return mib * PORTION_FULL / view->memory_mib;
    return PORTION_FULL;
}

static void use(const struct view *view, struct slot *slot, const struct json *pod, int64_t portion)
{
    struct str name = str_printf(view->arena, STR_FMT "/" STR_FMT,
                                 STR_ARG(json_str_at(pod, "metadata.namespace")),
                                 STR_ARG(json_str_at(pod, "metadata.name")));

    slot->used += portion;
    slot->users = str_printf(view->arena, STR_FMT "%s" STR_FMT, STR_ARG(slot->users),
                             slot->users.len ? ", " : "", STR_ARG(name));
    json_push(slot->pods, json_new_str(view->arena, name));
}

/* The first device that nobody has; NULL: the pods have more than the node. */
static struct slot *find_free(const struct view *view)
{
    for (int64_t i = 0; i < view->count; i++)
        if (!view->slots[i].used && !view->slots[i].group.len)
            return &view->slots[i];
    return NULL;
}

static struct slot *find_group(const struct view *view, struct str group)
{
    struct slot *slot = NULL;

    for (int64_t i = 0; i < view->count; i++)
        if (str_eq(view->slots[i].group, group))
            return &view->slots[i];
    slot = find_free(view);
    if (slot)
        slot->group = group;
    return slot;
}

/* Where the scheduler numbers devices the pod says which it has. */
static void add_numbered(const struct view *view, const struct json *pod, struct str devices)
{
    struct str part;
    int64_t number = 0;

    while (devices.len && str_cut(&devices, ',', &part))
        if (str_to_i64(part, &number) && number >= 0 && number < view->count)
            use(view, &view->slots[number], pod, portion_of(view, pod));
}

/* On a cluster: shared devices have a group; a reservation pod has one too, and holds the device
 * for the others. False: it shares none. */
static bool add_shares(const struct view *view, const struct json *pod)
{
    struct str told = annotation(pod, GPU_ANNOTATION_RESERVED);
    bool wants = annotation(pod, GPU_ANNOTATION_FRACTION).len ||
                 annotation(pod, GPU_ANNOTATION_FRACTION_MEMORY).len;
    bool found = false;

    JSON_FOREACH(json_at(pod, "metadata.labels"), label) {
        struct slot *slot = NULL;

        if (!str_is(json_key(label), GPU_LABEL_GROUP) &&
            !str_starts(json_key(label), STR(GPU_LABEL_GROUP_PREFIX)))
            continue;
        found = true;
        slot = find_group(view, json_str(label));
        if (slot && wants)
            use(view, slot, pod, portion_of(view, pod));
        else if (slot)
            slot->uuid = told;
    }
    return found;
}

/* Which whole devices a pod has only the device plugin knows: any that are free. */
static void add_whole(const struct view *view, const struct json *pod)
{
    int64_t gpus = 0;

    JSON_FOREACH(json_at(pod, "spec.containers"), container) {
        int64_t wanted = 0;

        (void)quantity_whole_json(json_get(json_at(container, "resources.limits"), GPU_RESOURCE),
                                  &wanted, NULL);
        gpus += wanted;
    }
    for (struct slot *slot; gpus > 0 && (slot = find_free(view)); gpus--)
        use(view, slot, pod, PORTION_FULL);
}

static void fill(const struct view *view)
{
    /* Those whose devices are known first: the others have what is left. */
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < view->pods.count; i++) {
            const struct json *pod = view->pods.items[i];
            struct str devices = annotation(pod, GPU_ANNOTATION_DEVICES);

            if (!is_on(pod, view->node))
                continue;
            if (devices.len && round == 0)
                add_numbered(view, pod, devices);
            else if (!devices.len && round == 1 && !add_shares(view, pod))
                add_whole(view, pod);
        }
}

static void print_slot(struct view *view, int64_t device)
{
    const struct slot *slot = &view->slots[device];
    struct json *row = json_push(view->list, json_new_object(view->arena));
    int64_t used = slot->used / 10000;
    int64_t left = used < 100 ? 100 - used : 0;

    table_add(&view->table, view->node);
    table_add(&view->table, str_printf(view->arena, "%lld", (long long)device));
    table_add(&view->table, str_printf(view->arena, "%lld%%", (long long)used));
    table_add(&view->table, str_printf(view->arena, "%lld%%", (long long)left));
    table_add(&view->table, slot->users);
    if (view->faults)
        table_add(&view->table, view->fault);
    if (view->fault.len)
        json_add_str(view->arena, row, "fault", view->fault);
    json_add_str(view->arena, row, "node", view->node);
    json_add_i64(view->arena, row, "device", device);
    if (slot->uuid.len)
        json_add_str(view->arena, row, "uuid", slot->uuid);
    json_fill(view->arena, row, "{usedPercent: $, freePercent: $, pods: $}", used, left,
              slot->pods);
}

/* As the node agent tells it, in a condition. */
static struct str node_fault(const struct json *node)
{
    JSON_FOREACH(json_at(node, "status.conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), "GPUsHealthy") &&
            str_is(json_str(json_get(condition, "status")), "False"))
            return json_str(json_get(condition, "message"));
    return annotation(node, SUSPECT_WORDS); /* what jobs or the self-test say */
}

static void add_node(struct view *view, const struct json *node)
{
    view->fault = node_fault(node);
    view->node = json_str_at(node, "metadata.name");
    view->count = 0;
    (void)quantity_whole_json(json_get(json_at(node, "status.allocatable"), GPU_RESOURCE),
                              &view->count, NULL);
    view->memory_mib = 0;
    (void)str_to_i64(json_str(json_get(json_at(node, "metadata.labels"), "nvidia.com/gpu.memory")),
                     &view->memory_mib);
    if (view->count <= 0)
        return;
    view->slots = ARENA_ARRAY(view->arena, struct slot, (size_t)view->count);
    for (int64_t i = 0; i < view->count; i++)
        view->slots[i].pods = json_new_array(view->arena);
    fill(view);
    for (int64_t i = 0; i < view->count; i++)
        print_slot(view, i);
}

/* For whoever may not see the pods of others: how much of all is taken, as the pod groups tell it. */
static int gpu_collect_sums(struct look *look,
                            struct view *view,
                            struct look_found *found,
                            struct err *err)
{
    static const char *const headers[] = {"NODES", "GPUS", "USED", "FREE", NULL};
    struct look_list groups = {0};
    struct quantity used = {0};
    int64_t gpus = 0;
    int r = look_all(look, &kind_podgroup, STR(""), &groups, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < view->nodes.count; i++) {
        int64_t some = 0;

        (void)quantity_whole_json(
            json_get(json_at(view->nodes.items[i], "status.allocatable"), GPU_RESOURCE), &some,
            NULL);
        gpus += some;
    }
    for (size_t i = 0; i < groups.count; i++) {
        struct quantity one = {0};

        (void)quantity_parse_json(
            json_get(json_at(groups.items[i], "status.resourcesStatus.allocated"), GPU_RESOURCE),
            &one, NULL);
        used.nano += one.nano;
    }
    struct quantity left = {.nano = (__int128)gpus * QUANTITY_NANO - used.nano};
    struct str taken = quantity_text(look->arena, used);
    struct str free_text =
        quantity_text(look->arena, left.nano > 0 ? left : (struct quantity){.nano = 0});
    struct json *row = json_push(view->list, json_new_object(look->arena));
    json_fill(look->arena, row, "{nodes: $, gpus: $, used: $, free: $}", (int64_t)view->nodes.count,
              gpus, taken, free_text);
    table_init(&view->table, look->arena, headers);
    table_add(&view->table, str_printf(look->arena, "%zu", view->nodes.count));
    table_add(&view->table, str_printf(look->arena, "%lld", (long long)gpus));
    table_add(&view->table, taken);
    table_add(&view->table, free_text);
    *found = (struct look_found){.table = view->table, .list = view->list};
    return 0;
}

static int gpu_collect(struct look *look, void *user, struct look_found *found, struct err *err)
{
    static const char *const headers[] = {"NODE", "GPU", "USED", "FREE", "BY", NULL};
    static const char *const more[] = {"NODE", "GPU", "USED", "FREE", "BY", "FAULT", NULL};
    const struct look_values *values = user;
    struct view view = {.arena = look->arena};
    int r = look_selected(look, &kind_node, values->selector, &view.nodes, err);

    view.list = json_new_array(view.arena);
    if (r == 0)
        r = look_all(look, &kind_pod, STR(""), &view.pods, err);
    if (r < 0 && err->http_status == 403 && view.nodes.count)
        return gpu_collect_sums(look, &view, found, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < view.nodes.count; i++)
        view.faults = view.faults || node_fault(view.nodes.items[i]).len;
    table_init(&view.table, view.arena, view.faults ? more : headers);
    for (size_t i = 0; i < view.nodes.count; i++)
        add_node(&view, view.nodes.items[i]);
    *found =
        (struct look_found){.table = view.table, .list = view.list, .nothing = "no node has a GPU"};
    return 0;
}

static int gpu_run(struct invocation *invocation)
{
    struct look_values *values = invocation->values;
    struct look look;
    struct err err = {0};
    int r = look_open(&look, invocation->arena, values, &err);

    if (r == 0) {
        r = look_show(&look, values, gpu_collect, values, &err);
        look_close(&look);
    }
    if (r < 0)
        (void)fprintf(stderr, "muster gpu: %s\n", err.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_gpu = {
    .name = "gpu",
    .summary = "show every GPU, how much of it is free, and who uses it",
    .example = "muster gpu\nmuster gpu -l zone=a --watch",
    .options = gpu_options,
    .values_size = sizeof(struct look_values),
    .run = gpu_run,
};
