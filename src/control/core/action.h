#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdint.h>

struct arena;
struct json;
struct kind;
struct object;

/* action: what a controller wants done. Controllers return lists of these; src/exec applies them
 * through struct api, in order, each after the one before it succeeded (or beside it, where it says
 * so: one commit of the store instead of two). A failure ends the list and
 * the key is looked at again, so every list must be safe to repeat from the start: names are
 * deterministic, creates tolerate "already exists", deletes carry the uid. */
enum action_type {
    ACTION_CREATE,       /* body: the object. "Already exists" counts as done. */
    ACTION_PATCH,        /* body: a JSON merge patch of kind/ns/name */
    ACTION_PATCH_STATUS, /* body: a JSON merge patch, {"status": {...}} */
    ACTION_DELETE,       /* kind/ns/name/uid; "not found" counts as done */
    ACTION_EVENT,        /* an Event about kind/ns/name/uid; see action_event() */
    ACTION_LOOK_AGAIN,   /* reconcile this key again at at_ms, without waiting for a change */
    ACTION_POST,         /* body goes to a person's address (name), as JSON (exec/notify.h) */
    ACTION_WATCH,        /* watch this kind from now on, and look again when it is known */
    ACTION_LEARN,        /* find out how kind `name` of `api_version` is served, and look again */
};

struct action {
    enum action_type type;
    const struct kind *kind;
    struct str ns;
    struct str name;
    struct str api_version; /* learn */
    struct str uid;         /* delete: precondition; patch: precondition when set; event: subject */
    uint64_t revision;     /* patch: 409 unless the object still has this resourceVersion; 0: any */
    struct json *body;     /* create, patch, patch status */
    int64_t grace_seconds; /* delete: -1 the object's own, 0 at once (force) */
    bool ssh_keys;         /* create: a Secret that gets a fresh key pair (keys/ssh_keys.h) */
    struct str draw;       /* create: a Secret that gets a random value under this key */
    bool foreground;       /* delete: it stays until what it owns is gone */
    int64_t at_ms;         /* look again */
    struct str reason;     /* event: CamelCase */
    struct str message;    /* event: a sentence */
    bool warning;          /* event: Warning rather than Normal */
    bool beside;           /* does not need the action before it: sent together with it */
    bool lossy;            /* the others do not need it: when it fails, they go on */
};

/* All memory behind the list comes from `arena`. */
struct actions {
    struct arena *arena;
    VEC(struct action) list;
};

void action_create(struct actions *actions, const struct kind *kind, struct json *body);
/* A Secret that gets a fresh ssh key pair: ssh-privatekey and ssh-publickey. */
void action_create_ssh_keys(struct actions *actions, struct json *body);
/* A Secret that gets LAUNCH_SECRET_BYTES random bytes, in hexadecimal digits, under `key`. */
void action_create_secret(struct actions *actions, struct json *body, struct str key);
void action_patch(struct actions *actions, const struct object *object, struct json *patch);
void action_patch_status(struct actions *actions, const struct object *object, struct json *patch);
void action_delete(struct actions *actions, const struct object *object);
void action_delete_now(struct actions *actions, const struct object *object);
/* What hangs does not use the time it is given to end: it has a second. */
void action_delete_soon(struct actions *actions, const struct object *object);
/* The object stays, with a deletionTimestamp, until everything that it owns is gone. */
void action_delete_foreground(struct actions *actions, const struct object *object);
/* Of what was done: told once the action before it in the list is, and not when it was refused. */
void action_event(struct actions *actions,
                  const struct object *subject,
                  const char *reason,
                  struct str message);
/* Of what is wrong: told at once. */
void action_warn(struct actions *actions,
                 const struct object *subject,
                 const char *reason,
                 struct str message);
void action_post(struct actions *actions, struct str ns, struct str url, struct json *body);
void action_look_again(struct actions *actions, int64_t at_ms);
void action_watch(struct actions *actions, const struct kind *kind);
/* A kind of others that the registry does not have. */
void action_learn(struct actions *actions, struct str api_version, struct str kind);
