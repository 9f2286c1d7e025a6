#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct kind;

/* virtual: what is served but not stored: subresources with their own behaviour, and kinds that are
 * only questions (access reviews, what pods use). Discovery lists them; their files answer them. */
struct virtual_subresource {
    const char *plural; /* of the resource it belongs to */
    const char *name;
    const char *group; /* NULL: that of the resource */
    const char *version;
    const char *kind;  /* NULL: that of the resource */
    const char *verbs; /* JSON strings */
};

struct virtual_kind {
    const char *group;
    const char *version;
    const char *kind;
    const char *plural;
    const char *singular;
    bool namespaced;
    const char *verbs; /* JSON strings */
};

struct virtual_group {
    const char *name;
    const char *version; /* the only one */
};

extern const struct virtual_subresource virtual_subresources[];
extern const size_t virtual_subresource_count;
extern const struct virtual_kind virtual_kinds[];
extern const size_t virtual_kind_count;
extern const struct virtual_group virtual_groups[];
extern const size_t virtual_group_count;

bool virtual_applies(const struct virtual_subresource *sub, const struct kind *kind);
/* NULL: there is none of that name. */
const struct virtual_group *virtual_group(struct str name);
