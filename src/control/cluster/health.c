#include "control/cluster/health.h"

#include "api/condition.h"
#include "api/gpu.h"
#include "api/install.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/quantity.h"
#include "api/suspect.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/shorten.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICES_MAX 1024 /* of one node */
#define WORDS_MAX   400  /* bytes of a test's answer that are kept */

/* Volumes of a test that a kubelet runs. */
#define TEST_SHM     "shm"
#define TEST_PROGRAM "muster-launch"

/* ---- the rule ---- */

static bool is_blamed(const struct health *health)
{
    return health->jobs >= HEALTH_JOBS || (health->jobs && health->preflight);
}

enum health_step health_judge(const struct health *health, int64_t now_ms, bool *ret_again)
{
    *ret_again = false;
    if (health->tainted && !health->told)
        return HEALTH_ADOPT;
    if (health->told && !health->tainted)
        return HEALTH_FORGET;
    if (!health->told) {
        bool cool = health->passed_ms && now_ms < health->passed_ms + HEALTH_COOL_MS;
        bool faulty = health->faulty && !health->untestable;

        *ret_again = faulty || is_blamed(health);
        if (cool || !(faulty || (is_blamed(health) && health->may)))
            return HEALTH_LEAVE;
        return HEALTH_SUSPECT;
    }
    switch (health->test) {
    case HEALTH_TEST_NONE:
        if (health->untestable)
            break;
        *ret_again = true;
        return health->ready && !health->busy ? HEALTH_TEST : HEALTH_LEAVE;
    case HEALTH_TEST_RUNS: break;
    case HEALTH_TEST_PASSED: return HEALTH_CLEAR;
    case HEALTH_TEST_FAILED: return health->failed ? HEALTH_LEAVE : HEALTH_KEEP_OUT;
    case HEALTH_TEST_LOST:
        *ret_again = true;
        return now_ms < health->test_ms + HEALTH_LOST_MS ? HEALTH_LEAVE : HEALTH_AGAIN;
    }
    return HEALTH_LEAVE;
}

/* ---- what is there ---- */

struct look {
    const struct control_input *input;
    struct arena *arena;
    const struct object *node;
    const struct json *tree;
    const struct object *pod; /* that tests it; NULL: none */
    struct health health;
    struct suspect_blame blames[SUSPECT_BLAMES_MAX];
    size_t blame_count;
    size_t stale;    /* of them, too old or unreadable */
    int64_t gpus;    /* of the node */
    struct str free; /* numbers of those that nobody has */
    int64_t free_count;
    struct str words; /* of the test */
};

static bool is_fresh(const struct suspect_blame *blame, int64_t now_ms)
{
    return blame->time_ms && now_ms < blame->time_ms + SUSPECT_WINDOW_MS;
}

/* What fails on every node is not the fault of one. */
static bool blames_another(const struct look *look, struct str key)
{
    const char *name = str_c(look->arena, key);
    const struct object *node;
    size_t cursor = 0;

    while ((node = cache_next(look->input->cache, &kind_node, STR(""), &cursor)))
        if (node != look->node && object_annotation(node, name).len)
            return true;
    return false;
}

static void look_at_blames(struct look *look)
{
    look->blame_count = suspect_blames(look->node, look->blames);
    for (size_t i = 0; i < look->blame_count; i++) {
        const struct suspect_blame *blame = &look->blames[i];

        if (!is_fresh(blame, look->input->now_ms)) {
            look->stale++;
        } else if (!blames_another(look, blame->key)) {
            look->health.jobs++;
            look->health.preflight |= str_is(blame->word, SUSPECT_PREFLIGHT);
        }
    }
}

/* Enough others are well: the node may be missed for a while. */
static bool may_suspect(const struct look *look)
{
    const struct object *node;
    size_t cursor = 0;
    size_t total = 0;
    size_t suspects = 0;
    bool other = false;

    while ((node = cache_next(look->input->cache, &kind_node, STR(""), &cursor))) {
        bool named = suspect_is_named(node);

        total++;
        suspects += named && node != look->node;
        if (other || named || node == look->node)
            continue;
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *tree = object_json(node, &arena);
        other = condition_is_true(json_get(tree, "status"), "Ready") &&
                !json_bool_or(json_at(tree, "spec.unschedulable"), false);
    }
    return other && suspects < (total < HEALTH_SHARE ? 1 : total / HEALTH_SHARE);
}

static void look_at_taint(struct look *look)
{
    JSON_FOREACH(json_at(look->tree, "spec.taints"), taint)
        if (str_is(json_str(json_get(taint, "key")), SUSPECT_TAINT)) {
            look->health.tainted = true;
            look->health.failed = str_is(json_str(json_get(taint, "value")), SUSPECT_TEST_FAILED);
        }
}

static struct str test_space(const struct look *look)
{
    struct str space = look->input->config->test_space;

    return space.len ? space : STR(SUSPECT_TEST_SPACE);
}

static struct str test_name(const struct look *look)
{
    return str_printf(look->arena, "self-test-" STR_FMT, STR_ARG(look->node->name));
}

/* A container that has ended says more than the phase: whoever was taken away has no answer, and
 * one that never began, because its image could not be had for instance, tested nothing. */
static void look_at_test(struct look *look)
{
    struct health *health = &look->health;

    look->pod = cache_get(look->input->cache, &kind_pod, test_space(look), test_name(look));
    if (!look->pod)
        return;
    const struct json *tree = object_json(look->pod, look->arena);
    const struct json *ended = NULL;
    health->test_ms = look->pod->created_ms;
    JSON_FOREACH(json_at(tree, "status.containerStatuses"), container)
        ended = json_at(container, "state.terminated");
    look->words = str_trim(json_str(json_get(ended, "message")));
    health->test = HEALTH_TEST_RUNS;
    if (look->pod->deleted_ms || !pod_is_over(tree))
        return;
    if (str_is(json_str_at(tree, "status.phase"), "Succeeded"))
        health->test = HEALTH_TEST_PASSED;
    else if (json_i64_or(json_get(ended, "exitCode"), 0) == LAUNCH_TEST_FAILED)
        health->test = HEALTH_TEST_FAILED;
    else if (str_is(json_str_at(tree, "status.reason"), "DeadlineExceeded") &&
             json_str(json_get(ended, "startedAt")).len)
        health->test = HEALTH_TEST_FAILED;
    else
        health->test = HEALTH_TEST_LOST;
    if (health->test == HEALTH_TEST_FAILED && !look->words.len)
        look->words = STR("it did not end in time");
}

/* GPUs that the containers of a pod ask for. */
static int64_t pod_gpus(const struct json *pod)
{
    int64_t sum = 0;

    JSON_FOREACH(json_at(pod, "spec.containers"), container) {
        int64_t wants = 0;

        if (quantity_whole_json(json_get(json_at(container, "resources.limits"), GPU_RESOURCE),
                                &wants, NULL) == 0)
            sum += wants;
    }
    return sum;
}

/* How many GPUs pods of the node have, and, where that is written on pods, which. -1: it should be,
 * and is not. */
static int64_t mark_used(const struct look *look, bool used[static DEVICES_MAX])
{
    const struct object *pod;
    size_t cursor = 0;
    int64_t sum = 0;

    while ((pod = cache_next(look->input->cache, &kind_pod, STR(""), &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str devices = object_annotation(pod, GPU_ANNOTATION_DEVICES), one;

        if (!devices.len && !str_contains(pod->raw, STR(GPU_RESOURCE)))
            continue;
        const struct json *tree = object_json(pod, &arena);
        if (!str_eq(json_str_at(tree, "spec.nodeName"), look->node->name) || pod_is_over(tree))
            continue;
        int64_t wants = pod_gpus(tree);
        if (!devices.len && wants && !look->input->config->kubelets)
            return -1;
        sum += wants;
        while (devices.len && str_cut(&devices, ',', &one)) {
            int64_t number = -1;

            if (str_to_i64(one, &number) && number >= 0)
                used[number % look->gpus] = true;
        }
    }
    return sum;
}

/* Where only the kubelet knows which they are. Slices of time may all be of one card, so one of them
 * is asked for. */
static void count_free(struct look *look, int64_t used, int64_t slices)
{
    int64_t all = look->gpus * slices;

    look->free_count = used < all ? all - used : 0;
    look->health.busy = look->health.faulty ? used > 0 : !look->free_count;
    if (slices > 1 && look->free_count)
        look->free_count = 1;
}

/* The GPUs that can be tested now: those of a gang that failed are free again. */
static void look_at_gpus(struct look *look)
{
    bool *used = ARENA_ARRAY(look->arena, bool, DEVICES_MAX);
    int64_t slices = 1;

    (void)quantity_whole_json(json_get(json_at(look->tree, "status.allocatable"), GPU_RESOURCE),
                              &look->gpus, NULL);
    (void)str_to_i64(object_label(look->node, "nvidia.com/gpu.replicas"), &slices);
    if (slices > 1) /* of time: each card has as many numbers */
        look->gpus /= slices;
    if (look->gpus <= 0)
        return;
    look->gpus = look->gpus < DEVICES_MAX ? look->gpus : DEVICES_MAX;
    look->health.busy = true;
    int64_t taken = mark_used(look, used);
    if (look->input->config->kubelets)
        count_free(look, taken, slices > 1 ? slices : 1);
    if (taken < 0 || look->input->config->kubelets)
        return;
    for (int64_t i = 0; i < look->gpus; i++)
        if (!used[i]) {
            look->free = str_printf(look->arena, STR_FMT "%s%lld", STR_ARG(look->free),
                                    look->free.len ? "," : "", (long long)i);
            look->free_count++;
        }
    look->health.busy = look->health.faulty ? look->free_count < look->gpus : !look->free_count;
}

static struct look look_at(const struct control_input *input,
                           const struct object *node,
                           struct arena *arena)
{
    struct look look = {
        .input = input, .arena = arena, .node = node, .tree = object_json(node, arena)};
    struct str tested = object_annotation(node, SUSPECT_TESTED), word = STR_NONE, moment = STR_NONE;
    struct health *health = &look.health;
    int64_t tested_ms = 0;

    if (str_cut(&tested, ' ', &word) && str_cut(&tested, ' ', &moment) && moment.len)
        (void)time_parse(str_sub(moment, 0, moment.len - 1), &tested_ms);
    health->passed_ms = str_is(word, "passed") ? tested_ms : 0;
    health->told = object_annotation(node, SUSPECT_WORDS).len > 0;
    health->faulty = suspect_is_faulty(look.tree);
    health->ready = condition_is_true(json_get(look.tree, "status"), "Ready");
    health->untestable = input->config->kubelets && !input->config->test_image.len;
    look_at_taint(&look);
    look_at_blames(&look);
    look_at_test(&look);
    /* Of a node that is tested again, what was found before says nothing. */
    health->failed = health->failed && tested_ms / 1000 >= health->test_ms / 1000;
    if (is_blamed(health) && !health->told)
        health->may = may_suspect(&look);
    if (health->told && health->test == HEALTH_TEST_NONE)
        look_at_gpus(&look);
    return look;
}

/* ---- what is done ---- */

/* The taint as it should be: `value` empty: none. Lists are written whole, so nothing is where the
 * node has changed meanwhile, and it is looked at again. */
static void patch_node(const struct look *look,
                       struct actions *actions,
                       struct json *annotations,
                       bool taint,
                       const char *value)
{
    struct arena *arena = look->arena;
    struct json *patch = json_make(arena, "{metadata: {annotations: $}}", annotations);

    if (taint) {
        struct json *taints =
            json_add_array(arena, json_add_object(arena, patch, "spec"), "taints");
        JSON_FOREACH(json_at(look->tree, "spec.taints"), other)
            if (!str_is(json_str(json_get(other, "key")), SUSPECT_TAINT))
                (void)json_push(taints, json_clone(arena, other));
        if (value)
            (void)json_push(taints, json_make(arena, "{key: $, value: $, effect: 'NoSchedule'}",
                                              SUSPECT_TAINT, value));
    }
    action_patch(actions, look->node, patch);
    if (taint)
        actions->list.items[actions->list.count - 1].revision = look->node->revision;
}

static void add_null(struct arena *arena, struct json *annotations, struct str key)
{
    json_set(annotations, str_dup(arena, key), json_new_null(arena));
}

/* Nobody has said anything, or only what is too old. */
static void forget_blames(const struct look *look, struct json *annotations, bool all)
{
    for (size_t i = 0; i < look->blame_count; i++)
        if (all || !is_fresh(&look->blames[i], look->input->now_ms))
            add_null(look->arena, annotations, look->blames[i].key);
}

/* "Hung default/bert: ..." of the newest few. */
static struct str blame_words(const struct look *look)
{
    struct str text = STR_NONE;
    size_t told = 0;

    for (size_t i = look->blame_count; i-- > 0 && told < HEALTH_JOBS;) {
        const struct suspect_blame *blame = &look->blames[i];

        if (!is_fresh(blame, look->input->now_ms))
            continue;
        struct str who = str_sub(blame->words, 0, str_find(blame->words, ':'));
        text = str_printf(look->arena, STR_FMT "%s" STR_FMT " (" STR_FMT ")", STR_ARG(text),
                          told++ ? ", " : "", STR_ARG(who), STR_ARG(blame->word));
    }
    return text;
}

/* How it ends. */
static const char *ending(const struct look *look)
{
    return look->health.untestable
               ? "there is no self-test without --self-test-image; take the taint " SUSPECT_TAINT
                 " away when the node is well"
               : "a self-test decides whether pods come here again";
}

static void suspect(const struct look *look, struct actions *actions)
{
    struct json *annotations = json_new_object(look->arena);
    const char *value = "Blamed";
    const char *why = "jobs fail on this node and on no other: ";
    bool faulty = look->health.faulty && !look->health.untestable;

    if (faulty) {
        value = "XID";
        why = "the driver reported an error of a GPU";
    } else if (look->health.jobs < HEALTH_JOBS) {
        value = SUSPECT_PREFLIGHT;
        why = "a gang that was tested before its start failed here: ";
    }
    struct str words = str_printf(look->arena, "%s" STR_FMT "; %s", why,
                                  STR_ARG(faulty ? STR_NONE : blame_words(look)), ending(look));
    json_add_str(look->arena, annotations, SUSPECT_WORDS, words);
    forget_blames(look, annotations, false);
    patch_node(look, actions, annotations, true, value);
    action_warn(actions, look->node, "NodeSuspect", words);
}

static void adopt(const struct look *look, struct actions *actions)
{
    struct json *annotations = json_new_object(look->arena);

    json_add_str(
        look->arena, annotations, SUSPECT_WORDS,
        str_printf(look->arena, "somebody gave it the taint " SUSPECT_TAINT "; %s", ending(look)));
    patch_node(look, actions, annotations, false, NULL);
}

static struct str answer(const struct look *look, const char *word)
{
    struct str words = str_utf8(look->arena, str_shorten(look->arena, look->words, WORDS_MAX));

    return str_printf(look->arena, "%s " STR_FMT ": " STR_FMT, word,
                      STR_ARG(time_text(look->arena, look->input->now_ms)), STR_ARG(words));
}

static void clear(const struct look *look, struct actions *actions)
{
    struct json *annotations = json_new_object(look->arena);

    forget_blames(look, annotations, true);
    add_null(look->arena, annotations, STR(SUSPECT_WORDS));
    json_add_str(look->arena, annotations, SUSPECT_TESTED, answer(look, "passed"));
    patch_node(look, actions, annotations, true, NULL);
    action_event(
        actions, look->node, "SelfTestPassed",
        str_printf(look->arena, "the self-test found nothing: " STR_FMT, STR_ARG(look->words)));
    action_delete(actions, look->pod);
}

static void keep_out(const struct look *look, struct actions *actions)
{
    struct json *annotations = json_new_object(look->arena);
    struct str words = str_printf(
        look->arena,
        "the self-test failed: " STR_FMT "; repair the node, then delete pod " STR_FMT
        " in " STR_FMT " to have it tested again, or take the taint " SUSPECT_TAINT " away",
        STR_ARG(str_utf8(look->arena, str_shorten(look->arena, look->words, WORDS_MAX))),
        STR_ARG(test_name(look)), STR_ARG(test_space(look)));

    json_add_str(look->arena, annotations, SUSPECT_WORDS, words);
    json_add_str(look->arena, annotations, SUSPECT_TESTED, answer(look, "failed"));
    patch_node(look, actions, annotations, true, SUSPECT_TEST_FAILED);
    action_warn(actions, look->node, "SelfTestFailed", words);
}

static void forget(const struct look *look, struct actions *actions)
{
    struct json *annotations = json_new_object(look->arena);

    forget_blames(look, annotations, true);
    add_null(look->arena, annotations, STR(SUSPECT_WORDS));
    patch_node(look, actions, annotations, false, NULL);
    if (look->pod)
        action_delete(actions, look->pod);
}

/* Nothing that Pod Security `restricted` forbids, which the operator's own namespace may ask for. */
static void secure(struct arena *arena, struct json *spec)
{
    json_fill(arena, spec,
              "{securityContext: {runAsNonRoot: true, runAsUser: $, runAsGroup: $, seccompProfile: "
              "{type: 'RuntimeDefault'}}}",
              INSTALL_USER, INSTALL_USER);
    json_fill(
        arena, json_first(json_get(spec, "containers")),
        "{securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ['ALL']}}}");
}

/* What a kubelet needs besides: the program, from our own image if there is one, the memory by which
 * NCCL's processes talk, and whatever runs containers with GPUs. */
static void fill_for_kubelet(const struct look *look, struct json *pod)
{
    const struct control_config *config = look->input->config;
    struct arena *arena = look->arena;
    struct json *volume = install_volume(arena, pod, TEST_SHM);

    secure(arena, json_get(pod, "spec"));
    (void)json_add_c(arena, json_add_object(arena, volume, "emptyDir"), "medium", "Memory");
    JSON_FOREACH(json_at(pod, "spec.containers"), only) {
        install_mount(arena, only, TEST_SHM, "/dev/shm", false);
        if (config->launcher_image.len)
            install_mount(arena, only, TEST_PROGRAM, LAUNCH_DIR, false);
    }
    if (config->launcher_image.len)
        install_add(arena, pod,
                    &(struct install){.name = TEST_PROGRAM,
                                      .to = LAUNCH_PATH,
                                      .folder = LAUNCH_DIR,
                                      .image = config->launcher_image});
    if (look->free_count && config->test_class.len)
        json_add_str(arena, json_get(pod, "spec"), "runtimeClassName", config->test_class);
}

static void start_test(const struct look *look, struct actions *actions)
{
    const struct control_config *config = look->input->config;
    struct arena *arena = look->arena;
    struct str gpus = str_printf(arena, "%lld", (long long)look->free_count);
    struct json *pod =
        json_make(arena,
                  "{apiVersion: 'v1', kind: 'Pod', metadata: {name: $, namespace: $, labels: "
                  "{" SUSPECT_TEST_LABEL
                  ": 'true'}, annotations: {}}, spec: {nodeName: $, restartPolicy: 'Never', "
                  "activeDeadlineSeconds: $, terminationGracePeriodSeconds: 1, "
                  "automountServiceAccountToken: false, tolerations: [{operator: 'Exists'}], "
                  "containers: [{name: 'self-test', image: $, command: [$, 'selftest'], "
                  "env: [{name: $, value: $}, {name: $, value: $}]}]}}",
                  test_name(look), test_space(look), look->node->name, (int64_t)HEALTH_TEST_S,
                  config->test_image.len ? config->test_image : STR("muster"), LAUNCH_PATH,
                  LAUNCH_ENV_TEST_GPUS, gpus, LAUNCH_ENV_TEST_COMMAND,
                  config->test_command.len ? config->test_command : STR(""));

    if (look->free_count) {
        struct json *container = json_get(json_at(pod, "spec"), "containers");
        JSON_FOREACH(container, only)
            json_add_str(arena, json_make_path(arena, only, "resources.limits"), GPU_RESOURCE,
                         gpus);
        if (!config->kubelets)
            json_add_str(arena, json_at(pod, "metadata.annotations"), GPU_ANNOTATION_DEVICES,
                         look->free);
    }
    if (config->kubelets)
        fill_for_kubelet(look, pod);
    action_create(actions, &kind_pod, pod);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *node = cache_get(input->cache, &kind_node, STR(""), key->name);
    bool again = false;

    if (!input->config->node_health || !node || node->deleted_ms)
        return;
    struct look look = look_at(input, node, actions->arena);
    switch (health_judge(&look.health, input->now_ms, &again)) {
    case HEALTH_LEAVE:
        if (look.stale) {
            struct json *annotations = json_new_object(look.arena);

            forget_blames(&look, annotations, false);
            patch_node(&look, actions, annotations, false, NULL);
        }
        break;
    case HEALTH_SUSPECT: suspect(&look, actions); break;
    case HEALTH_ADOPT: adopt(&look, actions); break;
    case HEALTH_TEST: start_test(&look, actions); break;
    case HEALTH_AGAIN: action_delete(actions, look.pod); break;
    case HEALTH_CLEAR: clear(&look, actions); break;
    case HEALTH_KEEP_OUT: keep_out(&look, actions); break;
    case HEALTH_FORGET: forget(&look, actions); break;
    }
    if (again)
        action_look_again(actions, input->now_ms + HEALTH_AGAIN_MS);
}

static bool is_spoken_of(const struct object *node)
{
    return str_contains(node->raw, STR("\"" SUSPECT_BLAME)) || suspect_is_named(node);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};

    (void)cache;
    if (object->kind == &kind_node && is_spoken_of(object))
        control_keys_add(ret, STR(""), object->name);
    else if (object->kind == &kind_pod && object_label(object, SUSPECT_TEST_LABEL).len)
        control_keys_add(ret, STR(""), json_str_at(object_json(object, &arena), "spec.nodeName"));
}

static const struct kind *const watches[] = {&kind_node, &kind_pod, NULL};

const struct controller node_health_controller = {.name = "nodehealth",
                                                  .watches = watches,
                                                  .keys = keys,
                                                  .reconcile = reconcile};
