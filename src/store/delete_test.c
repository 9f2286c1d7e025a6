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
