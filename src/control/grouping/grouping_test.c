#include "api/group.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/core/control.h"
#include "control/grouping/group.h"
#include "control/grouping/grouping.h"
#include "test.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The rules as a table: an owner and a pod -> the group. */
struct row {
    const char *why;
    const char *owner; /* "": the pod has none */
    const char *pod;   /* members of metadata besides name and uid */
    const char *name;  /* of the group; NULL: refused */
    int64_t min;
    const char *sub;      /* of the pod; "" none */
    const char *priority; /* NULL: train */
    size_t subs;
};

#define META "\"metadata\":{\"name\":\"o\",\"uid\":\"u\",\"namespace\":\"d\"}"

static const struct row rows[] = {
    {"a pod alone is its own group", "", "", "pg-p-pu", 1, "", NULL, 0},
    {"a Spark pod is named after its application", "",
     ",\"labels\":{\"spark-app-name\":\"a\",\"spark-app-selector\":\"sel\"}", "sel", 1, "", NULL,
     0},
    {"an unknown kind gets one group that starts with one pod",
     "{\"apiVersion\":\"x/v1\",\"kind\":\"Thing\"," META "}", "", "pg-o-u", 1, "", NULL, 0},
    {"the pods of a Job are one group", "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\"," META "}",
     "", "pg-o-u", 1, "", NULL, 0},
    {"a Job says how many pods it begins with",
     "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"o\",\"uid\":\"u\","
     "\"namespace\":\"d\",\"annotations\":{\"kai.scheduler/batch-min-member\":\"3\"}}}",
     "", "pg-o-u", 3, "", NULL, 0},
    {"in numbers",
     "{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"metadata\":{\"name\":\"o\",\"uid\":\"u\","
     "\"namespace\":\"d\",\"annotations\":{\"kai.scheduler/batch-min-member\":\"some\"}}}",
     "", NULL, 0, "", NULL, 0},
    {"pods of a Deployment are on their own, and serve",
     "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\"," META "}", "", "pg-p-pu", 1, "",
     "inference", 0},
    {"a notebook is interactive",
     "{\"apiVersion\":\"kubeflow.org/v1beta1\",\"kind\":\"Notebook\"," META "}", "", "pg-o-u", 1,
     "", "build", 0},
    {"all replicas of a PyTorchJob start together",
     "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"PyTorchJob\"," META
     ",\"spec\":{\"pytorchReplicaSpecs\":{\"Master\":{\"replicas\":1},\"Worker\":{\"replicas\":3}}}"
     "}",
     ",\"labels\":{\"training.kubeflow.org/replica-type\":\"worker\"}", "pg-o-u", 4, "worker", NULL,
     2},
    {"an elastic PyTorchJob starts with its minimum",
     "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"PyTorchJob\"," META
     ",\"spec\":{\"elasticPolicy\":{\"minReplicas\":2},\"pytorchReplicaSpecs\":{\"Worker\":{"
     "\"replicas\":5}}}}",
     "", "pg-o-u", 2, "", NULL, 1},
    {"a gang of nothing is refused",
     "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"TFJob\"," META
     ",\"spec\":{\"tfReplicaSpecs\":{\"Worker\":{\"replicas\":0}}}}",
     "", NULL, 0, "", NULL, 0},
    {"an MPIJob needs its launcher",
     "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"MPIJob\"," META
     ",\"spec\":{\"mpiReplicaSpecs\":{\"Worker\":{\"replicas\":2}}}}",
     "", NULL, 0, "", NULL, 0},
    {"an MPIJob whose launcher comes later does not wait for it",
     "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"MPIJob\"," META
     ",\"spec\":{\"launcherCreationPolicy\":\"WaitForWorkersReady\",\"mpiReplicaSpecs\":{"
     "\"Launcher\":{\"replicas\":1},\"Worker\":{\"replicas\":2}}}}",
     "", "pg-o-u", 2, "", NULL, 0},
    {"a JobSet is one group, its sets and their Jobs subgroups",
     "{\"apiVersion\":\"jobset.x-k8s.io/v1alpha2\",\"kind\":\"JobSet\"," META
     ",\"spec\":{\"replicatedJobs\":[{\"name\":\"w\",\"replicas\":2,\"template\":{\"spec\":{"
     "\"parallelism\":4}}}]}}",
     ",\"labels\":{\"jobset.sigs.k8s.io/replicatedjob-name\":\"w\","
     "\"jobset.sigs.k8s.io/job-index\":\"1\"}",
     "pg-o-u", 0, "w-replica-1", NULL, 3},
    {"a Job that the JobSet does not have",
     "{\"apiVersion\":\"jobset.x-k8s.io/v1alpha2\",\"kind\":\"JobSet\"," META
     ",\"spec\":{\"replicatedJobs\":[{\"name\":\"w\"}]}}",
     ",\"labels\":{\"jobset.sigs.k8s.io/replicatedjob-name\":\"w\","
     "\"jobset.sigs.k8s.io/job-index\":\"1\"}",
     NULL, 0, "", NULL, 0},
    {"a set that can begin with fewer pods does",
     "{\"apiVersion\":\"jobset.x-k8s.io/v1alpha2\",\"kind\":\"JobSet\"," META
     ",\"spec\":{\"replicatedJobs\":[{\"name\":\"w\",\"replicas\":2,\"template\":{\"metadata\":{"
     "\"annotations\":{\"torchrun.ai/min-pods\":\"3\"}},\"spec\":{\"parallelism\":4}}}]}}",
     ",\"labels\":{\"jobset.sigs.k8s.io/replicatedjob-name\":\"w\","
     "\"jobset.sigs.k8s.io/job-index\":\"0\"}",
     "pg-o-u", 0, "w-replica-0", NULL, 3},
    {"a LeaderWorkerSet group is leader and workers",
     "{\"apiVersion\":\"leaderworkerset.x-k8s.io/v1\",\"kind\":\"LeaderWorkerSet\"," META
     ",\"spec\":{\"leaderWorkerTemplate\":{\"size\":3}}}",
     ",\"labels\":{\"leaderworkerset.sigs.k8s.io/group-index\":\"1\","
     "\"leaderworkerset.sigs.k8s.io/worker-index\":\"0\"}",
     "pg-o-u-group-1", 3, "leader", NULL, 2},
    {"a LeaderWorkerSet in segments",
     "{\"apiVersion\":\"leaderworkerset.x-k8s.io/v1\",\"kind\":\"LeaderWorkerSet\"," META
     ",\"spec\":{\"leaderWorkerTemplate\":{\"size\":4,\"subGroupPolicy\":{\"subGroupSize\":2}}}}",
     ",\"labels\":{\"leaderworkerset.sigs.k8s.io/worker-index\":\"3\"}", "pg-o-u", 4, "segment-1",
     NULL, 4},
    {"a RayCluster is its head and the least of each group",
     "{\"apiVersion\":\"ray.io/v1\",\"kind\":\"RayCluster\"," META
     ",\"spec\":{\"workerGroupSpecs\":[{\"groupName\":\"g\",\"replicas\":4,\"minReplicas\":2}]}}",
     ",\"labels\":{\"ray.io/group\":\"g\"}", "pg-o-u", 3, "g", NULL, 2},
    {"pods of a Workflow are on their own: the workflow only orders them",
     "{\"apiVersion\":\"argoproj.io/v1alpha1\",\"kind\":\"Workflow\"," META "}", "", "pg-p-pu", 1,
     "", NULL, 0},
    {"a TorchrunJob starts with its minimum",
     "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\"," META "}",
     ",\"labels\":{\"torchrun.ai/role\":\"worker\"}", "pg-o-u", 7, "", NULL, 0},
    {"the sync pod of a TorchrunJob is not part of the gang",
     "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\"," META "}",
     ",\"labels\":{\"torchrun.ai/role\":\"sync\"}", "pg-p-pu", 1, "", NULL, 0},
    {"the roles of a PyTorchTrainingJob start together",
     "{\"apiVersion\":\"batch.tensorstack.dev/v1beta1\",\"kind\":\"PyTorchTrainingJob\"," META
     ",\"spec\":{\"replicaSpecs\":[{\"type\":\"master\",\"replicas\":1},{\"type\":\"worker\","
     "\"replicas\":3}]}}",
     "", "pg-o-u", 4, "", NULL, 0},
};

static const struct json *find(void *user, const char *kind, struct str ns, struct str name)
{
    (void)user;
    (void)kind;
    (void)ns;
    (void)name;
    return NULL;
}

static const struct json *next(void *user, const char *kind, struct str ns, size_t *cursor)
{
    (void)user;
    (void)kind;
    (void)ns;
    (void)cursor;
    return NULL;
}

static struct json *parse(struct arena *arena, struct str text)
{
    struct json *root = NULL;
    int r = json_parse(arena, text, &root, NULL);

    if (r < 0)
        printf("bad test object: " STR_FMT "\n", STR_ARG(text));
    assert(r == 0);
    return root;
}

TEST(pods_are_grouped_by_the_rule_of_their_owners_kind)
{
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct row *row = &rows[i];
        struct grouping_input in = {.arena = &arena,
                                    .config = &config,
                                    .find = find,
                                    .next = next,
                                    .knative_gang = true,
                                    .torchrun_min = 7};
        struct grouping group;
        struct err err = {0};

        test_case(row->why);
        in.pod = parse(&arena, str_printf(&arena,
                                          "{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\","
                                          "\"namespace\":\"d\"%s}}",
                                          row->pod));
        if (row->owner[0])
            in.owners[in.owner_count++] = parse(&arena, str_from(row->owner));
        int r = grouping_decide(&in, NULL, &group, &err);
        EXPECT((r == 0) == (row->name != NULL));
        if (r < 0 || !row->name) {
            EXPECT(err.text[0] != '\0');
            continue;
        }
        EXPECT(str_is(group.name, row->name));
        EXPECT(group.min_member == row->min);
        EXPECT(str_eq(group.pod_sub, str_from(row->sub)));
        EXPECT(str_is(group.priority, row->priority ? row->priority : "train"));
        EXPECT(str_is(group.queue, "default-queue"));
        EXPECT(group.subs.count == row->subs);
    }
}

TEST(a_role_must_say_its_replicas_only_where_kai_is_followed_to_the_letter)
{
    static const struct {
        const char *why;
        const char *kind;
        const char *spec;
        int64_t min; /* ours */
        bool strict; /* whether KAI takes it too */
    } roles[] = {
        {"counted", "TFJob", "\"tfReplicaSpecs\":{\"Worker\":{\"replicas\":2}}", 2, true},
        {"not counted", "TFJob", "\"tfReplicaSpecs\":{\"Worker\":{}}", 1, false},
        {"one of none", "TFJob",
         "\"tfReplicaSpecs\":{\"PS\":{\"replicas\":0},\"Worker\":{\"replicas\":2}}", 2, false},
        {"a master alone", "XGBoostJob", "\"xgbReplicaSpecs\":{\"Master\":{\"replicas\":1}}", 1,
         false},
        {"with its minimum", "TFJob",
         "\"runPolicy\":{\"schedulingPolicy\":{\"minAvailable\":3}},\"tfReplicaSpecs\":{"
         "\"Worker\":{}}",
         3, true},
    };
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};

    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping_input in = {
            .arena = &arena, .config = &config, .find = find, .next = next, .owner_count = 1};
        struct grouping group;
        struct err err = {0};

        test_case(roles[i].why);
        in.pod = parse(&arena, STR("{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\"}}"));
        in.owners[0] =
            parse(&arena, str_printf(&arena,
                                     "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"%s\"," META
                                     ",\"spec\":{%s}}",
                                     roles[i].kind, roles[i].spec));
        EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0 && group.min_member == roles[i].min);
        in.strict_roles = true;
        EXPECT((grouping_decide(&in, NULL, &group, &err) == 0) == roles[i].strict);
        EXPECT(roles[i].strict || err.text[0]);
    }
}

/* Pods that are part of a job and may be no rank of it: what makes them, from the job down. */
#define TRAINING_JOB                                                                          \
    "{\"apiVersion\":\"batch.tensorstack.dev/v1beta1\",\"kind\":\"PyTorchTrainingJob\"," META \
    ",\"spec\":{\"replicaSpecs\":[{\"type\":\"worker\",\"replicas\":2}]}}"
#define MPI_JOB(more)                                                                           \
    "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"MPIJob\"," META                             \
    ",\"spec\":{\"mpiReplicaSpecs\":{\"Launcher\":{\"replicas\":1},\"Worker\":{\"replicas\":2}" \
    "}" more "}}"
#define BELOW(version, kind)                                               \
    "{\"apiVersion\":\"" version "\",\"kind\":\"" kind "\",\"metadata\":{" \
    "\"name\":\"b\",\"uid\":\"bu\",\"namespace\":\"d\"}}"
#define TF_JOB                                                     \
    "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"TFJob\"," META \
    ",\"spec\":{\"tfReplicaSpecs\":{\"Chief\":{\"replicas\":1},\"Evaluator\":{\"replicas\":1}}}}"
#define RAY_JOB                                               \
    "{\"apiVersion\":\"ray.io/v1\",\"kind\":\"RayJob\"," META \
    ",\"status\":{\"rayClusterName\":\"c\"}}"
#define PYTORCH_JOB                                                                          \
    "{\"apiVersion\":\"kubeflow.org/v1\",\"kind\":\"PyTorchJob\"," META                      \
    ",\"spec\":{\"elasticPolicy\":{\"minReplicas\":2},\"pytorchReplicaSpecs\":{\"Worker\":{" \
    "\"replicas\":2}}}}"
#define TRAIN_SET                                                                          \
    "{\"apiVersion\":\"jobset.x-k8s.io/v1alpha2\",\"kind\":\"JobSet\"," META               \
    ",\"spec\":{\"replicatedJobs\":[{\"name\":\"dataset-initializer\",\"replicas\":1},{"   \
    "\"name\":\"node\",\"replicas\":1,\"dependsOn\":[{\"name\":\"dataset-initializer\"}]," \
    "\"template\":{\"spec\":{\"parallelism\":2}}}]}}"

static const struct {
    const char *why;
    const char *owners[2]; /* the job first */
    const char *labels;
    const char *group;
    int64_t min; /* of that group */
} companions[] = {
    {"a replica is a rank", {TRAINING_JOB}, "{\"torchrun.ai/role\":\"worker\"}", "pg-o-u", 2},
    {"a TensorBoard looks on: it is none of the two",
     {TRAINING_JOB, BELOW("tensorstack.dev/v1beta1", "TensorBoard")},
     "{\"tensorstack.dev/tensorboard\":\"b\"}",
     "pg-p-pu",
     1},
    {"the store of a rendezvous is there before the workers",
     {PYTORCH_JOB},
     "{\"torchrun.ai/role\":\"sync\"}",
     "pg-p-pu",
     1},
    {"so is the pod that has a TorchrunJob's files, however long that may run",
     {"{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\"," META
      ",\"spec\":{\"maxRunTime\":\"1h\"}}"},
     "{\"torchrun.ai/role\":\"sync\"}",
     "pg-p-pu",
     1},
    {"a launcher is counted", {MPI_JOB("")}, "{}", "pg-o-u", 3},
    {"also where a Job makes it",
     {MPI_JOB(""), BELOW("batch/v1", "Job")},
     "{\"training.kubeflow.org/job-role\":\"launcher\"}",
     "pg-o-u",
     3},
    {"an evaluator is counted",
     {TF_JOB},
     "{\"training.kubeflow.org/replica-type\":\"evaluator\"}",
     "pg-o-u",
     2},
    {"what fetches the data is done before the trainer comes",
     {TRAIN_SET, BELOW("batch/v1", "Job")},
     "{\"jobset.sigs.k8s.io/replicatedjob-name\":\"dataset-initializer\","
     "\"jobset.sigs.k8s.io/job-index\":\"0\"}",
     "pg-o-u",
     0},
    {"and the trainer does not count it",
     {TRAIN_SET, BELOW("batch/v1", "Job")},
     "{\"jobset.sigs.k8s.io/replicatedjob-name\":\"node\",\"jobset.sigs.k8s.io/job-index\":\"0\"}",
     "pg-o-u",
     0},
    {"the head of a RayJob's cluster is counted",
     {RAY_JOB, BELOW("ray.io/v1", "RayCluster")},
     "{\"ray.io/node-type\":\"head\"}",
     "pg-o-u",
     3},
    {"who submits a RayJob's program is no part of the cluster",
     {RAY_JOB, BELOW("batch/v1", "Job")},
     "{}",
     "pg-p-pu",
     1},
};

static const struct json *find_cluster(void *user, const char *kind, struct str ns, struct str name)
{
    (void)ns;
    (void)name;
    return str_is(str_from(kind), "RayCluster") ? user : NULL;
}

TEST(a_pod_beside_the_ranks_of_a_job_is_in_its_gang_only_if_the_gang_counts_it)
{
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};

    for (size_t i = 0; i < COUNT_OF(companions); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping_input in = {.arena = &arena,
                                    .config = &config,
                                    .find = find_cluster,
                                    .next = next,
                                    .torchrun_min = 7};
        struct grouping group = {0};

        test_case(companions[i].why);
        in.user = parse(&arena, STR("{\"apiVersion\":\"ray.io/v1\",\"kind\":\"RayCluster\"," META
                                    ",\"spec\":{\"workerGroupSpecs\":[{\"groupName\":\"g\","
                                    "\"replicas\":2}]}}"));
        in.pod = parse(&arena, str_printf(&arena,
                                          "{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\","
                                          "\"namespace\":\"d\",\"labels\":%s}}",
                                          companions[i].labels));
        for (size_t j = 0; j < 2 && companions[i].owners[j]; j++)
            in.owners[in.owner_count++] = parse(&arena, str_from(companions[i].owners[j]));
        EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
        EXPECT(str_is(group.name, companions[i].group));
        EXPECT(group.min_member == companions[i].min);
        EXPECT(!group.max_run.len); /* what is beside the ranks has no limit of theirs */
    }
}

TEST(a_tensorboard_is_in_the_queue_of_its_job)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};
    struct grouping_input in = {
        .arena = &arena, .config = &config, .find = find, .next = next, .owner_count = 2};
    struct grouping group = {0};

    in.pod = parse(&arena, STR("{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\"}}"));
    in.owners[0] = parse(&arena, STR("{\"apiVersion\":\"batch.tensorstack.dev/v1beta1\",\"kind\":"
                                     "\"PyTorchTrainingJob\"," META ",\"spec\":{\"scheduler\":{"
                                     "\"t9kScheduler\":{\"queue\":\"lab\"}},\"replicaSpecs\":[{"
                                     "\"type\":\"worker\",\"replicas\":2}]}}"));
    in.owners[1] = parse(&arena, STR(BELOW("tensorstack.dev/v1beta1", "TensorBoard")));
    EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
    EXPECT(str_is(group.queue, "lab"));
    EXPECT(str_is(group.preemptibility, "preemptible"));
}

TEST(every_training_kind_can_be_semi_preemptible)
{
    static const struct {
        const char *version, *kind, *spec;
        const char *below; /* the owner of the pod, where that is another one */
    } kinds[] = {
        {"torchrun.ai/v1alpha1", "TorchrunJob", "", NULL},
        {"batch.tensorstack.dev/v1beta1", "PyTorchTrainingJob",
         "\"replicaSpecs\":[{\"type\":\"worker\",\"replicas\":2}]", NULL},
        {"kubeflow.org/v1", "PyTorchJob", "\"pytorchReplicaSpecs\":{\"Worker\":{\"replicas\":2}}",
         NULL},
        {"kubeflow.org/v1", "TFJob", "\"tfReplicaSpecs\":{\"Worker\":{\"replicas\":2}}", NULL},
        {"kubeflow.org/v1", "XGBoostJob",
         "\"xgbReplicaSpecs\":{\"Master\":{\"replicas\":1},\"Worker\":{\"replicas\":2}}", NULL},
        {"kubeflow.org/v1", "JAXJob", "\"jaxReplicaSpecs\":{\"Worker\":{\"replicas\":2}}", NULL},
        {"kubeflow.org/v1", "PaddleJob", "\"paddleReplicaSpecs\":{\"Worker\":{\"replicas\":2}}",
         NULL},
        {"kubeflow.org/v2beta1", "MPIJob",
         "\"mpiReplicaSpecs\":{\"Launcher\":{\"replicas\":1},\"Worker\":{\"replicas\":2}}", NULL},
        {"jobset.x-k8s.io/v1alpha2", "JobSet",
         "\"replicatedJobs\":[{\"name\":\"a\",\"replicas\":1,\"template\":{\"spec\":{"
         "\"parallelism\":2}}}]",
         NULL},
        {"trainer.kubeflow.org/v1alpha1", "TrainJob", "",
         "{\"apiVersion\":\"jobset.x-k8s.io/v1alpha2\",\"kind\":\"JobSet\"," META
         ",\"spec\":{\"replicatedJobs\":[{\"name\":\"a\",\"replicas\":1,\"template\":{\"spec\":"
         "{\"parallelism\":2}}}]}}"},
        {"batch/v1", "Job", "", NULL},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue")};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct grouping_input in = {
            .arena = &arena, .config = &config, .find = find, .next = next, .owner_count = 1};
        struct grouping group;
        struct err err = {0};

        test_case(kinds[i].kind);
        in.pod = parse(&arena, STR("{\"metadata\":{\"name\":\"p\",\"namespace\":\"d\",\"labels\":{"
                                   "\"training.kubeflow.org/replica-type\":\"worker\","
                                   "\"jobset.sigs.k8s.io/replicatedjob-name\":\"a\","
                                   "\"jobset.sigs.k8s.io/job-index\":\"0\"}}}"));
        in.owners[0] = parse(
            &arena, str_printf(&arena,
                               "{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"metadata\":{\"name\":"
                               "\"o\",\"uid\":\"u\",\"namespace\":\"d\",\"annotations\":{"
                               "\"kai.scheduler/preemptibility\":\"semi-preemptible\"}},"
                               "\"spec\":{%s}}",
                               kinds[i].version, kinds[i].kind, kinds[i].spec));
        if (kinds[i].below)
            in.owners[in.owner_count++] = parse(&arena, str_from(kinds[i].below));
        EXPECT(grouping_decide(&in, NULL, &group, &err) == 0);
        EXPECT(str_is(group.preemptibility, "semi-preemptible"));
    }
}

TEST(a_torchrun_job_is_placed_as_its_queue_says_unless_an_annotation_does)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue")};
    struct grouping_input in = {.arena = &arena,
                                .config = &config,
                                .find = find,
                                .next = next,
                                .owner_count = 1,
                                .torchrun_topology = {STR("dc"), STR("rack"), STR_NONE}};
    struct grouping group;

    in.pod = parse(&arena, STR("{\"metadata\":{\"name\":\"p\",\"namespace\":\"d\"}}"));
    in.owners[0] = parse(&arena, STR("{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":"
                                     "\"TorchrunJob\"," META "}"));
    EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
    EXPECT(str_is(group.topology.topology, "dc") && str_is(group.topology.required, "rack"));
    in.owners[0] =
        parse(&arena, STR("{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\","
                          "\"metadata\":{\"name\":\"o\",\"namespace\":\"d\",\"annotations\":{"
                          "\"kai.scheduler/topology\":\"other\","
                          "\"kai.scheduler/topology-preferred-placement\":\"zone\"}}}"));
    EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
    EXPECT(str_is(group.topology.topology, "other") && !group.topology.required.len);
}

TEST(the_queue_of_a_pod_is_found_on_its_owner_then_on_itself)
{
    static const struct {
        const char *why;
        const char *owner;
        const char *pod;
        const char *queue;
    } cases[] = {
        {"the owner's label", "{\"kai.scheduler/queue\":\"a\"}", "{\"kai.scheduler/queue\":\"b\"}",
         "a"},
        {"the pod's label", "{}", "{\"kai.scheduler/queue\":\"b\"}", "b"},
        {"the label of older versions", "{\"runai/queue\":\"c\"}", "{}", "c"},
        {"the project", "{\"project\":\"team\"}", "{}", "team"},
        {"the project in a pool of nodes", "{\"project\":\"team\"}",
         "{\"kai.scheduler/node-pool\":\"h100\"}", "team-h100"},
        {"none", "{}", "{}", "default-queue"},
    };
    struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping_input in = {
            .arena = &arena, .config = &config, .find = find, .next = next, .owner_count = 1};
        struct grouping group;

        test_case(cases[i].why);
        in.owners[0] =
            parse(&arena, str_printf(&arena,
                                     "{\"kind\":\"Thing\",\"apiVersion\":\"x/v1\",\"metadata\":{"
                                     "\"name\":\"o\",\"uid\":\"u\",\"labels\":%s}}",
                                     cases[i].owner));
        in.pod = parse(&arena, str_printf(&arena, "{\"metadata\":{\"name\":\"p\",\"labels\":%s}}",
                                          cases[i].pod));
        EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
        EXPECT(str_is(group.queue, cases[i].queue));
    }
}

/* A JobSet of two sets of two Jobs, with what `more` adds to it. */
static struct json *jobset_manifest(struct arena *arena, const char *more, const char *annotations)
{
    static const struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                                 .default_queue = STR("default-queue")};
    struct grouping_input in = {
        .arena = arena, .config = &config, .find = find, .next = next, .legacy_jobs = true};
    struct grouping group = {0};

    in.pod = parse(arena, STR("{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\",\"namespace\":\"d\","
                              "\"labels\":{\"jobset.sigs.k8s.io/replicatedjob-name\":\"b\","
                              "\"jobset.sigs.k8s.io/job-index\":\"1\"}}}"));
    in.owners[in.owner_count++] = parse(
        arena,
        str_printf(
            arena,
            "{\"apiVersion\":\"jobset.x-k8s.io/v1alpha2\",\"kind\":\"JobSet\",\"metadata\":{"
            "\"name\":\"o\",\"uid\":\"u\",\"namespace\":\"d\",\"annotations\":{%s}},\"spec\":{"
            "\"replicatedJobs\":[{\"name\":\"a\",\"template\":{\"spec\":{\"parallelism\":2}}},"
            "{\"name\":\"b\",\"replicas\":2%s}]}}",
            annotations, more));
    return grouping_decide(&in, NULL, &group, NULL) == 0 ? grouping_manifest(&group, arena) : NULL;
}

TEST(a_jobset_starts_whole_or_set_after_set)
{
    static const struct {
        const char *more;
        const char *annotations;
        int64_t least;
        const char *why;
    } sets[] = {
        {"", "", 2, "both at once"},
        {",\"dependsOn\":[{\"name\":\"a\"}]", "", 1, "the second comes later"},
        {"", "\"kai.scheduler/batch-min-member\":\"1\"", 1, "one is enough"},
        {"", "\"kai.scheduler/batch-min-member\":\"9\"", 2, "there are only two"},
    };

    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *made = jobset_manifest(&arena, sets[i].more, sets[i].annotations);

        test_case(sets[i].why);
        EXPECT(json_i64_or(json_at(made, "spec.minSubGroup"), 0) == sets[i].least);
        EXPECT(json_is_null(json_at(made, "spec.minMember")));
        EXPECT(json_i64_or(json_at(made, "spec.subGroups.1.minMember"), 0) == 2);
        EXPECT(json_i64_or(json_at(made, "spec.subGroups.2.minSubGroup"), 0) == 2);
        EXPECT(str_is(json_str_at(made, "spec.subGroups.4.parent"), "b"));
    }
}

TEST(delays_of_a_workload_are_those_of_its_group)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *made = jobset_manifest(&arena, "",
                                              "\"kai.scheduler/preemption-delay\":\"5m\","
                                              "\"kai.scheduler/staleness-grace-period\":\"-1s\"");

    EXPECT(str_is(json_str_at(made, "spec.preemptionDelay"), "5m"));
    EXPECT(str_is(json_str_at(made, "spec.stalenessGracePeriod"), "-1s"));
    made = jobset_manifest(&arena, "", "\"kai.scheduler/preemption-delay\":\"-5m\"");
    EXPECT(!json_str_at(made, "spec.preemptionDelay").len);
}

TEST(an_owner_cannot_say_that_room_is_held_for_its_group)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *made = jobset_manifest(&arena, "",
                                              "\"muster.dev/held-until\":\"2099-01-01T00:00:00Z\","
                                              "\"mine\":\"1\"");
    const struct json *notes = json_at(made, "metadata.annotations");

    EXPECT(str_is(json_str(json_get(notes, "mine")), "1"));
    EXPECT(!json_get(notes, "muster.dev/held-until"));
}

TEST(pods_that_preempt_nobody_say_so_by_their_policy)
{
    static const struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                                 .default_queue = STR("default-queue")};
    static const struct {
        const char *policy;
        const char *annotation;
        const char *delay;
    } pods[] = {
        {"Never", "", "876000h"},
        {"PreemptLowerPriority", "", ""},
        {"Never", "\"kai.scheduler/preemption-delay\":\"5m\"", "5m"},
    };

    for (size_t i = 0; i < COUNT_OF(pods); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping_input in = {.arena = &arena, .config = &config, .find = find, .next = next};
        struct grouping group = {0};

        test_case(pods[i].policy);
        in.pod = parse(&arena, str_printf(&arena,
                                          "{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\","
                                          "\"namespace\":\"d\",\"annotations\":{%s}},"
                                          "\"spec\":{\"preemptionPolicy\":\"%s\"}}",
                                          pods[i].annotation, pods[i].policy));
        EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
        EXPECT(str_is(group.preempt_delay, pods[i].delay));
    }
}

TEST(pods_are_grouped_as_before_where_that_is_asked_for)
{
    static const struct control_config config = {.queue_label_key = STR("kai.scheduler/queue"),
                                                 .default_queue = STR("default-queue")};
    static const struct {
        const char *owner;
        const char *name;
        int64_t min;
    } old[] = {
        {"{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\"," META "}", "pg-p-u", 1},
        {TRAIN_SET, "pg-o-u-node", 2},
    };

    for (size_t i = 0; i < COUNT_OF(old); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping_input in = {
            .arena = &arena, .config = &config, .find = find, .next = next, .old_groups = true};
        struct grouping group = {0};

        in.pod =
            parse(&arena, STR("{\"metadata\":{\"name\":\"p\",\"uid\":\"pu\",\"namespace\":\"d\","
                              "\"labels\":{\"jobset.sigs.k8s.io/replicatedjob-name\":\"node\"}}}"));
        in.owners[in.owner_count++] = parse(&arena, str_from(old[i].owner));
        EXPECT(grouping_decide(&in, NULL, &group, NULL) == 0);
        EXPECT(str_is(group.name, old[i].name));
        EXPECT(group.min_member == old[i].min && !group.subs.count);
    }
}

TEST(who_asks_for_it_is_not_grouped)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct grouping_input in = {.arena = &arena};

    in.pod = parse(&arena, STR("{\"metadata\":{}}"));
    in.owners[in.owner_count++] = parse(&arena, STR("{\"metadata\":{}}"));
    EXPECT(!grouping_skips(&in));
    in.owners[0] = parse(&arena, STR("{\"metadata\":{\"annotations\":{"
                                     "\"kai.scheduler/skip-podgrouper\":\"true\"}}}"));
    EXPECT(grouping_skips(&in));
    in.owner_count = 0;
    in.pod = in.owners[0];
    EXPECT(grouping_skips(&in));
}

TEST(the_minimum_of_a_group_is_what_its_subgroups_need_together)
{
    static const struct {
        const char *spec;
        int64_t minimum;
    } sizes[] = {
        {"{}", 1},
        {"{\"minMember\":4}", 4},
        {"{\"minMember\":9,\"subGroups\":[{\"name\":\"a\",\"minMember\":2},{\"name\":\"b\"}]}", 3},
        {"{\"subGroups\":[{\"name\":\"top\"},{\"name\":\"a\",\"parent\":\"top\",\"minMember\":2},"
         "{\"name\":\"b\",\"parent\":\"top\",\"minMember\":3}]}",
         5},
        {"{\"minSubGroup\":2,\"subGroups\":[{\"name\":\"a\",\"minMember\":8},"
         "{\"name\":\"b\",\"minMember\":2},{\"name\":\"c\",\"minMember\":3}]}",
         5},
        {"{\"subGroups\":[{\"name\":\"a\",\"minMember\":2},{\"name\":\"none\",\"minSubGroup\":0},"
         "{\"name\":\"b\",\"parent\":\"none\",\"minMember\":3}]}",
         2},
        {"{\"subGroups\":[{\"name\":\"a\",\"parent\":\"b\"},{\"name\":\"b\",\"parent\":\"a\"}]}",
         1},
    };

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *spec = NULL;

        EXPECT(json_parse(&arena, str_from(sizes[i].spec), &spec, NULL) == 0);
        EXPECT(group_minimum(spec) == sizes[i].minimum);
    }
}

TEST(the_minimum_of_a_group_counts_all_of_its_subgroups)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *spec = json_new_object(&arena);
    struct json *list = json_add_array(&arena, spec, "subGroups");

    for (int i = 0; i < GROUP_SUBGROUPS_MAX; i++)
        json_push(list,
                  json_make(&arena, "{name: $, minMember: 2}", str_printf(&arena, "part-%d", i)));
    EXPECT(group_minimum(spec) == 2 * GROUP_SUBGROUPS_MAX);
    json_add_i64(&arena, spec, "minSubGroup", 300);
    EXPECT(group_minimum(spec) == 600);
}

/* Names of pods have 253 characters, and so do those of groups. */
TEST(a_name_that_is_too_long_for_a_group_is_cut_and_still_tells_groups_apart)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str uid = STR("01234567-89ab-4cde-8f01-23456789abcd");
    char text[253];

    memset(text, 'a', sizeof(text));
    struct str name = {text, sizeof(text)};
    struct str one = group_name_make(&arena, name, uid);
    text[252] = 'b';
    struct str other = group_name_make(&arena, name, uid);
    EXPECT(one.len == 253 && other.len == 253 && !str_eq(one, other) && str_ends(one, uid));
    text[203] = '.'; /* where it is cut */
    EXPECT(!names_dns_subdomain(group_name_make(&arena, name, uid)));
    EXPECT(str_is(group_name_make(&arena, STR("p"), STR("u")), "pg-p-u"));
    EXPECT(group_name_make(&arena, (struct str){text, 213}, uid).len == 253);
}
