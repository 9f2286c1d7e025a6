#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/array.h"
#include "plugin/home.h"
#include "plugin/home_record.h"
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
     .help = "copy what an earlier generation wrote (default: the newest)", .flag_only = true},
    {"force", 0, OPTION_BOOL, offsetof(struct pull_values, force),
     .help = "replace files that exist here", .flag_only = true},
    {0},
};

/* What is asked for: a job, where it goes to, and what of its folder. */
struct pull_source {
    const char *job;
    const struct object *object; /* NULL: it was deleted, and what it wrote may be kept */
    const char *to;
    struct str path;
    bool earlier; /* of a generation that is over */
};

/* One pod's part of the work. */
struct part {
    struct results_source source;
    const char *to;
    struct result_list list;
    struct session *session;
    size_t failed_count; /* files that could not be written where they belong */
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

static void say_failed(void *user, const struct err *err)
{
    struct part *part = user;

    if (part->failed_count++ < NAMED_MAX)
        session_say(part->session, "not copied: %s",
                    results_name(part->session, str_from(err->text)));
}

static int copy(struct session *session,
                struct part *part,
                struct str path,
                const struct pull_values *v,
                struct err *err)
{
    struct results_sink sink;
    char bytes[TERM_BYTES_TEXT];
    int r = results_sink_open(&sink, part->to, v->force, err);

    if (r == 0)
        r = check_room(part->to, part, 1, &sink.bytes_max, err);
    part->session = session;
    sink.failed = say_failed;
    sink.placed_user = part;
    if (r == 0)
        r = results_read(session, &part->source, path, &sink, err);
    results_sink_done(&sink);
    if (r == 0 && sink.cut_count)
        r = err_set(err, -EAGAIN,
                    "%zu files changed while they were copied and are not here; pull again",
                    sink.cut_count);
    if (r == 0 && part->failed_count)
        r = err_set(err, -EIO, "%zu file%s could not be written in %s; --to DIR copies elsewhere",
                    part->failed_count, part->failed_count == 1 ? "" : "s", part->to);
    if (sink.file_count)
        session_say(session, "%zu file%s (%s) of %s in %s", sink.file_count,
                    sink.file_count == 1 ? "" : "s", term_bytes(sink.bytes, bytes),
                    part->source.name, part->to);
    return r;
}

static int look(struct session *session,
                struct part *parts,
                size_t count,
                struct str path,
                struct err *err)
{
    size_t files = 0;
    size_t missing = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        r = results_list(session, &parts[i].source, path, &parts[i].list, err);
        files += parts[i].list.files.count;
        if (r == 0)
            tell_words(session, &parts[i]);
        if (r == -ENOENT && !parts[i].source.pod && ++missing < count)
            r = 0; /* others may have something */
    }
    if (r == 0 && files == 0)
        session_say(session, "the job wrote nothing %s", path.len ? "there" : "into its folder");
    return r;
}

/* Each restart of the gang adds a generation; what its pods wrote is kept. 1: it is an earlier one. */
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
    return 1;
}

/* Why there is nothing: of a generation that is over, or of a job whose pods are all gone. */
static int nothing_kept(const char *job, int64_t generation, struct err *err)
{
    if (generation >= 0)
        return err_set(
            err, -ENOENT,
            "of generation %lld of job %s no folder is kept: `muster up` keeps what its pods wrote "
            "for 7 days, a cluster that of the first pod while the job has its sync pod. What it "
            "printed is kept: logs %s --generation %lld. What must outlive a restart "
            "belongs into $CHECKPOINT_DIR or a folder given with --write",
            (long long)generation, job, job, (long long)generation);
    return err_set(err, -ENOENT,
                   "job %s has no pod, and nothing is kept of what it wrote: it has not started, "
                   "wrote nothing, or ended more than 7 days ago",
                   job);
}

/* That of a rank: its place among the sources, which are there by number. */
static int find_rank(struct session *session,
                     const char *job,
                     const struct pull_values *v,
                     const struct results_source *sources,
                     size_t count,
                     struct err *err)
{
    const struct object **pods = ARENA_ARRAY(&session->arena, const struct object *, count);
    size_t there = 0;

    while (there < count && sources[there].pod) {
        pods[there] = sources[there].pod;
        there++;
    }
    size_t found = results_pod_of_rank(&session->arena, pods, there, job, v->rank);
    if (found == there)
        return err_set(err, -ENOENT,
                       "job %s has no pod with rank %lld; see: status %s. --all copies from every "
                       "pod, also from those that are gone",
                       job, (long long)v->rank, job);
    return (int)found;
}

/* Of the generation that is on, something is kept where a pod of an elastic job was replaced: that is meant. */
static void take_replaced(struct session *session,
                          const struct pull_source *source,
                          int64_t generation,
                          struct part *part)
{
    struct results_source kept = part->source;
    struct result_list list = {0};

    kept.pod = NULL;
    kept.kept.generation = generation;
    if (results_list(session, &kept, source->path, &list, NULL) == 0 && list.files.count)
        part->source = kept;
}

/* The pods that are meant: all, that of a rank, or the first. */
static int pull_pods(struct session *session,
                     const struct pull_source *source,
                     const struct pull_values *v,
                     struct part **ret,
                     size_t *ret_count,
                     struct err *err)
{
    struct results_source *sources = NULL;
    size_t count = 0;
    /* Ranks are told by pods that are there, and what is over is all there. */
    bool waits = !source->earlier && v->rank <= 0;
    int r = waits ? results_await_end(session, source->job, source->object, v->all, err) : 0;

    if (r == 0)
        r = results_sources(session, source->job, source->object, &sources, &count, err);
    if (r == 0 && v->rank > 0 && source->earlier)
        return err_set(err, -EINVAL,
                       "the ranks of pods that are gone are not known: --all copies from every pod "
                       "of the generation");
    if (r == 0 && v->rank > 0)
        r = find_rank(session, source->job, v, sources, count, err);
    if (r < 0)
        return r;
    sources += r;
    count = v->all ? count : 1;
    struct part *parts = ARENA_ARRAY(&session->arena, struct part, count);
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct part){.source = sources[i], .to = source->to};
        if (source->earlier) {
            parts[i].source.pod = NULL;
            parts[i].source.kept.generation = v->generation;
        } else if (v->generation >= 0)
            take_replaced(session, source, v->generation, &parts[i]);
        if (v->all)
            parts[i].to =
                str_printf(&session->arena, "%s/rank-%lld", source->to, (long long)sources[i].index)
                    .p;
    }
    *ret = parts;
    *ret_count = count;
    r = look(session, parts, count, source->path, err);
    return r == -ENOENT && !parts[0].source.pod && !source->path.len
               ? nothing_kept(source->job, source->earlier ? v->generation : -1, err)
               : r;
}

/* What one job wrote. */
static int pull_job(struct session *session,
                    struct pull_source *source,
                    const struct pull_values *v,
                    struct err *err)
{
    struct part *parts = NULL;
    size_t count = 0;
    uint64_t room;
    int r = source->object ? check_generation(session, source->job, v, err) : v->generation >= 0;

    source->earlier = r > 0;
    if (r >= 0)
        r = pull_pods(session, source, v, &parts, &count, err);
    if (r == 0 && !v->force)
        r = check_in_the_way(session, parts, count, err);
    if (r == 0)
        r = check_room(source->to, parts, count, &room, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (parts[i].list.files.count)
            r = copy(session, &parts[i], source->path, v, err);
    return r;
}

/* Of an array that was deleted, the record of who submitted it knows the indexes. */
static struct str pull_indexes(struct session *session,
                               const char *job,
                               const struct object *object)
{
    struct home_record record = {.ns = str_from(session->config.ns),
                                 .job = str_from(job),
                                 .server = str_from(session->config.server)};
    char id[HOME_ID_BYTES + 1];

    if (object)
        return json_str_at(object_json(object, &session->arena), ARRAY_INDEXES);
    if (home_record_find(&session->arena, &record, id, NULL) < 0 ||
        home_record_read(&session->arena, str_from(id), record.ns, record.job, &record, NULL) < 0)
        return STR_NONE;
    return record.array;
}

/* Each job of an array into a folder of its own. One that has no pod, and of which nothing is kept, has nothing. */
static int pull_array(struct session *session,
                      const struct pull_source *array,
                      struct str indexes,
                      const struct pull_values *v,
                      struct err *err)
{
    struct array_job *jobs = NULL;
    size_t count = 0;
    size_t nothing = 0;
    int r = array_all(session, array->job, indexes, &jobs, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++) {
        const char *to = str_printf(&session->arena, "%s/%s", array->to, jobs[i].name).p;

        r = pull_job(
            session,
            &(struct pull_source){
                .job = jobs[i].name, .object = jobs[i].object, .to = to, .path = array->path},
            v, err);
        if (r == -ENOENT && jobs[i].object)
            session_say(session, "%s", err->text);
        nothing += r == -ENOENT;
        r = r == -ENOENT ? 0 : r;
    }
    return r == 0 && !array->object && nothing == count ? -ENOENT : r;
}

static int pull(struct session *session,
                const struct invocation *invocation,
                const struct pull_values *v,
                struct err *err)
{
    const char *job = session_job(session, invocation, err);
    struct str path = invocation->arg_count > 1 ? str_from(invocation->args[1]) : STR("");
    const char *to = v->to ? v->to : job;
    _cleanup_(object_unrefp) struct object *object = NULL;
    int r = job ? session_get(session, &kind_torchrunjob, job, &object, err) : err->code;

    if (!job || (r < 0 && r != -ENOENT))
        return r;
    while (path.len && path.p[path.len - 1] == '/')
        path.len--;
    r = path.len ? manifest_check_path(path, err) : 0;
    if (r < 0)
        return r;
    struct pull_source source = {.job = job, .object = object, .to = to, .path = path};
    struct str indexes = pull_indexes(session, job, object);
    r = indexes.len ? pull_array(session, &source, indexes, v, err)
                    : pull_job(session, &source, v, err);
    return r == -ENOENT && !object
               ? err_set(
                     err, r,
                     "job %s does not exist in namespace %s, and nothing is kept of what it wrote",
                     job, session->config.ns)
               : r;
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
    const char *job = r == 0 && v->home ? session_job(&session, invocation, &err) : NULL;
    if (r == 0 && v->home && !job)
        r = err.code;
    if (r == 0)
        r = v->home ? home_bring(&session, job, &err) : pull(&session, invocation, v, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_pull = {
    .name = "pull",
    .summary = "copy what a job wrote into its folder to this machine",
    .usage = "[JOB [PATH]]",
    .about = "Without a job: the newest.",
    .options = pull_options,
    .values_size = sizeof(struct pull_values),
    .args_max = 2,
    .run = pull_run,
};
