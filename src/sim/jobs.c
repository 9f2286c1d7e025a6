#include "sim/jobs.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/rng.h"
#include "base/str.h"
#include "sim/hollow_body.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bodies are JSON with ' for ", and these words:
 *     $name, $queue, $user     of this job; the last one as a further label, or nothing
 *     $few                     1, 2 or 3
 *     $restart                 a restart policy that a controller acts on
 *     $work(C) $side(C) $serve(C)   a pod template with container C: one that does the work, one
 *                              that needs no GPU, and one that runs until it is stopped */

#define QUEUE  "'metadata':{'name':'$name','labels':{'kai.scheduler/queue':'$queue'$user}}"
#define POLICY "'runPolicy':{'backoffLimit':2,'cleanPodPolicy':'Running'}"
#define SET_JOB(name, count, more, pod)         \
    "{'name':'" name "','replicas':" count more \
    ",'template':{'spec':{'parallelism':1,'completions':1,'backoffLimit':0,'template':" pod "}}}"

const struct job_form job_forms[] = {
    {&kind_job, "batch",
     "{'apiVersion':'batch/v1','kind':'Job'," QUEUE ",'spec':{'parallelism':$few,'completions':3,"
     "'backoffLimit':2,'template':$work(main)}}"},
    {&kind_job, "indexed",
     "{'apiVersion':'batch/v1','kind':'Job'," QUEUE ",'spec':{'parallelism':2,'completions':2,"
     "'completionMode':'Indexed','backoffLimitPerIndex':1,'template':$work(main)}}"},
    {&kind_torchrunjob, "train",
     "{'apiVersion':'torchrun.ai/v1alpha1','kind':'TorchrunJob'," QUEUE ",'spec':{'jobQueue':"
     "'small','numGPUs':$few,'command':'python3 train.py'}}"},
    {&kind_pytorchjob, "torch",
     "{'apiVersion':'kubeflow.org/v1','kind':'PyTorchJob'," QUEUE ",'spec':{" POLICY
     ",'pytorchReplicaSpecs':{'Master':{'replicas':1,'restartPolicy':'$restart','template':"
     "$side(pytorch)},'Worker':{'replicas':$few,'restartPolicy':'$restart','template':"
     "$work(pytorch)}}}}"},
    {&kind_tfjob, "tensor",
     "{'apiVersion':'kubeflow.org/v1','kind':'TFJob'," QUEUE ",'spec':{" POLICY
     ",'successPolicy':'AllWorkers','tfReplicaSpecs':{'PS':{'replicas':1,'restartPolicy':"
     "'OnFailure','template':$serve(tensorflow)},'Worker':{'replicas':$few,'restartPolicy':"
     "'$restart','template':$work(tensorflow)}}}}"},
    {&kind_mpijob, "mpi",
     "{'apiVersion':'kubeflow.org/v1','kind':'MPIJob'," QUEUE ",'spec':{" POLICY
     ",'slotsPerWorker':1,'mpiReplicaSpecs':{'Launcher':{'replicas':1,'restartPolicy':'$restart',"
     "'template':$side(mpi)},'Worker':{'replicas':$few,'template':$serve(mpi)}}}}"},
    {&kind_xgboostjob, "boost",
     "{'apiVersion':'kubeflow.org/v1','kind':'XGBoostJob'," QUEUE ",'spec':{" POLICY
     ",'xgbReplicaSpecs':{'Master':{'replicas':1,'restartPolicy':'$restart','template':"
     "$side(xgboost)},'Worker':{'replicas':$few,'restartPolicy':'ExitCode','template':"
     "$work(xgboost)}}}}"},
    {&kind_jaxjob, "jax",
     "{'apiVersion':'kubeflow.org/v1','kind':'JAXJob'," QUEUE ",'spec':{" POLICY
     ",'jaxReplicaSpecs':{'Worker':{'replicas':$few,'restartPolicy':'$restart','template':"
     "$work(jax)}}}}"},
    {&kind_paddlejob, "paddle",
     "{'apiVersion':'kubeflow.org/v1','kind':'PaddleJob'," QUEUE ",'spec':{" POLICY
     ",'paddleReplicaSpecs':{'Worker':{'replicas':$few,'restartPolicy':'$restart','template':"
     "$work(paddle)}}}}"},
    {&kind_jobset, "set",
     "{'apiVersion':'jobset.x-k8s.io/v1alpha2','kind':'JobSet'," QUEUE ",'spec':{'failurePolicy':{"
     "'maxRestarts':2},'replicatedJobs':[" SET_JOB("prepare", "1", "", "$side(main)") "," SET_JOB(
         "workers",
         "$few",
         ",'dependsOn':[{'name':'prepare','status':'Complete'}]",
         "$work(main)") "]}}"},
    {&kind_trainjob, "tune",
     "{'apiVersion':'trainer.kubeflow.org/v1alpha1','kind':'TrainJob'," QUEUE ",'spec':{"
     "'runtimeRef':{'name':'torch-distributed'},'trainer':{'numNodes':$few,'resourcesPerNode':{"
     "'limits':{'nvidia.com/gpu':'1'}}}}}"},
    {&kind_trainjob, "tuned",
     "{'apiVersion':'trainer.kubeflow.org/v1alpha1','kind':'TrainJob'," QUEUE ",'spec':{"
     "'runtimeRef':{'name':'torch-distributed-with-data'},'trainer':{'numNodes':$few}}}"},
    {&kind_pytorchtrainingjob, "stack",
     "{'apiVersion':'batch.tensorstack.dev/v1beta1','kind':'PyTorchTrainingJob'," QUEUE ",'spec':{"
     "'replicaSpecs':[{'type':'worker','replicas':$few,'restartPolicy':'$restart','template':"
     "$work(pytorch)}]}}"},
    {&kind_pytorchtrainingjob, "elastic",
     "{'apiVersion':'batch.tensorstack.dev/v1beta1','kind':'PyTorchTrainingJob'," QUEUE ",'spec':{"
     "'elastic':{'enabled':true,'minReplicas':1,'maxReplicas':4,'expectedReplicas':$few},"
     "'torchrunConfig':{'enabled':true,'maxRestarts':2,'procPerNode':'1'},'replicaSpecs':[{"
     "'type':'worker','scalingWeight':1,'restartPolicy':'$restart','template':$work(pytorch)}]}}"},
    {&kind_torchrunjob, "place",
     "{'apiVersion':'torchrun.ai/v1alpha1','kind':'TorchrunJob'," QUEUE ",'spec':{'jobQueue':"
     "'small','numGPUs':$few,'command':'python3 "
     "train.py','reliability':{'restartMode':'InPlace'}}}"},
    {&kind_torchrunjob, "spared",
     "{'apiVersion':'torchrun.ai/v1alpha1','kind':'TorchrunJob'," QUEUE ",'spec':{'jobQueue':"
     "'small','numGPUs':$few,'command':'python3 train.py','reliability':{'restartMode':'InPlace',"
     "'spares':1}}}"},
};
const size_t job_form_count_wide = COUNT_OF(job_forms);
const size_t job_form_count = COUNT_OF(job_forms) - 2;

static void add_quoted(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_addc(out, *text == '\'' ? '"' : *text);
}

enum role {
    ROLE_WORK,
    ROLE_SIDE,
    ROLE_SERVE,
};

/* A pod template: what its container asks for is a matter of luck. */
static void add_pod(struct buf *out, struct rng *rng, enum role role, struct str container)
{
    uint64_t luck = role == ROLE_SIDE ? 0 : rng_below(rng, 5);

    add_quoted(out, "{'metadata':{'annotations':{'muster.dev/sim':'true'");
    if (luck == 1)
        add_quoted(out, ",'gpu-fraction':'0.5'");
    if (role == ROLE_SERVE)
        add_quoted(out, ",'" HOLLOW_RUN_MS "':'100000000'");
    add_quoted(out, "}},'spec':{'schedulerName':'kai-scheduler','restartPolicy':'Never',"
                    "'containers':[{'name':'");
    buf_add(out, container);
    add_quoted(out, "','image':'x','resources':{'limits':{'cpu':'500m','memory':'256Mi'");
    if (luck > 1)
        add_quoted(out, ",'nvidia.com/gpu':'1'");
    add_quoted(out, "}}}]}}");
}

/* The word behind a '$', taken off *rest. */
static void add_word(struct buf *out, const struct job_wish *wish, struct str *rest)
{
    static const char *const roles[] = {"work(", "side(", "serve("};
    static const char *const restarts[] = {"Never", "OnFailure"};

    if (str_starts(*rest, STR("name"))) {
        buf_add(out, str_from(wish->name));
        *rest = str_sub(*rest, 4, rest->len);
    } else if (str_starts(*rest, STR("queue"))) {
        buf_add(out, str_from(wish->queue));
        *rest = str_sub(*rest, 5, rest->len);
    } else if (str_starts(*rest, STR("user"))) {
        buf_add(out, str_from(wish->user));
        *rest = str_sub(*rest, 4, rest->len);
    } else if (str_starts(*rest, STR("few"))) {
        buf_addc(out, (char)('1' + rng_below(wish->rng, 3)));
        *rest = str_sub(*rest, 3, rest->len);
    } else if (str_starts(*rest, STR("restart"))) {
        buf_add(out, str_from(restarts[rng_below(wish->rng, 2)]));
        *rest = str_sub(*rest, 7, rest->len);
    } else {
        for (size_t i = 0; i < COUNT_OF(roles); i++)
            if (str_starts(*rest, str_from(roles[i]))) {
                struct str container;

                *rest = str_sub(*rest, strlen(roles[i]), rest->len);
                (void)str_cut(rest, ')', &container);
                add_pod(out, wish->rng, (enum role)i, container);
                return;
            }
        assert(!"a word that jobs.c does not know");
    }
}

struct str job_body(struct arena *arena, const struct job_form *form, const struct job_wish *wish)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct str rest = str_from(form->body);

    while (rest.len) {
        char c = rest.p[0];

        rest = str_sub(rest, 1, rest.len);
        if (c == '$')
            add_word(&out, wish, &rest);
        else
            buf_addc(&out, c == '\'' ? '"' : c);
    }
    return str_dup(arena, buf_str(&out));
}
