#include "agent/agent.h"
#include "agent/cgroup.h"
#include "agent/core.h"
#include "agent/device.h"
#include "agent/env.h"
#include "agent/lifecycle.h"
#include "agent/oci.h"
#include "agent/pod.h"
#include "agent/protect.h"
#include "agent/ranks.h"
#include "agent/volume.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/rank_page.h"
#include "api/ranks.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "image/image.h"
#include "store/harness.h"
#include "test.h"
#include "tool/files.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

/* A whole agent on a store in memory, with real shims and real processes. They are plain ones, without
 * namespaces and control groups: so it is the same wherever the units run. */

#define COMES_MS_MAX 15000
#define SPEC(more)                                                   \
    "\"spec\":{\"nodeName\":\"node-0\",\"restartPolicy\":\"Never\"," \
    "\"terminationGracePeriodSeconds\":0," more "}"
#define SLEEPS(name) "{\"name\":\"" name "\",\"image\":\"i\",\"command\":[\"sleep\",\"60\"]}"

struct scene {
    struct harness h;
    struct agent *agent;
    char folder[64];
};

/* Beside the units, or, where these are a copy, where they are run: the build folder. */
static bool program_find(const char *name, char ret[static PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    (void)snprintf(slash ? slash + 1 : path, 64, "%s", name);
    return (realpath(path, ret) || realpath(name, ret)) && access(ret, X_OK) == 0;
}

static void scene_write(const struct scene *scene, const char *name, const char *text)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", scene->folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    EXPECT(files_make_folder(path, 0755, NULL) == 0);
    *slash = '/';
    EXPECT(files_write(path, str_from(text), 0600, NULL) == 0);
}

static bool scene_open(struct scene *scene)
{
    char shim[PATH_MAX], launch[PATH_MAX], data[96], proc[96];
    struct err err = {0};

    *scene = (struct scene){.folder = "/tmp/muster-agent-XXXXXX"};
    bool found = program_find("muster-shim", shim) && program_find("muster-launch", launch);
    EXPECT(found); /* they are built beside the units */
    EXPECT(mkdtemp(scene->folder) && chmod(scene->folder, 0755) == 0);
    (void)snprintf(data, sizeof(data), "%s/data", scene->folder);
    (void)snprintf(proc, sizeof(proc), "%s/proc", scene->folder);
    scene_write(scene, "proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\n");
    harness_open(&scene->h, NULL);
    int r = !found ? -1
                   : agent_start(&scene->h.loop, scene->h.api,
                                 &(struct agent_options){.data_dir = data,
                                                         .shim_path = shim,
                                                         .launch_path = launch,
                                                         .gpus_per_node = 4,
                                                         .cpus_per_node = 8,
                                                         .memory_per_node_bytes = (int64_t)1 << 33,
                                                         .proc_dir = proc,
                                                         .network = 1, /* host */
                                                         .seed = 1},
                                 &scene->agent, &err);
    EXPECT(r == 0);
    if (r == 0) {
        struct machine *machine = &scene->agent->machine;
        machine->cgroups = (struct cgroups){0};
        machine->mount_ns = machine->user_ns = machine->overlay = false;
        harness_settle(&scene->h);
        return true;
    }
    harness_close(&scene->h);
    files_remove(scene->folder);
    return false;
}

/* A turn of the loop, and a moment for the processes. */
static void turn(struct scene *scene)
{
    (void)uv_run(&scene->h.loop, UV_RUN_NOWAIT);
    (void)poll(NULL, 0, 1);
}

static void make_pod(struct scene *scene, const char *name, const char *labels, const char *spec)
{
    _cleanup_(arena_done) struct arena arena = {0};

    EXPECT(harness_create(&scene->h, &kind_pod, "default",
                          str_printf(&arena, "{\"metadata\":{\"name\":\"%s\",\"labels\":{%s}},%s}",
                                     name, labels, spec)
                              .p) == 0);
}

/* The pod's object says so, sooner or later. */
static bool comes(struct scene *scene, const char *name, const char *path, const char *text)
{
    for (int ms = 0; ms < COMES_MS_MAX; ms++) {
        if (harness_get(&scene->h, &kind_pod, "default", name) == 0 &&
            str_contains(str_from(harness_text(&scene->h, path)), str_from(text)))
            return true;
        turn(scene);
    }
    return false;
}

static struct pod *runs(struct scene *scene, const char *name)
{
    EXPECT(comes(scene, name, "status.phase", "Running"));
    struct pod *pod = pod_by_name(scene->agent, STR("default"), str_from(name));
    EXPECT(pod);
    return pod;
}

static struct str text_of(struct arena *arena, const struct pod *pod, const char *file)
{
    _cleanup_(buf_done) struct buf text = {0};
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", pod->folder, file);
    return files_read(path, 65536, &text) ? str_dup(arena, buf_str(&text)) : STR_NONE;
}

/* Everything that was counted is over when the pods are gone: else the agent would stay for good. */
static void scene_close(struct scene *scene)
{
    char names[sizeof(scene->h.names)];

    EXPECT(harness_list(&scene->h, &kind_pod, "default") == 0);
    memcpy(names, scene->h.names, sizeof(names));
    for (char *rest = names, *name; (name = strsep(&rest, " "));)
        if (*name)
            (void)harness_delete(&scene->h, &kind_pod, "default", name, "");
    for (int ms = 0; ms < COMES_MS_MAX && scene->agent->pods_open; ms++)
        turn(scene);
    EXPECT(scene->agent->pods_open == 0);
    for (int ms = 0; ms < COMES_MS_MAX && scene->agent->streams_open > 1; ms++)
        turn(scene);
    EXPECT(scene->agent->streams_open == 1); /* what its services need */
    agent_stop(scene->agent);
    harness_settle(&scene->h);
    harness_close(&scene->h);
    files_remove(scene->folder);
}

TEST(a_pod_ends_as_its_command_does)
{
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "",
             SPEC("\"containers\":[{\"name\":\"c\",\"image\":\"i\","
                  "\"command\":[\"sh\",\"-c\",\"exit 3\"]}]"));
    EXPECT(comes(&scene, "p", "status.phase", "Failed"));
    EXPECT(strcmp(harness_text(&scene.h, "status.containerStatuses.0.state.terminated.exitCode"),
                  "3") == 0);
    scene_close(&scene);
}

/* What is not base64 can come from another API server alone: ours refuses it. */
static void secret_changes(struct scene *scene, const char *data)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(object_unrefp) struct object *secret = NULL;
    struct str text = str_printf(&arena,
                                 "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{"
                                 "\"name\":\"s\",\"namespace\":\"default\"},\"data\":%s}",
                                 data);

    EXPECT(object_new(&kind_secret, text, &secret, NULL) == 0);
    cache_put(scene->agent->cache, secret);
    volume_refresh(scene->agent, secret);
}

TEST(what_a_pod_refers_to_is_waited_for_and_becomes_files)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "",
             SPEC("\"containers\":[" SLEEPS(
                 "c") "],\"volumes\":["
                      "{\"name\":\"v\",\"configMap\":{\"name\":\"later\",\"items\":["
                      "{\"key\":\"k\",\"path\":\"sub/file\"}]}},"
                      "{\"name\":\"s\",\"secret\":{\"secretName\":\"s\",\"optional\":true}}]"));
    EXPECT(comes(&scene, "p", "status.containerStatuses.0.state.waiting.message",
                 "configmap \"later\" not found"));
    EXPECT(harness_create(&scene.h, &kind_configmap, "default",
                          "{\"metadata\":{\"name\":\"later\"},\"data\":{\"k\":\"v\"}}") == 0);
    struct pod *pod = runs(&scene, "p");
    if (pod) {
        EXPECT(str_is(text_of(&arena, pod, "volumes/v/sub/file"), "v"));
        secret_changes(&scene, "{\"good\":\"Z29vZA==\",\"bad\":\"%%%\"}");
        EXPECT(str_is(text_of(&arena, pod, "volumes/s/good"), "good"));
        EXPECT(!str_is_set(text_of(&arena, pod, "volumes/s/bad")));
    }
    scene_close(&scene);
}

#define PORT(number)                                                                       \
    SPEC("\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"command\":[\"sleep\",\"60\"]," \
         "\"ports\":[{\"containerPort\":1,\"hostPort\":" number "}]}]")

TEST(a_host_port_of_a_node_is_one_pods)
{
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "a", "", PORT("39917"));
    (void)runs(&scene, "a");
    make_pod(&scene, "b", "", PORT("39917"));
    EXPECT(comes(&scene, "b", "status.phase", "Failed"));
    EXPECT(strcmp(harness_text(&scene.h, "status.reason"), "NodePorts") == 0);
    make_pod(&scene, "c", "", PORT("39918"));
    (void)runs(&scene, "c");
    scene_close(&scene);
}

#define GPUS(name, count)                                                    \
    "{\"name\":\"" name "\",\"image\":\"i\",\"command\":[\"sleep\",\"60\"]," \
    "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"" count "\"}}}"

TEST(each_container_has_the_gpus_that_it_asks_for)
{
    static const struct {
        const char *name;
        const char *want;
    } rows[] = {{"CUDA_VISIBLE_DEVICES", "0"},
                {"NVIDIA_VISIBLE_DEVICES", "void"},
                {"CUDA_VISIBLE_DEVICES", "1,2"}};
    _cleanup_(arena_done) struct arena arena = {0};
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "",
             SPEC("\"containers\":[" GPUS("a", "1") "," SLEEPS("b") "," GPUS("c", "2") "]"));
    struct pod *pod = runs(&scene, "p");
    for (size_t i = 0; pod && i < COUNT_OF(rows); i++) {
        struct env env = {0};
        device_env(pod, i, &arena, &env);
        EXPECT(str_is(env_get(&env, str_from(rows[i].name)), rows[i].want));
    }
    scene_close(&scene);
}

/* Control groups that are played by plain files. */
static void group_write(struct scene *scene,
                        const struct pod *pod,
                        const char *file,
                        const char *to)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct cgroups *cgroups = &scene->agent->machine.cgroups;

    cgroups->kind = CGROUP_V2;
    (void)snprintf(cgroups->memory, sizeof(cgroups->memory), "%s/groups", scene->folder);
    scene_write(scene, str_printf(&arena, "groups/" STR_FMT "/%s", STR_ARG(pod->uid), file).p, to);
}

static struct str group_text(struct scene *scene,
                             struct arena *arena,
                             const struct pod *pod,
                             const char *file)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct str path =
        str_printf(arena, "%s/groups/" STR_FMT "/%s", scene->folder, STR_ARG(pod->uid), file);

    return files_read(path.p, 256, &text) ? str_dup(arena, buf_str(&text)) : STR_NONE;
}

TEST(a_machine_without_memory_evicts_the_pod_that_uses_most)
{
    static const char *const names[] = {"small", "large"};
    static const char *const bytes[] = {"1000\n", "100000000\n"};
    struct scene scene;

    if (!scene_open(&scene))
        return;
    for (size_t i = 0; i < 2; i++) {
        make_pod(&scene, names[i], "", SPEC("\"containers\":[" SLEEPS("c") "]"));
        (void)runs(&scene, names[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        const struct pod *pod = pod_by_name(scene.agent, STR("default"), str_from(names[i]));
        group_write(&scene, pod, "memory.current", bytes[i]);
        group_write(&scene, pod, "memory.stat", "inactive_file 0\n");
        group_write(&scene, pod, "pids.current", "1\n");
    }
    protect_look(scene.agent);
    EXPECT(!pod_by_name(scene.agent, STR("default"), STR("large"))->run.stop_ms);
    scene_write(&scene, "proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 9000 kB\n");
    protect_look(scene.agent);
    scene.agent->machine.cgroups = (struct cgroups){0};
    EXPECT(comes(&scene, "large", "status.reason", "Evicted"));
    EXPECT(harness_get(&scene.h, &kind_pod, "default", "small") == 0);
    EXPECT(strcmp(harness_text(&scene.h, "status.phase"), "Running") == 0);
    scene_close(&scene);
}

TEST(a_container_without_a_limit_is_not_given_one)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "",
             SPEC("\"containers\":[" SLEEPS(
                 "free") ",{\"name\":\"bound\",\"image\":\"i\","
                         "\"command\":[\"sleep\",\"60\"],\"resources\":{\"limits\":{"
                         "\"memory\":\"1000\"}}}]"));
    const struct pod *pod = runs(&scene, "p");
    if (pod) {
        group_write(&scene, pod, "free/memory.max", "max");
        group_write(&scene, pod, "bound/memory.max", "1000");
        for (size_t i = 0; i < 2; i++)
            cgroup_allow(pod, pod_container_spec(pod, i), 5);
        EXPECT(str_is(group_text(&scene, &arena, pod, "free/memory.max"), "max"));
        EXPECT(str_is(group_text(&scene, &arena, pod, "bound/memory.max"), "1005"));
        scene.agent->machine.cgroups = (struct cgroups){0};
    }
    scene_close(&scene);
}

static bool stage_comes(struct scene *scene, const struct pod *pod, const char *word)
{
    for (int ms = 0; ms < COMES_MS_MAX; ms++) {
        _cleanup_(arena_done) struct arena arena = {0};

        if (str_starts(text_of(&arena, pod, "suspend"), str_from(word)))
            return true;
        turn(scene);
    }
    return false;
}

TEST(the_stage_of_a_suspended_pod_is_on_the_disk)
{
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "", SPEC("\"containers\":[" SLEEPS("c") "]"));
    const struct pod *pod = runs(&scene, "p");
    EXPECT(harness_patch(&scene.h, &kind_pod, "default", "p",
                         "{\"metadata\":{\"annotations\":{\"" SUSPEND_ANNOTATION
                         "\":\"hold\"}}}") == 0);
    EXPECT(pod && stage_comes(&scene, pod, "frozen "));
    EXPECT(harness_patch(&scene.h, &kind_pod, "default", "p",
                         "{\"metadata\":{\"annotations\":{\"" SUSPEND_ANNOTATION
                         "\":null}}}") == 0);
    EXPECT(pod && stage_comes(&scene, pod, "none "));
    scene_close(&scene);
}

TEST(a_pod_that_runs_is_told_at_once_and_one_that_starts_is_not)
{
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "", SPEC("\"containers\":[" SLEEPS("c") "]"));
    struct pod *pod = runs(&scene, "p");
    for (int starts = 0; pod && starts < 2; starts++) {
        harness_settle(&scene.h);
        pod->run.containers[0].state = starts ? RUN_STARTING : RUN_RUNNING;
        pod->started_ms = agent_now_ms() + COMES_MS_MAX; /* however slow this machine is */
        mem_free(pod->status_sent);
        pod->status_sent = NULL;
        pod_mark(pod);
        harness_settle(&scene.h);
        EXPECT((pod->status_sent != NULL) == !starts);
    }
    if (pod)
        pod->run.containers[0].state = RUN_RUNNING;
    scene_close(&scene);
}

TEST(a_probe_makes_a_pod_ready_and_leaves_nothing_behind)
{
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "",
             SPEC("\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"command\":[\"sleep\","
                  "\"60\"],\"readinessProbe\":{\"exec\":{\"command\":[\"true\"]}}}]"));
    EXPECT(comes(&scene, "p", "status.containerStatuses.0.ready", "true"));
    scene_close(&scene);
}

TEST(a_bundle_has_the_capabilities_of_its_container)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf records = {.bytes_max = 65536};
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "", SPEC("\"containers\":[" SLEEPS("c") "]"));
    const struct pod *pod = runs(&scene, "p");
    buf_add(&records, (struct str){"caps=400", sizeof("caps=400")}); /* as a shim reads it */
    EXPECT(pod && oci_bundle(pod, 0, &(struct image){.rootfs = "/"}, &records, NULL) == 0);
    struct str config = pod ? text_of(&arena, pod, "c/c/0.bundle/config.json") : STR_NONE;
    EXPECT(str_contains(config, STR("CAP_NET_BIND_SERVICE")));
    EXPECT(!str_contains(config, STR("CAP_SYS_ADMIN")));
    scene_close(&scene);
}

/* As hook.py writes it. */
static void page_write(const struct pod *pod, const struct rank_page *page)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/c/c/0.ranks/%llu-%llu", pod->folder,
                   (unsigned long long)page->rank, (unsigned long long)page->pid);
    EXPECT(files_write(path, (struct str){(const char *)page, sizeof(*page)}, 0600, NULL) == 0);
}

static struct str ranks_told(struct scene *scene, struct arena *arena)
{
    harness_settle(&scene->h);
    EXPECT(harness_get(&scene->h, &kind_pod, "default", "p") == 0);
    return str_dup(arena, object_annotation(scene->h.object, RANKS_ANNOTATION));
}

TEST(ranks_are_told_with_their_gpus_and_again_when_the_word_was_lost)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rank_report reports[RANKS_MAX];
    struct scene scene;

    if (!scene_open(&scene))
        return;
    make_pod(&scene, "p", "\"torchrun.ai/role\":\"worker\"",
             SPEC("\"containers\":[" GPUS("c", "3") "]"));
    struct pod *pod = runs(&scene, "p");
    if (pod) {
        int64_t now_ms = agent_now_ms();
        struct str name = pod->name;

        pod->name = STR("nobody");                           /* the next word is lost */
        uint64_t pid = (uint64_t)pod->run.containers[0].pid; /* one that is there, and waits */
        page_write(pod, &(struct rank_page){.magic = RANK_PAGE_MAGIC,
                                            .pid = pid,
                                            .rank = 5,
                                            .local_rank = 1,
                                            .started_ns = 1,
                                            .phase_ns = 1});
        page_write(pod, &(struct rank_page){.magic = 1, .pid = 8, .rank = 6, .started_ns = 1});
        ranks_look(scene.agent, now_ms);
        EXPECT(!ranks_told(&scene, &arena).len);
        pod->name = name;
        ranks_look(scene.agent, now_ms + RANKS_REFRESH_MS / 4);
        EXPECT(ranks_parse(&arena, ranks_told(&scene, &arena), reports) == 1);
        EXPECT(reports[0].rank == 5 && reports[0].pid == (int64_t)pid && reports[0].gpu == 2);
    }
    scene_close(&scene);
}
