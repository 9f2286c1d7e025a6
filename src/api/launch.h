#pragma once

/* launch: the contract between the job engine (src/control), which writes pod specs, and
 * muster-launch, which runs inside the pods. It is plain environment, so that `kubectl describe
 * pod` shows all of it.
 *
 * The binary is at LAUNCH_PATH in every pod that uses it: bound there by the node agent, or put
 * there by an init container from our image on a cluster. (Where the agent has no mount namespace
 * it replaces the path in argv[0] by the real one.)
 *
 *   LAUNCH_PATH worker
 *       PID 1 of a training container: fetch the workspace from LAUNCH_ENV_SYNC_URL into
 *       LAUNCH_ENV_APP_DIR, run the setup command, exec torchrun around the command, forward
 *       signals, reap, write the first error to /dev/termination-log, exit with the job's status
 *       (a signal becomes 128 + n).
 *   muster-launch python PATH ARG...
 *       What `python` on the PATH of a rank is where one is kept warm (launch/warm.h).
 *   LAUNCH_PATH sync
 *       The job's sync pod: keeps the workspace volume, takes uploads and serves workers over HTTP
 *       on LAUNCH_SYNC_PORT. Without LAUNCH_ENV_JOB it is a store of somebody's own: etcd's keys
 *       for everybody, and nothing else.
 *   muster-launch install FILE [SOURCE]
 *       Copies itself, or SOURCE: what init containers do.
 *   muster-launch results list|read FOLDER PATH
 *       What the job wrote, to stdout (workspace/results.h).
 *   LAUNCH_PATH selftest
 *       Whether this machine computes what it should (launch/selftest.h).
 *   muster-launch stacks
 *       What the processes of this container are doing, to stdout (stacks/pod.h).
 */
#define LAUNCH_DIR       "/.muster"
#define LAUNCH_PATH      LAUNCH_DIR "/muster-launch"
#define LAUNCH_SYNC_PORT 7077
/* The sync pod's store for c10d rendezvous (workspace/c10d.h). */
#define LAUNCH_STORE_PORT 7078

#define LAUNCH_ENV_JOB "MUSTER_JOB" /* namespace/name, for messages */
/* The key to the sync pod (workspace/door.h), from a Secret. Taken out of the environment at once:
 * neither the ranks nor what fetches a workspace inherit it. */
#define LAUNCH_ENV_JOB_SECRET "MUSTER_JOB_SECRET"
#define LAUNCH_ENV_GENERATION "MUSTER_GENERATION" /* 0, 1, ...: whole-gang restarts so far */
/* Of a job with a checkpoint volume: its folder there, by which gangs know of each other (launch/fence.h). */
#define LAUNCH_ENV_FENCE     "MUSTER_FENCE"
#define LAUNCH_ENV_COMMAND   "MUSTER_COMMAND"   /* the user's command, shell syntax */
#define LAUNCH_ENV_SETUP     "MUSTER_SETUP"     /* run first, same shell; may be unset */
#define LAUNCH_ENV_NNODES    "MUSTER_NNODES"    /* "2", or "2:4" when elastic */
#define LAUNCH_ENV_NPROC     "MUSTER_NPROC"     /* ranks in this pod */
#define LAUNCH_ENV_NODE_RANK "MUSTER_NODE_RANK" /* index of this pod */
/* Of a pod that may become another: "spare" while it only waits. */
#define LAUNCH_ENV_ROLE          "MUSTER_ROLE"
#define LAUNCH_ROLE_SPARE        "spare"
#define LAUNCH_ENV_RDZV_BACKEND  "MUSTER_RDZV_BACKEND"  /* standalone, static, c10d, etcd-v2 */
#define LAUNCH_ENV_RDZV_ENDPOINT "MUSTER_RDZV_ENDPOINT" /* host:port */
#define LAUNCH_ENV_RDZV_HOSTED   "MUSTER_RDZV_HOSTED"   /* c10d: the sync pod has the store */
#define LAUNCH_ENV_RDZV_GIVEN    "MUSTER_RDZV_GIVEN"   /* the endpoint is somebody else's service */
#define LAUNCH_ENV_RDZV_ID       "MUSTER_RDZV_ID"      /* new with every generation */
#define LAUNCH_ENV_MAX_RESTARTS  "MUSTER_MAX_RESTARTS" /* torchrun's own; 0 for fixed gangs */
#define LAUNCH_ENV_SYNC_URL      "MUSTER_SYNC_URL"     /* http://host:port; unset: no workspace */
/* Annotation of a worker pod, by whoever copied what it wrote: it need not be kept when the job is deleted. */
#define RESULTS_ANNOTATION "muster.dev/results"
#define RESULTS_HOME       "home"    /* all of it has come home */
#define RESULTS_DISCARD    "discard" /* its owner was told what it is, and said so */
/* Set for the first pod on a cluster: the sync pod keeps what it wrote when it has ended. */
#define LAUNCH_ENV_KEEP_RESULTS "MUSTER_KEEP_RESULTS"
/* Set on a cluster, where no node agent of ours looks at ranks: where this pod tells how they get on
 * (control/cluster/ranks_told.h), and the certificate of who signed that server's, PEM. The token is
 * in a volume. */
#define LAUNCH_ENV_RANKS_URL    "MUSTER_RANKS_URL"
#define LAUNCH_ENV_RANKS_CA     "MUSTER_RANKS_CA"
#define LAUNCH_RANKS_DIR        "/var/run/secrets/muster.dev/ranks"
#define LAUNCH_RANKS_TOKEN_FILE LAUNCH_RANKS_DIR "/token"
/* The GPUs that the self-test has to find. Of a worker: it is tested before its ranks start. */
#define LAUNCH_ENV_TEST_GPUS "MUSTER_TEST_GPUS"
/* A further test, of the administrator: run by a shell, it passes if it ends with 0. */
#define LAUNCH_ENV_TEST_COMMAND "MUSTER_TEST_COMMAND"
/* The exit status of a self-test that has found something; with others it has no answer. */
#define LAUNCH_TEST_FAILED 70
/* In the words of one that has tested GPUs, and has found nothing. */
#define LAUNCH_TEST_GPUS_RIGHT "memory, products of matrices and an all-reduce are right"
#define LAUNCH_ENV_APP_DIR     "MUSTER_APP_DIR" /* working directory of the command: /app */
/* The job's secret: name and key of the Secret in the job's namespace. */
#define LAUNCH_SECRET_NAME(arena, job, uid) \
    str_printf(arena, STR_FMT "-sync-" STR_FMT, STR_ARG(job), STR_ARG(str_sub(uid, 0, 8)))
#define LAUNCH_SECRET_KEY   "secret"
#define LAUNCH_SECRET_BYTES 32 /* drawn; twice as many hexadecimal digits */
/* The sync pod's own: where the volume is mounted, what to fetch into it ("existing" takes it as it
 * is), where to listen (unset: everywhere, on LAUNCH_SYNC_PORT). */
#define LAUNCH_ENV_WORKSPACE_DIR "MUSTER_WORKSPACE_DIR"
#define LAUNCH_ENV_SOURCE        "MUSTER_SOURCE"
#define LAUNCH_ENV_SOURCE_URL    "MUSTER_SOURCE_URL"
#define LAUNCH_ENV_PEER_UID      "MUSTER_PEER_UID" /* the user whom the workers name, if they do */
#define LAUNCH_ENV_SYNC_ADDRESS  "MUSTER_SYNC_ADDRESS"
#define LAUNCH_ENV_SYNC_PORT     "MUSTER_SYNC_PORT"
#define LAUNCH_ENV_STORE_PORT    "MUSTER_STORE_PORT"
/* Between muster-launch's own processes. */
#define LAUNCH_ENV_RUN_DIR "MUSTER_RUN_DIR" /* folder of this run: records, python on PATH */
#define LAUNCH_ENV_RESTART \
    "MUSTER_RESTART" /* restarts in place so far; part of the rendezvous id */
/* Of a container that is made before it is needed (agent/standby.h): the file that says that it is. */
#define LAUNCH_ENV_STANDBY "MUSTER_STANDBY"
/* The socket of a Python that has torch imported (launch/warm.h). */
#define LAUNCH_ENV_WARM "MUSTER_WARM"
/* In LAUNCH_ENV_RUN_DIR: the process that torchrun is, when it came from there. */
#define LAUNCH_WARM_FILE "warm.pid"
/* In LAUNCH_ENV_RUN_DIR: the Python that torchrun is started with. */
#define LAUNCH_PYTHON_FILE "python"
/* In LAUNCH_ENV_RUN_DIR: why torchrun could not be started, in words. */
#define LAUNCH_REASON_FILE "reason"
/* In these words: why it could not meet by etcd. The job engine has the gang meet by c10d then. */
#define LAUNCH_NO_ETCD "needs the Python package python-etcd"
/* In LAUNCH_ENV_RUN_DIR: what the ranks printed, for the sync pod to keep. Lines beyond the bound
 * are in the pod's log only. */
#define LAUNCH_KEPT_FILE "kept.log"
#define LAUNCH_KEPT_MAX  ((size_t)32 << 20)
/* In the first line of a termination message, behind the moment: what follows is why another try
 * would end the same way, so that the job engine makes none. */
#define LAUNCH_FINAL "; trying again cannot help: "
/* Before the moment: the rank ended by itself, and no rank of its pod had made a step. */
#define LAUNCH_NO_STEP " before its first step"
/* Also there: a data loader found no room in /dev/shm. */
#define LAUNCH_SHARED_MEMORY                                                                     \
    "; /dev/shm is too small for its data loaders: raise storage.shmSizePerGPU of the queue or " \
    "the job, "                                                                                  \
    "or use fewer workers"
/* What a termination message begins with where the self-test before the start has failed. */
#define LAUNCH_PREFLIGHT "the self-test before the start failed: "
/* And where the checkpoint volume was left by a later gang (launch/fence.h); its generation and ';' follow. */
#define LAUNCH_FENCED "a later gang of this job trains, generation "
/* Where the first error goes; LAUNCH_ENV_TERMINATION_LOG names another file. */
#define LAUNCH_TERMINATION_LOG     "/dev/termination-log"
#define LAUNCH_ENV_TERMINATION_LOG "MUSTER_TERMINATION_LOG"
