#pragma once

#include "api/quantity.h"
#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* object: the values that Kubernetes adds to the language. */
struct cel_url {
    struct str text; /* as it is compared */
    struct str scheme;
    struct str host; /* with the port */
    struct str hostname;
    struct str port;
    struct str path; /* escaped */
    struct str query;
};

struct cel_ip {
    unsigned char bytes[16]; /* the first four of an IPv4 address */
    bool six;
    unsigned char prefix; /* of a CIDR */
};

struct cel_quantity {
    struct quantity amount;
};

struct cel_semver {
    uint64_t major;
    uint64_t minor;
    uint64_t patch;
    struct str before; /* what is behind the -, "rc.1" */
};

/* Both are of one of these types, and of the same. */
bool object_equal(struct cel_value a, struct cel_value b);
/* -1, 0, 1 */
int object_semver_compare(const struct cel_semver *a, const struct cel_semver *b);
/* Of a text that is one as semver.org has it; an error otherwise. */
struct cel_value object_semver(struct arena *arena, struct str text);
/* Text of whatever has one: numbers, booleans, moments, addresses; "" for others. */
struct str object_text(struct arena *arena, struct cel_value value);
