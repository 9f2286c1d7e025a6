#include "agent/network.h"

#include "agent/core.h"
#include "agent/pod.h"
#include "api/object.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "net/address.h"
#include "net/bridge.h"
#include "net/hosts.h"
#include "net/pods.h"
#include "net/service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- addresses ---- */

static bool pod_is_in_host_network(const struct pod *pod)
{
    return json_bool_or(json_at(pod->root, "spec.hostNetwork"), false);
}

bool network_has_bridge(const struct pod *pod)
{
    return pod->agent->bridge && !pod_is_in_host_network(pod);
}

static bool address_is_taken(const struct agent *agent, const char *ip)
{
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        if (strcmp(pod->ip, ip) == 0)
            return true;
    }
    return false;
}

void network_take_address(struct pod *pod)
{
    struct agent *agent = pod->agent;
    char ip[ADDRESS_BYTES];
    if (pod_is_in_host_network(pod)) {
        bridge_node_address(agent->bridge, pod->ip);
        return;
    }
    do
        address_pool_next(&agent->addresses, ip);
    while (address_is_taken(agent, ip));
    (void)snprintf(pod->ip, sizeof(pod->ip), "%s", ip);
}

void network_keep_address(struct pod *pod, struct str address)
{
    (void)snprintf(pod->ip, sizeof(pod->ip), STR_FMT, STR_ARG(address));
    address_pool_pass(&pod->agent->addresses, pod->ip);
}

/* ---- names ---- */

static struct net_pod pod_view(const struct pod *pod)
{
    return (struct net_pod){.object = pod->object,
                            .root = pod->root,
                            .ip = pod->ip,
                            .named = pod->ip[0] && pod->stage != POD_OVER && pod->stage != POD_GONE,
                            .ready = pod->was_ready && pod->stage == POD_RUNNING && !pod->deleted};
}

static bool next_pod(void *user, size_t *cursor, struct net_pod *ret)
{
    const struct agent *agent = user;
    struct map_entry *entries = agent->pods.entries;
    struct map_entry *entry = entries ? map_live(&agent->pods, entries + *cursor) : NULL;
    if (!entry)
        return false;
    *cursor = (size_t)(entry - entries) + 1;
    *ret = pod_view(entry->value);
    return true;
}

struct net_pods network_pods(struct agent *agent)
{
    return (struct net_pods){.next = next_pod, .user = agent};
}

void network_pod_changed(const struct pod *pod)
{
    struct net_pod own = pod_view(pod);
    if (hosts_matter(pod->agent->hosts, &own))
        hosts_changed(pod->agent->hosts);
}

void network_ports_changed(const struct pod *pod)
{
    struct net_pod own = pod_view(pod);
    if (pod->agent->stopping) /* then nothing is listened on any more */
        return;
    services_pod(pod->agent->services, &own, pod->stage == POD_RUNNING && !pod->deleted);
    services_follow(pod->agent->services, pod->object);
}

void network_ready_changed(const struct pod *pod)
{
    if (!pod->agent->stopping)
        services_follow(pod->agent->services, pod->object);
}

void network_pod_updated(const struct pod *pod, const struct object *before)
{
    bool same = before->label_count == pod->object->label_count;
    for (size_t i = 0; i < before->label_count && same; i++)
        same = str_eq(before->labels[i].key, pod->object->labels[i].key) &&
               str_eq(before->labels[i].value, pod->object->labels[i].value);
    if (same || pod->agent->stopping)
        return;
    services_follow(pod->agent->services, before);
    services_follow(pod->agent->services, pod->object);
    hosts_changed(pod->agent->hosts);
}

int network_write_hosts(struct pod *pod, struct err *err)
{
    struct net_pod own = pod_view(pod);
    return hosts_write(pod->agent->hosts, &own, pod->folder, &pod->hosts_hash, err);
}

void network_write_changed(struct agent *agent)
{
    if (!hosts_take_changed(agent->hosts))
        return;
    MAP_FOREACH(&agent->pods, entry) {
        struct pod *pod = entry->value;
        if (pod->stage == POD_RUNNING)
            (void)network_write_hosts(pod, NULL);
    }
}
