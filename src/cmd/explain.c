#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cmd/look.h"
#include "cmd/muster.h"
#include "control/core/group_name.h"
#include "control/grouping/group.h"
#include "estimate/band.h"
#include "tool/clock.h"
#include "tool/option.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* muster explain NS/NAME: why a job, pod or pod group waits, in words: what it asks for, what
 * stands in its way, how its queue is, and who is before it. */

static const struct option explain_options[] = {
    LOOK_OPTIONS,
    LOOK_OUTPUT(look_texts, "text", "a text for people, or the record as JSON"),
    {0},
};

struct subject {
    struct look *look;
    struct str ns;
    struct str name;
    const struct json *job;
    const struct json *pod;
    const struct json *group;
    int64_t waiting;          /* groups that wait in its queue now */
    const struct json *owner; /* reference of the group to what it was made for, of any kind */
};

static void line(const char *label, struct str text)
{
    if (text.len)
        printf("%-12s " STR_FMT "\n", label, STR_ARG(text));
}

static int try_one(struct subject *subject,
                   const struct kind *kind,
                   struct str name,
                   const struct json **ret,
                   struct err *err)
{
    int r = look_one(subject->look, kind, subject->ns, name, ret, err);

    return r == -ENOENT ? 0 : r;
}

/* A job's group is named after it; a pod says its own. */
static int find_group(struct subject *subject, struct err *err)
{
    struct arena *arena = subject->look->arena;
    struct str group = subject->name;

    if (subject->job)
        group = str_printf(arena, "pg-" STR_FMT "-" STR_FMT, STR_ARG(subject->name),
                           STR_ARG(json_str_at(subject->job, "metadata.uid")));
    else if (subject->pod)
        group = json_str(json_get(json_at(subject->pod, "metadata.annotations"), GROUP_ANNOTATION));
    return group.len ? try_one(subject, &kind_podgroup, group, &subject->group, err) : 0;
}

/* A PyTorchJob, a JobSet, a Deployment: whatever its kind, its pods' group refers to it. Of
 * several, as a Job has, one that says why it waits. */
static int find_owned_group(struct subject *subject, struct err *err)
{
    struct look_list groups = {0};
    int r = look_all(subject->look, &kind_podgroup, subject->ns, &groups, err);

    for (size_t i = 0; r == 0 && i < groups.count; i++)
        JSON_FOREACH(json_at(groups.items[i], "metadata.ownerReferences"), owner)
            if (str_eq(json_str(json_get(owner, "name")), subject->name) &&
                (!subject->group || json_str_at(groups.items[i], "status.message").len)) {
                subject->group = groups.items[i];
                subject->owner = owner;
            }
    return r;
}

static int find(struct subject *subject, struct err *err)
{
    int r = try_one(subject, &kind_torchrunjob, subject->name, &subject->job, err);

    if (r == 0 && !subject->job)
        r = try_one(subject, &kind_pod, subject->name, &subject->pod, err);
    if (r == 0)
        r = find_group(subject, err);
    if (r == 0 && !subject->job && !subject->pod && !subject->group)
        r = find_owned_group(subject, err);
    if (r == 0 && !subject->job && !subject->pod && !subject->group)
        return err_set(err, -ENOENT,
                       "there is no pod, pod group or job with pods named \"" STR_FMT
                       "\" in namespace \"" STR_FMT "\"",
                       STR_ARG(subject->name), STR_ARG(subject->ns));
    return r;
}

static void explain_queue(struct subject *subject, struct str name)
{
    struct arena *arena = subject->look->arena;
    const struct json *queue = NULL;
    struct err err = {0};

    if (look_one(subject->look, &kind_queue, STR(""), name, &queue, &err) < 0) {
        line("Queue",
             str_printf(arena, STR_FMT " does not exist; see: muster queues", STR_ARG(name)));
        return;
    }
    line("Queue", str_printf(arena,
                             STR_FMT ", in GPUs: holds " STR_FMT ", asks for " STR_FMT
                                     ", fair share " STR_FMT ", quota " STR_FMT ", limit " STR_FMT,
                             STR_ARG(name), STR_ARG(look_queue_amount(arena, queue, "allocated")),
                             STR_ARG(look_queue_amount(arena, queue, "requested")),
                             STR_ARG(look_queue_amount(arena, queue, "fairShare")),
                             STR_ARG(look_queue_share(arena, queue, "quota")),
                             STR_ARG(look_queue_share(arena, queue, "limit"))));
    subject->waiting = json_i64_or(json_at(queue, "status.pendingGroups"), 0);
}

/* What the scheduler recorded beside its sentence: how nodes turn the pods away, what would help,
 * and its place in line. */
static void explain_record(struct subject *subject, const struct json *record)
{
    struct arena *arena = subject->look->arena;
    struct str nodes = STR_NONE;

    JSON_FOREACH(json_get(record, "nodes"), member)
        nodes = str_printf(arena, STR_FMT "%s" STR_FMT " " STR_FMT, STR_ARG(nodes),
                           nodes.len ? ", " : "", STR_ARG(json_number_text(member)),
                           STR_ARG(json_key(member)));
    line("Nodes", nodes);
    line("Would help", json_str(json_get(record, "change")));
    /* The record is written when its words change, not whenever somebody joins the line. */
    if (json_i64_or(json_get(record, "line"), 0) == subject->waiting)
        line("In line", str_printf(arena, STR_FMT " of " STR_FMT " that wait in its queue",
                                   STR_ARG(json_number_text(json_get(record, "place"))),
                                   STR_ARG(json_number_text(json_get(record, "line")))));
    else if (json_get(record, "place") && subject->waiting)
        line("In line", str_printf(arena,
                                   "was number " STR_FMT " when this was written; %lld wait in its "
                                   "queue now",
                                   STR_ARG(json_number_text(json_get(record, "place"))),
                                   (long long)subject->waiting));
    if (json_get(record, "roomKeptSince"))
        line("Room", str_printf(arena, "has been kept for it since " STR_FMT,
                                STR_ARG(json_str(json_get(record, "roomKeptSince")))));
    line("Estimate", band_words(arena, json_get(record, "estimate"), clock_now_ms()));
    line("Starts by", json_str(json_get(record, "startsBy")));
}

/* What a pod that has a node still waits for there: an image, a volume. */
static struct str held_up(struct arena *arena, const struct json *pod)
{
    static const char *const lists[] = {"status.initContainerStatuses", "status.containerStatuses"};

    if (!json_str_at(pod, "spec.nodeName").len ||
        !str_is(json_str_at(pod, "status.phase"), "Pending"))
        return STR_NONE;
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_at(pod, lists[i]), container) {
            struct str reason = json_str_at(container, "state.waiting.reason");
            struct str message = json_str_at(container, "state.waiting.message");

            if (reason.len)
                return str_printf(arena, STR_FMT " on node " STR_FMT ": " STR_FMT "%s" STR_FMT,
                                  STR_ARG(json_str_at(pod, "metadata.name")),
                                  STR_ARG(json_str_at(pod, "spec.nodeName")), STR_ARG(reason),
                                  message.len ? ": " : "", STR_ARG(message));
        }
    return STR_NONE;
}

/* The first pod of the group that has a node and does not run there. */
static void tell_held_up(struct subject *subject)
{
    struct arena *arena = subject->look->arena;
    struct look_list pods = {0};

    if (subject->pod) {
        line("Starting", held_up(arena, subject->pod));
        return;
    }
    if (!str_is(json_str_at(subject->group, "status.phase"), "Scheduled") ||
        look_all(subject->look, &kind_pod, subject->ns, &pods, NULL) < 0)
        return;
    for (size_t i = 0; i < pods.count; i++) {
        const struct json *notes = json_at(pods.items[i], "metadata.annotations");
        struct str text = held_up(arena, pods.items[i]);

        if (!text.len || !str_eq(json_str(json_get(notes, GROUP_ANNOTATION)),
                                 json_str_at(subject->group, "metadata.name")))
            continue;
        line("Starting", text);
        return;
    }
}

static void tell_group(struct subject *subject)
{
    const struct json *group = subject->group;
    long long least = (long long)group_minimum(json_get(group, "spec"));
    struct str start =
        least == 1 ? STR("one pod is enough to start")
                   : str_printf(subject->look->arena, "starts with %lld pods or not at all", least);

    line("Group", str_printf(subject->look->arena, STR_FMT "; %lld run, %lld wait", STR_ARG(start),
                             (long long)json_i64_or(json_at(group, "status.running"), 0),
                             (long long)json_i64_or(json_at(group, "status.pending"), 0)));
    JSON_FOREACH(json_at(group, "status.conditions"), condition)
        if (str_is(json_str(json_get(condition, "status")), "True"))
            line("Warning", json_str(json_get(condition, "message")));
}

static void tell(struct subject *subject)
{
    struct arena *arena = subject->look->arena;
    const struct json *what = subject->job   ? subject->job
                              : subject->pod ? subject->pod
                                             : subject->group;
    struct str phase = json_str_at(what, "status.phase");
    struct str kind = json_str(json_get(subject->owner ? subject->owner : what, "kind"));

    line(kind.len ? str_c(arena, kind) : "",
         str_printf(arena, STR_FMT "/" STR_FMT ": " STR_FMT, STR_ARG(subject->ns),
                    STR_ARG(subject->name), STR_ARG(phase)));
    line("Says", json_str_at(what, "status.message"));
    if (subject->job)
        line("Size", str_printf(arena, STR_FMT " GPUs in pods of " STR_FMT,
                                STR_ARG(json_number_text(json_at(what, "status.numGPUs"))),
                                STR_ARG(json_str_at(what, "status.distribution"))));
    if (!subject->group) {
        line("Group", STR("none yet"));
        return;
    }
    tell_group(subject);
    tell_held_up(subject);
    struct str why = json_str_at(subject->group, "status.message");
    if (!str_eq(why, json_str_at(what, "status.message")))
        line("Waits", why);
    JSON_FOREACH(json_at(subject->group, "status.schedulingConditions.0.reasons"), reason)
        line("Reason", json_str(json_get(reason, "reason")));
    explain_queue(subject, json_str_at(subject->group, "spec.queue"));
    if (why.len)
        explain_record(subject, json_at(subject->group, "status.explanation"));
}

/* The same for programs. */
static struct json *record_of(struct subject *subject)
{
    struct arena *arena = subject->look->arena;
    struct json *out = json_new_object(arena);
    const struct json *what = subject->job   ? subject->job
                              : subject->pod ? subject->pod
                                             : subject->group;

    json_fill(arena, out,
              "{kind: $, namespace: $, name: $, phase: $, message: $, group: $, "
              "queue: $}",
              json_str(json_get(subject->owner ? subject->owner : what, "kind")), subject->ns,
              subject->name, json_str_at(what, "status.phase"), json_str_at(what, "status.message"),
              json_str_at(subject->group, "metadata.name"),
              json_str_at(subject->group, "spec.queue"));
    if (json_at(subject->group, "status.explanation"))
        json_set(out, STR("explanation"),
                 json_clone(arena, json_at(subject->group, "status.explanation")));
    return out;
}

static int explain_run(struct invocation *invocation)
{
    const struct look_values *values = invocation->values;
    struct str whole = str_from(invocation->args[0]);
    size_t slash = str_find(whole, '/');
    bool spaced = slash < whole.len;
    struct look look;
    struct err err = {0};

    if (!slash || slash + 1 == whole.len || !whole.len) {
        (void)fprintf(stderr,
                      "muster explain: \"%s\" is not NAMESPACE/NAME, nor a NAME in default\n",
                      invocation->args[0]);
        return EXIT_USAGE;
    }
    int r = look_open(&look, invocation->arena, values, &err);
    if (r == 0) {
        struct subject subject = {
            .look = &look,
            .ns = spaced ? str_sub(whole, 0, slash) : STR("default"),
            .name = spaced ? str_sub(whole, slash + 1, whole.len) : whole,
        };

        r = find(&subject, &err);
        if (r == 0 && values->output == LOOK_JSON)
            look_print(values, NULL, record_of(&subject));
        else if (r == 0)
            tell(&subject);
        look_close(&look);
    }
    if (r < 0)
        (void)fprintf(stderr, "muster explain: %s\n", err.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_explain_wait = {
    .name = "explain",
    .summary = "explain why a job, pod or pod group waits",
    .usage = "[NAMESPACE/]NAME",
    .example = "muster explain default/training",
    .options = explain_options,
    .values_size = sizeof(struct look_values),
    .args_min = 1,
    .args_max = 1,
    .run = explain_run,
};
