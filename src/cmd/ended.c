#include "cmd/ended.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "estimate/runtimes.h"
#include "exec/scheduler.h"
#include "plugin/past.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "tool/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ended {
    struct api *api;
    struct api_watch *watch;
    const struct log *log;
    struct arena arena;
    struct map known; /* uid -> itself */
    const char *path; /* the caller's */
};

static void ended_know(struct ended *ended, struct str uid)
{
    if (uid.len && !map_get(&ended->known, uid))
        (void)map_set(&ended->known, str_dup(&ended->arena, uid), ended);
}

/* What is written already; too long a file is cut, and what was in it forgotten. */
static void ended_load(struct ended *ended)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = STR("");
    struct str line;

    map_done(&ended->known);
    arena_done(&ended->arena);
    ended->arena = (struct arena){0};
    if (file_read(&arena, ended->path, &text, NULL) < 0)
        return;
    struct str kept = past_trim(text);
    if (kept.len < text.len)
        (void)file_replace(ended->path, kept, 0600, NULL);
    while (str_cut(&kept, '\n', &line)) {
        struct json *job = NULL;

        if (json_parse(&arena, line, &job, NULL) == 0)
            ended_know(ended, json_str(json_get(job, "uid")));
    }
}

static void ended_write(struct ended *ended, struct str line)
{
    int fd = open(ended->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    ssize_t n = fd < 0 ? -1 : write(fd, line.p, line.len);
    struct stat st;
    if (n != (ssize_t)line.len)
        log_warn(ended->log, "history.write", LOG_C("file", ended->path),
                 LOG_C("error", n < 0 ? strerrordesc_np(errno) : "a part of the line was written"));
    bool is_long = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > (off_t)PAST_BYTES_MAX;
    if (fd >= 0)
        (void)close(fd);
    if (is_long)
        ended_load(ended);
}

static void on_job(void *user, const struct api_change *change)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf line = {0};
    struct ended *ended = user;

    if (!change->object || map_get(&ended->known, change->object->uid) ||
        !past_add(&line, object_json(change->object, &arena), change->event == API_DELETED,
                  clock_now_ms()))
        return;
    ended_know(ended, change->object->uid);
    ended_write(ended, buf_str(&line));
}

struct ended *ended_start(struct api *api, const char *path, const struct log *log)
{
    struct ended *ended = MEM_NEW(struct ended);

    ended->api = api;
    ended->log = log;
    ended->path = path;
    ended_load(ended);
    ended->watch =
        api_watch(api, &(struct api_watch_request){.kind = &kind_torchrunjob}, on_job, ended);
    return ended;
}

void ended_tell(const struct ended *ended, struct buf *out)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = STR("");

    if (file_read(&arena, ended->path, &text, NULL) == 0)
        buf_add(out, text);
}

void ended_teach(struct scheduler *scheduler, const char *path)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = STR("");
    struct str line;

    if (file_read(&arena, path, &text, NULL) < 0)
        return;
    while (str_cut(&text, '\n', &line)) {
        struct json *job = NULL;

        if (json_parse(&arena, line, &job, NULL) < 0 ||
            str_is(json_str(json_get(job, "phase")), "Cancelled")) /* it says nothing of others */
            continue;
        struct str name =
            str_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(json_str(json_get(job, "namespace"))),
                       STR_ARG(json_str(json_get(job, "name"))));
        scheduler_teach(scheduler,
                        &(struct runtimes_like){.name = name,
                                                .queue = json_str(json_get(job, "queue")),
                                                .gpus = json_i64_or(json_get(job, "gpus"), 0)},
                        1000 * json_i64_or(json_get(job, "runSeconds"), 0));
    }
}

void ended_stop(struct ended *ended)
{
    if (!ended)
        return;
    api_watch_stop(ended->api, ended->watch);
    map_done(&ended->known);
    arena_done(&ended->arena);
    mem_free(ended);
}
