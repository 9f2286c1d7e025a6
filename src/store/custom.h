#pragma once

#include "base/str.h"

struct entry;
struct kind;
struct object;
struct shelf;
struct store;

/* custom: CustomResourceDefinitions become kinds. */

/* The object is committed: its kinds are served from now on. */
void custom_register(struct store *store, const struct object *crd);
void custom_unregister(struct store *store, const struct object *crd);
/* Create or bring up to date what deploy/crds had when this program was built. */
void custom_apply_builtin(struct store *store);
/* The instances of a CRD that is being deleted go first. */
void custom_empty(struct store *store, const struct entry *entry);
/* The version of a stored text, which may be older than what is stored today. */
const struct kind *custom_version(const struct store *store,
                                  const struct shelf *shelf,
                                  struct str raw);
void custom_done(struct store *store);
