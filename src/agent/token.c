#include "agent/token.h"

#include "agent/core.h"
#include "agent/machine.h"
#include "agent/pod.h"
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
#include "tool/files.h"
#include "tool/log.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Bound to the pod, so it is of no use once the pod is gone; it is not renewed while it runs. */
#define TOKEN_FOLDER  "serviceaccount" /* of the data folder */
#define TOKEN_LIFE_MS ((int64_t)365 * 24 * 3600 * 1000)
#define TOKEN_ASKED_S ((int64_t)24 * 3600) /* of another API server, which may give less */

static const struct object *account_of(const struct pod *pod)
{
    struct str name = json_str_at(pod->root, "spec.serviceAccountName");
    return cache_get(pod->agent->cache, &kind_serviceaccount, pod->ns,
                     name.len ? name : STR("default"));
}

static bool token_is_wanted(const struct pod *pod, const struct object *account)
{
    const struct json *own = json_at(pod->root, "spec.automountServiceAccountToken");
    if (own)
        return json_bool_or(own, true);
    _cleanup_(arena_done) struct arena arena = {0};
    return json_bool_or(json_get(object_json(account, &arena), "automountServiceAccountToken"),
                        true);
}

void token_start(const struct agent *agent)
{
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof(folder), "%s/" TOKEN_FOLDER, agent->options.data_dir);
    files_remove(folder); /* the certificate may be another one now */
    (void)files_make_folder(folder, 0700, NULL);
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

bool token_sign(struct pod *pod, struct str audience, struct buf *ret)
{
    const struct object *account = account_of(pod);
    if (account && pod->agent->options.token_requests)
        return token_ask(pod, account, audience, ret);
    if (!account || !pod->agent->options.token_key.len)
        return false;
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
    return true;
}

static int token_put(struct pod *pod, const char *path, struct str content, struct err *err)
{
    const struct machine *machine = &pod->agent->machine;
    int r = files_write(path, content, 0644, err);
    if (r == 0 && machine->root && chown(path, machine->uid, machine->gid) < 0)
        return err_set(err, -errno, "cannot give %s to the pod's user", path);
    return r;
}

/* What many pods have the same is one file with many names: `key` is its own. The pods see it
 * read-only. */
static int token_put_shared(struct pod *pod,
                            const char *path,
                            struct str key,
                            struct str content,
                            struct err *err)
{
    char shared[PATH_MAX];
    (void)snprintf(shared, sizeof(shared), "%s/" TOKEN_FOLDER "/" STR_FMT,
                   pod->agent->options.data_dir, STR_ARG(key));
    if (link(shared, path) == 0 || errno == EEXIST)
        return 0;
    if (errno != ENOENT || token_put(pod, shared, content, NULL) || link(shared, path) < 0)
        return token_put(pod, path, content, err); /* too many names, or no such thing here */
    return 0;
}

int token_add(struct pod *pod, struct buf *records, struct err *err)
{
    const struct object *account = account_of(pod);
    char folder[PATH_MAX], path[PATH_MAX], key[300];
    _cleanup_(buf_done) struct buf token = {0};
    /* Another API server's admission has given the pod a volume for it. */
    if (pod->agent->options.token_requests)
        return 0;
    if (!account || !token_is_wanted(pod, account) || !token_sign(pod, STR_NONE, &token))
        return 0;
    (void)snprintf(folder, sizeof(folder), "%s/serviceaccount", pod->folder);
    (void)snprintf(key, sizeof(key), "ns-" STR_FMT, STR_ARG(pod->ns));
    int r = files_make_folder(folder, 0755, err);
    (void)snprintf(path, sizeof(path), "%s/serviceaccount/token", pod->folder);
    r = r ? r : token_put(pod, path, buf_str(&token), err);
    (void)snprintf(path, sizeof(path), "%s/serviceaccount/ca.crt", pod->folder);
    r = r ? r : token_put_shared(pod, path, STR("ca.crt"), pod->agent->options.ca, err);
    (void)snprintf(path, sizeof(path), "%s/serviceaccount/namespace", pod->folder);
    r = r ? r : token_put_shared(pod, path, str_from(key), pod->ns, err);
    if (r == 0)
        record_mount(records, &(struct record_mount){.type = "bind",
                                                     .source = str_from(folder),
                                                     .target = STR(TOKEN_PATH),
                                                     .options = STR("ro")});
    return r;
}
