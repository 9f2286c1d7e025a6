#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct json;
struct sched_plan;

/* shadow: what the core would do, held against what another scheduler does. Pure.
 *
 * The shell tells what it sees of pods (shadow_pod) and every plan (shadow_plan), which nobody
 * carries out: the core takes it back, so each plan is about the cluster as the other scheduler has
 * made it. A gang is compared when the other scheduler has bound as many pods as the gang needs:
 * then its side and ours are both final, and counted once. Until then the verdict says how it
 * stands. Pods of a gang are alike: what counts is how many of them are on each node. */
struct shadow;

/* The gangs that are kept, for the report: those that live, and as many of the last ones that
 * ended as there is room for; what is beyond is counted and not reported. */
#define SHADOW_GANGS_MAX 10000
#define SHADOW_PODS_MAX  1000 /* of a gang that needs no more */

/* X(NAME, word, what it means) */
#define SHADOW_VERDICTS(X)                                                                        \
    X(BOTH_WAIT, "bothWait", "neither has placed it")                                             \
    X(SAME, "same", "both placed it on the same nodes")                                           \
    X(ELSEWHERE, "elsewhere", "both placed it, on other nodes")                                   \
    X(ONLY_OURS, "onlyOurs", "Muster would have placed it, and the other scheduler lets it wait") \
    X(ONLY_THEIRS, "onlyTheirs", "the other scheduler placed it, and Muster would let it wait")   \
    X(UNASKED, "unasked",                                                                         \
      "it was placed before Muster had a decision: there is nothing to hold "                     \
      "against")

enum shadow_verdict {
#define SHADOW_VERDICT_ENUM(name, ...) SHADOW_##name,
    SHADOW_VERDICTS(SHADOW_VERDICT_ENUM)
#undef SHADOW_VERDICT_ENUM
    SHADOW_VERDICT_COUNT,
};
const char *shadow_verdict_word(enum shadow_verdict verdict);
bool shadow_verdict_differs(enum shadow_verdict verdict);

/* How many pods on a node; in the order of the names. */
struct shadow_place {
    struct str node;
    uint32_t pods;
};
struct shadow_places VEC_FIELDS(struct shadow_place);

/* One scheduler's view of one gang. */
struct shadow_side {
    bool asked;        /* it has said something: placed it, or a reason to wait */
    int64_t placed_ms; /* when it first placed the gang; 0: it waits */
    struct shadow_places places;
    struct str reason;  /* ours: why it waits, sched_reason_word() */
    struct str message; /* the same as a sentence */
    uint32_t evicts;    /* ours: pods of others that would go for it */
};

enum shadow_verdict shadow_compare(const struct shadow_side *ours,
                                   const struct shadow_side *theirs);

/* A gang as it is reported. Strings are the shadow's, good until the next call. */
struct shadow_gang {
    struct str ns;
    struct str name; /* of its pod group, or of the pod that is alone */
    struct str queue;
    int64_t seen_ms;
    int64_t compared_ms; /* 0: not yet */
    enum shadow_verdict verdict;
    struct shadow_side ours;
    struct shadow_side theirs;
};

struct shadow *shadow_new(uint64_t seed);
/* NULL is fine. */
void shadow_free(struct shadow *shadow);

/* A pod of the scheduler's, as it is now. `node` empty: it waits. `gone`: it is no more. */
struct shadow_pod {
    struct str ns;
    struct str group;
    struct str name;
    struct str node;
    bool gone;
};
/* How many pods of the group must be placed for it to run; 1 unless told. */
void shadow_need(struct shadow *shadow, struct str ns, struct str group, int64_t pods);
/* Whether the pod has been bound, and the core has not said anything about its gang yet: a cycle
 * should run before the core learns of the bind. */
bool shadow_is_early(const struct shadow *shadow, const struct shadow_pod *pod);
/* True: with this the gang was compared; *ret is it. */
bool shadow_pod(struct shadow *shadow,
                const struct shadow_pod *pod,
                int64_t now_ms,
                struct shadow_gang *ret);
void shadow_plan(struct shadow *shadow, const struct sched_plan *plan, int64_t now_ms);
/* It is no gang: its pod belongs to another. */
void shadow_forget(struct shadow *shadow, struct str ns, struct str group);

/* Gangs that were compared, by verdict, since it was made. */
uint64_t shadow_compared(const struct shadow *shadow, enum shadow_verdict verdict);
/* Gangs for which a plan evicted others. */
uint64_t shadow_evictions(const struct shadow *shadow);
/* All of it: {compared: {verdict: N}, gangs: [{namespace, name, queue, verdict, ours, theirs}]}. */
struct json *shadow_json(const struct shadow *shadow, struct arena *arena);
/* The same for people: the counts, then every gang, those that differ first. */
void shadow_write(const struct shadow *shadow, struct arena *arena, struct buf *out);
/* "node-0 x2, node-1", or "-". */
struct str shadow_places_text(struct arena *arena, const struct shadow_places *places);
