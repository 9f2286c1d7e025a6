#include "plugin/job.h"

#include "api/kind.h"
#include "api/literal.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define NAME_BASE_MAX 40 /* leaves room for a suffix and what the pods add */

const char *job_arg(const char *text)
{
    const struct kind *kind = &kind_torchrunjob;
    const char *slash = strchr(text, '/');
    struct str prefix = str_sub(str_from(text), 0, slash ? (size_t)(slash - text) : 0);
    size_t dot = str_find(prefix, '.');
    struct str name = str_sub(prefix, 0, dot);

    if (!str_is(name, kind->singular) && !str_is(name, kind->plural))
        return text;
    if (dot < prefix.len && !str_is(str_sub(prefix, dot + 1, prefix.len), kind->group))
        return text;
    return slash + 1;
}

bool job_is_over(struct str phase)
{
    return str_is(phase, "Succeeded") || str_is(phase, "Failed") || str_is(phase, "TimedOut");
}

int job_exit_status(const struct json *job)
{
    int64_t code = json_i64_or(json_at(job, "status.exitCode"), 1);

    if (str_is(json_str_at(job, "status.phase"), "Succeeded"))
        return 0;
    return code > 0 && code < 256 ? (int)code : 1;
}

bool job_awaits_folder(const struct object *job)
{
    return str_is(object_annotation(job, JOB_WORKSPACE), "upload") &&
           object_annotation(job, JOB_REVISION).len == 0;
}

bool job_owns(const char *job, const struct object *pod)
{
    const struct object_owner *owner = object_controller(pod);

    return owner && str_is(owner->name, job) && str_is(owner->kind, kind_torchrunjob.name) &&
           str_starts(owner->api_version, str_from(kind_torchrunjob.group));
}

struct str job_queue(const struct json *job)
{
    struct str queue = json_str_at(job, "spec.jobQueue");

    return queue.len ? queue : json_str_at(job, "spec.queue");
}

struct json *job_labels(struct arena *arena, const struct json *labels)
{
    struct json *out = json_new_object(arena);
    size_t count = 0;

    JSON_FOREACH(labels, label)
        if (count++ < JOB_LABELS_MAX)
            (void)json_set(out, str_dup(arena, json_key(label)), json_clone(arena, label));
    return count ? out : NULL;
}

struct str job_name(struct arena *arena, const char *folder, const char *suffix)
{
    char text[NAME_BASE_MAX + 1];
    size_t n = 0;

    for (; *folder && n < NAME_BASE_MAX; folder++) {
        char c = (char)tolower((unsigned char)*folder);

        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            text[n++] = c;
        else if (n > 0 && text[n - 1] != '-')
            text[n++] = '-';
    }
    while (n > 0 && text[n - 1] == '-')
        n--;
    text[n] = '\0';
    return str_printf(arena, "%s%s%s%s", n && text[0] >= 'a' ? "" : "job-", text,
                      n && *suffix ? "-" : "", suffix);
}

static void job_quote(struct buf *text, const char *word)
{
    buf_addc(text, '\'');
    for (const char *c = word; *c; c++) {
        if (*c == '\'')
            buf_add(text, STR("'\\''"));
        else
            buf_addc(text, *c);
    }
    buf_addc(text, '\'');
}

struct str job_command(struct arena *arena, const char *const *args, size_t count)
{
    _cleanup_(buf_done) struct buf text = {0};

    if (count == 1)
        return str_from(args[0]);
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_addc(&text, ' ');
        job_quote(&text, args[i]);
    }
    return str_dup(arena, buf_str(&text));
}

struct str job_words(struct arena *arena, const char *const *args, size_t count)
{
    _cleanup_(buf_done) struct buf text = {0};

    for (size_t i = 0; i < count; i++) {
        size_t plain = strspn(args[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789_@%+=:,./-");

        if (i)
            buf_addc(&text, ' ');
        if (args[i][0] && !args[i][plain])
            buf_add(&text, str_from(args[i]));
        else
            job_quote(&text, args[i]);
    }
    return str_dup(arena, buf_str(&text));
}

int job_add_env(struct arena *arena,
                struct json *spec,
                const char *const *items,
                size_t count,
                char *(*lookup)(const char *name),
                struct err *err)
{
    struct json *list;

    if (count == 0)
        return 0;
    list = json_add_array(arena, spec, "env");
    for (size_t i = 0; i < count; i++) {
        struct str pair = str_from(items[i]);
        size_t eq = str_find(pair, '=');
        struct str name = str_sub(pair, 0, eq);
        struct json *entry = json_push(list, json_new_object(arena));
        const char *value = eq < pair.len ? pair.p + eq + 1 : lookup(items[i]);

        if (name.len == 0 || !value)
            return err_set(err, -EINVAL,
                           "--env: '%s' is neither NAME=VALUE nor a variable of this shell",
                           items[i]);
        json_add_str(arena, entry, "name", name);
        json_add_str(arena, entry, "value", literal_value(arena, str_from(value)));
    }
    return 0;
}
