#include "sched/device.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/device.h"
#include "sched/decode.h"
#include "sched/filter.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum answer {
    ANSWER_UNKNOWN,
    ANSWER_YES,
    ANSWER_NO,
    ANSWER_NONE, /* an error: the first of the selector's, the next number is the second */
};
#define ERRORS_MAX (UINT8_MAX - ANSWER_NONE)

/* ---- selectors ---- */

static struct selector *selector_get(struct devices *devices, struct str text)
{
    struct selector *selector = map_get(&devices->selectors, text);
    struct err err = {0};

    if (selector) {
        selector->refs++;
        return selector;
    }
    selector = MEM_NEW(struct selector);
    selector->text = heap_str(text);
    selector->refs = 1;
    if (cel_device_compile(&selector->arena, selector->text, &selector->program, &err) < 0)
        selector->wrong = heap_str(str_from(err.text));
    map_set(&devices->selectors, selector->text, selector);
    return selector;
}

static void selector_unref(struct devices *devices, struct selector *selector)
{
    if (--selector->refs)
        return;
    map_remove(&devices->selectors, selector->text);
    heap_str_free(selector->text);
    heap_str_free(selector->wrong);
    for (size_t i = 0; i < selector->errors.count; i++)
        heap_str_free(selector->errors.items[i]);
    VEC_DONE(&selector->errors);
    VEC_DONE(&selector->answers);
    arena_done(&selector->arena);
    mem_free(selector);
}

static struct selector **selectors_of(struct devices *devices,
                                      struct arena *arena,
                                      const struct json *list,
                                      size_t *ret_count)
{
    struct selector **selectors = ARENA_ARRAY(arena, struct selector *, json_count(list) + 1);
    size_t count = 0;

    JSON_FOREACH(list, item)
        selectors[count++] = selector_get(devices, json_str(json_at(item, "cel.expression")));
    *ret_count = count;
    return selectors;
}

/* Errors are kept as answers are: who claims what has none, at some cost, would have it tried for
 * every pod and node in every cycle. */
static uint8_t selector_error(struct selector *selector, struct str words)
{
    size_t index = 0;

    while (index < selector->errors.count && !str_eq(selector->errors.items[index], words))
        index++;
    if (index == ERRORS_MAX)
        index--; /* so many speak for the others */
    else if (index == selector->errors.count)
        VEC_PUSH(NULL, &selector->errors, heap_str(words));
    return (uint8_t)(ANSWER_NONE + index);
}

static int selector_answer(struct selector *selector,
                           const struct device *device,
                           bool *ret,
                           struct err *err)
{
    bool yes = false;
    struct err own = {0};

    if (!selector->program)
        return err_set(err, -EINVAL, STR_FMT, STR_ARG(selector->wrong));
    while (selector->answers.count <= device->id)
        VEC_PUSH(NULL, &selector->answers, (uint8_t)ANSWER_UNKNOWN);
    uint8_t *answer = &selector->answers.items[device->id];
    if (*answer == ANSWER_UNKNOWN) {
        int r = cel_device_matches(selector->program, device->driver, device->body, &yes, &own);

        if (r < 0)
            *answer = selector_error(selector, str_from(own.text));
        else
            *answer = yes ? ANSWER_YES : ANSWER_NO;
    }
    if (*answer >= ANSWER_NONE)
        return err_set(err, -EINVAL, STR_FMT,
                       STR_ARG(selector->errors.items[*answer - ANSWER_NONE]));
    *ret = *answer == ANSWER_YES;
    return 0;
}

/* The device is described anew. */
static void answers_forget(struct devices *devices, uint32_t id)
{
    MAP_FOREACH(&devices->selectors, entry) {
        struct selector *selector = entry->value;

        if (id < selector->answers.count)
            selector->answers.items[id] = ANSWER_UNKNOWN;
    }
}

/* ---- classes ---- */

static void class_free(struct devices *devices, struct device_class *class)
{
    for (size_t i = 0; i < class->selector_count; i++)
        selector_unref(devices, class->selectors[i]);
    mem_free(class->selectors);
    heap_str_free(class->extended);
    heap_str_free(class->name);
    mem_free(class);
}

void device_class_put(struct devices *devices,
                      struct str name,
                      int64_t created_ms,
                      const struct json *spec)
{
    struct device_class *class = MEM_NEW(struct device_class);
    const struct json *list = json_get(spec, "selectors");

    class->name = heap_str(name);
    class->created_ms = created_ms;
    class->extended = heap_str(json_str(json_get(spec, "extendedResourceName")));
    class->selectors = mem_alloc((json_count(list) + 1) * sizeof(struct selector *));
    JSON_FOREACH(list, item)
        class->selectors[class->selector_count++] =
            selector_get(devices, json_str(json_at(item, "cel.expression")));
    struct device_class *old = map_set(&devices->classes, class->name, class);
    if (old)
        class_free(devices, old);
}

bool device_class_drop(struct devices *devices, struct str name)
{
    struct device_class *class = map_remove(&devices->classes, name);

    if (class)
        class_free(devices, class);
    return class != NULL;
}

struct device_class *device_class_get(const struct devices *devices, struct str name)
{
    return map_get(&devices->classes, name);
}

const struct device_class *device_class_of_gpus(const struct devices *devices)
{
    const struct device_class *best = NULL;

    MAP_FOREACH(&devices->classes, entry) {
        const struct device_class *class = entry->value;

        if (!str_is(class->extended, "nvidia.com/gpu"))
            continue;
        if (!best || class->created_ms > best->created_ms ||
            (class->created_ms == best->created_ms && str_cmp(class->name, best->name) < 0))
            best = class;
    }
    return best;
}

/* ---- what a claim asks for ---- */

static struct device_choice choice_of(struct devices *devices,
                                      struct arena *arena,
                                      const struct json *from,
                                      struct str name)
{
    struct device_choice choice = {
        .name = str_dup(arena, name),
        .class = str_dup(arena, json_str(json_get(from, "deviceClassName"))),
        .count = json_i64_or(json_get(from, "count"), 1),
        .all = str_is(json_str(json_get(from, "allocationMode")), "All"),
        .tolerations = json_clone(arena, json_get(from, "tolerations")),
    };

    if (json_bool_or(json_get(from, "adminAccess"), false))
        choice.beyond = "adminAccess";
    else if (json_count(json_at(from, "capacity.requests")))
        choice.beyond = "capacity";
    choice.selectors =
        selectors_of(devices, arena, json_get(from, "selectors"), &choice.selector_count);
    return choice;
}

static struct device_request request_of(struct devices *devices,
                                        struct arena *arena,
                                        const struct json *from)
{
    const struct json *exactly = json_get(from, "exactly");
    const struct json *list = json_get(from, "firstAvailable");
    struct device_request request = {.name = str_dup(arena, json_str(json_get(from, "name")))};

    request.choices = ARENA_ARRAY(arena, struct device_choice, json_count(list) + 1);
    if (exactly)
        request.choices[request.choice_count++] = choice_of(devices, arena, exactly, request.name);
    JSON_FOREACH(list, item)
        request.choices[request.choice_count++] =
            choice_of(devices, arena, item,
                      str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(request.name),
                                 STR_ARG(json_str(json_get(item, "name")))));
    return request;
}

struct device_ask *device_ask_new(struct devices *devices, const struct json *spec)
{
    struct device_ask *ask = MEM_NEW(struct device_ask);
    const struct json *requests = json_get(spec, "requests");
    const struct json *rules = json_get(spec, "constraints");

    ask->requests = ARENA_ARRAY(&ask->arena, struct device_request, json_count(requests) + 1);
    JSON_FOREACH(requests, item)
        ask->requests[ask->request_count++] = request_of(devices, &ask->arena, item);
    ask->rules = ARENA_ARRAY(&ask->arena, struct device_rule, json_count(rules) + 1);
    JSON_FOREACH(rules, item) {
        struct str match = json_str(json_get(item, "matchAttribute"));
        struct str other = json_str(json_get(item, "distinctAttribute"));
        const struct json *names = json_get(item, "requests");
        struct str *list = ARENA_ARRAY(&ask->arena, struct str, json_count(names) + 1);
        size_t count = 0;

        JSON_FOREACH(names, name)
            list[count++] = str_dup(&ask->arena, json_str(name));
        ask->rules[ask->rule_count++] =
            (struct device_rule){.attribute = str_dup(&ask->arena, match.len ? match : other),
                                 .distinct = !match.len,
                                 .requests = list,
                                 .request_count = count};
    }
    return ask;
}

void device_ask_free(struct devices *devices, struct device_ask *ask)
{
    if (!ask)
        return;
    for (size_t i = 0; i < ask->request_count; i++)
        for (size_t c = 0; c < ask->requests[i].choice_count; c++)
            for (size_t s = 0; s < ask->requests[i].choices[c].selector_count; s++)
                selector_unref(devices, ask->requests[i].choices[c].selectors[s]);
    arena_done(&ask->arena);
    mem_free(ask);
}

static int64_t choice_gpus(const struct device_choice *choice)
{
    if (!str_contains(choice->class, STR("gpu")))
        return 0;
    /* An absurd number stays one that sums of it do not overflow. */
    return choice->all ? 1 : i64_min(choice->count, UINT16_MAX);
}

int64_t device_ask_gpus(const struct device_ask *ask, const struct json *results)
{
    int64_t gpus = 0;

    for (size_t i = 0; i < ask->request_count; i++) {
        const struct device_request *request = &ask->requests[i];
        int64_t least = request->choice_count ? INT64_MAX : 0;

        for (size_t c = 0; c < request->choice_count; c++) {
            int64_t given = 0;

            JSON_FOREACH(results, result)
                given += str_eq(json_str(json_get(result, "request")), request->choices[c].name);
            least = i64_min(least, choice_gpus(&request->choices[c]));
            if (results && choice_gpus(&request->choices[c]))
                gpus += given;
        }
        gpus += results ? 0 : least;
    }
    return gpus;
}

/* ---- devices ---- */

struct device *device_get(struct devices *devices,
                          struct str driver,
                          struct str pool,
                          struct str name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str key = str_printf(&arena, STR_FMT "/" STR_FMT "/" STR_FMT, STR_ARG(driver),
                                STR_ARG(pool), STR_ARG(name));
    struct device *device = map_get(&devices->by_key, key);
    size_t id = devices->hole;

    if (device) {
        device->refs++;
        return device;
    }
    device = MEM_NEW(struct device);
    device->key = heap_str(key);
    device->driver = str_sub(device->key, 0, driver.len);
    device->pool = str_sub(device->key, driver.len + 1, pool.len);
    device->name = str_sub(device->key, driver.len + pool.len + 2, name.len);
    device->refs = 1;
    while (id < devices->all.count && devices->all.items[id])
        id++;
    if (id == devices->all.count)
        VEC_PUSH(NULL, &devices->all, device);
    devices->all.items[id] = device;
    device->id = (uint32_t)id;
    devices->hole = id + 1;
    answers_forget(devices, device->id);
    map_set(&devices->by_key, device->key, device);
    return device;
}

void device_unref(struct devices *devices, struct device *device)
{
    if (--device->refs)
        return;
    map_remove(&devices->by_key, device->key);
    devices->all.items[device->id] = NULL;
    if (device->id < devices->hole)
        devices->hole = device->id;
    heap_str_free(device->key);
    mem_free(device);
}

const struct json *device_attribute(const struct device *device, struct str name)
{
    const struct json *attributes = json_get(device->body, "attributes");
    const struct json *found = json_get_str(attributes, name);
    size_t slash = str_find(name, '/');

    if (!found && slash < name.len && str_eq(str_sub(name, 0, slash), device->driver))
        found = json_get_str(attributes, str_sub(name, slash + 1, name.len));
    return found;
}

bool device_is_gpu(const struct device *device)
{
    const struct json *type = json_get(json_at(device->body, "attributes"), "type");
    struct str word = json_str(json_get(type, "string"));

    return str_contains(device->driver, STR("gpu")) && (!word.len || str_is(word, "gpu"));
}

bool device_is_everywhere(const struct device *device)
{
    return device->slice &&
           (device->slice->everywhere ||
            (device->slice->each && json_bool_or(json_get(device->body, "allNodes"), false)));
}

static bool terms_reach(const struct node *node, const struct sched_node_term *terms, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (node_term_matches(node, &terms[i]))
            return true;
    return false;
}

bool device_reaches(const struct device *device, const struct node *node)
{
    const struct slice *slice = device->slice;

    if (!slice)
        return false;
    if (slice->node.len)
        return str_eq(slice->node, node->name);
    if (device_is_everywhere(device))
        return true;
    if (slice->each)
        return str_eq(json_str(json_get(device->body, "nodeName")), node->name);
    return terms_reach(node, slice->terms, slice->term_count);
}

static bool toleration_means(const struct json *toleration, const struct json *taint)
{
    struct str key = json_str(json_get(toleration, "key"));
    struct str effect = json_str(json_get(toleration, "effect"));
    bool exists = str_is(json_str(json_get(toleration, "operator")), "Exists");

    if (effect.len && !str_eq(effect, json_str(json_get(taint, "effect"))))
        return false;
    if (key.len && !str_eq(key, json_str(json_get(taint, "key"))))
        return false;
    return exists || (key.len && str_eq(json_str(json_get(toleration, "value")),
                                        json_str(json_get(taint, "value"))));
}

bool device_tolerated(const struct device *device, const struct json *tolerations)
{
    JSON_FOREACH(json_get(device->body, "taints"), taint) {
        struct str effect = json_str(json_get(taint, "effect"));
        bool tolerated = !str_is(effect, "NoSchedule") && !str_is(effect, "NoExecute");

        JSON_FOREACH(tolerations, toleration)
            tolerated = tolerated || toleration_means(toleration, taint);
        if (!tolerated)
            return false;
    }
    return true;
}

static int all_selected(struct selector *const *selectors,
                        size_t count,
                        const struct device *device,
                        bool *ret,
                        struct err *err)
{
    for (size_t i = 0; i < count && *ret; i++) {
        int r = selector_answer(selectors[i], device, ret, err);

        if (r < 0)
            return err_wrap(err, r, "selector #%zu on device " STR_FMT, i, STR_ARG(device->key));
    }
    return 0;
}

int device_selected(const struct devices *devices,
                    const struct device_choice *choice,
                    const struct device *device,
                    bool *ret,
                    struct err *err)
{
    const struct device_class *class = device_class_get(devices, choice->class);

    *ret = true;
    if (!class)
        return err_set(err, -EINVAL, "DeviceClass " STR_FMT " does not exist",
                       STR_ARG(choice->class));
    int r = all_selected(class->selectors, class->selector_count, device, ret, err);
    if (r < 0)
        return err_wrap(err, r, "DeviceClass " STR_FMT, STR_ARG(class->name));
    return all_selected(choice->selectors, choice->selector_count, device, ret, err);
}

/* ---- slices ---- */

static void slice_free(struct slice *slice)
{
    arena_done(&slice->arena);
    heap_str_free(slice->name);
    mem_free(slice);
}

/* Devices that were in it are nowhere until they are gathered again. */
static void slice_left(struct devices *devices, struct slice *slice)
{
    for (size_t i = 0; i < devices->all.count; i++) {
        struct device *device = devices->all.items[i];

        if (device && device->slice == slice) {
            device->slice = NULL;
            device->body = NULL;
        }
    }
    slice_free(slice);
}

void slice_put(struct devices *devices, struct str name, const struct json *spec)
{
    struct slice *slice = MEM_NEW(struct slice);

    slice->name = heap_str(name);
    slice->spec = json_clone(&slice->arena, spec);
    slice->node = json_str(json_get(slice->spec, "nodeName"));
    slice->everywhere = json_bool_or(json_get(slice->spec, "allNodes"), false);
    slice->each = json_bool_or(json_get(slice->spec, "perDeviceNodeSelection"), false);
    const struct json *terms = json_at(slice->spec, "nodeSelector.nodeSelectorTerms");
    struct sched_node_term *list =
        ARENA_ARRAY(&slice->arena, struct sched_node_term, json_count(terms) + 1);
    JSON_FOREACH(terms, item) {
        struct sched_node_term *to = &list[slice->term_count++];

        *to = (struct sched_node_term){0};
        to->labels =
            decode_expressions(&slice->arena, json_get(item, "matchExpressions"), &to->label_count);
        to->fields =
            decode_expressions(&slice->arena, json_get(item, "matchFields"), &to->field_count);
    }
    slice->terms = list;
    struct slice *old = map_set(&devices->slices, slice->name, slice);
    if (old)
        slice_left(devices, old);
    devices->dirty = true;
}

bool slice_drop(struct devices *devices, struct str name)
{
    struct slice *slice = map_remove(&devices->slices, name);

    if (!slice)
        return false;
    slice_left(devices, slice);
    devices->dirty = true;
    return true;
}

/* ---- which devices there are ---- */

/* What is known of a pool while its slices are gathered. */
struct pool_seen {
    int64_t generation;
    int64_t count; /* of slices that it says it has */
    int64_t there;
    bool twice; /* a device of it */
};

static struct pool_seen *pool_seen(struct arena *arena, struct map *pools, const struct json *spec)
{
    struct str key = str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(json_str_at(spec, "driver")),
                                STR_ARG(json_str_at(spec, "pool.name")));
    struct pool_seen *pool = map_get(pools, key);

    if (pool)
        return pool;
    pool = ARENA_NEW(arena, struct pool_seen);
    *pool = (struct pool_seen){.generation = -1};
    map_set(pools, key, pool);
    return pool;
}

static int by_slice_name(const void *a, const void *b)
{
    return str_cmp((*(struct slice *const *)a)->name, (*(struct slice *const *)b)->name);
}

/* Sorts that are not given: their drivers count parts, or answer only after the allocation. */
static bool is_given(const struct json *device)
{
    return !json_count(json_get(device, "consumesCounters")) &&
           !json_count(json_get(device, "bindingConditions")) &&
           !json_bool_or(json_get(device, "allowMultipleAllocations"), false);
}

/* A device, and the pool that it was found in. */
struct found {
    struct device *device;
    struct pool_seen *pool;
};
struct found_vec VEC_FIELDS(struct found);

static void slice_gathered(struct devices *devices,
                           struct slice *slice,
                           struct pool_seen *pool,
                           struct found_vec *ret)
{
    JSON_FOREACH(json_get(slice->spec, "devices"), body) {
        struct device *device =
            device_get(devices, json_str_at(slice->spec, "driver"),
                       json_str_at(slice->spec, "pool.name"), json_str(json_get(body, "name")));

        if (device->gathered == devices->mark) {
            pool->twice = true;
            device_unref(devices, device);
            continue;
        }
        if (device->body != body)
            answers_forget(devices, device->id);
        device->gathered = devices->mark;
        device->slice = slice;
        device->body = body;
        VEC_PUSH(NULL, ret, (struct found){device, pool});
    }
}

/* Puts a device where it can be used; one of a pool that is not whole is used nowhere. */
static void device_placed(struct sched *sched, struct found found)
{
    struct device *device = found.device;
    struct devices *devices = sched->devices;
    struct str name =
        device->slice->each ? json_str(json_get(device->body, "nodeName")) : device->slice->node;

    device->usable =
        is_given(device->body) && found.pool->there == found.pool->count && !found.pool->twice;
    if (!device->usable)
        return;
    if (!name.len) {
        VEC_PUSH(NULL, &devices->wide, device);
        return;
    }
    struct node *node = map_get(&sched->nodes_by_name, name);
    if (node)
        VEC_PUSH(NULL, &node->devices, device);
}

/* The slices that count, by name. */
static void slices_counted(struct devices *devices, struct arena *arena, struct found_vec *ret)
{
    struct map pools = {0};
    VEC(struct slice *) slices = {0};

    MAP_FOREACH(&devices->slices, entry) {
        struct slice *slice = entry->value;
        struct pool_seen *pool = pool_seen(arena, &pools, slice->spec);
        int64_t generation = json_i64_or(json_at(slice->spec, "pool.generation"), 0);

        VEC_PUSH(arena, &slices, slice);
        if (generation > pool->generation)
            *pool = (struct pool_seen){
                .generation = generation,
                .count = json_i64_or(json_at(slice->spec, "pool.resourceSliceCount"), 1)};
        pool->there += generation == pool->generation;
    }
    if (slices.count)
        qsort(slices.items, slices.count, sizeof(*slices.items), by_slice_name);
    for (size_t i = 0; i < slices.count; i++) {
        const struct json *spec = slices.items[i]->spec;
        struct pool_seen *pool = pool_seen(arena, &pools, spec);

        if (json_i64_or(json_at(spec, "pool.generation"), 0) == pool->generation)
            slice_gathered(devices, slices.items[i], pool, ret);
    }
    map_done(&pools);
}

void devices_gathered(struct sched *sched)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct devices *devices = sched->devices;
    struct found_vec found = {0};
    VEC(struct device *) before = {0};

    devices->dirty = false;
    devices->wide.count = 0;
    for (size_t i = 0; i < sched->nodes.count; i++)
        if (sched->nodes.items[i])
            sched->nodes.items[i]->devices.count = 0;
    for (size_t i = 0; i < devices->all.count; i++)
        if (devices->all.items[i] && devices->all.items[i]->gathered)
            VEC_PUSH(NULL, &before, devices->all.items[i]);
    devices->mark++;
    slices_counted(devices, &arena, &found);
    for (size_t i = 0; i < found.count; i++)
        device_placed(sched, found.items[i]);
    for (size_t i = 0; i < before.count; i++) {
        struct device *device = before.items[i];

        if (device->gathered != devices->mark) {
            device->gathered = 0;
            device->usable = false;
            device->slice = NULL;
            device->body = NULL;
        }
        device_unref(devices, device); /* of the last time */
    }
    VEC_DONE(&before);
    VEC_DONE(&found);
}

void devices_free(struct devices *devices)
{
    if (!devices)
        return;
    MAP_FOREACH(&devices->classes, entry)
        class_free(devices, entry->value);
    MAP_FOREACH(&devices->slices, entry)
        slice_free(entry->value);
    for (size_t i = 0; i < devices->all.count; i++)
        if (devices->all.items[i]) {
            heap_str_free(devices->all.items[i]->key);
            mem_free(devices->all.items[i]);
        }
    VEC_DONE(&devices->all);
    VEC_DONE(&devices->wide);
    map_done(&devices->by_key);
    map_done(&devices->slices);
    map_done(&devices->classes);
    map_done(&devices->selectors);
    mem_free(devices);
}
