#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cel_run;
struct json;
struct schema;

/* value: what an expression works on. A value is passed by copy and never changes; lists and maps
 * are either made by the expression or a view of JSON, whose members become values when they are
 * looked at: an object is never copied whole. */
enum cel_type {
    CEL_DYN, /* of a declaration: anything. No value has it. */
    CEL_ERROR,
    CEL_NULL,
    CEL_BOOL,
    CEL_INT,
    CEL_UINT,
    CEL_DOUBLE,
    CEL_STRING,
    CEL_BYTES,
    CEL_LIST,
    CEL_MAP,
    CEL_TIMESTAMP,
    CEL_DURATION,
    CEL_TYPE,
    CEL_OPTIONAL,
    CEL_URL,
    CEL_IP,
    CEL_CIDR,
    CEL_QUANTITY,
    CEL_SEMVER,
    CEL_FORMAT,
};

struct cel_list;
struct cel_map;
struct cel_url;
struct cel_ip;
struct cel_semver;
struct cel_quantity;

struct cel_value {
    enum cel_type type;
    uint32_t nanos; /* of a timestamp */
    union {
        bool truth;
        int64_t i; /* seconds since 1970 of a timestamp, nanoseconds of a duration */
        uint64_t u;
        double d;
        struct str s; /* text, bytes, words of an error, name of a type, name of a format */
        const struct cel_list *list;
        const struct cel_map *map;
        const struct cel_value *held; /* of an optional; NULL: none */
        const struct cel_url *url;
        const struct cel_ip *ip; /* also of a CIDR */
        const struct cel_quantity *quantity;
        const struct cel_semver *semver;
    };
};

struct cel_list {
    const struct cel_value *items; /* NULL with json */
    size_t count;
    const struct json *json;
    const struct schema *schema; /* of the list itself; NULL: items of any type, in order */
};

struct cel_entry {
    struct cel_value key;
    struct cel_value value;
};

struct cel_map {
    const struct cel_entry *entries;
    size_t count;
    const struct json *json;
    const struct schema *schema; /* of the object itself; NULL: members of any type */
    bool resource;
    bool open; /* x[key] of a key that is not there is an empty map */
};

static inline struct cel_value cel_bool(bool truth)
{
    return (struct cel_value){.type = CEL_BOOL, .truth = truth};
}
static inline struct cel_value cel_int(int64_t i)
{
    return (struct cel_value){.type = CEL_INT, .i = i};
}
static inline struct cel_value cel_uint(uint64_t u)
{
    return (struct cel_value){.type = CEL_UINT, .u = u};
}
static inline struct cel_value cel_double(double d)
{
    return (struct cel_value){.type = CEL_DOUBLE, .d = d};
}
static inline struct cel_value cel_string(struct str s)
{
    return (struct cel_value){.type = CEL_STRING, .s = s};
}
static inline struct cel_value cel_null(void)
{
    return (struct cel_value){.type = CEL_NULL};
}
static inline struct cel_value cel_duration(int64_t nanoseconds)
{
    return (struct cel_value){.type = CEL_DURATION, .i = nanoseconds};
}
/* `words` lives as long as the value: a literal, or text of the arena. */
static inline struct cel_value cel_error(struct str words)
{
    return (struct cel_value){.type = CEL_ERROR, .s = words};
}
static inline bool cel_is_true(struct cel_value value)
{
    return value.type == CEL_BOOL && value.truth;
}

/* A view of JSON; absent is null. With a schema, texts of the formats date-time, duration and byte
 * are what they say, and numbers are whole or not by their type. */
struct cel_value cel_from_json(struct arena *arena,
                               const struct json *value,
                               const struct schema *schema);
/* The same for the root of an object, which has apiVersion, kind and metadata. */
struct cel_value cel_from_resource(struct arena *arena,
                                   const struct json *value,
                                   const struct schema *schema);

/* Lists and maps of the caller. */
struct cel_value cel_new_list(struct arena *arena, const struct cel_value *items, size_t count);
struct cel_value cel_new_map(struct arena *arena, const struct cel_entry *entries, size_t count);
struct cel_value cel_new_optional(struct arena *arena, struct cel_value value);

/* Walks lists and maps: key is the index or the key. */
struct cel_walk {
    struct arena *arena;
    struct cel_value of;
    size_t index;
    const struct json *at;
    struct cel_value key;
    struct cel_value value;
};
struct cel_walk cel_walk(struct arena *arena, struct cel_value of);
bool cel_next(struct cel_walk *walk);

size_t cel_count(struct cel_value value);
/* False: there is none. */
bool cel_list_at(struct arena *arena, struct cel_value list, size_t index, struct cel_value *ret);
bool cel_map_at(struct arena *arena,
                struct cel_value map,
                struct cel_value key,
                struct cel_value *ret);

/* Equal as CEL has it: numbers by amount whatever their type, maps without order. */
bool cel_equal(struct cel_value a, struct cel_value b);
/* The same in at most *steps, about one a member; what is left is in *steps. 0: it was not enough,
 * and the answer does not count. */
bool cel_equal_within(struct cel_value a, struct cel_value b, uint64_t *steps);
/* -1, 0, 1; 2: they have no order (NaN, or types that do not compare). */
int cel_compare(struct cel_value a, struct cel_value b);

/* "int", "google.protobuf.Timestamp", ... */
struct str cel_type_name(enum cel_type type);
