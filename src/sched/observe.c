#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/decode.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>

/* The way in: an API object becomes a spec, the spec an event. */

/* False: it is of another kind. */
static bool observe_volumes(struct sched *sched, struct decode *decode)
{
    const struct kind *kind = decode->object->kind;

    if (kind == &kind_pvc) {
        struct sched_volume_claim claim;
        decode_volume_claim(decode, &claim);
        sched_put_volume_claim(sched, &claim);
    } else if (kind == &kind_pv) {
        struct sched_volume volume;
        decode_volume(decode, &volume);
        sched_put_volume(sched, &volume);
    } else if (kind == &kind_storageclass) {
        struct sched_storage_class class;
        decode_storage_class(decode, &class);
        sched_put_storage_class(sched, &class);
    } else if (kind == &kind_csinode) {
        struct sched_volume_limits limits;
        decode_volume_limits(decode, &limits);
        sched_put_volume_limits(sched, &limits);
    } else if (kind == &kind_csidriver) {
        sched_put_storage_driver(
            sched, decode->object->name,
            json_bool_or(json_at(decode->tree, "spec.storageCapacity"), false));
    } else if (kind == &kind_csistoragecapacity) {
        struct sched_storage_room room;
        decode_storage_room(decode, &room);
        sched_put_storage_room(sched, &room);
    } else {
        return false;
    }
    return true;
}

static int observe_put(struct sched *sched, struct decode *decode)
{
    const struct kind *kind = decode->object->kind;

    if (observe_volumes(sched, decode))
        return decode->code;
    if (kind == &kind_pod) {
        struct sched_pod pod;
        decode_pod(decode, &pod);
        sched_put_pod(sched, &pod);
    } else if (kind == &kind_node) {
        struct sched_node node;
        decode_node(decode, &node);
        sched_put_node(sched, &node);
    } else if (kind == &kind_podgroup) {
        struct sched_group group;
        decode_group(decode, &group);
        sched_put_group(sched, &group);
    } else if (kind == &kind_queue) {
        struct sched_queue queue;
        decode_queue(decode, &queue);
        sched_put_queue(sched, &queue);
    } else if (kind == &kind_priorityclass) {
        sched_put_priority_class(
            sched,
            &(struct sched_priority_class){
                .name = decode->object->name,
                .value = json_i64_or(json_get(decode->tree, "value"), 0),
                .global_default = json_bool_or(json_get(decode->tree, "globalDefault"), false)});
    } else if (str_is(str_from(kind->name), "Topology")) {
        struct sched_topology topology;
        decode_topology(decode, &topology);
        sched_put_topology(sched, &topology);
    } else if (kind == &kind_namespace) {
        struct sched_namespace space;
        decode_namespace(decode, &space);
        sched_put_namespace(sched, &space);
    } else if (kind == &kind_resourceclaim) {
        struct sched_claim claim;
        decode_claim(decode, &claim);
        sched_put_claim(sched, &claim);
    } else if (kind == &kind_resourceslice) {
        sched_put_slice(sched, &(struct sched_slice){.name = decode->object->name,
                                                     .spec = json_get(decode->tree, "spec")});
    } else if (kind == &kind_noderesourcetopology) {
        struct sched_numa numa;
        decode_numa(decode, &numa);
        sched_put_numa(sched, &numa);
    } else if (kind == &kind_deviceclass) {
        sched_put_device_class(
            sched, &(struct sched_device_class){.name = decode->object->name,
                                                .created_ms = decode->object->created_ms,
                                                .spec = json_get(decode->tree, "spec")});
    }
    return decode->code;
}

static void observe_drop(struct sched *sched, const struct object *object)
{
    const struct kind *kind = object->kind;

    if (kind == &kind_pod)
        sched_drop_pod(sched, object->ns, object->name);
    else if (kind == &kind_node)
        sched_drop_node(sched, object->name);
    else if (kind == &kind_podgroup)
        sched_drop_group(sched, object->ns, object->name);
    else if (kind == &kind_queue)
        sched_drop_queue(sched, object->name);
    else if (kind == &kind_priorityclass)
        sched_drop_priority_class(sched, object->name);
    else if (str_is(str_from(kind->name), "Topology"))
        sched_drop_topology(sched, object->name);
    else if (kind == &kind_namespace)
        sched_drop_namespace(sched, object->name);
    else if (kind == &kind_resourceclaim)
        sched_drop_claim(sched, object->ns, object->name);
    else if (kind == &kind_resourceslice)
        sched_drop_slice(sched, object->name);
    else if (kind == &kind_noderesourcetopology)
        sched_drop_numa(sched, object->name);
    else if (kind == &kind_deviceclass)
        sched_drop_device_class(sched, object->name);
    else if (kind == &kind_pvc)
        sched_drop_volume_claim(sched, object->ns, object->name);
    else if (kind == &kind_pv)
        sched_drop_volume(sched, object->name);
    else if (kind == &kind_storageclass)
        sched_drop_storage_class(sched, object->name);
    else if (kind == &kind_csinode)
        sched_drop_volume_limits(sched, object->name);
    else if (kind == &kind_csidriver)
        sched_put_storage_driver(sched, object->name, false);
    else if (kind == &kind_csistoragecapacity)
        sched_drop_storage_room(sched, object->ns, object->name);
}

int sched_observe(struct sched *sched,
                  enum sched_change change,
                  const struct object *object,
                  struct err *err)
{
    struct arena arena = {0};
    int r = 0;

    tapped(sched,
           &(struct sched_input){.kind = SCHED_INPUT_OBJECT, .change = change, .object = object});
    sched->observing = true;
    if (change == SCHED_DROP) {
        observe_drop(sched, object);
        sched->observing = false;
        return 0;
    }
    struct decode decode = {.config = sched_config(sched),
                            .arena = &arena,
                            .object = object,
                            .tree = object_tree(object, &arena),
                            .err = err};
    r = observe_put(sched, &decode);
    sched->observing = false;
    arena_done(&arena);
    return r;
}
