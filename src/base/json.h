#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct err;

/* json: a document tree on an arena.
 *
 * Parsing is strict: RFC 8259 grammar, valid UTF-8, bounded depth and size, no trailing text.
 * Members keep their order; numbers keep their text, so nothing is lost by reading and writing an
 * object. Strings without escapes point into the text that was parsed, which must therefore live as
 * long as the tree. Of duplicate members the last one counts, in the place of the first, as in
 * Kubernetes; json_parse_strict() refuses them, json_parse_telling() names them.
 *
 * The tree may be changed (patches do); new nodes come from an arena given by the caller. A value
 * belongs to one parent: use json_clone() to put it into a second one. All readers accept NULL and
 * values of another type: json_get(NULL, ...) is NULL, json_str() of a number is STR_NONE. So a
 * chain of lookups needs one check at its end. */
enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

#define JSON_DEPTH_MAX 256
#define JSON_BYTES_MAX ((size_t)64 << 20) /* the largest document: a list of some 15,000 pods */
#define JSON_MEMBERS_MAX \
    20000 /* of one object: a ConfigMap of 1 MiB has fewer; code may scan them */

/* Read the members through the functions below only; the layout is private. 32 bytes: a list of
 * pods takes about half again its text. */
struct json {
    /* The sibling behind this one. The last one points back to the first, with its lowest bit set,
     * so that a parent needs to know only its last child. */
    uintptr_t next;
    const char *key; /* name in the parent object; NULL in arrays and at the top */
    union {
        const char *text;  /* string: its bytes; number: as written */
        struct json *last; /* array, object: NULL when empty */
        bool truth;
    };
    enum json_type type : 3;
    unsigned key_len : 29;
    uint32_t len; /* string, number: bytes; array, object: members */
};

/* Returns 0 and the tree, or -EINVAL with line, column, path and what was expected. */
int json_parse(struct arena *arena, struct str text, struct json **ret, struct err *err);
/* The same, but a member that is there twice is an error. */
int json_parse_strict(struct arena *arena, struct str text, struct json **ret, struct err *err);
/* The same, but they are told: "spec.containers[0].image", in the order of the text. */
#define JSON_DOUBLES_MAX 16 /* further ones are not told */
struct json_doubles {
    struct str paths[JSON_DOUBLES_MAX];
    size_t count;
};
int json_parse_telling(struct arena *arena,
                       struct str text,
                       struct json_doubles *doubles,
                       struct json **ret,
                       struct err *err);

/* ---- reading ---- */
static inline bool json_is(const struct json *value, enum json_type type)
{
    return value && value->type == type;
}
/* Absent or null: Kubernetes makes no difference. */
static inline bool json_is_null(const struct json *value)
{
    return !value || value->type == JSON_NULL;
}
/* Members of an array or object; 0 for anything else. */
static inline size_t json_count(const struct json *value)
{
    return value && value->type >= JSON_ARRAY ? value->len : 0;
}
static inline struct json *json_first(const struct json *value)
{
    return value && value->type >= JSON_ARRAY && value->last
               ? (struct json *)(value->last->next & ~(uintptr_t)1)
               : NULL;
}
static inline struct json *json_next(const struct json *value)
{
    return value && !(value->next & 1) ? (struct json *)value->next : NULL;
}
static inline struct str json_key(const struct json *value)
{
    return (struct str){value->key, value->key_len};
}
#define JSON_FOREACH(parent, child) \
    for (struct json *child = json_first(parent); child; child = json_next(child))

struct json *json_get(const struct json *object, const char *key);
struct json *json_get_str(const struct json *object, struct str key);
struct json *json_index(const struct json *array, size_t index);
/* "spec.template.spec": member names separated by dots, for names without dots. A number selects
 * from an array: "spec.containers.0.name". */
struct json *json_at(const struct json *value, const char *path);
/* Text of a string, STR_NONE otherwise. */
struct str json_str(const struct json *value);
struct str json_str_at(const struct json *value, const char *path);
/* A whole number in range: false and *ret untouched otherwise. 1e3 and 2.0 are whole numbers. */
bool json_i64(const struct json *value, int64_t *ret);
int64_t json_i64_or(const struct json *value, int64_t otherwise);
bool json_bool_or(const struct json *value, bool otherwise);
/* The text of a number as written, STR_NONE otherwise. */
struct str json_number_text(const struct json *value);
bool json_equal(const struct json *a, const struct json *b); /* member order does not count */

/* ---- building ---- (strings are borrowed: str_dup() what does not live as long) */
struct json *json_new_null(struct arena *arena);
struct json *json_new_bool(struct arena *arena, bool truth);
struct json *json_new_i64(struct arena *arena, int64_t number);
struct json *json_new_number(struct arena *arena, struct str text);
struct json *json_new_str(struct arena *arena, struct str text);
struct json *json_new_array(struct arena *arena);
struct json *json_new_object(struct arena *arena);
/* A deep copy whose strings are copied too: it shares nothing with the original. */
struct json *json_clone(struct arena *arena, const struct json *value);

/* Set a member, replacing one of that name in its place. `key` is borrowed. Returns `value`. */
struct json *json_set(struct json *object, struct str key, struct json *value);
/* The same for a name that no member has: nothing is looked through. */
struct json *json_append(struct json *object, struct str key, struct json *value);
struct json *json_push(struct json *array, struct json *value);
/* Insert before `index`; index == count appends. */
void json_insert(struct json *array, size_t index, struct json *value);
bool json_remove(struct json *object, struct str key);
void json_remove_index(struct json *array, size_t index);

/* The common cases, each one line. `key` must be a literal or outlive the tree. */
struct json *json_add_object(struct arena *arena, struct json *object, const char *key);
struct json *json_add_array(struct arena *arena, struct json *object, const char *key);
void json_add_str(struct arena *arena, struct json *object, const char *key, struct str text);
void json_add_c(struct arena *arena, struct json *object, const char *key, const char *text);
void json_add_i64(struct arena *arena, struct json *object, const char *key, int64_t number);
void json_add_bool(struct arena *arena, struct json *object, const char *key, bool truth);
/* The object at `path` (dots between names), made where it is missing. */
struct json *json_make_path(struct arena *arena, struct json *object, const char *path);

/* ---- writing ---- */
void json_write(struct buf *buf, const struct json *value);        /* compact */
void json_write_pretty(struct buf *buf, const struct json *value); /* four blanks, as kubectl */
void json_write_string(struct buf *buf, struct str text);          /* quoted and escaped */
struct str json_text(struct arena *arena, const struct json *value);
