#pragma once

#include "api/api.h"

struct reply;
struct store;

/* read: answers from the committed state. */
void read_get(struct store *store, struct reply *reply, const struct api_request *request);
void read_list(struct store *store, struct reply *reply, const struct api_request *request);
/* The same without queueing the reply. */
int read_items(struct store *store, struct reply *reply, const struct api_request *request);
