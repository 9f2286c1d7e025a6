#pragma once

struct kind_crd;
struct object;

/* fill: the object with the defaults that its definition has now; with a reference. */
const struct object *fill_defaults(const struct kind_crd *crd, const struct object *object);
