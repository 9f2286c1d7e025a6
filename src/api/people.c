#include "api/people.h"

#include "api/host_ports.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static const char *const queue_labels[] = {PERSON_QUEUE_LABEL, "runai/queue"};

static int64_t person_number(const struct object *ns, const char *key)
{
    int64_t number;
    return str_to_i64(object_annotation(ns, key), &number) && number > 0 && number < UINT32_MAX
               ? number
               : -1;
}

static bool port_is_free(int64_t port)
{
    return port >= HOST_PORTS_FREE_FIRST && port <= UINT16_MAX;
}

bool person_ports_parse(struct str text, struct person_ports *ret)
{
    struct person_ports ports = {0};
    struct str word, low;

    while (text.len && str_cut(&text, ',', &word)) {
        struct person_range range = {0};

        if (ports.count == PERSON_PORTS_MAX || !str_cut(&word, '-', &low))
            return false;
        struct str high = str_is_set(word) ? word : low;
        if (!str_to_i64(low, &range.first) || !str_to_i64(high, &range.last) ||
            !port_is_free(range.first) || !port_is_free(range.last) || range.first > range.last ||
            (range.first < NODE_PORT_FIRST + NODE_PORT_COUNT && range.last >= NODE_PORT_FIRST))
            return false;
        ports.ranges[ports.count++] = range;
    }
    *ret = ports;
    return true;
}

static bool person_has_port(const struct person *person, int64_t port)
{
    for (size_t i = 0; i < person->ports.count; i++)
        if (port >= person->ports.ranges[i].first && port <= person->ports.ranges[i].last)
            return true;
    return false;
}

bool person_of(const struct object *ns, struct person *ret)
{
    struct str groups = object_annotation(ns, PERSON_GROUPS), word;
    struct str paths = object_annotation(ns, PERSON_PATHS);
    int64_t group;
    *ret = (struct person){.name = object_annotation(ns, PERSON_NAME),
                           .uid = person_number(ns, PERSON_UID),
                           .gid = person_number(ns, PERSON_GID),
                           .home = object_annotation(ns, PERSON_HOME),
                           .queue = object_annotation(ns, PERSON_QUEUE)};
    if (!ret->name.len)
        return false;
    while (ret->group_count < PERSON_GROUPS_MAX && str_cut(&groups, ',', &word))
        if (str_to_i64(word, &group) && group > 0 && group < UINT32_MAX)
            ret->groups[ret->group_count++] = group;
    if (ret->home.len > 1)
        ret->paths[ret->path_count++] = ret->home;
    while (ret->path_count < PERSON_PATHS_MAX && str_cut(&paths, ',', &word))
        if (word.len > 1 && word.p[0] == '/')
            ret->paths[ret->path_count++] = word;
    (void)person_ports_parse(object_annotation(ns, PERSON_PORTS), &ret->ports);
    return true;
}

static bool path_climbs(struct str path)
{
    struct str part;
    while (str_cut(&path, '/', &part))
        if (str_is(part, ".."))
            return true;
    return false;
}

struct str person_search_path(struct arena *arena, const struct person *person, struct str path)
{
    struct str rest = path, folder, out = STR("");

    while (str_cut(&rest, ':', &folder)) {
        bool own = person->home.len > 1 && str_starts(folder, person->home) &&
                   (folder.len == person->home.len || folder.p[person->home.len] == '/');
        bool shut = str_is(folder, "/root") || str_starts(folder, STR("/root/")) ||
                    str_starts(folder, STR("/home/"));

        if (folder.len && (own || !shut))
            out = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(out), out.len ? ":" : "",
                             STR_ARG(folder));
    }
    return out.len ? out : STR("/usr/local/bin:/usr/bin:/bin");
}

const struct str *person_path(const struct person *person, struct str path)
{
    if (path_climbs(path))
        return NULL;
    for (size_t i = 0; i < person->path_count; i++) {
        struct str top = person->paths[i];
        if (str_starts(path, top) && (path.len == top.len || path.p[top.len] == '/'))
            return &person->paths[i];
    }
    return NULL;
}

/* ---- pods ---- */

static bool person_has_group(const struct person *person, int64_t group)
{
    for (size_t i = 0; i < person->group_count; i++)
        if (person->groups[i] == group)
            return true;
    return group == person->gid;
}

/* The ids of a pod's or a container's securityContext. */
static struct str person_refuses_ids(struct arena *arena,
                                     const struct person *person,
                                     const struct json *context)
{
    static const char *const groups[] = {"runAsGroup", "fsGroup"};
    int64_t id;
    if (json_i64(json_get(context, "runAsUser"), &id) && id != person->uid)
        return str_printf(arena, "runAsUser %lld: pods of " STR_FMT " run as %lld; leave it out",
                          (long long)id, STR_ARG(person->name), (long long)person->uid);
    for (size_t i = 0; i < COUNT_OF(groups); i++)
        if (json_i64(json_get(context, groups[i]), &id) && !person_has_group(person, id))
            return str_printf(arena, "%s %lld: " STR_FMT " is not in that group", groups[i],
                              (long long)id, STR_ARG(person->name));
    JSON_FOREACH(json_get(context, "supplementalGroups"), group)
        if (!person_has_group(person, json_i64_or(group, -1)))
            return str_printf(arena, "supplementalGroups %lld: " STR_FMT " is not in that group",
                              (long long)json_i64_or(group, -1), STR_ARG(person->name));
    if (str_is(json_str_at(context, "seccompProfile.type"), "Unconfined"))
        return STR("seccompProfile.type Unconfined is for the owner's pods");
    return STR("");
}

static struct str person_refuses_container(struct arena *arena,
                                           const struct person *person,
                                           const struct json *container)
{
    const struct json *context = json_get(container, "securityContext");
    struct str name = json_str(json_get(container, "name"));
    struct str why = person_refuses_ids(arena, person, context);
    if (!why.len && json_bool_or(json_get(context, "privileged"), false))
        why = STR("privileged is for the owner's pods");
    if (!why.len && json_count(json_at(context, "capabilities.add")))
        why = STR("capabilities.add is for the owner's pods");
    if (!why.len && str_is(json_str(json_get(context, "procMount")), "Unmasked"))
        why = STR("procMount Unmasked is for the owner's pods");
    if (why.len)
        return str_printf(arena, "container " STR_FMT ": securityContext: " STR_FMT, STR_ARG(name),
                          STR_ARG(why));
    JSON_FOREACH(json_get(container, "ports"), port) {
        int64_t number = json_i64_or(json_get(port, "hostPort"), 0);
        if (number > 0 && !person_has_port(person, number))
            return str_printf(arena,
                              "container " STR_FMT ": ports: hostPort %lld: " STR_FMT
                              " may have those that `muster user add --ports` named",
                              STR_ARG(name), (long long)number, STR_ARG(person->name));
    }
    return STR("");
}

static struct str person_refuses_volume(struct arena *arena,
                                        const struct person *person,
                                        const struct json *volume)
{
    struct str path = json_str_at(volume, "hostPath.path");
    if (!json_get(volume, "hostPath") || person_path(person, path))
        return STR("");
    return str_printf(arena,
                      "volume " STR_FMT ": hostPath " STR_FMT ": " STR_FMT
                      " may mount her home and what `muster user add --paths` named",
                      STR_ARG(json_str(json_get(volume, "name"))), STR_ARG(path),
                      STR_ARG(person->name));
}

struct str person_refuses_pod(struct arena *arena,
                              const struct person *person,
                              const struct json *spec)
{
    static const char *const host[] = {"hostNetwork", "hostPID", "hostIPC"};
    static const char *const lists[] = {"initContainers", "containers", "ephemeralContainers"};
    if (person->uid <= 0 || person->gid <= 0)
        return STR("the annotations of its namespace name no user: run `muster user add` again");
    for (size_t i = 0; i < COUNT_OF(host); i++)
        if (json_bool_or(json_get(spec, host[i]), false))
            return str_printf(arena, "spec.%s is for the owner's pods", host[i]);
    struct str why = person_refuses_ids(arena, person, json_get(spec, "securityContext"));
    if (why.len)
        return str_printf(arena, "spec.securityContext: " STR_FMT, STR_ARG(why));
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        JSON_FOREACH(json_get(spec, lists[i]), container) {
            why = person_refuses_container(arena, person, container);
            if (why.len)
                return why;
        }
    JSON_FOREACH(json_get(spec, "volumes"), volume) {
        why = person_refuses_volume(arena, person, volume);
        if (why.len)
            return why;
    }
    return STR("");
}

/* ---- queues ---- */

struct str person_refuses_queue(struct arena *arena,
                                const struct person *person,
                                const struct json *object)
{
    const struct json *labels = json_at(object, "metadata.labels");
    const struct json *template_labels = json_at(object, "spec.template.metadata.labels");
    if (!person->queue.len)
        return STR("");
    for (size_t i = 0; i < COUNT_OF(queue_labels); i++) {
        const struct json *places[] = {labels, template_labels};
        for (size_t k = 0; k < COUNT_OF(places); k++) {
            struct str queue = json_str(json_get(places[k], queue_labels[i]));
            if (queue.len && !str_eq(queue, person->queue))
                return str_printf(arena, "label %s: the queue of " STR_FMT " is " STR_FMT,
                                  queue_labels[i], STR_ARG(person->name), STR_ARG(person->queue));
        }
    }
    /* Of a TorchrunJob that is a TorchrunQueue of her namespace, whose pods are looked at. */
    struct str queue = str_is(json_str(json_get(object, "kind")), "TorchrunJob")
                           ? STR_NONE
                           : json_str_at(object, "spec.queue");
    if (queue.len && !str_eq(queue, person->queue))
        return str_printf(arena, "spec.queue " STR_FMT ": the queue of " STR_FMT " is " STR_FMT,
                          STR_ARG(queue), STR_ARG(person->name), STR_ARG(person->queue));
    return STR("");
}
