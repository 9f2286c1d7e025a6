#include "agent/prepare.h"

#include "agent/cgroup.h"
#include "agent/core.h"
#include "agent/device.h"
#include "agent/env.h"
#include "agent/host_path.h"
#include "agent/host_torch.h"
#include "agent/lifecycle.h"
#include "agent/limit.h"
#include "agent/machine.h"
#include "agent/network.h"
#include "agent/oci.h"
#include "agent/people.h"
#include "agent/pod.h"
#include "agent/ranks.h"
#include "agent/security.h"
#include "agent/spawner.h"
#include "agent/sysctl.h"
#include "agent/token.h"
#include "agent/volume.h"
#include "api/account_volume.h"
#include "api/api.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/place.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "image/config.h"
#include "image/image.h"
#include "net/bridge.h"
#include "net/resolv.h"
#include "net/service.h"
#include "shim/record.h"
#include "shim/shim.h"
#include "tool/files.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* prepare: the files a shim works from. */
#define HOSTNAME_FILE "hostname"
#define CACHE_DIR     ".cache"

static struct str pod_hostname(const struct pod *pod)
{
    struct str name = json_str_at(pod->root, "spec.hostname");
    return str_sub(name.len ? name : pod->name, 0, 63);
}

static int write_resolv_conf(struct pod *pod, struct err *err)
{
    _cleanup_(buf_done) struct buf text = {0}, machine = {0};
    char path[PATH_MAX];
    resolv_machine(&machine);
    resolv_conf_write(json_get(pod->root, "spec"),
                      &(struct resolv_cluster){pod->agent->dns_address, pod->ns}, buf_str(&machine),
                      &text);
    (void)snprintf(path, sizeof(path), "%s/resolv.conf", pod->folder);
    return files_write(path, buf_str(&text), 0644, err);
}

/* A pod that would look for its data where nothing is mounted had better not begin. */
static int check_mounts(const struct pod *pod, size_t first, struct err *err)
{
    if (pod->agent->machine.mount_ns)
        return 0;
    for (size_t i = first; i < pod->run.count; i++) {
        JSON_FOREACH(json_get(pod_container_spec(pod, i), "volumeMounts"), mount) {
            struct str path = json_str(json_get(mount, "mountPath"));
            /* Nearly every pod has the token's without having asked for it. */
            if (str_is(path, ACCOUNT_MOUNT_PATH))
                continue;
            return err_set(err, -ENOTSUP,
                           "container " STR_FMT " wants a volume at " STR_FMT
                           ", but this machine does not allow the namespaces to mount it: run "
                           "muster doctor to see how to allow them",
                           STR_ARG(pod->run.containers[i].name), STR_ARG(path));
        }
    }
    return 0;
}

static int make_container_folder(const struct pod *pod, size_t index, struct err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT, pod->folder,
                   STR_ARG(pod->run.containers[index].name));
    return files_make_folder(path, 0711, err);
}

int prepare_ephemeral(struct pod *pod, size_t index, struct err *err)
{
    int r = people_check(pod, err);
    if (r == 0)
        r = security_check_container(pod, index, err);
    if (r == 0)
        r = check_mounts(pod, index, err);
    return r ? r : make_container_folder(pod, index, err);
}

static int write_hostname(const struct pod *pod, struct err *err)
{
    char path[PATH_MAX];
    _cleanup_(buf_done) struct buf line = {0};
    struct str hostname = pod_hostname(pod);
    (void)snprintf(path, sizeof(path), "%s/" HOSTNAME_FILE, pod->folder);
    buf_addf(&line, STR_FMT "\n", STR_ARG(hostname));
    return files_write(path, buf_str(&line), 0644, err);
}

bool prepare_was_done(const struct pod *pod)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/" HOSTNAME_FILE, pod->folder);
    return access(path, F_OK) == 0;
}

int prepare_files(struct pod *pod, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < pod->run.count; i++)
        r = make_container_folder(pod, i, err);
    if (r == 0)
        r = volume_make_all(pod, err);
    if (r == 0)
        r = limit_make_region(pod, err);
    if (r == 0)
        r = network_write_hosts(pod, err);
    bool own = network_has_bridge(pod) ||
               (pod->agent->dns && resolv_is_cluster(json_get(pod->root, "spec")));
    if (r == 0 && own)
        r = write_resolv_conf(pod, err);
    if (r == 0) /* the last one: where it is, the others are */
        r = write_hostname(pod, err);
    pod->prepared = r == 0;
    return r;
}

/* Is there nothing in its volumes that could be missing, or that its shim needs at once? */
static bool files_can_wait(const struct pod *pod)
{
    if (pod->agent->options.token_requests)
        return false;
    JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume) {
        const struct json *empty = json_get(volume, "emptyDir");
        bool plain = empty && !json_get(empty, "medium");
        if (!plain && !str_starts(json_str(json_get(volume, "name")), STR(ACCOUNT_VOLUME_PREFIX)))
            return false;
    }
    return true;
}

static int write_pod_file(const struct pod *pod, struct buf *records, struct err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", pod->folder, SHIM_POD_FILE);
    return files_write(path, buf_str(records), 0600, err);
}

int prepare_pod(struct pod *pod, struct err *err)
{
    const struct machine *machine = &pod->agent->machine;
    _cleanup_(buf_done) struct buf records = {0};
    pod->prepared = false;
    int r = security_check(pod, err);
    if (r == 0)
        r = check_mounts(pod, 0, err);
    if (r == 0)
        r = files_make_folder(pod->folder, 0711, err);
    if (r == 0 && !files_can_wait(pod))
        r = prepare_files(pod, err);
    if (r)
        return r;
    record_add(&records, "hostname", pod_hostname(pod));
    if (machine->user_ns)
        record_add(&records, "ns", STR("user"));
    if (machine->mount_ns && !json_bool_or(json_at(pod->root, "spec.hostNetwork"), false))
        record_add(&records, "ns", STR("uts"));
    if (machine->mount_ns && !json_bool_or(json_at(pod->root, "spec.hostIPC"), false))
        record_add(&records, "ns", STR("ipc"));
    if (security_is_scoped(pod))
        record_add(&records, "scope", STR("abstract"));
    if (machine->mount_ns)
        volume_add_memory(pod, &records);
    if (network_has_bridge(pod))
        bridge_add(pod->agent->bridge, pod->uid, pod->ip, &records);
    cgroup_add_first(pod, &records);
    /* For the next muster: what the object does not say. */
    record_add(&records, "agent.ns", pod->ns);
    record_add(&records, "agent.name", pod->name);
    record_add(&records, "agent.ip", str_from(pod->ip));
    for (size_t i = 0; i < pod->gpu_count; i++)
        record_number(&records, "agent.gpu", pod->gpus[i]);
    record_number(&records, "agent.started", pod->started_ms);
    return write_pod_file(pod, &records, err);
}

/* ---- a container ---- */

/* Without root and without overlays all of the machine is read-only for pods: the caches of the person whose
 * pods these are stay what they are, as for a program that she starts herself. */
static bool cache_is_kept(const struct agent *agent)
{
    return !agent->machine.root && !agent->machine.overlay && agent->machine.mount_ns &&
           !agent->options.images_oci && agent->machine.home[0] == '/' && agent->machine.home[1];
}

static void add_caches(const struct agent *agent, struct arena *arena, struct env *env)
{
    /* Those that have theirs elsewhere in the home folder; Hugging Face and torch use ~/.cache. */
    static const char *const places[][2] = {{"TRITON_CACHE_DIR", "triton"},
                                            {"MPLCONFIGDIR", "matplotlib"},
                                            {"CUDA_CACHE_PATH", "nv"},
                                            {"NUMBA_CACHE_DIR", "numba"}};
    for (size_t i = 0; i < COUNT_OF(places); i++)
        env_set(arena, env, str_from(places[i][0]),
                str_printf(arena, "%s/" CACHE_DIR "/%s", agent->machine.home, places[i][1]));
}

static void add_default_env(struct pod *pod,
                            const struct image *image,
                            size_t index,
                            struct arena *arena,
                            struct env *env)
{
    const struct agent *agent = pod->agent;
    struct person person;
    if (image) {
        oci_env(arena, env, image);
    } else {
        bool hers = people_find(pod, &person);
        env_set(arena, env, STR("PATH"),
                hers ? person_search_path(arena, &person, str_from(agent->machine.path))
                     : str_from(agent->machine.path));
        env_set(arena, env, STR("HOME"),
                !hers             ? str_from(agent->machine.home)
                : person.home.len ? person.home
                                  : STR("/"));
        if (cache_is_kept(agent))
            add_caches(agent, arena, env);
        if (agent->machine.old_torch) {
            env_set(arena, env, STR("PET_REDIRECTS"), STR(HOST_TORCH_MAPPING));
            env_set(arena, env, STR("PET_TEE"), STR(HOST_TORCH_MAPPING));
        }
    }
    env_set(arena, env, STR("HOSTNAME"), pod_hostname(pod));
    if (agent->options.api_url && network_has_bridge(pod)) {
        /* By name: that is what the server's certificate has. */
        env_set(arena, env, STR("KUBERNETES_SERVICE_HOST"), STR("kubernetes.default.svc"));
        env_set(arena, env, STR("KUBERNETES_SERVICE_PORT"),
                str_printf(arena, "%d", SERVICE_API_PORT));
    } else if (agent->options.api_url) {
        struct str url = str_from(agent->options.api_url);
        size_t colon = url.len;
        while (colon > 0 && url.p[colon - 1] != ':')
            colon--;
        if (str_starts(url, STR("https://")) && colon > 8) {
            env_set(arena, env, STR("KUBERNETES_SERVICE_HOST"), str_sub(url, 8, colon - 9));
            env_set(arena, env, STR("KUBERNETES_SERVICE_PORT"), str_sub(url, colon, url.len));
        }
    }
    device_env(pod, index, arena, env);
}

static int build_env(struct pod *pod,
                     const struct image *image,
                     size_t index,
                     struct arena *arena,
                     struct env *env,
                     struct err *err)
{
    const struct json *container = pod_container_spec(pod, index);
    struct env_context context;
    pod_env_context(pod, &context);
    /* Labels and annotations may be others than when the pod came. */
    if (pod->waiting_reason.len || pod->run.containers[index].instance)
        context.pod = object_json(pod->object, arena);
    add_default_env(pod, image, index, arena, env);
    if (json_bool_or(json_at(pod->root, "spec.enableServiceLinks"), true))
        env_add_services(arena, env, &context);
    if (json_bool_or(json_get(container, "tty"), false))
        env_set(arena, env, STR("TERM"), STR("xterm"));
    int r = env_add_container(arena, env, &context, container, err);
    if (r)
        return err_wrap(err, r, "container " STR_FMT,
                        STR_ARG(json_str(json_get(container, "name"))));
    limit_env(pod, index, arena, env);
    return 0;
}

/* An image that does nothing until it is told to end, as everybody's pause does, needs no files. */
static bool image_pauses(struct str name)
{
    size_t from = name.len;
    while (from > 0 && name.p[from - 1] != '/')
        from--;
    struct str last = str_sub(name, from, name.len);
    last = str_sub(last, 0, str_find(last, '@'));
    return str_is(str_sub(last, 0, str_find(last, ':')), "pause");
}

static int add_command(struct pod *pod,
                       const struct image *image,
                       const struct json *container,
                       struct env *env,
                       struct buf *records,
                       struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *lists[] = {
        image ? image_command(image, container) : json_get(container, "command"),
        image ? image_args(image, container) : json_get(container, "args")};
    size_t count = 0;
    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(lists[i], arg) {
            struct str text;
            int r = env_expand(&arena, env, json_str(arg), &text, err);
            if (r)
                return err_wrap(err, r, "container " STR_FMT,
                                STR_ARG(json_str(json_get(container, "name"))));
            /* Without a mount namespace the launcher is where it was installed. */
            if (!pod->agent->machine.mount_ns && count == 0 && str_is(text, LAUNCH_PATH))
                text = str_from(pod->agent->options.launch_path);
            record_add(records, "arg", text);
            count++;
        }
    if (count)
        return 0;
    if (image)
        return err_set(err, -ENOEXEC,
                       "image " STR_FMT " has no default command: set command or args",
                       STR_ARG(image->name));
    if (image_pauses(json_str(json_get(container, "image")))) {
        record_add(records, "arg", STR("sh"));
        record_add(records, "arg", STR("-c"));
        record_add(records, "arg", STR("trap 'exit 0' TERM INT; sleep infinity & wait"));
        return 0;
    }
    return err_set(err, -ENOEXEC,
                   "container " STR_FMT " has no command: images are not used on this node "
                   "(--images=host), so set command or args",
                   STR_ARG(json_str(json_get(container, "name"))));
}

static void add_bind(struct buf *records,
                     const char *source,
                     const char *target,
                     const char *options)
{
    record_mount(records, &(struct record_mount){.type = "bind",
                                                 .source = str_from(source),
                                                 .target = str_from(target),
                                                 .options = str_from(options)});
}

/* Those a container has of its own. */
static void add_namespaces(const struct pod *pod, struct str pids_of, struct buf *records)
{
    if (!pod->agent->machine.mount_ns)
        return;
    record_add(records, "ns", STR("mount"));
    if (json_bool_or(json_at(pod->root, "spec.hostPID"), false))
        return;
    if (pids_of.len)
        record_add(records, "pid.of", pids_of);
    else
        record_add(records, "ns", STR("pid"));
}

/* A file that the machine has and an image lacks. */
static void add_machine_file(const struct pod *pod, const char *path, struct buf *records)
{
    if (pod->agent->options.images_oci && access(path, R_OK) == 0)
        add_bind(records, path, path, "ro");
}

/* The files with the names that a pod knows: its own, or the machine's where it shares its network. */
static void add_names(const struct pod *pod, struct buf *records)
{
    char path[PATH_MAX];
    if (json_bool_or(json_at(pod->root, "spec.hostNetwork"), false)) {
        add_machine_file(pod, "/etc/hosts", records);
        add_machine_file(pod, "/etc/hostname", records);
    } else {
        (void)snprintf(path, sizeof(path), "%s/hosts", pod->folder);
        add_bind(records, path, "/etc/hosts", "ro");
        (void)snprintf(path, sizeof(path), "%s/" HOSTNAME_FILE, pod->folder);
        add_bind(records, path, "/etc/hostname", "ro");
    }
    (void)snprintf(path, sizeof(path), "%s/resolv.conf", pod->folder);
    if (access(path, F_OK) == 0) {
        add_bind(records, path, "/etc/resolv.conf", "ro");
    } else {
        add_machine_file(pod, "/etc/resolv.conf", records);
    }
}

static int add_file_system(struct pod *pod,
                           size_t index,
                           struct env *env,
                           struct buf *records,
                           struct err *err)
{
    const struct agent *agent = pod->agent;
    const struct json *container = pod_container_spec(pod, index);
    char path[PATH_MAX];
    if (!agent->machine.mount_ns)
        return 0;
    add_namespaces(pod, json_str(json_get(container, "targetContainerName")), records);
    record_add(records, "root", agent->machine.overlay ? STR("overlay") : STR("bind"));
    (void)snprintf(path, sizeof(path), "%s/root", agent->options.data_dir);
    record_add(records, "root.at", str_from(path));
    if (spawner_points(agent->spawner)[0])
        record_add(records, "root.points", str_from(spawner_points(agent->spawner)));
    host_path_masks(pod, records);
    if (!agent->options.images_oci)
        people_homes(pod, records);
    if (cache_is_kept(agent) &&
        snprintf(path, sizeof(path), "%s/" CACHE_DIR, agent->machine.home) < (int)sizeof(path) &&
        files_make_folder(path, 0700, NULL) == 0)
        add_bind(records, path, path, "");
    add_bind(records, agent->options.launch_path, LAUNCH_PATH, "ro");
    add_names(pod, records);
    device_files(pod, index, records);
    limit_mounts(pod, index, records);
    ranks_mounts(pod, index, records);
    token_add_old(pod, records);
    int r = volume_mount_all(pod, container, env, records, err);
    if (r)
        return r;
    const struct run_container *c = &pod->run.containers[index];
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT "/%u.message", pod->folder, STR_ARG(c->name),
                   c->instance);
    r = files_write(path, STR(""), 0666, err);
    struct str target = json_str(json_get(container, "terminationMessagePath"));
    if (r == 0)
        record_mount(records, &(struct record_mount){
                                  .type = "bind",
                                  .source = str_from(path),
                                  .target = target.len ? target : STR("/dev/termination-log")});
    return r;
}

static void add_env(struct arena *arena, const struct env *env, struct buf *records)
{
    for (size_t i = 0; i < env->count; i++)
        record_add(records, "env",
                   str_printf(arena, STR_FMT "=" STR_FMT, STR_ARG(env->items[i].name),
                              STR_ARG(env->items[i].value)));
}

/* *ret stays NULL where images are not used. */
static int choose_image(const struct pod *pod,
                        size_t index,
                        struct arena *arena,
                        struct image *kept,
                        const struct image **ret,
                        struct err *err)
{
    const char *reason;
    if (!pod->agent->options.images_oci)
        return 0;
    int r = oci_image(pod, index, arena, kept, &reason, err);
    if (r == 0)
        *ret = kept;
    return r;
}

static int check_size(const struct json *container, const struct buf *records, struct err *err)
{
    if (!records->overflow)
        return 0;
    return err_set(err, -E2BIG, "container " STR_FMT ": its environment is too large",
                   STR_ARG(json_str(json_get(container, "name"))));
}

int prepare_container(struct pod *pod, size_t index, struct err *err)
{
    const struct run_container *c = &pod->run.containers[index];
    const struct json *container = pod_container_spec(pod, index);
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf records = {.bytes_max = SHIM_SPEC_BYTES};
    struct env env = {0};
    struct image kept;
    const struct image *image = NULL;
    int r = choose_image(pod, index, &arena, &kept, &image, err);
    if (r == 0)
        r = build_env(pod, image, index, &arena, &env, err);
    if (r == 0) /* what is run beside it is no rank */
        ranks_env(pod, index, &arena, &env);
    if (r == 0 && pod->standby.making) {
        char folder[PATH_MAX];
        ranks_folder(pod, index, folder, sizeof(folder));
        env_set(&arena, &env, STR(LAUNCH_ENV_STANDBY),
                str_printf(&arena, "%s/" RANKS_GO_FILE, folder));
    }
    if (r == 0 && pod->run.stays && c->instance && !c->init && !c->ephemeral)
        env_set(&arena, &env, STR(PLACE_ENV), str_printf(&arena, "%u", c->instance));
    if (r == 0)
        r = add_command(pod, image, container, &env, &records, err);
    if (r)
        return r;
    add_env(&arena, &env, &records);
    struct str cwd = json_str(json_get(container, "workingDir"));
    record_add(&records, "cwd", cwd.len ? cwd : image ? image_folder(image) : STR("/"));
    if (json_bool_or(json_get(container, "stdin"), false))
        record_number(&records, "stdin",
                      json_bool_or(json_get(container, "stdinOnce"), false) ? 2 : 1);
    if (json_bool_or(json_get(container, "tty"), false))
        record_number(&records, "tty", 1);
    r = ranks_make(pod, index, err);
    if (r == 0)
        r = add_file_system(pod, index, &env, &records, err);
    if (r == 0)
        r = security_add(pod, image, container, &records, err);
    if (r)
        return r;
    sysctl_add(json_get(pod->root, "spec"), &records);
    cgroup_add(pod, container, &records);
    if (image)
        r = oci_bundle(pod, index, image, &records, err);
    if (r)
        return r;
    r = check_size(container, &records, err);
    if (r)
        return r;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT "/%u.spec", pod->folder, STR_ARG(c->name),
                   c->instance);
    return files_write(path, buf_str(&records), 0600, err);
}

int prepare_exec(struct pod *pod,
                 size_t index,
                 const struct podio_exec_request *request,
                 const char *file,
                 struct err *err)
{
    const struct json *container = pod_container_spec(pod, index);
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf records = {.bytes_max = SHIM_SPEC_BYTES};
    struct env env = {0};
    struct image kept;
    const struct image *image = NULL;
    int r = choose_image(pod, index, &arena, &kept, &image, err);
    if (r == 0)
        r = build_env(pod, image, index, &arena, &env, err);
    if (r)
        return r;
    if (request->tty)
        env_set(&arena, &env, STR("TERM"), STR("xterm"));
    for (size_t i = 0; i < request->command_count; i++)
        record_add(&records, "arg", request->command[i]);
    add_env(&arena, &env, &records);
    struct str cwd = json_str(json_get(container, "workingDir"));
    record_add(&records, "cwd", cwd.len ? cwd : image ? image_folder(image) : STR("/"));
    add_namespaces(pod, STR(""), &records);
    cgroup_add_join(pod, container, &records);
    r = security_add(pod, image, container, &records, err);
    if (r == 0)
        r = check_size(container, &records, err);
    return r ? r : files_write(file, buf_str(&records), 0600, err);
}
