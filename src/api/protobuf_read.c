#include "api/protobuf.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_names.h"
#include "base/str.h"
#include "base/time.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Messages to JSON. Every function says false once something is wrong; the first error counts. */

#define PATH_BYTES_MAX 160

/* Where the reader is: from the value being read outwards. */
struct place {
    const struct place *up;
    const struct type_field *field;
    size_t index;   /* of a list */
    struct str key; /* of a map; absent: the map itself */
};

struct reader {
    struct arena *arena;
    struct err *err;
    struct protobuf_unknown *unknown;
    const struct place *place;
    size_t values_left;
    int depth;
    bool kept_only;
};

static bool read_message(struct reader *reader,
                         const struct type *type,
                         struct str message,
                         struct json *object);
static bool read_object(struct reader *reader, struct str bytes, struct json **ret);

static void write_path(const struct place *place, struct buf *out)
{
    if (!place)
        return;
    write_path(place->up, out);
    if (place->field->flags & TYPE_INLINE)
        return;
    buf_addf(out, "%s%s", out->len ? "." : "", place->field->name);
    if (place->field->flags & TYPE_LIST)
        buf_addf(out, "[%zu]", place->index);
    if (place->key.p)
        buf_addf(out, "[" STR_FMT "]", STR_ARG(str_sub(place->key, 0, 64)));
}

/* "spec.containers[0]", or "Pod" at the top. What is too long is cut. */
static struct str path_of(struct reader *reader, const char *top)
{
    _cleanup_(buf_done) struct buf path = {0};

    write_path(reader->place, &path);
    if (!path.len)
        buf_addf(&path, "%s", top);
    return str_utf8(reader->arena,
                    str_dup(reader->arena, str_sub(buf_str(&path), 0, PATH_BYTES_MAX)));
}

static bool fail(struct reader *reader, const char *why)
{
    struct str path;

    if (reader->err->code)
        return false;
    path = path_of(reader, "");
    (void)err_set(reader->err, -EINVAL, "protobuf body: " STR_FMT "%s%s", STR_ARG(path),
                  path.len ? ": " : "", why);
    return false;
}

static bool take(struct reader *reader, struct str *in, struct protobuf_value *ret, bool *bad)
{
    if (!protobuf_next(in, ret, bad))
        return false;
    if (reader->values_left-- > 0)
        return true;
    reader->values_left = 0;
    *bad = true;
    return fail(reader, "too many values");
}

static void tell_unknown(struct reader *reader, const struct type *type, uint32_t number)
{
    struct protobuf_unknown *unknown = reader->unknown;

    if (!unknown || unknown->count == PROTOBUF_UNKNOWN_MAX)
        return;
    unknown->items[unknown->count++] =
        str_printf(reader->arena, "unknown field number %u of \"" STR_FMT "\"", number,
                   STR_ARG(path_of(reader, type->name)));
}

/* ---- messages that are one value in JSON ---- */

/* {1 seconds, 2 nanos}; an empty one is no time at all. */
static bool read_time(struct reader *reader,
                      const struct type_field *field,
                      struct str message,
                      struct json **ret)
{
    static const int64_t seconds_max = 253402300799; /* the year 9999 */
    static const int64_t seconds_min = -62135596800; /* the year 1 */
    struct protobuf_value value;
    int64_t seconds = 0;
    int64_t nanos = 0;
    bool any = false;
    bool bad = false;
    char text[TIME_TEXT_BYTES];
    struct str shown;

    while (take(reader, &message, &value, &bad)) {
        any = true;
        if (value.number == 1)
            seconds = (int64_t)value.varint;
        else if (value.number == 2)
            nanos = (int64_t)value.varint;
    }
    if (bad || seconds < seconds_min || seconds > seconds_max || nanos < 0 || nanos > 999999999)
        return fail(reader, "not a time");
    if (!any || seconds == seconds_min)
        return true;
    if (field->form == TYPE_TIME) {
        shown = time_format(seconds * 1000, text);
    } else {
        char fraction[sizeof(".000000Z")];

        shown = time_format(seconds * 1000, text);
        (void)snprintf(fraction, sizeof(fraction), ".%06uZ", (unsigned)(nanos / 1000) % 1000000);
        shown = str_printf(reader->arena, STR_FMT "%s", (int)shown.len - 1, shown.p, fraction);
    }
    *ret = json_new_str(reader->arena, str_dup(reader->arena, shown));
    return true;
}

/* {1 which, 2 number, 3 text} */
static bool read_int_or_string(struct reader *reader, struct str message, struct json **ret)
{
    struct protobuf_value value;
    uint64_t which = 0;
    int64_t number = 0;
    struct str text = STR("");
    bool bad = false;

    while (take(reader, &message, &value, &bad)) {
        if (value.number == 1)
            which = value.varint;
        else if (value.number == 2)
            number = (int64_t)value.varint;
        else if (value.number == 3)
            text = str_utf8(reader->arena, value.bytes);
    }
    if (bad || which > 1 || number < INT32_MIN || number > INT32_MAX)
        return fail(reader, "neither a number nor a text");
    *ret = which ? json_new_str(reader->arena, text) : json_new_i64(reader->arena, number);
    return true;
}

/* {1 bytes}, as quantities and JSON have it. */
static bool read_wrapped(struct reader *reader, struct str message, struct str *ret)
{
    struct protobuf_value value;
    bool bad = false;

    *ret = STR("");
    while (take(reader, &message, &value, &bad)) {
        if (value.number != 1 || value.wire != WIRE_BYTES)
            return fail(reader, "not a text in a message");
        *ret = value.bytes;
    }
    return bad ? fail(reader, "cut short or broken") : true;
}

static bool read_quantity(struct reader *reader, struct str message, struct json **ret)
{
    struct str text;

    if (!read_wrapped(reader, message, &text))
        return false;
    text = text.len ? str_utf8(reader->arena, text) : STR("0");
    *ret = json_new_str(reader->arena, text);
    return true;
}

static bool read_json(struct reader *reader, struct str message, struct json **ret)
{
    struct err err = {0};
    struct str text;

    if (!read_wrapped(reader, message, &text))
        return false;
    if (!text.len)
        return true;
    if (protobuf_is(text))
        return read_object(reader, text, ret);
    if (json_parse(reader->arena, text, ret, &err) < 0)
        return fail(reader, err.text);
    if (json_is_null(*ret))
        *ret = NULL;
    return true;
}

/* A message of which JSON has the one value that is set. */
static bool read_bare(struct reader *reader,
                      const struct type *type,
                      struct str message,
                      struct json **ret)
{
    struct json *object = json_new_object(reader->arena);

    if (!read_message(reader, type, message, object))
        return false;
    JSON_FOREACH(object, member)
        *ret = member;
    if (!*ret && type->field_count && (type->fields[0].flags & TYPE_LIST))
        *ret = json_new_array(reader->arena);
    return true;
}

/* ---- values ---- */

static double double_of(struct str bytes)
{
    uint64_t bits = 0;
    double number;

    for (size_t i = 0; i < sizeof(bits); i++)
        bits |= (uint64_t)(unsigned char)bytes.p[i] << (8 * i);
    memcpy(&number, &bits, sizeof(number));
    return number;
}

static bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static bool read_double(struct reader *reader, struct str bytes, struct json **ret)
{
    double number = double_of(bytes);
    char text[40];

    if (!(number - number <= 0)) /* infinite, or no number */
        return fail(reader, "not a number that JSON has");
    /* Fifteen digits come back as written; what needs more gets all of them. */
    (void)snprintf(text, sizeof(text), "%.15g", number);
    if (!same_double(protobuf_double(str_from(text)), number))
        (void)snprintf(text, sizeof(text), "%.17g", number);
    *ret = json_new_number(reader->arena, str_dup(reader->arena, str_from(text)));
    return true;
}

static bool read_number(struct reader *reader,
                        const struct type_field *field,
                        uint64_t varint,
                        bool keep,
                        struct json **ret)
{
    int64_t number = (int64_t)varint;

    if (field->form == TYPE_BOOL) {
        *ret = varint || keep ? json_new_bool(reader->arena, varint != 0) : NULL;
        return true;
    }
    if (field->form == TYPE_INT32 && (number < INT32_MIN || number > INT32_MAX))
        return fail(reader, "a number beyond 32 bits");
    *ret = number || keep ? json_new_i64(reader->arena, number) : NULL;
    return true;
}

static enum protobuf_wire wire_of(const struct type_field *field)
{
    if (field->form == TYPE_INT32 || field->form == TYPE_INT64 || field->form == TYPE_BOOL)
        return WIRE_VARINT;
    return field->form == TYPE_DOUBLE ? WIRE_FIXED64 : WIRE_BYTES;
}

/* *ret stays NULL where there is nothing to show. */
static bool read_value(struct reader *reader,
                       const struct type_field *field,
                       const struct protobuf_value *value,
                       bool keep,
                       struct json **ret)
{
    struct arena *arena = reader->arena;
    struct str bytes = value->bytes;

    if (value->wire != wire_of(field))
        return fail(reader, "comes in a form that its type does not have");
    switch ((enum type_form)field->form) {
    case TYPE_STRING:
        *ret = bytes.len || keep ? json_new_str(arena, str_utf8(arena, bytes)) : NULL;
        return true;
    case TYPE_BYTES:
        *ret = bytes.len || keep ? json_new_str(arena, base64_encode(arena, bytes)) : NULL;
        return true;
    case TYPE_INT32:
    case TYPE_INT64:
    case TYPE_BOOL: return read_number(reader, field, value->varint, keep, ret);
    case TYPE_DOUBLE: return read_double(reader, bytes, ret);
    case TYPE_TIME:
    case TYPE_MICROTIME: return read_time(reader, field, bytes, ret);
    case TYPE_QUANTITY: return read_quantity(reader, bytes, ret);
    case TYPE_INT_OR_STRING: return read_int_or_string(reader, bytes, ret);
    case TYPE_JSON: return read_json(reader, bytes, ret);
    case TYPE_MESSAGE: break;
    }
    if (field->type->bare)
        return read_bare(reader, field->type, bytes, ret);
    *ret = json_new_object(arena);
    return read_message(reader, field->type, bytes, *ret);
}

/* ---- maps ---- */

/* {1 key, 2 value}. A value that is left out is the empty one. */
static bool read_entry(struct reader *reader,
                       const struct type_field *field,
                       struct str message,
                       struct str *ret_key,
                       struct json **ret)
{
    struct place place = {reader->place->up, field, 0, STR("")};
    const struct place *before = reader->place;
    struct protobuf_value value;
    struct protobuf_value entry = {.wire = wire_of(field), .bytes = STR("")};
    bool bad = false;
    bool ok;

    while (take(reader, &message, &value, &bad)) {
        if (value.number == 1 && value.wire == WIRE_BYTES)
            place.key = str_utf8(reader->arena, value.bytes);
        else if (value.number == 2)
            entry = value;
        else
            return fail(reader, "a broken entry of a map");
    }
    if (bad || (entry.wire == WIRE_FIXED64 && entry.bytes.len != sizeof(double)))
        return fail(reader, "a broken entry of a map");
    reader->place = &place;
    ok = read_value(reader, field, &entry, true, ret);
    reader->place = before;
    *ret_key = place.key;
    return ok;
}

static bool add_entry(struct reader *reader,
                      const struct type_field *field,
                      struct json_names *names,
                      struct str message)
{
    struct json *value = NULL;
    struct str key;

    if (!read_entry(reader, field, message, &key, &value))
        return false;
    if (!value)
        return true;
    if (json_count(names->object) >= JSON_MEMBERS_MAX && !json_names_get(names, key))
        return fail(reader, "too many entries");
    (void)json_names_put(names, key, value);
    return true;
}

/* All entries of a map that a message has, wherever they stand in it. */
static bool read_map(struct reader *reader,
                     const struct type_field *field,
                     struct str message,
                     struct json *object)
{
    struct json *entries = json_get(object, field->name);
    struct protobuf_value value;
    bool bad = false;

    if (!entries)
        entries = json_add_object(reader->arena, object, field->name);
    _cleanup_(json_names_done) struct json_names names = {.object = entries};
    while (protobuf_next(&message, &value, &bad)) {
        if (value.number != field->number)
            continue;
        if (value.wire != WIRE_BYTES)
            return fail(reader, "comes in a form that its type does not have");
        if (!add_entry(reader, field, &names, value.bytes))
            return false;
    }
    return bad ? fail(reader, "cut short or broken") : true;
}

/* ---- messages ---- */

/* Numbers of a list may come packed: one after the other in one value. */
static bool read_packed(struct reader *reader,
                        const struct type_field *field,
                        struct str bytes,
                        struct json *list)
{
    while (bytes.len) {
        struct json *item = NULL;
        uint64_t varint = 0;

        if (!protobuf_varint(&bytes, &varint))
            return fail(reader, "cut short or broken");
        if (reader->values_left-- == 0) {
            reader->values_left = 0;
            return fail(reader, "too many values");
        }
        if (!read_number(reader, field, varint, true, &item))
            return false;
        json_push(list, item);
    }
    return true;
}

static bool read_item(struct reader *reader,
                      const struct type_field *field,
                      const struct protobuf_value *value,
                      struct json *object)
{
    struct json *list = json_get(object, field->name);
    struct json *item = NULL;

    if (!list)
        list = json_add_array(reader->arena, object, field->name);
    if (wire_of(field) == WIRE_VARINT && value->wire == WIRE_BYTES)
        return read_packed(reader, field, value->bytes, list);
    if (!read_value(reader, field, value, true, &item))
        return false;
    json_push(list, item ? item : json_new_null(reader->arena));
    return true;
}

static bool read_field(struct reader *reader,
                       const struct type_field *field,
                       const struct protobuf_value *value,
                       struct json *object)
{
    struct json *old = json_get(object, field->name);
    struct json *read = NULL;

    if (value->wire == WIRE_BYTES && field->form == TYPE_MESSAGE && !field->type->bare) {
        if (field->flags & TYPE_INLINE)
            return read_message(reader, field->type, value->bytes, object);
        if (json_is(old, JSON_OBJECT)) /* the second half of it */
            return read_message(reader, field->type, value->bytes, old);
    }
    if (!read_value(reader, field, value, (field->flags & TYPE_KEEP) != 0, &read))
        return false;
    if (read)
        json_set(object, str_from(field->name), read);
    else if (old)
        (void)json_remove(object, str_from(field->name));
    return true;
}

static bool read_message(struct reader *reader,
                         const struct type *type,
                         struct str message,
                         struct json *object)
{
    struct str whole = message;
    struct protobuf_value value;
    uint64_t maps = 0; /* those that have been read, by the index of their field */
    bool bad = false;
    bool ok = true;

    if (reader->depth == PROTOBUF_DEPTH_MAX)
        return fail(reader, "nested too deeply");
    reader->depth++;
    while (ok && take(reader, &message, &value, &bad)) {
        const struct type_field *field = type_field_numbered(type, value.number);

        if (!field)
            tell_unknown(reader, type, value.number);
        if (!field || (reader->kept_only && !(field->flags & TYPE_KEPT)))
            continue;
        struct place place = {.up = reader->place, .field = field};
        if (field->flags & TYPE_LIST)
            place.index = json_count(json_get(object, field->name));
        reader->place = &place;
        if (field->flags & TYPE_MAP) {
            uint64_t bit = (uint64_t)1 << (field - type->fields);

            ok = (maps & bit) || read_map(reader, field, whole, object);
            maps |= bit;
        } else {
            ok = field->flags & TYPE_LIST ? read_item(reader, field, &value, object)
                                          : read_field(reader, field, &value, object);
        }
        reader->place = place.up;
    }
    reader->depth--;
    return ok && bad ? fail(reader, "cut short or broken") : ok;
}

/* ---- the whole ---- */

static bool read_object(struct reader *reader, struct str bytes, struct json **ret)
{
    struct protobuf_envelope envelope;
    const struct type *type = NULL;
    struct json *object = json_new_object(reader->arena);

    if (protobuf_open(bytes, &envelope, reader->err) < 0)
        return false;
    type = type_of_kind(envelope.api_version, envelope.kind);
    if (!type) {
        (void)err_set(reader->err, -EPROTONOSUPPORT,
                      "protobuf bodies of kind " STR_FMT " (" STR_FMT ") are not understood here; "
                      "send JSON or YAML",
                      STR_ARG(str_sub(envelope.kind, 0, 64)),
                      STR_ARG(str_sub(envelope.api_version, 0, 64)));
        return false;
    }
    if (!read_message(reader, type, envelope.raw, object))
        return false;
    json_set(object, STR("apiVersion"),
             json_new_str(reader->arena, str_utf8(reader->arena, envelope.api_version)));
    json_set(object, STR("kind"), json_new_str(reader->arena, str_from(type->name)));
    *ret = object;
    return true;
}

int protobuf_to_json(struct arena *arena,
                     struct str body,
                     struct protobuf_unknown *unknown,
                     struct json **ret,
                     struct err *err)
{
    struct err first = {0};
    struct reader reader = {
        .arena = arena, .err = &first, .unknown = unknown, .values_left = PROTOBUF_VALUES_MAX};

    if (!read_object(&reader, body, ret))
        return err_set(err, first.code, "%s", first.text);
    return 0;
}

int protobuf_decode(struct arena *arena,
                    const struct type *type,
                    bool kept_only,
                    struct str message,
                    struct json **ret,
                    struct err *err)
{
    struct err first = {0};
    struct reader reader = {
        .arena = arena, .err = &first, .kept_only = kept_only, .values_left = PROTOBUF_VALUES_MAX};
    struct json *object = json_new_object(arena);

    if (!read_message(&reader, type, message, object))
        return err_set(err, -EINVAL, "%s", first.text);
    *ret = object;
    return 0;
}
