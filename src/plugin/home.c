#include "plugin/home.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "plugin/home_record.h"
#include "plugin/plugin.h"
#include "plugin/results.h"
#include "system/errors.h"
#include "system/files.h"
#include "workspace/disk.h"
#include "workspace/manifest.h"
#include "workspace/results.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000LL
#define NAMED_MAX     5  /* files that are named, of those that came and of those that stayed */
#define PODS_MAX      16 /* that are asked whether they wrote something too */

enum home_verdict home_judge(const struct home_place *place, int64_t since_ns)
{
    if (!place->there)
        return HOME_NEW;
    return place->is_file && place->changed_ns < since_ns ? HOME_REPLACE : HOME_KEEP;
}

static int64_t home_ns(struct timespec time)
{
    return (int64_t)time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

int64_t home_moment(const char *folder)
{
    _cleanup_(disk_closep) int fd = file_open_unnamed(folder);
    struct stat st;

    /* A file without a name says what time it is there: a server's clock may differ from ours. */
    if (fd >= 0 && fstat(fd, &st) == 0)
        return home_ns(file_changed(&st));
    return home_ns(file_clock());
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
    const char *id; /* of the record */
    struct home_record record;
    const char *folder;
    int64_t since_ns;
    struct result_list list;
    enum home_verdict *verdicts; /* of the files of the list */
    struct results_sink sink;
    size_t kept_count;
    uint64_t bytes; /* of those that come */
};

static struct home_place home_look(struct disk_walk *walk, int root_fd, struct str path)
{
    char text[WS_PATH_MAX + 1];
    const char *name;
    struct stat st;

    (void)snprintf(text, sizeof(text), STR_FMT, STR_ARG(path));
    int parent = disk_parent(walk, root_fd, str_from(text), 0, &name, NULL);
    if (parent < 0)
        return (struct home_place){.there = parent != -ENOENT};
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return (struct home_place){.there = errno != ENOENT};
    return (struct home_place){
        .there = true, .is_file = S_ISREG(st.st_mode), .changed_ns = home_ns(file_changed(&st))};
}

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
    enum home_weight weight = home_weigh(home->bytes, most);

    (void)term_bytes(home->bytes, bytes);
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
    _cleanup_(disk_closep) int fd = open(home->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct disk_walk walk = DISK_WALK_NONE;
    struct statvfs disk;
    char bytes[TERM_BYTES_TEXT];

    if (fd < 0)
        return err_set(err, -errno, "the folder %s that job %s came from: %s", home->folder,
                       home->job, errno_words(errno));
    home->verdicts =
        ARENA_ARRAY(&home->session->arena, enum home_verdict, home->list.files.count + 1);
    for (size_t i = 0; i < home->list.files.count; i++) {
        struct home_place place = home_look(&walk, fd, home->list.files.items[i].path);

        home->verdicts[i] = home_judge(&place, home->since_ns);
        if (home->verdicts[i] == HOME_KEEP)
            home->kept_count++;
        else
            home->bytes += home->list.files.items[i].size;
    }
    disk_walk_done(&walk);
    int r = home_check_weight(home, err);
    if (r < 0)
        return r;
    if (fstatvfs(fd, &disk) < 0 || home->bytes <= (uint64_t)disk.f_bavail * disk.f_frsize)
        return 0;
    return err_set(err, -ENOSPC, "what job %s wrote (%s) does not fit into %s", home->job,
                   term_bytes(home->bytes, bytes), home->folder);
}

/* Which of the contents that come are wanted. What came to be there since the look stays. */
static bool home_wants(void *user, struct str path)
{
    struct homecoming *home = user;
    size_t low = 0;
    size_t high = home->list.files.count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = str_cmp(home->list.files.items[middle].path, path);

        if (order == 0) {
            home->sink.force = home->verdicts[middle] == HOME_REPLACE;
            return home->verdicts[middle] != HOME_KEEP;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false; /* written after the list was made */
}

static void home_name_kept(struct homecoming *home)
{
    struct session *session = home->session;
    const char *one = NULL;
    size_t named = 0;

    for (size_t i = 0; i < home->list.files.count && named < NAMED_MAX; i++) {
        if (home->verdicts[i] != HOME_KEEP)
            continue;
        one = results_name(session, home->list.files.items[i].path);
        session_say(session,
                    "kept: %s changed here since the job was submitted, and was not replaced", one);
        named++;
    }
    if (home->kept_count > named)
        session_say(session, "kept: %zu more", home->kept_count - named);
    if (one)
        session_say(session, "`%s pull %s %s --to DIR` copies the job's", session->program,
                    home->job, home->kept_count == 1 ? one : "PATH");
}

static void home_name_brought(const struct homecoming *home)
{
    struct session *session = home->session;
    char bytes[TERM_BYTES_TEXT];
    size_t named = 0;

    session_say(session, "results: %zu file%s (%s) of job %s in %s", home->sink.file_count,
                home->sink.file_count == 1 ? "" : "s", term_bytes(home->sink.bytes, bytes),
                home->job, home->folder);
    for (size_t i = 0; i < home->list.files.count && named < NAMED_MAX; i++)
        if (home->verdicts[i] != HOME_KEEP) {
            session_say(session, "  %s (%s)", results_name(session, home->list.files.items[i].path),
                        term_bytes(home->list.files.items[i].size, bytes));
            named++;
        }
    if (home->sink.file_count > named)
        session_say(session, "  and %zu more", home->sink.file_count - named);
}

/* Other pods may have written too: it is said, and copied when asked for. */
static void home_name_others(const struct homecoming *home,
                             const struct object **pods,
                             size_t count)
{
    size_t others = 0;

    for (size_t i = 1; i < count && i < PODS_MAX; i++) {
        struct result_list list;

        others +=
            results_list(home->session, pods[i], STR(""), &list, NULL) == 0 && list.files.count > 0;
    }
    if (others)
        session_say(home->session,
                    "%zu other pod%s wrote files too; `%s pull %s --all` copies from every pod",
                    others, others == 1 ? "" : "s", home->session->program, home->job);
}

static int home_copy(struct homecoming *home, const struct object *pod, struct err *err)
{
    int r = home_judge_all(home, err);

    if (r == 0 && home->kept_count < home->list.files.count) {
        r = results_sink_open(&home->sink, home->folder, false, err);
        if (r == 0)
            r = results_read_some(home->session, pod, &home->sink, home_wants, home, err);
        results_sink_done(&home->sink);
        if (home->sink.file_count)
            home_name_brought(home);
        if (r == 0 && home->sink.cut_count)
            r = err_set(err, -EAGAIN, "%zu files changed while they were copied",
                        home->sink.cut_count);
    }
    home_name_kept(home);
    return r;
}

/* Where the job came from. Not as it says itself: others can write it. */
static int home_find(struct session *session, struct homecoming *home, struct err *err)
{
    _cleanup_(object_unrefp) struct object *job = NULL;
    int r = session_get(session, &kind_torchrunjob, home->job, &job, err);

    if (r < 0)
        return r;
    home->id = str_c(&session->arena, object_annotation(job, HOME_RECORD));
    r = home_record_read(&session->arena, str_from(home->id), job->ns, job->name, &home->record,
                         err);
    if (r < 0)
        return r;
    home->record.ns = str_dup(&session->arena, home->record.ns);
    home->record.job = str_dup(&session->arena, home->record.job);
    home->since_ns = home->record.since_ns;
    home->folder = str_c(&session->arena, home->record.folder);
    return 0;
}

/* From now on, what is there has come home; where something was kept, it stays kept. */
static int home_note(struct homecoming *home, struct err *err)
{
    if (home->kept_count || !home->sink.file_count)
        return 0;
    /* The next moment of the clock: what we have just written is not newer than this. */
    home->record.since_ns = home_moment(home->folder) + 1;
    return home_record_write(&home->session->arena, home->id, &home->record, err);
}

int home_bring(struct session *session, const char *job, struct err *err)
{
    struct homecoming home = {.session = session, .job = job};
    const struct object **pods = NULL;
    size_t count = 0;
    int r = home_find(session, &home, err);

    if (r == 0)
        r = results_pods(session, job, &pods, &count, err);
    if (r < 0)
        return r;
    if (count == 0 || results_index(pods[0], job) != 0)
        return err_set(err, -ESRCH, "job %s has no first pod, and so no folder to copy from", job);
    r = results_list(session, pods[0], STR(""), &home.list, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < home.list.words.count; i++)
        session_say(session, "left out: %s", results_name(session, home.list.words.items[i]));
    if (home.list.files.count)
        r = home_copy(&home, pods[0], err);
    if (r == 0)
        home_name_others(&home, pods, count);
    return r < 0 ? r : home_note(&home, err);
}
