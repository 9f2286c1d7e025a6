#include "agent/people.h"

#include "agent/core.h"
#include "agent/homes.h"
#include "agent/machine.h"
#include "agent/network.h"
#include "agent/pod.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "shim/record.h"
#include "tool/files.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define PASSWD_BYTES (1 << 20)

bool people_find(const struct pod *pod, struct person *ret)
{
    const struct object *ns = cache_get(pod->agent->cache, &kind_namespace, STR(""), pod->ns);
    return ns && person_of(ns, ret);
}

int people_check(const struct pod *pod, struct err *err)
{
    const struct machine *machine = &pod->agent->machine;
    _cleanup_(arena_done) struct arena arena = {0};
    struct person person;
    if (!cache_get(pod->agent->cache, &kind_namespace, STR(""), pod->ns))
        return err_set(err, -EAGAIN, "namespace " STR_FMT " is not known yet", STR_ARG(pod->ns));
    if (!people_find(pod, &person))
        return 0;
    struct str why = person_refuses_pod(&arena, &person, json_get(pod->root, "spec"));
    if (why.len)
        return err_set(err, -ENOTSUP, STR_FMT, STR_ARG(why));
    if (!machine->root || !machine->mount_ns)
        return err_set(err, -ENETDOWN,
                       "pods of " STR_FMT " run as another user and apart from others: muster must "
                       "run as root, on a machine with mount namespaces",
                       STR_ARG(person.name));
    if (!network_has_bridge(pod))
        return err_set(err, -ENETDOWN,
                       "pods of " STR_FMT
                       " never share the machine's network, and muster was started "
                       "without one for pods: they wait until it is started with "
                       "--pod-network=bridge",
                       STR_ARG(person.name));
    return 0;
}

/* Homes of the other people, as their namespaces name them. */
static void people_shut_others(const struct pod *pod,
                               const struct person *person,
                               struct buf *records)
{
    size_t cursor = 0;
    const struct object *ns;
    while ((ns = cache_next(pod->agent->cache, &kind_namespace, STR(""), &cursor))) {
        struct person other;
        if (person_of(ns, &other) && other.home.len > 1 && !str_eq(other.home, person->home))
            record_add(records, "shut", other.home);
    }
}

void people_homes(const struct pod *pod, struct buf *records)
{
    _cleanup_(buf_done) struct buf passwd = {0};
    struct person person;
    if (!people_find(pod, &person))
        return;
    record_add(records, "shut", STR("/home"));
    record_add(records, "shut", STR("/root"));
    if (files_read("/etc/passwd", PASSWD_BYTES, &passwd))
        homes_shut(buf_str(&passwd), person.uid, records);
    people_shut_others(pod, &person, records);
    for (size_t i = 0; i < person.path_count; i++)
        record_add(records, "keep", person.paths[i]);
}
