#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/cluster/progress.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static struct str quoted(struct arena *arena, const char *text)
{
    char *copy = str_c(arena, str_from(text));

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return str_from(copy);
}

TEST(what_a_training_tells_becomes_a_patch_of_its_status)
{
    static const struct {
        const char *why;
        const char *body;
        const char *patch; /* NULL: refused */
        int status;        /* of the refusal; 0: 400 */
    } rows[] = {
        {"told as it is, with the moment", "{'trainerStatus':{'progressPercentage':42}}",
         "{'status':{'trainerStatus':{'progressPercentage':42,"
         "'lastUpdatedTime':'1970-01-01T00:00:01Z'}}}",
         0},
        {"a moment of its own stays", "{'trainerStatus':{'lastUpdatedTime':'x'}}",
         "{'status':{'trainerStatus':{'lastUpdatedTime':'x'}}}", 0},
        {"nothing else of the status can be written",
         "{'trainerStatus':{},'conditions':[],'status':{'conditions':[]}}",
         "{'status':{'trainerStatus':{'lastUpdatedTime':'1970-01-01T00:00:01Z'}}}", 0},
        {"nothing is told", "{}", NULL, 422},
        {"null takes nothing away", "{'trainerStatus':null}", NULL, 422},
        {"no object", "[]", NULL, 422},
        {"no JSON", "trainerStatus", NULL, 0},
        {"no body", "", NULL, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str patch = STR_NONE;
        struct err err = {0};

        test_case(rows[i].why);
        int r = progress_patch(&arena, quoted(&arena, rows[i].body), 1000, &patch, &err);
        EXPECT((r == 0) == (rows[i].patch != NULL));
        EXPECT(err.http_status == rows[i].status);
        if (rows[i].patch)
            EXPECT(str_eq(patch, quoted(&arena, rows[i].patch)));
        else
            EXPECT(err.text[0]);
    }
}

#define AUDIENCE "trainer.kubeflow.org/v1alpha1/namespaces/n/trainjobs/tj/status"
#define REVIEW(user, audiences) \
    "{'status':{'authenticated':true,'audiences':[" audiences "],'user':{'username':'" user "'}}}"

TEST(a_token_is_good_for_the_trainjob_that_it_names_and_from_its_namespace)
{
    static const struct {
        const char *why;
        const char *review;
        bool allowed;
    } rows[] = {
        {"a pod's", REVIEW("system:serviceaccount:n:default", "'" AUDIENCE "'"), true},
        {"one of several audiences", REVIEW("system:serviceaccount:n:a", "'x','" AUDIENCE "'"),
         true},
        {"another audience", REVIEW("system:serviceaccount:n:default", "'x'"), false},
        {"an authenticator without audiences", REVIEW("system:serviceaccount:n:default", ""),
         false},
        {"another namespace", REVIEW("system:serviceaccount:m:default", "'" AUDIENCE "'"), false},
        {"a namespace that begins alike", REVIEW("system:serviceaccount:n2:d", "'" AUDIENCE "'"),
         false},
        {"a namespace and no account", REVIEW("system:serviceaccount:n", "'" AUDIENCE "'"), false},
        {"no service account", REVIEW("n", "'" AUDIENCE "'"), false},
        {"not authenticated",
         "{'status':{'authenticated':false,'audiences':['" AUDIENCE
         "'],'user':{'username':'system:serviceaccount:n:default'}}}",
         false},
        {"no answer", "{}", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *review = NULL;

        test_case(rows[i].why);
        EXPECT(!json_parse(&arena, quoted(&arena, rows[i].review), &review, NULL));
        EXPECT(progress_allows(review, STR("n"), STR(AUDIENCE)) == rows[i].allowed);
        EXPECT(str_is(progress_path(&arena, STR("n"), STR("tj")), AUDIENCE));
    }
}
