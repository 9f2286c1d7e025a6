#include "api/install.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/literal.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/ranks.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/cluster/ranks_told.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/kinds/list.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pod specs of a TorchrunJob: the queue's template with everything filled in that the queue and the
 * job say in other places. What depends on a pod's index is added by torchrun_fill(). */

/* Where all pods share one network, two jobs must not meet on one port. */
#define PORT_FIRST 20000
#define PORT_COUNT 9000
/* Elastic torchruns count every departure of a peer as a restart of their own. */
#define ELASTIC_RESTARTS "100"

#define WORKSPACE_DIR "/workspace"

#define RANKS_VOLUME  "muster-ranks-token"
#define RANKS_TOKEN_S 3600

/* As it is: a command's `$(date)` and a `$$` are the shell's. */
static void env_add(struct arena *arena, struct json *env, const char *name, struct str value)
{
    json_push(env, json_make(arena, "{name: $, value: $}", name, literal_value(arena, value)));
}

/* What the pod's label says when the container starts. */
static void env_add_label(struct arena *arena,
                          struct json *env,
                          const char *name,
                          const char *label)
{
    json_push(env, json_make(arena, "{name: $, valueFrom: {fieldRef: {fieldPath: $}}}", name,
                             str_printf(arena, "metadata.labels['%s']", label)));
}

/* `optional`: a pod starts without it, too. */
static void env_add_secret(struct arena *arena, struct json *env, struct str secret, bool optional)
{
    struct json *entry = json_push(env, json_new_object(arena));

    json_add_c(arena, entry, "name", LAUNCH_ENV_JOB_SECRET);
    struct json *from = json_make_path(arena, entry, "valueFrom.secretKeyRef");
    json_add_str(arena, from, "name", secret);
    json_add_c(arena, from, "key", LAUNCH_SECRET_KEY);
    if (optional)
        json_add_bool(arena, from, "optional", true);
}

static void append_all(struct arena *arena, struct json *list, const struct json *more)
{
    JSON_FOREACH(more, item)
        json_push(list, json_clone(arena, item));
}

struct json *torchrun_trainer(const struct json *spec)
{
    return json_first(json_get(spec, "containers"));
}

static struct json *trainer_make(struct torchrun *t, struct json *spec)
{
    struct json *trainer = torchrun_trainer(spec);

    if (trainer)
        return trainer;
    return json_push(json_add_array(t->arena, spec, "containers"),
                     json_make(t->arena, "{name: $}", TORCHRUN_TRAINER));
}

/* ---- which nodes ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '_' || c == ' ' ? '-' : c;
}

/* "h100-80gb" matches NVIDIA-H100-80GB-HBM3: the words of `type`, somewhere in `product`. */
static bool product_matches(struct str product, struct str type)
{
    for (size_t start = 0; start + type.len <= product.len; start++) {
        size_t i = 0;

        while (i < type.len && lower(product.p[start + i]) == lower(type.p[i]))
            i++;
        if (i == type.len)
            return true;
    }
    return false;
}

/* Each once, however many nodes have it: the list is in every pod. */
static void add_product(struct arena *arena, struct json *products, struct str product)
{
    JSON_FOREACH(products, known)
        if (str_eq(json_str(known), product))
            return;
    json_push(products, json_new_str(arena, str_dup(arena, product)));
}

static void require_product(struct arena *arena, struct json *spec, const struct json *products)
{
    struct json *node = json_make_path(arena, spec, "affinity.nodeAffinity");
    struct json *required = json_get(node, "requiredDuringSchedulingIgnoredDuringExecution");

    if (!required)
        required = json_add_object(arena, node, "requiredDuringSchedulingIgnoredDuringExecution");
    struct json *terms = list_at(arena, required, "nodeSelectorTerms");
    if (!json_count(terms))
        json_push(terms, json_new_object(arena));
    /* Terms are alternatives: each of them gets the requirement. */
    JSON_FOREACH(terms, term) {
        json_push(list_at(arena, term, "matchExpressions"),
                  json_make(arena, "{key: 'nvidia.com/gpu.product', operator: 'In', values: $}",
                            json_clone(arena, products)));
    }
}

static void select_gpu_type(struct torchrun *t, struct json *spec, struct job_model *model)
{
    struct str type = t->spec.gpu_type;
    struct json *products = json_new_array(t->arena);
    const struct object *node;
    size_t cursor = 0;
    bool told = false;
    bool labelled = false;

    if (!type.len || !t->gpus_total)
        return;
    while ((node = cache_next(t->input->cache, &kind_node, STR(""), &cursor))) {
        struct str label = object_label(node, TORCHRUN_GPU_TYPE);
        struct str product = object_label(node, "nvidia.com/gpu.product");

        told = told || label.len || product.len;
        labelled = labelled || str_eq(label, type);
        if (product_matches(product, type))
            add_product(t->arena, products, product);
    }
    if (!told) /* nodes that say nothing about their GPUs cannot be chosen by them */
        return;
    if (labelled)
        json_add_str(t->arena, json_make_path(t->arena, spec, "nodeSelector"), TORCHRUN_GPU_TYPE,
                     type);
    else if (json_count(products))
        require_product(t->arena, spec, products);
    else
        model->problem = (struct job_problem){"NoMatchingNode", "GpuTypeNotFound",
                                              str_printf(t->arena,
                                                         "no node has GPUs of type \"" STR_FMT
                                                         "\" (label " TORCHRUN_GPU_TYPE
                                                         " or nvidia.com/gpu.product)",
                                                         STR_ARG(type))};
}

static void make_scheduling(struct torchrun *t, struct json *spec, struct job_model *model)
{
    struct arena *arena = t->arena;
    const struct torchrun_spec *said = &t->spec;
    struct str priority = said->priority_class;

    json_add_str(arena, spec, "schedulerName",
                 said->scheduler.len ? said->scheduler : t->input->config->scheduler_name);
    if (!priority.len)
        priority = json_str(json_get(spec, "priorityClassName"));
    json_remove(spec, STR("priorityClassName"));
    if (priority.len && cache_get(t->input->cache, &kind_priorityclass, STR(""), priority))
        json_add_str(arena, spec, "priorityClassName", str_dup(arena, priority));
    else if (priority.len)
        model->warning = str_printf(arena,
                                    "PriorityClass " STR_FMT
                                    " does not exist: the job runs with the default priority",
                                    STR_ARG(priority));
    if (said->affinity)
        json_set(spec, STR("affinity"), json_clone(arena, said->affinity));
    const struct json *selectors[] = {said->queue_node_selector, said->job_node_selector};
    for (size_t i = 0; i < 2; i++)
        if (json_count(selectors[i]))
            json_names_copy(arena, json_make_path(arena, spec, "nodeSelector"), selectors[i]);
    const struct json *tolerations[] = {said->queue_tolerations, said->job_tolerations};
    for (size_t i = 0; i < 2; i++)
        if (json_count(tolerations[i]))
            append_all(arena, list_at(arena, spec, "tolerations"), tolerations[i]);
    select_gpu_type(t, spec, model);
}

/* ---- the trainer container ---- */

static void make_network_env(struct torchrun *t, struct json *env)
{
    struct str both = t->spec.interface;
    struct str nccl = t->spec.nccl_interface.len ? t->spec.nccl_interface : both;
    struct str gloo = t->spec.gloo_interface.len ? t->spec.gloo_interface : both;
    struct str backend = t->spec.backend;

    if (backend.len)
        env_add(t->arena, env, "TORCH_DISTRIBUTED_BACKEND", backend);
    if (nccl.len)
        env_add(t->arena, env, "NCCL_SOCKET_IFNAME", nccl);
    if (gloo.len)
        env_add(t->arena, env, "GLOO_SOCKET_IFNAME", gloo);
    if (str_is(backend, "mpi") && both.len)
        env_add(t->arena, env, "OMPI_MCA_btl_tcp_if_include", both);
}

/* The job whose sync pod serves the workspace: the array's for all its jobs. NULL: there is none. */
static const struct object *workspace_keeper(const struct torchrun *t)
{
    bool shared = t->array_above &&
                  (str_is(object_annotation(t->array_above, TORCHRUN_WORKSPACE), "upload") ||
                   t->spec.source_url.len || str_is(t->spec.source, "existing"));

    return shared ? t->array_above : t->host_workspace ? t->job : NULL;
}

static void make_env(struct torchrun *t, struct json *trainer)
{
    struct json *own = json_get(trainer, "env");
    struct json *env = json_new_array(t->arena);
    struct str setup = t->spec.setup_command;
    struct str folder = t->spec.working_dir;

    append_all(t->arena, env, t->spec.queue_env);
    append_all(t->arena, env, own);
    append_all(t->arena, env, t->spec.job_env);
    make_network_env(t, env);
    env_add(t->arena, env, "TORCHRUN_JOB_NAME", t->job->name);
    env_add(t->arena, env, "TORCHRUN_JOB_ID", t->job_id);
    env_add(t->arena, env, "TORCHRUN_JOB_QUEUE", t->queue_name);
    env_add(t->arena, env, LAUNCH_ENV_JOB,
            str_printf(t->arena, STR_FMT "/" STR_FMT, STR_ARG(t->job->ns), STR_ARG(t->job->name)));
    env_add(t->arena, env, LAUNCH_ENV_COMMAND, t->spec.command);
    if (setup.len)
        env_add(t->arena, env, LAUNCH_ENV_SETUP, setup);
    env_add(t->arena, env, LAUNCH_ENV_APP_DIR, folder.len ? folder : t->mount_path);
    env_add(t->arena, env, LAUNCH_ENV_MAX_RESTARTS, t->elastic ? STR(ELASTIC_RESTARTS) : STR("0"));
    const struct object *keeper = workspace_keeper(t);
    if (keeper) {
        env_add(t->arena, env, LAUNCH_ENV_SYNC_URL,
                str_printf(t->arena, "http://" STR_FMT "-sync-0." STR_FMT ":%d",
                           STR_ARG(keeper->name), STR_ARG(keeper->name), LAUNCH_SYNC_PORT));
        /* Optional: the sync pod of a job that an older muster began has none. */
        env_add_secret(t->arena, env, LAUNCH_SECRET_NAME(t->arena, keeper->name, keeper->uid),
                       true);
    }
    json_set(trainer, STR("env"), env);
}

static void copy(struct torchrun *t, struct json *to, const char *key, const struct json *value)
{
    if (value)
        json_set(to, str_from(key), json_clone(t->arena, value));
}

static void copy_str(struct torchrun *t, struct json *to, const char *key, struct str value)
{
    if (value.len)
        json_add_str(t->arena, to, key, value);
}

static struct json *command_of(struct arena *arena, const char *word)
{
    return json_make(arena, "[$, $]", STR(LAUNCH_PATH), word);
}

/* A claim of spec.resources may be named by its template's own name: say the real one. */
static void translate_claims(struct torchrun *t, struct json *spec)
{
    JSON_FOREACH(json_get(spec, "volumes"), volume) {
        struct json *claim = json_get(volume, "persistentVolumeClaim");
        struct str alias = json_str(json_get(claim, "claimName"));

        for (size_t i = 0; i < t->spec.resource_count; i++) {
            const struct torchrun_resource *resource = &t->spec.resources[i];

            if (alias.len && str_eq(json_str_at(resource->template, "metadata.name"), alias))
                json_add_str(t->arena, claim, "claimName",
                             torchrun_resource_name(t->queue, resource, t->arena));
        }
    }
}

static struct json *make_worker_spec(struct torchrun *t, struct job_model *model)
{
    struct arena *arena = t->arena;
    const struct json *template = json_get(t->spec.pod_template, "spec");
    struct json *spec = template ? json_clone(arena, template) : json_new_object(arena);
    struct json *trainer = trainer_make(t, spec);

    copy_str(t, trainer, "image", t->spec.image);
    copy_str(t, trainer, "imagePullPolicy", t->spec.image_pull_policy);
    copy(t, trainer, "securityContext", t->spec.security_context);
    if (!json_str(json_get(trainer, "image")).len)
        json_add_c(arena, trainer, "image", TORCHRUN_IMAGE);
    json_set(trainer, STR("command"), command_of(arena, "worker"));
    json_remove(trainer, STR("args"));
    make_env(t, trainer);
    copy(t, spec, "imagePullSecrets", t->spec.image_pull_secrets);
    copy(t, spec, "securityContext", t->spec.pod_security_context);
    copy_str(t, spec, "serviceAccountName", t->spec.service_account);
    copy(t, spec, "hostNetwork", t->spec.host_network);
    /* The engine restarts the gang as a whole: a container never comes back alone. */
    json_add_c(arena, spec, "restartPolicy", "Never");
    make_scheduling(t, spec, model);
    translate_claims(t, spec);
    append_all(arena, list_at(arena, spec, "volumes"), t->spec.volumes);
    append_all(arena, list_at(arena, trainer, "volumeMounts"), t->spec.mounts);
    return spec;
}

static struct json *make_sync_spec(struct torchrun *t, const struct json *worker)
{
    struct arena *arena = t->arena;
    struct json *spec = json_new_object(arena);
    struct json *sync =
        json_push(json_add_array(arena, spec, "containers"), json_new_object(arena));
    struct str image = t->spec.sync_image;

    json_add_c(arena, sync, "name", JOB_ROLE_SYNC);
    json_add_str(arena, sync, "image",
                 image.len ? image : json_str_at(worker, "containers.0.image"));
    copy_str(t, sync, "imagePullPolicy", t->spec.sync_pull_policy);
    json_set(sync, STR("command"), command_of(arena, "sync"));
    struct json *env = json_add_array(arena, sync, "env");
    env_add(arena, env, LAUNCH_ENV_JOB,
            str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(t->job->ns), STR_ARG(t->job->name)));
    env_add(arena, env, LAUNCH_ENV_WORKSPACE_DIR, STR(WORKSPACE_DIR));
    if (t->spec.source.len)
        env_add(arena, env, LAUNCH_ENV_SOURCE, t->spec.source);
    if (t->spec.source_url.len)
        env_add(arena, env, LAUNCH_ENV_SOURCE_URL, t->spec.source_url);
    if (t->host_workspace)
        env_add_secret(arena, env, LAUNCH_SECRET_NAME(arena, t->job->name, t->job->uid), false);
    job_add_peer_uid(worker, torchrun_trainer(worker), env, arena);
    json_fill(arena, sync, "{ports: [{name: $, containerPort: $}]}", JOB_ROLE_SYNC,
              LAUNCH_SYNC_PORT);
    copy(t, sync, "resources", t->spec.sync_resources);
    if (t->input->config->kubelets) /* our own agent evicts nothing for what it did not ask for */
        install_requests(arena, sync);
    json_fill(arena, sync, "{volumeMounts: [{name: 'workspace', mountPath: $}]}", WORKSPACE_DIR);
    json_fill(arena, spec, "{volumes: [], restartPolicy: 'Always'}");
    const char *const same[] = {"schedulerName", "tolerations", "imagePullSecrets",
                                "serviceAccountName", "hostNetwork"};
    for (size_t i = 0; i < COUNT_OF(same); i++)
        if (json_get(worker, same[i]))
            json_set(spec, str_from(same[i]), json_clone(arena, json_get(worker, same[i])));
    job_secure_sync(spec, worker, torchrun_trainer(worker), t->input->config->kubelets, arena);
    return spec;
}

/* May the sync pod have the store of a c10d rendezvous? Not when the user names a place for it. */
static bool is_hosted(const struct torchrun *t)
{
    return str_is(t->rdzv_backend, "c10d") && !t->rdzv_endpoint.len &&
           (!t->spec.rdzv_port || t->meets_in_sync);
}

/* ---- what depends on the pod ---- */

static struct str rdzv_endpoint(const struct torchrun *t,
                                const struct job_pod *pod,
                                struct arena *arena)
{
    struct str job = t->job->name;
    int64_t port = t->spec.rdzv_port;

    if (t->rdzv_endpoint.len)
        return t->rdzv_endpoint;
    if (str_starts(t->rdzv_backend, STR("etcd")) || t->hosted)
        return str_printf(arena, STR_FMT "-sync-0." STR_FMT ":%d", STR_ARG(job), STR_ARG(job),
                          t->hosted ? LAUNCH_STORE_PORT : LAUNCH_SYNC_PORT);
    if (!port)
        port =
            PORT_FIRST + (int64_t)(str_hash(t->job->uid, (uint64_t)pod->generation) % PORT_COUNT);
    return str_printf(arena, STR_FMT "-worker-0." STR_FMT ":%lld", STR_ARG(job), STR_ARG(job),
                      (long long)port);
}

/* The jobs of an array share its sync pod, which would not know them apart. */
static bool keeps_results(const struct torchrun *t)
{
    return t->input->config->results_ms > 0 && t->host_workspace && !t->is_array;
}

static void fill_env(const struct torchrun *t,
                     const struct job_pod *pod,
                     struct json *env,
                     struct arena *arena)
{
    int64_t nproc = t->spec.nproc ? t->spec.nproc : pod->gpus ? pod->gpus : 1;

    env_add(arena, env, LAUNCH_ENV_GENERATION,
            str_printf(arena, "%lld", (long long)pod->generation));
    env_add(arena, env, LAUNCH_ENV_NNODES,
            t->elastic ? str_printf(arena, "%zu:%zu", t->worker->min, t->worker->max)
                       : str_printf(arena, "%zu", t->worker->count));
    env_add(arena, env, LAUNCH_ENV_NPROC, str_printf(arena, "%lld", (long long)nproc));
    if (pod->spare) {
        env_add_label(arena, env, LAUNCH_ENV_ROLE, JOB_LABEL_ROLE);
        env_add_label(arena, env, LAUNCH_ENV_NODE_RANK, JOB_LABEL_INDEX);
    } else {
        env_add(arena, env, LAUNCH_ENV_NODE_RANK, str_printf(arena, "%zu", pod->index));
    }
    env_add(arena, env, LAUNCH_ENV_RDZV_BACKEND, t->rdzv_backend);
    env_add(arena, env, LAUNCH_ENV_RDZV_ENDPOINT, rdzv_endpoint(t, pod, arena));
    if (t->rdzv_endpoint.len)
        env_add(arena, env, LAUNCH_ENV_RDZV_GIVEN, STR("1"));
    if (t->spec.preflight_from && (int64_t)t->worker->max >= t->spec.preflight_from)
        env_add(arena, env, LAUNCH_ENV_TEST_GPUS, str_printf(arena, "%lld", (long long)pod->gpus));
    if (keeps_results(t) && pod->index == 0)
        env_add(arena, env, LAUNCH_ENV_KEEP_RESULTS, STR("1"));
    if (t->hosted)
        env_add(arena, env, LAUNCH_ENV_RDZV_HOSTED, STR("1"));
    env_add(arena, env, LAUNCH_ENV_RDZV_ID,
            str_printf(arena, STR_FMT "-" STR_FMT "-%lld", STR_ARG(t->job->name),
                       STR_ARG(str_sub(t->job->uid, 0, 8)), (long long)pod->generation));
}

static int64_t share(int64_t whole, int64_t gpus, int64_t gpus_per_node)
{
    if (!gpus_per_node)
        return whole;
    return (int64_t)((__int128)whole * gpus / gpus_per_node);
}

static void fill_resources(const struct torchrun *t,
                           const struct job_pod *pod,
                           struct json *trainer,
                           struct arena *arena)
{
    struct json *limits = json_make_path(arena, trainer, "resources.limits");
    struct json *requests = json_make_path(arena, trainer, "resources.requests");
    int64_t cpu_milli = share(t->spec.node_cpu_milli, pod->gpus, t->gpus_per_node);
    int64_t memory = share(t->spec.node_memory_bytes, pod->gpus, t->gpus_per_node);

    if (pod->gpus) {
        struct str gpus = str_printf(arena, "%lld", (long long)pod->gpus);
        json_add_str(arena, limits, TORCHRUN_GPU, gpus);
        json_add_str(arena, requests, TORCHRUN_GPU, gpus);
    }
    if (cpu_milli)
        json_add_str(arena, requests, "cpu",
                     quantity_text(arena, (struct quantity){(__int128)cpu_milli * 1000000,
                                                            QUANTITY_DECIMAL}));
    if (!memory)
        return;
    struct str bytes =
        quantity_text(arena, (struct quantity){(__int128)memory * 1000000000, QUANTITY_BINARY});
    json_add_str(arena, requests, "memory", bytes);
    /* A pod that may take more than its share takes it from the others of its node. Who wants that
     * says so in the template. */
    if (json_is_null(json_get(limits, "memory")))
        json_add_str(arena, limits, "memory", bytes);
}

static bool has_shm(const struct json *trainer)
{
    JSON_FOREACH(json_get(trainer, "volumeMounts"), mount)
        if (str_is(json_str(json_get(mount, "mountPath")), "/dev/shm"))
            return true;
    return false;
}

/* A kubelet's own /dev/shm is 64 MiB, where two data loaders do not fit; our agent's has no limit but the
 * pod's memory. */
static void fill_shm(const struct torchrun *t,
                     const struct job_pod *pod,
                     struct json *spec,
                     struct json *trainer,
                     struct arena *arena)
{
    int64_t bytes = t->spec.shm_bytes_per_gpu;

    if (!bytes && (!t->input->config->kubelets || has_shm(trainer)))
        return;
    struct json *volume =
        json_push(list_at(arena, spec, "volumes"),
                  json_make(arena, "{name: 'dshm', emptyDir: {medium: 'Memory'}}"));
    if (bytes)
        json_add_str(arena, json_get(volume, "emptyDir"), "sizeLimit",
                     quantity_text(arena, (struct quantity){(__int128)bytes * 1000000000 *
                                                                (pod->gpus ? pod->gpus : 1),
                                                            QUANTITY_BINARY}));
    json_push(list_at(arena, trainer, "volumeMounts"),
              json_make(arena, "{name: 'dshm', mountPath: '/dev/shm'}"));
}

/* How its ranks get on, where it must tell that itself: the address, by whom that is signed, and a
 * token that is good for nothing else. An authority is replaced after years (cluster/certificates.h):
 * pods live for less, so it is in their environment. */
static void fill_ranks(const struct torchrun *t,
                       const struct job_pod *pod,
                       struct json *spec,
                       struct json *trainer,
                       struct arena *arena)
{
    const struct control_config *config = t->input->config;
    struct str observe = json_str(json_get(t->worker->annotations, OBSERVE_ANNOTATION));
    struct str path = ranks_told_path(arena, t->job->ns, pod->name);
    struct json *env = json_get(trainer, "env");

    if (!config->ranks_told || !config->trainer_url.len || str_is(observe, "off"))
        return;
    env_add(
        arena, env, LAUNCH_ENV_RANKS_URL,
        str_printf(arena, STR_FMT "/api/" STR_FMT, STR_ARG(config->trainer_url), STR_ARG(path)));
    env_add(arena, env, LAUNCH_ENV_RANKS_CA, config->trainer_ca);
    json_push(list_at(arena, spec, "volumes"),
              json_make(arena,
                        "{name: $, projected: {sources: [{serviceAccountToken: "
                        "{audience: $, expirationSeconds: $, path: 'token'}}]}}",
                        RANKS_VOLUME, path, RANKS_TOKEN_S));
    json_push(list_at(arena, trainer, "volumeMounts"),
              json_make(arena, "{name: $, mountPath: $, readOnly: true}", RANKS_VOLUME,
                        LAUNCH_RANKS_DIR));
}

/* job_model.fill of this kind. */
static void torchrun_fill(const struct job_model *model,
                          const struct job_pod *pod,
                          struct json *body,
                          struct arena *arena)
{
    const struct torchrun *t = model->front;
    struct json *spec = json_get(body, "spec");
    struct json *trainer = torchrun_trainer(spec);

    fill_env(t, pod, json_get(trainer, "env"), arena);
    if (!t->shape_from_template)
        fill_resources(t, pod, trainer, arena);
    fill_shm(t, pod, spec, trainer, arena);
    fill_ranks(t, pod, spec, trainer, arena);
}

void torchrun_make_pods(struct torchrun *t, struct job_model *model)
{
    bool etcd = !t->is_array && str_starts(t->rdzv_backend, STR("etcd")) && !t->rdzv_endpoint.len;
    bool store = !t->is_array && (t->elastic || t->spec.spares || t->meets_in_sync) && is_hosted(t);

    t->worker->pod_spec = make_worker_spec(t, model);
    t->hosted = is_hosted(t) && (t->host_workspace || store);
    if (t->host_workspace || etcd || store)
        model->sync_spec = make_sync_spec(t, t->worker->pod_spec);
    if (t->host_workspace)
        model->sync_secret = LAUNCH_SECRET_NAME(t->arena, t->job->name, t->job->uid);
    model->keeps_results = keeps_results(t);
    model->fill = torchrun_fill;
    /* Nothing of it is at the first pod, which may be another one tomorrow. */
    model->spareable =
        t->hosted || t->rdzv_endpoint.len || etcd || str_is(t->rdzv_backend, "standalone");
}
