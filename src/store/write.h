#pragma once

#include "api/api.h"
#include "api/schema.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>

struct arena;
struct entry;
struct err;
struct kind;
struct object;
struct reply;
struct shelf;
struct store;

/* write: from a body to a staged object. */

/* One write in progress. */
struct write {
    struct store *store;
    struct reply *reply;
    struct arena *arena; /* the reply's */
    const struct kind *kind;
    struct shelf *shelf;
    struct str ns;
    struct str name;
    struct str subresource;
    struct str owned_part; /* the subresource that managedFields name: also "scale" */
    bool dry_run;
    bool strict_fields;
    bool patched; /* the object is what a patch made of another */
    bool merged;  /* by a strategic merge, which goes into a type */
    struct str field_manager;
    struct entry *entry;
    const struct object *old;      /* newest state; NULL: not there */
    struct json_doubles doubles;   /* of the body */
    struct schema_unknown unknown; /* of what the server says instead of its writer */
    bool unversioned;              /* an update that has to say its resourceVersion, and does not */
    struct json *managed;          /* managedFields that an apply made; NULL: keep track */
    const struct api_guard *guard;
    const struct api_user *user;
    const struct api_review *review;
    struct api_conversion *conversion;
};
/* Each returns 0 with the reply's result set and its change staged, or negative with the failure in
 * the reply. `reply` belongs to the batch in the first case, to the caller in the second. */
/* An update whose object says no name: the refusal. */
int write_nameless(struct write *write);
/* What is posted below an object (a Binding, an Eviction) is of this kind, and of the object. */
int write_check_post(struct write *write,
                     const struct json *root,
                     const char *kind,
                     const char *version);
int write_create(struct write *write, const struct api_request *request);
int write_update(struct write *write, const struct api_request *request);
/* Replace the old object by `root`: keeps what writes may not change, admits, stages. */
int write_replace(struct write *write, struct json *root);
/* Of a kind whose updates say which state they have seen, and does not say it. */
bool write_is_unversioned(const struct write *write, const struct json *root);
/* Store `root` as a new object. */
int write_new(struct write *write, struct json *root);
/* Five letters or digits that cannot form a word, for a name. */
struct str write_suffix(struct write *write);
/* The object as it is, in the version the client speaks. */
struct json *write_tree(struct write *write);
int write_stage(struct write *write, enum api_event event, struct json *root);
/* ValidatingAdmissionPolicies: 0, or the refusal in the reply; see policy_run(). */
int write_policies(struct write *write,
                   const char *operation,
                   const struct json *object,
                   const struct json *old);
/* The same of those who have a say in it. */
int write_review(struct write *write, const struct json *old, const struct json *object);
int write_open(struct write *write,
               struct store *store,
               struct reply *reply,
               const struct api_request *request);
/* The body as JSON. */
int write_parse(struct write *write, struct str body, bool whole, struct json **ret);
/* apiVersion and kind are those of the URL, or absent. */
int write_check_type(struct write *write, struct json *root);
int write_too_large(struct write *write, const struct err *err);
/* An object that waits only for its finalizers: true when it may go. */
bool delete_is_due(const struct json *root);
