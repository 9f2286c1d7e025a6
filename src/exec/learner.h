#pragma once

#include "base/str.h"

#include <stdbool.h>

struct api;
struct log;

/* learner: asks the API server how kinds of others are served, once for all who want to know.
 *
 * Somebody's kind is known to a controller by its apiVersion and name only, from an owner reference;
 * to watch it takes its plural and whether it has namespaces. Who wants to know is a key: it is told
 * once, whether the kind is in the registry now or the server has none of that name. */
struct learner;

struct learner_key {
    void *unit;
    struct str ns;
    struct str name;
};

struct learner_options {
    struct api *api;
    const struct log *log;
    void (*told)(void *user, const struct learner_key *key, bool found);
    void *user;
};

struct learner *learner_new(const struct learner_options *options);
/* Nobody is told any more. */
void learner_free(struct learner *learner);
/* The strings are copied. Not answered from inside; where there is nobody to ask, not at all. */
void learner_ask(struct learner *learner,
                 struct str api_version,
                 struct str kind,
                 const struct learner_key *key);
