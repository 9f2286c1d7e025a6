#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_scan.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Text to tree, by recursive descent with an explicit depth. The cursor never passes `end`. An
 * error records where it stood and the way there; line and column are worked out only then.
 *
 * The cursor is passed by value and returned, NULL after a failure: it stays in a register.
 *
 * Most bytes of an object are inside strings, so these are scanned eight at a time, and every node
 * is written exactly once. */
#define PATH_BYTES       120
#define NODE_BATCH       64 /* nodes asked of the arena at once; the rest goes back at the end */
#define SCAN_MEMBERS_MAX 32 /* names of larger objects are found by a map */

/* Where the parser stands: one for every open array and object, on the stack. */
struct frame {
    const struct frame *outer;
    const struct json *member; /* object: what is being read; NULL in an array */
    size_t index;              /* array: its position */
};

struct parser {
    struct arena *arena;
    const char *start;
    const char *end;
    const char *problem; /* NULL while all is well */
    const char *problem_at;
    const struct frame *top;
    struct json *node;     /* the next free node of a batch */
    struct json *node_end; /* one past the last */
    unsigned depth;
    bool strict;
    struct json_doubles *doubles; /* NULL: nobody wants to know */
    char path[PATH_BYTES];        /* of the problem: "spec.containers[0].name" */
};

/* From the outside in; what does not fit is left out. */
static size_t add_path(const struct frame *frame, char *out)
{
    if (!frame)
        return 0;
    size_t len = add_path(frame->outer, out);
    int added = frame->member ? snprintf(out + len, PATH_BYTES - len, "%s" STR_FMT, len ? "." : "",
                                         STR_ARG(str_sub(json_key(frame->member), 0, PATH_BYTES)))
                              : snprintf(out + len, PATH_BYTES - len, "[%zu]", frame->index);
    size_t room = PATH_BYTES - len - 1;
    return len + (added > 0 && (size_t)added < room ? (size_t)added : room);
}

static const char *fail(struct parser *parser, const char *at, const char *problem)
{
    if (!parser->problem) {
        parser->problem = problem;
        parser->problem_at = at;
        (void)add_path(parser->top, parser->path);
    }
    return NULL;
}

static inline const char *skip_space(const struct parser *parser, const char *at)
{
    /* Nearly always there is none: API servers write compact text. */
    while (at < parser->end && (unsigned char)*at <= ' ' &&
           (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

static inline bool is_at(const struct parser *parser, const char *at, char c)
{
    return at < parser->end && *at == c;
}

static const char *hex4(struct parser *parser, const char *at, uint32_t *ret)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        char c = at + i < parser->end ? at[i] : '\0';
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return fail(parser, at, "\\u needs four hexadecimal digits");
        value = value * 16 + digit;
    }
    *ret = value;
    return at + 4;
}

static size_t utf8_put(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | (code >> 6));
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | (code >> 12));
        out[1] = (char)(0x80 | ((code >> 6) & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | (code >> 18));
    out[1] = (char)(0x80 | ((code >> 12) & 0x3F));
    out[2] = (char)(0x80 | ((code >> 6) & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Behind "\u": one code point, from one escape or from a pair of surrogates. A lone surrogate
 * becomes U+FFFD, as Go's decoder does. */
static const char *parse_code(struct parser *parser, const char *at, uint32_t *ret)
{
    uint32_t code = 0;
    uint32_t low = 0;

    at = hex4(parser, at, &code);
    if (at && code >= 0xD800 && code < 0xDC00 && parser->end - at >= 6 && at[0] == '\\' &&
        at[1] == 'u') {
        const char *behind = hex4(parser, at + 2, &low);

        if (!behind)
            return NULL;
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            at = behind;
        }
    }
    *ret = code >= 0xD800 && code < 0xE000 ? 0xFFFD : code;
    return at;
}

/* Behind a backslash: append what the escape stands for. */
static const char *unescape(struct parser *parser, const char *at, char *out, size_t *out_len)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    uint32_t code = 0;

    if (at >= parser->end)
        return fail(parser, at, "the text ends inside a string");
    const char *simple = *at ? strchr(from, *at) : NULL;
    if (simple) {
        out[(*out_len)++] = to[simple - from];
        return at + 1;
    }
    if (*at != 'u')
        return fail(parser, at, "unknown escape in a string");
    at = parse_code(parser, at + 1, &code);
    if (at)
        *out_len += utf8_put(code, out + *out_len);
    return at;
}

/* The next quote or backslash, the UTF-8 before it checked. */
static const char *skip_plain(struct parser *parser, const char *at)
{
    for (;;) {
        at = scan_ascii(at, parser->end);
        if (at >= parser->end)
            return fail(parser, at, "the text ends inside a string");
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            return at;
        if (c < 0x20)
            return fail(parser, at, "control character in a string");
        size_t len = str_utf8_len((struct str){at, (size_t)(parser->end - at)});
        if (!len)
            return fail(parser, at, "invalid UTF-8 in a string");
        at += len;
    }
}

/* A string with escapes, from its first byte: a copy, which is never longer than the text. `escape`
 * is the first backslash. */
static const char *parse_escaped(struct parser *parser,
                                 const char *at,
                                 const char *escape,
                                 struct str *ret)
{
    const char *end = escape;

    while (end < parser->end && *end != '"')
        end += *end == '\\' ? 2 : 1;
    if (end >= parser->end)
        return fail(parser, parser->end, "the text ends inside a string");
    char *out = arena_raw(parser->arena, (size_t)(end - at) + 1, 1);
    size_t len = 0;
    for (;;) {
        const char *run = at;

        at = skip_plain(parser, at);
        if (!at)
            return NULL;
        memcpy(out + len, run, (size_t)(at - run));
        len += (size_t)(at - run);
        if (*at++ == '"')
            break;
        at = unescape(parser, at, out, &len);
        if (!at)
            return NULL;
    }
    *ret = (struct str){out, len};
    return at;
}

/* Behind the opening quote. */
static inline const char *parse_string(struct parser *parser, const char *start, struct str *ret)
{
    const char *at = scan_ascii(start, parser->end);

    if (__builtin_expect(!is_at(parser, at, '"'), 0)) {
        at = skip_plain(parser, at);
        if (!at)
            return NULL;
        if (*at != '"')
            return parse_escaped(parser, start, at, ret);
    }
    *ret = (struct str){start, (size_t)(at - start)};
    return at + 1;
}

static const char *digits(struct parser *parser, const char *at)
{
    const char *start = at;

    while (at < parser->end && *at >= '0' && *at <= '9')
        at++;
    return at > start ? at : fail(parser, at, "a digit is missing in a number");
}

static const char *parse_number(struct parser *parser, const char *start, struct json *value)
{
    const char *at = start + is_at(parser, start, '-');

    at = is_at(parser, at, '0') ? at + 1 : digits(parser, at);
    if (at && is_at(parser, at, '.'))
        at = digits(parser, at + 1);
    if (at && (is_at(parser, at, 'e') || is_at(parser, at, 'E'))) {
        at++;
        at = digits(parser, at + (is_at(parser, at, '+') || is_at(parser, at, '-')));
    }
    if (!at)
        return NULL;
    value->type = JSON_NUMBER;
    value->text = start;
    value->len = (uint32_t)(at - start);
    return at;
}

static const char *parse_word(struct parser *parser, const char *at, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(parser->end - at) < len || memcmp(at, word, len) != 0)
        return fail(parser, at, "expected a value");
    return at + len;
}

/* ---- arrays and objects ---- */

/* The children of an array or object while it is being read. */
struct children {
    struct json *first;
    struct json *last;
    uint32_t count;
    uint64_t seen; /* a bit for each name: a clear bit means a new name without looking further */
    struct map names;
};

static inline struct json *node_raw(struct parser *parser)
{
    if (__builtin_expect(parser->node == parser->node_end, 0)) {
        parser->node =
            arena_raw(parser->arena, NODE_BATCH * sizeof(struct json), _Alignof(struct json));
        parser->node_end = parser->node + NODE_BATCH;
    }
    return parser->node++;
}

static inline void append(struct children *children, struct json *child)
{
    if (children->last)
        children->last->next = (uintptr_t)child;
    else
        children->first = child;
    children->last = child;
    children->count++;
}

/* `at` is the closing bracket; returns what is behind it. */
static inline const char *close_children(struct json *parent,
                                         const struct children *children,
                                         const char *at)
{
    parent->last = children->last;
    parent->len = children->count;
    if (children->last)
        children->last->next = (uintptr_t)children->first | 1;
    return at + 1;
}

/* The member that has this name already. `seen` sorts out nearly all new names of small objects. */
static struct json *find_name(struct parser *parser, struct children *children, struct str name)
{
    if (children->count <= SCAN_MEMBERS_MAX) {
        for (struct json *member = children->first; member; member = (struct json *)member->next) {
            if (member->key_len == name.len && memcmp(member->key, name.p, name.len) == 0)
                return member;
            if (member == children->last)
                break;
        }
        return NULL;
    }
    if (!children->names.count) {
        /* Where the text lies is nothing a peer can know: it cannot choose names that collide. */
        children->names.seed = (uintptr_t)parser->start ^ (uintptr_t)children;
        for (struct json *member = children->first;; member = (struct json *)member->next) {
            (void)map_set(&children->names, json_key(member), member);
            if (member == children->last)
                break;
        }
    }
    return map_get(&children->names, name);
}

/* The member being read is there already. */
static bool found_double(struct parser *parser)
{
    struct json_doubles *doubles = parser->doubles;
    char path[PATH_BYTES] = "";

    if (doubles && doubles->count < JSON_DOUBLES_MAX) {
        size_t len = add_path(parser->top, path);
        doubles->paths[doubles->count++] = str_dup(parser->arena, (struct str){path, len});
    }
    return !parser->strict;
}

/* Add a member, or put its value in the place of the one that has its name. */
static inline bool add_member(struct parser *parser, struct children *children, struct json *member)
{
    struct str name = json_key(member);
    unsigned bit = (unsigned)name.len;
    if (name.len)
        bit += 5U * (unsigned char)name.p[0] + 3U * (unsigned char)name.p[name.len - 1] +
               7U * (unsigned char)name.p[name.len / 2];
    uint64_t mask = (uint64_t)1 << (bit & 63);
    bool maybe = (children->seen & mask) != 0 || children->count > SCAN_MEMBERS_MAX;

    children->seen |= mask;
    struct json *same = maybe ? find_name(parser, children, name) : NULL;
    if (same) {
        uintptr_t next = same->next;

        *same = *member;
        same->next = next;
        return found_double(parser);
    }
    append(children, member);
    if (children->names.count)
        (void)map_set(&children->names, name, member);
    return true;
}

static const char *parse_container(struct parser *parser, const char *at, struct json *value);

// NOLINTNEXTLINE(misc-no-recursion)
static inline __attribute__((always_inline)) const char *parse_value(struct parser *parser,
                                                                     const char *at,
                                                                     struct json *value)
{
    struct str text;

    at = skip_space(parser, at);
    if (at >= parser->end)
        return fail(parser, at, "the text ends where a value is expected");
    switch (*at) {
    case '"':
        at = parse_string(parser, at + 1, &text);
        if (!at)
            return NULL;
        value->type = JSON_STRING;
        value->text = text.p;
        value->len = (uint32_t)text.len;
        return at;
    case '{':
    case '[': return parse_container(parser, at, value);
    case 't':
    case 'f':
        value->type = JSON_BOOL;
        value->truth = *at == 't';
        value->len = 0;
        return parse_word(parser, at, value->truth ? "true" : "false");
    case 'n':
        value->type = JSON_NULL;
        value->text = NULL;
        value->len = 0;
        return parse_word(parser, at, "null");
    default:
        if (*at != '-' && (*at < '0' || *at > '9'))
            return fail(parser, at, "expected a value");
        return parse_number(parser, at, value);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static const char *parse_items(struct parser *parser,
                               const char *at,
                               struct frame *frame,
                               struct json *array)
{
    struct children children = {0};

    at = skip_space(parser, at);
    if (is_at(parser, at, ']'))
        return close_children(array, &children, at);
    for (;; at++) {
        struct json *item = node_raw(parser);

        item->key = NULL;
        item->key_len = 0;
        at = parse_value(parser, at, item);
        if (!at)
            return NULL;
        append(&children, item);
        frame->index++;
        at = skip_space(parser, at);
        if (!is_at(parser, at, ','))
            break;
    }
    if (!is_at(parser, at, ']'))
        return fail(parser, at, "expected ',' or ']' in an array");
    return close_children(array, &children, at);
}

/* A name and the colon behind it. */
static inline const char *parse_name(struct parser *parser, const char *at, struct json *member)
{
    struct str name;

    at = skip_space(parser, at);
    if (!is_at(parser, at, '"'))
        return fail(parser, at, "expected a member name in quotes");
    at = parse_string(parser, at + 1, &name);
    if (!at)
        return NULL;
    member->key = name.p;
    member->key_len = (unsigned)name.len & ((1U << 29) - 1); /* JSON_BYTES_MAX is far below */
    at = skip_space(parser, at);
    return is_at(parser, at, ':') ? at + 1 : fail(parser, at, "expected ':' after a member name");
}

// NOLINTNEXTLINE(misc-no-recursion)
static const char *parse_members(struct parser *parser,
                                 const char *at,
                                 struct frame *frame,
                                 struct children *children,
                                 struct json *object)
{
    at = skip_space(parser, at);
    if (is_at(parser, at, '}'))
        return close_children(object, children, at);
    for (;; at++) {
        struct json *member = node_raw(parser);
        const char *start = skip_space(parser, at);

        at = parse_name(parser, start, member);
        if (!at)
            return NULL;
        frame->member = member;
        at = parse_value(parser, at, member);
        if (!at)
            return NULL;
        if (!add_member(parser, children, member))
            return fail(parser, start, "this member appears twice");
        if (children->count > JSON_MEMBERS_MAX)
            return fail(parser, start, "an object has too many members");
        at = skip_space(parser, at);
        if (!is_at(parser, at, ','))
            break;
    }
    if (!is_at(parser, at, '}'))
        return fail(parser, at, "expected ',' or '}' in an object");
    return close_children(object, children, at);
}

// NOLINTNEXTLINE(misc-no-recursion)
static const char *parse_container(struct parser *parser, const char *at, struct json *value)
{
    /* A place in an object can be named only once there is a member. */
    static const struct json nameless = {.key = ""};
    struct frame frame = {.outer = parser->top};

    if (++parser->depth > JSON_DEPTH_MAX)
        return fail(parser, at, "nested too deeply");
    parser->top = &frame;
    if (*at == '{') {
        struct children children = {0};

        value->type = JSON_OBJECT;
        frame.member = &nameless;
        at = parse_members(parser, at + 1, &frame, &children, value);
        if (children.names.slots)
            map_done(&children.names);
    } else {
        value->type = JSON_ARRAY;
        at = parse_items(parser, at + 1, &frame, value);
    }
    parser->top = frame.outer;
    parser->depth--;
    return at;
}

static int report(const struct parser *parser, struct err *err)
{
    size_t line = 1;
    const char *line_start = parser->start;

    for (const char *p = parser->start; p < parser->problem_at; p++) {
        if (*p == '\n') {
            line++;
            line_start = p + 1;
        }
    }
    return err_set(err, -EINVAL, "line %zu, column %zu%s%s: %s", line,
                   (size_t)(parser->problem_at - line_start) + 1, parser->path[0] ? ", at " : "",
                   parser->path, parser->problem);
}

static int parse(struct parser *parser, struct str text, struct json **ret, struct err *err)
{
    parser->start = text.p ? text.p : "";
    parser->end = parser->start + text.len;
    if (text.len > JSON_BYTES_MAX)
        return err_set(err, -EINVAL, "JSON of %zu bytes is over the limit of %zu", text.len,
                       JSON_BYTES_MAX);
    struct json *root = node_raw(parser);
    *root = (struct json){0};
    const char *at = parse_value(parser, parser->start, root);
    if (at) {
        at = skip_space(parser, at);
        if (at != parser->end)
            at = fail(parser, at, "unexpected text after the value");
    }
    arena_trim(parser->arena, parser->node,
               (size_t)(parser->node_end - parser->node) * sizeof(struct json));
    if (!at)
        return report(parser, err);
    *ret = root;
    return 0;
}

int json_parse(struct arena *arena, struct str text, struct json **ret, struct err *err)
{
    return parse(&(struct parser){.arena = arena}, text, ret, err);
}

int json_parse_strict(struct arena *arena, struct str text, struct json **ret, struct err *err)
{
    return parse(&(struct parser){.arena = arena, .strict = true}, text, ret, err);
}

int json_parse_telling(struct arena *arena,
                       struct str text,
                       struct json_doubles *doubles,
                       struct json **ret,
                       struct err *err)
{
    *doubles = (struct json_doubles){0};
    return parse(&(struct parser){.arena = arena, .doubles = doubles}, text, ret, err);
}
