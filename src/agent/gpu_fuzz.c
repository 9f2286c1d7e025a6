#include "agent/gpu.h"
#include "api/names.h"
#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A driver that answers with the input: its version on the first line, then a line for each card,
 * UUID and name with '|' between. It fills a buffer to its last byte if it has so much to say.
 * Whatever it says, what is kept can be a label, an item of a list, a line on a terminal. */
#define CARDS_MAX 100 /* more than are kept */

static struct {
    struct str driver;
    struct str cards[CARDS_MAX];
    unsigned count;
} said;

static int say(struct str text, char *out, unsigned size)
{
    size_t len = text.len < size ? text.len : size;

    if (len)
        memcpy(out, text.p, len);
    if (len < size)
        out[len] = '\0';
    return 0;
}

static struct str card_of(nvml_device device)
{
    return said.cards[(uintptr_t)device - 1];
}

static int say_count(unsigned *ret)
{
    *ret = said.count;
    return 0;
}

static int say_handle(unsigned index, nvml_device *ret)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a handle is whatever the driver likes */
    *ret = (nvml_device)(uintptr_t)(index + 1);
    return 0;
}

static int say_uuid(nvml_device device, char *out, unsigned size)
{
    struct str card = card_of(device);

    return say(str_sub(card, 0, str_find(card, '|')), out, size);
}

static int say_name(nvml_device device, char *out, unsigned size)
{
    struct str card = card_of(device);
    size_t end = str_find(card, '|');

    return end < card.len ? say(str_sub(card, end + 1, card.len), out, size) : -1;
}

static int say_memory(nvml_device device, struct nvml_memory *ret)
{
    /* The more there is to say of a card, the more memory it has. */
    ret->total = card_of(device).len > 90 ? UINT64_MAX : (uint64_t)card_of(device).len << 30;
    return 0;
}

static int say_minor(nvml_device device, unsigned *ret)
{
    *ret = 0;
    return card_of(device).len % 2 ? 0 : -1;
}

static int say_driver(char *out, unsigned size)
{
    return say(said.driver, out, size);
}

static void said_read(struct str input)
{
    struct str line;

    memset(&said, 0, sizeof(said));
    (void)str_cut(&input, '\n', &said.driver);
    while (said.count < CARDS_MAX && str_cut(&input, '\n', &line))
        said.cards[said.count++] = line;
}

static void check_card(const struct gpu *gpu)
{
    char shared[sizeof(gpu->product) + 16];

    FUZZ_HOLDS(memchr(gpu->uuid, '\0', sizeof(gpu->uuid)) && gpu->uuid[0]);
    for (const char *p = gpu->uuid; *p; p++)
        FUZZ_HOLDS((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') ||
                   (*p >= 'a' && *p <= 'z') || *p == '-');
    FUZZ_HOLDS(memchr(gpu->product, '\0', sizeof(gpu->product)) && gpu->product[0]);
    FUZZ_HOLDS(!names_label_value(str_from(gpu->product)));
    (void)snprintf(shared, sizeof(shared), "%s-SHARED", gpu->product);
    FUZZ_HOLDS(!names_label_value(str_from(shared)));
    FUZZ_HOLDS(gpu->memory_mib >= 0);
}

FUZZ(gpu)
{
    static const struct nvml driver = {.count = say_count,
                                       .handle = say_handle,
                                       .uuid = say_uuid,
                                       .name = say_name,
                                       .memory = say_memory,
                                       .minor = say_minor,
                                       .driver = say_driver};
    static struct gpus gpus;

    said_read(input);
    gpu_read(&driver, &gpus);
    FUZZ_HOLDS(gpus.count <= GPU_MAX && gpus.count <= said.count);
    FUZZ_HOLDS((gpus.count == 0) == (gpus.why[0] != '\0'));
    FUZZ_HOLDS(memchr(gpus.driver, '\0', sizeof(gpus.driver)));
    FUZZ_HOLDS(!names_label_value(str_from(gpus.driver)));
    FUZZ_HOLDS(gpu_driver(&gpus) >= 0);
    for (size_t i = 0; i < gpus.count; i++)
        check_card(&gpus.items[i]);
}
