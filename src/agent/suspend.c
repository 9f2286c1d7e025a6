#include "agent/suspend.h"

#include "agent/cgroup.h"
#include "agent/checkpoint.h"
#include "agent/core.h"
#include "agent/device.h"
#include "agent/freeze.h"
#include "agent/gpu.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/pod.h"
#include "agent/protect.h"
#include "api/api.h"
#include "api/gpu_page.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "shim/shim.h"
#include "tool/files.h"
#include "tool/log.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define STAGE_FILE      "suspend"     /* "STAGE BEGUN TOTAL MIB MOVED WHY" */
#define REPORT_FILE     "suspend.gpu" /* the helper's */
#define LINE_BYTES      512
#define FREEZE_MS       20    /* between looks at whether all processes stand */
#define FREEZE_LIMIT_MS 30000 /* one that waits in the kernel for a disk may never stand */
#define DRIVER_MIN      570   /* the first that can move processes off GPUs */

static const char *const stage_words[] = {
#define SUSPEND_STAGE_WORD(name, word) [SUSPEND_STAGE_##name] = (word),
    SUSPEND_STAGES(SUSPEND_STAGE_WORD)
#undef SUSPEND_STAGE_WORD
};

/* The helper under way. */
struct suspend_call {
    uv_process_t process;
    struct agent *agent;
    struct pod *pod; /* NULL once it is gone */
    bool out;
    bool closing;
};

const char *suspend_ability(const struct agent *agent)
{
    if (!agent->gpus_per_node || !agent->gpus_real)
        return SUSPEND_LABEL_FREEZE;
    return gpu_driver(&agent->machine.gpus) >= DRIVER_MIN ? SUSPEND_LABEL_CHECKPOINT : NULL;
}

/* ---- on the disk ---- */

static void suspend_path(const struct pod *pod, const char *file, char ret[static PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/%s", pod->folder, file);
}

static void suspend_enter(struct pod *pod, enum suspend_stage stage)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct pod_suspend *suspend = &pod->suspend;
    struct err err = {0};
    char path[PATH_MAX], fresh[PATH_MAX];
    suspend->stage = stage;
    suspend->freezing_ms = 0;
    suspend_path(pod, STAGE_FILE, path);
    suspend_path(pod, STAGE_FILE ".new", fresh); /* an empty one would say that the pod runs */
    struct str line =
        str_printf(&arena, "%s %lld %lld %lld %d " STR_FMT "\n", stage_words[stage],
                   (long long)suspend->begun_ms, (long long)suspend->total_ms,
                   (long long)suspend->moved_mib, suspend->moved, STR_ARG(suspend->why));
    int r = files_write(fresh, line, 0600, &err);
    if (r == 0 && rename(fresh, path) < 0)
        r = err_set(&err, -errno, "cannot write %s: %s", path, strerrordesc_np(errno));
    if (r < 0)
        log_warn(pod->agent->log, "pod.suspend", LOG_STR("pod", pod->key), LOG_ERR(&err));
}

void suspend_recover(struct pod *pod)
{
    struct pod_suspend *suspend = &pod->suspend;
    _cleanup_(buf_done) struct buf text = {0};
    char path[PATH_MAX], word[32];
    long long begun = 0, total = 0, mib = 0;
    int moved = 0, length = 0;
    suspend_path(pod, STAGE_FILE, path);
    if (!files_read(path, 2 * LINE_BYTES, &text) || !text.len)
        return;
    buf_addc(&text, '\0');
    if (sscanf(text.p, "%31s %lld %lld %lld %d%n", word, &begun, &total, &mib, &moved, &length) !=
        5)
        return;
    /* Why it is taken back, if it is: it holds its GPUs then, and must not say that it does not. */
    suspend->why = str_dup(&pod->arena, str_trim(str_from(text.p + length)));
    for (size_t i = 0; i < COUNT_OF(stage_words); i++)
        if (strcmp(word, stage_words[i]) == 0)
            suspend->stage = (enum suspend_stage)i;
    suspend->begun_ms = begun;
    suspend->total_ms = total;
    suspend->moved_mib = mib;
    suspend->moved = moved != 0;
    suspend->changed_ms = begun ? begun : agent_now_ms();
    if (suspend->stage == SUSPEND_STAGE_FROZEN)
        suspend->stage = SUSPEND_STAGE_FREEZING; /* so it says; look */
}

/* ---- processes ---- */

struct suspend_processes {
    pid_t roots[SHIM_CONTAINERS_MAX];
    struct freeze freeze;
};

static const struct freeze *processes_of(const struct pod *pod, struct suspend_processes *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < pod->run.count && count < COUNT_OF(ret->roots); i++)
        if (pod->run.containers[i].state == RUN_RUNNING && pod->run.containers[i].pid > 0)
            ret->roots[count++] = pod->run.containers[i].pid;
    ret->freeze = (struct freeze){.cgroups = &pod->agent->machine.cgroups,
                                  .uid = pod->uid,
                                  .roots = ret->roots,
                                  .root_count = count};
    return &ret->freeze;
}

void suspend_wake_orphan(struct agent *agent, const char *folder)
{
    const char *slash = strrchr(folder, '/');
    freeze_kill(&(struct freeze){.cgroups = &agent->machine.cgroups,
                                 .uid = str_from(slash ? slash + 1 : folder)});
}

/* ---- changes ---- */

static void suspend_told(struct pod *pod)
{
    pod->suspend.changed_ms = agent_now_ms();
    pod_mark(pod);
}

static bool suspend_has_gpu(const struct pod *pod)
{
    return pod->gpu_count && (pod->agent->gpus_real || getenv(CHECKPOINT_LIBRARY));
}

static void memory_allow(const struct pod *pod, bool more)
{
    int64_t cards_mib = pod->agent->gpu_memory_mib * (int64_t)pod->gpu_count;
    int64_t mib = more ? cards_mib + GPU_PAGE_PINNED_MIB : 0; /* pinned memory counts as well */
    for (size_t i = 0; i < pod->run.count; i++)
        cgroup_allow(pod, pod_container_spec(pod, i), mib << 20);
}

/* It runs again, or never stopped. */
static void suspend_end(struct pod *pod, int64_t now_ms)
{
    struct pod_suspend *suspend = &pod->suspend;
    if (suspend->begun_ms)
        suspend->total_ms += now_ms - suspend->begun_ms;
    if (suspend_has_gpu(pod)) /* whatever became of it: more was allowed before it was tried */
        memory_allow(pod, false);
    suspend->begun_ms = suspend->moved_mib = 0;
    suspend->moved = false;
    suspend_enter(pod, SUSPEND_STAGE_NONE);
    suspend_told(pod);
}

void suspend_drop(struct pod *pod)
{
    struct suspend_processes processes;
    if (pod->suspend.stage == SUSPEND_STAGE_NONE)
        return;
    freeze_kill(processes_of(pod, &processes));
    suspend_end(pod, agent_now_ms());
}

/* It could not be suspended, and is as it was before. */
static void suspend_refuse(struct pod *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str wish = object_annotation(pod->object, SUSPEND_ANNOTATION);
    struct str words =
        str_printf(&arena, "The pod cannot be suspended: " STR_FMT, STR_ARG(pod->suspend.why));
    suspend_end(pod, agent_now_ms());
    pod->suspend.refused = wish.len > 0;
    if (!wish.len)
        return; /* nobody waits for it any more: nothing is to be told */
    if (str_is(wish, SUSPEND_YIELD))
        protect_evict(pod, str_c(&arena, words));
    else
        pod_event(pod, true, SUSPEND_FAILED, words);
}

static void suspend_lose(struct pod *pod, const char *why)
{
    _cleanup_(arena_done) struct arena arena = {0};
    suspend_end(pod, agent_now_ms());
    protect_evict(pod, str_printf(&arena, "The pod cannot be resumed: %s", why).p);
}

/* ---- the helper ---- */

static void call_closed(uv_handle_t *handle)
{
    struct suspend_call *call = handle->data;
    struct agent *agent = call->agent;
    if (call->pod) {
        call->pod->suspend.call = NULL;
        pod_mark(call->pod);
    }
    mem_free(call);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void call_close(struct suspend_call *call)
{
    if (!call->closing)
        uv_close((uv_handle_t *)&call->process, call_closed);
    call->closing = true;
}

/* Who moved how much: what our library did not move takes the driver ten times as long. */
static void call_tell(struct pod *pod, int64_t mib, int64_t copied, struct str note)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t ms = agent_now_ms() - pod->suspend.begun_ms;
    struct str words = str_printf(&arena,
                                  "%lld MiB of GPU memory are in host memory after %lld.%lld s, "
                                  "%lld MiB of it copied by Muster's library",
                                  (long long)mib, (long long)ms / 1000,
                                  (long long)(ms % 1000 / 100), (long long)copied);
    if (note.len)
        words = str_printf(&arena, STR_FMT "; the driver copied the rest, because " STR_FMT,
                           STR_ARG(words), STR_ARG(note));
    if (mib || copied || note.len)
        pod_event(pod, note.len > 0, SUSPEND_MOVED, words);
}

/* Its file in one line: "ok out 1 40123 39000 NOTE", "failed WORDS", or nothing, where it was killed. */
static bool call_succeeded(struct pod *pod, bool out, int sig, char why[static LINE_BYTES])
{
    _cleanup_(buf_done) struct buf text = {0};
    char path[PATH_MAX], direction[16];
    long long processes = 0, mib = 0, copied = 0;
    int at = 0;
    suspend_path(pod, REPORT_FILE, path);
    bool told = files_read(path, LINE_BYTES, &text) && text.len;
    (void)unlink(path);
    buf_addc(&text, '\0');
    /* That of an earlier helper, which went the other way, says nothing of this one. */
    if (told &&
        sscanf(text.p, "ok %15s %lld %lld %lld %n", direction, &processes, &mib, &copied, &at) >=
            3 &&
        strcmp(direction, out ? "out" : "in") == 0) {
        pod->suspend.moved_mib = mib;
        if (out)
            call_tell(pod, mib, copied, at ? str_trim(str_from(text.p + at)) : STR_NONE);
        return true;
    }
    if (told && strncmp(text.p, "failed ", 7) == 0)
        (void)snprintf(why, LINE_BYTES, "%.*s", (int)strcspn(text.p + 7, "\n"), text.p + 7);
    else
        (void)snprintf(why, LINE_BYTES, "NVIDIA's driver did not answer within %d s (signal %d)",
                       CHECKPOINT_LIMIT_S, sig);
    return false;
}

static void call_ended(uv_process_t *process, int64_t status, int sig)
{
    struct suspend_call *call = process->data;
    struct pod *pod = call->pod;
    char why[LINE_BYTES];
    (void)status;
    if (!pod || pod->suspend.stage == SUSPEND_STAGE_NONE) {
        call_close(call);
        return;
    }
    if (call_succeeded(pod, call->out, sig, why)) {
        pod->suspend.moved = call->out;
        if (call->out)
            suspend_enter(pod, SUSPEND_STAGE_FREEZING);
        else if (pod->suspend.why.len)
            suspend_refuse(pod);
        else
            suspend_end(pod, agent_now_ms());
    } else if (call->out) { /* what was done is taken back, and then it is told */
        pod->suspend.why = str_dup(&pod->arena, str_from(why));
        suspend_enter(pod, SUSPEND_STAGE_IN);
    } else {
        suspend_lose(pod, why);
    }
    suspend_told(pod);
    call_close(call);
}

static int call_start(struct pod *pod, bool out)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct suspend_processes processes;
    pid_t pids[FREEZE_PIDS_MAX];
    const char *cards[CHECKPOINT_CARDS_MAX];
    char path[PATH_MAX];
    size_t count = freeze_pids(processes_of(pod, &processes), pids), at = 0;
    size_t card_count = device_cards(pod, cards, COUNT_OF(cards));
    char **argv = ARENA_ARRAY(&arena, char *, count + card_count + 5);
    suspend_path(pod, REPORT_FILE, path); /* what is in it, an earlier helper has done already */
    argv[at++] = str_c(&arena, STR("muster"));
    argv[at++] = str_c(&arena, STR(CHECKPOINT_COMMAND));
    argv[at++] = str_c(&arena, out ? STR("out") : STR("in"));
    argv[at++] = str_c(&arena, str_from(path));
    for (size_t i = 0; i < card_count; i++)
        argv[at++] = str_c(&arena, str_from(cards[i]));
    for (size_t i = 0; i < count; i++)
        argv[at++] = str_c(&arena, str_printf(&arena, "%d", pids[i]));
    struct suspend_call *call = MEM_NEW(struct suspend_call);
    *call = (struct suspend_call){.agent = pod->agent, .pod = pod, .out = out};
    call->process.data = call;
    int r = uv_spawn(
        pod->agent->loop, &call->process,
        &(uv_process_options_t){.exit_cb = call_ended, .file = "/proc/self/exe", .args = argv});
    pod->suspend.call = call;
    pod->agent->streams_open++;
    if (r < 0)
        call_close(call); /* libuv has made a handle of it all the same */
    return r;
}

void suspend_forget(struct pod *pod)
{
    struct suspend_call *call = pod->suspend.call;
    if (!call)
        return;
    call->pod = NULL;
    pod->suspend.call = NULL;
    if (pod->agent->stopping) /* else its end is waited for */
        call_close(call);
}

/* ---- steps ---- */

static bool is_wanted(const struct pod *pod)
{
    return object_annotation(pod->object, SUSPEND_ANNOTATION).len > 0;
}

/* A container that is about to start would start behind our back. */
static bool is_starting(const struct pod *pod)
{
    for (size_t i = 0; i < pod->run.count; i++)
        if (pod->run.containers[i].state == RUN_STARTING)
            return true;
    return false;
}

static void suspend_begin(struct pod *pod, int64_t now_ms)
{
    pod->suspend.begun_ms = now_ms;
    pod->suspend.why = STR_NONE;
    pod_event(pod, false, SUSPEND_SUSPENDING,
              STR("Stopping the pod's processes; it keeps its memory and gives up its GPUs"));
    suspend_enter(pod, SUSPEND_STAGE_OUT);
    suspend_told(pod);
}

static void step_out(struct pod *pod)
{
    if (!suspend_has_gpu(pod)) {
        suspend_enter(pod, SUSPEND_STAGE_FREEZING);
        return;
    }
    memory_allow(pod, true);
    if (call_start(pod, true) < 0) {
        pod->suspend.why = STR("the helper `muster " CHECKPOINT_COMMAND "` cannot be started");
        suspend_refuse(pod);
    }
}

static void step_freezing(struct pod *pod, int64_t now_ms, int64_t *wake_ms)
{
    struct suspend_processes processes;
    struct err err = {0};
    int r = freeze_stop(processes_of(pod, &processes), &err);
    if (!pod->suspend.freezing_ms)
        pod->suspend.freezing_ms = now_ms;
    if (r == -EAGAIN && is_wanted(pod) && now_ms - pod->suspend.freezing_ms < FREEZE_LIMIT_MS) {
        *wake_ms = now_ms + FREEZE_MS;
    } else if (r == -EAGAIN) {
        pod->suspend.why = STR("its processes do not stand still");
        suspend_enter(pod, SUSPEND_STAGE_IN);
    } else if (r < 0) {
        pod->suspend.why = str_dup(&pod->arena, str_from(err.text));
        suspend_enter(pod, SUSPEND_STAGE_IN);
    } else {
        suspend_enter(pod, SUSPEND_STAGE_FROZEN);
        suspend_told(pod);
    }
}

static void step_in(struct pod *pod, int64_t now_ms)
{
    struct suspend_processes processes;
    struct err err = {0};
    if (freeze_go(processes_of(pod, &processes), &err) < 0)
        suspend_lose(pod, err.text);
    else if (suspend_has_gpu(pod)) {
        if (call_start(pod, false) < 0)
            suspend_lose(pod, "the helper `muster " CHECKPOINT_COMMAND "` cannot be started");
    } else if (pod->suspend.why.len)
        suspend_refuse(pod);
    else
        suspend_end(pod, now_ms);
}

static void step_stage(struct pod *pod, int64_t now_ms, int64_t *wake_ms)
{
    switch (pod->suspend.stage) {
    case SUSPEND_STAGE_OUT: step_out(pod); break;
    case SUSPEND_STAGE_FREEZING: step_freezing(pod, now_ms, wake_ms); break;
    case SUSPEND_STAGE_FROZEN:
        if (is_wanted(pod))
            break;
        pod_event(pod, false, SUSPEND_RESUMING, STR("The pod gets its GPUs back and goes on"));
        suspend_enter(pod, SUSPEND_STAGE_IN);
        suspend_told(pod);
        break;
    case SUSPEND_STAGE_IN: step_in(pod, now_ms); break;
    case SUSPEND_STAGE_NONE: break;
    }
}

bool suspend_step(struct pod *pod, int64_t now_ms, int64_t *wake_ms)
{
    struct pod_suspend *suspend = &pod->suspend;
    if (!is_wanted(pod) && suspend->stage == SUSPEND_STAGE_NONE && suspend->refused) {
        suspend->refused = false;
        suspend_told(pod);
    }
    if (pod->run.stop_ms || lifecycle_is_over(&pod->run)) {
        suspend_drop(pod);
        return false;
    }
    if (suspend->stage == SUSPEND_STAGE_NONE) {
        if (!is_wanted(pod) || suspend->refused || is_starting(pod))
            return false;
        suspend_begin(pod, now_ms);
    }
    enum suspend_stage before;
    do { /* a stage that is over at once is followed by the next one */
        before = suspend->stage;
        if (!suspend->call)
            step_stage(pod, now_ms, wake_ms);
    } while (suspend->stage != before && suspend->stage != SUSPEND_STAGE_NONE);
    return suspend->stage != SUSPEND_STAGE_NONE;
}

/* ---- what people want ---- */

static void want_told(void *user, const struct api_result *result)
{
    (void)user;
    (void)result; /* whoever wants it tries again */
}

bool suspend_want(struct pod *pod)
{
    if (!str_is(object_annotation(pod->object, SUSPEND_ANNOTATION), SUSPEND_UNUSED))
        return false;
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_pod,
                                  .ns = pod->ns,
                                  .name = pod->name,
                                  .uid = pod->uid,
                                  .patch = API_PATCH_MERGE,
                                  .body =
                                      STR("{\"metadata\":{\"annotations\":{\"" SUSPEND_ANNOTATION
                                          "\":\"" SUSPEND_YIELD "\"}}}")};
    agent_call(pod->agent, &request, want_told, pod->agent);
    return true;
}

/* ---- what is told ---- */

void suspend_add_condition(const struct pod *pod, struct arena *arena, struct json *conditions)
{
    const struct pod_suspend *suspend = &pod->suspend;
    const char *reason = SUSPEND_RESUMED;
    struct str words = STR("the pod runs and has its GPUs");
    bool away = false;
    if (!suspend->changed_ms)
        return;
    switch (suspend->stage) {
    case SUSPEND_STAGE_NONE: break;
    case SUSPEND_STAGE_OUT:
    case SUSPEND_STAGE_FREEZING:
        reason = SUSPEND_SUSPENDING;
        words = STR("the pod is being stopped and still holds its GPUs");
        break;
    case SUSPEND_STAGE_FROZEN:
        away = true;
        reason = suspend->moved ? SUSPEND_MOVED : SUSPEND_FROZEN;
        words = suspend->moved
                    ? str_printf(arena,
                                 "%lld MiB of GPU memory are in host memory, and the processes "
                                 "stand still",
                                 (long long)suspend->moved_mib)
                    : STR("the processes stand still, and the pod holds no GPU");
        break;
    case SUSPEND_STAGE_IN:
        away = !suspend->why.len;
        reason = suspend->why.len ? SUSPEND_SUSPENDING : SUSPEND_RESUMING;
        words = STR("the pod gets its GPUs back");
        break;
    }
    if (suspend->refused) {
        reason = SUSPEND_FAILED;
        words = suspend->why;
    }
    struct json *condition =
        json_push(conditions, json_make(arena, "{type: $, status: $, reason: $, message: $}",
                                        SUSPEND_CONDITION, away ? "True" : "False", reason, words));
    json_add_str(arena, condition, "lastTransitionTime", time_text(arena, suspend->changed_ms));
}
