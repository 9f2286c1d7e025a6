#include "api/admit.h"
#include "api/device_access.h"
#include "api/kind.h"
#include "api/share.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "conformance/conformance.h"
#include "sched/charge.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/quota.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"
#include "sched/topology.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions of KAI 0.17, one by one, on what does the same here. */

/* ---- admission ---- */
static struct admit admitted(struct arena *arena,
                             const struct kind *kind,
                             const struct json *object,
                             const struct json *old)
{
    struct admit admit = {.arena = arena, .kind = kind, .old = old};
    struct json *copy =
        json_is(object, JSON_OBJECT) ? json_clone(arena, object) : json_new_object(arena);
    struct json *meta = json_make_path(arena, copy, "metadata");

    if (!json_get(meta, "name"))
        json_add_c(arena, meta, "name", "x");
    admit.object = copy;
    admit_validate(&admit);
    return admit;
}

static bool check_podgroup(struct arena *arena, const struct json *test)
{
    struct json *object = json_new_object(arena);
    struct json *empty = json_new_object(arena);
    const struct json *expected = json_get(test, "expected");
    bool warns = false;

    json_set(object, STR("spec"), json_clone(arena, json_get(test, "spec")));
    struct admit create = admitted(arena, &kind_podgroup, object, NULL);
    struct admit update = admitted(arena, &kind_podgroup, object, empty);
    if ((create.causes.count > 0) != json_bool_or(json_get(expected, "create_refused"), false) ||
        (update.causes.count > 0) != json_bool_or(json_get(expected, "update_refused"), false))
        return differs(test, "created with %zu and updated with %zu causes", create.causes.count,
                       update.causes.count);
    JSON_FOREACH(json_get(expected, "problems"), problem)
        warns = warns || str_is(json_str(json_get(problem, "on_update")), "warning");
    return warns == (update.warnings.len > 0) || differs(test, "warns otherwise");
}

static bool check_object(struct arena *arena, const struct json *test, const struct kind *kind)
{
    const struct json *expected = json_get(test, "expected");
    const struct json *old = json_get(test, "old");
    struct str said = STR_NONE;

    bool deleted = str_is(json_str(json_get(test, "operation")), "delete");
    struct admit admit = {0};
    if (deleted && kind == &kind_queue)
        said = admit_queue_stays(arena, json_get(test, "object"));
    else if (!deleted)
        admit =
            admitted(arena, kind, json_get(test, "object"), json_is(old, JSON_OBJECT) ? old : NULL);
    for (size_t i = 0; i < admit.causes.count; i++)
        said = str_printf(arena, STR_FMT " " STR_FMT, STR_ARG(said),
                          STR_ARG(admit.causes.items[i].message));
    if ((said.len > 0) != json_bool_or(json_get(expected, "error"), false))
        return differs(test, "refused for" STR_FMT, STR_ARG(said));
    JSON_FOREACH(json_get(expected, "error_contains"), words)
        if (!str_contains(said, json_str(words)))
            return differs(test, STR_FMT " does not say " STR_FMT, STR_ARG(said),
                           STR_ARG(json_str(words)));
    /* Who is refused need not be warned. */
    return said.len || json_count(json_get(expected, "warnings")) == (admit.warnings.len > 0) ||
           differs(test, "warns otherwise");
}

/* ---- subgroups ---- */
static uint32_t add_set(struct arena *arena,
                        struct group *group,
                        const struct json *from,
                        uint32_t parent)
{
    uint32_t index = group->set_count++;
    const struct json *members = json_get(from, "members");
    struct set *set = &group->sets[index];
    uint32_t *link = &group->sets[parent].first_child;

    *set = (struct set){.name = json_str(json_get(from, "name")),
                        .parent = parent,
                        .leaf = !members,
                        .min = json_i64_or(json_get(from, "min_available"), 0)};
    set->count[ST_RUNNING] = (int32_t)json_i64_or(json_get(from, "allocated"), 0);
    while (*link)
        link = &group->sets[*link].next;
    *link = index;
    if (members)
        set->min = json_i64_or(json_get(from, "min_sub_group"), (int64_t)json_count(members));
    JSON_FOREACH(members, member)
        (void)add_set(arena, group, member, index);
    return index;
}

static bool check_order(struct arena *arena, const struct json *test)
{
    struct group group = {.set_count = 1};
    struct str want = json_str_at(test, "expected.first");

    group.sets = ARENA_ARRAY(arena, struct set, 64);
    uint32_t left = add_set(arena, &group, json_get(test, "left"), 0);
    uint32_t right = add_set(arena, &group, json_get(test, "right"), 0);
    /* The name decides what is equal otherwise: one that is not there takes it out. */
    group.sets[left].name = group.sets[right].name = STR("x");
    int order = set_order(&group, left, right);
    const char *got = order < 0 ? "left" : order > 0 ? "right" : "equal";
    return str_is(want, got) || differs(test, "first is %s", got);
}

/* ---- delays ---- */
static bool check_delay(const struct json *test)
{
    struct sched sched = {0};
    struct group group = {0};
    int64_t end = 0;

    (void)time_parse(json_str(json_get(test, "creation")), &group.created_ms);
    (void)time_parse(json_str(json_get(test, "last_eviction")), &group.last_eviction_ms);
    (void)time_parse_duration(json_str(json_get(test, "preemption_delay")),
                              &group.preempt_delay_ms);
    sched.now_ms = group.created_ms;
    if (!time_parse(json_str_at(test, "expected.end"), &end))
        return group_delayed_until(&sched, &group) == 0 || differs(test, "is delayed");
    sched.now_ms = end - 1000;
    if (group_delayed_until(&sched, &group) != end)
        return differs(test, "ends at another time");
    sched.now_ms = end;
    return group_delayed_until(&sched, &group) == 0 || differs(test, "is delayed at its end");
}

static bool check_eviction_time(const struct json *test)
{
    int64_t ms = 0;
    int64_t want = 0;
    bool got = time_parse(json_str(json_get(test, "annotation")), &ms);
    bool wanted = time_parse(json_str_at(test, "expected.last_eviction"), &want);

    return (got == wanted && ms == want) || differs(test, "is read otherwise");
}

/* ---- devices ---- */
static bool check_devices(struct arena *arena, const struct json *test)
{
    struct admit admit = {
        .arena = arena, .kind = &kind_pod, .object = json_clone(arena, json_get(test, "pod"))};
    bool want = json_bool_or(json_at(test, "expected.error"), false);

    device_access_check(&admit);
    return (admit.causes.count > 0) == want ||
           differs(test, "%zu causes", (size_t)admit.causes.count);
}

static bool is_void(const struct json *container)
{
    JSON_FOREACH(json_get(container, "env"), each)
        if (str_is(json_str(json_get(each, "name")), SHARE_VISIBLE))
            return str_is(json_str(json_get(each, "value")), "void");
    return false;
}

static bool check_void(struct arena *arena, const struct json *test)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"};
    struct json *pod = json_clone(arena, json_get(test, "pod"));

    device_access_mutate(arena, pod);
    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(pod, lists[i]), container) {
            bool wanted = false;

            JSON_FOREACH(json_at(test, "expected.containers_set_to_void"), name)
                wanted = wanted || str_eq(json_str(name), json_str(json_get(container, "name")));
            if (wanted != is_void(container))
                return differs(test, "container " STR_FMT " %s devices",
                               STR_ARG(json_str(json_get(container, "name"))),
                               wanted ? "sees" : "does not see");
        }
    return true;
}

static bool check_gpu_request(struct arena *arena, const struct json *test)
{
    struct admit admit = {
        .arena = arena, .kind = &kind_pod, .object = json_clone(arena, json_get(test, "pod"))};
    bool want = json_bool_or(json_at(test, "expected.error"), false);

    share_check(&admit);
    return (admit.causes.count > 0) == want ||
           differs(test, "%zu causes", (size_t)admit.causes.count);
}

/* ---- aliases ---- */
static bool check_alias(struct arena *arena, const struct json *test)
{
    struct sched_config config;
    struct str names[2][16];
    const struct json *given = json_get(test, "constraint");
    const struct json *want = json_at(test, "expected.constraint");
    struct sched_topology_want asked = {
        .topology = json_str(json_get(given, "topology")),
        .required = json_str(json_get(given, "required_level")),
    };
    struct sched_topology_want liked = {
        .topology = asked.topology,
        .required = json_str(json_get(given, "preferred_level")),
    };

    (void)arena;
    sched_config_default(&config);
    struct sched *sched = sched_new(&config);
    JSON_FOREACH(json_get(test, "topologies"), topology) {
        size_t count = 0;

        JSON_FOREACH(topology, alias) {
            names[0][count] = json_str(alias);
            names[1][count++] = json_key(alias);
        }
        sched_put_topology(sched, &(struct sched_topology){.name = json_key(topology),
                                                           .levels = names[0],
                                                           .aliases = names[1],
                                                           .level_count = count});
    }
    struct str got = topology_label(sched, &asked);
    struct str preferred = topology_label(sched, &liked);
    bool good = str_eq(got, json_str(json_get(want, "required_level"))) &&
                str_eq(preferred, json_str(json_get(want, "preferred_level")));
    if (!good)
        (void)differs(test, "required is " STR_FMT ", preferred " STR_FMT, STR_ARG(got),
                      STR_ARG(preferred));
    sched_free(sched);
    return good;
}

/* ---- capacity ---- */
/* The queues of the case, each below its parent; the job's is returned. */
static struct queue *read_queues(struct arena *arena, const struct json *test, struct pool *pool)
{
    const struct json *from = json_get(test, "queues");
    struct queue *queues = ARENA_ARRAY(arena, struct queue, json_count(from) + 1);
    struct queue *own = NULL;
    size_t i = 0;

    JSON_FOREACH(from, one) {
        struct queue *queue = &queues[i++];

        *queue =
            (struct queue){.name = json_str(json_get(one, "key")), .known = true, .pool = pool};
        unit_quota(one, queue);
        if (str_eq(queue->name, json_str_at(test, "job.queue")))
            own = queue;
    }
    i = 0;
    JSON_FOREACH(from, one) {
        for (size_t p = 0; p < json_count(from); p++)
            if (str_eq(queues[p].name, json_str(json_get(one, "parent"))))
                queues[i].parent = &queues[p];
        i++;
    }
    return own;
}

/* Before a job is placed its gpu-memory counts by the largest device, on a node by that node's. */
static bool check_capacity(struct arena *arena, const struct json *test, bool placed)
{
    const struct json *asks = json_at(test, "job.request");
    int64_t memory =
        json_i64_or(json_get(test, placed ? "node_gpu_memory_mib" : "max_node_gpu_memory_mib"), 0);
    struct sched sched = {0};
    struct pool pool = {.min_gpu_memory = memory, .max_gpu_memory = memory};
    struct node node = {.gpu_memory = memory};
    struct group group = {.queue = read_queues(arena, test, &pool)};
    struct shape shape = {.spec.gpu_memory_mib = json_i64_or(json_get(asks, "gpu_memory_mib"), 0),
                          .spec.gpus = json_i64_or(json_get(asks, "gpus"), 0),
                          .devices = json_i64_or(json_get(asks, "gpu_devices"), 1)};
    struct pod pod = {.shape = &shape, .group = &group};
    struct pod *one = &pod;
    struct pod_vec tasks = {.items = &one, .count = 1};
    bool want = json_bool_or(json_at(test, "expected.schedulable"), false);
    const struct queue *queue = NULL;
    enum sched_resource resource = SCHED_CPU;
    int64_t request[SCHED_RESOURCES];

    if (!group.queue)
        return differs(test, "the queue of the job is not there");
    if (json_get(asks, "gpus") && json_i64_or(json_get(asks, "gpus"), -1) < 0)
        return differs(test, "a share of a GPU is not tried here");
    group.preemptible = json_bool_or(json_at(test, "job.preemptible"), false);
    shape.shared = shape.spec.gpu_memory_mib > 0;
    pod.gpus = shape.spec.gpus;
    pod_ask(&sched, &pod);
    tasks_least(&sched, &tasks, request);
    bool got = placed ? queue_allows_pod(&sched, &pod, &node)
                      : queue_check(&group, request, &queue, &resource) == QUEUE_OK;
    return got == want || differs(test, "%s, expected the opposite", got ? "allowed" : "refused");
}

bool run_unit_017(struct arena *arena, const struct json *test, struct str function)
{
    if (str_is(function, "validate_podgroup"))
        return check_podgroup(arena, test);
    if (str_is(function, "validate_topology"))
        return check_object(arena, test, &kind_topology);
    if (str_is(function, "validate_queue"))
        return check_object(arena, test, &kind_queue);
    if (str_is(function, "subgroup_order"))
        return check_order(arena, test);
    if (str_is(function, "preemption_delay_end"))
        return check_delay(test);
    if (str_is(function, "last_eviction"))
        return check_eviction_time(test);
    if (str_is(function, "deviceaccess_validate"))
        return check_devices(arena, test);
    if (str_is(function, "deviceaccess_mutate"))
        return check_void(arena, test);
    if (str_is(function, "validate_gpu_request"))
        return check_gpu_request(arena, test);
    if (str_is(function, "resolve_topology_alias"))
        return check_alias(arena, test);
    if (str_is(function, "numa_evaluate"))
        return run_numa_unit(arena, test);
    if (str_is(function, "is_job_over_queue_capacity"))
        return check_capacity(arena, test, false);
    if (str_is(function, "is_task_allocation_on_node_over_capacity"))
        return check_capacity(arena, test, true);
    return differs(test, "the function is not tried here");
}
