#include "sched/pack.h"

#include "base/mem.h"
#include "base/str.h"
#include "sched/spec.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* While counting, p is NULL and every function returns NULL pointers; the sizes come out the same.
 */
struct pack {
    char *p;
    size_t used;
};

static void *pack_bytes(struct pack *pack, const void *source, size_t bytes, size_t align)
{
    size_t start = (pack->used + align - 1) & ~(align - 1);

    pack->used = start + bytes;
    if (!pack->p || !bytes)
        return NULL;
    return memcpy(pack->p + start, source, bytes);
}

static struct str pack_str(struct pack *pack, struct str s)
{
    if (!str_is_set(s))
        return STR_NONE;
    if (!s.len)
        return STR("");
    return (struct str){pack_bytes(pack, s.p, s.len, 1), s.len};
}

#define PACK_ARRAY(pack, items, count) \
    pack_bytes(pack, items, (count) * sizeof(*(items)), alignof(max_align_t))

static const struct str *pack_strs(struct pack *pack, const struct str *items, size_t count)
{
    struct str *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct str s = pack_str(pack, items[i]);
        if (copy)
            copy[i] = s;
    }
    return copy;
}

static const struct sched_label *pack_labels(struct pack *pack,
                                             const struct sched_label *items,
                                             size_t count)
{
    struct sched_label *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_label label = {pack_str(pack, items[i].key), pack_str(pack, items[i].value)};
        if (copy)
            copy[i] = label;
    }
    return copy;
}

static const struct sched_amount *pack_amounts(struct pack *pack,
                                               const struct sched_amount *items,
                                               size_t count)
{
    struct sched_amount *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct str name = pack_str(pack, items[i].name);
        if (copy)
            copy[i].name = name;
    }
    return copy;
}

static const struct sched_expression *pack_expressions(struct pack *pack,
                                                       const struct sched_expression *items,
                                                       size_t count)
{
    struct sched_expression *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_expression item = items[i];
        item.key = pack_str(pack, item.key);
        item.values = pack_strs(pack, item.values, item.value_count);
        if (copy)
            copy[i] = item;
    }
    return copy;
}

static void pack_selector(struct pack *pack, struct sched_selector *selector)
{
    selector->expressions =
        pack_expressions(pack, selector->expressions, selector->expression_count);
}

static const struct sched_node_term *pack_node_terms(struct pack *pack,
                                                     const struct sched_node_term *items,
                                                     size_t count)
{
    struct sched_node_term *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_node_term item = items[i];
        item.labels = pack_expressions(pack, item.labels, item.label_count);
        item.fields = pack_expressions(pack, item.fields, item.field_count);
        if (copy)
            copy[i] = item;
    }
    return copy;
}

static const struct sched_pod_term *pack_pod_terms(struct pack *pack,
                                                   const struct sched_pod_term *items,
                                                   size_t count)
{
    struct sched_pod_term *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_pod_term item = items[i];
        pack_selector(pack, &item.selector);
        pack_selector(pack, &item.namespace_selector);
        item.topology_key = pack_str(pack, item.topology_key);
        item.namespaces = pack_strs(pack, item.namespaces, item.namespace_count);
        if (copy)
            copy[i] = item;
    }
    return copy;
}

static const struct sched_spread *pack_spreads(struct pack *pack,
                                               const struct sched_spread *items,
                                               size_t count)
{
    struct sched_spread *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_spread item = items[i];
        pack_selector(pack, &item.selector);
        item.topology_key = pack_str(pack, item.topology_key);
        if (copy)
            copy[i] = item;
    }
    return copy;
}

static const struct sched_toleration *pack_tolerations(struct pack *pack,
                                                       const struct sched_toleration *items,
                                                       size_t count)
{
    struct sched_toleration *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_toleration item = items[i];
        item.key = pack_str(pack, item.key);
        item.value = pack_str(pack, item.value);
        if (copy)
            copy[i] = item;
    }
    return copy;
}

static const struct sched_container *pack_containers(struct pack *pack,
                                                     const struct sched_container *items,
                                                     size_t count)
{
    struct sched_container *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_container item = items[i];
        item.amounts = pack_amounts(pack, item.amounts, item.amount_count);
        if (copy)
            copy[i] = item;
    }
    return copy;
}

static const struct sched_port *pack_ports(struct pack *pack,
                                           const struct sched_port *items,
                                           size_t count)
{
    struct sched_port *copy = PACK_ARRAY(pack, items, count);

    for (size_t i = 0; i < count; i++) {
        struct sched_port item = items[i];
        item.address = pack_str(pack, item.address);
        item.protocol = pack_str(pack, item.protocol);
        if (copy)
            copy[i] = item;
    }
    return copy;
}

static void pack_want(struct pack *pack, struct sched_topology_want *want)
{
    want->topology = pack_str(pack, want->topology);
    want->required = pack_str(pack, want->required);
    want->preferred = pack_str(pack, want->preferred);
}

static struct sched_node fill_node(struct pack *pack, const struct sched_node *from)
{
    struct sched_node node = *from;
    struct sched_taint *taints = NULL;

    node.name = pack_str(pack, node.name);
    node.pool = pack_str(pack, node.pool);
    node.labels = pack_labels(pack, node.labels, node.label_count);
    taints = PACK_ARRAY(pack, node.taints, node.taint_count);
    for (size_t i = 0; i < node.taint_count; i++) {
        struct sched_taint taint = from->taints[i];
        taint.key = pack_str(pack, taint.key);
        taint.value = pack_str(pack, taint.value);
        if (taints)
            taints[i] = taint;
    }
    node.taints = taints;
    node.amounts = pack_amounts(pack, node.amounts, node.amount_count);
    return node;
}

static struct sched_group fill_group(struct pack *pack, const struct sched_group *from)
{
    struct sched_group group = *from;
    struct sched_subgroup *subgroups = NULL;

    group.ns = pack_str(pack, group.ns);
    group.name = pack_str(pack, group.name);
    group.uid = pack_str(pack, group.uid);
    group.pool = pack_str(pack, group.pool);
    group.queue = pack_str(pack, group.queue);
    group.priority_class = pack_str(pack, group.priority_class);
    pack_want(pack, &group.topology);
    subgroups = PACK_ARRAY(pack, group.subgroups, group.subgroup_count);
    for (size_t i = 0; i < group.subgroup_count; i++) {
        struct sched_subgroup subgroup = from->subgroups[i];
        subgroup.name = pack_str(pack, subgroup.name);
        subgroup.parent = pack_str(pack, subgroup.parent);
        pack_want(pack, &subgroup.topology);
        if (subgroups)
            subgroups[i] = subgroup;
    }
    group.subgroups = subgroups;
    return group;
}

static struct sched_queue fill_queue(struct pack *pack, const struct sched_queue *from)
{
    struct sched_queue queue = *from;

    queue.name = pack_str(pack, queue.name);
    queue.parent = pack_str(pack, queue.parent);
    queue.pool = pack_str(pack, queue.pool);
    struct sched_model_limit *models = PACK_ARRAY(pack, queue.models, queue.model_count);
    for (size_t i = 0; i < queue.model_count; i++) {
        struct str model = pack_str(pack, queue.models[i].model);
        if (models)
            models[i].model = model;
    }
    queue.models = models;
    queue.tenants.names = pack_strs(pack, queue.tenants.names, queue.tenants.name_count);
    pack_selector(pack, &queue.tenants.selector);
    return queue;
}

static struct sched_claim fill_claim(struct pack *pack, const struct sched_claim *from)
{
    struct sched_claim claim = *from;

    claim.ns = pack_str(pack, claim.ns);
    claim.name = pack_str(pack, claim.name);
    claim.queue = pack_str(pack, claim.queue);
    claim.device_class = pack_str(pack, claim.device_class);
    claim.node = pack_str(pack, claim.node);
    claim.devices = NULL; /* read as a device_ask */
    claim.allocation = NULL;
    return claim;
}

static struct sched_topology fill_topology(struct pack *pack, const struct sched_topology *from)
{
    struct sched_topology topology = *from;

    topology.name = pack_str(pack, topology.name);
    topology.levels = pack_strs(pack, topology.levels, topology.level_count);
    if (topology.aliases)
        topology.aliases = pack_strs(pack, topology.aliases, topology.level_count);
    return topology;
}

static struct sched_namespace fill_namespace(struct pack *pack, const struct sched_namespace *from)
{
    return (struct sched_namespace){
        .name = pack_str(pack, from->name),
        .labels = pack_labels(pack, from->labels, from->label_count),
        .label_count = from->label_count,
    };
}

static struct sched_pod fill_shape(struct pack *pack, const struct sched_pod *from)
{
    return (struct sched_pod){
        .ns = pack_str(pack, from->ns),
        .cpu_milli = from->cpu_milli,
        .memory_bytes = from->memory_bytes,
        .gpus = from->gpus,
        .gpu_fraction_micro = from->gpu_fraction_micro,
        .gpu_memory_mib = from->gpu_memory_mib,
        .gpu_devices = from->gpu_devices,
        .keeps_shares = from->keeps_shares,
        .amounts = pack_amounts(pack, from->amounts, from->amount_count),
        .amount_count = from->amount_count,
        .guaranteed = from->guaranteed,
        .containers = pack_containers(pack, from->containers, from->container_count),
        .container_count = from->container_count,
        .legacy_mig = from->legacy_mig,
        .node_selector = pack_labels(pack, from->node_selector, from->node_selector_count),
        .node_selector_count = from->node_selector_count,
        .node_terms = pack_node_terms(pack, from->node_terms, from->node_term_count),
        .node_term_count = from->node_term_count,
        .node_affinity = from->node_affinity,
        .node_preferences =
            pack_node_terms(pack, from->node_preferences, from->node_preference_count),
        .node_preference_count = from->node_preference_count,
        .tolerations = pack_tolerations(pack, from->tolerations, from->toleration_count),
        .toleration_count = from->toleration_count,
        .ports = pack_ports(pack, from->ports, from->port_count),
        .port_count = from->port_count,
        .affinity = pack_pod_terms(pack, from->affinity, from->affinity_count),
        .affinity_count = from->affinity_count,
        .anti_affinity = pack_pod_terms(pack, from->anti_affinity, from->anti_affinity_count),
        .anti_affinity_count = from->anti_affinity_count,
        .affinity_preferences =
            pack_pod_terms(pack, from->affinity_preferences, from->affinity_preference_count),
        .affinity_preference_count = from->affinity_preference_count,
        .anti_affinity_preferences = pack_pod_terms(pack, from->anti_affinity_preferences,
                                                    from->anti_affinity_preference_count),
        .anti_affinity_preference_count = from->anti_affinity_preference_count,
        .spreads = pack_spreads(pack, from->spreads, from->spread_count),
        .spread_count = from->spread_count,
        .role_rank = from->role_rank,
        .has_task_priority = from->has_task_priority,
        .task_priority = from->task_priority,
        .invalid = pack_str(pack, from->invalid),
    };
}

static struct sched_volume_claim fill_volume_claim(struct pack *pack,
                                                   const struct sched_volume_claim *from)
{
    struct sched_volume_claim claim = *from;

    claim.ns = pack_str(pack, claim.ns);
    claim.name = pack_str(pack, claim.name);
    claim.uid = pack_str(pack, claim.uid);
    claim.class = pack_str(pack, claim.class);
    claim.volume = pack_str(pack, claim.volume);
    claim.selected_node = pack_str(pack, claim.selected_node);
    claim.pod_uid = pack_str(pack, claim.pod_uid);
    pack_selector(pack, &claim.selector);
    return claim;
}

static struct sched_volume fill_volume(struct pack *pack, const struct sched_volume *from)
{
    struct sched_volume volume = *from;

    volume.name = pack_str(pack, volume.name);
    volume.class = pack_str(pack, volume.class);
    volume.driver = pack_str(pack, volume.driver);
    volume.claim_ns = pack_str(pack, volume.claim_ns);
    volume.claim_name = pack_str(pack, volume.claim_name);
    volume.claim_uid = pack_str(pack, volume.claim_uid);
    volume.labels = pack_labels(pack, volume.labels, volume.label_count);
    volume.terms = pack_node_terms(pack, volume.terms, volume.term_count);
    return volume;
}

static struct sched_storage_class fill_storage_class(struct pack *pack,
                                                     const struct sched_storage_class *from)
{
    struct sched_storage_class class = *from;

    class.name = pack_str(pack, class.name);
    class.provisioner = pack_str(pack, class.provisioner);
    class.terms = pack_node_terms(pack, class.terms, class.term_count);
    return class;
}

static struct sched_volume_limits fill_limits(struct pack *pack,
                                              const struct sched_volume_limits *from)
{
    struct sched_volume_limits limits = *from;

    limits.node = pack_str(pack, limits.node);
    limits.drivers = pack_amounts(pack, limits.drivers, limits.driver_count);
    return limits;
}

static struct sched_storage_room fill_room(struct pack *pack, const struct sched_storage_room *from)
{
    struct sched_storage_room room = *from;

    room.ns = pack_str(pack, room.ns);
    room.name = pack_str(pack, room.name);
    room.class = pack_str(pack, room.class);
    pack_selector(pack, &room.nodes);
    return room;
}

#define PACK(type, fill)                                   \
    struct pack counting = {0};                            \
    (void)fill(&counting, type);                           \
    struct pack filling = {.p = mem_alloc(counting.used)}; \
    *ret = fill(&filling, type);                           \
    assert(filling.used == counting.used);                 \
    *ret_block = filling.p

void pack_node(const struct sched_node *node, struct sched_node *ret, void **ret_block)
{
    PACK(node, fill_node);
}

/* The same with the object itself in the block, at its beginning. */
#define PACK_WHOLE(type, from, fill)                                      \
    struct pack counting = {.used = sizeof(type)};                        \
    (void)fill(&counting, from);                                          \
    type *packed = mem_alloc(counting.used);                              \
    struct pack filling = {.p = (char *)packed, .used = sizeof(*packed)}; \
    *packed = fill(&filling, from);                                       \
    assert(filling.used == counting.used);                                \
    return packed

struct sched_group *pack_group(const struct sched_group *group)
{
    PACK_WHOLE(struct sched_group, group, fill_group);
}

void pack_queue(const struct sched_queue *queue, struct sched_queue *ret, void **ret_block)
{
    PACK(queue, fill_queue);
}

void pack_claim(const struct sched_claim *claim, struct sched_claim *ret, void **ret_block)
{
    PACK(claim, fill_claim);
}

void pack_topology(const struct sched_topology *topology,
                   struct sched_topology *ret,
                   void **ret_block)
{
    PACK(topology, fill_topology);
}

struct sched_namespace *pack_namespace(const struct sched_namespace *space)
{
    PACK_WHOLE(struct sched_namespace, space, fill_namespace);
}

void pack_shape(const struct sched_pod *pod, struct sched_pod *ret, void **ret_block)
{
    PACK(pod, fill_shape);
}

void pack_volume_claim(const struct sched_volume_claim *claim,
                       struct sched_volume_claim *ret,
                       void **ret_block)
{
    PACK(claim, fill_volume_claim);
}

void pack_volume(const struct sched_volume *volume, struct sched_volume *ret, void **ret_block)
{
    PACK(volume, fill_volume);
}

void pack_storage_class(const struct sched_storage_class *class,
                        struct sched_storage_class *ret,
                        void **ret_block)
{
    PACK(class, fill_storage_class);
}

void pack_limits(const struct sched_volume_limits *limits,
                 struct sched_volume_limits *ret,
                 void **ret_block)
{
    PACK(limits, fill_limits);
}

void pack_storage_room(const struct sched_storage_room *room,
                       struct sched_storage_room *ret,
                       void **ret_block)
{
    PACK(room, fill_room);
}
