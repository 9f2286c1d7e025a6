#pragma once

#include "api/api.h"

struct reply;
struct store;
struct write;

/* scale: the scale subresource. */
int scale_get(struct store *store, struct reply *reply, const struct api_request *request);
int scale_write(struct write *write, const struct api_request *request);
