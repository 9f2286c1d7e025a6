#include "api/api.h"
#include "api/kind.h"
#include "base/err.h"
#include "kube/refusals.h"
#include "test.h"

#include <string.h>

static struct err answer(int status, const char *text)
{
    struct err err = {0};

    (void)err_set(&err, -1, "%s", text);
    err.http_status = status;
    return err;
}

TEST(refusals_a_right_is_missing_until_the_same_request_succeeds)
{
    struct refusals refusals = {0};
    struct err refused = answer(403, "cannot list resource \"secrets\"");
    struct err again = answer(403, "cannot watch resource \"secrets\"");

    refusals_note(&refusals, REFUSALS_WATCH, &kind_secret, false, &refused);
    refusals_note(&refusals, REFUSALS_WATCH, &kind_secret, false, &again);
    EXPECT(refusals.count == 1);
    EXPECT(strcmp(refusals.items[0].text, "cannot watch resource \"secrets\"") == 0);
    refusals_note(&refusals, API_CREATE, &kind_secret, false, NULL);
    refusals_note(&refusals, REFUSALS_WATCH, &kind_pod, false, NULL);
    refusals_note(&refusals, REFUSALS_WATCH, &kind_secret, true, NULL);
    EXPECT(refusals.count == 1);
    refusals_note(&refusals, REFUSALS_WATCH, &kind_secret, false, NULL);
    EXPECT(refusals.count == 0);
}

TEST(refusals_only_a_403_is_a_missing_right)
{
    struct refusals refusals = {0};
    struct err missing = answer(404, "not found");
    struct err silent = answer(0, "no answer");

    refusals_note(&refusals, API_GET, &kind_pod, false, &missing);
    refusals_note(&refusals, API_GET, &kind_pod, false, &silent);
    EXPECT(refusals.count == 0);
}

TEST(refusals_keep_what_was_refused_first_when_there_is_no_room)
{
    struct refusals refusals = {0};
    struct err refused = answer(403, "forbidden");

    for (int verb = 0; verb < REFUSALS_MAX + 4; verb++)
        refusals_note(&refusals, verb, &kind_pod, false, &refused);
    EXPECT(refusals.count == REFUSALS_MAX);
    EXPECT(refusals.items[REFUSALS_MAX - 1].verb == REFUSALS_MAX - 1);
}
