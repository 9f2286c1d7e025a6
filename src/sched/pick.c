#include "sched/pick.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/claim.h"
#include "sched/device.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/shape.h"
#include "sched/state.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Depth first: requests in their order, of each its choices in theirs, of each the devices. What is
 * chosen is a stack; going back takes it down. */

struct chosen {
    struct claim *claim;
    const struct device_choice *choice;
    const struct device_request *request;
    struct device *device;
};

struct picking {
    const struct sched *sched;
    struct pod *pod;
    const struct node *node;
    bool later; /* devices that are about to be given up count as free */
    bool ended; /* nothing can be found: an error, or too many steps */
    uint32_t steps;
    VEC(struct chosen) stack;
    size_t local; /* candidates: devices of the node, then wide ones */
};

static bool claim_is_open(const struct claim *claim)
{
    return claim->ask && !claim->allocated && claim->hold == HOLD_NONE;
}

static bool device_is_free(const struct device *device, bool later)
{
    return device->usable && !device->firm && !device->promised && !device->picked &&
           (later || !device->ending);
}

static struct device *candidate(const struct picking *picking, size_t index)
{
    const struct devices *devices = picking->sched->devices;

    if (index < picking->local)
        return picking->node->devices.items[index];
    index -= picking->local;
    return index < devices->wide.count ? devices->wide.items[index] : NULL;
}

static void trouble_set(struct claim *claim, const struct err *err)
{
    heap_str_free(claim->trouble);
    claim->trouble = err ? heap_str(str_from(err->text)) : STR_NONE;
}

/* ---- constraints ---- */

static bool rule_is_about(const struct device_rule *rule, const struct chosen *chosen)
{
    for (size_t i = 0; i < rule->request_count; i++)
        if (str_eq(rule->requests[i], chosen->request->name) ||
            str_eq(rule->requests[i], chosen->choice->name))
            return true;
    return !rule->request_count;
}

static bool rule_holds(const struct picking *picking,
                       const struct device_rule *rule,
                       const struct chosen *next)
{
    const struct json *value = device_attribute(next->device, rule->attribute);

    if (!value)
        return false;
    for (size_t i = 0; i < picking->stack.count; i++) {
        const struct chosen *other = &picking->stack.items[i];

        if (other->claim != next->claim || !rule_is_about(rule, other))
            continue;
        bool same = json_equal(device_attribute(other->device, rule->attribute), value);
        if (same == rule->distinct)
            return false;
    }
    return true;
}

static bool rules_hold(const struct picking *picking, const struct chosen *next)
{
    const struct device_ask *ask = next->claim->ask;

    for (size_t i = 0; i < ask->rule_count; i++)
        if (rule_is_about(&ask->rules[i], next) && !rule_holds(picking, &ask->rules[i], next))
            return false;
    return true;
}

/* ---- the search ---- */

static size_t claim_results(const struct picking *picking, const struct claim *claim)
{
    size_t count = 0;

    for (size_t i = 0; i < picking->stack.count; i++)
        count += picking->stack.items[i].claim == claim;
    return count;
}

static bool stack_push(struct picking *picking, const struct chosen *next)
{
    if (!device_tolerated(next->device, next->choice->tolerations) || !rules_hold(picking, next) ||
        claim_results(picking, next->claim) == PICK_RESULTS_MAX)
        return false;
    next->device->picked = true;
    VEC_PUSH(NULL, &picking->stack, *next);
    return true;
}

static void stack_cut(struct picking *picking, size_t count)
{
    while (picking->stack.count > count)
        picking->stack.items[--picking->stack.count].device->picked = false;
}

/* Whether the choice means the device; false with `ended` where that has no answer. */
static bool is_meant(struct picking *picking, const struct chosen *next)
{
    struct err err = {0};
    bool meant = false;

    if (++picking->steps > PICK_STEPS_MAX && !picking->ended) {
        picking->ended = true;
        (void)err_set(&err, -E2BIG,
                      "there are too many ways to choose devices of node " STR_FMT
                      ": %d were looked at, and none was found",
                      STR_ARG(picking->node->name), PICK_STEPS_MAX);
        trouble_set(next->claim, &err);
    }
    if (picking->ended || !next->device->usable || !device_reaches(next->device, picking->node))
        return false;
    if (device_selected(picking->sched->devices, next->choice, next->device, &meant, &err) < 0) {
        picking->ended = true;
        trouble_set(next->claim, &err);
    }
    return meant && !picking->ended;
}

static bool pick_from(struct picking *picking, size_t claim, size_t request);

/* `left` more devices, from the candidate `from` on. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool pick_some(struct picking *picking,
                      struct chosen next,
                      size_t from,
                      int64_t left,
                      const size_t after[2])
{
    if (!left)
        return pick_from(picking, after[0], after[1]);
    for (size_t i = from; (next.device = candidate(picking, i)); i++) {
        size_t height = picking->stack.count;

        if (!device_is_free(next.device, picking->later) || !is_meant(picking, &next) ||
            !stack_push(picking, &next))
            continue;
        if (pick_some(picking, next, i + 1, left - 1, after))
            return true;
        stack_cut(picking, height);
        if (picking->ended)
            return false;
    }
    return false;
}

/* Every device that is meant, and at least one: none of them may be anybody's. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool pick_all(struct picking *picking, struct chosen next, const size_t after[2])
{
    size_t height = picking->stack.count;
    bool whole = true;

    for (size_t i = 0; whole && (next.device = candidate(picking, i)); i++)
        if (is_meant(picking, &next))
            whole = device_is_free(next.device, picking->later) && stack_push(picking, &next);
    if (whole && !picking->ended && picking->stack.count > height &&
        pick_from(picking, after[0], after[1]))
        return true;
    stack_cut(picking, height);
    return false;
}

/* From this request of this claim of the pod on. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool pick_from(struct picking *picking, size_t claim, size_t request)
{
    struct pod *pod = picking->pod;

    while (claim < pod->claim_count && (!claim_is_open(pod->claims[claim]) ||
                                        request == pod->claims[claim]->ask->request_count)) {
        claim++;
        request = 0;
    }
    if (claim == pod->claim_count)
        return true;
    const struct device_request *wanted = &pod->claims[claim]->ask->requests[request];
    for (size_t i = 0; i < wanted->choice_count && !picking->ended; i++) {
        const size_t after[2] = {claim, request + 1};
        struct chosen next = {
            .claim = pod->claims[claim], .choice = &wanted->choices[i], .request = wanted};

        if (next.choice->all ? pick_all(picking, next, after)
                             : pick_some(picking, next, 0, next.choice->count, after))
            return true;
    }
    return false;
}

/* What cannot be had anywhere is said even where there is no device to ask about. */
static bool choice_exists(const struct picking *picking,
                          struct claim *claim,
                          const struct device_choice *choice)
{
    struct err err = {0};

    if (choice->beyond)
        (void)err_set(&err, -EOPNOTSUPP,
                      "request " STR_FMT " has %s, which this scheduler does not give",
                      STR_ARG(choice->name), choice->beyond);
    else if (!device_class_get(picking->sched->devices, choice->class))
        (void)err_set(&err, -ENOENT, "DeviceClass " STR_FMT " does not exist",
                      STR_ARG(choice->class));
    if (err.code)
        trouble_set(claim, &err);
    return !err.code;
}

static bool choices_exist(const struct picking *picking)
{
    const struct pod *pod = picking->pod;

    for (size_t i = 0; i < pod->claim_count; i++) {
        struct claim *claim = pod->claims[i];

        for (size_t r = 0; claim_is_open(claim) && r < claim->ask->request_count; r++)
            for (size_t c = 0; c < claim->ask->requests[r].choice_count; c++)
                if (!choice_exists(picking, claim, &claim->ask->requests[r].choices[c]))
                    return false;
    }
    return true;
}

static bool pick_search(struct picking *picking)
{
    bool found = false;

    picking->local = picking->node->devices.count;
    for (size_t i = 0; i < picking->pod->claim_count; i++)
        trouble_set(picking->pod->claims[i], NULL);
    found = choices_exist(picking) && pick_from(picking, 0, 0);
    for (size_t i = 0; i < picking->stack.count; i++)
        picking->stack.items[i].device->picked = false;
    return found;
}

static bool pod_is_open(const struct pod *pod)
{
    for (size_t i = 0; i < pod->claim_count; i++)
        if (claim_is_open(pod->claims[i]))
            return true;
    return false;
}

enum fit pick_fit(struct sched *sched, struct pod *pod, struct node *node)
{
    struct picking now = {.sched = sched, .pod = pod, .node = node};
    struct picking later = {.sched = sched, .pod = pod, .node = node, .later = true};
    enum fit fit = FIT_NO;

    if (!pod_is_open(pod))
        return FIT_IDLE;
    if (pick_search(&now))
        fit = FIT_IDLE;
    else if (!now.ended && pick_search(&later))
        fit = FIT_RELEASING;
    VEC_DONE(&now.stack);
    VEC_DONE(&later.stack);
    return fit;
}

/* What it had here before is there still, so it is given the same again. The node may be another
 * one, in the place of the one that was meant. */
static bool picks_stay(const struct claim *claim, const struct node *node, bool later)
{
    for (size_t i = 0; i < claim->picks.count; i++) {
        const struct device *device = claim->picks.items[i].device;

        if (!device_is_free(device, later) || !device_reaches(device, node))
            return false;
    }
    return claim->picked_on == node && (claim->picks.count || !claim->ask->request_count);
}

void pick_devices(struct sched *sched, struct pod *pod, struct node *node)
{
    struct picking picking = {
        .sched = sched, .pod = pod, .node = node, .later = pod->status == ST_PIPELINED};
    bool stay = true;

    if (!pod_is_open(pod))
        return;
    for (size_t i = 0; i < pod->claim_count; i++)
        stay = stay &&
               (!claim_is_open(pod->claims[i]) || picks_stay(pod->claims[i], node, picking.later));
    if (stay)
        return;
    for (size_t i = 0; i < pod->claim_count; i++)
        if (claim_is_open(pod->claims[i]))
            claim_forget_picks(sched, pod->claims[i]);
    if (pick_search(&picking)) {
        for (size_t i = 0; i < pod->claim_count; i++)
            if (claim_is_open(pod->claims[i]))
                pod->claims[i]->picked_on = node;
        for (size_t i = 0; i < picking.stack.count; i++) {
            const struct chosen *chosen = &picking.stack.items[i];

            VEC_PUSH(NULL, &chosen->claim->picks,
                     (struct pick){.device = device_get(sched->devices, chosen->device->driver,
                                                        chosen->device->pool, chosen->device->name),
                                   .choice = chosen->choice});
        }
    }
    VEC_DONE(&picking.stack);
}

/* ---- GPUs that nobody claimed ---- */

void pick_whole(struct sched *sched, struct pod *pod, struct node *node)
{
    const struct device_class *class = device_class_of_gpus(sched->devices);
    struct device_choice choice = {.class = class ? class->name : STR("")};

    pick_whole_done(sched, pod);
    for (size_t i = 0; i < node->devices.count && (int64_t)pod->whole_count < pod->shape->spec.gpus;
         i++) {
        struct device *device = node->devices.items[i];
        bool meant = false;

        if (!device_is_free(device, false) || !device_tolerated(device, NULL) ||
            device_selected(sched->devices, &choice, device, &meant, NULL) < 0 || !meant)
            continue;
        if (!pod->whole)
            pod->whole = mem_alloc((size_t)pod->shape->spec.gpus * sizeof(struct device *));
        device->firm++;
        pod->whole[pod->whole_count++] =
            device_get(sched->devices, device->driver, device->pool, device->name);
    }
}

void pick_whole_done(struct sched *sched, struct pod *pod)
{
    for (uint32_t i = 0; i < pod->whole_count; i++) {
        pod->whole[i]->firm--;
        device_unref(sched->devices, pod->whole[i]);
    }
    mem_free(pod->whole);
    pod->whole = NULL;
    pod->whole_count = 0;
}
