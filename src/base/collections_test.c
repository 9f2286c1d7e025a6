#include "base/map.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Random tests use fixed seeds: they repeat, and a failure names the seed. */
#define SEEDS 20

static void name_seed(uint64_t seed)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "seed %llu", (unsigned long long)seed);
    test_case(text);
}

TEST(map_iterates_in_the_order_of_insertion_whatever_the_seed)
{
    static const char *const keys[] = {"c", "a", "b", "d"};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct map map = {.seed = seed};
        char order[8] = {0};
        size_t at = 0;

        for (size_t i = 0; i < 4; i++)
            (void)map_set(&map, str_from(keys[i]), (void *)(uintptr_t)keys[i]);
        (void)map_remove(&map, STR("a"));
        (void)map_set(&map, STR("c"), (void *)(uintptr_t)keys[0]);
        (void)map_set(&map, STR("a"), (void *)(uintptr_t)keys[1]);
        MAP_FOREACH(&map, entry)
            order[at++] = *(const char *)entry->value;
        name_seed(seed);
        EXPECT(strcmp(order, "cbda") == 0);
        map_done(&map);
    }
}

TEST(map_agrees_with_an_array_under_any_changes)
{
    static char keys[500][8];

    for (size_t i = 0; i < 500; i++)
        (void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rng rng = {seed};
        struct map map = {.seed = seed};
        void *model[500] = {0};
        size_t count = 0;

        name_seed(seed);
        for (size_t i = 0; i < 5000; i++) {
            size_t k = rng_below(&rng, 500);
            struct str key = str_from(keys[k]);
            void *value = rng_below(&rng, 3) ? &keys[rng_below(&rng, 500)] : NULL;

            void *old = value ? map_set(&map, key, value) : map_remove(&map, key);
            EXPECT(old == model[k]);
            model[k] = value;
        }
        for (size_t k = 0; k < 500; k++) {
            EXPECT(map_get(&map, str_from(keys[k])) == model[k]);
            count += model[k] != NULL;
        }
        EXPECT(map.count == count);
        map_clear(&map);
        EXPECT(map.count == 0 && !map_get(&map, STR("k1")));
        map_done(&map);
    }
}

TEST(map_never_has_slots_for_more_than_four_times_what_is_in_it)
{
    static char keys[5000][8];
    struct map map = {0};
    bool held = true;

    for (size_t i = 0; i < 5000; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
        (void)map_set(&map, str_from(keys[i]), keys[i]);
        held = held && (map.count <= 8 || map.slot_count <= 4 * map.count);
    }
    EXPECT(held);
    map_done(&map);
}

TEST(map_may_lose_entries_while_it_is_iterated)
{
    static char keys[100][8];
    struct map map = {0};
    size_t seen = 0;

    for (size_t i = 0; i < 100; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
        (void)map_set(&map, str_from(keys[i]), keys[i]);
    }
    MAP_FOREACH(&map, entry) {
        seen++;
        (void)map_remove(&map, entry->key);
    }
    EXPECT(seen == 100 && map.count == 0);
    map_done(&map);
}

TEST(rng_repeats_from_its_seed_and_stays_in_range)
{
    struct rng a = {7};
    struct rng b = {7};
    bool low = false;
    bool high = false;

    for (int i = 0; i < 1000; i++) {
        EXPECT(rng_next(&a) == rng_next(&b));
        int64_t value = rng_between(&a, -3, 3);
        EXPECT(value == rng_between(&b, -3, 3) && value >= -3 && value <= 3);
        low |= value == -3;
        high |= value == 3;
    }
    EXPECT(low && high);
    EXPECT(rng_below(&a, 0) == 0 && rng_below(&a, 1) == 0);
    EXPECT(rng_between(&a, INT64_MIN, INT64_MAX) != rng_between(&a, INT64_MIN, INT64_MAX));
}

TEST(vec_keeps_items_while_it_grows_on_heap_and_arena)
{
    struct arena arena = {0};
    VEC(size_t) heap = {0};
    VEC(size_t) stacked = {0};

    for (size_t i = 0; i < 1000; i++) {
        VEC_PUSH(NULL, &heap, i);
        VEC_PUSH(&arena, &stacked, i);
    }
    VEC_REMOVE_SWAP(&heap, 10);
    EXPECT(heap.count == 999 && heap.items[10] == 999 && heap.items[11] == 11);
    EXPECT(stacked.count == 1000 && stacked.items[999] == 999);
    VEC_DONE(&heap);
    arena_done(&arena);
}

TEST(vec_that_is_reserved_takes_its_room_once)
{
    struct arena arena = {0};
    VEC(size_t) stacked = {0};
    VEC(size_t) heap = {0};

    VEC_RESERVE(&arena, &stacked, 1000);
    VEC_RESERVE(NULL, &heap, 3);
    VEC_RESERVE(NULL, &heap, 2);
    for (size_t i = 0; i < 1000; i++) {
        VEC_PUSH(&arena, &stacked, i);
        VEC_PUSH(NULL, &heap, i);
    }
    EXPECT(arena.bytes_used == 1000 * sizeof(size_t) && stacked.items[999] == 999);
    EXPECT(heap.count == 1000 && heap.items[999] == 999);
    VEC_DONE(&heap);
    arena_done(&arena);
}
