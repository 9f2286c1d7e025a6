#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

static int put(struct harness *h,
               const struct kind *kind,
               const char *ns,
               enum api_verb verb,
               const char *body)
{
    struct api_user user = {.name = STR("jo")};

    return harness_call(h, &(struct api_request){.verb = verb,
                                                 .kind = kind,
                                                 .ns = str_from(ns),
                                                 .name = verb == API_PATCH ? STR("j") : STR(""),
                                                 .patch = API_PATCH_MERGE,
                                                 .user = &user,
                                                 .body = str_from(body)});
}

#define JOB "\"jobQueue\":\"default\",\"command\":\"true\",\"numGPUs\":1"

static void lab(struct harness *h)
{
    static const struct {
        const struct kind *kind;
        const char *ns;
        const char *body;
    } objects[] = {
        {&kind_queue, "", "{\"metadata\":{\"name\":\"top\"},\"spec\":{\"maxRunTime\":\"8h\"}}"},
        {&kind_queue, "", "{\"metadata\":{\"name\":\"low\"},\"spec\":{\"parentQueue\":\"top\"}}"},
        {&kind_queue, "", "{\"metadata\":{\"name\":\"open\"},\"spec\":{}}"},
        {&kind_queue, "",
         "{\"metadata\":{\"name\":\"named\"},\"spec\":{\"namespaces\":[\"other\",\"hers\"]}}"},
        {&kind_queue, "",
         "{\"metadata\":{\"name\":\"below\"},\"spec\":{\"parentQueue\":\"named\"}}"},
        {&kind_queue, "",
         "{\"metadata\":{\"name\":\"labelled\"},\"spec\":{\"namespaces\":[\"x\"],"
         "\"namespaceSelector\":{\"matchLabels\":{\"team\":\"lab\"}}}}"},
        {&kind_queue, "", "{\"metadata\":{\"name\":\"shut\"},\"spec\":{\"namespaces\":[]}}"},
        {&kind_namespace, "", "{\"metadata\":{\"name\":\"lab\",\"labels\":{\"team\":\"lab\"}}}"},
        {&kind_namespace, "",
         "{\"metadata\":{\"name\":\"hers\",\"annotations\":{\"torchrun.ai/person\":\"alice\","
         "\"torchrun.ai/person-uid\":\"7\",\"torchrun.ai/person-gid\":\"7\","
         "\"torchrun.ai/person-time\":\"2h\"}}}"},
        {&kind_torchrunqueue, "lab",
         "{\"metadata\":{\"name\":\"default\"},\"spec\":{\"kaiQueue\":\"low\"}}"},
        {&kind_torchrunqueue, "lab",
         "{\"metadata\":{\"name\":\"quick\"},\"spec\":{\"kaiQueue\":\"low\",\"maxRunTime\":"
         "\"1h\"}}"},
        {&kind_torchrunqueue, "hers",
         "{\"metadata\":{\"name\":\"default\"},\"spec\":{\"kaiQueue\":\"open\"}}"},
    };

    for (size_t i = 0; i < COUNT_OF(objects); i++)
        EXPECT(put(h, objects[i].kind, objects[i].ns, API_CREATE, objects[i].body) == 0);
}

TEST(nobody_asks_for_a_longer_run_than_the_queue_and_the_person_may_have)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *ns;
        const char *body;
        const char *words;
    } rows[] = {
        {"of a queue above", &kind_torchrunjob, "lab",
         "{\"metadata\":{\"name\":\"a\"},\"spec\":{" JOB ",\"maxRunTime\":\"9h\"}}",
         "spec.maxRunTime 9h: the longest run of queue top is 8h; ask for no more, or leave it "
         "out"},
        {"as long as that", &kind_torchrunjob, "lab",
         "{\"metadata\":{\"name\":\"b\"},\"spec\":{" JOB ",\"maxRunTime\":\"480m\"}}", NULL},
        {"of the TorchrunQueue", &kind_torchrunjob, "lab",
         "{\"metadata\":{\"name\":\"c\"},\"spec\":{\"jobQueue\":\"quick\",\"command\":\"true\","
         "\"numGPUs\":1,\"maxRunTime\":\"2h\"}}",
         "the longest run of queue quick is 1h"},
        {"of the person", &kind_torchrunjob, "hers",
         "{\"metadata\":{\"name\":\"d\"},\"spec\":{" JOB ",\"maxRunTime\":\"3h\"}}",
         "the longest run of person alice is 2h"},
        {"nothing is said", &kind_torchrunjob, "hers",
         "{\"metadata\":{\"name\":\"j\"},\"spec\":{" JOB "}}", NULL},
        {"a Job by its label and annotation", &kind_job, "lab",
         "{\"metadata\":{\"name\":\"e\",\"labels\":{\"kai.scheduler/queue\":\"low\"},"
         "\"annotations\":{\"muster.dev/max-run-time\":\"9h\"}},\"spec\":{\"template\":{\"spec\":{"
         "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"m\",\"image\":\"i\"}]}}}}",
         "metadata.annotations[muster.dev/max-run-time] 9h: the longest run of queue top"},
        {"a pod group", &kind_podgroup, "lab",
         "{\"metadata\":{\"name\":\"f\"},\"spec\":{\"queue\":\"low\",\"maxRunTime\":\"9h\"}}",
         "the longest run of queue top is 8h"},
        {"a queue without an end", &kind_podgroup, "lab",
         "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"queue\":\"open\",\"maxRunTime\":\"900h\"}}",
         NULL},
    };
    struct harness h;

    harness_open(&h, NULL);
    lab(&h);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT((put(&h, rows[i].kind, rows[i].ns, API_CREATE, rows[i].body) < 0) ==
               (rows[i].words != NULL));
        EXPECT(!rows[i].words || (h.status == 403 && strstr(h.text, rows[i].words)));
    }
    EXPECT(put(&h, &kind_torchrunjob, "hers", API_PATCH, "{\"spec\":{\"maxRunTime\":\"3h\"}}") < 0);
    EXPECT(put(&h, &kind_torchrunjob, "hers", API_PATCH, "{\"spec\":{\"maxRunTime\":\"1h\"}}") ==
           0);
    harness_close(&h);
}

TEST(a_pod_group_by_hand_runs_no_longer_than_its_queue_may)
{
    struct harness h;

    harness_open(&h, NULL);
    lab(&h);
    EXPECT(put(&h, &kind_podgroup, "lab", API_CREATE,
               "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"queue\":\"low\"}}") == 0);
    EXPECT(str_is(str_from(harness_text(&h, "spec.maxRunTime")), "8h"));
    harness_close(&h);
}

#define IN(queue) "\"labels\":{\"kai.scheduler/queue\":\"" queue "\"}"
#define POD(queue)                                                                      \
    "{\"metadata\":{\"name\":\"p\"," IN(queue) "},\"spec\":{\"containers\":[{\"name\":" \
                                               "\"m\",\"image\":\"i\"}]}}"

TEST(a_queue_takes_work_of_its_namespaces_alone)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *ns;
        const char *body;
        const char *queue; /* that refuses; NULL: none */
    } rows[] = {
        {"a pod by its label", &kind_pod, "lab", POD("named"), "named"},
        {"of a namespace that is named", &kind_pod, "hers", POD("named"), NULL},
        {"of a queue below", &kind_pod, "lab", POD("below"), "named"},
        {"by a label of the namespace", &kind_pod, "lab", POD("labelled"), NULL},
        {"which another has not", &kind_pod, "hers", POD("labelled"), "labelled"},
        {"nobody's", &kind_pod, "lab", POD("shut"), "shut"},
        {"a pod group", &kind_podgroup, "lab",
         "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"queue\":\"named\"}}", "named"},
        {"a Job's template", &kind_job, "lab",
         "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"metadata\":{" IN(
             "named") "},\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"m\","
                      "\"image\":\"i\"}]}}}}",
         "named"},
        {"a TorchrunQueue that leads there", &kind_torchrunqueue, "lab",
         "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"kaiQueue\":\"named\"}}", "named"},
        {"a TorchrunJob whose queue leads there", &kind_torchrunjob, "hers",
         "{\"metadata\":{\"name\":\"k\"},\"spec\":{\"jobQueue\":\"led\",\"command\":\"true\","
         "\"numGPUs\":1}}",
         "shut"},
    };
    struct harness h;

    harness_open(&h, NULL);
    lab(&h);
    EXPECT(harness_create(&h, &kind_torchrunqueue, "hers",
                          "{\"metadata\":{\"name\":\"led\"},\"spec\":{\"kaiQueue\":\"shut\"}}") ==
           0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT((put(&h, rows[i].kind, rows[i].ns, API_CREATE, rows[i].body) < 0) ==
               (rows[i].queue != NULL));
        if (rows[i].queue)
            EXPECT(h.status == 403 &&
                   strstr(h.text, str_printf(&arena, "queue %s takes no work of namespace %s",
                                             rows[i].queue, rows[i].ns)
                                      .p));
        arena_done(&arena);
    }
    harness_close(&h);
}

static void small_queue(struct harness *h)
{
    harness_open(h, NULL);
    lab(h);
    EXPECT(harness_create(h, &kind_queue, "",
                          "{\"metadata\":{\"name\":\"small\"},\"spec\":{\"resources\":{\"gpu\":{"
                          "\"limit\":4}}}}") == 0);
}

TEST(a_training_of_kubeflow_that_its_queue_may_never_hold_is_refused)
{
#define ROLE(name, replicas)                                                          \
    "\"" name "\":{\"replicas\":" replicas                                            \
    ",\"template\":{\"spec\":{\"containers\":[{\"name\":\"pytorch\",\"image\":\"i\"," \
    "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}}"
    static const struct {
        const char *why;
        const char *roles;
        const char *more;
        bool refused;
    } rows[] = {
        {"as many as the limit", ROLE("Master", "1") "," ROLE("Worker", "1"), "", false},
        {"two more", ROLE("Master", "1") "," ROLE("Worker", "2"), "", true},
        {"fewer may do", ROLE("Worker", "3"),
         ",\"runPolicy\":{\"schedulingPolicy\":{\"minAvailable\":2}}", false},
        {"it is elastic", ROLE("Worker", "3"),
         ",\"elasticPolicy\":{\"minReplicas\":1,\"maxReplicas\":3}", false},
    };
#undef ROLE
    struct harness h;

    small_queue(&h);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str body = str_printf(&arena,
                                     "{\"metadata\":{\"name\":\"p%zu\"," IN(
                                         "small") "},\"spec\":{\"pytorchReplicaSpecs\":{%s}%s}}",
                                     i, rows[i].roles, rows[i].more);

        test_case(rows[i].why);
        EXPECT((put(&h, &kind_pytorchjob, "lab", API_CREATE, body.p) < 0) == rows[i].refused);
        EXPECT(!rows[i].refused ||
               (h.status == 403 &&
                strstr(h.text,
                       "it needs 6 GPUs at once, and queue small may never have more than 4")));
        arena_done(&arena);
    }
    harness_close(&h);
}

TEST(a_gang_that_its_queue_may_never_hold_is_refused)
{
    static const struct {
        const char *why;
        const char *spec;
        const char *words; /* NULL: it is taken */
    } rows[] = {
        {"as many as the limit", "\"numGPUs\":4", NULL},
        {"one more", "\"numGPUs\":5",
         "it needs 5 GPUs at once, and queue small may never have more than 4; ask for fewer"},
        {"nodes of the queue's size", "\"numNodes\":3", "it needs 6 GPUs at once"},
        {"nodes of its own size", "\"numNodes\":3,\"nodeResources\":{\"gpus\":1}", NULL},
        {"fewer may do", "\"elastic\":{\"minNodes\":1,\"maxNodes\":9}", NULL},
        {"more GPUs than there are numbers",
         "\"numNodes\":100000,\"nodeResources\":{\"gpus\":1024}", "may never have more than 4"},
    };
    struct harness h;

    small_queue(&h);
    EXPECT(harness_create(&h, &kind_torchrunqueue, "lab",
                          "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"kaiQueue\":\"small\","
                          "\"nodeResources\":{\"gpus\":2}}}") == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};

        test_case(rows[i].why);
        struct str body =
            str_printf(&arena,
                       "{\"metadata\":{\"name\":\"g%zu\"},\"spec\":{\"jobQueue\":\"s\","
                       "\"command\":\"true\",%s}}",
                       i, rows[i].spec);
        EXPECT((put(&h, &kind_torchrunjob, "lab", API_CREATE, body.p) < 0) ==
               (rows[i].words != NULL));
        EXPECT(!rows[i].words || (h.status == 403 && strstr(h.text, rows[i].words)));
        arena_done(&arena);
    }
    harness_close(&h);
}
