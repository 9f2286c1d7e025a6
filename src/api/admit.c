#include "api/admit.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

/* The causes, in Kubernetes' words. Which rules there are for which kind: admit_rules.c. */

static void add(struct admit *admit, struct str field, const char *reason, struct str message)
{
    if (admit_is_full(admit))
        return;
    VEC_PUSH(admit->arena, &admit->causes,
             (struct api_cause){.field = str_dup(admit->arena, field),
                                .reason = str_from(reason),
                                .message = message});
}

void admit_required(struct admit *admit, struct str field, const char *detail)
{
    add(admit, field, "FieldValueRequired",
        detail && detail[0] ? str_printf(admit->arena, "Required value: %s", detail)
                            : STR("Required value"));
}

void admit_invalid(struct admit *admit,
                   struct str field,
                   const struct json *value,
                   const char *detail)
{
    if (admit_is_full(admit))
        return;
    struct str text = value ? str_sub(json_text(admit->arena, value), 0, 200) : STR("null");

    add(admit, field, "FieldValueInvalid",
        str_printf(admit->arena, "Invalid value: " STR_FMT ": %s", STR_ARG(text), detail));
}

void admit_name_at(struct admit *admit,
                   const struct json *object,
                   struct str path,
                   const char *key,
                   const char *(*wrong)(struct str text))
{
    const struct json *name = json_get(object, key);
    struct str field = str_printf(admit->arena, STR_FMT ".%s", STR_ARG(path), key);

    if (!json_str(name).len)
        admit_required(admit, field, "");
    else if (wrong(json_str(name)))
        admit_invalid(admit, field, name, wrong(json_str(name)));
}

void admit_forbidden(struct admit *admit, struct str field, const char *detail)
{
    add(admit, field, "FieldValueForbidden", str_printf(admit->arena, "Forbidden: %s", detail));
}

void admit_unsupported(struct admit *admit,
                       struct str field,
                       const struct json *value,
                       const char *allowed)
{
    if (admit_is_full(admit))
        return;
    struct str text = str_sub(json_text(admit->arena, value), 0, 200);

    add(admit, field, "FieldValueNotSupported",
        str_printf(admit->arena, "Unsupported value: " STR_FMT ": supported values: %s",
                   STR_ARG(text), allowed));
}

void admit_warn(struct admit *admit, struct str text)
{
    if (admit->warnings.len >= ADMIT_WARNINGS_BYTES_MAX)
        return;
    admit->warnings = str_printf(admit->arena, STR_FMT "%s" STR_FMT, STR_ARG(admit->warnings),
                                 admit->warnings.len ? "\n" : "", STR_ARG(text));
}

void admit_duplicate(struct admit *admit, struct str field, const struct json *value)
{
    if (admit_is_full(admit))
        return;
    struct str text = str_sub(json_text(admit->arena, value), 0, 200);

    add(admit, field, "FieldValueDuplicate",
        str_printf(admit->arena, "Duplicate value: " STR_FMT, STR_ARG(text)));
}

void admit_not_found(struct admit *admit,
                     struct str field,
                     const struct json *value,
                     const char *why)
{
    struct str text = str_sub(json_text(admit->arena, value), 0, 200);

    add(admit, field, "FieldValueNotFound",
        str_printf(admit->arena, "Not found: " STR_FMT ": %s", STR_ARG(text), why));
}

void admit_too_many(struct admit *admit, struct str field, size_t count, size_t max)
{
    add(admit, field, "FieldValueTooMany",
        str_printf(admit->arena, "Too many: %zu: must have at most %zu items", count, max));
}

void admit_too_long(struct admit *admit, struct str field, size_t max)
{
    add(admit, field, "FieldValueTooLong",
        str_printf(admit->arena, "Too long: may not be more than %zu bytes", max));
}

void admit_fill_c(struct admit *admit, struct json *object, const char *key, const char *text)
{
    if (json_is_null(json_get(object, key)))
        json_add_c(admit->arena, object, key, text);
}

void admit_fill_i64(struct admit *admit, struct json *object, const char *key, int64_t number)
{
    if (json_is_null(json_get(object, key)))
        json_add_i64(admit->arena, object, key, number);
}
