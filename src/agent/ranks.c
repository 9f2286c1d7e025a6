#include "agent/ranks.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/pod.h"
#include "agent/processes.h"
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
#include "base/vec.h"
#include "shim/record.h"
#include "tool/files.h"
#include "tool/timer.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Where they are in a container. */
#define HOOK_DIR  "/.muster-watch/hook"
#define PAGES_DIR "/.muster-watch/ranks"
/* Which pods are trained in: those that the job engine makes, but for the sync pod, and those of JobSets. */
#define LABEL_ROLE   "torchrun.ai/role"
#define LABEL_JOBSET "jobset.sigs.k8s.io/jobset-name"

#define PAGES_LOOKED_MAX 1024 /* files in a folder that anybody in the pod may fill */
#define STARTING_TURNS   5    /* one that has made no step yet is looked at in every fifth turn */
#define INNER_OPENS_MAX  2000 /* files of processes opened in a turn, for all pods: their numbers */
#define WAIT_OPENS_MAX   4096 /* and what their threads wait in: eight ranks with many threads */
#define GREEDY_PART      4    /* a pod that took a quarter of it comes last in the next turn */
#define BURST_MAX        2    /* a pod that changes all the time is told of every 2, 4, 8 s */

extern const char hook_py[]; /* tools/embed_text.c made it of hook.py */

struct ranks_one {
    struct pace pace;
    uint64_t started_ns;
    int64_t inner_pid;
    int64_t pid; /* out here; 0: not found yet */
    int64_t born;
    struct rank_page page;
    bool over; /* of an earlier gang in this container: nothing is said of it */
};

struct ranks {
    struct ranks_one items[RANKS_MAX];
    size_t count;
    size_t container;
    unsigned instance;
    int64_t awake_ms;   /* the pod was suspended until then; 0: never */
    unsigned long turn; /* the last one in which it was looked at */
    bool greedy;
    bool stepped; /* one of them has made a step */
    bool changed;
    bool urgent;
    bool under_way;
    char *sent; /* the last one; on the heap */
    int64_t told_ms;
    unsigned burst;
};

/* ---- what containers get ---- */

static bool is_watched(const struct pod *pod, size_t index)
{
    struct str role = object_label(pod->object, LABEL_ROLE);
    const struct run_container *c = &pod->run.containers[index];

    return (role.len ? !str_is(role, "sync") : object_label(pod->object, LABEL_JOBSET).len > 0) &&
           !c->init && !c->ephemeral &&
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

/* ---- pages ---- */

static struct ranks_one *one_of(struct ranks *ranks, const struct rank_page *page)
{
    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].pace.report.rank == (int64_t)page->rank)
            return &ranks->items[i];
    if (ranks->count == RANKS_MAX)
        return NULL;
    struct ranks_one *one = &ranks->items[ranks->count++];
    *one = (struct ranks_one){.pace = {.report = {.rank = (int64_t)page->rank}}};
    return one;
}

/* A rank that was started again has a page of its own: the newest is the one that counts. */
static void page_take(struct ranks *ranks, const struct rank_page *page)
{
    struct ranks_one *one;

    if (page->magic != RANK_PAGE_MAGIC || page->rank > INT32_MAX || page->pid > INT32_MAX ||
        page->steps > INT64_MAX || page->phase >= RANK_PHASE_COUNT || !page->started_ns ||
        page->started_ns > INT64_MAX || page->step_ns > INT64_MAX || page->phase_ns > INT64_MAX ||
        page->first_ns > INT64_MAX || page->save_ns > INT64_MAX || page->mark > INT64_MAX ||
        page->resumed > INT64_MAX || page->loaded_ms > INT64_MAX || page->own_ns > INT64_MAX ||
        page->late_ns > INT64_MAX)
        return;
    one = one_of(ranks, page);
    if (!one || one->started_ns > page->started_ns)
        return;
    if (one->started_ns != page->started_ns) {
        one->pace =
            (struct pace){.report = {.rank = (int64_t)page->rank, .pid = (int64_t)page->pid}};
        one->started_ns = page->started_ns;
        one->inner_pid = (int64_t)page->pid;
        one->pid = 0;
        one->over = false;
        ranks->changed = true;
    }
    one->page = *page;
}

static void pages_read(struct ranks *ranks, const char *path)
{
    DIR *folder = opendir(path);
    size_t looked = 0;

    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) && looked < PAGES_LOOKED_MAX; looked++) {
        struct rank_page page = {0};
        struct stat info;
        int fd =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
            continue;
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
            pread(fd, &page, sizeof(page), 0) == sizeof(page))
            page_take(ranks, &page);
        close(fd);
    }
    closedir(folder);
}

/* ---- processes ---- */

struct look {
    int64_t now_ms;
    int64_t clock_ns;
    bool fifth;
    bool scanned;
    size_t inner_opens; /* left in this turn */
    size_t wait_opens;
    struct processes all;
};

/* The process that wrote the page: below the container's own, with that number in there. NULL: there
 * is none, or *ret_unknown: too much would have to be opened for it in this turn. */
static const struct process *one_process(struct ranks_one *one,
                                         struct look *look,
                                         int64_t container_pid,
                                         bool *ret_unknown)
{
    struct processes *all = &look->all;
    const struct process *known = one->pid ? process_find(all, one->pid) : NULL;

    *ret_unknown = false;
    if (known && known->born == one->born)
        return known;
    one->pid = 0;
    for (size_t i = 0; container_pid > 0 && i < all->count; i++) {
        struct process *process = &all->items[i];

        if ((process->inner && process->inner != one->inner_pid) ||
            !process_is_below(all, process, container_pid))
            continue;
        int64_t inner = process_inner_pid(process, &look->inner_opens);
        *ret_unknown = *ret_unknown || !inner;
        if (inner != one->inner_pid)
            continue;
        one->pid = process->pid;
        one->born = process->born;
        *ret_unknown = false;
        return process;
    }
    return NULL;
}

/* False: it could not be looked at in this turn. */
static bool process_sample(struct ranks_one *one,
                           struct look *look,
                           int64_t container_pid,
                           struct pace_sample *ret)
{
    const struct processes *all = &look->all;
    bool unknown;
    const struct process *own = one_process(one, look, container_pid, &unknown);
    size_t children = 0;

    ret->looked = true;
    ret->there = own != NULL;
    if (!own)
        return !unknown;
    ret->state = own->state;
    for (size_t i = 0; i < all->count; i++) {
        const struct process *process = &all->items[i];

        if (!process_is_below(all, process, own->pid))
            continue;
        children += process != own;
        ret->cpu_ms += process->cpu_ms;
        ret->working = ret->working || process->state == 'R' || process->state == 'D';
    }
    ret->locked =
        process_wait(own->pid, ret->wait, sizeof(ret->wait), &look->wait_opens) && !children;
    return look->wait_opens > 0;
}

/* ---- samples ---- */

/* A moment of the page's clock; what lies in the future is now. */
static int64_t page_moment(const struct look *look, uint64_t ns)
{
    int64_t ago_ns = look->clock_ns - (int64_t)ns;

    return ns ? look->now_ms - (ago_ns > 0 ? ago_ns / 1000000 : 0) : 0;
}

/* What only grows, and changes nothing about how it gets on. */
static void one_count(struct ranks_one *one, const struct look *look)
{
    struct rank_report *report = &one->pace.report;
    const struct rank_page *page = &one->page;

    if (!report->began_ms) /* once: two clocks are compared here, and it tells runs apart */
        report->began_ms = page_moment(look, page->started_ns);
    if (!report->first_ms)
        report->first_ms = page_moment(look, page->first_ns);
    report->saving_ms = (int64_t)(page->save_ns / 1000000);
    report->mark = (int64_t)page->mark;
    report->resumed = (int64_t)page->resumed;
    report->loaded_ms = (int64_t)page->loaded_ms;
    report->late_ms = page_moment(look, page->late_ns);
}

static void one_look(struct ranks *ranks, struct ranks_one *one, struct look *look, int64_t pid)
{
    struct pace_sample sample = {.now_ms = look->now_ms,
                                 .steps = one->page.steps,
                                 .last_ms = page_moment(look, one->page.step_ns),
                                 .started_ms = page_moment(look, one->page.started_ns),
                                 .phase = (enum rank_phase)one->page.phase,
                                 .own_us = (int64_t)one->page.own_ns / 1000};

    one_count(one, look);
    if (sample.last_ms && sample.last_ms < ranks->awake_ms)
        sample.last_ms = ranks->awake_ms;
    if (sample.steps ? pace_is_silent(&one->pace, &sample) : look->fifth) {
        if (!look->scanned)
            processes_read(&look->all);
        look->scanned = true;
        if (!process_sample(one, look, pid, &sample))
            return; /* what was said of it stays; the next turn may tell more */
    }
    if (pace_take(&one->pace, &sample)) {
        enum rank_act act = one->pace.report.act;

        ranks->changed = true;
        ranks->urgent = ranks->urgent || act == RANK_IDLE || act == RANK_LOCKED ||
                        act == RANK_STOPPED || act == RANK_ZOMBIE;
    }
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
        pod->ranks->changed = pod->ranks->changed || result->code;
        if (result->code && pod->ranks->sent)
            pod->ranks->sent[0] = '\0';
    }
    mem_free(telling);
}

static bool is_due(const struct ranks *ranks, int64_t now_ms)
{
    int64_t waited_ms = now_ms - ranks->told_ms;

    if (!ranks->changed)
        return ranks->count && waited_ms >= RANKS_REFRESH_MS;
    return waited_ms >= (ranks->urgent ? RANKS_TELL_MS : (int64_t)RANKS_TELL_MS << ranks->burst);
}

static void ranks_send(struct pod *pod, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct ranks *ranks = pod->ranks;
    struct rank_report *reports = ARENA_ARRAY(&arena, struct rank_report, RANKS_MAX);

    size_t count = 0;
    for (size_t i = 0; i < ranks->count; i++) {
        uint64_t local = ranks->items[i].page.local_rank;

        if (ranks->items[i].over)
            continue;
        reports[count] = ranks->items[i].pace.report;
        if (pod->gpu_count == 1) /* its ranks share it */
            local = 0;
        reports[count++].gpu = local < pod->gpu_count ? pod->gpus[local] + 1 : 0;
    }
    struct str text = ranks_text(&arena, reports, count);
    bool calm = now_ms - ranks->told_ms >= RANKS_REFRESH_MS;
    ranks->burst = calm ? 0 : ranks->burst < BURST_MAX ? ranks->burst + 1 : BURST_MAX;
    ranks->changed = ranks->urgent = false;
    ranks->told_ms = now_ms;
    if (ranks->sent && str_is(text, ranks->sent))
        return;
    mem_free(ranks->sent);
    ranks->sent = mem_alloc(text.len + 1);
    memcpy(ranks->sent, text.p, text.len);
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
    if (!pod->ranks->under_way && !pod->object->deleted_ms && is_due(pod->ranks, now_ms))
        ranks_send(pod, now_ms);
}

/* ---- turns ---- */

static struct look look_begin(int64_t now_ms)
{
    struct look look = {
        .now_ms = now_ms, .inner_opens = INNER_OPENS_MAX, .wait_opens = WAIT_OPENS_MAX};
    struct timespec clock;

    (void)clock_gettime(CLOCK_MONOTONIC, &clock);
    look.clock_ns = (int64_t)clock.tv_sec * 1000000000 + clock.tv_nsec;
    return look;
}

/* torchrun may start its ranks anew with other numbers: whoever ended before the newest began is not
 * missed by its gang. */
static void forget_earlier(struct ranks *ranks)
{
    uint64_t newest_ns = 0;

    for (size_t i = 0; i < ranks->count; i++)
        if (ranks->items[i].started_ns > newest_ns)
            newest_ns = ranks->items[i].started_ns;
    for (size_t i = 0; i < ranks->count; i++) {
        struct ranks_one *one = &ranks->items[i];

        if (!one->over && one->pace.report.act == RANK_GONE && one->page.step_ns < newest_ns &&
            one->page.phase_ns < newest_ns)
            one->over = ranks->changed = true;
    }
}

/* The next container may be made from then on (agent/standby.h). */
static void note_steps(struct pod *pod)
{
    struct ranks *ranks = pod->ranks;
    bool before = ranks->stepped;

    for (size_t i = 0; i < ranks->count; i++)
        ranks->stepped = ranks->stepped || ranks->items[i].page.steps > 0;
    if (ranks->stepped && !before && pod->run.stays)
        pod_mark(pod);
}

bool ranks_have_stepped(const struct pod *pod)
{
    const struct ranks *ranks = pod->ranks;

    return ranks && ranks->stepped &&
           ranks->instance == pod->run.containers[ranks->container].instance;
}

static void pod_look(struct pod *pod, struct look *look)
{
    struct ranks *ranks = pod->ranks;
    const struct run_container *c = &pod->run.containers[ranks->container];
    char path[PATH_MAX];

    if (c->instance != ranks->instance) {
        ranks->count = 0;
        ranks->instance = c->instance;
        ranks->burst = 0;
        ranks->stepped = false;
        if (ranks->sent)
            ranks->sent[0] = '\0';
    }
    if (pod->suspend.begun_ms) { /* it stands still: nothing of it is silence */
        ranks->changed = ranks->changed || ranks->count;
        ranks->count = 0;
        ranks->awake_ms = look->now_ms;
        ranks_tell(pod, look->now_ms);
        return;
    }
    pages_path(pod, ranks->container, path);
    pages_read(ranks, path);
    size_t inner_opens = look->inner_opens, wait_opens = look->wait_opens;
    for (size_t i = 0; i < ranks->count; i++)
        if (!ranks->items[i].over)
            one_look(ranks, &ranks->items[i], look, c->pid);
    inner_opens -= look->inner_opens;
    wait_opens -= look->wait_opens;
    if (inner_opens || wait_opens) /* in many turns nothing is looked at, which says nothing */
        ranks->greedy = inner_opens >= INNER_OPENS_MAX / GREEDY_PART ||
                        wait_opens >= WAIT_OPENS_MAX / GREEDY_PART;
    forget_earlier(ranks);
    note_steps(pod);
    ranks_tell(pod, look->now_ms);
}

/* Whether any is to be looked at in later turns. */
static bool pods_look(struct agent *agent, struct look *look, bool greedy)
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

void ranks_look(struct agent *agent, int64_t now_ms)
{
    struct look look = look_begin(now_ms);

    look.fifth = agent->ranks_turns++ % STARTING_TURNS == 0;
    (void)pods_look(agent, &look, false);
    if (!pods_look(agent, &look, true))
        timer_cancel(agent->ranks);
    VEC_DONE(&look.all);
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
        timer_every(agent->ranks, RANKS_LOOK_MS, RANKS_LOOK_MS, ranks_turn);
}

/* What they did last is not looked at: that they have ended is the container's to say. */
void ranks_end(struct pod *pod, size_t index)
{
    struct ranks *ranks = pod->ranks;
    struct look look = look_begin(agent_now_ms());
    char path[PATH_MAX];

    if (!ranks || ranks->container != index ||
        pod->run.containers[index].instance != ranks->instance)
        return;
    pages_path(pod, index, path);
    pages_read(ranks, path);
    for (size_t i = 0; i < ranks->count; i++) {
        struct ranks_one *one = &ranks->items[i];

        one_count(one, &look);
        one->pace.report.steps = (int64_t)one->page.steps;
        one->pace.report.last_ms = page_moment(&look, one->page.step_ns);
    }
    if (ranks->count)
        ranks_send(pod, look.now_ms);
}

void ranks_free(struct pod *pod)
{
    if (pod->ranks)
        mem_free(pod->ranks->sent);
    mem_free(pod->ranks);
    pod->ranks = NULL;
}
