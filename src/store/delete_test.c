#include "api/kind.h"
#include "base/count.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Also one that says the same: somebody who deletes again and again must not keep a pod alive. */
TEST(a_second_delete_hurries_the_first_and_never_holds_it_up)
{
    static const struct {
        const char *options;
        const char *ends; /* after NOW and the seconds that have passed */
        const char *why;
    } rows[] = {
        {"{\"gracePeriodSeconds\":30}", "2027-01-15T08:00:30Z", "it begins to end"},
        {"{\"gracePeriodSeconds\":30}", "2027-01-15T08:00:30Z", "said again, five seconds later"},
        {"{\"gracePeriodSeconds\":60}", "2027-01-15T08:00:30Z", "as late as that it need not be"},
        {"{\"gracePeriodSeconds\":10}", "2027-01-15T08:00:25Z", "sooner"},
    };
    struct harness h;

    harness_open_at(&h, INT64_C(1800000000000));
    EXPECT(harness_create(&h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"nodeName\":\"n\","
                          "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(harness_delete(&h, &kind_pod, "default", "a", rows[i].options) == 0);
        EXPECT(strcmp(harness_text(&h, "metadata.deletionTimestamp"), rows[i].ends) == 0);
        h.now_ms += 5000;
    }
    harness_close(&h);
}

/* The path of the first cause, or nothing; what it is about stays. */
TEST(options_of_a_delete_that_mean_nothing_are_refused)
{
    static const struct {
        const char *options;
        int status;
        const char *cause;
        const char *why;
    } rows[] = {
        {"{\"propagationPolicy\":\"Nothing\"}", 422, "propagationPolicy", "no policy"},
        {"{\"propagationPolicy\":\"Orphan\",\"orphanDependents\":true}", 422, "propagationPolicy",
         "said twice"},
        {"{\"dryRun\":[\"Some\"]}", 422, "dryRun", "no way to try"},
        {"{\"gracePeriodSeconds\":\"0\"}", 400, "", "a text"},
        {"{\"propagationPolicy\":7}", 400, "", "a number"},
        {"[]", 400, "", "a list"},
        {"{\"kind\":\"Pod\"}", 400, "", "another kind"},
        {"{\"dryRun\":[\"All\"],\"orphanDependents\":false}", 0, "", "a trial"},
        {"null", 0, "", "nothing said"},
    };
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"a\"}}") == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        (void)harness_delete(&h, &kind_configmap, "default", "a", rows[i].options);
        EXPECT(h.status == rows[i].status);
        EXPECT(strncmp(h.causes, rows[i].cause, strlen(rows[i].cause)) == 0);
    }
    EXPECT(harness_get(&h, &kind_configmap, "default", "a") < 0);
    harness_close(&h);
}

TEST(less_than_no_time_to_end_is_the_least_there_is)
{
    struct harness h;

    harness_open_at(&h, INT64_C(1800000000000));
    EXPECT(harness_create(&h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"nodeName\":\"n\","
                          "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    EXPECT(harness_delete(&h, &kind_pod, "default", "a", "{\"gracePeriodSeconds\":-5}") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.deletionTimestamp"), "2027-01-15T08:00:01Z") == 0);
    harness_close(&h);
}
