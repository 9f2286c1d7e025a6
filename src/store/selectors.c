#include "store/selectors.h"

#include "api/admit.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/device.h"

#include <stddef.h>

static void list_check(struct admit *admit, const struct json *list, struct str path)
{
    size_t index = 0;

    JSON_FOREACH(list, item) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *text = json_at(item, "cel.expression");
        struct cel_program *program = NULL;
        struct err err = {0};
        struct str at = str_printf(admit->arena, STR_FMT ".selectors[%zu].cel.expression",
                                   STR_ARG(path), index++);

        if (!json_str(text).len || json_str(text).len > CEL_DEVICE_TEXT_MAX)
            continue;
        if (cel_device_compile(&arena, json_str(text), &program, &err) < 0)
            admit_invalid(admit, at, text, str_c(admit->arena, str_from(err.text)));
        else if (cel_device_is_too_complex(&arena, program))
            admit_forbidden(admit, at, "too complex, exceeds cost limit");
    }
}

static void requests_check(struct admit *admit, const struct json *devices, const char *path)
{
    size_t index = 0;

    JSON_FOREACH(json_get(devices, "requests"), request) {
        struct str at = str_printf(admit->arena, "%s.devices.requests[%zu]", path, index++);
        size_t choice = 0;

        list_check(admit, json_at(request, "exactly.selectors"),
                   str_printf(admit->arena, STR_FMT ".exactly", STR_ARG(at)));
        JSON_FOREACH(json_get(request, "firstAvailable"), item)
            list_check(
                admit, json_get(item, "selectors"),
                str_printf(admit->arena, STR_FMT ".firstAvailable[%zu]", STR_ARG(at), choice++));
    }
}

void selectors_check(struct admit *admit)
{
    if (admit->kind == &kind_deviceclass)
        list_check(admit, json_at(admit->object, "spec.selectors"), STR("spec"));
    else if (admit->kind == &kind_resourceclaim && !admit->old)
        requests_check(admit, json_at(admit->object, "spec.devices"), "spec");
    else if (admit->kind == &kind_claimtemplate && !admit->old)
        requests_check(admit, json_at(admit->object, "spec.spec.devices"), "spec.spec");
}
