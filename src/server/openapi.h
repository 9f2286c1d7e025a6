#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct arena;
struct buf;
struct json;
struct kind;

/* openapi: the documents that kubectl reads to validate, diff and explain.
 *
 * Schemas of custom kinds come from their CustomResourceDefinitions, which are watched; those of
 * the built-in ones from the types (api/types.h). */
/* Changes whenever a document could. */
uint64_t openapi_version(const struct api *api);

/* Name -> schema, for the kinds of one group version (group STR_NONE: of all) and every type they
 * refer to. Kinds whose fields are not known are left out when `known_only`. */
struct json *openapi_schemas(const struct api *api,
                             struct arena *arena,
                             struct str group,
                             struct str version,
                             bool known_only);

/* openapi_v2.c: the version 2 document in protobuf: a PATCH path for every kind and the schemas. */
void openapi_write_v2(struct buf *buf,
                      struct arena *arena,
                      const struct api *api,
                      const struct json *schemas);
/* The same as JSON; `schemas` is changed. */
struct json *openapi_json_v2(struct arena *arena, const struct api *api, struct json *schemas);
