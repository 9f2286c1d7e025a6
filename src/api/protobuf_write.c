#include "api/protobuf.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* JSON to messages. A message is written behind what is there and its length put before it
 * afterwards: bytes move once a level, and nothing is measured twice. */

#define ENVELOPE_RAW     2u
#define VARINT_BYTES_MAX 10
#define NEIGHBOURS_MAX   16 /* numbers that an estimate may be off by, with room */

struct writer {
    struct buf *out;
    struct arena *arena; /* for bytes of base64 */
    struct err *err;
    bool lossy; /* fields without a number are left out */
    int depth;
};

static bool write_message(struct writer *writer,
                          const struct type *type,
                          const struct json *object,
                          size_t *ret_members);

static bool fail(struct writer *writer, int code, const char *why, struct str name)
{
    (void)err_set(writer->err, code, "%s: " STR_FMT, why, STR_ARG(str_sub(name, 0, 64)));
    return false;
}

static double estimate(struct str text)
{
    bool negative = text.len && text.p[0] == '-';
    bool point = false;
    int64_t exponent = 0;
    double number = 0;

    for (size_t i = negative; i < text.len; i++) {
        char c = text.p[i];

        if (c == 'e' || c == 'E') {
            int64_t given = 0;
            struct str digits = str_sub(text, i + 1, text.len);

            if (str_starts(digits, STR("+")))
                digits = str_sub(digits, 1, digits.len);
            (void)str_to_i64(digits, &given);
            exponent += given;
            break;
        }
        if (c == '.') {
            point = true;
            continue;
        }
        number = number * 10 + (c - '0');
        exponent -= point;
    }
    /* Numbers reach 10^±324; what is beyond is infinite or zero all the same. */
    exponent = exponent > 700 ? 700 : exponent < -700 ? -700 : exponent;
    while (exponent) {
        int step =
            exponent > 22 || exponent < -22 ? 22 : (int)(exponent < 0 ? -exponent : exponent);
        double power = 1;

        for (int i = 0; i < step; i++)
            power *= 10;
        number = exponent < 0 ? number / power : number * power;
        exponent += exponent < 0 ? step : -step;
    }
    return negative ? -number : number;
}

/* Each step above may round. So of the numbers next to the estimate the one counts that is written
 * like this. */
double protobuf_double(struct str text)
{
    double middle = estimate(text);
    uint64_t bits = 0;

    memcpy(&bits, &middle, sizeof(bits));
    for (uint64_t away = 0; away < 2 * NEIGHBOURS_MAX; away++) {
        uint64_t near = away & 1 ? bits - (away + 1) / 2 : bits + away / 2;
        double number;
        char written[40];

        memcpy(&number, &near, sizeof(number));
        (void)snprintf(written, sizeof(written), "%.17g", number);
        if (str_is(text, written))
            return number;
    }
    return middle;
}

/* ---- the wire ---- */

static size_t format_varint(uint64_t number, char out[static VARINT_BYTES_MAX])
{
    size_t len = 0;

    for (; number >= 0x80; number >>= 7)
        out[len++] = (char)(number | 0x80);
    out[len++] = (char)number;
    return len;
}

static void put_varint(struct buf *out, uint64_t number)
{
    char text[VARINT_BYTES_MAX];

    buf_add(out, (struct str){text, format_varint(number, text)});
}

static void put_key(struct buf *out, uint32_t number, enum protobuf_wire wire)
{
    put_varint(out, (uint64_t)number << 3 | (uint64_t)wire);
}

static void put_number(struct buf *out, uint32_t number, int64_t value)
{
    put_key(out, number, WIRE_VARINT);
    put_varint(out, (uint64_t)value);
}

static void put_bytes(struct buf *out, uint32_t number, struct str bytes)
{
    put_key(out, number, WIRE_BYTES);
    put_varint(out, bytes.len);
    buf_add(out, bytes);
}

/* What was written since `start` gets its length before it. */
static void close_bytes(struct buf *out, size_t start)
{
    char text[VARINT_BYTES_MAX];
    size_t size = out->len - start;
    size_t len = format_varint(size, text);

    buf_add(out, (struct str){text, len});
    if (out->overflow)
        return;
    memmove(out->p + start + len, out->p + start, size);
    memcpy(out->p + start, text, len);
}

static size_t open_bytes(struct buf *out, uint32_t number)
{
    put_key(out, number, WIRE_BYTES);
    return out->len;
}

/* ---- values ---- */

/* {1 seconds, 2 nanos} */
static bool write_time(struct writer *writer, const struct type_field *field, struct str text)
{
    int64_t ms = 0;
    int64_t micros = 0;

    if (!time_parse(text, &ms))
        return fail(writer, -EINVAL, "not a time", str_from(field->name));
    int64_t seconds = ms >= 0 ? ms / 1000 : (ms - 999) / 1000;
    if (field->form == TYPE_MICROTIME) {
        size_t at = str_find(text, '.') + 1;

        for (size_t digits = 0; digits < 6; digits++) {
            bool more = at < text.len && text.p[at] >= '0' && text.p[at] <= '9';

            micros = micros * 10 + (more ? text.p[at] - '0' : 0);
            at += more;
        }
    }
    put_number(writer->out, 1, seconds);
    put_number(writer->out, 2, micros * 1000);
    return true;
}

/* {1 which, 2 number, 3 text} */
static bool write_int_or_string(struct writer *writer,
                                const struct type_field *field,
                                const struct json *value)
{
    bool text = json_is(value, JSON_STRING);
    int64_t number = 0;

    if (!text && !json_i64(value, &number))
        return fail(writer, -EINVAL, "neither a number nor a text", str_from(field->name));
    put_number(writer->out, 1, text);
    put_number(writer->out, 2, number);
    put_bytes(writer->out, 3, text ? json_str(value) : STR(""));
    return true;
}

static bool write_quantity(struct writer *writer,
                           const struct type_field *field,
                           const struct json *value)
{
    struct str text = json_is(value, JSON_STRING) ? json_str(value) : json_number_text(value);

    if (!str_is_set(text))
        return fail(writer, -EINVAL, "not a quantity", str_from(field->name));
    put_bytes(writer->out, 1, text);
    return true;
}

static void write_json(struct writer *writer, const struct json *value)
{
    size_t start = open_bytes(writer->out, 1);

    json_write(writer->out, value);
    close_bytes(writer->out, start);
}

/* Which field a bare value belongs to: by its form, a truth, a list or else. */
static const struct type_field *bare_field(const struct type *type, const struct json *value)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct type_field *field = &type->fields[i];

        if (field->flags & TYPE_LIST   ? json_is(value, JSON_ARRAY)
            : field->form == TYPE_BOOL ? json_is(value, JSON_BOOL)
                                       : json_is(value, JSON_OBJECT))
            return field;
    }
    return NULL;
}

static bool write_field(struct writer *writer,
                        const struct type_field *field,
                        const struct json *value);

static bool write_bare(struct writer *writer, const struct type *type, const struct json *value)
{
    const struct type_field *field = bare_field(type, value);

    if (!field)
        return fail(writer, -EINVAL, "a value of another form", str_from(type->name));
    /* A schema in the place of a truth says true. */
    if (field != type->fields && type->fields[0].form == TYPE_BOOL)
        put_number(writer->out, type->fields[0].number, 1);
    return write_field(writer, field, value);
}

static bool write_whole(struct writer *writer, const struct type *type, const struct json *value)
{
    size_t members = 0;

    if (type->bare)
        return write_bare(writer, type, value);
    if (!json_is(value, JSON_OBJECT))
        return fail(writer, -EINVAL, "not an object", str_from(type->name));
    if (!write_message(writer, type, value, &members))
        return false;
    if (members == json_count(value) || writer->lossy)
        return true;
    JSON_FOREACH(value, member)
        if (!json_is_null(member) && !type_field_named(type, json_key(member)))
            return fail(writer, -EPROTONOSUPPORT, "a field that protobuf has no number for",
                        json_key(member));
    return true;
}

/* Forms that are a message on the wire. */
static bool write_inside(struct writer *writer,
                         const struct type_field *field,
                         const struct json *value)
{
    switch ((enum type_form)field->form) {
    case TYPE_TIME:
    case TYPE_MICROTIME: return write_time(writer, field, json_str(value));
    case TYPE_QUANTITY: return write_quantity(writer, field, value);
    case TYPE_INT_OR_STRING: return write_int_or_string(writer, field, value);
    case TYPE_JSON: write_json(writer, value); return true;
    case TYPE_MESSAGE: return write_whole(writer, field->type, value);
    case TYPE_STRING:
    case TYPE_BYTES:
    case TYPE_INT32:
    case TYPE_INT64:
    case TYPE_BOOL:
    case TYPE_DOUBLE: break;
    }
    return false;
}

static void put_double(struct buf *out, uint32_t number, double value)
{
    uint64_t bits = 0;

    memcpy(&bits, &value, sizeof(bits));
    put_key(out, number, WIRE_FIXED64);
    for (size_t i = 0; i < sizeof(bits); i++)
        buf_addc(out, (char)(bits >> (8 * i)));
}

static bool write_text(struct writer *writer,
                       const struct type_field *field,
                       uint32_t number,
                       struct str text)
{
    if (!str_is_set(text))
        return fail(writer, -EINVAL, "not a text", str_from(field->name));
    if (field->form == TYPE_BYTES && !base64_decode(writer->arena, text, &text))
        return fail(writer, -EINVAL, "not base64", str_from(field->name));
    put_bytes(writer->out, number, text);
    return true;
}

/* One value, under a number that is not the field's own in a map. */
static bool write_value(struct writer *writer,
                        const struct type_field *field,
                        uint32_t number,
                        const struct json *value)
{
    int64_t whole = 0;

    switch ((enum type_form)field->form) {
    case TYPE_STRING:
    case TYPE_BYTES: return write_text(writer, field, number, json_str(value));
    case TYPE_INT32:
    case TYPE_INT64:
        if (!json_i64(value, &whole) ||
            (field->form == TYPE_INT32 && (whole < INT32_MIN || whole > INT32_MAX)))
            return fail(writer, -EINVAL, "not a whole number in range", str_from(field->name));
        put_number(writer->out, number, whole);
        return true;
    case TYPE_BOOL:
        if (!json_is(value, JSON_BOOL))
            return fail(writer, -EINVAL, "neither true nor false", str_from(field->name));
        put_number(writer->out, number, json_bool_or(value, false));
        return true;
    case TYPE_DOUBLE:
        if (!json_is(value, JSON_NUMBER))
            return fail(writer, -EINVAL, "not a number", str_from(field->name));
        put_double(writer->out, number, protobuf_double(json_number_text(value)));
        return true;
    case TYPE_TIME:
    case TYPE_MICROTIME:
    case TYPE_QUANTITY:
    case TYPE_INT_OR_STRING:
    case TYPE_JSON:
    case TYPE_MESSAGE: break;
    }
    size_t start = open_bytes(writer->out, number);
    bool ok = write_inside(writer, field, value);
    close_bytes(writer->out, start);
    return ok;
}

static bool write_map(struct writer *writer,
                      const struct type_field *field,
                      const struct json *value)
{
    if (!json_is(value, JSON_OBJECT))
        return fail(writer, -EINVAL, "not a map", str_from(field->name));
    JSON_FOREACH(value, member) {
        size_t start = open_bytes(writer->out, field->number);

        put_bytes(writer->out, 1, json_key(member));
        if (!write_value(writer, field, 2, member))
            return false;
        close_bytes(writer->out, start);
    }
    return true;
}

static bool write_field(struct writer *writer,
                        const struct type_field *field,
                        const struct json *value)
{
    if (field->flags & TYPE_MAP)
        return write_map(writer, field, value);
    if (!(field->flags & TYPE_LIST))
        return write_value(writer, field, field->number, value);
    if (!json_is(value, JSON_ARRAY))
        return fail(writer, -EINVAL, "not a list", str_from(field->name));
    JSON_FOREACH(value, item)
        if (!write_value(writer, field, field->number, item))
            return false;
    return true;
}

/* The fields of a message from the members of an object; *ret_members counts those it has. */
static bool write_message(struct writer *writer,
                          const struct type *type,
                          const struct json *object,
                          size_t *ret_members)
{
    bool ok = true;

    if (writer->depth == PROTOBUF_DEPTH_MAX)
        return fail(writer, -EINVAL, "nested too deeply", str_from(type->name));
    writer->depth++;
    for (size_t i = 0; ok && i < type->field_count; i++) {
        const struct type_field *field = &type->fields[i];

        if (field->flags & TYPE_INLINE) {
            size_t start = open_bytes(writer->out, field->number);

            ok = write_message(writer, field->type, object, ret_members);
            close_bytes(writer->out, start);
            continue;
        }
        const struct json *member = json_get(object, field->name);
        if (!member)
            continue;
        ++*ret_members;
        ok = json_is_null(member) || write_field(writer, field, member);
    }
    writer->depth--;
    return ok;
}

/* The whole object: what its envelope says already is not a field of it. */
static bool write_object(struct writer *writer, const struct type *type, const struct json *object)
{
    size_t members = 0;

    if (!write_message(writer, type, object, &members))
        return false;
    if (writer->lossy)
        return true;
    JSON_FOREACH(object, member)
        if (!str_is(json_key(member), "apiVersion") && !str_is(json_key(member), "kind") &&
            !json_is_null(member) && !type_field_named(type, json_key(member)))
            return fail(writer, -EPROTONOSUPPORT, "a field that protobuf has no number for",
                        json_key(member));
    return true;
}

/* The message of an object under a number. On failure `out` is as before. */
static int add_object(struct buf *out,
                      uint32_t number,
                      const struct json *object,
                      bool lossy,
                      struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct err first = {0};
    struct writer writer = {.out = out, .arena = &arena, .err = &first, .lossy = lossy};
    struct str api_version = json_str(json_get(object, "apiVersion"));
    struct str kind = json_str(json_get(object, "kind"));
    const struct type *type = type_of_kind(api_version, kind);
    size_t before = out->len;

    if (!type)
        return err_set(err, -EPROTONOSUPPORT, "kind " STR_FMT " (" STR_FMT ") has no protobuf form",
                       STR_ARG(str_sub(kind, 0, 64)), STR_ARG(str_sub(api_version, 0, 64)));
    size_t start = open_bytes(out, number);
    bool ok = write_object(&writer, type, object);
    close_bytes(out, start);
    if (ok && !out->overflow)
        return 0;
    if (out->len > before)
        out->len = before;
    return ok ? err_set(err, -EINVAL, "too large for protobuf")
              : err_set(err, first.code, "%s", first.text);
}

static void put_envelope(struct buf *out, struct str api_version, struct str kind)
{
    buf_add(out, STR("k8s\0"));
    size_t start = open_bytes(out, 1);
    put_bytes(out, 1, api_version);
    put_bytes(out, 2, kind);
    close_bytes(out, start);
}

int protobuf_from_json(const struct json *object, bool lossy, struct buf *out, struct err *err)
{
    size_t before = out->len;

    put_envelope(out, json_str(json_get(object, "apiVersion")), json_str(json_get(object, "kind")));
    int r = add_object(out, ENVELOPE_RAW, object, lossy, err);
    if (r < 0 && out->len > before)
        out->len = before;
    return r;
}

/* ---- lists and events ---- */

struct protobuf_list_writer protobuf_list_begin(struct buf *out,
                                                struct str api_version,
                                                struct str kind,
                                                const struct json *metadata)
{
    static const char *const texts[] = {"resourceVersion", "continue"};
    int64_t remaining = 0;

    put_envelope(out, api_version, kind);
    struct protobuf_list_writer list = {.out = out, .raw = open_bytes(out, ENVELOPE_RAW)};
    size_t start = open_bytes(out, 1);
    for (uint32_t i = 0; i < COUNT_OF(texts); i++)
        if (json_is(json_get(metadata, texts[i]), JSON_STRING))
            put_bytes(out, i + 2, json_str(json_get(metadata, texts[i])));
    if (json_i64(json_get(metadata, "remainingItemCount"), &remaining))
        put_number(out, 4, remaining);
    close_bytes(out, start);
    return list;
}

int protobuf_list_add(struct protobuf_list_writer *list,
                      const struct json *object,
                      bool lossy,
                      struct err *err)
{
    return add_object(list->out, 2, object, lossy, err);
}

void protobuf_list_end(struct protobuf_list_writer *list)
{
    close_bytes(list->out, list->raw);
}

int protobuf_event_write(struct buf *out,
                         const char *type,
                         const struct json *object,
                         struct err *err)
{
    size_t head = out->len;

    buf_add(out, STR("\0\0\0\0"));
    put_bytes(out, 1, str_from(type));
    size_t extension = open_bytes(out, 2);
    size_t raw = open_bytes(out, 1);
    int r = protobuf_from_json(object, true, out, err);
    close_bytes(out, raw);
    close_bytes(out, extension);
    if (r == 0 && out->overflow)
        r = err_set(err, -EINVAL, "too large for protobuf");
    if (r < 0) {
        out->len = head;
        return r;
    }
    size_t size = out->len - head - PROTOBUF_FRAME_HEAD;
    for (size_t i = 0; i < PROTOBUF_FRAME_HEAD; i++)
        out->p[head + i] = (char)(size >> (8 * (PROTOBUF_FRAME_HEAD - 1 - i)));
    return 0;
}
