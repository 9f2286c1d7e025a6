#include "sched/pod.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/claim.h"
#include "sched/names.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pod *pod_get(struct sched *sched, struct str ns, struct str name)
{
    char text[KEY_BYTES];

    return map_get(&sched->pods_by_key, sched_key(text, sizeof(text), ns, name));
}

/* 800,000 of them, and with each a block of malloc()'s: 320 bytes. See docs/internals/budget.md. */
_Static_assert(sizeof(struct pod) <= 312, "what few pods have belongs into struct pod_rare");

const struct pod_rare *pod_rare(const struct pod *pod)
{
    static const struct pod_rare nothing;

    return pod->rare ? pod->rare : &nothing;
}

struct pod_rare *pod_rare_make(struct pod *pod)
{
    if (!pod->rare)
        pod->rare = MEM_NEW(struct pod_rare);
    return pod->rare;
}

bool pod_is_spared(const struct sched *sched, const struct pod *pod)
{
    return pod->rare && sched->now_ms < pod->rare->spared_ms;
}

void pod_hold(struct pod *pod, int64_t hold_ms)
{
    if (hold_ms || pod->rare)
        pod_rare_make(pod)->hold_ms = hold_ms;
}

void pod_number(struct pod *pod, const uint32_t *numbers, size_t count)
{
    mem_free(pod->devices);
    pod->devices = NULL;
    pod->device_count = (uint32_t)count;
    pod->devices_planned = false;
    if (!count)
        return;
    pod->devices = mem_alloc(count * sizeof(*pod->devices));
    memcpy(pod->devices, numbers, count * sizeof(*pod->devices));
}

int pod_order(const struct pod *a, const struct pod *b)
{
    const struct sched_pod *l = &a->shape->spec;
    const struct sched_pod *r = &b->shape->spec;

    if (l->role_rank != r->role_rank)
        return l->role_rank < r->role_rank ? -1 : 1;
    if (l->has_task_priority != r->has_task_priority)
        return l->has_task_priority ? -1 : 1;
    if (l->task_priority != r->task_priority)
        return l->task_priority > r->task_priority ? -1 : 1;
    if (a->created_ms != b->created_ms)
        return a->created_ms < b->created_ms ? -1 : 1;
    int order = str_cmp(pod_uid(a), pod_uid(b));
    return order ? order : str_cmp(pod_name(a), pod_name(b));
}

int pod_order_qsort(const void *a, const void *b)
{
    return pod_order(*(struct pod *const *)a, *(struct pod *const *)b);
}

int64_t pod_holds(const struct pod *pod, uint32_t res)
{
    int64_t held = res == RES_GPU ? pod->share_count : 0;

    for (uint32_t i = 0; i < pod->want_count; i++)
        held += pod->wants[i].res == res ? pod->wants[i].amount : 0;
    return held;
}

bool pod_needs_gpu(const struct pod *pod)
{
    for (size_t i = 0; i < pod->claim_count; i++)
        if (pod->claims[i]->gpu)
            return true;
    return pod->gpus || pod->shape->shared || pod->shape->wants_mig;
}
