#pragma once

#include "api/kind.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admit;
struct arena;
struct err;
struct json;
struct schema_unknown;

/* crd: what a CustomResourceDefinition means. */
struct crd_version {
    struct kind kind; /* its texts live on the arena */
    struct kind_crd crd;
    bool served;
    bool storage;
};

struct crd {
    const struct json *webhook; /* that converts; NULL: none does */
    const struct crd_version *versions;
    size_t version_count;
};

#define CRD_VERSIONS_MAX 20
#define CRD_FINALIZER    "customresourcecleanup.apiextensions.k8s.io"

/* Names, plural and the like, where the client left them out. */
void crd_default(struct admit *admit);
void crd_add(struct admit *admit);
/* Causes are added to `admit`; schemas are compiled to see that they can be. */
void crd_validate(struct admit *admit);
/* The conditions that clients wait for (Established, NamesAccepted). `root` is changed. */
void crd_set_status(struct arena *arena, struct json *root, int64_t now_ms);
/* A valid CRD as kinds. Borrows from `root`, which must be on the same arena. */
int crd_parse(struct arena *arena, const struct json *root, struct crd **ret, struct err *err);
/* For who asks behind an API server: what stands in the places of an object, of a kind of
 * deploy/crds, that have the type of another (schema.h, title), as pod templates. Fields that the
 * type does not have are told and taken out of the object, and what does not fit is a cause. */
void crd_check_templates(struct admit *admit, struct schema_unknown *unknown);
