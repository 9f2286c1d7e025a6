#include "agent/gpu.h"
#include "base/count.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A driver with one card. */
static const char *card_name;
static const char *card_uuid;

static int tell_count(unsigned *ret)
{
    *ret = 1;
    return 0;
}

static int tell_handle(unsigned index, nvml_device *ret)
{
    (void)index;
    *ret = NULL;
    return 0;
}

static int tell_name(nvml_device device, char *out, unsigned size)
{
    (void)device;
    (void)snprintf(out, size, "%s", card_name);
    return 0;
}

static int tell_uuid(nvml_device device, char *out, unsigned size)
{
    (void)device;
    (void)snprintf(out, size, "%s", card_uuid);
    return 0;
}

static int tell_memory(nvml_device device, struct nvml_memory *ret)
{
    (void)device;
    ret->total = 143771ULL << 20;
    ret->used = 40000ULL << 20;
    return 0;
}

static int tell_minor(nvml_device device, unsigned *ret)
{
    (void)device;
    *ret = 5;
    return 0;
}

static int tell_driver(char *out, unsigned size)
{
    (void)snprintf(out, size, "580.159.04");
    return 0;
}

static unsigned card_busy;

static int tell_by_uuid(const char *uuid, nvml_device *ret)
{
    *ret = NULL;
    return strcmp(uuid, "GPU-gone") == 0 ? 6 : 0;
}

static unsigned card_peak;

static int tell_samples(nvml_device device,
                        int type,
                        unsigned long long since_us,
                        int *ret_type,
                        unsigned *count,
                        struct nvml_sample *ret)
{
    (void)device;
    (void)type;
    (void)since_us;
    *ret_type = 1;
    *count = 3;
    ret[0] = (struct nvml_sample){.at_us = 1, .value.percent = 99}; /* long ago */
    ret[1] = (struct nvml_sample){.at_us = 100000000, .value.percent = card_peak};
    ret[2] = (struct nvml_sample){.at_us = 105000000, .value.percent = 0};
    return 0;
}

static int tell_rates(nvml_device device, struct nvml_rates *ret)
{
    (void)device;
    ret->gpu = card_busy;
    return card_busy > 200 ? 3 : 0; /* as a card does that is split */
}

static const struct nvml driver = {.count = tell_count,
                                   .handle = tell_handle,
                                   .uuid = tell_uuid,
                                   .name = tell_name,
                                   .memory = tell_memory,
                                   .by_uuid = tell_by_uuid,
                                   .rates = tell_rates,
                                   .minor = tell_minor,
                                   .driver = tell_driver};

TEST(a_card_is_called_as_its_driver_does_in_the_letters_of_a_label)
{
    static const struct {
        const char *why;
        const char *name;
        const char *product;
    } rows[] = {
        {"blanks", "NVIDIA H200", "NVIDIA-H200"},
        {"what a label may have stays", "A100-SXM4_80.GB", "A100-SXM4_80.GB"},
        {"what it may not have", "Card 8GB/16GB+ v2", "Card-8GB-16GB--v2"},
        {"the ends are letters or digits", " (Card) ", "Card"},
        {"nothing is left", " - ", "unnamed"},
        {"56 characters, for -SHARED behind them",
         "123456789 123456789 123456789 123456789 123456789 123456789 ",
         "123456789-123456789-123456789-123456789-123456789-123456"},
    };
    static struct gpus gpus;

    card_uuid = "GPU-5f1c2a7e";
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        card_name = rows[i].name;
        gpu_read(&driver, &gpus);
        EXPECT(gpus.count == 1 && strcmp(gpus.items[0].product, rows[i].product) == 0);
        EXPECT(strcmp(gpus.items[0].uuid, card_uuid) == 0 && gpus.items[0].minor == 5);
        EXPECT(gpus.items[0].memory_mib == 143771 && gpu_driver(&gpus) == 580);
    }
}

TEST(a_card_whose_uuid_would_be_two_in_a_list_is_passed_over)
{
    static const char *const uuids[] = {"GPU-1,GPU-2", "", "GPU 1", "GPU-1\n"};
    static struct gpus gpus;

    card_name = "NVIDIA H200";
    for (size_t i = 0; i < COUNT_OF(uuids); i++) {
        test_case(uuids[i]);
        card_uuid = uuids[i];
        gpu_read(&driver, &gpus);
        EXPECT(gpus.count == 0 && gpus.why[0]);
    }
}

TEST(work_between_two_looks_at_a_card_is_seen)
{
    static const struct gpus gpus = {.items = {{.uuid = "GPU-1"}}, .count = 1};
    struct nvml old = driver, young = driver;
    struct gpu_use uses[GPU_MAX];

    young.samples = tell_samples;
    card_busy = 0;
    card_peak = 40;
    gpu_read_use(&young, &gpus, uses);
    EXPECT(uses[0].percent == 0 && uses[0].peak == 40);
    card_peak = 0;
    gpu_read_use(&young, &gpus, uses);
    EXPECT(uses[0].peak == 0);
    old.samples = NULL;
    card_busy = 7;
    gpu_read_use(&old, &gpus, uses);
    EXPECT(uses[0].peak == 7);
}

TEST(the_use_of_cards_is_told_in_steps_and_only_where_it_is_known)
{
    static const struct gpus gpus = {.items = {{.uuid = "GPU-1"}, {.uuid = "GPU-2"}}, .count = 2};
    static const struct gpus lost = {.items = {{.uuid = "GPU-1"}, {.uuid = "GPU-gone"}},
                                     .count = 2};
    struct gpu_use uses[GPU_MAX];
    char text[GPU_USE_TEXT];

    card_busy = 88;
    gpu_read_use(&driver, &gpus, uses);
    gpu_use_text(uses, 2, text);
    EXPECT(strcmp(text, "90/39936,90/39936") == 0);
    gpu_use_text(uses + 1, 1, text);
    EXPECT(strcmp(text, "90/39936") == 0);
    gpu_read_use(&driver, &lost, uses);
    gpu_use_text(uses, 2, text);
    EXPECT(text[0] == '\0');
    card_busy = 300;
    gpu_read_use(&driver, &gpus, uses);
    EXPECT(uses[0].percent == -1);
    for (size_t i = 0; i < GPU_MAX; i++)
        uses[i] = (struct gpu_use){.percent = 100, .mib = INT64_C(1) << 40};
    gpu_use_text(uses, GPU_MAX, text);
    EXPECT(text[0] == '\0'); /* more than is told, and not a part of it */
}
