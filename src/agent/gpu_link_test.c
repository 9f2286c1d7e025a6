#include "agent/gpu_link.h"
#include "base/count.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LOOK_MS 10000

/* A card with two links that are wired, and one that is not; the others do not exist. */
struct scene {
    struct gpu_links links;
    struct gpu_link_seen seen[GPU_LINKS_MAX];
    long long now_ms;
};

static struct scene scene_new(void)
{
    struct scene scene = {.now_ms = 1000000};

    for (int i = 0; i < 3; i++)
        scene.seen[i] = (struct gpu_link_seen){.there = true, .up = i < 2};
    return scene;
}

static enum gpu_link_fault look(struct scene *scene, unsigned *ret_link)
{
    scene->now_ms += LOOK_MS;
    struct gpu_link_sign sign = gpu_links_take(&scene->links, scene->seen, scene->now_ms);
    *ret_link = sign.link;
    return sign.fault;
}

TEST(a_link_that_has_gone_down_is_named_and_one_that_never_was_up_is_not)
{
    struct scene scene = scene_new();
    unsigned link = 0;

    EXPECT(look(&scene, &link) == GPU_LINK_FINE);
    scene.seen[1].up = false;
    for (int i = 1; i < GPU_LINK_DOWN_LOOKS; i++)
        EXPECT(look(&scene, &link) == GPU_LINK_FINE); /* it may be trained anew */
    EXPECT(look(&scene, &link) == GPU_LINK_DOWN && link == 1);
    scene.seen[1].there = false; /* no answer is no news */
    EXPECT(look(&scene, &link) == GPU_LINK_DOWN && link == 1);
    scene.seen[1] = (struct gpu_link_seen){.there = true, .up = true};
    EXPECT(look(&scene, &link) == GPU_LINK_FINE);
}

TEST(a_link_that_recovers_is_named_until_an_hour_has_passed)
{
    struct scene scene = scene_new();
    unsigned link = 0;

    scene.seen[0].counters[GPU_LINK_RECOVERIES] = 7; /* of before */
    EXPECT(look(&scene, &link) == GPU_LINK_FINE);
    scene.seen[0].counters[GPU_LINK_RECOVERIES] = GPU_LINK_UNKNOWN;
    EXPECT(look(&scene, &link) == GPU_LINK_FINE);
    scene.seen[0].counters[GPU_LINK_RECOVERIES] = 7;
    EXPECT(look(&scene, &link) == GPU_LINK_FINE);
    scene.seen[1].counters[GPU_LINK_RECOVERIES] = 1;
    EXPECT(look(&scene, &link) == GPU_LINK_RECOVERS && link == 1);
    scene.seen[0].counters[GPU_LINK_RECOVERIES] = 2; /* it was reset */
    EXPECT(look(&scene, &link) == GPU_LINK_RECOVERS && link == 1);
    scene.now_ms += GPU_LINK_KEPT_MS - 2 * LOOK_MS;
    EXPECT(look(&scene, &link) == GPU_LINK_RECOVERS);
    EXPECT(look(&scene, &link) == GPU_LINK_FINE);
    scene.seen[0].counters[GPU_LINK_RECOVERIES] = 3;
    EXPECT(look(&scene, &link) == GPU_LINK_RECOVERS && link == 0);
    scene.seen[1].up = false;
    for (int i = 0; i < GPU_LINK_DOWN_LOOKS; i++)
        (void)look(&scene, &link);
    EXPECT(look(&scene, &link) == GPU_LINK_DOWN && link == 1); /* the worse one */
}

TEST(errors_that_a_link_mends_itself_count_when_they_are_many_for_long)
{
    static const struct {
        const char *why;
        int counter;
        unsigned long long each; /* look */
        enum gpu_link_fault fault;
    } rows[] = {
        {"replays, some", GPU_LINK_REPLAYS, 900, GPU_LINK_FINE},
        {"replays, many", GPU_LINK_REPLAYS, 1000, GPU_LINK_ERRORS},
        {"checksums, some", GPU_LINK_CRCS, 999, GPU_LINK_FINE},
        {"checksums, many", GPU_LINK_CRCS, 100000, GPU_LINK_ERRORS},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct scene scene = scene_new();
        unsigned link = 0;

        test_case(rows[i].why);
        for (int n = 0; n < GPU_LINK_FAST_LOOKS; n++) {
            EXPECT(look(&scene, &link) == GPU_LINK_FINE);
            scene.seen[1].counters[rows[i].counter] += rows[i].each;
        }
        EXPECT(look(&scene, &link) == rows[i].fault);
        EXPECT(look(&scene, &link) == GPU_LINK_FINE); /* it has stopped */
    }
}

TEST(what_is_said_of_a_link_fits_and_says_what_to_do)
{
    static const struct {
        struct gpu_link_sign sign;
        const char *words;
    } rows[] = {
        {{0}, ""},
        {{GPU_LINK_DOWN, 17, 0}, "NVLink 17 has gone down; reset all GPUs of the machine"},
        {{GPU_LINK_RECOVERS, 3, 1},
         "NVLink 3 had to recover 1 time; an hour without it ends this; reset all GPUs of the "
         "machine"},
        {{GPU_LINK_RECOVERS, 3, 20},
         "NVLink 3 had to recover 20 times; an hour without it ends this; reset all GPUs of the "
         "machine"},
        {{GPU_LINK_ERRORS, 0, 0},
         "NVLink 0 has more than 100 errors a second; look at how it is connected"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char words[GPU_LINK_TEXT];

        EXPECT(gpu_link_words(&rows[i].sign, words) == (rows[i].sign.fault != GPU_LINK_FINE));
        EXPECT(strcmp(words, rows[i].words) == 0);
    }
}
