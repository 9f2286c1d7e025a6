#include "control/core/action.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

void action_create(struct actions *actions, const struct kind *kind, struct json *body)
{
    const struct json *meta = json_get(body, "metadata");

    VEC_PUSH(actions->arena, &actions->list,
             (struct action){.type = ACTION_CREATE,
                             .kind = kind,
                             .ns = json_str(json_get(meta, "namespace")),
                             .name = json_str(json_get(meta, "name")),
                             .body = body});
}

/* An action outlives the reconcile that made it, and with it the cache's hold on the object. */
static struct action on(struct actions *actions, enum action_type type, const struct object *object)
{
    return (struct action){.type = type,
                           .kind = object->kind,
                           .ns = str_dup(actions->arena, object->ns),
                           .name = str_dup(actions->arena, object->name),
                           .uid = str_dup(actions->arena, object->uid)};
}

void action_create_ssh_keys(struct actions *actions, struct json *body)
{
    action_create(actions, &kind_secret, body);
    actions->list.items[actions->list.count - 1].ssh_keys = true;
}

void action_create_secret(struct actions *actions, struct json *body, struct str key)
{
    action_create(actions, &kind_secret, body);
    actions->list.items[actions->list.count - 1].draw = key;
}

void action_patch(struct actions *actions, const struct object *object, struct json *patch)
{
    struct action action = on(actions, ACTION_PATCH, object);

    action.body = patch;
    VEC_PUSH(actions->arena, &actions->list, action);
}

void action_patch_status(struct actions *actions, const struct object *object, struct json *patch)
{
    struct action action = on(actions, ACTION_PATCH_STATUS, object);

    action.body = patch;
    VEC_PUSH(actions->arena, &actions->list, action);
}

static void delete_with(struct actions *actions, const struct object *object, int64_t grace_seconds)
{
    struct action action = on(actions, ACTION_DELETE, object);

    action.grace_seconds = grace_seconds;
    VEC_PUSH(actions->arena, &actions->list, action);
}

void action_delete(struct actions *actions, const struct object *object)
{
    delete_with(actions, object, -1);
}

void action_delete_now(struct actions *actions, const struct object *object)
{
    delete_with(actions, object, 0);
}

void action_delete_soon(struct actions *actions, const struct object *object)
{
    delete_with(actions, object, 1);
}

void action_delete_foreground(struct actions *actions, const struct object *object)
{
    struct action action = on(actions, ACTION_DELETE, object);

    action.grace_seconds = -1;
    action.foreground = true;
    VEC_PUSH(actions->arena, &actions->list, action);
}

static void event(struct actions *actions,
                  const struct object *subject,
                  const char *reason,
                  struct str message,
                  bool warning)
{
    struct action action = on(actions, ACTION_EVENT, subject);

    action.reason = str_from(reason);
    action.message = str_dup(actions->arena, message);
    action.warning = warning;
    VEC_PUSH(actions->arena, &actions->list, action);
}

void action_event(struct actions *actions,
                  const struct object *subject,
                  const char *reason,
                  struct str message)
{
    event(actions, subject, reason, message, false);
}

void action_warn(struct actions *actions,
                 const struct object *subject,
                 const char *reason,
                 struct str message)
{
    event(actions, subject, reason, message, true);
}

void action_post(struct actions *actions, struct str ns, struct str url, struct json *body)
{
    VEC_PUSH(actions->arena, &actions->list,
             (struct action){.type = ACTION_POST,
                             .ns = str_dup(actions->arena, ns),
                             .name = str_dup(actions->arena, url),
                             .body = body});
}

void action_look_again(struct actions *actions, int64_t at_ms)
{
    VEC_PUSH(actions->arena, &actions->list,
             (struct action){.type = ACTION_LOOK_AGAIN, .at_ms = at_ms});
}

void action_watch(struct actions *actions, const struct kind *kind)
{
    VEC_PUSH(actions->arena, &actions->list, (struct action){.type = ACTION_WATCH, .kind = kind});
}

void action_learn(struct actions *actions, struct str api_version, struct str kind)
{
    VEC_PUSH(actions->arena, &actions->list,
             (struct action){.type = ACTION_LEARN,
                             .api_version = str_dup(actions->arena, api_version),
                             .name = str_dup(actions->arena, kind)});
}
