#include "sched/fragment.h"

#include "base/mem.h"
#include "base/vec.h"
#include "sched/filter.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_ALL  65536 /* what the popularities add up to */
#define PERCENT    100
#define LOAD_UNIT  16
#define PRICE_MAX  4000             /* thousandths */
#define SEEN_FIRST 32               /* pods after which the workload first counts */
#define SEEN_MAX   (1 << 20)        /* then every count is halved: what was long ago fades */
#define SEEN_GROWS 3 / 2            /* by so much before the popularities are worked out again */
#define LEFT_MAX   (SHARES_MAX + 1) /* shared devices of a node */
#define MEMO_SLOTS 8192             /* 48 bytes each */

/* How the strategies weigh, in units of a thousandth of a GPU / (PARTS_ALL * PERCENT): the share of
 * what filling up would leave, in percent; what a thousandth of a core that stays free costs; what
 * a MiB of memory that stays free is worth. CPU and memory tell apart nodes that are nearly alike:
 * a tenth of a thousandth of a GPU for a core, six tenths for 1000 MiB. */
struct weights {
    int64_t fill;
    int64_t cpu;
    int64_t memory;
    int64_t price;
};
static const struct weights weights_fragmentation = {50, 655, 3932, 1};
static const struct weights weights_fgd = {0, 590, 0, 0};

/* One kind of pod, and how often it was seen. */
struct demand {
    struct shape *shape;
    int64_t seen;
    uint32_t cpu_milli;
    uint32_t memory_mib;
    uint32_t milli; /* of each device */
    uint32_t devices;
    int64_t popularity;
    int64_t load; /* on each GPU where it may go, in units of LOAD_UNIT */
};

/* Nodes on which the same kinds of pods may run. */
struct class
{
    uint64_t allowed[FRAGMENT_DEMANDS_MAX / 64];
    int64_t shut_out; /* popularity of those that may not */
    int64_t price;    /* in thousandths: by how much more is asked for here than elsewhere */
    VEC(struct demand) demands;
};

/* The free room of a node. */
struct picture {
    uint32_t cpu_milli;
    uint32_t memory_mib;
    uint32_t whole; /* devices that nobody uses */
    uint32_t part_count;
    uint16_t parts[LEFT_MAX]; /* thousandths left of shared devices, those without left out */
};

struct memo {
    uint64_t key;
    const struct class *class;
    uint32_t cpu_milli;
    uint32_t memory_mib;
    int64_t fragments;
};

/* The class of a node as it was then described; NULL: not known. */
struct class_known {
    const struct class *class;
    uint64_t described;
};

struct fragment {
    VEC(struct demand) counted; /* each with a reference on its shape */
    VEC(struct demand) demands; /* of these, what counts at the moment */
    int64_t load;               /* on each GPU, if everybody could go anywhere */
    int64_t seen;
    int64_t counts_at; /* seen, when the popularities are worked out next */
    uint32_t epoch;    /* of the popularities and of the classes */
    VEC(struct class *) classes;
    VEC(struct class_known) class_of; /* by node slot */
    struct memo *memo;
};

/* ---- the workload ---- */
static bool shape_counts(const struct shape *shape)
{
    return (shape->spec.gpus > 0 || shape->shared) && !shape->wants_mig && !shape->spec.invalid.len;
}

static uint32_t to_u32(int64_t value)
{
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static struct demand demand_of(struct shape *shape)
{
    const struct sched_pod *spec = &shape->spec;
    int64_t milli = !shape->shared ? GPU_MILLI
                    : spec->gpu_fraction_micro
                        ? spec->gpu_fraction_micro / (GPU_FRACTION / GPU_MILLI)
                        : GPU_MILLI;

    return (struct demand){.shape = shape,
                           .cpu_milli = to_u32(spec->cpu_milli),
                           .memory_mib = to_u32(spec->memory_bytes >> 20),
                           .milli = to_u32(i64_max(1, milli)),
                           .devices = to_u32(shape->shared ? shape->devices : spec->gpus)};
}

static void classes_free(struct fragment *fragment)
{
    for (size_t i = 0; i < fragment->classes.count; i++) {
        VEC_DONE(&fragment->classes.items[i]->demands);
        mem_free(fragment->classes.items[i]);
    }
    fragment->classes.count = 0;
    for (size_t i = 0; i < fragment->class_of.count; i++)
        fragment->class_of.items[i].class = NULL;
    memset(fragment->memo, 0, MEMO_SLOTS * sizeof(*fragment->memo));
    fragment->epoch++;
}

static int by_seen(const void *a, const void *b)
{
    const struct demand *l = a;
    const struct demand *r = b;

    if (l->seen != r->seen)
        return l->seen > r->seen ? -1 : 1;
    return l->shape->id < r->shape->id ? -1 : l->shape->id > r->shape->id;
}

/* How much of each kind falls on a GPU where it may go, if it goes everywhere alike. */
static void spread_load(struct sched *sched, struct fragment *fragment)
{
    int64_t all = 0;

    fragment->load = 0;
    for (size_t n = 0; n < sched->nodes.count; n++)
        if (sched->nodes.items[n] && sched->nodes.items[n]->schedulable)
            all += sched->nodes.items[n]->total[RES_GPU];
    for (size_t i = 0; i < fragment->demands.count; i++) {
        struct demand *demand = &fragment->demands.items[i];
        int64_t asked = demand->popularity * demand->devices * demand->milli;
        int64_t gpus = 0;

        for (size_t n = 0; n < sched->nodes.count; n++) {
            const struct node *node = sched->nodes.items[n];

            if (node && node->schedulable && node->total[RES_GPU] &&
                filter_allowed(sched, demand->shape, node))
                gpus += node->total[RES_GPU];
        }
        demand->load = gpus ? asked * LOAD_UNIT / gpus : 0;
        fragment->load += all ? asked * LOAD_UNIT / all : 0;
    }
}

/* From what was counted to what counts: the most frequent kinds. */
static void demands_weigh(struct sched *sched, struct fragment *fragment)
{
    size_t count = fragment->counted.count;

    if (count > 1)
        qsort(fragment->counted.items, count, sizeof(*fragment->counted.items), by_seen);
    fragment->demands.count = 0;
    for (size_t i = 0; i < count; i++) {
        struct demand *demand = &fragment->counted.items[i];

        demand->shape->counted_at = (uint32_t)i;
        if (fragment->seen >= SEEN_MAX)
            demand->seen = (demand->seen + 1) / 2;
        demand->popularity = demand->seen * PARTS_ALL / fragment->seen;
        if (i < FRAGMENT_DEMANDS_MAX)
            VEC_PUSH(NULL, &fragment->demands, *demand);
    }
    spread_load(sched, fragment);
    if (fragment->seen >= SEEN_MAX)
        fragment->seen /= 2;
    fragment->counts_at = i64_max(SEEN_FIRST, fragment->seen * SEEN_GROWS);
    classes_free(fragment);
}

/* A kind that is new, in place of the rarest where there are too many. */
static struct demand *count_new(struct sched *sched, struct shape *shape)
{
    struct fragment *fragment = sched->fragment;
    size_t at = fragment->counted.count;

    shape->refs++;
    shape->counted_at = (uint32_t)at;
    if (at < FRAGMENT_COUNTED_MAX) {
        VEC_PUSH(NULL, &fragment->counted, demand_of(shape));
    } else {
        assert(fragment->counted.items);
        at = 0;
        for (size_t i = 1; i < fragment->counted.count; i++)
            if (fragment->counted.items[i].seen <= fragment->counted.items[at].seen)
                at = i; /* the last of them: the first may count at the moment */
        struct shape *old = fragment->counted.items[at].shape;
        bool counts_now = false;
        for (size_t i = 0; i < fragment->demands.count; i++)
            counts_now = counts_now || fragment->demands.items[i].shape == old;
        fragment->counted.items[at] = demand_of(shape);
        shape->counted_at = (uint32_t)at;
        if (counts_now)
            demands_weigh(sched, fragment);
        shape_unref(sched, old);
    }
    return &fragment->counted.items[shape->counted_at];
}

void fragment_seen(struct sched *sched, struct shape *shape)
{
    struct fragment *fragment = sched->fragment;

    if (!fragment || !shape_counts(shape))
        return;
    struct demand *demand = shape->counted_at < fragment->counted.count
                                ? &fragment->counted.items[shape->counted_at]
                                : NULL;
    if (!demand || demand->shape != shape)
        demand = count_new(sched, shape);
    demand->seen++;
    if (++fragment->seen >= fragment->counts_at)
        demands_weigh(sched, fragment);
}

void fragment_policy(struct sched *sched)
{
    bool wanted = false;

    for (size_t i = 0; i < sched->pools.count; i++) {
        const struct sched_policy *policy = &sched->pools.items[i]->policy;
        wanted = wanted || fragment_strategy(policy->gpu_strategy) ||
                 fragment_strategy(policy->cpu_strategy);
    }
    if (!wanted || sched->fragment)
        return;
    sched->fragment = MEM_NEW(struct fragment);
    sched->fragment->counts_at = SEEN_FIRST;
    sched->fragment->memo = mem_alloc(MEMO_SLOTS * sizeof(struct memo));
    MAP_FOREACH(&sched->shapes, entry)
        fragment_seen(sched, entry->value);
}

void fragment_free(struct sched *sched)
{
    struct fragment *fragment = sched->fragment;

    if (!fragment)
        return;
    sched->fragment = NULL;
    classes_free(fragment);
    for (size_t i = 0; i < fragment->counted.count; i++)
        shape_unref(sched, fragment->counted.items[i].shape);
    VEC_DONE(&fragment->counted);
    VEC_DONE(&fragment->demands);
    VEC_DONE(&fragment->classes);
    VEC_DONE(&fragment->class_of);
    VEC_DONE(&sched->room_changes);
    mem_free(fragment->memo);
    mem_free(fragment);
}

/* ---- nodes ---- */
static int by_milli(const void *a, const void *b)
{
    const struct demand *l = a;
    const struct demand *r = b;

    if (l->milli != r->milli)
        return l->milli < r->milli ? -1 : 1;
    return l->shape->id < r->shape->id ? -1 : l->shape->id > r->shape->id;
}

static struct class *class_new(struct fragment *fragment, const uint64_t *allowed)
{
    struct class *class = MEM_NEW(struct class);

    memcpy(class->allowed, allowed, sizeof(class->allowed));
    for (size_t i = 0; i < fragment->demands.count; i++) {
        const struct demand *demand = &fragment->demands.items[i];

        bool here = (allowed[i / 64] >> (i % 64) & 1) != 0;

        class->price += here ? demand->load : 0;
        class->shut_out += here ? 0 : demand->popularity;
        if (here && demand->popularity)
            VEC_PUSH(NULL, &class->demands, *demand);
    }
    class->price = fragment->load ? class->price * 1000 / fragment->load - 1000 : 0;
    class->price = i64_min(class->price, PRICE_MAX);
    if (class->demands.count > 1)
        qsort(class->demands.items, class->demands.count, sizeof(*class->demands.items), by_milli);
    VEC_PUSH(NULL, &fragment->classes, class);
    return class;
}

static const struct class *class_of(struct sched *sched, const struct node *node)
{
    struct fragment *fragment = sched->fragment;
    uint64_t allowed[FRAGMENT_DEMANDS_MAX / 64] = {0};

    while (fragment->class_of.count <= node->slot)
        VEC_PUSH(NULL, &fragment->class_of, (struct class_known){0});
    struct class_known *known = &fragment->class_of.items[node->slot];
    if (known->class && known->described == node->described)
        return known->class;
    for (size_t i = 0; i < fragment->demands.count; i++)
        if (filter_allowed(sched, fragment->demands.items[i].shape, node))
            allowed[i / 64] |= UINT64_C(1) << (i % 64);
    const struct class *class = NULL;
    for (size_t i = 0; i < fragment->classes.count && !class; i++)
        if (!memcmp(fragment->classes.items[i]->allowed, allowed, sizeof(allowed)))
            class = fragment->classes.items[i];
    if (!class)
        class = class_new(fragment, allowed);
    *known = (struct class_known){class, node->described};
    return class;
}

/* ---- fragments ---- */
static void take_picture(const struct node *node, struct picture *ret)
{
    int64_t whole = node->idle[RES_GPU] + node->releasing[RES_GPU];

    ret->cpu_milli = to_u32(node->idle[RES_CPU] + node->releasing[RES_CPU]);
    ret->memory_mib = to_u32((node->idle[RES_MEMORY] + node->releasing[RES_MEMORY]) >> 20);
    ret->whole = to_u32(whole);
    ret->part_count = 0;
    for (uint32_t i = 0; i < node->share_count; i++) {
        const struct share *share = &node->shares[i];
        int64_t left = node->gpu_memory - share->allocated - share->pipelined;

        if (share->live && (share->allocated || share->pipelined || share->kept) && left > 0)
            ret->parts[ret->part_count++] = (uint16_t)(left * GPU_MILLI / node->gpu_memory);
    }
}

/* What the devices of a node are to pods that ask for so much of each. */
struct seen_as {
    uint32_t milli;
    uint32_t devices; /* that have as much left */
    uint32_t fits;    /* pods of one device */
    uint32_t small;   /* thousandths on the others */
};

static struct seen_as picture_seen_as(const struct picture *picture, uint32_t milli)
{
    struct seen_as as = {milli, picture->whole, picture->whole * (GPU_MILLI / milli), 0};

    for (uint32_t i = 0; i < picture->part_count; i++) {
        uint32_t part = picture->parts[i];

        if (part < milli) {
            as.small += part;
            continue;
        }
        as.devices++;
        as.fits += part / milli;
    }
    return as;
}

/* What a kind of pod could not use: as it is, and once the node is full of it. */
static int64_t demand_unusable(const struct demand *demand,
                               const struct picture *picture,
                               const struct seen_as *as,
                               uint32_t left,
                               int64_t fill)
{
    uint32_t fits = as->fits;

    if (demand->cpu_milli > picture->cpu_milli || as->devices < demand->devices)
        return (int64_t)left * PERCENT;
    if (!fill)
        return (int64_t)as->small * PERCENT;
    if (demand->devices > 1)
        fits = as->devices / demand->devices;
    if ((uint64_t)fits * demand->cpu_milli > picture->cpu_milli)
        fits = picture->cpu_milli / demand->cpu_milli;
    if ((uint64_t)fits * demand->memory_mib > picture->memory_mib)
        fits = picture->memory_mib / demand->memory_mib;
    return (int64_t)as->small * (PERCENT - fill) +
           ((int64_t)left - (int64_t)fits * demand->devices * demand->milli) * fill;
}

static int64_t work_out(const struct class *class, const struct picture *picture, int64_t fill)
{
    uint32_t left = picture->whole * GPU_MILLI;
    struct seen_as as = {0};
    int64_t sum = 0;

    for (uint32_t i = 0; i < picture->part_count; i++)
        left += picture->parts[i];
    if (!left)
        return 0;
    for (size_t i = 0; i < class->demands.count; i++) {
        const struct demand *demand = &class->demands.items[i];

        if (demand->milli != as.milli) /* they are sorted by it */
            as = picture_seen_as(picture, demand->milli);
        sum += demand->popularity * demand_unusable(demand, picture, &as, left, fill);
    }
    return sum + class->shut_out * (int64_t)left * PERCENT;
}

static uint64_t hash_mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

/* Order does not matter, so devices that are alike need not stand in one. */
static uint64_t key_of(const struct picture *picture, int64_t fill)
{
    uint64_t key = hash_mix((uint64_t)picture->whole + ((uint64_t)fill << 32) + 1);

    for (uint32_t i = 0; i < picture->part_count; i++)
        key += hash_mix(UINT64_C(0x517cc1b727220a95) * (picture->parts[i] + 1U));
    return key;
}

static int64_t picture_fragments(struct fragment *fragment,
                                 const struct class *class,
                                 const struct picture *picture,
                                 int64_t fill)
{
    uint64_t key = key_of(picture, fill);
    uint64_t hash = hash_mix(key + picture->cpu_milli * UINT64_C(0x9e3779b1) + picture->memory_mib +
                             (uint64_t)(uintptr_t) class);
    struct memo *memo = &fragment->memo[hash % MEMO_SLOTS];

    if (memo->class == class && memo->key == key && memo->cpu_milli == picture->cpu_milli &&
        memo->memory_mib == picture->memory_mib)
        return memo->fragments;
    *memo = (struct memo){key, class, picture->cpu_milli, picture->memory_mib,
                          work_out(class, picture, fill)};
    return memo->fragments;
}

/* ---- what a pod would do ---- */
static const struct weights *weights_of(const struct pod *pod, const struct node *node)
{
    const struct sched_policy *policy = &node->pool->policy;

    return (pod_needs_gpu(pod) ? policy->gpu_strategy : policy->cpu_strategy) == SCHED_FGD
               ? &weights_fgd
               : &weights_fragmentation;
}

/* The picture with the pod's CPU, memory and whole devices gone. */
static void picture_without(struct picture *picture, const struct pod *pod)
{
    const struct sched_pod *spec = &pod->shape->spec;
    uint32_t cpu = to_u32(spec->cpu_milli);
    uint32_t memory = to_u32(spec->memory_bytes >> 20);
    uint32_t whole = to_u32(pod->gpus);

    picture->cpu_milli -= cpu < picture->cpu_milli ? cpu : picture->cpu_milli;
    picture->memory_mib -= memory < picture->memory_mib ? memory : picture->memory_mib;
    picture->whole -= whole < picture->whole ? whole : picture->whole;
}

static uint32_t share_milli(const struct pod *pod, const struct node *node)
{
    return to_u32(share_memory(pod, node) * GPU_MILLI / i64_max(1, node->gpu_memory));
}

/* With the share taken from a device that has `left`; `picture` stays as it is. */
static int64_t with_share(struct fragment *fragment,
                          const struct class *class,
                          const struct picture *picture,
                          uint32_t left,
                          uint32_t milli,
                          int64_t fill)
{
    struct picture after;

    after.cpu_milli = picture->cpu_milli;
    after.memory_mib = picture->memory_mib;
    after.whole = picture->whole;
    after.part_count = 0;
    bool found = false;
    if (left == GPU_MILLI && after.whole) {
        after.whole--;
        found = true;
        if (left > milli)
            after.parts[after.part_count++] = (uint16_t)(left - milli);
    }
    for (uint32_t i = 0; i < picture->part_count; i++) {
        uint32_t part = picture->parts[i];

        if (!found && part == left) {
            found = true;
            part = left > milli ? left - milli : 0;
        }
        if (part)
            after.parts[after.part_count++] = (uint16_t)part;
    }
    return picture_fragments(fragment, class, &after, fill);
}

int64_t fragment_share_growth(struct sched *sched,
                              const struct pod *pod,
                              const struct node *node,
                              int64_t left_milli)
{
    const struct class *class = class_of(sched, node);
    struct picture picture;

    take_picture(node, &picture);
    picture_without(&picture, pod);
    return with_share(sched->fragment, class, &picture, to_u32(left_milli), share_milli(pod, node),
                      weights_of(pod, node)->fill);
}

/* The device whose use leaves least unusable; INT64_MAX: none has enough left. */
static int64_t best_share(struct fragment *fragment,
                          const struct class *class,
                          const struct picture *picture,
                          uint32_t milli,
                          int64_t fill)
{
    int64_t best = FRAGMENT_NO_ROOM;

    for (uint32_t i = 0; i <= picture->part_count; i++) {
        uint32_t left = i < picture->part_count ? picture->parts[i] : GPU_MILLI;
        bool before = i == picture->part_count ? !picture->whole : left < milli;

        for (uint32_t j = 0; j < i && !before && i < picture->part_count; j++)
            before = picture->parts[j] == left;
        if (!before)
            best = i64_min(best, with_share(fragment, class, picture, left, milli, fill));
    }
    return best;
}

/* What the pod takes is dearer where more is asked for: on GPUs of a model that many name. A GPU
 * for which there is twice the demand costs a GPU more. */
static int64_t price_of(const struct pod *pod, const struct node *node, const struct class *class)
{
    int64_t milli =
        pod->shape->shared ? share_milli(pod, node) * pod->shape->devices : pod->gpus * GPU_MILLI;

    return class->price * milli * (PARTS_ALL * PERCENT / 1000);
}

int64_t fragment_growth(struct sched *sched, const struct pod *pod, const struct node *node)
{
    const struct weights *weights = weights_of(pod, node);
    const struct class *class = class_of(sched, node);
    struct picture picture;

    take_picture(node, &picture);
    int64_t before = picture_fragments(sched->fragment, class, &picture, weights->fill);
    picture_without(&picture, pod);
    int64_t after =
        pod->shape->shared
            ? best_share(sched->fragment, class, &picture, share_milli(pod, node), weights->fill)
            : picture_fragments(sched->fragment, class, &picture, weights->fill);
    if (after == FRAGMENT_NO_ROOM)
        return FRAGMENT_NO_ROOM;
    return after - before + (int64_t)picture.cpu_milli * weights->cpu -
           (int64_t)picture.memory_mib * weights->memory +
           weights->price * price_of(pod, node, class);
}

uint32_t fragment_epoch(const struct sched *sched)
{
    return sched->fragment->epoch;
}
