#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define NOTE  "muster.dev/submitted-by"
#define QUEUE "\"spec\":{\"jobQueue\":\"default\",\"command\":\"true\",\"numGPUs\":1}"

static int make(struct harness *h,
                const char *ns,
                const char *name,
                const char *more,
                const char *who)
{
    char body[1024];
    struct api_user user = {.name = str_from(who ? who : "")};

    (void)snprintf(body, sizeof(body), "{\"metadata\":{\"name\":\"%s\"%s}," QUEUE "}", name, more);
    return harness_call(h, &(struct api_request){.verb = API_CREATE,
                                                 .kind = &kind_torchrunjob,
                                                 .ns = str_from(ns),
                                                 .user = who ? &user : NULL,
                                                 .body = str_from(body)});
}

static int update(struct harness *h,
                  const char *ns,
                  const char *name,
                  const char *who,
                  const char *body)
{
    struct api_user user = {.name = str_from(who)};

    return harness_call(h, &(struct api_request){.verb = API_PATCH,
                                                 .kind = &kind_torchrunjob,
                                                 .ns = str_from(ns),
                                                 .name = str_from(name),
                                                 .user = &user,
                                                 .patch = API_PATCH_MERGE,
                                                 .body = str_from(body)});
}

static bool is_charged(const struct harness *h, const char *who)
{
    return str_is(object_annotation(h->object, NOTE), who);
}

TEST(a_job_is_charged_to_who_made_it)
{
    static const struct {
        const char *why;
        const char *ns;
        const char *more;
        const char *who;
        const char *maker;
    } rows[] = {
        {"whoever that is", "lab", "", "jo", "jo"},
        {"a person by the name that the administrator gave", "lab", "",
         "system:serviceaccount:muster-people:alice", "alice"},
        {"not whom the request names", "lab", ",\"annotations\":{\"" NOTE "\":\"bob\"}", "jo",
         "jo"},
        {"a label charges nobody", "lab", ",\"labels\":{\"user\":\"bob\"}", "jo", "jo"},
        {"what runs in her namespace is hers", "alice", "", "system:serviceaccount:alice:default",
         "alice"},
        {"elsewhere an account is itself", "lab", "", "system:serviceaccount:lab:bot",
         "system:serviceaccount:lab:bot"},
    };
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_namespace, "", "{\"metadata\":{\"name\":\"lab\"}}") == 0);
    EXPECT(harness_create(&h, &kind_namespace, "",
                          "{\"metadata\":{\"name\":\"alice\",\"annotations\":{"
                          "\"torchrun.ai/person\":\"alice\",\"torchrun.ai/person-uid\":\"5001\","
                          "\"torchrun.ai/person-gid\":\"5001\"}}}") == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char name[16];

        test_case(rows[i].why);
        (void)snprintf(name, sizeof(name), "job-%zu", i);
        EXPECT(make(&h, rows[i].ns, name, rows[i].more, rows[i].who) == 0);
        EXPECT(is_charged(&h, rows[i].maker));
        /* Nor later. */
        EXPECT(update(&h, rows[i].ns, name, "eve",
                      "{\"metadata\":{\"annotations\":{\"" NOTE "\":\"bob\"}}}") == 0);
        EXPECT(is_charged(&h, rows[i].maker));
        EXPECT(update(&h, rows[i].ns, name, "eve",
                      "{\"metadata\":{\"annotations\":{\"" NOTE "\":null}}}") == 0);
        EXPECT(is_charged(&h, rows[i].maker));
    }
    harness_close(&h);
}

TEST(a_job_of_an_array_is_charged_as_that)
{
    struct harness h;
    char more[256];

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_namespace, "", "{\"metadata\":{\"name\":\"lab\"}}") == 0);
    EXPECT(make(&h, "lab", "array", "", "jo") == 0);
    (void)snprintf(more, sizeof(more),
                   ",\"ownerReferences\":[{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":"
                   "\"TorchrunJob\",\"name\":\"array\",\"uid\":\"%s\",\"controller\":true}]",
                   harness_text(&h, "metadata.uid"));
    EXPECT(make(&h, "lab", "array-0", more, NULL) == 0);
    EXPECT(is_charged(&h, "jo"));
    /* Who says that it is of another's, is charged all the same. */
    EXPECT(make(&h, "lab", "array-1", more, "eve") == 0);
    EXPECT(is_charged(&h, "eve"));
    harness_close(&h);
}
