#include "api/share.h"

#include "api/admit.h"
#include "api/gpu.h"
#include "api/names.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MICRO 1000000

/* A volume is named "<base>-<7>-shared-gpu-i<index>-vol" and may have NAMES_LABEL_MAX bytes: what
 * is left for the base with an index of two digits. */
#define SALT_DIGITS   7
#define NAME_REST     (sizeof("--shared-gpu-i99-vol") - 1 + SALT_DIGITS)
#define NAME_BASE_MAX (NAMES_LABEL_MAX - NAME_REST)

static struct json *annotation(const struct json *pod, const char *key)
{
    return json_get(json_at(pod, "metadata.annotations"), key);
}

bool share_wanted(const struct json *pod)
{
    return annotation(pod, GPU_ANNOTATION_FRACTION) ||
           annotation(pod, GPU_ANNOTATION_FRACTION_MEMORY);
}

int64_t share_micro(struct str text)
{
    struct quantity quantity;

    if (quantity_parse(text, &quantity, NULL) || quantity.nano < 0 ||
        quantity.nano > (__int128)INT64_MAX * 1000)
        return -1;
    /* However small, a share is one, and one below a whole device stays below it. */
    int64_t micro = (int64_t)((quantity.nano + 999) / 1000);
    return quantity.nano < (__int128)MICRO * 1000 && micro >= MICRO ? MICRO - 1 : micro;
}

/* ---- rules ---- */

static struct str field_of(struct admit *admit, const char *key)
{
    return str_printf(admit->arena, "metadata.annotations[%s]", key);
}

static void refuse(struct admit *admit, const char *key, const char *detail)
{
    admit_invalid(admit, field_of(admit, key), annotation(admit->object, key), detail);
}

static bool is_number(const struct json *value, int64_t min, int64_t max)
{
    int64_t number;

    return str_to_i64(json_str(value), &number) && number >= min && number <= max;
}

/* A container of the pod asks for a whole device. */
static bool has_whole(const struct json *pod)
{
    static const char *const lists[] = {"containers", "initContainers"};
    static const char *const parts[] = {"limits", "requests"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_get(json_get(pod, "spec"), lists[i]), container)
            for (size_t j = 0; j < 2; j++)
                JSON_FOREACH(json_get(json_get(container, "resources"), parts[j]), amount)
                    if (str_is(json_key(amount), GPU_RESOURCE) && !str_is(json_str(amount), "0") &&
                        json_i64_or(amount, 1) != 0)
                        return true;
    return false;
}

static void check_wish(struct admit *admit)
{
    const struct json *fraction = annotation(admit->object, GPU_ANNOTATION_FRACTION);
    const struct json *memory = annotation(admit->object, GPU_ANNOTATION_FRACTION_MEMORY);
    int64_t micro = share_micro(json_str(fraction));
    struct share_target target;

    if (fraction && (micro <= 0 || micro >= MICRO))
        refuse(admit, GPU_ANNOTATION_FRACTION, "must be a number between 0 and 1, such as \"0.5\"");
    if (memory && !is_number(memory, 1, INT64_MAX))
        refuse(admit, GPU_ANNOTATION_FRACTION_MEMORY, "must be a positive number of MiB");
    if (fraction && memory)
        admit_forbidden(admit, field_of(admit, GPU_ANNOTATION_FRACTION_MEMORY),
                        "gpu-fraction is set as well: set only one of them");
    if (has_whole(admit->object))
        admit_forbidden(
            admit,
            field_of(admit, fraction ? GPU_ANNOTATION_FRACTION : GPU_ANNOTATION_FRACTION_MEMORY),
            "a container asks for whole GPUs (" GPU_RESOURCE
            "): a pod uses fractional GPUs or whole GPUs, not both");
    if (json_count(json_at(admit->object, "spec.containers")) &&
        !share_find_target(admit->object, &target))
        refuse(admit, GPU_ANNOTATION_FRACTION_CONTAINER,
               "there is no container or init container of that name");
}

/* The first annotation of the wish that an update changes; NULL: it leaves the wish alone. */
static const char *changed_wish(const struct admit *admit)
{
    static const char *const keys[] = {GPU_ANNOTATION_FRACTION, GPU_ANNOTATION_FRACTION_MEMORY,
                                       GPU_ANNOTATION_FRACTION_DEVICES,
                                       GPU_ANNOTATION_FRACTION_CONTAINER, GPU_ANNOTATION_MPS};

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (!str_eq(json_str(annotation(admit->old, keys[i])),
                    json_str(annotation(admit->object, keys[i]))))
            return keys[i];
    return NULL;
}

void share_check(struct admit *admit)
{
    const struct json *devices = annotation(admit->object, GPU_ANNOTATION_FRACTION_DEVICES);
    bool wanted = share_wanted(admit->object);
    const char *changed = admit->old ? changed_wish(admit) : NULL;

    if (admit->old && !changed)
        return;
    if (admit->old && json_str_at(admit->old, "spec.nodeName").len) {
        admit_forbidden(admit, field_of(admit, changed),
                        "the pod has its node, and other pods may use the rest of the GPU: delete "
                        "the pod and create one with another share");
        return;
    }
    if (devices && !is_number(devices, 1, GPU_SHARE_DEVICES_MAX))
        refuse(admit, GPU_ANNOTATION_FRACTION_DEVICES, "must be a number from 1 to 16");
    if (devices && !wanted)
        admit_forbidden(admit, field_of(admit, GPU_ANNOTATION_FRACTION_DEVICES),
                        "also set gpu-fraction or gpu-memory");
    if (!wanted && str_is(json_str(annotation(admit->object, GPU_ANNOTATION_MPS)), "true"))
        admit_forbidden(admit, field_of(admit, GPU_ANNOTATION_MPS),
                        "also set gpu-fraction or gpu-memory");
    if (wanted)
        check_wish(admit);
}

/* ---- the container and its ConfigMaps ---- */

static bool find_in(const struct json *list, struct str name, size_t *ret)
{
    size_t index = 0;

    JSON_FOREACH(list, container) {
        if (str_eq(json_str(json_get(container, "name")), name)) {
            *ret = index;
            return true;
        }
        index++;
    }
    return false;
}

bool share_find_target(const struct json *pod, struct share_target *ret)
{
    const struct json *spec = json_get(pod, "spec");
    struct str name = json_str(annotation(pod, GPU_ANNOTATION_FRACTION_CONTAINER));

    *ret = (struct share_target){0};
    if (!name.len)
        return json_count(json_get(spec, "containers")) > 0;
    if (find_in(json_get(spec, "containers"), name, &ret->index))
        return true;
    ret->init = find_in(json_get(spec, "initContainers"), name, &ret->index);
    return ret->init;
}

struct str share_config_name(struct arena *arena, struct str prefix, struct share_target target)
{
    return str_printf(arena, STR_FMT "-%s%zu", STR_ARG(prefix), target.init ? "i" : "",
                      target.index);
}

struct str share_evar_name(struct arena *arena, struct str prefix, struct share_target target)
{
    return str_printf(arena, STR_FMT "-evar", STR_ARG(share_config_name(arena, prefix, target)));
}

/* "<owner or pod>-<7 of the salt>-shared-gpu", a DNS label with room for what is added to it. */
static struct str make_prefix(struct arena *arena, const struct json *pod, uint64_t salt)
{
    static const char digits[] = "bcdfghjklmnpqrstvwxz2456789";
    const struct json *meta = json_get(pod, "metadata");
    struct str owner = json_str_at(meta, "ownerReferences.0.name");
    struct str name = json_str(json_get(meta, "name"));
    struct str from = owner.len  ? owner
                      : name.len ? name
                                 : json_str(json_get(meta, "generateName"));
    char *base = str_c(arena, str_sub(from, 0, NAME_BASE_MAX));
    char text[SALT_DIGITS + 1] = "";
    size_t len = 0;

    for (; base[len]; len++)
        if (base[len] == '.')
            base[len] = '-';
    while (len && base[len - 1] == '-')
        len--;
    for (size_t i = 0; i < SALT_DIGITS; i++, salt /= sizeof(digits) - 1)
        text[i] = digits[salt % (sizeof(digits) - 1)];
    return str_printf(arena, "%.*s%s%s-shared-gpu", (int)len, base, len ? "-" : "pod-", text);
}

static struct json *named(struct arena *arena, struct json *list, struct str name)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(json_get(item, "name")), name))
            return NULL;
    struct json *item = json_push(list, json_new_object(arena));
    json_add_str(arena, item, "name", name);
    return item;
}

static struct json *list_of(struct arena *arena, struct json *object, const char *key)
{
    struct json *list = json_get(object, key);

    return json_is(list, JSON_ARRAY) ? list : json_add_array(arena, object, key);
}

/* The user's own value would win or lose by its place in the list: ours is the one that is true. */
static void add_variables(struct arena *arena, struct json *container, struct str config)
{
    static const char *const keys[] = {SHARE_VISIBLE, SHARE_PORTION, SHARE_GPUS};
    struct json *list = list_of(arena, container, "env");

    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct json *item = named(arena, list, str_from(keys[i]));

        JSON_FOREACH(list, same)
            if (!item && str_is(json_str(json_get(same, "name")), keys[i]))
                item = same;
        json_remove(item, STR("value"));
        json_fill(arena, item, "{valueFrom: {configMapKeyRef: {name: $, key: $}}}", config,
                  keys[i]);
    }
}

static void add_source(struct arena *arena, struct json *container, struct str evar)
{
    struct json *list = list_of(arena, container, "envFrom");

    JSON_FOREACH(list, item)
        if (str_eq(json_str_at(item, "configMapRef.name"), evar))
            return;
    json_push(list, json_make(arena, "{configMapRef: {name: $, optional: false}}", evar));
}

void share_mutate(struct arena *arena, struct json *pod, uint64_t salt)
{
    struct json *annotations = json_make_path(arena, pod, "metadata.annotations");
    struct json *spec = json_get(pod, "spec");
    struct str prefix = json_str(json_get(annotations, GPU_ANNOTATION_CONFIG));
    struct share_target target;

    if (!share_find_target(pod, &target))
        return;
    if (!prefix.len) {
        prefix = make_prefix(arena, pod, salt);
        json_add_str(arena, annotations, GPU_ANNOTATION_CONFIG, prefix);
    }
    struct str config = share_config_name(arena, prefix, target);
    struct json *container =
        json_index(json_get(spec, target.init ? "initContainers" : "containers"), target.index);
    add_variables(arena, container, config);
    add_source(arena, container, share_evar_name(arena, prefix, target));
    struct json *volume = named(arena, list_of(arena, spec, "volumes"),
                                str_printf(arena, STR_FMT "-vol", STR_ARG(config)));
    if (volume)
        json_add_str(arena, json_add_object(arena, volume, "configMap"), "name", config);
}
