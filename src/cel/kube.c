#include "api/names.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cel/moment.h"
#include "cel/object.h"
#include "cel/run.h"
#include "cel/text.h"
#include "cel/url.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* quantity(), semver() and the named formats. */

#define NANO 1000000000

/* ---- quantities ---- */

static struct cel_value new_quantity(struct cel_run *run, struct quantity amount)
{
    struct cel_quantity *quantity = ARENA_NEW(run->arena, struct cel_quantity);

    if (amount.nano > (__int128)INT64_MAX * NANO || amount.nano < -(__int128)INT64_MAX * NANO)
        return cel_error(STR("quantity overflow"));
    quantity->amount = amount;
    return (struct cel_value){.type = CEL_QUANTITY, .quantity = quantity};
}

static struct cel_value fn_quantity(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct quantity amount = {0};

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len))
        return run->stopped;
    return quantity_parse(args[0].s, &amount, NULL) == 0
               ? new_quantity(run, amount)
               : cel_error(STR("quantities must match the regular expression "
                               "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"));
}

static struct cel_value fn_is_quantity(struct cel_run *run,
                                       const struct cel_value *args,
                                       size_t count)
{
    struct quantity amount = {0};

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    return run_charge_text(run, args[0].s.len)
               ? cel_bool(quantity_parse(args[0].s, &amount, NULL) == 0)
               : run->stopped;
}

static struct cel_value fn_sign(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    if (args[0].type != CEL_QUANTITY)
        return run_no_overload();
    __int128 nano = args[0].quantity->amount.nano;
    return cel_int(nano < 0 ? -1 : nano > 0);
}

static struct cel_value fn_is_integer(struct cel_run *run,
                                      const struct cel_value *args,
                                      size_t count)
{
    (void)run;
    (void)count;
    return args[0].type == CEL_QUANTITY ? cel_bool(args[0].quantity->amount.nano % NANO == 0)
                                        : run_no_overload();
}

static struct cel_value fn_as_integer(struct cel_run *run,
                                      const struct cel_value *args,
                                      size_t count)
{
    (void)run;
    (void)count;
    if (args[0].type != CEL_QUANTITY)
        return run_no_overload();
    __int128 nano = args[0].quantity->amount.nano;
    return nano % NANO ? cel_error(STR("cannot convert value to integer"))
                       : cel_int((int64_t)(nano / NANO));
}

static struct cel_value fn_as_float(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    if (args[0].type != CEL_QUANTITY)
        return run_no_overload();
    __int128 nano = args[0].quantity->amount.nano;
    return cel_double((double)(int64_t)(nano / NANO) + (double)(int64_t)(nano % NANO) / NANO);
}

static struct cel_value quantity_sum(struct cel_run *run, const struct cel_value *args, int sign)
{
    __int128 other = 0;

    if (args[0].type != CEL_QUANTITY)
        return run_no_overload();
    if (args[1].type == CEL_QUANTITY)
        other = args[1].quantity->amount.nano;
    else if (args[1].type == CEL_INT)
        other = (__int128)args[1].i * NANO;
    else
        return run_no_overload();
    return new_quantity(run, (struct quantity){.nano = args[0].quantity->amount.nano + sign * other,
                                               .format = args[0].quantity->amount.format});
}

static struct cel_value fn_add(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return quantity_sum(run, args, 1);
}

static struct cel_value fn_sub(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return quantity_sum(run, args, -1);
}

/* ---- versions ---- */

/* Letters, digits and dashes between dots; a number has no zero in front where `strict`. */
static bool is_version_tail(struct str text, bool strict)
{
    struct str part = STR_NONE;

    while (str_cut(&text, '.', &part)) {
        bool digits = true;

        for (size_t i = 0; i < part.len; i++) {
            char c = part.p[i];
            bool digit = c >= '0' && c <= '9';
            char lower = (char)(c | 0x20);

            if (!digit && c != '-' && !(lower >= 'a' && lower <= 'z'))
                return false;
            digits &= digit;
        }
        if (!part.len || (strict && digits && part.len > 1 && part.p[0] == '0'))
            return false;
    }
    return true;
}

static bool version_number(struct str text, bool normalize, uint64_t *ret)
{
    if (!normalize && text.len > 1 && text.p[0] == '0')
        return false;
    return str_to_u64(text, ret);
}

static bool parse_semver(struct str text, bool normalize, struct cel_semver *ret)
{
    uint64_t numbers[3] = {0};
    size_t count = 0;
    struct str part = STR_NONE;

    if (normalize && str_starts(text, STR("v")))
        text = str_sub(text, 1, text.len);
    size_t plus = str_find(text, '+');
    bool built = plus < text.len;
    if (built && !is_version_tail(str_sub(text, plus + 1, text.len), false))
        return false;
    text = str_sub(text, 0, plus);
    size_t dash = str_find(text, '-');
    struct str before = dash < text.len ? str_sub(text, dash + 1, text.len) : STR_NONE;
    if (before.p && !is_version_tail(before, true))
        return false;
    text = str_sub(text, 0, dash);
    for (struct str rest = text; str_cut(&rest, '.', &part); count++)
        if (count == 3 || !version_number(part, normalize, &numbers[count]))
            return false;
    /* A short one has nothing behind its numbers. */
    if (count < 3 && (!normalize || before.p || built))
        return false;
    *ret = (struct cel_semver){numbers[0], numbers[1], numbers[2], before};
    return true;
}

static struct cel_value new_semver(struct arena *arena, struct str text, bool normalize)
{
    struct cel_semver *semver = ARENA_NEW(arena, struct cel_semver);

    if (!parse_semver(text, normalize, semver))
        return cel_error(str_printf(arena, "\"" STR_FMT "\" is no semantic version",
                                    STR_ARG(str_sub(text, 0, 100))));
    return (struct cel_value){.type = CEL_SEMVER, .semver = semver};
}

struct cel_value object_semver(struct arena *arena, struct str text)
{
    return new_semver(arena, text, false);
}

static bool semver_arguments(const struct cel_value *args, size_t count, bool *ret_normalize)
{
    *ret_normalize = count == 2 && cel_is_true(args[1]);
    return args[0].type == CEL_STRING && (count == 1 || args[1].type == CEL_BOOL);
}

static struct cel_value fn_semver(struct cel_run *run, const struct cel_value *args, size_t count)
{
    bool normalize = false;

    if (!semver_arguments(args, count, &normalize))
        return run_no_overload();
    return run_charge_text(run, args[0].s.len) ? new_semver(run->arena, args[0].s, normalize)
                                               : run->stopped;
}

static struct cel_value fn_is_semver(struct cel_run *run,
                                     const struct cel_value *args,
                                     size_t count)
{
    struct cel_semver semver = {0};
    bool normalize = false;

    if (!semver_arguments(args, count, &normalize))
        return run_no_overload();
    return run_charge_text(run, args[0].s.len)
               ? cel_bool(parse_semver(args[0].s, normalize, &semver))
               : run->stopped;
}

#define VERSION_FUNCTION(id, part)                                                              \
    static struct cel_value id(struct cel_run *run, const struct cel_value *args, size_t count) \
    {                                                                                           \
        (void)run;                                                                              \
        (void)count;                                                                            \
        return args[0].type == CEL_SEMVER ? cel_int((int64_t)args[0].semver->part)              \
                                          : run_no_overload();                                  \
    }
VERSION_FUNCTION(fn_major, major)
VERSION_FUNCTION(fn_minor, minor)
VERSION_FUNCTION(fn_patch, patch)

/* Quantities and versions compare by the same names. */
static struct cel_value fn_compare(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    if (args[0].type != args[1].type)
        return run_no_overload();
    if (args[0].type == CEL_QUANTITY)
        return cel_int(quantity_cmp(args[0].quantity->amount, args[1].quantity->amount));
    return args[0].type == CEL_SEMVER
               ? cel_int(object_semver_compare(args[0].semver, args[1].semver))
               : run_no_overload();
}

static struct cel_value fn_greater(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value order = fn_compare(run, args, count);

    return order.type == CEL_ERROR ? order : cel_bool(order.i > 0);
}

static struct cel_value fn_less(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value order = fn_compare(run, args, count);

    return order.type == CEL_ERROR ? order : cel_bool(order.i < 0);
}

/* ---- named formats ---- */

static const char *format_uuid(struct str text)
{
    static const char dashes[] = {8, 12, 16, 20}; /* digits before each */
    size_t digits = 0;

    for (size_t i = 0; i < text.len; i++) {
        bool place = memchr(dashes, (int)digits, sizeof(dashes)) && text.p[i - 1] != '-';

        if (text_hex(text.p[i]) >= 0)
            digits++;
        else if (text.p[i] != '-' || !place)
            return "does not match the UUID format";
    }
    return digits == 32 ? NULL : "does not match the UUID format";
}

static const char *format_byte(struct str text)
{
    struct arena arena = {0};
    struct str out = STR_NONE;
    bool good = base64_decode(&arena, text, &out);

    arena_done(&arena);
    return good ? NULL : "invalid base64";
}

static const char *format_date(struct str text)
{
    struct cel_value moment = {0};

    return text.len == 10 && moment_parse(text, &moment) ? NULL : "invalid date";
}

static const char *format_datetime(struct str text)
{
    struct cel_value moment = {0};

    return text.len > 10 && moment_parse(text, &moment) ? NULL : "invalid datetime";
}

static const char *format_uri(struct str text)
{
    return url_is(text) ? NULL : "invalid URI";
}

/* A prefix of a name may end with a dash, which the name then does not end with: what stands before
 * it is seen as a letter, as in Kubernetes. */
static const char *check_prefix(struct str text, const char *(*check)(struct str text))
{
    char name[NAMES_SUBDOMAIN_MAX + 1];

    if (text.len < 2 || text.len > sizeof(name) || text.p[text.len - 1] != '-')
        return check(text);
    memcpy(name, text.p, text.len);
    name[text.len - 2] = 'a';
    return check((struct str){name, text.len - 1});
}

static const char *format_label_prefix(struct str text)
{
    return check_prefix(text, names_dns_label);
}

static const char *format_subdomain_prefix(struct str text)
{
    return check_prefix(text, names_dns_subdomain);
}

static const char *format_1035_prefix(struct str text)
{
    return check_prefix(text, names_dns_1035_label);
}

static const struct {
    const char *name;
    const char *(*check)(struct str text);
} formats[] = {
    {"dns1123Label", names_dns_label},
    {"dns1123Subdomain", names_dns_subdomain},
    {"dns1035Label", names_dns_1035_label},
    {"qualifiedName", names_qualified},
    {"dns1123LabelPrefix", format_label_prefix},
    {"dns1123SubdomainPrefix", format_subdomain_prefix},
    {"dns1035LabelPrefix", format_1035_prefix},
    {"labelValue", names_label_value},
    {"uri", format_uri},
    {"uuid", format_uuid},
    {"byte", format_byte},
    {"date", format_date},
    {"datetime", format_datetime},
};

static struct cel_value fn_named(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (str_is(args[0].s, formats[i].name))
            return cel_new_optional(
                run->arena, (struct cel_value){.type = CEL_FORMAT, .s = str_from(formats[i].name)});
    return (struct cel_value){.type = CEL_OPTIONAL};
}

static struct cel_value fn_validate(struct cel_run *run, const struct cel_value *args, size_t count)
{
    const char *words = NULL;

    (void)count;
    if (args[0].type != CEL_FORMAT || args[1].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, args[1].s.len * 10))
        return run->stopped;
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (str_is(args[0].s, formats[i].name))
            words = formats[i].check(args[1].s);
    if (!words)
        return (struct cel_value){.type = CEL_OPTIONAL};
    struct cel_value *items = ARENA_ARRAY(run->arena, struct cel_value, 1);
    items[0] = cel_string(str_from(words));
    return cel_new_optional(run->arena, cel_new_list(run->arena, items, 1));
}

#define FORMAT_FUNCTION(id, text)                                                               \
    static struct cel_value id(struct cel_run *run, const struct cel_value *args, size_t count) \
    {                                                                                           \
        (void)run;                                                                              \
        (void)args;                                                                             \
        (void)count;                                                                            \
        return (struct cel_value){.type = CEL_FORMAT, .s = STR(text)};                          \
    }
FORMAT_FUNCTION(fn_dns1123_label, "dns1123Label")
FORMAT_FUNCTION(fn_dns1123_subdomain, "dns1123Subdomain")
FORMAT_FUNCTION(fn_dns1035_label, "dns1035Label")
FORMAT_FUNCTION(fn_qualified_name, "qualifiedName")
FORMAT_FUNCTION(fn_dns1123_label_prefix, "dns1123LabelPrefix")
FORMAT_FUNCTION(fn_dns1123_subdomain_prefix, "dns1123SubdomainPrefix")
FORMAT_FUNCTION(fn_dns1035_label_prefix, "dns1035LabelPrefix")
FORMAT_FUNCTION(fn_label_value, "labelValue")
FORMAT_FUNCTION(fn_uri, "uri")
FORMAT_FUNCTION(fn_uuid, "uuid")
FORMAT_FUNCTION(fn_byte, "byte")
FORMAT_FUNCTION(fn_date, "date")
FORMAT_FUNCTION(fn_datetime, "datetime")

const struct cel_function cel_functions_kube[] = {
    {"quantity", false, 1, 1, CEL_QUANTITY, fn_quantity, "s>Q"},
    {"isQuantity", false, 1, 1, CEL_BOOL, fn_is_quantity, "s>b"},
    {"sign", true, 1, 1, CEL_INT, fn_sign, "Q>i"},
    {"sign", false, 1, 1, CEL_INT, fn_sign, "Q>i"},
    {"isInteger", true, 1, 1, CEL_BOOL, fn_is_integer, "Q>b"},
    {"asInteger", true, 1, 1, CEL_INT, fn_as_integer, "Q>i"},
    {"asApproximateFloat", true, 1, 1, CEL_DOUBLE, fn_as_float, "Q>d"},
    {"add", true, 2, 2, CEL_QUANTITY, fn_add, "QQ>Q Qi>Q"},
    {"sub", true, 2, 2, CEL_QUANTITY, fn_sub, "QQ>Q Qi>Q"},
    {"semver", false, 1, 2, CEL_SEMVER, fn_semver, "s>V sb>V"},
    {"isSemver", false, 1, 2, CEL_BOOL, fn_is_semver, "s>b sb>b"},
    {"major", true, 1, 1, CEL_INT, fn_major, "V>i"},
    {"minor", true, 1, 1, CEL_INT, fn_minor, "V>i"},
    {"patch", true, 1, 1, CEL_INT, fn_patch, "V>i"},
    {"compareTo", true, 2, 2, CEL_INT, fn_compare, "QQ>i VV>i"},
    {"isGreaterThan", true, 2, 2, CEL_BOOL, fn_greater, "QQ>b VV>b"},
    {"isLessThan", true, 2, 2, CEL_BOOL, fn_less, "QQ>b VV>b"},
    {"format.named", false, 1, 1, CEL_OPTIONAL, fn_named, "s>?F"},
    {"validate", true, 2, 2, CEL_OPTIONAL, fn_validate, "Fs>?[s]"},
    {"format.dns1123Label", false, 0, 0, CEL_FORMAT, fn_dns1123_label, ">F"},
    {"format.dns1123Subdomain", false, 0, 0, CEL_FORMAT, fn_dns1123_subdomain, ">F"},
    {"format.dns1035Label", false, 0, 0, CEL_FORMAT, fn_dns1035_label, ">F"},
    {"format.qualifiedName", false, 0, 0, CEL_FORMAT, fn_qualified_name, ">F"},
    {"format.dns1123LabelPrefix", false, 0, 0, CEL_FORMAT, fn_dns1123_label_prefix, ">F"},
    {"format.dns1123SubdomainPrefix", false, 0, 0, CEL_FORMAT, fn_dns1123_subdomain_prefix, ">F"},
    {"format.dns1035LabelPrefix", false, 0, 0, CEL_FORMAT, fn_dns1035_label_prefix, ">F"},
    {"format.labelValue", false, 0, 0, CEL_FORMAT, fn_label_value, ">F"},
    {"format.uri", false, 0, 0, CEL_FORMAT, fn_uri, ">F"},
    {"format.uuid", false, 0, 0, CEL_FORMAT, fn_uuid, ">F"},
    {"format.byte", false, 0, 0, CEL_FORMAT, fn_byte, ">F"},
    {"format.date", false, 0, 0, CEL_FORMAT, fn_date, ">F"},
    {"format.datetime", false, 0, 0, CEL_FORMAT, fn_datetime, ">F"},
    {0},
};
