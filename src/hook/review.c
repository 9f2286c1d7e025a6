#include "hook/review.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/policy.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMEOUT_SECONDS 10

/* ---- webhooks ---- */

static const struct json *match_of(struct arena *arena, const struct json *spec, bool selectors)
{
    static const char *const same[] = {"matchPolicy", "namespaceSelector", "objectSelector"};
    size_t count = selectors ? COUNT_OF(same) : 1;
    struct json *match = json_new_object(arena);
    const struct json *rules = json_get(spec, "rules");

    json_set(match, STR("resourceRules"), rules ? json_clone(arena, rules) : json_new_array(arena));
    for (size_t i = 0; i < count; i++)
        if (json_get(spec, same[i]))
            json_set(match, str_from(same[i]), json_clone(arena, json_get(spec, same[i])));
    return match;
}

size_t review_hooks(struct arena *arena,
                    const struct json *configuration,
                    bool mutating,
                    struct hook *ret,
                    size_t max)
{
    size_t count = 0;

    JSON_FOREACH(json_get(configuration, "webhooks"), spec) {
        if (count == max)
            break;
        /* Without rules a webhook is about nothing; a policy without them is about everything. */
        if (!json_count(json_get(spec, "rules")))
            continue;
        ret[count++] = (struct hook){
            .mutating = mutating,
            .configuration = json_str_at(configuration, "metadata.name"),
            .name = json_str(json_get(spec, "name")),
            .spec = spec,
            .rules = match_of(arena, spec, false),
            .match = match_of(arena, spec, true),
            .ignore = str_is(json_str(json_get(spec, "failurePolicy")), "Ignore"),
            .again = str_is(json_str(json_get(spec, "reinvocationPolicy")), "IfNeeded"),
            .timeout_seconds = (int)json_i64_or(json_get(spec, "timeoutSeconds"), TIMEOUT_SECONDS)};
    }
    return count;
}

/* ---- the question ---- */

static void add_kind(struct arena *arena,
                     struct json *parent,
                     const char *key,
                     const struct kind *kind,
                     bool resource)
{
    struct json *entry = json_add_object(arena, parent, key);

    json_add_c(arena, entry, "group", kind->group);
    json_add_c(arena, entry, "version", kind->version);
    json_add_c(arena, entry, resource ? "resource" : "kind", resource ? kind->plural : kind->name);
}

static void add_object(struct arena *arena,
                       struct json *parent,
                       const char *key,
                       const struct json *object)
{
    json_set(parent, str_from(key), object ? json_clone(arena, object) : json_new_null(arena));
}

static const char *options_kind(struct str operation)
{
    return str_is(operation, "CREATE")   ? "CreateOptions"
           : str_is(operation, "DELETE") ? "DeleteOptions"
                                         : "UpdateOptions";
}

/* Of a connection the object is its options, and so is the kind. */
static void add_request_kind(const struct policy_request *request,
                             struct json *parent,
                             const char *key)
{
    add_kind(request->arena, parent, key, request->kind, false);
    if (str_is(str_from(request->operation), "CONNECT"))
        json_add_str(request->arena, json_get(parent, key), "kind",
                     json_str(json_get(request->object, "kind")));
}

/* How it is asked for. */
static void add_options(const struct policy_request *request, struct json *ask)
{
    struct arena *arena = request->arena;
    struct json *options = NULL;

    if (!request->options.len || json_parse(arena, request->options, &options, NULL) < 0 ||
        !json_is(options, JSON_OBJECT))
        options = json_new_object(arena);
    json_add_c(arena, options, "kind", options_kind(str_from(request->operation)));
    json_add_c(arena, options, "apiVersion", "meta.k8s.io/v1");
    if (request->dry_run && !json_get(options, "dryRun"))
        json_push(json_add_array(arena, options, "dryRun"), json_new_str(arena, STR("All")));
    if (request->field_manager.len && !str_is(str_from(request->operation), "DELETE"))
        json_add_str(arena, options, "fieldManager", request->field_manager);
    json_set(ask, STR("options"), options);
}

struct str review_write(const struct policy_request *request, struct str uid)
{
    struct arena *arena = request->arena;
    struct str name = request->name;
    struct json *root = json_new_object(arena);

    json_add_c(arena, root, "kind", "AdmissionReview");
    json_add_c(arena, root, "apiVersion", "admission.k8s.io/v1");
    struct json *ask = json_add_object(arena, root, "request");
    json_add_str(arena, ask, "uid", uid);
    add_request_kind(request, ask, "kind");
    add_kind(arena, ask, "resource", request->kind, true);
    if (request->subresource.len)
        json_add_str(arena, ask, "subResource", request->subresource);
    add_request_kind(request, ask, "requestKind");
    add_kind(arena, ask, "requestResource", request->kind, true);
    if (request->subresource.len)
        json_add_str(arena, ask, "requestSubResource", request->subresource);
    /* Of what is made, unless the server is to choose one. */
    if (!name.len)
        name = json_str_at(request->object, "metadata.name");
    if (name.len)
        json_add_str(arena, ask, "name", name);
    if (request->ns.len)
        json_add_str(arena, ask, "namespace", request->ns);
    json_add_c(arena, ask, "operation", request->operation);
    json_set(ask, STR("userInfo"), policy_user(arena, request->user));
    add_object(arena, ask, "object", request->object);
    add_object(arena, ask, "oldObject", request->old);
    json_add_bool(arena, ask, "dryRun", request->dry_run);
    if (str_is(str_from(request->operation), "CONNECT"))
        return json_text(arena, root);
    add_options(request, ask);
    return json_text(arena, root);
}

/* ---- the answer ---- */

static struct str take_warnings(struct arena *arena, const struct json *list)
{
    struct str text = STR("");
    size_t count = 0;

    JSON_FOREACH(list, item) {
        struct str line = str_sub(json_str(item), 0, REVIEW_WARNING_MAX);

        if (!line.len || str_find(line, '\n') < line.len || count++ == REVIEW_WARNINGS_MAX)
            continue;
        text = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(text), text.len ? "\n" : "",
                          STR_ARG(str_utf8(arena, line)));
    }
    return text;
}

/* Kubernetes' words for a refusal. */
static void take_refusal(struct arena *arena,
                         const struct hook *hook,
                         const struct json *status,
                         struct review_answer *ret)
{
    int64_t code = json_i64_or(json_get(status, "code"), 0);
    struct str message = json_str(json_get(status, "message"));

    ret->code = code >= 400 && code < 600 ? (int)code : 400;
    ret->reason = json_str(json_get(status, "reason"));
    if (!message.len)
        message = ret->reason;
    ret->message = str_printf(
        arena, "admission webhook \"" STR_FMT "\" denied the request%s" STR_FMT,
        STR_ARG(hook->name), message.len ? ": " : " without explanation", STR_ARG(message));
}

static int take_patch(struct arena *arena,
                      const struct hook *hook,
                      const struct json *response,
                      struct review_answer *ret,
                      struct err *err)
{
    struct str type = json_str(json_get(response, "patchType"));
    struct str text = json_str(json_get(response, "patch"));
    struct str bytes = STR("");
    struct json *patch = NULL;

    if (!text.len)
        return 0;
    if (!hook->mutating)
        return err_set(err, -EINVAL, "a validating webhook must not answer with a patch");
    if (!str_is(type, "JSONPatch"))
        return err_set(err, -EINVAL, "response.patchType: \"" STR_FMT "\" is not JSONPatch",
                       STR_ARG(str_sub(type, 0, 40)));
    if (!base64_decode(arena, text, &bytes) || json_parse(arena, bytes, &patch, err) < 0 ||
        !json_is(patch, JSON_ARRAY))
        return err_set(err, -EINVAL, "response.patch is not a JSON patch in base64");
    if (json_count(patch))
        ret->patch = patch;
    return 0;
}

int review_read(struct arena *arena,
                const struct hook *hook,
                struct str uid,
                struct str body,
                struct review_answer *ret,
                struct err *err)
{
    struct json *root = NULL;

    if (json_parse(arena, body, &root, NULL) < 0)
        return err_set(err, -EINVAL, "its answer is not JSON");
    const struct json *response = json_get(root, "response");
    if (!str_is(json_str(json_get(root, "kind")), "AdmissionReview") ||
        !str_is(json_str(json_get(root, "apiVersion")), "admission.k8s.io/v1"))
        return err_set(err, -EINVAL,
                       "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, "
                       "got \"" STR_FMT "\", \"" STR_FMT "\"",
                       STR_ARG(str_sub(json_str(json_get(root, "apiVersion")), 0, 40)),
                       STR_ARG(str_sub(json_str(json_get(root, "kind")), 0, 40)));
    if (!json_is(response, JSON_OBJECT))
        return err_set(err, -EINVAL, "webhook response was absent");
    if (!str_eq(json_str(json_get(response, "uid")), uid))
        return err_set(err, -EINVAL, "expected response.uid=\"" STR_FMT "\"", STR_ARG(uid));
    *ret = (struct review_answer){.allowed = json_bool_or(json_get(response, "allowed"), false),
                                  .warnings = take_warnings(arena, json_get(response, "warnings"))};
    if (ret->allowed)
        return take_patch(arena, hook, response, ret, err);
    take_refusal(arena, hook, json_get(response, "status"), ret);
    return 0;
}
