#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/yaml.h"
#include "plugin/plugin.h"
#include "tool/file.h"
#include "workspace/manifest.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define NAME_BASE_MAX     40 /* leaves room for a suffix and what the pods add */
#define NAME_SUFFIX_BYTES 5

struct submit_values {
    struct common_values common;
    const char *queue;
    int64_t gpus;
    int64_t nodes;
    int64_t min_nodes;
    int64_t max_nodes;
    const char *name;
    struct option_list env;
    const char *setup;
    const char *dir;
    bool no_workspace;
    bool detach;
    bool follow;
    bool dry_run;
    const char *file;
    int output;
};

static const char *const submit_outputs[] = {"yaml", "json", NULL};

static const struct option submit_options[] = {
    COMMON_OPTIONS,
    {"queue", 'q', OPTION_STR, offsetof(struct submit_values, queue), .value = "QUEUE",
     .help = "TorchrunQueue to submit to"},
    {"gpus", 'g', OPTION_I64, offsetof(struct submit_values, gpus), .min = 0, .max = 1000000,
     .value = "N", .help = "total number of GPUs", .flag_only = true},
    {"nodes", 'N', OPTION_I64, offsetof(struct submit_values, nodes), .min = 0, .max = 100000,
     .value = "N", .help = "number of pods, each with all GPUs of a node; replaces --gpus",
     .flag_only = true},
    {"min-nodes", 0, OPTION_I64, offsetof(struct submit_values, min_nodes), .min = 0, .max = 100000,
     .value = "N", .help = "elastic: minimum number of pods", .flag_only = true},
    {"max-nodes", 0, OPTION_I64, offsetof(struct submit_values, max_nodes), .min = 0, .max = 100000,
     .value = "N", .help = "elastic: maximum number of pods", .flag_only = true},
    {"name", 0, OPTION_STR, offsetof(struct submit_values, name), .value = "NAME",
     .help = "name of the job (default: the folder's name and a few letters)", .flag_only = true},
    {"env", 'e', OPTION_LIST, offsetof(struct submit_values, env), .value = "NAME=VALUE",
     .help = "environment variable of the training; NAME alone copies the value from this shell",
     .flag_only = true},
    {"setup", 0, OPTION_STR, offsetof(struct submit_values, setup), .value = "CMD",
     .help = "command to run in every pod before torchrun, in the same shell", .flag_only = true},
    {"dir", 'd', OPTION_STR, offsetof(struct submit_values, dir), .fallback = ".", .value = "DIR",
     .help = "folder to send", .flag_only = true},
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

/* "my_project" -> "my-project-x7k2p". */
static const char *make_name(struct session *session, const char *folder)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    char path[PATH_MAX];
    unsigned char random[NAME_SUFFIX_BYTES];
    char text[NAME_BASE_MAX + 1];
    const char *base;
    size_t n = 0;

    if (!realpath(folder, path))
        path[0] = '\0';
    base = strrchr(path, '/');
    for (base = base ? base + 1 : "job"; *base && n < NAME_BASE_MAX; base++) {
        char c = (char)tolower((unsigned char)*base);

        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            text[n++] = c;
        else if (n > 0 && text[n - 1] != '-')
            text[n++] = '-';
    }
    while (n > 0 && text[n - 1] == '-')
        n--;
    text[n] = '\0';
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        memset(random, getpid() & 255, sizeof(random));
    char suffix[NAME_SUFFIX_BYTES + 1];
    for (size_t i = 0; i < NAME_SUFFIX_BYTES; i++)
        suffix[i] = letters[random[i] % (sizeof(letters) - 1)];
    suffix[NAME_SUFFIX_BYTES] = '\0';
    return str_printf(&session->arena, "%s%s-%s", n && text[0] >= 'a' ? "" : "job-", text, suffix)
        .p;
}

static int add_env(struct session *session,
                   const struct submit_values *v,
                   struct json *spec,
                   struct err *err)
{
    struct json *list;

    if (v->env.count == 0)
        return 0;
    list = json_add_array(&session->arena, spec, "env");
    for (size_t i = 0; i < v->env.count; i++) {
        struct str pair = str_from(v->env.items[i]);
        size_t eq = str_find(pair, '=');
        struct str name = str_sub(pair, 0, eq);
        struct json *entry = json_push(list, json_new_object(&session->arena));
        const char *value = eq < pair.len ? pair.p + eq + 1 : getenv(v->env.items[i]);

        if (name.len == 0 || !value)
            return err_set(err, -EINVAL,
                           "--env: '%s' is neither NAME=VALUE nor a variable of this shell",
                           v->env.items[i]);
        json_add_str(&session->arena, entry, "name", name);
        json_add_c(&session->arena, entry, "value", value);
    }
    return 0;
}

static struct str join_command(struct session *session, const struct invocation *invocation)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (invocation->arg_count == 1)
        return str_from(invocation->args[0]);
    for (size_t i = 0; i < invocation->arg_count; i++) {
        if (i)
            buf_addc(&text, ' ');
        buf_addc(&text, '\'');
        for (const char *c = invocation->args[i]; *c; c++) {
            if (*c == '\'')
                buf_add(&text, STR("'\\''"));
            else
                buf_addc(&text, *c);
        }
        buf_addc(&text, '\'');
    }
    return str_dup(&session->arena, buf_str(&text));
}

/* The job of --file, or an empty one. */
static int read_job(struct session *session,
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

/* What the flags say, put over what the file says. */
static int make_job(struct session *session,
                    const struct invocation *invocation,
                    const char *name,
                    struct json *job,
                    struct err *err)
{
    const struct submit_values *v = invocation->values;
    struct arena *arena = &session->arena;
    struct json *metadata;
    struct json *spec;

    json_add_c(arena, job, "apiVersion", "torchrun.ai/v1alpha1");
    json_add_c(arena, job, "kind", "TorchrunJob");
    metadata = json_make_path(arena, job, "metadata");
    json_add_c(arena, metadata, "name", name);
    json_add_c(arena, metadata, "namespace", session->config.ns);
    if (!v->no_workspace)
        json_add_c(arena, json_make_path(arena, metadata, "annotations"), "torchrun.ai/workspace",
                   "upload");
    spec = json_make_path(arena, job, "spec");
    if (v->queue)
        json_add_c(arena, spec, "jobQueue", v->queue);
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
    if (invocation->arg_count)
        json_add_str(arena, spec, "command", join_command(session, invocation));
    if (v->setup)
        json_add_c(arena, spec, "setupCommand", v->setup);
    return add_env(session, v, spec, err);
}

static int check_values(const struct invocation *invocation, struct err *err)
{
    const struct submit_values *v = invocation->values;

    if (!v->file && invocation->arg_count == 0)
        return err_set(err, -EINVAL, "a command to run is needed, like \"python train.py\"");
    if (!v->queue && !v->file)
        return err_set(err, -EINVAL, "--queue is needed (`kubectl torchrun queues` lists them)");
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

static void delete_job(struct session *session, const char *name)
{
    (void)session_call(session,
                       &(struct api_request){.verb = API_DELETE,
                                             .kind = &kind_torchrunjob,
                                             .ns = str_from(session->config.ns),
                                             .name = str_from(name)},
                       NULL, NULL);
}

/* The folder goes to the sync pod; then the job is told which revision it runs. */
static int send_folder(struct session *session,
                       const char *name,
                       struct upload *upload,
                       struct err *err)
{
    char bytes[TERM_BYTES_TEXT];
    int r = upload_run(session, name, upload, err);

    if (r < 0)
        return r;
    session_say(session, "sent %s (%zu entries, %s) in %.2f s", upload->folder,
                upload->manifest->entries.count, term_bytes(upload->manifest->bytes, bytes),
                (double)upload->took_ms / 1000);
    return session_patch(
        session, &kind_torchrunjob, name,
        str_printf(&session->arena,
                   "{\"metadata\":{\"annotations\":{\"torchrun.ai/workspace-revision\":\"%s\"}}}",
                   upload->revision),
        err);
}

/* Created, sent, told its revision. What fails in between leaves nothing behind. */
static int create_job(struct session *session,
                      const struct submit_values *v,
                      const char *name,
                      const struct json *job,
                      struct upload *upload,
                      struct err *err)
{
    struct str queue = json_str_at(job, "spec.jobQueue");
    int r = session_call(session,
                         &(struct api_request){.verb = API_CREATE,
                                               .kind = &kind_torchrunjob,
                                               .ns = str_from(session->config.ns),
                                               .body = json_text(&session->arena, job),
                                               .strict_fields = true},
                         NULL, err);

    if (r < 0)
        return r;
    session_say(session, "job %s submitted to queue " STR_FMT, name,
                STR_ARG(queue.len ? queue : json_str_at(job, "spec.queue")));
    if (v->no_workspace)
        return 0;
    r = send_folder(session, name, upload, err);
    if (r < 0)
        delete_job(session, name);
    return r;
}

static void print_job(struct session *session, const struct submit_values *v, struct json *job)
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

static int submit(struct session *session, const struct invocation *invocation, struct err *err)
{
    const struct submit_values *v = invocation->values;
    struct upload upload = {.folder = v->dir};
    const char *name = v->name;
    struct json *job = NULL;
    struct str named;
    int r = read_job(session, v, &job, err);

    if (r < 0)
        return r;
    named = json_str_at(job, "metadata.name");
    if (!name)
        name = named.len ? str_c(&session->arena, named) : make_name(session, v->dir);
    r = make_job(session, invocation, name, job, err);
    if (r == 0)
        r = precheck_job(session, job, err);
    if (r == 0 && v->dry_run) {
        print_job(session, v, job);
        return 0;
    }
    if (r == 0 && !v->no_workspace)
        r = upload_scan(session, &upload, err);
    if (r == 0)
        r = create_job(session, v, name, job, &upload, err);
    upload_done(&upload);
    if (r < 0)
        return r;
    if (v->detach || !v->follow) {
        printf("%s\n", name);
        return 0;
    }
    return follow_job(session,
                      &(struct follow_options){
                          .job = name, .watch = true, .rank = -1, .tail = -1, .generation = -1},
                      err);
}

static int submit_run(struct invocation *invocation)
{
    struct session session = {.command = invocation->command->name};
    struct err err = {0};
    int status = check_values(invocation, &err);

    if (status < 0) {
        (void)session_fail(&session, &err);
        return EXIT_USAGE;
    }
    status = session_open(&session, invocation, &err);
    if (status == 0)
        status = submit(&session, invocation, &err);
    if (status < 0)
        status = session_fail(&session, &err);
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
        "each, shows the logs of all ranks and ends with the training's exit status.",
    .example = "kubectl torchrun submit --queue dev --gpus 8 \"python train.py --epochs 10\"",
    .options = submit_options,
    .values_size = sizeof(struct submit_values),
    .args_max = 1000,
    .run = submit_run,
};
