#include "plugin/home.h"

#include "api/array.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/array.h"
#include "plugin/home_plan.h"
#include "plugin/home_record.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/results.h"
#include "system/errors.h"
#include "system/files.h"
#include "tool/clock.h"
#include "workspace/disk.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"
#include "workspace/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define NAMED_MAX 5  /* files that are named, of those that came and of those that stayed */
#define PODS_MAX  16 /* that are asked whether they wrote something too */

int64_t home_moment(const char *folder)
{
    _cleanup_(disk_closep) int fd = file_open_unnamed(folder);
    struct stat st;

    /* A file without a name says what time it is there: a server's clock may differ from ours. */
    if (fd >= 0 && fstat(fd, &st) == 0)
        return results_ns(file_changed(&st));
    return results_ns(file_clock());
}

int home_lock(const char *folder, bool wait)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0) {
        int why = -errno;

        close(fd);
        return why;
    }
    return fd;
}

struct str home_outside(struct str command, const char *folder, size_t *at)
{
    struct str own = str_from(folder);

    while (*at < command.len) {
        size_t start = *at;
        size_t end;
        bool begins = start == 0 || strchr(" =\"'", command.p[start - 1]);

        if (command.p[start] != '/' || !begins) {
            *at = start + 1;
            continue;
        }
        for (end = start; end < command.len && !strchr(" \"';|&><()", command.p[end]);)
            end++;
        *at = end;
        struct str path = str_sub(command, start, end - start);
        bool inside = str_starts(path, own) && (path.len == own.len || path.p[own.len] == '/');
        if (!inside && path.len > 1)
            return path;
    }
    return STR_NONE;
}

/* ---- bringing ---- */

struct homecoming {
    struct session *session;
    const char *job;
    const char *only; /* of the jobs of this array; NULL: all, or it is none */
    const char *id;   /* of the record */
    struct home_record record;
    const char *folder; /* where it goes; below that of the record for jobs of an array */
    struct home_plan plan;
    struct results_sink sink;
};

enum home_weight home_weigh(uint64_t bytes, int64_t most)
{
    uint64_t limit = most > 0 ? (uint64_t)most : HOME_BYTES_MAX;

    if (bytes > limit)
        return HOME_TOO_MUCH;
    return bytes > limit - limit / 5 ? HOME_NEARLY : HOME_FITS;
}

/* Not too much of it: nobody waits an hour for what he did not expect. */
static int home_check_weight(const struct homecoming *home, struct err *err)
{
    int64_t most = home->record.bytes_max;
    char bytes[TERM_BYTES_TEXT];
    char limit[TERM_BYTES_TEXT];
    enum home_weight weight = home_weigh(home->plan.bytes, most);

    (void)term_bytes(home->plan.bytes, bytes);
    (void)term_bytes(most > 0 ? (uint64_t)most : HOME_BYTES_MAX, limit);
    if (weight == HOME_NEARLY)
        session_say(home->session,
                    "warning: job %s wrote %s; more than %s would not be copied by itself "
                    "(--results-max)",
                    home->job, bytes, limit);
    if (weight != HOME_TOO_MUCH)
        return 0;
    return err_set(err, -EFBIG,
                   "job %s wrote %s, and no more than %s is copied by itself "
                   "(--results-max)",
                   home->job, bytes, limit);
}

static int home_judge_all(struct homecoming *home, struct err *err)
{
    struct statvfs disk;
    char bytes[TERM_BYTES_TEXT];
    int r = home_plan_make(&home->plan, home->folder, err);

    if (r == -ENOENT)
        return err_set(err, r,
                       "the folder %s that job %s came from is not there any more; `%s pull %s "
                       "--to DIR` copies what it wrote to another place",
                       home->folder, home->job, home->session->program, home->job);
    if (r == 0)
        r = home_check_weight(home, err);
    if (r < 0)
        return r;
    if (statvfs(home->folder, &disk) < 0 ||
        home->plan.bytes <= (uint64_t)disk.f_bavail * disk.f_frsize)
        return 0;
    return err_set(err, -ENOSPC, "what job %s wrote (%s) does not fit into %s", home->job,
                   term_bytes(home->plan.bytes, bytes), home->folder);
}

static void home_name_aside(struct homecoming *home)
{
    struct session *session = home->session;
    size_t count = 0;

    for (size_t i = 0; i < home->plan.list.files.count; i++) {
        const struct home_item *item = &home->plan.items[i];
        struct str path = home->plan.list.files.items[i].path;

        if (item->verdict != HOME_ASIDE || !item->came || ++count > NAMED_MAX)
            continue;
        session_say(session,
                    str_starts(item->as, path)
                        ? "kept: %s changed here since the job was submitted; the job's is beside "
                          "it, %s"
                        : "kept: what is here in place of the folder of %s; the job's is %s",
                    results_name(session, path), results_name(session, item->as));
    }
    if (count > NAMED_MAX)
        session_say(session,
                    "kept: %zu more; the job's are beside them, with .%s behind their names",
                    count - NAMED_MAX, home->job);
}

/* The copy ended early, as on a disk that is full: what it did not get to is said as well. */
static void home_name_missing(const struct homecoming *home)
{
    struct session *session = home->session;
    size_t count = 0;

    for (size_t i = 0; i < home->plan.list.files.count; i++) {
        const struct home_item *item = &home->plan.items[i];

        if (item->came || item->failed || item->verdict == HOME_SAME || ++count > NAMED_MAX)
            continue;
        session_say(session, "not copied: %s",
                    results_name(session, home->plan.list.files.items[i].path));
    }
    if (count > NAMED_MAX)
        session_say(session, "not copied: %zu more files", count - NAMED_MAX);
}

/* What had no place here is not lost with the rest. */
static int home_name_failed(const struct homecoming *home, int r, struct err *err)
{
    size_t count = home->plan.failed_count;

    for (size_t i = 0; i < count && i < HOME_FAILED_MAX; i++)
        session_say(home->session, "not copied: %s",
                    results_name(home->session, home->plan.failed[i]));
    if (r < 0 || !count)
        return r;
    return err_set(err, -EIO,
                   "%zu file%s could not be written in %s; `%s pull %s --to DIR` copies all to "
                   "another place",
                   count, count == 1 ? "" : "s", home->folder, home->session->program, home->job);
}

static void home_name_brought(const struct homecoming *home)
{
    struct session *session = home->session;
    char bytes[TERM_BYTES_TEXT];
    size_t named = 0;
    size_t replaced = 0;

    session_say(session, "results: %zu file%s (%s) of job %s in %s", home->sink.file_count,
                home->sink.file_count == 1 ? "" : "s", term_bytes(home->sink.bytes, bytes),
                home->job, home->folder);
    for (size_t i = 0; i < home->plan.list.files.count && named < NAMED_MAX; i++)
        if (home->plan.items[i].came) {
            session_say(session, "  %s (%s)", results_name(session, home->plan.items[i].as),
                        term_bytes(home->plan.list.files.items[i].size, bytes));
            named++;
        }
    if (home->sink.file_count > named)
        session_say(session, "  and %zu more", home->sink.file_count - named);
    for (size_t i = 0; i < home->plan.list.files.count; i++)
        replaced += home->plan.items[i].came && home->plan.items[i].verdict == HOME_REPLACE &&
                    !home->plan.items[i].own;
    if (replaced)
        session_say(session,
                    "%zu file%s replaced; what was there is in %s/" RESULTS_REPLACED
                    "/%s for 7 days",
                    replaced, replaced == 1 ? " was" : "s were", home->folder, home->job);
}

/* Other pods may have written too: it is said, and copied when asked for. Returns how many. */
static size_t home_name_others(const struct homecoming *home,
                               const struct results_source *sources,
                               size_t count)
{
    size_t others = 0;

    for (size_t i = 1; i < count && i < PODS_MAX; i++) {
        struct result_list list;

        others += results_list(home->session, &sources[i], STR(""), &list, NULL) == 0 &&
                  list.files.count > 0;
    }
    if (others)
        session_say(home->session,
                    "%zu other pod%s wrote files too; `%s pull %s --all` copies from every pod",
                    others, others == 1 ? "" : "s", home->session->program, home->job);
    return others;
}

static int home_copy(struct homecoming *home, const struct results_source *source, struct err *err)
{
    int r = home->plan.below.len ? disk_make_folders(home->folder) : 0;

    if (r < 0)
        return err_set(err, r, "%s: %s", home->folder, errno_words(-r));
    r = home_judge_all(home, err);
    if (r < 0)
        return r;
    if (home->plan.same_count < home->plan.list.files.count) {
        r = results_sink_open(&home->sink, home->folder, false, err);
        home_plan_sink(&home->plan, &home->sink);
        if (r == 0)
            r = results_read_some(home->session, source, &home->sink, home_plan_wants, &home->plan,
                                  err);
        results_sink_done(&home->sink);
        if (home->sink.file_count)
            home_name_brought(home);
        if (r < 0)
            home_name_missing(home);
        if (r == 0 && home->sink.cut_count)
            r = err_set(err, -EAGAIN, "%zu files changed while they were copied; pull again",
                        home->sink.cut_count);
        r = home_name_failed(home, r, err);
    }
    home_name_aside(home);
    home_plan_forget(home->folder, clock_now_ms() / 1000);
    struct err noted = {0};
    if (home->sink.file_count &&
        home_record_write(&home->session->arena, home->id, &home->record, &noted) < 0)
        session_say(home->session, "warning: %s", noted.text);
    return r;
}

/* Where the job came from. Not as it says itself: others can write it. `object` NULL: it was deleted. The
 * jobs of an array say nothing. */
static int home_find(struct homecoming *home, const struct object *object, struct err *err)
{
    struct session *session = home->session;
    struct arena *arena = &session->arena;
    char *id = ARENA_ARRAY(arena, char, HOME_ID_BYTES + 1);
    struct home_record like = {.ns = str_from(session->config.ns),
                               .job = str_from(home->job),
                               .server = str_from(session->config.server)};
    int r = 0;

    if (object && !home->only)
        id = str_c(arena, object_annotation(object, HOME_RECORD));
    else
        r = home_record_find(arena, &like, id, err);
    if (r == 0)
        r = home_record_read(arena, str_from(id), like.ns, like.job, &home->record, err);
    home->id = id;
    home->folder = r == 0 ? str_c(arena, home->record.folder) : "";
    return r;
}

/* One job, not an array. The rest of `home` says where to. */
static int home_bring_job(struct homecoming *home, const struct object *object, struct err *err)
{
    struct session *session = home->session;
    struct results_source *sources = NULL;
    size_t count = 0;

    home->plan.arena = &session->arena;
    home->plan.record = &home->record;
    home->plan.id = home->id;
    home->plan.job = home->job;
    int r = results_await_end(session, home->job, object, false, err);

    if (r == 0)
        r = results_sources(session, home->job, object, &sources, &count, err);
    if (r < 0)
        return r;
    r = results_list(session, &sources[0], STR(""), &home->plan.list, err);
    if (r == -ENOENT && !sources[0].pod)
        return err_set(err, -ESRCH,
                       "job %s has no pod, and nothing is kept of what it wrote: it has not "
                       "started, wrote nothing, or ended more than 7 days ago",
                       home->job);
    if (r < 0)
        return r;
    for (size_t i = 0; i < home->plan.list.words.count; i++)
        session_say(session, "left out: %s", results_name(session, home->plan.list.words.items[i]));
    if (home->plan.list.files.count)
        r = home_copy(home, &sources[0], err);
    if (r < 0)
        return r;
    (void)home_name_others(home, sources, count);
    if (sources[0].pod && object && pod_is_over(object_json(sources[0].pod, &session->arena)) &&
        job_is_over(json_str_at(object_json(object, &session->arena), "status.phase")))
        results_mark(session, sources[0].pod, RESULTS_HOME);
    return 0;
}

/* Each job of an array into a folder of its own, those that were deleted too. All are tried; the first that
 * fails is told. */
static int home_bring_array(struct homecoming *array, struct str indexes, struct err *err)
{
    struct session *session = array->session;
    struct array_job *jobs = NULL;
    size_t count = 0;
    int r = array_all(session, array->job, indexes, &jobs, &count, err);

    for (size_t i = 0; i < count; i++) {
        const char *name = jobs[i].name;
        struct homecoming one = {.session = session, .job = name, .id = array->id};
        struct err why = {0};

        if (array->only && strcmp(array->only, name) != 0)
            continue;
        one.record = array->record;
        one.plan.below = str_printf(&session->arena, "%s/", name);
        one.folder = str_printf(&session->arena, "%s/%s", array->folder, name).p;
        int got = home_bring_job(&one, jobs[i].object, &why);
        array->record = one.record;
        if (got < 0 && (got != -ESRCH || array->only) && r == 0)
            r = err_set(err, got, "%s: %s", name, why.text);
    }
    return r;
}

int home_bring(struct session *session, const char *job, struct err *err)
{
    struct homecoming home = {.session = session, .job = job};
    _cleanup_(object_unrefp) struct object *object = NULL;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r < 0 && r != -ENOENT)
        return r;
    struct str array = object ? object_label(object, ARRAY_LABEL) : STR_NONE;
    if (array.len) { /* its record is the array's, which says whether there is such a job */
        home.only = job;
        home.job = str_c(&session->arena, array);
    }
    r = home_find(&home, object, err);
    if (r < 0)
        return r;
    _cleanup_(disk_closep) int lock = home_lock(home.folder, false);
    if (lock == -EWOULDBLOCK) {
        session_say(session, "another copy into %s is under way: waiting for it", home.folder);
        lock = home_lock(home.folder, true);
        r = home_find(&home, object, err); /* what that one brought is known now */
    }
    if (r < 0)
        return r;
    struct str indexes = object && !home.only
                             ? json_str_at(object_json(object, &session->arena), ARRAY_INDEXES)
                             : home.record.array;
    return indexes.len ? home_bring_array(&home, indexes, err) : home_bring_job(&home, object, err);
}
