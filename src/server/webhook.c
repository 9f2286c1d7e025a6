#include "server/webhook.h"

#include "api/admit.h"
#include "api/crd.h"
#include "api/device_access.h"
#include "api/gpu.h"
#include "api/group.h"
#include "api/keys.h"
#include "api/kind.h"
#include "api/limit.h"
#include "api/marks.h"
#include "api/schema.h"
#include "api/share.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/core/group_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SALT_SEED 0x6d75737465722121 /* any: names need to differ, not to be secret */

struct review {
    struct arena *arena;
    const struct webhook_rules *rules;
    const struct json *request;
    struct json *answer; /* "response" */
};

/* ---- answers ---- */

static void allow(struct review *review)
{
    json_add_bool(review->arena, review->answer, "allowed", true);
}

/* As the API server itself says it: every field, with what is wrong. */
static void refuse(struct review *review, const struct admit *admit)
{
    struct arena *arena = review->arena;
    struct str name = json_str_at(admit->object, "metadata.name");
    struct json *status = json_add_object(arena, review->answer, "status");
    struct str text = STR_NONE;

    for (size_t i = 0; i < admit->causes.count; i++)
        text = str_printf(arena, STR_FMT "%s" STR_FMT ": " STR_FMT, STR_ARG(text), i ? "; " : "",
                          STR_ARG(admit->causes.items[i].field),
                          STR_ARG(admit->causes.items[i].message));
    json_add_bool(arena, review->answer, "allowed", false);
    json_fill(arena, status, "{code: 422, reason: 'Invalid', message: $}",
              str_printf(arena, "%s \"" STR_FMT "\" is invalid: " STR_FMT, admit->kind->name,
                         STR_ARG(name), STR_ARG(text)));
    struct json *details = json_add_object(arena, status, "details");
    json_fill(arena, details, "{name: $, group: $, kind: $}", name, admit->kind->group,
              admit->kind->name);
    struct json *causes = json_add_array(arena, details, "causes");
    for (size_t i = 0; i < admit->causes.count; i++) {
        const struct api_cause *cause = &admit->causes.items[i];

        json_push(causes, json_make(arena, "{reason: $, message: $, field: $}", cause->reason,
                                    cause->message, cause->field));
    }
}

static void add_operation(struct review *review,
                          struct json *patch,
                          const char *path,
                          const struct json *value)
{
    struct json *operation = json_push(patch, json_new_object(review->arena));

    json_add_c(review->arena, operation, "op", "add"); /* replaces what is there */
    json_add_c(review->arena, operation, "path", path);
    json_set(operation, STR("value"), json_clone(review->arena, value));
}

/* Tell what was changed: annotations and the spec are all that ever is. */
static void allow_changed(struct review *review, const struct json *before, const struct json *now)
{
    struct json *patch = json_new_array(review->arena);

    allow(review);
    if (!json_equal(json_at(before, "metadata.annotations"), json_at(now, "metadata.annotations")))
        add_operation(review, patch, "/metadata/annotations", json_at(now, "metadata.annotations"));
    if (!json_equal(json_get(before, "spec"), json_get(now, "spec")))
        add_operation(review, patch, "/spec", json_get(now, "spec"));
    if (!json_count(patch))
        return;
    json_add_c(review->arena, review->answer, "patchType", "JSONPatch");
    json_add_str(review->arena, review->answer, "patch",
                 base64_encode(review->arena, json_text(review->arena, patch)));
}

/* ---- pods ---- */

static bool has_gpu(const struct json *pod)
{
    JSON_FOREACH(json_at(pod, "spec.containers"), container)
        if (json_get(json_at(container, "resources.limits"), GPU_RESOURCE))
            return true;
    return share_wanted(pod);
}

/* A pod without owners is a group of its own, whose name is known where the server has given the
 * pod its uid already: the pod grouper then need not write it. */
static void name_group(struct arena *arena, struct json *pod)
{
    const struct json *meta = json_get(pod, "metadata");
    const struct json *annotations = json_get(meta, "annotations");
    struct str uid = json_str(json_get(meta, "uid"));
    struct str name = json_str(json_get(meta, "name"));

    if (!uid.len || !name.len || json_count(json_get(meta, "ownerReferences")) ||
        json_get(annotations, GROUP_ANNOTATION) || json_get(annotations, GROUP_MIRROR) ||
        group_named_by(pod).len || json_get(json_get(meta, "labels"), "spark-app-selector"))
        return;
    json_add_str(arena, json_make_path(arena, pod, "metadata.annotations"), GROUP_ANNOTATION,
                 group_name_make(arena, name, uid));
}

static void forbid_shares(struct admit *admit)
{
    const char *key =
        json_get(json_at(admit->object, "metadata.annotations"), GPU_ANNOTATION_FRACTION)
            ? GPU_ANNOTATION_FRACTION
            : GPU_ANNOTATION_FRACTION_MEMORY;

    admit_forbidden(admit, str_printf(admit->arena, "metadata.annotations[%s]", key),
                    "GPU sharing is off on this cluster: ask for " GPU_RESOURCE
                    ", or ask an administrator to enable it (global.gpuSharing)");
}

static bool is_type_or_null(const struct json *value, enum json_type type)
{
    return json_is_null(value) || json_is(value, type);
}

static bool are_containers(const struct json *list)
{
    if (!is_type_or_null(list, JSON_ARRAY))
        return false;
    JSON_FOREACH(list, container)
        if (!json_is(container, JSON_OBJECT))
            return false;
    return true;
}

/* The shape that everything below builds on. An API server sends nothing else. */
static const char *misshapen(const struct json *pod)
{
    const struct json *spec = json_get(pod, "spec");

    if (!json_is(json_get(pod, "metadata"), JSON_OBJECT) ||
        !is_type_or_null(json_at(pod, "metadata.annotations"), JSON_OBJECT))
        return "metadata";
    if (!json_is(spec, JSON_OBJECT))
        return "spec";
    if (!are_containers(json_get(spec, "containers")))
        return "spec.containers";
    return are_containers(json_get(spec, "initContainers")) ? NULL : "spec.initContainers";
}

static void tell_warnings(struct review *review, const struct admit *admit)
{
    for (struct str left = admit->warnings; left.len;) {
        size_t end = str_find(left, '\n');
        struct json *warnings = json_get(review->answer, "warnings");

        if (!warnings)
            warnings = json_add_array(review->arena, review->answer, "warnings");
        json_push(warnings, json_new_str(review->arena, str_sub(left, 0, end)));
        left = str_sub(left, end + 1, left.len);
    }
}

static void answer_pod(struct review *review, const struct json *object)
{
    const struct webhook_rules *rules = review->rules;
    struct arena *arena = review->arena;
    struct json *pod = json_clone(arena, object);
    struct admit admit = {.arena = arena, .kind = &kind_pod, .object = pod};

    if (rules->scheduler_name.len &&
        !str_eq(json_str_at(pod, "spec.schedulerName"), rules->scheduler_name)) {
        allow(review);
        return;
    }
    if (rules->own_devices) {
        device_access_mutate(arena, pod);
        device_access_check(&admit);
    }
    share_check(&admit);
    if (share_wanted(pod) && !rules->shares)
        forbid_shares(&admit);
    if (admit.causes.count) {
        refuse(review, &admit);
        return;
    }
    if (share_wanted(pod) && rules->limit_image.len)
        limit_mutate(arena, pod, rules->limit_image);
    if (share_wanted(pod))
        share_mutate(arena, pod, str_hash(json_str(json_get(review->request, "uid")), SALT_SEED));
    if (rules->runtime_class.len && has_gpu(pod) &&
        json_is_null(json_at(pod, "spec.runtimeClassName")))
        json_add_str(arena, json_get(pod, "spec"), "runtimeClassName", rules->runtime_class);
    name_group(arena, pod);
    allow_changed(review, object, pod);
    keys_warn(&admit, NULL);
    tell_warnings(review, &admit);
}

/* ---- other kinds ---- */

/* By the version of the request, else by any version of that name. */
static const struct kind *kind_of(const struct review *review)
{
    const struct json *resource = json_get(review->request, "resource");
    struct str group = json_str(json_get(resource, "group"));
    struct str plural = json_str(json_get(resource, "resource"));
    const struct kinds *kinds = review->rules->kinds;
    const struct kind *kind =
        kinds_by_plural(kinds, group, json_str(json_get(resource, "version")), plural);

    for (size_t i = 0; !kind && i < kinds_count(kinds); i++)
        if (str_is(group, kinds_at(kinds, i)->group) && str_is(plural, kinds_at(kinds, i)->plural))
            kind = kinds_at(kinds, i);
    return kind;
}

/* The API server has kept the templates in our kinds unseen, so it is here that a name in them that
 * nobody knows is refused, warned about or let be, as the writer asked for. */
static void check_templates(const struct review *review, struct admit *admit)
{
    struct str asked = json_str_at(review->request, "options.fieldValidation");
    struct schema_unknown unknown = {0};

    crd_check_templates(admit, &unknown);
    for (size_t i = 0; i < unknown.count && !str_is(asked, "Ignore"); i++)
        if (str_is(asked, "Strict"))
            admit_forbidden(admit, unknown.items[i], "unknown field: see kubectl explain");
        else
            admit_warn(admit, str_printf(admit->arena, "unknown field \"" STR_FMT "\"",
                                         STR_ARG(unknown.items[i])));
}

/* Whoever makes what nobody here acts on is told, as for the kinds that the embedded server only stores. */
static void warn_idle(const struct review *review, struct admit *admit)
{
    const struct webhook_rules *rules = review->rules;

    for (size_t i = 0; !admit->old && i < rules->without_count; i++)
        if (strcmp(rules->without[i], admit->kind->singular) == 0)
            admit_warn(admit,
                       str_printf(admit->arena,
                                  "%s: Muster does nothing with it, as its controller is off "
                                  "(--controllers of muster operator); docs/cluster.md says "
                                  "what it needs",
                                  admit->kind->name));
}

static void answer_kind(struct review *review, const struct json *object)
{
    const struct json *old = json_get(review->request, "oldObject");
    struct admit admit = {.arena = review->arena,
                          .kind = kind_of(review),
                          .object = json_clone(review->arena, object),
                          .old = json_is(old, JSON_OBJECT) ? old : NULL};
    bool ending = !json_is_null(json_at(object, "metadata.deletionTimestamp"));
    bool same = admit.old && json_equal(json_get(admit.old, "spec"), json_get(object, "spec"));

    if (admit.kind && !ending && !same) {
        check_templates(review, &admit);
        admit_validate(&admit);
        warn_idle(review, &admit);
        keys_warn(&admit, NULL);
    }
    if (admit.causes.count)
        refuse(review, &admit);
    else
        allow(review);
    tell_warnings(review, &admit);
}

static void forbid(struct review *review, struct str message)
{
    json_add_bool(review->arena, review->answer, "allowed", false);
    json_fill(review->arena, json_add_object(review->arena, review->answer, "status"),
              "{code: 403, reason: 'Forbidden', message: $}", message);
}

/* A queue with queues below it stays. */
static void answer_delete(struct review *review, const struct json *old)
{
    struct str why =
        kind_of(review) == &kind_queue ? admit_queue_stays(review->arena, old) : STR_NONE;

    if (why.len)
        forbid(review, why);
    else
        allow(review);
}

/* ---- marks of the scheduler ---- */

static bool group_is_named(struct str names, struct str group)
{
    while (names.len) {
        size_t end = str_find(names, ',');

        if (group.len && str_eq(str_sub(names, 0, end), group))
            return true;
        names = str_sub(names, end + 1, names.len);
    }
    return false;
}

static bool user_is_administrator(const struct review *review, const struct json *user)
{
    JSON_FOREACH(json_get(user, "groups"), group)
        if (str_is(json_str(group), MARKS_ADMINISTRATORS) ||
            group_is_named(review->rules->administrators, json_str(group)))
            return true;
    return false;
}

static bool user_is_operator(const struct review *review, const struct json *user)
{
    struct str ns, name;

    return review->rules->namespace.len &&
           account_split(json_str(json_get(user, "username")), &ns, &name) &&
           str_eq(ns, review->rules->namespace);
}

/* Templates bring no marks along: a pod that the operator makes for an owner is looked at, too. */
static void answer_marks(struct review *review, const struct json *object)
{
    const struct json *old = json_get(review->request, "oldObject");
    const struct json *user = json_get(review->request, "userInfo");
    const struct kind *kind = kind_of(review);
    bool made = !json_is(old, JSON_OBJECT);
    bool pod = kind == &kind_pod;
    bool of_template = pod && made && json_count(json_at(object, "metadata.ownerReferences")) > 0;
    bool foreign =
        pod && review->rules->scheduler_name.len &&
        !str_eq(json_str_at(object, "spec.schedulerName"), review->rules->scheduler_name);
    struct str why = STR_NONE;

    if (kind && !foreign && !user_is_administrator(review, user) &&
        (!user_is_operator(review, user) || of_template))
        why = marks_refusal(review->arena, kind, made ? NULL : old, object);
    if (why.len)
        forbid(review,
               str_printf(review->arena, "%s \"" STR_FMT "\" is forbidden: " STR_FMT, kind->plural,
                          STR_ARG(json_str_at(object, "metadata.name")), STR_ARG(why)));
    else
        allow(review);
}

bool webhook_serves(struct str path)
{
    return str_is(path, WEBHOOK_PODS) || str_is(path, WEBHOOK_KINDS) || str_is(path, WEBHOOK_MARKS);
}

int webhook_answer(struct arena *arena,
                   const struct webhook_rules *rules,
                   struct str path,
                   struct str body,
                   struct str *ret,
                   struct err *err)
{
    struct json *root = NULL;
    struct json *answer = json_new_object(arena);
    struct review review = {.arena = arena, .rules = rules};
    int r = json_parse(arena, body, &root, err);

    if (r < 0)
        return err_wrap(err, r, "AdmissionReview");
    review.request = json_get(root, "request");
    const struct json *object = json_get(review.request, "object");
    struct str uid = json_str(json_get(review.request, "uid"));
    if (!str_is(json_str(json_get(root, "kind")), "AdmissionReview") || !uid.len)
        return err_set(err, -EINVAL, "not an AdmissionReview with a request");
    const char *field =
        str_is(path, WEBHOOK_PODS) && json_is(object, JSON_OBJECT) ? misshapen(object) : NULL;
    if (field)
        return err_set(err, -EINVAL, "request.object.%s does not have the form of a pod", field);
    json_add_c(arena, answer, "apiVersion", "admission.k8s.io/v1");
    json_add_c(arena, answer, "kind", "AdmissionReview");
    review.answer = json_add_object(arena, answer, "response");
    json_add_str(arena, review.answer, "uid", uid);
    if (!json_is(object, JSON_OBJECT)) /* a deletion */
        answer_delete(&review, json_get(review.request, "oldObject"));
    else if (str_is(path, WEBHOOK_PODS))
        answer_pod(&review, object);
    else if (str_is(path, WEBHOOK_MARKS))
        answer_marks(&review, object);
    else
        answer_kind(&review, object);
    *ret = json_text(arena, answer);
    return 0;
}
