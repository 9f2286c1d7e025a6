#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "plugin/plugin.h"
#include "plugin/queues_view.h"
#include "plugin/view.h"
#include "plugin/watch.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* queues: those that jobs of the namespace name, and the scheduler's, as a tree. */
struct queues_values {
    struct common_values common;
    int output;
    const char *selector;
    bool watch;
};

static const struct option queues_options[] = {
    COMMON_OPTIONS,
    {"output", 'o', OPTION_CHOICE, offsetof(struct queues_values, output), .fallback = "table",
     .choices = output_names, .help = "table, wide, json, yaml or name", .flag_only = true},
    {"selector", 'l', OPTION_STR, offsetof(struct queues_values, selector), .value = "LABELS",
     .help = "queues with these labels, such as team=vision", .flag_only = true},
    {"watch", 'w', OPTION_BOOL, offsetof(struct queues_values, watch),
     .help = "go on, and print the tables again when they change", .flag_only = true},
    {0},
};

/* The scheduler's queues and the groups of everybody are not for everybody's eyes. */
static int queues_collect(struct session *session,
                          const struct queues_values *v,
                          struct queues_view *view,
                          struct err *err)
{
    const char *ns = session->config.ns;
    int r = session_list(session, &kind_torchrunqueue, ns, v->selector, &view->own.items,
                         &view->own.count, err);

    if (r == 0 && view->own.count)
        r = session_list(session, &kind_torchrunjob, ns, NULL, &view->jobs.items, &view->jobs.count,
                         err);
    if (r < 0 && err->http_status != 403 && err->http_status != 404)
        return r;
    struct err seen = {0};
    int tree = session_list(session, &kind_queue, "*", v->selector, &view->queues.items,
                            &view->queues.count, &seen);
    if (tree < 0 && r < 0)
        return r;
    if (view->queues.count)
        session_list_if(session, &kind_podgroup, "*", NULL, &view->groups);
    if (view->queues.count && !view->groups.count)
        session_list_if(session, &kind_podgroup, ns, NULL, &view->groups);
    view->wraps_at = session->out.wraps_at;
    view->now_ms = clock_now_ms();
    return 0;
}

static uint64_t queues_seen(struct view_objects objects)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < objects.count; i++)
        seen += objects.items[i]->revision + 1;
    return seen;
}

static int queues_draw(struct session *session,
                       void *user,
                       struct buf *out,
                       uint64_t *ret_seen,
                       struct err *err)
{
    struct queues_view view = {0};
    int r = queues_collect(session, user, &view, err);

    if (r < 0)
        return r;
    queues_write(out, &session->arena, &view);
    *ret_seen = queues_seen(view.own) + queues_seen(view.jobs) + queues_seen(view.queues) +
                queues_seen(view.groups);
    return 0;
}

static int queues_print(struct session *session, struct queues_values *v, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct queues_view view = {0};
    uint64_t seen;
    int r;

    if (v->output <= OUTPUT_WIDE) {
        r = queues_draw(session, v, &text, &seen, err);
        if (r == 0 && !text.len)
            session_say(session, "no queues in namespace %s", session->config.ns);
        term_write(&session->out, buf_str(&text));
        return r;
    }
    r = queues_collect(session, v, &view, err);
    if (r == 0 && v->output == OUTPUT_NAME) {
        print_objects(session, OUTPUT_NAME, view.own.items, view.own.count);
        print_objects(session, OUTPUT_NAME, view.queues.items, view.queues.count);
    } else if (r == 0) {
        print_tree(&text, v->output == OUTPUT_YAML, queues_record(&session->arena, &view));
        term_write(&session->out, buf_str(&text));
    }
    return r;
}

static int queues_run(struct invocation *invocation)
{
    struct queues_values *v = invocation->values;
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0 && v->watch && v->output > OUTPUT_WIDE)
        r = err_set(&err, -EINVAL, "--watch prints tables; leave --output out");
    if (r == 0)
        r = v->watch ? watch_table(&session, queues_draw, v, &err)
                     : queues_print(&session, v, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_queues = {
    .name = "queues",
    .summary = "show the queues: what runs in them, quota, fair share, use, and who waits",
    .about = "First the queues that jobs of the namespace name, then the scheduler's as a tree. "
             "Each bar is the queue's fair share of GPUs: # is used within it, + is used above it, "
             ". is free.",
    .example = "muster queues\nmuster queues -o json",
    .options = queues_options,
    .values_size = sizeof(struct queues_values),
    .run = queues_run,
};
