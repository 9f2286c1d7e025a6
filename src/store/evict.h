#pragma once

#include "api/api.h"

struct write;

/* evict: a delete that asks the budgets first. */
int evict_pod(struct write *write, const struct api_request *request);
