#include "api/regex.h"
#include "api/regex_parts.h"
#include "api/unicode.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- matching ---- */

/* The steps that could be next, each once. */
struct set {
    uint32_t *members;
    uint32_t *where; /* index of a step in members, when that is where it is */
    size_t count;
};

struct run {
    const struct regex *regex;
    struct str text;
    uint32_t *stack;
    bool matched;
};

static bool is_word(struct str text, size_t at)
{
    if (at >= text.len)
        return false;
    char c = text.p[at];
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

static bool is_edge(struct str text, size_t at)
{
    return is_word(text, at) != (at > 0 && is_word(text, at - 1));
}

static bool holds(const struct run *run, enum step_op op, size_t at)
{
    switch (op) {
    case STEP_BEGIN: return at == 0;
    case STEP_END: return at == run->text.len;
    case STEP_WORD: return is_edge(run->text, at);
    case STEP_NOT_WORD: return !is_edge(run->text, at);
    case STEP_SET:
    case STEP_SPLIT:
    case STEP_JUMP:
    case STEP_MATCH: break;
    }
    return false;
}

/* Add `step` and all that can be reached from it without reading. */
static void add(struct run *run, struct set *set, uint32_t step, size_t at)
{
    size_t depth = 0;

    run->stack[depth++] = step;
    while (depth) {
        step = run->stack[--depth];
        if (set->where[step] < set->count && set->members[set->where[step]] == step)
            continue;
        set->where[step] = (uint32_t)set->count;
        set->members[set->count++] = step;
        const struct step *what = &run->regex->steps[step];
        switch (what->op) {
        case STEP_MATCH: run->matched = true; break;
        case STEP_SET: break;
        case STEP_JUMP: run->stack[depth++] = what->to; break;
        case STEP_SPLIT:
            run->stack[depth++] = what->other;
            run->stack[depth++] = what->to;
            break;
        case STEP_BEGIN:
        case STEP_END:
        case STEP_WORD:
        case STEP_NOT_WORD:
            if (holds(run, what->op, at))
                run->stack[depth++] = step + 1;
            break;
        }
    }
}

static bool in_class(const struct large_class *class, uint32_t code)
{
    size_t low = 0;
    size_t high = class->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (code > class->ranges[middle].high)
            low = middle + 1;
        else
            high = middle;
    }
    return (low < class->count && code >= class->ranges[low].low) != class->inverse;
}

static bool in_set(const struct step *step, uint32_t code)
{
    for (uint32_t i = 0; i < step->class_count; i++)
        if (in_class(&step->classes[i], code))
            return !step->negated;
    for (uint32_t i = 0; i < step->range_count; i++)
        if (code >= step->ranges[i].low && code <= step->ranges[i].high)
            return !step->negated;
    return step->negated;
}

/* One character further, without what begins there. */
static void take(struct run *run,
                 const struct set *now,
                 uint32_t code,
                 size_t behind,
                 struct set *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < now->count; i++) {
        const struct step *step = &run->regex->steps[now->members[i]];

        if (step->op == STEP_SET && in_set(step, code))
            add(run, ret, now->members[i] + 1, behind);
    }
}

/* ---- long texts ---- */

/* The same few sets come again and again: what a character makes of each is found once. That is so
 * as long as nothing but the character decides, thus not at the text's ends and at no edge of a word. */
#define KNOWN_MAX  64
#define LONG_BYTES 256
#define ASCII_END  0x80

struct known {
    struct set set; /* without `where` */
    uint32_t hash;
    bool matched;
    uint8_t to[ASCII_END]; /* number of what comes of it, from 1; 0: not found yet */
};

struct memory {
    struct arena *arena;
    struct known *known[KNOWN_MAX];
    size_t count;
};

static uint32_t hash_of(const struct set *set)
{
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < set->count; i++)
        hash = (hash ^ set->members[i]) * 16777619U;
    return hash;
}

/* Its number, from 1; 0: there are enough. */
static uint8_t know(struct memory *memory, const struct set *set, bool matched)
{
    uint32_t hash = hash_of(set);
    size_t bytes = set->count * sizeof(*set->members);

    for (size_t i = 0; i < memory->count; i++) {
        const struct known *known = memory->known[i];

        if (known->hash == hash && known->set.count == set->count &&
            (bytes == 0 || memcmp(known->set.members, set->members, bytes) == 0))
            return (uint8_t)(i + 1);
    }
    if (memory->count == KNOWN_MAX)
        return 0;
    struct known *known = ARENA_NEW(memory->arena, struct known);

    *known = (struct known){.hash = hash, .matched = matched};
    known->set.members = ARENA_ARRAY(memory->arena, uint32_t, set->count + 1);
    known->set.count = set->count;
    for (size_t i = 0; i < set->count; i++)
        known->set.members[i] = set->members[i];
    memory->known[memory->count++] = known;
    return (uint8_t)memory->count;
}

/* As far as what is known leads; `now` is what is there then, and where it is is returned. */
static size_t skim(struct run *run,
                   struct memory *memory,
                   struct set *now,
                   struct set *next,
                   size_t at)
{
    uint8_t number = know(memory, now, false);

    if (number == 0)
        return at;
    struct known *known = memory->known[number - 1];
    for (; at + 1 < run->text.len && !run->matched; at++) {
        uint8_t code = (uint8_t)run->text.p[at];

        if (code >= ASCII_END)
            break;
        if (known->to[code] == 0) {
            take(run, &known->set, code, at + 1, next);
            add(run, next, 0, at + 1);
            number = know(memory, next, run->matched);
            run->matched = false;
            if (number == 0)
                break;
            known->to[code] = number;
        }
        known = memory->known[known->to[code] - 1];
        run->matched = known->matched;
    }
    now->count = 0;
    for (size_t i = 0; i < known->set.count; i++) {
        now->where[known->set.members[i]] = (uint32_t)now->count;
        now->members[now->count++] = known->set.members[i];
    }
    return at;
}

static bool looks_at_edges(const struct regex *regex)
{
    for (size_t i = 0; i < regex->count; i++)
        if (regex->steps[i].op == STEP_WORD || regex->steps[i].op == STEP_NOT_WORD)
            return true;
    return false;
}

bool regex_matches(const struct regex *regex, struct str text)
{
    _cleanup_(arena_done) struct arena arena = {0};
    /* A step is pushed at most once per edge into it: twice the steps is enough. */
    struct run run = {
        .regex = regex, .text = text, .stack = ARENA_ARRAY(&arena, uint32_t, regex->count * 2 + 2)};
    struct set sets[2];

    for (size_t i = 0; i < 2; i++)
        sets[i] = (struct set){.members = ARENA_ARRAY(&arena, uint32_t, regex->count),
                               .where = ARENA_ARRAY(&arena, uint32_t, regex->count)};
    struct set *now = &sets[0];
    struct set *next = &sets[1];
    struct memory memory = {.arena = &arena};
    bool skims = text.len >= LONG_BYTES && !looks_at_edges(regex);
    size_t at = 0;
    for (;;) {
        add(&run, now, 0, at);
        if (skims && !run.matched)
            at = skim(&run, &memory, now, next, at);
        if (run.matched || at >= text.len)
            return run.matched;
        uint32_t code = regex_decode(text, &at);
        take(&run, now, code, at, next);
        struct set *swap = now;
        now = next;
        next = swap;
    }
}

/* ---- finding ---- */

/* A set whose members are in the order of preference, each with where its match began. */
struct ranked {
    struct set set;
    size_t *begins;
};

/* As add(), which keeps the order: what is reached by `to` comes before what is by `other`. */
static void add_ranked(struct run *run,
                       struct ranked *ranked,
                       uint32_t step,
                       size_t at,
                       size_t begin)
{
    size_t before = ranked->set.count;

    add(run, &ranked->set, step, at);
    for (size_t i = before; i < ranked->set.count; i++)
        ranked->begins[i] = begin;
}

/* One character further: threads move on in their order; a match ends those behind it. */
static void find_turn(struct run *run,
                      const struct ranked *now,
                      struct ranked *next,
                      size_t at,
                      struct str *found)
{
    size_t behind = at;
    uint32_t code = at < run->text.len ? regex_decode(run->text, &behind) : 0;

    next->set.count = 0;
    for (size_t i = 0; i < now->set.count; i++) {
        const struct step *step = &run->regex->steps[now->set.members[i]];

        if (step->op == STEP_MATCH) {
            *found = str_sub(run->text, now->begins[i], at - now->begins[i]);
            return;
        }
        if (step->op == STEP_SET && at < run->text.len && in_set(step, code))
            add_ranked(run, next, now->set.members[i] + 1, behind, now->begins[i]);
    }
}

bool regex_find(const struct regex *regex, struct str text, size_t from, struct str *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct run run = {
        .regex = regex, .text = text, .stack = ARENA_ARRAY(&arena, uint32_t, regex->count * 2 + 2)};
    struct ranked sets[2];
    struct str found = STR_NONE;

    assert(text.p);

    for (size_t i = 0; i < 2; i++)
        sets[i] = (struct ranked){.set = {.members = ARENA_ARRAY(&arena, uint32_t, regex->count),
                                          .where = ARENA_ARRAY(&arena, uint32_t, regex->count)},
                                  .begins = ARENA_ARRAY(&arena, size_t, regex->count)};
    struct ranked *now = &sets[0];
    struct ranked *next = &sets[1];
    for (size_t at = from;; at < text.len ? (void)regex_decode(text, &at) : (void)at++) {
        /* Who began earlier is preferred; once one has matched, nobody begins any more. */
        if (!found.p)
            add_ranked(&run, now, 0, at, at);
        if (!now->set.count)
            break;
        find_turn(&run, now, next, at, &found);
        if (at >= text.len)
            break;
        struct ranked *swap = now;
        now = next;
        next = swap;
    }
    if (found.p)
        *ret = found;
    return found.p != NULL;
}
