#include "device.h"

#include "hooks.h"
#include "region.h"
#include "settings.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define NUMBERS_MAX 64
#define UUID_BYTES  96

typedef int ctx_get_device_fn(int *device);
typedef int ctx_get_current_fn(void **context);
typedef int device_get_uuid_fn(struct region_uuid *uuid, int device);
typedef int nvml_get_uuid_fn(void *device, char *uuid, unsigned length);

enum question {
    GET_DEVICE,
    GET_CURRENT,
    GET_UUID,
    QUESTIONS
};

static void *_Atomic answers[QUESTIONS];
static _Atomic int known[NUMBERS_MAX]; /* device + 1 */

/* A function of the driver; NULL: it has none. */
static void *driver(enum question question)
{
    static const char *const names[] = {"cuCtxGetDevice", "cuCtxGetCurrent", "cuDeviceGetUuid_v2"};
    void *found = atomic_load_explicit(&answers[question], memory_order_relaxed);

    if (!found) {
        found = hook_driver(names[question]);
        if (!found && question == GET_UUID)
            found = hook_driver("cuDeviceGetUuid"); /* older, and does not tell parts (MIG) apart */
        atomic_store_explicit(&answers[question], found, memory_order_relaxed);
    }
    return found;
}

int device_by_number(int number)
{
    struct region_uuid uuid = {0};

    if (number < 0 || number >= NUMBERS_MAX)
        return -1;
    int device = atomic_load_explicit(&known[number], memory_order_relaxed) - 1;
    if (device >= 0)
        return device;
    device_get_uuid_fn *get_uuid = (device_get_uuid_fn *)driver(GET_UUID);
    if (!get_uuid || get_uuid(&uuid, number) != CUDA_SUCCESS)
        return -1;
    device = region_device(&uuid);
    atomic_store_explicit(&known[number], device + 1, memory_order_relaxed);
    return device;
}

struct place device_current(void)
{
    ctx_get_device_fn *get_device = (ctx_get_device_fn *)driver(GET_DEVICE);
    ctx_get_current_fn *get_current = (ctx_get_current_fn *)driver(GET_CURRENT);
    struct place place = {.device = -1};
    int number = -1;

    if (!get_device || get_device(&number) != CUDA_SUCCESS)
        return place;
    place.device = device_by_number(number);
    if (get_current)
        (void)get_current(&place.context);
    return place;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6" */
static bool parse_uuid(const char *text, struct region_uuid *ret)
{
    const char *at = strchr(text, '-');
    size_t digits = 0;

    for (; at && *at; at++) {
        int value = hex_digit(*at);

        if (*at == '-')
            continue;
        if (value < 0 || digits == 2 * sizeof(ret->bytes))
            return false;
        ret->bytes[digits / 2] = (uint8_t)(ret->bytes[digits / 2] << 4 | value);
        digits++;
    }
    return digits == 2 * sizeof(ret->bytes);
}

int device_by_nvml(void *handle)
{
    nvml_get_uuid_fn *get = (nvml_get_uuid_fn *)hook_nvml("nvmlDeviceGetUUID");
    struct region_uuid uuid = {0};
    char text[UUID_BYTES] = "";

    if (!get || get(handle, text, sizeof(text)) != 0)
        return -1;
    text[sizeof(text) - 1] = '\0';
    return parse_uuid(text, &uuid) ? region_device(&uuid) : -1;
}

bool device_reserve(int device, int64_t bytes)
{
    if (device < 0 || !settings_active() || region_reserve(device, bytes))
        return true;
    if (settings.debug)
        (void)dprintf(2, "libmuster-gpu: refused %lld bytes: %lld of %lld are in use\n",
                      (long long)bytes, (long long)region_used(device),
                      (long long)settings.limit_bytes);
    return false;
}

void device_give_back(int device, int64_t bytes)
{
    if (device >= 0 && settings_active())
        region_give_back(device, bytes);
}
