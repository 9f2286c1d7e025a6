#include "store/submitter.h"

#include "api/admit.h"
#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/people.h"
#include "api/training.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stdbool.h>

static bool wants_gpus(const struct json *template)
{
    JSON_FOREACH(json_at(template, "spec.containers"), container)
        if (json_get(json_at(container, "resources.limits"), GPU_RESOURCE))
            return true;
    return false;
}

/* Of Jobs and CronJobs what `report` counts: the others are as Kubernetes has them. */
static bool is_charged(const struct kind *kind, const struct json *object)
{
    if (kind == &kind_job)
        return wants_gpus(json_at(object, "spec.template"));
    if (kind == &kind_cronjob)
        return wants_gpus(json_at(object, "spec.jobTemplate.spec.template"));
    return kind == &kind_torchrunjob || training_of(kind) || kind == &kind_pytorchtrainingjob ||
           kind == &kind_trainjob || kind == &kind_jobset;
}

static struct str said(const struct json *object)
{
    return json_str(json_get(json_at(object, "metadata.annotations"), PERSON_SUBMITTED));
}

/* Accounts of a person's own namespace, which her pods have, are hers. */
static struct str who_asks(const struct write *write)
{
    const struct object *space =
        entry_latest(shelf_find(shelf_of(write->store, &kind_namespace), STR(""), write->ns));
    struct person person;
    struct str ns, name;

    if (!account_split(write->user->name, &ns, &name))
        return write->user->name;
    if (str_is(ns, PEOPLE_NAMESPACE))
        return name;
    return str_eq(ns, write->ns) && space && person_of(space, &person)
               ? str_dup(write->arena, person.name)
               : write->user->name;
}

/* Of what this program makes: an owner's. */
static struct str of_owner(const struct write *write, const struct json *object)
{
    JSON_FOREACH(json_at(object, "metadata.ownerReferences"), item) {
        struct str uid = json_str(json_get(item, "uid"));
        const struct object *owner = entry_latest(map_get(&write->store->by_uid, uid));

        if (owner && str_eq(owner->ns, write->ns))
            return str_dup(write->arena, object_annotation(owner, PERSON_SUBMITTED));
    }
    return STR_NONE;
}

void submitter_admit(struct write *write, struct admit *admit)
{
    struct str now = said(admit->object);
    struct str right;

    if (!is_charged(write->kind, admit->object) || (!write->user && (admit->old || now.len)))
        return;
    if (admit->old)
        right = said(admit->old);
    else
        right = write->user ? who_asks(write) : of_owner(write, admit->object);
    if (str_eq(now, right))
        return;
    if (now.len)
        admit_warn(admit, STR("metadata.annotations[" PERSON_SUBMITTED
                              "]: the server says who made a job; what the request says is not "
                              "kept"));
    struct json *notes = json_make_path(write->arena, admit->object, "metadata.annotations");
    json_remove(notes, STR(PERSON_SUBMITTED));
    if (right.len)
        json_add_str(write->arena, notes, PERSON_SUBMITTED, right);
}
