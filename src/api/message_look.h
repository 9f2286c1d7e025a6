#pragma once

#include "base/str.h"

#include <stddef.h>

struct admit;
struct json;
struct schema_path;

/* message_look: what rules of messages (message_rules.h) are given, and say.  `path` is NULL at the
 * top of an object. */
struct look {
    struct admit *admit;
    const struct json *object;
    const struct schema_path *path;
};

struct message_rule {
    const char *version;
    const char *name;
    void (*check)(const struct look *look);
};

/* By name, as they are searched. message_kinds.c: of kinds for priority, volumes, events and addresses. */
extern const struct message_rule message_common[];
extern const size_t message_common_count;
extern const struct message_rule message_kinds[];
extern const size_t message_kind_count;

/* "spec.rules[0]" */
struct str look_here(const struct look *look);
/* "spec.rules[0].field"; of the n-th item of a list that is a field. */
struct str look_at(const struct look *look, const char *field);
struct str look_at_item(const struct look *look, const char *list, size_t index);
struct str look_text(const struct look *look, const char *field);
/* A map of labels. */
void look_labels(const struct look *look, const char *field);
/* What is there is no value of the field. */
void look_wrong(const struct look *look, const char *field, const char *why);
