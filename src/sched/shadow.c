#include "sched/shadow.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "sched/sched.h"

#include <string.h>

/* A gang and a pod own their strings: each has an arena for what lives as long as it does, and the
 * gang one more for each side, which is begun anew with every decision. */
struct seen_pod {
    struct str name;
    struct str node;
    bool gone;
};

struct gang {
    struct arena arena;      /* names of the gang and of its pods */
    struct arena ours_arena; /* of the last decision */
    struct shadow_gang told; /* ours and theirs, without theirs.places */
    VEC(struct seen_pod) pods;
    int64_t need;
    size_t live;
    bool counted; /* among those for which others would go */
};

struct shadow {
    struct map gangs; /* struct gang by "namespace/name" */
    uint64_t compared[SHADOW_VERDICT_COUNT];
    uint64_t evictions;
};

static const struct {
    const char *word;
    const char *meaning;
} verdict_texts[] = {
#define SHADOW_VERDICT_TEXT(name, word, meaning) {word, meaning},
    SHADOW_VERDICTS(SHADOW_VERDICT_TEXT)
#undef SHADOW_VERDICT_TEXT
};

const char *shadow_verdict_word(enum shadow_verdict verdict)
{
    return verdict_texts[verdict].word;
}

bool shadow_verdict_differs(enum shadow_verdict verdict)
{
    return verdict == SHADOW_ELSEWHERE || verdict == SHADOW_ONLY_OURS ||
           verdict == SHADOW_ONLY_THEIRS;
}

static void places_add(struct arena *arena, struct shadow_places *places, struct str node)
{
    size_t at = 0;

    while (at < places->count && str_cmp(places->items[at].node, node) < 0)
        at++;
    if (at < places->count && str_eq(places->items[at].node, node)) {
        places->items[at].pods++;
        return;
    }
    VEC_PUSH(arena, places, (struct shadow_place){0});
    memmove(&places->items[at + 1], &places->items[at],
            (places->count - 1 - at) * sizeof(*places->items));
    places->items[at] = (struct shadow_place){str_dup(arena, node), 1};
}

static bool places_equal(const struct shadow_places *a, const struct shadow_places *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!str_eq(a->items[i].node, b->items[i].node) || a->items[i].pods != b->items[i].pods)
            return false;
    return true;
}

enum shadow_verdict shadow_compare(const struct shadow_side *ours, const struct shadow_side *theirs)
{
    if (!theirs->placed_ms)
        return ours->placed_ms ? SHADOW_ONLY_OURS : SHADOW_BOTH_WAIT;
    if (!ours->asked)
        return SHADOW_UNASKED;
    if (!ours->placed_ms)
        return SHADOW_ONLY_THEIRS;
    return places_equal(&ours->places, &theirs->places) ? SHADOW_SAME : SHADOW_ELSEWHERE;
}

struct shadow *shadow_new(uint64_t seed)
{
    struct shadow *shadow = MEM_NEW(struct shadow);

    shadow->gangs.seed = seed;
    return shadow;
}

static void gang_free(struct gang *gang)
{
    VEC_DONE(&gang->pods);
    arena_done(&gang->ours_arena);
    arena_done(&gang->arena);
    mem_free(gang);
}

void shadow_free(struct shadow *shadow)
{
    if (!shadow)
        return;
    MAP_FOREACH(&shadow->gangs, entry)
        gang_free(entry->value);
    map_done(&shadow->gangs);
    mem_free(shadow);
}

static struct str key_of(struct arena *arena, struct str ns, struct str name)
{
    return str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));
}

static struct gang *gang_find(const struct shadow *shadow, struct str ns, struct str name)
{
    struct arena arena = {0};
    struct gang *gang = map_get(&shadow->gangs, key_of(&arena, ns, name));

    arena_done(&arena);
    return gang;
}

/* Room for one more: the oldest that has ended goes; where all live, the new one is not kept. */
static bool has_room(struct shadow *shadow)
{
    if (shadow->gangs.count < SHADOW_GANGS_MAX)
        return true;
    MAP_FOREACH(&shadow->gangs, entry) {
        struct gang *gang = entry->value;

        if (gang->live)
            continue;
        map_remove(&shadow->gangs, entry->key);
        gang_free(gang);
        return true;
    }
    return false;
}

static struct gang *gang_make(struct shadow *shadow, struct str ns, struct str name, int64_t now_ms)
{
    struct gang *gang = gang_find(shadow, ns, name);

    if (gang || !has_room(shadow))
        return gang;
    gang = MEM_NEW(struct gang);
    gang->need = 1;
    gang->told.ns = str_dup(&gang->arena, ns);
    gang->told.name = str_dup(&gang->arena, name);
    gang->told.seen_ms = now_ms;
    map_set(&shadow->gangs, key_of(&gang->arena, ns, name), gang);
    return gang;
}

void shadow_need(struct shadow *shadow, struct str ns, struct str group, int64_t pods)
{
    struct gang *gang = gang_make(shadow, ns, group, 0);

    if (gang)
        gang->need = pods < 1 ? 1 : pods;
}

/* NULL: it is one too many. A group whose pods are made again under new names has ever more. */
static struct seen_pod *seen_pod_of(struct gang *gang, struct str name)
{
    for (size_t i = 0; i < gang->pods.count; i++)
        if (str_eq(gang->pods.items[i].name, name))
            return &gang->pods.items[i];
    if (gang->pods.count >= SHADOW_PODS_MAX && (int64_t)gang->pods.count >= gang->need)
        return NULL;
    VEC_PUSH(NULL, &gang->pods, (struct seen_pod){.name = str_dup(&gang->arena, name)});
    gang->live++;
    return &gang->pods.items[gang->pods.count - 1];
}

/* What the other scheduler has done with it. Pods that ended after they were bound count. */
static void tell_theirs(const struct gang *gang, struct arena *arena, struct shadow_gang *ret)
{
    *ret = gang->told;
    ret->theirs.places = (struct shadow_places){0};
    for (size_t i = 0; i < gang->pods.count; i++)
        if (gang->pods.items[i].node.len)
            places_add(arena, &ret->theirs.places, gang->pods.items[i].node);
    if (!ret->compared_ms)
        ret->verdict = shadow_compare(&ret->ours, &ret->theirs);
}

static int64_t bound_of(const struct gang *gang)
{
    int64_t bound = 0;

    for (size_t i = 0; i < gang->pods.count; i++)
        bound += gang->pods.items[i].node.len > 0;
    return bound;
}

bool shadow_is_early(const struct shadow *shadow, const struct shadow_pod *pod)
{
    const struct gang *gang = gang_find(shadow, pod->ns, pod->group);

    return gang && !gang->told.ours.asked && !gang->told.compared_ms && pod->node.len && !pod->gone;
}

bool shadow_pod(struct shadow *shadow,
                const struct shadow_pod *pod,
                int64_t now_ms,
                struct shadow_gang *ret)
{
    struct gang *gang = gang_make(shadow, pod->ns, pod->group, now_ms);

    if (!gang)
        return false;
    if (!gang->told.seen_ms)
        gang->told.seen_ms = now_ms;
    struct seen_pod *seen = seen_pod_of(gang, pod->name);
    if (!seen)
        return false;
    if (pod->node.len && !seen->node.len)
        seen->node = str_dup(&gang->arena, pod->node);
    if (pod->gone && !seen->gone)
        gang->live--;
    else if (!pod->gone && seen->gone)
        gang->live++;
    seen->gone = pod->gone;
    if (gang->told.compared_ms || bound_of(gang) < gang->need)
        return false;
    gang->told.theirs.placed_ms = now_ms;
    gang->told.theirs.asked = true;
    tell_theirs(gang, &gang->arena, ret);
    gang->told.compared_ms = ret->compared_ms = now_ms;
    gang->told.verdict = ret->verdict;
    shadow->compared[ret->verdict]++;
    return true;
}

/* A decision of this plan: what the last one said of the places is over. */
static struct gang *gang_decided(struct shadow *shadow,
                                 struct str ns,
                                 struct str name,
                                 int64_t now_ms)
{
    struct gang *gang = gang_find(shadow, ns, name);

    if (!gang || gang->told.compared_ms)
        return NULL;
    if (!gang->told.ours.placed_ms)
        gang->told.ours.placed_ms = now_ms;
    gang->told.ours.asked = true;
    gang->told.ours.reason = gang->told.ours.message = STR_NONE;
    return gang;
}

static void take_binds(struct shadow *shadow, const struct sched_plan *plan, int64_t now_ms)
{
    for (size_t i = 0; i < plan->bind_count; i++) {
        struct gang *gang = gang_find(shadow, plan->binds[i].pod.ns, plan->binds[i].group);

        if (!gang || gang->told.compared_ms)
            continue;
        gang->told.ours.places = (struct shadow_places){0};
        arena_done(&gang->ours_arena);
        gang->ours_arena = (struct arena){0};
        /* What the other scheduler has bound already is there for both. */
        for (size_t k = 0; k < gang->pods.count; k++)
            if (gang->pods.items[k].node.len)
                places_add(&gang->ours_arena, &gang->told.ours.places, gang->pods.items[k].node);
    }
    for (size_t i = 0; i < plan->bind_count; i++) {
        struct gang *gang =
            gang_decided(shadow, plan->binds[i].pod.ns, plan->binds[i].group, now_ms);

        if (gang)
            places_add(&gang->ours_arena, &gang->told.ours.places, plan->binds[i].node);
    }
}

static void take_evicts(struct shadow *shadow, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->evict_count; i++) {
        struct gang *gang = gang_find(shadow, plan->evicts[i].for_ns, plan->evicts[i].for_group);

        if (!gang || gang->told.compared_ms)
            continue;
        shadow->evictions += !gang->counted;
        gang->counted = true;
        gang->told.ours.evicts = 0;
    }
    for (size_t i = 0; i < plan->evict_count; i++) {
        struct gang *gang = gang_find(shadow, plan->evicts[i].for_ns, plan->evicts[i].for_group);

        if (gang && !gang->told.compared_ms)
            gang->told.ours.evicts++;
    }
}

static void take_waiting(struct shadow *shadow, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->waiting_count; i++) {
        const struct sched_waiting *waiting = &plan->waiting[i];
        struct gang *gang = gang_find(shadow, waiting->ns, waiting->group);

        if (!gang)
            continue;
        if (!gang->told.queue.len)
            gang->told.queue = str_dup(&gang->arena, waiting->queue);
        /* Fewer pods than it needs are no decision: the others are about to be made. */
        if (gang->told.compared_ms || gang->told.ours.placed_ms ||
            waiting->reason == SCHED_REASON_NOT_READY)
            continue;
        gang->told.ours.asked = true;
        arena_done(&gang->ours_arena);
        gang->ours_arena = (struct arena){0};
        gang->told.ours.reason = str_from(sched_reason_word(waiting->reason));
        gang->told.ours.message = str_dup(&gang->ours_arena, waiting->message);
    }
}

void shadow_plan(struct shadow *shadow, const struct sched_plan *plan, int64_t now_ms)
{
    take_waiting(shadow, plan);
    take_binds(shadow, plan, now_ms);
    take_evicts(shadow, plan);
}

void shadow_forget(struct shadow *shadow, struct str ns, struct str group)
{
    struct gang *gang = gang_find(shadow, ns, group);
    struct arena arena = {0};

    if (gang) {
        (void)map_remove(&shadow->gangs, key_of(&arena, ns, group));
        gang_free(gang);
    }
    arena_done(&arena);
}

uint64_t shadow_compared(const struct shadow *shadow, enum shadow_verdict verdict)
{
    return shadow->compared[verdict];
}

uint64_t shadow_evictions(const struct shadow *shadow)
{
    return shadow->evictions;
}

struct str shadow_places_text(struct arena *arena, const struct shadow_places *places)
{
    struct str text = STR_NONE;

    for (size_t i = 0; i < places->count; i++) {
        const struct shadow_place *place = &places->items[i];
        struct str one = place->pods > 1
                             ? str_printf(arena, STR_FMT " x%u", STR_ARG(place->node), place->pods)
                             : place->node;

        text = i ? str_printf(arena, STR_FMT ", " STR_FMT, STR_ARG(text), STR_ARG(one)) : one;
    }
    return text.len ? text : STR("-");
}

static struct json *side_json(struct arena *arena, const struct shadow_side *side)
{
    struct json *json = json_make(arena, "{reason: $?, message: $?}", side->reason, side->message);
    struct json *nodes = NULL;

    if (side->placed_ms)
        json_add_str(arena, json, "placed", time_text(arena, side->placed_ms));
    if (side->evicts)
        json_add_i64(arena, json, "evicts", side->evicts);
    if (side->places.count)
        nodes = json_add_object(arena, json, "nodes");
    for (size_t i = 0; i < side->places.count; i++)
        json_set(nodes, side->places.items[i].node,
                 json_new_i64(arena, side->places.items[i].pods));
    return json;
}

struct json *shadow_json(const struct shadow *shadow, struct arena *arena)
{
    struct json *json = json_new_object(arena);
    struct json *counts = json_add_object(arena, json, "compared");
    struct json *gangs = json_add_array(arena, json, "gangs");

    for (size_t v = 0; v < SHADOW_VERDICT_COUNT; v++)
        json_add_i64(arena, counts, verdict_texts[v].word, (int64_t)shadow->compared[v]);
    MAP_FOREACH(&shadow->gangs, entry) {
        struct shadow_gang gang;

        tell_theirs(entry->value, arena, &gang);
        struct json *one =
            json_make(arena, "{namespace: $, name: $, queue: $?, verdict: $}", gang.ns, gang.name,
                      gang.queue, verdict_texts[gang.verdict].word);
        json_set(one, STR("ours"), side_json(arena, &gang.ours));
        json_set(one, STR("theirs"), side_json(arena, &gang.theirs));
        json_push(gangs, one);
    }
    return json;
}

static void text_line(struct arena *arena, struct buf *out, const struct shadow_gang *gang)
{
    struct str when = gang->theirs.placed_ms ? time_text(arena, gang->theirs.placed_ms) : STR("-");
    struct str ours = gang->ours.placed_ms     ? shadow_places_text(arena, &gang->ours.places)
                      : gang->ours.message.len ? gang->ours.message
                                               : STR("-");

    buf_addf(out, STR_FMT "/" STR_FMT ": %s\n  ours:   " STR_FMT, STR_ARG(gang->ns),
             STR_ARG(gang->name), shadow_verdict_word(gang->verdict), STR_ARG(ours));
    if (gang->ours.placed_ms)
        buf_addf(out, ", at " STR_FMT, STR_ARG(time_text(arena, gang->ours.placed_ms)));
    if (gang->ours.evicts)
        buf_addf(out, ", for which %u pods of others would go", gang->ours.evicts);
    buf_addf(out, "\n  theirs: " STR_FMT, STR_ARG(shadow_places_text(arena, &gang->theirs.places)));
    if (gang->theirs.placed_ms)
        buf_addf(out, ", at " STR_FMT, STR_ARG(when));
    buf_addf(out, "\n");
}

void shadow_write(const struct shadow *shadow, struct arena *arena, struct buf *out)
{
    for (size_t v = 0; v < SHADOW_VERDICT_COUNT; v++)
        buf_addf(out, "%8llu %-11s %s\n", (unsigned long long)shadow->compared[v],
                 verdict_texts[v].word, verdict_texts[v].meaning);
    for (int differs = 1; differs >= 0; differs--)
        MAP_FOREACH(&shadow->gangs, entry) {
            struct shadow_gang gang;

            tell_theirs(entry->value, arena, &gang);
            if (shadow_verdict_differs(gang.verdict) == (differs != 0))
                text_line(arena, out, &gang);
        }
}
