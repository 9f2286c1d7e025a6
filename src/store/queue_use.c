#include "store/queue_use.h"

#include "api/admit.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/queue_rules.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "store/reply.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIME_ANNOTATION "muster.dev/max-run-time"

static const struct json *find(void *user, const char *kind, struct str ns, struct str name)
{
    static const struct kind *const kinds[] = {&kind_queue, &kind_torchrunqueue, &kind_namespace};
    const struct write *write = user;

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const struct object *found =
            str_is(str_from(kind), kinds[i]->name)
                ? entry_latest(shelf_find(shelf_of(write->store, kinds[i]), ns, name))
                : NULL;

        if (found)
            return object_json(found, write->arena);
    }
    return NULL;
}

/* How long the object asks to run, and in which field. */
static struct str asked(const struct kind *kind, const struct json *object, const char **ret_field)
{
    bool field = kind == &kind_torchrunjob || kind == &kind_podgroup;

    *ret_field = field ? "spec.maxRunTime" : "metadata.annotations[" TIME_ANNOTATION "]";
    return field ? json_str_at(object, "spec.maxRunTime")
                 : json_str(json_get(json_at(object, "metadata.annotations"), TIME_ANNOTATION));
}

/* The scheduling queue that the object names; empty: none. */
static struct str queue_of(struct write *write, const struct json *object)
{
    struct str name;

    if (write->kind == &kind_podgroup)
        return json_str_at(object, "spec.queue");
    if (write->kind == &kind_torchrunqueue)
        return queue_of_torchrun(object, write->name);
    if (write->kind != &kind_torchrunjob)
        return queue_of_labels(object);
    name = queue_of_torchrun_job(object);
    const struct json *queue =
        object ? find(write, kind_torchrunqueue.name, write->ns, name) : NULL;
    return queue ? queue_of_torchrun(queue, name) : STR_NONE;
}

static int admit_namespace(struct write *write, const struct admit *admit)
{
    const struct queue_around around = {find, write};
    struct str name = queue_of(write, admit->object);

    if (!write->ns.len || (admit->old && str_eq(name, queue_of(write, admit->old))))
        return 0;
    struct str queue = queue_refuses(write->arena, &around, name, write->ns);
    if (!queue.len)
        return 0;
    return reply_fail(
        write->reply, 403, "Forbidden",
        "%s \"" STR_FMT "\" is forbidden: queue " STR_FMT " takes no work of namespace " STR_FMT
        " (its spec.namespaces and spec.namespaceSelector); name another queue",
        write->kind->plural, STR_ARG(write->name), STR_ARG(queue), STR_ARG(write->ns));
}

static int admit_time(struct write *write, struct admit *admit)
{
    const struct queue_around around = {find, write};
    const char *field;
    struct str now = asked(write->kind, admit->object, &field);
    struct str before = asked(write->kind, admit->old, &field);
    struct longest longest = {0};
    int64_t ms = 0;

    if (write->kind == &kind_torchrunqueue || (!now.len && write->kind != &kind_podgroup) ||
        (admit->old && str_eq(now, before)))
        return 0;
    if (write->kind == &kind_torchrunjob)
        longest_of_torchrun(&longest, &around, write->ns, queue_of_torchrun_job(admit->object));
    longest_of_queue(&longest, &around, queue_of(write, admit->object));
    longest_of_person(&longest, &around, write->ns);
    if (!longest.ms)
        return 0;
    if (!now.len) {
        json_add_str(write->arena, json_make_path(write->arena, admit->object, "spec"),
                     "maxRunTime", str_dup(write->arena, longest.text));
        return 0;
    }
    if (!time_parse_duration(now, &ms) ||
        ms <= longest.ms) /* another rule refuses what is no time */
        return 0;
    return reply_fail(write->reply, 403, "Forbidden",
                      "%s \"" STR_FMT "\" is forbidden: %s " STR_FMT
                      ": the longest run of %s " STR_FMT " is " STR_FMT
                      "; ask for no more, or leave it out",
                      write->kind->plural, STR_ARG(write->name), field, STR_ARG(now), longest.kind,
                      STR_ARG(longest.name), STR_ARG(longest.text));
}

/* A gang that its queue may never hold would wait for ever. */
static int admit_size(struct write *write, const struct admit *admit)
{
    const struct queue_around around = {find, write};
    const struct training_kind *training = training_of(write->kind);
    struct str which = STR_NONE;
    int64_t gpus = 0;

    if ((write->kind != &kind_torchrunjob && !training) || admit->old)
        return 0;
    if (training)
        gpus = training_gpus_least(training, admit->object);
    else
        gpus = torchrun_gpus_least(admit->object, find(write, kind_torchrunqueue.name, write->ns,
                                                       queue_of_torchrun_job(admit->object)));
    int64_t most = queue_gpus_most(&around, queue_of(write, admit->object), &which);
    if (most < 0 || gpus <= most / 1000)
        return 0;
    return reply_fail(write->reply, 403, "Forbidden",
                      "%s \"" STR_FMT
                      "\" is forbidden: it needs %lld GPUs at once, and queue " STR_FMT
                      " may never have more than %lld; ask for fewer",
                      write->kind->plural, STR_ARG(write->name), (long long)gpus, STR_ARG(which),
                      (long long)(most / 1000));
}

int queue_use_admit(struct write *write, struct admit *admit)
{
    /* What we write is what we were asked for, and asked is the one who writes. */
    if (!write->user)
        return 0;
    int r = admit_namespace(write, admit);
    if (r == 0)
        r = admit_size(write, admit);
    return r ? r : admit_time(write, admit);
}
