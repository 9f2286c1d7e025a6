#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/event.h"
#include "sched/filter.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pack.h"
#include "sched/pod.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Claims of volumes, volumes, and what says where they can be. */

void pod_volumes_dropped(struct sched *sched, struct pod *pod)
{
    struct pod_volumes *volumes = pod->rare ? pod->rare->volumes : NULL;

    for (uint32_t i = 0; volumes && i < volumes->count; i++) {
        struct volume *volume = volumes->items[i];

        for (size_t j = 0; j < volume->users.count; j++)
            if (volume->users.items[j] == pod) {
                VEC_REMOVE_SWAP(&volume->users, j);
                break;
            }
        volume_release(sched->storage, volume);
    }
    mem_free(volumes);
    if (pod->rare)
        pod->rare->volumes = NULL;
}

void pod_take_volumes(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    size_t count = spec->volume_count;

    if (!count)
        return;
    struct pod_volumes *volumes = mem_alloc(sizeof(*volumes) + count * sizeof(struct volume *));
    volumes->count = (uint32_t)count;
    volumes->own = (uint32_t)spec->own_volumes;
    for (size_t i = 0; i < count; i++) {
        volumes->items[i] = volume_get(sched->storage, spec->ns, spec->volumes[i], true);
        VEC_PUSH(NULL, &volumes->items[i]->users, pod);
    }
    pod_rare_make(pod)->volumes = volumes;
}

/* ---- what claims mean ---- */

/* What was found out about the nodes for its pods no longer holds. */
static void shapes_forget(struct sched *sched, const struct volume *volume)
{
    for (size_t i = 0; i < volume->users.count; i++) {
        const struct shape *shape = volume->users.items[i]->shape;

        if (shape->word_count)
            memset(shape->known, 0, shape->word_count * sizeof(*shape->known));
    }
    sched->nodes_version++;
}

/* Also of one that was forgotten: its pods still name it. */
static void volume_settle(struct sched *sched, struct volume *volume)
{
    const struct disk *disk = NULL;
    enum volume_trouble trouble = VOLUME_TROUBLE_NONE;
    enum volume_kind kind = volume_meaning(sched->storage, volume, &disk, &trouble);
    bool changes = kind != volume->kind;

    volume->disk = disk;
    volume->trouble = trouble;
    volume->kind = kind;
    if (volume->pick && !volume_is_unbound(volume)) {
        volume->pick->takers--;
        volume->pick = NULL;
    }
    sched->changed = true;
    if (!volume->users.count)
        return;
    shapes_forget(sched, volume);
    for (size_t i = 0; changes && i < volume->users.count; i++)
        pod_reshaped(sched, volume->users.items[i]);
}

void volumes_settled(struct sched *sched)
{
    struct storage *storage = sched->storage;

    if (!storage->dirty)
        return;
    storage->dirty = false;
    storage->limited.count = 0;
    MAP_FOREACH(&storage->limits, entry) {
        const struct storage_limits *limits = entry->value;

        for (size_t i = 0; i < limits->spec.driver_count; i++) {
            size_t at = 0;

            while (at < storage->limited.count &&
                   !str_eq(storage->limited.items[at], limits->spec.drivers[i].name))
                at++;
            if (at == storage->limited.count)
                VEC_PUSH(NULL, &storage->limited, limits->spec.drivers[i].name);
        }
    }
    MAP_FOREACH(&storage->volumes, entry)
        volume_settle(sched, entry->value);
}

/* ---- claims and volumes ---- */

/* Its provisioner takes the node back that it was told when it cannot make the volume there. */
static void claim_was_told(struct sched *sched,
                           struct volume *volume,
                           const struct sched_volume_claim *spec)
{
    if (!volume->known || spec->bound || !str_eq(volume->spec.uid, spec->uid))
        volume_refusals_forget(volume);
    else if (volume->spec.selected_node.len && !spec->selected_node.len)
        volume_refused(volume, volume->spec.selected_node, sched->now_ms);
}

void sched_put_volume_claim(struct sched *sched, const struct sched_volume_claim *spec)
{
    struct volume *volume = volume_get(sched->storage, spec->ns, spec->name, true);

    bool other = volume->known && !str_eq(volume->spec.pod_uid, spec->pod_uid);
    claim_was_told(sched, volume, spec);
    mem_free(volume->block);
    pack_volume_claim(spec, &volume->spec, &volume->block);
    volume->known = true;
    volume_settle(sched, volume);
    for (size_t i = 0; other && i < volume->users.count; i++)
        pod_reshaped(sched, volume->users.items[i]);
}

void sched_drop_volume_claim(struct sched *sched, struct str ns, struct str name)
{
    struct volume *volume = volume_get(sched->storage, ns, name, false);

    if (!volume || !volume->known)
        return;
    volume->known = false;
    volume_settle(sched, volume);
    volume_release(sched->storage, volume);
}

static void claim_settle(struct sched *sched, struct str ns, struct str name)
{
    struct volume *volume = name.len ? volume_get(sched->storage, ns, name, false) : NULL;

    if (volume)
        volume_settle(sched, volume);
}

void sched_put_volume(struct sched *sched, const struct sched_volume *spec)
{
    struct map *disks = &sched->storage->disks;
    struct disk *disk = map_get(disks, spec->name);
    void *before = disk ? disk->block : NULL;
    struct sched_volume was = disk ? disk->spec : (struct sched_volume){0};

    if (disk)
        map_remove(disks, spec->name); /* its key is in the block */
    else
        disk = MEM_NEW(struct disk);
    pack_volume(spec, &disk->spec, &disk->block);
    disk->zoned = disk_is_zoned(&disk->spec);
    map_set(disks, disk->spec.name, disk);
    claim_settle(sched, was.claim_ns, was.claim_name);
    claim_settle(sched, spec->claim_ns, spec->claim_name);
    mem_free(before);
    sched->changed = true;
}

void sched_drop_volume(struct sched *sched, struct str name)
{
    struct disk *disk = map_remove(&sched->storage->disks, name);

    if (!disk)
        return;
    MAP_FOREACH(&sched->storage->volumes, entry) {
        struct volume *volume = entry->value;

        if (volume->pick == disk)
            volume->pick = NULL;
        if (volume->disk == disk)
            volume_settle(sched, volume);
    }
    mem_free(disk->block);
    mem_free(disk);
    sched->changed = true;
}

/* ---- classes, drivers, nodes ---- */

/* The item of that name in the map, new or as it was; its key is in the block that `pack` makes. */
#define STORAGE_PUT(type, map, key, pack, spec_of) \
    struct type *item = map_remove(map, key);      \
    void *before = item ? item->block : NULL;      \
    if (!item)                                     \
        item = MEM_NEW(struct type);               \
    pack(spec_of, &item->spec, &item->block)

#define STORAGE_DROP(sched, type, map, key)   \
    struct type *item = map_remove(map, key); \
    if (!item)                                \
        return;                               \
    mem_free(item->block);                    \
    mem_free(item);                           \
    (sched)->storage->dirty = true;           \
    (sched)->changed = true

void sched_put_storage_class(struct sched *sched, const struct sched_storage_class *spec)
{
    struct map *classes = &sched->storage->classes;

    STORAGE_PUT(storage_class, classes, spec->name, pack_storage_class, spec);
    map_set(classes, item->spec.name, item);
    mem_free(before);
    sched->storage->dirty = true;
    sched->changed = true;
}

void sched_drop_storage_class(struct sched *sched, struct str name)
{
    STORAGE_DROP(sched, storage_class, &sched->storage->classes, name);
}

void sched_put_volume_limits(struct sched *sched, const struct sched_volume_limits *spec)
{
    struct map *limits = &sched->storage->limits;

    STORAGE_PUT(storage_limits, limits, spec->node, pack_limits, spec);
    map_set(limits, item->spec.node, item);
    mem_free(before);
    sched->storage->limited.count = 0; /* its names may be in what is gone */
    sched->storage->dirty = true;
    sched->changed = true;
}

void sched_drop_volume_limits(struct sched *sched, struct str node)
{
    STORAGE_DROP(sched, storage_limits, &sched->storage->limits, node);
    sched->storage->limited.count = 0;
}

void sched_put_storage_driver(struct sched *sched, struct str name, bool says_room)
{
    struct map *drivers = &sched->storage->drivers;

    if ((map_get(drivers, name) != NULL) == says_room)
        return;
    if (says_room) {
        char *text = mem_alloc(name.len + 1);

        memcpy(text, name.p, name.len);
        map_set(drivers, (struct str){text, name.len}, text);
    } else {
        mem_free(map_remove(drivers, name));
    }
    sched->changed = true;
}

void sched_put_storage_room(struct sched *sched, const struct sched_storage_room *spec)
{
    struct map *rooms = &sched->storage->rooms;
    struct sched_storage_room named = *spec;
    char text[KEY_BYTES];

    named.name = sched_key(text, sizeof(text), spec->ns, spec->name);
    STORAGE_PUT(storage_room, rooms, named.name, pack_storage_room, &named);
    map_set(rooms, item->spec.name, item);
    mem_free(before);
    sched->changed = true;
}

void sched_drop_storage_room(struct sched *sched, struct str ns, struct str name)
{
    char text[KEY_BYTES];

    STORAGE_DROP(sched, storage_room, &sched->storage->rooms,
                 sched_key(text, sizeof(text), ns, name));
}

/* ---- what the shell asks ---- */

enum sched_volumes sched_volumes(const struct sched *sched,
                                 const struct sched_pod_ref *ref,
                                 struct str node_name,
                                 struct str *ret_claim)
{
    char text[KEY_BYTES];
    const struct pod *pod =
        map_get(&sched->pods_by_key, sched_key(text, sizeof(text), ref->ns, ref->name));
    const struct node *node = map_get(&sched->nodes_by_name, node_name);
    const struct pod_volumes *volumes = pod ? pod_volumes(pod) : NULL;
    enum sched_volumes state = SCHED_VOLUMES_READY;

    if (volumes && volumes->count && (!node || !node->known)) {
        *ret_claim = volume_name(volumes->items[0]);
        return SCHED_VOLUMES_LOST;
    }
    for (uint32_t i = 0; volumes && i < volumes->count; i++) {
        const struct volume *volume = volumes->items[i];
        struct str told = volume->spec.selected_node;

        enum volume_trouble trouble = pod_volume_trouble(pod, volume);

        if (trouble == VOLUME_TROUBLE_NONE && volume->spec.bound && volume_reaches(volume, node))
            continue;
        *ret_claim = volume_name(volume);
        bool elsewhere = told.len && !volume->pick &&
                         !str_eq(told, volume->node ? volume->node->name : node_name);
        if ((trouble != VOLUME_TROUBLE_NONE && trouble != VOLUME_TROUBLE_BINDING) ||
            volume->spec.bound || elsewhere)
            return SCHED_VOLUMES_LOST;
        if (state == SCHED_VOLUMES_READY)
            state = told.len || volume->pick ? SCHED_VOLUMES_WAIT : SCHED_VOLUMES_TOLD_NOT;
    }
    return state;
}
