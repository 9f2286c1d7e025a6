#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What happens to a job of kubeflow.org -> its conditions, phase, counters, restarts and pods.
 * Every kind has the same job: one chief (where the kind has one) and two workers. */

enum {
    PYTORCH = 1,
    TF = 2,
    MPI = 4,
    XGBOOST = 8,
    JAX = 16,
    PADDLE = 32,
    ALL = 63,
    GANGS = PYTORCH | XGBOOST | JAX | PADDLE, /* ranks that restart together */
    ALONE = TF | MPI,
    CHIEFS = ALL & ~JAX,
};

static const struct subject {
    unsigned bit;
    const struct kind *kind;
    const struct controller *controller;
    const char *specs;
    const char *chief;     /* type; NULL: worker 0 is the chief */
    const char *chief_pod; /* what follows the job's name */
    const char *container;
} subjects[] = {
    {PYTORCH, &kind_pytorchjob, &pytorch_job_controller, "pytorchReplicaSpecs", "Master",
     "master-0", "pytorch"},
    {TF, &kind_tfjob, &tf_job_controller, "tfReplicaSpecs", "Chief", "chief-0", "tensorflow"},
    {MPI, &kind_mpijob, &mpi_job_controller, "mpiReplicaSpecs", "Launcher", "launcher", "mpi"},
    {XGBOOST, &kind_xgboostjob, &xgboost_job_controller, "xgbReplicaSpecs", "Master", "master-0",
     "xgboost"},
    {JAX, &kind_jaxjob, &jax_job_controller, "jaxReplicaSpecs", NULL, "worker-0", "jax"},
    {PADDLE, &kind_paddlejob, &paddle_job_controller, "paddleReplicaSpecs", "Master", "master-0",
     "paddle"},
};

/* Events, one after the other, each followed by a look:
 *   C=R   the chief runs       W1=D    worker 1 is done     W0=F7  worker 0 fails with 7
 *   all=R every pod runs       C=E     the chief is evicted W0=x   worker 0 is deleted
 *   W0=I2 its container was restarted in place twice
 *   stop, go                   spec.runPolicy.suspend       +60    a minute goes by
 *   size=3                     that many workers
 * Counters: of the chief and of the workers, active/succeeded/failed; where there is no chief the
 * workers' alone count. */
struct row {
    const char *why;
    unsigned kinds;
    const char *policy; /* of both roles */
    const char *run;    /* runPolicy */
    const char *annotations;
    const char *events;
    const char *conditions;
    const char *phase;
    const char *chief;   /* NULL: whatever */
    const char *workers; /* NULL: whatever */
    int restarts;
    int pods;
};

#define SCOPE_POD "'torchrun.ai/restart-scope':'pod'"

static const struct row rows[] = {
    {"a new job is created, and all its pods", ALL, "OnFailure", "", "", "", "Created=True",
     "Queued", "0/0/0", "0/0/0", 0, 3},
    {"it runs when its chief does", CHIEFS, "OnFailure", "", "", "C=R", "Created=True Running=True",
     "Running", "1/0/0", "0/0/0", 0, 3},
    {"workers alone are not a running job where there is a chief", CHIEFS, "OnFailure", "", "",
     "W0=R W1=R", "Created=True", "Queued", "0/0/0", "2/0/0", 0, 3},
    {"without a chief one worker is enough", JAX, "OnFailure", "", "", "W1=R",
     "Created=True Running=True", "Running", NULL, "1/0/0", 0, 3},
    {"the launcher's end is the job's, and workers that only wait are stopped", MPI, "OnFailure",
     "", "", "all=R C=D", "Running=False Created=True Succeeded=True", "Succeeded", "0/1/0",
     "0/2/0", 0, 1},
    {"the chief's end is the job's", CHIEFS & ~MPI, "OnFailure", "", "", "all=R C=D",
     "Running=False Created=True Succeeded=True", "Succeeded", "0/1/0", "0/2/0", 0, 3},
    {"a worker's end is not", CHIEFS, "OnFailure", "", "", "all=R W0=D W1=D",
     "Created=True Running=True", "Running", "1/0/0", "0/2/0", 0, 3},
    {"without a chief all workers must be done: not yet", JAX, "OnFailure", "", "",
     "all=R W0=D W1=D", "Created=True Running=True", "Running", NULL, "1/2/0", 0, 3},
    {"without a chief all workers must be done", JAX, "OnFailure", "", "", "all=R W0=D W1=D W2=D",
     "Running=False Created=True Succeeded=True", "Succeeded", NULL, "0/3/0", 0, 3},
    {"Never: a failure is the end, and what runs is stopped", ALL, "Never", "", "", "all=R W0=F7",
     "Running=False Created=True Failed=True", "Failed", NULL, "0/0/1", 0, 1},
    {"Never and cleanPodPolicy None: what runs goes on", ALL, "Never", "'cleanPodPolicy':'None'",
     "", "all=R W0=F7", "Running=False Created=True Failed=True", "Failed", NULL, "0/0/1", 0, 3},
    {"cleanPodPolicy All leaves no pod", ALL, "Never", "'cleanPodPolicy':'All'", "", "all=R W0=F7",
     "Running=False Created=True Failed=True", "Failed", NULL, "0/0/1", 0, 0},
    {"OnFailure: all ranks start again", GANGS, "OnFailure", "", "", "all=R W0=F7",
     "Created=True Restarting=True", "Queued", "0/0/0", "0/0/0", 1, 3},
    {"and run again", GANGS, "OnFailure", "", "", "all=R W0=F7 all=R", "Created=True Running=True",
     "Running", NULL, NULL, 1, 3},
    {"told so, the failed pod starts again alone", GANGS & ~JAX, "OnFailure", "", SCOPE_POD,
     "all=R W0=F7", "Created=True Running=True", "Running", "1/0/0", "1/0/0", 1, 3},
    {"the failed pod starts again alone", ALONE, "OnFailure", "", "", "all=R W0=F7",
     "Created=True Running=True", "Running", "1/0/0", "1/0/0", 1, 3},
    {"told so, all start again", ALONE, "OnFailure", "", "'torchrun.ai/restart-scope':'gang'",
     "all=R W0=F7", "Created=True Restarting=True", "Queued", "0/0/0", "0/0/0", 1, 3},
    {"backoffLimit 0: the first failure is the last", ALL, "OnFailure", "'backoffLimit':0", "",
     "all=R W0=F7", "Running=False Created=True Failed=True", "Failed", NULL, "0/0/1", 0, 1},
    {"backoffLimit counts restarts of the whole gang", GANGS, "OnFailure", "'backoffLimit':1", "",
     "all=R W0=F7 all=R +10 W1=F7", "Running=False Created=True Failed=True", "Failed", NULL, NULL,
     1, 1},
    {"backoffLimit counts pods that were replaced", ALONE, "OnFailure", "'backoffLimit':1", "",
     "all=R W0=F7 +10 W1=F7", "Running=False Created=True Failed=True", "Failed", NULL, NULL, 1,
     -1},
    {"backoffLimit counts restarts in place: allowed", ALONE, "OnFailure", "'backoffLimit':2", "",
     "all=R W0=I2", "Created=True Running=True", "Running", NULL, NULL, 0, 3},
    {"backoffLimit counts restarts in place: one too many", ALONE, "OnFailure", "'backoffLimit':2",
     "", "all=R W0=I3", "Running=False Created=True Failed=True", "Failed", NULL, NULL, 0, -1},
    {"the second restart waits, and the pod that failed stays", GANGS, "OnFailure", "", "",
     "all=R W0=F7 all=R W1=F7", "Created=True Restarting=True", "Restarting", NULL, NULL, 2, 1},
    {"and comes when its time has", GANGS, "OnFailure", "", "", "all=R W0=F7 all=R W1=F7 +10",
     "Created=True Restarting=True", "Queued", NULL, NULL, 2, 3},
    {"ExitCode: below 128 is the end", ALL, "ExitCode", "", "", "all=R W0=F127",
     "Running=False Created=True Failed=True", "Failed", NULL, "0/0/1", 0, 1},
    {"ExitCode: the job says when it ended", ALL, "ExitCode", "'ttlSecondsAfterFinished':60", "",
     "all=R W0=F1 +60", NULL, NULL, NULL, NULL, 0, -1},
    {"ExitCode: a signal is worth another try", GANGS, "ExitCode", "", "", "all=R W0=F137",
     "Created=True Restarting=True", "Queued", NULL, NULL, 1, 3},
    {"ExitCode: a signal is worth another try, alone", ALONE, "ExitCode", "", "", "all=R W0=F143",
     "Created=True Running=True", "Running", NULL, NULL, 1, 3},
    {"an eviction costs nothing, and takes the gang along", GANGS, "Never", "'backoffLimit':0", "",
     "all=R W0=E", "Created=True Restarting=True", "Queued", NULL, NULL, 0, 3},
    {"an eviction costs nothing, and is for one pod", ALONE, "Never", "'backoffLimit':0", "",
     "all=R W0=E", "Created=True Running=True", "Running", "1/0/0", "1/0/0", 0, 3},
    {"a deleted pod takes the gang along", GANGS, "OnFailure", "'backoffLimit':0", "", "all=R W1=x",
     "Created=True Restarting=True", "Queued", NULL, NULL, 0, 3},
    {"a deleted pod comes back", ALONE, "OnFailure", "'backoffLimit':0", "", "all=R W1=x",
     "Created=True Running=True", "Running", "1/0/0", "1/0/0", 0, 3},
    {"suspended before it began", ALL, "OnFailure", "'suspend':true", "", "",
     "Created=True Suspended=True", "Suspended", NULL, NULL, 0, 0},
    {"suspended while it ran", ALL, "OnFailure", "", "", "all=R stop",
     "Running=False Created=True Suspended=True", "Suspended", NULL, "0/0/0", 0, 0},
    {"resumed: the column does not go on saying Suspended", ALL, "OnFailure", "", "",
     "all=R stop go", "Suspended=False Running=False Created=True", "Queued", NULL, "0/0/0", 0, 3},
    {"resumed and running", ALL, "OnFailure", "", "", "all=R stop go all=R",
     "Suspended=False Created=True Running=True", "Running", NULL, NULL, 0, 3},
    {"the deadline is ahead", ALL, "OnFailure", "'activeDeadlineSeconds':60", "", "all=R +59",
     "Created=True Running=True", "Running", NULL, NULL, 0, 3},
    {"the deadline counts from the start", ALL, "OnFailure", "'activeDeadlineSeconds':60", "",
     "all=R +60", "Running=False Created=True Failed=True", "TimedOut", NULL, "0/0/0", 0, 0},
    {"it ends what runs, whatever is to stay", ALL, "OnFailure",
     "'activeDeadlineSeconds':60,'cleanPodPolicy':'None'", "", "all=R +60",
     "Running=False Created=True Failed=True", "TimedOut", NULL, "0/0/0", 0, 0},
    {"waiting counts too", ALL, "OnFailure", "'activeDeadlineSeconds':60", "", "+60",
     "Created=True Failed=True", "TimedOut", NULL, "0/0/0", 0, 0},
    {"a suspension starts it anew", ALL, "OnFailure", "'activeDeadlineSeconds':60", "",
     "all=R +40 stop +40 go +40", "Suspended=False Running=False Created=True", "Queued", NULL,
     NULL, 0, 3},
    {"time to live: not yet", CHIEFS, "OnFailure", "'ttlSecondsAfterFinished':60", "",
     "all=R C=D +59", "Running=False Created=True Succeeded=True", "Succeeded", NULL, NULL, 0, -1},
    {"time to live is over", CHIEFS, "OnFailure", "'ttlSecondsAfterFinished':60", "",
     "all=R C=D +60", NULL, NULL, NULL, NULL, 0, -1},
    {"cleanPodPolicy Running after success", CHIEFS, "OnFailure", "'cleanPodPolicy':'Running'", "",
     "all=R W0=D C=D", "Running=False Created=True Succeeded=True", "Succeeded", "0/1/0", "0/2/0",
     0, 2},
    {"what was counted stays when the pods go", CHIEFS, "OnFailure", "'cleanPodPolicy':'None'", "",
     "all=R C=D C=x W0=x", "Running=False Created=True Succeeded=True", "Succeeded", "0/1/0",
     "0/2/0", 0, 1},
    {"a fixed gang that grows starts anew: ranks know how many they are", GANGS, "OnFailure", "",
     "", "all=R size=3", "Created=True Restarting=True", "Queued", NULL, NULL, 0, -1},
    {"pods on their own only get more", ALONE, "OnFailure", "", "", "all=R size=3",
     "Created=True Running=True", "Running", "1/0/0", "2/0/0", 0, 4},
    {"or fewer, the last ones first", ALONE, "OnFailure", "", "", "all=R size=1",
     "Created=True Running=True", "Running", "1/0/0", "1/0/0", 0, 2},
    {"somebody else's job is left alone", ALL, "OnFailure",
     "'managedBy':'kueue.x-k8s.io/multikueue'", "", "", "", NULL, NULL, NULL, 0, 0},
    {"a failure after the end changes nothing", CHIEFS & ~MPI, "OnFailure", "", "",
     "all=R C=D W0=F1", "Running=False Created=True Succeeded=True", "Succeeded", "0/1/0", "0/2/0",
     0, 3},
};

/* ---- the world of a row ---- */

static struct str template_of(struct scene *scene, const struct subject *s, const char *policy)
{
    return str_printf(&scene->arena,
                      "'restartPolicy':'%s','template':{'spec':{'containers':[{'name':'%s','image':"
                      "'i'}]}}",
                      policy, s->container);
}

static void put_job(struct scene *scene, const struct subject *s, const struct row *row)
{
    struct arena *a = &scene->arena;
    struct str body = template_of(scene, s, row->policy);
    struct str chief =
        s->chief ? str_printf(a, "'%s':{'replicas':1," STR_FMT "},", s->chief, STR_ARG(body))
                 : STR("");

    scene_put(scene, s->kind,
              str_c(a, str_printf(a,
                                  "{'metadata':{'name':'j','annotations':{%s}},'spec':{'runPolicy':"
                                  "{%s},'%s':{" STR_FMT "'Worker':{'replicas':%d," STR_FMT "}}}}",
                                  row->annotations, row->run, s->specs, STR_ARG(chief),
                                  s->chief ? 2 : 3, STR_ARG(body))));
}

static void set_pod(struct scene *scene, const char *name, const char *how)
{
    struct arena *a = &scene->arena;
    struct str now = time_text(a, scene->now_ms);
    struct str patch;

    switch (how[0]) {
    case 'x': scene_drop(scene, &kind_pod, name); return;
    case 'R': patch = STR("{'status':{'phase':'Running'}}"); break;
    case 'D': patch = STR("{'status':{'phase':'Succeeded'}}"); break;
    case 'E': patch = STR("{'status':{'phase':'Failed','reason':'Evicted'}}"); break;
    case 'I':
        patch = str_printf(a, "{'status':{'containerStatuses':[{'restartCount':%s}]}}", how + 1);
        break;
    default:
        patch = str_printf(a,
                           "{'status':{'phase':'Failed','containerStatuses':[{'state':{'terminated'"
                           ":{'exitCode':%s,'finishedAt':'" STR_FMT "'}}}]}}",
                           how + 1, STR_ARG(now));
    }
    scene_patch(scene, &kind_pod, name, str_c(a, patch));
}

static void all_run(struct scene *scene)
{
    struct str names = scene_names(scene, &kind_pod);
    struct str name;

    while (str_cut(&names, ' ', &name))
        if (name.len)
            set_pod(scene, str_c(&scene->arena, name), "R");
}

static void happen(struct scene *scene, const struct subject *s, struct str event)
{
    struct arena *a = &scene->arena;
    char *text = str_c(a, event);
    char *how = strchr(text, '=');
    int64_t number = 0;

    if (str_is(event, "all=R")) {
        all_run(scene);
    } else if (str_is(event, "stop") || str_is(event, "go")) {
        scene_patch(scene, s->kind, "j",
                    str_is(event, "stop") ? "{'spec':{'runPolicy':{'suspend':true}}}"
                                          : "{'spec':{'runPolicy':{'suspend':false}}}");
    } else if (text[0] == '+' && str_to_i64(str_sub(event, 1, event.len), &number)) {
        scene->now_ms += number * 1000;
    } else if (str_starts(event, STR("size="))) {
        scene_patch(scene, s->kind, "j",
                    str_c(a, str_printf(a, "{'spec':{'%s':{'Worker':{'replicas':%d}}}}", s->specs,
                                        how[1] - '0' + (s->chief ? 0 : 1))));
    } else {
        const char *pod = text[0] == 'C' ? str_c(a, str_printf(a, "j-%s", s->chief_pod))
                                         : str_c(a, str_printf(a, "j-worker-%c", text[1]));

        set_pod(scene, pod, how + 1);
    }
    scene_run(scene, s->controller, "j");
}

static struct str counters(struct scene *scene, const struct json *status, const char *type)
{
    const struct json *entry = json_get(json_get(status, "replicaStatuses"), type);

    return str_printf(&scene->arena, "%lld/%lld/%lld",
                      (long long)json_i64_or(json_get(entry, "active"), 0),
                      (long long)json_i64_or(json_get(entry, "succeeded"), 0),
                      (long long)json_i64_or(json_get(entry, "failed"), 0));
}

static void check(struct scene *scene, const struct subject *s, const struct row *row)
{
    const struct json *job = scene_get(scene, s->kind, "j");
    const struct json *status = json_get(job, "status");
    struct str pods = scene_names(scene, &kind_pod);
    struct str conditions = scene_conditions(scene, s->kind, "j");
    struct str phase = json_str(json_get(status, "phase"));
    struct str workers = counters(scene, status, "Worker");
    int count = 0;
    struct str pod;

    if (!row->conditions) {
        EXPECT(job == NULL);
        return;
    }
    for (struct str rest = pods; str_cut(&rest, ' ', &pod);)
        count += pod.len > 0;
    bool right = str_is(conditions, row->conditions) &&
                 (!row->phase || str_is(phase, row->phase)) &&
                 json_i64_or(json_get(status, "restarts"), 0) == row->restarts &&
                 (row->pods < 0 || count == row->pods);
    if (s->chief && row->chief)
        right = right && str_is(counters(scene, status, s->chief), row->chief);
    if (row->workers && (s->chief || row->kinds == JAX))
        right = right && str_is(workers, row->workers);
    if (!right)
        printf("%s, %s: " STR_FMT "; " STR_FMT "; workers " STR_FMT "; restarts %lld; pods " STR_FMT
               "; " STR_FMT "\n",
               s->kind->name, row->why, STR_ARG(conditions), STR_ARG(phase), STR_ARG(workers),
               (long long)json_i64_or(json_get(status, "restarts"), 0), STR_ARG(pods),
               STR_ARG(json_str(json_get(status, "message"))));
    EXPECT(right);
}

static size_t check_kind(const struct subject *s)
{
    size_t count = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct str rest = str_from(rows[i].events);
        struct str event;

        if (!(rows[i].kinds & s->bit))
            continue;
        _cleanup_(scene_close) struct scene scene;
        count++;
        test_case(rows[i].why);
        scene_open(&scene);
        put_job(&scene, s, &rows[i]);
        scene_run(&scene, s->controller, "j");
        while (str_cut(&rest, ' ', &event))
            if (event.len)
                happen(&scene, s, event);
        check(&scene, s, &rows[i]);
    }
    return count;
}

TEST(kubeflow_jobs_answer_to_what_happens_to_their_pods)
{
    for (size_t i = 0; i < COUNT_OF(subjects); i++)
        EXPECT(check_kind(&subjects[i]) >= 15);
}

/* Kubeflow's kinds wait before the second restart and each further one. */
TEST(the_pods_that_ended_and_their_logs_stay_until_the_next_try_is_due)
{
    _cleanup_(scene_close) struct scene scene;
    const char *runs = "{'spec':{'nodeName':'node'},'status':{'phase':'Running'}}";

    scene_open(&scene);
    scene_put(&scene, &kind_node,
              "{'metadata':{'name':'node'},'status':{'conditions':[{'type':'Ready','status':"
              "'True'}]}}");
    scene_put(&scene, &kind_pytorchjob,
              "{'metadata':{'name':'j'},'spec':{'pytorchReplicaSpecs':{'Master':{'replicas':1,"
              "'restartPolicy':'OnFailure','template':{'spec':{'containers':[{'name':'pytorch',"
              "'image':'i'}]}}}}}}");
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_pod, "j-master-0"),
                              "spec.containers.0.terminationMessagePolicy"),
                  "FallbackToLogsOnError"));
    for (int i = 0; i < 2; i++) {
        scene_patch(&scene, &kind_pod, "j-master-0", runs);
        scene_run(&scene, &pytorch_job_controller, "j");
        scene.now_ms += 1000;
        struct str now = time_text(&scene.arena, scene.now_ms);
        scene_patch(
            &scene, &kind_pod, "j-master-0",
            str_c(&scene.arena,
                  str_printf(&scene.arena,
                             "{'status':{'phase':'Failed','containerStatuses':[{'name':"
                             "'pytorch','state':{'terminated':{'exitCode':1,'finishedAt':'" STR_FMT
                             "'}}}]}}",
                             STR_ARG(now))));
        scene_run(&scene, &pytorch_job_controller, "j");
    }
    EXPECT(
        str_is(json_str_at(scene_get(&scene, &kind_pod, "j-master-0"), "status.phase"), "Failed"));
    scene.now_ms += 3600 * 1000;
    scene_run(&scene, &pytorch_job_controller, "j");
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_pod, "j-master-0"), "status.phase"), ""));
}
