#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/core/group_name.h"
#include "control/core/owner.h"
#include "control/kinds/kubeflow.h"
#include "control/kinds/list.h"
#include "control/kinds/trainjob.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What each framework needs in the trainer's containers. */

#define INDEX_FIELD "metadata.annotations['batch.kubernetes.io/job-completion-index']"

/* ---- helpers ---- */

static void env_number(struct arena *arena,
                       struct json *container,
                       const char *name,
                       int64_t number)
{
    trainjob_env(arena, container, name, str_printf(arena, "%lld", (long long)number));
}

/* The index of the pod among those of its Job. */
static void env_index(struct arena *arena, struct json *container, const char *name)
{
    trainjob_env(arena, container, name, STR(""));
    JSON_FOREACH(json_get(container, "env"), entry) {
        if (!str_is(json_str(json_get(entry, "name")), name))
            continue;
        json_remove(entry, STR("value"));
        json_add_c(arena, json_make_path(arena, entry, "valueFrom.fieldRef"), "fieldPath",
                   INDEX_FIELD);
    }
}

static void add_port(struct arena *arena, struct json *container, int64_t number)
{
    struct json *ports = list_at(arena, container, "ports");

    JSON_FOREACH(ports, port)
        if (json_i64_or(json_get(port, "containerPort"), 0) == number)
            return;
    json_add_i64(arena, json_push(ports, json_new_object(arena)), "containerPort", number);
}

static struct str subdomain(const struct trainjob_build *build)
{
    struct str name = json_str_at(build->body, "spec.network.subdomain");

    return name.len ? name : build->object->name;
}

/* <job>-<part>-0-<index>.<subdomain> */
static struct str host_name(const struct trainjob_build *build,
                            const struct json *part,
                            int64_t index)
{
    return str_printf(build->arena, STR_FMT "-" STR_FMT "-0-%lld." STR_FMT,
                      STR_ARG(build->object->name), STR_ARG(json_str(json_get(part, "name"))),
                      (long long)index, STR_ARG(subdomain(build)));
}

static int64_t resource(const struct json *container, bool (*is)(struct str name))
{
    static const char *const kinds[] = {"resources.limits", "resources.requests"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(container, kinds[i]), entry) {
            int64_t milli = 0;

            if (is(json_key(entry)) && quantity_milli_json(entry, &milli, NULL) == 0)
                return milli;
        }
    return 0;
}

static bool is_gpu(struct str name)
{
    return str_contains(name, STR("gpu"));
}

static bool is_cpu(struct str name)
{
    return str_is(name, "cpu");
}

static int64_t gpus(const struct json *container)
{
    return resource(container, is_gpu) / 1000;
}

/* Processes in each pod. torchrun's own "auto" counts the devices it sees; their number is known
 * here, and is right on nodes with pretended devices too. */
static struct str processes(const struct trainjob_build *build, const struct json *container)
{
    const struct json *said = build->spec->processes;
    int64_t cpus = (resource(container, is_cpu) + 999) / 1000;
    int64_t number = 0;

    if (json_is_null(said))
        said = build->policy.torch_processes;
    struct str word = json_str(said);
    if (json_i64(said, &number) || str_to_i64(word, &number))
        return str_printf(build->arena, "%lld", (long long)number);
    if (!str_is(word, "cpu") && resource(container, is_gpu))
        return gpus(container) ? str_printf(build->arena, "%lld", (long long)gpus(container))
                               : STR("auto");
    if (str_is(word, "gpu"))
        return word;
    return str_printf(build->arena, "%lld", (long long)(cpus > 0 ? cpus : 1));
}

/* ---- torch ---- */

static void torch_elastic(struct trainjob_build *build, struct json *container, struct str master)
{
    struct arena *arena = build->arena;
    const struct trainjob_policy *policy = &build->policy;
    int64_t min = policy->min_nodes ? policy->min_nodes : build->nodes;
    int64_t max = policy->max_nodes ? policy->max_nodes : build->nodes;

    trainjob_env(arena, container, "PET_NNODES",
                 str_printf(arena, "%lld:%lld", (long long)min, (long long)max));
    trainjob_env(arena, container, "PET_RDZV_BACKEND", STR("c10d"));
    trainjob_env(arena, container, "PET_RDZV_ENDPOINT",
                 str_printf(arena, STR_FMT ":%d", STR_ARG(master), TRAINJOB_PORT));
    trainjob_env(arena, container, "PET_RDZV_ID", build->object->uid);
    kubeflow_env_elastic(arena, json_get(container, "env"));
    if (policy->max_restarts)
        env_number(arena, container, "PET_MAX_RESTARTS", policy->max_restarts);
}

/* An elastic job starts with fewer nodes than it asks for. */
static void torch_gang(struct trainjob_build *build, struct json *part)
{
    int64_t min = build->policy.min_nodes;

    if (min > 0 && min < build->nodes)
        json_add_str(build->arena,
                     json_make_path(build->arena, part, "template.metadata.annotations"),
                     GROUPING_MIN_PODS, str_printf(build->arena, "%lld", (long long)min));
}

static void torch_env(struct trainjob_build *build, struct json *container, const struct json *part)
{
    struct arena *arena = build->arena;
    struct str master = host_name(build, part, 0);

    trainjob_env(arena, container, "PET_NPROC_PER_NODE",
                 processes(build, trainjob_container(part, STR("node"))));
    if (build->policy.is_elastic) {
        torch_elastic(build, container, master);
        return;
    }
    env_number(arena, container, "PET_NNODES", build->nodes);
    env_index(arena, container, "PET_NODE_RANK");
    trainjob_env(arena, container, "PET_MASTER_ADDR", master);
    env_number(arena, container, "PET_MASTER_PORT", TRAINJOB_PORT);
}

static bool is_meant(const struct trainjob_target *target, struct str name)
{
    for (size_t i = 0; i < target->container_count; i++)
        if (str_eq(target->containers[i], name))
            return true;
    return false;
}

static void torch_inject(struct trainjob_build *build, const struct json *part)
{
    static const char *const lists[] = {"containers", "initContainers"};

    for (size_t n = 0; n < build->policy.target_count; n++) {
        const struct trainjob_target *target = &build->policy.targets[n];
        struct json *other = trainjob_part(build, target->part);

        for (size_t i = 0; i < 2; i++)
            JSON_FOREACH(json_get(json_at(other, "template.spec.template.spec"), lists[i]),
                         container)
                if (is_meant(target, json_str(json_get(container, "name"))))
                    torch_env(build, container, part);
    }
}

static int torch(struct trainjob_build *build,
                 struct json *part,
                 struct json *node,
                 struct err *err)
{
    struct arena *arena = build->arena;
    struct trainjob_place place = {.master = host_name(build, part, 0),
                                   .processes = processes(build, node)};

    add_port(arena, node, TRAINJOB_PORT);
    if (!trainjob_is_tune(build->spec->command)) {
        torch_env(build, node, part);
        torch_inject(build, part);
        torch_gang(build, part);
        return 0;
    }
    /* It is told by its command where the ranks meet. */
    env_number(arena, node, "PET_NNODES", build->nodes);
    trainjob_env(arena, node, "PET_NPROC_PER_NODE", place.processes);
    env_index(arena, node, "PET_NODE_RANK");
    return trainjob_tune(build, node, &place, err);
}

/* ---- JAX, XGBoost ---- */

static void jax(struct trainjob_build *build, struct json *part, struct json *node)
{
    struct arena *arena = build->arena;

    env_number(arena, node, "JAX_NUM_PROCESSES", build->nodes);
    env_index(arena, node, "JAX_PROCESS_ID");
    trainjob_env(
        arena, node, "JAX_COORDINATOR_ADDRESS",
        str_printf(arena, STR_FMT ":%d", STR_ARG(host_name(build, part, 0)), TRAINJOB_PORT));
    add_port(arena, node, TRAINJOB_PORT);
}

static void xgboost(struct trainjob_build *build, struct json *part, struct json *node)
{
    struct arena *arena = build->arena;
    int64_t each = gpus(node);

    trainjob_env(arena, node, "DMLC_TRACKER_URI", host_name(build, part, 0));
    env_number(arena, node, "DMLC_TRACKER_PORT", TRAINJOB_PORT);
    env_index(arena, node, "DMLC_TASK_ID");
    env_number(arena, node, "DMLC_NUM_WORKER", build->nodes * (each > 0 ? each : 1));
    add_port(arena, node, TRAINJOB_PORT);
}

/* ---- MPI ---- */

static struct json *add_volume(struct arena *arena, struct json *part, const char *name)
{
    struct json *pod = json_make_path(arena, part, "template.spec.template.spec");

    return json_push(list_at(arena, pod, "volumes"), json_make(arena, "{name: $}", name));
}

static void add_mount(struct arena *arena,
                      struct json *container,
                      const char *name,
                      struct str path)
{
    json_push(list_at(arena, container, "volumeMounts"),
              json_make(arena, "{name: $, mountPath: $}", name, path));
}

/* Files of a Secret are root's: somebody else must be able to read them, and ssh minds that only
 * when they are its own. */
static int64_t key_mode(const struct json *part, const struct json *container)
{
    const struct json *pod = json_at(part, "template.spec.template.spec");
    int64_t user = json_i64_or(json_at(pod, "securityContext.runAsUser"), 0);

    return json_i64_or(json_at(container, "securityContext.runAsUser"), user) ? 0644 : 0600;
}

static void mpi_keys(struct trainjob_build *build, struct json *part, struct json *container)
{
    static const struct {
        const char *key;
        const char *path;
    } files[] = {{"ssh-privatekey", "id_rsa"},
                 {"ssh-publickey", "id_rsa.pub"},
                 {"ssh-publickey", "authorized_keys"}};
    struct arena *arena = build->arena;
    struct json *volume = add_volume(arena, part, "mpi-ssh-auth");
    struct json *secret = json_add_object(arena, volume, "secret");

    json_add_str(arena, secret, "secretName",
                 str_printf(arena, STR_FMT "-mpi-ssh-auth", STR_ARG(build->object->name)));
    json_add_i64(arena, secret, "defaultMode", key_mode(part, container));
    struct json *items = json_add_array(arena, secret, "items");
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        json_push(items, json_make(arena, "{key: $, path: $}", files[i].key, files[i].path));
    }
    add_mount(arena, container, "mpi-ssh-auth", build->policy.ssh_path);
}

static void mpi_hostfile(struct trainjob_build *build,
                         const struct json *launcher,
                         const struct json *node,
                         int64_t slots)
{
    struct arena *arena = build->arena;
    _cleanup_(buf_done) struct buf text = {0};
    const char *between = build->policy.mpi == TRAINJOB_OPEN_MPI ? " slots=" : ":";

    if (build->policy.launcher_is_node)
        buf_addf(&text, STR_FMT "%s%lld\n", STR_ARG(host_name(build, launcher, 0)), between,
                 (long long)slots);
    for (int64_t i = 0; i < trainjob_count(node); i++)
        buf_addf(&text, STR_FMT "%s%lld\n", STR_ARG(host_name(build, node, i)), between,
                 (long long)slots);
    build->hostfile =
        owner_make(arena, build->object, &kind_configmap,
                   str_printf(arena, STR_FMT "-mpi-hostfile", STR_ARG(build->object->name)));
    json_add_str(arena, json_add_object(arena, build->hostfile, "data"), "hostfile",
                 str_dup(arena, buf_str(&text)));
    build->keys =
        owner_make(arena, build->object, &kind_secret,
                   str_printf(arena, STR_FMT "-mpi-ssh-auth", STR_ARG(build->object->name)));
    json_add_c(arena, build->keys, "type", "kubernetes.io/ssh-auth");
    json_add_bool(arena, build->keys, "immutable", true);
}

static void mpi_launcher_env(struct trainjob_build *build, struct json *container, int64_t slots)
{
    struct arena *arena = build->arena;

    if (build->policy.mpi != TRAINJOB_OPEN_MPI) {
        trainjob_env(arena, container,
                     build->policy.mpi == TRAINJOB_INTEL ? "I_MPI_HYDRA_HOST_FILE"
                                                         : "HYDRA_HOST_FILE",
                     STR("/etc/mpi/hostfile"));
        return;
    }
    trainjob_env(arena, container, "OMPI_MCA_orte_default_hostfile", STR("/etc/mpi/hostfile"));
    trainjob_env(arena, container, "OMPI_MCA_orte_keep_fqdn_hostnames", STR("true"));
    env_number(arena, container, "OMPI_MCA_orte_set_default_slots", slots);
    trainjob_env(arena, container, "OMPI_MCA_plm_rsh_args", STR("-o ConnectionAttempts=10"));
}

static int mpi(struct trainjob_build *build, struct err *err)
{
    struct arena *arena = build->arena;
    struct json *launcher = trainjob_part(build, STR("launcher"));
    struct json *node = trainjob_part(build, STR("node"));
    struct json *main = trainjob_container(launcher, STR("node"));
    struct json *worker = trainjob_container(node, STR("node"));
    bool both = build->policy.launcher_is_node;
    int64_t slots = json_i64_or(build->policy.mpi_processes, 1);

    if (!main)
        main = json_first(json_at(launcher, "template.spec.template.spec.containers"));
    if (!main || !worker)
        return err_set(err, -EINVAL,
                       "spec.runtimeRef: an MPI runtime needs the replicatedJobs launcher and "
                       "node, each with a container named node");
    if (both) /* what a node has, all of them have */
        trainjob_resources(arena, worker, build->spec->resources);
    slots = json_i64_or(build->spec->processes, slots);
    if (slots == 1 && gpus(worker) > 1)
        slots = gpus(worker);
    /* The launcher is the trainer, but it is one pod; the nodes are the others. */
    struct json *job = json_make_path(arena, launcher, "template.spec");
    json_add_i64(arena, job, "parallelism", 1);
    json_add_i64(arena, job, "completions", 1);
    int64_t others = both && build->nodes > 1 ? build->nodes - 1 : build->nodes;
    job = json_make_path(arena, node, "template.spec");
    json_add_i64(arena, job, "parallelism", others > 0 ? others : 1);
    json_add_i64(arena, job, "completions", others > 0 ? others : 1);
    mpi_hostfile(build, launcher, node, slots);
    mpi_keys(build, launcher, main);
    mpi_keys(build, node, worker);
    struct json *config =
        json_add_object(arena, add_volume(arena, launcher, "mpi-hostfile"), "configMap");
    json_add_str(arena, config, "name",
                 str_printf(arena, STR_FMT "-mpi-hostfile", STR_ARG(build->object->name)));
    add_mount(arena, main, "mpi-hostfile", STR("/etc/mpi"));
    mpi_launcher_env(build, main, slots);
    return 0;
}

int trainjob_apply_policy(struct trainjob_build *build, struct err *err)
{
    struct json *part = trainjob_step(build, "trainer");
    struct json *node = trainjob_container(part, STR("node"));

    if (build->policy.has_mpi)
        return mpi(build, err);
    if (build->policy.has_torch)
        return torch(build, part, node, err);
    if (build->policy.jax)
        jax(build, part, node);
    else if (build->policy.xgboost)
        xgboost(build, part, node);
    return 0;
}
