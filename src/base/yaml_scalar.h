#pragma once

#include "base/str.h"

struct arena;
struct json;

/* yaml_scalar: what a plain (unquoted, untagged) scalar means; base/yaml.h has the rules. */

/* The value, or NULL for a number that JSON cannot write (.inf, .nan). Strings are copied. */
struct json *yaml_scalar(struct arena *arena, struct str text);
