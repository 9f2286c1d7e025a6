#include "agent/pod.h"

#include "agent/core.h"
#include "agent/env.h"
#include "agent/lifecycle.h"
#include "agent/node.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "exec/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* pod: questions about a pod, and what any part of the agent may do to it: tell of it, and have it
 * looked at. */

struct pod *pod_by_name(struct agent *agent, struct str ns, struct str name)
{
    char key[600];
    (void)snprintf(key, sizeof(key), STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));
    return map_get(&agent->by_key, str_from(key));
}

size_t pod_container_index(const struct pod *pod, struct str name)
{
    for (size_t i = 0; i < pod->run.count; i++)
        if (str_eq(pod->run.containers[i].name, name))
            return i;
    return SIZE_MAX;
}

size_t pod_choose_container(const struct pod *pod, struct str name)
{
    if (name.len)
        return pod_container_index(pod, name);
    for (size_t i = 0; i < pod->run.count; i++)
        if (!pod->run.containers[i].init)
            return i;
    return SIZE_MAX;
}

void pod_event(struct pod *pod, bool warning, const char *reason, struct str message)
{
    if (!warning && !event_budget_take(&pod->agent->events, agent_now_ms()))
        return;
    event_send(pod->agent->api, &(struct event){.kind = &kind_pod,
                                                .ns = pod->ns,
                                                .name = pod->name,
                                                .uid = pod->uid,
                                                .reason = str_from(reason),
                                                .message = message,
                                                .warning = warning,
                                                .component = "muster-agent",
                                                .now_ms = agent_now_ms()});
}

void pod_mark(struct pod *pod)
{
    if (pod->dirty)
        return;
    struct agent *agent = pod->agent;
    pod->dirty = true;
    pod->next_dirty = NULL;
    *agent->dirty_tail = pod;
    agent->dirty_tail = &pod->next_dirty;
    agent_turn_soon(agent);
}

const struct json *pod_container_spec(const struct pod *pod, size_t index)
{
    static const char *const lists[] = {"spec.initContainers", "spec.containers",
                                        "spec.ephemeralContainers"};
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        const struct json *list = json_at(pod->root, lists[i]);
        if (index < json_count(list))
            return json_index(list, index);
        index -= json_count(list);
    }
    return NULL;
}

void pod_env_context(const struct pod *pod, struct env_context *ret)
{
    const struct agent *agent = pod->agent;
    *ret = (struct env_context){.cache = agent->cache,
                                .pod = pod->root,
                                .ns = pod->ns,
                                .pod_ip = str_from(pod->ip),
                                .host_ip = str_from(agent->node_address),
                                .node_name = str_from(agent->nodes[pod->node].name),
                                .node_cpu_milli = agent->cpu_milli_per_node,
                                .node_memory_bytes = agent->memory_per_node_bytes};
}
