#include "server/rbac.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool is_kind(const struct object *object, const char *name)
{
    return strcmp(object->kind->name, name) == 0;
}

static bool is_service_account(struct str user, struct str ns, struct str name)
{
    struct str of, account;

    return account_split(user, &of, &account) && str_eq(of, ns) && str_eq(account, name);
}

static bool subject_is(const struct json *subject,
                       struct str binding_ns,
                       const struct rbac_user *user)
{
    struct str kind = json_str(json_get(subject, "kind"));
    struct str name = json_str(json_get(subject, "name"));
    struct str ns = json_str(json_get(subject, "namespace"));

    if (str_is(kind, "User"))
        return str_eq(name, user->name);
    if (!ns.len)
        ns = binding_ns;
    if (str_is(kind, "ServiceAccount"))
        return ns.len && is_service_account(user->name, ns, name);
    for (size_t i = 0; str_is(kind, "Group") && i < user->group_count; i++)
        if (str_eq(user->groups[i], name))
            return true;
    return false;
}

static bool binds(const struct json *binding, struct str ns, const struct rbac_user *user)
{
    JSON_FOREACH(json_get(binding, "subjects"), subject)
        if (subject_is(subject, ns, user))
            return true;
    return false;
}

const struct object *rbac_role(const struct rbac *rbac, const struct json *binding, struct str ns)
{
    struct str kind = json_str(json_at(binding, "roleRef.kind"));
    struct str name = json_str(json_at(binding, "roleRef.name"));

    for (size_t i = 0; i < rbac->count; i++) {
        const struct object *object = rbac->objects[i];

        if (str_is(kind, object->kind->name) && str_eq(object->name, name) &&
            (is_kind(object, "ClusterRole") || (is_kind(object, "Role") && str_eq(object->ns, ns))))
            return object;
    }
    return NULL;
}

/* The rules a binding refers to, or NULL. */
static const struct json *rules_of(const struct rbac *rbac,
                                   struct arena *arena,
                                   const struct json *binding,
                                   struct str ns)
{
    const struct object *role = rbac_role(rbac, binding, ns);

    return role ? json_get(object_json(role, arena), "rules") : NULL;
}

/* ---- one rule ---- */
static bool has(const struct json *list, struct str word)
{
    JSON_FOREACH(list, item) {
        struct str text = json_str(item);
        if (str_is(text, "*") || str_eq(text, word))
            return true;
    }
    return false;
}

/* "pods/log" is named by "pods/log", by "*" and by "STAR/log". */
static bool has_resource(const struct json *list, struct str resource)
{
    size_t slash = str_find(resource, '/');

    if (has(list, resource))
        return true;
    JSON_FOREACH(list, item) {
        struct str text = json_str(item);
        if (slash < resource.len && str_starts(text, STR("*/")) &&
            str_eq(str_sub(text, 1, text.len), str_sub(resource, slash, resource.len)))
            return true;
    }
    return false;
}

static bool has_path(const struct json *list, struct str path)
{
    JSON_FOREACH(list, item) {
        struct str text = json_str(item);

        if (str_eq(text, path))
            return true;
        if (!str_ends(text, STR("*")))
            continue;
        while (str_ends(text, STR("*")))
            text.len--;
        if (str_starts(path, text))
            return true;
    }
    return false;
}

/* Names have no star: "*" is the object of that name. */
static bool has_name(const struct json *list, struct str name)
{
    if (!json_count(list))
        return true;
    JSON_FOREACH(list, item)
        if (name.len && str_eq(json_str(item), name))
            return true;
    return false;
}

bool rbac_rule_allows(const struct json *rule, const struct rbac_request *request)
{
    if (!has(json_get(rule, "verbs"), request->verb))
        return false;
    if (request->path.p)
        return has_path(json_get(rule, "nonResourceURLs"), request->path);
    return has(json_get(rule, "apiGroups"), request->group) &&
           has_resource(json_get(rule, "resources"), request->resource) &&
           has_name(json_get(rule, "resourceNames"), request->name);
}

/* ---- all rules of a user ---- */
bool rbac_each_rule(const struct rbac *rbac,
                    struct arena *arena,
                    const struct rbac_user *user,
                    struct str ns,
                    rbac_rule_fn *fn,
                    void *fn_user)
{
    for (size_t i = 0; i < rbac->count; i++) {
        const struct object *object = rbac->objects[i];
        bool cluster = is_kind(object, "ClusterRoleBinding");

        if (!cluster && !(is_kind(object, "RoleBinding") && ns.len && str_eq(object->ns, ns)))
            continue;
        const struct json *binding = object_json(object, arena);
        if (!binds(binding, object->ns, user))
            continue;
        JSON_FOREACH(rules_of(rbac, arena, binding, object->ns), rule)
            if (fn(fn_user, rule, cluster))
                return true;
    }
    return false;
}

static bool allows(void *user, const struct json *rule, bool cluster)
{
    const struct rbac_request *request = user;

    return (cluster || !request->path.p) && rbac_rule_allows(rule, request);
}

bool rbac_allows(const struct rbac *rbac,
                 struct arena *arena,
                 const struct rbac_user *user,
                 const struct rbac_request *request)
{
    struct rbac_request copy = *request;

    return rbac_each_rule(rbac, arena, user, request->ns, allows, &copy);
}

struct rule_writer {
    struct buf *buf;
    bool paths;
    const char *separator;
};

static bool write_rule(void *user, const struct json *rule, bool cluster)
{
    struct rule_writer *writer = user;
    bool has_paths = json_count(json_get(rule, "nonResourceURLs")) > 0;

    if (has_paths != writer->paths || (has_paths && !cluster))
        return false;
    buf_add(writer->buf, str_from(writer->separator));
    json_write(writer->buf, rule);
    writer->separator = ",";
    return false;
}

void rbac_write_rules(const struct rbac *rbac,
                      struct arena *arena,
                      const struct rbac_user *user,
                      struct str ns,
                      struct buf *buf)
{
    struct rule_writer resources = {.buf = buf, .separator = ""};
    struct rule_writer paths = {.buf = buf, .paths = true, .separator = ""};

    buf_add(buf, STR("\"resourceRules\":["));
    (void)rbac_each_rule(rbac, arena, user, ns, write_rule, &resources);
    buf_add(buf, STR("],\"nonResourceRules\":["));
    (void)rbac_each_rule(rbac, arena, user, ns, write_rule, &paths);
    buf_addc(buf, ']');
}
