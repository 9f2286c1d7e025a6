#include "plugin/submit.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/yaml.h"
#include "plugin/array.h"
#include "plugin/home.h"
#include "plugin/home_record.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/run.h"
#include "plugin/ship.h"
#include "plugin/view.h"
#include "system/errors.h"
#include "system/random.h"
#include "tool/file.h"
#include "workspace/manifest.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMED_MAX          54 /* of a job's name: its pods have it in theirs */
#define NAME_SUFFIX_BYTES  5
#define STATUS_INTERRUPTED (128 + SIGINT)

static const char *const submit_outputs[] = {"yaml", "json", NULL};

static const struct option submit_options[] = {
    COMMON_OPTIONS,
    {"queue", 'q', OPTION_STR, offsetof(struct submit_values, queue), .value = "QUEUE",
     .help = "TorchrunQueue to submit to (default: the only one, or the one named default)"},
    {"gpus", 'g', OPTION_I64, offsetof(struct submit_values, gpus), .min = 0, .max = 1000000,
     .value = "N", .help = "total number of GPUs", .flag_only = true},
    {"nodes", 'N', OPTION_I64, offsetof(struct submit_values, nodes), .min = 0, .max = 100000,
     .value = "N", .help = "number of pods, each with all GPUs of a node; replaces --gpus",
     .flag_only = true},
    {"min-nodes", 0, OPTION_I64, offsetof(struct submit_values, min_nodes), .min = 0, .max = 100000,
     .value = "N", .help = "elastic: minimum number of pods", .flag_only = true},
    {"max-nodes", 0, OPTION_I64, offsetof(struct submit_values, max_nodes), .min = 0, .max = 100000,
     .value = "N", .help = "elastic: maximum number of pods", .flag_only = true},
    SUBMIT_OPTIONS,
    {"no-workspace", 0, OPTION_BOOL, offsetof(struct submit_values, no_workspace),
     .help = "send no folder", .flag_only = true},
    {"file", 'f', OPTION_STR, offsetof(struct submit_values, file), .value = "FILE",
     .help = "file with a TorchrunJob as YAML or JSON; flags override it", .flag_only = true},
    {"dry-run", 0, OPTION_BOOL, offsetof(struct submit_values, dry_run),
     .help = "print the job that would be created", .flag_only = true},
    {"output", 'o', OPTION_CHOICE, offsetof(struct submit_values, output), .fallback = "yaml",
     .choices = submit_outputs, .help = "how --dry-run prints: yaml or json", .flag_only = true},
    {"follow", 0, OPTION_BOOL, offsetof(struct submit_values, follow), .fallback = "true",
     .help = "show the logs and return the training's exit status", .flag_only = true},
    {"detach", 0, OPTION_BOOL, offsetof(struct submit_values, detach),
     .help = "return once the job is submitted", .flag_only = true},
    {0},
};

/* From the folder's name and a few letters. */
static const char *submit_name(struct session *session, const char *folder)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    char path[PATH_MAX];
    unsigned char random[NAME_SUFFIX_BYTES];
    char suffix[NAME_SUFFIX_BYTES + 1];
    const char *base;

    if (!realpath(folder, path))
        path[0] = '\0';
    base = strrchr(path, '/');
    if (!random_bytes(random, sizeof(random)))
        memset(random, getpid() & 255, sizeof(random));
    for (size_t i = 0; i < NAME_SUFFIX_BYTES; i++)
        suffix[i] = letters[random[i] % (sizeof(letters) - 1)];
    suffix[NAME_SUFFIX_BYTES] = '\0';
    return job_name(&session->arena, base ? base + 1 : "", suffix).p;
}

/* The job of --file, or an empty one. */
static int submit_read_file(struct session *session,
                            const struct submit_values *v,
                            struct json **ret,
                            struct err *err)
{
    struct str text;
    struct str kind;
    int r;

    *ret = json_new_object(&session->arena);
    if (!v->file)
        return 0;
    r = file_read(&session->arena, v->file, &text, err);
    if (r == 0)
        r = yaml_parse(&session->arena, text, ret, err);
    if (r < 0)
        return err_wrap(err, r, "%s", v->file);
    kind = json_str(json_get(*ret, "kind"));
    if (!str_is(kind, "TorchrunJob"))
        return err_set(err, -EINVAL,
                       "%s: kind is '" STR_FMT "', and only a TorchrunJob can be "
                       "submitted here (kubectl apply takes the others)",
                       v->file, STR_ARG(kind));
    return 0;
}

static int submit_check(const struct invocation *invocation, struct err *err)
{
    const struct submit_values *v = invocation->values;

    if (!v->file && invocation->arg_count == 0)
        return err_set(err, -EINVAL, "a command to run is needed, like \"python train.py\"");
    if (v->gpus == 0 && v->nodes == 0 && !v->file)
        return err_set(err, -EINVAL, "--gpus N or --nodes N is needed");
    if (v->gpus > 0 && v->nodes > 0)
        return err_set(err, -EINVAL,
                       "--gpus and --nodes have the same meaning: give only one of them");
    if (v->min_nodes > v->max_nodes && v->max_nodes > 0)
        return err_set(err, -EINVAL, "--min-nodes %lld is above --max-nodes %lld",
                       (long long)v->min_nodes, (long long)v->max_nodes);
    return 0;
}

/* A job without its folder would wait for it for ever. */
static void submit_undo(struct session *session, const char *name)
{
    struct err why = {0};
    int r = session_call(session,
                         &(struct api_request){.verb = API_DELETE,
                                               .kind = &kind_torchrunjob,
                                               .ns = str_from(session->config.ns),
                                               .name = str_from(name)},
                         NULL, &why);

    if (r == 0 || why.http_status == 404)
        session_say(session, "job %s was deleted again", name);
    else
        session_say(session,
                    "job %s waits for its folder and could not be deleted (%s): `%s sync %s` sends "
                    "the folder, `%s delete %s` deletes the job",
                    name, why.text, session->program, name, session->program, name);
}

/* There is a job of that name. */
static int submit_exists(struct session *session, const char *name, struct err *err)
{
    _cleanup_(object_unrefp) struct object *job = NULL;
    struct str phase;
    int r = session_get(session, &kind_torchrunjob, name, &job, err);

    if (r < 0)
        return r;
    if (job_awaits_folder(job))
        return err_set(
            err, -EEXIST,
            "job %s exists and waits for its folder: send it with `%s sync %s`, or remove the job "
            "with `%s delete`",
            name, session->program, name, session->program);
    phase = json_str_at(object_json(job, &session->arena), "status.phase");
    return err_set(err, -EEXIST,
                   "job %s exists (" STR_FMT "): give another --name, or delete it first", name,
                   STR_ARG(view_phase(phase)));
}

/* The folder goes to the sync pod; then the job is told which revision it runs. */
static int submit_send_folder(struct session *session,
                              const char *name,
                              struct upload *upload,
                              struct err *err)
{
    char bytes[TERM_BYTES_TEXT];
    int r = upload_run(session, name, upload, err);

    if (r < 0)
        return r;
    size_t count = upload->manifest->entries.count;
    session_say(session, "sent %s (%zu %s, %s) in %.2f s", upload->folder, count,
                count == 1 ? "entry" : "entries", term_bytes(upload->manifest->bytes, bytes),
                (double)upload->took_ms / 1000);
    return upload_tell(session, name, upload->revision, err);
}

/* Created, sent, told its revision. What fails in between leaves nothing behind, if the server can
 * still be reached; otherwise `sync` goes on with it. */
static int submit_create(struct session *session,
                         const struct submit_values *v,
                         const char *name,
                         const struct json *job,
                         struct upload *upload,
                         struct err *err)
{
    int r = session_call(session,
                         &(struct api_request){.verb = API_CREATE,
                                               .kind = &kind_torchrunjob,
                                               .ns = str_from(session->config.ns),
                                               .body = json_text(&session->arena, job),
                                               .strict_fields = true},
                         NULL, err);

    if (r < 0 && err->http_status == 409)
        return submit_exists(session, name, err);
    if (r < 0)
        return r;
    session_say(session, "job %s submitted to queue " STR_FMT, name, STR_ARG(job_queue(job)));
    if (upload->interrupted)
        r = err_set(err, -EINTR, "interrupted");
    else if (!v->no_workspace)
        r = submit_send_folder(session, name, upload, err);
    if (r < 0)
        submit_undo(session, name);
    return r;
}

/* Ctrl-C ends the upload, and the job goes. The second one ends everything at once. */
static void submit_on_interrupt(uv_signal_t *handle, int number)
{
    struct upload *upload = handle->data;

    if (upload->interrupted) {
        (void)uv_signal_stop(handle);
        (void)raise(number);
    }
    upload->interrupted = true;
    uv_stop(handle->loop);
}

static int submit_create_or_stop(struct session *session,
                                 const struct submit_values *v,
                                 const char *name,
                                 const struct json *job,
                                 struct upload *upload,
                                 struct err *err)
{
    uv_signal_t interrupt;
    int r;

    (void)uv_signal_init(&session->loop, &interrupt);
    interrupt.data = upload;
    (void)uv_signal_start(&interrupt, submit_on_interrupt, SIGINT);
    r = submit_create(session, v, name, job, upload, err);
    (void)uv_signal_stop(&interrupt);
    uv_close((uv_handle_t *)&interrupt, NULL);
    session_turn(session, 0);
    return r;
}

static void submit_print(struct session *session, const struct submit_values *v, struct json *job)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (v->output == 0) {
        yaml_write(&text, job);
    } else {
        json_write_pretty(&text, job);
        buf_addc(&text, '\n');
    }
    term_write(&session->out, buf_str(&text));
}

/* What the job may write to besides its folder: it must be here, and on this machine. */
static int submit_make_writes(struct session *session, struct submit_values *v, struct err *err)
{
    for (size_t i = 0; i < v->writes.count; i++) {
        const char *path = v->writes.items[i];
        char whole[PATH_MAX];

        if (!session_is_local(session))
            return err_set(err, -EINVAL,
                           "--write %s is a folder of this machine, and the job runs on a cluster; "
                           "--volume mounts a claim",
                           path);
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return err_set(err, -errno, "--write: cannot make the folder %s: %s", path,
                           errno_words(errno));
        if (!realpath(path, whole) || access(whole, W_OK) < 0)
            return err_set(err, -errno, "--write: you cannot write to %s: %s", path,
                           errno_words(errno));
        v->writes.items[i] = str_c(&session->arena, str_from(whole));
    }
    return 0;
}

static bool submit_is_written(const struct submit_values *v, struct str path)
{
    for (size_t i = 0; i < v->writes.count; i++) {
        struct str folder = str_from(v->writes.items[i]);

        if (str_starts(path, folder) && (path.len == folder.len || path.p[folder.len] == '/'))
            return true;
    }
    return false;
}

/* Folders that the command names and that the job could write to only in vain. */
static void submit_warn_outside(struct session *session,
                                const struct submit_values *v,
                                struct str command,
                                const char *folder)
{
    struct str path;

    for (size_t at = 0; (path = home_outside(command, folder, &at)).len;) {
        const char *name = str_c(&session->arena, path);
        struct stat st;

        if (submit_is_written(v, path) || stat(name, &st) < 0 || !S_ISDIR(st.st_mode) ||
            access(name, W_OK) < 0)
            continue;
        session_say(session,
                    "note: what the job writes to %s is lost with its pod; --write %s keeps it",
                    name, name);
    }
}

/* The same of links in the folder: a job that is let into its results by one writes beside its folder. */
static void submit_warn_links(struct session *session,
                              const struct submit_values *v,
                              const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->entries.count; i++) {
        const struct ws_entry *entry = &manifest->entries.items[i];
        char whole[PATH_MAX];
        struct stat st;

        if (entry->type != WS_LINK || entry->target.p[0] != '/' ||
            !realpath(str_c(&session->arena, entry->target), whole) || stat(whole, &st) < 0 ||
            !S_ISDIR(st.st_mode) || access(whole, W_OK) < 0 ||
            submit_is_written(v, str_from(whole)))
            continue;
        session_say(session,
                    "note: " STR_FMT " is a link to %s: what the job writes there is lost with its "
                    "pod; --write %s keeps it",
                    STR_ARG(str_sub(entry->path, 0, 200)), whole, whole);
    }
}

/* A path in the folder that the command names as it is on this machine: the job would read it in that
 * place, at that time, or find nothing there. */
static void submit_warn_live(struct session *session, struct str command, const char *folder)
{
    const char *text = str_c(&session->arena, command);

    for (const char *at = text; (at = strstr(at, folder)) != NULL; at++) {
        if ((at > text && !strchr(" =\"'", at[-1])) || !run_inside(folder, at))
            continue;
        session_say(session,
                    "note: the command names %.*s: the job reads that file as it is then, not the "
                    "one that is sent; without %s/ it reads the one that is sent",
                    (int)strcspn(at, " \"';|&><()"), at, folder);
        return;
    }
}

/* The script is the one that is sent; what else the command names by its whole path is told. */
static void submit_name_sent(struct session *session,
                             const char *dir,
                             struct json *job,
                             const struct manifest *sent)
{
    struct str command = json_str_at(job, "spec.command");
    char folder[PATH_MAX];

    if (!realpath(dir, folder))
        return;
    if (sent && !json_str_at(job, "spec.workingDir").len) {
        command = submit_script(&session->arena, command, folder, sent);
        (void)json_set(json_get(job, "spec"), STR("command"),
                       json_new_str(&session->arena, command));
    }
    submit_warn_live(session, command, folder);
}

/* Remembers for this person where the job comes from. */
static int submit_record(struct session *session,
                         struct submit_request *request,
                         const struct submit_values *v,
                         const struct json *job,
                         struct err *err)
{
    char record[HOME_ID_BYTES + 1];
    const char *most = v->results_max;
    struct str array = v->array ? str_from(v->array) : json_str_at(job, "spec.array.indexes");
    int64_t bytes_max = 0;
    int r = home_record_name(record, err);

    if (r == 0 && most && (quantity_whole(str_from(most), &bytes_max, NULL) < 0 || bytes_max < 1))
        return err_set(err, -EINVAL, "--results-max: '%.40s' is not a size such as 50Gi", most);

    if (r < 0)
        return r;
    request->record = str_c(&session->arena, str_from(record));
    return home_record_write(&session->arena, record,
                             &(struct home_record){.ns = str_from(request->ns),
                                                   .job = str_from(request->name),
                                                   .folder = str_from(request->folder),
                                                   .since_ns = home_moment(request->folder),
                                                   .server = str_from(session->config.server),
                                                   .array = str_sub(array, 0, str_find(array, '%')),
                                                   .bytes_max = bytes_max},
                             err);
}

/* Names that were mistyped would be waited for for ever. */
static int submit_find_after(struct session *session, const struct json *job, struct err *err)
{
    JSON_FOREACH(json_at(job, "spec.after"), entry) {
        _cleanup_(object_unrefp) struct object *other = NULL;
        const char *name = str_c(&session->arena, json_str(json_get(entry, "job")));
        int r = session_get(session, &kind_torchrunjob, name, &other, err);

        if (r < 0)
            return err_wrap(err, r, "--after");
    }
    return 0;
}

/* The job as a file and the flags have it; upload->folder is what is sent. */
static int submit_build(struct session *session,
                        struct submit_values *v,
                        struct str command,
                        struct json **ret_job,
                        struct err *err)
{
    struct submit_request request = {.name = v->name, .ns = session->config.ns, .command = command};
    char path[PATH_MAX];
    char host[256] = "";
    struct str named;
    int r = submit_read_file(session, v, ret_job, err);

    if (r < 0)
        return r;
    named = json_str_at(*ret_job, "metadata.name");
    if (!v->name)
        v->name = named.len ? str_c(&session->arena, named) : submit_name(session, v->dir);
    bool is_short = strlen(v->name) <= NAMED_MAX; /* one that is cut would be another one's */
    const char *clean = is_short && names_dns_label(str_from(v->name))
                            ? job_name(&session->arena, v->name, "").p
                            : NULL;
    if (clean && !named.len) {
        session_say(session, "the job's name is %s: names have small letters, digits and -", clean);
        v->name = clean;
    }
    request.name = v->name;
    if (!v->no_workspace) {
        if (!realpath(v->dir, path))
            return err_set(err, -errno, "%s: %s", v->dir, errno_words(errno));
        request.folder = str_c(&session->arena, str_from(path)); /* the job borrows it */
        (void)gethostname(host, sizeof(host) - 1);
        request.host = str_c(&session->arena, str_from(host));
        if (v->results && !v->dry_run)
            r = submit_record(session, &request, v, *ret_job, err);
    }
    if (r == 0)
        r = submit_make_writes(session, v, err);
    if (r == 0 && !(v->queue ? v->dry_run : job_queue(*ret_job).len > 0))
        r = precheck_choose_queue(session, &v->queue, err);
    if (r == 0)
        r = submit_job(&session->arena, v, &request, *ret_job, err);
    if (r == 0 && v->after.count)
        r = submit_find_after(session, *ret_job, err);
    if (r == 0 && request.folder && session_is_local(session))
        submit_warn_outside(session, v, json_str_at(*ret_job, "spec.command"), request.folder);
    return r;
}

/* After the end: what was written comes home. What cannot is said, and stays where it is. */
static int submit_bring(struct session *session, const char *name, int status)
{
    struct err err = {0};
    int r = home_bring(session, name, &err);

    if (r == 0)
        return status;
    /* Of a cluster's ended pod nobody can have it, a queue may clean up, and not everybody may read
     * what a pod wrote: none of that makes a training fail. */
    if (r == -ESRCH || r == -EACCES) {
        session_say(session, "note: nothing was copied: %s", err.text);
        return status;
    }
    session_say(session,
                "warning: what the job wrote did not come back: %s; `%s pull %s` copies it, for 7 "
                "days",
                err.text, session->program, name);
    return status ? status : 1;
}

int submit_go(struct session *session,
              const struct submit_values *values,
              struct str command,
              bool run,
              struct err *err)
{
    struct submit_values v = *values;
    bool named = v.dir != NULL;
    struct json *job = NULL;
    bool ended = false;
    int r;

    v.dir = named ? v.dir : ".";
    struct upload upload = {.folder = v.dir};
    r = v.no_workspace ? 0 : ship_check_folder(session, v.dir, named, err);
    if (r == 0)
        r = submit_build(session, &v, command, &job, err);
    if (r == 0)
        r = precheck_job(session, job, err);
    if (r == 0 && v.memory)
        precheck_say_limits(session);
    if (r == 0 && v.dry_run) {
        if (!v.no_workspace)
            submit_name_sent(session, v.dir, job, NULL);
        submit_print(session, &v, job);
        return 0;
    }
    if (r == 0 && !v.no_workspace) {
        upload.command = str_c(&session->arena, json_str_at(job, "spec.command"));
        r = upload_scan(session, &upload, err);
        ship_say(&upload.ship);
        if (r == 0)
            submit_name_sent(session, v.dir, job, upload.manifest);
        if (r == 0 && session_is_local(session))
            submit_warn_links(session, &v, upload.manifest);
        if (r == 0)
            r = ship_check_size(session, upload.manifest, named, err);
    }
    if (r == 0)
        r = submit_create_or_stop(session, &v, v.name, job, &upload, err);
    upload_done(&upload);
    if (r < 0)
        return r;
    if (v.detach || !v.follow) {
        printf("%s\n", v.name);
        return 0;
    }
    if (array_is(job)) {
        session_say(session,
                    "Ctrl-C leaves the jobs running; `%s cancel %s` ends them, `%s pull %s --home` "
                    "copies what they wrote",
                    session->program, v.name, session->program, v.name);
        r = array_follow(session, v.name, err);
        return r >= 0 && v.results && !v.no_workspace ? submit_bring(session, v.name, r) : r;
    }
    r = follow_job(session,
                   &(struct follow_options){.job = v.name,
                                            .watch = true,
                                            .rank = -1,
                                            .tail = -1,
                                            .generation = -1,
                                            .run = run,
                                            .ret_ended = &ended},
                   err);
    return ended && v.results && !v.no_workspace ? submit_bring(session, v.name, r) : r;
}

static int submit_run(struct invocation *invocation)
{
    struct session session = session_closed(invocation);
    struct err err = {0};
    int status = submit_check(invocation, &err);

    if (status < 0) {
        (void)session_fail(&session, &err);
        return EXIT_USAGE;
    }
    status = session_open(&session, invocation, &err);
    if (status == 0)
        status = submit_go(&session, invocation->values,
                           invocation->arg_count ? job_command(invocation->arena, invocation->args,
                                                               invocation->arg_count)
                                                 : STR_NONE,
                           false, &err);
    if (status < 0) {
        bool interrupted = status == -EINTR;

        status = session_fail(&session, &err);
        status = interrupted ? STATUS_INTERRUPTED : status;
    }
    session_close(&session);
    return status;
}

const struct command command_submit = {
    .name = "submit",
    .summary = "send this folder and run a command on N GPUs",
    .usage = "\"COMMAND\"",
    .about =
        "Sends the folder, waits until all GPUs are free at the same time, runs the command with "
        "torchrun on "
        "each, shows the logs of all ranks, copies what the job wrote back into the folder and "
        "ends "
        "with the training's exit status.",
    .example = "kubectl torchrun submit --queue dev --gpus 8 \"python train.py --epochs 10\"",
    .options = submit_options,
    .values_size = sizeof(struct submit_values),
    .args_max = 1000,
    .run = submit_run,
};
