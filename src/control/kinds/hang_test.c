#include "api/kind.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/job/job.h"
#include "control/job/watch.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A gang of two pods with two ranks each, one of which is stopped or waits for data: what its job
 * says and does, by what it was told to. */

#define S 1000LL

static void pods_run(struct scene *scene)
{
    for (int i = 0; i < 2; i++)
        scene_patch(scene, &kind_pod,
                    str_c(&scene->arena, str_printf(&scene->arena, "j-worker-%d", i)),
                    "{'spec':{'nodeName':'node'},'status':{'phase':'Running','containerStatuses':["
                    "{'name':'trainer','state':{'running':{}}}]}}");
    scene_run(scene, &torchrun_job_controller, "j");
}

static void begin(struct scene *scene, const char *queue, const char *job)
{
    scene_open(scene);
    scene_put(scene, &kind_node,
              "{'metadata':{'name':'node'},'status':{'conditions':[{'type':'Ready','status':"
              "'True'}]}}");
    scene_put(scene, &kind_torchrunqueue,
              str_c(&scene->arena,
                    str_printf(&scene->arena,
                               "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':2}%s}}",
                               queue)));
    scene_put(scene, &kind_torchrunjob, job);
    scene_run(scene, &torchrun_job_controller, "j");
    pods_run(scene);
}

/* What the node tells of the ranks of a pod. */
static void tell(struct scene *scene, int pod, const struct rank_report *reports)
{
    struct json *patch = json_new_object(&scene->arena);

    json_add_str(&scene->arena, json_make_path(&scene->arena, patch, "metadata.annotations"),
                 RANKS_ANNOTATION, ranks_text(&scene->arena, reports, 2));
    scene_change(scene, &kind_pod,
                 str_c(&scene->arena, str_printf(&scene->arena, "j-worker-%d", pod)), patch);
}

static void tell_all(struct scene *scene, struct rank_report third)
{
    struct rank_report waits = {.act = RANK_LOCKED,
                                .phase = RANK_PHASE_BACKWARD,
                                .since_ms = third.since_ms,
                                .last_ms = third.last_ms,
                                .seen_ms = third.since_ms + WATCH_SEEN_MS,
                                .steps = 40,
                                .step_ms = 100};
    struct rank_report first[] = {waits, waits};
    struct rank_report second[] = {third, waits};

    first[1].rank = 1;
    second[0].rank = 2;
    second[0].steps = 40;
    second[0].seen_ms = waits.seen_ms;
    second[1].rank = 3;
    tell(scene, 0, first);
    tell(scene, 1, second);
    scene_run(scene, &torchrun_job_controller, "j");
}

static const struct json *status_of(struct scene *scene)
{
    return json_get(scene_get(scene, &kind_torchrunjob, "j"), "status");
}

static const struct json *hung_of(struct scene *scene)
{
    JSON_FOREACH(json_get(status_of(scene), "conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), "Hung"))
            return condition;
    return NULL;
}

#define JOB(meta, more)            \
    "{'metadata':{'name':'j'" meta \
    "},'spec':{'jobQueue':'q','command':'x','numGPUs':4,'numNodes':2" more "}}"

static const struct row {
    const char *why;
    const char *queue;
    const char *job;
    bool stopped; /* else it waits for data */
    const char *phase;
    int64_t restarts;
    const char *says; /* a part of the message; NULL: nothing of it */
} rows[] = {
    {"proof is a failure", "", JOB("", ""), true, "Restarting", 1,
     "rank 2 (pod j-worker-1, node node) is stopped by a signal"},
    {"the queue says that it is only reported", ",'reliability':{'onHang':'Report'}", JOB("", ""),
     true, "Running", 0, "Hung: rank 2 (pod j-worker-1, node node) is stopped by a signal"},
    {"the job says otherwise than its queue", ",'reliability':{'onHang':'Report'}",
     JOB("", ",'reliability':{'onHang':'Restart'}"), true, "Restarting", 1, "restart 1 of 3"},
    {"the annotation has the last word", "",
     JOB(",'annotations':{'muster.dev/on-hang':'Report'}", ""), true, "Running", 0, "Hung: rank 2"},
    {"an annotation that means nothing stops nothing", "",
     JOB(",'annotations':{'muster.dev/on-hang':'restart!'}", ""), true, "Running", 0,
     "must be Restart, Report or Ignore"},
    {"ignored", "", JOB("", ",'reliability':{'onHang':'Ignore'}"), true, "Running", 0, NULL},
    {"without restarts it is only reported", "", JOB("", ",'reliability':{'maxRestarts':0}"), true,
     "Running", 0, "Hung: rank 2"},
    {"nor is what is never restarted", "", JOB("", ",'reliability':{'restartPolicy':'Never'}"),
     true, "Running", 0, "Hung: rank 2"},
    {"a suspicion is only reported", "", JOB("", ""), false, "Running", 0,
     "Suspected: rank 2 (pod j-worker-1, node node) waits in the data loader (pipe_read)"},
    {"unless a restart is asked for", "", JOB("", ",'reliability':{'onSuspicion':'Restart'}"),
     false, "Restarting", 1, "rank 2 (pod j-worker-1, node node) waits in the data loader"},
    {"by the queue", ",'reliability':{'onSuspicion':'Restart'}", JOB("", ""), false, "Restarting",
     1, "restart 1 of 3"},
    {"the annotation has the last word here, too", ",'reliability':{'onSuspicion':'Restart'}",
     JOB(",'annotations':{'muster.dev/on-suspicion':'Report'}", ""), false, "Running", 0,
     "Suspected: rank 2"},
    {"a suspicion is ignored, and proof is not", "",
     JOB("", ",'reliability':{'onSuspicion':'Ignore'}"), false, "Running", 0, NULL},
    {"proof is not, although a suspicion is", "",
     JOB("", ",'reliability':{'onSuspicion':'Ignore'}"), true, "Restarting", 1, "restart 1 of 3"},
    {"who ignores proof ignores a suspicion", "", JOB("", ",'reliability':{'onHang':'Ignore'}"),
     false, "Running", 0, NULL},
    {"an annotation about it that means nothing", "",
     JOB(",'annotations':{'muster.dev/on-suspicion':'no'}", ""), false, "Running", 0,
     "annotation muster.dev/on-suspicion is \"no\": it must be Restart, Report or Ignore"},
};

TEST(a_proven_hang_restarts_the_gang_and_a_suspicion_is_told)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct rank_report third = {.act = rows[i].stopped ? RANK_STOPPED : RANK_IDLE,
                                    .phase = rows[i].stopped ? RANK_PHASE_CODE : RANK_PHASE_LOADER,
                                    .wait = STR("pipe_read")};

        test_case(rows[i].why);
        begin(&scene, rows[i].queue, rows[i].job);
        third.since_ms = third.last_ms = scene.now_ms;
        tell_all(&scene, third);
        EXPECT(!hung_of(&scene));
        EXPECT(str_is(json_str(json_get(status_of(&scene), "phase")), "Running"));
        scene.now_ms += 60 * S;
        scene_run(&scene, &torchrun_job_controller, "j");
        const struct json *status = status_of(&scene);
        const struct json *hung = hung_of(&scene);
        bool restarted = rows[i].restarts > 0;
        EXPECT(json_i64_or(json_get(status, "restarts"), 0) == rows[i].restarts);
        EXPECT(str_contains(scene.events, STR("Restarting")) == restarted);
        EXPECT(!restarted || json_i64_or(json_get(status, "generation"), 0) == 1);
        EXPECT(!restarted || str_contains(scene.event_words, str_from(rows[i].says)));
        if (restarted)
            continue;
        EXPECT(str_is(json_str(json_get(status, "phase")), rows[i].phase));
        EXPECT((hung != NULL) == (rows[i].says != NULL));
        if (!rows[i].says)
            continue;
        EXPECT(str_contains(json_str(json_get(status, "message")), str_from(rows[i].says)));
        EXPECT(str_is(json_str(json_get(hung, "status")), "True"));
        EXPECT(str_is(json_str(json_get(hung, "reason")), rows[i].stopped ? "Hung" : "Suspected"));
        EXPECT(str_contains(scene.events, STR("Hung")) == rows[i].stopped);
        EXPECT(str_contains(scene.events, STR("Suspected")) == !rows[i].stopped);
    }
}

TEST(a_suspicion_restarts_a_gang_only_when_it_is_a_minute_old)
{
    _cleanup_(scene_close) struct scene scene;
    struct rank_report third = {.act = RANK_IDLE, .phase = RANK_PHASE_LOADER};

    begin(&scene, "", JOB("", ",'reliability':{'onSuspicion':'Restart'}"));
    third.since_ms = third.last_ms = scene.now_ms;
    tell_all(&scene, third);
    scene.now_ms += 59 * S;
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_is(json_str(json_get(hung_of(&scene), "reason")), "Suspected"));
    EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 0);
    int64_t again_ms = 0;
    for (size_t i = 0; i < scene.actions.list.count; i++)
        if (scene.actions.list.items[i].type == ACTION_LOOK_AGAIN)
            again_ms = scene.actions.list.items[i].at_ms;
    EXPECT(again_ms == scene.now_ms + 1 * S);
    scene.now_ms += 1 * S;
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 1);
    const struct json *failure = json_get(status_of(&scene), "failure");
    EXPECT(str_is(json_str(json_get(failure, "reason")), "Suspected"));
}

TEST(a_gang_that_goes_on_is_no_longer_said_to_hang)
{
    _cleanup_(scene_close) struct scene scene;
    struct rank_report third = {.act = RANK_STEPPING, .step_ms = 100};

    begin(&scene, "", JOB("", ",'reliability':{'onHang':'Report'}"));
    third.since_ms = third.last_ms = scene.now_ms;
    third.act = RANK_STOPPED;
    tell_all(&scene, third);
    scene.now_ms += 60 * S;
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_is(json_str(json_get(hung_of(&scene), "status")), "True"));
    third.act = RANK_STEPPING;
    third.since_ms = third.last_ms = scene.now_ms;
    tell_all(&scene, third);
    EXPECT(str_is(json_str(json_get(hung_of(&scene), "status")), "False"));
    EXPECT(str_is(json_str(json_get(status_of(&scene), "message")), "2 of 2 pods run"));
}

TEST(a_hung_gang_is_given_one_second_to_end)
{
    _cleanup_(scene_close) struct scene scene;
    struct rank_report third = {.act = RANK_STOPPED};

    begin(&scene, "", JOB("", ""));
    third.since_ms = third.last_ms = scene.now_ms - 60 * S;
    tell_all(&scene, third);
    const struct json *failure = json_get(status_of(&scene), "failure");
    EXPECT(str_is(json_str(json_get(failure, "pod")), "j-worker-1"));
    EXPECT(str_is(json_str(json_get(failure, "reason")), JOB_REASON_HUNG));
    EXPECT(str_contains(json_str(json_get(failure, "message")), STR("3 ranks wait for it")));
    /* The budget is used up by hangs like by any failure. */
    EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 1);
}

/* Its pause is longer than it may be: a restart leads to the same, until none is left. */
TEST(a_gang_is_not_restarted_twice_for_the_same_at_the_same_step)
{
    for (int other = 0; other < 2; other++) {
        _cleanup_(scene_close) struct scene scene;
        struct rank_report third = {.act = RANK_STOPPED, .began_ms = 1};

        begin(&scene, "", JOB("", ""));
        third.since_ms = third.last_ms = scene.now_ms - 60 * S;
        tell_all(&scene, third);
        EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 1);
        for (int i = 0; i < 4; i++)
            scene_run(&scene, &torchrun_job_controller, "j");
        pods_run(&scene);
        third.began_ms = 2;
        third.phase = other ? RANK_PHASE_BACKWARD : RANK_PHASE_CODE;
        tell_all(&scene, third);
        EXPECT(json_i64_or(json_get(status_of(&scene), "generation"), 0) == 1 + other);
        EXPECT(other ||
               str_contains(json_str(json_get(hung_of(&scene), "message")),
                            STR("it is not restarted for this again: the same was seen at the same "
                                "step before the last restart")));
        EXPECT(other || str_contains(scene.event_words, STR("it is not restarted for this again")));
    }
}

TEST(that_its_ranks_are_not_observed_is_said_with_the_reason)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, "", JOB("", ""));
    struct json *patch = json_new_object(&scene.arena);
    json_add_str(&scene.arena, json_make_path(&scene.arena, patch, "metadata.annotations"),
                 RANKS_ANNOTATION, ranks_unwatched_text(&scene.arena, "it is so"));
    scene_change(&scene, &kind_pod, "j-worker-0", patch);
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_contains(json_str(json_get(status_of(&scene), "message")),
                        STR("hangs are not noticed, as its ranks are not observed: it is so")));
    scene_patch(&scene, &kind_pod, "j-worker-0",
                "{'metadata':{'annotations':{'muster.dev/observe':'off'}}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_contains(json_str(json_get(status_of(&scene), "message")),
                        STR("the annotation muster.dev/observe is \"off\"")));
}
