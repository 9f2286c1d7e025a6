#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/job/job.h"
#include "control/kinds/torchrun.h"
#include "test.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The engine as a table: what is there -> what the state becomes and what is done. */

#define NOW 1000000000000LL /* 2001-09-09T01:46:40Z */

/* Pods are written as words: index, phase, and marks.
 *   0P  pending   0S  has a node, not started   0R  running   0D  done   0F7  failed with 7
 * followed by:
 *   x  being deleted   l  on a node that is gone   s  on a node silent for long
 *   q  on a node silent for a moment   v  ended by an eviction
 *   o t u  its first rank failed half a minute, 100 ms, 50 ms ago
 *   h  so it did, and the launcher says that trying again cannot help
 *   H  its annotation says hold, Y  yield, U  unused, A  and its node that it has no GPU
 *   N  its node cannot suspend it
 *   n  its node's rules refused it, before it began
 *   @1  of generation 1 (0 when left out) */
struct row {
    const char *why;
    const char *spec;   /* of the job, besides queue and command */
    const char *status; /* of the job, before */
    const char *pods;
    const char *extra;   /* other objects: a b c ... see extra() */
    const char *phase;   /* expected */
    const char *message; /* a part of it */
    int generation;
    int restarts;
    int disruptions;
    const char *actions; /* "+pod 2 -pod 1 +svc !job ..." see summary() */
};

static const struct row rows[] = {
    {"a new job gets service and pods, and waits", "\"numGPUs\":4", "", "", "", "Queued",
     "waiting to be scheduled", 0, 0, 0, "svc+1 pod+2"},
    {"what exists is not made again", "\"numGPUs\":4", "", "0P 1P", "svc", "Queued", "", 0, 0, 0,
     ""},
    {"a pod that is missing before anything ran is simply made", "\"numGPUs\":4", "", "0P", "svc",
     "Queued", "", 0, 0, 0, "pod+1"},
    {"the reason of the pod group is the job's message", "\"numGPUs\":4", "", "0P 1P", "svc group",
     "Queued", "waiting for 4 GPUs: 3 of 8 free", 0, 0, 0, ""},
    {"one pod running is not a running gang", "\"numGPUs\":4", "", "0R 1S", "svc", "Queued",
     "1 of 2 pods have started", 0, 0, 0, ""},
    {"all pods running is a running job", "\"numGPUs\":4", "", "0R 1R", "svc", "Running",
     "2 of 2 pods run", 0, 0, 0, ""},
    {"a pod that is done counts as started", "\"numGPUs\":4", "", "0R 1D", "svc", "Running",
     "1 are done", 0, 0, 0, ""},
    {"all pods done is success", "\"numGPUs\":4", "RUN", "0D 1D", "svc", "Succeeded", "all ranks",
     0, 0, 0, ""},
    {"a calendar that was set back takes nothing off the time it ran", "\"numGPUs\":4",
     "\"phase\":\"Running\",\"runSeconds\":5,\"runStartTime\":\"2001-09-09T02:00:00Z\"", "0D 1D",
     "svc", "Succeeded", "all ranks", 0, 0, 0, ""},
    {"half done is not success", "\"numGPUs\":4", "RUN", "0D 1R", "svc", "Running", "", 0, 0, 0,
     ""},
    {"a failure restarts all ranks", "\"numGPUs\":4", "RUN", "0R 1F7", "svc", "Restarting",
     "exit status 7; restart 1 of 3", 1, 1, 0, "pod-2"},
    {"its room is held for it", "\"numGPUs\":4", "RUN", "0R 1F7", "svc group", "Restarting",
     "exit status 7; restart 1 of 3", 1, 1, 0, "pod-2 group~1"},
    {"until it has all of its pods again", "\"numGPUs\":4",
     "\"phase\":\"Queued\",\"generation\":1,\"restarts\":1", "0R@1 1R@1", "svc held", "Running",
     "2 of 2 pods run", 1, 1, 0, "group~1"},
    {"not before", "\"numGPUs\":4", "\"phase\":\"Queued\",\"generation\":1,\"restarts\":1",
     "0R@1 1S@1", "svc held", "Queued", "1 of 2 pods have started", 1, 1, 0, ""},
    {"room is not held for a gang that was evicted meanwhile", "\"numGPUs\":4", "RUN", "0R 1Rx",
     "svc held", "Preempted", "", 1, 0, 1, "pod-1 group~1"},
    {"nor for one that fails for good", "\"numGPUs\":4,\"reliability\":{\"maxRestarts\":0}", "RUN",
     "0R 1F7", "svc held", "Failed", "exit status 7", 0, 0, 0, "group~1 look+1"},
    {"nor for one that is suspended", "\"numGPUs\":4,\"suspend\":true", "RUN", "0R 1R", "svc held",
     "Suspended", "", 1, 0, 0, "pod-2 group~1"},
    {"a killed rank restarts all ranks", "\"numGPUs\":4", "RUN", "0F137 1R", "svc", "Restarting",
     "signal 9", 1, 1, 0, "pod-2"},
    {"the first failure is the one that counts", "\"numGPUs\":4", "RUN", "0F1 1F7e", "svc",
     "Restarting", "j-worker-1 ended with exit status 7", 1, 1, 0, "pod-2"},
    {"of ranks that failed within a second, the first is named", "\"numGPUs\":4", "RUN",
     "0F1u 1F7t", "svc", "Restarting", "j-worker-1 ended with exit status 7", 1, 1, 0, "pod-2"},
    {"nobody is named while a peer may yet report an earlier failure", "\"numGPUs\":4", "RUN",
     "0F1u 1R", "svc", "Running", "", 0, 0, 0, "look+1"},
    {"but a peer that does not end is not waited for", "\"numGPUs\":4", "RUN", "0F1o 1R", "svc",
     "Restarting", "j-worker-0 ended with exit status 1", 1, 1, 0, "pod-2"},
    {"old pods must be gone before new ones come", "\"numGPUs\":4",
     "\"phase\":\"Restarting\",\"message\":\"m\",\"generation\":1,\"restarts\":1", "0Rx 1F7x",
     "svc", "Restarting", "m", 1, 1, 0, ""},
    {"old pods that nobody deleted are deleted", "\"numGPUs\":4",
     "\"phase\":\"Restarting\",\"generation\":1,\"restarts\":1", "0R 1F7", "svc", "Restarting", "",
     1, 1, 0, "pod-2"},
    {"the next generation starts when the last is gone", "\"numGPUs\":4",
     "\"phase\":\"Restarting\",\"generation\":1,\"restarts\":1", "", "svc", "Queued", "", 1, 1, 0,
     "pod+2"},
    {"a failure of an old pod is not counted twice", "\"numGPUs\":4",
     "\"phase\":\"Restarting\",\"generation\":1,\"restarts\":1", "0F7 1F7", "svc", "Restarting", "",
     1, 1, 0, "pod-2"},
    {"the budget ends", "\"numGPUs\":4,\"reliability\":{\"maxRestarts\":1}",
     "\"phase\":\"Running\",\"generation\":1,\"restarts\":1,\"runStartTime\":\"2001-09-09T01:00:"
     "00Z\"",
     "0R@1 1F7@1", "svc", "Failed", "all 1 restarts are used up", 1, 1, 0, "look+1"},
    {"no budget at all", "\"numGPUs\":4,\"reliability\":{\"maxRestarts\":0}", "RUN", "0R 1F7",
     "svc", "Failed", "exit status 7", 0, 0, 0, "look+1"},
    {"what still runs when the job has failed may end by itself, so that its log stays",
     "\"numGPUs\":4", "\"phase\":\"Failed\",\"completionTime\":\"2001-09-09T01:46:38Z\"", "0R 1F7",
     "svc", "Failed", "", 0, 0, 0, "look+1"},
    {"but not for long", "\"numGPUs\":4",
     "\"phase\":\"Failed\",\"completionTime\":\"2001-09-09T01:46:30Z\"", "0R 1F7", "svc", "Failed",
     "", 0, 0, 0, "pod-1"},
    {"restartPolicy Never", "\"numGPUs\":4,\"reliability\":{\"restartPolicy\":\"Never\"}", "RUN",
     "0F3 1R", "svc", "Failed", "exit status 3", 0, 0, 0, "look+1"},
    {"a command that is not there is not tried again", "\"numGPUs\":1", "RUN", "0F127", "svc",
     "Failed", "command not found", 0, 0, 0, ""},
    {"what the launcher says would happen again is not tried again", "\"numGPUs\":4", "RUN",
     "0F2h 1R", "svc", "Failed", "ended with exit status 2: the script does not exist", 0, 0, 0,
     "look+1"},
    {"an eviction restarts all ranks and costs nothing", "\"numGPUs\":4", "RUN", "0R 1Rx", "svc",
     "Preempted", "evicted or deleted", 1, 0, 1, "pod-1"},
    {"an eviction by the scheduler names who came in its place", "\"numGPUs\":4", "RUN", "0R 1Rxp",
     "svc", "Preempted", "pod j-worker-1 was evicted: preempted by TorchrunJob default/k", 1, 0, 1,
     "pod-1"},
    {"peers that fail because one was evicted cost nothing", "\"numGPUs\":4", "RUN", "0F1 1Rx",
     "svc", "Preempted", "", 1, 0, 1, "pod-1"},
    {"an evicted pod that ends by the signal is evicted, not failed", "\"numGPUs\":4", "RUN",
     "0R 1F143x", "svc", "Preempted", "", 1, 0, 1, "pod-1"},
    {"a pod that saves its work and ends well when it is evicted is not done", "\"numGPUs\":4",
     "RUN", "0D 1Dx", "svc", "Preempted", "evicted or deleted", 1, 0, 1, "pod-1"},
    {"a pod that its node evicted costs nothing", "\"numGPUs\":4", "RUN", "0R 1F137v", "svc",
     "Preempted", "evicted or deleted", 1, 0, 1, "pod-2"},
    {"a pod that its node's rules refuse would be refused again: no restart is used up",
     "\"numGPUs\":4", "", "0P 1F1n", "svc", "Failed", "was refused by its node: no such rights", 0,
     0, 0, "pod-1"},
    {"a pod that is simply gone", "\"numGPUs\":4", "RUN", "0R", "svc", "Preempted", "removed", 1, 0,
     1, "pod-1"},
    {"all pods are gone", "\"numGPUs\":4", "RUN", "", "svc", "Preempted", "removed", 1, 0, 1, ""},
    {"a waiting pod that is deleted is waited for", "\"numGPUs\":4", "", "0P 1Px", "svc", "Queued",
     "", 0, 0, 0, ""},
    {"a lost node: pods go by force, the gang forms anew", "\"numGPUs\":4", "RUN", "0R 1Rl", "svc",
     "Restarting", "node of pod j-worker-1 is lost", 1, 0, 1, "pod-1 pod-now1"},
    {"a silent node is given a moment", "\"numGPUs\":4", "RUN", "0R 1Rq", "svc", "Running", "", 0,
     0, 0, "look+1"},
    {"a node that stays silent is lost", "\"numGPUs\":4", "RUN", "0R 1Rs", "svc", "Restarting",
     "lost", 1, 0, 1, "pod-1 pod-now1"},
    {"a pod that cannot end on a lost node is removed by force", "\"numGPUs\":4",
     "\"phase\":\"Restarting\",\"generation\":1", "1Rxl", "svc", "Restarting", "", 1, 0, 0,
     "pod-now1"},
    {"a lost node that is waited for: nothing goes by force",
     "\"numGPUs\":4,\"reliability\":{\"onNodeLost\":\"Wait\"}", "RUN", "0R 1Rl", "svc",
     "Restarting", "node of pod j-worker-1 is lost", 1, 0, 1, "pod-2"},
    {"and nothing starts while its pod may still train",
     "\"numGPUs\":4,\"reliability\":{\"onNodeLost\":\"Wait\"}",
     "\"phase\":\"Restarting\",\"generation\":1", "1Rxs", "svc", "Restarting",
     "(silent) is lost, and the pod may still train", 1, 0, 0, ""},
    {"when it has ended, the gang forms anew",
     "\"numGPUs\":4,\"reliability\":{\"onNodeLost\":\"Wait\"}",
     "\"phase\":\"Restarting\",\"generation\":1", "", "svc", "Queued", "", 1, 0, 0, "pod+2"},
    {"an elastic gang does not go on without a pod that may still train",
     "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4},"
     "\"reliability\":{\"onNodeLost\":\"Wait\"}",
     "RUN", "0R 1R 2R 3Rl", "svc syncR", "Restarting", "node of pod j-worker-3 is lost", 1, 0, 1,
     "pod-4"},
    {"suspended before anything started", "\"numGPUs\":4,\"suspend\":true", "", "", "", "Suspended",
     "set spec.suspend to false", 0, 0, 0, ""},
    {"suspended while running", "\"numGPUs\":4,\"suspend\":true", "RUN", "0R 1R", "svc",
     "Suspended", "2 pods are ending", 1, 0, 0, "pod-2"},
    {"suspension counts one generation, however often it is looked at",
     "\"numGPUs\":4,\"suspend\":true", "\"phase\":\"Suspended\",\"generation\":1", "0Rx 1Rx", "svc",
     "Suspended", "", 1, 0, 0, ""},
    {"resumed", "\"numGPUs\":4", "\"phase\":\"Suspended\",\"generation\":1", "", "svc", "Queued",
     "", 1, 0, 0, "pod+2"},
    {"resumed while old pods still end", "\"numGPUs\":4",
     "\"phase\":\"Suspended\",\"generation\":1", "0Rx", "svc", "Restarting", "last run", 1, 0, 0,
     ""},
    {"gave way because its GPUs were unused: it stays so, and says how it comes back",
     "\"numGPUs\":4", "RUN", "0RUA 1RUA", "svc", "Suspended",
     "its GPUs were unused while others waited for GPUs", 0, 0, 0, ""},
    {"kept: pods are asked to give up their GPUs, and stay",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "RUN", "0R 1R", "svc",
     "Suspended", "0 of 2 pods have given up", 0, 0, 0, "pod~2"},
    {"kept: those that were asked are not asked again",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "\"phase\":\"Suspended\"",
     "0RHA 1RH", "svc", "Suspended", "1 of 2 pods have given up", 0, 0, 0, ""},
    {"is suspended again only when all have gone on",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "RUN", "0RA 1RA", "svc",
     "Suspended", "0 of 2 pods have given up", 0, 0, 0, ""},
    {"kept: all stand", "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true",
     "\"phase\":\"Suspended\"", "0RHA 1RHA", "svc", "Suspended", "2 pods keep their memory", 0, 0,
     0, ""},
    {"kept: nothing runs yet that could be kept",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "", "0P 1P", "svc", "Suspended",
     "2 pods are ending", 1, 0, 0, "pod-2"},
    {"kept: a pod that ended meanwhile has nothing left to keep",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "\"phase\":\"Suspended\"",
     "0RHA 1F1", "svc", "Suspended", "2 pods are ending", 1, 0, 0, "pod-2"},
    {"kept: one cannot, so that none does",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "RUN", "0RHA 1RHN", "svc",
     "Running", "runs on: pod j-worker-1 cannot be suspended with its memory: no room", 0, 0, 0,
     "pod~1"},
    {"kept: they could not, ran on and succeeded: that counts",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "RUN", "0D 1D", "svc",
     "Succeeded", "", 0, 0, 0, ""},
    {"kept: one has succeeded, so that the others come to their end",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "RUN", "0D 1R", "svc", "Running",
     "", 0, 0, 0, ""},
    {"kept: a failure beside a success is stopped as any other",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true", "RUN", "0D 1F1", "svc",
     "Suspended", "", 1, 0, 0, "pod-2"},
    {"kept, and then stopped for good is a new generation", "\"numGPUs\":4,\"suspend\":true",
     "\"phase\":\"Suspended\"", "0RHA 1RHA", "svc", "Suspended", "2 pods are ending", 1, 0, 0,
     "pod-2"},
    {"kept and resumed: it stands in line for its GPUs", "\"numGPUs\":4", "\"phase\":\"Suspended\"",
     "0RHA 1RHA", "svc", "Suspended", "go on when they have", 0, 0, 0, "pod~2"},
    {"kept and resumed: the reason of the pod group is the job's", "\"numGPUs\":4",
     "\"phase\":\"Suspended\"", "0RYA 1RYA", "svc group", "Suspended", "3 of 8 free", 0, 0, 0, ""},
    {"kept and resumed: its GPUs are its own again", "\"numGPUs\":4", "\"phase\":\"Suspended\"",
     "0RA 1R", "svc", "Suspended", "get their GPUs back", 0, 0, 0, ""},
    {"kept and resumed: it runs", "\"numGPUs\":4", "\"phase\":\"Suspended\"", "0R 1R", "svc",
     "Running", "2 of 2 pods run", 0, 0, 0, ""},
    {"kept, but a pod is gone: the gang starts anew", "\"numGPUs\":4", "\"phase\":\"Suspended\"",
     "0RYA", "svc", "Preempted", "a pod of the job was removed", 1, 0, 1, "pod-1"},
    {"the deadline stands still while it is kept",
     "\"numGPUs\":4,\"suspend\":true,\"keepWhileSuspended\":true,\"reliability\":{"
     "\"activeDeadlineSeconds\":60}",
     "\"phase\":\"Suspended\",\"startTime\":\"2001-09-09T01:36:00Z\"", "0RHA 1RHA", "svc",
     "Suspended", "keep their memory", 0, 0, 0, ""},
    {"the deadline is ahead", "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":3600}",
     "RUN", "0R 1R", "svc", "Running", "", 0, 0, 0, "look+1"},
    {"the deadline has passed", "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":60}",
     "RUN", "0R 1R", "svc", "TimedOut", "activeDeadlineSeconds (60)", 0, 0, 0, "pod-2"},
    {"the deadline ends what runs, whatever is to stay",
     "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":60,\"cleanPodPolicy\":\"None\"}",
     "RUN", "0R 1R", "svc", "TimedOut", "activeDeadlineSeconds (60)", 0, 0, 0, "pod-2"},
    {"what had ended by then stays to be looked at",
     "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":60,\"cleanPodPolicy\":\"None\"}",
     "RUN", "0D 1R", "svc", "TimedOut", "activeDeadlineSeconds (60)", 0, 0, 0, "pod-1"},
    {"the scheduler stopped it after its maxRunTime", "\"numGPUs\":4,\"maxRunTime\":\"10m\"", "RUN",
     "0R 1Rx", "svc over", "TimedOut", "ran for its maxRunTime (10m)", 0, 0, 0, "pod-1"},
    {"also if its pods were gone first", "\"numGPUs\":4,\"maxRunTime\":\"10m\"",
     "\"phase\":\"Preempted\",\"generation\":1,\"startTime\":\"2001-09-09T01:36:00Z\"", "",
     "svc over", "TimedOut", "maxRunTime", 1, 0, 0, ""},
    {"it succeeded in time, and that is heard of after its deadline",
     "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":60}", "RUN", "0D 1D", "svc",
     "Succeeded", "all ranks", 0, 0, 0, ""},
    {"so for its maxRunTime, whatever the scheduler says", "\"numGPUs\":4,\"maxRunTime\":\"10m\"",
     "RUN", "0D 1D", "svc over", "Succeeded", "all ranks", 0, 0, 0, ""},
    {"half of it is not all", "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":60}", "RUN",
     "0D 1R", "svc", "TimedOut", "activeDeadlineSeconds (60)", 0, 0, 0, "pod-1"},
    {"maxRunTime counts the runs before a restart too", "\"numGPUs\":4,\"maxRunTime\":\"15m\"",
     "\"phase\":\"Running\",\"generation\":1,\"startTime\":\"2001-09-09T01:20:00Z\",\"runSeconds\":"
     "600,\"runStartTime\":\"2001-09-09T01:36:00Z\"",
     "0R@1 1R@1", "svc limited", "TimedOut", "ran for its maxRunTime (15m)", 1, 0, 0, "pod-2"},
    {"not what it waited", "\"numGPUs\":4,\"maxRunTime\":\"15m\"",
     "\"phase\":\"Running\",\"generation\":1,\"startTime\":\"2001-09-09T01:20:00Z\",\"runSeconds\":"
     "60,\"runStartTime\":\"2001-09-09T01:36:00Z\"",
     "0R@1 1R@1", "svc limited", "Running", "", 1, 0, 0, "look+1"},
    {"where it is queued again, each run counts alone", "\"numGPUs\":4,\"maxRunTime\":\"15m\"",
     "\"phase\":\"Running\",\"generation\":1,\"startTime\":\"2001-09-09T01:20:00Z\",\"runSeconds\":"
     "600,\"runStartTime\":\"2001-09-09T01:36:00Z\"",
     "0R@1 1R@1", "svc requeued", "Running", "", 1, 0, 0, ""},
    {"a maxRunTime that is none", "\"numGPUs\":4,\"maxRunTime\":\"soon\"", "", "", "", "Pending",
     "spec.maxRunTime", 0, 0, 0, ""},
    {"time of earlier generations counts",
     "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":3600}",
     "\"phase\":\"Running\",\"runSeconds\":3000,\"runStartTime\":\"2001-09-09T01:36:00Z\"", "0R 1R",
     "svc", "TimedOut", "", 0, 0, 0, "pod-2"},
    {"time in the queue does not count",
     "\"numGPUs\":4,\"reliability\":{\"activeDeadlineSeconds\":60}", "", "0P 1P", "svc", "Queued",
     "", 0, 0, 0, ""},
    {"a finished job stays finished when its pods go", "\"numGPUs\":4", "DONE", "", "svc",
     "Succeeded", "", 0, 0, 0, ""},
    {"a finished job stays finished when a pod fails later", "\"numGPUs\":4", "DONE", "0F1 1D",
     "svc", "Succeeded", "", 0, 0, 0, ""},
    {"after the end running pods go and ended ones stay", "\"numGPUs\":4", "DONE", "0D 1R", "svc",
     "Succeeded", "", 0, 0, 0, "pod-1"},
    {"cleanPodPolicy All", "\"numGPUs\":4,\"reliability\":{\"cleanPodPolicy\":\"All\"}", "DONE",
     "0D 1D", "svc", "Succeeded", "", 0, 0, 0, "pod-2"},
    {"cleanPodPolicy None", "\"numGPUs\":4,\"reliability\":{\"cleanPodPolicy\":\"None\"}", "DONE",
     "0D 1R", "svc", "Succeeded", "", 0, 0, 0, ""},
    {"time to live is ahead", "\"numGPUs\":4,\"reliability\":{\"ttlSecondsAfterFinished\":3600}",
     "DONE", "", "svc", "Succeeded", "", 0, 0, 0, "look+1"},
    {"time to live is over", "\"numGPUs\":4,\"reliability\":{\"ttlSecondsAfterFinished\":60}",
     "DONE", "", "svc", "Succeeded", "", 0, 0, 0, "job-1"},
    {"a job that is not finished has no time to live",
     "\"numGPUs\":4,\"reliability\":{\"ttlSecondsAfterFinished\":0}", "RUN", "0R 1R", "svc",
     "Running", "", 0, 0, 0, ""},
    {"suspending a finished job changes nothing", "\"numGPUs\":4,\"suspend\":true", "DONE", "", "",
     "Succeeded", "", 0, 0, 0, ""},
    {"no such queue", "\"jobQueue\":\"nope\",\"numGPUs\":4", "", "", "", "Pending",
     "TorchrunQueue \"nope\" does not exist in namespace \"default\"; there are demo, bad", 0, 0, 0,
     "warn+1"},
    {"an invalid template", "\"jobQueue\":\"bad\",\"numGPUs\":4", "", "", "", "Pending",
     "the first container is named \"main\"", 0, 0, 0, "warn+1"},
    {"no command", "\"command\":\"\",\"numGPUs\":4", "", "", "", "Pending", "spec.command", 0, 0, 0,
     "warn+1"},
    {"the queue went away: running pods are left alone", "\"jobQueue\":\"nope\",\"numGPUs\":4",
     "RUN", "0R 1R", "svc", "Running", "does not exist", 0, 0, 0, "warn+1"},
    {"the queue went away: what is done is done", "\"jobQueue\":\"nope\",\"numGPUs\":4", "RUN",
     "0D 1D", "svc", "Succeeded", "all ranks", 0, 0, 0, ""},
    {"the queue went away: a failure is final", "\"jobQueue\":\"nope\",\"numGPUs\":4", "RUN",
     "0R 1F7", "svc", "Failed", "cannot be restarted", 0, 0, 0, "look+1"},
    {"upload: claim, service, secret and sync pod first", "\"numGPUs\":4", "", "", "upload",
     "Provisioning", "starting the sync pod", 0, 0, 0, "pvc+1 svc+1 secret+1 pod+1"},
    {"upload: the sync pod starts", "\"numGPUs\":4", "", "", "upload svc pvc syncP", "Provisioning",
     "starting the sync pod", 0, 0, 0, ""},
    {"upload: a sync pod that its node's rules refuse is not replaced for ever", "\"numGPUs\":4",
     "", "", "upload svc pvc syncN", "Failed",
     "the sync pod was refused by its node: no such rights", 0, 0, 0, ""},
    {"upload: one that has ended is, and its end is told", "\"numGPUs\":4", "", "",
     "upload svc pvc syncF", "Provisioning", "has ended: disk is full", 0, 0, 0, "pod-1"},
    {"upload: waiting for the files", "\"numGPUs\":4", "", "", "upload svc pvc syncR", "Syncing",
     "uploaded", 0, 0, 0, ""},
    {"upload: the files are there", "\"numGPUs\":4", "", "", "uploaded svc pvc syncR", "Queued", "",
     0, 0, 0, "pod+2"},
    {"a sync pod that died comes back without disturbing the gang", "\"numGPUs\":4",
     "RUN,\"conditions\":[{\"type\":\"JobCreated\",\"status\":\"True\"}]", "0R 1R",
     "uploaded svc pvc", "Running", "", 0, 0, 0, "secret+1 pod+1"},
    {"a sync pod that died as the gang ended does not come back", "\"numGPUs\":4",
     "RUN,\"conditions\":[{\"type\":\"JobCreated\",\"status\":\"True\"}]", "0D 1D",
     "uploaded svc pvc", "Succeeded", "all ranks", 0, 0, 0, ""},
    {"a storage class that does not exist", "\"numGPUs\":4", "", "", "upload svc pvcX",
     "Provisioning", "StorageClass nope of claim j-workspace (workspace) does not exist", 0, 0, 0,
     "warn+1"},
    {"a claim that is lost: nothing new is started", "\"numGPUs\":4", "", "", "uploaded svc pvcL",
     "Provisioning", "j-workspace (workspace) has lost its volume", 0, 0, 0, "warn+1"},
    {"a claim that is lost: running pods are left alone", "\"numGPUs\":4", "RUN", "0R 1R",
     "uploaded svc pvcL syncR", "Running", "has lost its volume", 0, 0, 0, "warn+1"},
    {"a claim that is lost: what is done is done", "\"numGPUs\":4", "RUN", "0D 1D",
     "uploaded svc pvcL syncR", "Succeeded", "all ranks", 0, 0, 0, "pod~1"},
    {"a claim that is lost: a failure is counted", "\"numGPUs\":4", "RUN", "0R 1F7",
     "uploaded svc pvcL syncR", "Restarting", "exit status 7; restart 1 of 3", 1, 1, 0, "pod-2"},
    {"elastic: runs with the minimum", "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}",
     "", "0R 1R 2P 3P", "svc syncR", "Running", "2 of 4 pods run", 0, 0, 0, ""},
    {"elastic: the store of the rendezvous lives in the sync pod, which comes first",
     "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}", "", "", "svc", "Provisioning",
     "sync", 0, 0, 0, "pod+1"},
    {"elastic: not below the minimum", "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}",
     "", "0R 1P 2P 3P", "svc syncR", "Queued", "", 0, 0, 0, ""},
    {"elastic: an evicted pod is waited for while enough go on",
     "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}", "RUN", "0R 1R 2R 3Rx",
     "svc syncR", "Running", "", 0, 0, 0, ""},
    {"elastic: a pod that is gone comes back alone",
     "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}", "RUN", "0R 1R 2R", "svc syncR",
     "Running", "", 0, 0, 0, "pod+1"},
    {"elastic: below the minimum the gang forms anew",
     "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}", "RUN", "0R 1Rx 2Rx 3Rx",
     "svc syncR", "Preempted", "", 1, 0, 1, "pod-1"},
    {"elastic: a failed pod is replaced and counted",
     "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}", "RUN", "0R 1R 2R 3F137",
     "svc syncR", "Running", "", 0, 1, 0, "pod-1"},
    {"elastic: one that is done means that all are",
     "\"numGPUs\":2,\"elastic\":{\"minNodes\":2,\"maxNodes\":4}", "RUN", "0D 1R 2R", "svc syncR",
     "Succeeded", "", 0, 0, 0, "pod-2 pod~1"},
};

/* ---- the world of a row ---- */

struct world {
    struct arena arena;
    struct cache *cache;
};

static void put(struct world *world, const struct kind *kind, const char *body)
{
    struct object *object = NULL;
    int r = object_new(kind, str_from(body), &object, NULL);

    if (r < 0)
        printf("bad test object: %s\n", body);
    assert(r == 0);
    cache_put(world->cache, object);
    object_unref(object);
}

#define OWNED                                                                                 \
    "\"ownerReferences\":[{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\"," \
    "\"name\":\"j\",\"uid\":\"u-j\",\"controller\":true}]"

static const char *wish_of(char mark)
{
    return mark == 'H'   ? "\"annotations\":{\"muster.dev/suspend\":\"hold\"},"
           : mark == 'U' ? "\"annotations\":{\"muster.dev/suspend\":\"unused\"},"
                         : "\"annotations\":{\"muster.dev/suspend\":\"yield\"},";
}

static const char *phase_word(char phase)
{
    return phase == 'R'   ? "Running"
           : phase == 'D' ? "Succeeded"
           : phase == 'F' ? "Failed"
                          : "Pending";
}

static void put_pod(struct world *world, struct str word)
{
    struct str rest = str_sub(word, 2, word.len);
    char phase = word.p[1];
    const char *node = phase == 'P' ? "" : "\"nodeName\":\"n\"";
    const char *deleted = "";
    const char *reason = "";
    const char *taken = "";
    const char *state = "terminated";
    const char *wish = "";
    const char *said = NULL;
    const char *end = "Z; its last lines:\\nx\"";
    char generation = '0';
    int64_t code = 0;
    int second = 5;

    for (; rest.len; rest = str_sub(rest, 1, rest.len)) {
        char mark = rest.p[0];

        if (mark >= '0' && mark <= '9')
            code = code * 10 + (mark - '0');
        else if (mark == 'x')
            deleted = "\"deletionTimestamp\":\"2001-09-09T01:46:00Z\",";
        else if (mark == 'l')
            node = "\"nodeName\":\"gone\"";
        else if (mark == 's')
            node = "\"nodeName\":\"silent\"";
        else if (mark == 'q')
            node = "\"nodeName\":\"quiet\"";
        else if (mark == 'e')
            second = 1;
        else if (mark == 'o' || mark == 't' || mark == 'u')
            said = mark == 'o' ? "10.000" : mark == 't' ? "39.900" : "39.950";
        else if (mark == 'h') {
            said = "10.000";
            end = "Z" LAUNCH_FINAL "the script does not exist; its last lines:\\nx\"";
        } else if (mark == 'v')
            reason = "\"reason\":\"Evicted\",";
        else if (mark == 'n') {
            reason = "\"reason\":\"NotPermitted\",\"message\":\"no such rights\",";
            state = "waiting";
        } else if (mark == 'p')
            taken = ",{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"message\":"
                    "\"preempted by TorchrunJob default/k\"}";
        else if (mark == 'H' || mark == 'Y' || mark == 'U')
            wish = wish_of(mark);
        else if (mark == 'A')
            taken = ",{\"type\":\"Suspended\",\"status\":\"True\",\"reason\":\"Frozen\"}";
        else if (mark == 'N')
            taken = ",{\"type\":\"Suspended\",\"status\":\"False\",\"reason\":"
                    "\"SuspendFailed\",\"message\":\"no room\"}";
        else if (mark == '@') {
            generation = rest.p[1];
            rest = str_sub(rest, 1, rest.len);
        }
    }
    const char *words = phase_word(phase);
    put(world, &kind_pod,
        str_c(&world->arena,
              str_printf(&world->arena,
                         "{\"metadata\":{\"namespace\":\"default\",\"name\":\"j-worker-%c\","
                         "\"uid\":\"u-%c\",%s%s\"labels\":{\"torchrun.ai/role\":\"worker\","
                         "\"torchrun.ai/index\":\"%c\",\"torchrun.ai/generation\":\"%c\"},%s},"
                         "\"spec\":{%s},\"status\":{%s\"phase\":\"%s\",\"conditions\":[{\"type\":"
                         "\"Ready\",\"status\":\"True\"}%s],\"containerStatuses\":[{\"state\":{"
                         "\"%s\":{\"exitCode\":%lld,\"reason\":\"Error\",\"finishedAt\":"
                         "\"2001-09-09T01:46:0%dZ\"%s%s%s}}}]}}",
                         word.p[0], word.p[0], deleted, wish, word.p[0], generation, OWNED, node,
                         reason, words, taken, state, (long long)code, second,
                         said ? ",\"message\":\"rank 0 ended with exit code 7 at 2001-09-09T01:46:"
                              : "",
                         said ? said : "", said ? end : "")));
}

static void put_sync(struct world *world, const char *phase)
{
    put(world, &kind_pod,
        str_c(&world->arena,
              str_printf(&world->arena,
                         "{\"metadata\":{\"namespace\":\"default\",\"name\":\"j-sync-0\",\"uid\":"
                         "\"u-s\",\"labels\":{\"torchrun.ai/role\":\"sync\"},%s},\"status\":{"
                         "\"phase\":\"%s\"}}",
                         OWNED, phase)));
}

static const char *extra(struct world *world, const char *words)
{
    struct str rest = str_from(words);
    struct str word;
    const char *annotations = "";

    while (str_cut(&rest, ' ', &word)) {
        if (str_is(word, "svc"))
            put(world, &kind_service, "{\"metadata\":{\"namespace\":\"default\",\"name\":\"j\"}}");
        else if (str_is(word, "pvc"))
            put(world, &kind_pvc,
                "{\"metadata\":{\"namespace\":\"default\",\"name\":\"j-workspace\"},\"spec\":{},"
                "\"status\":{\"phase\":\"Bound\"}}");
        else if (str_is(word, "pvcX"))
            put(world, &kind_pvc,
                "{\"metadata\":{\"namespace\":\"default\",\"name\":\"j-workspace\"},\"spec\":{"
                "\"storageClassName\":\"nope\"},\"status\":{\"phase\":\"Pending\"}}");
        else if (str_is(word, "pvcL"))
            put(world, &kind_pvc,
                "{\"metadata\":{\"namespace\":\"default\",\"name\":\"j-workspace\"},\"spec\":{},"
                "\"status\":{\"phase\":\"Lost\"}}");
        else if (str_is(word, "syncP"))
            put_sync(world, "Pending");
        else if (str_is(word, "syncR"))
            put_sync(world, "Running");
        else if (str_is(word, "syncN"))
            put_sync(world, "Failed\",\"reason\":\"NotPermitted\",\"message\":\"no such rights");
        else if (str_is(word, "syncF"))
            put_sync(world, "Failed\",\"message\":\"disk is full");
        else if (str_is(word, "group"))
            put(world, &kind_podgroup,
                "{\"metadata\":{\"namespace\":\"default\",\"name\":\"pg-j-u-j\"},\"status\":{"
                "\"message\":\"waiting for 4 GPUs: 3 of 8 free\"}}");
        else if (str_is(word, "held"))
            put(world, &kind_podgroup,
                "{\"metadata\":{\"namespace\":\"default\",\"name\":\"pg-j-u-j\",\"annotations\":{"
                "\"muster.dev/held-until\":\"2001-09-09T01:47:10Z\"}}}");
        else if (str_is(word, "limited") || str_is(word, "requeued"))
            put(world, &kind_podgroup,
                str_is(word, "limited")
                    ? "{\"metadata\":{\"namespace\":\"default\",\"name\":\"pg-j-u-j\"},\"spec\":{"
                      "\"maxRunTime\":\"15m\"}}"
                    : "{\"metadata\":{\"namespace\":\"default\",\"name\":\"pg-j-u-j\"},\"spec\":{"
                      "\"maxRunTime\":\"15m\",\"requeueAfterMaxRunTime\":true}}");
        else if (str_is(word, "over"))
            put(world, &kind_podgroup,
                "{\"metadata\":{\"namespace\":\"default\",\"name\":\"pg-j-u-j\",\"annotations\":{"
                "\"muster.dev/max-run-time-reached\":\"2001-09-09T01:46:00Z\"}},\"spec\":{"
                "\"maxRunTime\":\"10m\"}}");
        else if (str_is(word, "upload"))
            annotations = "\"torchrun.ai/workspace\":\"upload\"";
        else if (str_is(word, "uploaded"))
            annotations = "\"torchrun.ai/workspace\":\"upload\",\"torchrun.ai/"
                          "workspace-revision\":\"abc\"";
    }
    return annotations;
}

static struct str status_text(struct world *world, const char *status)
{
    const char *run = "\"phase\":\"Running\",\"startTime\":\"2001-09-09T01:36:00Z\","
                      "\"runStartTime\":\"2001-09-09T01:36:00Z\"";

    if (strncmp(status, "RUN", 3) == 0)
        return str_printf(&world->arena, "%s%s", run, status + 3);
    if (strcmp(status, "DONE") == 0)
        return STR("\"phase\":\"Succeeded\",\"completionTime\":\"2001-09-09T01:36:00Z\","
                   "\"exitCode\":0");
    return str_from(status);
}

static void build(struct world *world, const struct row *row)
{
    struct str pods = str_from(row->pods);
    struct str word;

    put(world, &kind_torchrunqueue,
        "{\"metadata\":{\"namespace\":\"default\",\"name\":\"demo\",\"uid\":\"u-q\"},\"spec\":{"
        "\"nodeResources\":{\"gpus\":2}}}");
    put(world, &kind_torchrunqueue,
        "{\"metadata\":{\"namespace\":\"default\",\"name\":\"bad\",\"uid\":\"u-b\"},\"spec\":{"
        "\"podTemplate\":{\"spec\":{\"containers\":[{\"name\":\"main\"}]}}}}");
    put(world, &kind_storageclass,
        "{\"metadata\":{\"name\":\"local\",\"annotations\":{\"storageclass.kubernetes.io/"
        "is-default-class\":\"true\"}}}");
    put(world, &kind_node,
        "{\"metadata\":{\"name\":\"n\",\"labels\":{\"muster.dev/"
        "suspend\":\"freeze\"}},\"status\":{\"conditions\":[{\"type\":\"Ready\","
        "\"status\":\"True\"}]}}");
    put(world, &kind_node,
        "{\"metadata\":{\"name\":\"silent\"},\"status\":{\"conditions\":[{\"type\":\"Ready\","
        "\"status\":\"Unknown\",\"lastTransitionTime\":\"2001-09-09T01:40:00Z\"}]}}");
    put(world, &kind_node,
        "{\"metadata\":{\"name\":\"quiet\"},\"status\":{\"conditions\":[{\"type\":\"Ready\","
        "\"status\":\"False\",\"lastTransitionTime\":\"2001-09-09T01:46:39Z\"}]}}");
    while (str_cut(&pods, ' ', &word))
        if (word.len)
            put_pod(world, word);
    const char *annotations = extra(world, row->extra);
    put(world, &kind_torchrunjob,
        str_c(
            &world->arena,
            str_printf(&world->arena,
                       "{\"metadata\":{\"namespace\":\"default\",\"name\":\"j\",\"uid\":\"u-j\","
                       "\"annotations\":{%s}},\"spec\":{\"jobQueue\":\"demo\",\"command\":\"true\""
                       ",%s},\"status\":{" STR_FMT "}}",
                       annotations, row->spec, STR_ARG(status_text(world, row->status)))));
}

/* ---- what came out ---- */

static struct str summary(struct arena *arena, const struct actions *actions)
{
    static const struct {
        const char *word;
        const struct kind *kind;
        enum action_type type;
        int64_t grace;
    } lines[] = {
        {"job-", &kind_torchrunjob, ACTION_DELETE, -1}, {"pvc+", &kind_pvc, ACTION_CREATE, 0},
        {"svc+", &kind_service, ACTION_CREATE, 0},      {"secret+", &kind_secret, ACTION_CREATE, 0},
        {"pod+", &kind_pod, ACTION_CREATE, 0},          {"pod-", &kind_pod, ACTION_DELETE, -1},
        {"pod-now", &kind_pod, ACTION_DELETE, 0},       {"pod~", &kind_pod, ACTION_PATCH, 0},
        {"group~", &kind_podgroup, ACTION_PATCH, 0},    {"look+", NULL, ACTION_LOOK_AGAIN, 0},
    };
    struct str text = STR_NONE;

    for (size_t l = 0; l < COUNT_OF(lines); l++) {
        size_t count = 0;

        for (size_t i = 0; i < actions->list.count; i++) {
            const struct action *action = &actions->list.items[i];

            count += action->type == lines[l].type && action->kind == lines[l].kind &&
                     (action->type != ACTION_DELETE || action->grace_seconds == lines[l].grace);
        }
        if (count)
            text = str_printf(arena, STR_FMT "%s%s%zu", STR_ARG(text), text.len ? " " : "",
                              lines[l].word, count);
    }
    for (size_t i = 0; i < actions->list.count; i++)
        if (actions->list.items[i].type == ACTION_EVENT && actions->list.items[i].warning &&
            (str_is(actions->list.items[i].reason, "QueueNotFound") ||
             str_is(actions->list.items[i].reason, "InvalidTemplate") ||
             str_is(actions->list.items[i].reason, "NoCommand") ||
             str_is(actions->list.items[i].reason, "ClaimLost") ||
             str_is(actions->list.items[i].reason, "StorageClassNotFound")))
            text = str_printf(arena, STR_FMT "%swarn+1", STR_ARG(text), text.len ? " " : "");
    return text;
}

static const struct json *status_after(const struct actions *actions)
{
    for (size_t i = 0; i < actions->list.count; i++)
        if (actions->list.items[i].type == ACTION_PATCH_STATUS)
            return json_get(actions->list.items[i].body, "status");
    return NULL;
}

static bool contains(struct str text, const char *part)
{
    size_t len = strlen(part);

    for (size_t i = 0; i + len <= text.len; i++)
        if (memcmp(text.p + i, part, len) == 0)
            return true;
    return false;
}

static void check_row(const struct row *row)
{
    struct world world = {.cache = cache_new(1)};
    struct control_config config = {.scheduler_name = STR("kai-scheduler"),
                                    .queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};
    struct actions actions = {.arena = &world.arena};

    build(&world, row);
    struct control_input input = {.cache = world.cache, .config = &config, .now_ms = NOW};
    job_reconcile(&input, &torchrun_job_kind, &(struct control_key){STR("default"), STR("j")},
                  &actions);

    const struct object *job = cache_get(world.cache, &kind_torchrunjob, STR("default"), STR("j"));
    struct json *root = object_json(job, &world.arena);
    const struct json *status = json_get(root, "status");
    const struct json *change = status_after(&actions);
#define AFTER(key) (json_get(change, key) ? json_get(change, key) : json_get(status, key))
    struct str phase = json_str(AFTER("phase"));
    struct str message = json_str(AFTER("message"));
    struct str done = summary(&world.arena, &actions);
    if (!str_is(phase, row->phase) || !contains(message, row->message) ||
        !str_is(done, row->actions))
        printf("%s: phase " STR_FMT ", message \"" STR_FMT "\", actions \"" STR_FMT "\"\n",
               row->why, STR_ARG(phase), STR_ARG(message), STR_ARG(done));
    EXPECT(str_is(phase, row->phase));
    EXPECT(contains(message, row->message));
    EXPECT(json_i64_or(AFTER("generation"), 0) == row->generation);
    EXPECT(json_i64_or(AFTER("restarts"), 0) == row->restarts);
    EXPECT(json_i64_or(AFTER("preemptions"), 0) == row->disruptions);
    EXPECT(json_i64_or(AFTER("runSeconds"), 0) >= json_i64_or(json_get(status, "runSeconds"), 0));
    EXPECT(str_is(done, row->actions));
    /* What is remembered comes first, beside the status. */
    size_t first = change && actions.list.items[0].type == ACTION_PATCH;
    if (change)
        EXPECT(actions.list.items[first].type == ACTION_PATCH_STATUS &&
               actions.list.items[first].beside == (first == 1));
    arena_done(&world.arena);
    cache_free(world.cache);
}

TEST(job_engine_takes_the_step_that_is_due)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        check_row(&rows[i]);
    }
}

TEST(cleanPodPolicy_Running_leaves_what_ends_by_itself_its_pod_and_its_log)
{
#define POLICY            "\"numGPUs\":4,\"reliability\":{\"cleanPodPolicy\":\"Running\"}"
#define FAILED_AT(second) "\"phase\":\"Failed\",\"completionTime\":\"2001-09-09T01:46:" second "Z\""
    static const struct row cases[] = {
        {"it still runs, and may end", POLICY, FAILED_AT("38"), "0R 1F7", "svc", "Failed", "", 0, 0,
         0, "look+1"},
        {"it has ended, and stays", POLICY, FAILED_AT("38"), "0F1 1F7", "svc", "Failed", "", 0, 0,
         0, ""},
        {"it stays for good", POLICY, FAILED_AT("10"), "0F1 1F7", "svc", "Failed", "", 0, 0, 0, ""},
        {"it has not ended in five seconds", POLICY, FAILED_AT("30"), "0R 1F7", "svc", "Failed", "",
         0, 0, 0, "pod-1"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        test_case(cases[i].why);
        check_row(&cases[i]);
    }
}

TEST(the_status_of_a_job_has_the_revision_that_sync_told_last)
{
    static const char *const revisions[] = {"5a1e", "77c0"};
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':1}}}");
    scene_put(&scene, &kind_storageclass,
              "{'metadata':{'name':'local','annotations':{'storageclass.kubernetes.io/"
              "is-default-class':'true'}}}");
    scene_put(&scene, &kind_torchrunjob,
              "{'metadata':{'name':'j','annotations':{'torchrun.ai/workspace':'upload'}},'spec':{"
              "'jobQueue':'q','numGPUs':1,'command':'true'}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    scene_patch(&scene, &kind_pod, "j-sync-0", "{'status':{'phase':'Running'}}");
    for (size_t i = 0; i < COUNT_OF(revisions); i++) {
        scene_patch(
            &scene, &kind_torchrunjob, "j",
            str_printf(&scene.arena,
                       "{'metadata':{'annotations':{'torchrun.ai/workspace-revision':'%s'}}}",
                       revisions[i])
                .p);
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT(str_is(
            json_str_at(scene_get(&scene, &kind_torchrunjob, "j"), "status.workspaceRevision"),
            revisions[i]));
    }
}

TEST(gpus_are_split_over_the_fewest_pods_as_evenly_as_possible)
{
    static const struct {
        const char *why;
        int64_t gpus;
        int64_t node;
        size_t pods;
        int64_t first;
        int64_t last;
    } cases[] = {
        {"fits on a node", 8, 8, 1, 8, 8},    {"part of a node", 3, 8, 1, 3, 3},
        {"four whole nodes", 32, 8, 4, 8, 8}, {"two halves", 12, 8, 2, 6, 6},
        {"uneven: 6+6+5", 17, 8, 3, 6, 5},    {"none", 0, 8, 1, 0, 0},
        {"no node known", 16, 0, 1, 16, 16},  {"one each", 3, 1, 3, 1, 1},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t gpus[8];

        test_case(cases[i].why);
        size_t pods = torchrun_split(cases[i].gpus, cases[i].node, gpus, 8);
        EXPECT(pods == cases[i].pods);
        EXPECT(gpus[0] == cases[i].first && gpus[pods - 1] == cases[i].last);
    }
}
