#include "stacks/pickle.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct reader {
    struct arena *arena;
    struct str bytes;
    size_t at;
    size_t made;
    struct pickle_values stack;
    struct pickle_values memo;
    size_t marks[PICKLE_DEPTH_MAX];
    size_t mark_count;
    const char *why; /* it cannot be read; NULL: so far it can */
};

static void fail(struct reader *reader, const char *why)
{
    if (!reader->why)
        reader->why = why;
}

/* Little-endian, as all of them are. */
static uint64_t take_number(struct reader *reader, size_t width)
{
    uint64_t number = 0;

    if (width > 8 || reader->bytes.len - reader->at < width) {
        fail(reader, "it ends early");
        reader->at = reader->bytes.len;
        return 0;
    }
    for (size_t i = 0; i < width; i++)
        number |= (uint64_t)(unsigned char)reader->bytes.p[reader->at + i] << (8 * i);
    reader->at += width;
    return number;
}

static struct str take_bytes(struct reader *reader, uint64_t count)
{
    if (reader->bytes.len - reader->at < count) {
        fail(reader, "it ends early");
        reader->at = reader->bytes.len;
        return STR("");
    }
    struct str text = str_sub(reader->bytes, reader->at, (size_t)count);
    reader->at += (size_t)count;
    return text;
}

/* A number of so many bytes with a sign; of one that is too large, its last eight. */
static int64_t take_signed(struct reader *reader, size_t width)
{
    struct str text = take_bytes(reader, width);
    uint64_t number = width && text.len && (text.p[text.len - 1] & 0x80) ? UINT64_MAX : 0;

    for (size_t i = text.len < 8 ? text.len : 8; i > 0; i--)
        number = number << 8 | (unsigned char)text.p[i - 1];
    return (int64_t)number;
}

/* ---- the stack ---- */

static struct pickle_value *push(struct reader *reader, struct pickle_value value)
{
    if (reader->made++ >= PICKLE_VALUES_MAX) {
        fail(reader, "it has too many values");
        return NULL;
    }
    struct pickle_value *made = ARENA_NEW(reader->arena, struct pickle_value);
    *made = value;
    VEC_PUSH(reader->arena, &reader->stack, made);
    return made;
}

static void push_text(struct reader *reader, uint64_t count)
{
    (void)push(reader,
               (struct pickle_value){.type = PICKLE_STR, .text = take_bytes(reader, count)});
}

static void push_number(struct reader *reader, int64_t number)
{
    (void)push(reader, (struct pickle_value){.type = PICKLE_INT, .number = number});
}

static void push_of(struct reader *reader, enum pickle_type type, int64_t number)
{
    (void)push(reader, (struct pickle_value){.type = type, .number = number});
}

/* How deep the stack may be emptied: what is below the last mark is not the opcode's. */
static size_t floor_of(const struct reader *reader)
{
    return reader->mark_count ? reader->marks[reader->mark_count - 1] : 0;
}

/* Where the values of the last mark begin; it is taken away. */
static size_t take_mark(struct reader *reader)
{
    if (!reader->mark_count) {
        fail(reader, "a mark is missing");
        return reader->stack.count;
    }
    return reader->marks[--reader->mark_count];
}

/* The last values of the stack become those of a new tuple. */
static void make_tuple(struct reader *reader, size_t from)
{
    struct pickle_value tuple = {.type = PICKLE_LIST};

    for (size_t i = from; i < reader->stack.count; i++)
        VEC_PUSH(reader->arena, &tuple.items, reader->stack.items[i]);
    reader->stack.count = from;
    (void)push(reader, tuple);
}

static void make_short_tuple(struct reader *reader, size_t count)
{
    if (reader->stack.count < floor_of(reader) + count) {
        fail(reader, "a value is missing");
        return;
    }
    make_tuple(reader, reader->stack.count - count);
}

/* The values from there on go into the container below them. */
static void put_into(struct reader *reader, size_t from, enum pickle_type type)
{
    if (!from || from > reader->stack.count || from - 1 < floor_of(reader) ||
        reader->stack.items[from - 1]->type != type ||
        (type == PICKLE_DICT && (reader->stack.count - from) % 2)) {
        fail(reader, "what its values are put into is missing");
        return;
    }
    struct pickle_value *into = reader->stack.items[from - 1];
    for (size_t i = from; i < reader->stack.count; i++)
        VEC_PUSH(reader->arena, &into->items, reader->stack.items[i]);
    reader->stack.count = from;
}

static void put_last(struct reader *reader, size_t count, enum pickle_type type)
{
    if (reader->stack.count < floor_of(reader) + count + 1)
        fail(reader, "a value is missing");
    else
        put_into(reader, reader->stack.count - count, type);
}

static void mark(struct reader *reader)
{
    if (reader->mark_count == PICKLE_DEPTH_MAX)
        fail(reader, "it is nested too deeply");
    else
        reader->marks[reader->mark_count++] = reader->stack.count;
}

/* ---- what was there before ---- */

static void memo_put(struct reader *reader, uint64_t number)
{
    /* Every writer counts from 0, and has at most one a value. */
    if (!reader->stack.count || number > PICKLE_VALUES_MAX) {
        fail(reader, "what it remembers makes no sense");
        return;
    }
    while (reader->memo.count <= number)
        VEC_PUSH(reader->arena, &reader->memo, NULL);
    reader->memo.items[number] = reader->stack.items[reader->stack.count - 1];
}

static void memo_get(struct reader *reader, uint64_t number)
{
    if (number >= reader->memo.count || !reader->memo.items[number]) {
        fail(reader, "what it remembers makes no sense");
        return;
    }
    if (reader->made++ >= PICKLE_VALUES_MAX) {
        fail(reader, "it has too many values");
        return;
    }
    VEC_PUSH(reader->arena, &reader->stack, reader->memo.items[number]);
}

/* ---- opcodes ---- */

static bool step_scalar(struct reader *reader, unsigned char opcode)
{
    switch (opcode) {
    case 'N': push_of(reader, PICKLE_NONE, 0); return true;
    case 0x88: push_of(reader, PICKLE_BOOL, 1); return true;
    case 0x89: push_of(reader, PICKLE_BOOL, 0); return true;
    case 'J': push_number(reader, (int32_t)take_number(reader, 4)); return true;
    case 'K': push_number(reader, (int64_t)take_number(reader, 1)); return true;
    case 'M': push_number(reader, (int64_t)take_number(reader, 2)); return true;
    case 0x8a:
        push_number(reader, take_signed(reader, (size_t)take_number(reader, 1)));
        return true;
    case 'G':
        (void)take_bytes(reader, 8);
        push_of(reader, PICKLE_NONE, 0);
        return true;
    case 0x8c: push_text(reader, take_number(reader, 1)); return true;
    case 'X': push_text(reader, take_number(reader, 4)); return true;
    case 0x8d: push_text(reader, take_number(reader, 8)); return true;
    default: return false;
    }
}

static bool step_container(struct reader *reader, unsigned char opcode)
{
    switch (opcode) {
    case '(': mark(reader); return true;
    case '}': push_of(reader, PICKLE_DICT, 0); return true;
    case ']':
    case ')': push_of(reader, PICKLE_LIST, 0); return true;
    case 't': make_tuple(reader, take_mark(reader)); return true;
    case 0x85: make_short_tuple(reader, 1); return true;
    case 0x86: make_short_tuple(reader, 2); return true;
    case 0x87: make_short_tuple(reader, 3); return true;
    case 'a': put_last(reader, 1, PICKLE_LIST); return true;
    case 's': put_last(reader, 2, PICKLE_DICT); return true;
    case 'e': put_into(reader, take_mark(reader), PICKLE_LIST); return true;
    case 'u': put_into(reader, take_mark(reader), PICKLE_DICT); return true;
    default: return false;
    }
}

static bool step_other(struct reader *reader, unsigned char opcode)
{
    switch (opcode) {
    case 0x80: (void)take_number(reader, 1); return true; /* the protocol */
    case 0x95: (void)take_number(reader, 8); return true; /* the length of what follows */
    case 'q': memo_put(reader, take_number(reader, 1)); return true;
    case 'r': memo_put(reader, take_number(reader, 4)); return true;
    case 0x94: memo_put(reader, reader->memo.count); return true;
    case 'h': memo_get(reader, take_number(reader, 1)); return true;
    case 'j': memo_get(reader, take_number(reader, 4)); return true;
    default: return false;
    }
}

struct pickle_value *pickle_read(struct arena *arena, struct str bytes, struct err *err)
{
    struct reader reader = {.arena = arena, .bytes = bytes};

    if (bytes.len > PICKLE_BYTES_MAX)
        fail(&reader, "it is too large");
    while (!reader.why) {
        unsigned char opcode = (unsigned char)take_number(&reader, 1);

        if (reader.why)
            break;
        if (opcode == '.') {
            if (reader.stack.count == 1 && !reader.mark_count)
                return reader.stack.items[0];
            fail(&reader, "it is not one value");
        } else if (!step_scalar(&reader, opcode) && !step_container(&reader, opcode) &&
                   !step_other(&reader, opcode)) {
            fail(&reader, "it has more than plain values");
        }
    }
    (void)err_set(err, -EINVAL, "%s (at byte %zu)", reader.why, reader.at);
    return NULL;
}

/* ---- reading ---- */

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
    if (!dict || dict->type != PICKLE_DICT)
        return NULL;
    for (size_t i = 0; i + 1 < dict->items.count; i += 2)
        if (dict->items.items[i]->type == PICKLE_STR && str_is(dict->items.items[i]->text, key))
            return dict->items.items[i + 1];
    return NULL;
}

const struct pickle_value *pickle_at(const struct pickle_value *list, size_t index)
{
    return list && list->type == PICKLE_LIST && index < list->items.count ? list->items.items[index]
                                                                          : NULL;
}

struct str pickle_str(const struct pickle_value *value)
{
    return value && value->type == PICKLE_STR ? value->text : STR_NONE;
}

int64_t pickle_i64(const struct pickle_value *value, int64_t otherwise)
{
    return value && (value->type == PICKLE_INT || value->type == PICKLE_BOOL) ? value->number
                                                                              : otherwise;
}
