#include "agent/ranks.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/pod.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pace.h"
#include "api/rank_page.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "observe/ranks.h"
#include "shim/record.h"
#include "stacks/proc.h"
#include "stacks/process.h"
#include "tool/files.h"
#include "tool/timer.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Where they are in a container. */
#define HOOK_DIR  "/.muster-watch/hook"
#define PAGES_DIR "/.muster-watch/ranks"
/* Which pods are trained in: those that the job engine makes, but for the sync pod, and those of JobSets. */
#define LABEL_ROLE   "torchrun.ai/role"
#define LABEL_JOBSET "jobset.sigs.k8s.io/jobset-name"

struct ranks {
    struct observed seen;
    size_t container;
    unsigned instance;
    unsigned long turn; /* the last one in which it was looked at */
    bool greedy;
    bool stepped; /* one of them has made a step */
    bool under_way;
};

/* ---- what containers get ---- */

static bool is_watched(const struct pod *pod, size_t index)
{
    struct str role = object_label(pod->object, LABEL_ROLE);
    const struct run_container *c = &pod->run.containers[index];

    return (role.len ? !str_is(role, "sync") : object_label(pod->object, LABEL_JOBSET).len > 0) &&
           !c->init && !c->ephemeral && !pod->agent->options.unobserved &&
           !str_is(object_annotation(pod->object, OBSERVE_ANNOTATION), "off");
}

static void pages_path(const struct pod *pod, size_t index, char ret[static PATH_MAX])
{
    const struct run_container *c = &pod->run.containers[index];

    (void)snprintf(ret, PATH_MAX, "%s/c/" STR_FMT "/%u.ranks", pod->folder, STR_ARG(c->name),
                   c->instance);
}

static void hook_path(const struct agent *agent, char ret[static PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s/hook", agent->options.data_dir);
}

int ranks_start(struct agent *agent, struct err *err)
{
    char path[PATH_MAX];
    char file[PATH_MAX + 32];

    hook_path(agent, path);
    (void)snprintf(file, sizeof(file), "%s/sitecustomize.py", path);
    int r = files_make_folder(path, 0755, err);
    return r ? r : files_write(file, str_from(hook_py), 0644, err);
}

int ranks_make(const struct pod *pod, size_t index, struct err *err)
{
    char path[PATH_MAX];

    if (!is_watched(pod, index))
        return 0;
    pages_path(pod, index, path);
    int r = files_make_folder(path, 0777, err);
    if (r == 0 && chmod(path, 01777) < 0) /* whatever the umask: of any user are its processes */
        r = err_set(err, -errno, "%s: %s", path, strerrordesc_np(errno));
    return r;
}

void ranks_folder(const struct pod *pod, size_t index, char *ret, size_t bytes)
{
    char path[PATH_MAX] = PAGES_DIR;

    if (!pod->agent->machine.mount_ns)
        pages_path(pod, index, path);
    (void)snprintf(ret, bytes, "%s", path);
}

void ranks_env(const struct pod *pod, size_t index, struct arena *arena, struct env *env)
{
    bool mounted = pod->agent->machine.mount_ns;
    struct str before = env_get(env, STR("PYTHONPATH"));
    char hook[PATH_MAX] = HOOK_DIR;
    char pages[PATH_MAX];

    if (!is_watched(pod, index))
        return;
    if (!mounted)
        hook_path(pod->agent, hook);
    ranks_folder(pod, index, pages, sizeof(pages));
    env_set(arena, env, STR(RANK_PAGE_ENV), str_dup(arena, str_from(pages)));
    env_set(arena, env, STR("PYTHONPATH"),
            str_printf(arena, "%s%s" STR_FMT, hook, before.len ? ":" : "", STR_ARG(before)));
}

void ranks_mounts(const struct pod *pod, size_t index, struct buf *records)
{
    char path[PATH_MAX];

    if (!is_watched(pod, index))
        return;
    hook_path(pod->agent, path);
    record_mount(records, &(struct record_mount){.type = "bind",
                                                 .source = str_from(path),
                                                 .target = STR(HOOK_DIR),
                                                 .options = STR("ro")});
    pages_path(pod, index, path);
    record_mount(records, &(struct record_mount){
                              .type = "bind", .source = str_from(path), .target = STR(PAGES_DIR)});
}

/* ---- telling ---- */

/* A pod may be gone before the answer comes. */
struct telling {
    struct agent *agent;
    char uid[64];
};

static void done_tell(void *user, const struct api_result *result)
{
    struct telling *telling = user;
    struct pod *pod = map_get(&telling->agent->pods, str_from(telling->uid));

    if (pod && pod->ranks) {
        pod->ranks->under_way = false;
        if (result->code)
            observed_lost(&pod->ranks->seen);
    }
    mem_free(telling);
}

static void ranks_send(struct pod *pod, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct ranks *ranks = pod->ranks;
    struct str text = observed_tell(&ranks->seen, now_ms, pod->gpus, pod->gpu_count, &arena);

    if (!text.len)
        return;
    struct json *body = json_new_object(&arena);
    json_add_str(&arena, json_make_path(&arena, body, "metadata.annotations"), RANKS_ANNOTATION,
                 text);
    struct telling *telling = MEM_NEW(struct telling);
    telling->agent = pod->agent;
    (void)snprintf(telling->uid, sizeof(telling->uid), STR_FMT, STR_ARG(pod->uid));
    ranks->under_way = true;
    agent_call(pod->agent,
               &(struct api_request){.verb = API_PATCH,
                                     .kind = &kind_pod,
                                     .ns = pod->ns,
                                     .name = pod->name,
                                     .uid = pod->uid,
                                     .patch = API_PATCH_MERGE,
                                     .body = json_text(&arena, body)},
               done_tell, telling);
}

static void ranks_tell(struct pod *pod, int64_t now_ms)
{
    if (!pod->ranks->under_way && !pod->object->deleted_ms &&
        observed_is_due(&pod->ranks->seen, now_ms))
        ranks_send(pod, now_ms);
}

/* ---- turns ---- */

/* The next container may be made from then on (agent/standby.h). */
static void note_steps(struct pod *pod)
{
    struct ranks *ranks = pod->ranks;
    bool before = ranks->stepped;

    for (size_t i = 0; i < ranks->seen.count; i++)
        ranks->stepped = ranks->stepped || ranks->seen.items[i].page.steps > 0;
    if (ranks->stepped && !before && pod->run.stays)
        pod_mark(pod);
}

bool ranks_have_stepped(const struct pod *pod)
{
    const struct ranks *ranks = pod->ranks;

    return ranks && ranks->stepped &&
           ranks->instance == pod->run.containers[ranks->container].instance;
}

static void pod_look(struct pod *pod, struct observed_look *look)
{
    struct ranks *ranks = pod->ranks;
    const struct run_container *c = &pod->run.containers[ranks->container];
    char path[PATH_MAX];
    bool said;

    if (c->instance != ranks->instance) {
        observed_clear(&ranks->seen);
        ranks->instance = c->instance;
        ranks->stepped = false;
    }
    if (pod->suspend.begun_ms) { /* it stands still: nothing of it is silence */
        ranks->seen.changed = ranks->seen.changed || ranks->seen.count;
        ranks->seen.count = 0;
        ranks->seen.awake_ms = look->now_ms;
        ranks_tell(pod, look->now_ms);
        return;
    }
    pages_path(pod, ranks->container, path);
    bool greedy = observed_look(&ranks->seen, look, path, c->pid, &said);
    if (said) /* in many turns nothing is looked at, which says nothing */
        ranks->greedy = greedy;
    note_steps(pod);
    ranks_tell(pod, look->now_ms);
}

/* Whether any is to be looked at in later turns. */
static bool pods_look(struct agent *agent, struct observed_look *look, bool greedy)
{
    bool any = false;

    MAP_FOREACH(&agent->pods, entry) {
        struct pod *pod = entry->value;

        if (!pod->ranks || pod->stage != POD_RUNNING)
            continue;
        any = true;
        if (pod->run.containers[pod->ranks->container].state != RUN_RUNNING ||
            pod->ranks->turn == agent->ranks_turns || (pod->ranks->greedy && !greedy))
            continue;
        pod->ranks->turn = agent->ranks_turns;
        pod_look(pod, look);
    }
    return any;
}

/* ---- where they are ---- */

/* In their programs: those that are silent, every so often, so many at a time. It is read from their
 * memory, which may keep the reader waiting (stacks/process.h): in a worker. */
#define LINES_TURNS  10
#define LINES_MAX    64
#define LINES_MS_MAX 2000 /* for all of them: one takes some milliseconds */

struct lines {
    struct agent_work work; /* first */
    struct lines_item {
        int64_t pid;
        int64_t born;
        bool read;
        struct process_line line;
    } items[LINES_MAX];
    size_t count;
};

static void lines_read(struct agent_work *work)
{
    struct lines *lines = (struct lines *)work;
    struct patience patience = {.until_ms = patience_now_ms() + LINES_MS_MAX};

    for (size_t i = 0; i < lines->count; i++)
        lines->items[i].read = process_line(lines->items[i].pid, &patience, &lines->items[i].line);
}

static void lines_told(struct agent_work *work)
{
    const struct lines *lines = (const struct lines *)work;
    int64_t now_ms = agent_now_ms();

    work->agent->lines_asked = false;
    MAP_FOREACH(&work->agent->pods, entry) {
        struct pod *pod = entry->value;

        for (size_t i = 0; pod->ranks && i < lines->count; i++)
            if (lines->items[i].read)
                observed_line(
                    &pod->ranks->seen, lines->items[i].pid, lines->items[i].born,
                    &(struct observed_place){lines->items[i].line.stack, lines->items[i].line.text},
                    now_ms);
    }
}

static void lines_ask(struct agent *agent)
{
    struct lines *lines = NULL;
    size_t seen = 0;

    if (agent->lines_asked || agent->ranks_turns % LINES_TURNS)
        return;
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;

        for (size_t i = 0; pod->ranks && i < pod->ranks->seen.count; i++) {
            const struct observed_rank *rank = &pod->ranks->seen.items[i];

            if (!rank->pid || rank->over || !pace_wants_line(&rank->pace) ||
                seen++ < agent->lines_after || (lines && lines->count == LINES_MAX))
                continue;
            lines = lines ? lines : MEM_NEW(struct lines);
            lines->items[lines->count++] =
                (struct lines_item){.pid = rank->pid, .born = rank->born};
        }
    }
    agent->lines_after = lines && lines->count == LINES_MAX ? agent->lines_after + LINES_MAX : 0;
    if (!lines)
        return;
    agent->lines_asked = true;
    lines->work.run = lines_read;
    lines->work.done = lines_told;
    agent_work(agent, &lines->work);
}

void ranks_look(struct agent *agent, int64_t now_ms)
{
    struct observed_look look = observed_look_begin(now_ms, agent->ranks_turns++);

    (void)pods_look(agent, &look, false);
    if (!pods_look(agent, &look, true))
        timer_cancel(agent->ranks);
    observed_look_end(&look);
    lines_ask(agent);
}

static void ranks_turn(void *user)
{
    ranks_look(user, agent_now_ms());
}

void ranks_begin(struct pod *pod)
{
    struct agent *agent = pod->agent;

    for (size_t i = 0; !pod->ranks && i < pod->run.count; i++)
        if (is_watched(pod, i) && pod->run.containers[i].state == RUN_RUNNING) {
            pod->ranks = MEM_NEW(struct ranks);
            pod->ranks->container = i;
            pod->ranks->instance = pod->run.containers[i].instance;
        }
    if (pod->ranks && !timer_is_set(agent->ranks))
        timer_every(agent->ranks, OBSERVED_LOOK_MS, OBSERVED_LOOK_MS, ranks_turn);
}

/* What they did last is not looked at: that they have ended is the container's to say. */
void ranks_end(struct pod *pod, size_t index)
{
    struct ranks *ranks = pod->ranks;
    int64_t now_ms = agent_now_ms();
    char path[PATH_MAX];

    if (!ranks || ranks->container != index ||
        pod->run.containers[index].instance != ranks->instance)
        return;
    pages_path(pod, index, path);
    observed_last(&ranks->seen, path, now_ms);
    if (ranks->seen.count)
        ranks_send(pod, now_ms);
}

void ranks_free(struct pod *pod)
{
    if (pod->ranks)
        observed_done(&pod->ranks->seen);
    mem_free(pod->ranks);
    pod->ranks = NULL;
}
