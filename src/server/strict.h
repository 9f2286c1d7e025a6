#pragma once

struct arena;
struct buf;
struct json;
struct kind;

/* strict: the fields of an object, or of a patch of one, that its built-in kind does not have, by
 * server/shape.h: `unknown field "spec.containers[0].imagee"`, separated by commas, appended to
 * `out`. Nothing for kinds without a shape; custom kinds have their schema. Pure. */
void strict_check(struct arena *arena,
                  const struct kind *kind,
                  const struct json *root,
                  struct buf *out);
