#include "agent/token.h"

#include "agent/core.h"
#include "agent/pod.h"
#include "api/account_volume.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "http/jwt.h"
#include "shim/record.h"
#include "tool/log.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Bound to the pod, so it is of no use once the pod is gone; it is not renewed while it runs. */
#define TOKEN_LIFE_MS ((int64_t)365 * 24 * 3600 * 1000)
#define TOKEN_ASKED_S ((int64_t)24 * 3600) /* of another API server, which may give less */

static struct str account_name(const struct pod *pod)
{
    struct str name = json_str_at(pod->root, "spec.serviceAccountName");
    return name.len ? name : STR("default");
}

static const struct object *account_of(const struct pod *pod)
{
    return cache_get(pod->agent->cache, &kind_serviceaccount, pod->ns, account_name(pod));
}

/* ---- tokens of another API server ---- */

/* What serviceaccounts/token takes and answers. */
static const struct kind kind_tokenrequest = {.group = "",
                                              .version = "v1",
                                              .name = "TokenRequest",
                                              .plural = "serviceaccounts",
                                              .namespaced = true};

struct asking {
    struct agent *agent;
    struct arena arena;
    struct str uid; /* of the pod, which may be gone when the answer comes */
    struct str audience;
};

static void on_token(void *user, const struct api_result *result)
{
    struct asking *asking = user;
    struct pod *pod = map_get(&asking->agent->pods, asking->uid);
    _cleanup_(arena_done) struct arena arena = {0};
    if (pod) {
        pod->token_under_way = false;
        if (result->code == 0 && result->object) {
            const struct json *root = object_json(result->object, &arena);
            VEC_PUSH(&pod->arena, &pod->tokens,
                     (struct pod_token){str_dup(&pod->arena, asking->audience),
                                        str_dup(&pod->arena, json_str_at(root, "status.token"))});
            pod->retry_ms = 0;
            pod_mark(pod);
        } else if (result->err) {
            log_warn(asking->agent->log, "token.refused", LOG_STR("pod", pod->name),
                     LOG_ERR(result->err));
        }
    }
    arena_done(&asking->arena);
    mem_free(asking);
}

/* Kept for the pod's life: the server makes it last an hour at least, and what it is bound to is
 * the pod. One at a time is asked for: the pod is not started before it has all. */
static bool token_ask(struct pod *pod,
                      const struct object *account,
                      struct str audience,
                      struct buf *ret)
{
    for (size_t i = 0; i < pod->tokens.count; i++)
        if (str_eq(pod->tokens.items[i].audience, audience)) {
            buf_add(ret, pod->tokens.items[i].token);
            return true;
        }
    if (pod->token_under_way)
        return false;
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *body =
        json_make(&arena, "{apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest'}");
    struct json *spec = json_add_object(&arena, body, "spec");
    json_add_i64(&arena, spec, "expirationSeconds", TOKEN_ASKED_S);
    if (audience.len)
        json_push(json_add_array(&arena, spec, "audiences"), json_new_str(&arena, audience));
    json_fill(&arena, spec, "{boundObjectRef: {apiVersion: 'v1', kind: 'Pod', name: $, uid: $}}",
              pod->name, pod->uid);
    struct api_request request = {.verb = API_CREATE,
                                  .kind = &kind_tokenrequest,
                                  .ns = pod->ns,
                                  .name = account->name,
                                  .subresource = STR("token"),
                                  .body = json_text(&arena, body)};
    struct asking *asking = MEM_NEW(struct asking);
    asking->agent = pod->agent;
    asking->uid = str_dup(&asking->arena, pod->uid);
    asking->audience = str_dup(&asking->arena, audience);
    pod->token_under_way = true;
    agent_call(pod->agent, &request, on_token, asking);
    return false;
}

int token_sign(struct pod *pod, struct str audience, struct buf *ret, struct err *err)
{
    const struct object *account = account_of(pod);
    if (!account)
        return err_set(err, -EAGAIN,
                       "serviceaccount \"" STR_FMT "\" not found; the pod starts when it is there",
                       STR_ARG(account_name(pod)));
    if (pod->agent->options.token_requests)
        return token_ask(pod, account, audience, ret)
                   ? 0
                   : err_set(err, -EAGAIN, "the token of its serviceaccount does not exist yet");
    int64_t now_ms = agent_now_ms();
    jwt_sign(ret, pod->agent->options.token_key,
             &(struct jwt){.ns = pod->ns,
                           .account = account->name,
                           .account_uid = account->uid,
                           .audience = audience,
                           .pod = pod->name,
                           .pod_uid = pod->uid,
                           .issued_ms = now_ms,
                           .expires_ms = now_ms + TOKEN_LIFE_MS});
    return 0;
}

void token_add_old(const struct pod *pod, struct buf *records)
{
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof(folder), "%s/serviceaccount", pod->folder);
    if (access(folder, F_OK) == 0)
        record_mount(records, &(struct record_mount){.type = "bind",
                                                     .source = str_from(folder),
                                                     .target = STR(ACCOUNT_MOUNT_PATH),
                                                     .options = STR("ro")});
}
