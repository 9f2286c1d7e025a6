#pragma once

#include "api/api.h"

struct json;
struct write;

/* apply: server-side apply. */
int apply_write(struct write *write, const struct api_request *request, struct json *config);
