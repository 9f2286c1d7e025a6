#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;
struct object;

/* suspect: what is said against a node, written on the node itself, so that it outlives whoever said
 * it and everybody sees it.
 *
 * A job whose failure may be the node's writes an annotation of its own, SUSPECT_BLAME and its uid:
 * two jobs never write the same one, and a job that fails again replaces what it said. When enough
 * jobs blame a node (control/cluster/health.h) it gets the taint, and the annotation SUSPECT_WORDS
 * with the sentence. A self-test decides: it ends both, or the taint has the word
 * SUSPECT_TEST_FAILED from then on. */
#define SUSPECT_TAINT       "muster.dev/suspect"
#define SUSPECT_WORDS       "muster.dev/suspect"
#define SUSPECT_TESTED      "muster.dev/self-test" /* "passed TIME: words" or "failed TIME: words" */
#define SUSPECT_TEST_FAILED "SelfTestFailed"
#define SUSPECT_BLAME       "blame.muster.dev/"
/* The pod that tests a node. */
#define SUSPECT_TEST_SPACE "kube-system"
#define SUSPECT_TEST_LABEL "muster.dev/self-test"
/* By the node agent: the driver's own word (agent/gpu_health.h). */
#define SUSPECT_GPU_TAINT "muster.dev/gpu-unhealthy"

#define SUSPECT_BLAMES_MAX 32  /* on one node: the ones who come later would change nothing */
#define SUSPECT_BLAME_TEXT 200 /* bytes of each */
/* What was said longer ago no longer counts: a day has some runs of most jobs in it. */
#define SUSPECT_WINDOW_MS ((int64_t)24 * 3600 * 1000)

/* What a job says: a moment, a word, and who: "2026-11-17T10:00:00Z Hung default/bert: rank 2 ...". */
struct suspect_blame {
    struct str key; /* of the annotation */
    int64_t time_ms;
    struct str word;
    struct str words; /* behind the word */
};
/* A gang ended by a failed test before its start says so by this word. */
#define SUSPECT_PREFLIGHT "Preflight"

/* All of them, SUSPECT_BLAMES_MAX at most; those that cannot be read have time_ms 0. */
size_t suspect_blames(const struct object *node,
                      struct suspect_blame ret[static SUSPECT_BLAMES_MAX]);
struct str suspect_blame_key(struct arena *arena, struct str uid);
struct str suspect_blame_text(struct arena *arena,
                              int64_t now_ms,
                              const char *word,
                              struct str words);

/* Whether something is said against the node that keeps new pods away; cheap, of the text alone. */
bool suspect_is_named(const struct object *node);
/* Why whatever runs there should leave, which is so when it is proven: the driver says that a card is
 * not usable, or the self-test failed. The taint's value; empty: it may stay. */
struct str suspect_leave(const struct json *node);
/* Whether the driver reported an error (XID) that a self-test may answer. What else it says is read
 * again and again, and ends by itself. */
bool suspect_is_faulty(const struct json *node);
