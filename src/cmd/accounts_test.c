#include "api/account.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "cmd/accounts.h"
#include "plugin/spent.h"
#include "test.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What it watches, told by hand. */
struct api_watch {
    const struct kind *kind;
    api_watch_fn *fn;
    void *user;
};

struct stage {
    struct api api;
    struct api_watch watches[16];
    size_t count;
    char top[32];
    char path[64];
    struct accounts *accounts;
};

static struct api_watch *stage_watch(struct api *api,
                                     const struct api_watch_request *request,
                                     api_watch_fn *fn,
                                     void *user)
{
    struct stage *stage = (struct stage *)api;
    struct api_watch *watch = &stage->watches[stage->count++];

    EXPECT(stage->count <= COUNT_OF(stage->watches));
    *watch = (struct api_watch){request->kind, fn, user};
    return watch;
}

static void stage_watch_stop(struct api *api, struct api_watch *watch)
{
    (void)api;
    watch->fn = NULL;
}

static void stage_start(struct stage *stage)
{
    static const struct api_ops ops = {.watch = stage_watch, .watch_stop = stage_watch_stop};

    stage->count = 0;
    stage->api = (struct api){.ops = &ops};
    stage->accounts = accounts_start(&stage->api, stage->path, NULL);
}

static void stage_open(struct stage *stage)
{
    *stage = (struct stage){.top = "/tmp/accounts-XXXXXX"};
    EXPECT(mkdtemp(stage->top) != NULL);
    (void)snprintf(stage->path, sizeof(stage->path), "%s/accounts", stage->top);
    stage_start(stage);
}

static void stage_close(struct stage *stage)
{
    accounts_stop(stage->accounts);
    (void)unlink(stage->path);
    (void)rmdir(stage->top);
}

/* What a text of an object says, with ' for ". */
__attribute__((format(printf, 4, 5))) static void tell(struct stage *stage,
                                                       const struct kind *kind,
                                                       enum api_event event,
                                                       const char *format,
                                                       ...)
{
    char text[2048];
    struct object *object = NULL;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    for (size_t i = 0; i < stage->count; i++)
        if (stage->watches[i].kind == kind)
            stage->watches[i].fn(stage->watches[i].user,
                                 &(struct api_change){.event = event, .object = object});
    object_unref(object);
}

static void synced(struct stage *stage)
{
    for (size_t i = 0; i < stage->count; i++)
        stage->watches[i].fn(stage->watches[i].user, &(struct api_change){.event = API_SYNCED});
}

#define META(name, uid, more)                                    \
    "'metadata':{'name':'" name "','namespace':'ns','uid':'" uid \
    "','creationTimestamp':'2026-01-01T00:00:00Z'" more "}"
#define OWNED(version, kind, uid)                                                              \
    ",'ownerReferences':[{'apiVersion':'" version "','kind':'" kind "','name':'o','uid':'" uid \
    "','controller':true}]"
#define POD_SPEC                                                                        \
    "'template':{'spec':{'containers':[{'name':'c','resources':{'limits':{'nvidia.com/" \
    "gpu':2}}}]}}"

static void tell_trainjob(struct stage *stage, enum api_event event, const char *status)
{
    tell(stage, &kind_trainjob, event,
         "{" META(
             "t", "train",
             ",'labels':{'user':'ann','kai.scheduler/queue':'red'}") ",'spec':{'runtimeRef':{'name'"
                                                                     ":'r'}},'status':{%s}}",
         status);
}

static void tell_jobset(struct stage *stage, const char *status)
{
    tell(stage, &kind_jobset, API_MODIFIED,
         "{" META("t", "set",
                  OWNED("trainer.kubeflow.org/v1alpha1", "TrainJob",
                        "train")) ",'spec':{'replicatedJobs':[{'name':'node','replicas':1,'"
                                  "template':{'spec':{"
                                  "'parallelism':2,'completions':2," POD_SPEC
                                  "}}}]},'status':{%s}}",
         status);
}

static void tell_part(struct stage *stage, enum api_event event)
{
    tell(stage, &kind_job, event,
         "{" META("t-node-0", "job",
                  OWNED("jobset.x-k8s.io/v1alpha2", "JobSet",
                        "set")) ",'spec':{'parallelism':2,'completions':2," POD_SPEC "}}");
}

static void tell_pod(struct stage *stage, const char *uid, const char *node, const char *phase)
{
    tell(stage, &kind_pod, API_MODIFIED,
         "{'metadata':{'name':'%s','namespace':'ns','uid':'%s'" OWNED(
             "batch/v1", "Job", "job") "},'spec':{'nodeName':'%s'},'status':{'phase':'%s'}}",
         uid, uid, node, phase);
}

static struct str lines(struct stage *stage, struct buf *out)
{
    buf_clear(out);
    accounts_tell(stage->accounts, STR(""), out);
    return buf_str(out);
}

static struct str last_line(struct stage *stage, struct buf *out)
{
    struct str rest = lines(stage, out);
    struct str line = STR("");
    struct str last = STR("");

    while (str_cut(&rest, '\n', &line))
        if (line.len)
            last = line;
    return last;
}

/* The state that it is in by its last line, and the GPUs. Stays of no time may have left no trace. */
static bool state_is(struct stage *stage, enum account_state state, int64_t gpus)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct spent spent;

    if (!spent_read(&arena, last_line(stage, &out), &spent))
        return false;
    const struct account_event *last = &spent.account.events[spent.account.count - 1];
    return last->state == state && last->gpus == gpus && !spent.account.end_ms;
}

TEST(a_trainjob_is_one_job_with_what_is_made_of_it)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct stage stage;

    stage_open(&stage);
    synced(&stage);
    tell_trainjob(&stage, API_ADDED, "");
    tell_jobset(&stage, "");
    tell_part(&stage, API_ADDED);
    EXPECT(state_is(&stage, ACCOUNT_QUEUED, 4));
    tell_pod(&stage, "p0", "n0", "Pending");
    tell_pod(&stage, "p1", "n1", "Running");
    EXPECT(state_is(&stage, ACCOUNT_STARTING, 4));
    tell_pod(&stage, "p0", "n0", "Running");
    struct str line = last_line(&stage, &out);
    EXPECT(state_is(&stage, ACCOUNT_TRAINING, 4));
    EXPECT(str_contains(line, STR("\"kind\":\"TrainJob\"")));
    EXPECT(str_contains(line, STR("\"queue\":\"red\",\"user\":\"ns\"")));
    EXPECT(str_contains(line, STR("\"nodes\":[\"n0\",\"n1\"]")));
    EXPECT(state_is(&stage, ACCOUNT_TRAINING, 4));
    tell_trainjob(&stage, API_MODIFIED,
                  "'conditions':[{'type':'Complete','status':'True',"
                  "'lastTransitionTime':'2026-01-01T01:00:00Z'}]");
    EXPECT(str_contains(last_line(&stage, &out), STR("\"end\":")));
    /* What follows is nobody's: there is one job, and it is over. */
    struct str before = lines(&stage, &out);
    size_t bytes = before.len;
    tell_jobset(&stage, "");
    tell_part(&stage, API_MODIFIED);
    tell_pod(&stage, "p0", "n0", "Succeeded");
    tell_part(&stage, API_DELETED);
    struct str after = lines(&stage, &out);
    EXPECT(after.len == bytes);
    EXPECT(!str_contains(after, STR("\"kind\":\"Job\"")));
    EXPECT(!str_contains(after, STR("\"kind\":\"JobSet\"")));
    stage_close(&stage);
}

TEST(what_a_jobset_says_of_its_ranks_and_restarts_is_its_trainjobs)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct stage stage;

    stage_open(&stage);
    synced(&stage);
    tell_trainjob(&stage, API_ADDED, "");
    tell_jobset(&stage, "");
    tell_part(&stage, API_ADDED);
    tell_pod(&stage, "p0", "n0", "Running");
    tell_jobset(&stage, "'conditions':[{'type':'Hung','status':'True','reason':'Suspected'}]");
    EXPECT(state_is(&stage, ACCOUNT_HUNG, 4));
    tell_jobset(&stage, "'conditions':[{'type':'RestartingJobSet','status':'True'}]");
    EXPECT(state_is(&stage, ACCOUNT_STARTING, 4));
    tell_jobset(&stage, "'conditions':[{'type':'RestartingJobSet','status':'False'}]");
    EXPECT(state_is(&stage, ACCOUNT_TRAINING, 4));
    stage_close(&stage);
}

TEST(pods_that_are_told_of_before_their_job_are_its_pods_all_the_same)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct stage stage;

    stage_open(&stage);
    tell_pod(&stage, "p0", "n0", "Running");
    tell_part(&stage, API_ADDED);
    tell_jobset(&stage, "");
    tell_trainjob(&stage, API_ADDED, "");
    synced(&stage);
    struct str line = last_line(&stage, &out);
    EXPECT(str_contains(line, STR("\"kind\":\"TrainJob\"")));
    EXPECT(str_contains(line, STR("\"nodes\":[\"n0\"]")));
    EXPECT(state_is(&stage, ACCOUNT_TRAINING, 4));
    stage_close(&stage);
}

static void tell_batch(struct stage *stage, const char *resources, const char *status)
{
    tell(stage, &kind_job, API_MODIFIED,
         "{" META("b", "job", "") ",'spec':{'parallelism':4,'completions':8,'template':{"
                                  "'metadata':{'labels':{'kai.scheduler/"
                                  "queue':'blue'}},'spec':{'containers':[{'name':'c',"
                                  "'resources':{%s}}]}}},'status':{%s}}",
         resources, status);
}

TEST(a_batch_job_is_counted_if_it_has_gpus_and_over_a_restart)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct stage stage;

    stage_open(&stage);
    synced(&stage);
    tell_batch(&stage, "", "");
    tell_pod(&stage, "p0", "n0", "Running");
    EXPECT(last_line(&stage, &out).len == 0);
    tell_batch(&stage, "'limits':{'nvidia.com/gpu':1}", "");
    struct str line = last_line(&stage, &out);
    EXPECT(str_contains(line, STR("\"kind\":\"Job\"")) &&
           str_contains(line, STR("\"queue\":\"blue\"")));
    EXPECT(state_is(&stage, ACCOUNT_TRAINING, 4));
    tell_pod(&stage, "p1", "n0", "Pending"); /* its pods need not know of each other */
    EXPECT(state_is(&stage, ACCOUNT_TRAINING, 4));
    accounts_stop(stage.accounts);
    stage_start(&stage);
    tell_batch(&stage, "'limits':{'nvidia.com/gpu':1}", "'failed':1,'active':0");
    synced(&stage);
    EXPECT(state_is(&stage, ACCOUNT_STARTING, 4));
    tell_batch(&stage, "'limits':{'nvidia.com/gpu':1}", "'failed':1,'active':1");
    EXPECT(state_is(&stage, ACCOUNT_QUEUED, 4));
    stage_close(&stage);
}

/* Rank 0 of a pod that began so many seconds after the year did, with steps since then. */
static void tell_ranks(struct stage *stage,
                       const char *pod,
                       int began,
                       int steps,
                       const char *phase)
{
    int64_t year_ms = 1767225600000LL;
    int64_t began_ms = year_ms + began * 1000LL;

    tell(stage, &kind_pod, API_MODIFIED,
         "{'metadata':{'name':'%s','namespace':'ns','uid':'%s','annotations':{'muster.dev/ranks':"
         "'[{\\'rank\\':0,\\'pid\\':%d,\\'act\\':\\'stepping\\',\\'since\\':1,\\'steps\\':%d,"
         "\\'began\\':%lld,\\'first\\':%lld,\\'last\\':%lld}]'}" OWNED(
             "batch/v1", "Job", "job") "},'spec':{'nodeName':'n0'},'status':{'phase':'%s'}}",
         pod, pod, began + 2, steps, (long long)began_ms, (long long)(began_ms + 1000),
         (long long)(began_ms + steps * 1000LL), phase);
}

TEST(pods_of_a_batch_job_that_train_each_for_itself_repeat_nothing)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct stage stage;

    stage_open(&stage);
    synced(&stage);
    tell_batch(&stage, "'limits':{'nvidia.com/gpu':1}", "");
    tell_ranks(&stage, "p0", 10, 50, "Running");
    tell_ranks(&stage, "p1", 60, 1, "Running");
    EXPECT(!str_contains(lines(&stage, &out), STR("recomputing")));
    tell_ranks(&stage, "p0", 10, 80, "Succeeded");
    tell_ranks(&stage, "p2", 100, 1, "Running");
    EXPECT(!str_contains(lines(&stage, &out), STR("recomputing")));
    /* But one that failed, and began again, does. */
    tell_ranks(&stage, "p2", 100, 60, "Failed");
    tell_ranks(&stage, "p3", 200, 1, "Running");
    EXPECT(str_contains(lines(&stage, &out), STR("recomputing")));
    stage_close(&stage);
}

static void tell_worker(struct stage *stage, const char *uid, const char *role, const char *phase)
{
    tell(stage, &kind_pod, API_MODIFIED,
         "{'metadata':{'name':'%s','namespace':'ns','uid':'%s','labels':{'torchrun.ai/"
         "role':'%s'}" OWNED(
             "torchrun.ai/v1alpha1", "TorchrunJob",
             "run") "},'spec':{'nodeName':'n-%s','containers':[{'name':'c',"
                    "'resources':{'limits':{'nvidia.com/gpu':2}}}]},'status':{'phase':'%s'}}",
         uid, uid, role, uid, phase);
}

TEST(gpus_of_a_spare_pod_are_idle_until_it_takes_a_place)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct stage stage;

    stage_open(&stage);
    synced(&stage);
    tell_worker(&stage, "s", "spare", "Running"); /* before anybody knows the job */
    tell(&stage, &kind_torchrunjob, API_ADDED,
         "{" META("r", "run", "") ",'spec':{'numGPUs':2},'status':{'phase':'Queued'}}");
    EXPECT(state_is(&stage, ACCOUNT_QUEUED, 2)); /* a spare is no pod of the gang */
    tell_worker(&stage, "w", "worker", "Running");
    tell(&stage, &kind_torchrunjob, API_MODIFIED,
         "{" META("r", "run", "") ",'spec':{'numGPUs':2},'status':{'phase':'Running'}}");
    EXPECT(state_is(&stage, ACCOUNT_TRAINING, 2));
    EXPECT(str_contains(last_line(&stage, &out), STR("\"training\",2,0,2]")));
    EXPECT(str_contains(last_line(&stage, &out), STR("\"nodes\":[\"n-w\"]")));
    tell_worker(&stage, "w", "worker", "Failed");
    tell_worker(&stage, "s", "worker", "Running");
    EXPECT(str_contains(last_line(&stage, &out), STR("\"training\",2]]")));
    EXPECT(str_contains(last_line(&stage, &out), STR("\"nodes\":[\"n-w\",\"n-s\"]")));
    stage_close(&stage);
}

TEST(whether_its_ranks_are_observed_is_kept_with_the_account)
{
    static const char *const told[] = {
        "'muster.dev/ranks':'[{\\'unwatched\\':\\'it is so\\'}]'",
        "'muster.dev/ranks':'[{\\'rank\\':0,\\'act\\':\\'stepping\\'}]'",
    };
    static const char *const says[] = {"\"unobserved\":\"it is so\"", "\"observed\":true"};
    _cleanup_(buf_done) struct buf out = {0};
    struct stage stage;

    stage_open(&stage);
    synced(&stage);
    tell_trainjob(&stage, API_ADDED, "");
    tell_jobset(&stage, "");
    tell_part(&stage, API_ADDED);
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        tell(
            &stage, &kind_pod, API_MODIFIED,
            "{'metadata':{'name':'p','namespace':'ns','uid':'p','annotations':{%s}" OWNED(
                "batch/v1", "Job", "job") "},'spec':{'nodeName':'n'},'status':{'phase':'Running'}}",
            told[i]);
        struct str line = last_line(&stage, &out);
        EXPECT(str_contains(line, str_from(says[i])) && !str_contains(line, str_from(says[!i])));
    }
    stage_close(&stage);
}
