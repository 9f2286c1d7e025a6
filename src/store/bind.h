#pragma once

#include "api/api.h"

#include <stddef.h>

struct write;

/* bind: pods to nodes, one or a whole gang. */
void store_bind(struct api *api,
                const struct api_binding *bindings,
                size_t count,
                api_done_fn *done,
                void *user);
int bind_pod(struct write *write, const struct api_request *request);
