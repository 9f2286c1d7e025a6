#include "api/array.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/time.h"
#include "plugin/home.h"
#include "plugin/job.h"
#include "plugin/run.h"
#include "plugin/submit.h"
#include "workspace/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESTARTS_MAX 1000000

/* The job that the flags of `submit` and `run` make. */

struct str submit_script(struct arena *arena,
                         struct str command,
                         const char *folder,
                         const struct manifest *sent)
{
    static const char of_the_shell[] = ";&|<>()`$\"'\\\n*?[]{}#~";
    struct str rest = command;
    struct str word;

    while (str_cut(&rest, ' ', &word)) {
        const char *whole = str_c(arena, word);
        const char *inside = run_inside(folder, whole);

        if (strpbrk(whole, of_the_shell))
            return command;
        if (!inside)
            continue;
        const struct ws_entry *entry = manifest_find(sent, str_from(inside));
        size_t at = (size_t)(word.p - command.p);
        return entry && entry->type == WS_FILE
                   ? str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(str_sub(command, 0, at)),
                                inside, STR_ARG(str_sub(command, at + word.len, command.len)))
                   : command;
    }
    return command;
}

static void submit_add_size(struct arena *arena, const struct submit_values *v, struct json *spec)
{
    if (v->nodes > 0)
        json_add_i64(arena, spec, "numNodes", v->nodes);
    else if (v->gpus > 0)
        json_add_i64(arena, spec, "numGPUs", v->gpus);
    if (v->min_nodes > 0 || v->max_nodes > 0) {
        struct json *elastic = json_make_path(arena, spec, "elastic");

        if (v->min_nodes > 0)
            json_add_i64(arena, elastic, "minNodes", v->min_nodes);
        if (v->max_nodes > 0)
            json_add_i64(arena, elastic, "maxNodes", v->max_nodes);
    }
    if (v->memory)
        json_add_c(arena, json_make_path(arena, spec, "nodeResources"), "memory", v->memory);
    if (v->cpus)
        json_add_c(arena, json_make_path(arena, spec, "nodeResources"), "cpus", v->cpus);
    if (v->gpu_type)
        json_add_c(arena, json_make_path(arena, spec, "nodeResources"), "gpuType", v->gpu_type);
}

/* "H", "M:S", "H:M:S" behind an optional "D-": what sbatch takes. */
static bool time_of_slurm(struct str text, int64_t *ret_ms)
{
    size_t dash = str_find(text, '-');
    bool days_given = dash < text.len;
    int64_t days = 0;
    int64_t parts[3] = {0};
    size_t count = 0;
    struct str part;

    if (days_given && !str_to_i64(str_sub(text, 0, dash), &days))
        return false;
    text = days_given ? str_sub(text, dash + 1, text.len) : text;
    while (count < 3 && str_cut(&text, ':', &part))
        if (!str_to_i64(part, &parts[count++]))
            return false;
    if (count == 0 || text.len || days < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (parts[i] < 0 || parts[i] > 1000000)
            return false;
    /* With days the first part is hours; without, one part is minutes and two are minutes and
     * seconds. */
    int64_t seconds = days * 86400;
    if (days_given || count == 3)
        seconds += parts[0] * 3600 + parts[1] * 60 + parts[2];
    else
        seconds += parts[0] * 60 + parts[1];
    *ret_ms = seconds * 1000;
    return seconds > 0 && days < 100000;
}

int submit_time(const char *text, int64_t *ret_ms, struct err *err)
{
    int64_t ms = 0;

    if ((time_parse_duration(str_from(text), &ms) && ms > 0) ||
        time_of_slurm(str_from(text), &ms)) {
        *ret_ms = ms;
        return 0;
    }
    return err_set(err, -EINVAL, "--time: '%.40s' is not a time such as 90m, 2h or 2:30:00", text);
}

static int submit_add_time(struct arena *arena,
                           const char *text,
                           struct json *spec,
                           struct err *err)
{
    int64_t ms = 0;
    int r = submit_time(text, &ms, err);

    if (r == 0)
        json_add_str(arena, spec, "maxRunTime",
                     str_printf(arena, "%llds", (long long)((ms + 999) / 1000)));
    return r;
}

int submit_after(struct arena *arena, const char *text, struct json *after, struct err *err)
{
    struct str rest = str_from(text);
    struct str part;

    while (str_cut(&rest, ',', &part)) {
        bool typed = str_find(part, ':') < part.len;
        struct str type = STR("afterok");
        struct str name;

        if (typed)
            (void)str_cut(&part, ':', &type);
        bool any = str_is(type, "afterany");
        if (!any && !str_is(type, "afterok"))
            return err_set(err, -EINVAL,
                           "--after: '" STR_FMT "' is not known: afterok:JOB waits for its "
                           "success, afterany:JOB for its end",
                           STR_ARG(type));
        for (bool first = true; str_cut(&part, ':', &name) || first; first = false) {
            name = str_from(job_arg(str_c(arena, name)));
            if (!name.len)
                return err_set(err, -EINVAL, "--after: '%.80s' lacks the name of a job", text);
            json_push(after,
                      json_make(arena, "{job: $, when: $}", name, any ? "Ended" : "Succeeded"));
        }
    }
    return 0;
}

static int submit_add_after(struct arena *arena,
                            const struct submit_values *v,
                            struct json *spec,
                            struct err *err)
{
    struct json *after = v->after.count ? json_add_array(arena, spec, "after") : NULL;
    int r = 0;

    for (size_t i = 0; r == 0 && i < v->after.count; i++)
        r = submit_after(arena, v->after.items[i], after, err);
    return r;
}

/* "0-9%2": the indexes, and how many at a time. */
static int submit_add_array(struct arena *arena,
                            const char *text,
                            struct json *spec,
                            struct err *err)
{
    struct str whole = str_from(text);
    size_t percent = str_find(whole, '%');
    struct str indexes = str_sub(whole, 0, percent);
    struct json *array = json_add_object(arena, spec, "array");
    struct array_indexes all;
    int64_t limit = 0;
    int r = array_parse(arena, indexes, &all, err);

    if (r < 0)
        return err_wrap(err, r, "--array");
    json_add_str(arena, array, "indexes", indexes);
    if (percent >= whole.len)
        return 0;
    if (!str_to_i64(str_sub(whole, percent + 1, whole.len), &limit) || limit < 1 ||
        limit > ARRAY_COUNT_MAX)
        return err_set(err, -EINVAL,
                       "--array: behind %% stands how many may run at a time, 1 to %d",
                       ARRAY_COUNT_MAX);
    json_add_i64(arena, array, "limit", limit);
    return 0;
}

struct submit_mount {
    struct str name;
    struct str path;
};

static struct json *submit_add_mount(struct arena *arena,
                                     struct json *spec,
                                     const struct submit_mount *mount)
{
    struct json *place = json_make_path(arena, spec, "volumes");
    struct json *volumes = json_get(place, "additionalVolumes");
    struct json *mounts = json_get(place, "additionalMounts");

    if (!volumes)
        volumes = json_add_array(arena, place, "additionalVolumes");
    if (!mounts)
        mounts = json_add_array(arena, place, "additionalMounts");
    struct json *volume = json_push(volumes, json_new_object(arena));
    struct json *entry = json_push(mounts, json_new_object(arena));
    json_add_str(arena, volume, "name", mount->name);
    json_add_str(arena, entry, "name", mount->name);
    json_add_str(arena, entry, "mountPath", mount->path);
    return volume;
}

static int submit_add_mounts(struct arena *arena,
                             const struct submit_values *v,
                             struct json *spec,
                             struct err *err)
{
    for (size_t i = 0; i < v->writes.count; i++) {
        struct str path = str_from(v->writes.items[i]);

        if (path.len < 2 || path.p[0] != '/')
            return err_set(err, -EINVAL, "--write: '%s' is not an absolute path of a folder",
                           v->writes.items[i]);
        struct json *volume = submit_add_mount(
            arena, spec, &(struct submit_mount){str_printf(arena, "write-%zu", i), path});
        struct json *host = json_add_object(arena, volume, "hostPath");
        json_add_str(arena, host, "path", path);
        json_add_c(arena, host, "type", "Directory");
    }
    for (size_t i = 0; i < v->volumes.count; i++) {
        struct str pair = str_from(v->volumes.items[i]);
        size_t colon = str_find(pair, ':');
        struct str path = str_sub(pair, colon + 1, pair.len);

        if (colon == 0 || path.len < 2 || path.p[0] != '/')
            return err_set(err, -EINVAL,
                           "--volume: '%s' is not CLAIM:PATH with an absolute PATH (folders of "
                           "this machine: --write)",
                           v->volumes.items[i]);
        struct json *volume = submit_add_mount(
            arena, spec, &(struct submit_mount){str_printf(arena, "volume-%zu", i), path});
        json_add_str(arena, json_add_object(arena, volume, "persistentVolumeClaim"), "claimName",
                     str_sub(pair, 0, colon));
    }
    return 0;
}

static void submit_add_home(struct arena *arena,
                            const struct submit_request *request,
                            struct json *metadata)
{
    struct json *annotations;

    if (!request->folder)
        return;
    annotations = json_make_path(arena, metadata, "annotations");
    json_add_c(arena, annotations, JOB_WORKSPACE, "upload");
    if (!request->record)
        return;
    json_add_c(arena, annotations, HOME_FOLDER, request->folder);
    json_add_c(arena, annotations, HOME_HOST, request->host);
    json_add_c(arena, annotations, HOME_RECORD, request->record);
}

static int submit_add_preemptibility(struct arena *arena,
                                     const char *word,
                                     struct json *metadata,
                                     struct err *err)
{
    if (!str_is(str_from(word), "preemptible") && !str_is(str_from(word), "non-preemptible") &&
        !str_is(str_from(word), "semi-preemptible"))
        return err_set(err, -EINVAL,
                       "--preemptibility: '%.40s' is none of preemptible, non-preemptible and "
                       "semi-preemptible",
                       word);
    json_add_c(arena, json_make_path(arena, metadata, "annotations"),
               "kai.scheduler/preemptibility", word);
    return 0;
}

static int submit_add_restarts(struct arena *arena,
                               const char *text,
                               struct json *spec,
                               struct err *err)
{
    int64_t count = 0;

    if (!str_to_i64(str_from(text), &count) || count < 0 || count > RESTARTS_MAX)
        return err_set(err, -EINVAL, "--max-restarts: '%.40s' is no number from 0 to %d", text,
                       RESTARTS_MAX);
    json_add_i64(arena, json_make_path(arena, spec, "reliability"), "maxRestarts", count);
    return 0;
}

int submit_job(struct arena *arena,
               const struct submit_values *v,
               const struct submit_request *request,
               struct json *job,
               struct err *err)
{
    struct json *metadata;
    struct json *spec;
    int r = 0;

    json_add_c(arena, job, "apiVersion", "torchrun.ai/v1alpha1");
    json_add_c(arena, job, "kind", "TorchrunJob");
    metadata = json_make_path(arena, job, "metadata");
    json_add_c(arena, metadata, "name", request->name);
    json_add_c(arena, metadata, "namespace", request->ns);
    submit_add_home(arena, request, metadata);
    spec = json_make_path(arena, job, "spec");
    if (v->queue)
        json_add_c(arena, spec, "jobQueue", v->queue);
    submit_add_size(arena, v, spec);
    if (request->command.len)
        json_add_str(arena, spec, "command", request->command);
    if (v->setup)
        json_add_c(arena, spec, "setupCommand", v->setup);
    if (v->image)
        json_add_c(arena, spec, "image", v->image);
    if (v->priority)
        json_add_c(arena, json_make_path(arena, spec, "scheduling"), "priorityClassName",
                   v->priority);
    if (v->kept_seconds)
        json_add_i64(arena, json_make_path(arena, spec, "reliability"), "ttlSecondsAfterFinished",
                     v->kept_seconds);
    if (v->max_restarts)
        r = submit_add_restarts(arena, v->max_restarts, spec, err);
    if (v->one_rank)
        json_add_i64(arena, spec, "nprocPerNode", 1);
    if (r == 0 && v->preemptibility)
        r = submit_add_preemptibility(arena, v->preemptibility, metadata, err);
    if (r == 0 && v->time)
        r = submit_add_time(arena, v->time, spec, err);
    if (v->requeue && json_is_null(json_get(spec, "maxRunTime")))
        return err_set(err, -EINVAL, "--requeue says what happens after --time: give both");
    if (v->requeue)
        json_add_bool(arena, spec, "requeueAfterMaxRunTime", true);
    if (r == 0)
        r = submit_add_after(arena, v, spec, err);
    if (r == 0 && v->notify && !str_starts(str_from(v->notify), STR("http://")) &&
        !str_starts(str_from(v->notify), STR("https://")))
        r = err_set(err, -EINVAL, "--notify: '%.80s' is not an http or https address", v->notify);
    if (r == 0 && v->notify)
        json_add_c(arena, json_make_path(arena, spec, "notify"), "url", v->notify);
    if (r == 0 && v->array)
        r = submit_add_array(arena, v->array, spec, err);
    if (r == 0)
        r = submit_add_mounts(arena, v, spec, err);
    return r < 0 ? r : job_add_env(arena, spec, v->env.items, v->env.count, getenv, err);
}
