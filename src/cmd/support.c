#include "agent/doctor.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/version.h"
#include "cmd/datadir.h"
#include "cmd/doctor.h"
#include "cmd/muster.h"
#include "plugin/plugin.h"
#include "store/maintain.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "tool/option.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* muster support FILE: what a maintainer asks for first, in one text. Each part is bounded and says so where
 * it is cut; one that cannot be had says why, and the others go on. Of objects only kinds that are named here
 * are taken, and of these no command, environment or annotation that repeats them. */

#define PART_BYTES_MAX ((size_t)4 << 20) /* a log of some 25,000 lines; with 15 parts 60 MiB */
#define ASK_MS         30000
#define DEPTH_MAX      64

struct support_values {
    struct common_values common; /* first */
    const char *data_dir;
    const char *log;
};

static const struct option support_options[] = {
    COMMON_OPTIONS,
    {"data-dir", 0, OPTION_STR, offsetof(struct support_values, data_dir), .value = "DIR",
     .help = "data folder of muster up (default: that of $KUBECONFIG, else the same as for up)"},
    {"log", 0, OPTION_STR, offsetof(struct support_values, log), .value = "FILE",
     .help = "log of muster up; journalctl -u muster > FILE writes one"},
    {0},
};

struct support {
    struct session session;
    struct arena *arena;
    const char *folder;
    struct buf out;
    size_t parts;
    const char *recordings; /* NULL: none are written */
};

/* The end of what is too long: that is where it went wrong. */
static void part_add(struct support *support, const char *name, struct str text)
{
    bool cut = text.len > PART_BYTES_MAX;

    if (cut)
        text = str_sub(text, text.len - PART_BYTES_MAX, text.len);
    buf_addf(&support->out, "==== %s (%zu bytes%s)\n", name, text.len,
             cut ? ", the end of a longer text" : "");
    buf_add(&support->out, text);
    if (!text.len || text.p[text.len - 1] != '\n')
        buf_addc(&support->out, '\n');
    (void)printf("%-14s %8zu bytes%s\n", name, text.len, cut ? ", cut" : "");
    support->parts++;
}

static void part_fail(struct support *support, const char *name, const char *why)
{
    struct str words = str_printf(support->arena, "not there: %s\n", why);

    part_add(support, name, words);
}

/* ---- of this machine ---- */

static void add_version(struct support *support)
{
    part_add(support, "version",
             str_printf(support->arena, "muster %s %s, " STR_FMT "\n", MUSTER_VERSION, muster_build,
                        STR_ARG(time_text(support->arena, clock_now_ms()))));
}

/* Where its recordings are, if it writes any. */
static void take_flag(struct support *support, struct str word, bool *after)
{
    static const char *const names[] = {"--record=", "MUSTER_RECORD="};

    if (*after)
        support->recordings = str_c(support->arena, word);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_starts(word, str_from(names[i])))
            support->recordings = str_c(support->arena, str_sub(word, strlen(names[i]), word.len));
    *after = str_is(word, "--record");
}

/* Those of its command line, and those of its environment: /etc/default/muster. */
static void add_flags(struct support *support)
{
    const char *path = str_printf(support->arena, "%s/lock", support->folder).p;
    _cleanup_(buf_done) struct buf text = {0};
    struct str pid, words, variables, word;
    uint64_t number;
    bool after = false;

    if (file_read(support->arena, path, &pid, NULL) < 0 || !str_to_u64(str_trim(pid), &number) ||
        file_read(support->arena, str_printf(support->arena, "/proc/%" PRIu64 "/cmdline", number).p,
                  &words, NULL) < 0 ||
        file_read(support->arena, str_printf(support->arena, "/proc/%" PRIu64 "/environ", number).p,
                  &variables, NULL) < 0) {
        part_fail(support, "flags", "no muster up runs on this data folder");
        return;
    }
    while (str_cut(&variables, '\0', &word))
        if (str_starts(word, STR("MUSTER_"))) {
            take_flag(support, word, &after);
            buf_addf(&text, STR_FMT "\n", STR_ARG(word));
        }
    while (str_cut(&words, '\0', &word)) {
        take_flag(support, word, &after);
        buf_addf(&text, STR_FMT "\n", STR_ARG(word));
    }
    part_add(support, "flags", buf_str(&text));
}

static void add_doctor(struct support *support, struct invocation *invocation)
{
    struct finding findings[DOCTOR_LOOK_MAX];
    size_t count = doctor_look(invocation, support->folder, findings);
    _cleanup_(buf_done) struct buf text = {0};

    for (size_t i = 0; i < count; i++)
        buf_addf(&text, "%s %s: %s\n", findings[i].ok ? "yes" : "no ", findings[i].name,
                 findings[i].words);
    part_add(support, "doctor", buf_str(&text));
}

static void on_problem(void *user, const char *text)
{
    buf_addf(user, "%s\n", text);
}

static void add_store(struct support *support)
{
    struct store_report report = {0};
    struct err err = {0};
    _cleanup_(buf_done) struct buf text = {0};
    const char *path = str_printf(support->arena, "%s/store.db", support->folder).p;

    if (store_check(path, on_problem, &text, &report, &err) < 0) {
        part_fail(support, "store check", err.text);
        return;
    }
    buf_addf(&text, "%zu problems, %zu objects, %zu changes, revision %" PRIu64 "\n",
             report.problems, report.objects, report.changes, report.revision);
    part_add(support, "store check", buf_str(&text));
}

static void add_log(struct support *support, const char *named)
{
    struct err err = {0};
    struct str text;

    if (!named)
        part_fail(support, "log", "name it with --log; journalctl -u muster > FILE writes one");
    else if (file_read(support->arena, named, &text, &err) == 0)
        part_add(support, "log", text);
    else
        part_fail(support, "log", err.text);
}

/* ---- of the server ---- */

static void add_answer(struct support *support, const char *name, const char *path)
{
    struct session_request request = {
        .method = "GET", .path = str_from(path), .timeout_ms = ASK_MS};
    struct err err = {0};
    struct str body = STR("");
    int status = session_http(&support->session, &request, &body, &err);

    if (status < 0)
        part_fail(support, name, err.text);
    else
        part_add(support, name, body);
}

/* What people run, and with what, is theirs. */
// NOLINTNEXTLINE(misc-no-recursion)
static void leave_out(struct arena *arena, struct json *value, int depth)
{
    static const char *const names[] = {
        "command",       "args",
        "env",           "data",
        "binaryData",    "stringData",
        "managedFields", "kubectl.kubernetes.io/last-applied-configuration"};

    for (size_t i = 0; depth < DEPTH_MAX && i < COUNT_OF(names) && json_is(value, JSON_OBJECT); i++)
        if (json_get(value, names[i]))
            (void)json_set(value, str_from(names[i]), json_new_str(arena, STR("(left out)")));
    JSON_FOREACH(value, member)
        if (depth < DEPTH_MAX && (json_is(member, JSON_OBJECT) || json_is(member, JSON_ARRAY)))
            leave_out(arena, member, depth + 1);
}

static void add_objects(struct support *support, const char *name, const char *path)
{
    struct session_request request = {
        .method = "GET", .path = str_from(path), .timeout_ms = ASK_MS};
    struct err err = {0};
    struct str body = STR("");
    struct json *list = NULL;
    int status = session_http(&support->session, &request, &body, &err);

    if (status >= 0 && status != 200)
        (void)err_set(&err, -EIO, "the server answered %d", status);
    if (status != 200 || json_parse(support->arena, body, &list, &err) < 0) {
        part_fail(support, name, err.text);
        return;
    }
    leave_out(support->arena, list, 0);
    part_add(support, name, json_text(support->arena, list));
}

/* The newest of them, by name: they are called by their time. NULL: there is none. */
static const char *newest_recording(struct support *support)
{
    DIR *folder = support->recordings ? opendir(support->recordings) : NULL;
    const struct dirent *entry;
    const char *newest = NULL;

    while (folder && (entry = readdir(folder)))
        if (str_ends(str_from(entry->d_name), STR(".recording")) &&
            (!newest || strcmp(entry->d_name, newest) > 0))
            newest = str_c(support->arena, str_from(entry->d_name));
    if (folder)
        (void)closedir(folder);
    return newest ? str_printf(support->arena, "%s/%s", support->recordings, newest).p : NULL;
}

/* Whole, or not at all: half of one cannot be repeated (docs/replay.md). No decision depends on what is left
 * out. */
static void add_recording(struct support *support)
{
    const char *path = newest_recording(support);
    _cleanup_(buf_done) struct buf text = {0};
    struct str lines, line;
    struct json *json;
    struct err err = {0};

    if (!path) {
        part_fail(support, "recording", "muster up --record FOLDER writes what was decided");
        return;
    }
    if (file_read(support->arena, path, &lines, &err) < 0) {
        part_fail(support, "recording", err.text);
        return;
    }
    while (str_cut(&lines, '\n', &line) && text.len < PART_BYTES_MAX)
        if (json_parse(support->arena, line, &json, NULL) == 0) {
            leave_out(support->arena, json, 0);
            json_write(&text, json);
            buf_addc(&text, '\n');
        }
    if (!text.len)
        part_fail(support, "recording", "nothing is written yet");
    else if (text.len < PART_BYTES_MAX)
        part_add(support, "recording", buf_str(&text));
    else
        part_fail(support, "recording",
                  str_printf(support->arena, "%s is too large: send it beside this", path).p);
}

static void add_server(struct support *support)
{
    static const struct {
        const char *name;
        const char *path;
    } lists[] = {
        {"nodes", "/api/v1/nodes"},
        {"queues", "/apis/scheduling.run.ai/v2/queues"},
        {"torchrunqueues", "/apis/torchrun.ai/v1alpha1/torchrunqueues"},
        {"torchrunjobs", "/apis/torchrun.ai/v1alpha1/torchrunjobs"},
        {"podgroups", "/apis/scheduling.run.ai/v2alpha2/podgroups"},
        {"pods", "/api/v1/pods"},
        {"events", "/api/v1/events"},
    };

    add_answer(support, "readyz", "/readyz");
    add_answer(support, "metrics", "/metrics");
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        add_objects(support, lists[i].name, lists[i].path);
}

static int support_run(struct invocation *invocation)
{
    const struct support_values *values = invocation->values;
    struct support support = {.arena = invocation->arena};
    const char *file = invocation->args[0];
    struct err err = {0};

    support.folder = values->data_dir ? values->data_dir : datadir_meant(invocation->arena);
    add_version(&support);
    add_flags(&support);
    add_doctor(&support, invocation);
    add_store(&support);
    add_log(&support, values->log);
    add_recording(&support);
    int r = session_open(&support.session, invocation, &err);
    if (r == 0)
        add_server(&support);
    else
        part_fail(&support, "server", err.text);
    session_close(&support.session);
    r = file_replace(file, buf_str(&support.out), 0600, &err);
    if (r == 0)
        (void)printf(
            "%s: %zu parts, %zu bytes. Commands, environments, Secrets and ConfigMaps are not in "
            "it; names of people, jobs and nodes are: read it before you send it\n",
            file, support.parts, support.out.len);
    else
        (void)fprintf(stderr, "muster support: %s\n", err.text);
    buf_done(&support.out);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_support = {
    .name = "support",
    .summary = "collect what a maintainer needs to know into one file",
    .usage = "FILE",
    .about =
        "Versions, flags, doctor, a check of the store, the log, the newest recording, metrics, "
        "and the objects that say how things are, 4 MiB of each at most. Commands, environments, "
        "Secrets and ConfigMaps "
        "are left out. "
        "What cannot be had says why; a server that does not answer is one such thing.",
    .example = "muster support support.txt",
    .options = support_options,
    .values_size = sizeof(struct support_values),
    .args_min = 1,
    .args_max = 1,
    .run = support_run,
};
