#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "server/rbac.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Who may write roles and bindings may grant no more than he has: otherwise the right to write them
 * would be all rights. Every rule that is granted is taken apart into single rights, and each must
 * be covered by one rule that the user has. */

/* Rights times rules compared for one write. A rule of 30 groups, 30 resources and 10 verbs against
 * 500 rules is 4.5 million; it takes well under a second, and more is refused. */
#define COMPARED_MAX   ((size_t)5 << 20)
#define MISSING_MAX    20 /* lines told */
#define AGGREGATED_MAX 1000

struct rules VEC_FIELDS(const struct json *);

struct grant {
    struct arena *arena;
    struct rules held;
    VEC(struct str) missing;
    size_t compared;
    bool too_many;
};

static bool collect_rule(void *user, const struct json *rule, bool cluster)
{
    struct grant *grant = user;

    (void)cluster;
    VEC_PUSH(grant->arena, &grant->held, rule);
    return false;
}

static bool grant_holds(struct grant *grant, const struct rbac_request *right)
{
    grant->compared += grant->held.count + 1;
    if (grant->compared > COMPARED_MAX) {
        grant->too_many = true;
        return true;
    }
    for (size_t i = 0; i < grant->held.count; i++)
        if (rbac_rule_allows(grant->held.items[i], right))
            return true;
    return false;
}

/* ["get" "list"] */
static void quoted_add(struct buf *buf, const char *name, struct str one)
{
    buf_addf(buf, "%s%s:[", buf->len > 1 ? ", " : "", name);
    json_write_string(buf, one);
    buf_addc(buf, ']');
}

/* The verbs of one right that are missing, as one line. */
static void grant_check_verbs(struct grant *grant,
                              const struct json *verbs,
                              struct rbac_request right)
{
    struct buf line = {0};
    const char *before = ", Verbs:[";

    JSON_FOREACH(verbs, verb) {
        right.verb = json_str(verb);
        if (grant_holds(grant, &right))
            continue;
        if (!line.len) {
            buf_addc(&line, '{');
            if (right.path.p) {
                quoted_add(&line, "NonResourceURLs", right.path);
            } else {
                quoted_add(&line, "APIGroups", right.group);
                quoted_add(&line, "Resources", right.resource);
                if (right.name.len)
                    quoted_add(&line, "ResourceNames", right.name);
            }
        }
        buf_add(&line, str_from(before));
        json_write_string(&line, right.verb);
        before = " ";
    }
    if (line.len && grant->missing.count < MISSING_MAX) {
        buf_add(&line, STR("]}"));
        VEC_PUSH(grant->arena, &grant->missing, str_dup(grant->arena, buf_str(&line)));
    }
    buf_done(&line);
}

static void grant_check_rule(struct grant *grant, const struct json *rule)
{
    const struct json *verbs = json_get(rule, "verbs");
    const struct json *names = json_get(rule, "resourceNames");

    JSON_FOREACH(json_get(rule, "nonResourceURLs"), path) {
        if (grant->too_many)
            return;
        grant_check_verbs(grant, verbs,
                          (struct rbac_request){.path = str_dup(grant->arena, json_str(path))});
    }
    JSON_FOREACH(json_get(rule, "apiGroups"), group)
        JSON_FOREACH(json_get(rule, "resources"), resource) {
            struct rbac_request right = {.group = json_str(group), .resource = json_str(resource)};

            if (grant->too_many)
                return;
            if (!json_count(names))
                grant_check_verbs(grant, verbs, right);
            JSON_FOREACH(names, name) {
                if (grant->too_many)
                    return;
                right.name = json_str(name);
                grant_check_verbs(grant, verbs, right);
            }
        }
}

static int line_compare(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static void missing_write(struct grant *grant, const struct rbac_user *user, struct buf *text)
{
    buf_add(text, STR("user "));
    json_write_string(text, user->name);
    buf_add(text, STR(" (groups=["));
    for (size_t i = 0; i < user->group_count; i++) {
        buf_add(text, i ? STR(" ") : STR(""));
        json_write_string(text, user->groups[i]);
    }
    buf_add(text, STR("]) is attempting to grant RBAC permissions not currently held:"));
    if (grant->too_many)
        buf_add(text, STR("\nthe rules are more than can be compared; split them"));
    if (grant->missing.count)
        qsort(grant->missing.items, grant->missing.count, sizeof(struct str), line_compare);
    for (size_t i = 0; i < grant->missing.count; i++) {
        if (i && str_eq(grant->missing.items[i], grant->missing.items[i - 1]))
            continue;
        buf_addc(text, '\n');
        buf_add(text, grant->missing.items[i]);
    }
}

struct str rbac_missing(const struct rbac *rbac,
                        struct arena *arena,
                        const struct rbac_user *user,
                        struct str ns,
                        const struct json *rules)
{
    struct grant grant = {.arena = arena};
    struct buf text = {0};

    (void)rbac_each_rule(rbac, arena, user, ns, collect_rule, &grant);
    JSON_FOREACH(rules, rule)
        grant_check_rule(&grant, rule);
    if (!grant.missing.count && !grant.too_many)
        return STR("");
    missing_write(&grant, user, &text);
    struct str told = str_dup(arena, buf_str(&text));
    buf_done(&text);
    return told;
}

/* ---- aggregated ClusterRoles ---- */

bool rbac_gathers(struct arena *arena, const struct json *selectors, const struct object *role)
{
    JSON_FOREACH(selectors, item) {
        struct selector selector = {0};

        if (selector_from_json(arena, item, &selector, NULL) == 0 &&
            selector_matches(&selector, role->labels, role->label_count))
            return true;
    }
    return false;
}

static int role_compare(const void *a, const void *b)
{
    return str_cmp((*(const struct object *const *)a)->name,
                   (*(const struct object *const *)b)->name);
}

static bool rules_have(const struct json *rules, const struct json *rule)
{
    JSON_FOREACH(rules, item)
        if (json_equal(item, rule))
            return true;
    return false;
}

struct json *rbac_aggregate(const struct rbac *rbac, struct arena *arena, const struct object *role)
{
    const struct json *selectors =
        json_at(object_json(role, arena), "aggregationRule.clusterRoleSelectors");
    VEC(const struct object *) chosen = {0};

    if (!json_count(selectors))
        return NULL;
    for (size_t i = 0; i < rbac->count; i++) {
        const struct object *other = rbac->objects[i];

        if (other->kind == role->kind && !str_eq(other->name, role->name) &&
            rbac_gathers(arena, selectors, other))
            VEC_PUSH(arena, &chosen, other);
    }
    if (chosen.count)
        qsort(chosen.items, chosen.count, sizeof(chosen.items[0]), role_compare);
    struct json *rules = json_new_array(arena);
    for (size_t i = 0; i < chosen.count; i++)
        JSON_FOREACH(json_get(object_json(chosen.items[i], arena), "rules"), rule)
            if (json_count(rules) < AGGREGATED_MAX && !rules_have(rules, rule))
                json_push(rules, json_clone(arena, rule));
    return rules;
}
