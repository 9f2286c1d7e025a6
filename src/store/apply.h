#pragma once

#include "api/api.h"

struct json;
struct schema_unknown;
struct write;

/* apply: server-side apply. */
int apply_write(struct write *write, const struct api_request *request, struct json *config);
/* Fields that there are not, in the words that clients look for. */
int apply_refuse(struct write *write, const struct schema_unknown *unknown);
