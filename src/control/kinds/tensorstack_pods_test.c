#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* What a PyTorchTrainingJob says -> its pods, its priority class, its TensorBoard. */

#define REPLICA(type, more, pod) "{'type':'" type "'," more "'template':{'spec':{" pod "}}}"
#define MAIN(more) \
    "'containers':[{'name':'c','image':'i','command':['python'],'args':['t.py']" more "}]"
#define JOB(spec, replicas) \
    "{'metadata':{'name':'tj'},'spec':{" spec "'replicaSpecs':[" replicas "]}}"
#define ONE            JOB("", REPLICA("worker", "", MAIN("")))
#define TORCHRUN(more) "'torchrunConfig':{'enabled':true" more "},"

static void begin(struct scene *scene, const char *job)
{
    scene_open(scene);
    scene_put(scene, &kind_pytorchtrainingjob, job);
    scene_run(scene, &tensorstack_job_controller, "tj");
}

static const struct json *status_of(struct scene *scene)
{
    return json_get(scene_get(scene, &kind_pytorchtrainingjob, "tj"), "status");
}

static struct str quoted(struct scene *scene, const struct json *value)
{
    char *text = str_c(&scene->arena, value ? json_text(&scene->arena, value) : STR(""));

    for (char *c = text; *c; c++)
        *c = *c == '"' ? '\'' : *c;
    return str_from(text);
}

static const struct {
    const char *why;
    const char *job;
    const char *pods; /* their names */
    const char *path; /* in the first of them */
    const char *is;
} rows[] = {
    {"types are small in names", JOB("", REPLICA("PS", "", MAIN(""))), "tj-ps-0",
     "spec.restartPolicy", "'Never'"},
    {"variables of ours come before the user's, which may use them",
     JOB("", REPLICA("worker", "", MAIN(",'env':[{'name':'A','value':'$(RANK)'}]"))), "tj-worker-0",
     "spec.containers.0.env.4", "{'name':'A','value':'$(RANK)'}"},
    {"the container named python is the one",
     JOB("'runMode':{'debug':{'enabled':true}},",
         REPLICA("worker", "", "'containers':[{'name':'side','command':['x']},{'name':'python'}]")),
     "tj-worker-0", "spec.containers.1.command", "['sleep','inf']"},
    {"debug without what comes before",
     JOB("'runMode':{'debug':{'enabled':true,'replicaSpecs':[{'type':'other'},{'type':'worker',"
         "'skipInitContainer':true}]}},",
         REPLICA("worker", "", MAIN("") ",'initContainers':[{'name':'i'}]")),
     "tj-worker-0", "spec.initContainers", ""},
    {"debug of torchrun runs nothing of it",
     JOB(TORCHRUN("") "'runMode':{'debug':{'enabled':true}},", REPLICA("worker", "", MAIN(""))),
     "tj-worker-0", "spec.containers.0.command", "['sleep','inf']"},
    {"a store of the user's own is named in extraOptions",
     JOB(TORCHRUN(",'rdzvBackend':'etcd-v2'"), REPLICA("worker", "", MAIN(""))), "tj-worker-0",
     "spec.containers.0.command.4", "'--rdzv_id=u-tj-0'"},
    {"elastic without torchrun is not",
     JOB("'elastic':{'enabled':true,'minReplicas':1,'maxReplicas':4,'expectedReplicas':3},",
         REPLICA("worker", "", MAIN(""))),
     "tj-worker-0", "spec.containers.0.command", "['python']"},
    {"elastic: nothing is expected, so that it is what there is",
     JOB(TORCHRUN("") "'elastic':{'enabled':true,'minReplicas':1,'maxReplicas':4},",
         REPLICA("worker", "'replicas':2,", MAIN(""))),
     "tj-worker-0 tj-worker-1", "spec.containers.0.command.1", "'--nnodes=1:4'"},
    {"elastic: more is expected than there may be",
     JOB(TORCHRUN("") "'elastic':{'enabled':true,'minReplicas':1,'maxReplicas':2,"
                      "'expectedReplicas':9},",
         REPLICA("worker", "", MAIN(""))),
     "tj-worker-0 tj-worker-1", "spec.containers.0.command.1", "'--nnodes=1:2'"},
    {"elastic: no most is said",
     JOB(TORCHRUN("") "'elastic':{'enabled':true,'minReplicas':2,'expectedReplicas':1},",
         REPLICA("worker", "", MAIN(""))),
     "tj-worker-0 tj-worker-1", "spec.containers.0.command.1", "'--nnodes=2:2'"},
    {"elastic: by weight, if one is said",
     JOB(TORCHRUN("") "'elastic':{'enabled':true,'minReplicas':1,'maxReplicas':3,"
                      "'expectedReplicas':3},",
         REPLICA("a", "'scalingWeight':1,", MAIN("")) "," REPLICA("b",
                                                                  "'scalingWeight':2,",
                                                                  MAIN(""))),
     "tj-a-0 tj-b-0 tj-b-1", "spec.containers.0.command.1", "'--nnodes=1:3'"},
    {"the oldest form: so many nodes at least",
     JOB(TORCHRUN(",'minNodes':1"), REPLICA("worker", "'replicas':2,", MAIN(""))),
     "tj-worker-0 tj-worker-1", "spec.containers.0.command.1", "'--nnodes=1:2'"},
    {"a queue is our scheduler's, with a class for its priority",
     JOB("'scheduler':{'t9kScheduler':{'queue':'q','priority':7}},",
         REPLICA("worker", "", MAIN(""))),
     "tj-worker-0", "spec.schedulerName", "'kai-scheduler'"},
    {"unless the template names another",
     JOB("'scheduler':{'t9kScheduler':{'queue':'q'}},",
         REPLICA("worker", "", MAIN("") ",'schedulerName':'mine'")),
     "tj-worker-0", "spec.schedulerName", "'mine'"},
};

TEST(the_pods_of_a_pytorchtrainingjob_are_what_it_says)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct str rest = str_from(rows[i].pods);
        struct str first = STR_NONE;

        test_case(rows[i].why);
        begin(&scene, rows[i].job);
        EXPECT(str_is(scene_names(&scene, &kind_pod), rows[i].pods));
        (void)str_cut(&rest, ' ', &first);
        const struct json *pod = scene_get(&scene, &kind_pod, str_c(&scene.arena, first));
        struct str got = quoted(&scene, json_at(pod, rows[i].path));
        if (!str_is(got, rows[i].is))
            test_fail(__FILE__, __LINE__, str_c(&scene.arena, got));
    }
}

TEST(a_replica_of_a_pytorchtrainingjob_that_makes_no_pod_is_named)
{
    static const char *const jobs[][2] = {
        {JOB("", ""), "spec.replicaSpecs: name at least one type"},
        {JOB("", REPLICA("w", "'replicas':5000,", MAIN(""))),
         "spec.replicaSpecs: type \"w\" needs template.spec.containers and 0 to 4096 replicas"},
        {JOB("", REPLICA("w", "'replicas':-1,", MAIN(""))),
         "spec.replicaSpecs: type \"w\" needs template.spec.containers and 0 to 4096 replicas"},
        {JOB("", REPLICA("", "", MAIN(""))), "spec.replicaSpecs: name at least one type"},
    };

    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(jobs[i][1]);
        begin(&scene, jobs[i][0]);
        struct str message = json_str(json_get(status_of(&scene), "message"));
        if (!str_is(message, jobs[i][1]))
            test_fail(__FILE__, __LINE__, str_c(&scene.arena, message));
        EXPECT(str_is(scene_names(&scene, &kind_pod), ""));
    }
}

TEST(a_priority_of_the_t9k_scheduler_is_a_class_made_once)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("'scheduler':{'t9kScheduler':{'Queue':'q','priority':7}},",
                      REPLICA("Worker", "", MAIN(""))));
    const struct json *class = scene_get(&scene, &kind_priorityclass, "tensorstack-7");
    const struct json *pod = scene_get(&scene, &kind_pod, "tj-worker-0");
    EXPECT(json_i64_or(json_get(class, "value"), 0) == 7);
    const struct json *labels = json_at(pod, "metadata.labels");
    EXPECT(str_is(json_str(json_get(labels, "kai.scheduler/queue")), "q"));
    EXPECT(str_is(json_str(json_get(labels, "scheduler.tensorstack.dev/role")), "Worker"));
    EXPECT(str_is(
        scene_keys(&scene, &tensorstack_job_controller, &kind_priorityclass, "tensorstack-7"), ""));
}

TEST(a_resumed_replica_runs_what_it_was_to_run_then)
{
    static const struct {
        const char *why;
        const char *resume;
        const char *command;
        const char *init; /* "": none runs first */
    } cases[] = {
        {"nothing is said", "", "python t.py", "i"},
        {"of another type", "{'type':'other','args':['x']}", "python t.py", "i"},
        {"arguments", "{'type':'worker','args':['t.py','--resume']}", "python t.py --resume", "i"},
        {"a command, and nothing before it",
         "{'type':'worker','command':['sh'],'skipInitContainer':true}", "sh t.py", ""},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(cases[i].why);
        scene_open(&scene);
        scene_put(
            &scene, &kind_pytorchtrainingjob,
            str_printf(&scene.arena,
                       JOB("'runMode':{'pause':{'enabled':true,'resumeSpecs':[%s]}},",
                           REPLICA("worker", "", MAIN("") ",'initContainers':[{'name':'i'}]")),
                       cases[i].resume)
                .p);
        scene_run(&scene, &tensorstack_job_controller, "tj");
        scene_patch(&scene, &kind_pytorchtrainingjob, "tj",
                    "{'spec':{'runMode':{'pause':{'enabled':false}}}}");
        scene_run(&scene, &tensorstack_job_controller, "tj");
        const struct json *spec = json_get(scene_get(&scene, &kind_pod, "tj-worker-0"), "spec");
        const struct json *main = json_at(spec, "containers.0");
        struct str words = str_printf(&scene.arena, STR_FMT " " STR_FMT,
                                      STR_ARG(scene_words(&scene, json_get(main, "command"))),
                                      STR_ARG(scene_words(&scene, json_get(main, "args"))));
        EXPECT(str_is(words, cases[i].command));
        EXPECT(str_is(json_str_at(spec, "initContainers.0.name"), cases[i].init));
    }
}

TEST(pods_of_the_other_mode_go_before_those_of_the_new_one_come)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, ONE);
    scene_patch(&scene, &kind_pytorchtrainingjob, "tj",
                "{'spec':{'runMode':{'debug':{'enabled':true}}}}");
    EXPECT(scene_turn(&scene, &tensorstack_job_controller, "tj"));
    EXPECT(str_is(scene_names(&scene, &kind_pod), ""));
    EXPECT(str_is(json_str(json_get(status_of(&scene), "phase")), "Pending"));
    scene_run(&scene, &tensorstack_job_controller, "tj");
    EXPECT(str_is(json_str(json_get(status_of(&scene), "mode")), "debug"));
    EXPECT(str_is(quoted(&scene, json_at(scene_get(&scene, &kind_pod, "tj-worker-0"),
                                         "spec.containers.0.command")),
                  "['sleep','inf']"));
}

TEST(only_some_ends_of_a_replica_are_tried_again_by_their_code)
{
    static const struct {
        int code;
        const char *phase;
    } cases[] = {{130, "Pending"}, {137, "Pending"}, {138, "Pending"},
                 {143, "Pending"}, {1, "Failed"},    {139, "Failed"}};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        begin(&scene, JOB("", REPLICA("worker", "'restartPolicy':'ExitCode',", MAIN(""))));
        scene_patch(&scene, &kind_pod, "tj-worker-0",
                    str_printf(&scene.arena,
                               "{'status':{'phase':'Failed','containerStatuses':[{'name':'c',"
                               "'state':{'terminated':{'exitCode':%d,'finishedAt':"
                               "'1970-01-01T00:16:40Z'}}}]}}",
                               cases[i].code)
                        .p);
        scene_run(&scene, &tensorstack_job_controller, "tj");
        EXPECT(str_is(json_str(json_get(status_of(&scene), "phase")), cases[i].phase));
    }
}

TEST(the_status_of_a_replica_says_what_its_containers_do)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, ONE);
    scene_patch(&scene, &kind_pod, "tj-worker-0",
                "{'status':{'phase':'Pending','containerStatuses':[{'name':'c','state':{'waiting':{"
                "}}},{'name':'d','state':{'running':{}}}]}}");
    scene_run(&scene, &tensorstack_job_controller, "tj");
    EXPECT(str_is(quoted(&scene, json_at(status_of(&scene), "tasks.0.replicas.0.containers")),
                  "[{'name':'c','state':'waiting'},{'name':'d','state':'running'}]"));
    scene_patch(&scene, &kind_pod, "tj-worker-0", "{'spec':{'nodeName':'gone'}}");
    scene_run(&scene, &tensorstack_job_controller, "tj");
    EXPECT(str_is(json_str_at(status_of(&scene), "tasks.0.replicas.0.phase"), "Unknown"));
}

TEST(a_tensorboard_of_a_job_is_made_with_it_and_told_in_its_status)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB("'tensorboardSpec':{'image':'tb'},", REPLICA("worker", "", MAIN(""))));
    const struct json *board = scene_get(&scene, &kind_tensorboard, "tj-tensorboard");
    EXPECT(str_is(json_str_at(board, "spec.image"), "tb"));
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.reason"), "DependentNotReady"));
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.type"), "Normal"));
    scene_patch(&scene, &kind_tensorboard, "tj-tensorboard",
                "{'status':{'ready':false,'reason':'TensorBoardNotInstalled','note':'n','type':"
                "'Warning'}}");
    scene_run(&scene, &tensorstack_job_controller, "tj");
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.reason"), "TensorBoardNotInstalled"));
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.note"), "n"));
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.type"), "Warning"));
    scene_patch(&scene, &kind_tensorboard, "tj-tensorboard", "{'status':{'ready':true}}");
    scene_run(&scene, &tensorstack_job_controller, "tj");
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.reason"), "DependentReady"));
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.dependent.uid"), "u-tj-tensorboard"));
    EXPECT(str_is(json_str_at(status_of(&scene), "tensorboard.action"), "NOP"));
    scene_patch(&scene, &kind_pytorchtrainingjob, "tj", "{'spec':{'tensorboardSpec':null}}");
    scene_run(&scene, &tensorstack_job_controller, "tj");
    EXPECT(!json_get(status_of(&scene), "tensorboard"));
}

TEST(a_pytorchtrainingjob_that_goes_or_is_gone_makes_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, "{'metadata':{'name':'tj','deletionTimestamp':'1970-01-01T00:16:41Z'},'spec':{"
                  "'scheduler':{'t9kScheduler':{'queue':'q'}},'replicaSpecs':[" REPLICA(
                      "worker", "", MAIN("")) "]}}");
    scene_run(&scene, &tensorstack_job_controller, "none");
    EXPECT(str_is(scene_names(&scene, &kind_pod), ""));
    EXPECT(str_is(scene_names(&scene, &kind_priorityclass), ""));
}

TEST(a_command_that_torchrun_takes_the_place_of_is_named)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, JOB(TORCHRUN(""), REPLICA("worker", "", MAIN(""))));
    EXPECT(str_contains(scene.event_words,
                        STR("replicaSpecs[worker].template: command of container")));
    EXPECT(str_contains(scene.event_words, STR("put the script there")));
}
