#include "api/group.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/grouping/group.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pod grouper around the rules: whose pods it groups, when, and what it writes. All JSON has '
 * for ", and everything is in the namespace "d". */

static const struct kind kind_ray = {.group = "ray.io",
                                     .version = "v1",
                                     .name = "RayCluster",
                                     .plural = "rayclusters",
                                     .namespaced = true};
static const struct kind kind_rayjob = {.group = "ray.io",
                                        .version = "v1",
                                        .name = "RayJob",
                                        .plural = "rayjobs",
                                        .namespaced = true};
static const struct kind kind_site = {.group = "x",
                                      .version = "v1",
                                      .name = "Site",
                                      .plural = "sites"};

struct stage {
    struct arena arena;
    struct cache *cache;
    struct kinds *kinds;
    struct actions actions;
    struct control_config config;
    struct control_input input;
    const struct kind *unwatched;
};

static bool is_watched(const void *user, const struct kind *kind)
{
    const struct stage *stage = user;

    return kind != stage->unwatched;
}

static void stage_open(struct stage *stage)
{
    *stage = (struct stage){.cache = cache_new(1),
                            .kinds = kinds_new_cluster(),
                            .config = {.scheduler_name = STR("kai-scheduler"),
                                       .queue_label_key = STR("kai.scheduler/queue"),
                                       .default_queue = STR("default-queue")}};
    stage->actions.arena = &stage->arena;
    kinds_add(stage->kinds, &kind_ray);
    kinds_add(stage->kinds, &kind_rayjob);
    kinds_add(stage->kinds, &kind_site);
    stage->input = (struct control_input){.cache = stage->cache,
                                          .config = &stage->config,
                                          .now_ms = 1000000,
                                          .kinds = stage->kinds,
                                          .is_watched = is_watched,
                                          .user = stage};
}

static void stage_close(struct stage *stage)
{
    kinds_free(stage->kinds);
    cache_free(stage->cache);
    arena_done(&stage->arena);
}

static struct str text_of(struct stage *stage, const char *text)
{
    char *copy = str_c(&stage->arena, str_from(text));

    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return str_from(copy);
}

static void put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, text_of(stage, text), &object, NULL) == 0);
    if (object)
        cache_put(stage->cache, object);
    object_unref(object);
}

static void react(struct stage *stage, const char *name)
{
    struct control_key key = {.ns = STR("d"), .name = str_from(name)};

    stage->actions.list.count = 0;
    group_controller.reconcile(&stage->input, &key, &stage->actions);
}

static const struct action *done(const struct stage *stage,
                                 enum action_type type,
                                 const struct kind *kind)
{
    for (size_t i = 0; i < stage->actions.list.count; i++)
        if (stage->actions.list.items[i].type == type && stage->actions.list.items[i].kind == kind)
            return &stage->actions.list.items[i];
    return NULL;
}

static struct str made(const struct stage *stage, const char *path)
{
    const struct action *action = done(stage, ACTION_CREATE, &kind_podgroup);

    return action ? json_str_at(action->body, path) : STR_NONE;
}

static struct str warned(const struct stage *stage)
{
    const struct action *action = done(stage, ACTION_EVENT, &kind_pod);

    return action ? action->message : STR_NONE;
}

#define POD_OF(name, meta, spec)                                                                 \
    "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'" name "','namespace':'d','uid':'" name \
    "u'" meta "},'spec':{" spec "}}"
#define POD(meta) POD_OF("p", meta, "'schedulerName':'kai-scheduler'")
#define OWNED(version, kind, name)                                                         \
    ",'ownerReferences':[{'apiVersion':'" version "','kind':'" kind "','name':'" name "'," \
    "'uid':'" name "u'}]"
#define OBJECT(version, kind, name, meta, more)                               \
    "{'apiVersion':'" version "','kind':'" kind "','metadata':{'name':'" name \
    "','namespace':'d','uid':'" name "u'" meta "}" more "}"
#define JOB(name, meta) OBJECT("batch/v1", "Job", name, meta, "")
#define GROUP(name, meta, spec) \
    OBJECT("scheduling.run.ai/v2alpha2", "PodGroup", name, meta, ",'spec':{" spec "}")
#define NOTES(list) ",'annotations':{" list "}"

/* ---- owners ---- */

#define OF_JOB OWNED("batch/v1", "Job", "j")
#define TWO                                                                           \
    ",'ownerReferences':[{'apiVersion':'x/v1','kind':'Site','name':'s','uid':'su'},{" \
    "'apiVersion':'x/v1','kind':'Site','name':'t','uid':'tu'}]"
#define SITE(name, meta) \
    "{'apiVersion':'x/v1','kind':'Site','metadata':{'name':'" name "','uid':'" name "u'" meta "}}"

TEST(a_pod_is_in_the_group_of_the_top_owner_that_is_there)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *job;
        const char *name; /* of the group; NULL: `words` warn of it */
        const char *words;
    } rows[] = {
        {"nobody's", POD(""), JOB("j", ""), "pg-p-pu", NULL},
        {"a job's", POD(OF_JOB), JOB("j", ""), "pg-j-ju", NULL},
        {"a job's that is not there", POD(OF_JOB), JOB("k", ""), "pg-p-pu", NULL},
        {"a job's before it was deleted and made again",
         POD(",'ownerReferences':[{'apiVersion':'batch/v1','kind':'Job','name':'j','uid':'old'}]"),
         JOB("j", ""), "pg-p-pu", NULL},
        {"a kind's that nobody knows", POD(OWNED("y/v1", "Thing", "j")), JOB("j", ""), "pg-p-pu",
         NULL},
        {"a site's, which is in no namespace, above the job", POD(OF_JOB),
         JOB("j", OWNED("x/v1", "Site", "s")), "pg-s-su", NULL},
        {"a job's whose owner is not there", POD(OF_JOB), JOB("j", OWNED("x/v1", "Site", "none")),
         "pg-j-ju", NULL},
        {"two owners'", POD(TWO), JOB("j", ""), NULL, "Pod p has 2 owners; a pod group needs one"},
        {"a job's of two owners", POD(OF_JOB), JOB("j", TWO), NULL,
         "Job j has 2 owners; a pod group needs one"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        put(&stage, &kind_pod, rows[i].pod);
        put(&stage, &kind_job, rows[i].job);
        put(&stage, &kind_site, SITE("s", ""));
        react(&stage, "p");
        EXPECT(str_eq(made(&stage, "metadata.name"), str_from(rows[i].name)));
        EXPECT(str_eq(warned(&stage), str_from(rows[i].words)));
        stage_close(&stage);
    }
}

TEST(a_pod_whose_owner_is_not_there_stays_in_the_group_that_it_has)
{
#define SINCE(second) ",'creationTimestamp':'1970-01-01T00:00:" second "Z'"
    static const struct {
        const char *why;
        const char *pod;
        const char *job;
        enum action_type then;
        size_t count; /* of actions */
    } rows[] = {
        {"a job that is gone", POD(OF_JOB NOTES("'pod-group-name':'pg-j-ju'")), JOB("k", ""),
         ACTION_CREATE, 0},
        {"one that is not seen yet", POD(SINCE("58") OF_JOB NOTES("'pod-group-name':'pg-j-ju'")),
         JOB("k", ""), ACTION_LOOK_AGAIN, 1},
        {"what is above the job is gone", POD(OF_JOB NOTES("'pod-group-name':'pg-s-su'")),
         JOB("j", OWNED("x/v1", "Site", "s")), ACTION_CREATE, 0},
        {"it has none yet: alone it can start", POD(OF_JOB), JOB("k", ""), ACTION_CREATE, 2},
        {"its own could not be made", POD(OF_JOB NOTES("'pod-group-name':'pg-p-pu'")), JOB("k", ""),
         ACTION_CREATE, 1},
        {"all are there: it is moved", POD(OF_JOB NOTES("'pod-group-name':'pg-p-pu'")),
         JOB("j", ""), ACTION_CREATE, 2},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        stage.input.now_ms = 60000;
        put(&stage, &kind_pod, rows[i].pod);
        put(&stage, &kind_job, rows[i].job);
        react(&stage, "p");
        EXPECT(stage.actions.list.count == rows[i].count);
        EXPECT(!rows[i].count || stage.actions.list.items[0].type == rows[i].then);
        stage_close(&stage);
    }
}

TEST(owners_that_go_on_for_ever_end_after_sixteen)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(OWNED("x/v1", "Site", "s")));
    put(&stage, &kind_site, SITE("s", OWNED("x/v1", "Site", "t")));
    put(&stage, &kind_site, SITE("t", OWNED("x/v1", "Site", "s")));
    react(&stage, "p");
    EXPECT(str_is(made(&stage, "metadata.name"), "pg-t-tu"));
    stage_close(&stage);
}

TEST(a_kind_that_is_not_watched_yet_is_asked_for)
{
    static const struct {
        const char *why;
        const struct kind *unwatched;
        int64_t now_ms;
        bool told; /* the pod says what it waits for */
    } rows[] = {
        {"the owner's", &kind_job, 4000, false},
        {"the owner's, for long", &kind_job, 60000, true},
        {"that of priorities", &kind_priorityclass, 60000, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        stage.unwatched = rows[i].unwatched;
        stage.input.now_ms = rows[i].now_ms;
        put(&stage, &kind_job, JOB("j", ",'labels':{'priorityClassName':'high'}"));
        put(&stage, &kind_pod, POD(OF_JOB));
        react(&stage, "p");
        EXPECT(done(&stage, ACTION_WATCH, rows[i].unwatched));
        EXPECT(!done(&stage, ACTION_CREATE, &kind_podgroup));
        EXPECT((done(&stage, ACTION_PATCH_STATUS, &kind_pod) != NULL) == rows[i].told);
        EXPECT((done(&stage, ACTION_LOOK_AGAIN, NULL) != NULL) == (i == 0));
        stage.unwatched = NULL;
        react(&stage, "p");
        EXPECT(str_is(made(&stage, "metadata.name"), "pg-j-ju"));
        stage_close(&stage);
    }
}

#define RAYJOB OBJECT("ray.io/v1", "RayJob", "r", "", ",'status':{'rayClusterName':'c'}")
#define RAYCLUSTER(meta) \
    OBJECT("ray.io/v1", "RayCluster", "c", meta, ",'spec':{'workerGroupSpecs':[{'groupName':'g'}]}")
#define OF_RAY OWNED("ray.io/v1", "RayCluster", "c")

TEST(what_an_owner_names_is_looked_up_in_its_own_kind)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_rayjob, RAYJOB);
    put(&stage, &kind_ray, RAYCLUSTER(OWNED("ray.io/v1", "RayJob", "r")));
    put(&stage, &kind_pod, POD(OF_RAY ",'labels':{'ray.io/group':'g'}"));
    react(&stage, "p");
    const struct action *group = done(&stage, ACTION_CREATE, &kind_podgroup);
    const struct action *pod = done(&stage, ACTION_PATCH, &kind_pod);
    EXPECT(group && json_i64_or(json_at(group->body, "spec.minMember"), 0) == 2);
    EXPECT(pod && str_is(json_str(json_get(json_at(pod->body, "metadata.labels"),
                                           "kai.scheduler/subgroup-name")),
                         "g"));
    kinds_remove(stage.kinds, &kind_ray);
    put(&stage, &kind_pod, POD(OWNED("ray.io/v1", "RayJob", "r")));
    react(&stage, "p");
    EXPECT(str_is(warned(&stage), "the RayJob has no RayCluster yet"));
    stage_close(&stage);
}

#define TORCHRUN(name, meta, spec)                            \
    OBJECT("torchrun.ai/v1alpha1", "TorchrunJob", name, meta, \
           ",'spec':{'jobQueue':'q','command':'x','numGPUs':1" spec "}")

TEST(a_job_of_an_array_is_a_gang_and_the_array_is_none)
{
    struct stage stage;

    stage_open(&stage);
    stage.input.kinds = NULL; /* then it knows this kind alone */
    put(&stage, &kind_torchrunjob, TORCHRUN("a", "", ""));
    put(&stage, &kind_torchrunjob,
        TORCHRUN("t",
                 OWNED("torchrun.ai/v1alpha1", "TorchrunJob",
                       "a") ",'labels':{'torchrun.ai/array-index':'0'}",
                 ",'scheduling':{'topology':'dc','preferredTopologyLevel':'rack'}"));
    put(&stage, &kind_torchrunjob, TORCHRUN("l", ",'labels':{'torchrun.ai/array-index':'0'}", ""));
    put(&stage, &kind_pod, POD(OWNED("torchrun.ai/v1alpha1", "TorchrunJob", "t")));
    react(&stage, "p");
    EXPECT(str_is(made(&stage, "metadata.name"), "pg-t-tu"));
    EXPECT(str_is(made(&stage, "spec.topologyConstraint.preferredTopologyLevel"), "rack"));
    put(&stage, &kind_pod, POD(OF_JOB));
    react(&stage, "p");
    EXPECT(str_is(made(&stage, "metadata.name"), "pg-p-pu"));
    stage_close(&stage);
}

/* ---- whose pods ---- */

TEST(pods_that_are_somebody_elses_are_left_alone)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *schedulers;
        bool grouped;
    } rows[] = {
        {"ours", POD(""), "", true},
        {"of another scheduler", POD_OF("p", "", "'schedulerName':'other'"), "", false},
        {"of another one that we stand for", POD_OF("p", "", "'schedulerName':'other'"), "other",
         true},
        {"and not for that", POD_OF("p", "", "'schedulerName':'third'"), "other", false},
        {"a mirror of what runs elsewhere", POD(NOTES("'kubernetes.io/config.mirror':'x'")), "",
         false},
        {"going", POD(",'deletionTimestamp':'2026-01-01T00:00:00Z'"), "", false},
        {"in a group that somebody wrote", POD(NOTES("'pod-group-name':'mine'")), "", false},
        {"in its own, as admission wrote", POD(NOTES("'pod-group-name':'pg-p-pu'")), "", true},
        {"who asks for it", POD(NOTES("'kai.scheduler/skip-podgrouper':'true'")), "", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        stage.config.other_schedulers = true;
        stage.config.schedulers = str_from(rows[i].schedulers);
        put(&stage, &kind_pod, rows[i].pod);
        react(&stage, "p");
        EXPECT((stage.actions.list.count > 0) == rows[i].grouped);
        EXPECT((made(&stage, "metadata.name").len > 0) == rows[i].grouped);
        react(&stage, "none");
        EXPECT(stage.actions.list.count == 0);
        stage_close(&stage);
    }
}

/* ---- writing ---- */

#define NEAR(topology) \
    "'kai.scheduler/topology':'" topology "','kai.scheduler/topology-required-placement':'rack'"

TEST(a_group_keeps_what_was_written_to_it_where_its_owner_says_nothing_else)
{
    static const struct {
        const char *why;
        const char *job;
        const char *group;
        const char *patch; /* of its spec; "": none */
    } rows[] = {
        {"as it is", "", "'minMember':1,'queue':'default-queue','priorityClassName':'train'", ""},
        {"its queue", "", "'minMember':1,'queue':'mine','priorityClassName':'train'", ""},
        {"what the scheduler is to do with it", "",
         "'minMember':1,'queue':'mine','priorityClassName':'train','markUnschedulable':true", ""},
        {"its minimum is the owner's", NOTES("'kai.scheduler/batch-min-member':'2'"),
         "'minMember':1,'queue':'mine','priorityClassName':'train'", "{\"minMember\":2}"},
        {"a topology that nobody else names", "",
         "'minMember':1,'queue':'q','priorityClassName':'train','topologyConstraint':{'topology':"
         "'hand'}",
         ""},
        {"the owner's goes before it", NOTES(NEAR("t")),
         "'minMember':1,'queue':'q','priorityClassName':'train','topologyConstraint':{'topology':"
         "'hand','requiredTopologyLevel':'rack'}",
         "{\"topologyConstraint\":{\"topology\":\"t\"}}"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        put(&stage, &kind_job,
            str_c(&stage.arena, str_printf(&stage.arena, JOB("j", "%s"), rows[i].job)));
        put(&stage, &kind_podgroup,
            str_c(&stage.arena,
                  str_printf(&stage.arena, GROUP("pg-j-ju", "", "%s"), rows[i].group)));
        put(&stage, &kind_pod, POD(OF_JOB NOTES("'pod-group-name':'pg-j-ju'")));
        react(&stage, "p");
        const struct action *patch = done(&stage, ACTION_PATCH, &kind_podgroup);
        EXPECT(stage.actions.list.count == (rows[i].patch[0] != '\0'));
        EXPECT(str_eq(patch ? json_text(&stage.arena, json_get(patch->body, "spec")) : STR_NONE,
                      str_from(rows[i].patch)));
        stage_close(&stage);
    }
}

TEST(what_cannot_mean_what_its_writer_thinks_is_told_once)
{
    static const struct {
        const char *why;
        const char *job;
        bool old_groups;
        const char *words;
    } rows[] = {
        {"nothing odd", "", true, ""},
        {"near to nobody", NOTES(NEAR("t")), true, "every pod of a Job is a pod group of its own"},
        {"near to the others", NOTES(NEAR("t")), false, ""},
        {"a word", NOTES("'kai.scheduler/preemptibility':'rather'"), false,
         "kai.scheduler/preemptibility is \"rather\", which means nothing"},
        {"a class", ",'labels':{'priorityClassName':'none'}", false,
         "the label priorityClassName is \"none\", and there is no such PriorityClass"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        stage.config.old_groups = rows[i].old_groups;
        put(&stage, &kind_job,
            str_c(&stage.arena, str_printf(&stage.arena, JOB("j", "%s"), rows[i].job)));
        put(&stage, &kind_pod, POD(OF_JOB));
        react(&stage, "p");
        EXPECT(made(&stage, "metadata.name").len);
        EXPECT((warned(&stage).len > 0) == (rows[i].words[0] != '\0'));
        EXPECT(str_starts(warned(&stage), str_from(rows[i].words)));
        put(&stage, &kind_podgroup, GROUP("pg-j-ju", "", ""));
        put(&stage, &kind_podgroup, GROUP("pg-p-ju", "", ""));
        react(&stage, "p");
        EXPECT(!warned(&stage).len);
        stage_close(&stage);
    }
}

#define KARTA(name)                                                                              \
    "{'apiVersion':'run.ai/v1alpha1','kind':'Karta','metadata':{'name':'" name "','uid':'" name  \
    "u'},'spec':{'structureDefinition':{'rootComponent':{'name':'s','kind':{'group':'x',"        \
    "'version':'v1','kind':'Site'}}},'optimizationInstructions':{'gangScheduling':{'podGroup':{" \
    "'name':'all'}}}}}"

TEST(kartas_that_cannot_both_hold_are_told_of)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_site, SITE("s", ""));
    put(&stage, &kind_karta, KARTA("k"));
    put(&stage, &kind_karta, KARTA("l"));
    put(&stage, &kind_pod, POD(OWNED("x/v1", "Site", "s")));
    react(&stage, "p");
    EXPECT(str_starts(warned(&stage), STR("Kartas \"k\" and \"l\" both describe Site")));
    EXPECT(str_is(made(&stage, "metadata.name"), "pg-s-su"));
    stage_close(&stage);
}

/* ---- at admission ---- */

TEST(a_pod_is_told_its_group_when_it_is_made_where_that_is_sure)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *group; /* "": it is not told */
        const char *sub;
        const struct kind *unwatched;
    } rows[] = {
        {"its own", POD(""), "pg-p-pu", "", NULL},
        {"a job's", POD(OF_JOB), "pg-j-ju", "", NULL},
        {"a part of one", POD(OF_RAY ",'labels':{'ray.io/group':'g'}"), "pg-c-cu", "g", NULL},
        {"it names one", POD(NOTES("'pod-group-name':'mine'")), "mine", "", NULL},
        {"a mirror", POD(NOTES("'kubernetes.io/config.mirror':'x'")), "", "", NULL},
        {"two owners'", POD(TWO), "", "", NULL},
        {"a job's of two owners", POD(OWNED("batch/v1", "Job", "two")), "", "", NULL},
        {"it names one of Kubernetes'",
         POD_OF("p", "", "'schedulerName':'kai-scheduler','schedulingGroup':{'podGroupName':'g'}"),
         "", "", NULL},
        {"another scheduler's", POD_OF("p", "", "'schedulerName':'other'"), "", "", NULL},
        {"an owner's that is not there", POD(OWNED("batch/v1", "Job", "none")), "", "", NULL},
        {"somebody else's", POD(NOTES("'kai.scheduler/skip-podgrouper':'true'")), "", "", NULL},
        {"one that makes no sense", POD(OWNED("ray.io/v1", "RayJob", "r")), "", "", NULL},
        {"one whose priority is not known yet", POD(",'labels':{'priorityClassName':'high'}"), "",
         "", &kind_priorityclass},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;
        struct json *pod = NULL;

        stage_open(&stage);
        test_case(rows[i].why);
        stage.config.other_schedulers = true;
        stage.unwatched = rows[i].unwatched;
        put(&stage, &kind_job, JOB("j", ""));
        put(&stage, &kind_job, JOB("two", TWO));
        put(&stage, &kind_ray, RAYCLUSTER(""));
        put(&stage, &kind_rayjob, OBJECT("ray.io/v1", "RayJob", "r", "", ""));
        EXPECT(json_parse(&stage.arena, text_of(&stage, rows[i].pod), &pod, NULL) == 0);
        group_admit(&stage.input, pod, &stage.arena);
        EXPECT(str_is(json_str_at(pod, "metadata.annotations.pod-group-name"), rows[i].group));
        EXPECT(str_is(
            json_str(json_get(json_at(pod, "metadata.labels"), "kai.scheduler/subgroup-name")),
            rows[i].sub));
        stage_close(&stage);
    }
}

TEST(the_group_of_a_pod_alone_is_written_with_it_where_there_is_nothing_to_say)
{
#define OWN "'pod-group-name':'pg-p-pu'"
    static const struct {
        const char *why;
        const char *pod;
        bool made;
        const struct kind *unwatched;
        const char *group; /* that is there; NULL: none */
    } rows[] = {
        {"its own", POD(NOTES(OWN)), true, NULL, NULL},
        {"there already", POD(NOTES(OWN)), false, NULL, GROUP("pg-p-pu", "", "")},
        {"another one", POD(NOTES("'pod-group-name':'mine'")), false, NULL, NULL},
        {"an owner's", POD(OF_JOB NOTES(OWN)), false, NULL, NULL},
        {"a mirror", POD(NOTES(OWN ",'kubernetes.io/config.mirror':'x'")), false, NULL, NULL},
        {"one of Kubernetes'",
         POD_OF("p", NOTES(OWN),
                "'schedulerName':'kai-scheduler','schedulingGroup':{'podGroupName':'g'}"),
         false, NULL, NULL},
        {"another scheduler's", POD_OF("p", NOTES(OWN), "'schedulerName':'other'"), false, NULL,
         NULL},
        {"somebody else's", POD(NOTES(OWN ",'kai.scheduler/skip-podgrouper':'true'")), false, NULL,
         NULL},
        {"one to warn of", POD(NOTES(OWN ",'kai.scheduler/preemptibility':'rather'")), false, NULL,
         NULL},
        {"one whose priority is not known yet",
         POD(NOTES(OWN) ",'labels':{'priorityClassName':'high'}"), false, &kind_priorityclass,
         NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        stage.config.other_schedulers = true;
        stage.unwatched = rows[i].unwatched;
        put(&stage, &kind_pod, rows[i].pod);
        if (rows[i].group)
            put(&stage, &kind_podgroup, rows[i].group);
        const struct json *group = group_alone(
            &stage.input, cache_get(stage.cache, &kind_pod, STR("d"), STR("p")), &stage.arena);
        EXPECT(str_is(json_str_at(group, "metadata.name"), rows[i].made ? "pg-p-pu" : ""));
        stage_close(&stage);
    }
}

/* ---- keys ---- */

/* Names of the pods that look again, with blanks between. */
static struct str woken(struct stage *stage, const struct object *object)
{
    struct control_keys keys = {.arena = &stage->arena};
    struct str text = STR("");

    group_controller.keys(stage->cache, object, &keys);
    for (size_t i = 0; i < keys.list.count; i++)
        text = str_printf(&stage->arena, STR_FMT "%s" STR_FMT, STR_ARG(text), text.len ? " " : "",
                          STR_ARG(keys.list.items[i].name));
    return text;
}

#define OF_GANG OWNED("scheduling.k8s.io/v1beta1", "PodGroup", "g")

TEST(what_a_pods_group_follows_from_wakes_the_pod)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *text;
        bool gone;
        const char *names;
    } rows[] = {
        {"a pod", &kind_pod, POD_OF("q", "", ""), false, "q"},
        {"its owner", &kind_rayjob, OBJECT("ray.io/v1", "RayJob", "r", "", ""), false, "p"},
        {"the owner of the job that it is of", &kind_site, SITE("s", ""), false, "j1 j2"},
        {"a Karta: whoever has an owner", &kind_karta, KARTA("k"), false, "p j1 j2"},
        {"the group of Kubernetes' that it waits for", &kind_podgroup_k8s,
         OBJECT("scheduling.k8s.io/v1beta1", "PodGroup", "new", "", ""), false, "waits"},
        {"the group of Kubernetes' that it is in", &kind_podgroup_k8s,
         OBJECT("scheduling.k8s.io/v1beta1", "PodGroup", "g", "", ""), false, "g1 g2"},
        {"ours that stands for it has changed", &kind_podgroup, GROUP("podgroup-g", OF_GANG, ""),
         false, ""},
        {"it is gone", &kind_podgroup, GROUP("podgroup-g", OF_GANG, ""), true, "g1 g2"},
        {"a group has changed", &kind_podgroup, GROUP("pg-j-ju", OWNED("batch/v1", "Job", "j"), ""),
         false, ""},
        {"a group is gone under its pods", &kind_podgroup,
         GROUP("pg-j-ju", OWNED("batch/v1", "Job", "j"), ""), true, "j1 j2"},
        {"one that somebody wrote is gone: it is his to write again", &kind_podgroup,
         GROUP("pg-j-ju", "", ""), true, ""},
        {"nodes say nothing", &kind_node, SITE("n", ""), false, ""},
        {"nor do queues", &kind_torchrunqueue, SITE("n", ""), false, ""},
        {"nor priorities", &kind_priorityclass, SITE("n", ""), false, ""},
        {"nor topologies", &kind_topology, SITE("n", ""), false, ""},
    };
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_job, JOB("j", OWNED("x/v1", "Site", "s")));
    put(&stage, &kind_pod, POD(OWNED("ray.io/v1", "RayJob", "r")));
    put(&stage, &kind_pod, POD_OF("j1", OF_JOB NOTES("'pod-group-name':'pg-j-ju'"), ""));
    put(&stage, &kind_pod, POD_OF("j2", OF_JOB NOTES("'pod-group-name':'pg-j-ju'"), ""));
    put(&stage, &kind_pod, POD_OF("g1", "", "'schedulingGroup':{'podGroupName':'g'}"));
    put(&stage, &kind_pod, POD_OF("g2", "", "'schedulingGroup':{'podGroupName':'g'}"));
    put(&stage, &kind_pod,
        "{'metadata':{'name':'far','namespace':'e','uid':'fu','annotations':{'pod-group-name':"
        "'podgroup-g'}},'spec':{}}");
    put(&stage, &kind_pod,
        POD_OF("waits", NOTES("'pod-group-name':'pg-waits-waitsu'"),
               "'schedulingGroup':{'podGroupName':'new'}"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct object *object = NULL;

        test_case(rows[i].why);
        EXPECT(object_new(rows[i].kind, text_of(&stage, rows[i].text), &object, NULL) == 0);
        if (!rows[i].gone)
            cache_put(stage.cache, object);
        EXPECT(str_is(woken(&stage, object), rows[i].names));
        cache_drop(stage.cache, object);
        object_unref(object);
    }
    stage_close(&stage);
}

TEST(a_status_or_a_node_wakes_only_pods_of_owners_that_count_them)
{
    static const struct {
        const char *why;
        const char *meta;
        const char *before; /* annotations */
        const char *after;
        bool passes;
    } rows[] = {
        {"nobody's", "", "", "", true},
        {"a TorchrunJob's", OWNED("torchrun.ai/v1alpha1", "TorchrunJob", "t"), "", "", true},
        {"another's", OF_JOB, "", "", false},
        {"bound", "", "'a':'b'",
         "'a':'b','received-resource-type':'Regular','torchrun.ai/gpu-devices':'0'", true},
        {"bound, with none before", "", "", "'torchrun.ai/gpu-devices':'0'", true},
        {"bound, another's", OF_JOB, "", "'torchrun.ai/gpu-devices':'0'", false},
        {"annotated by a person", "", "'a':'b'", "'a':'b','c':'d'", false},
        {"annotated and bound", "", "'a':'b'", "'a':'c','torchrun.ai/gpu-devices':'0'", false},
        {"its group's name was taken away", "", "'pod-group-name':'g'", "", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;
        struct object *pods[2] = {NULL, NULL};

        stage_open(&stage);
        test_case(rows[i].why);
        for (size_t j = 0; j < 2; j++)
            EXPECT(object_new(
                       &kind_pod,
                       text_of(&stage, str_c(&stage.arena,
                                             str_printf(&stage.arena,
                                                        "{'metadata':{'name':'p','generation':1,"
                                                        "'annotations':{%s}%s},"
                                                        "'status':{'phase':'%zu'}}",
                                                        j ? rows[i].after : rows[i].before,
                                                        rows[i].meta, j))),
                       &pods[j], NULL) == 0);
        EXPECT(group_controller.passes_by(pods[0], pods[1]) == rows[i].passes);
        object_unref(pods[0]);
        object_unref(pods[1]);
        stage_close(&stage);
    }
}

/* One that stood on another revision may have been changed by somebody: it is made as it should be. */
TEST(a_group_that_was_written_with_its_pod_is_not_looked_at_again)
{
    static const struct {
        const char *why;
        const char *group; /* metadata of it */
        bool looks;
    } rows[] = {
        {"written behind the pod", "'resourceVersion':'8','ownerReferences':[{'uid':'pu'}]", false},
        {"changed since", "'resourceVersion':'9','ownerReferences':[{'uid':'pu'}]", true},
        {"before the pod changed", "'resourceVersion':'6','ownerReferences':[{'uid':'pu'}]", true},
        {"of another pod", "'resourceVersion':'8','ownerReferences':[{'uid':'qu'}]", true},
        {"somebody's", "'resourceVersion':'8'", true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        put(&stage, &kind_pod,
            "{'metadata':{'name':'p','namespace':'d','uid':'pu','resourceVersion':'7','annotations'"
            ":{'pod-group-name':'pg-p-pu'}},'spec':{'schedulerName':'kai-scheduler'}}");
        put(&stage, &kind_podgroup,
            str_c(&stage.arena,
                  str_printf(&stage.arena,
                             "{'metadata':{'name':'pg-p-pu','namespace':'d',%s},'spec':{"
                             "'minMember':3}}",
                             rows[i].group)));
        react(&stage, "p");
        EXPECT((done(&stage, ACTION_PATCH, &kind_podgroup) != NULL) == rows[i].looks);
        stage_close(&stage);
    }
}

TEST(a_pod_that_names_a_group_and_ignores_its_workload_stays_where_it_is)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod,
        "{'metadata':{'name':'p','namespace':'d','uid':'pu','annotations':{'pod-group-name':'mine',"
        "'" GROUP_IGNORE_WORKLOAD "':'true'}},'spec':{'schedulerName':'kai-scheduler',"
        "'schedulingGroup':{'podGroupName':'theirs'}}}");
    react(&stage, "p");
    EXPECT(stage.actions.list.count == 0);
    stage_close(&stage);
}
