#pragma once

/* suspend: how scheduler, controllers and node speak of pods that give up their GPUs and stay.
 *
 * A pod that is to be suspended carries the annotation. Its node stops the processes, moves what
 * they have on GPUs to host memory, and says so in a condition; from then on the pod holds its CPUs,
 * memory and place, and no GPU. The scheduler takes the annotation off when the pod's GPUs are its
 * own again, and the node lets it go on where it was. Nothing else of the pod changes. */
#define SUSPEND_ANNOTATION "muster.dev/suspend"
#define SUSPEND_HOLD       "hold"   /* until whoever wrote it says otherwise */
#define SUSPEND_YIELD      "yield"  /* until the scheduler has its GPUs for it again */
#define SUSPEND_UNUSED     "unused" /* its GPUs were: until somebody wants it back */

/* Annotation of queues, which say it for all below them, and of jobs, pods and their pod groups: work
 * whose GPUs nobody has used for so long, as in 30m, is suspended while others wait for GPUs. */
#define SUSPEND_UNUSED_AFTER "muster.dev/suspend-unused-after"
#define SUSPEND_UNUSED_NEVER "never"
/* Of a pod group, written by the controller (control/grouping/unused.h): when it comes to that. */
#define SUSPEND_UNUSED_AT "muster.dev/suspend-unused-at"
/* Of a job or a pod, written by whoever wants it back: when. */
#define SUSPEND_RESUMED_AT "muster.dev/resumed-at"

/* Annotation of jobs, their pod groups, and queues, which say it for all below them: what becomes of
 * work that gives way to other work. Left out: it is evicted. */
#define SUSPEND_POLICY         "muster.dev/on-preemption"
#define SUSPEND_POLICY_SUSPEND "suspend"
#define SUSPEND_POLICY_EVICT   "evict"

/* Annotation of jobs and pods: who copies GPU memory to host memory. Our library is faster and has to
 * be there from the start (api/gpu_page.h); left out, it is in pods that may be suspended. */
#define SUSPEND_MAY          "muster.dev/may-be-suspended" /* "true"; the scheduler says so with the bind */
#define SUSPEND_COPY         "muster.dev/gpu-copy"
#define SUSPEND_COPY_LIBRARY "library"
#define SUSPEND_COPY_DRIVER  "driver"

/* Condition of the pod: True while it holds no GPU. */
#define SUSPEND_CONDITION  "Suspended"
#define SUSPEND_SUSPENDING "Suspending"
#define SUSPEND_FROZEN     "Frozen" /* True: its processes stand still, it had no real GPU */
#define SUSPEND_MOVED \
    "Checkpointed"                  /* True: GPU memory is in host memory; the message begins
                                             with how much, in MiB */
#define SUSPEND_RESUMING "Resuming" /* still True */
#define SUSPEND_RESUMED  "Resumed"
#define SUSPEND_FAILED   "SuspendFailed" /* False: it runs on, and holds its GPUs */

/* Label of a node whose agent can do it, and how. */
#define SUSPEND_LABEL            "muster.dev/suspend"
#define SUSPEND_LABEL_FREEZE     "freeze"     /* GPUs are simulated: nothing has to be moved */
#define SUSPEND_LABEL_CHECKPOINT "checkpoint" /* GPU memory goes to host memory */
