#include "agent/sysctl.h"

#include "api/pod_security.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "shim/record.h"

#include <errno.h>
#include <stddef.h>

/* The longest that these settings take are three numbers, or a list of port ranges. */
#define VALUE_BYTES_MAX 256
#define FIELD           "spec.securityContext.sysctls: "

/* With a character for every dot and slash of the name: both stand between its parts. */
static struct str sysctl_name(struct arena *arena, const struct json *item, char between)
{
    struct str given = json_str(json_get(item, "name"));
    char *name = ARENA_ARRAY(arena, char, given.len + 1);

    for (size_t i = 0; i < given.len; i++)
        name[i] = given.p[i] == '.' || given.p[i] == '/' ? between : given.p[i];
    return (struct str){name, given.len};
}

static bool sysctl_value_is_text(struct str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.p[i] != '\t' && (value.p[i] < ' ' || value.p[i] > '~'))
            return false;
    return value.len > 0 && value.len <= VALUE_BYTES_MAX;
}

int sysctl_check(const struct json *spec, struct sysctl_scope scope, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};

    JSON_FOREACH(json_at(spec, "securityContext.sysctls"), item) {
        struct str name = sysctl_name(&arena, item, '.');
        bool network = str_starts(name, STR("net."));

        if (!pod_security_sysctl_is_safe(name, POD_SECURITY_LATEST))
            return err_set(err, -ENOTSUP,
                           FIELD STR_FMT
                           ": it is not one that a pod may set; leave it out, and have the "
                           "machine's administrator set it",
                           STR_ARG(str_sub(name, 0, 64)));
        if (network ? !scope.own_network : !scope.own_ipc)
            return err_set(err, -ENOTSUP,
                           FIELD STR_FMT ": this pod shares the machine's %s, so it cannot have a "
                                         "setting of its own; leave it out",
                           STR_ARG(name), network ? "network" : "IPC namespace");
        if (!sysctl_value_is_text(json_str(json_get(item, "value"))))
            return err_set(err, -EINVAL, FIELD STR_FMT ": give a value of 1 to %d characters",
                           STR_ARG(name), VALUE_BYTES_MAX);
    }
    return 0;
}

void sysctl_add(const struct json *spec, struct buf *records)
{
    _cleanup_(arena_done) struct arena arena = {0};

    JSON_FOREACH(json_at(spec, "securityContext.sysctls"), item) {
        struct str path = sysctl_name(&arena, item, '/');

        record_add(records, "sysctl.file", str_printf(&arena, "/proc/sys/" STR_FMT, STR_ARG(path)));
        record_add(records, "sysctl.write", json_str(json_get(item, "value")));
    }
}
