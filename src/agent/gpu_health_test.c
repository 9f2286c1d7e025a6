#include "agent/gpu_health.h"
#include "agent/gpu_link.h"
#include "base/count.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

TEST(what_a_driver_says_against_a_card_has_a_word)
{
    static const struct {
        const char *why;
        struct gpu_sign sign;
        const char *reason;
        const char *words;
    } rows[] = {
        {"nothing", {0}, NULL, ""},
        {"off the bus",
         {.xid = 79},
         "XID",
         "the driver reported XID 79 (it has fallen off the bus); reset the card; a self-test ends "
         "this"},
        {"contained: others may go on",
         {.xid = 94},
         "XIDContained",
         "the driver reported XID 94; reset the card; a self-test ends this"},
        {"the worse of two",
         {.remap_pending = true, .remap_failed = true},
         "RowRemapFailed",
         "rows of its memory could not be replaced; replace the card"},
        {"rows wait",
         {.remap_pending = true},
         "RowRemapPending",
         "rows of its memory wait to be replaced; reset the card when it is idle"},
        {"errors of memory",
         {.uncorrected = 2},
         "ECC",
         "2 errors of its memory could not be corrected; reset the card"},
        {"a link",
         {.link = {GPU_LINK_DOWN, 4, 0}},
         "NVLink",
         "NVLink 4 has gone down; reset all GPUs of the machine"},
        {"hot for a moment", {.slow_looks = GPU_HEALTH_SLOW - 1}, NULL, ""},
        {"hot for long",
         {.slow_looks = GPU_HEALTH_SLOW},
         "Throttled",
         "heat or power has held down its clocks for minutes; look at its cooling"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char words[GPU_HEALTH_TEXT];

        test_case(rows[i].why);
        const char *reason = gpu_sign_judge(&rows[i].sign, words);
        EXPECT(rows[i].reason ? reason && strcmp(reason, rows[i].reason) == 0 : !reason);
        EXPECT(strcmp(words, rows[i].words) == 0);
    }
}

/* A driver with two cards; the second one has all the trouble. */
static char cards[2];
static unsigned pending;
static unsigned long long errors, reasons;
static bool no_rows, link_down;
static unsigned long long recoveries;
static unsigned long long xids[4];
static size_t xid_count, watched;

static int fake_by_uuid(const char *uuid, void **ret)
{
    *ret = &cards[strcmp(uuid, "GPU-b") == 0];
    return 0;
}

static int fake_rows(void *device, unsigned *a, unsigned *b, unsigned *waits, unsigned *failed)
{
    *a = *b = *failed = 0;
    *waits = device == &cards[1] ? pending : 0;
    return no_rows ? 3 : 0;
}

static int fake_ecc(void *device, int type, int counter, unsigned long long *ret)
{
    *ret = device == &cards[1] && type == 1 && counter == 0 ? errors : 0;
    return 0;
}

static int fake_clocks(void *device, unsigned long long *ret)
{
    *ret = device == &cards[1] ? reasons : 0;
    return 0;
}

static int fake_link_up(void *device, unsigned link, unsigned *ret)
{
    *ret = !(device == &cards[1] && link == 1 && link_down);
    return link < 2 ? 0 : 2; /* there is no such link */
}

static int fake_link_errors(void *device, unsigned link, int counter, unsigned long long *ret)
{
    *ret = device == &cards[1] && link == 0 && counter == GPU_LINK_RECOVERIES ? recoveries : 0;
    return 0;
}

static int fake_set(void **ret)
{
    *ret = cards;
    return 0;
}

static int fake_add(void *device, unsigned long long types, void *set)
{
    watched += (device == &cards[0] || device == &cards[1]) && types == 8 && set == cards;
    return 0;
}

static int fake_wait(void *set, struct health_event *ret, unsigned ms)
{
    if (!xid_count || set != cards || ms)
        return 10; /* nothing in that time */
    *ret = (struct health_event){.device = &cards[1], .type = 8, .data = xids[--xid_count]};
    return 0;
}

static struct gpu_health fake_health(void)
{
    struct gpu_health health = {.nvml = {.by_uuid = fake_by_uuid,
                                         .remapped = fake_rows,
                                         .ecc = fake_ecc,
                                         .clocks = fake_clocks,
                                         .link_up = fake_link_up,
                                         .link_errors = fake_link_errors,
                                         .set_create = fake_set,
                                         .set_add = fake_add,
                                         .set_wait = fake_wait},
                                .uuids = {"GPU-a", "GPU-b"},
                                .count = 2};

    watched = xid_count = pending = 0;
    errors = reasons = recoveries = 0;
    no_rows = link_down = false;
    gpu_health_begin(&health);
    return health;
}

TEST(the_card_that_the_driver_complains_of_is_named)
{
    struct gpu_health health = fake_health();
    char words[GPU_HEALTH_TEXT];

    gpu_health_read(&health);
    EXPECT(watched == 2 && !gpu_signs_judge(health.signs, 2, words));
    xids[0] = 121; /* corrected */
    xids[1] = 137; /* of a program */
    xid_count = 2;
    gpu_health_read(&health);
    EXPECT(!gpu_signs_judge(health.signs, 2, words));
    xids[0] = 31; /* of a program */
    xids[1] = 74;
    xid_count = 2;
    gpu_health_read(&health);
    EXPECT(strcmp(gpu_signs_judge(health.signs, 2, words), "XID") == 0);
    EXPECT(strcmp(words,
                  "GPU 1: the driver reported XID 74; reset the card; a self-test ends this") == 0);
    EXPECT(!gpu_signs_judge(health.signs, 1, words)); /* of a node that has the first one alone */
    EXPECT(gpu_signs_judge(&health.signs[1], 1, words) && strncmp(words, "GPU 0: ", 7) == 0);
    gpu_health_read(&health); /* it is not forgotten */
    EXPECT(gpu_signs_judge(health.signs, 2, words));
}

TEST(errors_of_a_cards_memory_count_where_rows_are_not_replaced)
{
    struct gpu_health health = fake_health();
    char words[GPU_HEALTH_TEXT];

    errors = 3;
    gpu_health_read(&health);
    EXPECT(!gpu_signs_judge(health.signs, 2, words));
    no_rows = true;
    gpu_health_read(&health);
    EXPECT(strcmp(gpu_signs_judge(health.signs, 2, words), "ECC") == 0);
    health = fake_health();
    pending = 1;
    gpu_health_read(&health);
    EXPECT(strcmp(gpu_signs_judge(health.signs, 2, words), "RowRemapPending") == 0);
    pending = 0;
    reasons = 0x40;
    for (int i = 0; i < GPU_HEALTH_SLOW; i++) {
        EXPECT(!(i && gpu_signs_judge(health.signs, 2, words)));
        gpu_health_read(&health);
    }
    EXPECT(strcmp(gpu_signs_judge(health.signs, 2, words), "Throttled") == 0);
    reasons = 0x4; /* a limit of power that is wanted */
    gpu_health_read(&health);
    EXPECT(!gpu_signs_judge(health.signs, 2, words));
}

TEST(the_card_whose_link_fails_is_named)
{
    struct gpu_health health = fake_health();
    char words[GPU_HEALTH_TEXT];

    for (int i = 0; i < GPU_LINK_DOWN_LOOKS + 1; i++) {
        health.now_ms = 10000 * (i + 1);
        gpu_health_read(&health);
        EXPECT(!gpu_signs_judge(health.signs, 2, words));
        link_down = i > 0;
    }
    gpu_health_read(&health);
    EXPECT(strcmp(gpu_signs_judge(health.signs, 2, words), "NVLink") == 0);
    EXPECT(strcmp(words, "GPU 1: NVLink 1 has gone down; reset all GPUs of the machine") == 0);
    link_down = false;
    recoveries = 2;
    gpu_health_read(&health);
    EXPECT(strcmp(gpu_signs_judge(health.signs, 2, words), "NVLink") == 0);
    EXPECT(strncmp(words, "GPU 1: NVLink 0 had to recover 2 times; ", 40) == 0);
    health.nvml.link_errors = NULL; /* an old driver */
    health.nvml.link_up = NULL;
    health.now_ms += GPU_LINK_KEPT_MS + 1;
    gpu_health_read(&health);
    EXPECT(!gpu_signs_judge(health.signs, 2, words));
}

TEST(a_self_test_ends_what_was_reported_before_it_began)
{
    struct gpu_health health = {.count = 3};

    health.signs[0] = (struct gpu_sign){.xid = 79, .xid_ms = 1000};
    health.signs[1] = (struct gpu_sign){.xid = 79, .xid_ms = 3000};
    health.signs[2] = (struct gpu_sign){.xid = 79, .xid_ms = 1000, .remap_failed = true};
    health.tested_ms[0] = health.tested_ms[1] = health.tested_ms[2] = 2000;
    gpu_health_forgive(&health);
    EXPECT(health.signs[0].xid == 0);
    EXPECT(health.signs[1].xid == 79);
    EXPECT(health.signs[2].xid == 0 && health.signs[2].remap_failed);
    EXPECT(health.tested_ms[0] == 0);
}
