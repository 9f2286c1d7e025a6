#include "agent/gpu.h"

#include "base/count.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A function of the library, in a shape C can assign. */
#define LOAD(nvml, member, symbol)                            \
    do {                                                      \
        void *address_ = dlsym((nvml)->library, symbol);      \
        memcpy(&(nvml)->member, &address_, sizeof(address_)); \
        complete = complete && address_;                      \
    } while (0)

static bool nvml_open(struct nvml *nvml, struct gpus *gpus)
{
    static const char *const names[] = {"libnvidia-ml.so.1",
                                        "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
                                        "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
    *nvml = (struct nvml){0};
    for (size_t i = 0; i < COUNT_OF(names) && !nvml->library; i++)
        nvml->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        (void)snprintf(gpus->why, sizeof(gpus->why),
                       "libnvidia-ml.so.1 not found: install NVIDIA's driver, or simulate GPUs "
                       "with --gpus-per-node");
        return false;
    }
    bool complete = true;
    LOAD(nvml, init, "nvmlInit_v2");
    LOAD(nvml, shutdown, "nvmlShutdown");
    LOAD(nvml, count, "nvmlDeviceGetCount_v2");
    LOAD(nvml, handle, "nvmlDeviceGetHandleByIndex_v2");
    LOAD(nvml, by_uuid, "nvmlDeviceGetHandleByUUID");
    LOAD(nvml, name, "nvmlDeviceGetName");
    LOAD(nvml, uuid, "nvmlDeviceGetUUID");
    LOAD(nvml, memory, "nvmlDeviceGetMemoryInfo");
    LOAD(nvml, rates, "nvmlDeviceGetUtilizationRates");
    LOAD(nvml, minor, "nvmlDeviceGetMinorNumber");
    LOAD(nvml, driver, "nvmlSystemGetDriverVersion");
    bool all = complete;
    LOAD(nvml, samples, "nvmlDeviceGetSamples");
    complete = all; /* without it, what was between two looks is not known */
    int r = complete ? nvml->init() : -1;
    if (r == 0)
        return true;
    (void)snprintf(gpus->why, sizeof(gpus->why), "NVML does not start (error %d): see nvidia-smi",
                   r);
    (void)dlclose(nvml->library);
    return false;
}

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* What a driver calls something, as a label's value: at most `max` characters, '-' for what a label
 * cannot have, a letter or a digit at both ends. A node with another label would be refused. */
static void text_to_label(char *text, size_t size, size_t max)
{
    size_t len = strnlen(text, size);
    size_t from = 0;
    while (from < len && !is_plain(text[from]))
        from++;
    len = len - from < max ? len - from : max;
    memmove(text, text + from, len);
    while (len && !is_plain(text[len - 1]))
        len--;
    for (size_t i = 0; i < len; i++)
        text[i] = is_plain(text[i]) || strchr("-_.", text[i]) ? text[i] : '-';
    text[len] = '\0';
}

static bool uuid_is_fine(const char *uuid, size_t size)
{
    size_t len = strnlen(uuid, size);
    for (size_t i = 0; i < len; i++)
        if (!is_plain(uuid[i]) && uuid[i] != '-')
            return false;
    return len && len < size;
}

/* False: nobody could ask for this card. */
static bool card_read(const struct nvml *nvml, unsigned index, struct gpu *gpu)
{
    struct nvml_memory memory = {0};
    nvml_device device;
    *gpu = (struct gpu){0};
    if (nvml->handle(index, &device) != 0 ||
        nvml->uuid(device, gpu->uuid, sizeof(gpu->uuid)) != 0 ||
        !uuid_is_fine(gpu->uuid, sizeof(gpu->uuid)) ||
        nvml->name(device, gpu->product, sizeof(gpu->product)) != 0 ||
        nvml->memory(device, &memory) != 0)
        return false;
    text_to_label(gpu->product, sizeof(gpu->product), GPU_PRODUCT_MAX);
    if (!gpu->product[0])
        (void)snprintf(gpu->product, sizeof(gpu->product), "unnamed");
    if (nvml->minor(device, &gpu->minor) != 0)
        gpu->minor = index;
    gpu->memory_mib = (int64_t)(memory.total >> 20);
    return true;
}

void gpu_read(const struct nvml *nvml, struct gpus *gpus)
{
    unsigned count = 0;
    *gpus = (struct gpus){0};
    if (nvml->driver(gpus->driver, sizeof(gpus->driver)) == 0)
        text_to_label(gpus->driver, sizeof(gpus->driver), GPU_PRODUCT_MAX);
    else
        gpus->driver[0] = '\0';
    if (nvml->count(&count) != 0)
        count = 0;
    for (unsigned i = 0; i < count && gpus->count < GPU_MAX; i++)
        if (card_read(nvml, i, &gpus->items[gpus->count]))
            gpus->count++;
    if (!gpus->count)
        (void)snprintf(gpus->why, sizeof(gpus->why), "the driver shows no GPU");
}

void gpu_look(struct gpus *gpus)
{
    struct nvml nvml;
    *gpus = (struct gpus){0};
    if (!nvml_open(&nvml, gpus))
        return;
    gpu_read(&nvml, gpus);
    (void)nvml.shutdown();
    (void)dlclose(nvml.library);
}

int64_t gpu_driver(const struct gpus *gpus)
{
    struct str version = str_from(gpus->driver);
    int64_t major = 0;
    (void)str_to_i64(str_sub(version, 0, str_find(version, '.')), &major);
    return major;
}

int64_t gpu_used_mib(const char *uuid)
{
    struct nvml nvml;
    struct gpus unused;
    struct nvml_memory memory = {0};
    nvml_device device;
    int64_t mib = -1;
    unused.why[0] = '\0';
    if (!nvml_open(&nvml, &unused))
        return -1;
    if (nvml.by_uuid(uuid, &device) == 0 && nvml.memory(device, &memory) == 0)
        mib = (int64_t)(memory.used >> 20);
    (void)nvml.shutdown();
    (void)dlclose(nvml.library);
    return mib;
}

#define SAMPLES_MAX         1024 /* some hundred are kept by the driver */
#define SAMPLES_UTILIZATION 1
#define SAMPLES_LAST_US     12000000 /* a look every ten seconds */

/* Short work between two looks is not to be missed: the driver remembers it for a while. */
static int card_peak(const struct nvml *nvml, nvml_device device, int now)
{
    struct nvml_sample samples[SAMPLES_MAX];
    unsigned long long newest_us = 0;
    unsigned count = SAMPLES_MAX;
    int type = 0;

    if (!nvml->samples ||
        nvml->samples(device, SAMPLES_UTILIZATION, 0, &type, &count, samples) != 0)
        return now;
    for (unsigned i = 0; i < count && i < SAMPLES_MAX; i++)
        newest_us = samples[i].at_us > newest_us ? samples[i].at_us : newest_us;
    for (unsigned i = 0; i < count && i < SAMPLES_MAX; i++)
        if (samples[i].at_us + SAMPLES_LAST_US >= newest_us && samples[i].value.percent <= 100 &&
            (int)samples[i].value.percent > now)
            now = (int)samples[i].value.percent;
    return now;
}

void gpu_read_use(const struct nvml *nvml,
                  const struct gpus *gpus,
                  struct gpu_use ret[static GPU_MAX])
{
    for (size_t i = 0; i < gpus->count; i++) {
        struct nvml_memory memory = {0};
        struct nvml_rates rates = {0};
        nvml_device device;

        ret[i] = (struct gpu_use){.percent = -1};
        if (nvml->by_uuid(gpus->items[i].uuid, &device) != 0 || nvml->rates(device, &rates) != 0 ||
            nvml->memory(device, &memory) != 0)
            continue;
        ret[i].percent = rates.gpu < 100 ? (int)rates.gpu : 100;
        ret[i].mib = (int64_t)(memory.used >> 20);
        ret[i].peak = card_peak(nvml, device, ret[i].percent);
    }
}

bool gpu_measure(const struct gpus *gpus, struct gpu_use ret[static GPU_MAX])
{
    struct nvml nvml;
    struct gpus unused;

    unused.why[0] = '\0';
    if (!nvml_open(&nvml, &unused))
        return false;
    gpu_read_use(&nvml, gpus, ret);
    (void)nvml.shutdown();
    (void)dlclose(nvml.library);
    return true;
}

#define USE_STEP_PERCENT 5
#define USE_STEP_MIB     256

void gpu_use_text(const struct gpu_use *uses, size_t count, char out[static GPU_USE_TEXT])
{
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        int percent =
            (uses[i].percent + USE_STEP_PERCENT / 2) / USE_STEP_PERCENT * USE_STEP_PERCENT;
        long long mib = (uses[i].mib + USE_STEP_MIB / 2) / USE_STEP_MIB * USE_STEP_MIB;
        int more = uses[i].percent < 0 ? -1
                                       : snprintf(out + len, GPU_USE_TEXT - len, "%s%d/%lld",
                                                  i ? "," : "", percent, mib);

        if (more < 0 || (size_t)more >= GPU_USE_TEXT - len) {
            out[0] = '\0';
            return;
        }
        len += (size_t)more;
    }
}
