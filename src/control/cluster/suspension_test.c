#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "control/cluster/suspension.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

#define STARTED "2026-01-01T10:00:00Z"
#define SHARE   "'gpu-fraction':'0.5'"
#define READY   SHARE ",'muster.dev/may-be-suspended':'true'"
#define RUNS    "'state':{'running':{'startedAt':'" STARTED "'}}"
#define AWAY    "40 MiB are in host memory, in container c that was started at " STARTED

static struct object *pod_of(const char *annotations,
                             const char *inits,
                             const char *state,
                             const char *condition)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct object *pod = NULL;
    char *text =
        str_c(&arena, str_printf(&arena,
                                 "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p',"
                                 "'namespace':'n','uid':'u','annotations':{%s}},'spec':{"
                                 "'nodeName':'a','initContainers':[%s],'containers':[{'name':'c'}]}"
                                 ",'status':{'phase':'Running','containerStatuses':[{'name':'c',%s}"
                                 "],'conditions':[{'type':'Ready','status':'True'}%s]}}",
                                 annotations, inits, state, condition));

    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    EXPECT(!object_new(&kind_pod, str_from(text), &pod, NULL));
    return pod;
}

#define CONDITION(status, reason, message) \
    ",{'type':'Suspended','status':'" status "','reason':'" reason "','message':'" message "'}"

TEST(a_pod_on_a_cluster_is_suspended_step_by_step_as_annotation_and_condition_say)
{
    static const struct {
        const char *why;
        const char *annotations;
        const char *state;
        const char *condition;
        enum suspension_step step;
    } rows[] = {
        {"nobody asked", READY, RUNS, "", SUSPENSION_NONE},
        {"asked", READY ",'muster.dev/suspend':'yield'", RUNS, "", SUSPENSION_OUT},
        {"asked, by hand", READY ",'muster.dev/suspend':'hold'", RUNS,
         CONDITION("False", "Resumed", ""), SUSPENSION_OUT},
        {"its operator ended in the middle of it", READY ",'muster.dev/suspend':'yield'", RUNS,
         CONDITION("False", "Suspending", ""), SUSPENSION_OUT},
        {"its container is not there yet", READY ",'muster.dev/suspend':'hold'",
         "'state':{'waiting':{}}", "", SUSPENSION_NONE},
        {"not prepared", SHARE ",'muster.dev/suspend':'hold'", RUNS, "", SUSPENSION_REFUSE},
        {"a whole GPU", "'muster.dev/suspend':'hold'", RUNS, "", SUSPENSION_REFUSE},
        {"refused, and said so", SHARE ",'muster.dev/suspend':'hold'", RUNS,
         CONDITION("False", "SuspendFailed", "x"), SUSPENSION_NONE},
        {"failed, and others wait", READY ",'muster.dev/suspend':'yield'", RUNS,
         CONDITION("False", "SuspendFailed", "x"), SUSPENSION_EVICT},
        {"failed, and nobody asks any more", READY, RUNS, CONDITION("False", "SuspendFailed", "x"),
         SUSPENSION_SETTLE},
        {"suspended", READY ",'muster.dev/suspend':'yield'", RUNS,
         CONDITION("True", "Checkpointed", AWAY), SUSPENSION_NONE},
        {"suspended, and its container was started anew", READY ",'muster.dev/suspend':'yield'",
         "'state':{'running':{'startedAt':'2026-01-01T10:00:09Z'}}",
         CONDITION("True", "Checkpointed", AWAY), SUSPENSION_EVICT},
        {"suspended, and its container ended", READY ",'muster.dev/suspend':'hold'",
         "'state':{'waiting':{}}", CONDITION("True", "Checkpointed", AWAY), SUSPENSION_EVICT},
        {"it has its share again", READY, RUNS, CONDITION("True", "Checkpointed", AWAY),
         SUSPENSION_IN},
        {"its operator ended on the way back", READY, RUNS, CONDITION("True", "Resuming", AWAY),
         SUSPENSION_IN},
        {"taken back on the way out", READY, RUNS, CONDITION("False", "Suspending", ""),
         SUSPENSION_IN},
        {"asked again on the way back", READY ",'muster.dev/suspend':'hold'", RUNS,
         CONDITION("True", "Resuming", AWAY), SUSPENSION_OUT},
        {"a new container has nothing to be put back", READY,
         "'state':{'running':{'startedAt':'2026-01-01T10:00:09Z'}}",
         CONDITION("True", "Checkpointed", AWAY), SUSPENSION_SETTLE},
        {"it runs", READY, RUNS, CONDITION("False", "Resumed", ""), SUSPENSION_NONE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(object_unrefp) struct object *pod =
            pod_of(rows[i].annotations, "", rows[i].state, rows[i].condition);
        struct suspension got = suspension_decide(pod, &arena);

        if (got.step != rows[i].step)
            test_fail(__FILE__, __LINE__, rows[i].why);
        if (got.step == SUSPENSION_OUT)
            EXPECT(str_is(got.container, "c") && str_is(got.started, STARTED));
    }
}

TEST(a_pod_is_prepared_for_suspension_where_it_may_be_and_has_the_library_and_one_device)
{
    static const char library[] = "{'name':'muster-gpu'}";
    static const struct {
        const char *why;
        const char *annotations;
        const char *inits;
        bool may;
        bool prepared;
    } rows[] = {
        {"its queue or job says so", SHARE, library, true, true},
        {"nobody says so", SHARE, library, false, false},
        {"it says so itself", SHARE ",'muster.dev/gpu-copy':'library'", library, false, true},
        {"its program cannot have it", SHARE ",'muster.dev/gpu-copy':'driver'", library, true,
         false},
        {"no library: shares are no limits here", SHARE, "", true, false},
        {"a whole GPU", "'x':'y'", library, true, false},
        {"several devices", SHARE ",'gpu-fraction-num-devices':'2'", library, true, false},
        {"one of several", SHARE ",'gpu-fraction-num-devices':'1'", library, true, true},
        {"MPS, whose server has the memory", SHARE ",'mps':'true'", library, true, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(object_unrefp) struct object *pod =
            pod_of(rows[i].annotations, rows[i].inits, RUNS, "");

        if (suspension_prepares(pod, rows[i].may) != rows[i].prepared)
            test_fail(__FILE__, __LINE__, rows[i].why);
    }
}

TEST(a_command_in_a_container_that_fails_is_followed_by_eviction_where_others_wait)
{
    static const struct {
        const char *why;
        struct suspension_end end;
        const char *wish;
        enum suspension_after after;
    } rows[] = {
        {"out", {.out = true, .reached = true}, SUSPEND_YIELD, SUSPENSION_SAY},
        {"in", {.reached = true}, "", SUSPENSION_SAY},
        {"it cannot, and others wait",
         {.out = true, .reached = true, .status = 1},
         SUSPEND_YIELD,
         SUSPENSION_LOSE},
        {"it cannot, and nobody waits",
         {.out = true, .reached = true, .status = 1},
         SUSPEND_HOLD,
         SUSPENSION_SAY},
        {"not reached", {.out = true, .tries = 1}, SUSPEND_YIELD, SUSPENSION_AGAIN},
        {"not reached, and others wait",
         {.out = true, .tries = SUSPENSION_TRIES_OUT},
         SUSPEND_YIELD,
         SUSPENSION_LOSE},
        {"not reached, and nobody waits",
         {.out = true, .tries = 1000},
         SUSPEND_HOLD,
         SUSPENSION_AGAIN},
        {"in: nothing is lost yet", {.tries = SUSPENSION_TRIES_IN - 1}, "", SUSPENSION_AGAIN},
        {"in: for so long", {.tries = SUSPENSION_TRIES_IN}, "", SUSPENSION_LOSE},
        {"in: it cannot", {.reached = true, .status = 1}, "", SUSPENSION_LOSE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (suspension_after(&rows[i].end, str_from(rows[i].wish)) != rows[i].after)
            test_fail(__FILE__, __LINE__, rows[i].why);
}
