#pragma once

struct kind;
struct object;
struct shelf;

/* The object as `kind`, another version of its own; with a reference. Of a shelf whose versions a
 * webhook converts it is the object itself. */
const struct object *convert_object(const struct shelf *shelf,
                                    const struct object *object,
                                    const struct kind *kind);
