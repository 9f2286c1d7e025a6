#include "replay/runtimes.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct runtimes_kind {
    struct str key; /* behind it */
    size_t count;   /* ever */
    int64_t runs[RUNTIMES_RUNS];
    int64_t sorted[RUNTIMES_RUNS]; /* the same in order */
};

#define KEY_BYTES 320
enum kind {
    KIND_SIZE, /* of a queue and a size */
    KIND_QUEUE,
    KIND_ALL,
    KIND_COUNT,
};

static struct str key_of(char out[static KEY_BYTES], enum kind kind, struct str queue, int64_t gpus)
{
    int size = 0;
    int len = 0;

    while (size < 62 && INT64_C(1) << size < gpus)
        size++;
    if (kind == KIND_SIZE)
        len = snprintf(out, KEY_BYTES, STR_FMT "/%d", STR_ARG(queue), size);
    else if (kind == KIND_QUEUE)
        len = snprintf(out, KEY_BYTES, STR_FMT "/", STR_ARG(queue));
    return (struct str){out, len < 0 ? 0 : (size_t)(len < KEY_BYTES ? len : KEY_BYTES - 1)};
}

void runtimes_done(struct runtimes *runtimes)
{
    MAP_FOREACH(&runtimes->kinds, entry)
        mem_free(entry->value);
    map_done(&runtimes->kinds);
}

static struct runtimes_kind *runs_of(struct runtimes *runtimes, struct str key)
{
    struct runtimes_kind *runs = map_get(&runtimes->kinds, key);

    if (runs || runtimes->kinds.count >= RUNTIMES_KINDS)
        return runs;
    runs = mem_alloc(sizeof(*runs) + key.len + 1);
    if (key.len)
        memcpy(runs + 1, key.p, key.len);
    runs->key = (struct str){(const char *)(runs + 1), key.len};
    map_set(&runtimes->kinds, runs->key, runs);
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

void runtimes_add(struct runtimes *runtimes, struct str queue, int64_t gpus, int64_t run_ms)
{
    char key[KEY_BYTES];

    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        struct runtimes_kind *runs = runs_of(runtimes, key_of(key, (enum kind)kind, queue, gpus));
        if (runs)
            runs_add(runs, run_ms);
    }
}

int64_t runtimes_percentile(const struct runtimes *runtimes,
                            struct str queue,
                            int64_t gpus,
                            int percent)
{
    char key[KEY_BYTES];

    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        const struct runtimes_kind *runs =
            map_get(&runtimes->kinds, key_of(key, (enum kind)kind, queue, gpus));
        size_t kept = runs && runs->count < RUNTIMES_RUNS ? runs->count : RUNTIMES_RUNS;

        if (runs && (kept >= RUNTIMES_LEAST || kind == KIND_ALL))
            return runs->sorted[kept * (size_t)percent / 101];
    }
    return 0;
}
