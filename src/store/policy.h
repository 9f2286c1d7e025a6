#pragma once

#include "base/str.h"

#include <stdbool.h>

struct json;
struct write;

/* policy: ValidatingAdmissionPolicies, held against a write. */
struct policy_refusal {
    int status;
    const char *reason;
    struct str words;
};
/* False: a ValidatingAdmissionPolicy refuses. `operation`: CREATE, UPDATE, DELETE; `object` or `old`
 * is NULL where there is none. */
bool policy_run(struct write *write,
                const char *operation,
                const struct json *object,
                const struct json *old,
                struct policy_refusal *refusal);
