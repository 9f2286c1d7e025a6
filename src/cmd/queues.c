#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
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

/* muster queues: the tree of queues: what each may have, is entitled to, holds and asks for, and
 * who waits in it. */

#define DEPTH_MAX 64
#define BAR_WIDTH 20

static const struct option queues_options[] = {
    LOOK_OPTIONS,
    LOOK_OUTPUT(look_tables, "table", "a table for people, or JSON"),
    {0},
};

struct view {
    struct arena *arena;
    struct look_list queues;
    struct look_list groups;
    struct table table;
    struct json *list; /* -o json: one object a row */
};

static struct str name_of(const struct json *object)
{
    return json_str_at(object, "metadata.name");
}

/* How much of its fair share a queue holds: ####...... and + for what is above it. */
static struct str bar(struct arena *arena, const struct json *queue)
{
    int64_t held = look_queue_hundredths(queue, "allocated");
    int64_t fair = look_queue_hundredths(queue, "fairShare");
    int64_t most = held > fair ? held : fair;
    char text[BAR_WIDTH + 1];

    if (most <= 0)
        return STR("");
    for (int64_t i = 0; i < BAR_WIDTH; i++) {
        int64_t at = i * most; /* times BAR_WIDTH */

        text[i] = at < held * BAR_WIDTH ? (at < fair * BAR_WIDTH ? '#' : '+') : '.';
    }
    text[BAR_WIDTH] = '\0';
    return str_dup(arena, str_from(text));
}

static struct str waiting(struct view *view, struct str queue)
{
    struct str text = STR_NONE;
    size_t count = 0;

    for (size_t i = 0; i < view->groups.count; i++) {
        const struct json *group = view->groups.items[i];

        if (!str_eq(json_str_at(group, "spec.queue"), queue) ||
            !str_is(json_str_at(group, "status.phase"), "Pending"))
            continue;
        if (count++ == 0)
            text = look_group_subject(view->arena, group);
    }
    return count > 1 ? str_printf(view->arena, STR_FMT " and %zu more", STR_ARG(text), count - 1)
                     : text;
}

static void add_json(struct view *view, const struct json *queue)
{
    static const char *const told[] = {"fairShare", "allocated", "allocatedNonPreemptible",
                                       "requested", "usage",     "pendingGroups"};
    struct json *row =
        json_push(view->list, json_make(view->arena, "{name: $, parent: $}", name_of(queue),
                                        json_str_at(queue, "spec.parentQueue")));
    struct json *waits = json_new_array(view->arena);

    if (json_at(queue, "spec.resources"))
        json_set(row, STR("resources"), json_clone(view->arena, json_at(queue, "spec.resources")));
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        const struct json *value = json_get(json_get(queue, "status"), told[i]);

        if (value)
            json_set(row, str_from(told[i]), json_clone(view->arena, value));
    }
    for (size_t i = 0; i < view->groups.count; i++) {
        const struct json *group = view->groups.items[i];

        if (str_eq(json_str_at(group, "spec.queue"), name_of(queue)) &&
            str_is(json_str_at(group, "status.phase"), "Pending"))
            json_push(waits,
                      json_new_str(view->arena,
                                   str_printf(view->arena, STR_FMT "/" STR_FMT,
                                              STR_ARG(json_str_at(group, "metadata.namespace")),
                                              STR_ARG(name_of(group)))));
    }
    json_set(row, STR("waiting"), waits);
}

static void add_rows(struct view *view, struct str parent, size_t depth)
{
    static const char blanks[] = "                                                                ";

    for (size_t i = 0; depth < DEPTH_MAX && i < view->queues.count; i++) {
        const struct json *queue = view->queues.items[i];

        if (!str_eq(json_str_at(queue, "spec.parentQueue"), parent))
            continue;
        int indent = depth * 2 < sizeof(blanks) ? (int)(depth * 2) : (int)sizeof(blanks) - 1;
        table_add(&view->table,
                  str_printf(view->arena, "%.*s" STR_FMT, indent, blanks, STR_ARG(name_of(queue))));
        table_add(&view->table, look_queue_share(view->arena, queue, "quota"));
        table_add(&view->table, look_queue_share(view->arena, queue, "limit"));
        table_add(&view->table, look_queue_amount(view->arena, queue, "fairShare"));
        table_add(&view->table, look_queue_amount(view->arena, queue, "allocated"));
        table_add(&view->table, look_queue_amount(view->arena, queue, "requested"));
        table_add(&view->table, bar(view->arena, queue));
        table_add(&view->table, waiting(view, name_of(queue)));
        add_json(view, queue);
        add_rows(view, name_of(queue), depth + 1);
    }
}

static int queues_run(struct invocation *invocation)
{
    static const char *const headers[] = {
        "QUEUE (GPUs)", "QUOTA", "LIMIT",   "FAIR SHARE", "ALLOCATED",
        "REQUESTED",    "",      "WAITING", NULL};
    struct view view = {.arena = invocation->arena};
    struct look look;
    struct err err = {0};

    const struct look_values *values = invocation->values;
    int r = look_open(&look, invocation->arena, values, &err);
    if (r == 0) {
        r = look_all(&look, &kind_queue, STR(""), &view.queues, &err);
        if (r == 0)
            r = look_all(&look, &kind_podgroup, STR(""), &view.groups, &err);
        look_close(&look);
    }
    if (r < 0) {
        (void)fprintf(stderr, "muster queues: %s\n", err.text);
        return EXIT_FAILURE;
    }
    view.list = json_new_array(invocation->arena);
    table_init(&view.table, invocation->arena, headers);
    add_rows(&view, STR(""), 0);
    look_print(values, &view.table, view.list);
    return EXIT_SUCCESS;
}

const struct command command_queue_tree = {
    .name = "queues",
    .summary = "show the tree of queues: quota, fair share, use, and who waits",
    .about = "Each bar is the queue's fair share of GPUs: # is used within it, + is used above it, "
             ". is free.",
    .example = "muster queues\nmuster queues -o json",
    .options = queues_options,
    .values_size = sizeof(struct look_values),
    .run = queues_run,
};
