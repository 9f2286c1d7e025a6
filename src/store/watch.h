#pragma once

#include "api/api.h"

struct shelf;
struct store;

/* watch: who is told of changes. */
struct api_watch *store_watch(struct api *api,
                              const struct api_watch_request *request,
                              api_watch_fn *fn,
                              void *user);
void store_watch_stop(struct api *api, struct api_watch *watch);
void watches_tell(struct store *store);
void watches_free(struct store *store);
/* The kind is gone: its watches end. */
void watches_refuse(struct store *store, const struct shelf *shelf);
