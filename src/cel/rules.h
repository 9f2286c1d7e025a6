#pragma once

#include "base/str.h"

#include <stdbool.h>

struct admit;
struct arena;
struct json;
struct rules;
struct schema;

/* rules: x-kubernetes-validations of a CRD's schema. They are compiled when the CRD is written,
 * which is refused where one is wrong, and evaluated when an object is. */

/* The rules of one version. Borrows from the schema and the JSON it was made of. With an admit, what
 * is wrong with them becomes causes below `path`; without, a wrong rule fails every object. NULL:
 * there are none. */
const struct rules *rules_compile(struct arena *arena,
                                  const struct schema *schema,
                                  struct admit *admit,
                                  struct str path);

/* All of a CRD's versions, as above: admit->object is the CRD. */
void rules_check_crd(struct admit *admit);

/* Causes are added to `admit`, which has the object and what it was (NULL: it is new). A rule that
 * fails about a value that did not change is a warning: who did not break it need not mend it.
 * *warnings has a line for each such. */
void rules_validate(struct admit *admit,
                    const struct rules *rules,
                    const struct schema *schema,
                    struct str *warnings);
