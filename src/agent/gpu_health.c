#include "agent/gpu_health.h"

#include "agent/core.h"
#include "agent/gpu.h"
#include "agent/gpu_link.h"
#include "agent/lifecycle.h"
#include "agent/node.h"
#include "agent/pod.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/suspect.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

_Static_assert(GPU_HEALTH_MAX == GPU_MAX, "as many as there may be");

#define EVENT_XID      8ULL
#define ECC_BAD        1 /* could not be corrected */
#define ECC_VOLATILE   0
#define CLOCKS_HEAT    0x40ULL
#define CLOCKS_POWER   0x80ULL
#define EVENTS_AT_ONCE 64 /* of one look; a card in trouble tells the same again and again */

/* XIDs of NVIDIA's catalogue after which a card is not what it was: it stopped, its memory or its links
 * failed, it fell off the bus. After the others (13, 31, 43, 45, 137 and so on) only a program
 * ends, or nothing does (121, which was corrected). */
static const unsigned faults[] = {46,  48,  62,  63,  64,  74,  79,  94,  95,
                                  109, 110, 118, 119, 120, 136, 140, 143, 149};

static bool xid_is_fault(unsigned xid)
{
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        if (faults[i] == xid)
            return true;
    return false;
}

/* Whatever else runs on the card may run to its end (api/suspect.h). */
static bool xid_is_contained(unsigned xid)
{
    return xid == 63 || xid == 94;
}

const char *gpu_sign_judge(const struct gpu_sign *sign, char ret[static GPU_HEALTH_TEXT])
{
    ret[0] = '\0';
    if (sign->xid) {
        (void)snprintf(ret, GPU_HEALTH_TEXT,
                       "the driver reported XID %u%s; reset the card; a self-test ends this",
                       sign->xid, sign->xid == 79 ? " (it has fallen off the bus)" : "");
        return xid_is_contained(sign->xid) ? "XIDContained" : "XID";
    }
    if (sign->remap_failed) {
        (void)snprintf(ret, GPU_HEALTH_TEXT,
                       "rows of its memory could not be replaced; replace the card");
        return "RowRemapFailed";
    }
    if (sign->remap_pending) {
        (void)snprintf(ret, GPU_HEALTH_TEXT,
                       "rows of its memory wait to be replaced; reset the card when it is idle");
        return "RowRemapPending";
    }
    if (sign->uncorrected) {
        (void)snprintf(ret, GPU_HEALTH_TEXT,
                       "%llu errors of its memory could not be corrected; reset the card",
                       sign->uncorrected);
        return "ECC";
    }
    if (gpu_link_words(&sign->link, ret))
        return "NVLink";
    if (sign->slow_looks >= GPU_HEALTH_SLOW) {
        (void)snprintf(ret, GPU_HEALTH_TEXT,
                       "heat or power has held down its clocks for minutes; look at its cooling");
        return "Throttled";
    }
    return NULL;
}

/* ---- reading ---- */

void gpu_health_begin(struct gpu_health *health)
{
    const struct health_nvml *nvml = &health->nvml;

    if (!nvml->set_create || !nvml->set_add || nvml->set_create(&health->events) != 0)
        health->events = NULL;
    for (size_t i = 0; i < health->count; i++) {
        if (nvml->by_uuid(health->uuids[i], &health->devices[i]) != 0)
            health->devices[i] = NULL;
        else if (health->events)
            (void)nvml->set_add(health->devices[i], EVENT_XID, health->events);
    }
}

static void sign_read(const struct health_nvml *nvml, void *device, struct gpu_sign *sign)
{
    unsigned corrected = 0, bad = 0, pending = 0, failed = 0;
    unsigned long long errors = 0, reasons = 0;

    if (nvml->remapped && nvml->remapped(device, &corrected, &bad, &pending, &failed) == 0) {
        sign->remap_pending = pending;
        sign->remap_failed = failed;
    } else if (nvml->ecc && nvml->ecc(device, ECC_BAD, ECC_VOLATILE, &errors) == 0) {
        sign->uncorrected = errors; /* where rows are replaced, that says what they are worth */
    }
    if (nvml->clocks && nvml->clocks(device, &reasons) == 0)
        sign->slow_looks = reasons & (CLOCKS_HEAT | CLOCKS_POWER) ? sign->slow_looks + 1 : 0;
}

/* A card without links, or a driver that says nothing of them, is one without anything against it. */
static struct gpu_link_sign links_read(const struct health_nvml *nvml,
                                       void *device,
                                       struct gpu_links *links,
                                       long long now_ms)
{
    struct gpu_link_seen seen[GPU_LINKS_MAX] = {0};

    for (unsigned i = 0; nvml->link_up && i < GPU_LINKS_MAX; i++) {
        unsigned up = 0;

        seen[i].there = nvml->link_up(device, i, &up) == 0;
        seen[i].up = up;
        for (int c = 0; seen[i].there && c < GPU_LINK_COUNTERS; c++)
            if (!nvml->link_errors || nvml->link_errors(device, i, c, &seen[i].counters[c]) != 0)
                seen[i].counters[c] = GPU_LINK_UNKNOWN;
    }
    return gpu_links_take(links, seen, now_ms);
}

static struct gpu_sign sign_with(struct gpu_sign sign, unsigned xid, long long now_ms)
{
    sign.xid = xid;
    sign.xid_ms = now_ms;
    return sign;
}

void gpu_health_forgive(struct gpu_health *health)
{
    for (size_t i = 0; i < health->count; i++) {
        if (health->signs[i].xid && health->signs[i].xid_ms < health->tested_ms[i])
            health->signs[i].xid = 0;
        health->tested_ms[i] = 0;
    }
}

void gpu_health_tested(struct pod *pod, const struct run_end *end)
{
    struct agent *agent = pod->agent;

    if (!str_is(pod->object->ns, SUSPECT_TEST_SPACE) ||
        !object_label(pod->object, SUSPECT_TEST_LABEL).len || end->code != 0 || !agent->gpus_real ||
        !str_contains(end->message, STR(LAUNCH_TEST_GPUS_RIGHT)))
        return;
    for (size_t i = 0; i < pod->gpu_count; i++) {
        size_t at = (size_t)pod->node * agent->gpus_per_node + pod->gpus[i];

        if (at < GPU_HEALTH_MAX)
            agent->health.tested_ms[at] = end->started_ms;
    }
}

void gpu_health_read(struct gpu_health *health)
{
    const struct health_nvml *nvml = &health->nvml;
    struct health_event event = {0};

    for (size_t i = 0; i < health->count; i++)
        if (health->devices[i]) {
            sign_read(nvml, health->devices[i], &health->signs[i]);
            health->signs[i].link =
                links_read(nvml, health->devices[i], &health->links[i], health->now_ms);
        }
    for (int n = 0; health->events && nvml->set_wait && n < EVENTS_AT_ONCE &&
                    nvml->set_wait(health->events, &event, 0) == 0;
         n++)
        for (size_t i = 0; event.type == EVENT_XID && i < health->count; i++)
            if (health->devices[i] == event.device && xid_is_fault((unsigned)event.data))
                health->signs[i] =
                    sign_with(health->signs[i], (unsigned)event.data, health->now_ms);
}

const char *gpu_signs_judge(const struct gpu_sign *signs,
                            size_t count,
                            char ret[static GPU_HEALTH_TEXT])
{
    char words[GPU_HEALTH_TEXT];

    ret[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *reason = gpu_sign_judge(&signs[i], words);

        if (!reason)
            continue;
        (void)snprintf(ret, GPU_HEALTH_TEXT, "GPU %zu: %.130s", i, words);
        return reason;
    }
    return NULL;
}

/* ---- looks ---- */

/* A function of the library, in a shape C can assign. */
#define LOAD(nvml, member, symbol)                            \
    do {                                                      \
        void *address_ = dlsym((nvml)->library, symbol);      \
        memcpy(&(nvml)->member, &address_, sizeof(address_)); \
    } while (0)

/* It stays open: events are told to who has asked for them before. */
static bool nvml_load(struct health_nvml *nvml)
{
    static const char *const names[] = {"libnvidia-ml.so.1",
                                        "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
                                        "/usr/lib/wsl/lib/libnvidia-ml.so.1"};

    for (size_t i = 0; i < COUNT_OF(names) && !nvml->library; i++)
        nvml->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return false;
    LOAD(nvml, init, "nvmlInit_v2");
    LOAD(nvml, by_uuid, "nvmlDeviceGetHandleByUUID");
    LOAD(nvml, remapped, "nvmlDeviceGetRemappedRows");
    LOAD(nvml, ecc, "nvmlDeviceGetTotalEccErrors");
    LOAD(nvml, clocks, "nvmlDeviceGetCurrentClocksEventReasons");
    if (!nvml->clocks)
        LOAD(nvml, clocks, "nvmlDeviceGetCurrentClocksThrottleReasons");
    LOAD(nvml, link_up, "nvmlDeviceGetNvLinkState");
    LOAD(nvml, link_errors, "nvmlDeviceGetNvLinkErrorCounter");
    LOAD(nvml, set_create, "nvmlEventSetCreate");
    LOAD(nvml, set_add, "nvmlDeviceRegisterEvents");
    LOAD(nvml, set_wait, "nvmlEventSetWait_v2");
    return nvml->init && nvml->by_uuid && nvml->init() == 0;
}

struct health_look {
    uv_work_t work;
    struct agent *agent;
};

static void look_take(uv_work_t *work)
{
    struct health_look *look = work->data;
    struct gpu_health *health = &look->agent->health;

    if (!health->begun) {
        health->begun = true;
        if (nvml_load(&health->nvml))
            gpu_health_begin(health);
        else
            health->count = 0;
    }
    gpu_health_read(health);
}

/* Of all that would be told. */
static unsigned long long health_hash(const struct gpu_health *health)
{
    unsigned long long hash = 14695981039346656037ULL;
    char words[GPU_HEALTH_TEXT];

    for (size_t i = 0; i < health->count; i++) {
        (void)gpu_sign_judge(&health->signs[i], words);
        for (const char *c = words;; c++) {
            hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
            if (!*c)
                break;
        }
    }
    return hash;
}

static void look_taken(uv_work_t *work, int status)
{
    struct health_look *look = work->data;
    struct agent *agent = look->agent;
    struct gpu_health *health = &agent->health;
    unsigned long long hash = health_hash(health);

    memcpy(health->seen, health->signs, sizeof(health->seen));
    health->looking = false;
    if (status == 0 && !agent->stopping && (!health->told || health->told_hash != hash)) {
        health->told = true;
        health->told_hash = hash;
        nodes_tell_pressure(agent);
    }
    mem_free(look);
    agent->streams_open--;
    agent_maybe_free(agent);
}

void gpu_health_look(struct agent *agent)
{
    struct gpu_health *health = &agent->health;
    const struct gpus *gpus = &agent->machine.gpus;

    if (!agent->gpus_real || health->looking || !agent->gpus_per_node)
        return;
    for (size_t i = 0; !health->begun && i < gpus->count; i++)
        (void)snprintf(health->uuids[i], sizeof(health->uuids[i]), "%s", gpus->items[i].uuid);
    if (!health->begun)
        health->count = gpus->count;
    health->now_ms = agent_now_ms();
    gpu_health_forgive(health);
    struct health_look *look = MEM_NEW(struct health_look);
    look->agent = agent;
    look->work.data = look;
    if (uv_queue_work(agent->loop, &look->work, look_take, look_taken) < 0) {
        mem_free(look);
        return;
    }
    health->looking = true;
    agent->streams_open++;
}
