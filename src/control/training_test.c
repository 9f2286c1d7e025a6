#include "api/crd_builtin.h"
#include "api/kind.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "control/cluster/coexist.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job.h"
#include "test.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Places that name the training kinds and cannot read the rows are held against them. */

#define FILE_BYTES_MAX ((size_t)1 << 20)

static bool names_role(const struct training_kind *training, struct str role)
{
    for (size_t i = 0; training->roles[i]; i++)
        if (str_is(role, training->roles[i]))
            return true;
    return false;
}

TEST(training_rows_name_roles_that_they_have_and_a_controller_that_is_there)
{
    for (size_t i = 0; i < TRAININGS; i++) {
        const struct training_kind *training = &training_kinds[i];
        bool controlled = false;

        test_case(training->kind->name);
        EXPECT(training_of(training->kind) == training);
        for (size_t k = 0; training->chiefs[k]; k++)
            EXPECT(names_role(training, str_from(training->chiefs[k])));
        for (size_t k = 0; training->single[k]; k++)
            EXPECT(names_role(training, str_from(training->single[k])));
        for (size_t k = 0; training->required[k]; k++)
            EXPECT(names_role(training, str_from(training->required[k])));
        EXPECT(!training->port_name == !training->port);
        for (size_t k = 0; controllers[k]; k++)
            controlled |= strcmp(controllers[k]->name, training->kind->singular) == 0;
        EXPECT(controlled);
    }
    EXPECT(training_of(&kind_jobset) == NULL);
}

TEST(training_rows_have_the_replica_specs_of_their_crds)
{
    for (size_t i = 0; i < TRAININGS; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct kind *kind = training_kinds[i].kind;
        struct str name = str_printf(&arena, "%s.%s", kind->plural, kind->group);
        struct json *crd = NULL;

        test_case(kind->name);
        for (size_t k = 0; k < crd_builtin_count; k++)
            if (str_is(name, crd_builtins[k].name))
                EXPECT(json_parse(&arena,
                                  (struct str){crd_builtins[k].text, crd_builtins[k].text_len},
                                  &crd, NULL) == 0);
        const struct json *spec =
            json_at(crd, "spec.versions.0.schema.openAPIV3Schema.properties.spec.properties");
        EXPECT(json_get(spec, training_kinds[i].specs) != NULL);
    }
}

TEST(training_kinds_are_left_to_kubeflows_operator_where_it_runs)
{
    size_t count = 0;

    for (size_t i = 0; coexist_others[0].controllers[i]; i++)
        count++;
    EXPECT(strcmp(coexist_others[0].name, "kubeflow-training-operator") == 0);
    EXPECT(count == TRAININGS);
    for (size_t i = 0; i < TRAININGS; i++) {
        bool named = false;

        test_case(training_kinds[i].kind->name);
        for (size_t k = 0; k < count; k++)
            named |=
                strcmp(coexist_others[0].controllers[k], training_kinds[i].kind->singular) == 0;
        EXPECT(named);
    }
}

static struct json_vec read_manifests(struct arena *arena, const char *file)
{
    struct str path = str_printf(arena, "%s/%s", DEPLOY_FOLDER, file);
    char *text = ARENA_ARRAY(arena, char, FILE_BYTES_MAX);
    struct json_vec documents = {0};
    FILE *stream = fopen(path.p, "re");

    EXPECT(stream != NULL);
    if (!stream)
        return documents;
    size_t len = fread(text, 1, FILE_BYTES_MAX, stream);
    (void)fclose(stream);
    EXPECT(yaml_parse_all(arena, (struct str){text, len}, &documents, NULL) == 0);
    return documents;
}

static bool has(const struct json *list, struct str word)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(item), word))
            return true;
    return false;
}

/* Whether a list of rules names a resource of kubeflow.org. */
static bool rules_name(const struct json *rules, struct str resource)
{
    JSON_FOREACH(rules, rule)
        if (has(json_get(rule, "apiGroups"), STR("kubeflow.org")) &&
            has(json_get(rule, "resources"), resource))
            return true;
    return false;
}

/* Appends the objects of all files of deploy/rbac but users.yaml, which is not about the operator. */
static struct json_vec read_roles(struct arena *arena)
{
    static const char *const files[] = {
        "role.yaml",    "mpi.yaml",     "secrets.yaml", "health.yaml",       "self-test.yaml",
        "webhook.yaml", "sharing.yaml", "suspend.yaml", "provisioning.yaml", NULL};
    struct json_vec roles = {0};

    for (size_t i = 0; files[i]; i++) {
        struct json_vec more = read_manifests(arena, str_printf(arena, "rbac/%s", files[i]).p);

        for (size_t k = 0; k < more.count; k++)
            VEC_PUSH(arena, &roles, more.items[k]);
    }
    return roles;
}

TEST(training_kinds_are_in_the_webhooks_and_the_roles)
{
    static const char *const parts[] = {"", "/status", "/finalizers"};
    _cleanup_(arena_done) struct arena arena = {0};
    struct json_vec hooks = read_manifests(&arena, "webhooks.yaml");
    struct json_vec roles = read_roles(&arena);

    for (size_t i = 0; i < TRAININGS; i++) {
        const char *plural = training_kinds[i].kind->plural;
        bool asked = false;

        test_case(plural);
        for (size_t k = 0; k < hooks.count; k++)
            asked |= rules_name(json_at(hooks.items[k], "webhooks.0.rules"), str_from(plural));
        EXPECT(asked);
        for (size_t part = 0; part < COUNT_OF(parts); part++) {
            struct str resource = str_printf(&arena, "%s%s", plural, parts[part]);
            bool allowed = false;

            for (size_t k = 0; k < roles.count; k++)
                allowed |= rules_name(json_get(roles.items[k], "rules"), resource);
            EXPECT(allowed);
        }
    }
}

/* ---- the roles of the operator's controllers ---- */

static struct str controller_of(const struct json *object)
{
    return json_str(json_get(json_at(object, "metadata.annotations"), "muster.dev/controllers"));
}

static bool rule_allows(const struct json *rule, const struct kind *kind, const char *verb)
{
    return has(json_get(rule, "apiGroups"), str_from(kind->group)) &&
           has(json_get(rule, "resources"), str_from(kind->plural)) &&
           has(json_get(rule, "verbs"), str_from(verb));
}

/* Whether a ClusterRole that is the controller's own allows it. */
static bool may(const struct json_vec *roles,
                const struct controller *controller,
                const struct kind *kind,
                const char *verb)
{
    for (size_t i = 0; i < roles->count; i++) {
        if (!str_is(json_str_at(roles->items[i], "kind"), "ClusterRole") ||
            !str_is(controller_of(roles->items[i]), controller->name))
            continue;
        JSON_FOREACH(json_get(roles->items[i], "rules"), rule)
            if (rule_allows(rule, kind, verb))
                return true;
    }
    return false;
}

TEST(each_controller_of_the_operator_may_watch_its_kinds_by_a_role_of_its_own)
{
    static const char *const verbs[] = {"get", "list", "watch"};
    _cleanup_(arena_done) struct arena arena = {0};
    struct json_vec roles = read_roles(&arena);

    for (size_t i = 0; controllers[i]; i++)
        for (size_t k = 0; !controllers[i]->embedded && controllers[i]->watches[k]; k++)
            for (size_t v = 0; v < COUNT_OF(verbs); v++) {
                const struct kind *kind = controllers[i]->watches[k];

                test_case(
                    str_printf(&arena, "%s: %s %s", controllers[i]->name, verbs[v], kind->plural)
                        .p);
                EXPECT(may(&roles, controllers[i], kind, verbs[v]));
            }
}

/* The chart leaves both out where the controller is off. */
TEST(a_role_of_a_controller_and_its_binding_name_it)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json_vec roles = read_roles(&arena);

    for (size_t i = 0; i < roles.count; i++) {
        struct str bound = json_str_at(roles.items[i], "roleRef.name");
        struct str kind = json_str_at(roles.items[i], "roleRef.kind");
        struct str names = controller_of(roles.items[i]);
        bool known = !names.len;

        test_case(str_dup(&arena, json_str_at(roles.items[i], "metadata.name")).p);
        for (size_t k = 0; controllers[k]; k++)
            known |= str_is(names, controllers[k]->name) && !controllers[k]->embedded;
        EXPECT(known);
        for (size_t k = 0; bound.len && k < roles.count; k++)
            if (str_eq(json_str_at(roles.items[k], "metadata.name"), bound) &&
                str_eq(json_str_at(roles.items[k], "kind"), kind))
                EXPECT(str_eq(controller_of(roles.items[k]), names));
    }
}

TEST(nobody_runs_commands_or_reads_secrets_unless_an_option_asks_for_it)
{
    static const char *const files[] = {"rbac/role.yaml", "rbac/health.yaml", "rbac/self-test.yaml",
                                        "rbac/sharing.yaml", "rbac/webhook.yaml"};
    static const char *const reading[] = {"get", "list", "watch", "patch", "update", "delete"};
    static const struct kind exec = {.group = "", .plural = "pods/exec"};
    static const struct kind rolebindings = {.group = "rbac.authorization.k8s.io",
                                             .plural = "rolebindings"};
    _cleanup_(arena_done) struct arena arena = {0};

    for (size_t f = 0; f < COUNT_OF(files); f++) {
        struct json_vec roles = read_manifests(&arena, files[f]);

        test_case(files[f]);
        for (size_t i = 0; i < roles.count; i++)
            JSON_FOREACH(json_get(roles.items[i], "rules"), rule) {
                EXPECT(!rule_allows(rule, &exec, "get") && !rule_allows(rule, &exec, "create"));
                EXPECT(!rule_allows(rule, &rolebindings, "create"));
                /* its own certificates have a name */
                for (size_t v = 0; v < COUNT_OF(reading) && !json_get(rule, "resourceNames"); v++)
                    EXPECT(!rule_allows(rule, &kind_secret, reading[v]));
            }
    }
}

/* A link that became a file on the way has a path in it, and grants nothing. */
TEST(the_chart_has_links_to_the_files_that_it_renders)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str folder = str_printf(&arena, "%s/chart/muster/files", DEPLOY_FOLDER);
    DIR *dir = opendir(folder.p);
    struct dirent *item;
    size_t links = 0;

    EXPECT(dir != NULL);
    while (dir && (item = readdir(dir)) != NULL) {
        struct stat st;

        if (item->d_name[0] == '.')
            continue;
        test_case(item->d_name);
        struct str path = str_printf(&arena, STR_FMT "/%s", STR_ARG(folder), item->d_name);
        EXPECT(lstat(path.p, &st) == 0 && S_ISLNK(st.st_mode));
        EXPECT(stat(path.p, &st) == 0 && st.st_size > 0);
        links++;
    }
    if (dir)
        closedir(dir);
    EXPECT(links > 0);
}

/* What could never run is refused when it is written. */
TEST(a_torchrunjob_that_is_stored_has_no_more_pods_than_a_job_may_have)
{
    static const char *const fields[] = {"numNodes", "minNodes", "maxNodes",
                                         "elastic.properties.minNodes",
                                         "elastic.properties.maxNodes"};
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *crd = NULL;

    for (size_t k = 0; k < crd_builtin_count; k++)
        if (str_is(str_from(crd_builtins[k].name), "torchrunjobs.torchrun.ai"))
            EXPECT(json_parse(&arena, (struct str){crd_builtins[k].text, crd_builtins[k].text_len},
                              &crd, NULL) == 0);
    const struct json *spec =
        json_at(crd, "spec.versions.0.schema.openAPIV3Schema.properties.spec.properties");
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        test_case(fields[i]);
        EXPECT(json_i64_or(json_get(json_at(spec, fields[i]), "maximum"), 0) == JOB_PODS_MAX);
    }
}
