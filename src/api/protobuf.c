#include "api/protobuf.h"

#include "api/protobuf_fields.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DEPTH_MAX 24

static bool take_varint(struct str *in, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && in->len; shift += 7) {
        unsigned char byte = (unsigned char)in->p[0];

        *in = str_sub(*in, 1, in->len);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

bool protobuf_next(struct str *in, struct protobuf_value *ret, bool *bad)
{
    uint64_t key = 0;
    uint64_t length = 0;

    if (!in->len)
        return false;
    *bad = true;
    if (!take_varint(in, &key) || key >> 35)
        return false;
    *ret = (struct protobuf_value){.number = (uint32_t)(key >> 3),
                                   .wire = (enum protobuf_wire)(key & 7)};
    switch (ret->wire) {
    case WIRE_VARINT:
        if (!take_varint(in, &ret->varint))
            return false;
        break;
    case WIRE_FIXED64:
    case WIRE_FIXED32: length = ret->wire == WIRE_FIXED64 ? 8 : 4; break;
    case WIRE_BYTES:
        if (!take_varint(in, &length))
            return false;
        break;
    default: return false;
    }
    if (length > in->len)
        return false;
    ret->bytes = str_sub(*in, 0, (size_t)length);
    *in = str_sub(*in, (size_t)length, in->len);
    *bad = false;
    return true;
}

struct decoder {
    struct arena *arena;
    struct err *err;
    int depth;
};

static struct json *decode(struct decoder *decoder,
                           const struct protobuf_field *fields,
                           struct str message);

/* Time{1 seconds, 2 nanos}; the zero time is absent. */
static struct json *decode_time(struct decoder *decoder, struct str message, bool micro)
{
    struct protobuf_value value;
    int64_t seconds = 0;
    int64_t nanos = 0;
    bool any = false;
    bool bad = false;
    char text[TIME_TEXT_BYTES];

    while (protobuf_next(&message, &value, &bad)) {
        any = true;
        if (value.number == 1)
            seconds = (int64_t)value.varint;
        else if (value.number == 2)
            nanos = (int64_t)value.varint;
    }
    if (bad || !any || seconds <= 0 || seconds > INT64_MAX / 1000 - 1)
        return NULL;
    int64_t ms = seconds * 1000 + nanos / 1000000 % 1000;
    return json_new_str(decoder->arena, str_dup(decoder->arena, micro ? time_format_micro(ms, text)
                                                                      : time_format(ms, text)));
}

/* IntOrString{1 type, 2 intVal, 3 strVal} */
static struct json *decode_int_or_string(struct decoder *decoder, struct str message)
{
    struct protobuf_value value;
    bool is_string = false;
    bool bad = false;
    int64_t number = 0;
    struct str text = STR("");

    while (protobuf_next(&message, &value, &bad)) {
        if (value.number == 1)
            is_string = value.varint == 1;
        else if (value.number == 2)
            number = (int32_t)value.varint;
        else if (value.number == 3)
            text = str_utf8(decoder->arena, value.bytes);
    }
    return is_string ? json_new_str(decoder->arena, text) : json_new_i64(decoder->arena, number);
}

static const struct protobuf_field quantity_fields[] = {{1, "string", PB_STRING, 0, NULL}, {0}};

static struct json *decode_value(struct decoder *decoder,
                                 const struct protobuf_field *field,
                                 const struct protobuf_value *value)
{
    struct arena *arena = decoder->arena;
    bool keep = field->flags & PB_KEEP;

    switch (field->type) {
    case PB_STRING:
        return value->bytes.len || keep ? json_new_str(arena, str_utf8(arena, value->bytes)) : NULL;
    case PB_BYTES: return json_new_str(arena, base64_encode(arena, value->bytes));
    case PB_INT: return value->varint || keep ? json_new_i64(arena, (int64_t)value->varint) : NULL;
    case PB_BOOL: return value->varint || keep ? json_new_bool(arena, value->varint != 0) : NULL;
    case PB_TIME: return decode_time(decoder, value->bytes, false);
    case PB_MICROTIME: return decode_time(decoder, value->bytes, true);
    case PB_INT_OR_STRING: return decode_int_or_string(decoder, value->bytes);
    case PB_QUANTITY: {
        struct json *quantity = decode(decoder, quantity_fields, value->bytes);
        return quantity ? json_get(quantity, "string") : NULL;
    }
    case PB_MESSAGE: {
        struct json *message = decode(decoder, field->fields, value->bytes);
        return message && (json_count(message) || keep) ? message : NULL;
    }
    }
    return NULL;
}

/* A map entry is {1 key, 2 value}. */
static void decode_entry(struct decoder *decoder,
                         const struct protobuf_field *field,
                         struct json *object,
                         struct str message)
{
    struct json *map = json_get(object, field->name);
    struct protobuf_field inner = *field;
    struct json *decoded = NULL;
    struct str key = STR("");
    struct protobuf_value value;
    bool bad = false;

    inner.flags = PB_KEEP;
    while (protobuf_next(&message, &value, &bad)) {
        if (value.number == 1)
            key = str_utf8(decoder->arena, value.bytes);
        else if (value.number == 2)
            decoded = decode_value(decoder, &inner, &value);
    }
    if (bad) {
        (void)err_set(decoder->err, -EINVAL, "protobuf body: broken map %s", field->name);
        return;
    }
    if (!map)
        map = json_add_object(decoder->arena, object, field->name);
    if (!decoded && field->type != PB_MESSAGE)
        decoded = json_new_str(decoder->arena, STR(""));
    if (decoded)
        json_set(map, key, decoded);
}

static void decode_field(struct decoder *decoder,
                         const struct protobuf_field *field,
                         struct json *object,
                         const struct protobuf_value *value)
{
    if (field->flags & PB_MAP) {
        decode_entry(decoder, field, object, value->bytes);
        return;
    }
    struct protobuf_field inner = *field;
    if (field->flags & PB_LIST)
        inner.flags |= PB_KEEP;
    struct json *decoded = decode_value(decoder, &inner, value);
    if (!decoded)
        return;
    if (!(field->flags & PB_LIST)) {
        json_set(object, str_from(field->name), decoded);
        return;
    }
    struct json *list = json_get(object, field->name);
    if (!list)
        list = json_add_array(decoder->arena, object, field->name);
    json_push(list, decoded);
}

static struct json *decode(struct decoder *decoder,
                           const struct protobuf_field *fields,
                           struct str message)
{
    struct json *object = json_new_object(decoder->arena);
    struct protobuf_value value;
    bool bad = false;

    if (++decoder->depth > DEPTH_MAX) {
        (void)err_set(decoder->err, -EINVAL, "protobuf body: nested too deeply");
        decoder->depth--;
        return NULL;
    }
    while (protobuf_next(&message, &value, &bad)) {
        for (const struct protobuf_field *field = fields; field->number; field++) {
            bool varint = field->type == PB_INT || field->type == PB_BOOL;

            if (field->number != value.number)
                continue;
            if (value.wire == (varint && !(field->flags & PB_MAP) ? WIRE_VARINT : WIRE_BYTES))
                decode_field(decoder, field, object, &value);
            break;
        }
    }
    decoder->depth--;
    if (bad)
        (void)err_set(decoder->err, -EINVAL, "protobuf body: cut short or broken");
    return bad ? NULL : object;
}

bool protobuf_is(struct str bytes)
{
    return bytes.len >= 4 && memcmp(bytes.p, "k8s", 4) == 0;
}

int protobuf_open(struct str bytes, struct protobuf_envelope *ret, struct err *err)
{
    struct protobuf_envelope envelope = {STR(""), STR(""), STR("")};
    struct str type = STR_NONE;
    struct protobuf_value value;
    bool bad = false;

    if (!protobuf_is(bytes))
        return err_set(err, -EINVAL, "protobuf body: does not begin with \"k8s\\0\"");
    bytes = str_sub(bytes, 4, bytes.len);
    while (protobuf_next(&bytes, &value, &bad)) {
        if (value.wire != WIRE_BYTES)
            continue;
        if (value.number == 1)
            type = value.bytes;
        else if (value.number == 2)
            envelope.raw = value.bytes;
    }
    if (bad || !type.p)
        return err_set(err, -EINVAL, "protobuf body: broken envelope");
    while (protobuf_next(&type, &value, &bad)) {
        if (value.number == 1)
            envelope.api_version = value.bytes;
        else if (value.number == 2)
            envelope.kind = value.bytes;
    }
    if (bad)
        return err_set(err, -EINVAL, "protobuf body: broken envelope");
    *ret = envelope;
    return 0;
}

int protobuf_decode(struct arena *arena,
                    const struct protobuf_field *fields,
                    struct str message,
                    struct json **ret,
                    struct err *err)
{
    struct err first = {0};
    struct decoder decoder = {.arena = arena, .err = &first};
    struct json *object = decode(&decoder, fields, message);

    if (!object || first.code)
        return err_set(err, -EINVAL, "%s", first.text);
    *ret = object;
    return 0;
}

int protobuf_to_json(struct arena *arena, struct str body, struct json **ret, struct err *err)
{
    struct protobuf_envelope envelope;
    struct json *object = NULL;
    int r = protobuf_open(body, &envelope, err);

    if (r < 0)
        return r;
    const struct protobuf_field *fields = protobuf_fields_of(envelope.api_version, envelope.kind);
    if (!fields)
        return err_set(err, -EPROTONOSUPPORT,
                       "protobuf bodies of kind " STR_FMT " (" STR_FMT ") are not understood here; "
                       "send JSON or YAML",
                       STR_ARG(envelope.kind), STR_ARG(envelope.api_version));
    r = protobuf_decode(arena, fields, envelope.raw, &object, err);
    if (r < 0)
        return r;
    json_set(object, STR("apiVersion"), json_new_str(arena, str_utf8(arena, envelope.api_version)));
    json_set(object, STR("kind"), json_new_str(arena, str_utf8(arena, envelope.kind)));
    *ret = object;
    return 0;
}
