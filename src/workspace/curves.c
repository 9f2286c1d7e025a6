#include "workspace/curves.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RECORD_HEAD 12 /* length and its sum */
#define RECORD_TAIL 4  /* the sum of the bytes */

/* Wire types of protobuf. */
enum wire {
    WIRE_VARINT = 0,
    WIRE_64 = 1,
    WIRE_BYTES = 2,
    WIRE_32 = 5,
};
/* tensorflow's DataType, of which scalars are one of these. */
enum {
    TENSOR_FLOAT = 1,
    TENSOR_DOUBLE = 2
};

struct point {
    int64_t step;
    double value;
};

struct series {
    struct str run;
    struct str name;
    struct point points[CURVES_POINTS_MAX];
    size_t count;
    struct point last;
    uint64_t seen;
    uint64_t stride; /* every how many-th is taken */
};

struct curves {
    struct arena arena;
    struct series *series[CURVES_SERIES_MAX];
    size_t count;
    struct str run;
    struct buf record; /* head and bytes of one, as far as they have come */
    uint64_t skip;     /* bytes of a large record that are still to come */
    bool ended;        /* of this file: what follows is not read */
};

struct curves *curves_new(void)
{
    return MEM_NEW(struct curves);
}

void curves_free(struct curves *curves)
{
    if (!curves)
        return;
    buf_done(&curves->record);
    arena_done(&curves->arena);
    mem_free(curves);
}

/* Of a name only what is UTF-8: it becomes JSON. */
static struct str name_of(struct arena *arena, struct str text)
{
    text = str_sub(text, 0, CURVES_NAME_MAX);
    return str_utf8(arena, text);
}

void curves_begin(struct curves *curves, struct str run)
{
    buf_clear(&curves->record);
    curves->skip = 0;
    curves->ended = false;
    if (!str_eq(curves->run, run))
        curves->run = str_dup(&curves->arena, name_of(&curves->arena, run));
}

/* ---- series ---- */

static struct series *series_of(struct curves *curves, struct str tag)
{
    _cleanup_(arena_done) struct arena scratch = {0};
    struct str name = name_of(&scratch, tag);

    for (size_t i = 0; i < curves->count; i++)
        if (str_eq(curves->series[i]->name, name) && str_eq(curves->series[i]->run, curves->run))
            return curves->series[i];
    if (!name.len || curves->count == CURVES_SERIES_MAX)
        return NULL;
    struct series *series = ARENA_NEW(&curves->arena, struct series);
    series->name = str_dup(&curves->arena, name);
    series->run = curves->run;
    series->stride = 1;
    curves->series[curves->count++] = series;
    return series;
}

static void series_halve(struct series *series)
{
    size_t kept = 0;

    for (size_t i = 0; i < series->count; i += 2)
        series->points[kept++] = series->points[i];
    series->count = kept;
    series->stride *= 2;
}

static void series_add(struct curves *curves, struct str tag, int64_t step, double value)
{
    struct series *series = isfinite(value) ? series_of(curves, tag) : NULL;

    if (!series)
        return;
    if (series->seen % series->stride == 0) {
        if (series->count == CURVES_POINTS_MAX)
            series_halve(series);
        if (series->seen % series->stride == 0)
            series->points[series->count++] = (struct point){step, value};
    }
    series->seen++;
    series->last = (struct point){step, value};
}

/* ---- protobuf ---- */

struct field {
    uint64_t number;
    enum wire wire;
    uint64_t value;   /* of a varint */
    struct str bytes; /* of the others */
};

static bool varint_cut(struct str *rest, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < 10 && i < rest->len; i++) {
        uint64_t byte = (unsigned char)rest->p[i];

        value |= (byte & 127) << (7 * i);
        if (byte < 128) {
            *rest = str_sub(*rest, i + 1, rest->len);
            *ret = value;
            return true;
        }
    }
    return false;
}

/* The next field of a message; false: that was the last, or the rest is none. */
static bool field_cut(struct str *rest, struct field *ret)
{
    uint64_t key = 0;
    uint64_t size = 0;

    if (!varint_cut(rest, &key))
        return false;
    *ret = (struct field){.number = key >> 3, .bytes = STR("")};
    switch (key & 7) {
    case WIRE_VARINT: ret->wire = WIRE_VARINT; return varint_cut(rest, &ret->value);
    case WIRE_64:
        ret->wire = WIRE_64;
        size = 8;
        break;
    case WIRE_32:
        ret->wire = WIRE_32;
        size = 4;
        break;
    case WIRE_BYTES:
        ret->wire = WIRE_BYTES;
        if (!varint_cut(rest, &size))
            return false;
        break;
    default: return false;
    }
    if (size > rest->len)
        return false;
    ret->bytes = str_sub(*rest, 0, (size_t)size);
    *rest = str_sub(*rest, (size_t)size, rest->len);
    return true;
}

static uint64_t number_le(struct str bytes)
{
    uint64_t value = 0;

    for (size_t i = bytes.len; i-- > 0;)
        value = value << 8 | (unsigned char)bytes.p[i];
    return value;
}

static double float_of(struct str bytes)
{
    uint32_t bits = (uint32_t)number_le(bytes);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

static double double_of(struct str bytes)
{
    uint64_t bits = number_le(bytes);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The number of a TensorProto that has one: dtype 1, tensor_content 4, float_val 5, double_val 6. */
static double tensor_value(struct str tensor)
{
    struct field field;
    uint64_t type = 0;
    double value = NAN;
    struct str content = STR("");

    while (field_cut(&tensor, &field)) {
        if (field.number == 1 && field.wire == WIRE_VARINT)
            type = field.value;
        else if (field.number >= 4 && field.number <= 6 && field.wire != WIRE_VARINT)
            content = field.bytes;
    }
    if (type == TENSOR_FLOAT && content.len == 4)
        value = float_of(content);
    else if (type == TENSOR_DOUBLE && content.len == 8)
        value = double_of(content);
    return value;
}

/* A Value of a Summary: tag 1, simple_value 2, tensor 8. */
static void value_read(struct curves *curves, int64_t step, struct str value)
{
    struct field field;
    struct str tag = STR("");
    double number = NAN;

    while (field_cut(&value, &field)) {
        if (field.number == 1 && field.wire == WIRE_BYTES)
            tag = field.bytes;
        else if (field.number == 2 && field.wire == WIRE_32)
            number = float_of(field.bytes);
        else if (field.number == 8 && field.wire == WIRE_BYTES)
            number = tensor_value(field.bytes);
    }
    series_add(curves, tag, step, number);
}

/* An Event: step 2, summary 5, whose field 1 are the values. The step may come after them. */
static void event_read(struct curves *curves, struct str event)
{
    struct str rest = event;
    struct field field;
    int64_t step = 0;

    while (field_cut(&rest, &field))
        if (field.number == 2 && field.wire == WIRE_VARINT)
            step = (int64_t)field.value;
    rest = event;
    while (field_cut(&rest, &field)) {
        struct str summary = field.bytes;
        struct field value;

        if (field.number != 5 || field.wire != WIRE_BYTES)
            continue;
        while (field_cut(&summary, &value))
            if (value.number == 1 && value.wire == WIRE_BYTES)
                value_read(curves, step, value.bytes);
    }
}

/* ---- records ---- */

/* Moves up to `want` bytes of a record's beginning over. False: they have not all come. */
static bool record_fill(struct curves *curves, struct str *bytes, size_t want)
{
    size_t have = curves->record.len;
    size_t more = have < want ? want - have : 0;

    if (more > bytes->len)
        more = bytes->len;
    buf_add(&curves->record, str_sub(*bytes, 0, more));
    *bytes = str_sub(*bytes, more, bytes->len);
    return curves->record.len >= want;
}

/* Takes some of the bytes. False: there is nothing to be done with them. */
static bool record_step(struct curves *curves, struct str *bytes)
{
    if (curves->skip) {
        size_t passed = curves->skip < bytes->len ? (size_t)curves->skip : bytes->len;

        curves->skip -= passed;
        *bytes = str_sub(*bytes, passed, bytes->len);
        return bytes->len > 0;
    }
    if (!record_fill(curves, bytes, RECORD_HEAD))
        return false;
    uint64_t size = number_le(str_sub(buf_str(&curves->record), 0, 8));
    if (size >> 32) { /* no record is that large: these are other bytes */
        curves->ended = true;
        return false;
    }
    if (size > CURVES_RECORD_MAX) {
        curves->skip = size + RECORD_TAIL;
        buf_clear(&curves->record);
        return true;
    }
    if (!record_fill(curves, bytes, RECORD_HEAD + (size_t)size + RECORD_TAIL))
        return false;
    event_read(curves, str_sub(buf_str(&curves->record), RECORD_HEAD, (size_t)size));
    buf_clear(&curves->record);
    return true;
}

void curves_add(struct curves *curves, struct str bytes)
{
    while (bytes.len && !curves->ended && record_step(curves, &bytes))
        ;
}

/* ---- JSON ---- */

static void point_write(struct buf *out, const struct point *point, bool first)
{
    buf_addf(out, "%s[%" PRId64 ",%.9g]", first ? "" : ",", point->step, point->value);
}

void curves_write(const struct curves *curves, bool cut, struct buf *out)
{
    buf_addf(out, "{\"cut\":%s,\"series\":[", cut ? "true" : "false");
    for (size_t i = 0; i < curves->count; i++) {
        const struct series *series = curves->series[i];

        buf_add(out, i ? STR(",{\"run\":") : STR("{\"run\":"));
        json_write_string(out, series->run);
        buf_add(out, STR(",\"name\":"));
        json_write_string(out, series->name);
        buf_add(out, STR(",\"points\":["));
        for (size_t k = 0; k < series->count; k++)
            point_write(out, &series->points[k], k == 0);
        if ((series->seen - 1) % series->stride) /* the newest is always there */
            point_write(out, &series->last, false);
        buf_add(out, STR("]}"));
    }
    buf_add(out, STR("]}"));
}
