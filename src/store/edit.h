#pragma once

#include "base/str.h"

struct entry;
struct json;
struct store;

/* edit: ordinary writes made by the store itself; nobody waits for them. */
void collect_delete(struct store *store, const struct entry *entry, struct str propagation);
void collect_edit(struct store *store,
                  const struct entry *entry,
                  void (*edit)(struct json *root, const void *what),
                  const void *what);
void collect_edit_status(struct store *store,
                         const struct entry *entry,
                         void (*edit)(struct json *root, const void *what),
                         const void *what);
