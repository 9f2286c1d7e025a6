#include "agent/kept.h"

#include "agent/core.h"
#include "agent/pod.h"
#include "agent/recover.h"
#include "agent/results_kept.h"
#include "agent/trash.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/mem.h"
#include "base/str.h"
#include "exec/event.h"
#include "tool/files.h"
#include "tool/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GENERATION_LABEL "torchrun.ai/generation"
#define PRUNE_EVERY      64 /* burials: looking through all that is kept takes a while */

struct burial {
    struct agent_work work; /* first */
    bool prune;
    struct results_burial results;
    struct results_said said[RESULTS_KEPT_SAID_MAX];
    size_t said_count;
    char folder[POD_PATH_BYTES]; /* of the pod */
    char logs[POD_PATH_BYTES];   /* of all that is kept; of a mere look: that of results */
    char name[768];              /* of what is kept of this pod */
};

/* ---- in the worker thread: nothing but the file system ---- */

static bool name_is_log(const char *name)
{
    const char *dot = strstr(name, ".log");
    return dot && (dot[4] == '\0' || dot[4] == '.');
}

/* Log files of one container that are not empty. */
static void move_logs(const struct burial *burial, const char *container)
{
    char from[PATH_MAX], to[PATH_MAX], target[PATH_MAX];
    bool made = false;
    (void)snprintf(from, sizeof(from), "%s/c/%s", burial->folder, container);
    (void)snprintf(to, sizeof(to), "%s/%s/%s", burial->logs, burial->name, container);
    DIR *folder = opendir(from);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct stat st;
        if (!name_is_log(e->d_name) ||
            fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode) || st.st_size == 0)
            continue;
        made = made || files_make_folder(to, 0700, NULL) == 0;
        int n = snprintf(target, sizeof(target), "%s/%s", to, e->d_name);
        if (n > 0 && (size_t)n < sizeof(target) &&
            renameat(dirfd(folder), e->d_name, AT_FDCWD, target) < 0)
            break;
    }
    if (folder)
        closedir(folder);
}

static void look_through(struct burial *burial, const char *all)
{
    burial->said_count = results_kept_prune(
        all,
        &(struct results_kept_limits){.now_ms = agent_now_ms(), .bytes = RESULTS_KEPT_BYTES_MAX},
        burial->said, burial->work.trash);
}

static void burial_run(struct agent_work *work)
{
    struct burial *burial = (struct burial *)work;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/c", burial->folder);
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));)
        if (e->d_name[0] != '.')
            move_logs(burial, e->d_name);
    if (folder)
        closedir(folder);
    results_burial_run(&burial->results, work->trash);
    if (burial->results.from[0] && !burial->results.claim)
        look_through(burial, burial->results.all);
    trash_put(work->trash, burial->folder);
    if (burial->prune)
        kept_prune(burial->logs, &(struct kept_limits){.since_ms = agent_now_ms() - KEPT_AGE_MS,
                                                       .pods = KEPT_PODS_MAX,
                                                       .bytes = KEPT_BYTES_MAX});
    (void)trash_empty(work->trash);
}

/* ---- in the loop ---- */

/* "namespace_pod_generation_uid": an event of the job, which need not exist any more. */
static void said_tell(struct agent *agent, const struct results_said *said)
{
    struct str rest = str_from(said->name);
    struct str ns, pod, generation;
    char words[512];

    if (!str_cut(&rest, '_', &ns) || !str_cut(&rest, '_', &pod) ||
        !str_cut(&rest, '_', &generation))
        return;
    struct str job = pod;
    for (size_t i = 0; i + 8 < pod.len; i++)
        if (str_starts(str_sub(pod, i, pod.len), STR("-worker-")))
            job = str_sub(pod, 0, i);
    (void)snprintf(words, sizeof(words),
                   "what pod " STR_FMT " of generation " STR_FMT
                   " wrote (%llu MiB) is removed in a day: %s. `pull " STR_FMT
                   " --generation " STR_FMT "` copies it",
                   STR_ARG(pod), STR_ARG(generation), (unsigned long long)(said->bytes >> 20),
                   said->too_much ? "more than 20 GiB are kept in its namespace"
                                  : "it is kept for 7 days",
                   STR_ARG(job), STR_ARG(generation));
    log_warn(agent->log, "results.going", LOG_STR("namespace", ns), LOG_STR("pod", pod),
             LOG_STR("generation", generation));
    event_send(agent->api, &(struct event){.kind = &kind_torchrunjob,
                                           .ns = ns,
                                           .name = job,
                                           .uid = rest,
                                           .reason = STR("ResultsGoing"),
                                           .message = str_from(words),
                                           .warning = true,
                                           .component = "muster-agent",
                                           .now_ms = agent_now_ms()});
}

static void burial_done(struct agent_work *work)
{
    struct burial *burial = (struct burial *)work;

    work->agent->burials_open -= burial->results.from[0] != '\0';
    for (size_t i = 0; i < burial->said_count && !work->agent->stopping; i++)
        said_tell(work->agent, &burial->said[i]);
}

static void look_run(struct agent_work *work)
{
    struct burial *burial = (struct burial *)work;

    look_through(burial, burial->logs);
    recover_prune_aside(work->agent->options.data_dir, agent_now_ms(), work->trash);
    (void)trash_empty(work->trash);
}

void kept_beat(struct agent *agent)
{
    int64_t now_ms = agent_now_ms();

    if (agent->results_look_ms && now_ms - agent->results_look_ms < RESULTS_KEPT_LOOK_MS)
        return;
    agent->results_look_ms = now_ms;
    struct burial *burial = MEM_NEW(struct burial);
    burial->work.run = look_run;
    burial->work.done = burial_done;
    (void)snprintf(burial->logs, sizeof(burial->logs), "%s/" RESULTS_KEPT_FOLDER,
                   agent->options.data_dir);
    agent_work(agent, &burial->work);
}

static void on_job_looked(void *user, const struct api_result *result)
{
    struct burial *burial = user;

    burial->results.job_is_there = results_job_is_there(&burial->results, result);
    burial->results.strip =
        burial->results.claim && results_claim_is_done(&burial->results, result);
    agent_work(burial->work.agent, &burial->work);
}

static void strip_run(struct agent_work *work)
{
    results_burial_run(&((struct burial *)work)->results, work->trash);
}

static void look_for_job(const struct pod *pod, struct burial *burial)
{
    burial->work.agent = pod->agent;
    agent_call(pod->agent,
               &(struct api_request){.verb = API_GET,
                                     .kind = &kind_torchrunjob,
                                     .ns = pod->ns,
                                     .name = str_from(burial->results.job)},
               on_job_looked, burial);
}

void kept_strip(const struct pod *pod)
{
    struct burial *burial = MEM_NEW(struct burial);

    burial->work.run = strip_run;
    if (pod->deleted || pod->object->deleted_ms || !results_strip_prepare(pod, &burial->results))
        mem_free(burial);
    else if (burial->results.claim)
        look_for_job(pod, burial);
    else
        agent_work(pod->agent, &burial->work);
}

void kept_bury(const struct pod *pod)
{
    struct agent *agent = pod->agent;
    struct burial *burial = MEM_NEW(struct burial);
    struct str generation = object_label(pod->object, GENERATION_LABEL);
    burial->work.run = burial_run;
    burial->work.done = burial_done;
    burial->prune = agent->burials++ % PRUNE_EVERY == 0;
    memcpy(burial->folder, pod->folder, sizeof(burial->folder));
    (void)snprintf(burial->logs, sizeof(burial->logs), "%s/logs", agent->options.data_dir);
    (void)snprintf(burial->name, sizeof(burial->name), STR_FMT "_" STR_FMT "_" STR_FMT "_" STR_FMT,
                   STR_ARG(pod->ns), STR_ARG(pod->name), STR_ARG(generation), STR_ARG(pod->uid));
    if (!results_burial_prepare(pod, &burial->results)) {
        agent_work(agent, &burial->work);
        return;
    }
    agent->burials_open++;
    look_for_job(pod, burial);
}

/* "namespace_pod_generation_uid" of the one that is meant? */
static bool name_is_meant(struct str name, const struct kept_request *request)
{
    struct str ns, pod, generation;
    return str_cut(&name, '_', &ns) && str_cut(&name, '_', &pod) &&
           str_cut(&name, '_', &generation) && str_eq(ns, request->ns) &&
           str_eq(pod, request->pod) &&
           (!request->generation.len || str_eq(generation, request->generation));
}

/* The newest entry of a folder that `meant` wants; empty: none. */
static void kept_newest(const char *path, const struct kept_request *request, char out[static 768])
{
    DIR *folder = opendir(path);
    struct timespec best = {0};
    out[0] = '\0';
    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct stat st;
        if (e->d_name[0] == '.' || !name_is_meant(str_from(e->d_name), request) ||
            fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        bool later = st.st_mtim.tv_sec > best.tv_sec ||
                     (st.st_mtim.tv_sec == best.tv_sec && st.st_mtim.tv_nsec > best.tv_nsec);
        if (later) {
            best = st.st_mtim;
            (void)snprintf(out, 768, "%s", e->d_name);
        }
    }
    if (folder)
        closedir(folder);
}

static void first_container(const char *path, struct str wanted, char out[static 256])
{
    DIR *folder = opendir(path);
    out[0] = '\0';
    for (struct dirent *e; folder && (e = readdir(folder));) {
        bool meant = wanted.len ? str_is(wanted, e->d_name) : e->d_name[0] != '.';
        if (meant && (!out[0] || strcmp(e->d_name, out) < 0))
            (void)snprintf(out, 256, "%s", e->d_name);
    }
    if (folder)
        closedir(folder);
}

bool kept_find(const struct agent *agent,
               const struct kept_request *request,
               char *ret_folder,
               size_t folder_size,
               unsigned *ret_instance)
{
    char path[PATH_MAX], name[768], container[256];
    int highest = -1;
    (void)snprintf(path, sizeof(path), "%s/logs", agent->options.data_dir);
    kept_newest(path, request, name);
    if (!name[0])
        return false;
    int n = snprintf(path, sizeof(path), "%s/logs/%s", agent->options.data_dir, name);
    if (n < 0 || (size_t)n >= sizeof(path) ||
        !agent_is_since(path, agent_namespace_ms(agent, request->ns)))
        return false;
    first_container(path, request->container, container);
    if (!container[0])
        return false;
    n = snprintf(ret_folder, folder_size, "%s/%s", path, container);
    if (n < 0 || (size_t)n >= folder_size)
        return false;
    DIR *folder = opendir(ret_folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        unsigned number;
        char end;
        if (sscanf(e->d_name, "%u.lo%c", &number, &end) == 2 && end == 'g' && (int)number > highest)
            highest = (int)number;
    }
    if (folder)
        closedir(folder);
    highest -= request->previous ? 1 : 0;
    *ret_instance = highest < 0 ? 0 : (unsigned)highest;
    return highest >= 0;
}
