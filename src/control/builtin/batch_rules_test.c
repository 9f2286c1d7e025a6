#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/builtin/batch_job.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static const struct {
    const char *why;
    const char *in;
    const char *out;
} index_cases[] = {
    {"nothing", "", ""},
    {"one", "3", "3"},
    {"two in a row are listed", "3,4", "3,4"},
    {"three in a row are a range", "3,4,5", "3-5"},
    {"mixed", "0,2-4,7", "0,2-4,7"},
    {"past the end is dropped", "1,90-95", "1"},
    {"nonsense is dropped", "x,1,2-y,-", "1"},
};

TEST(completed_indexes_survive_being_written_and_read)
{
    for (size_t i = 0; i < COUNT_OF(index_cases); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        bool done[10] = {false};

        test_case(index_cases[i].why);
        batch_indexes_read(str_from(index_cases[i].in), done, 10);
        EXPECT(str_is(batch_indexes_text(&arena, done, 10), index_cases[i].out));
    }
}

static const struct {
    const char *why;
    const char *policy;
    const char *status;
    enum batch_verdict verdict;
} failure_cases[] = {
    {"no policy: it counts", "{}", "{}", BATCH_COUNT},
    {"listed exit code fails the job",
     "{\"rules\":[{\"action\":\"FailJob\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[42]}}]}",
     "{\"containerStatuses\":[{\"name\":\"a\",\"state\":{\"terminated\":{\"exitCode\":42}}}]}",
     BATCH_FAIL_JOB},
    {"another exit code counts",
     "{\"rules\":[{\"action\":\"FailJob\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[42]}}]}",
     "{\"containerStatuses\":[{\"name\":\"a\",\"state\":{\"terminated\":{\"exitCode\":1}}}]}",
     BATCH_COUNT},
    {"NotIn looks at failures only",
     "{\"rules\":[{\"action\":\"FailJob\",\"onExitCodes\":{\"operator\":\"NotIn\",\"values\":[42]}}"
     "]}",
     "{\"containerStatuses\":[{\"name\":\"a\",\"state\":{\"terminated\":{\"exitCode\":0}}},"
     "{\"name\":\"b\",\"state\":{\"terminated\":{\"exitCode\":42}}}]}",
     BATCH_COUNT},
    {"a rule for another container does not match",
     "{\"rules\":[{\"action\":\"FailJob\",\"onExitCodes\":{\"containerName\":\"b\",\"operator\":"
     "\"In\",\"values\":[42]}}]}",
     "{\"containerStatuses\":[{\"name\":\"a\",\"state\":{\"terminated\":{\"exitCode\":42}}}]}",
     BATCH_COUNT},
    {"a disruption is ignored",
     "{\"rules\":[{\"action\":\"Ignore\",\"onPodConditions\":[{\"type\":\"DisruptionTarget\"}]}]}",
     "{\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\"}]}", BATCH_IGNORE},
    {"a condition of that type with another status does not match",
     "{\"rules\":[{\"action\":\"FailJob\",\"onPodConditions\":[{\"type\":\"Other\"},{\"type\":"
     "\"Mine\",\"status\":\"False\"}]}]}",
     "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"},{\"type\":\"Mine\",\"status\":"
     "\"True\"}]}",
     BATCH_COUNT},
    {"one with the status that is named does",
     "{\"rules\":[{\"action\":\"FailJob\",\"onPodConditions\":[{\"type\":\"Mine\",\"status\":"
     "\"False\"}]}]}",
     "{\"conditions\":[{\"type\":\"Mine\",\"status\":\"False\"}]}", BATCH_FAIL_JOB},
    {"a rule for that container",
     "{\"rules\":[{\"action\":\"FailIndex\",\"onExitCodes\":{\"containerName\":\"b\",\"operator\":"
     "\"In\",\"values\":[42]}}]}",
     "{\"containerStatuses\":[{\"name\":\"a\",\"state\":{\"terminated\":{\"exitCode\":42}}}],"
     "\"initContainerStatuses\":[{\"name\":\"b\",\"state\":{\"terminated\":{\"exitCode\":42}}}]}",
     BATCH_FAIL_INDEX},
    {"the first rule that matches decides",
     "{\"rules\":[{\"action\":\"Count\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[42]}},"
     "{\"action\":\"FailJob\",\"onExitCodes\":{\"operator\":\"In\",\"values\":[42]}}]}",
     "{\"containerStatuses\":[{\"name\":\"a\",\"state\":{\"terminated\":{\"exitCode\":42}}}]}",
     BATCH_COUNT},
};

TEST(pod_failure_policy_decides_what_a_failure_means)
{
    for (size_t i = 0; i < COUNT_OF(failure_cases); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(object_unrefp) struct object *object = NULL;
        struct str text = str_printf(&arena, "{\"metadata\":{\"name\":\"p\"},\"status\":%s}",
                                     failure_cases[i].status);
        struct json *policy = NULL;
        struct str words = STR_NONE;

        test_case(failure_cases[i].why);
        EXPECT(json_parse(&arena, str_from(failure_cases[i].policy), &policy, NULL) == 0);
        EXPECT(object_new(&kind_pod, text, &object, NULL) == 0);
        if (!object)
            continue;
        struct batch_pod pod = {.object = object, .tree = object_json(object, &arena)};
        EXPECT(batch_failure_verdict(policy, &pod, &arena, &words) == failure_cases[i].verdict);
        EXPECT((words.len > 0) == (failure_cases[i].verdict == BATCH_FAIL_JOB));
    }
}

static const struct {
    const char *why;
    const char *policy;
    bool met;
} success_cases[] = {
    {"no rule", "{}", false},
    {"the named index is done", "{\"rules\":[{\"succeededIndexes\":\"1\"}]}", true},
    {"one of the named is missing", "{\"rules\":[{\"succeededIndexes\":\"0-1\"}]}", false},
    {"enough of the named", "{\"rules\":[{\"succeededIndexes\":\"0-1\",\"succeededCount\":1}]}",
     true},
    {"enough of all", "{\"rules\":[{\"succeededCount\":2}]}", true},
    {"not enough of all", "{\"rules\":[{\"succeededCount\":3}]}", false},
    {"any rule suffices", "{\"rules\":[{\"succeededIndexes\":\"0\"},{\"succeededIndexes\":\"3\"}]}",
     true},
};

TEST(success_policy_is_met_by_any_of_its_rules)
{
    const bool completed[4] = {false, true, false, true};

    for (size_t i = 0; i < COUNT_OF(success_cases); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *policy = NULL;

        test_case(success_cases[i].why);
        EXPECT(json_parse(&arena, str_from(success_cases[i].policy), &policy, NULL) == 0);
        EXPECT(batch_success(policy, completed, 4) == success_cases[i].met);
    }
}
