#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/kinds/tensorstack_job.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

/* What happens to a PyTorchTrainingJob -> phase, conditions, counters. */

#define REPLICA(type, count, more)                                                               \
    "{'type':'" type "','replicas':" count "," more                                              \
    "'template':{'spec':{'containers':[{'name':'c','image':'i','command':['python'],'args':['t." \
    "py']}]}}}"
#define JOB(spec, replicas) \
    "{'metadata':{'name':'tj'},'spec':{" spec "'replicaSpecs':[" replicas "]}}"
#define TWO       REPLICA("master", "1", "") "," REPLICA("worker", "1", "")
#define ONE(more) REPLICA("worker", "1", more)

#define PHASE(phase) "{'spec':{'nodeName':'node'},'status':{'phase':'" phase "'}}"
#define RUNS                                                                                  \
    "{'spec':{'nodeName':'node'},'status':{'phase':'Running','conditions':[{'type':'Ready','" \
    "status"                                                                                  \
    "':'True'}],'containerStatuses':[{'name':'c','state':{'running':{}}}]}}"
#define ENDS(code)                                                                          \
    "{'status':{'phase':'Failed','containerStatuses':[{'name':'c','state':{'terminated':{'" \
    "exitCode"                                                                              \
    "':" code ",'finishedAt':'1970-01-01T00:16:41Z'}}}]}}"

struct step {
    const struct kind *kind;
    const char *name;
    const char *patch;
};
#define POD(name, patch)       \
    {                          \
        &kind_pod, name, patch \
    }
#define SELF(patch)                           \
    {                                         \
        &kind_pytorchtrainingjob, "tj", patch \
    }

static const struct {
    const char *why;
    const char *job;
    struct step steps[4];
    const char *phase;
    const char *truths; /* the conditions that are true */
    const char *status; /* part of it */
    int later_s;        /* pass before the last look */
} rows[] = {
    {"new: pods are made", JOB("", TWO), {{0}}, "Pending", "Initialized", "'pending':2", 0},
    {"the master runs",
     JOB("", TWO),
     {POD("tj-master-0", RUNS)},
     "Running",
     "Initialized Running",
     "'pending':1,'running':1",
     0},
    {"all run",
     JOB("", TWO),
     {POD("tj-master-0", RUNS), POD("tj-worker-0", RUNS)},
     "Running",
     "Initialized Running",
     "'running':2",
     0},
    {"the master is done: so is the job",
     JOB("", TWO),
     {POD("tj-master-0", RUNS), POD("tj-worker-0", RUNS), POD("tj-master-0", PHASE("Succeeded"))},
     "Succeeded",
     "Initialized Completed",
     "'succeeded':1",
     0},
    {"a worker that is done is not the end",
     JOB("", TWO),
     {POD("tj-master-0", RUNS), POD("tj-worker-0", RUNS), POD("tj-worker-0", PHASE("Succeeded"))},
     "Running",
     "Initialized Running",
     "'succeeded':1",
     0},
    {"Never: a failure is final",
     JOB("", ONE("")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", ENDS("1"))},
     "Failed",
     "Initialized ReplicaFailure Failed",
     "'backoffCount':0",
     0},
    {"OnFailure: it is restarted, and that is counted",
     JOB("", ONE("'restartPolicy':'OnFailure',")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", ENDS("1"))},
     "Pending",
     "Initialized",
     "'backoffCount':1",
     0},
    {"Always is the same",
     JOB("", ONE("'restartPolicy':'Always',")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", ENDS("1"))},
     "Pending",
     "Initialized",
     "'restartCount':1",
     0},
    {"ExitCode: 137 is restarted",
     JOB("", ONE("'restartPolicy':'ExitCode',")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", ENDS("137"))},
     "Pending",
     "Initialized",
     "'backoffCount':1",
     0},
    {"ExitCode: 138 is the user's wish",
     JOB("", ONE("'restartPolicy':'ExitCode',")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", ENDS("138"))},
     "Pending",
     "Initialized",
     "'backoffCount':1",
     0},
    {"ExitCode: 139 is final",
     JOB("", ONE("'restartPolicy':'ExitCode',")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", ENDS("139"))},
     "Failed",
     "Initialized ReplicaFailure Failed",
     "'exitCode':139",
     0},
    {"backoffLimit 0: no restart",
     JOB("'runPolicy':{'backoffLimit':0},", ONE("'restartPolicy':'Always',")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", ENDS("1"))},
     "Failed",
     "Initialized ReplicaFailure Failed",
     "'backoffCount':0",
     0},
    {"the deadline passes",
     JOB("'runPolicy':{'activeDeadlineSeconds':5},", ONE("")),
     {POD("tj-worker-0", RUNS)},
     "Failed",
     "Initialized Failed",
     "'reason':'DeadlineExceeded'",
     6},
    {"the deadline ends what runs, and None, the default, says what becomes of the rest",
     JOB("'runPolicy':{'activeDeadlineSeconds':5},", ONE("")),
     {POD("tj-worker-0", RUNS)},
     "Failed",
     "Initialized Failed",
     "'deleted':1",
     6},
    {"All: no pod stays",
     JOB("'runPolicy':{'cleanUpPolicy':'All'},", ONE("")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", PHASE("Succeeded"))},
     "Succeeded",
     "Initialized Completed",
     "'deleted':1",
     0},
    {"None: the pods stay",
     JOB("", ONE("")),
     {POD("tj-worker-0", RUNS), POD("tj-worker-0", PHASE("Succeeded"))},
     "Succeeded",
     "Initialized Completed",
     "'succeeded':1",
     0},
    {"paused from the start: no pods",
     JOB("'runMode':{'pause':{'enabled':true}},", ONE("")),
     {{0}},
     "Paused",
     "Initialized Paused",
     "'deleted':1",
     0},
    {"paused in the older spelling",
     JOB("'runMode':{'pause':{'enable':true}},", ONE("")),
     {{0}},
     "Paused",
     "Initialized Paused",
     "'deleted':1",
     0},
    {"paused while running",
     JOB("", ONE("")),
     {POD("tj-worker-0", RUNS), SELF("{'spec':{'runMode':{'pause':{'enabled':true}}}}")},
     "Paused",
     "Initialized Paused",
     "'deleted':1",
     0},
    {"what is paused says how to go on",
     JOB("'runMode':{'pause':{'enabled':true}},", ONE("")),
     {{0}},
     "Paused",
     "Initialized Paused",
     "set spec.runMode.pause.enabled to false to continue",
     0},
    {"what is paused says so in the spelling that it was given",
     JOB("'runMode':{'pause':{'enable':true}},", ONE("")),
     {{0}},
     "Paused",
     "Initialized Paused",
     "set spec.runMode.pause.enable to false to continue",
     0},
    {"seed 004 knows no phase Deleted",
     JOB("'runMode':{'pause':{'enabled':true}},", ONE("")),
     {{0}},
     "Paused",
     "Initialized Paused",
     "'replicaStatus':[{'name':'tj-worker-0','phase':'Unknown'}],'replicas':[{'name':'tj-worker-0',"
     "'phase':'Deleted'}]",
     0},
    {"there is one master, however many pods there are",
     JOB("'torchrunConfig':{'enabled':true},'elastic':{'enabled':true,'minReplicas':1,"
         "'maxReplicas':4,'expectedReplicas':4},",
         TWO),
     {{0}},
     "Pending",
     "Initialized",
     "'name':'tj-worker-2'",
     0},
    {"resumed: it is on its way",
     JOB("'runMode':{'pause':{'enabled':true}},", ONE("")),
     {SELF("{'spec':{'runMode':{'pause':{'enabled':false}}}}")},
     "Resuming",
     "Initialized",
     "'reason':'Resumed'",
     0},
    {"resumed: it runs",
     JOB("'runMode':{'pause':{'enabled':true}},", ONE("")),
     {SELF("{'spec':{'runMode':{'pause':{'enabled':false}}}}"), POD("tj-worker-0", RUNS)},
     "Running",
     "Initialized Running",
     "'resumed':true",
     0},
    {"a pause costs no restart",
     JOB("", ONE("'restartPolicy':'Always',")),
     {POD("tj-worker-0", RUNS), SELF("{'spec':{'runMode':{'pause':{'enabled':true}}}}"),
      SELF("{'spec':{'runMode':{'pause':{'enabled':false}}}}")},
     "Resuming",
     "Initialized",
     "'backoffCount':0",
     0},
    {"a template without containers",
     JOB("", "{'type':'w','template':{'spec':{}}}"),
     {{0}},
     "Pending",
     "",
     "'reason':'InvalidReplicaSpec'",
     0},
};

static struct str truths(struct scene *scene)
{
    struct str text = STR("");

    JSON_FOREACH(json_at(scene_get(scene, &kind_pytorchtrainingjob, "tj"), "status.conditions"),
                 condition)
        if (str_is(json_str(json_get(condition, "status")), "True"))
            text = str_printf(&scene->arena, STR_FMT "%s" STR_FMT, STR_ARG(text),
                              text.len ? " " : "", STR_ARG(json_str(json_get(condition, "type"))));
    return text;
}

TEST(a_pytorchtrainingjob_follows_its_replicas)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_node,
                  "{'metadata':{'name':'node'},'status':{'conditions':[{'type':'Ready','status':"
                  "'True'}]}}");
        scene_put(&scene, &kind_pytorchtrainingjob, rows[i].job);
        scene_run(&scene, &tensorstack_job_controller, "tj");
        for (size_t j = 0; j < 4 && rows[i].steps[j].kind; j++) {
            const struct step *step = &rows[i].steps[j];

            scene_patch(&scene, step->kind, step->name, step->patch);
            scene_run(&scene, &tensorstack_job_controller, "tj");
        }
        scene.now_ms += rows[i].later_s * 1000;
        scene_run(&scene, &tensorstack_job_controller, "tj");
        const struct json *job = scene_get(&scene, &kind_pytorchtrainingjob, "tj");
        struct str status = json_text(&scene.arena, json_get(job, "status"));
        EXPECT(str_is(json_str_at(job, "status.phase"), rows[i].phase));
        EXPECT(str_is(truths(&scene), rows[i].truths));
        EXPECT(json_count(json_at(job, "status.conditions")) == 6);
        EXPECT(str_contains(status, scene_text(&scene, rows[i].status)));
    }
}

static const struct {
    const char *why;
    const char *spec;
    const char *command; /* of the first worker, joined by blanks */
} commands[] = {
    {"plain: as it is", "", "python | t.py"},
    {"debug: nothing of the training", "'runMode':{'debug':{'enabled':true}},", "sleep inf | "},
    {"debug: what it says",
     "'runMode':{'debug':{'enable':true,'replicaSpecs':[{'type':'worker','command':['sshd']}]}},",
     "sshd | "},
    {"torchrun",
     "'torchrunConfig':{'enabled':true,'procPerNode':'gpu','maxRestarts':2,'extraOptions':['-t','3'"
     "]},",
     "torchrun --nnodes=1 --nproc_per_node=gpu --rdzv_backend=c10d "
     "--rdzv_endpoint=tj-worker-0:29500 --rdzv_id=u-tj-0 --max_restarts=2 --role=worker -t 3 t.py "
     "| "},
    {"torchrun, elastic",
     "'torchrunConfig':{'enable':true},'elastic':{'enable':true,'minReplicas':1,'maxReplicas':4,"
     "'expectedReplicas':2},",
     "torchrun --nnodes=1:4 --nproc_per_node=1 --rdzv_backend=c10d "
     "--rdzv_endpoint=tj-worker-0:29500 --rdzv_id=u-tj-0 --max_restarts=0 --role=worker t.py | "},
};

TEST(a_replica_runs_what_the_mode_says)
{
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(commands[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_pytorchtrainingjob,
                  str_printf(&scene.arena, JOB("%s", ONE("")), commands[i].spec).p);
        scene_run(&scene, &tensorstack_job_controller, "tj");
        const struct json *container =
            json_at(scene_get(&scene, &kind_pod, "tj-worker-0"), "spec.containers.0");
        struct str got = str_printf(&scene.arena, STR_FMT " | " STR_FMT,
                                    STR_ARG(scene_words(&scene, json_get(container, "command"))),
                                    STR_ARG(scene_words(&scene, json_get(container, "args"))));
        EXPECT(str_is(got, commands[i].command));
    }
}

static const struct {
    const char *why;
    int64_t weights[3];
    int64_t total;
    int64_t shares[3];
} shares[] = {
    {"alike", {1, 1, 1}, 6, {2, 2, 2}},
    {"by weight", {1, 2, 0}, 6, {2, 4, 0}},
    {"the largest remainder gets the rest", {1, 2, 2}, 4, {1, 2, 1}},
    {"the first type has the master", {0, 1, 1}, 4, {1, 1, 2}},
    {"no weight at all", {0, 0, 0}, 3, {3, 0, 0}},
    {"nothing to share", {1, 1, 1}, 0, {0, 0, 0}},
};

TEST(elastic_pods_are_shared_by_weight)
{
    for (size_t i = 0; i < COUNT_OF(shares); i++) {
        int64_t got[3] = {0};

        test_case(shares[i].why);
        tensorstack_share(shares[i].weights, 3, shares[i].total, got);
        for (size_t j = 0; j < 3; j++)
            EXPECT(got[j] == shares[i].shares[j]);
    }
}
