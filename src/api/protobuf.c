#include "api/protobuf.h"

#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The wire and the envelope. */

bool protobuf_varint(struct str *in, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && in->len; shift += 7) {
        unsigned char byte = (unsigned char)in->p[0];

        *in = str_sub(*in, 1, in->len);
        if (shift == 63 && byte > 1)
            return false; /* more than 64 bits */
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
    if (!protobuf_varint(in, &key) || key >> 32 || key < 8)
        return false;
    *ret = (struct protobuf_value){.number = (uint32_t)(key >> 3),
                                   .wire = (enum protobuf_wire)(key & 7)};
    switch (ret->wire) {
    case WIRE_VARINT:
        if (!protobuf_varint(in, &ret->varint))
            return false;
        break;
    case WIRE_FIXED64:
    case WIRE_FIXED32: length = ret->wire == WIRE_FIXED64 ? 8 : 4; break;
    case WIRE_BYTES:
        if (!protobuf_varint(in, &length))
            return false;
        break;
    default: return false; /* groups: nobody has sent one for twenty years */
    }
    if (length > in->len)
        return false;
    ret->bytes = str_sub(*in, 0, (size_t)length);
    *in = str_sub(*in, (size_t)length, in->len);
    *bad = false;
    return true;
}

bool protobuf_is(struct str bytes)
{
    return bytes.len >= 4 && memcmp(bytes.p, "k8s", 4) == 0;
}

/* {1 apiVersion, 2 kind} */
static bool read_type_meta(struct str message, struct protobuf_envelope *envelope)
{
    struct protobuf_value value;
    bool bad = false;

    while (protobuf_next(&message, &value, &bad)) {
        if (value.number == 1)
            envelope->api_version = value.bytes;
        else if (value.number == 2)
            envelope->kind = value.bytes;
    }
    return !bad;
}

/* {1 typeMeta, 2 raw, 3 contentEncoding, 4 contentType}; nobody sets the last two. */
int protobuf_open(struct str bytes, struct protobuf_envelope *ret, struct err *err)
{
    struct protobuf_envelope envelope = {STR(""), STR(""), STR("")};
    struct str type = STR_NONE;
    struct str encoding = STR("");
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
        else if (value.number == 3)
            encoding = value.bytes;
    }
    if (bad || !type.p || !read_type_meta(type, &envelope))
        return err_set(err, -EINVAL, "protobuf body: broken envelope");
    if (encoding.len)
        return err_set(err, -EINVAL,
                       "protobuf body: contentEncoding \"" STR_FMT "\" is not understood; leave it "
                       "empty",
                       STR_ARG(str_sub(encoding, 0, 64)));
    *ret = envelope;
    return 0;
}
