#include "cel/typed.h"

#include "api/schema.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/field.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- types ---- */

#define SIMPLE(t) [t] = {.type = (t)}
static const struct typed simple[] = {
    SIMPLE(CEL_DYN),
    SIMPLE(CEL_ERROR),
    SIMPLE(CEL_NULL),
    SIMPLE(CEL_BOOL),
    SIMPLE(CEL_INT),
    SIMPLE(CEL_UINT),
    SIMPLE(CEL_DOUBLE),
    SIMPLE(CEL_STRING),
    SIMPLE(CEL_BYTES),
    SIMPLE(CEL_TYPE),
    SIMPLE(CEL_TIMESTAMP),
    SIMPLE(CEL_DURATION),
    SIMPLE(CEL_URL),
    SIMPLE(CEL_IP),
    SIMPLE(CEL_CIDR),
    SIMPLE(CEL_QUANTITY),
    SIMPLE(CEL_SEMVER),
    SIMPLE(CEL_FORMAT),
    [CEL_LIST] = {.type = CEL_LIST, .item = &simple[CEL_DYN]},
    [CEL_MAP] = {.type = CEL_MAP, .key = &simple[CEL_DYN], .item = &simple[CEL_DYN]},
    [CEL_OPTIONAL] = {.type = CEL_OPTIONAL, .item = &simple[CEL_DYN]},
};

const struct typed *typed_simple(enum cel_type type)
{
    return &simple[type];
}

const struct typed *typed_holding(struct arena *arena,
                                  enum cel_type type,
                                  const struct typed *key,
                                  const struct typed *item)
{
    struct typed *typed = ARENA_NEW(arena, struct typed);

    *typed = (struct typed){.type = type, .key = key, .item = item};
    return typed;
}

// NOLINTNEXTLINE(misc-no-recursion)
const struct typed *typed_schema(struct arena *arena, const struct schema *schema, bool resource)
{
    enum cel_type type = field_type(schema);
    const struct schema *inside = type == CEL_LIST ? schema->items : schema->additional;

    if (schema->type == SCHEMA_ANY && !schema->int_or_string)
        return NULL;
    if (type == CEL_MAP && field_is_object(schema)) {
        struct typed *typed = ARENA_NEW(arena, struct typed);

        *typed = (struct typed){.type = CEL_MAP,
                                .object = true,
                                .resource = resource || schema->embedded,
                                .schema = schema};
        return typed;
    }
    if (type != CEL_LIST && type != CEL_MAP)
        return typed_simple(type);
    const struct typed *item = inside ? typed_schema(arena, inside, false) : NULL;
    return item
               ? typed_holding(arena, type, type == CEL_MAP ? typed_simple(CEL_STRING) : NULL, item)
               : NULL;
}

const struct typed *typed_unknown(struct typing *typing)
{
    struct typed *typed = ARENA_NEW(typing->arena, struct typed);

    VEC_PUSH(typing->arena, &typing->known, NULL);
    *typed = (struct typed){.unknown = (uint32_t)typing->known.count};
    return typed;
}

/* ---- comparing ---- */

/* A type that names another one twice, which does so too, is large: what is past this is not the
 * same. */
#define COMPARED_MAX 10000

/* The same type of list, map and so on, whatever is in it. */
static bool same_kind(const struct typed *a, const struct typed *b)
{
    return a->type == b->type && a->object == b->object && a->schema == b->schema &&
           a->fields == b->fields;
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool same_within(const struct typed *a, const struct typed *b, size_t *left)
{
    if (a == b)
        return true;
    if (!*left || a->unknown != b->unknown || !same_kind(a, b))
        return false;
    --*left;
    return (!a->key || same_within(a->key, b->key, left)) &&
           (!a->item || same_within(a->item, b->item, left));
}

bool typed_same(const struct typed *a, const struct typed *b)
{
    size_t left = COMPARED_MAX;

    return same_within(a, b, &left);
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool says_less(const struct typed *a, const struct typed *b, size_t *left)
{
    if (a == b || a->unknown || a->type == CEL_DYN)
        return true;
    if (!*left || b->unknown || b->type == CEL_DYN || !same_kind(a, b))
        return false;
    --*left;
    return (!a->key || says_less(a->key, b->key, left)) &&
           (!a->item || says_less(a->item, b->item, left));
}

const struct typed *typed_wider(const struct typed *a, const struct typed *b)
{
    size_t left = COMPARED_MAX;

    return says_less(a, b, &left) ? a : b;
}

static const struct typed *known_of(const struct typing *typing, const struct typed *unknown)
{
    return typing->known.items[unknown->unknown - 1];
}

static bool step(struct typing *typing)
{
    return ++typing->steps <= TYPED_STEPS_MAX;
}

/* What holds itself is no type. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool is_free_of(struct typing *typing, const struct typed *unknown, const struct typed *in)
{
    if (!step(typing) || in->unknown == unknown->unknown)
        return false;
    if (in->unknown) {
        const struct typed *known = known_of(typing, in);

        return !known || is_free_of(typing, unknown, known);
    }
    return (!in->key || is_free_of(typing, unknown, in->key)) &&
           (!in->item || is_free_of(typing, unknown, in->item));
}

static void learn(struct typing *typing, const struct typed *unknown, const struct typed *is)
{
    const struct typed **place = &typing->known.items[unknown->unknown - 1];

    VEC_PUSH(typing->arena, &typing->changes, (struct typed_change){unknown->unknown, *place});
    *place = is;
}

static bool fits(struct typing *typing, const struct typed *a, const struct typed *b);

/* May `unknown` be `is`? *ret_was_known: it was something already. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool may_be(struct typing *typing,
                   const struct typed *unknown,
                   const struct typed *is,
                   bool *ret_was_known)
{
    const struct typed *known = known_of(typing, unknown);

    *ret_was_known = true;
    if (is->unknown == unknown->unknown || (known && typed_same(known, is)))
        return true;
    *ret_was_known = known != NULL;
    if (!known) {
        if (!is_free_of(typing, unknown, is))
            return false;
        learn(typing, unknown, is);
        return true;
    }
    if (!fits(typing, is, known))
        return false;
    const struct typed *wider = typed_wider(is, known);
    if (is_free_of(typing, unknown, wider))
        learn(typing, unknown, wider);
    return true;
}

static bool may_be_null(const struct typed *typed)
{
    switch (typed->type) {
    case CEL_DYN:
    case CEL_ERROR:
    case CEL_NULL:
    case CEL_TIMESTAMP:
    case CEL_DURATION:
    case CEL_OPTIONAL:
    case CEL_URL:
    case CEL_IP:
    case CEL_CIDR:
    case CEL_QUANTITY:
    case CEL_SEMVER:
    case CEL_FORMAT: return true;
    case CEL_MAP: return typed->object;
    case CEL_BOOL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_STRING:
    case CEL_BYTES:
    case CEL_LIST:
    case CEL_TYPE: break;
    }
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool fits(struct typing *typing, const struct typed *a, const struct typed *b)
{
    bool was_known = false;

    if (!step(typing))
        return false;
    if (a == b)
        return true;
    if (b->unknown) {
        if (may_be(typing, b, a, &was_known))
            return true;
        if (was_known)
            return false;
    }
    if (a->unknown)
        return may_be(typing, a, b, &was_known);
    if (b->unknown)
        return false;
    if (a->type == CEL_DYN || b->type == CEL_DYN)
        return true;
    if (a->type == CEL_NULL || b->type == CEL_NULL)
        return may_be_null(a->type == CEL_NULL ? b : a);
    return same_kind(a, b) && (!a->key || fits(typing, a->key, b->key)) &&
           (!a->item || fits(typing, a->item, b->item));
}

static void forget(struct typing *typing, size_t changes)
{
    while (typing->changes.count > changes) {
        struct typed_change change = typing->changes.items[--typing->changes.count];

        typing->known.items[change.unknown - 1] = change.before;
    }
}

bool typed_fits(struct typing *typing, const struct typed *a, const struct typed *b)
{
    size_t changes = typing->changes.count;
    bool fit = fits(typing, a, b);

    if (!fit)
        forget(typing, changes);
    return fit;
}

#define COPY_STEPS 10 /* it takes memory */

// NOLINTNEXTLINE(misc-no-recursion)
const struct typed *typed_now(struct typing *typing, const struct typed *of, bool all)
{
    if (!step(typing))
        return typed_simple(CEL_DYN);
    if (of->unknown) {
        const struct typed *known = known_of(typing, of);

        return known ? typed_now(typing, known, all) : all ? typed_simple(CEL_DYN) : of;
    }
    const struct typed *key = of->key ? typed_now(typing, of->key, all) : NULL;
    const struct typed *item = of->item ? typed_now(typing, of->item, all) : NULL;
    if (key == of->key && item == of->item)
        return of;
    typing->steps += COPY_STEPS;
    return typed_holding(typing->arena, of->type, key, item);
}

/* ---- calls ---- */

#define NAMED 2 /* A and B */

struct reading {
    struct typing *typing;
    const char *at;
    const struct typed *named[NAMED];
};

// NOLINTNEXTLINE(misc-no-recursion)
static const struct typed *read_type(struct reading *reading)
{
    static const char letters[] = "*nbiudsytDTUICQVF";
    static const enum cel_type types[] = {
        CEL_DYN,    CEL_NULL,  CEL_BOOL,      CEL_INT,      CEL_UINT,  CEL_DOUBLE,
        CEL_STRING, CEL_BYTES, CEL_TIMESTAMP, CEL_DURATION, CEL_TYPE,  CEL_URL,
        CEL_IP,     CEL_CIDR,  CEL_QUANTITY,  CEL_SEMVER,   CEL_FORMAT};
    struct arena *arena = reading->typing->arena;
    char letter = *reading->at++;
    const struct typed *key = NULL;
    const struct typed *item = NULL;

    if (letter == 'A' || letter == 'B') {
        const struct typed **named = &reading->named[letter - 'A'];

        if (!*named)
            *named = typed_unknown(reading->typing);
        return *named;
    }
    if (letter == '?')
        return typed_holding(arena, CEL_OPTIONAL, NULL, read_type(reading));
    if (letter == '[' || letter == '{') {
        if (letter == '{')
            key = read_type(reading);
        item = read_type(reading);
        reading->at++;
        return typed_holding(arena, letter == '{' ? CEL_MAP : CEL_LIST, key, item);
    }
    return typed_simple(types[str_find(str_from(letters), letter)]);
}

/* One way to be called; reading->at is behind it afterwards. */
static const struct typed *try_way(struct reading *reading,
                                   const struct typed *const *args,
                                   size_t count)
{
    struct typing *typing = reading->typing;
    size_t changes = typing->changes.count;
    size_t index = 0;
    bool fit = true;

    while (*reading->at != '>') {
        const struct typed *wanted = read_type(reading);

        fit = fit && index < count && fits(typing, args[index], wanted);
        index++;
    }
    reading->at++;
    const struct typed *gives = read_type(reading);
    if (fit && index == count)
        return typed_now(typing, gives, false);
    forget(typing, changes);
    return NULL;
}

const struct typed *typed_call(struct typing *typing,
                               const char *ways,
                               const struct typed *const *args,
                               size_t count)
{
    const struct typed *result = NULL;

    for (const char *at = ways; *at;) {
        struct reading reading = {.typing = typing, .at = at};
        const struct typed *gives = try_way(&reading, args, count);

        if (gives)
            result = !result || typed_same(result, gives) ? gives : typed_simple(CEL_DYN);
        at = reading.at + (*reading.at == ' ');
    }
    return result;
}

/* ---- words ---- */

#define TEXT_BYTES_MAX 200

static const char *simple_text(const struct typed *typed)
{
    switch (typed->type) {
    case CEL_ERROR: return "!error!";
    case CEL_NULL: return "null";
    case CEL_TIMESTAMP: return "timestamp";
    case CEL_DURATION: return "duration";
    case CEL_MAP: return typed->object ? "object" : "map";
    case CEL_DYN:
    case CEL_BOOL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_STRING:
    case CEL_BYTES:
    case CEL_LIST:
    case CEL_TYPE:
    case CEL_OPTIONAL:
    case CEL_URL:
    case CEL_IP:
    case CEL_CIDR:
    case CEL_QUANTITY:
    case CEL_SEMVER:
    case CEL_FORMAT: break;
    }
    return cel_type_name(typed->type).p;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_text(struct buf *out, const struct typed *typed)
{
    if (buf_str(out).len >= TEXT_BYTES_MAX)
        return;
    buf_add(out, str_from(simple_text(typed)));
    if (!typed->item)
        return;
    buf_addc(out, '(');
    if (typed->key) {
        write_text(out, typed->key);
        buf_add(out, STR(", "));
    }
    write_text(out, typed->item);
    buf_addc(out, ')');
}

struct str typed_text(struct arena *arena, const struct typed *typed)
{
    struct buf out = {0};

    write_text(&out, typed);
    struct str text = str_dup(arena, buf_str(&out));
    buf_done(&out);
    return text;
}
