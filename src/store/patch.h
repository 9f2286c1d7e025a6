#pragma once

#include "api/api.h"

struct write;

/* patch: the four kinds of patches become writes. */
int write_patch(struct write *write, const struct api_request *request);
