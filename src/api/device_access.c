#include "api/device_access.h"

#include "api/admit.h"
#include "api/gpu.h"
#include "api/quantity.h"
#include "api/share.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

#define MIG_PREFIX "nvidia.com/mig-"

static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};

/* Whether the container at this place gets the pod's share of a device. */
static bool is_shared(const struct json *pod, size_t list, size_t index)
{
    struct share_target target;

    return list < 2 && share_wanted(pod) && share_find_target(pod, &target) &&
           target.init == (list == 1) && target.index == index;
}

static bool asks_for_devices(const struct json *container)
{
    static const char *const members[] = {"resources.requests", "resources.limits"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(container, members[i]), amount) {
            struct str name = json_key(amount);
            struct quantity quantity = {0};

            (void)quantity_parse_json(amount, &quantity, NULL);
            if ((str_is(name, GPU_RESOURCE) || str_starts(name, STR(MIG_PREFIX))) &&
                quantity.nano > 0) /* "0m" is nothing, too */
                return true;
        }
    return false;
}

static void see_nothing(struct arena *arena, struct json *container)
{
    struct json *env = json_get(container, "env");
    struct json *variable = NULL;

    if (!json_is(env, JSON_ARRAY))
        env = json_add_array(arena, container, "env");
    JSON_FOREACH(env, each)
        if (str_is(json_str(json_get(each, "name")), SHARE_VISIBLE))
            variable = each;
    if (!variable) {
        variable = json_push(env, json_new_object(arena));
        json_add_c(arena, variable, "name", SHARE_VISIBLE);
    }
    json_remove(variable, STR("valueFrom"));
    json_add_c(arena, variable, "value", "void");
}

void device_access_mutate(struct arena *arena, struct json *pod)
{
    for (size_t list = 0; list < COUNT_OF(lists); list++) {
        size_t index = 0;

        JSON_FOREACH(json_get(json_get(pod, "spec"), lists[list]), container) {
            if (!is_shared(pod, list, index++) && !asks_for_devices(container))
                see_nothing(arena, container);
        }
    }
}

static void check_container(struct admit *admit, const struct json *container, struct str path)
{
    size_t index = 0;

    JSON_FOREACH(json_get(container, "env"), each) {
        struct str value = json_str(json_get(each, "value"));
        struct str field = str_printf(admit->arena, STR_FMT ".env[%zu]", STR_ARG(path), index++);

        if (!str_is(json_str(json_get(each, "name")), SHARE_VISIBLE))
            continue;
        if (!json_is_null(json_get(each, "valueFrom")))
            admit_forbidden(admit, field,
                            SHARE_VISIBLE " cannot come from elsewhere: a container sees the "
                                          "devices it asks for");
        else if (value.len && !str_is(value, "void") && !str_is(value, "none"))
            admit_forbidden(admit, field,
                            SHARE_VISIBLE " can only be void or none: a container sees the "
                                          "devices it asks for");
    }
}

void device_access_check(struct admit *admit)
{
    for (size_t list = 0; list < COUNT_OF(lists); list++) {
        size_t index = 0;

        JSON_FOREACH(json_get(json_get(admit->object, "spec"), lists[list]), container) {
            if (!is_shared(admit->object, list, index))
                check_container(admit, container,
                                str_printf(admit->arena, "spec.%s[%zu]", lists[list], index));
            index++;
        }
    }
}
