#include "api/admit.h"
#include "api/names.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of resource.k8s.io: devices, and claims of them. Whether an expression can be read is looked
 * at by the store, which has the language (store/selectors.h). */

#define REQUESTS_MAX      32
#define CHOICES_MAX       8
#define SELECTORS_MAX     32
#define DEVICES_MAX       128
#define CONSUMERS_MAX     256
#define EXPRESSION_BYTES  10240
#define ONE_OF_REQUEST    "must specify one of: `exactly`, `firstAvailable`"
#define ONE_OF_CONSTRAINT "must specify one of: `matchAttribute`, `distinctAttribute`"
#define ONE_OF_NODES \
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
#define IS_IMMUTABLE "field is immutable"
#define NO_ADMIN     "devices that others use are not given to a second one here; leave it out"
#define NO_CAPACITY  "parts of a device are not given here; leave it out"
#define NOT_GIVEN                                                                           \
    "it is not given to anybody here: devices with consumesCounters, bindingConditions or " \
    "allowMultipleAllocations are left out"

static struct str at_name(struct admit *admit, struct str path, const char *name)
{
    return str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), name);
}

static struct str at_index(struct admit *admit, struct str path, const char *name, size_t index)
{
    return str_printf(admit->arena, STR_FMT ".%s[%zu]", STR_ARG(path), name, index);
}

static bool is_said(const struct json *object, const char *key)
{
    return !json_is_null(json_get(object, key));
}

static void count_check(struct admit *admit, const struct json *list, struct str path, size_t most)
{
    if (json_count(list) > most)
        admit_invalid(
            admit, path, NULL,
            str_c(admit->arena, str_printf(admit->arena, "must have at most %zu items", most)));
}

static void selectors_check(struct admit *admit, const struct json *spec, struct str path)
{
    const struct json *list = json_get(spec, "selectors");
    size_t index = 0;

    count_check(admit, list, at_name(admit, path, "selectors"), SELECTORS_MAX);
    JSON_FOREACH(list, item) {
        struct str at = at_index(admit, path, "selectors", index++);
        const struct json *text = json_at(item, "cel.expression");

        if (!json_str(text).len)
            admit_required(admit, at_name(admit, at, "cel.expression"), "");
        else if (json_str(text).len > EXPRESSION_BYTES)
            admit_invalid(admit, at_name(admit, at, "cel.expression"), NULL,
                          "must be at most 10240 bytes");
    }
}

/* What `exactly` and each of `firstAvailable` say. */
static void wanted_check(struct admit *admit, const struct json *wanted, struct str path)
{
    struct str mode = json_str(json_get(wanted, "allocationMode"));
    const struct json *count = json_get(wanted, "count");

    admit_name_at(admit, wanted, path, "deviceClassName", names_dns_subdomain);
    selectors_check(admit, wanted, path);
    if (str_is(mode, "All")) {
        if (json_i64_or(count, 0))
            admit_invalid(admit, at_name(admit, path, "count"), count,
                          "must not be specified when allocationMode is 'All'");
    } else if (mode.len && !str_is(mode, "ExactCount")) {
        admit_unsupported(admit, at_name(admit, path, "allocationMode"),
                          json_get(wanted, "allocationMode"), "\"All\", \"ExactCount\"");
    } else if (json_i64_or(count, 1) < 1) {
        admit_invalid(admit, at_name(admit, path, "count"), count, "must be greater than zero");
    }
    if (json_bool_or(json_get(wanted, "adminAccess"), false))
        admit_forbidden(admit, at_name(admit, path, "adminAccess"), NO_ADMIN);
    if (json_count(json_at(wanted, "capacity.requests")))
        admit_forbidden(admit, at_name(admit, path, "capacity"), NO_CAPACITY);
}

static void request_check(struct admit *admit, const struct json *request, struct str path)
{
    const struct json *choices = json_get(request, "firstAvailable");
    struct admit_names names = admit_names(admit->arena, choices, "name");
    bool exactly = is_said(request, "exactly");
    size_t index = 0;

    admit_name_at(admit, request, path, "name", names_dns_label);
    if (exactly == (json_count(choices) > 0)) {
        admit_invalid(admit, path, NULL, ONE_OF_REQUEST);
        return;
    }
    if (exactly)
        wanted_check(admit, json_get(request, "exactly"), at_name(admit, path, "exactly"));
    count_check(admit, choices, at_name(admit, path, "firstAvailable"), CHOICES_MAX);
    JSON_FOREACH(choices, item) {
        struct str at = at_index(admit, path, "firstAvailable", index);

        admit_name_at(admit, item, at, "name", names_dns_label);
        if (names.again[index++])
            admit_duplicate(admit, at_name(admit, at, "name"), json_get(item, "name"));
        wanted_check(admit, item, at);
    }
}

/* "gpu", or "gpu/large" of a firstAvailable. */
static bool is_request(const struct json *requests, struct str named)
{
    JSON_FOREACH(requests, request) {
        struct str name = json_str(json_get(request, "name"));

        if (str_eq(name, named))
            return true;
        JSON_FOREACH(json_get(request, "firstAvailable"), choice) {
            struct str own = json_str(json_get(choice, "name"));

            if (named.len == name.len + 1 + own.len && str_starts(named, name) &&
                named.p[name.len] == '/' && str_eq(str_sub(named, name.len + 1, own.len), own))
                return true;
        }
    }
    return false;
}

static void constraint_check(struct admit *admit,
                             const struct json *constraint,
                             const struct json *requests,
                             struct str path)
{
    static const char *const kinds[] = {"matchAttribute", "distinctAttribute"};
    size_t index = 0;

    if (is_said(constraint, kinds[0]) == is_said(constraint, kinds[1]))
        admit_invalid(admit, path, NULL, ONE_OF_CONSTRAINT);
    for (size_t i = 0; i < 2; i++) {
        const struct json *name = json_get(constraint, kinds[i]);

        if (!json_is_null(name) &&
            (names_qualified(json_str(name)) || !str_contains(json_str(name), STR("/"))))
            admit_invalid(admit, at_name(admit, path, kinds[i]), name,
                          "must include a domain: example.com/name");
    }
    JSON_FOREACH(json_get(constraint, "requests"), item) {
        struct str at = at_index(admit, path, "requests", index++);

        if (!is_request(requests, json_str(item)))
            admit_invalid(admit, at, item, "must be the name of a request in the claim");
    }
}

static void devices_check(struct admit *admit, const struct json *spec, struct str path)
{
    const struct json *devices = json_get(spec, "devices");
    const struct json *requests = json_get(devices, "requests");
    const struct json *constraints = json_get(devices, "constraints");
    struct admit_names names = admit_names(admit->arena, requests, "name");
    struct str below = at_name(admit, path, "devices");
    size_t index = 0;

    count_check(admit, requests, at_name(admit, below, "requests"), REQUESTS_MAX);
    count_check(admit, constraints, at_name(admit, below, "constraints"), REQUESTS_MAX);
    JSON_FOREACH(requests, request) {
        struct str at = at_index(admit, below, "requests", index);

        request_check(admit, request, at);
        if (names.again[index++])
            admit_duplicate(admit, at_name(admit, at, "name"), json_get(request, "name"));
    }
    index = 0;
    JSON_FOREACH(constraints, constraint)
        constraint_check(admit, constraint, requests,
                         at_index(admit, below, "constraints", index++));
}

static void claim_status_check(struct admit *admit)
{
    const struct json *status = json_get(admit->object, "status");
    const struct json *allocation = json_get(status, "allocation");
    const struct json *before = json_at(admit->old, "status.allocation");
    const struct json *users = json_get(status, "reservedFor");
    struct admit_names uids = admit_names(admit->arena, users, "uid");
    size_t index = 0;

    if (!json_is_null(allocation) && !json_is_null(before) && !json_equal(allocation, before))
        admit_invalid(admit, STR("status.allocation"), NULL, IS_IMMUTABLE);
    if (json_count(users) && json_is_null(allocation))
        admit_forbidden(admit, STR("status.reservedFor"),
                        "may not be specified when `allocated` is not set");
    count_check(admit, users, STR("status.reservedFor"), CONSUMERS_MAX);
    JSON_FOREACH(users, user) {
        struct str at = at_index(admit, STR("status"), "reservedFor", index);

        admit_name_at(admit, user, at, "resource", names_path_segment);
        admit_name_at(admit, user, at, "name", names_path_segment);
        admit_name_at(admit, user, at, "uid", names_path_segment);
        if (uids.again[index++])
            admit_duplicate(admit, at_name(admit, at, "uid"), json_get(user, "uid"));
    }
}

void admit_claim_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");

    if (str_is(admit->subresource, "status"))
        claim_status_check(admit);
    else if (admit->old && !json_equal(spec, json_get(admit->old, "spec")))
        admit_invalid(admit, STR("spec"), NULL, IS_IMMUTABLE);
    else if (!admit->old)
        devices_check(admit, spec, STR("spec"));
}

void admit_claimtemplate_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");

    if (admit->old && !json_equal(spec, json_get(admit->old, "spec")))
        admit_invalid(admit, STR("spec"), NULL, IS_IMMUTABLE);
    else
        devices_check(admit, json_get(spec, "spec"), STR("spec.spec"));
}

void admit_deviceclass_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *name = json_get(spec, "extendedResourceName");

    selectors_check(admit, spec, STR("spec"));
    if (!json_is_null(name) &&
        (names_qualified(json_str(name)) || !str_contains(json_str(name), STR("/"))))
        admit_invalid(admit, STR("spec.extendedResourceName"), name,
                      "must include a domain: example.com/name");
}

static void device_check(struct admit *admit, const struct json *device, struct str path)
{
    static const char *const types[] = {"int", "bool", "string", "version"};

    admit_name_at(admit, device, path, "name", names_dns_label);
    JSON_FOREACH(json_get(device, "attributes"), attribute) {
        int said = 0;

        for (size_t i = 0; i < 4; i++)
            said += is_said(attribute, types[i]);
        if (said != 1)
            admit_invalid(admit,
                          str_printf(admit->arena, STR_FMT ".attributes[" STR_FMT "]",
                                     STR_ARG(path), STR_ARG(json_key(attribute))),
                          attribute, "exactly one value must be specified");
    }
    if (json_count(json_get(device, "consumesCounters")) ||
        json_count(json_get(device, "bindingConditions")) ||
        json_bool_or(json_get(device, "allowMultipleAllocations"), false))
        admit_warn(admit, str_printf(admit->arena, STR_FMT ": " NOT_GIVEN, STR_ARG(path)));
}

void admit_slice_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *pool = json_get(spec, "pool");
    const struct json *devices = json_get(spec, "devices");
    struct admit_names names = admit_names(admit->arena, devices, "name");
    int places = (json_str(json_get(spec, "nodeName")).len > 0) + is_said(spec, "nodeSelector") +
                 json_bool_or(json_get(spec, "allNodes"), false) +
                 json_bool_or(json_get(spec, "perDeviceNodeSelection"), false);
    size_t index = 0;

    admit_name_at(admit, spec, STR("spec"), "driver", names_dns_subdomain);
    if (!json_str(json_get(pool, "name")).len)
        admit_required(admit, STR("spec.pool.name"), "");
    if (json_i64_or(json_get(pool, "generation"), 0) < 0)
        admit_invalid(admit, STR("spec.pool.generation"), json_get(pool, "generation"),
                      "must be greater than or equal to zero");
    if (json_i64_or(json_get(pool, "resourceSliceCount"), 0) < 1)
        admit_invalid(admit, STR("spec.pool.resourceSliceCount"),
                      json_get(pool, "resourceSliceCount"), "must be greater than zero");
    if (places != 1)
        admit_invalid(admit, STR("spec"), NULL, ONE_OF_NODES);
    if (admit->old &&
        (!str_eq(json_str_at(admit->old, "spec.driver"), json_str_at(spec, "driver")) ||
         !str_eq(json_str_at(admit->old, "spec.nodeName"), json_str_at(spec, "nodeName")) ||
         !str_eq(json_str_at(admit->old, "spec.pool.name"), json_str_at(spec, "pool.name"))))
        admit_invalid(admit, STR("spec"), NULL, "driver, nodeName and pool.name are immutable");
    count_check(admit, devices, STR("spec.devices"), DEVICES_MAX);
    JSON_FOREACH(devices, device) {
        struct str at = at_index(admit, STR("spec"), "devices", index);

        device_check(admit, device, at);
        if (names.again[index++])
            admit_duplicate(admit, at_name(admit, at, "name"), json_get(device, "name"));
    }
}
