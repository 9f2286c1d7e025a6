#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/decode.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PersistentVolumeClaims, PersistentVolumes, and what says where volumes can be. */

#define SELECTED_NODE  "volume.kubernetes.io/selected-node"
#define BIND_COMPLETED "pv.kubernetes.io/bind-completed"
#define CLASS_BEFORE   "volume.beta.kubernetes.io/storage-class"

#define VOLUME_NAME_BYTES_MAX 512 /* two names of 253 bytes and a dash, for those that are made */
/* Of one pod: each is compared with those before it. Nodes mount some tens. */
#define VOLUMES_MAX 256

static int64_t bytes_at(const struct json *root, const char *path)
{
    int64_t bytes = 0;

    (void)quantity_whole_json(json_at(root, path), &bytes, NULL);
    return bytes;
}

static unsigned access_of(const struct json *modes)
{
    unsigned access = 0;

    JSON_FOREACH(modes, mode) {
        struct str word = json_str(mode);

        access |= str_is(word, "ReadWriteOnce")      ? SCHED_ONE_NODE
                  : str_is(word, "ReadOnlyMany")     ? SCHED_READ_MANY
                  : str_is(word, "ReadWriteMany")    ? SCHED_WRITE_MANY
                  : str_is(word, "ReadWriteOncePod") ? SCHED_ONE_POD
                                                     : 0U;
    }
    return access;
}

static struct str class_of(const struct decode *decode)
{
    struct str before = object_annotation(decode->object, CLASS_BEFORE);

    return before.len ? before : json_str_at(decode->tree, "spec.storageClassName");
}

void decode_volume_claim(struct decode *decode, struct sched_volume_claim *ret)
{
    const struct object *object = decode->object;
    const struct json *selector = json_at(decode->tree, "spec.selector");
    const struct object_owner *owner = object_controller(object);

    *ret = (struct sched_volume_claim){
        .ns = object->ns,
        .name = object->name,
        .uid = object->uid,
        .class = class_of(decode),
        .volume = json_str_at(decode->tree, "spec.volumeName"),
        .selected_node = object_annotation(object, SELECTED_NODE),
        .pod_uid = owner && str_is(owner->kind, "Pod") ? owner->uid : STR(""),
        .deleted = object->deleted_ms != 0,
        .access = access_of(json_at(decode->tree, "spec.accessModes")),
        .block = str_is(json_str_at(decode->tree, "spec.volumeMode"), "Block"),
        .bytes = bytes_at(decode->tree, "spec.resources.requests.storage"),
    };
    ret->bound = ret->volume.len && (object_annotation(object, BIND_COMPLETED).len ||
                                     str_is(json_str_at(decode->tree, "status.phase"), "Bound"));
    if (!json_is_null(selector))
        ret->selector = decode_selector(decode, selector);
}

void decode_volume(struct decode *decode, struct sched_volume *ret)
{
    const struct object *object = decode->object;
    const struct json *required = json_at(decode->tree, "spec.nodeAffinity.required");
    struct str phase = json_str_at(decode->tree, "status.phase");
    struct sched_label *labels =
        ARENA_ARRAY(decode->arena, struct sched_label, object->label_count + 1);

    for (size_t i = 0; i < object->label_count; i++)
        labels[i] = (struct sched_label){object->labels[i].key, object->labels[i].value};
    *ret = (struct sched_volume){
        .name = object->name,
        .class = class_of(decode),
        .driver = json_str_at(decode->tree, "spec.csi.driver"),
        .claim_ns = json_str_at(decode->tree, "spec.claimRef.namespace"),
        .claim_name = json_str_at(decode->tree, "spec.claimRef.name"),
        .claim_uid = json_str_at(decode->tree, "spec.claimRef.uid"),
        /* Nobody sets the phase of one that was just made in `muster up`. */
        .available = !phase.len || str_is(phase, "Available"),
        .deleted = object->deleted_ms != 0,
        .access = access_of(json_at(decode->tree, "spec.accessModes")),
        .block = str_is(json_str_at(decode->tree, "spec.volumeMode"), "Block"),
        .bytes = bytes_at(decode->tree, "spec.capacity.storage"),
        .labels = labels,
        .label_count = object->label_count,
        .affine = !json_is_null(required),
    };
    ret->terms =
        decode_node_terms(decode->arena, json_get(required, "nodeSelectorTerms"), &ret->term_count);
}

void decode_storage_class(struct decode *decode, struct sched_storage_class *ret)
{
    const struct json *allowed = json_get(decode->tree, "allowedTopologies");
    struct sched_node_term *terms =
        ARENA_ARRAY(decode->arena, struct sched_node_term, json_count(allowed) + 1);

    *ret = (struct sched_storage_class){
        .name = decode->object->name,
        .provisioner = json_str(json_get(decode->tree, "provisioner")),
        .waits =
            str_is(json_str(json_get(decode->tree, "volumeBindingMode")), "WaitForFirstConsumer"),
        .terms = terms,
    };
    JSON_FOREACH(allowed, item) { /* as node terms, whose operator is always In */
        const struct json *list = json_get(item, "matchLabelExpressions");
        struct sched_node_term *term = &terms[ret->term_count++];

        *term = (struct sched_node_term){0};
        term->labels = decode_expressions(decode->arena, list, &term->label_count);
    }
}

void decode_volume_limits(struct decode *decode, struct sched_volume_limits *ret)
{
    const struct json *drivers = json_at(decode->tree, "spec.drivers");
    struct sched_amount *limits =
        ARENA_ARRAY(decode->arena, struct sched_amount, json_count(drivers) + 1);

    *ret = (struct sched_volume_limits){.node = decode->object->name, .drivers = limits};
    JSON_FOREACH(drivers, driver) {
        const struct json *count = json_at(driver, "allocatable.count");

        if (!json_is_null(count))
            limits[ret->driver_count++] =
                (struct sched_amount){json_str(json_get(driver, "name")), json_i64_or(count, 0)};
    }
}

void decode_storage_room(struct decode *decode, struct sched_storage_room *ret)
{
    const struct json *nodes = json_get(decode->tree, "nodeTopology");
    bool largest = !json_is_null(json_get(decode->tree, "maximumVolumeSize"));

    *ret = (struct sched_storage_room){
        .ns = decode->object->ns,
        .name = decode->object->name,
        .class = json_str(json_get(decode->tree, "storageClassName")),
        .bytes = bytes_at(decode->tree, largest ? "maximumVolumeSize" : "capacity"),
        .total = bytes_at(decode->tree, "capacity"),
    };
    if (!json_is_null(nodes))
        ret->nodes = decode_selector(decode, nodes);
}

/* Claims that are made for the pod (`own`), or those that it names. */
static void add_pod_volumes(struct decode *decode,
                            struct sched_pod *pod,
                            struct str *names,
                            bool own)
{
    JSON_FOREACH(json_at(decode->tree, "spec.volumes"), item) {
        struct str claim = json_str_at(item, "persistentVolumeClaim.claimName");

        if (json_is_null(json_get(item, "ephemeral")) == own)
            continue;
        if (own)
            claim = str_printf(decode->arena, STR_FMT "-" STR_FMT, STR_ARG(decode->object->name),
                               STR_ARG(json_str(json_get(item, "name"))));
        bool known = !claim.len || claim.len > VOLUME_NAME_BYTES_MAX;
        for (size_t i = 0; i < pod->volume_count; i++)
            known = known || str_eq(names[i], claim);
        if (claim.len > VOLUME_NAME_BYTES_MAX)
            (void)decode_error(decode, "spec.volumes: no claim has a name of %zu bytes", claim.len);
        if (!known && pod->volume_count < VOLUMES_MAX)
            names[pod->volume_count++] = claim;
    }
}

void decode_pod_volumes(struct decode *decode, struct sched_pod *pod)
{
    struct str *names = ARENA_ARRAY(decode->arena, struct str,
                                    json_count(json_at(decode->tree, "spec.volumes")) + 1);

    pod->volumes = names;
    add_pod_volumes(decode, pod, names, true);
    pod->own_volumes = pod->volume_count;
    add_pod_volumes(decode, pod, names, false);
}
