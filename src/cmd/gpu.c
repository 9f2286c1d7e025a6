#include "api/gpu.h"

#include "api/kind.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
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
 * does not change with shares, so this is where free shares can be seen. */

#define GPU          "nvidia.com/gpu"
#define PORTION_FULL 1000000 /* a whole device, in millionths */

static const struct option gpu_options[] = {
    LOOK_OPTIONS,
    LOOK_OUTPUT(look_tables, "table", "a table for people, or JSON"),
    {0},
};

struct view {
    struct arena *arena;
    struct look_list nodes;
    struct look_list pods;
    struct table table;
    struct json *list; /* -o json: one object a row */
};

static struct str annotation(const struct json *pod, const char *key)
{
    return json_str(json_get(json_at(pod, "metadata.annotations"), key));
}

static bool is_on(const struct json *pod, struct str node)
{
    struct str phase = json_str_at(pod, "status.phase");

    return str_eq(json_str_at(pod, "spec.nodeName"), node) && !str_is(phase, "Succeeded") &&
           !str_is(phase, "Failed");
}

static bool holds(const struct json *pod, int64_t device)
{
    struct str rest = annotation(pod, GPU_ANNOTATION_DEVICES);
    struct str part;
    int64_t number = 0;

    while (rest.len && str_cut(&rest, ',', &part))
        if (str_to_i64(part, &number) && number == device)
            return true;
    return false;
}

static int64_t portion_of(const struct json *pod)
{
    struct quantity portion = {0};

    if (quantity_parse(annotation(pod, GPU_ANNOTATION_PORTION), &portion, NULL) < 0)
        return PORTION_FULL;
    return (int64_t)(portion.nano / 1000);
}

static void add_device(struct view *view, struct str node, int64_t device)
{
    struct str users = STR_NONE;
    struct json *row = json_push(view->list, json_new_object(view->arena));
    struct json *pods = json_new_array(view->arena);
    int64_t used = 0;

    for (size_t i = 0; i < view->pods.count; i++) {
        const struct json *pod = view->pods.items[i];

        if (!is_on(pod, node) || !holds(pod, device))
            continue;
        used += portion_of(pod);
        json_push(pods, json_new_str(view->arena,
                                     str_printf(view->arena, STR_FMT "/" STR_FMT,
                                                STR_ARG(json_str_at(pod, "metadata.namespace")),
                                                STR_ARG(json_str_at(pod, "metadata.name")))));
        users = str_printf(view->arena, STR_FMT "%s" STR_FMT "/" STR_FMT, STR_ARG(users),
                           users.len ? ", " : "", STR_ARG(json_str_at(pod, "metadata.namespace")),
                           STR_ARG(json_str_at(pod, "metadata.name")));
    }
    table_add(&view->table, node);
    table_add(&view->table, str_printf(view->arena, "%lld", (long long)device));
    table_add(&view->table, str_printf(view->arena, "%lld%%", (long long)used / 10000));
    table_add(&view->table,
              str_printf(view->arena, "%lld%%",
                         (long long)(used < PORTION_FULL ? (PORTION_FULL - used) / 10000 : 0)));
    table_add(&view->table, users);
    json_add_str(view->arena, row, "node", node);
    json_add_i64(view->arena, row, "device", device);
    json_add_i64(view->arena, row, "usedPercent", used / 10000);
    json_add_i64(view->arena, row, "freePercent",
                 used < PORTION_FULL ? (PORTION_FULL - used) / 10000 : 0);
    json_set(row, STR("pods"), pods);
}

static int gpu_run(struct invocation *invocation)
{
    static const char *const headers[] = {"NODE", "GPU", "USED", "FREE", "BY", NULL};
    struct view view = {.arena = invocation->arena};
    struct look look;
    struct err err = {0};

    const struct look_values *values = invocation->values;
    int r = look_open(&look, invocation->arena, values, &err);
    if (r == 0) {
        r = look_all(&look, &kind_node, STR(""), &view.nodes, &err);
        if (r == 0)
            r = look_all(&look, &kind_pod, STR(""), &view.pods, &err);
        look_close(&look);
    }
    if (r < 0) {
        (void)fprintf(stderr, "muster gpu: %s\n", err.text);
        return EXIT_FAILURE;
    }
    view.list = json_new_array(invocation->arena);
    table_init(&view.table, invocation->arena, headers);
    for (size_t i = 0; i < view.nodes.count; i++) {
        const struct json *node = view.nodes.items[i];
        int64_t gpus = 0;

        (void)quantity_whole_json(json_get(json_at(node, "status.allocatable"), GPU), &gpus, NULL);
        for (int64_t device = 0; device < gpus; device++)
            add_device(&view, json_str_at(node, "metadata.name"), device);
    }
    if (values->output == LOOK_TEXT && !json_count(view.list))
        printf("no node has a GPU\n");
    else
        look_print(values, &view.table, view.list);
    return EXIT_SUCCESS;
}

const struct command command_gpu = {
    .name = "gpu",
    .summary = "show every GPU, how much of it is free, and who uses it",
    .example = "muster gpu\nmuster gpu -o json",
    .options = gpu_options,
    .values_size = sizeof(struct look_values),
    .run = gpu_run,
};
