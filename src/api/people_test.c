#include "api/kind.h"
#include "api/object.h"
#include "api/people.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

static struct object *person_space(const char *uid)
{
    struct arena arena = {0};
    struct object *object = NULL;
    struct str raw = str_printf(
        &arena,
        "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"a\",\"uid\":\"u\","
        "\"annotations\":{\"torchrun.ai/person\":\"alice\",\"torchrun.ai/person-uid\":\"%s\","
        "\"torchrun.ai/person-gid\":\"1001\",\"torchrun.ai/person-groups\":\"1001,27\","
        "\"torchrun.ai/person-home\":\"/home/alice\",\"torchrun.ai/person-paths\":\"/data,/x\","
        "\"torchrun.ai/person-ports\":\"8000-8002,9000\","
        "\"torchrun.ai/person-queue\":\"vision\"}}}",
        uid);
    EXPECT(object_new(&kind_namespace, raw, &object, NULL) == 0);
    arena_done(&arena);
    return object;
}

TEST(people_get_what_is_theirs_and_nothing_else)
{
    static const struct {
        const char *spec;
        const char *why; /* NULL: fine */
    } rows[] = {
        {"{}", NULL},
        {"{'securityContext':{'runAsUser':1001,'runAsGroup':27,'fsGroup':1001}}", NULL},
        {"{'securityContext':{'runAsUser':1002}}", "runAsUser 1002"},
        {"{'securityContext':{'runAsUser':0}}", "runAsUser 0"},
        {"{'securityContext':{'runAsGroup':0}}", "runAsGroup 0"},
        {"{'securityContext':{'fsGroup':1002}}", "fsGroup 1002"},
        {"{'securityContext':{'supplementalGroups':[27,6]}}", "supplementalGroups 6"},
        {"{'hostNetwork':true}", "spec.hostNetwork"},
        {"{'hostPID':true}", "spec.hostPID"},
        {"{'hostIPC':true}", "spec.hostIPC"},
        {"{'containers':[{'name':'c','securityContext':{'runAsUser':0}}]}", "runAsUser 0"},
        {"{'initContainers':[{'name':'c','securityContext':{'privileged':true}}]}", "privileged"},
        {"{'containers':[{'name':'c','securityContext':{'capabilities':{'add':['CHOWN']}}}]}",
         "capabilities.add"},
        {"{'containers':[{'name':'c','securityContext':{'capabilities':{'drop':['ALL']}}}]}", NULL},
        {"{'containers':[{'name':'c','securityContext':{'seccompProfile':{'type':'Unconfined'}}}]}",
         "Unconfined"},
        {"{'containers':[{'name':'c','securityContext':{'procMount':'Unmasked'}}]}", "procMount"},
        {"{'containers':[{'name':'c','ports':[{'containerPort':80}]}]}", NULL},
        {"{'containers':[{'name':'c','ports':[{'containerPort':80,'hostPort':8002}]}]}", NULL},
        {"{'containers':[{'name':'c','ports':[{'hostPort':9000},{'hostPort':8003}]}]}",
         "container c: ports: hostPort 8003: alice may have those that `muster user add --ports`"},
        {"{'initContainers':[{'name':'c','ports':[{'hostPort':53,'protocol':'UDP'}]}]}",
         "hostPort 53"},
        {"{'volumes':[{'name':'v','emptyDir':{}}]}", NULL},
        {"{'volumes':[{'name':'v','hostPath':{'path':'/home/alice'}}]}", NULL},
        {"{'volumes':[{'name':'v','hostPath':{'path':'/data/sets/x'}}]}", NULL},
        {"{'volumes':[{'name':'v','hostPath':{'path':'/home/bob'}}]}", "hostPath /home/bob"},
        {"{'volumes':[{'name':'v','hostPath':{'path':'/home/alice2'}}]}", "/home/alice2"},
        {"{'volumes':[{'name':'v','hostPath':{'path':'/home/alice/../bob'}}]}", "/home/alice/../"},
        {"{'volumes':[{'name':'v','hostPath':{'path':'/'}}]}", "hostPath /"},
    };
    _cleanup_(object_unrefp) struct object *space = person_space("1001");
    struct person person;
    EXPECT(person_of(space, &person) && person.uid == 1001 && person.group_count == 2);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *spec = NULL;
        test_case(rows[i].spec);
        struct str text = str_dup(&arena, str_from(rows[i].spec));
        for (size_t k = 0; k < text.len; k++)
            if (text.p[k] == '\'')
                *(char *)(uintptr_t)(text.p + k) = '"';
        EXPECT(json_parse(&arena, text, &spec, NULL) == 0);
        struct str why = person_refuses_pod(&arena, &person, spec);
        EXPECT(rows[i].why ? str_contains(why, str_from(rows[i].why)) : !why.len);
        arena_done(&arena);
    }
}

TEST(people_use_their_own_queue)
{
    static const struct {
        const char *object;
        bool refused;
    } rows[] = {
        {"{}", false},
        {"{\"metadata\":{\"labels\":{\"kai.scheduler/queue\":\"vision\"}}}", false},
        {"{\"metadata\":{\"labels\":{\"kai.scheduler/queue\":\"speech\"}}}", true},
        {"{\"metadata\":{\"labels\":{\"runai/queue\":\"speech\"}}}", true},
        {"{\"spec\":{\"queue\":\"speech\"}}", true},
        {"{\"spec\":{\"queue\":\"vision\"}}", false},
    };
    _cleanup_(object_unrefp) struct object *space = person_space("1001");
    struct person person;
    EXPECT(person_of(space, &person));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *object = NULL;
        test_case(rows[i].object);
        EXPECT(json_parse(&arena, str_from(rows[i].object), &object, NULL) == 0);
        EXPECT((person_refuses_queue(&arena, &person, object).len > 0) == rows[i].refused);
        arena_done(&arena);
    }
}

TEST(people_without_a_number_may_do_nothing)
{
    static const char *const uids[] = {"0", "", "-1", "x", "4294967295"};
    for (size_t i = 0; i < COUNT_OF(uids); i++) {
        struct arena arena = {0};
        _cleanup_(object_unrefp) struct object *space = person_space(uids[i]);
        struct person person;
        test_case(uids[i]);
        EXPECT(person_of(space, &person));
        EXPECT(person_refuses_pod(&arena, &person, json_new_object(&arena)).len > 0);
        arena_done(&arena);
    }
}

TEST(ports_that_people_are_given_are_not_the_owners_or_the_services)
{
    static const struct {
        const char *text;
        size_t count; /* SIZE_MAX: refused */
    } rows[] = {
        {"", 0},
        {"8000", 1},
        {"8000-8010,9000,40000-65535", 3},
        {"1024-29999,32768-65535", 2},
        {"80", SIZE_MAX},
        {"1000-2000", SIZE_MAX},
        {"8000-65536", SIZE_MAX},
        {"29999-32768", SIZE_MAX}, /* all nodePorts are in it */
        {"31000", SIZE_MAX},
        {"8010-8000", SIZE_MAX},
        {"8000-", SIZE_MAX},
        {"-8000", SIZE_MAX},
        {"http", SIZE_MAX},
        {"1025,1026,1027,1028,1029,1030,1031,1032,1033,1034,1035,1036,1037,1038,1039,1040,1041",
         SIZE_MAX},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct person_ports ports;

        test_case(rows[i].text);
        EXPECT(person_ports_parse(str_from(rows[i].text), &ports) == (rows[i].count != SIZE_MAX));
        EXPECT(rows[i].count == SIZE_MAX || ports.count == rows[i].count);
    }
}

TEST(a_person_does_not_search_folders_that_her_pods_cannot_see)
{
    static const struct {
        const char *why;
        const char *path;
        const char *hers;
    } rows[] = {
        {"the system's stay", "/usr/bin:/bin", "/usr/bin:/bin"},
        {"root's go", "/root/.local/bin:/root:/usr/bin:/rooted/bin", "/usr/bin:/rooted/bin"},
        {"somebody else's go, her own stay", "/home/bob/bin:/home/alice/bin:/home/alice:/bin",
         "/home/alice/bin:/home/alice:/bin"},
        {"one whose name begins alike is not hers", "/home/alicia/bin:/bin", "/bin"},
        {"an empty one would be the working folder", ":/bin:", "/bin"},
        {"and never none at all", "/root/bin", "/usr/local/bin:/usr/bin:/bin"},
    };
    const struct person alice = {.home = STR("/home/alice")};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(person_search_path(&arena, &alice, str_from(rows[i].path)), rows[i].hers));
    }
}
