#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "plugin/array.h"
#include "plugin/home.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/results.h"
#include "workspace/disk.h"
#include "workspace/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* pull: copy what a job wrote into its folder to this machine. First a list: nothing is written
 * until it is known that nothing here is in the way and that there is room. */
#define NAMED_MAX 10 /* files that a refusal names */

struct pull_values {
    struct common_values common;
    const char *to;
    bool all;
    bool force;
    bool home;
    int64_t rank;
    int64_t generation;
};

static const struct option pull_options[] = {
    COMMON_OPTIONS,
    {"to", 0, OPTION_STR, offsetof(struct pull_values, to), .value = "DIR",
     .help = "folder to copy to (default: one with the job's name)", .flag_only = true},
    {"all", 0, OPTION_BOOL, offsetof(struct pull_values, all),
     .help = "copy from every pod, into rank-N folders", .flag_only = true},
    {"home", 0, OPTION_BOOL, offsetof(struct pull_values, home),
     .help = "copy to the folder that the job came from, as submit does at its end: files that "
             "changed there since stay as they are",
     .flag_only = true},
    {"rank", 'r', OPTION_I64, offsetof(struct pull_values, rank), .fallback = "-1", .min = -1,
     .max = 1000000, .value = "N",
     .help = "copy from the pod of this rank (default: the first pod; ranks of one pod share its "
             "folder)",
     .flag_only = true},
    {"generation", 0, OPTION_I64, offsetof(struct pull_values, generation), .fallback = "-1",
     .min = -1, .max = 1000000, .value = "N",
     .help = "copy what the first pod of an earlier generation wrote (default: of the newest)",
     .flag_only = true},
    {"force", 0, OPTION_BOOL, offsetof(struct pull_values, force),
     .help = "replace files that exist here", .flag_only = true},
    {0},
};

/* What is asked for: a job, where it goes to, and what of its folder. */
struct pull_source {
    const char *job;
    const char *to;
    struct str path;
};

/* One pod's part of the work. */
struct part {
    const struct object *pod;
    const struct results_kept *kept; /* instead of a pod that is there */
    const char *to;
    struct result_list list;
};

static size_t count_in_the_way(struct session *session, const struct part *part, size_t named)
{
    _cleanup_(disk_closep) int fd = open(part->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t count = 0;

    for (size_t i = 0; fd >= 0 && i < part->list.files.count; i++) {
        struct str path = part->list.files.items[i].path;

        if (results_exists(fd, path) && count++ + named < NAMED_MAX)
            session_say(session, "  %s/%s", part->to, results_name(session, path));
    }
    return count;
}

static int check_in_the_way(struct session *session,
                            const struct part *parts,
                            size_t count,
                            struct err *err)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += count_in_the_way(session, &parts[i], found);
    if (!found)
        return 0;
    return err_set(err, -EEXIST,
                   "%zu file%s here already, so nothing was copied; --to DIR copies elsewhere, "
                   "--force replaces",
                   found, found == 1 ? " is" : "s are");
}

static int check_room(const char *to,
                      const struct part *parts,
                      size_t count,
                      uint64_t *ret_room,
                      struct err *err)
{
    char needs[TERM_BYTES_TEXT];
    char has[TERM_BYTES_TEXT];
    char there[4096];
    struct statvfs disk;
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += parts[i].list.bytes;
    (void)snprintf(there, sizeof(there), "%s", to);
    while (statvfs(there, &disk) < 0) { /* what is not there yet is made in what is */
        char *slash = strrchr(there, '/');

        if (slash && slash > there)
            *slash = '\0';
        else
            (void)snprintf(there, sizeof(there), "%s", slash ? "/" : ".");
    }
    *ret_room = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (bytes <= *ret_room)
        return 0;
    return err_set(err, -ENOSPC,
                   "the job wrote %s and %s has room for %s; name a PATH in the job's folder, or "
                   "another place with --to",
                   term_bytes(bytes, needs), to, term_bytes(*ret_room, has));
}

static void tell_words(struct session *session, const struct part *part)
{
    for (size_t i = 0; i < part->list.words.count; i++)
        session_say(session, "left out: %s", results_name(session, part->list.words.items[i]));
}

static int copy(struct session *session,
                const struct part *part,
                struct str path,
                const struct pull_values *v,
                struct err *err)
{
    struct results_sink sink;
    char bytes[TERM_BYTES_TEXT];
    int r = results_sink_open(&sink, part->to, v->force, err);

    if (r == 0)
        r = check_room(part->to, part, 1, &sink.bytes_max, err);
    if (r == 0)
        r = part->kept ? results_read_kept(session, part->kept, path, &sink, err)
                       : results_read(session, part->pod, path, &sink, err);
    results_sink_done(&sink);
    if (r == 0 && sink.cut_count)
        r = err_set(err, -EAGAIN,
                    "%zu files changed while they were copied and are not here; pull again",
                    sink.cut_count);
    if (sink.file_count)
        session_say(session, "%zu file%s (%s) of %s in %s", sink.file_count,
                    sink.file_count == 1 ? "" : "s", term_bytes(sink.bytes, bytes),
                    part->kept ? part->kept->pod : str_c(&session->arena, part->pod->name),
                    part->to);
    return r;
}

static int look(struct session *session,
                struct part *parts,
                size_t count,
                struct str path,
                struct err *err)
{
    size_t files = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        r = parts[i].kept ? results_list_kept(session, parts[i].kept, path, &parts[i].list, err)
                          : results_list(session, parts[i].pod, path, &parts[i].list, err);
        files += parts[i].list.files.count;
        if (r == 0)
            tell_words(session, &parts[i]);
    }
    if (r == 0 && files == 0)
        session_say(session, "the job wrote nothing %s", path.len ? "there" : "into its folder");
    return r;
}

/* Each restart of the gang adds a generation; a pod takes its folder with it, and that of the first
 * one is kept. 1: it is an earlier one. */
static int check_generation(struct session *session,
                            const char *job,
                            const struct pull_values *v,
                            struct err *err)
{
    int64_t current = 0;
    int r = v->generation < 0 ? 0 : kept_generation(session, job, &current, err);

    if (r < 0 || v->generation < 0 || v->generation == current)
        return r;
    if (v->generation > current)
        return err_set(err, -ENOENT, "job %s is only in generation %lld", job, (long long)current);
    if (v->all || v->rank > 0)
        return err_set(
            err, -EINVAL,
            "of generation %lld, which is over, only the folder of the first pod is kept: "
            "it goes with no --all and no --rank",
            (long long)v->generation);
    return 1;
}

static int pull_kept(struct session *session,
                     const struct pull_source *source,
                     const struct pull_values *v,
                     struct part *part,
                     struct err *err)
{
    struct results_kept *kept = ARENA_NEW(&session->arena, struct results_kept);
    _cleanup_(object_unrefp) struct object *job = NULL;
    int r = session_get(session, &kind_torchrunjob, source->job, &job, err);

    if (r < 0)
        return r;
    *kept = (struct results_kept){
        .ns = str_from(session->config.ns),
        .pod = str_printf(&session->arena, "%s-worker-0", source->job).p,
        .folder = STR("/app"),
        .job_uid = str_dup(&session->arena, job->uid),
        .generation = v->generation,
    };
    *part = (struct part){.kept = kept, .to = source->to};
    r = look(session, part, 1, source->path, err);
    if (r == -ENOENT)
        return err_set(
            err, r,
            "of generation %lld of job %s no folder is kept: that of the first pod is, 20 GiB of "
            "the newest, by `muster up` for 7 days and by a cluster while the job has its sync "
            "pod. What it printed is kept: logs %s --generation %lld. What must outlive a restart "
            "belongs into $CHECKPOINT_DIR or a folder given with --write",
            (long long)v->generation, source->job, source->job, (long long)v->generation);
    return r;
}

/* The pods that are meant: all, that of a rank, or the first. */
static int choose_pods(struct session *session,
                       const char *job,
                       const struct pull_values *v,
                       const struct object ***pods,
                       size_t *count,
                       struct err *err)
{
    int r = results_pods(session, job, pods, count, err);

    if (r < 0)
        return r;
    if (*count == 0)
        return err_set(err, -ENOENT,
                       "job %s has no pod, and so no folder: it has not started, or was suspended",
                       job);
    if (v->rank >= 0) {
        size_t found = results_pod_of_rank(&session->arena, *pods, *count, job, v->rank);

        if (found == *count)
            return err_set(err, -ENOENT, "job %s has no pod with rank %lld; see: status %s", job,
                           (long long)v->rank, job);
        *pods += found;
    }
    *count = v->all ? *count : 1;
    return 0;
}

/* What is copied from pods that are there. */
static int pull_pods(struct session *session,
                     const struct pull_source *source,
                     const struct pull_values *v,
                     struct part **ret,
                     size_t *ret_count,
                     struct err *err)
{
    const struct object **pods = NULL;
    size_t count = 0;
    int r = choose_pods(session, source->job, v, &pods, &count, err);

    if (r < 0)
        return r;
    struct part *parts = ARENA_ARRAY(&session->arena, struct part, count);
    for (size_t i = 0; i < count; i++) {
        long long index = (long long)results_index(pods[i], source->job);

        parts[i] = (struct part){.pod = pods[i], .to = source->to};
        if (v->all)
            parts[i].to = str_printf(&session->arena, "%s/rank-%lld", source->to, index).p;
    }
    *ret = parts;
    *ret_count = count;
    return look(session, parts, count, source->path, err);
}

/* What one job wrote. */
static int pull_job(struct session *session,
                    const struct pull_source *source,
                    const struct pull_values *v,
                    struct err *err)
{
    struct part one = {0};
    struct part *parts = &one;
    size_t count = 1;
    uint64_t room;
    int r = check_generation(session, source->job, v, err);

    if (r >= 0)
        r = r ? pull_kept(session, source, v, &one, err)
              : pull_pods(session, source, v, &parts, &count, err);
    if (r == 0 && !v->force)
        r = check_in_the_way(session, parts, count, err);
    if (r == 0)
        r = check_room(source->to, parts, count, &room, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (parts[i].list.files.count)
            r = copy(session, &parts[i], source->path, v, err);
    return r;
}

/* Each job of an array into a folder of its own. One that has no pod has nothing. */
static int pull_array(struct session *session,
                      const char *array,
                      const char *to,
                      struct str path,
                      const struct pull_values *v,
                      struct err *err)
{
    const struct object **jobs = NULL;
    size_t count = 0;
    int r = array_jobs(session, array, &jobs, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++) {
        const char *job = str_c(&session->arena, jobs[i]->name);

        r = pull_job(
            session,
            &(struct pull_source){job, str_printf(&session->arena, "%s/%s", to, job).p, path}, v,
            err);
        if (r == -ENOENT)
            session_say(session, "%s", err->text);
        r = r == -ENOENT ? 0 : r;
    }
    return r;
}

static int pull(struct session *session,
                const struct invocation *invocation,
                const struct pull_values *v,
                struct err *err)
{
    const char *job = job_arg(invocation->args[0]);
    struct str path = invocation->arg_count > 1 ? str_from(invocation->args[1]) : STR("");
    const char *to = v->to ? v->to : job;
    _cleanup_(object_unrefp) struct object *object = NULL;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r < 0)
        return err->http_status == 404 ? err_set(err, r, "job %s does not exist in namespace %s",
                                                 job, session->config.ns)
                                       : r;
    while (path.len && path.p[path.len - 1] == '/')
        path.len--;
    r = path.len ? manifest_check_path(path, err) : 0;
    if (r < 0)
        return r;
    return array_is(object_json(object, &session->arena))
               ? pull_array(session, job, to, path, v, err)
               : pull_job(session, &(struct pull_source){job, to, path}, v, err);
}

static int pull_check(const struct invocation *invocation,
                      const struct pull_values *v,
                      struct err *err)
{
    if (v->home && (v->to || v->all || v->force || v->rank >= 0 || v->generation >= 0 ||
                    invocation->arg_count > 1))
        return err_set(err, -EINVAL,
                       "--home copies everything of the first pod to where the job came from; it "
                       "goes with no PATH, --to, --all, --rank, --generation or --force");
    if (v->all && v->rank >= 0)
        return err_set(err, -EINVAL, "--all copies from every pod; it goes with no --rank");
    return 0;
}

static int pull_run(struct invocation *invocation)
{
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    const struct pull_values *v = invocation->values;
    if (r == 0)
        r = pull_check(invocation, v, &err);
    if (r == 0)
        r = v->home ? home_bring(&session, job_arg(invocation->args[0]), &err)
                    : pull(&session, invocation, v, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_pull = {
    .name = "pull",
    .summary = "copy what a job wrote into its folder to this machine",
    .usage = "JOB [PATH]",
    .options = pull_options,
    .values_size = sizeof(struct pull_values),
    .args_min = 1,
    .args_max = 2,
    .run = pull_run,
};
