#include "api/gpu.h"
#include "api/scheduler_name.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/charge.h"
#include "sched/claim.h"
#include "sched/closers.h"
#include "sched/event.h"
#include "sched/fragment.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/leaving.h"
#include "sched/link.h"
#include "sched/lists.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/numa.h"
#include "sched/pick.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Pods: what they ask for, which group they belong to, and what the plan knows that an event does
 * not know yet. */

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
    pod->want_count = (uint32_t)shape->want_count;
    pod->gpus = shape->shared ? 0 : shape->spec.gpus;
    if (pod->claim_count) {
        pod->wants = mem_alloc((shape->want_count + pod->claim_count) * sizeof(*pod->wants));
        if (shape->want_count)
            memcpy(pod->wants, shape->wants, shape->want_count * sizeof(*pod->wants));
        for (size_t i = 0; i < pod->claim_count; i++) {
            const struct claim *claim = pod->claims[i];
            uint32_t res = RES_GPU;

            /* A place for every claim, so that claims_settled() finds it. */
            int64_t count = claim->known ? claim->spec.device_count : 0;

            if (claim->known && !claim->gpu && !claim->ask)
                res = res_asked(sched, claim->spec.device_class);
            else
                pod->gpus += count;
            pod->wants[pod->want_count++] = (struct want){res, count};
        }
    }
    pod_claims_counted(sched, pod);
    pod_ask(sched, pod);
}

/* Devices behind its GPUs, while the pod is taken out and put in again: as long as it stays where it
 * is, they are its own. Nothing else says so before their claim is written. */
struct whole {
    struct device **devices;
    uint32_t count;
};

static struct whole whole_aside(struct pod *pod)
{
    struct whole whole = {pod->whole, pod->whole_count};

    pod->whole = NULL;
    pod->whole_count = 0;
    return whole;
}

static void whole_back(struct sched *sched, struct pod *pod, struct whole whole, bool stays)
{
    if (!whole.count)
        return;
    pod->whole = whole.devices;
    pod->whole_count = whole.count;
    if (!stays)
        pick_whole_done(sched, pod);
}

void pod_reclaimed(struct sched *sched, struct pod *pod)
{
    struct whereabouts at = pod_whereabouts(pod);
    struct whole whole = whole_aside(pod);

    pod_set(sched, pod, ST_GATED, NULL, NULL, 0);
    pod_wants(sched, pod);
    claims_settled(sched, pod);
    pod_put_back(sched, pod, &at);
    whole_back(sched, pod, whole, ST_IN(pod->status, ST_USED));
}

void pod_reshaped(struct sched *sched, struct pod *pod)
{
    const struct pod_volumes *volumes = pod_volumes(pod);
    struct sched_pod spec = pod->shape->spec;
    struct str *names = mem_alloc((volumes->count + 1) * sizeof(*names));

    for (uint32_t i = 0; i < volumes->count; i++)
        names[i] = volume_name(volumes->items[i]);
    spec.ns = pod_ns(pod);
    spec.volumes = names;
    spec.volume_count = volumes->count;
    spec.own_volumes = volumes->own;
    spec.uid = pod_uid(pod);
    struct shape *shape = shape_get(sched, &spec);
    mem_free(names);
    struct whereabouts at = pod_whereabouts(pod);
    struct whole whole = whole_aside(pod);
    pod_set(sched, pod, ST_GATED, NULL, NULL, 0);
    if (pod->wants != pod->shape->wants)
        mem_free(pod->wants);
    pod->wants = NULL;
    shape_unref(sched, pod->shape);
    pod->shape = shape;
    pod_wants(sched, pod);
    claims_settled(sched, pod);
    pod_put_back(sched, pod, &at);
    whole_back(sched, pod, whole, ST_IN(pod->status, ST_USED));
}

static void pod_take_claims(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    pod_take_volumes(sched, pod, spec);
    if (!spec->claim_count)
        return;
    pod->claim_count = (uint32_t)spec->claim_count;
    pod->claims = mem_alloc(spec->claim_count * sizeof(*pod->claims));
    for (size_t i = 0; i < spec->claim_count; i++) {
        struct claim *claim = claim_get(sched, spec->ns, spec->claims[i].name, true);
        pod->claims[i] = claim;
        if (spec->claims[i].from_template)
            claim->from_template = true;
        VEC_PUSH(NULL, &claim->users, pod);
    }
}

static void pod_sharing_dropped(struct sched *sched, struct pod *pod)
{
    if (!pod->sharing)
        return;
    for (int64_t i = 0; pod->sharing->names && i < pod->shape->devices; i++)
        name_unref(sched, pod->sharing->names[i]);
    mem_free(pod->sharing->names);
    mem_free(pod->sharing);
    pod->sharing = NULL;
}

static void pod_labels_dropped(struct sched *sched, struct pod *pod)
{
    for (uint32_t i = 0; i < pod->label_count; i++) {
        name_unref(sched, pod->labels[i].key);
        name_unref(sched, pod->labels[i].value);
    }
    mem_free(pod->labels);
    name_unref(sched, pod->subgroup);
    name_unref(sched, pod->nominated);
    pod->labels = NULL;
    pod->label_count = 0;
    pod->subgroup = pod->nominated = NULL;
}

static void pod_take_labels(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    pod_labels_dropped(sched, pod);
    pod->subgroup = name_get(sched, spec->subgroup);
    pod->nominated = name_get(sched, spec->nominated_node);
    if (!spec->label_count)
        return;
    pod->label_count = (uint32_t)spec->label_count;
    pod->labels = mem_alloc(spec->label_count * sizeof(*pod->labels));
    for (size_t i = 0; i < spec->label_count; i++)
        pod->labels[i] = (struct pod_label){name_get(sched, spec->labels[i].key),
                                            name_get(sched, spec->labels[i].value)};
}

void pod_call(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    size_t key_len = spec->ns.len + 1 + spec->name.len;
    char *old = pod->text;

    pod->text = mem_alloc(key_len + spec->uid.len + 1);
    pod->ns_len = (uint32_t)spec->ns.len;
    pod->name_len = (uint32_t)spec->name.len;
    pod->uid_len = (uint32_t)spec->uid.len;
    (void)sched_key(pod->text, key_len + 1, spec->ns, spec->name);
    if (spec->uid.len)
        memcpy(pod->text + key_len, spec->uid.p, spec->uid.len);
    map_set(&sched->pods_by_key, pod_key(pod), pod);
    mem_free(old);
    if (pod->group)
        group_line_forget(pod->group);
}

static void pod_leave_group(struct sched *sched, struct pod *pod)
{
    struct group *group = pod->group;

    if (!group)
        return;
    pod_weigh_kept(pod, -1);
    group_line_forget(group);
    VEC_REMOVE_SWAP(&group->pods, pod->group_index);
    if (pod->group_index < group->pods.count)
        group->pods.items[pod->group_index]->group_index = pod->group_index;
    if (group->failure && group->failure->pod == pod)
        group->failure->pod = NULL; /* the words of the last attempt outlive it */
    pod->group = NULL;
    pod->set = SET_NONE;
    if (pod->stand_in)
        group->stand_ins--;
    group_lists(group);
    if (group->pods.count == 1 && group->pods.items[0]->node)
        closers_note(sched, group->pods.items[0]->node); /* it is alone now */
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
    if (group->pods.count > 1 && !group->line)
        group->line = MEM_NEW(struct line);
    group_line_forget(group);
    pod->set = pod_find_set(group, name_text(pod->subgroup));
    /* Entering as gated counts nowhere; the caller sets the real status. */
    if (pod->set != SET_NONE) {
        group->sets[pod->set].count[ST_GATED]++;
        group->count[ST_GATED]++;
    }
    pod_weigh_kept(pod, 1);
}

/* Takes a pod out of everything: it counts nowhere and belongs to no group. */
void pod_out(struct sched *sched, struct pod *pod)
{
    struct node *node = pod->node;

    hold_forget(sched, pod);
    pod_set(sched, pod, ST_GATED, NULL, NULL, 0);
    if (pod->group && pod->set != SET_NONE) {
        pod->group->sets[pod->set].count[ST_GATED]--;
        pod->group->count[ST_GATED]--;
        group_lists(pod->group);
    }
    pod_leave_group(sched, pod);
    pod_claims_dropped(sched, pod);
    pod_volumes_dropped(sched, pod);
    pod_sharing_dropped(sched, pod);
    if (node)
        node_release(sched, node);
}

/* Where a suspended pod has to go on, and what it holds there; nowhere: it is not suspended. */
struct home {
    struct str node;
    int64_t cpu_milli;
    int64_t memory_bytes;
};

static void pod_settle(struct sched *sched, struct pod *pod, const struct home *home)
{
    for (size_t i = 0; pod->home && i < sched->homed.count; i++)
        if (sched->homed.items[i] == pod) {
            VEC_REMOVE_SWAP(&sched->homed, i);
            break;
        }
    name_unref(sched, pod->home);
    pod->home = name_get(sched, home->node);
    if (!pod->home)
        return;
    pod_rare_make(pod)->kept[SCHED_CPU] = home->cpu_milli;
    pod->rare->kept[SCHED_MEMORY] = home->memory_bytes;
    VEC_PUSH(NULL, &sched->homed, pod);
}

static void pod_set_resuming(struct sched *sched, struct pod *pod, bool resuming)
{
    if (pod->resuming == resuming)
        return;
    pod->resuming = resuming;
    if (resuming) {
        sched->resuming++;
    } else {
        sched->resuming--;
        sched->changed = true; /* others may take its place now */
    }
}

static void pod_set_may_stay(struct pod *pod, bool may_stay)
{
    if (pod->may_stay == may_stay)
        return;
    pod_weigh(pod, -1);
    pod->may_stay = may_stay;
    pod_weigh(pod, 1);
}

void pod_forget(struct sched *sched, struct pod *pod)
{
    for (size_t i = 0; pod->promised && i < sched->promised.count; i++)
        if (sched->promised.items[i] == pod) {
            VEC_REMOVE_SWAP(&sched->promised, i);
            break;
        }
    leaving_forget(sched, pod);
    name_unref(sched, pod_rare(pod)->ended_on);
    pod_settle(sched, pod, &(struct home){0});
    pod_set_resuming(sched, pod, false);
    shape_unref(sched, pod->shape);
    map_remove(&sched->pods_by_key, pod_key(pod));
    pod_labels_dropped(sched, pod);
    mem_free(pod->devices);
    mem_free(pod->rare);
    numa_forget(pod);
    mem_free(pod->text);
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

/* As the event names them. A pod that is suspended has no slots, but these are the devices it goes
 * on on. */
static void pod_name_shares(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    struct sharing *sharing = pod->sharing;

    if (!sharing || sharing->names)
        return;
    sharing->names = mem_alloc((size_t)pod->shape->devices * sizeof(*sharing->names));
    for (int64_t i = 0; i < pod->shape->devices && i < (int64_t)spec->gpu_group_count; i++)
        sharing->names[i] = name_get(sched, spec->gpu_groups[i]);
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
    struct sharing *sharing = pod->sharing;
    pod_name_shares(sched, pod, spec);
    for (uint8_t i = 0; i < count; i++) {
        if (!share_can_open(node, sharing->names[i])) { /* no node has so many devices */
            count = i;
            break;
        }
        slots[i] = share_open(node, sharing->names[i]);
        sharing->named_shares[i] = slots[i];
    }
    sharing->named_node = node;
    return count;
}

/* What the plan decided and the event does not know of yet. */
struct decided {
    enum status status;
    struct node *node;
    bool evicting;
    bool same_pod;
    uint32_t lent_for;
};

/* Decided and not seen: bound, even if evicted since, or promised room. */
static bool is_decided(enum status status, bool evicting)
{
    return status == ST_BINDING || status == ST_PIPELINED || (status == ST_RELEASING && evicting);
}

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
        is_decided(decided->status, decided->evicting) && decided->node && decided->node->known) {
        status = decided->status;
        node = decided->node;
        pod->evicting = decided->evicting;
    } else if (decided->same_pod && decided->evicting && ST_IN(status, ST_ALLOCATED)) {
        status = ST_RELEASING;
        pod->evicting = true;
    } else if (!(decided->same_pod && decided->evicting) && hold_stays(sched, pod, status)) {
        status = ST_RUNNING;
    }
    uint8_t count = ST_IN(status, ST_USED) ? pod_open_shares(sched, pod, spec, node, slots) : 0;
    pod_set(sched, pod, status, node, slots, count);
    leaving_note(sched, pod, spec->deleted_ms);
}

/* A status change of a pod that is otherwise the same: the common event. */
static bool pod_put_status(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    struct node *node = spec->node.len ? node_get(sched, spec->node, false) : NULL;
    enum status status = status_of(spec->phase, node != NULL);

    if (str_eq(pod_uid(pod), spec->uid) && status == ST_PENDING &&
        is_decided(pod->status, pod->evicting) &&
        str_eq(pod->group ? pod->group->name : STR_NONE, spec->group))
        return true; /* the plan knows more than this event */
    if (!str_eq(pod_uid(pod), spec->uid) || (spec->node.len && !node) || pod->node != node ||
        pod->shape->shared || spec->device_count != pod->device_count || pod->claim_count ||
        spec->claim_count)
        return false;
    if (!str_eq(pod->group ? pod->group->name : STR_NONE, spec->group) ||
        !str_eq(name_text(pod->subgroup), spec->subgroup) ||
        spec->label_count != pod->label_count || pod->created_ms != spec->created_ms ||
        !numa_says(pod, spec))
        return false;
    for (size_t i = 0; i < spec->label_count; i++)
        if (!str_eq(spec->labels[i].key, name_text(pod->labels[i].key)) ||
            !str_eq(spec->labels[i].value, name_text(pod->labels[i].value)))
            return false;
    pod_set_resuming(sched, pod, spec->resuming);
    pod_set_may_stay(pod, spec->may_stay);
    pod->observed = status;
    pod->observed_node = node;
    pod->started_ms = spec->started_ms;
    pod->deadline_ms = spec->deadline_ms;
    pod_hold(pod, spec->hold_ms);
    if (pod->evicting && ST_IN(status, ST_ALLOCATED))
        status = ST_RELEASING;
    else if (hold_stays(sched, pod, status))
        status = ST_RUNNING;
    else
        hold_forget(sched, pod);
    if (status == ST_RELEASING && pod->status == ST_STUCK)
        status = ST_STUCK;
    if (status != pod->status) {
        pod_set(sched, pod, status, node, NULL, 0);
        sched->changed = true;
    }
    leaving_note(sched, pod, spec->deleted_ms);
    return true;
}

/* What is known of the pod. */
static void pod_put(struct sched *sched, const struct sched_pod *spec, const struct home *home)
{
    struct pod *pod = pod_get(sched, spec->ns, spec->name);
    struct shape *shape = shape_get(sched, spec);
    struct decided decided = {0};
    struct whole whole = {0};

    tapped(sched, &(struct sched_input){.kind = SCHED_INPUT_POD, .pod = spec});
    if (pod && (!str_eq(pod_uid(pod), spec->uid) || spec->phase == SCHED_FAILED) &&
        hold_leaves(sched, pod, !str_eq(pod_uid(pod), spec->uid)))
        pod = NULL;
    if (pod && pod->shape == shape && pod_put_status(sched, pod, spec)) {
        shape_unref(sched, shape);
        return;
    }
    if (pod) {
        decided = (struct decided){pod->status, pod->node, pod->evicting,
                                   str_eq(pod_uid(pod), spec->uid), pod->lent_for};
        if (!decided.same_pod && pod->rare)
            pod->rare->spared_ms = pod->rare->refusals = 0;
        if (home->node.len && !pod->home) /* it has left its GPUs, as the plan wanted */
            decided = (struct decided){.same_pod = decided.same_pod};
        whole = whole_aside(pod);
        pod_out(sched, pod);
        shape_unref(sched, pod->shape);
    } else {
        pod = MEM_NEW(struct pod);
        fragment_seen(sched, shape);
        hold_seen(sched, pod, spec);
    }
    bool planned = decided.same_pod && is_decided(decided.status, decided.evicting) &&
                   pod->devices_planned && !spec->device_count;
    pod_call(sched, pod, spec);
    pod_settle(sched, pod, home);
    pod_set_resuming(sched, pod, spec->resuming);
    pod_set_may_stay(pod, spec->may_stay);
    pod_take_labels(sched, pod, spec);
    if (!planned)
        pod_number(pod, spec->devices, spec->device_count);
    numa_seen(pod, spec, decided.same_pod);
    pod->shape = shape;
    if (shape->shared)
        pod->sharing = MEM_NEW(struct sharing);
    if (pod->home)
        pod_name_shares(sched, pod, spec);
    pod->created_ms = spec->created_ms;
    pod->deadline_ms = spec->deadline_ms;
    pod->started_ms = spec->started_ms;
    pod_hold(pod, spec->hold_ms);
    pod->movable = spec->movable;
    pod->lent_for = decided.same_pod ? decided.lent_for : 0;
    pod->evicting = false;
    pod->ours = scheduler_places(sched->config.scheduler_name, spec->scheduler);
    pod->status = ST_GATED;
    pod_take_claims(sched, pod, spec);
    pod_join_group(sched, pod, spec);
    pod_wants(sched, pod);
    claims_settled(sched, pod);
    pod_enter(sched, pod, spec, &decided);
    whole_back(sched, pod, whole,
               decided.same_pod && pod->node && pod->node == decided.node &&
                   ST_IN(pod->status, ST_USED));
    if (pod->group && pod->deadline_ms > pod->group->deadline_ms) {
        pod->group->deadline_ms = pod->deadline_ms;
        if (pod->group->queue && pod->group->queue->spec.order == SCHED_ORDER_EXPECTED)
            group_resolve(sched, pod->group); /* its place in line */
    }
    /* The numbers that a plan gave it hold only as long as the plan does: tried on another node
     * they would be somebody else's. */
    if (planned && !ST_IN(pod->status, ST_USED))
        pod_number(pod, NULL, 0);
    sched->changed = true;
}

/* ---- suspended pods ---- */

/* A pod that is suspended is two: one that holds its CPUs and memory and is nobody's to place, and
 * one that waits for its GPUs, which only its node can give it. So it stands in line, is explained
 * and is a gang as any other; and its CPUs and memory are there when it goes on. */
#define HOLDER_SUFFIX "/suspended" /* no pod of the API can be called so */

static struct str holder_name(struct arena *arena, struct str name)
{
    return str_printf(arena, STR_FMT HOLDER_SUFFIX, STR_ARG(name));
}

static struct str devices_text(struct arena *arena, const struct sched_pod *spec)
{
    struct str text = STR("/");

    for (size_t i = 0; i < spec->device_count; i++)
        text = str_printf(arena, STR_FMT "%u,", STR_ARG(text), spec->devices[i]);
    for (size_t i = 0; i < spec->gpu_group_count; i++)
        text = str_printf(arena, STR_FMT STR_FMT ",", STR_ARG(text), STR_ARG(spec->gpu_groups[i]));
    return text;
}

/* What it has of zones but its GPUs, which it has left. */
static struct sched_zone_part *kept_parts(struct arena *arena,
                                          const struct sched_pod *spec,
                                          size_t *ret_count)
{
    struct sched_zone_part *parts =
        ARENA_ARRAY(arena, struct sched_zone_part, spec->zone_part_count + 1);

    *ret_count = 0;
    for (size_t i = 0; i < spec->zone_part_count; i++)
        if (!str_is(spec->zone_parts[i].name, GPU_RESOURCE))
            parts[(*ret_count)++] = spec->zone_parts[i];
    return parts;
}

static void put_suspended(struct sched *sched, const struct sched_pod *spec)
{
    _cleanup_(arena_done) struct arena arena = {0};
    size_t part_count = 0;
    const struct sched_zone_part *parts = kept_parts(&arena, spec, &part_count);
    struct sched_pod holder = {.ns = spec->ns,
                               .name = holder_name(&arena, spec->name),
                               .uid = spec->uid,
                               .scheduler = spec->scheduler,
                               .created_ms = spec->created_ms,
                               .phase = SCHED_RUNNING,
                               .node = spec->node,
                               .cpu_milli = spec->cpu_milli,
                               .memory_bytes = spec->memory_bytes + spec->moved_bytes,
                               .amounts = spec->amounts,
                               .amount_count = spec->amount_count,
                               .ports = spec->ports,
                               .port_count = spec->port_count,
                               .volumes = spec->volumes,
                               .volume_count = spec->volume_count,
                               .own_volumes = spec->own_volumes,
                               .zone_parts = parts,
                               .zone_part_count = part_count};
    /* Its reservation pods hold its devices as long as it is there: nobody can have them whole. */
    if (sched->config.devices == SCHED_DEVICES_RESERVED && spec->gpu_group_count) {
        holder.keeps_shares = true;
        holder.gpu_devices = (int64_t)spec->gpu_group_count;
        holder.gpu_groups = spec->gpu_groups;
        holder.gpu_group_count = spec->gpu_group_count;
    }
    /* The second one is no node: it tells pods apart that wait there for other devices. */
    struct str places[] = {spec->node, devices_text(&arena, spec)};
    struct sched_expression field = {.key = STR("metadata.name"),
                                     .op = SCHED_IN,
                                     .values = places,
                                     .value_count = COUNT_OF(places)};
    struct sched_node_term term = {.fields = &field, .field_count = 1};
    struct sched_toleration all = {.exists = true, .any_effect = true};
    struct sched_pod rest = *spec;

    rest.node = STR_NONE;
    rest.cpu_milli = rest.memory_bytes = 0;
    rest.amount_count = rest.port_count = rest.spread_count = 0;
    rest.container_count = rest.zone_part_count = rest.volume_count = rest.own_volumes = 0;
    rest.guaranteed = false;
    rest.node_selector_count = rest.node_preference_count = 0;
    rest.affinity_count = rest.anti_affinity_count = 0;
    rest.affinity_preference_count = rest.anti_affinity_preference_count = 0;
    rest.node_affinity = true;
    rest.node_terms = &term;
    rest.node_term_count = 1;
    rest.tolerations = &all;
    rest.toleration_count = 1;
    pod_put(sched, &holder, &(struct home){0});
    pod_put(sched, &rest, &(struct home){spec->node, spec->cpu_milli, spec->memory_bytes});
}

static void pod_drop(struct sched *sched, struct str ns, struct str name)
{
    struct pod *pod = pod_get(sched, ns, name);

    tapped(sched, &(struct sched_input){.kind = SCHED_INPUT_POD_GONE, .ns = ns, .name = name});
    if (!pod || hold_leaves(sched, pod, true))
        return;
    pod_out(sched, pod);
    pod_forget(sched, pod);
    sched->changed = true;
}

static void drop_holder(struct sched *sched, struct str ns, struct str name)
{
    _cleanup_(arena_done) struct arena arena = {0};

    pod_drop(sched, ns, holder_name(&arena, name));
}

void sched_put_pod(struct sched *sched, const struct sched_pod *spec)
{
    const struct pod *before = sched->homed.count ? pod_get(sched, spec->ns, spec->name) : NULL;
    struct sched_pod nowhere;

    if (!spec->node.len && spec->device_count) { /* whoever made it may have written them */
        nowhere = *spec;
        nowhere.device_count = 0;
        spec = &nowhere;
    }
    if (spec->suspended) {
        put_suspended(sched, spec);
        return;
    }
    if (before && before->home)
        drop_holder(sched, spec->ns, spec->name);
    pod_put(sched, spec, &(struct home){0});
}

void sched_drop_pod(struct sched *sched, struct str ns, struct str name)
{
    const struct pod *pod = sched->homed.count ? pod_get(sched, ns, name) : NULL;

    if (pod && pod->home)
        drop_holder(sched, ns, name);
    pod_drop(sched, ns, name);
}

/* The pod that a write was about, unless another one has its name by now: the answer of a write may
 * come after the pod was deleted, made again, and decided about again. */
static struct pod *written_pod(struct sched *sched,
                               enum sched_input_kind kind,
                               const struct sched_pod_ref *ref,
                               int64_t now_ms)
{
    struct pod *pod = pod_get(sched, ref->ns, ref->name);

    tapped(sched,
           &(struct sched_input){
               .kind = kind, .ns = ref->ns, .name = ref->name, .uid = ref->uid, .now_ms = now_ms});
    return pod && (!ref->uid.len || str_eq(pod_uid(pod), ref->uid)) ? pod : NULL;
}

void pod_unplanned(struct sched *sched, struct pod *pod)
{
    pod->evicting = false; /* if it was: nobody is there to be evicted */
    pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
    numa_forget(pod);
    if (!pod->home)
        pod_number(pod, NULL, 0);
}

void sched_bind_failed(struct sched *sched, const struct sched_pod_ref *ref)
{
    struct pod *pod = written_pod(sched, SCHED_INPUT_BIND_FAILED, ref, 0);

    if (!pod || pod->observed_node || !is_decided(pod->status, pod->evicting) ||
        pod->status == ST_PIPELINED)
        return;
    pod_unplanned(sched, pod);
    sched->changed = true;
}

void sched_bind_undone(struct sched *sched, const struct sched_pod_ref *ref)
{
    struct pod *pod = written_pod(sched, SCHED_INPUT_BIND_UNDONE, ref, 0);

    /* What events have said of it since then is newer. */
    if (!pod || pod->observed_node || pod->status != ST_BINDING)
        return;
    pod->evicting = true;
    pod_set(sched, pod, ST_RELEASING, pod->node, pod_shares(pod), pod->share_count);
    sched->changed = true;
}

static void evict_undone(struct sched *sched, struct pod *pod)
{
    if (!pod || !pod->evicting)
        return;
    pod->evicting = false;
    /* A bind that no event has shown yet is still under way. */
    enum status before = pod->observed_node ? pod->observed : ST_BINDING;
    if (pod->status == ST_RELEASING && ST_IN(before, ST_ALLOCATED))
        pod_set(sched, pod, before, pod->node, pod_shares(pod), pod->share_count);
    sched->changed = true;
}

void sched_evict_failed(struct sched *sched, const struct sched_pod_ref *ref)
{
    evict_undone(sched, written_pod(sched, SCHED_INPUT_EVICT_FAILED, ref, 0));
}

void sched_evict_refused(struct sched *sched, const struct sched_pod_ref *ref, int64_t now_ms)
{
    struct pod *pod = written_pod(sched, SCHED_INPUT_EVICT_REFUSED, ref, now_ms);

    if (pod) {
        struct pod_rare *rare = pod_rare_make(pod);

        rare->spared_ms = now_ms + rest_ms(&rare->refusals, SCHED_SPARE_MIN_MS, SCHED_SPARE_MAX_MS);
    }
    evict_undone(sched, pod);
}
