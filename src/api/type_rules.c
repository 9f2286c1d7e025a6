#include "api/admit.h"
#include "api/message_rules.h"
#include "api/names.h"
#include "api/schema.h"
#include "api/service.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the tables of types say of values is checked (types.h has the words). Rules that one field has
 * because of another, or of a kind, are code: admit_*.c. */

#define PORT_MAX 65535

/* ---- forms of texts: NULL, or what is wrong ---- */

static bool is_group(struct str part)
{
    for (size_t i = 0; i < part.len; i++) {
        char c = part.p[i];

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F'))
            return false;
    }
    return part.len && part.len <= 4;
}

/* Eight groups of hexadecimal digits; "::" stands once for those that are 0, and the last two may be
 * written as an IPv4 address. */
static bool is_address6(struct str text)
{
    bool gap = str_starts(text, STR("::"));
    struct str rest = gap ? str_sub(text, 2, text.len) : text;
    struct str part;
    size_t groups = 0;
    uint32_t four = 0;

    if (gap && !rest.len)
        return true;
    while (rest.p && str_cut(&rest, ':', &part)) {
        if (!part.len && !gap && groups && rest.p) {
            gap = true;
            if (!rest.len)
                break;
        } else if (!rest.p && service_address_parse(part, &four)) {
            groups += 2;
        } else if (is_group(part)) {
            groups++;
        } else {
            return false;
        }
    }
    return gap ? groups < 8 : groups == 8;
}

static bool is_address(struct str text)
{
    uint32_t four = 0;

    return service_address_parse(text, &four) || is_address6(text);
}

static const char *form_ip(struct str text)
{
    return is_address(text) ? NULL
                            : "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
}

#define END_FORM       "end"
#define SLICE_END_FORM "slice-end"

static const char *form_end(struct str text)
{
    return is_address(text) ? service_end_wrong(text) : form_ip(text);
}

static const char *form_cidr(struct str text)
{
    size_t slash = str_find(text, '/');
    struct str address = str_sub(text, 0, slash);
    uint64_t bits = 0;
    bool six = str_find(address, ':') < address.len;

    return slash < text.len && is_address(address) &&
                   str_to_u64(str_sub(text, slash + 1, text.len), &bits) && bits <= (six ? 128 : 32)
               ? NULL
               : "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
}

static bool steps_up(struct str path)
{
    struct str part;

    while (str_cut(&path, '/', &part))
        if (str_is(part, ".."))
            return true;
    return false;
}

static const char *form_relative(struct str text)
{
    return str_starts(text, STR("/")) ? "must be a relative path"
           : steps_up(text)           ? "must not contain '..'"
                                      : NULL;
}

static const char *form_absolute(struct str text)
{
    return str_starts(text, STR("/")) ? NULL : "must be an absolute path";
}

static const char *form_no_up(struct str text)
{
    return steps_up(text) ? "must not contain '..'" : NULL;
}

static const char *form_header(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '-')
            return "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. "
                   "'X-Header-Name')";
    }
    return text.len ? NULL : "must not be empty";
}

/* "25%" */
static const char *form_percent(struct str text)
{
    uint64_t number = 0;

    return text.len > 1 && text.p[text.len - 1] == '%' &&
                   str_to_u64(str_sub(text, 0, text.len - 1), &number)
               ? NULL
               : "a valid percent string must be a numeric string followed by an ending '%' (e.g. "
                 "'1%')";
}

/* Of what there is. */
static const char *form_share(struct str text)
{
    uint64_t number = 0;

    if (form_percent(text))
        return form_percent(text);
    (void)str_to_u64(str_sub(text, 0, text.len - 1), &number);
    return number > 100 ? "must not be greater than 100%" : NULL;
}

#define DRIVER_BYTES_MAX 63

/* The name of a driver, in letters of any case. */
static const char *form_driver(struct str text)
{
    char lower[DRIVER_BYTES_MAX];

    if (text.len > sizeof(lower))
        return "may not be more than 63 bytes";
    for (size_t i = 0; i < text.len; i++)
        lower[i] = text.p[i] >= 'A' && text.p[i] <= 'Z' ? (char)(text.p[i] | 0x20) : text.p[i];
    return names_dns_subdomain((struct str){lower, text.len});
}

/* "acme.io/foo" */
static const char *form_domain_path(struct str text)
{
    static const char others[] = "-._~!$&'()*+,;=:@%/";
    size_t slash = str_find(text, '/');

    if (slash + 1 >= text.len || names_dns_subdomain(str_sub(text, 0, slash)))
        return "must be a domain-prefixed path (such as \"acme.io/foo\")";
    for (size_t i = slash + 1; i < text.len; i++) {
        char c = text.p[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            !strchr(others, c))
            return "has a character that no path has";
    }
    return text.len > DRIVER_BYTES_MAX ? "may not be more than 63 bytes" : NULL;
}

/* A domain to look names up in: with underscores, and a dot at its end. */
static const char *form_search(struct str text)
{
    char plain[253];
    size_t len = text.len && text.p[text.len - 1] == '.' ? text.len - 1 : text.len;

    if (str_is(text, "."))
        return NULL;
    for (size_t i = 0; i < len && i < sizeof(plain); i++)
        plain[i] = text.p[i] == '_' && i && i + 1 < len ? '-' : text.p[i];
    return len > sizeof(plain) ? "must be no more than 253 characters"
                               : names_dns_subdomain((struct str){plain, len});
}

/* The name of a target of iSCSI. */
static const char *form_iscsi(struct str text)
{
    return str_starts(text, STR("iqn.")) || str_starts(text, STR("eui.")) ||
                   str_starts(text, STR("naa."))
               ? NULL
               : "must be valid format starting with iqn, eui, or naa";
}

/* The name of a kind: a label but for its capital letters. */
static const char *form_kind(struct str text)
{
    char lower[DRIVER_BYTES_MAX];

    if (text.len > sizeof(lower))
        return "must be no more than 63 characters";
    for (size_t i = 0; i < text.len; i++)
        lower[i] = text.p[i] >= 'A' && text.p[i] <= 'Z' ? (char)(text.p[i] | 0x20) : text.p[i];
    return names_dns_1035_label((struct str){lower, text.len})
               ? "may have mixed case, but should otherwise match a DNS-1035 label"
               : NULL;
}

/* "example.com", "*.example.com" */
static const char *form_host(struct str text)
{
    if (is_address(text))
        return "must be a DNS name, not an IP address";
    return names_dns_subdomain(str_starts(text, STR("*.")) ? str_sub(text, 2, text.len) : text);
}

/* "acme.io/foo", at most 250 characters */
static const char *form_controller(struct str text)
{
    const char *why = text.len > 250 ? "may not be more than 250 characters" : NULL;

    return why ? why : form_domain_path(text);
}

static const char *form_segment(struct str text)
{
    return text.len ? names_path_segment(text) : NULL;
}

static const struct form {
    const char *word;
    const char *(*wrong)(struct str text);
    int64_t max; /* of a number in the place of a text, which is `min` at least */
    int64_t min;
} forms[] = {
    {"label", names_dns_label, 0, 0},
    {"subdomain", names_dns_subdomain, 0, 0},
    {"service", names_dns_1035_label, 0, 0},
    {"qualified", names_qualified, 0, 0},
    {"value", names_label_value, 0, 0},
    {"segment", form_segment, 0, 0},
    {"config-key", names_config_key, 0, 0},
    {"port", names_port, PORT_MAX, 1},
    {"percent", form_percent, INT32_MAX, 0},
    {"share", form_share, INT32_MAX, 0},
    {"ip", form_ip, 0, 0},
    {END_FORM, form_end, 0, 0},
    {SLICE_END_FORM, service_end_wrong, 0, 0},
    {"cidr", form_cidr, 0, 0},
    {"relative", form_relative, 0, 0},
    {"absolute", form_absolute, 0, 0},
    {"no-up", form_no_up, 0, 0},
    {"header", form_header, 0, 0},
    {"driver", form_driver, 0, 0},
    {"domain-path", form_domain_path, 0, 0},
    {"search", form_search, 0, 0},
    {"iscsi", form_iscsi, 0, 0},
    {"kind", form_kind, 0, 0},
    {"host", form_host, 0, 0},
    {"controller", form_controller, 0, 0},
};

/* "label!" is the form label. */
static const struct form *form_of(const char *word)
{
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        size_t length = strlen(forms[i].word);

        if (strncmp(forms[i].word, word, length) == 0 && (!word[length] || word[length] == '!'))
            return &forms[i];
    }
    return NULL;
}

const char *type_form_wrong(const char *form, struct str text)
{
    const struct form *known = form_of(form);

    return known ? known->wrong(text) : NULL;
}

/* ---- values ---- */

/* Code that knows more has spoken already. */
static bool is_told(const struct admit *admit, struct str path)
{
    for (size_t i = 0; i < admit->causes.count; i++)
        if (str_eq(admit->causes.items[i].field, path))
            return true;
    return false;
}

static void wrong(struct admit *admit,
                  const struct schema_path *path,
                  const struct json *value,
                  const char *why)
{
    struct str text = schema_path_text(admit->arena, path);

    if (!is_told(admit, text))
        admit_invalid(admit, text, value, why);
}

static void missing(struct admit *admit, const struct schema_path *path, const char *why)
{
    struct str text = schema_path_text(admit->arena, path);

    if (!is_told(admit, text))
        admit_required(admit, text, why);
}

static void check_words(struct admit *admit,
                        const struct type_field *field,
                        const struct json *value,
                        const struct schema_path *path)
{
    struct str rest = str_from(field->words);
    struct str allowed = STR("");
    struct str word;

    while (str_cut(&rest, '|', &word)) {
        if (str_eq(word, json_str(value)))
            return;
        allowed = str_printf(admit->arena, STR_FMT "%s\"" STR_FMT "\"", STR_ARG(allowed),
                             allowed.len ? ", " : "", STR_ARG(word));
    }
    struct str text = schema_path_text(admit->arena, path);
    if (!is_told(admit, text))
        admit_unsupported(admit, text, value, str_c(admit->arena, allowed));
}

static void check_number(struct admit *admit,
                         const struct schema_path *path,
                         const struct json *value,
                         int64_t min,
                         int64_t max)
{
    int64_t number = 0;

    if (!json_i64(value, &number) || (number >= min && number <= max))
        return;
    bool both = min != INT64_MIN && max != INT64_MAX;
    struct str why =
        both ? str_printf(admit->arena, "must be between %lld and %lld, inclusive", (long long)min,
                          (long long)max)
             : str_printf(admit->arena, "must be %s than or equal to %lld",
                          number < min ? "greater" : "less", (long long)(number < min ? min : max));
    wrong(admit, path, value, str_c(admit->arena, why));
}

/* Where the server itself is found stands in default/kubernetes, and it listens on this machine alone
 * unless it is told otherwise. */
static bool is_servers_own(const struct admit *admit, const char *form)
{
    return (strcmp(form, END_FORM "!") == 0 || strcmp(form, SLICE_END_FORM) == 0) &&
           str_is(json_str_at(admit->object, "metadata.namespace"), "default") &&
           str_is(json_str_at(admit->object, "metadata.name"), "kubernetes");
}

static void check_form(struct admit *admit,
                       const struct type_field *field,
                       const struct json *value,
                       const struct schema_path *path)
{
    if (is_servers_own(admit, field->shape))
        return;
    const struct form *form = form_of(field->shape);

    if (form && json_is(value, JSON_STRING) && form->wrong(json_str(value)))
        wrong(admit, path, value, form->wrong(json_str(value)));
    else if (form && json_is(value, JSON_NUMBER))
        check_number(admit, path, value, form->min, form->max);
}

/* One value: a field's own, or an item of its list or map. */
static void check_value(struct admit *admit,
                        const struct type_field *field,
                        const struct json *value,
                        const struct schema_path *path)
{
    if (json_is(value, JSON_STRING) && field->words)
        check_words(admit, field, value, path);
    if (field->shape)
        check_form(admit, field, value, path);
    if (json_is(value, JSON_NUMBER))
        check_number(admit, path, value, field->min, field->max);
}

/* ---- messages ---- */

struct choice {
    size_t fields; /* that the message has to choose from */
    size_t there;
    bool hard;         /* TYPE_CHOICE */
    bool must;         /* each of the fields: of what is inline */
    const char *shape; /* of each of them, said or not; NULL: its own */
};

/* What is chosen; a second one is wrong where it stands, or the message as a whole is. */
static void choose(struct admit *admit,
                   const struct type_field *field,
                   const struct json *value,
                   const struct schema_path *where,
                   struct choice *choice)
{
    if (!(field->flags & (TYPE_EITHER | TYPE_CHOICE)))
        return;
    choice->fields++;
    choice->hard |= (field->flags & TYPE_CHOICE) != 0;
    if (json_is_null(value) || ++choice->there < 2)
        return;
    struct str text = schema_path_text(admit->arena, choice->hard ? where->up : where);
    if (is_told(admit, text))
        return;
    if (choice->hard)
        admit_invalid(admit, text, value, "may not have more than one field specified at a time");
    else
        admit_forbidden(admit, text, "may not specify more than 1 of its kind");
}

static bool is_never_empty(const struct type_field *field)
{
    return field->words || (field->shape && strchr(field->shape, '!'));
}

static bool says_nothing(const struct json *value)
{
    switch (value ? value->type : JSON_NULL) {
    case JSON_NULL: return true;
    case JSON_STRING: return !json_str(value).len;
    case JSON_NUMBER: return json_i64_or(value, 1) == 0;
    case JSON_ARRAY: return !json_count(value);
    case JSON_BOOL:
    case JSON_OBJECT: break;
    }
    return false;
}

static void check_message(struct admit *admit,
                          const struct type *type,
                          const struct json *object,
                          const struct json *old,
                          const struct schema_path *path);

/* What is below a field: messages, or what stands in a list or map. */
// NOLINTNEXTLINE(misc-no-recursion)
static void check_inside(struct admit *admit,
                         const struct type_field *field,
                         const struct json *value,
                         const struct json *old,
                         const struct schema_path *path)
{
    bool many = field->flags & (TYPE_LIST | TYPE_MAP);
    struct schema_path where = {.up = path, .key = (field->flags & TYPE_MAP) != 0};
    bool whole = field->form == TYPE_MESSAGE && !field->type->bare;

    if (!many) {
        if (whole && json_is(value, JSON_OBJECT))
            check_message(admit, field->type, value, old, path);
        else if (!whole &&
                 (is_never_empty(field) || !says_nothing(value) || !json_is(value, JSON_STRING)))
            check_value(admit, field, value, path); /* an empty text is none */
        return;
    }
    JSON_FOREACH(value, item) {
        const struct json *entry = item;

        where.name = json_key(item);
        if (json_is_null(item) && field->form == TYPE_STRING)
            entry = json_new_str(admit->arena, STR("")); /* as Go reads it */
        if (whole && (json_is(item, JSON_OBJECT) || json_is_null(item)))
            check_message(admit, field->type, item, NULL, &where);
        else if (!whole)
            check_value(admit, field, entry, &where);
        where.index++;
    }
}

/* A struct of Go has it all the same, with nothing in it. */
// NOLINTNEXTLINE(misc-no-recursion)
static void check_absent(struct admit *admit,
                         const struct type_field *field,
                         const struct schema_path *path)
{
    if (!(field->flags & (TYPE_REQUIRED | TYPE_ALWAYS)) || (field->flags & (TYPE_LIST | TYPE_MAP)))
        return;
    if (field->form == TYPE_MESSAGE)
        check_message(admit, field->type, NULL, NULL, path);
    else if (is_never_empty(field) && !field->initial)
        check_value(admit, field, json_new_str(admit->arena, STR("")), path);
    else if (field->form == TYPE_INT32 || field->form == TYPE_INT64)
        check_number(admit, path, json_new_i64(admit->arena, 0), field->min, field->max);
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_fields(struct admit *admit,
                         const struct type *type,
                         const struct json *object,
                         const struct json *old,
                         const struct schema_path *path,
                         struct choice *choice)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct type_field *field = &type->fields[i];
        struct type_field as; /* the field by the shape of what it is inline in */
        struct schema_path where = {.up = path, .name = str_from(field->name)};
        const struct json *value = json_get(object, field->name);
        const struct json *before = json_get(old, field->name);

        if (admit_is_full(admit))
            return;
        if (field->flags & TYPE_INLINE) {
            choice->must = (field->flags & TYPE_MUST) != 0;
            choice->shape = field->shape;
            check_fields(admit, field->type, object, old, path, choice);
            choice->must = false;
            choice->shape = NULL;
            continue;
        }
        if (!path && (str_is(where.name, "status") || str_is(where.name, "metadata")))
            continue;
        if (choice->shape) {
            as = *field;
            as.shape = choice->shape;
            as.flags |= TYPE_REQUIRED;
            field = &as;
        }
        choose(admit, field, value, &where, choice);
        if (old && (value ? before && json_equal(value, before) : !before))
            continue;
        if ((choice->must || (field->flags & TYPE_MUST) ||
             (!json_is_null(value) && (field->flags & TYPE_SAID))) &&
            says_nothing(value))
            missing(admit, &where, "");
        else if (json_is_null(value))
            check_absent(admit, field, &where);
        else
            check_inside(admit, field, value, before, &where);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void check_message(struct admit *admit,
                          const struct type *type,
                          const struct json *object,
                          const struct json *old,
                          const struct schema_path *path)
{
    struct choice choice = {0};

    message_rules(admit, type, object, path);
    check_fields(admit, type, object, old, path, &choice);
    if (!choice.fields || choice.there)
        return;
    if (choice.hard)
        wrong(admit, path, object, "must specify one of its fields");
    else
        missing(admit, path, "must specify one of its kinds");
}

void type_check(struct admit *admit,
                const struct type *type,
                const struct json *object,
                const struct json *old)
{
    check_message(admit, type, object, old, NULL);
}
