#include "api/kind.h"
#include "api/ranks.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/job/watch.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JobSet of two Jobs with a pod of two ranks each; one rank is stopped by a signal, or waits for data. */

#define S                  1000LL
#define NOTES(text)        ",'annotations':{" text "}"
#define ON_HANG(word)      NOTES("'muster.dev/on-hang':'" word "'")
#define ON_SUSPICION(word) NOTES("'muster.dev/on-suspicion':'" word "'")
#define SET(meta, policy)                                                                      \
    "{'metadata':{'name':'js','uid':'js-uid'" meta "},'spec':{" policy                         \
    "'replicatedJobs':[{'name':'w','replicas':2,'template':{'spec':{'backoffLimit':0,"         \
    "'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c','image':'i'}]}}}}}" \
    "]}}"
#define POLICY   "'failurePolicy':{'maxRestarts':2},"
#define IN_PLACE "'failurePolicy':{'maxRestarts':2,'restartStrategy':'InPlaceRestart'},"

static void look(struct scene *scene)
{
    for (int i = 0; i < 3; i++) {
        scene_run(scene, &jobset_controller, "js");
        scene_run(scene, &batch_job_controller, "js-w-0");
        scene_run(scene, &batch_job_controller, "js-w-1");
    }
}

static const char *pod_name(struct scene *scene, int number)
{
    struct str rest = scene_names(scene, &kind_pod);
    struct str name = STR_NONE;

    for (int i = 0; i <= number; i++)
        (void)str_cut(&rest, ' ', &name);
    return str_c(&scene->arena, name);
}

static void tell(struct scene *scene, int pod, struct rank_report first)
{
    struct rank_report waits = {.rank = first.rank + 1,
                                .act = RANK_LOCKED,
                                .phase = RANK_PHASE_BACKWARD,
                                .since_ms = first.since_ms,
                                .last_ms = first.last_ms,
                                .seen_ms = first.seen_ms,
                                .steps = 40,
                                .step_ms = 100};
    struct rank_report reports[] = {first, waits};
    struct json *patch = json_new_object(&scene->arena);

    json_add_str(&scene->arena, json_make_path(&scene->arena, patch, "metadata.annotations"),
                 RANKS_ANNOTATION, ranks_text(&scene->arena, reports, 2));
    scene_change(scene, &kind_pod, pod_name(scene, pod), patch);
}

/* All make steps up to a moment; a minute later one of the second pod does nothing any more. */
static void hang_at(struct scene *scene, enum rank_act act, enum rank_phase phase)
{
    int64_t since_ms = scene->now_ms;
    struct rank_report waits = {.act = RANK_LOCKED,
                                .phase = RANK_PHASE_BACKWARD,
                                .since_ms = since_ms,
                                .last_ms = since_ms,
                                .seen_ms = since_ms + WATCH_SEEN_MS,
                                .steps = 40,
                                .step_ms = 100};
    struct rank_report culprit = waits;

    culprit.rank = 2;
    culprit.act = act;
    culprit.began_ms = since_ms; /* whenever this is asked for, it is another process */
    culprit.phase = phase;
    tell(scene, 0, waits);
    tell(scene, 1, culprit);
    scene->now_ms += 60 * S;
}

static void hang(struct scene *scene, enum rank_act act, enum rank_phase phase)
{
    hang_at(scene, act, phase);
    look(scene);
}

static void pods_run(struct scene *scene)
{
    for (int i = 0; i < 2; i++)
        scene_patch(scene, &kind_pod, pod_name(scene, i),
                    "{'spec':{'nodeName':'node'},'status':{'phase':'Running','containerStatuses':["
                    "{'name':'c','restartCount':0,'state':{'running':{}}}]}}");
    look(scene);
}

static void begin(struct scene *scene, const char *set)
{
    scene_open(scene);
    scene_put(scene, &kind_node,
              "{'metadata':{'name':'node'},'status':{'nodeInfo':{'containerRuntimeVersion':"
              "'muster-shim://1'},'conditions':[{'type':'Ready','status':'True'}]}}");
    scene_put(scene, &kind_jobset, set);
    look(scene);
    pods_run(scene);
}

static const struct json *status_of(struct scene *scene)
{
    return json_get(scene_get(scene, &kind_jobset, "js"), "status");
}

static bool is_so(struct scene *scene, const char *condition)
{
    return str_contains(scene_conditions(scene, &kind_jobset, "js"), str_from(condition));
}

TEST(a_rank_that_hangs_in_a_jobset_is_named_and_the_set_restarts_where_that_is_meant)
{
    static const struct {
        const char *why;
        const char *set;
        bool stopped; /* else it waits for data */
        int64_t restarts;
        bool hung; /* the condition stays true */
        const char *says;
    } rows[] = {
        {"proof is a failure", SET("", POLICY), true, 1, false, "is stopped by a signal"},
        {"a set without a failurePolicy is not ended for it", SET("", ""), true, 0, true,
         "is stopped by a signal"},
        {"nor one that has no restart", SET("", "'failurePolicy':{'maxRestarts':0},"), true, 0,
         true, "is stopped by a signal"},
        {"a rule about Jobs that failed is not asked",
         SET("", "'failurePolicy':{'maxRestarts':2,'rules':[{'name':'r','action':'FailJobSet'}]},"),
         true, 1, false, "is stopped by a signal"},
        {"it is only reported", SET(ON_HANG("Report"), POLICY), true, 0, true,
         "is stopped by a signal"},
        {"a word that means nothing restarts nothing", SET(ON_HANG("yes"), POLICY), true, 0, true,
         "it must be Restart, Report or Ignore"},
        {"it is ignored", SET(ON_HANG("Ignore"), POLICY), true, 0, false, NULL},
        {"a suspicion is only reported", SET("", POLICY), false, 0, true, "in the data loader"},
        {"unless a restart is asked for", SET(ON_SUSPICION("Restart"), POLICY), false, 1, false,
         "in the data loader"},
        {"a suspicion is ignored", SET(ON_SUSPICION("Ignore"), POLICY), false, 0, false, NULL},
        {"but proof is not", SET(ON_SUSPICION("Ignore"), POLICY), true, 1, false,
         "is stopped by a signal"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, rows[i].set);
        hang(&scene, rows[i].stopped ? RANK_STOPPED : RANK_IDLE,
             rows[i].stopped ? RANK_PHASE_BACKWARD : RANK_PHASE_LOADER);
        EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == rows[i].restarts);
        EXPECT(is_so(&scene, "Hung=True") == rows[i].hung);
        EXPECT(is_so(&scene, "Hung=False") == (rows[i].says && !rows[i].hung));
        EXPECT(!rows[i].says || str_contains(scene.event_words, str_from(rows[i].says)));
        EXPECT(!rows[i].says || str_contains(scene.event_words, STR("rank 2 (pod js-w-1-0-")));
        EXPECT(!json_get(status_of(&scene), "terminalState"));
        const struct json *pod = scene_get(&scene, &kind_pod, pod_name(&scene, 0));
        struct str attempt = json_str(
            json_get(json_at(pod, "metadata.labels"), "jobset.sigs.k8s.io/restart-attempt"));
        EXPECT(str_is(attempt, rows[i].restarts ? "1" : "0"));
    }
}

TEST(a_jobset_restarts_in_place_after_a_hang_and_says_so_once)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("", IN_PLACE));
    hang(&scene, RANK_STOPPED, RANK_PHASE_BACKWARD);
    EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 0);
    EXPECT(json_i64_or(json_get(status_of(&scene), "restartsCountTowardsMax"), 0) == 1);
    EXPECT(is_so(&scene, "RestartingJobSet=True") && is_so(&scene, "Hung=False"));
    EXPECT(str_contains(scene.event_words, STR("is stopped by a signal")));
    EXPECT(str_contains(scene.event_words, STR("restart 1 of 2, in place")));
    scene.now_ms += S;
    look(&scene);
    EXPECT(json_i64_or(json_get(status_of(&scene), "restartsCountTowardsMax"), 0) == 1);
}

TEST(a_jobset_is_not_restarted_twice_for_the_same_at_the_same_step)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("", POLICY));
    hang(&scene, RANK_STOPPED, RANK_PHASE_BACKWARD);
    for (int i = 0; i < 4; i++)
        look(&scene);
    EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 1 &&
           is_so(&scene, "Hung=False"));
    pods_run(&scene);
    hang(&scene, RANK_STOPPED, RANK_PHASE_BACKWARD);
    EXPECT(json_i64_or(json_get(status_of(&scene), "restarts"), 0) == 1 &&
           is_so(&scene, "Hung=True"));
    EXPECT(str_contains(scene.event_words, STR("it is not restarted for this again")));
}

TEST(a_hang_that_restarts_a_jobset_is_counted_against_the_node)
{
    static const struct {
        const char *why;
        const char *set;
        bool blames;
    } rows[] = {
        {"a restart", SET("", POLICY), true},
        {"in place", SET("", IN_PLACE), true},
        {"it is only reported", SET(ON_HANG("Report"), POLICY), false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, rows[i].set);
        scene.config.node_health = true;
        hang(&scene, RANK_STOPPED, RANK_PHASE_BACKWARD);
        const struct json *notes =
            json_at(scene_get(&scene, &kind_node, "node"), "metadata.annotations");
        struct str said = json_str(json_get(notes, "blame.muster.dev/js-uid"));
        EXPECT(str_contains(said, STR(" Hung n/js: rank 2 (pod js-w-1-0-")) == rows[i].blames);
    }
}

/* Who is stopped does not hear that it should end. */
TEST(pods_of_a_jobset_that_hangs_are_given_one_second_and_only_when_the_restart_is_counted)
{
    _cleanup_(scene_close) struct scene scene;
    size_t soon = 0;
    bool counted = false;

    begin(&scene, SET("", POLICY));
    hang_at(&scene, RANK_STOPPED, RANK_PHASE_BACKWARD);
    EXPECT(scene_turn(&scene, &jobset_controller, "js"));
    for (size_t i = 0; i < scene.actions.list.count; i++) {
        const struct action *action = &scene.actions.list.items[i];

        counted = counted || (action->kind == &kind_jobset && action->type != ACTION_EVENT);
        if (action->type == ACTION_DELETE && action->kind == &kind_pod) {
            EXPECT(counted && action->grace_seconds == 1);
            soon++;
        }
    }
    EXPECT(soon == 2);
}

TEST(a_gang_that_goes_on_is_no_longer_called_hung)
{
    _cleanup_(scene_close) struct scene scene;
    struct rank_report steps = {
        .act = RANK_STEPPING, .phase = RANK_PHASE_BACKWARD, .steps = 50, .step_ms = 100};

    begin(&scene, SET(ON_HANG("Report"), POLICY));
    hang(&scene, RANK_STOPPED, RANK_PHASE_BACKWARD);
    EXPECT(is_so(&scene, "Hung=True"));
    steps.since_ms = steps.last_ms = scene.now_ms;
    tell(&scene, 0, steps);
    steps.rank = 2;
    tell(&scene, 1, steps);
    look(&scene);
    EXPECT(is_so(&scene, "Hung=False"));
}

TEST(a_trainjob_hears_of_a_hang_in_its_jobset)
{
    _cleanup_(scene_close) struct scene scene;
    size_t told = 0;

    begin(&scene, SET(ON_HANG("Report") ",'ownerReferences':[{'apiVersion':'trainer.kubeflow.org/"
                                        "v1alpha1','kind':'TrainJob','name':'tj','uid':'tj-uid',"
                                        "'controller':true}]",
                      POLICY));
    scene_put(&scene, &kind_trainjob, "{'metadata':{'name':'tj','uid':'tj-uid'},'spec':{}}");
    hang_at(&scene, RANK_STOPPED, RANK_PHASE_BACKWARD);
    EXPECT(scene_turn(&scene, &jobset_controller, "js"));
    for (size_t i = 0; i < scene.actions.list.count; i++) {
        const struct action *action = &scene.actions.list.items[i];

        told += action->type == ACTION_EVENT && str_is(action->uid, "tj-uid") &&
                str_contains(action->message, STR("is stopped by a signal"));
    }
    EXPECT(told == 1);
}
