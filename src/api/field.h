#pragma once

#include "base/str.h"

struct arena;
struct err;
struct kind;
struct kind_crd;
struct selector;

/* field: which fields of a kind objects may be selected by. Kubernetes has a short list for each
 * kind, and CRDs name theirs (selectableFields); all others are refused, so that a misspelt field
 * does not quietly select nothing.
 *
 * `crd` is NULL for built-in kinds. Terms come back with the paths of the object as it is stored:
 * `regarding.name` of events.k8s.io is `involvedObject.name` there. -EINVAL with words. */
int field_selector_parse(struct arena *arena,
                         const struct kind *kind,
                         const struct kind_crd *crd,
                         struct str text,
                         struct selector *ret,
                         struct err *err);
