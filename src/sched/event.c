#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/pack.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Events: what the shell observed becomes state. Each one costs what the object itself is worth;
 * only queue, class and node-shape changes leave work (flags) for the next cycle to do once. */

/* ---- nodes ---- */
static void node_totals(struct sched *sched, struct node *node)
{
    const struct sched_node *spec = &node->spec;
    int64_t total[RES_MAX] = {0};

    total[RES_CPU] = spec->cpu_milli;
    total[RES_MEMORY] = spec->memory_bytes;
    total[RES_GPU] = spec->gpus;
    total[RES_PODS] = spec->pods;
    for (size_t i = 0; i < spec->amount_count; i++)
        total[res_id(sched, spec->amounts[i].name)] = spec->amounts[i].amount;
    for (size_t r = 0; r < sched->resources.count; r++) {
        node->idle[r] += total[r] - node->total[r];
        node->total[r] = total[r];
    }
}

static bool names_mig(const struct sched_node *spec)
{
    for (size_t i = 0; i < spec->amount_count; i++)
        if (spec->amounts[i].amount > 0 &&
            str_starts(spec->amounts[i].name, STR("nvidia.com/mig-")))
            return true;
    return false;
}

/* MiB of one device. Where a device's size is not known, a device is divided into 100 parts. */
static int64_t node_gpu_memory(const struct sched *sched, const struct sched_node *spec)
{
    if (spec->gpu_memory_mib <= 0)
        return 100;
    if (QUIRK(sched, GPU_MEMORY_ROUND))
        return i64_max(100, spec->gpu_memory_mib - spec->gpu_memory_mib % 100);
    return spec->gpu_memory_mib;
}

/* A change of memory per device changes what shares count: take the pods off and put them back. */
static void node_set_memory(struct sched *sched, struct node *node, int64_t memory)
{
    VEC(struct pod *) pods = {0};

    if (memory == node->gpu_memory)
        return;
    for (size_t i = 0; i < node->pods.count; i++)
        if (node->pods.items[i]->shape->shared)
            VEC_PUSH(NULL, &pods, node->pods.items[i]);
    struct undo *places = mem_alloc((pods.count + 1) * sizeof(*places));
    for (size_t i = 0; i < pods.count; i++) {
        struct pod *pod = pods.items[i];
        places[i] = (struct undo){
            .pod = pod, .node = pod->node, .status = pod->status, .share_count = pod->share_count};
        memcpy(places[i].shares, pod->shares, sizeof(pod->shares));
        pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
    }
    node->gpu_memory = memory;
    for (size_t i = 0; i < pods.count; i++)
        pod_set(sched, pods.items[i], places[i].status, places[i].node, places[i].shares,
                places[i].share_count);
    mem_free(places);
    VEC_DONE(&pods);
}

static bool softly_tainted(const struct node *node)
{
    for (size_t i = 0; i < node->spec.taint_count; i++)
        if (node->spec.taints[i].effect == SCHED_PREFER_NO_SCHEDULE)
            return true;
    return false;
}

void sched_put_node(struct sched *sched, const struct sched_node *spec)
{
    struct node *node = node_get(sched, spec->name, true);

    sched->soft_taints -= softly_tainted(node);
    index_remove(node);
    if (!node->known || !str_eq(node->pool->name, spec->pool))
        sched->ranks_valid = false;
    mem_free(node->block);
    pack_node(spec, &node->spec, &node->block);
    node->known = true;
    node->pool = pool_get(sched, spec->pool);
    node->schedulable = !spec->not_ready && !spec->unschedulable;
    node->untainted = !spec->taint_count;
    sched->soft_taints += softly_tainted(node);
    node->mig = spec->mig != SCHED_MIG_NONE || spec->mig_enabled || names_mig(spec);
    node_totals(sched, node);
    node_set_memory(sched, node, node_gpu_memory(sched, spec));
    index_update(sched, node);
    shape_node_changed(sched, node->slot);
    sched->totals_dirty = true;
    sched->nodes_version++;
    room_grew(sched);
}

static void node_free(struct node *node)
{
    VEC_DONE(&node->pods);
    mem_free(node->shares);
    mem_free(node->block);
    mem_free(node->total);
    heap_str_free(node->name);
    mem_free(node);
}

/* Gone for good once nothing names it; pods that are still said to be there keep it. */
static void node_release(struct sched *sched, struct node *node)
{
    if (!node || node->known || node->pods.count)
        return;
    map_remove(&sched->nodes_by_name, node->name);
    sched->nodes.items[node->slot] = NULL;
    sched->ranks_valid = false;
    node_free(node);
}

void sched_drop_node(struct sched *sched, struct str name)
{
    struct node *node = node_get(sched, name, false);

    if (!node || !node->known)
        return;
    index_remove(node);
    sched->soft_taints -= softly_tainted(node);
    node->known = false;
    node->schedulable = false;
    node->spec = (struct sched_node){.name = node->name};
    mem_free(node->block);
    node->block = NULL;
    node_totals(sched, node);
    sched->ranks_valid = false;
    sched->totals_dirty = true;
    sched->nodes_version++;
    shape_node_changed(sched, node->slot);
    for (size_t i = node->pods.count; i-- > 0;) {
        struct pod *pod = node->pods.items[i];
        if (pod->status == ST_PIPELINED || (pod->status == ST_BINDING && !pod->observed_node))
            pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
    }
    sched->changed = true;
    node_release(sched, node);
}

/* ---- groups ---- */
static uint32_t set_find(const struct group *group, struct str name)
{
    for (uint32_t i = 0; i < group->set_count; i++)
        if (group->sets[i].leaf && str_eq(group->sets[i].name, name))
            return i;
    return SET_NONE;
}

/* The leaf a pod belongs to: the one of its label; a group without subgroups has a single leaf that
 * takes every pod. */
static uint32_t pod_find_set(const struct group *group, struct str subgroup)
{
    if (!group->set_count)
        return SET_NONE;
    if (!group->spec.subgroup_count)
        return 1;
    uint32_t set = set_find(group, subgroup);
    return set == SET_NONE && !subgroup.len ? set_find(group, STR("default")) : set;
}

static void set_adopt(struct group *group, uint32_t parent, uint32_t child)
{
    uint32_t *link = &group->sets[parent].first_child;

    while (*link)
        link = &group->sets[*link].next;
    *link = child;
    group->sets[child].parent = parent;
    group->sets[parent].leaf = false;
}

/* Builds the tree: set 0 is the root, then the subgroups in their order. A subgroup whose parent is
 * unknown hangs below the root; circles cannot hang anywhere and are left out. */
static void group_sets(struct group *group)
{
    const struct sched_group *spec = &group->spec;
    uint32_t count = (uint32_t)spec->subgroup_count;

    mem_free(group->sets);
    group->set_count = count ? count + 1 : 2;
    group->sets = mem_alloc(group->set_count * sizeof(*group->sets));
    group->sets[0] = (struct set){.min = spec->min_subgroup, .topology = spec->topology};
    if (!count) {
        group->sets[1] =
            (struct set){.name = STR("default"), .leaf = true, .min = i64_max(1, spec->min_member)};
        group->sets[0].first_child = 1;
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        group->sets[i + 1] = (struct set){.name = spec->subgroups[i].name,
                                          .leaf = true,
                                          .min = spec->subgroups[i].min_member,
                                          .topology = spec->subgroups[i].topology};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = 0;

        for (uint32_t j = 0; spec->subgroups[i].parent.len && j < count; j++)
            if (j != i && str_eq(spec->subgroups[j].name, spec->subgroups[i].parent))
                parent = j + 1;
        for (uint32_t up = parent, steps = 0; up; up = group->sets[up].parent)
            if (up == i + 1 || ++steps > count) {
                parent = 0;
                break;
            }
        set_adopt(group, parent, i + 1);
    }
    for (uint32_t i = 1; i <= count; i++)
        if (!group->sets[i].leaf)
            group->sets[i].min = spec->subgroups[i - 1].min_subgroup;
}

static void group_count(struct group *group)
{
    memset(group->count, 0, sizeof(group->count));
    for (uint32_t i = 0; i < group->set_count; i++)
        memset(group->sets[i].count, 0, sizeof(group->sets[i].count));
    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];
        pod->set = pod_find_set(group, pod->subgroup);
        if (pod->set == SET_NONE)
            continue;
        group->sets[pod->set].count[pod->status]++;
        group->count[pod->status]++;
    }
}

void sched_put_group(struct sched *sched, const struct sched_group *spec)
{
    struct group *group = group_get(sched, spec->ns, spec->name, true);

    group_weigh(group, -1);
    group_unlink(group);
    mem_free(group->block);
    pack_group(spec, &group->spec, &group->block);
    group->known = true;
    if (spec->last_start_ms)
        group->last_start_ms = spec->last_start_ms;
    group->stale_since_ms = spec->stale_since_ms;
    if (group->stale_since_ms && !group->in_stale) {
        group->in_stale = true;
        VEC_PUSH(NULL, &sched->stale, group);
    }
    group_sets(group);
    group_count(group);
    group_resolve(sched, group);
    room_grew(sched);
}

static void group_free(struct sched *sched, struct group *group)
{
    group_unlink(group);
    group_unstray(sched, group);
    for (size_t i = 0; group->in_stale && i < sched->stale.count; i++)
        if (sched->stale.items[i] == group) {
            VEC_REMOVE_SWAP(&sched->stale, i);
            break;
        }
    map_remove(&sched->groups_by_key, group->key);
    VEC_DONE(&group->pods);
    mem_free(group->sets);
    mem_free(group->block);
    heap_str_free(group->key);
    heap_str_free(group->ns);
    heap_str_free(group->name);
    heap_str_free(group->message);
    mem_free(group->failure);
    mem_free(group);
}

static void group_release(struct sched *sched, struct group *group)
{
    if (group && !group->known && !group->pods.count)
        group_free(sched, group);
}

void sched_drop_group(struct sched *sched, struct str ns, struct str name)
{
    struct group *group = group_get(sched, ns, name, false);

    if (!group || !group->known)
        return;
    group_weigh(group, -1);
    group_unlink(group);
    if (group->in_strays == LIST_NONE)
        group_stray(sched, group);
    group->known = false;
    group->spec = (struct sched_group){0};
    mem_free(group->block);
    group->block = NULL;
    mem_free(group->sets);
    group->sets = NULL;
    group->set_count = 0;
    group_count(group);
    sched->changed = true;
    group_release(sched, group);
}

/* ---- queues, classes, topologies, claims ---- */
void sched_put_queue(struct sched *sched, const struct sched_queue *spec)
{
    struct queue *queue = queue_get(sched, spec->name, true);

    mem_free(queue->block);
    pack_queue(spec, &queue->spec, &queue->block);
    queue->known = true;
    sched->queues_dirty = true;
    room_grew(sched);
}

void sched_drop_queue(struct sched *sched, struct str name)
{
    struct queue *queue = queue_get(sched, name, false);

    if (!queue)
        return;
    queue->known = false;
    sched->queues_dirty = true;
    room_grew(sched);
}

void sched_put_priority_class(struct sched *sched, const struct sched_priority_class *spec)
{
    struct sched_priority_class *class = map_get(&sched->classes, spec->name);

    if (!class) {
        class = MEM_NEW(struct sched_priority_class);
        class->name = heap_str(spec->name);
        map_set(&sched->classes, class->name, class);
    }
    class->value = spec->value;
    class->global_default = spec->global_default;
    sched->queues_dirty = true; /* priorities are looked up again when groups are linked */
    room_grew(sched);
}

void sched_drop_priority_class(struct sched *sched, struct str name)
{
    struct sched_priority_class *class = map_remove(&sched->classes, name);

    if (!class)
        return;
    heap_str_free(class->name);
    mem_free(class);
    sched->queues_dirty = true;
    room_grew(sched);
}

void sched_put_topology(struct sched *sched, const struct sched_topology *spec)
{
    struct topology *topology = map_get(&sched->topologies, spec->name);

    if (!topology) {
        topology = MEM_NEW(struct topology);
        topology->name = heap_str(spec->name);
        map_set(&sched->topologies, topology->name, topology);
    }
    mem_free(topology->block);
    pack_topology(spec, &topology->spec, &topology->block);
    sched->nodes_version++;
    room_grew(sched);
}

void sched_drop_topology(struct sched *sched, struct str name)
{
    struct topology *topology = map_remove(&sched->topologies, name);

    if (!topology)
        return;
    mem_free(topology->block);
    heap_str_free(topology->name);
    mem_free(topology);
    sched->nodes_version++;
    room_grew(sched);
}

void sched_put_claim(struct sched *sched, const struct sched_claim *spec)
{
    struct claim *claim = claim_get(sched, spec->ns, spec->name, true);

    mem_free(claim->block);
    pack_claim(spec, &claim->spec, &claim->block);
    claim->known = true;
    claim->gpu = str_contains(spec->device_class, STR("gpu"));
    if (!claim->holders)
        claim->node = spec->node.len ? node_get(sched, spec->node, true) : NULL;
    for (uint32_t i = 0; i < claim->users.count; i++)
        pod_reclaimed(sched, claim->users.items[i]);
    room_grew(sched);
}

static void claim_release(struct sched *sched, struct claim *claim)
{
    if (claim->known || claim->users.count)
        return;
    map_remove(&sched->claims, claim->key);
    VEC_DONE(&claim->users);
    mem_free(claim->block);
    heap_str_free(claim->key);
    mem_free(claim);
}

void sched_drop_claim(struct sched *sched, struct str ns, struct str name)
{
    struct claim *claim = claim_get(sched, ns, name, false);

    if (!claim || !claim->known)
        return;
    claim->known = false;
    for (uint32_t i = 0; i < claim->users.count; i++)
        pod_reclaimed(sched, claim->users.items[i]);
    sched->changed = true;
    claim_release(sched, claim);
}

/* ---- pods ---- */
static int64_t pending_gpu_charge(const struct sched *sched, const struct pod *pod)
{
    const struct sched_pod *spec = &pod->shape->spec;
    const struct pool *pool = pod->group && pod->group->queue ? pod->group->queue->pool : NULL;
    int64_t memory =
        QUIRK(sched, GPU_MEMORY_100) || !pool || !pool->min_gpu_memory ? 100 : pool->min_gpu_memory;

    if (!spec->gpu_memory_mib)
        return 0;
    return pod->shape->devices * spec->gpu_memory_mib * GPU_MILLI / i64_max(1, memory);
}

void pod_ask(const struct sched *sched, struct pod *pod)
{
    static const struct node whole = {.gpu_memory = 100};

    pod_charge(sched, pod, &whole, pod->ask);
    if (pod->shape->spec.gpu_memory_mib)
        pod->ask[SCHED_GPU] = pending_gpu_charge(sched, pod);
}

static void pod_claims_dropped(struct sched *sched, struct pod *pod)
{
    for (size_t i = 0; i < pod->claim_count; i++) {
        struct claim *claim = pod->claims[i];
        for (size_t j = 0; j < claim->users.count; j++)
            if (claim->users.items[j] == pod) {
                VEC_REMOVE_SWAP(&claim->users, j);
                break;
            }
        claim_release(sched, claim);
    }
    mem_free(pod->claims);
    if (pod->shape && pod->wants != pod->shape->wants)
        mem_free(pod->wants);
    pod->claims = NULL;
    pod->claim_count = 0;
    pod->wants = NULL;
}

/* What the pod takes from a node: its shape's wants, and one more for each of its claims. */
static void pod_wants(struct sched *sched, struct pod *pod)
{
    struct shape *shape = pod->shape;

    if (pod->wants && pod->wants != shape->wants)
        mem_free(pod->wants);
    pod->wants = shape->wants;
    pod->want_count = shape->want_count;
    pod->gpus = shape->shared ? 0 : shape->spec.gpus;
    if (pod->claim_count) {
        pod->wants = mem_alloc((shape->want_count + pod->claim_count) * sizeof(*pod->wants));
        if (shape->want_count)
            memcpy(pod->wants, shape->wants, shape->want_count * sizeof(*pod->wants));
        for (size_t i = 0; i < pod->claim_count; i++) {
            const struct claim *claim = pod->claims[i];
            uint32_t res = RES_GPU;

            if (!claim->known)
                continue;
            if (claim->gpu)
                pod->gpus += claim->spec.device_count;
            else
                res = res_id(sched, claim->spec.device_class);
            pod->wants[pod->want_count++] = (struct want){res, claim->spec.device_count};
        }
    }
    pod_ask(sched, pod);
}

void pod_reclaimed(struct sched *sched, struct pod *pod)
{
    struct undo place = {
        .pod = pod, .node = pod->node, .status = pod->status, .share_count = pod->share_count};

    memcpy(place.shares, pod->shares, sizeof(place.shares));
    pod_set(sched, pod, ST_GATED, NULL, NULL, 0);
    pod_wants(sched, pod);
    pod_set(sched, pod, place.status, place.node, place.shares, place.share_count);
}

static void pod_take_claims(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    pod->claim_count = spec->claim_count;
    pod->claims = mem_alloc(spec->claim_count * sizeof(*pod->claims));
    for (size_t i = 0; i < spec->claim_count; i++) {
        struct claim *claim = claim_get(sched, spec->ns, spec->claims[i].name, true);
        pod->claims[i] = claim;
        if (spec->claims[i].from_template)
            claim->from_template = true;
        VEC_PUSH(NULL, &claim->users, pod);
    }
}

static void pod_names_dropped(struct sched *sched, struct pod *pod)
{
    for (int64_t i = 0; pod->share_names && i < pod->shape->devices; i++)
        gname_unref(sched, pod->share_names[i]);
    mem_free(pod->share_names);
    pod->share_names = NULL;
}

static void pod_leave_group(struct sched *sched, struct pod *pod)
{
    struct group *group = pod->group;

    if (!group)
        return;
    VEC_REMOVE_SWAP(&group->pods, pod->group_index);
    if (pod->group_index < group->pods.count)
        group->pods.items[pod->group_index]->group_index = pod->group_index;
    pod->group = NULL;
    pod->set = SET_NONE;
    group_release(sched, group);
}

static void pod_join_group(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    struct group *group = spec->group.len ? group_get(sched, spec->ns, spec->group, true) : NULL;

    pod->set = SET_NONE;
    pod->group = group;
    if (!group)
        return;
    pod->group_index = (uint32_t)group->pods.count;
    VEC_PUSH(NULL, &group->pods, pod);
    pod->set = pod_find_set(group, pod->subgroup);
    /* Entering as gated counts nowhere; the caller sets the real status. */
    if (pod->set != SET_NONE) {
        group->sets[pod->set].count[ST_GATED]++;
        group->count[ST_GATED]++;
    }
}

/* Takes a pod out of everything: it counts nowhere and belongs to no group. */
static void pod_out(struct sched *sched, struct pod *pod)
{
    struct node *node = pod->node;

    pod_set(sched, pod, ST_GATED, NULL, NULL, 0);
    if (pod->group && pod->set != SET_NONE) {
        pod->group->sets[pod->set].count[ST_GATED]--;
        pod->group->count[ST_GATED]--;
    }
    pod_leave_group(sched, pod);
    pod_claims_dropped(sched, pod);
    pod_names_dropped(sched, pod);
    if (node)
        node_release(sched, node);
}

static void pod_free(struct sched *sched, struct pod *pod)
{
    for (size_t i = 0; pod->promised && i < sched->promised.count; i++)
        if (sched->promised.items[i] == pod) {
            VEC_REMOVE_SWAP(&sched->promised, i);
            break;
        }
    shape_unref(sched, pod->shape);
    map_remove(&sched->pods_by_key, pod->key);
    heap_str_free(pod->key);
    mem_free(pod->block);
    mem_free(pod->plan_devices);
    mem_free(pod);
}

static enum status status_of(enum sched_phase phase, bool has_node)
{
    switch (phase) {
    case SCHED_GATED: return ST_GATED;
    case SCHED_BOUND: return has_node ? ST_BOUND : ST_PENDING;
    case SCHED_RUNNING: return has_node ? ST_RUNNING : ST_PENDING;
    case SCHED_RELEASING: return has_node ? ST_RELEASING : ST_SUCCEEDED;
    case SCHED_SUCCEEDED: return ST_SUCCEEDED;
    case SCHED_FAILED: return ST_FAILED;
    case SCHED_PENDING: break;
    }
    return ST_PENDING;
}

/* The slots of a bound pod's shared devices: by name where the event names them, else new ones. */
static uint8_t pod_open_shares(struct sched *sched,
                               struct pod *pod,
                               const struct sched_pod *spec,
                               struct node *node,
                               uint8_t slots[static SHARE_DEVICES_MAX])
{
    uint8_t count = (uint8_t)i64_min(pod->shape->devices, SHARE_DEVICES_MAX);

    if (!pod->shape->shared || !node)
        return 0;
    pod->share_names = mem_alloc((size_t)pod->shape->devices * sizeof(struct gname *));
    for (uint8_t i = 0; i < count; i++) {
        if (i < spec->gpu_group_count && spec->gpu_groups[i].len)
            pod->share_names[i] = gname_get(sched, spec->gpu_groups[i]);
        slots[i] = share_open(node, pod->share_names[i]);
        pod->named_shares[i] = slots[i];
    }
    pod->named_node = node;
    return count;
}

/* What the plan decided and the event does not know of yet. */
struct decided {
    enum status status;
    struct node *node;
    bool evicting;
    bool same_pod;
};

static void pod_enter(struct sched *sched,
                      struct pod *pod,
                      const struct sched_pod *spec,
                      const struct decided *decided)
{
    struct node *node = spec->node.len ? node_get(sched, spec->node, true) : NULL;
    enum status status = status_of(spec->phase, node != NULL);
    uint8_t slots[SHARE_DEVICES_MAX] = {0};

    pod->observed = status;
    pod->observed_node = node;
    if (status == ST_PENDING && decided->same_pod &&
        (decided->status == ST_BINDING || decided->status == ST_PIPELINED) && decided->node &&
        decided->node->known) {
        status = decided->status;
        node = decided->node;
    } else if (decided->same_pod && decided->evicting && ST_IN(status, ST_ALLOCATED)) {
        status = ST_RELEASING;
        pod->evicting = true;
    }
    uint8_t count = ST_IN(status, ST_USED) ? pod_open_shares(sched, pod, spec, node, slots) : 0;
    pod_set(sched, pod, status, node, slots, count);
}

/* A status change of a pod that is otherwise the same: the common event. */
static bool pod_put_status(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    struct node *node = spec->node.len ? node_get(sched, spec->node, false) : NULL;
    enum status status = status_of(spec->phase, node != NULL);

    if (str_eq(pod->uid, spec->uid) && status == ST_PENDING &&
        (pod->status == ST_BINDING || pod->status == ST_PIPELINED) &&
        str_eq(pod->group ? pod->group->name : STR_NONE, spec->group))
        return true; /* the plan knows more than this event */
    if (!str_eq(pod->uid, spec->uid) || (spec->node.len && !node) || pod->node != node ||
        pod->shape->shared || spec->device_count != pod->device_count || pod->claim_count ||
        spec->claim_count)
        return false;
    if (!str_eq(pod->group ? pod->group->name : STR_NONE, spec->group) ||
        !str_eq(pod->subgroup, spec->subgroup) || spec->label_count != pod->label_count ||
        pod->created_ms != spec->created_ms)
        return false;
    for (size_t i = 0; i < spec->label_count; i++)
        if (!str_eq(spec->labels[i].key, pod->labels[i].key) ||
            !str_eq(spec->labels[i].value, pod->labels[i].value))
            return false;
    pod->observed = status;
    pod->observed_node = node;
    if (pod->evicting && ST_IN(status, ST_ALLOCATED))
        status = ST_RELEASING;
    if (status != pod->status) {
        pod_set(sched, pod, status, node, NULL, 0);
        sched->changed = true;
    }
    return true;
}

void sched_put_pod(struct sched *sched, const struct sched_pod *spec)
{
    struct pod *pod = pod_get(sched, spec->ns, spec->name);
    struct shape *shape = shape_get(sched, spec);
    struct decided decided = {0};

    if (pod && pod->shape == shape && pod_put_status(sched, pod, spec)) {
        shape_unref(sched, shape);
        return;
    }
    if (pod) {
        decided =
            (struct decided){pod->status, pod->node, pod->evicting, str_eq(pod->uid, spec->uid)};
        pod_out(sched, pod);
        shape_unref(sched, pod->shape);
        mem_free(pod->block);
    } else {
        char text[KEY_BYTES];

        pod = MEM_NEW(struct pod);
        pod->key = heap_str(sched_key(text, sizeof(text), spec->ns, spec->name));
        map_set(&sched->pods_by_key, pod->key, pod);
    }
    struct sched_pod own;
    pack_pod(spec, &own, &pod->block);
    pod->ns = own.ns;
    pod->name = own.name;
    pod->uid = own.uid;
    pod->subgroup = own.subgroup;
    pod->nominated = own.nominated_node;
    pod->labels = own.labels;
    pod->label_count = own.label_count;
    pod->devices = own.devices;
    pod->device_count = own.device_count;
    pod->shape = shape;
    pod->created_ms = spec->created_ms;
    pod->ends_ms = spec->ends_ms;
    pod->evicting = false;
    pod->ours =
        !sched->config.scheduler_name.len || str_eq(spec->scheduler, sched->config.scheduler_name);
    pod->status = ST_GATED;
    pod_take_claims(sched, pod, spec);
    pod_join_group(sched, pod, spec);
    pod_wants(sched, pod);
    pod_enter(sched, pod, spec, &decided);
    sched->changed = true;
}

void sched_drop_pod(struct sched *sched, struct str ns, struct str name)
{
    struct pod *pod = pod_get(sched, ns, name);

    if (!pod)
        return;
    pod_out(sched, pod);
    pod_free(sched, pod);
    sched->changed = true;
}

void sched_bind_failed(struct sched *sched, struct str ns, struct str name)
{
    struct pod *pod = pod_get(sched, ns, name);

    if (!pod || pod->status != ST_BINDING || pod->observed_node)
        return;
    pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
    sched->changed = true;
}

void sched_evict_failed(struct sched *sched, struct str ns, struct str name)
{
    struct pod *pod = pod_get(sched, ns, name);

    if (!pod || !pod->evicting)
        return;
    pod->evicting = false;
    if (pod->status == ST_RELEASING && ST_IN(pod->observed, ST_ALLOCATED))
        pod_set(sched, pod, pod->observed, pod->node, pod->shares, pod->share_count);
    sched->changed = true;
}

/* ---- the whole ---- */
void sched_config_default(struct sched_config *config)
{
    *config = (struct sched_config){
        .actions = SCHED_ACTIONS_ALL,
        .queue_label = STR("kai.scheduler/queue"),
        .pool_label = STR("kai.scheduler/node-pool"),
        .stale_grace_ms = 60000,
        .consolidate_max = 16,
        .consolidating_reclaim = true,
        .k_value = 1.0,
        .saturation = 1.0,
    };
}

struct sched *sched_new(const struct sched_config *config)
{
    struct sched *sched = MEM_NEW(struct sched);
    struct map *maps[] = {&sched->nodes_by_name,  &sched->pods_by_key, &sched->groups_by_key,
                          &sched->queues_by_name, &sched->classes,     &sched->topologies,
                          &sched->claims,         &sched->shapes,      &sched->pools_by_name,
                          &sched->gnames,         &sched->resource_ids};
    const struct str names[] = {STR("cpu"), STR("memory"), STR("nvidia.com/gpu"), STR("pods")};

    sched->config = *config;
    sched->config.scheduler_name = str_dup(&sched->config_arena, config->scheduler_name);
    sched->config.queue_label = str_dup(&sched->config_arena, config->queue_label);
    sched->config.pool_label = str_dup(&sched->config_arena, config->pool_label);
    for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++)
        maps[i]->seed = config->seed;
    sched->resource_capacity = 8;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct str name = heap_str(names[i]);
        if (i) /* number 0 cannot be told from absent in the map; nobody asks for "cpu" by name */
            map_set(&sched->resource_ids, name, (void *)i);
        VEC_PUSH(NULL, &sched->resources, name);
    }
    (void)pool_get(sched, STR(""));
    sched->queues_dirty = true;
    return sched;
}

static void objects_free(struct sched *sched)
{
    MAP_FOREACH(&sched->pods_by_key, entry) {
        struct pod *pod = entry->value;
        pod_out(sched, pod);
        pod_free(sched, pod);
    }
    MAP_FOREACH(&sched->groups_by_key, entry)
        group_free(sched, entry->value);
    MAP_FOREACH(&sched->queues_by_name, entry)
        queue_free(entry->value);
    for (size_t i = 0; i < sched->nodes.count; i++)
        if (sched->nodes.items[i])
            node_free(sched->nodes.items[i]);
    MAP_FOREACH(&sched->classes, entry) {
        struct sched_priority_class *class = entry->value;
        heap_str_free(class->name);
        mem_free(class);
    }
    MAP_FOREACH(&sched->topologies, entry) {
        struct topology *topology = entry->value;
        mem_free(topology->block);
        heap_str_free(topology->name);
        mem_free(topology);
    }
    MAP_FOREACH(&sched->claims, entry) {
        struct claim *claim = entry->value;
        claim->known = false;
        claim_release(sched, claim);
    }
}

void sched_free(struct sched *sched)
{
    if (!sched)
        return;
    objects_free(sched);
    for (size_t i = 0; i < sched->pools.count; i++) {
        struct pool *pool = sched->pools.items[i];
        VEC_DONE(&pool->nodes);
        VEC_DONE(&pool->tops);
        heap_str_free(pool->name);
        mem_free(pool);
    }
    for (size_t i = 0; i < sched->resources.count; i++)
        heap_str_free(sched->resources.items[i]);
    struct map *maps[] = {&sched->nodes_by_name,  &sched->pods_by_key, &sched->groups_by_key,
                          &sched->queues_by_name, &sched->classes,     &sched->topologies,
                          &sched->claims,         &sched->shapes,      &sched->pools_by_name,
                          &sched->gnames,         &sched->resource_ids};
    for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++)
        map_done(maps[i]);
    VEC_DONE(&sched->nodes);
    VEC_DONE(&sched->queues);
    VEC_DONE(&sched->pools);
    VEC_DONE(&sched->strays);
    VEC_DONE(&sched->resources);
    VEC_DONE(&sched->journal);
    VEC_DONE(&sched->touched);
    VEC_DONE(&sched->promised);
    VEC_DONE(&sched->notes);
    VEC_DONE(&sched->stale);
    topology_cache_free(sched->topology_cache);
    arena_done(&sched->config_arena);
    mem_free(sched);
}
