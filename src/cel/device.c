#include "cel/device.h"

#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/estimate.h"
#include "cel/object.h"
#include "cel/shape.h"
#include "cel/value.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static const struct cel_variable variables[] = {{.name = "device", .type = CEL_MAP}};

int cel_device_compile(struct arena *arena,
                       struct str text,
                       struct cel_program **ret,
                       struct err *err)
{
    struct cel_program *program = NULL;

    if (text.len > CEL_DEVICE_TEXT_MAX)
        return err_set(err, -EINVAL, "the expression is longer than %d bytes", CEL_DEVICE_TEXT_MAX);
    int r = cel_compile(&(struct cel_compile){.arena = arena,
                                              .text = text,
                                              .variables = variables,
                                              .variable_count = 1,
                                              .fixed_zones = true},
                        &program, err);
    if (r < 0)
        return -EINVAL;
    if (program->result != CEL_BOOL && program->result != CEL_DYN)
        return err_set(err, -EINVAL, "must evaluate to bool or the unknown type, not " STR_FMT,
                       STR_ARG(cel_type_name(program->result)));
    *ret = program;
    return 0;
}

/* ---- what an expression may cost ---- */

/* As large as a ResourceSlice may have it. */
#define NAME_BYTES_MAX   32
#define VALUE_BYTES_MAX  64
#define DOMAIN_BYTES_MAX 63
#define MEMBERS_MAX      32

static const struct shape domain_shape = {.type = CEL_STRING, .max = DOMAIN_BYTES_MAX};
static const struct shape name_shape = {.type = CEL_STRING, .max = NAME_BYTES_MAX};
static const struct shape attribute_shape = {.type = CEL_DYN, .max = VALUE_BYTES_MAX};
static const struct shape quantity_shape = {.type = CEL_QUANTITY};
static const struct shape truth_shape = {.type = CEL_BOOL};
static const struct shape attributes_shape = {.type = CEL_MAP,
                                              .named = true,
                                              .max = MEMBERS_MAX,
                                              .key = &name_shape,
                                              .item = &attribute_shape};
static const struct shape capacities_shape = {.type = CEL_MAP,
                                              .max = MEMBERS_MAX,
                                              .key = &name_shape,
                                              .item = &quantity_shape};
static const struct shape all_attributes_shape = {.type = CEL_MAP,
                                                  .max = MEMBERS_MAX,
                                                  .key = &domain_shape,
                                                  .item = &attributes_shape};
static const struct shape all_capacities_shape = {.type = CEL_MAP,
                                                  .max = MEMBERS_MAX,
                                                  .key = &domain_shape,
                                                  .item = &capacities_shape};
static const struct shape_field device_fields[] = {/* sorted */
                                                   {STR("allowMultipleAllocations"), &truth_shape},
                                                   {STR("attributes"), &all_attributes_shape},
                                                   {STR("capacity"), &all_capacities_shape},
                                                   {STR("driver"), &domain_shape}};
static const struct shape device_shape = {.type = CEL_MAP,
                                          .object = true,
                                          .alone = true,
                                          .fields = device_fields,
                                          .field_count = COUNT_OF(device_fields)};

bool cel_device_is_too_complex(struct arena *arena, const struct cel_program *program)
{
    return cel_estimate(arena, program, &device_shape) > CEL_COST_MAX;
}

/* ---- a device as a value ---- */

static struct cel_value attribute_value(struct arena *arena, const struct json *attribute)
{
    const struct json *number = json_get(attribute, "int");
    const struct json *truth = json_get(attribute, "bool");
    const struct json *version = json_get(attribute, "version");

    if (!json_is_null(number))
        return cel_int(json_i64_or(number, 0));
    if (!json_is_null(truth))
        return cel_bool(json_bool_or(truth, false));
    if (!json_is_null(version))
        return object_semver(arena, json_str(version));
    return cel_string(json_str(json_get(attribute, "string")));
}

static struct cel_value capacity_value(struct arena *arena, const struct json *capacity)
{
    struct cel_quantity *quantity = ARENA_NEW(arena, struct cel_quantity);

    *quantity = (struct cel_quantity){0};
    if (quantity_parse_json(json_get(capacity, "value"), &quantity->amount, NULL) < 0)
        return cel_error(STR("is no quantity"));
    return (struct cel_value){.type = CEL_QUANTITY, .quantity = quantity};
}

/* "DOMAIN/NAME", or "NAME" of the driver's domain. */
static struct str name_cut(struct str full, struct str driver, struct str *ret_name)
{
    size_t slash = str_find(full, '/');

    *ret_name = slash < full.len ? str_sub(full, slash + 1, full.len) : full;
    return slash < full.len ? str_sub(full, 0, slash) : driver;
}

/* Members by their domain; each domain is gathered when its first member is met. */
static struct cel_value domains_of(struct arena *arena,
                                   const struct json *members,
                                   struct str driver,
                                   struct cel_value (*value_of)(struct arena *arena,
                                                                const struct json *value))
{
    size_t count = json_count(members);
    struct cel_entry *domains = ARENA_ARRAY(arena, struct cel_entry, count + 1);
    size_t domain_count = 0;
    struct str name = STR_NONE;

    JSON_FOREACH(members, member) {
        struct str domain = name_cut(json_key(member), driver, &name);
        struct cel_entry *entries = NULL;
        size_t entry_count = 0;
        bool known = false;

        for (size_t i = 0; i < domain_count; i++)
            known = known || str_eq(domains[i].key.s, domain);
        if (known)
            continue;
        entries = ARENA_ARRAY(arena, struct cel_entry, count);
        JSON_FOREACH(members, other)
            if (str_eq(name_cut(json_key(other), driver, &name), domain))
                entries[entry_count++] =
                    (struct cel_entry){cel_string(name), value_of(arena, other)};
        domains[domain_count++] =
            (struct cel_entry){cel_string(domain), cel_new_map(arena, entries, entry_count)};
    }
    struct cel_map *map = ARENA_NEW(arena, struct cel_map);
    *map = (struct cel_map){.entries = domains, .count = domain_count, .open = true};
    return (struct cel_value){.type = CEL_MAP, .map = map};
}

int cel_device_matches(const struct cel_program *program,
                       struct str driver,
                       const struct json *device,
                       bool *ret,
                       struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct cel_entry members[] = {
        {cel_string(STR("driver")), cel_string(driver)},
        {cel_string(STR("attributes")),
         domains_of(&arena, json_get(device, "attributes"), driver, attribute_value)},
        {cel_string(STR("capacity")),
         domains_of(&arena, json_get(device, "capacity"), driver, capacity_value)},
        {cel_string(STR("allowMultipleAllocations")),
         cel_bool(json_bool_or(json_get(device, "allowMultipleAllocations"), false))},
    };
    struct cel_value value = cel_new_map(&arena, members, 4);
    struct cel_result result = cel_evaluate(program, &arena, &value, CEL_COST_MAX);

    if (result.value.type == CEL_ERROR)
        return err_set(err, -EINVAL, "CEL runtime error: " STR_FMT, STR_ARG(result.value.s));
    if (result.value.type != CEL_BOOL)
        return err_set(err, -EINVAL, "CEL expression did not evaluate to a boolean but to " STR_FMT,
                       STR_ARG(cel_type_name(result.value.type)));
    *ret = result.value.truth;
    return 0;
}
