#include "api/group.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "plugin/explain_view.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/view.h"
#include "plugin/watch.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* explain: why a job, pod or pod group waits. A TorchrunJob is tried first, then a pod, a group, and
 * whatever a group was made for. */
struct explain_values {
    struct common_values common;
    int output;
    bool watch;
    struct str name;
};

enum {
    EXPLAIN_TEXT,
    EXPLAIN_JSON,
    EXPLAIN_YAML
};
static const char *const explain_outputs[] = {"text", "json", "yaml", NULL};

static const struct option explain_options[] = {
    COMMON_OPTIONS,
    {"output", 'o', OPTION_CHOICE, offsetof(struct explain_values, output), .fallback = "text",
     .choices = explain_outputs, .help = "a text for people, or the record as json or yaml",
     .flag_only = true},
    {"watch", 'w', OPTION_BOOL, offsetof(struct explain_values, watch),
     .help = "go on, and print it again when it changes", .flag_only = true},
    {0},
};

/* NULL: there is none. */
static int explain_try(struct session *session,
                       const struct kind *kind,
                       struct str name,
                       const struct json **ret,
                       struct err *err)
{
    struct object *object = NULL;
    int r = session_get(session, kind, str_c(&session->arena, name), &object, err);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    arena_defer(&session->arena, object_release, object);
    *ret = object_json(object, &session->arena);
    return 0;
}

/* A job's group is named after it; a pod says its own. */
static int explain_find_group(struct session *session, struct explain_view *view, struct err *err)
{
    char made[GROUP_NAME_BYTES];
    struct str group = view->name;

    if (view->job)
        group =
            group_name_make(&session->arena, view->name, json_str_at(view->job, "metadata.uid"));
    else if (view->pod)
        group = group_of_pod(view->pod, made);
    return group.len ? explain_try(session, &kind_podgroup, group, &view->group, err) : 0;
}

/* A PyTorchJob, a JobSet, a Deployment: whatever its kind, its pods' group refers to it. Of
 * several, as a Job has, one that says why it waits. */
static int explain_find_owned(struct session *session, struct explain_view *view, struct err *err)
{
    struct view_objects groups = {0};
    int r = session_list(session, &kind_podgroup, session->config.ns, NULL, &groups.items,
                         &groups.count, err);

    for (size_t i = 0; r == 0 && i < groups.count; i++) {
        const struct json *group = object_json(groups.items[i], &session->arena);

        JSON_FOREACH(json_at(group, "metadata.ownerReferences"), owner)
            if (str_eq(json_str(json_get(owner, "name")), view->name) &&
                (!view->group || json_str_at(group, "status.message").len)) {
                view->group = group;
                view->owner = owner;
            }
    }
    return r;
}

static int explain_find(struct session *session, struct explain_view *view, struct err *err)
{
    int r = explain_try(session, &kind_torchrunjob, view->name, &view->job, err);

    if (r == 0 && !view->job)
        r = explain_try(session, &kind_pod, view->name, &view->pod, err);
    if (r == 0)
        r = explain_find_group(session, view, err);
    if (r == 0 && !view->job && !view->pod && !view->group)
        r = explain_find_owned(session, view, err);
    if (r == 0 && !view->job && !view->pod && !view->group)
        return err_set(err, -ENOENT,
                       "there is no job, pod, pod group or other job with pods named \"" STR_FMT
                       "\" in namespace \"" STR_FMT "\"",
                       STR_ARG(view->name), STR_ARG(view->ns));
    return r;
}

/* What may not be read is left out: the job's own words are there. */
static void explain_collect(struct session *session, struct explain_view *view)
{
    struct err why = {0};
    struct str queue = json_str_at(view->group, "spec.queue");

    if (queue.len)
        view->queue_hidden = explain_try(session, &kind_queue, queue, &view->queue, &why) < 0;
    session_list_if(session, &kind_pod, session->config.ns, NULL, &view->pods);
    session_list_if(session, &kind_event, session->config.ns, NULL, &view->events);
}

/* Estimates and ages are no news: what was written is. */
static uint64_t explain_seen(const struct explain_view *view)
{
    const struct json *const read[] = {view->job, view->pod, view->group, view->queue};
    uint64_t seen = 0;

    for (size_t i = 0; i < COUNT_OF(read); i++)
        seen = str_hash(json_str_at(read[i], "metadata.resourceVersion"), seen);
    for (size_t i = 0; i < view->events.count; i++)
        seen += view->events.items[i]->revision;
    return seen;
}

static int explain_draw(struct session *session,
                        void *user,
                        struct buf *out,
                        uint64_t *ret_seen,
                        struct err *err)
{
    const struct explain_values *v = user;
    struct explain_view view = {
        .program = session->program,
        .ns = str_from(session->config.ns),
        .name = v->name,
        .wraps_at = session->out.wraps_at,
        .now_ms = clock_now_ms(),
    };
    int r = explain_find(session, &view, err);

    if (r < 0)
        return r;
    explain_collect(session, &view);
    if (v->output == EXPLAIN_TEXT)
        explain_write(out, &session->arena, &view);
    else
        print_tree(out, v->output == EXPLAIN_YAML, explain_record(&session->arena, &view));
    *ret_seen = explain_seen(&view);
    return 0;
}

static int explain_run(struct invocation *invocation)
{
    struct explain_values *v = invocation->values;
    struct str whole = str_from(job_arg(invocation->args[0]));
    size_t slash = str_find(whole, '/');
    bool spaced = slash < whole.len;
    struct session session;
    struct err err = {0};

    int r = session_open(&session, invocation, &err);
    if (r == 0 && (!slash || slash + 1 == whole.len || !whole.len))
        r = err_set(&err, -EINVAL, "\"%s\" is not NAMESPACE/NAME, nor a NAME", invocation->args[0]);
    if (r == 0) {
        if (spaced)
            session.config.ns = str_c(&session.config_arena, str_sub(whole, 0, slash));
        v->name = spaced ? str_sub(whole, slash + 1, whole.len) : whole;
        r = watch_or_once(
            &session,
            &(struct watch_options){.watch = v->watch, .table = v->output == EXPLAIN_TEXT},
            explain_draw, v, &err);
    }
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_explain = {
    .name = "explain",
    .summary = "explain why a job, pod or pod group waits",
    .usage = "[NAMESPACE/]NAME",
    .example = "muster explain my-job\nmuster explain team-a/my-job -o json",
    .options = explain_options,
    .values_size = sizeof(struct explain_values),
    .args_min = 1,
    .args_max = 1,
    .run = explain_run,
};
