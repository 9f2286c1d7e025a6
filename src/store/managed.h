#pragma once

#include "api/apply.h"

#include <stdbool.h>

struct json;
struct write;

/* managed: who owns which fields of an object. */
struct apply apply_for(const struct write *write, bool force);
/* To work it out takes too much. */
int apply_too_large(struct write *write);
/* An object is new, with its defaults and nothing of the server's own yet: whoever made it owns its
 * fields, if he said who he is. */
int apply_create(struct write *write, const struct json *root);
/* An object changes: so does who owns its fields. */
int apply_update(struct write *write, const struct json *old, struct json *root);
