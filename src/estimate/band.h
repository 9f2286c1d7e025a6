#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;

/* band: what people are told of a start: between when and when, in 80 of 100 cases.
 *
 * A forecast knows nothing of what will come, and little of how long things run: its draws lie too
 * near each other, and too early. So their 10th and 90th percentile are corrected by what came of
 * earlier estimates: each time a start was later than said, the upper end is stretched by
 * BAND_STEP, and each time it was not, drawn in by so little that one in ten starts stays outside;
 * the lower end likewise. Near and far starts are corrected apart; of those of which nothing is
 * known yet the ends are BAND_PRIOR times as far, and the first BAND_COARSE steps are larger. (This is how conformal
 * prediction follows a stream; it holds its rate whatever the errors are like.) */
#define BAND_PERCENT     80
#define BAND_STEP        1.2
#define BAND_BACK        1.0204638 /* 1.2 to the power of 1/9: nine of these undo one step */
#define BAND_COARSE_STEP 1.5
#define BAND_COARSE_BACK 1.0460846 /* the same of 1.5 */
#define BAND_COARSE      10
#define BAND_PRIOR       2.0
#define BAND_REACHES     6

struct band_memory {
    struct {
        double low; /* 0: nothing is known */
        double high;
        unsigned count; /* of outcomes */
    } reach[BAND_REACHES];
};

enum band_kind {
    BAND_NONE,
    BAND_BETWEEN,
    BAND_OPEN,    /* not before `earliest`; some run times before it are not known */
    BAND_UNKNOWN, /* no run time is known */
    BAND_STUCK,   /* does not start even when all that runs has ended */
    BAND_LARGE,   /* the cluster is too large to look ahead */
};

struct band {
    enum band_kind kind;
    int64_t earliest_ms;
    int64_t latest_ms;
    int64_t similar; /* jobs that it was made from */
    unsigned reach;
};

enum band_outcome {
    BAND_EARLY,
    BAND_INSIDE,
    BAND_LATE,
};

/* What the draws of one group say, shortest first (forecast.h). `unknown`: the run time of some
 * group is not known. */
struct band_draws {
    const int64_t *after_ms;
    size_t count;
    size_t similar;
    bool unknown;
};
void band_make(const struct band_memory *memory,
               const struct band_draws *draws,
               int64_t now_ms,
               struct band *ret);
/* The group started at start_ms, or has not by now, when start_ms is 0; false: it is too early to
 * tell. Only a band with both ends is judged. */
bool band_judge(const struct band *band, int64_t start_ms, int64_t now_ms, enum band_outcome *ret);
void band_learn(struct band_memory *memory, unsigned reach, enum band_outcome outcome);
/* Whether people would notice the difference. */
bool band_differs(const struct band *a, const struct band *b, int64_t now_ms);

/* The member `estimate` of a pod group's explanation. */
struct json *band_json(struct arena *arena, const struct band *band);
/* That member in words: "starts in about 20-45 min (80 %), from 37 similar jobs". Empty: there is
 * none. */
struct str band_words(struct arena *arena, const struct json *estimate, int64_t now_ms);
/* "20-45 min", for tables; "-": not known. */
struct str band_short(struct arena *arena, const struct json *estimate, int64_t now_ms);
