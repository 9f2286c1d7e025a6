#pragma once

#include <stddef.h>

struct arena;
struct err;
struct grouping;
struct grouping_input;

/* grouping_case: rows of tests. A pod, its owners and what is around them -> its group, in words.
 *
 * All JSON has ' for ". The words are
 *
 *     NAME MINIMUM[@TOPOLOGY] SUBGROUP=MINIMUM[<PARENT][@TOPOLOGY]... -> SUBGROUP-OF-THE-POD
 *     by KIND/NAME priority NAME is PREEMPTIBILITY
 *
 * A minimum of subgroups, not of pods, has a * before it; a topology is name:required:preferred. The
 * last four parts are said where there is one, where the owner of the group is not called "o", where
 * the priority is not "train" and where there is one. A pod that is refused is "refused: WORDS", of
 * which a row says how they begin. */
struct grouping_case {
    const char *why;
    const char *owners[3]; /* the top first */
    const char *meta;      /* members of the pod's metadata, besides name, uid pu, namespace d */
    const char *spec;      /* members of the pod's spec */
    const char *around;    /* objects, with a comma between */
    const char *name;      /* of the pod; NULL: p */
    const char *want;
};

/* `as`: the settings; its pod, owners and functions are those of the row. */
int grouping_case_decide(const struct grouping_case *row,
                         const struct grouping_input *as,
                         struct arena *arena,
                         struct grouping *ret,
                         struct err *err);
/* Decide and compare with what is wanted. */
void grouping_case_check(const struct grouping_case *rows,
                         size_t count,
                         const struct grouping_input *as);
