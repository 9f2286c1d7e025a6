#include "estimate/runtimes.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runtimes_kind {
    struct runtimes_kind *newer, *older; /* by when they were last added to */
    struct str key;                      /* behind it */
    size_t count;                        /* ever */
    int64_t runs[RUNTIMES_RUNS];
    int64_t sorted[RUNTIMES_RUNS]; /* the same in order */
};

#define KEY_BYTES 640
enum kind {
    KIND_NAME, /* of a name and a size */
    KIND_USER, /* of a user, a queue and a size */
    KIND_SIZE, /* of a queue and a size */
    KIND_QUEUE,
    KIND_ALL,
    KIND_COUNT,
};

/* train-17 and train-a-3 are runs of train and train-a. */
static struct str name_stem(struct str name)
{
    while (name.len > 1 && ((name.p[name.len - 1] >= '0' && name.p[name.len - 1] <= '9') ||
                            name.p[name.len - 1] == '-'))
        name.len--;
    return name;
}

/* Empty: the job does not say what this kind goes by. */
static struct str key_of(char out[static KEY_BYTES],
                         enum kind kind,
                         const struct runtimes_like *like)
{
    struct str name = name_stem(like->name);
    int size = 0;
    int len = 0;

    while (size < 62 && INT64_C(1) << size < like->gpus)
        size++;
    switch (kind) {
    case KIND_NAME:
        if (name.len)
            len = snprintf(out, KEY_BYTES, "n/" STR_FMT "/%d", STR_ARG(name), size);
        break;
    case KIND_USER:
        if (like->user.len)
            len = snprintf(out, KEY_BYTES, "u/" STR_FMT "/" STR_FMT "/%d", STR_ARG(like->user),
                           STR_ARG(like->queue), size);
        break;
    case KIND_SIZE:
        len = snprintf(out, KEY_BYTES, "q/" STR_FMT "/%d", STR_ARG(like->queue), size);
        break;
    case KIND_QUEUE: len = snprintf(out, KEY_BYTES, "q/" STR_FMT "/", STR_ARG(like->queue)); break;
    case KIND_ALL:
    case KIND_COUNT: len = snprintf(out, KEY_BYTES, "all"); break;
    }
    return (struct str){out, len < 0 ? 0 : (size_t)(len < KEY_BYTES ? len : KEY_BYTES - 1)};
}

void runtimes_done(struct runtimes *runtimes)
{
    MAP_FOREACH(&runtimes->kinds, entry)
        mem_free(entry->value);
    map_done(&runtimes->kinds);
    *runtimes = (struct runtimes){0};
}

static void kind_unlink(struct runtimes *runtimes, const struct runtimes_kind *runs)
{
    *(runs->newer ? &runs->newer->older : &runtimes->newest) = runs->older;
    *(runs->older ? &runs->older->newer : &runtimes->oldest) = runs->newer;
}

static void kind_link(struct runtimes *runtimes, struct runtimes_kind *runs)
{
    runs->newer = NULL;
    runs->older = runtimes->newest;
    *(runs->older ? &runs->older->newer : &runtimes->oldest) = runs;
    runtimes->newest = runs;
}

static void forget_oldest(struct runtimes *runtimes)
{
    struct runtimes_kind *oldest = runtimes->oldest;

    kind_unlink(runtimes, oldest);
    map_remove(&runtimes->kinds, oldest->key);
    mem_free(oldest);
}

static struct runtimes_kind *runs_of(struct runtimes *runtimes, struct str key)
{
    struct runtimes_kind *runs = map_get(&runtimes->kinds, key);

    if (runs) {
        kind_unlink(runtimes, runs);
        kind_link(runtimes, runs);
        return runs;
    }
    if (runtimes->kinds.count >= RUNTIMES_KINDS)
        forget_oldest(runtimes);
    runs = mem_alloc(sizeof(*runs) + key.len + 1);
    if (key.len)
        memcpy(runs + 1, key.p, key.len);
    runs->key = (struct str){(const char *)(runs + 1), key.len};
    map_set(&runtimes->kinds, runs->key, runs);
    kind_link(runtimes, runs);
    return runs;
}

/* The oldest goes where they are full; the sorted copy stays sorted. */
static void runs_add(struct runtimes_kind *runs, int64_t run_ms)
{
    size_t kept = runs->count < RUNTIMES_RUNS ? runs->count : RUNTIMES_RUNS;
    int64_t *slot = &runs->runs[runs->count % RUNTIMES_RUNS];
    size_t at = 0;

    if (runs->count >= RUNTIMES_RUNS) {
        while (runs->sorted[at] != *slot)
            at++;
        kept--;
        memmove(&runs->sorted[at], &runs->sorted[at + 1], (kept - at) * sizeof(*runs->sorted));
    }
    for (at = kept; at && runs->sorted[at - 1] > run_ms; at--)
        runs->sorted[at] = runs->sorted[at - 1];
    runs->sorted[at] = run_ms;
    *slot = run_ms;
    runs->count++;
}

void runtimes_add(struct runtimes *runtimes, const struct runtimes_like *like, int64_t run_ms)
{
    char text[KEY_BYTES];

    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        struct str key = key_of(text, (enum kind)kind, like);

        if (key.len)
            runs_add(runs_of(runtimes, key), run_ms);
    }
}

struct runtimes_known runtimes_of(const struct runtimes *runtimes, const struct runtimes_like *like)
{
    char text[KEY_BYTES];

    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        struct str key = key_of(text, (enum kind)kind, like);
        const struct runtimes_kind *runs = key.len ? map_get(&runtimes->kinds, key) : NULL;
        size_t kept = runs && runs->count < RUNTIMES_RUNS ? runs->count : RUNTIMES_RUNS;

        if (runs && (kept >= RUNTIMES_LEAST || kind == KIND_ALL))
            return (struct runtimes_known){runs->sorted, kept};
    }
    return (struct runtimes_known){0};
}

int64_t runtimes_percentile(const struct runtimes *runtimes,
                            const struct runtimes_like *like,
                            unsigned percent)
{
    struct runtimes_known known = runtimes_of(runtimes, like);

    return known.count ? known.sorted_ms[percentile_at(known.count, percent)] : 0;
}

int64_t runtimes_draw(struct runtimes_known known, int64_t age_ms, uint32_t drawn)
{
    size_t first = 0;

    if (!known.count)
        return 0;
    while (first < known.count && known.sorted_ms[first] <= age_ms)
        first++;
    uint64_t place = (uint64_t)drawn * (known.count - first + 1);
    if (first + (place >> 32) < known.count)
        return known.sorted_ms[first + (place >> 32)];
    int64_t longest = known.sorted_ms[known.count - 1];
    longest = longest > age_ms ? longest : age_ms;
    return longest + (int64_t)(2 * (double)longest * (double)(uint32_t)place / 4294967296.0);
}
