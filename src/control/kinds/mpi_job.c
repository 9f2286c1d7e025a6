#include "api/decode.h"
#include "api/gpu.h"
#include "api/install.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job.h"
#include "control/kinds/kubeflow.h"
#include "control/kinds/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* MPIJob, v1 and v2beta1: a launcher that runs mpirun, and workers in which mpirun starts ranks.
 *
 * There is no ssh: mpirun's remote shell is /etc/mpi/kubexec.sh, which runs the command in the
 * worker's pod through the API (`kubectl exec`), with rights for the job's own workers only. So an
 * image needs mpirun and nothing else; kubectl comes with the machine (embedded) or from an init
 * container (on a cluster). */

#define CONFIG_DIR    "/etc/mpi"
#define KUBECTL_DIR   "/opt/kube"
#define KUBECTL_IMAGE "mpioperator/kubectl-delivery:latest"

struct mpi_spec {
    MPI_SPEC_MEMBERS
};
static const struct decode_field spec_fields[] = {MPI_SPEC_FIELDS(struct mpi_spec)};
const struct decode_table mpi_spec_table = DECODE_TABLE(struct mpi_spec, NULL, spec_fields);

/* ---- what the launcher reads ---- */

/* Waits for the worker: the launcher may well start first. */
static const char kubexec[] =
    "#!/bin/sh\n"
    "# Remote shell of mpirun: kubexec.sh HOST COMMAND...\n"
    "pod=${1%%.*}\n"
    "shift\n"
    "kubectl=" KUBECTL_DIR "/kubectl\n"
    "[ -x \"$kubectl\" ] || kubectl=kubectl\n"
    "tries=0\n"
    "until [ \"$($kubectl get pod \"$pod\" -o 'jsonpath={.status.phase}')\" = Running ]; do\n"
    "    tries=$((tries + 1))\n"
    "    [ $tries -le 300 ] || { echo \"kubexec.sh: pod $pod does not run\" >&2; exit 1; }\n"
    "    sleep 1\n"
    "done\n"
    "exec \"$kubectl\" exec \"$pod\" $MPI_MAIN_CONTAINER -- /bin/sh -c \"$*\"\n";

static struct str host_line(const struct mpi_spec *spec, struct str name, struct arena *arena)
{
    if (str_is(spec->implementation, "OpenMPI"))
        return str_printf(arena, STR_FMT " slots=%lld\n", STR_ARG(name), (long long)spec->slots);
    return str_printf(arena, STR_FMT ":%lld\n", STR_ARG(name), (long long)spec->slots);
}

static struct str hostfile(const struct job_model *model,
                           const struct mpi_spec *spec,
                           struct arena *arena)
{
    const struct job_role *worker = kubeflow_role(model, "Worker");
    const struct job_role *launcher = kubeflow_role(model, "Launcher");
    struct str text = STR("");

    if (spec->launcher_as_worker)
        text = host_line(spec, job_pod_name(model, launcher, 0, arena), arena);
    for (size_t i = 0; worker && i < worker->count; i++) {
        struct str line = host_line(spec, job_pod_name(model, worker, i, arena), arena);

        text = str_printf(arena, STR_FMT STR_FMT, STR_ARG(text), STR_ARG(line));
    }
    return text;
}

/* Elastic Horovod asks again and again which workers there are. */
static struct str discover_hosts(const struct kubeflow *k, const struct mpi_spec *spec)
{
    struct str text = STR("#!/bin/sh\n");
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next_owned(k->input->cache, &kind_pod, k->job->uid, &cursor))) {
        struct str phase = json_str_at(object_json(pod, k->arena), "status.phase");

        if (str_is(object_label(pod, JOB_LABEL_ROLE), "worker") && str_is(phase, "Running") &&
            !pod->deleted_ms)
            text = str_printf(k->arena, STR_FMT "echo " STR_FMT ":%lld\n", STR_ARG(text),
                              STR_ARG(pod->name), (long long)spec->slots);
    }
    return text;
}

static struct str launcher_name(const struct kubeflow *k)
{
    return str_printf(k->arena, STR_FMT "-launcher", STR_ARG(k->job->name));
}

static void add_extra(struct kubeflow *k,
                      struct job_model *model,
                      const struct kind *kind,
                      struct str name,
                      struct json *body)
{
    VEC_PUSH(k->arena, &model->extras,
             (struct job_extra){.kind = kind, .name = name, .body = body});
}

static void make_config(struct kubeflow *k, struct job_model *model, const struct mpi_spec *spec)
{
    struct json *body =
        json_make(k->arena, "{data: {hostfile: $, kubexec.sh: $, discover_hosts.sh: $}}",
                  hostfile(model, spec, k->arena), kubexec, discover_hosts(k, spec));

    add_extra(k, model, &kind_configmap,
              str_printf(k->arena, STR_FMT "-config", STR_ARG(k->job->name)), body);
}

static struct json *add_rule(struct arena *arena,
                             struct json *rules,
                             const char *resource,
                             const char *const *verbs)
{
    struct json *rule = json_push(rules, json_new_object(arena));
    struct json *list = NULL;

    json_push(json_add_array(arena, rule, "apiGroups"), json_new_str(arena, STR("")));
    json_push(json_add_array(arena, rule, "resources"), json_new_str(arena, str_from(resource)));
    list = json_add_array(arena, rule, "verbs");
    for (size_t i = 0; verbs[i]; i++)
        json_push(list, json_new_str(arena, str_from(verbs[i])));
    return rule;
}

/* The launcher may look at pods, and start commands in the workers of this job. */
static void make_rights(struct kubeflow *k, struct job_model *model)
{
    static const char *const look[] = {"get", "list", "watch", NULL};
    static const char *const start[] = {"create", NULL};
    struct arena *arena = k->arena;
    const struct job_role *worker = kubeflow_role(model, "Worker");
    struct str name = launcher_name(k);
    struct json *role = json_new_object(arena);
    struct json *rules = json_add_array(arena, role, "rules");
    struct json *binding = json_new_object(arena);

    (void)add_rule(arena, rules, "pods", look);
    struct json *rule = add_rule(arena, rules, "pods/exec", start);
    struct json *names = json_add_array(arena, rule, "resourceNames");
    for (size_t i = 0; worker && i < worker->count; i++)
        json_push(names, json_new_str(arena, job_pod_name(model, worker, i, arena)));
    json_push(names, json_new_str(arena, name));
    json_fill(arena, binding,
              "{roleRef: {apiGroup: $, kind: $, name: $}, subjects: [{kind: $, "
              "name: $, namespace: $}]}",
              kind_role.group, kind_role.name, name, kind_serviceaccount.name, name, k->job->ns);
    add_extra(k, model, &kind_serviceaccount, name, json_new_object(arena));
    add_extra(k, model, &kind_role, name, role);
    add_extra(k, model, &kind_rolebinding, name, binding);
}

/* ---- the roles ---- */

static void mount(struct arena *arena, struct json *container, const char *name, const char *path)
{
    json_push(list_at(arena, container, "volumeMounts"),
              json_make(arena, "{name: $, mountPath: $}", name, path));
}

static void add_config_volume(struct kubeflow *k, struct json *pod_spec)
{
    static const struct {
        const char *key;
        int64_t mode;
    } items[] = {{"kubexec.sh", 0555}, {"hostfile", 0444}, {"discover_hosts.sh", 0555}};
    struct arena *arena = k->arena;
    struct json *volume = json_push(list_at(arena, pod_spec, "volumes"), json_new_object(arena));

    json_add_c(arena, volume, "name", "mpi-job-config");
    struct json *map = json_add_object(arena, volume, "configMap");
    json_add_str(arena, map, "name", str_printf(arena, STR_FMT "-config", STR_ARG(k->job->name)));
    struct json *list = json_add_array(arena, map, "items");
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        json_push(list, json_make(arena, "{key: $, path: $, mode: $}", items[i].key, items[i].key,
                                  items[i].mode));
    }
}

/* On a cluster nothing promises that an image has kubectl. */
static void deliver_kubectl(struct kubeflow *k, struct json *pod_spec, struct json *training)
{
    struct arena *arena = k->arena;

    json_push(list_at(arena, pod_spec, "volumes"),
              json_make(arena, "{name: 'mpi-job-kubectl', emptyDir: {}}"));
    struct json *init = json_make(arena, "{name: 'kubectl-delivery', image: $}", KUBECTL_IMAGE);
    struct json *env = json_add_array(arena, init, "env");
    kubeflow_env(arena, env, "TARGET_DIR", STR(KUBECTL_DIR));
    kubeflow_env(arena, env, "NAMESPACE", k->job->ns);
    const struct json *who = json_get(pod_spec, "securityContext");
    struct json *security = install_security(arena, who);
    if (!json_get(who, "runAsUser")) /* the image's is root */
        json_add_i64(arena, security, "runAsUser", INSTALL_USER);
    json_set(init, STR("securityContext"), security);
    install_requests(arena, init);
    mount(arena, init, "mpi-job-kubectl", KUBECTL_DIR);
    mount(arena, init, "mpi-job-config", CONFIG_DIR);
    mount(arena, training, "mpi-job-kubectl", KUBECTL_DIR);
    json_push(list_at(arena, pod_spec, "initContainers"), init);
}

static void make_launcher(struct kubeflow *k, struct job_role *launcher)
{
    struct json *training = kubeflow_container(k, launcher->pod_spec);

    launcher->bare = true;
    add_config_volume(k, launcher->pod_spec);
    mount(k->arena, training, "mpi-job-config", CONFIG_DIR);
    if (k->input->config->launcher_image.len)
        deliver_kubectl(k, launcher->pod_spec, training);
    if (!json_get(launcher->pod_spec, "serviceAccountName"))
        json_add_str(k->arena, launcher->pod_spec, "serviceAccountName", launcher_name(k));
}

static void make_worker(struct kubeflow *k, struct job_role *worker)
{
    struct json *training = kubeflow_container(k, worker->pod_spec);

    /* Daemons of Open MPI want to see the remote shell they were started by. */
    add_config_volume(k, worker->pod_spec);
    mount(k->arena, training, "mpi-job-config", CONFIG_DIR);
    if (json_count(json_get(training, "command")) || json_count(json_get(training, "args")))
        return;
    /* A shell, because a plain sleep would not hear that it shall end. */
    static const char *const words[] = {"/bin/sh", "-c", "trap 'exit 0' TERM; sleep 365d & wait"};
    struct json *command = json_add_array(k->arena, training, "command");
    for (size_t i = 0; i < COUNT_OF(words); i++)
        json_push(command, json_new_str(k->arena, str_from(words[i])));
}

static void adjust(struct kubeflow *k, struct job_model *model)
{
    struct mpi_spec *spec = ARENA_NEW(k->arena, struct mpi_spec);
    struct job_role *launcher = kubeflow_role(model, "Launcher");
    struct job_role *worker = kubeflow_role(model, "Worker");
    struct err err = {0};

    k->extra = spec;
    if (decode_object(&mpi_spec_table, k->arena, k->spec, spec, &err) < 0) {
        kubeflow_problem(model, "InvalidSpec", str_printf(k->arena, "spec.%s", err.text));
        return;
    }
    if (!launcher) {
        kubeflow_problem(model, "NoLauncher", STR("spec.mpiReplicaSpecs.Launcher is missing"));
        return;
    }
    model->headless = true;
    /* Workers that only sleep would hold their GPUs for ever. */
    struct str clean = k->policy.clean.len ? k->policy.clean : spec->clean;
    model->clean = str_is(clean, "All")    ? JOB_CLEAN_ALL
                   : str_is(clean, "None") ? JOB_CLEAN_NONE
                                           : JOB_CLEAN_RUNNING;
    make_launcher(k, launcher);
    launcher->later = str_is(spec->launcher_creation, "WaitForWorkersReady");
    launcher->last = true;
    if (worker)
        make_worker(k, worker);
    make_config(k, model, spec);
    make_rights(k, model);
}

/* ---- a pod ---- */

static bool has_gpu(const struct json *pod_spec)
{
    JSON_FOREACH(json_get(pod_spec, "containers"), container)
        if (json_get(json_at(container, "resources.limits"), GPU_RESOURCE))
            return true;
    return false;
}

static void env(const struct kubeflow *k,
                const struct job_model *model,
                const struct job_pod *pod,
                struct json *list,
                struct arena *arena)
{
    const struct mpi_spec *spec = k->extra;

    (void)model;
    kubeflow_env(arena, list, "K_MPI_JOB_ROLE", pod->role->name);
    if (strcmp(pod->role->type, "Launcher") != 0)
        return;
    kubeflow_env(arena, list, "OMPI_MCA_plm_rsh_agent", STR(CONFIG_DIR "/kubexec.sh"));
    /* The launcher alone may start commands in other pods. */
    kubeflow_env(arena, list, "OMPI_MCA_plm_rsh_no_tree_spawn", STR("1"));
    kubeflow_env(arena, list, "OMPI_MCA_orte_default_hostfile", STR(CONFIG_DIR "/hostfile"));
    kubeflow_env(arena, list, "OMPI_MCA_orte_keep_fqdn_hostnames", STR("true"));
    kubeflow_env(arena, list, "I_MPI_HYDRA_BOOTSTRAP", STR("rsh"));
    kubeflow_env(arena, list, "I_MPI_HYDRA_BOOTSTRAP_EXEC", STR(CONFIG_DIR "/kubexec.sh"));
    kubeflow_env(arena, list, "I_MPI_HYDRA_HOST_FILE", STR(CONFIG_DIR "/hostfile"));
    kubeflow_env(arena, list, "HYDRA_LAUNCHER", STR("rsh"));
    kubeflow_env(arena, list, "HYDRA_LAUNCHER_EXEC", STR(CONFIG_DIR "/kubexec.sh"));
    kubeflow_env(arena, list, "HYDRA_HOST_FILE", STR(CONFIG_DIR "/hostfile"));
    if (spec->main.len)
        kubeflow_env(arena, list, "MPI_MAIN_CONTAINER",
                     str_printf(arena, "-c " STR_FMT, STR_ARG(spec->main)));
    if (!has_gpu(pod->role->pod_spec)) {
        kubeflow_env(arena, list, "NVIDIA_VISIBLE_DEVICES", STR(""));
        kubeflow_env(arena, list, "NVIDIA_DRIVER_CAPABILITIES", STR(""));
    }
}

static void fill(const struct kubeflow *k,
                 const struct job_pod *pod,
                 struct json *body,
                 struct arena *arena)
{
    (void)k;
    json_add_str(arena, json_at(body, "metadata.labels"), KUBEFLOW_LABEL_ROLE, pod->role->name);
}

static const struct kubeflow_kind description = {
    .training = &training_kinds[TRAINING_MPI],
    .each_alone = true,
    .adjust = adjust,
    .env = env,
    .fill = fill,
};

KUBEFLOW_JOB_KIND(mpijob, description);

JOB_CONTROLLER(mpi_job_controller,
               "mpijob",
               mpijob,
               &kind_mpijob,
               &kind_pod,
               &kind_service,
               &kind_node,
               &kind_podgroup);
