#include "store/store_test.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rules_each(void (*rules)(struct harness *harness))
{
    char folder[] = "/tmp/muster-store-XXXXXX";
    char path[64];
    char command[96];
    struct harness harness;

    test_case("in memory");
    harness_open(&harness, NULL);
    rules(&harness);
    harness_close(&harness);

    EXPECT(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    test_case("in a file");
    harness_open(&harness, path);
    rules(&harness);
    harness_close(&harness);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    EXPECT(system(command) == 0);
}

#define POD(name)                                                                                \
    "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":" \
    "\"i\"}]}}"

static void create_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == 0);
    EXPECT(h->created && h->object && h->object->uid.len == 36 && h->object->revision > 0);
    EXPECT(strcmp(harness_text(h, "kind"), "Pod") == 0);
    EXPECT(strcmp(harness_text(h, "apiVersion"), "v1") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.namespace"), "default") == 0);
    EXPECT(strcmp(harness_text(h, "status.phase"), "Pending") == 0);
    EXPECT(strcmp(harness_text(h, "spec.restartPolicy"), "Always") == 0);
    EXPECT(h->object->created_ms > 0);

    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == -EEXIST);
    EXPECT(h->status == 409 && strcmp(h->reason, "AlreadyExists") == 0);
    EXPECT(strcmp(h->text, "pods \"a\" already exists") == 0);

    EXPECT(harness_create(h, &kind_pod, "nowhere", POD("a")) == -ENOENT);
    EXPECT(strcmp(h->text, "namespaces \"nowhere\" not found") == 0);

    EXPECT(harness_create(h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"B!\"},\"spec\":{}}") == -EINVAL);
    EXPECT(h->status == 422 && strstr(h->causes, "metadata.name: Invalid value: \"B!\"") &&
           strstr(h->causes, "spec.containers: Required value"));

    EXPECT(harness_create(h, &kind_configmap, "default",
                          "{\"metadata\":{\"generateName\":\"x-\"},\"data\":{\"k\":\"v\"}}") == 0);
    EXPECT(h->object && h->object->name.len == 7);
    EXPECT(harness_create(h, &kind_configmap, "default", "not json") == -EINVAL &&
           h->status == 400);
    EXPECT(harness_create(h, &kind_configmap, "default", "{\"kind\":\"Pod\"}") == -EINVAL);
    EXPECT(h->status == 400);
}

TEST(create_fills_in_checks_and_refuses)
{
    rules_each(create_rules);
}

static void update_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_configmap, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"v\"}}") == 0);
    char body[512];
    (void)snprintf(
        body, sizeof(body),
        "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"%llu\"},\"data\":{\"k\":\"w\"}}",
        (unsigned long long)h->object->revision);
    struct api_request update = {.verb = API_UPDATE,
                                 .kind = &kind_configmap,
                                 .ns = STR("default"),
                                 .name = STR("a"),
                                 .body = str_from(body)};
    EXPECT(harness_call(h, &update) == 0);
    EXPECT(strcmp(harness_text(h, "data.k"), "w") == 0 && h->object->generation == 0);
    uint64_t revision = h->object->revision;
    EXPECT(harness_call(h, &update) == -EAGAIN);
    EXPECT(h->status == 409 && strcmp(h->reason, "Conflict") == 0);

    EXPECT(harness_patch(h, &kind_configmap, "default", "a", "{\"data\":{\"k\":\"w\"}}") == 0);
    EXPECT(h->object->revision == revision);
    EXPECT(harness_patch(h, &kind_configmap, "default", "a", "{\"data\":{\"l\":\"x\"}}") == 0);
    EXPECT(h->object->revision > revision);
    EXPECT(harness_patch(h, &kind_configmap, "default", "b", "{}") == -ENOENT);
    EXPECT(strcmp(h->text, "configmaps \"b\" not found") == 0);
}

TEST(updates_conflict_and_unchanged_writes_are_none)
{
    rules_each(update_rules);
}

static void status_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == 0);
    EXPECT(
        harness_patch(h, &kind_pod, "default", "a",
                      "{\"metadata\":{\"labels\":{\"x\":\"y\"}},\"status\":{\"phase\":\"Running\"}"
                      "}") == 0);
    EXPECT(strcmp(harness_text(h, "status.phase"), "Pending") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.labels.x"), "y") == 0);
    EXPECT(harness_call(h, &(struct api_request){
                               .verb = API_PATCH,
                               .kind = &kind_pod,
                               .ns = STR("default"),
                               .name = STR("a"),
                               .subresource = STR("status"),
                               .body = STR("{\"spec\":{\"nodeName\":\"n\"},\"status\":{\"phase\":"
                                           "\"Running\"}}")}) == 0);
    EXPECT(strcmp(harness_text(h, "status.phase"), "Running") == 0);
    EXPECT(strcmp(harness_text(h, "spec.nodeName"), "") == 0);
    EXPECT(h->object->generation == 1);
}

TEST(status_is_written_only_through_its_subresource)
{
    rules_each(status_rules);
}

static void list_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_namespace, "", "{\"metadata\":{\"name\":\"other\"}}") == 0);
    EXPECT(harness_create(h, &kind_pod, "other", POD("z")) == 0);
    EXPECT(harness_create(h, &kind_pod, "default", POD("c")) == 0);
    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == 0);
    EXPECT(harness_create(h, &kind_pod, "default", POD("b")) == 0);
    EXPECT(harness_patch(h, &kind_pod, "default", "b",
                         "{\"metadata\":{\"labels\":{\"l\":\"1\"}}}") == 0);
    EXPECT(harness_list(h, &kind_pod, "") == 0 && strcmp(h->names, "a b c z") == 0);
    EXPECT(harness_list(h, &kind_pod, "default") == 0 && strcmp(h->names, "a b c") == 0);
    struct api_request list = {.verb = API_LIST, .kind = &kind_pod, .label_selector = STR("l=1")};
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "b") == 0);
    list = (struct api_request){
        .verb = API_LIST, .kind = &kind_pod, .field_selector = STR("metadata.name!=b")};
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "a c z") == 0);
    list = (struct api_request){.verb = API_LIST, .kind = &kind_pod, .limit = 2};
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "a b") == 0 && h->remaining == 2);
    uint64_t revision = h->revision;
    char token[256];
    (void)snprintf(token, sizeof(token), "%s", h->continue_token);
    EXPECT(harness_delete(h, &kind_pod, "default", "b", "") == 0);
    list.continue_token = str_from(token);
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "c z") == 0);
    EXPECT(h->revision == revision && !h->continue_token[0]);
    list.continue_token = STR("nonsense");
    EXPECT(harness_call(h, &list) == -EINVAL && h->status == 400);
    list = (struct api_request){.verb = API_LIST, .kind = &kind_pod, .label_selector = STR("=")};
    EXPECT(harness_call(h, &list) == -EINVAL && h->status == 400);
}

/* A list in pages is of one moment, whatever happens between them. */
static void page_rules(struct harness *h)
{
    struct api_request list = {.verb = API_LIST, .kind = &kind_configmap, .limit = 2};
    char token[256];

    for (const char *name = "bcdfg"; *name; name++) {
        char body[64];

        (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"%c\"}}", *name);
        EXPECT(harness_create(h, &kind_configmap, "default", body) == 0);
    }
    list.ns = STR("default");
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "b c") == 0);
    uint64_t revision = h->revision;
    (void)snprintf(token, sizeof(token), "%s", h->continue_token);
    EXPECT(harness_delete(h, &kind_configmap, "default", "d", "") == 0);
    EXPECT(harness_delete(h, &kind_configmap, "default", "g", "") == 0);
    EXPECT(harness_create(h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"e\"}}") == 0);
    EXPECT(harness_create(h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"a\"}}") == 0);
    EXPECT(harness_patch(h, &kind_configmap, "default", "f", "{\"data\":{\"x\":\"1\"}}") == 0);
    EXPECT(harness_create(h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"d\"}}") == 0);
    list.continue_token = str_from(token);
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "d f") == 0 && h->remaining == 1);
    EXPECT(h->revision == revision);
    (void)snprintf(token, sizeof(token), "%s", h->continue_token);
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "g") == 0 && !h->continue_token[0]);
    list.limit = 0;
    list.continue_token = STR("");
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "a b c d e f") == 0);
    list.exact_revision = revision;
    EXPECT(harness_call(h, &list) == 0 && strcmp(h->names, "b c d f g") == 0);
    EXPECT(h->revision == revision);
}

TEST(the_pages_of_a_list_are_of_one_moment)
{
    rules_each(page_rules);
}

TEST(lists_are_sorted_selected_and_continued)
{
    rules_each(list_rules);
}

static void delete_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == 0);
    EXPECT(harness_delete(h, &kind_pod, "default", "a",
                          "{\"preconditions\":{\"uid\":\"other\"}}") == -EAGAIN);
    EXPECT(h->status == 409);
    EXPECT(harness_delete(h, &kind_pod, "default", "a", "") == 0);
    EXPECT(harness_get(h, &kind_pod, "default", "a") == -ENOENT);

    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == 0);
    char uid[40];
    (void)snprintf(uid, sizeof(uid), "%s", harness_text(h, "metadata.uid"));
    struct api_binding binding = {.ns = STR("default"),
                                  .pod = STR("a"),
                                  .uid = str_from(uid),
                                  .node = STR("n1"),
                                  .annotations = STR("{\"x\":\"y\"}")};
    EXPECT(harness_bind(h, &binding, 1) == 0);
    EXPECT(harness_get(h, &kind_pod, "default", "a") == 0);
    EXPECT(strcmp(harness_text(h, "spec.nodeName"), "n1") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.annotations.x"), "y") == 0);
    EXPECT(strcmp(harness_text(h, "status.conditions.0.type"), "PodScheduled") == 0);
    EXPECT(harness_bind(h, &binding, 1) == -EAGAIN);

    EXPECT(harness_delete(h, &kind_pod, "default", "a", "") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.deletionGracePeriodSeconds"), "30") == 0);
    EXPECT(harness_get(h, &kind_pod, "default", "a") == 0 && h->object->deleted_ms > 0);
    EXPECT(harness_delete(h, &kind_pod, "default", "a", "{\"gracePeriodSeconds\":0}") == 0);
    EXPECT(harness_get(h, &kind_pod, "default", "a") == -ENOENT);

    EXPECT(harness_create(h, &kind_configmap, "default",
                          "{\"metadata\":{\"name\":\"f\",\"finalizers\":[\"x/y\"]}}") == 0);
    EXPECT(harness_delete(h, &kind_configmap, "default", "f", "") == 0);
    EXPECT(harness_get(h, &kind_configmap, "default", "f") == 0 && h->object->deleted_ms > 0);
    EXPECT(harness_patch(h, &kind_configmap, "default", "f",
                         "{\"metadata\":{\"finalizers\":[\"x/y\",\"new/one\"]}}") == -EINVAL);
    EXPECT(harness_patch(h, &kind_configmap, "default", "f",
                         "{\"metadata\":{\"finalizers\":null}}") == 0);
    EXPECT(harness_get(h, &kind_configmap, "default", "f") == -ENOENT);
    EXPECT(harness_delete(h, &kind_namespace, "", "default", "") == -EPERM && h->status == 403);
}

TEST(deletes_wait_for_grace_and_finalizers)
{
    rules_each(delete_rules);
}

static void gang_rules(struct harness *h)
{
    struct harness_watch watch;

    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == 0);
    EXPECT(harness_create(h, &kind_pod, "default", POD("b")) == 0);
    harness_watch(
        h, &watch,
        &(struct api_watch_request){.kind = &kind_pod, .field_selector = STR("spec.nodeName!=")});
    struct api_binding bindings[] = {
        {.ns = STR("default"), .pod = STR("a"), .node = STR("n1")},
        {.ns = STR("default"), .pod = STR("b"), .uid = STR("another"), .node = STR("n1")}};
    EXPECT(harness_bind(h, bindings, 2) == -EAGAIN);
    EXPECT(harness_get(h, &kind_pod, "default", "a") == 0);
    EXPECT(strcmp(harness_text(h, "spec.nodeName"), "") == 0);
    bindings[1].uid = STR("");
    EXPECT(harness_bind(h, bindings, 2) == 0);
    harness_settle(h);
    EXPECT(strcmp(watch.heard, "= +a +b") == 0);
    api_watch_stop(h->api, watch.watch);
}

TEST(a_gang_is_bound_whole_or_not_at_all)
{
    rules_each(gang_rules);
}

static void owner_rules(struct harness *h)
{
    char body[512];
    static const char *const policies[] = {"", "{\"propagationPolicy\":\"Background\"}",
                                           "{\"propagationPolicy\":\"Foreground\"}",
                                           "{\"propagationPolicy\":\"Orphan\"}"};

    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        EXPECT(harness_create(h, &kind_configmap, "default",
                              "{\"metadata\":{\"name\":\"owner\"}}") == 0);
        (void)snprintf(
            body, sizeof(body),
            "{\"metadata\":{\"name\":\"child\",\"ownerReferences\":[{\"apiVersion\":\"v1\","
            "\"kind\":\"ConfigMap\",\"name\":\"owner\",\"uid\":\"%s\","
            "\"blockOwnerDeletion\":true}]}}",
            harness_text(h, "metadata.uid"));
        EXPECT(harness_create(h, &kind_secret, "default", body) == 0);
        EXPECT(harness_delete(h, &kind_configmap, "default", "owner", policies[i]) == 0);
        harness_settle(h);
        EXPECT(harness_get(h, &kind_configmap, "default", "owner") == -ENOENT);
        EXPECT(harness_get(h, &kind_secret, "default", "child") == (i == 3 ? 0 : -ENOENT));
        /* Born after its owner died. */
        if (i < 3) {
            EXPECT(harness_create(h, &kind_secret, "default", body) == 0);
            harness_settle(h);
            EXPECT(harness_get(h, &kind_secret, "default", "child") == -ENOENT);
        }
    }
}

TEST(dependents_follow_their_owner_by_policy)
{
    rules_each(owner_rules);
}

static void shared_rules(struct harness *h)
{
    char uids[2][64];
    char body[768];

    for (size_t i = 0; i < 2; i++) {
        EXPECT(harness_create(h, &kind_configmap, "default",
                              i ? "{\"metadata\":{\"name\":\"second\"}}"
                                : "{\"metadata\":{\"name\":\"first\"}}") == 0);
        (void)snprintf(uids[i], sizeof(uids[i]), "%s", harness_text(h, "metadata.uid"));
    }
    (void)snprintf(
        body, sizeof(body),
        "{\"metadata\":{\"name\":\"child\",\"ownerReferences\":["
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"first\",\"uid\":\"%s\"},"
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"second\",\"uid\":\"%s\"}"
        "]}}",
        uids[0], uids[1]);
    EXPECT(harness_create(h, &kind_secret, "default", body) == 0);
    EXPECT(harness_delete(h, &kind_configmap, "default", "first", "") == 0);
    harness_settle(h);
    EXPECT(harness_get(h, &kind_secret, "default", "child") == 0);
    EXPECT(harness_delete(h, &kind_configmap, "default", "second", "") == 0);
    harness_settle(h);
    EXPECT(harness_get(h, &kind_secret, "default", "child") == -ENOENT);
}

TEST(a_dependent_of_several_stays_while_one_of_them_lives)
{
    rules_each(shared_rules);
}

#define JOB_SPEC                                                                           \
    "\"template\":{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\"," \
    "\"image\":\"i\"}]}}"

static void generation_rules(struct harness *h)
{
    EXPECT(harness_create(
               h, &kind_job, "default",
               "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"activeDeadlineSeconds\":9," JOB_SPEC
               "}}") == 0);
    EXPECT(h->object->generation == 1);
    EXPECT(harness_patch(h, &kind_job, "default", "j",
                         "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}") == 0);
    EXPECT(h->object->generation == 1);
    EXPECT(harness_patch(h, &kind_job, "default", "j", "{\"spec\":{\"parallelism\":2}}") == 0);
    EXPECT(h->object->generation == 2);
    EXPECT(harness_patch(h, &kind_job, "default", "j",
                         "{\"spec\":{\"activeDeadlineSeconds\":null}}") == 0);
    EXPECT(h->object->generation == 3);
}

TEST(generations_count_changes_of_the_spec_also_what_goes)
{
    rules_each(generation_rules);
}

static void two_owners(struct harness *h)
{
    char uids[2][64];
    char body[512];
    static const char *const names[] = {"goes", "stays"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"%s\"}}", names[i]);
        EXPECT(harness_create(h, &kind_configmap, "default", body) == 0);
        (void)snprintf(uids[i], sizeof(uids[i]), "%s", harness_text(h, "metadata.uid"));
    }
    (void)snprintf(body, sizeof(body),
                   "{\"metadata\":{\"name\":\"child\",\"ownerReferences\":[{\"apiVersion\":\"v1\","
                   "\"kind\":\"ConfigMap\",\"name\":\"goes\",\"uid\":\"%s\",\"blockOwnerDeletion\":"
                   "true},{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"stays\","
                   "\"uid\":\"%s\"}]}}",
                   uids[0], uids[1]);
    EXPECT(harness_create(h, &kind_secret, "default", body) == 0);
    EXPECT(harness_delete(h, &kind_configmap, "default", "goes",
                          "{\"propagationPolicy\":\"Foreground\"}") == 0);
    harness_settle(h);
    EXPECT(harness_get(h, &kind_configmap, "default", "goes") == -ENOENT);
    EXPECT(harness_get(h, &kind_secret, "default", "child") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.ownerReferences.0.name"), "stays") == 0);
}

TEST(a_dependent_with_another_owner_outlives_a_foreground_deletion)
{
    rules_each(two_owners);
}

/* As clients make them: the objects first, and then who owns whom. */
static void circle_rules(struct harness *h)
{
    static const char *const names[] = {"a", "b", "c"};
    char body[512];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"%s\"}}", names[i]);
        EXPECT(harness_create(h, &kind_configmap, "default", body) == 0);
    }
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *owner = names[(i + 2) % 3];

        EXPECT(harness_get(h, &kind_configmap, "default", owner) == 0);
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":"
                       "\"ConfigMap\",\"name\":\"%s\",\"uid\":\"%s\",\"blockOwnerDeletion\":"
                       "true}]}}",
                       owner, harness_text(h, "metadata.uid"));
        EXPECT(harness_patch(h, &kind_configmap, "default", names[i], body) == 0);
    }
    EXPECT(harness_delete(h, &kind_configmap, "default", "a",
                          "{\"propagationPolicy\":\"Foreground\"}") == 0);
    harness_settle(h);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        EXPECT(harness_get(h, &kind_configmap, "default", names[i]) == -ENOENT);
}

TEST(objects_that_own_one_another_in_a_circle_go_together)
{
    rules_each(circle_rules);
}

static void namespace_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_namespace, "", "{\"metadata\":{\"name\":\"team\"}}") == 0);
    EXPECT(strcmp(harness_text(h, "status.phase"), "Active") == 0);
    EXPECT(harness_create(h, &kind_pod, "team", POD("a")) == 0);
    EXPECT(harness_create(h, &kind_configmap, "team",
                          "{\"metadata\":{\"name\":\"f\",\"finalizers\":[\"x/y\"]}}") == 0);
    EXPECT(harness_delete(h, &kind_namespace, "", "team", "") == 0);
    harness_settle(h);
    EXPECT(harness_get(h, &kind_pod, "team", "a") == -ENOENT);
    EXPECT(harness_get(h, &kind_namespace, "", "team") == 0);
    EXPECT(strcmp(harness_text(h, "status.phase"), "Terminating") == 0);
    EXPECT(strcmp(harness_text(h, "status.conditions.0.reason"), "ResourcesDiscovered") == 0);
    EXPECT(strcmp(harness_text(h, "status.conditions.3.type"), "NamespaceContentRemaining") == 0);
    EXPECT(strcmp(harness_text(h, "status.conditions.3.message"),
                  "Some resources are remaining: configmaps. has 1 resource instances") == 0);
    EXPECT(strcmp(harness_text(h, "status.conditions.4.message"),
                  "Some content in the namespace has finalizers remaining: "
                  "x/y in 1 resource instances") == 0);
    EXPECT(harness_create(h, &kind_pod, "team", POD("b")) == -EPERM && h->status == 403);
    EXPECT(harness_patch(h, &kind_configmap, "team", "f", "{\"metadata\":{\"finalizers\":[]}}") ==
           0);
    harness_settle(h);
    EXPECT(harness_get(h, &kind_namespace, "", "team") == -ENOENT);
}

TEST(a_namespace_goes_when_it_is_empty)
{
    rules_each(namespace_rules);
}

static void collection_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_pod, "default", POD("a")) == 0);
    EXPECT(harness_create(h, &kind_pod, "default", POD("b")) == 0);
    struct api_request request = {.verb = API_DELETE_COLLECTION,
                                  .kind = &kind_pod,
                                  .ns = STR("default"),
                                  .field_selector = STR("metadata.name=a")};
    EXPECT(harness_call(h, &request) == 0 && h->item_count == 1);
    EXPECT(harness_list(h, &kind_pod, "default") == 0 && strcmp(h->names, "b") == 0);
}

TEST(a_collection_is_deleted_by_selector)
{
    rules_each(collection_rules);
}

static void dry_run_rules(struct harness *h)
{
    struct api_request request = {.verb = API_CREATE,
                                  .kind = &kind_pod,
                                  .ns = STR("default"),
                                  .body = STR(POD("a")),
                                  .dry_run = true};

    EXPECT(harness_call(h, &request) == 0 && h->object && h->created);
    EXPECT(harness_get(h, &kind_pod, "default", "a") == -ENOENT);
}

TEST(a_dry_run_changes_nothing)
{
    rules_each(dry_run_rules);
}

static void shape_rules(struct harness *h)
{
    static const struct {
        const char *body;
        const char *error; /* NULL: fine */
    } rows[] = {
        {"{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":7}]}}",
         "spec.containers[0].image"},
        {"{\"metadata\":{\"name\":\"a\"},\"spec\":5}", "spec"},
        {"{\"metadata\":{\"name\":\"a\",\"labels\":[1]},\"spec\":{}}", "metadata.labels"},
        {"{\"metadata\":{\"name\":7},\"spec\":{}}", "metadata.name"},
        {"[]", "must be a JSON object"},
        {"kind: Pod", "the object provided is unrecognized (must be of type Pod): the body is not "
                      "JSON: line 1"},
        {"{\"metadata\":{\"name\":\"a\",\"creationTimestamp\":null},\"spec\":{\"containers\":[{"
         "\"name\":\"c\",\"image\":\"i\",\"imagee\":\"i\",\"resources\":{\"limits\":{\"cpu\":0.5}}}"
         "],\"nodeName\":null}}",
         NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].body);
        struct api_request request = {.verb = API_CREATE,
                                      .kind = &kind_pod,
                                      .ns = STR("default"),
                                      .body = str_from(rows[i].body)};
        EXPECT(harness_call(h, &request) == (rows[i].error ? -EINVAL : 0));
        if (rows[i].error)
            EXPECT(h->status == 400 && strstr(h->text, rows[i].error));
        request.strict_fields = true;
        EXPECT(harness_call(h, &request) == -EINVAL && h->status == 400);
    }
    EXPECT(strstr(h->text, "unknown field \"spec.containers[0].imagee\""));
    EXPECT(harness_get(h, &kind_pod, "default", "a") == 0);
    EXPECT(!strstr(harness_text(h, "spec"), "imagee"));

    EXPECT(harness_create(h, &kind_secret, "default",
                          "{\"metadata\":{\"name\":\"s\"},\"stringData\":{\"a\":\"hi\"}}") == 0);
    EXPECT(strcmp(harness_text(h, "data.a"), "aGk=") == 0);
    EXPECT(strcmp(harness_text(h, "stringData"), "") == 0);
    EXPECT(harness_create(h, &kind_secret, "default",
                          "{\"metadata\":{\"name\":\"t\"},\"data\":{\"a\":\"!\"}}") == -EINVAL);
    EXPECT(h->status == 400 && strstr(h->text, "data.a: ") && strstr(h->text, "use stringData"));
}

TEST(built_in_kinds_take_only_what_fits_their_fields)
{
    rules_each(shape_rules);
}

TEST(a_file_opens_again_with_everything_in_it)
{
    char folder[] = "/tmp/muster-store-XXXXXX";
    char path[64];
    char command[96];
    struct harness harness;
    struct harness_watch watch;

    EXPECT(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    harness_open(&harness, path);
    EXPECT(harness_create(&harness, &kind_pod, "default", POD("a")) == 0);
    uint64_t revision = harness.object->revision;
    EXPECT(harness_create(&harness, &kind_pod, "default", POD("b")) == 0);
    EXPECT(harness_delete(&harness, &kind_pod, "default", "a", "") == 0);
    uint64_t last = harness.object->revision;
    EXPECT(harness_patch(&harness, &kind_pod, "default", "b",
                         "{\"metadata\":{\"labels\":{\"l\":\"1\"}}}") == 0);
    EXPECT(harness_patch(&harness, &kind_pod, "default", "b", "{\"metadata\":{\"labels\":null}}") ==
           0);

    struct harness second;
    harness_open(&second, path);
    EXPECT(second.code == -EBUSY && strstr(second.text, "in use"));
    (void)uv_run(&second.loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&second.loop) == 0);
    harness_close(&harness);

    harness_open(&harness, path);
    EXPECT(harness_list(&harness, &kind_pod, "") == 0 && strcmp(harness.names, "b") == 0);
    harness_watch(&harness, &watch,
                  &(struct api_watch_request){.kind = &kind_pod, .from_revision = revision});
    EXPECT(harness_create(&harness, &kind_pod, "default", POD("c")) == 0);
    EXPECT(harness.object->revision > last);
    harness_settle(&harness);
    EXPECT(strcmp(watch.heard, "+b -a ~b ~b +c") == 0);
    api_watch_stop(harness.api, watch.watch);
    harness_watch(&harness, &watch,
                  &(struct api_watch_request){
                      .kind = &kind_pod, .from_revision = revision, .label_selector = STR("l")});
    harness_settle(&harness);
    EXPECT(strcmp(watch.heard, "+b -b") == 0);
    api_watch_stop(harness.api, watch.watch);
    harness_close(&harness);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    EXPECT(system(command) == 0);
}

#define CRITICAL                                                                      \
    "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"priorityClassName\":\"system-cluster" \
    "-critical\",\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"

static void field_rules(struct harness *h)
{
    EXPECT(harness_create(h, &kind_priorityclass, "",
                          "{\"metadata\":{\"name\":\"p\"},\"value\":1000000001}") == -EINVAL);
    EXPECT(h->status == 422 && strstr(h->causes, "value: Forbidden"));
    EXPECT(harness_create(h, &kind_priorityclass, "",
                          "{\"metadata\":{\"name\":\"p\"},\"value\":7}") == 0);
    EXPECT(harness_patch(h, &kind_priorityclass, "", "p", "{\"value\":8}") == -EINVAL);
    EXPECT(strstr(h->causes, "value: Forbidden: field is immutable"));
    EXPECT(harness_create(h, &kind_pdb, "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":1,"
                          "\"maxUnavailable\":1}}") == -EINVAL);
    EXPECT(strstr(h->causes, "cannot be both set"));
    /* A pod gets the priority of its class. */
    EXPECT(harness_create(h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"priorityClassName\":\"p\","
                          "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    EXPECT(strcmp(harness_text(h, "spec.priority"), "7") == 0);
    EXPECT(harness_create(h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"priorityClassName\":\"q\","
                          "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") == -EPERM);
    /* Those of the system are not for everybody who may make pods, or groups of them. */
    EXPECT(harness_create(h, &kind_priorityclass, "",
                          "{\"metadata\":{\"name\":\"system-cluster-critical\"},\"value\":"
                          "2000000000}") == 0);
    EXPECT(harness_create(h, &kind_pod, "default", CRITICAL) == -EPERM && h->status == 403);
    EXPECT(harness_create(h, &kind_podgroup, "default", CRITICAL) == -EPERM && h->status == 403);
    EXPECT(harness_create(h, &kind_pod, "kube-system", CRITICAL) == 0);
    EXPECT(strcmp(harness_text(h, "spec.priority"), "2000000000") == 0);
}

TEST(fields_are_required_and_fixed_and_priorities_come_from_classes)
{
    rules_each(field_rules);
}

#define APPLIED "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","

static void apply_rules(struct harness *h)
{
    struct api_request apply = {.verb = API_PATCH,
                                .kind = &kind_configmap,
                                .ns = STR("default"),
                                .name = STR("a"),
                                .patch = API_PATCH_APPLY,
                                .field_manager = STR("one"),
                                .body = STR(APPLIED "\"data\":{\"x\":\"1\"}}")};

    EXPECT(harness_call(h, &apply) == 0 && h->created);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields.0.manager"), "one") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields.0.fieldsV1"),
                  "{\"f:data\":{\"f:x\":{}}}") == 0);
    uint64_t revision = h->object->revision;
    EXPECT(harness_call(h, &apply) == 0 && !h->created && h->object->revision == revision);

    apply.field_manager = STR("two");
    apply.body = STR(APPLIED "\"data\":{\"x\":\"2\"}}");
    EXPECT(harness_call(h, &apply) == -EAGAIN && h->status == 409);
    EXPECT(strstr(h->causes, ".data.x: conflict with \"one\""));
    apply.force = true;
    EXPECT(harness_call(h, &apply) == 0 && strcmp(harness_text(h, "data.x"), "2") == 0);

    EXPECT(harness_patch(h, &kind_configmap, "default", "a", "{\"data\":{\"x\":\"3\"}}") == 0);
    apply.force = false;
    EXPECT(harness_call(h, &apply) == -EAGAIN);
    EXPECT(harness_patch(h, &kind_configmap, "default", "a",
                         "{\"metadata\":{\"managedFields\":[{}]}}") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields"), "") == 0);
    apply.field_manager = STR("");
    EXPECT(harness_call(h, &apply) == -EINVAL && h->status == 422);

    /* kubectl keeps what its other way of applying compares with. */
    EXPECT(harness_patch(h, &kind_configmap, "default", "a",
                         "{\"metadata\":{\"annotations\":{\"kubectl.kubernetes.io/"
                         "last-applied-configuration\":\"{}\"}}}") == 0);
    apply.field_manager = STR("kubectl");
    apply.body = STR(APPLIED "\"data\":{\"y\":\"1\"}}");
    EXPECT(harness_call(h, &apply) == 0);
    EXPECT(str_contains(h->object->raw, STR("\\\"data\\\":{\\\"y\\\":\\\"1\\\"}")));
}

static void creator_rules(struct harness *h)
{
    struct api_request create = {
        .verb = API_CREATE,
        .kind = &kind_pod,
        .ns = STR("default"),
        .field_manager = STR("kubectl-create"),
        .body = STR(
            "{\"metadata\":{\"name\":\"a\",\"labels\":{\"l\":\"1\"}},\"spec\":{\"containers\":[{"
            "\"name\":\"c\",\"image\":\"i:1\",\"ports\":[{\"containerPort\":80}]}],"
            "\"serviceAccountName\":\"s\",\"tolerations\":[{\"operator\":\"Exists\"}],"
            "\"nodeSelector\":{\"n\":\"1\"}}}")};

    EXPECT(harness_call(h, &create) == 0 && h->created);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields.0.manager"), "kubectl-create") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields.0.operation"), "Update") == 0);
    /* As kube-apiserver writes it: what is atomic is a leaf, what is new is owned itself, and what
     * every pod has (spec and containers) is not. */
    const struct {
        const char *path;
        const char *fields;
    } rows[] = {
        {"f:metadata", "{\"f:labels\":{\"f:l\":{},\".\":{}}}"},
        {"f:spec.f:nodeSelector", "{}"},
        {"f:spec.f:tolerations", "{}"},
        {"f:spec.f:securityContext", "{}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char path[96];

        (void)snprintf(path, sizeof(path), "metadata.managedFields.0.fieldsV1.%s", rows[i].path);
        test_case(path);
        EXPECT(strcmp(harness_text(h, path), rows[i].fields) == 0);
    }
    EXPECT(strstr(harness_text(h, "metadata.managedFields.0.fieldsV1.f:spec.f:containers"),
                  "\"f:ports\":{\"k:{\\\"containerPort\\\":80,\\\"protocol\\\":\\\"TCP\\\"}\":{"
                  "\"f:containerPort\":{},\"f:protocol\":{},\".\":{}},\".\":{}}"));
    EXPECT(harness_patch(h, &kind_pod, "default", "a",
                         "{\"metadata\":{\"labels\":{\"l\":\"2\"}}}") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields.1.manager"), "muster") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields.1.fieldsV1"),
                  "{\"f:metadata\":{\"f:labels\":{\"f:l\":{}}}}") == 0);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields.0.fieldsV1.f:metadata"),
                  "{\"f:labels\":{}}") == 0);

    /* Whoever says no name leaves no trace. */
    create.field_manager = STR("");
    create.body =
        STR("{\"metadata\":{\"name\":\"b\",\"managedFields\":[{\"manager\":\"x\"}]},\"spec\":{"
            "\"containers\":[{\"name\":\"c\",\"image\":\"i:1\"}]}}");
    EXPECT(harness_call(h, &create) == 0 && h->created);
    EXPECT(strcmp(harness_text(h, "metadata.managedFields"), "") == 0);
}

TEST(who_creates_an_object_owns_its_fields)
{
    rules_each(creator_rules);
}

TEST(applies_own_their_fields)
{
    rules_each(apply_rules);
}
