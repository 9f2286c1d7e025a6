#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/cluster/ranks_told.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static struct str quoted(struct arena *arena, const char *text)
{
    char *copy = str_c(arena, str_from(text));

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return str_from(copy);
}

#define STOPPED "{'rank':2,'pid':70,'act':'stopped','since':5,'phase':0,'steps':41"

TEST(what_a_pod_tells_of_its_ranks_becomes_a_patch_of_its_annotation)
{
    static const struct {
        const char *why;
        const char *body;
        size_t ranks; /* of the patch; SIZE_MAX: refused */
        int status;   /* of the refusal; 0: 400 */
    } rows[] = {
        {"a report", "[" STOPPED "}]", 1, 0},
        {"no rank is left", "[]", 0, 0},
        {"what is no report is left out", "[" STOPPED "},{'rank':1},7,null]", 1, 0},
        {"only what is no report", "[{'rank':1,'act':'flying'}]", SIZE_MAX, 422},
        {"no list", STOPPED "}", SIZE_MAX, 422},
        {"a patch of something else", "{'metadata':{'labels':{'a':'b'}}}", SIZE_MAX, 422},
        {"no JSON", "rank 2 is stopped", SIZE_MAX, 0},
        {"no body", "", SIZE_MAX, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct rank_report reports[RANKS_MAX];
        struct str text = STR_NONE;
        struct json *patch = NULL;
        struct err err = {0};

        test_case(rows[i].why);
        int r = ranks_told_patch(&arena, quoted(&arena, rows[i].body), &text, &err);
        EXPECT((r == 0) == (rows[i].ranks != SIZE_MAX));
        EXPECT(err.http_status == rows[i].status);
        EXPECT((r == 0) != (err.text[0] != '\0'));
        if (r)
            continue;
        EXPECT(!json_parse(&arena, text, &patch, NULL));
        struct json *annotations = json_at(patch, "metadata.annotations");
        struct str told = json_str(json_get(annotations, RANKS_ANNOTATION));
        EXPECT(json_count(patch) == 1 && json_count(json_get(patch, "metadata")) == 1 &&
               json_count(annotations) == 1);
        EXPECT(ranks_parse(&arena, told, reports) == rows[i].ranks);
        if (rows[i].ranks)
            EXPECT(reports[0].rank == 2 && reports[0].act == RANK_STOPPED &&
                   reports[0].steps == 41);
    }
}

TEST(members_that_no_report_has_do_not_reach_the_annotation)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str patch = STR_NONE;

    EXPECT(
        !ranks_told_patch(&arena, quoted(&arena, "[" STOPPED ",'note':'harmful'}]"), &patch, NULL));
    EXPECT(str_contains(patch, STR("stopped")) && !str_contains(patch, STR("harmful")));
}

#define AUDIENCE "v1/namespaces/n/pods/p/ranks"
#define REVIEW(user, audience, extra)                                                        \
    "{'status':{'authenticated':true,'audiences':['" audience "'],'user':{'username':'" user \
    "','extra':{" extra "}}}}"
#define BOUND(pod, uid)                                    \
    "'authentication.kubernetes.io/pod-name':['" pod "']," \
    "'authentication.kubernetes.io/pod-uid':['" uid "']"
#define ACCOUNT "system:serviceaccount:n:default"

TEST(a_token_is_good_for_the_pod_that_it_is_bound_to)
{
    static const struct {
        const char *why;
        const char *review;
        bool allowed;
    } rows[] = {
        {"the pod's own", REVIEW(ACCOUNT, AUDIENCE, BOUND("p", "u")), true},
        {"another pod's, for this one's path", REVIEW(ACCOUNT, AUDIENCE, BOUND("q", "u")), false},
        {"a pod's whose name begins alike", REVIEW(ACCOUNT, AUDIENCE, BOUND("p2", "u")), false},
        {"bound to nothing", REVIEW(ACCOUNT, AUDIENCE, ""), false},
        {"a pod without a uid",
         REVIEW(ACCOUNT, AUDIENCE, "'authentication.kubernetes.io/pod-name':['p']"), false},
        {"two pods at once",
         REVIEW(ACCOUNT, AUDIENCE,
                "'authentication.kubernetes.io/pod-name':['p','q'],"
                "'authentication.kubernetes.io/pod-uid':['u']"),
         false},
        {"another audience", REVIEW(ACCOUNT, "v1/namespaces/n/pods/q/ranks", BOUND("p", "u")),
         false},
        {"the pod of that name in another namespace",
         REVIEW("system:serviceaccount:m:default", AUDIENCE, BOUND("p", "u")), false},
        {"no answer", "{}", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str uid = STR_NONE;
        struct json *review = NULL;

        test_case(rows[i].why);
        EXPECT(!json_parse(&arena, quoted(&arena, rows[i].review), &review, NULL));
        EXPECT(ranks_told_allows(review, STR("n"), STR("p"), STR(AUDIENCE), &uid) ==
               rows[i].allowed);
        EXPECT(str_is(uid, rows[i].allowed ? "u" : ""));
        EXPECT(str_is(ranks_told_path(&arena, STR("n"), STR("p")), AUDIENCE));
    }
}

TEST(a_token_that_was_good_is_known_for_a_while_and_no_other_is)
{
    struct ranks_told told = {0};

    EXPECT(!ranks_told_known(&told, STR("a"), STR("token"), 1000).len);
    EXPECT(!ranks_told_may(&told, STR("a"), 1000)); /* nobody knows it */
    ranks_told_learn(&told, STR("a"), STR("token"), STR("u"), 1000);
    EXPECT(str_is(ranks_told_known(&told, STR("a"), STR("token"), 2000), "u"));
    EXPECT(!ranks_told_known(&told, STR("a"), STR("tokem"), 2000).len);
    EXPECT(!ranks_told_known(&told, STR("a"), STR("toke"), 2000).len);
    EXPECT(!ranks_told_known(&told, STR("b"), STR("token"), 2000).len);
    EXPECT(!ranks_told_known(&told, STR("a"), STR("token"), 1000 + RANKS_TOLD_KNOWN_MS).len);
    ranks_told_done(&told);
}

TEST(a_pod_is_heard_once_a_second_whatever_tokens_it_brings)
{
    struct ranks_told told = {0};

    ranks_told_learn(&told, STR("a"), STR("one"), STR("u"), 5000);
    ranks_told_learn(&told, STR("b"), STR("one"), STR("v"), 5000);
    EXPECT(ranks_told_may(&told, STR("a"), 5000));
    EXPECT(!ranks_told_may(&told, STR("a"), 5000 + RANKS_TOLD_MS - 1));
    ranks_told_learn(&told, STR("a"), STR("two"), STR("u"), 5100);
    EXPECT(!ranks_told_may(&told, STR("a"), 5000 + RANKS_TOLD_MS - 1));
    EXPECT(ranks_told_may(&told, STR("b"), 5100));
    EXPECT(ranks_told_may(&told, STR("a"), 5000 + RANKS_TOLD_MS));
    ranks_told_done(&told);
}

TEST(of_too_many_pods_the_one_that_is_silent_for_longest_is_forgotten)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct ranks_told told = {0};

    for (int i = 0; i < RANKS_TOLD_PODS_MAX; i++) {
        struct str audience = str_printf(&arena, "p%d", i);

        ranks_told_learn(&told, audience, STR("t"), STR("u"), 1000);
        EXPECT(ranks_told_may(&told, audience, i == 7 ? 1000 : 2000));
    }
    ranks_told_learn(&told, STR("one more"), STR("t"), STR("u"), 3000);
    EXPECT(!ranks_told_known(&told, STR("p7"), STR("t"), 3000).len);
    EXPECT(ranks_told_known(&told, STR("p8"), STR("t"), 3000).len);
    EXPECT(ranks_told_known(&told, STR("one more"), STR("t"), 3000).len);
    EXPECT(told.pods.count == RANKS_TOLD_PODS_MAX);
    ranks_told_done(&told);
}
