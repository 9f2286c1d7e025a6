#pragma once

struct kind;
struct object;

/* The object as `kind`, another version of its own; with a reference. */
const struct object *convert_object(const struct object *object, const struct kind *kind);
