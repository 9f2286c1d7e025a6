#include "sched/volume.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/filter.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOLUME_NAMES_MAX 8 /* in one sentence: names of 253 bytes fit into an event then */
#define NO_PROVISIONER   "kubernetes.io/no-provisioner"

/* ---- objects ---- */

struct storage *storage_new(void)
{
    return MEM_NEW(struct storage);
}

void storage_free(struct storage *storage)
{
    if (!storage)
        return;
    MAP_FOREACH(&storage->volumes, entry) {
        struct volume *volume = entry->value;

        volume->known = false;
        volume->shapes = 0;
        volume_release(storage, volume);
    }
#define FREE_ALL(type, map)               \
    MAP_FOREACH(&storage->map, entry) {   \
        struct type *item = entry->value; \
        mem_free(item->block);            \
        mem_free(item);                   \
    }                                     \
    map_done(&storage->map)
    FREE_ALL(disk, disks);
    FREE_ALL(storage_class, classes);
    FREE_ALL(storage_limits, limits);
    FREE_ALL(storage_room, rooms);
#undef FREE_ALL
    MAP_FOREACH(&storage->drivers, entry)
        mem_free(entry->value);
    map_done(&storage->drivers);
    map_done(&storage->volumes);
    VEC_DONE(&storage->limited);
    VEC_DONE(&storage->making);
    mem_free(storage);
}

struct volume *volume_get(struct storage *storage, struct str ns, struct str name, bool make)
{
    char text[KEY_BYTES];
    struct str key = sched_key(text, sizeof(text), ns, name);
    struct volume *volume = map_get(&storage->volumes, key);

    if (volume || !make)
        return volume;
    volume = MEM_NEW(struct volume);
    volume->key = heap_str(key);
    volume->kind = VOLUME_BLOCKED;
    volume->trouble = VOLUME_TROUBLE_MISSING;
    map_set(&storage->volumes, volume->key, volume);
    return volume;
}

struct str volume_name(const struct volume *volume)
{
    return str_sub(volume->key, str_find(volume->key, '/') + 1, volume->key.len);
}

void volume_release(struct storage *storage, struct volume *volume)
{
    if (volume->known || volume->users.count || volume->shapes)
        return;
    map_remove(&storage->volumes, volume->key);
    volume_refusals_forget(volume);
    VEC_DONE(&volume->refusals);
    VEC_DONE(&volume->users);
    mem_free(volume->block);
    heap_str_free(volume->key);
    mem_free(volume);
}

const struct pod_volumes *pod_volumes(const struct pod *pod)
{
    static const struct pod_volumes none;

    return pod->rare && pod->rare->volumes ? pod->rare->volumes : &none;
}

/* ---- what a claim means ---- */

static bool driver_is_limited(const struct storage *storage, struct str driver)
{
    for (size_t i = 0; driver.len && i < storage->limited.count; i++)
        if (str_eq(storage->limited.items[i], driver))
            return true;
    return false;
}

bool volume_is_unbound(const struct volume *volume)
{
    return volume->kind == VOLUME_OPEN && !volume->spec.bound;
}

enum volume_kind volume_meaning(const struct storage *storage,
                                const struct volume *volume,
                                const struct disk **ret_disk,
                                enum volume_trouble *ret)
{
    const struct sched_volume_claim *spec = &volume->spec;
    const struct storage_class *class = map_get(&storage->classes, spec->class);
    const struct disk *disk = spec->bound ? map_get(&storage->disks, spec->volume) : NULL;

    *ret_disk = disk;
    *ret = !volume->known         ? VOLUME_TROUBLE_MISSING
           : spec->deleted        ? VOLUME_TROUBLE_DELETED
           : spec->bound && !disk ? VOLUME_TROUBLE_LOST
           : spec->bound          ? VOLUME_TROUBLE_NONE
           : spec->volume.len     ? VOLUME_TROUBLE_BINDING
           : !spec->class.len     ? VOLUME_TROUBLE_UNNAMED
           : !class               ? VOLUME_TROUBLE_NO_CLASS
           : !class->spec.waits   ? VOLUME_TROUBLE_UNBOUND
                                  : VOLUME_TROUBLE_NONE;
    if (*ret != VOLUME_TROUBLE_NONE)
        return VOLUME_BLOCKED;
    if (!disk || (spec->access & SCHED_ONE_POD) || driver_is_limited(storage, disk->spec.driver))
        return VOLUME_OPEN;
    return disk->spec.affine || disk->zoned ? VOLUME_FIXED : VOLUME_FREE;
}

bool volume_is_foreign(const struct volume *volume, struct str pod_uid)
{
    return volume->known && !str_eq(volume->spec.pod_uid, pod_uid);
}

enum volume_trouble pod_volume_trouble(const struct pod *pod, const struct volume *volume)
{
    const struct pod_volumes *volumes = pod_volumes(pod);

    if (volume->kind == VOLUME_BLOCKED)
        return volume->trouble;
    for (uint32_t i = 0; i < volumes->own; i++)
        if (volumes->items[i] == volume && volume_is_foreign(volume, pod_uid(pod)))
            return VOLUME_TROUBLE_FOREIGN;
    return VOLUME_TROUBLE_NONE;
}

struct str volume_waits_text(struct arena *arena,
                             const struct pod *pod,
                             const struct volume *volume)
{
#define TROUBLE_TEXT(name, words) [VOLUME_TROUBLE_##name] = (words),
    static const char *const texts[] = {VOLUME_TROUBLES(TROUBLE_TEXT)};
#undef TROUBLE_TEXT

    return str_printf(
        arena, "pod " STR_FMT " waits for the PersistentVolumeClaim " STR_FMT ", which %s",
        STR_ARG(pod_name(pod)), STR_ARG(volume->key), texts[pod_volume_trouble(pod, volume)]);
}

struct str volume_names_text(struct arena *arena, const struct pod *pod)
{
    struct str text = STR("");

    for (size_t i = 0; i < pod->shape->volume_count && i < VOLUME_NAMES_MAX; i++)
        text = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(text),
                          i ? ", " : "; it mounts PersistentVolumeClaim ",
                          STR_ARG(volume_name(pod->shape->volumes[i])));
    return text;
}

/* ---- from where a volume is used ---- */

static bool terms_mean(const struct sched_node_term *terms, size_t count, const struct node *node)
{
    for (size_t i = 0; i < count; i++)
        if (node_term_matches(node, &terms[i]))
            return true;
    return false;
}

static const struct {
    const char *key;
    const char *now; /* what it is called today */
} zone_labels[] = {
    {"topology.kubernetes.io/zone", "topology.kubernetes.io/zone"},
    {"topology.kubernetes.io/region", "topology.kubernetes.io/region"},
    {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
    {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
};
#define ZONE_LABELS (sizeof(zone_labels) / sizeof(zone_labels[0]))

/* Whether a value is one of a list like "a__b". */
static bool zone_is_among(struct str zone, struct str list)
{
    while (list.len) {
        size_t end = 0;

        while (end < list.len && !str_starts(str_sub(list, end, list.len), STR("__")))
            end++;
        if (str_eq(str_sub(list, 0, end), zone))
            return true;
        list = str_sub(list, end + 2 < list.len ? end + 2 : list.len, list.len);
    }
    return false;
}

static bool zone_reaches(const struct disk *disk, const struct node *node)
{
    bool any = false;

    for (size_t i = 0; i < ZONE_LABELS; i++)
        any = any || str_is_set(node_label(node, str_from(zone_labels[i].key)));
    for (size_t l = 0; any && l < disk->spec.label_count; l++)
        for (size_t i = 0; i < ZONE_LABELS; i++) {
            if (!str_is(disk->spec.labels[l].key, zone_labels[i].key))
                continue;
            struct str has = node_label(node, str_from(zone_labels[i].key));
            if (!str_is_set(has))
                has = node_label(node, str_from(zone_labels[i].now));
            if (!str_is_set(has) || !zone_is_among(has, disk->spec.labels[l].value))
                return false;
        }
    return true;
}

bool disk_is_zoned(const struct sched_volume *spec)
{
    for (size_t l = 0; l < spec->label_count; l++)
        for (size_t i = 0; i < ZONE_LABELS; i++)
            if (str_is(spec->labels[l].key, zone_labels[i].key))
                return true;
    return false;
}

static bool disk_reaches(const struct disk *disk, const struct node *node)
{
    return (!disk->spec.affine || terms_mean(disk->spec.terms, disk->spec.term_count, node)) &&
           (!disk->zoned || zone_reaches(disk, node));
}

bool volume_reaches(const struct volume *volume, const struct node *node)
{
    return volume->kind != VOLUME_BLOCKED && (!volume->disk || disk_reaches(volume->disk, node));
}

/* ---- volumes that wait for a consumer ---- */

static bool disk_is_for(const struct disk *disk, const struct volume *volume)
{
    return disk->spec.claim_name.len && str_eq(disk->spec.claim_ns, volume->spec.ns) &&
           str_eq(disk->spec.claim_name, volume->spec.name) &&
           (!disk->spec.claim_uid.len || str_eq(disk->spec.claim_uid, volume->spec.uid));
}

static bool labels_match(const struct sched_selector *selector, const struct sched_volume *volume)
{
    for (size_t e = 0; selector->set && e < selector->expression_count; e++) {
        struct str value = STR_NONE;

        for (size_t l = 0; l < volume->label_count; l++)
            if (str_eq(volume->labels[l].key, selector->expressions[e].key))
                value = volume->labels[l].value;
        if (!filter_holds(&selector->expressions[e], value))
            return false;
    }
    return true;
}

static bool disk_fits(const struct disk *disk, const struct volume *volume)
{
    const struct sched_volume_claim *claim = &volume->spec;
    const struct sched_volume *spec = &disk->spec;

    if (spec->bytes < claim->bytes || spec->block != claim->block || spec->deleted)
        return false;
    if (spec->claim_name.len)
        return disk_is_for(disk, volume);
    /* Where a node was told a provisioner is at it. */
    return spec->available && !claim->selected_node.len && !disk->takers &&
           str_eq(spec->class, claim->class) && (spec->access & claim->access) == claim->access &&
           labels_match(&claim->selector, spec);
}

/* As Kubernetes does: one that is kept for the claim, else the smallest. Of those that are alike the
 * first by name. */
static struct disk *disk_for(struct storage *storage,
                             const struct volume *volume,
                             const struct node *node)
{
    struct disk *best = NULL;

    MAP_FOREACH(&storage->disks, entry) {
        struct disk *disk = entry->value;

        if (disk->tried == storage->stamp || !disk_fits(disk, volume))
            continue;
        if (disk->spec.claim_name.len)
            return disk_reaches(disk, node) ? disk : NULL;
        if (disk_reaches(disk, node) && (!best || disk->spec.bytes < best->spec.bytes ||
                                         (disk->spec.bytes == best->spec.bytes &&
                                          str_cmp(disk->spec.name, best->spec.name) < 0)))
            best = disk;
    }
    return best;
}

static bool room_is_for(const struct sched_storage_room *room, const struct node *node)
{
    struct sched_node_term term = {.labels = room->nodes.expressions,
                                   .label_count = room->nodes.expression_count};

    return room->nodes.set && (!term.label_count || node_term_matches(node, &term));
}

/* Whether there is enough of it beside what is to be made for others, and for other claims of the
 * pod: the driver has not heard of those yet. */
static bool room_holds(const struct storage *storage,
                       const struct sched_storage_room *room,
                       const struct volume *volume,
                       const struct pod_volumes *beside)
{
    int64_t left = room->total - volume->spec.bytes;

    if (room->bytes < volume->spec.bytes)
        return false;
    for (size_t i = 0; room->total && left >= 0 && i < storage->making.count; i++) {
        const struct volume *other = storage->making.items[i];

        if (other != volume && volume_is_unbound(other) &&
            str_eq(other->spec.class, volume->spec.class) && room_is_for(room, other->node))
            left -= other->spec.bytes;
    }
    for (uint32_t i = 0; room->total && left >= 0 && i < beside->count; i++)
        if (beside->items[i]->made == storage->stamp &&
            str_eq(beside->items[i]->spec.class, volume->spec.class))
            left -= beside->items[i]->spec.bytes;
    return !room->total || left >= 0;
}

/* Whether drivers that say how much room they have have enough for it at the node. */
static bool has_room(const struct storage *storage,
                     const struct volume *volume,
                     const struct pod_volumes *beside,
                     const struct storage_class *class,
                     const struct node *node)
{
    if (!map_get(&storage->drivers, class->spec.provisioner))
        return true;
    MAP_FOREACH(&storage->rooms, entry) {
        const struct sched_storage_room *room = &((const struct storage_room *)entry->value)->spec;

        if (str_eq(room->class, volume->spec.class) && room_is_for(room, node) &&
            room_holds(storage, room, volume, beside))
            return true;
    }
    return false;
}

static bool can_be_made(const struct storage *storage,
                        const struct volume *volume,
                        const struct pod_volumes *beside,
                        const struct node *node)
{
    const struct storage_class *class = map_get(&storage->classes, volume->spec.class);

    return class && class->spec.provisioner.len &&
           !str_is(class->spec.provisioner, NO_PROVISIONER) &&
           (!class->spec.term_count ||
            terms_mean(class->spec.terms, class->spec.term_count, node)) &&
           has_room(storage, volume, beside, class, node);
}

/* ---- nodes for which a volume could not be made ---- */

#define REFUSALS_MAX 64 /* of one claim: more nodes than are tried while the first rests */

void volume_refused(struct volume *volume, struct str node, int64_t now_ms)
{
    int64_t until_ms =
        now_ms + rest_ms(&volume->refused, VOLUME_REFUSED_MIN_MS, VOLUME_REFUSED_MAX_MS);
    size_t at = 0;

    while (at < volume->refusals.count && !str_eq(volume->refusals.items[at].node, node))
        at++;
    if (at == volume->refusals.count && at == REFUSALS_MAX)
        at = 0;
    if (at < volume->refusals.count) {
        heap_str_free(volume->refusals.items[at].node);
        VEC_REMOVE_SWAP(&volume->refusals, at);
    }
    VEC_PUSH(NULL, &volume->refusals, (struct volume_refusal){heap_str(node), until_ms});
}

void volume_refusals_forget(struct volume *volume)
{
    for (size_t i = 0; i < volume->refusals.count; i++)
        heap_str_free(volume->refusals.items[i].node);
    volume->refusals.count = 0;
    volume->refused = 0;
}

static bool is_refused(struct sched *sched, const struct volume *volume, const struct node *node)
{
    for (size_t i = 0; i < volume->refusals.count; i++)
        if (sched->now_ms < volume->refusals.items[i].until_ms &&
            str_eq(volume->refusals.items[i].node, node->name)) {
            sched_wake(sched, volume->refusals.items[i].until_ms);
            return true;
        }
    return false;
}

/* One that others hold room with already is, or will be, where they are. */
static bool held_reaches(const struct storage *storage,
                         const struct volume *volume,
                         const struct pod_volumes *beside,
                         const struct node *node)
{
    if (volume->node == node)
        return true;
    if (!(volume->spec.access & (SCHED_READ_MANY | SCHED_WRITE_MANY)))
        return false; /* one node has it at a time */
    return volume->pick ? disk_reaches(volume->pick, node)
                        : can_be_made(storage, volume, beside, node);
}

static bool open_reaches(struct sched *sched,
                         struct volume *volume,
                         const struct pod_volumes *beside,
                         const struct node *node)
{
    struct storage *storage = sched->storage;

    if (volume->spec.bound)
        return volume_reaches(volume, node);
    if (volume->holders)
        return held_reaches(storage, volume, beside, node);
    if (volume->spec.selected_node.len && !str_eq(volume->spec.selected_node, node->name))
        return false;
    struct disk *disk = disk_for(storage, volume, node);
    if (disk) {
        disk->tried = storage->stamp; /* another claim of the pod needs another one */
        return true;
    }
    if (is_refused(sched, volume, node) || !can_be_made(storage, volume, beside, node))
        return false;
    volume->made = storage->stamp;
    return true;
}

/* The next claim that is open and that nobody has asked for since the stamp: the smallest first, so
 * that it does not take what a larger one needs. NULL: that was all. */
static struct volume *next_open(const struct storage *storage, const struct pod_volumes *volumes)
{
    struct volume *next = NULL;

    for (uint32_t i = 0; i < volumes->count; i++)
        if (volumes->items[i]->kind == VOLUME_OPEN && volumes->items[i]->asked != storage->stamp &&
            (!next || volumes->items[i]->spec.bytes < next->spec.bytes))
            next = volumes->items[i];
    if (next)
        next->asked = storage->stamp;
    return next;
}

/* ---- limits ---- */

/* FIT_RELEASING: those that have it are about to end. */
static enum fit alone_fit(const struct volume *volume, const struct pod *pod)
{
    enum fit fit = FIT_IDLE;

    for (size_t i = 0; (volume->spec.access & SCHED_ONE_POD) && i < volume->users.count; i++) {
        const struct pod *user = volume->users.items[i];

        if (user == pod || user->stand_in || !user->node || !ST_IN(user->status, ST_USED))
            continue;
        if (user->status != ST_RELEASING)
            return FIT_NO;
        fit = FIT_RELEASING;
    }
    return fit;
}

static struct str driver_of(const struct storage *storage, const struct volume *volume)
{
    const struct disk *disk = volume->disk ? volume->disk : volume->pick;
    const struct storage_class *class = map_get(&storage->classes, volume->spec.class);

    return disk ? disk->spec.driver : class ? class->spec.provisioner : STR_NONE;
}

/* Volumes of the driver that pods on the node have, each once; without those that are `ending`. */
static int64_t attached(struct storage *storage,
                        const struct node *node,
                        struct str driver,
                        bool ending)
{
    int64_t count = 0;

    storage->stamp++;
    for (size_t i = 0; i < node->pods.count; i++) {
        const struct pod_volumes *volumes = pod_volumes(node->pods.items[i]);

        if (node->pods.items[i]->stand_in ||
            (!ending && node->pods.items[i]->status == ST_RELEASING))
            continue;
        for (uint32_t v = 0; v < volumes->count; v++)
            if (volumes->items[v]->seen != storage->stamp &&
                str_eq(driver_of(storage, volumes->items[v]), driver)) {
                volumes->items[v]->seen = storage->stamp;
                count++;
            }
    }
    return count;
}

/* How many more of them the pod brings, beside those that were counted last. */
static int64_t attached_more(struct storage *storage, const struct pod *pod, struct str driver)
{
    const struct pod_volumes *volumes = pod_volumes(pod);
    int64_t count = 0;

    for (uint32_t v = 0; v < volumes->count; v++)
        if (volumes->items[v]->seen != storage->stamp &&
            str_eq(driver_of(storage, volumes->items[v]), driver)) {
            volumes->items[v]->seen = storage->stamp;
            count++;
        }
    return count;
}

static enum fit limits_fit(struct storage *storage, const struct pod *pod, const struct node *node)
{
    const struct storage_limits *limits = map_get(&storage->limits, node->name);
    enum fit fit = FIT_IDLE;

    for (size_t i = 0; limits && i < limits->spec.driver_count; i++) {
        const struct sched_amount *limit = &limits->spec.drivers[i];
        int64_t most = attached(storage, node, limit->name, false);
        int64_t more = attached_more(storage, pod, limit->name);

        if (!more)
            continue;
        if (most + more > limit->amount)
            return FIT_NO;
        most = attached(storage, node, limit->name, true);
        if (most + attached_more(storage, pod, limit->name) > limit->amount)
            fit = FIT_RELEASING;
    }
    return fit;
}

enum fit volumes_fit(struct sched *sched, const struct pod *pod, const struct node *node)
{
    struct storage *storage = sched->storage;
    const struct pod_volumes *volumes = pod_volumes(pod);
    enum fit fit = FIT_IDLE;

    storage->stamp++;
    for (struct volume *volume; (volume = next_open(storage, volumes));) {
        enum fit alone = alone_fit(volume, pod);
        if (alone == FIT_NO || !open_reaches(sched, volume, volumes, node))
            return FIT_NO;
        fit = alone < fit ? alone : fit;
    }
    enum fit limits = limits_fit(storage, pod, node);
    return limits < fit ? limits : fit;
}

/* ---- who has them ---- */

static void volume_held(struct storage *storage, struct volume *volume, const struct node *node)
{
    volume->pick = volume_is_unbound(volume) ? disk_for(storage, volume, node) : NULL;
    if (volume->pick)
        volume->pick->takers++;
    else if (volume_is_unbound(volume))
        VEC_PUSH(NULL, &storage->making, volume);
}

static void volume_let_go(struct storage *storage, struct volume *volume)
{
    if (volume->pick)
        volume->pick->takers--;
    volume->pick = NULL;
    volume->node = NULL;
    for (size_t i = 0; i < storage->making.count; i++)
        if (storage->making.items[i] == volume) {
            VEC_REMOVE_SWAP(&storage->making, i);
            break;
        }
}

void volumes_weigh(struct sched *sched, const struct pod *pod, struct node *node, int sign)
{
    struct storage *storage = sched->storage;
    const struct pod_volumes *volumes = pod_volumes(pod);

    for (uint32_t i = 0; i < volumes->count; i++) {
        struct volume *volume = volumes->items[i];

        volume->holders += (uint32_t)sign;
        if (!volume->holders)
            volume_let_go(storage, volume);
        else if (sign > 0 && volume->holders == 1)
            volume->node = node;
    }
    storage->stamp++; /* who took a disk before is a taker by now */
    for (struct volume *volume; sign > 0 && (volume = next_open(storage, volumes));)
        if (volume->holders == 1)
            volume_held(storage, volume, node);
}
