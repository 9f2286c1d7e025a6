#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/look.h"
#include "cmd/simulate.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What goes into a simulation from a cluster that runs: its objects as the API server tells them,
 * and a change that somebody thinks about. Nothing is written. */

struct live_cluster {
    struct sim *sim;
    struct json *items; /* of a List */
    const struct sim_change *change;
};

static bool has_ended(const struct json *pod)
{
    struct str phase = json_str_at(pod, "status.phase");

    return str_is(phase, "Succeeded") || str_is(phase, "Failed");
}

static bool of_daemon_set(const struct json *pod)
{
    JSON_FOREACH(json_at(pod, "metadata.ownerReferences"), owner)
        if (str_is(json_str(json_get(owner, "kind")), "DaemonSet"))
            return true;
    return false;
}

/* A pod of a node that is drained ends, and its owner makes another, which waits. */
static void drain_pod(struct live_cluster *live, struct json *pod)
{
    struct arena *arena = live->sim->arena;
    struct json *spec = json_get(pod, "spec");

    if (has_ended(pod) || of_daemon_set(pod))
        return;
    json_remove(spec, STR("nodeName"));
    json_remove(pod, STR("status"));
    json_add_c(arena, json_make_path(arena, pod, "status"), "phase", "Pending");
}

static bool is_named(const struct option_list *names, struct str name)
{
    for (size_t i = 0; i < names->count; i++)
        if (str_is(name, names->items[i]))
            return true;
    return false;
}

static int change_quota(struct live_cluster *live, struct json *queue, struct err *err)
{
    struct arena *arena = live->sim->arena;
    struct str name = json_str_at(queue, "metadata.name");

    for (size_t i = 0; i < live->change->quotas.count; i++) {
        struct str said = str_from(live->change->quotas.items[i]);
        size_t at = str_find(said, '=');
        int64_t gpus = 0;

        if (!str_eq(str_sub(said, 0, at), name))
            continue;
        if (!str_to_i64(str_sub(said, at + 1, said.len), &gpus) || gpus < -1)
            return err_set(err, -EINVAL,
                           "--quota: \"" STR_FMT
                           "\": write QUEUE=N, where N is a number of GPUs, or -1 for "
                           "all there are",
                           STR_ARG(said));
        json_add_i64(arena, json_make_path(arena, queue, "spec.resources.gpu"), "quota", gpus);
    }
    return 0;
}

static int add_kind(struct live_cluster *live,
                    struct look *look,
                    const struct kind *kind,
                    struct err *err)
{
    struct arena *arena = live->sim->arena;
    struct look_list list = {0};
    int r = look_all(look, kind, STR(""), &list, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < list.count && r == 0; i++) {
        struct json *item = json_clone(arena, list.items[i]);
        struct str name = json_str_at(item, "metadata.name");

        if (kind == &kind_node && is_named(&live->change->drains, name))
            json_add_bool(arena, json_make_path(arena, item, "spec"), "unschedulable", true);
        if (kind == &kind_pod &&
            is_named(&live->change->drains, json_str_at(item, "spec.nodeName")))
            drain_pod(live, item);
        if (kind == &kind_queue)
            r = change_quota(live, item, err);
        if (!json_get(item, "kind")) {
            json_add_c(arena, item, "kind", kind->name);
            json_add_str(arena, item, "apiVersion",
                         *kind->group ? str_printf(arena, "%s/%s", kind->group, kind->version)
                                      : str_from(kind->version));
        }
        if (kind != &kind_pod || !has_ended(item))
            json_push(live->items, item);
    }
    return r;
}

/* What was named has to be there. */
static int check_names(const struct live_cluster *live, struct err *err)
{
    for (size_t i = 0; i < live->change->drains.count + live->change->quotas.count; i++) {
        bool node = i < live->change->drains.count;
        struct str said =
            str_from(node ? live->change->drains.items[i]
                          : live->change->quotas.items[i - live->change->drains.count]);
        struct str name = node ? said : str_sub(said, 0, str_find(said, '='));
        bool found = false;

        JSON_FOREACH(live->items, item)
            found = found || (str_is(json_str(json_get(item, "kind")), node ? "Node" : "Queue") &&
                              str_eq(json_str_at(item, "metadata.name"), name));
        if (!found)
            return err_set(err, -ENOENT, "%s: there is no %s \"" STR_FMT "\"",
                           node ? "--drain" : "--quota", node ? "node" : "queue", STR_ARG(name));
    }
    return 0;
}

int sim_load_live(struct sim *sim,
                  const struct look_values *values,
                  const struct sim_change *change,
                  struct err *err)
{
    const struct kind *const kinds[] = {&kind_node,      &kind_queue,    &kind_priorityclass,
                                        &kind_namespace, &kind_podgroup, &kind_pod};
    struct json *list = json_new_object(sim->arena);
    struct live_cluster live = {.sim = sim, .change = change};
    struct look look;
    int r = look_open(&look, sim->arena, values, err);

    if (r < 0)
        return r;
    json_add_c(sim->arena, list, "kind", "List");
    live.items = json_add_array(sim->arena, list, "items");
    for (size_t i = 0; i < COUNT_OF(kinds) && r == 0; i++)
        r = add_kind(&live, &look, kinds[i], err);
    look_close(&look);
    if (r == 0)
        r = check_names(&live, err);
    sim->start_ms = clock_now_ms();
    sim->loading = true;
    r = r < 0 ? r : sim_load_list(sim, "cluster", list, err);
    sim->loading = false;
    return r;
}
