#include "base/bitset.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/symbol.h"
#include "base/vec.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Random tests use fixed seeds: they repeat, and a failure names the seed. */
#define SEEDS 20

struct timer {
    struct heap_link link;
    uint64_t due;
};

static bool due_before(const struct heap_link *a, const struct heap_link *b)
{
    return ((const struct timer *)a)->due < ((const struct timer *)b)->due;
}

static void name_seed(uint64_t seed)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "seed %llu", (unsigned long long)seed);
    test_case(text);
}

TEST(heap_gives_items_in_order_after_any_pushes_removals_and_moves)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rng rng = {seed};
        struct timer timers[200] = {0};
        struct heap heap = {.before = due_before};
        uint64_t last = 0;
        size_t live = 0;

        name_seed(seed);
        for (size_t i = 0; i < 2000; i++) {
            struct timer *timer = &timers[rng_below(&rng, 200)];

            if (!heap_has(&timer->link)) {
                timer->due = rng_below(&rng, 1000);
                heap_push(&heap, &timer->link);
                live++;
            } else if (rng_below(&rng, 2)) {
                timer->due = rng_below(&rng, 1000);
                heap_moved(&heap, &timer->link);
            } else {
                heap_remove(&heap, &timer->link);
                live--;
            }
        }
        EXPECT(heap.count == live);
        while (heap_top(&heap)) {
            struct timer *timer = HEAP_ITEM(heap_pop(&heap), struct timer, link);

            EXPECT(timer->due >= last && !heap_has(&timer->link));
            last = timer->due;
            live--;
        }
        EXPECT(live == 0 && !heap_pop(&heap));
        heap_done(&heap);
    }
}

TEST(heap_done_lets_items_be_used_again)
{
    struct timer timer = {0};
    struct heap heap = {.before = due_before};

    heap_push(&heap, &timer.link);
    heap_done(&heap);
    EXPECT(!heap_has(&timer.link));
    EXPECT(!HEAP_ITEM(heap_top(&heap), struct timer, link));
}

TEST(bitset_agrees_with_an_array_of_bools)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rng rng = {seed};
        bool model[2][300] = {0};
        struct bitset sets[2] = {0};

        name_seed(seed);
        for (size_t i = 0; i < 400; i++) {
            size_t which = rng_below(&rng, 2);
            size_t member = rng_below(&rng, 300);

            model[which][member] = rng_below(&rng, 3) != 0;
            if (model[which][member])
                bitset_add(&sets[which], member);
            else
                bitset_remove(&sets[which], member);
        }
        if (seed % 3 == 0)
            bitset_add_all(&sets[0], &sets[1]);
        if (seed % 3 == 1)
            bitset_keep_all(&sets[0], &sets[1]);
        if (seed % 3 == 2)
            bitset_remove_all(&sets[0], &sets[1]);
        size_t count = 0;
        size_t next = bitset_next(&sets[0], 0);
        for (size_t i = 0; i < 300; i++) {
            bool other = model[1][i];
            bool expected = seed % 3 == 0   ? model[0][i] || other
                            : seed % 3 == 1 ? model[0][i] && other
                                            : model[0][i] && !other;

            EXPECT(bitset_has(&sets[0], i) == expected);
            if (!expected)
                continue;
            EXPECT(next == i);
            next = bitset_next(&sets[0], i + 1);
            count++;
        }
        EXPECT(next == BITSET_NONE && bitset_count(&sets[0]) == count);
        bitset_done(&sets[0]);
        bitset_done(&sets[1]);
    }
}

TEST(bitset_finds_the_smallest_free_number)
{
    struct bitset set = {0};

    EXPECT(bitset_next_free(&set, 0) == 0 && bitset_next_free(&set, 1000) == 1000);
    for (size_t i = 0; i < 128; i++)
        bitset_add(&set, i);
    EXPECT(bitset_next_free(&set, 0) == 128);
    bitset_remove(&set, 63);
    EXPECT(bitset_next_free(&set, 0) == 63 && bitset_next_free(&set, 64) == 128);
    EXPECT(!bitset_has(&set, 1000000));
    bitset_done(&set);
}

TEST(bitset_equality_ignores_how_large_a_set_once_was)
{
    struct bitset a = {0};
    struct bitset b = {0};

    bitset_add(&a, 5);
    bitset_add(&b, 5);
    bitset_add(&b, 500);
    EXPECT(!bitset_equal(&a, &b));
    bitset_remove(&b, 500);
    EXPECT(bitset_equal(&a, &b));
    bitset_clear(&b);
    EXPECT(!bitset_equal(&a, &b) && bitset_count(&b) == 0);
    bitset_done(&a);
    bitset_done(&b);
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

TEST(symbol_gives_one_number_a_name_and_the_name_back)
{
    struct symbols symbols = {0};
    char text[16];

    EXPECT(symbol_find(&symbols, STR("gpu")) == SYMBOL_NONE);
    uint32_t gpu = symbol_add(&symbols, STR("gpu"));
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof(text), "label-%d", i);
        EXPECT(symbol_add(&symbols, str_from(text)) == (uint32_t)i + 2);
    }
    EXPECT(gpu == 1 && symbol_add(&symbols, STR("gpu")) == gpu);
    EXPECT(symbol_find(&symbols, STR("label-999")) == 1001);
    EXPECT(str_is(symbol_name(&symbols, 1001), "label-999")); /* the text was copied */
    EXPECT(!str_is_set(symbol_name(&symbols, 5000)) &&
           !str_is_set(symbol_name(&symbols, SYMBOL_NONE)));
    EXPECT(symbol_add(&symbols, STR("")) == 1002 && str_is(symbol_name(&symbols, 1002), ""));
    symbols_done(&symbols);
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
