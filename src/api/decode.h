#pragma once

#include "api/object.h"
#include "api/quantity.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;

/* decode: JSON objects into C structs, by table.
 *
 *     struct policy {
 *         struct str queue;
 *         int64_t restarts;
 *         enum clean clean;            // indexes the words
 *         const struct role *roles;
 *         size_t role_count;
 *     };
 *     static const char *const clean_words[] = {"None", "Running", "All", NULL};
 *     static const struct decode_field policy_fields[] = {
 *         DECODE_FIELD(struct policy, queue, "jobQueue", STR, .alias = "queue"),
 *         DECODE_FIELD(struct policy, restarts, "limits.restarts", I64, .max = 100, .absent = "3"),
 *         DECODE_FIELD(struct policy, clean, "cleanPodPolicy", ENUM, .words = clean_words),
 *         DECODE_ITEMS(struct policy, roles, role_count, "roles", LIST, .table = &role_table),
 *     };
 *     const struct decode_table policy_table = DECODE_TABLE(struct policy, "spec", policy_fields);
 *
 *     r = decode_object(&policy_table, arena, tree, &policy, err);
 *
 * A name is a path: dots go down into objects. Absent, null and the empty string are the same: the
 * field then gets what .alias (a second spelling, from the same object) has, else what .absent says
 * in the words of the API, else zero. What is there must be of the field's type and in its range,
 * or decoding ends with -EINVAL and "spec.limits.restarts: 200 is not within 0..100". Fields that
 * no table names are not looked at: schemas refuse or prune them. Everything decoded points into
 * the tree, the arena or the table.
 *
 * Every kind of deploy/crds says by a struct decode_kind, beside its tables, what it reads; the
 * list of them is in src/control/kinds/tables_test.c, which compares each with its schema. To add a
 * kind: write the table, make its decode_kind, add it to that list, and follow what the test says
 * until it has nothing to say. */
enum decode_type {
    DECODE_STR,      /* struct str */
    DECODE_BOOL,     /* bool */
    DECODE_I64,      /* int64_t, within min..max */
    DECODE_NUMBER,   /* double; a number, or a quantity as text */
    DECODE_QUANTITY, /* struct quantity */
    DECODE_MILLI,    /* int64_t, thousandths of a quantity, within min..max */
    DECODE_WHOLE,    /* int64_t, units of a quantity, within min..max */
    DECODE_DURATION, /* int64_t, ms; "1h30m" */
    DECODE_TIME,     /* int64_t, ms since 1970; RFC 3339 */
    DECODE_ENUM,     /* an enum: index of the word in .words */
    DECODE_JSON,     /* const struct json *, kept whole whatever it is; NULL when absent or null */
    DECODE_OBJECT,   /* a struct inside this one, by .table */
    DECODE_STRS,     /* const struct str *, and the count: list of strings */
    DECODE_MAP,      /* const struct object_label *, and the count: strings by name */
    DECODE_LIST,     /* const struct x *, and the count: list of objects, by .table */
};

struct decode_field {
    const char *name;
    const char *alias; /* NULL: one spelling */
    enum decode_type type;
    bool required; /* absent is an error */
    size_t offset;
    size_t count_offset;      /* of STRS, MAP, LIST */
    int64_t min;              /* min == max == 0: any; .max alone means 0..max */
    int64_t max;              /* of STRS, MAP, LIST: how many; 0: DECODE_ITEMS_MAX */
    const char *absent;       /* "3", "true", "10m", "Running"; not held against min..max */
    const char *const *words; /* of ENUM, NULL-terminated; "" keeps an index for "absent" */
    const struct decode_table *table;
};

struct decode_table {
    const char *at; /* path of the object it reads; NULL: the one it is given */
    size_t size;    /* of the struct */
    const struct decode_field *fields;
    size_t count;
};

#define DECODE_ITEMS_MAX 10000 /* of one list: ten times the pods of the largest job */

/* The C type of a member is checked against the field's: an error "size of array is negative" here
 * means they differ. */
#define DECODE_FIELD(owner, member, field, kind, ...)                               \
    {                                                                               \
        .name = (field), .type = DECODE_##kind,                                     \
        .offset = offsetof(owner, member) +                                         \
                  DECODE_CHECK(DECODE_IS_##kind(__typeof__(((owner *)0)->member))), \
        ##__VA_ARGS__                                                               \
    }
#define DECODE_ITEMS(owner, items, count_member, field, kind, ...)                                 \
    {                                                                                              \
        .name = (field), .type = DECODE_##kind,                                                    \
        .offset = offsetof(owner, items) +                                                         \
                  DECODE_CHECK(DECODE_IS_##kind(__typeof__(((owner *)0)->items))),                 \
        .count_offset = offsetof(owner, count_member) +                                            \
                        DECODE_CHECK(DECODE_SAME(__typeof__(((owner *)0)->count_member), size_t)), \
        ##__VA_ARGS__                                                                              \
    }
#define DECODE_TABLE(type, path, list)                        \
    {                                                         \
        .at = (path), .size = sizeof(type), .fields = (list), \
        .count = sizeof(list) / sizeof(*(list))               \
    }

/* Fill *ret; members that no field names become zero. On failure *ret is as it was. */
int decode_object(const struct decode_table *table,
                  struct arena *arena,
                  const struct json *object,
                  void *ret,
                  struct err *err);
/* The same, but what is absent leaves its member alone and is never missed; so does what is wrong,
 * and decoding goes on behind it: the first error is returned and all the rest is used. For what
 * one object says over another, and for readers who must make do. */
int decode_over(const struct decode_table *table,
                struct arena *arena,
                const struct json *object,
                void *ret,
                struct err *err);

/* What the code reads of a kind: for the test, and for whoever asks what a field does here. */
struct decode_use {
    const struct decode_table *table;
    const char *at; /* path of the object the table is given: "spec", "spec.replicaSpecs.*" (each of
                       a map); NULL: the whole */
};

struct decode_note {
    const char *path; /* "spec.displayName"; what is below it is meant too */
    const char *text;
};

#define DECODE_USES_MAX 8

struct decode_kind {
    const char *crd;     /* "queues.scheduling.run.ai" */
    const char *version; /* NULL: all that the CRD has */
    struct decode_use uses[DECODE_USES_MAX];
    /* Both up to a NULL path; NULL: none. */
    const struct decode_note *by_hand; /* read without a table, and where */
    const struct decode_note *carried; /* stored and shown but read by nothing here, and why */
};

/* ---- for the macros above ---- */
#define DECODE_CHECK(truth)      (0 * sizeof(char[(truth) ? 1 : -1]))
#define DECODE_SAME(a, b)        __builtin_types_compatible_p(a, b)
#define DECODE_IS_STR(type)      DECODE_SAME(type, struct str)
#define DECODE_IS_BOOL(type)     DECODE_SAME(type, bool)
#define DECODE_IS_I64(type)      DECODE_SAME(type, int64_t)
#define DECODE_IS_NUMBER(type)   DECODE_SAME(type, double)
#define DECODE_IS_QUANTITY(type) DECODE_SAME(type, struct quantity)
#define DECODE_IS_MILLI(type)    DECODE_SAME(type, int64_t)
#define DECODE_IS_WHOLE(type)    DECODE_SAME(type, int64_t)
#define DECODE_IS_DURATION(type) DECODE_SAME(type, int64_t)
#define DECODE_IS_TIME(type)     DECODE_SAME(type, int64_t)
#define DECODE_IS_ENUM(type)     (sizeof(type) == sizeof(int))
#define DECODE_IS_JSON(type)     DECODE_SAME(type, const struct json *)
#define DECODE_IS_OBJECT(type)   (sizeof(type) > 0)
#define DECODE_IS_STRS(type)     DECODE_SAME(type, const struct str *)
#define DECODE_IS_MAP(type)      DECODE_SAME(type, const struct object_label *)
#define DECODE_IS_LIST(type)     (sizeof(type) == sizeof(void *))
