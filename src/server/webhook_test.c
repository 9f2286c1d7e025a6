#include "api/kind.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "server/webhook.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static char *quoted(struct arena *arena, struct str text)
{
    char *copy = str_c(arena, text);

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    return copy;
}

/* "response" of the answer to a request; JSON with ' for ". */
static struct json *respond(struct arena *arena,
                            const struct webhook_rules *rules,
                            const char *path,
                            const char *request)
{
    struct str body = str_printf(arena,
                                 "{'apiVersion':'admission.k8s.io/v1','kind':'AdmissionReview',"
                                 "'request':{'uid':'r-1',%s}}",
                                 request);
    struct json *answer = NULL;
    struct str text = STR_NONE;

    EXPECT(
        !webhook_answer(arena, rules, str_from(path), str_from(quoted(arena, body)), &text, NULL));
    EXPECT(!json_parse(arena, text, &answer, NULL));
    EXPECT(str_is(json_str_at(answer, "response.uid"), "r-1"));
    return json_get(answer, "response");
}

static bool is_allowed(const struct json *response)
{
    return json_bool_or(json_get(response, "allowed"), false);
}

#define POD(scheduler, annotations)                                                   \
    "'resource':{'group':'','version':'v1','resource':'pods'},'object':{'metadata':{" \
    "'name':'p','namespace':'n','uid':'u','annotations':{" annotations "}},'spec':{"  \
    "'schedulerName':'" scheduler "','containers':[{'name':'c'}]}}"

TEST(pods_with_shares_are_prepared_and_pods_of_others_left_alone)
{
    static const struct {
        const char *why;
        const char *request;
        bool shares;
        const char *message; /* part of it; NULL: allowed */
        bool spec;           /* is changed */
        bool annotations;
    } rows[] = {
        {"a share", POD("ours", "'gpu-fraction':'0.5'"), true, NULL, true, true},
        {"no share", POD("ours", "'a':'b'"), true, NULL, false, true},
        {"nothing to do", POD("ours", "'pod-group-name':'g'"), true, NULL, false, false},
        {"of others", POD("theirs", "'gpu-fraction':'7'"), true, NULL, false, false},
        {"too much", POD("ours", "'gpu-fraction':'1.5'"), true,
         "metadata.annotations[gpu-fraction]: Invalid value", false, false},
        {"switched off", POD("ours", "'gpu-memory':'500'"), false,
         "metadata.annotations[gpu-memory]: Forbidden: GPU sharing is off", false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct kinds *kinds = kinds_new();
        struct webhook_rules rules = {
            .kinds = kinds, .scheduler_name = STR("ours"), .shares = rows[i].shares};
        struct json *patch = NULL;
        struct str text = STR_NONE;

        test_case(rows[i].why);
        const struct json *response = respond(&arena, &rules, WEBHOOK_PODS, rows[i].request);
        EXPECT(is_allowed(response) == !rows[i].message);
        if (rows[i].message)
            EXPECT(
                str_contains(json_str_at(response, "status.message"), str_from(rows[i].message)));
        if (json_get(response, "patch")) {
            EXPECT(base64_decode(&arena, json_str(json_get(response, "patch")), &text));
            EXPECT(!json_parse(&arena, text, &patch, NULL));
        }
        EXPECT(str_contains(text, STR("\"/spec\"")) == rows[i].spec);
        EXPECT(str_contains(text, STR("\"/metadata/annotations\"")) == rows[i].annotations);
        kinds_free(kinds);
    }
}

TEST(a_share_is_a_limit_where_an_image_has_the_library)
{
    static const char *const images[] = {"", "muster:1"};

    for (size_t i = 0; i < 2; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct kinds *kinds = kinds_new();
        struct webhook_rules rules = {.kinds = kinds,
                                      .scheduler_name = STR("ours"),
                                      .shares = true,
                                      .limit_image = str_from(images[i])};
        const char *requests[] = {POD("ours", "'gpu-fraction':'0.5'"), POD("ours", "'a':'b'")};

        for (size_t k = 0; k < 2; k++) {
            const struct json *response = respond(&arena, &rules, WEBHOOK_PODS, requests[k]);
            struct str text = STR_NONE;

            EXPECT(base64_decode(&arena, json_str(json_get(response, "patch")), &text));
            EXPECT(str_contains(text, STR("libmuster-gpu.so")) == (i == 1 && k == 0));
        }
        kinds_free(kinds);
    }
}

TEST(without_a_name_every_pod_is_ours)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct webhook_rules rules = {.shares = true};
    const struct json *response =
        respond(&arena, &rules, WEBHOOK_PODS, POD("theirs", "'gpu-fraction':'0.5'"));

    EXPECT(is_allowed(response) && json_get(response, "patch"));
}

#define QUEUE_OF            "'resource':{'group':'scheduling.run.ai','version':'v2','resource':'queues'},"
#define QUEUE(meta, parent) "{'metadata':{'name':'q'" meta "},'spec':{'parentQueue':'" parent "'}}"

TEST(kinds_are_checked_unless_nothing_could_be_done_about_them)
{
    static const struct {
        const char *why;
        const char *request;
        bool allowed;
    } rows[] = {
        {"good", QUEUE_OF "'object':" QUEUE("", "r"), true},
        {"bad", QUEUE_OF "'object':" QUEUE("", "q"), false},
        {"made bad", QUEUE_OF "'object':" QUEUE("", "q") ",'oldObject':" QUEUE("", "r"), false},
        {"bad before", QUEUE_OF "'object':" QUEUE("", "q") ",'oldObject':" QUEUE("", "q"), true},
        {"going", QUEUE_OF "'object':" QUEUE(",'deletionTimestamp':'x'", "q"), true},
        {"gone", QUEUE_OF "'object':null,'oldObject':" QUEUE("", "q"), true},
        {"a leaf goes",
         QUEUE_OF "'object':null,'oldObject':{'metadata':{'name':'q'},'status':{'childQueues':[]}}",
         true},
        {"unknown", "'resource':{'group':'a','version':'v1','resource':'b'},'object':{}", true},
        {"another version",
         "'resource':{'group':'scheduling.run.ai','version':'v9','resource':'queues'},'object'"
         ":" QUEUE("", "q"),
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct kinds *kinds = kinds_new();
        struct webhook_rules rules = {.kinds = kinds};

        test_case(rows[i].why);
        const struct json *response = respond(&arena, &rules, WEBHOOK_KINDS, rows[i].request);
        EXPECT(is_allowed(response) == rows[i].allowed);
        if (!rows[i].allowed)
            EXPECT(
                str_is(json_str_at(response, "status.details.causes.0.field"), "spec.parentQueue"));
        kinds_free(kinds);
    }
}

#define JOB_OF(validation, container)                                                          \
    "'resource':{'group':'kubeflow.org','version':'v1','resource':'pytorchjobs'},'options':{"  \
    "'kind':'CreateOptions','fieldValidation':'" validation "'},'object':{'metadata':{"        \
    "'name':'j'},'spec':{'pytorchReplicaSpecs':{'Worker':{'template':{'metadata':{"            \
    "'creationTimestamp':null},'spec':{'containers':[{'name':'pytorch','image':'i'," container \
    "}]}}}},'ofALaterVersion':1}}"
#define CONTAINER "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]"

TEST(templates_in_our_kinds_are_looked_at_as_their_writer_asked)
{
    static const struct {
        const char *why;
        const char *request;
        const char *field;   /* of the refusal; NULL: it is allowed */
        const char *warning; /* NULL: none */
    } rows[] = {
        {"well", JOB_OF("Strict", "'resources':{'limits':{'cpu':1}}"), NULL, NULL},
        {"refused", JOB_OF("Strict", "'resources':{'limit':{}}"), CONTAINER ".resources.limit",
         NULL},
        {"warned", JOB_OF("Warn", "'resources':{'limit':{}}"), NULL,
         "unknown field \"" CONTAINER ".resources.limit\""},
        {"not said", JOB_OF("", "'imagee':1"), NULL, "unknown field \"" CONTAINER ".imagee\""},
        {"not asked for", JOB_OF("Ignore", "'imagee':1"), NULL, NULL},
        {"a type", JOB_OF("Ignore", "'tty':'no'"), CONTAINER ".tty", NULL},
        {"a quantity", JOB_OF("Ignore", "'resources':{'limits':{'memory':'lots'}}"),
         CONTAINER ".resources.limits.memory", NULL},
        {"out of range", JOB_OF("Ignore", "'ports':[{'containerPort':5000000000}]"),
         CONTAINER ".ports[0].containerPort", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct kinds *kinds = kinds_new_cluster();
        struct webhook_rules rules = {.kinds = kinds};

        test_case(rows[i].why);
        const struct json *response = respond(&arena, &rules, WEBHOOK_KINDS, rows[i].request);
        struct str field = json_str_at(response, "status.details.causes.0.field");
        struct str warning = json_str_at(response, "warnings.0");
        EXPECT(is_allowed(response) == !rows[i].field);
        EXPECT(str_eq(field, rows[i].field ? str_from(rows[i].field) : STR("")));
        EXPECT(str_eq(warning, rows[i].warning ? str_from(rows[i].warning) : STR("")));
        kinds_free(kinds);
    }
}

TEST(a_queue_with_queues_below_it_stays)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct kinds *kinds = kinds_new();
    struct webhook_rules rules = {.kinds = kinds};
    const struct json *response =
        respond(&arena, &rules, WEBHOOK_KINDS,
                QUEUE_OF "'object':null,'oldObject':{'metadata':{'name':'q'},"
                         "'status':{'childQueues':['team']}}");

    EXPECT(!is_allowed(response));
    EXPECT(str_contains(json_str_at(response, "status.message"), STR("team")));
    kinds_free(kinds);
}

TEST(where_devices_are_blocked_pods_see_what_they_ask_for)
{
    static const struct {
        const char *why;
        const char *container;
        bool allowed;
        bool changed;
    } rows[] = {
        {"no GPU", "{'name':'c'}", true, true},
        {"no GPU, and sees one",
         "{'name':'c','env':[{'name':'NVIDIA_VISIBLE_DEVICES','value':'7'}]}", true, true},
        {"a GPU", "{'name':'c','resources':{'requests':{'nvidia.com/gpu':'1'}}}", true, false},
        {"a GPU, and sees others",
         "{'name':'c','resources':{'requests':{'nvidia.com/gpu':'1'}},'env':[{'name':"
         "'NVIDIA_VISIBLE_DEVICES','value':'all'}]}",
         false, false},
        {"a GPU, and void",
         "{'name':'c','resources':{'requests':{'nvidia.com/gpu':'1'}},'env':[{'name':"
         "'NVIDIA_VISIBLE_DEVICES','value':'void'}]}",
         true, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct webhook_rules rules = {.own_devices = true};
        struct str request = str_printf(
            &arena,
            "'resource':{'group':'','version':'v1','resource':'pods'},'object':{'metadata':{'name':"
            "'p','namespace':'n','annotations':{'pod-group-name':'g'}},'spec':{'containers':[%s]}}",
            rows[i].container);

        test_case(rows[i].why);
        const struct json *response = respond(&arena, &rules, WEBHOOK_PODS, str_c(&arena, request));
        EXPECT(is_allowed(response) == rows[i].allowed);
        EXPECT((json_get(response, "patch") != NULL) == rows[i].changed);
    }
}

TEST(what_is_no_review_is_an_error_not_an_answer)
{
    static const char *const bodies[] = {"", "{", "[]", "{}", "{\"kind\":\"AdmissionReview\"}"};

    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct webhook_rules rules = {0};
        struct err err = {0};
        struct str text;

        EXPECT(webhook_answer(&arena, &rules, STR(WEBHOOK_KINDS), str_from(bodies[i]), &text,
                              &err) == -EINVAL);
        EXPECT(err.text[0]);
    }
}

#define WHO(name, group) "'userInfo':{'username':'" name "','groups':['" group "']},"
#define TENANT           WHO("eve", "system:authenticated")
#define OPERATOR         WHO("system:serviceaccount:muster-system:muster-operator", "system:authenticated")
#define OWNED            ",'ownerReferences':[{'kind':'Job','name':'j','uid':'u'}]"
#define MARKED(notes, more, spec)                                                              \
    "{'metadata':{'name':'p','annotations':{" notes "}" more "},'spec':{'schedulerName':'kai-" \
    "scheduler'" spec "}}"
#define OF_PODS "'resource':{'group':'','version':'v1','resource':'pods'},"
#define OF_GROUPS \
    "'resource':{'group':'scheduling.run.ai','version':'v2alpha2','resource':'podgroups'},"
#define DEVICES      "'torchrun.ai/gpu-devices':'0'"
#define STARTED(day) "'kai.scheduler/last-start-timestamp':'2026-01-0" day "T00:00:00Z'"
#define ON_NODE      ",'nodeName':'n'"

TEST(marks_of_the_scheduler_are_refused_to_others_by_the_webhook)
{
    static const struct {
        const char *why;
        const char *request;
        const char *words; /* NULL: allowed */
    } rows[] = {
        {"a number of a GPU", TENANT OF_PODS "'object':" MARKED(DEVICES, "", ""), "gpu-devices"},
        {"the operator's", OPERATOR OF_PODS "'object':" MARKED(DEVICES, "", ""), NULL},
        {"an administrator's, of a template",
         WHO("admin", "system:masters") OF_PODS "'object':" MARKED(DEVICES, OWNED, ""), NULL},
        {"an administrator's",
         WHO("admin", "system:masters") OF_PODS "'object':" MARKED(DEVICES, "", ""), NULL},
        {"one's whom kubeadm made",
         WHO("kubernetes-admin", "kubeadm:cluster-admins") OF_PODS
         "'object':" MARKED(DEVICES, "", ""),
         NULL},
        {"of a group whose name begins alike",
         WHO("eve", "kubeadm:cluster") OF_PODS "'object':" MARKED(DEVICES, "", ""), "gpu-devices"},
        {"of a group without a name", WHO("eve", "") OF_PODS "'object':" MARKED(DEVICES, "", ""),
         "gpu-devices"},
        {"of a namespace whose name begins alike",
         WHO("system:serviceaccount:muster-system-2:a", "x") OF_PODS
         "'object':" MARKED(DEVICES, "", ""),
         "gpu-devices"},
        {"a template's, through the operator",
         OPERATOR OF_PODS "'object':" MARKED(DEVICES, OWNED, ""), "gpu-devices"},
        {"a template's, through a controller of the cluster",
         WHO("system:serviceaccount:kube-system:job-controller", "x") OF_PODS
         "'object':" MARKED(DEVICES, OWNED, ""),
         "gpu-devices"},
        {"as it was",
         TENANT OF_PODS
         "'oldObject':" MARKED(DEVICES, "", "") ",'object':" MARKED(DEVICES, OWNED, ""),
         NULL},
        {"taken off",
         TENANT OF_PODS "'oldObject':" MARKED(DEVICES, "", "") ",'object':" MARKED("", "", ""),
         "leave it as it was"},
        {"a label that hides the pod",
         TENANT OF_PODS "'object':" MARKED("", ",'labels':{'muster.dev/stand-in':'true'}", ""),
         "muster.dev/stand-in"},
        {"the same without a value",
         TENANT OF_PODS "'object':" MARKED("", ",'labels':{'muster.dev/stand-in':''}", ""),
         "muster.dev/stand-in"},
        {"a wish", TENANT OF_PODS "'object':" MARKED("'gpu-fraction':'0.5'", "", ""), NULL},
        {"a larger one of a pod that runs",
         TENANT OF_PODS
         "'oldObject':" MARKED("'gpu-fraction':'0.5'", "",
                               ON_NODE) ",'object':" MARKED("'gpu-fraction':'1'", "", ON_NODE),
         "make another one"},
        {"a pod group of its own while it runs",
         TENANT OF_PODS "'oldObject':" MARKED("", "", ON_NODE) ",'object':" MARKED(
             "'pod-group-name':'g'", "", ON_NODE),
         "make another one"},
        {"a run that begins anew",
         TENANT OF_GROUPS
         "'oldObject':" MARKED(STARTED("1"), "", "") ",'object':" MARKED(STARTED("9"), "", ""),
         "last-start-timestamp"},
        {"the scheduler says when it began",
         OPERATOR OF_GROUPS
         "'oldObject':" MARKED("", "", "") ",'object':" MARKED(STARTED("9"), "", ""),
         NULL},
        {"a pod of another scheduler",
         TENANT OF_PODS "'object':{'metadata':{'annotations':{" DEVICES
                        "}},'spec':{'schedulerName':'default-scheduler'}}",
         NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct kinds *kinds = kinds_new();
        struct webhook_rules rules = {.kinds = kinds,
                                      .scheduler_name = STR("kai-scheduler"),
                                      .namespace = STR("muster-system"),
                                      .administrators = STR("sre,kubeadm:cluster-admins")};

        test_case(rows[i].why);
        const struct json *response = respond(&arena, &rules, WEBHOOK_MARKS, rows[i].request);
        EXPECT(is_allowed(response) == !rows[i].words);
        if (rows[i].words) {
            EXPECT(str_contains(json_str_at(response, "status.message"), str_from(rows[i].words)));
            EXPECT(json_i64_or(json_at(response, "status.code"), 0) == 403);
        }
        kinds_free(kinds);
    }
}

#define MPI(more)                                                                                \
    "'resource':{'group':'kubeflow.org','version':'v1','resource':'mpijobs'},'object':{"         \
    "'metadata':{'name':'m','namespace':'n'},'spec':{'mpiReplicaSpecs':{'Launcher':{'template':" \
    "{'spec':{'containers':[{'name':'c','image':'i'}]}}}}}}" more

TEST(who_makes_what_no_controller_acts_on_is_told)
{
    static const char *const mpi[] = {"group", "mpijob"};
    static const char *const others[] = {"group", "tfjob"};
    static const struct {
        const char *why;
        const char *const *without; /* two */
        const char *request;
        bool told;
    } rows[] = {
        {"its controller is off", mpi, MPI(""), true},
        {"it runs", others, MPI(""), false},
        {"made before", mpi, MPI(",'oldObject':{'metadata':{'name':'m'},'spec':{}}"), false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct kinds *kinds = kinds_new_cluster();
        struct webhook_rules rules = {
            .kinds = kinds, .without = rows[i].without, .without_count = 2};

        test_case(rows[i].why);
        const struct json *response = respond(&arena, &rules, WEBHOOK_KINDS, rows[i].request);
        EXPECT(is_allowed(response));
        EXPECT(str_starts(json_str_at(response, "warnings.0"),
                          STR("MPIJob: Muster does nothing with it")) == rows[i].told);
        kinds_free(kinds);
    }
}
